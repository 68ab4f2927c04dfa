/*
 * The pre-norm block, its parameters in one array, and their initial values. Forward:
 *     a = norm1(x);  mid = x + heads(a);  b = norm2(mid);  y = mid + feed_forward(b)
 * kept holds a, mid and b, then what the two halves keep. Backward runs the same lines from the last to the first; a
 * residual connection is a derivative that arrives twice.
 */
#include "nn/feed_forward.h"
#include "nn/heads.h"
#include "nn/rows.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- parameters ---- */

typedef struct layout {
    hsc_nn_parameter tensors[HSC_NN_N_BLOCK_TENSORS];
    int64_t count;
} layout;

static void place(layout *l, hsc_nn_block_tensor tensor, const char *name, int rows, int columns)
{
    hsc_nn_parameter p = {.name = name, .offset = l->count};
    if (rows) p.shape[p.n_dims++] = rows;
    p.shape[p.n_dims++] = columns;
    p.count = rows ? (int64_t)rows * columns : columns;
    l->tensors[tensor] = p;
    l->count += p.count;
}

static hsc_status make_layout(const hsc_nn_block *block, layout *l, hsc_error *err)
{
    HSC__NEED(block);
    HSC__SIZE(block->d_model, 1);
    HSC__SIZE(block->n_heads, 1);
    HSC__SIZE(block->d_ff, 1);
    HSC_FAIL_IF(block->d_model > INT32_MAX / 3, HSC_EINVAL, "d_model is %d: too large", block->d_model);
    HSC_FAIL_IF(block->d_model % block->n_heads, HSC_EINVAL, "n_heads, %d, does not divide d_model, %d", block->n_heads,
                block->d_model);
    HSC_FAIL_IF((unsigned)block->activation >= HSC_NN_N_ACTIVATIONS, HSC_EINVAL, "activation is %d, of %d",
                (int)block->activation, HSC_NN_N_ACTIVATIONS);
    HSC_FAIL_IF(!(block->eps >= 0), HSC_EINVAL, "eps is %g, below 0", (double)block->eps);
    int d = block->d_model, f = block->d_ff;
    l->count = 0;
#define PLACE(id, name, rows, columns) place(l, id, name, rows, columns);
    HSC_NN_BLOCK_LIST(PLACE)
#undef PLACE
    return HSC_OK;
}

hsc_status hsc_nn_block_count(const hsc_nn_block *block, int64_t *count, hsc_error *err)
{
    layout l;
    HSC_TRY(make_layout(block, &l, err));
    HSC__NEED(count);
    *count = l.count;
    return HSC_OK;
}

hsc_status hsc_nn_block_parameter(const hsc_nn_block *block, hsc_nn_block_tensor tensor, hsc_nn_parameter *out,
                                  hsc_error *err)
{
    layout l;
    HSC_TRY(make_layout(block, &l, err));
    HSC__NEED(out);
    HSC_FAIL_IF((unsigned)tensor >= HSC_NN_N_BLOCK_TENSORS, HSC_EINVAL, "a block has %d tensors, not one numbered %d",
                HSC_NN_N_BLOCK_TENSORS, (int)tensor);
    *out = l.tensors[tensor];
    return HSC_OK;
}

void hsc_nn_linear_init(int n_out, int n_in, hsc_random *random, float *w, float *bias)
{
    float bound = (float)(1 / sqrt(n_in));
    hsc_random_kaiming_uniform(random, n_out, n_in, sqrt(5), w);
    if (bias) hsc_random_uniform(random, -bound, bound, (size_t)n_out, bias);
}

static void fill(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++) x[i] = value;
}

