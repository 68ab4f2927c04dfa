/*
 * few_t: a product of few rows straight from a mapped weight [n_in][n_out]. Outputs already lie side by side, so
 * weights go from memory into multiply-adds. A strip of some values of k is read across up to WIDE outputs before the
 * next one: memory is read in long runs, fetched ahead of its use; sums wait in the first-level cache. The bits are
 * those of pack_t and gemm.
 */
#ifndef HSC_KERNELS_SIMD_FEW_T_H
#define HSC_KERNELS_SIMD_FEW_T_H

#include "kernels/simd/fetch.h"
#include "kernels/simd/load.h"

enum {
    X_STRIDE = HSC__K_CHUNK + 16, /* of the copy of x: not a multiple that makes rows share cache sets */
    MOST_ROWS = 64,
    SUB = 32,
    ONE_SUB = 4, /* of one row: so short a strip reads memory almost in the order in which it lies */
    ONE_AHEAD = 32,
    ONE_WIDE = 4096,
    WIDE = 512,
    NARROW = 128, /* with so many rows that wide sums would leave the cache */
};

/* A strip of weights for some rows. */
typedef struct strip {
    const unsigned char *w; /* the first k, the first output */
    size_t row_bytes;
    int n_k;
    bool is_first;  /* sums start from 0 */
    const float *x; /* [rows][X_STRIDE] */
    float *sum;     /* [rows][WIDE] */
    fetches *ahead; /* NULL for the later rows of a strip */
} strip;

