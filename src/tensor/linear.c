/*
 * The parallel loops of a matrix product. A task is one panel of outputs (all rows, weights read once) or, for few
 * rows, a run of outputs straight from the mapping. Both give the same bits; the choice is by the number of rows and
 * cannot be seen in the result.
 */
#include "tensor/linear.h"

#include "base/dtype.h"
#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

enum {
    UNIT = 16,           /* outputs of one row that a thread takes at least, */
    WIDE_UNIT = 128,     /* and of a weight [n_in][n_out], which is read in runs along the outputs */
    SHARES = 4,          /* it takes this part of what is left to it, so that all end together */
    MIN_STOLEN = 4,      /* tasks of one row that must be left for another thread to help */
    MIN_STEP = 32,       /* outputs a task of few rows, at least and */
    MAX_STEP = 128,      /* at most; a tile must fit the scratch of a panel */
    WIDE_STEP = 512,     /* the most of a weight [n_in][n_out] */
    TASKS = 8,           /* that a thread should have */
    MIN_SPLIT_ROWS = 96, /* fewer rows than this do not pay for packing a panel twice */
};

enum { MAX_LANES = 64 };

/* Tasks of few rows that one thread takes in turn, so that it reads memory in order, where the kernels fetch it ahead.
 * Who is done helps the others. */
typedef struct {
    _Alignas(64) _Atomic uint64_t left; /* the first task << 32 | the end */
} lane;

typedef struct {
    const hsc__exec *exec;
    const hsc__linear *products;
    int n_products, n_rows;
    int n_splits; /* parts that the rows are cut into, so that few panels still feed every thread */
    bool few;     /* few rows: straight from the mapping */
    int few_step; /* outputs a task then */
    lane *lanes;
    int n_lanes;
    uint16_t *x16; /* x in bf16, rows x16_stride apart; NULL when nobody needs it */
    size_t x16_stride;
    hsc__x8 x8; /* x in 8 bits; q NULL when nobody needs it */
} plan;

/* Floats of a panel of float32, the widest of the kinds. */
enum { PANEL_FLOATS = HSC__K_CHUNK * HSC__MAX_NR };

/* The arithmetic of one product: q8 is for quantised weights, what it does not fit stays exact. */
static hsc_compute kind_of(const plan *job, const hsc__weight *w)
{
    if (job->exec->compute != HSC_COMPUTE_Q8) return job->exec->compute;
    bool fits = !w->transposed && hsc__kernels_can_q8(w->dtype) && w->n_in % HSC__Q8_GROUP == 0;
    return fits ? HSC_COMPUTE_Q8 : HSC_COMPUTE_F32;
}

size_t hsc__linear_scratch(int max_rows)
{
    return PANEL_FLOATS + (size_t)max_rows * HSC__MAX_NR;
}

hsc__weight hsc__weight_group(const hsc__weight *whole, int index)
{
    hsc__weight part = *whole;
    part.n_out = whole->group;
    part.group = 0;
    part.data = (const char *)whole->data + (size_t)index * whole->group_bytes;
    if (whole->bias) part.bias = whole->bias + (size_t)index * (size_t)whole->group;
    return part;
}

void hsc__weight_row(const hsc__kernels *k, const hsc__weight *w, int64_t index, float *out)
{
    size_t skip = w->group ? (size_t)(index / w->group) * w->group_bytes : 0;
    if (w->group) index %= w->group;
    k->dequantise(w->dtype, (const char *)w->data + skip + (size_t)index * w->row_bytes, w->n_in, out);
}

/* Bias and residual over the sums of few rows, on their way to y. */
static void finish(const hsc__linear *p, int o, int n_out, int n_rows, const float *tile, size_t tile_stride)
{
    const float *bias = p->w->bias ? p->w->bias + o : NULL;
    for (int r = 0; r < n_rows; r++) {
        const float *sum = tile + (size_t)r * tile_stride;
        float *y = p->y + (size_t)r * p->y_stride + o;
        const float *residual = p->residual ? p->residual + (size_t)r * p->residual_stride + o : NULL;
        if (bias && residual)
            for (int c = 0; c < n_out; c++) y[c] = residual[c] + (sum[c] + bias[c]);
        else if (bias)
            for (int c = 0; c < n_out; c++) y[c] = sum[c] + bias[c];
        else if (residual)
            for (int c = 0; c < n_out; c++) y[c] = residual[c] + sum[c];
        else memcpy(y, sum, (size_t)n_out * sizeof *y);
    }
}

