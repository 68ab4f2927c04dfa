/* Activations and gated units by the engine's kernels, and their derivatives (docs/math/feed_forward.md). */
#include "nn/activation.h"

#include "base/parallel.h"

#include <math.h>

static const hsc__act acts[HSC_NN_N_ACTIVATIONS] = {[HSC_NN_RELU] = HSC__ACT_RELU,
                                                    [HSC_NN_GELU] = HSC__ACT_GELU,
                                                    [HSC_NN_GELU_TANH] = HSC__ACT_GELU_TANH,
                                                    [HSC_NN_SILU] = HSC__ACT_SILU,
                                                    [HSC_NN_TANH] = HSC__ACT_TANH};

static const char *const names[HSC_NN_N_ACTIVATIONS] = {
#define HSC_NN_ACTIVATION_NAME(id, name, formula) [id] = (name),
    HSC_NN_ACTIVATION_LIST(HSC_NN_ACTIVATION_NAME)
#undef HSC_NN_ACTIVATION_NAME
};

const char *hsc_nn_activation_name(hsc_nn_activation activation)
{
    return (unsigned)activation < HSC_NN_N_ACTIVATIONS ? names[activation] : NULL;
}

hsc_status hsc__nn_act(hsc_nn_activation activation, hsc__act *out, hsc_error *err)
{
    HSC_FAIL_IF((unsigned)activation >= HSC_NN_N_ACTIVATIONS, HSC_EINVAL, "activation is %d, of %d", (int)activation,
                HSC_NN_N_ACTIVATIONS);
    *out = acts[activation];
    return HSC_OK;
}

enum { PIECE = 4096 }; /* elements that one task takes */

typedef struct job {
    const hsc__kernels *kernels;
    hsc__act act;
    size_t n;
    const float *x, *up, *dy;
    float *y, *dx, *dup;
} job;

static void run(const hsc__exec *exec, hsc__task_fn task, job j)
{
    j.kernels = exec->kernels;
    hsc__parallel_for(exec->n_threads, (j.n + PIECE - 1) / PIECE, task, &j);
}

static void forward_piece(void *context, size_t task, int worker)
{
    (void)worker;
    const job *j = context;
    size_t from = task * PIECE, n = j->n - from < PIECE ? j->n - from : PIECE;
    if (j->up) j->kernels->gate(j->act, j->x + from, j->up + from, (int64_t)n, j->y + from);
    else j->kernels->act(j->act, j->x + from, (int64_t)n, j->y + from);
}

/* f'(x). Where 1 - tanh^2 is 0 its factor, which may be infinite, no longer counts. */
static float slope(hsc__act act, float x)
{
    const float sqrt_half = 0.70710678f, inv_sqrt_2_pi = 0.39894228f, sqrt_2_over_pi = 0.79788456f;
    switch (act) {
    case HSC__ACT_NONE: return 1;
    case HSC__ACT_RELU: return x > 0 ? 1 : x != x ? x : 0;
    case HSC__ACT_GELU: return 0.5f * (1 + erff(x * sqrt_half)) + x * expf(-0.5f * x * x) * inv_sqrt_2_pi;
    case HSC__ACT_GELU_TANH: {
        float t = tanhf(sqrt_2_over_pi * (x + 0.044715f * x * x * x)), rest = 1 - t * t;
        float inner = sqrt_2_over_pi * (1 + 3 * 0.044715f * x * x);
        return 0.5f * (1 + t) + (rest != 0 ? 0.5f * x * rest * inner : 0);
    }
    case HSC__ACT_SILU: {
        float s = 1 / (1 + expf(-x));
        return s + x * s * (1 - s);
    }
    case HSC__ACT_TANH: {
        float t = tanhf(x);
        return 1 - t * t;
    }
    }
    return 1;
}

static void backward_piece(void *context, size_t task, int worker)
{
    (void)worker;
    const job *j = context;
    size_t from = task * PIECE, to = from + PIECE < j->n ? from + PIECE : j->n;
    for (size_t i = from; i < to && j->dx; i++)
        j->dx[i] += slope(j->act, j->x[i]) * (j->up ? j->up[i] * j->dy[i] : j->dy[i]);
    for (size_t i = from; i < to && j->dup; i++) {
        float f;
        j->kernels->act(j->act, j->x + i, 1, &f);
        j->dup[i] += f * j->dy[i];
    }
}

void hsc__nn_act_grad(const hsc__exec *exec, hsc__act act, const float *x, const float *up, const float *dy, size_t n,
                      float *dx, float *dup)
{
    run(exec, backward_piece, (job){.act = act, .x = x, .up = up, .dy = dy, .n = n, .dx = dx, .dup = dup});
}

hsc_status hsc_nn_activation_forward(hsc_nn_activation activation, const float *x, size_t n, float *y, hsc_error *err)
{
    hsc__act act;
    HSC_TRY(hsc__nn_act(activation, &act, err));
    if (n == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    hsc__exec exec = hsc__nn_light_exec((double)n);
    run(&exec, forward_piece, (job){.act = act, .x = x, .n = n, .y = y});
    return HSC_OK;
}

hsc_status hsc_nn_activation_backward(hsc_nn_activation activation, const float *x, const float *dy, size_t n,
                                      float *dx, hsc_error *err)
{
    hsc__act act;
    HSC_TRY(hsc__nn_act(activation, &act, err));
    if (n == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(dy);
    hsc__exec exec = hsc__nn_light_exec((double)n);
    hsc__nn_act_grad(&exec, act, x, NULL, dy, n, dx, NULL);
    return HSC_OK;
}

hsc_status hsc_nn_gate_forward(hsc_nn_activation activation, const float *gate, const float *up, size_t n, float *y,
                               hsc_error *err)
{
    hsc__act act;
    HSC_TRY(hsc__nn_act(activation, &act, err));
    if (n == 0) return HSC_OK;
    HSC__NEED(gate);
    HSC__NEED(up);
    HSC__NEED(y);
    hsc__exec exec = hsc__nn_light_exec((double)n);
    run(&exec, forward_piece, (job){.act = act, .x = gate, .up = up, .n = n, .y = y});
    return HSC_OK;
}

hsc_status hsc_nn_gate_backward(hsc_nn_activation activation, const float *gate, const float *up, const float *dy,
                                size_t n, float *dgate, float *dup, hsc_error *err)
{
    hsc__act act;
    HSC_TRY(hsc__nn_act(activation, &act, err));
    if (n == 0) return HSC_OK;
    HSC__NEED(gate);
    HSC__NEED(up);
    HSC__NEED(dy);
    hsc__exec exec = hsc__nn_light_exec((double)n);
    hsc__nn_act_grad(&exec, act, gate, up, dy, n, dgate, dup);
    return HSC_OK;
}
