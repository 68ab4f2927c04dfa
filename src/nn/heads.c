/*
 * Multi-head self-attention: three products, attention a head at a time, one more product. Rows stay [n_heads][d] from
 * one end to the other: a head is a stride, never a copy. kept holds q, k, v and z (what W_O reads), in this order.
 */
#include "nn/heads.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

typedef struct sizes {
    int n_heads, d_k, d_v; /* of one head */
    size_t qk, vz;         /* floats of a row of q or k, and of v or z */
} sizes;

static sizes sizes_of(const hsc_nn_heads *heads)
{
    int n_heads = heads->n_heads ? heads->n_heads : 1;
    return (sizes){n_heads, heads->q.n_out / n_heads, heads->v.n_out / n_heads, (size_t)heads->q.n_out,
                   (size_t)heads->v.n_out};
}

/* The parts of `kept` (or of its derivative) for n_rows rows. */
typedef struct parts {
    float *q, *k, *v, *z;
} parts;

static parts parts_of(const sizes *s, size_t n_rows, float *kept)
{
    float *k = kept + n_rows * s->qk, *v = k + n_rows * s->qk, *z = v + n_rows * s->vz;
    return (parts){kept, k, v, z};
}

size_t hsc_nn_heads_kept(const hsc_nn_heads *heads, int n_batch, int n)
{
    if (!heads || n_batch <= 0 || n <= 0 || n_batch > HSC__NN_MOST / n) return 0;
    sizes s = sizes_of(heads);
    return (size_t)n_batch * (size_t)n * 2 * (s.qk + s.vz);
}

int hsc__nn_heads_width(const hsc_nn_heads *heads)
{
    sizes s = sizes_of(heads);
    return hsc__nn_max(s.d_k, s.d_v);
}

int hsc__nn_heads_rows(const hsc_nn_heads *heads, int n_batch, int n)
{
    int most = hsc__nn_max(n_batch * n, hsc__nn_max(heads->q.n_in, heads->q.n_out));
    return hsc__nn_max(most, hsc__nn_max(heads->v.n_out, heads->o.w ? heads->o.n_out : 0));
}

double hsc__nn_heads_work(const hsc_nn_heads *heads, int n_batch, int n)
{
    double rows = (double)n_batch * n, outs = 2.0 * heads->q.n_out + heads->v.n_out;
    double maps = rows * heads->q.n_in * outs + (heads->o.w ? rows * heads->o.n_in * heads->o.n_out : 0);
    return maps + rows * n * (heads->q.n_out + heads->v.n_out);
}

hsc_status hsc__nn_heads_check(const hsc_nn_heads *heads, const hsc_nn_mask *mask, int n_batch, int n, hsc_error *err)
{
    HSC__SIZE(heads->n_heads, 0);
    HSC__SIZE(n_batch, 0);
    HSC__SIZE(n, 0);
    HSC_TRY(hsc__nn_linear_check(&heads->q, err));
    HSC_TRY(hsc__nn_linear_check(&heads->k, err));
    HSC_TRY(hsc__nn_linear_check(&heads->v, err));
    int n_heads = heads->n_heads ? heads->n_heads : 1, d_model = heads->q.n_in;
    HSC_FAIL_IF(heads->k.n_in != d_model || heads->v.n_in != d_model, HSC_EINVAL,
                "q, k and v read %d, %d and %d values of the same row", d_model, heads->k.n_in, heads->v.n_in);
    HSC_FAIL_IF(heads->q.n_out != heads->k.n_out, HSC_EINVAL, "q has %d outputs and k %d", heads->q.n_out,
                heads->k.n_out);
    HSC_FAIL_IF(heads->q.n_out % n_heads || heads->v.n_out % n_heads, HSC_EINVAL,
                "%d and %d outputs cannot be cut into %d heads", heads->q.n_out, heads->v.n_out, n_heads);
    HSC_FAIL_IF(n && n_batch > HSC__NN_MOST / n, HSC_EINVAL, "%d batches of %d rows are too many", n_batch, n);
    HSC_TRY(hsc__nn_mask_check(mask, n, n, err));
    if (!heads->o.w) return HSC_OK;
    HSC_TRY(hsc__nn_linear_check(&heads->o, err));
    HSC_FAIL_IF(heads->o.n_in != heads->v.n_out, HSC_EINVAL, "o reads %d values, the heads give %d", heads->o.n_in,
                heads->v.n_out);
    return HSC_OK;
}

