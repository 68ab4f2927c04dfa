/* The context of one call, and products of plain arrays by the engine's own matrix product. */
#include "nn/call.h"

#include "base/alloc.h"
#include "base/parallel.h"
#include "tensor/attention.h"

#include <stdatomic.h>
#include <string.h>

enum { WORK_A_THREAD = 1 << 20 }; /* multiply-adds that outweigh waking a thread */

const char *hsc__nn_field(const char *expression)
{
    const char *arrow = strrchr(expression, '>');
    return arrow ? arrow + 1 : expression;
}

int hsc__nn_threads(double work)
{
    static atomic_int all; /* asking the system opens files, so it is asked once */
    if (work < 2.0 * WORK_A_THREAD) return 1;
    int n = atomic_load(&all);
    if (n == 0) atomic_store(&all, n = hsc__default_threads());
    return work / WORK_A_THREAD < n ? (int)(work / WORK_A_THREAD) : n;
}

hsc__exec hsc__nn_light_exec(double work)
{
    return (hsc__exec){.n_threads = hsc__nn_threads(work), .compute = HSC_COMPUTE_F32, .kernels = hsc__kernels_get()};
}

hsc_status hsc__nn_exec_init(hsc__exec *exec, double work, int max_rows, int max_key, int d_head, hsc_error *err)
{
    size_t floats = hsc__linear_scratch(max_rows);
    size_t attention = d_head ? hsc__attention_scratch(hsc__kernels_get(), max_key, d_head) : 0;
    if (attention > floats) floats = attention;
    return hsc__exec_init(exec, hsc__nn_threads(work), floats, HSC_COMPUTE_F32, 0, 0, err);
}

hsc__weight hsc__nn_weight(const float *w, size_t stride, int n_in, int n_out, bool in_out)
{
    return (hsc__weight){.dtype = HSC_F32,
                         .transposed = in_out,
                         .n_out = n_out,
                         .n_in = n_in,
                         .row_bytes = stride * sizeof *w,
                         .data = w};
}

void hsc__nn_product(const hsc__exec *exec, const float *x, size_t x_stride, int n_rows, const hsc__weight *w, float *y,
                     size_t y_stride, bool add)
{
    hsc__linear product = {.w = w, .x = x, .x_stride = x_stride, .y = y, .y_stride = y_stride};
    if (add) {
        product.residual = y;
        product.residual_stride = y_stride;
    }
    hsc__linear_forward(exec, &product, 1, n_rows);
}

/* In squares, so that both sides stay in the cache. */
void hsc__nn_transpose(const float *from, size_t stride, int n_rows, int n_cols, float *to)
{
    enum { SIDE = 16 };
    for (int r0 = 0; r0 < n_rows; r0 += SIDE) {
        int r1 = r0 + SIDE < n_rows ? r0 + SIDE : n_rows;
        for (int c0 = 0; c0 < n_cols; c0 += SIDE) {
            int c1 = c0 + SIDE < n_cols ? c0 + SIDE : n_cols;
            for (int c = c0; c < c1; c++) {
                for (int r = r0; r < r1; r++)
                    to[(size_t)c * (size_t)n_rows + (size_t)r] = from[(size_t)r * stride + (size_t)c];
            }
        }
    }
}

enum { COLUMNS = 64 }; /* that one task sums */

typedef struct column_job {
    const float *x;
    int n_rows, n_cols;
    float *sums;
} column_job;

static void sum_columns(void *context, size_t task, int worker)
{
    (void)worker;
    const column_job *job = context;
    size_t from = task * COLUMNS, n = (size_t)job->n_cols - from < COLUMNS ? (size_t)job->n_cols - from : COLUMNS;
    double sums[COLUMNS] = {0};
    for (int r = 0; r < job->n_rows; r++) {
        const float *row = job->x + (size_t)r * (size_t)job->n_cols + from;
        for (size_t c = 0; c < n; c++) sums[c] += row[c];
    }
    for (size_t c = 0; c < n; c++) job->sums[from + c] += (float)sums[c];
}

void hsc__nn_column_sums(const hsc__exec *exec, const float *x, int n_rows, int n_cols, float *sums)
{
    column_job job = {x, n_rows, n_cols, sums};
    hsc__parallel_for(exec->n_threads, ((size_t)n_cols + COLUMNS - 1) / COLUMNS, sum_columns, &job);
}

hsc_status hsc__nn_floats(float **out, size_t n, hsc_error *err)
{
    *out = n > SIZE_MAX / sizeof **out ? NULL : hsc__malloc_aligned(n * sizeof **out);
    return *out ? HSC_OK : hsc__fail_memory(err, n * sizeof **out, "the scratch of a layer");
}
