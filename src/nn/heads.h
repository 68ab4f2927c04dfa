/* Multi-head attention in a context of the caller's. */
#ifndef HSC_NN_HEADS_H
#define HSC_NN_HEADS_H

#include "nn/attention.h"

hsc_status hsc__nn_heads_check(const hsc_nn_heads *heads, const hsc_nn_mask *mask, int n_batch, int n, hsc_error *err);

/* kept: hsc_nn_heads_kept floats, always. residual (may be y) is added when it is not NULL. The context must hold
 * products of n_batch * n rows and attention over n keys of hsc__nn_heads_width. */
hsc_status hsc__nn_heads_run(const hsc__exec *exec, const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x,
                             int n_batch, int n, float *kept, float *y, const float *residual, float *weights,
                             hsc_error *err);
/* The context must hold products of hsc__nn_heads_rows rows besides. */
hsc_status hsc__nn_heads_grad(const hsc__exec *exec, const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x,
                              const float *kept, const float *dy, int n_batch, int n, float *dx,
                              const hsc_nn_heads_grad *grad, hsc_error *err);

/* The wider of d_k and d_v. */
int hsc__nn_heads_width(const hsc_nn_heads *heads);
/* The most rows that a product of the backward pass has. */
int hsc__nn_heads_rows(const hsc_nn_heads *heads, int n_batch, int n);
/* Multiply-adds of a forward pass. */
double hsc__nn_heads_work(const hsc_nn_heads *heads, int n_batch, int n);

#endif
