/* Layers that treat every row alike, over many rows in parallel. A row's bits depend on the row alone. The contexts
 * need no scratch. x and y are dense; y may be x. */
#ifndef HSC_NN_ROWS_H
#define HSC_NN_ROWS_H

#include "tensor/linear.h"

typedef enum { HSC__NN_LAYER_NORM, HSC__NN_RMS_NORM } hsc__nn_norm_kind;

typedef struct hsc__nn_norm {
    hsc__nn_norm_kind kind;
    const float *gain, *bias; /* [n] or NULL */
    float eps;
    int n;
} hsc__nn_norm;

/* x [n_rows][norm->n] -> y. */
void hsc__nn_norm_rows(const hsc__exec *exec, const hsc__nn_norm *norm, const float *x, int n_rows, float *y);

/* y = f(x), or, with up, y = f(x) * up: [n_rows][n]; y may be up. */
void hsc__nn_act_rows(const hsc__exec *exec, hsc__act act, const float *x, const float *up, int n_rows, int n,
                      float *y);

/* y = a + b: [n_rows][n]; y may be a or b. */
void hsc__nn_add_rows(const hsc__exec *exec, const float *a, const float *b, int n_rows, int n, float *y);

/* Each row of x: softmax, [n_rows][n]. */
void hsc__nn_softmax_rows(const hsc__exec *exec, const float *x, int n_rows, int n, float *y);

/* The rotary embedding's frequencies and angles, in position.c. Every step is rounded to float32, as transformers has
 * it: checkpoints were trained with angles that are so far off (p * 2^-23 at position p). */

/* inv_freq[i] = base^(-2i / n_rotated), for i < n_rotated / 2. */
void hsc__nn_frequencies(double base, int n_rotated, float *inv_freq);
/* Cosines and sines [n_pos][half] of positions[p] * inv_freq[i] (positions NULL: p itself). */
void hsc__nn_angles(const float *inv_freq, int half, const int *positions, int n_pos, float *cosine, float *sine);

/* Rows [n_heads][d_head] of x turned in place: row r by the angles whose cosines and sines are row positions[r] of the
 * tables [..][half] (positions NULL: r itself). */
typedef struct hsc__nn_turn {
    const float *cosine, *sine;
    int half;
    bool interleaved;
} hsc__nn_turn;
void hsc__nn_turn_rows(const hsc__exec *exec, const hsc__nn_turn *turn, const int *positions, int n_rows, int n_heads,
                       int d_head, float *x);

/* y [n_rows][n_in]: row r is row indices[r] of a table stored [n_out][n_in] of any type that the kernels read. */
void hsc__nn_table_rows(const hsc__exec *exec, const hsc__weight *table, const int32_t *indices, int n_rows, float *y);

#endif
