/* W_out f(W_in x) and the gated W_out (f(W_gate x) * W_in x). kept holds, a row after the other: what W_in gives, what
 * W_gate gives (when there is a gate), and what W_out reads. */
#include "nn/feed_forward.h"

#include "base/alloc.h"
#include "nn/activation.h"
#include "nn/rows.h"

#include <string.h>

typedef struct parts {
    float *pre, *gate, *post; /* [n_rows][d_ff]; gate NULL without one */
} parts;

static parts parts_of(const hsc_nn_feed_forward *ff, size_t n_rows, float *kept)
{
    size_t n = n_rows * (size_t)ff->in.n_out;
    return (parts){kept, ff->gate.w ? kept + n : NULL, kept + (ff->gate.w ? 2 : 1) * n};
}

size_t hsc_nn_feed_forward_kept(const hsc_nn_feed_forward *ff, int n_rows)
{
    return !ff || n_rows <= 0 ? 0 : (size_t)n_rows * (size_t)ff->in.n_out * (ff->gate.w ? 3 : 2);
}

hsc_status hsc__nn_feed_forward_check(const hsc_nn_feed_forward *ff, hsc_error *err)
{
    hsc__act act;
    HSC_TRY(hsc__nn_act(ff->activation, &act, err));
    HSC_TRY(hsc__nn_linear_check(&ff->in, err));
    HSC_TRY(hsc__nn_linear_check(&ff->out, err));
    HSC_FAIL_IF(ff->out.n_in != ff->in.n_out, HSC_EINVAL, "out reads %d values, in gives %d", ff->out.n_in,
                ff->in.n_out);
    if (!ff->gate.w) return HSC_OK;
    HSC_TRY(hsc__nn_linear_check(&ff->gate, err));
    HSC_FAIL_IF(ff->gate.n_in != ff->in.n_in || ff->gate.n_out != ff->in.n_out, HSC_EINVAL,
                "gate is %d to %d, in is %d to %d", ff->gate.n_in, ff->gate.n_out, ff->in.n_in, ff->in.n_out);
    return HSC_OK;
}

static hsc__act act_of(const hsc_nn_feed_forward *ff)
{
    hsc__act act = HSC__ACT_NONE;
    hsc_status checked = hsc__nn_act(ff->activation, &act, NULL);
    (void)checked;
    return act;
}

void hsc__nn_feed_forward_run(const hsc__exec *exec, const hsc_nn_feed_forward *ff, const float *x, int n_rows,
                              float *kept, float *y, const float *residual)
{
    parts p = parts_of(ff, (size_t)n_rows, kept);
    hsc__nn_linear_run(exec, &ff->in, x, n_rows, p.pre, NULL);
    if (p.gate) hsc__nn_linear_run(exec, &ff->gate, x, n_rows, p.gate, NULL);
    hsc__nn_act_rows(exec, act_of(ff), p.gate ? p.gate : p.pre, p.gate ? p.pre : NULL, n_rows, ff->in.n_out, p.post);
    hsc__nn_linear_run(exec, &ff->out, p.post, n_rows, y, residual);
}

static double work_of(const hsc_nn_feed_forward *ff, int n_rows)
{
    return (double)n_rows * ff->in.n_out * ((ff->gate.w ? 2.0 : 1.0) * ff->in.n_in + ff->out.n_out);
}

hsc_status hsc_nn_feed_forward_forward(const hsc_nn_feed_forward *ff, const float *x, int n_rows, float *y, float *kept,
                                       hsc_error *err)
{
    hsc__exec exec = {0};
    float *own = NULL;
    HSC__NEED(ff);
    HSC_TRY(hsc__nn_feed_forward_check(ff, err));
    HSC__SIZE(n_rows, 0);
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    hsc_status status = hsc__nn_exec_init(&exec, work_of(ff, n_rows), n_rows, 0, 0, err);
    if (status == HSC_OK && !kept) status = hsc__nn_floats(&own, hsc_nn_feed_forward_kept(ff, n_rows), err);
    if (status == HSC_OK) hsc__nn_feed_forward_run(&exec, ff, x, n_rows, kept ? kept : own, y, NULL);
    hsc__free_aligned(own);
    hsc__exec_free(&exec);
    return status;
}

hsc_status hsc__nn_feed_forward_grad(const hsc__exec *exec, const hsc_nn_feed_forward *ff, const float *x,
                                     const float *kept, const float *dy, int n_rows, float *dx,
                                     const hsc_nn_feed_forward_grad *grad, hsc_error *err)
{
    static const hsc_nn_feed_forward_grad none = {0};
    size_t n = (size_t)n_rows * (size_t)ff->in.n_out, n_kept = hsc_nn_feed_forward_kept(ff, n_rows);
    parts p = parts_of(ff, (size_t)n_rows, (float *)kept), d;
    float *derivatives;
    if (!grad) grad = &none;
    HSC_TRY(hsc__nn_floats(&derivatives, n_kept, err));
    memset(derivatives, 0, n_kept * sizeof *derivatives);
    d = parts_of(ff, (size_t)n_rows, derivatives);
    hsc_status status = hsc__nn_linear_grad(exec, &ff->out, p.post, dy, n_rows, d.post, &grad->out, err);
    if (p.gate) hsc__nn_act_grad(exec, act_of(ff), p.gate, p.pre, d.post, n, d.gate, d.pre);
    else hsc__nn_act_grad(exec, act_of(ff), p.pre, NULL, d.post, n, d.pre, NULL);
    if (status == HSC_OK) status = hsc__nn_linear_grad(exec, &ff->in, x, d.pre, n_rows, dx, &grad->in, err);
    if (status == HSC_OK && p.gate)
        status = hsc__nn_linear_grad(exec, &ff->gate, x, d.gate, n_rows, dx, &grad->gate, err);
    hsc__free_aligned(derivatives);
    return status;
}

hsc_status hsc_nn_feed_forward_backward(const hsc_nn_feed_forward *ff, const float *x, const float *kept,
                                        const float *dy, int n_rows, float *dx, const hsc_nn_feed_forward_grad *grad,
                                        hsc_error *err)
{
    hsc__exec exec;
    HSC__NEED(ff);
    HSC_TRY(hsc__nn_feed_forward_check(ff, err));
    HSC__SIZE(n_rows, 0);
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(kept);
    HSC__NEED(dy);
    int most = hsc__nn_max(hsc__nn_max(n_rows, ff->in.n_in), hsc__nn_max(ff->in.n_out, ff->out.n_out));
    HSC_TRY(hsc__nn_exec_init(&exec, work_of(ff, n_rows), most, 0, 0, err));
    hsc_status status = hsc__nn_feed_forward_grad(&exec, ff, x, kept, dy, n_rows, dx, grad, err);
    hsc__exec_free(&exec);
    return status;
}
