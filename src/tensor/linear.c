/*
 * The parallel loops of a matrix product. A task is one panel of outputs (all rows, weights read once) or, for few rows,
 * a run of outputs straight from the mapping. Both give the same bits; the choice is by the number of rows and cannot be
 * seen in the result.
 */
#include "tensor/linear.h"

#include "base/dtype.h"
#include "base/parallel.h"

#include <string.h>

typedef struct {
    const hsc__exec *exec;
    const hsc__linear *products;
    int n_products, n_rows;
    int step;     /* outputs a task takes */
    int n_splits; /* parts that the rows are cut into, so that few panels still feed every thread */
} plan;

static size_t panel_floats(const hsc__kernels *k)
{
    return (size_t)HSC__K_CHUNK * (size_t)k->nr;
}

size_t hsc__linear_scratch(const hsc__kernels *k, int max_rows)
{
    return panel_floats(k) + (size_t)max_rows * (size_t)k->nr;
}

void hsc__weight_row(const hsc__kernels *k, const hsc__weight *w, int64_t index, float *out)
{
    k->dequantise(w->dtype, (const char *)w->data + (size_t)index * w->row_bytes, w->n_in, out);
}

/* Bias and residual over a finished tile, on its way to y. The tile may be y itself. */
static void finish(const hsc__linear *p, int o, int n_out, int row, int n_rows, const float *tile, size_t tile_stride)
{
    const float *bias = p->w->bias ? p->w->bias + o : NULL;
    for (int r = 0; r < n_rows; r++) {
        const float *sum = tile + (size_t)r * tile_stride;
        float *y = p->y + (size_t)(row + r) * p->y_stride + o;
        const float *residual = p->residual ? p->residual + (size_t)(row + r) * p->residual_stride + o : NULL;
        if (bias && residual)
            for (int c = 0; c < n_out; c++) y[c] = residual[c] + (sum[c] + bias[c]);
        else if (bias)
            for (int c = 0; c < n_out; c++) y[c] = sum[c] + bias[c];
        else if (residual)
            for (int c = 0; c < n_out; c++) y[c] = residual[c] + sum[c];
        else if (y != sum)
            memcpy(y, sum, (size_t)n_out * sizeof *y);
    }
}

/* One panel of at most nr outputs for rows [row, row + n_rows). */
static void panel_task(const plan *job, const hsc__linear *p, int o, int row, int n_rows, float *scratch)
{
    const hsc__kernels *k = job->exec->kernels;
    const hsc__weight *w = p->w;
    int n_out = w->n_out - o < k->nr ? w->n_out - o : k->nr;
    float *panel = scratch, *tile = scratch + panel_floats(k); /* tile: [n_rows][nr] */
    const float *x = p->x + (size_t)row * p->x_stride;
    for (int64_t k0 = 0; k0 < w->n_in; k0 += HSC__K_CHUNK) {
        int n_k = w->n_in - k0 < HSC__K_CHUNK ? (int)(w->n_in - k0) : HSC__K_CHUNK;
        const char *data = w->data;
        if (w->transposed)
            k->pack_t(w->dtype, data + (size_t)k0 * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o), w->row_bytes,
                      n_out, n_k, panel);
        else
            k->pack(w->dtype, data + (size_t)o * w->row_bytes, w->row_bytes, n_out, k0, n_k, panel);
        k->gemm(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n_out, n_k, x + k0, p->x_stride, panel, (size_t)k->nr,
                tile, (size_t)k->nr);
    }
    finish(p, o, n_out, row, n_rows, tile, (size_t)k->nr);
}

/* A run of outputs for the few rows of a decode step. The sums go through scratch because y may be the residual. */
static void few_task(const plan *job, const hsc__linear *p, int o, float *scratch)
{
    const hsc__kernels *k = job->exec->kernels;
    const hsc__weight *w = p->w;
    int n_out = w->n_out - o < job->step ? w->n_out - o : job->step;
    float *tile = scratch; /* [n_rows][step] */
    size_t stride = (size_t)job->step;
    if (w->transposed)
        k->few_t(w->dtype, (const char *)w->data + hsc__dtype_bytes(w->dtype, (size_t)o), w->row_bytes, n_out, w->n_in,
                 p->x, p->x_stride, job->n_rows, tile, stride);
    else
        k->few(w->dtype, (const char *)w->data + (size_t)o * w->row_bytes, w->row_bytes, n_out, w->n_in, p->x,
               p->x_stride, job->n_rows, tile, stride);
    finish(p, o, n_out, 0, job->n_rows, tile, stride);
}

static int tasks_of(const plan *job, const hsc__linear *p)
{
    return (p->w->n_out + job->step - 1) / job->step;
}

static void run_task(void *context, size_t task, int worker)
{
    const plan *job = context;
    const hsc__linear *p = job->products;
    size_t index = task / (size_t)job->n_splits;
    int split = (int)(task % (size_t)job->n_splits);
    while (index >= (size_t)tasks_of(job, p)) index -= (size_t)tasks_of(job, p++);
    float *scratch = hsc__exec_scratch(job->exec, worker);
    int o = (int)index * job->step;
    if (job->n_rows <= job->exec->kernels->few_rows) {
        few_task(job, p, o, scratch);
        return;
    }
    int per_split = (job->n_rows + job->n_splits - 1) / job->n_splits;
    int row = split * per_split, n_rows = job->n_rows - row < per_split ? job->n_rows - row : per_split;
    if (n_rows > 0) panel_task(job, p, o, row, n_rows, scratch);
}

enum {
    FEW_STEP = 128,       /* outputs a task of few rows; its tile must fit the scratch of a panel */
    MIN_SPLIT_ROWS = 96,  /* fewer rows than this do not pay for packing a panel twice */
};

void hsc__linear_forward(const hsc__exec *exec, const hsc__linear *products, int n_products, int n_rows)
{
    if (n_rows <= 0) return;
    const hsc__kernels *k = exec->kernels;
    plan job = {exec, products, n_products, n_rows, k->nr, 1};
    if (n_rows <= k->few_rows) job.step = FEW_STEP;
    int n_tasks = 0;
    for (int i = 0; i < n_products; i++) n_tasks += tasks_of(&job, &products[i]);
    if (n_rows > k->few_rows) {
        while (n_tasks * job.n_splits < 2 * exec->n_threads && n_rows / (job.n_splits + 1) >= MIN_SPLIT_ROWS)
            job.n_splits++;
    }
    hsc__parallel_for(exec->n_threads, (size_t)n_tasks * (size_t)job.n_splits, run_task, &job);
}
