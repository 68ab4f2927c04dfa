/* The feed-forward network in a context of the caller's. */
#ifndef HSC_NN_FEED_FORWARD_H
#define HSC_NN_FEED_FORWARD_H

#include "nn/call.h"

hsc_status hsc__nn_feed_forward_check(const hsc_nn_feed_forward *ff, hsc_error *err);

/* kept: hsc_nn_feed_forward_kept floats, always. residual (may be y) is added when it is not NULL. */
void hsc__nn_feed_forward_run(const hsc__exec *exec, const hsc_nn_feed_forward *ff, const float *x, int n_rows,
                              float *kept, float *y, const float *residual);
/* The context must hold products of max(n_rows, n_in, n_out) rows of each map. */
hsc_status hsc__nn_feed_forward_grad(const hsc__exec *exec, const hsc_nn_feed_forward *ff, const float *x,
                                     const float *kept, const float *dy, int n_rows, float *dx,
                                     const hsc_nn_feed_forward_grad *grad, hsc_error *err);

#endif