hsc_status hsc_nn_block_init(const hsc_nn_block *block, hsc_random *random, float *parameters, hsc_error *err)
{
    layout l;
    HSC_TRY(make_layout(block, &l, err));
    HSC__NEED(random);
    HSC__NEED(parameters);
    int d = block->d_model, f = block->d_ff;
    float *at[HSC_NN_N_BLOCK_TENSORS];
    for (int i = 0; i < HSC_NN_N_BLOCK_TENSORS; i++) at[i] = parameters + l.tensors[i].offset;
    hsc_nn_linear_init(d, d, random, at[HSC_NN_OUT_PROJ_WEIGHT], at[HSC_NN_OUT_PROJ_BIAS]);
    hsc_random_xavier_uniform(random, 3 * d, d, 1, at[HSC_NN_IN_PROJ_WEIGHT]);
    fill(at[HSC_NN_IN_PROJ_BIAS], 3 * (int64_t)d, 0);
    fill(at[HSC_NN_OUT_PROJ_BIAS], d, 0);
    hsc_nn_linear_init(f, d, random, at[HSC_NN_FF_IN_WEIGHT], at[HSC_NN_FF_IN_BIAS]);
    hsc_nn_linear_init(d, f, random, at[HSC_NN_FF_OUT_WEIGHT], at[HSC_NN_FF_OUT_BIAS]);
    fill(at[HSC_NN_NORM1_WEIGHT], d, 1);
    fill(at[HSC_NN_NORM1_BIAS], d, 0);
    fill(at[HSC_NN_NORM2_WEIGHT], d, 1);
    fill(at[HSC_NN_NORM2_BIAS], d, 0);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------ layers ---- */

typedef struct layers {
    hsc_nn_heads heads;
    hsc_nn_feed_forward ff;
    hsc__nn_norm norm1, norm2;
} layers;

static hsc_nn_linear map(const layout *l, const float *parameters, hsc_nn_block_tensor weight, hsc_nn_block_tensor bias)
{
    const hsc_nn_parameter *w = &l->tensors[weight];
    return (hsc_nn_linear){.w = parameters + w->offset,
                           .bias = parameters + l->tensors[bias].offset,
                           .n_in = w->shape[1],
                           .n_out = w->shape[0]};
}

static layers layers_of(const hsc_nn_block *block, const layout *l, const float *parameters)
{
    int d = block->d_model;
    float eps = block->eps > 0 ? block->eps : 1e-5f;
    layers all = {
        .heads = {.n_heads = block->n_heads, .o = map(l, parameters, HSC_NN_OUT_PROJ_WEIGHT, HSC_NN_OUT_PROJ_BIAS)},
        .ff = {.in = map(l, parameters, HSC_NN_FF_IN_WEIGHT, HSC_NN_FF_IN_BIAS),
               .out = map(l, parameters, HSC_NN_FF_OUT_WEIGHT, HSC_NN_FF_OUT_BIAS),
               .activation = block->activation},
        .norm1 = {HSC__NN_LAYER_NORM, parameters + l->tensors[HSC_NN_NORM1_WEIGHT].offset,
                  parameters + l->tensors[HSC_NN_NORM1_BIAS].offset, eps, d},
        .norm2 = {HSC__NN_LAYER_NORM, parameters + l->tensors[HSC_NN_NORM2_WEIGHT].offset,
                  parameters + l->tensors[HSC_NN_NORM2_BIAS].offset, eps, d}};
    hsc_nn_linear in = map(l, parameters, HSC_NN_IN_PROJ_WEIGHT, HSC_NN_IN_PROJ_BIAS);
    in.n_out = d;
    all.heads.q = in;
    in.w += (size_t)d * (size_t)d;
    in.bias += d;
    all.heads.k = in;
    in.w += (size_t)d * (size_t)d;
    in.bias += d;
    all.heads.v = in;
    return all;
}

/* What a forward pass keeps, in one array. */
typedef struct kept_parts {
    float *a, *mid, *b, *heads, *ff;
} kept_parts;

static kept_parts kept_of(const layers *all, int n_batch, int n, float *kept)
{
    size_t rows = (size_t)n_batch * (size_t)n * (size_t)all->norm1.n;
    float *heads = kept + 3 * rows;
    return (kept_parts){kept, kept + rows, kept + 2 * rows, heads, heads + hsc_nn_heads_kept(&all->heads, n_batch, n)};
}

size_t hsc_nn_block_kept(const hsc_nn_block *block, int n_batch, int n)
{
    layout l;
    if (n_batch <= 0 || n <= 0 || n_batch > HSC__NN_MOST / n || make_layout(block, &l, NULL) != HSC_OK) return 0;
    hsc_nn_heads heads = {.q = {.n_out = block->d_model}, .v = {.n_out = block->d_model}};
    hsc_nn_feed_forward ff = {.in = {.n_out = block->d_ff}};
    return 3 * (size_t)n_batch * (size_t)n * (size_t)block->d_model + hsc_nn_heads_kept(&heads, n_batch, n) +
           hsc_nn_feed_forward_kept(&ff, n_batch * n);
}

static hsc_status check_input(const layers *all, const hsc_nn_mask *mask, const float *x, int n_batch, int n,
                              hsc_error *err)
{
    HSC_TRY(hsc__nn_heads_check(&all->heads, mask, n_batch, n, err));
    if (n_batch && n) HSC__NEED(x);
    return HSC_OK;
}

static double work_of(const layers *all, int n_batch, int n)
{
    return hsc__nn_heads_work(&all->heads, n_batch, n) + 2.0 * n_batch * n * all->ff.in.n_in * all->ff.in.n_out;
}

hsc_status hsc_nn_block_forward(const hsc_nn_block *block, const float *parameters, const hsc_nn_mask *mask,
                                const float *x, int n_batch, int n, float *y, float *weights, float *kept,
                                hsc_error *err)
{
    layout l;
    hsc__exec exec = {0};
    float *own = NULL;
    HSC_TRY(make_layout(block, &l, err));
    HSC__NEED(parameters);
    layers all = layers_of(block, &l, parameters);
    HSC_TRY(check_input(&all, mask, x, n_batch, n, err));
    if (n_batch == 0 || n == 0) return HSC_OK;
    HSC__NEED(y);
    int n_rows = n_batch * n;
    hsc_status status =
        hsc__nn_exec_init(&exec, work_of(&all, n_batch, n), n_rows, n, hsc__nn_heads_width(&all.heads), err);
    if (status == HSC_OK && !kept) status = hsc__nn_floats(&own, hsc_nn_block_kept(block, n_batch, n), err);
    if (status == HSC_OK) {
        kept_parts k = kept_of(&all, n_batch, n, kept ? kept : own);
        hsc__nn_norm_rows(&exec, &all.norm1, x, n_rows, k.a);
        status = hsc__nn_heads_run(&exec, &all.heads, mask, k.a, n_batch, n, k.heads, k.mid, x, weights, err);
        if (status == HSC_OK) {
            hsc__nn_norm_rows(&exec, &all.norm2, k.mid, n_rows, k.b);
            hsc__nn_feed_forward_run(&exec, &all.ff, k.b, n_rows, k.ff, y, k.mid);
        }
    }
    hsc__free_aligned(own);
    hsc__exec_free(&exec);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- backward ---- */

/* Where a map's derivatives go inside the array of all of them. */
static hsc_nn_linear_grad grad_at(const layout *l, float *g, hsc_nn_block_tensor weight, hsc_nn_block_tensor bias,
                                  size_t w_skip, size_t bias_skip)
{
    if (!g) return (hsc_nn_linear_grad){0};
    return (hsc_nn_linear_grad){g + l->tensors[weight].offset + w_skip, g + l->tensors[bias].offset + bias_skip};
}

static hsc_nn_heads_grad heads_grad(const layout *l, int d_model, float *g)
{
    size_t d = (size_t)d_model;
    return (hsc_nn_heads_grad){grad_at(l, g, HSC_NN_IN_PROJ_WEIGHT, HSC_NN_IN_PROJ_BIAS, 0, 0),
                               grad_at(l, g, HSC_NN_IN_PROJ_WEIGHT, HSC_NN_IN_PROJ_BIAS, d * d, d),
                               grad_at(l, g, HSC_NN_IN_PROJ_WEIGHT, HSC_NN_IN_PROJ_BIAS, 2 * d * d, 2 * d),
                               grad_at(l, g, HSC_NN_OUT_PROJ_WEIGHT, HSC_NN_OUT_PROJ_BIAS, 0, 0)};
}

static hsc_nn_feed_forward_grad ff_grad(const layout *l, float *g)
{
    return (hsc_nn_feed_forward_grad){.in = grad_at(l, g, HSC_NN_FF_IN_WEIGHT, HSC_NN_FF_IN_BIAS, 0, 0),
                                      .out = grad_at(l, g, HSC_NN_FF_OUT_WEIGHT, HSC_NN_FF_OUT_BIAS, 0, 0)};
}

static hsc_status norm_grad(const layout *l, const hsc__nn_norm *norm, const float *x, const float *dy, int n_rows,
                            float *dx, float *g, hsc_nn_block_tensor weight, hsc_nn_block_tensor bias, hsc_error *err)
{
    return hsc_nn_layer_norm_backward(x, norm->gain, norm->eps, dy, n_rows, norm->n, dx,
                                      g ? g + l->tensors[weight].offset : NULL, g ? g + l->tensors[bias].offset : NULL,
                                      err);
}

/* dmid and half: [n_rows][d_model] of scratch. dmid ends as the derivative by x. */
static hsc_status run_back(const hsc__exec *exec, const layout *l, const layers *all, const hsc_nn_mask *mask,
                           const float *x, const kept_parts *k, const float *dy, int n_batch, int n, float *dmid,
                           float *half, float *g, hsc_error *err)
{
    int n_rows = n_batch * n, d = all->norm1.n;
    size_t n_bytes = (size_t)n_rows * (size_t)d * sizeof *half;
    hsc_nn_feed_forward_grad ff = ff_grad(l, g);
    hsc_nn_heads_grad heads = heads_grad(l, d, g);
    memset(half, 0, n_bytes);
    HSC_TRY(hsc__nn_feed_forward_grad(exec, &all->ff, k->b, k->ff, dy, n_rows, half, &ff, err));
    memcpy(dmid, dy, n_bytes);
    HSC_TRY(norm_grad(l, &all->norm2, k->mid, half, n_rows, dmid, g, HSC_NN_NORM2_WEIGHT, HSC_NN_NORM2_BIAS, err));
    memset(half, 0, n_bytes);
    HSC_TRY(hsc__nn_heads_grad(exec, &all->heads, mask, k->a, k->heads, dmid, n_batch, n, half, &heads, err));
    return norm_grad(l, &all->norm1, x, half, n_rows, dmid, g, HSC_NN_NORM1_WEIGHT, HSC_NN_NORM1_BIAS, err);
}

hsc_status hsc_nn_block_backward(const hsc_nn_block *block, const float *parameters, const hsc_nn_mask *mask,
                                 const float *x, const float *kept, const float *dy, int n_batch, int n, float *dx,
                                 float *gradients, hsc_error *err)
{
    layout l;
    hsc__exec exec = {0};
    float *scratch = NULL;
    HSC_TRY(make_layout(block, &l, err));
    HSC__NEED(parameters);
    layers all = layers_of(block, &l, parameters);
    HSC_TRY(check_input(&all, mask, x, n_batch, n, err));
    if (n_batch == 0 || n == 0) return HSC_OK;
    HSC__NEED(kept);
    HSC__NEED(dy);
    size_t rows = (size_t)n_batch * (size_t)n * (size_t)block->d_model;
    int most = hsc__nn_max(hsc__nn_heads_rows(&all.heads, n_batch, n), block->d_ff);
    hsc_status status =
        hsc__nn_exec_init(&exec, work_of(&all, n_batch, n), most, n, hsc__nn_heads_width(&all.heads), err);
    if (status == HSC_OK) status = hsc__nn_floats(&scratch, 2 * rows, err);
    if (status == HSC_OK) {
        kept_parts k = kept_of(&all, n_batch, n, (float *)kept);
        status = run_back(&exec, &l, &all, mask, x, &k, dy, n_batch, n, scratch, scratch + rows, gradients, err);
    }
    if (status == HSC_OK && dx) hsc__nn_add_rows(&exec, dx, scratch, n_batch * n, block->d_model, dx);
    hsc__free_aligned(scratch);
    hsc__exec_free(&exec);
    return status;
}
