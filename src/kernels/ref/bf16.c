/* The bf16 compute kind in plain C: inputs rounded to bfloat16, products and sums in float32, pairs in rising k. */
#include "base/dtype.h"
#include "kernels/half.h"
#include "kernels/ref/ref.h"

#include <string.h>

void hsc__ref_round_bf16(const float *x, int64_t n, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = hsc__f32_to_bf16(x[i]);
}

/* Pairs up the rows of a float32 panel. */
static void pair_up(const float *wide, int n_k, uint32_t *panel)
{
    for (int k = 0; k < n_k; k += 2) {
        for (int o = 0; o < HSC__REF_NR; o++) {
            uint32_t low = hsc__f32_to_bf16(wide[(size_t)k * HSC__REF_NR + (size_t)o]), high = 0;
            if (k + 1 < n_k) high = hsc__f32_to_bf16(wide[(size_t)(k + 1) * HSC__REF_NR + (size_t)o]);
            panel[(size_t)(k / 2) * HSC__REF_NR + (size_t)o] = high << 16 | low;
        }
    }
}

void hsc__ref_pack_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                        uint32_t *panel)
{
    float wide[HSC__K_CHUNK * HSC__REF_NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        hsc__ref_pack(dtype, w, row_bytes, n_out, k0 + done, n, wide);
        pair_up(wide, n, panel + (size_t)(done / 2) * HSC__REF_NR);
    }
}

void hsc__ref_pack_t_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, uint32_t *panel)
{
    float wide[HSC__K_CHUNK * HSC__REF_NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        hsc__ref_pack_t(dtype, (const char *)w + (size_t)done * row_bytes, row_bytes, n_out, n, wide);
        pair_up(wide, n, panel + (size_t)(done / 2) * HSC__REF_NR);
    }
}

static void gemm_row(hsc__gemm_mode mode, int n_cols, int n_k, const uint16_t *x, const uint32_t *panel, float *y)
{
    float sum[HSC__REF_NR] = {0};
    if (mode == HSC__GEMM_CONTINUE) memcpy(sum, y, (size_t)n_cols * sizeof *y);
    for (int k = 0; k < n_k; k += 2) {
        float low = hsc__bf16_to_f32(x[k]), high = k + 1 < n_k ? hsc__bf16_to_f32(x[k + 1]) : 0;
        const uint32_t *row = panel + (size_t)(k / 2) * HSC__REF_NR;
        for (int c = 0; c < n_cols; c++) {
            sum[c] += low * hsc__bits_to_f32(row[c] << 16);
            sum[c] += high * hsc__bits_to_f32(row[c] & 0xFFFF0000u);
        }
    }
    for (int c = 0; c < n_cols; c++) y[c] = mode == HSC__GEMM_ADD ? y[c] + sum[c] : sum[c];
}

void hsc__ref_gemm_bf16(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const uint16_t *x, size_t x_stride,
                        const uint32_t *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    for (int r = 0; r < n_rows; r++, y += y_stride) {
        gemm_row(mode, n_cols, n_k, x + (size_t)r * x_stride, panel, y);
        if (end) hsc__ref_end_row(end, r, 0, n_cols, y);
    }
}

/* The few kernels of this level are the panels, one after the other. */
static void few(hsc_dtype dtype, bool transposed, const char *w, size_t row_bytes, int n_out, int64_t n_in,
                const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    uint32_t panel[HSC__K_CHUNK / 2 * HSC__REF_NR];
    for (int o = 0; o < n_out; o += HSC__REF_NR) {
        int n = n_out - o < HSC__REF_NR ? n_out - o : HSC__REF_NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            if (transposed)
                hsc__ref_pack_t_bf16(dtype, w + (size_t)k0 * row_bytes + hsc__dtype_bytes(dtype, (size_t)o), row_bytes,
                                     n, n_k, panel);
            else hsc__ref_pack_bf16(dtype, w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, panel);
            hsc__ref_gemm_bf16(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x + k0, x_stride, panel, y + o,
                               y_stride, NULL);
        }
    }
}

void hsc__ref_few_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                       size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    few(dtype, false, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void hsc__ref_few_t_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                         size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    few(dtype, true, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}
