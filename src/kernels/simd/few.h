/*
 * few: a product of few rows straight from a mapped weight [n_out][n_in], which is read once for all rows.
 *
 * VL weight rows are transposed in registers and multiplied at once: outputs in lanes, k rising, so the bits are those
 * of pack and gemm. The transpose runs one step ahead of the multiply-adds, and memory one group of rows ahead of both,
 * so that loads, shuffles and arithmetic overlap. Chunks of HSC__K_CHUNK are the outer loop: their part of x stays in
 * the first-level cache, side by side whatever stride x has.
 */
#ifndef HSC_KERNELS_SIMD_FEW_H
#define HSC_KERNELS_SIMD_FEW_H

#include "kernels/simd/fetch.h"
#include "kernels/simd/unpack.h"

enum {
    X_STRIDE = HSC__K_CHUNK + 16, /* of the copy of x: not a multiple that makes rows share cache sets */
    STEP = 8 * VL,                /* outputs that take a chunk before the next chunk begins */
};

/* A group of VL outputs over one chunk. */
typedef struct group {
    const unsigned char *rows[VL]; /* at the chunk's first value */
    size_t ahead;                  /* bytes from a row to what will be read after this group */
    const unsigned char *line;     /* of one row in order: the first line of that */
    int n_k;
    const float *x; /* [rows][X_STRIDE] */
    vf *sum;        /* [rows], set */
} group;

/* Multiplies `rows` rows by the weights of one k. */
INLINE void take(const int rows, vf w, const float *x, vf sum[MR])
{
    UNROLL
    for (int r = 0; r < rows; r++) sum[r] = vf_fma(vf_set1(x[r * X_STRIDE]), w, sum[r]);
}

INLINE void start_sums(const int rows, vf sum[MR])
{
    UNROLL
    for (int r = 0; r < rows; r++) sum[r] = vf_zero();
}

INLINE void end_sums(const int rows, const vf sum[MR], vf *out)
{
    UNROLL
    for (int r = 0; r < rows; r++) out[r] = sum[r];
}

/* The next four values of k after those in `now`: the next quarter of the block, or a new block of VL values. */
INLINE void prepare(hsc_dtype dtype, const group *g, int q, size_t offset, vf t[VL], vf next[4])
{
    if (q == 0) {
        UNROLL
        for (int i = 0; i < VL; i++) t[i] = load_values(dtype, g->rows[i] + offset);
        vf_regroup(t);
    }
    vf_quad(t + q, next);
}

/* Of one row in order: a chunk's sum is put aside when the next one begins at k. */
INLINE void fold(int k, vf *sum, vf *total)
{
    if (k == 0 || k % HSC__K_CHUNK != 0) return;
    *total = k == HSC__K_CHUNK ? *sum : vf_add(*total, *sum);
    *sum = vf_zero();
}

/* in_order: one row takes all of k, and memory is read group by group, so that what comes next is fetched line by line.
 */
INLINE void plain_blocks(const int rows, const bool in_order, hsc_dtype dtype, const group *g, int n_k, vf sum[MR],
                         vf *total)
{
    const size_t size = (size_t)hsc__dtype_block_bytes(dtype);
    const unsigned char *line = g->line;
    vf t[VL], now[4], next[4];
    prepare(dtype, g, 0, 0, t, now);
    for (int k = 0; k < n_k; k += VL) {
        size_t last = (size_t)(k + VL < n_k ? k + VL : k) * size;
        if (in_order) {
            fold(k, sum, total);
            fetch_run(line, (int)(VL * VL * size / 64));
            line += VL * VL * size;
        }
        UNROLL
        for (int i = 0; i < VL && !in_order; i++) {
            if ((size_t)k * size % 64 < VL * size) fetch_far(g->rows[i] + (size_t)k * size + g->ahead);
        }
        UNROLL
        for (int q = 0; q < VL; q += 4) {
            prepare(dtype, g, (q + 4) % VL, last, t, next);
            UNROLL
            for (int i = 0; i < 4; i++) take(rows, now[i], g->x + k + q + i, sum);
            UNROLL
            for (int i = 0; i < 4; i++) now[i] = next[i];
        }
    }
}

