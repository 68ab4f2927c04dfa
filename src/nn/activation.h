/* The public activations in the kernels' numbering. */
#ifndef HSC_NN_ACTIVATION_H
#define HSC_NN_ACTIVATION_H

#include "nn/call.h"

/* HSC_EINVAL: no such activation. */
hsc_status hsc__nn_act(hsc_nn_activation activation, hsc__act *out, hsc_error *err);

/* dx[i] += f'(x[i]) dy[i] and, with up, dx[i] += f'(x[i]) up[i] dy[i], dup[i] += f(x[i]) dy[i]; NULL: not wanted. */
void hsc__nn_act_grad(const hsc__exec *exec, hsc__act act, const float *x, const float *up, const float *dy, size_t n,
                      float *dx, float *dup);

#endif
