/*
 * Matrix products in plain C: the order of every sum is the contract of kernels.h, written out. The oracle of the other
 * instruction sets and the fallback where there is none.
 */
#include "base/dtype.h"
#include "kernels/ref/ref.h"

#include <string.h>

void hsc__ref_pack(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, float *panel)
{
    float row[HSC__K_CHUNK];
    size_t start = hsc__dtype_bytes(dtype, (size_t)k0);
    if (n_out < HSC__REF_NR) memset(panel, 0, (size_t)n_k * HSC__REF_NR * sizeof *panel);
    for (int o = 0; o < n_out; o++) {
        const char *src = (const char *)w + (size_t)o * row_bytes + start;
        for (int done = 0; done < n_k; done += HSC__K_CHUNK) {
            int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
            hsc__ref_dequantise(dtype, src + hsc__dtype_bytes(dtype, (size_t)done), n, row);
            for (int k = 0; k < n; k++) panel[(size_t)(done + k) * HSC__REF_NR + o] = row[k];
        }
    }
}

void hsc__ref_pack_t(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, float *panel)
{
    for (int k = 0; k < n_k; k++) {
        float *row = panel + (size_t)k * HSC__REF_NR;
        hsc__ref_dequantise(dtype, (const char *)w + (size_t)k * row_bytes, n_out, row);
        for (int o = n_out; o < HSC__REF_NR; o++) row[o] = 0;
    }
}

/* A tile of at most HSC__REF_NR columns of one row. */
static void gemm_row(hsc__gemm_mode mode, int n_cols, int n_k, const float *x, const float *panel, size_t panel_stride,
                     float *y)
{
    float sum[HSC__REF_NR] = {0};
    if (mode == HSC__GEMM_CONTINUE) memcpy(sum, y, (size_t)n_cols * sizeof *y);
    for (int k = 0; k < n_k; k++) {
        const float *row = panel + (size_t)k * panel_stride;
        for (int c = 0; c < n_cols; c++) sum[c] += x[k] * row[c];
    }
    for (int c = 0; c < n_cols; c++) y[c] = mode == HSC__GEMM_ADD ? y[c] + sum[c] : sum[c];
}

void hsc__ref_end_row(const hsc__ending *end, int row, int col, int n_cols, const float *sums)
{
    const float *residual = end->residual ? end->residual + (size_t)row * end->residual_stride + col : NULL;
    float *y = end->y + (size_t)row * end->y_stride + col;
    for (int c = 0; c < n_cols; c++) {
        float sum = end->bias ? sums[c] + end->bias[col + c] : sums[c];
        y[c] = residual ? residual[c] + sum : sum;
    }
}

void hsc__ref_gemm(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride,
                   const float *panel, size_t panel_stride, float *y, size_t y_stride, const hsc__ending *end)
{
    for (int r = 0; r < n_rows; r++) {
        for (int c = 0; c < n_cols; c += HSC__REF_NR) {
            int n = n_cols - c < HSC__REF_NR ? n_cols - c : HSC__REF_NR;
            float *sums = y + (size_t)r * y_stride + c;
            gemm_row(mode, n, n_k, x + (size_t)r * x_stride, panel + c, panel_stride, sums);
            if (end) hsc__ref_end_row(end, r, c, n, sums);
        }
    }
}

void hsc__ref_few(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                  size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    float row[HSC__K_CHUNK];
    for (int o = 0; o < n_out; o++) {
        const char *src = (const char *)w + (size_t)o * row_bytes;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            hsc__ref_dequantise(dtype, src + hsc__dtype_bytes(dtype, (size_t)k0), n_k, row);
            for (int r = 0; r < n_rows; r++) {
                float sum = 0, *out = y + (size_t)r * y_stride + o;
                for (int k = 0; k < n_k; k++) sum += x[(size_t)r * x_stride + (size_t)(k0 + k)] * row[k];
                *out = k0 ? *out + sum : sum;
            }
        }
    }
}

void hsc__ref_few_t(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x,
                    size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    float panel[HSC__K_CHUNK * HSC__REF_NR];
    for (int o = 0; o < n_out; o += HSC__REF_NR) {
        int n = n_out - o < HSC__REF_NR ? n_out - o : HSC__REF_NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            const char *src = (const char *)w + (size_t)k0 * row_bytes + hsc__dtype_bytes(dtype, (size_t)o);
            hsc__ref_pack_t(dtype, src, row_bytes, n, n_k, panel);
            hsc__ref_gemm(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x + k0, x_stride, panel, HSC__REF_NR,
                          y + o, y_stride, NULL);
        }
    }
}