INLINE void plain_group(const int rows, const bool in_order, hsc_dtype dtype, const group *g)
{
    vf sum[MR], total = vf_zero();
    start_sums(rows, sum);
    int whole = g->n_k / VL * VL;
    if (whole > 0) plain_blocks(rows, in_order, dtype, g, whole, sum, &total);
    if (whole < g->n_k) {
        const size_t offset = (size_t)whole * (size_t)hsc__dtype_block_bytes(dtype);
        float rest[VL * VL];
        vf t[VL];
        for (int i = 0; i < VL; i++) t[i] = load_values_part(dtype, g->rows[i] + offset, part(g->n_k - whole));
        vf_transpose(t);
        for (int i = 0; i < VL; i++) vf_store(rest + i * VL, t[i]);
        if (in_order) fold(whole, sum, &total);
        for (int k = whole; k < g->n_k; k++) take(rows, vf_load(rest + (k - whole) * VL), g->x + k, sum);
    }
    if (in_order && g->n_k > HSC__K_CHUNK) sum[0] = vf_add(total, sum[0]);
    end_sums(rows, sum, g->sum);
}

/* Two groups of a quantised type side by side: one alone would wait for its own sums. */
INLINE void block_group(const int rows, const bool in_order, hsc_dtype dtype, const group *g)
{
    (void)in_order;
    const size_t bytes = (size_t)hsc__dtype_block_bytes(dtype);
    vf sum[2][MR];
    start_sums(rows, sum[0]);
    start_sums(rows, sum[1]);
    for (int k = 0; k < g->n_k; k += 32) {
        size_t offset = (size_t)(k / 32) * bytes;
        for (int i = 0; i < VL && offset % 64 < bytes; i++) {
            fetch_far(g[0].rows[i] + offset + g[0].ahead);
            fetch_far(g[1].rows[i] + offset + g[1].ahead);
        }
        block first = load_block(dtype, g[0].rows, offset), second = load_block(dtype, g[1].rows, offset);
        UNROLL_32
        for (size_t i = 0; i < 32; i++) {
            take(rows, block_value(dtype, &first, i), g->x + (size_t)k + i, sum[0]);
            take(rows, block_value(dtype, &second, i), g->x + (size_t)k + i, sum[1]);
        }
    }
    end_sums(rows, sum[0], g[0].sum);
    end_sums(rows, sum[1], g[1].sum);
}

typedef void (*group_fn)(const group *g);

#define GROUP(rows, kind, type)                                                                                        \
    static void group_##rows##_##type(const group *g)                                                                  \
    {                                                                                                                  \
        kind##_group(rows, false, HSC_##type, g);                                                                      \
    }
#define GROUPS(rows)                                                                                                   \
    GROUP(rows, plain, F32)                                                                                            \
    GROUP(rows, plain, F16)                                                                                            \
    GROUP(rows, plain, BF16)
#define GROUP_ROW(rows) [HSC_F32] = group_##rows##_F32, [HSC_F16] = group_##rows##_F16, [HSC_BF16] = group_##rows##_BF16
/* One row, and two, multiply quantised values as they are unpacked; more rows share a panel. */
#define BLOCK_GROUPS(rows)                                                                                             \
    GROUP(rows, block, Q4_0)                                                                                           \
    GROUP(rows, block, Q4_1)                                                                                           \
    GROUP(rows, block, Q5_0)                                                                                           \
    GROUP(rows, block, Q5_1)                                                                                           \
    GROUP(rows, block, Q8_0)
#define BLOCK_GROUP_ROW(rows)                                                                                          \
    [HSC_Q4_0] = group_##rows##_Q4_0, [HSC_Q4_1] = group_##rows##_Q4_1, [HSC_Q5_0] = group_##rows##_Q5_0,              \
    [HSC_Q5_1] = group_##rows##_Q5_1, [HSC_Q8_0] = group_##rows##_Q8_0

/* Numbers of rows that have code of their own; others take the next one, with rows of zeros that nobody reads. */
GROUPS(1)
GROUPS(2)
GROUPS(4)
GROUPS(6)
BLOCK_GROUPS(1)
BLOCK_GROUPS(2)
#if TILE_ROWS > 6
GROUPS(8)
GROUPS(10)
GROUPS(12)
#endif

static const group_fn groups[][HSC_N_DTYPES] = {
    {GROUP_ROW(1), BLOCK_GROUP_ROW(1)},
    {GROUP_ROW(2), BLOCK_GROUP_ROW(2)},
    {GROUP_ROW(4)},
    {GROUP_ROW(6)},
#if TILE_ROWS > 6
    {GROUP_ROW(8)},
    {GROUP_ROW(10)},
    {GROUP_ROW(12)},
#endif
};

