/*
 * few and few_t: products of a few rows straight from the mapped weights, which are read once for all rows. A strip of
 * weights is unpacked into a piece of panel that stays in the first-level cache and is multiplied at once; sums go on
 * from strip to strip inside a chunk of HSC__K_CHUNK, and chunk sums are added in order: the same bits as pack and
 * gemm.
 */
#ifndef HSC_KERNELS_SIMD_FEW_H
#define HSC_KERNELS_SIMD_FEW_H

#include "base/dtype.h"

enum { STRIP = 64, FEW_MAX = 4 * MR };

/* Where the weights of outputs from `o` and values from k0 lie, by how they are stored. */
typedef struct weights {
    hsc_dtype dtype;
    const unsigned char *data;
    size_t row_bytes;
    bool by_input; /* [n_in][n_out] */
} weights;

static void unpack(const weights *w, int o, int cols, int64_t k0, int n, float *panel)
{
    if (w->by_input) {
        const unsigned char *from = w->data + (size_t)k0 * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o);
        KERNEL(pack_t)(w->dtype, from, w->row_bytes, cols, n, panel);
    } else {
        KERNEL(pack)(w->dtype, w->data + (size_t)o * w->row_bytes, w->row_bytes, cols, k0, n, panel);
    }
}

static void add_chunk(bool is_first, const float *sum, int n_rows, int n_cols, float *y, size_t y_stride)
{
    for (int r = 0; r < n_rows; r++, sum += NR, y += y_stride) {
        for (int c = 0; c < n_cols; c++) y[c] = is_first ? sum[c] : y[c] + sum[c];
    }
}

static void multiply(const weights *w, int n_out, int64_t n_in, const float *x, size_t x_stride, int n_rows, float *y,
                     size_t y_stride)
{
    float panel[STRIP * NR], sum[FEW_MAX * NR];
    for (int o = 0; o < n_out; o += NR) {
        int cols = n_out - o < NR ? n_out - o : NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            for (int k = 0; k < n_k; k += STRIP) {
                int n = n_k - k < STRIP ? n_k - k : STRIP;
                unpack(w, o, cols, k0 + k, n, panel);
                KERNEL(gemm)
                (k ? HSC__GEMM_CONTINUE : HSC__GEMM_START, n_rows, NR, n, x + k0 + k, x_stride, panel, NR, sum, NR);
            }
            add_chunk(k0 == 0, sum, n_rows, cols, y + o, y_stride);
        }
    }
}

static void multiply_all(const weights *w, int n_out, int64_t n_in, const float *x, size_t x_stride, int n_rows,
                         float *y, size_t y_stride)
{
    for (int r = 0; r < n_rows; r += FEW_MAX) {
        int rows = n_rows - r < FEW_MAX ? n_rows - r : FEW_MAX;
        multiply(w, n_out, n_in, x + (size_t)r * x_stride, x_stride, rows, y + (size_t)r * y_stride, y_stride);
    }
}

void KERNEL(few)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                 size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    multiply_all(&(weights){dtype, w, row_bytes, false}, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void KERNEL(few_t)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                   size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    multiply_all(&(weights){dtype, w, row_bytes, true}, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

#endif
