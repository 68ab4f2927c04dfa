/*
 * Layer norm and RMS norm (docs/math/norm.md). With xhat the normalised row and g = gain * dy, layer norm's
 *     dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(var + eps),
 * and RMS norm's is the same without mean(g). The statistics of a row are taken again from x: cheaper than keeping
 * them.
 */
#include "nn/call.h"
#include "nn/rows.h"

#include "base/alloc.h"
#include "base/parallel.h"

#include <math.h>

static hsc_status check(const float *x, float eps, int n_rows, int n, hsc_error *err)
{
    HSC__SIZE(n_rows, 0);
    HSC__SIZE(n, 1);
    HSC_FAIL_IF(!(eps >= 0), HSC_EINVAL, "eps is %g, below 0", (double)eps);
    if (n_rows) HSC__NEED(x);
    return HSC_OK;
}

static hsc_status forward(const hsc__nn_norm *norm, const float *x, int n_rows, float *y, hsc_error *err)
{
    HSC_TRY(check(x, norm->eps, n_rows, norm->n, err));
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(y);
    hsc__exec exec = hsc__nn_light_exec((double)n_rows * norm->n);
    hsc__nn_norm_rows(&exec, norm, x, n_rows, y);
    return HSC_OK;
}

hsc_status hsc_nn_layer_norm_forward(const float *x, const float *gain, const float *bias, float eps, int n_rows, int n,
                                     float *y, hsc_error *err)
{
    return forward(&(hsc__nn_norm){HSC__NN_LAYER_NORM, gain, bias, eps, n}, x, n_rows, y, err);
}

hsc_status hsc_nn_rms_norm_forward(const float *x, const float *gain, float eps, int n_rows, int n, float *y,
                                   hsc_error *err)
{
    return forward(&(hsc__nn_norm){HSC__NN_RMS_NORM, gain, NULL, eps, n}, x, n_rows, y, err);
}

typedef struct job {
    hsc__nn_norm norm;
    const float *x, *dy;
    int n_rows;
    double *statistics; /* [n_rows][2]: mean and 1 / sqrt(var + eps) */
    float *dx, *dgain, *dbias;
} job;

static void row_statistics(const job *j, const float *x, double *mean, double *scale)
{
    int n = j->norm.n;
    double sum = 0, squares = 0;
    if (j->norm.kind == HSC__NN_LAYER_NORM)
        for (int i = 0; i < n; i++) sum += x[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *scale = 1 / sqrt(squares / n + (double)j->norm.eps);
    if (!isfinite(*scale)) *scale = 0; /* a constant row without eps: nothing can change it */
}

static void input_row(void *context, size_t row, int worker)
{
    (void)worker;
    const job *j = context;
    int n = j->norm.n;
    const float *x = j->x + row * (size_t)n, *dy = j->dy + row * (size_t)n, *gain = j->norm.gain;
    double mean, scale, sum = 0, product = 0;
    row_statistics(j, x, &mean, &scale);
    j->statistics[2 * row] = mean;
    j->statistics[2 * row + 1] = scale;
    if (!j->dx) return;
    for (int i = 0; i < n; i++) {
        double g = gain ? (double)gain[i] * dy[i] : dy[i];
        sum += g;
        product += g * ((x[i] - mean) * scale);
    }
    if (j->norm.kind == HSC__NN_RMS_NORM) sum = 0;
    for (int i = 0; i < n; i++) {
        double g = gain ? (double)gain[i] * dy[i] : dy[i];
        j->dx[row * (size_t)n + (size_t)i] += (float)(scale * (g - sum / n - (x[i] - mean) * scale * (product / n)));
    }
}

enum { COLUMNS = 64 }; /* that one task sums over all rows, in rising order */

static void parameter_columns(void *context, size_t task, int worker)
{
    (void)worker;
    const job *j = context;
    size_t n = (size_t)j->norm.n, from = task * COLUMNS, count = n - from < COLUMNS ? n - from : COLUMNS;
    double dgain[COLUMNS] = {0}, dbias[COLUMNS] = {0};
    for (size_t r = 0; r < (size_t)j->n_rows; r++) {
        const float *x = j->x + r * n + from, *dy = j->dy + r * n + from;
        double mean = j->statistics[2 * r], scale = j->statistics[2 * r + 1];
        for (size_t c = 0; c < count; c++) {
            dgain[c] += dy[c] * ((x[c] - mean) * scale);
            dbias[c] += dy[c];
        }
    }
    for (size_t c = 0; c < count; c++) {
        if (j->dgain) j->dgain[from + c] += (float)dgain[c];
        if (j->dbias) j->dbias[from + c] += (float)dbias[c];
    }
}

static hsc_status backward(job *j, hsc_error *err)
{
    HSC_TRY(check(j->x, j->norm.eps, j->n_rows, j->norm.n, err));
    if (j->n_rows == 0) return HSC_OK;
    HSC__NEED(j->dy);
    size_t n_bytes = (size_t)j->n_rows * 2 * sizeof(double);
    j->statistics = hsc__malloc(n_bytes);
    if (!j->statistics) return hsc__fail_memory(err, n_bytes, "the statistics of rows");
    int n_threads = hsc__nn_threads((double)j->n_rows * j->norm.n);
    hsc__parallel_for(n_threads, (size_t)j->n_rows, input_row, j);
    if (j->dgain || j->dbias)
        hsc__parallel_for(n_threads, ((size_t)j->norm.n + COLUMNS - 1) / COLUMNS, parameter_columns, j);
    hsc__free(j->statistics);
    return HSC_OK;
}

hsc_status hsc_nn_layer_norm_backward(const float *x, const float *gain, float eps, const float *dy, int n_rows, int n,
                                      float *dx, float *dgain, float *dbias, hsc_error *err)
{
    hsc__nn_norm norm = {HSC__NN_LAYER_NORM, gain, NULL, eps, n};
    return backward(&(job){.norm = norm, .x = x, .dy = dy, .n_rows = n_rows, .dx = dx, .dgain = dgain, .dbias = dbias},
                    err);
}

hsc_status hsc_nn_rms_norm_backward(const float *x, const float *gain, float eps, const float *dy, int n_rows, int n,
                                    float *dx, float *dgain, hsc_error *err)
{
    hsc__nn_norm norm = {HSC__NN_RMS_NORM, gain, NULL, eps, n};
    return backward(&(job){.norm = norm, .x = x, .dy = dy, .n_rows = n_rows, .dx = dx, .dgain = dgain}, err);
}