/* Head h of batch b. */
static hsc__nn_head head_of(const sizes *s, const hsc_nn_mask *mask, const parts *p, int b, int h, int n)
{
    size_t row = (size_t)b * (size_t)n;
    hsc__nn_head head = {.n_query = n,
                         .n_key = n,
                         .d_k = s->d_k,
                         .d_v = s->d_v,
                         .scale = 1 / sqrtf((float)s->d_k),
                         .q = p->q + row * s->qk + (size_t)h * (size_t)s->d_k,
                         .k = p->k + row * s->qk + (size_t)h * (size_t)s->d_k,
                         .v = p->v + row * s->vz + (size_t)h * (size_t)s->d_v,
                         .q_stride = s->qk,
                         .k_stride = s->qk,
                         .v_stride = s->vz};
    hsc__nn_mask_apply(mask, s->n_heads, b, h, &head);
    return head;
}

static float *head_rows(const sizes *s, float *z, int b, int h, int n)
{
    return z + (size_t)b * (size_t)n * s->vz + (size_t)h * (size_t)s->d_v;
}

static hsc_status attend(const hsc__exec *exec, const sizes *s, const hsc_nn_mask *mask, const parts *p, int n_batch,
                         int n, float *weights, hsc_error *err)
{
    hsc__nn_room room;
    hsc__nn_head any = head_of(s, NULL, p, 0, 0, n);
    HSC_TRY(hsc__nn_room_init(&room, &any, err));
    for (int b = 0; b < n_batch; b++) {
        for (int h = 0; h < s->n_heads; h++) {
            size_t index = (size_t)b * (size_t)s->n_heads + (size_t)h;
            hsc__nn_head head = head_of(s, mask, p, b, h, n);
            hsc__nn_head_forward(exec, &room, &head, head_rows(s, p->z, b, h, n), s->vz,
                                 weights ? weights + index * (size_t)n * (size_t)n : NULL);
        }
    }
    hsc__nn_room_free(&room);
    return HSC_OK;
}

hsc_status hsc__nn_heads_run(const hsc__exec *exec, const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x,
                             int n_batch, int n, float *kept, float *y, const float *residual, float *weights,
                             hsc_error *err)
{
    sizes s = sizes_of(heads);
    int n_rows = n_batch * n;
    parts p = parts_of(&s, (size_t)n_rows, kept);
    hsc__nn_linear_run(exec, &heads->q, x, n_rows, p.q, NULL);
    hsc__nn_linear_run(exec, &heads->k, x, n_rows, p.k, NULL);
    hsc__nn_linear_run(exec, &heads->v, x, n_rows, p.v, NULL);
    HSC_TRY(attend(exec, &s, mask, &p, n_batch, n, weights, err));
    if (heads->o.w) hsc__nn_linear_run(exec, &heads->o, p.z, n_rows, y, residual);
    else memcpy(y, p.z, (size_t)n_rows * s.vz * sizeof *y);
    return HSC_OK;
}