INLINE int group_index(int rows)
{
    return rows == 1 ? 0 : (rows + 1) / 2;
}

static void store_sums(const vf *sum, int rows, int n_out, bool is_first, float *y, size_t y_stride)
{
    vpart lanes = part(n_out);
    for (int r = 0; r < rows; r++, y += y_stride) {
        vf v = sum[r];
        if (n_out >= VL) {
            vf_store(y, is_first ? v : vf_add(vf_load(y), v));
        } else {
            vf_store_part(y, is_first ? v : vf_add(vf_load_part(y, lanes), v), lanes);
        }
    }
}

/* One chunk of a weight for all rows. */
typedef struct chunk {
    hsc_dtype dtype;
    const unsigned char *w;  /* the first output's values of the chunk */
    size_t row_bytes, after; /* bytes from one output to the next; to the first of what comes after the chunk */
    int n_out, n_k, n_rows;
    bool is_first;
    float *y;
    size_t y_stride;
} chunk;

/* `next`: how many outputs further the group lies that follows. */
static group find_group(const chunk *c, const float *x, int o, int next)
{
    group g = {.n_k = c->n_k, .x = x};
    find_rows(g.rows, c->w + (size_t)o * c->row_bytes, c->row_bytes, c->n_out - o);
    g.ahead = c->n_out - o > next ? (size_t)next * c->row_bytes : c->after - (size_t)o * c->row_bytes;
    return g;
}

/* The code for a number of rows of a type, or NULL. */
static group_fn direct(hsc_dtype dtype, int n_rows)
{
    return n_rows > MR ? NULL : groups[group_index(n_rows)][dtype];
}

static void one_group(const chunk *c, const float *x, int o)
{
    vf sum[MR];
    group g = find_group(c, x, o, VL);
    g.sum = sum;
    direct(c->dtype, c->n_rows)(&g);
    store_sums(sum, c->n_rows, c->n_out - o, c->is_first, c->y + o, c->y_stride);
}

/* Twice as many outputs of a quantised type for one or two rows. */
static void two_groups(const chunk *c, const float *x, int o)
{
    vf sum[2][MR];
    bool has_second = o + VL < c->n_out;
    group g[2] = {find_group(c, x, o, 2 * VL), find_group(c, x, has_second ? o + VL : o, 2 * VL)};
    for (int i = 0; i < 2; i++) g[i].sum = sum[i];
    direct(c->dtype, c->n_rows)(g);
    for (int i = 0; i < 1 + has_second; i++)
        store_sums(sum[i], c->n_rows, c->n_out - o - i * VL, c->is_first, c->y + o + i * VL, c->y_stride);
}

/* Rows of zeros fill x up to the next number of rows that has code. */
static void copy_x(const float *x, size_t x_stride, int n_rows, int n_k, float copy[MR * X_STRIDE])
{
    for (int r = 0; r < n_rows; r++) memcpy(copy + r * X_STRIDE, x + (size_t)r * x_stride, (size_t)n_k * sizeof *copy);
    if (n_rows % 2 && n_rows < MR) memset(copy + n_rows * X_STRIDE, 0, (size_t)n_k * sizeof *copy);
}

static void few_direct(chunk *c, int64_t k0, const float *x, size_t x_stride)
{
    float copy[MR * X_STRIDE];
    copy_x(x + k0, x_stride, c->n_rows, c->n_k, copy);
    if (hsc__dtype_block(c->dtype) > 1) {
        for (int o = 0; o < c->n_out; o += 2 * VL) two_groups(c, copy, o);
    } else {
        for (int o = 0; o < c->n_out; o += VL) one_group(c, copy, o);
    }
}

/* Columns of the panels of many rows: as few as keep the multiply-adds busy, so that unpacking stays near them. */
enum { FEW_COLS = TILE_ROWS > 6 ? VL : NR };