/* The same of many rows from `row` on, for the kernels to do where the sums are made. */
static hsc__ending ending(const hsc__linear *p, int o, int row)
{
    return (hsc__ending){.bias = p->w->bias ? p->w->bias + o : NULL,
                         .residual = p->residual ? p->residual + (size_t)row * p->residual_stride + o : NULL,
                         .residual_stride = p->residual_stride,
                         .y = p->y + (size_t)row * p->y_stride + o,
                         .y_stride = p->y_stride};
}

static int clamp(int n, int low, int high)
{
    return n < low ? low : n > high ? high : n;
}

/* A thread's share of the outputs, up to what the kernel takes at once. */
static int wide_step(const plan *job, int n_out)
{
    int share = (n_out / job->exec->n_threads + MAX_STEP - 1) / MAX_STEP * MAX_STEP;
    return clamp(share, MAX_STEP, job->n_rows * WIDE_STEP <= PANEL_FLOATS ? WIDE_STEP : MAX_STEP);
}

/* Outputs that a task of product p takes; of one row a thread takes several tasks at once. */
static int step_of(const plan *job, const hsc__linear *p)
{
    if (job->few && job->n_rows == 1) return p->w->transposed ? WIDE_UNIT : UNIT;
    if (job->few) return p->w->transposed ? wide_step(job, p->w->n_out) : job->few_step;
    switch (kind_of(job, p->w)) {
    case HSC_COMPUTE_BF16: return job->exec->kernels->nr_bf16;
    case HSC_COMPUTE_Q8: return job->exec->kernels->nr_q8;
    default: return job->exec->kernels->nr;
    }
}

/* Packs chunk [k0, k0 + n_k) of a panel and adds its products with rows [row, row + n_rows) to the tile; the last
 * chunk's sums go to y. */
static void panel_chunk(const plan *job, const hsc__linear *p, int o, int64_t k0, int n_k, int row, int n_rows,
                        void *panel, float *tile)
{
    const hsc__kernels *k = job->exec->kernels;
    const hsc__weight *w = p->w;
    int step = step_of(job, p), n_out = w->n_out - o < step ? w->n_out - o : step;
    hsc__gemm_mode mode = k0 ? HSC__GEMM_ADD : HSC__GEMM_START;
    const hsc__ending last = ending(p, o, row), *end = k0 + n_k == w->n_in ? &last : NULL;
    const char *rows = (const char *)w->data + (size_t)o * w->row_bytes;
    const char *columns = (const char *)w->data + (size_t)k0 * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o);
    size_t nr = (size_t)step;
    switch (kind_of(job, w)) {
    case HSC_COMPUTE_BF16:
        if (w->transposed) k->pack_t_bf16(w->dtype, columns, w->row_bytes, n_out, n_k, panel);
        else k->pack_bf16(w->dtype, rows, w->row_bytes, n_out, k0, n_k, panel);
        k->gemm_bf16(mode, n_rows, n_out, n_k, job->x16 + (size_t)row * job->x16_stride + k0, job->x16_stride, panel,
                     tile, nr, end);
        return;
    case HSC_COMPUTE_Q8: {
        hsc__x8 x = job->x8;
        x.q += (size_t)row * x.q_stride;
        x.group += (size_t)row * x.group_stride;
        k->pack_q8(w->dtype, rows, w->row_bytes, n_out, k0, n_k, panel);
        k->gemm_q8(w->dtype, mode, n_rows, n_out, n_k, &x, k0, panel, tile, nr, end);
        return;
    }
    default:
        if (w->transposed) k->pack_t(w->dtype, columns, w->row_bytes, n_out, n_k, panel);
        else k->pack(w->dtype, rows, w->row_bytes, n_out, k0, n_k, panel);
        k->gemm(mode, n_rows, n_out, n_k, p->x + (size_t)row * p->x_stride + k0, p->x_stride, panel, nr, tile, nr, end);
    }
}

/* One panel of outputs for rows [row, row + n_rows). */
static void panel_task(const plan *job, const hsc__linear *p, int o, int row, int n_rows, float *scratch)
{
    const hsc__weight *w = p->w;
    float *panel = scratch, *tile = scratch + PANEL_FLOATS; /* tile: [n_rows][step_of] */
    for (int64_t k0 = 0; k0 < w->n_in; k0 += HSC__K_CHUNK) {
        int n_k = w->n_in - k0 < HSC__K_CHUNK ? (int)(w->n_in - k0) : HSC__K_CHUNK;
        panel_chunk(job, p, o, k0, n_k, row, n_rows, panel, tile);
    }
}

