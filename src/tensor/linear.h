/* Weights where they are mapped, and products with them. */
#ifndef HSC_TENSOR_LINEAR_H
#define HSC_TENSOR_LINEAR_H

#include "tensor/exec.h"

/* A matrix of a file, of any type that the kernels read. A part of a fused matrix (GPT-2's c_attn) is a weight of its
 * own with the same row_bytes. */
typedef struct hsc__weight {
    hsc_dtype dtype;
    bool transposed; /* stored [n_in][n_out] (Conv1D), else [n_out][n_in] (Linear) */
    int n_out;
    int64_t n_in;
    size_t row_bytes;  /* from one stored row to the next */
    const void *data;  /* borrowed from the mapping; NULL: there is no such weight */
    const float *bias; /* [n_out] or NULL */
    /* > 0: the rows lie in groups of `group`, group_bytes from one to the next (a share of each head in GPT-NeoX's
     * fused matrix). hsc__weight_row and hsc__weight_group know that, a product takes one group at a time. */
    int group;
    size_t group_bytes;
} hsc__weight;

/* Bytes from the first stored row to the end of the last, of a weight without groups. */
static inline size_t hsc__weight_bytes(const hsc__weight *w)
{
    return (size_t)(w->transposed ? w->n_in : w->n_out) * w->row_bytes;
}

/*
 * y[r] = W x[r] + bias, then, when residual is not NULL, y[r] = residual[r] + y[r] (residual may be y).
 * x: [n_rows][n_in], y and residual: [n_rows][n_out], rows a stride apart. x and y must not overlap.
 */
typedef struct hsc__linear {
    const hsc__weight *w;
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    const float *residual;
    size_t residual_stride;
} hsc__linear;

/* Runs products of the same x (such as q, k and v) side by side, in the arithmetic of exec->compute. n_rows <= max_rows
 * of hsc__linear_scratch. */
void hsc__linear_forward(const hsc__exec *exec, const hsc__linear *products, int n_products, int n_rows);

/* Floats of scratch a worker needs for products of at most max_rows rows. */
size_t hsc__linear_scratch(int max_rows);

/* One group as a weight of its own. */
hsc__weight hsc__weight_group(const hsc__weight *whole, int index);

/* Row `index` of a weight stored [n_out][n_in] as float32 (token embedding). */
void hsc__weight_row(const hsc__kernels *kernels, const hsc__weight *w, int64_t index, float *out);

#endif
