/*
 * The architecture description: everything that one forward pass needs to run any decoder, as data. An architecture
 * file (arch/<family>.c) fills it from the configuration and maps tensor names; nothing else knows a family's name.
 */
#ifndef HSC_MODEL_DESC_H
#define HSC_MODEL_DESC_H

#include "nn/rows.h"

enum { HSC__MAX_D_HEAD = 1024 }; /* wider heads are refused; it bounds buffers on the stack */

typedef enum { HSC__POS_NONE, HSC__POS_LEARNED, HSC__POS_ROTARY } hsc__pos_kind;

typedef struct hsc__norm {
    const float *gain, *bias; /* [d_model]; bias may be NULL */
} hsc__norm;

/* Rotary embedding (Su et al. 2021): angle of pair i at position p is p * inv_freq[i], as hsc__nn_angles makes it. */
typedef struct hsc__rope {
    int half;              /* pairs that are rotated; 0: none */
    const float *inv_freq; /* [half] */
    bool interleaved;      /* pairs (2i, 2i+1), else (i, i + half) */
} hsc__rope;

/* One block. What may differ from layer to layer stands here and not in hsc__desc. */
typedef struct hsc__layer {
    hsc__norm ln1, ln2;
    hsc__weight w_q, w_k, w_v, w_o;
    hsc__weight w_in, w_up, w_out; /* w_up.data is NULL without a gate; with one, w_in makes the gate */
    float attn_scale;              /* of the scores */
    float attn_cap;                /* > 0: soft cap of the scores */
    int window;                    /* > 0: keys a query sees, itself included */
    hsc__rope rope;
} hsc__layer;

typedef struct hsc__desc {
    hsc_config config;
    hsc__nn_norm_kind norm_kind;
    float norm_eps;
    hsc__pos_kind pos_kind;
    hsc__act act;
    bool interleaved_qk; /* rows of w_q and w_k lie as GGUF's llama has them: pair (2i, 2i+1) is the field's (i, i +
                            half) */
    hsc__weight embed, pos_embed, unembed; /* stored [d_vocab][d_model], [n_ctx][d_model], [d_vocab][d_model] */
    hsc__norm ln_final;
    hsc__layer *layers; /* [n_layers] */
} hsc__desc;

#endif