/* rows x vecs sums in registers; `tail` says which lanes of the only vector exist when is_cut. */
INLINE void strip_tile(const int rows, const int vecs, hsc_dtype dtype, const bool is_cut, vpart tail, const strip *s,
                       int column)
{
    const size_t size = (size_t)hsc__dtype_block_bytes(dtype);
    vf sum[MR][8];
    float *to = s->sum + column;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) sum[r][v] = s->is_first ? vf_zero() : vf_load(to + r * WIDE + v * VL);
    }
    const unsigned char *w = s->w + (size_t)column * size;
    fetches f = s->ahead ? *s->ahead : fetches_of(NULL, 0, 1, 0, 0);
    f.lines = vecs * (int)size > 4 ? vecs * (int)size * VL / 64 : 1;
    for (int k = 0; k < s->n_k; k++, w += s->row_bytes) {
        if (s->ahead) fetch_next(&f);
        vf value[8];
        UNROLL
        for (int v = 0; v < vecs; v++) {
            const unsigned char *p = w + (size_t)v * VL * size;
            value[v] = is_cut ? load_values_part(dtype, p, tail) : load_values(dtype, p);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf a = vf_set1(s->x[r * X_STRIDE + k]);
            UNROLL
            for (int v = 0; v < vecs; v++) sum[r][v] = vf_fma(a, value[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) vf_store(to + r * WIDE + v * VL, sum[r][v]);
    }
    if (s->ahead) *s->ahead = f;
}

/* All columns of the strip: vecs vectors at a time, then one by one, then what is left. */
INLINE void strip_rows(const int rows, const int vecs, hsc_dtype dtype, const strip *s, int n_out)
{
    int c = 0;
    for (; c + vecs * VL <= n_out; c += vecs * VL) strip_tile(rows, vecs, dtype, false, part(0), s, c);
    for (; c + VL <= n_out; c += VL) strip_tile(rows, 1, dtype, false, part(0), s, c);
    if (c < n_out) strip_tile(rows, 1, dtype, true, part(n_out - c), s, c);
}

typedef void (*strip_fn)(const strip *s, int n_out);

#define STRIP(rows, vecs, type)                                                                                        \
    static void strip_##rows##_##type(const strip *s, int n_out)                                                       \
    {                                                                                                                  \
        strip_rows(rows, vecs, HSC_##type, s, n_out);                                                                  \
    }
#define STRIPS(rows, vecs)                                                                                             \
    STRIP(rows, vecs, F32)                                                                                             \
    STRIP(rows, vecs, F16)                                                                                             \
    STRIP(rows, vecs, BF16)                                                                                            \
    STRIP(rows, vecs, F64)
#define STRIP_ROW(rows)                                                                                                \
    {                                                                                                                  \
        [HSC_F32] = strip_##rows##_F32, [HSC_F16] = strip_##rows##_F16, [HSC_BF16] = strip_##rows##_BF16,              \
        [HSC_F64] = strip_##rows##_F64                                                                                 \
    }

/* Numbers of rows that have code of their own, with the vectors that registers then allow; others take the next one. */
#if TILE_ROWS > 6
STRIPS(1, 8)
STRIPS(2, 8)
STRIPS(4, 4)
STRIPS(6, 4)
STRIPS(8, 2)
STRIPS(10, 2)
STRIPS(12, 2)
#else
STRIPS(1, 8)
STRIPS(2, 4)
STRIPS(4, 2)
STRIPS(6, 2)
#endif

static const strip_fn strips[][HSC_F64 + 1] = {
    STRIP_ROW(1), STRIP_ROW(2),  STRIP_ROW(4),  STRIP_ROW(6),
#if TILE_ROWS > 6
    STRIP_ROW(8), STRIP_ROW(10), STRIP_ROW(12),
#endif
};

INLINE int strip_index(int rows)
{
    return rows == 1 ? 0 : (rows + 1) / 2;
}

static void add_chunk(bool is_first, const float *sum, int n_rows, int n_out, float *y, size_t y_stride)
{
    for (int r = 0; r < n_rows; r++, sum += WIDE, y += y_stride) {
        for (int c = 0; c < n_out; c++) y[c] = is_first ? sum[c] : y[c] + sum[c];
    }
}

/* At most WIDE outputs and MOST_ROWS rows of a weight. */
typedef struct columns {
    hsc_dtype dtype;
    const unsigned char *w;
    size_t row_bytes;
    int n_out, n_rows;
    int64_t n_in;
} columns;

static void multiply_chunk(const columns *c, int64_t k0, int n_k, const float *x, float *sum)
{
    int run = (int)((hsc__dtype_bytes(c->dtype, (size_t)c->n_out) + 63) / 64); /* lines of a row of weights */
    int sub = c->n_rows == 1 ? ONE_SUB : SUB; /* two rows are soon through with a strip */
    size_t distance = c->n_rows == 1 ? ONE_AHEAD : c->n_rows == 2 ? 2 * SUB : SUB;
    for (int k = 0; k < n_k; k += sub) {
        strip s = {.w = c->w + (size_t)(k0 + k) * c->row_bytes, .row_bytes = c->row_bytes, .is_first = k == 0};
        s.n_k = n_k - k < sub ? n_k - k : sub;
        fetches ahead = fetches_of(s.w + distance * c->row_bytes, 64, run, (ptrdiff_t)c->row_bytes, 0);
        for (int r = 0; r < c->n_rows; r += MR) {
            int rows = c->n_rows - r < MR ? c->n_rows - r : MR;
            s.x = x + (size_t)r * X_STRIDE + k;
            s.sum = sum + (size_t)r * WIDE;
            s.ahead = r == 0 && k0 + k + (int)distance < c->n_in ? &ahead : NULL;
            strips[strip_index(rows)][c->dtype](&s, c->n_out);
        }
    }
}

static void few_columns(const columns *c, const float *x, size_t x_stride, float *y, size_t y_stride)
{
    float copy[MOST_ROWS * X_STRIDE], sum[MOST_ROWS * WIDE];
    for (int64_t k0 = 0; k0 < c->n_in; k0 += HSC__K_CHUNK) {
        int n_k = c->n_in - k0 < HSC__K_CHUNK ? (int)(c->n_in - k0) : HSC__K_CHUNK;
        int r = 0;
        for (; r < c->n_rows; r++)
            memcpy(copy + r * X_STRIDE, x + (size_t)r * x_stride + k0, (size_t)n_k * sizeof *copy);
        if (r % 2 && r < MOST_ROWS) memset(copy + r * X_STRIDE, 0, (size_t)n_k * sizeof *copy);
        multiply_chunk(c, k0, n_k, copy, sum);
        add_chunk(k0 == 0, sum, c->n_rows, c->n_out, y, y_stride);
    }
}

void KERNEL(few_t)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                   size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    int wide = n_rows == 1 ? ONE_WIDE : n_rows <= MR ? WIDE : NARROW;
    for (int r = 0; r < n_rows; r += MOST_ROWS) {
        for (int o = 0; o < n_out; o += wide) {
            columns c = {.dtype = dtype, .row_bytes = row_bytes, .n_in = n_in};
            c.w = (const unsigned char *)w + hsc__dtype_bytes(dtype, (size_t)o);
            c.n_out = n_out - o < wide ? n_out - o : wide;
            c.n_rows = n_rows - r < MOST_ROWS ? n_rows - r : MOST_ROWS;
            few_columns(&c, x + (size_t)r * x_stride, x_stride, y + (size_t)r * y_stride + o, y_stride);
        }
    }
}

#endif