/* A run of outputs for the few rows of a decode step. The sums go through scratch because y may be the residual. */
static void few_outputs(const plan *job, const hsc__linear *p, int o, int n_out, float *tile)
{
    const hsc__kernels *k = job->exec->kernels;
    const hsc__weight *w = p->w;
    int n_rows = job->n_rows;
    size_t stride = (size_t)n_out; /* tile: [n_rows][n_out] */
    const char *data =
        (const char *)w->data + (w->transposed ? hsc__dtype_bytes(w->dtype, (size_t)o) : (size_t)o * w->row_bytes);
    switch (kind_of(job, w)) {
    case HSC_COMPUTE_BF16:
        (w->transposed ? k->few_t_bf16 : k->few_bf16)(w->dtype, data, w->row_bytes, n_out, w->n_in, job->x16,
                                                      job->x16_stride, n_rows, tile, stride);
        break;
    case HSC_COMPUTE_Q8: k->few_q8(w->dtype, data, w->row_bytes, n_out, w->n_in, &job->x8, n_rows, tile, stride); break;
    default:
        (w->transposed ? k->few_t : k->few)(w->dtype, data, w->row_bytes, n_out, w->n_in, p->x, p->x_stride, n_rows,
                                            tile, stride);
    }
    finish(p, o, n_out, n_rows, tile, stride);
}

static int tasks_of(const plan *job, const hsc__linear *p)
{
    int step = step_of(job, p);
    return (p->w->n_out + step - 1) / step;
}

static void run_task(void *context, size_t task, int worker)
{
    const plan *job = context;
    const hsc__linear *p = job->products;
    size_t index = task / (size_t)job->n_splits;
    int split = (int)(task % (size_t)job->n_splits);
    while (index >= (size_t)tasks_of(job, p)) index -= (size_t)tasks_of(job, p++);
    float *scratch = hsc__exec_scratch(job->exec, worker);
    int o = (int)index * step_of(job, p);
    int per_split = (job->n_rows + job->n_splits - 1) / job->n_splits;
    int row = split * per_split, n_rows = job->n_rows - row < per_split ? job->n_rows - row : per_split;
    if (n_rows > 0) panel_task(job, p, o, row, n_rows, scratch);
}

/* Tasks [from, to) of all products, one product after the other. */
static void few_tasks(const plan *job, int from, int to, int worker)
{
    for (const hsc__linear *p = job->products; from < to; p++) {
        int n = tasks_of(job, p), step = step_of(job, p);
        if (from < n) {
            int o = from * step, end = (to < n ? to : n) * step;
            few_outputs(job, p, o, (end < p->w->n_out ? end : p->w->n_out) - o, hsc__exec_scratch(job->exec, worker));
        }
        from = from < n ? 0 : from - n;
        to -= n;
    }
}

/* Takes tasks of a lane: its owner a part of what is left from the front, fewer and fewer so that all threads end
 * together, another half of that from the back, unless so few are left that fetching them anew takes longer than
 * waiting. False when there is nothing to take. */
