/* Attention of one head over strided rows, so that heads may lead, [n_heads][n][d], or follow, [n][n_heads][d]. */
#ifndef HSC_NN_ATTENTION_H
#define HSC_NN_ATTENTION_H

#include "nn/call.h"

/* Sizes are in floats, strides from row to row. */
typedef struct hsc__nn_head {
    int n_query, n_key, d_k, d_v;
    float scale;
    const float *q, *k, *v;
    size_t q_stride, k_stride, v_stride;
    const unsigned char *allowed; /* [n_query][n_key] or NULL */
    int causal, window;           /* as hsc_nn_mask */
} hsc__nn_head;

/* What all heads of one call share; made for the sizes and strides of one of them. */
typedef struct hsc__nn_room {
    float *keys;           /* in the tiles that the engine's attention reads */
    float *values;         /* copies of rows that do not lie one after the other */
    float *q, *rows, *out; /* copies of d columns where d_k and d_v differ */
} hsc__nn_room;
hsc_status hsc__nn_room_init(hsc__nn_room *room, const hsc__nn_head *head, hsc_error *err);
void hsc__nn_room_free(hsc__nn_room *room);

/* out [n_query][d_v], rows out_stride apart; weights [n_query][n_key] or NULL. The context must hold attention over
 * n_key keys of max(d_k, d_v). */
void hsc__nn_head_forward(const hsc__exec *exec, hsc__nn_room *room, const hsc__nn_head *head, float *out,
                          size_t out_stride, float *weights);

/* Where the derivatives of one head are added; strides are those of q, k and v. NULL: not wanted. */
typedef struct hsc__nn_head_grad {
    float *dq, *dk, *dv;
} hsc__nn_head_grad;

/* tables [3][n_query][n_key]: scratch. weights: of the forward call. The context must hold products of
 * max(n_query, n_key) rows. */
void hsc__nn_head_backward(const hsc__exec *exec, const hsc__nn_head *head, const float *weights, const float *dout,
                           size_t dout_stride, float *tables, const hsc__nn_head_grad *grad);

/* HSC_EINVAL where a mask does not fit the sizes. mask may be NULL. */
hsc_status hsc__nn_mask_check(const hsc_nn_mask *mask, int n_query, int n_key, hsc_error *err);
/* Puts the part of a mask that is for one head into *head. */
void hsc__nn_mask_apply(const hsc_nn_mask *mask, int n_heads, int batch, int h, hsc__nn_head *head);

#endif
