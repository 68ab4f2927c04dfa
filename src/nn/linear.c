/* y = x W^T + b and its derivatives: dx = dy W, dW = dy^T x, db = the column sums of dy (docs/math/linear.md). Also the
 * rows of a table. All are products of the engine; a transpose is only another way of reading a matrix, except dy^T. */
#include "nn/call.h"
#include "nn/rows.h"

#include "base/alloc.h"

static hsc__weight weight_of(const hsc_nn_linear *map)
{
    size_t stride = (size_t)(map->in_out ? map->n_out : map->n_in);
    hsc__weight w = hsc__nn_weight(map->w, stride, map->n_in, map->n_out, map->in_out);
    w.bias = map->bias;
    return w;
}

static double work_of(const hsc_nn_linear *map, int n_rows)
{
    return (double)n_rows * map->n_in * map->n_out;
}

hsc_status hsc__nn_linear_check(const hsc_nn_linear *map, hsc_error *err)
{
    HSC__NEED(map->w);
    HSC__SIZE(map->n_in, 1);
    HSC__SIZE(map->n_out, 1);
    return HSC_OK;
}

void hsc__nn_linear_run(const hsc__exec *exec, const hsc_nn_linear *map, const float *x, int n_rows, float *y,
                        const float *residual)
{
    hsc__weight w = weight_of(map);
    hsc__linear product = {.w = &w,
                           .x = x,
                           .x_stride = (size_t)map->n_in,
                           .y = y,
                           .y_stride = (size_t)map->n_out,
                           .residual = residual,
                           .residual_stride = (size_t)map->n_out};
    hsc__linear_forward(exec, &product, 1, n_rows);
}

hsc_status hsc_nn_linear_forward(const hsc_nn_linear *map, const float *x, int n_rows, float *y, hsc_error *err)
{
    hsc__exec exec;
    HSC__NEED(map);
    HSC_TRY(hsc__nn_linear_check(map, err));
    HSC__SIZE(n_rows, 0);
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    HSC_TRY(hsc__nn_exec_init(&exec, work_of(map, n_rows), n_rows, 0, 0, err));
    hsc__nn_linear_run(&exec, map, x, n_rows, y, NULL);
    hsc__exec_free(&exec);
    return HSC_OK;
}

/* dw += left^T right, left [n_rows][n_left], right [n_rows][n_right]. */
static hsc_status add_outer(const hsc__exec *exec, const float *left, int n_left, const float *right, int n_right,
                            int n_rows, float *dw, hsc_error *err)
{
    float *turned; /* [n_left][n_rows] */
    HSC_TRY(hsc__nn_floats(&turned, (size_t)n_left * (size_t)n_rows, err));
    hsc__nn_transpose(left, (size_t)n_left, n_rows, n_left, turned);
    hsc__weight w = hsc__nn_weight(right, (size_t)n_right, n_rows, n_right, true);
    hsc__nn_product(exec, turned, (size_t)n_rows, n_left, &w, dw, (size_t)n_right, true);
    hsc__free_aligned(turned);
    return HSC_OK;
}

hsc_status hsc__nn_linear_grad(const hsc__exec *exec, const hsc_nn_linear *map, const float *x, const float *dy,
                               int n_rows, float *dx, const hsc_nn_linear_grad *grad, hsc_error *err)
{
    int n_in = map->n_in, n_out = map->n_out;
    if (dx) {
        hsc__weight back = hsc__nn_weight(map->w, weight_of(map).row_bytes / sizeof *map->w, n_out, n_in, !map->in_out);
        hsc__nn_product(exec, dy, (size_t)n_out, n_rows, &back, dx, (size_t)n_in, true);
    }
    if (grad && grad->bias) hsc__nn_column_sums(exec, dy, n_rows, n_out, grad->bias);
    if (!grad || !grad->w) return HSC_OK;
    if (map->in_out) return add_outer(exec, x, n_in, dy, n_out, n_rows, grad->w, err);
    return add_outer(exec, dy, n_out, x, n_in, n_rows, grad->w, err);
}

hsc_status hsc_nn_linear_backward(const hsc_nn_linear *map, const float *x, const float *dy, int n_rows, float *dx,
                                  const hsc_nn_linear_grad *grad, hsc_error *err)
{
    hsc__exec exec;
    HSC__NEED(map);
    HSC_TRY(hsc__nn_linear_check(map, err));
    HSC__SIZE(n_rows, 0);
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(dy);
    int most = hsc__nn_max(n_rows, hsc__nn_max(map->n_in, map->n_out));
    HSC_TRY(hsc__nn_exec_init(&exec, work_of(map, n_rows), most, 0, 0, err));
    hsc_status status = hsc__nn_linear_grad(&exec, map, x, dy, n_rows, dx, grad, err);
    hsc__exec_free(&exec);
    return status;
}

/* --------------------------------------------------------------------------------------------- rows of a table ---- */

static hsc_status check_ids(const hsc_token *ids, int n, int n_ids, int d, hsc_error *err)
{
    HSC__SIZE(n, 0);
    HSC__SIZE(n_ids, 1);
    HSC__SIZE(d, 1);
    if (n) HSC__NEED(ids);
    for (int i = 0; i < n; i++)
        HSC_FAIL_IF(ids[i] < 0 || ids[i] >= n_ids, HSC_EINVAL, "ids[%d] is %d, outside 0 to %d", i, ids[i], n_ids - 1);
    return HSC_OK;
}

hsc_status hsc_nn_embedding_forward(const float *table, int n_ids, int d, const hsc_token *ids, int n, float *y,
                                    hsc_error *err)
{
    HSC_TRY(check_ids(ids, n, n_ids, d, err));
    if (n == 0) return HSC_OK;
    HSC__NEED(table);
    HSC__NEED(y);
    hsc__exec exec = hsc__nn_light_exec((double)n * d);
    hsc__weight w = hsc__nn_weight(table, (size_t)d, d, n_ids, false);
    hsc__nn_table_rows(&exec, &w, ids, n, y);
    return HSC_OK;
}

hsc_status hsc_nn_embedding_backward(const hsc_token *ids, int n, int n_ids, int d, const float *dy, float *dtable,
                                     hsc_error *err)
{
    HSC_TRY(check_ids(ids, n, n_ids, d, err));
    if (n == 0 || !dtable) return HSC_OK;
    HSC__NEED(dy);
    for (int i = 0; i < n; i++) {
        float *row = dtable + (size_t)ids[i] * (size_t)d;
        for (int c = 0; c < d; c++) row[c] += dy[(size_t)i * (size_t)d + (size_t)c];
    }
    return HSC_OK;
}