static bool take_tasks(const plan *job, lane *l, bool own, int *from, int *to)
{
    int most = job->n_rows == 1 ? PANEL_FLOATS / WIDE_UNIT : 1, least = own || job->n_rows > 1 ? 1 : MIN_STOLEN;
    uint64_t left = atomic_load_explicit(&l->left, memory_order_relaxed), rest;
    do {
        *from = (int)(left >> 32);
        *to = (int)(uint32_t)left;
        if (*to - *from < least) return false;
        int n = clamp((*to - *from) / (own ? SHARES : 2), 1, most);
        if (own) *to = *from + n;
        else *from = *to - n;
        rest = own ? left + ((uint64_t)n << 32) : left - (uint64_t)n;
    } while (!atomic_compare_exchange_weak_explicit(&l->left, &left, rest, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void run_lanes(void *context, size_t task, int worker)
{
    const plan *job = context;
    for (int i = 0; i < job->n_lanes; i++) {
        int from, to;
        while (take_tasks(job, &job->lanes[((int)task + i) % job->n_lanes], i == 0, &from, &to))
            few_tasks(job, from, to, worker);
    }
}

static void run_few(plan *job, int n_tasks)
{
    lane lanes[MAX_LANES];
    int n = job->exec->n_threads < MAX_LANES ? job->exec->n_threads : MAX_LANES;
    for (int i = 0; i < n; i++) {
        uint64_t from = (uint64_t)n_tasks * (uint64_t)i / (uint64_t)n,
                 to = (uint64_t)n_tasks * (uint64_t)(i + 1) / (uint64_t)n;
        atomic_init(&lanes[i].left, from << 32 | to);
    }
    job->lanes = lanes;
    job->n_lanes = n;
    hsc__parallel_for(job->exec->n_threads, (size_t)n, run_lanes, job);
}

/* Rows of x that a conversion task takes. */
enum { CONVERT_ROWS = 16 };

static void convert_rows(void *context, size_t task, int worker)
{
    (void)worker;
    const plan *job = context;
    const hsc__linear *p = job->products;
    const hsc__kernels *k = job->exec->kernels;
    int64_t n_in = p->w->n_in;
    int end = (int)(task + 1) * CONVERT_ROWS < job->n_rows ? (int)(task + 1) * CONVERT_ROWS : job->n_rows;
    for (int r = (int)task * CONVERT_ROWS; r < end; r++) {
        const float *x = p->x + (size_t)r * p->x_stride;
        if (job->x16) {
            k->round_bf16(x, n_in, job->x16 + (size_t)r * job->x16_stride);
            if (n_in % 2) job->x16[(size_t)r * job->x16_stride + (size_t)n_in] = 0;
        }
        if (job->x8.q)
            k->quantise_x(x, n_in, (int8_t *)(uintptr_t)job->x8.q + (size_t)r * job->x8.q_stride,
                          (hsc__x8_group *)(uintptr_t)job->x8.group + (size_t)r * job->x8.group_stride);
    }
}

/* Brings x into the form that the compute kind reads; no product needs both forms. */
static void convert_x(plan *job)
{
    size_t n_in = (size_t)job->products->w->n_in, n_rows = (size_t)job->n_rows;
    bool q8 = false;
    for (int i = 0; i < job->n_products; i++) q8 |= kind_of(job, job->products[i].w) == HSC_COMPUTE_Q8;
    if (job->exec->compute == HSC_COMPUTE_BF16) {
        job->x16 = job->exec->converted;
        job->x16_stride = n_in + n_in % 2;
    } else if (q8) {
        const hsc__x8_group *group = job->exec->converted;
        size_t groups = n_in / HSC__Q8_GROUP;
        job->x8 = (hsc__x8){(const int8_t *)(group + n_rows * groups), group, n_in, groups};
    } else {
        return;
    }
    hsc__parallel_for(job->exec->n_threads, (n_rows + CONVERT_ROWS - 1) / CONVERT_ROWS, convert_rows, job);
}

static int few_limit(const hsc__exec *exec)
{
    switch (exec->compute) {
    case HSC_COMPUTE_BF16: return exec->kernels->few_rows_bf16;
    case HSC_COMPUTE_Q8: return exec->kernels->few_rows_q8;
    default: return exec->kernels->few_rows;
    }
}

void hsc__linear_forward(const hsc__exec *exec, const hsc__linear *products, int n_products, int n_rows)
{
    if (n_rows <= 0) return;
    plan job = {.exec = exec, .products = products, .n_products = n_products, .n_rows = n_rows, .n_splits = 1};
    job.few = n_rows <= few_limit(exec);
    convert_x(&job);
    int n_tasks = 0, n_outs = 0;
    for (int i = 0; i < n_products; i++) n_outs += products[i].w->n_out;
    job.few_step = clamp(n_outs / (TASKS * exec->n_threads) / 16 * 16, MIN_STEP, MAX_STEP);
    for (int i = 0; i < n_products; i++) n_tasks += tasks_of(&job, &products[i]);
    if (job.few) {
        run_few(&job, n_tasks);
        return;
    }
    while (n_tasks * job.n_splits < 2 * exec->n_threads && n_rows / (job.n_splits + 1) >= MIN_SPLIT_ROWS)
        job.n_splits++;
    hsc__parallel_for(exec->n_threads, (size_t)n_tasks * (size_t)job.n_splits, run_task, &job);
}