hsc_status hsc_nn_heads_forward(const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x, int n_batch, int n,
                                float *y, float *weights, float *kept, hsc_error *err)
{
    hsc__exec exec = {0};
    float *own = NULL;
    HSC__NEED(heads);
    HSC_TRY(hsc__nn_heads_check(heads, mask, n_batch, n, err));
    if (n_batch == 0 || n == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    hsc_status status = hsc__nn_exec_init(&exec, hsc__nn_heads_work(heads, n_batch, n), n_batch * n, n,
                                          hsc__nn_heads_width(heads), err);
    if (status == HSC_OK && !kept) status = hsc__nn_floats(&own, hsc_nn_heads_kept(heads, n_batch, n), err);
    if (status == HSC_OK)
        status = hsc__nn_heads_run(&exec, heads, mask, x, n_batch, n, kept ? kept : own, y, NULL, weights, err);
    hsc__free_aligned(own);
    hsc__exec_free(&exec);
    return status;
}

/* dq, dk and dv (in d) from dz, head by head; the weights are made again. */
static hsc_status attend_grad(const hsc__exec *exec, const sizes *s, const hsc_nn_mask *mask, const parts *p,
                              const float *dz, int n_batch, int n, const parts *d, hsc_error *err)
{
    hsc__nn_room room;
    float *tables;
    size_t table = (size_t)n * (size_t)n;
    hsc__nn_head any = head_of(s, NULL, p, 0, 0, n);
    HSC_TRY(hsc__nn_floats(&tables, 3 * table + (size_t)n * (size_t)s->d_v, err));
    hsc_status status = hsc__nn_room_init(&room, &any, err);
    for (int i = 0; i < n_batch * s->n_heads && status == HSC_OK; i++) {
        int b = i / s->n_heads, h = i % s->n_heads;
        hsc__nn_head head = head_of(s, mask, p, b, h, n), into = head_of(s, NULL, d, b, h, n);
        hsc__nn_head_grad grad = {(float *)into.q, (float *)into.k, (float *)into.v};
        float *weights = tables + 2 * table, *z = weights + table;
        hsc__nn_head_forward(exec, &room, &head, z, (size_t)s->d_v, weights);
        hsc__nn_head_backward(exec, &head, weights, head_rows(s, (float *)dz, b, h, n), s->vz, tables, &grad);
    }
    hsc__nn_room_free(&room);
    hsc__free_aligned(tables);
    return status;
}

hsc_status hsc__nn_heads_grad(const hsc__exec *exec, const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x,
                              const float *kept, const float *dy, int n_batch, int n, float *dx,
                              const hsc_nn_heads_grad *grad, hsc_error *err)
{
    static const hsc_nn_heads_grad none = {0};
    sizes s = sizes_of(heads);
    int n_rows = n_batch * n;
    size_t n_kept = hsc_nn_heads_kept(heads, n_batch, n);
    parts p = parts_of(&s, (size_t)n_rows, (float *)kept), d;
    float *derivatives;
    if (!grad) grad = &none;
    HSC_TRY(hsc__nn_floats(&derivatives, n_kept, err));
    memset(derivatives, 0, n_kept * sizeof *derivatives);
    d = parts_of(&s, (size_t)n_rows, derivatives);
    hsc_status status = HSC_OK;
    if (heads->o.w) status = hsc__nn_linear_grad(exec, &heads->o, p.z, dy, n_rows, d.z, &grad->o, err);
    if (status == HSC_OK) status = attend_grad(exec, &s, mask, &p, heads->o.w ? d.z : dy, n_batch, n, &d, err);
    if (status == HSC_OK) status = hsc__nn_linear_grad(exec, &heads->q, x, d.q, n_rows, dx, &grad->q, err);
    if (status == HSC_OK) status = hsc__nn_linear_grad(exec, &heads->k, x, d.k, n_rows, dx, &grad->k, err);
    if (status == HSC_OK) status = hsc__nn_linear_grad(exec, &heads->v, x, d.v, n_rows, dx, &grad->v, err);
    hsc__free_aligned(derivatives);
    return status;
}

hsc_status hsc_nn_heads_backward(const hsc_nn_heads *heads, const hsc_nn_mask *mask, const float *x, const float *kept,
                                 const float *dy, int n_batch, int n, float *dx, const hsc_nn_heads_grad *grad,
                                 hsc_error *err)
{
    hsc__exec exec;
    HSC__NEED(heads);
    HSC_TRY(hsc__nn_heads_check(heads, mask, n_batch, n, err));
    if (n_batch == 0 || n == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(kept);
    HSC__NEED(dy);
    HSC_TRY(hsc__nn_exec_init(&exec, hsc__nn_heads_work(heads, n_batch, n), hsc__nn_heads_rows(heads, n_batch, n), n,
                              hsc__nn_heads_width(heads), err));
    hsc_status status = hsc__nn_heads_grad(&exec, heads, mask, x, kept, dy, n_batch, n, dx, grad, err);
    hsc__exec_free(&exec);
    return status;
}