/* More rows: panel by panel, the next one's weights fetched meanwhile. */
static void few_panels(const chunk *c, int64_t k0, const float *x, size_t x_stride)
{
    float panel[HSC__K_CHUNK * FEW_COLS];
    size_t n_bytes = hsc__dtype_bytes(c->dtype, (size_t)c->n_k);
    int steps = ((c->n_rows + MR - 1) / MR) * ((c->n_k + FETCH_STEP - 1) / FETCH_STEP);
    int lines = FEW_COLS * ((int)(n_bytes + 63) / 64);
    for (int o = 0; o < c->n_out; o += FEW_COLS) {
        int n = c->n_out - o < FEW_COLS ? c->n_out - o : FEW_COLS;
        const unsigned char *w = c->w + (size_t)o * c->row_bytes, *rows[VL];
        size_t next = o + FEW_COLS < c->n_out ? FEW_COLS * c->row_bytes : c->after - (size_t)o * c->row_bytes;
        fetches ahead = fetches_of(w + next, (ptrdiff_t)c->row_bytes, FEW_COLS, 64, (lines + steps - 1) / steps);
        for (int i = 0; i < n; i += VL) {
            find_rows(rows, w + (size_t)i * c->row_bytes, c->row_bytes, n - i);
            unpack(c->dtype, rows, 0, c->n_k, FEW_COLS, panel + i);
        }
        KERNEL(gemm_ahead)
        (c->is_first ? HSC__GEMM_START : HSC__GEMM_ADD, c->n_rows, n, c->n_k, x + k0, x_stride, panel, FEW_COLS,
         c->y + o, c->y_stride, &ahead);
    }
}

/* Sets a chunk from k0 on; returns the bytes from it to the next. */
static size_t find_chunk(chunk *c, int64_t n_in, int64_t k0)
{
    c->n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
    c->is_first = k0 == 0;
    size_t bytes = hsc__dtype_bytes(c->dtype, (size_t)c->n_k);
    /* After the last chunk come the next outputs; `after` counts from this chunk of the first output. */
    c->after = k0 + c->n_k < n_in ? bytes : (size_t)c->n_out * c->row_bytes - hsc__dtype_bytes(c->dtype, (size_t)k0);
    return bytes;
}

/* All chunks of STEP outputs or fewer. */
static void few_outputs(chunk *c, int64_t n_in, const float *x, size_t x_stride)
{
    for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
        size_t bytes = find_chunk(c, n_in, k0);
        if (direct(c->dtype, c->n_rows)) few_direct(c, k0, x, x_stride);
        else few_panels(c, k0, x, x_stride);
        c->w += bytes;
    }
}

/* VL outputs of one row: weights are read, and fetched ahead, in the order in which they lie. */
INLINE vf one_row(hsc_dtype dtype, const unsigned char *w, size_t row_bytes, int n_out, int64_t n_in, const float *x)
{
    vf sum;
    group g = {.x = x, .sum = &sum, .n_k = (int)n_in, .line = w + VL * row_bytes};
    find_rows(g.rows, w, row_bytes, n_out);
    plain_group(1, true, dtype, &g);
    return sum;
}

typedef void (*one_row_fn)(const unsigned char *w, size_t row_bytes, int n_out, int64_t n_in, const float *x, float *y);

#define ONE_ROW(type)                                                                                                  \
    static void one_row_##type(const unsigned char *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,      \
                               float *y)                                                                               \
    {                                                                                                                  \
        for (int o = 0; o < n_out; o += VL, w += VL * row_bytes)                                                       \
            vf_store_part(y + o, one_row(HSC_##type, w, row_bytes, n_out - o, n_in, x), part(n_out - o));              \
    }
ONE_ROW(F32)
ONE_ROW(F16)
ONE_ROW(BF16)

static const one_row_fn one_rows[HSC_N_DTYPES] = {
    [HSC_F32] = one_row_F32, [HSC_F16] = one_row_F16, [HSC_BF16] = one_row_BF16};

void KERNEL(few)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                 size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    if (n_rows <= 0) return;
    if (n_rows == 1 && one_rows[dtype]) {
        one_rows[dtype](w, row_bytes, n_out, n_in, x, y);
        return;
    }
    for (int o = 0; o < n_out; o += STEP) {
        chunk c = {.dtype = dtype, .row_bytes = row_bytes, .n_rows = n_rows, .y = y + o, .y_stride = y_stride};
        c.w = (const unsigned char *)w + (size_t)o * row_bytes;
        c.n_out = n_out - o < STEP ? n_out - o : STEP;
        few_outputs(&c, n_in, x, x_stride);
    }
}

#endif
