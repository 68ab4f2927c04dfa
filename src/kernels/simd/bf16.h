/*
 * The bf16 compute kind on processors that multiply float32 only. A product of two bfloat16 values is exact in float32,
 * so gemm on values widened by a shift, fused or not, gives the reference's bits. Instructions that sum pairs of
 * bfloat16 products (Arm's BFDOT) are not used: they round sums to odd, and the kind's sums round to nearest.
 */
#ifndef HSC_KERNELS_SIMD_BF16_H
#define HSC_KERNELS_SIMD_BF16_H

#include "kernels/half.h"
#include "kernels/simd/ending.h"
#include "kernels/simd/few_bf16_panels.h"
#include "kernels/simd/load.h"

/* Rows of x that are widened at once, and the stride of their copy: its rows must not share cache sets. */
enum { BF16_ROWS = 2 * MR, BF16_STRIDE = HSC__K_CHUNK + 16 };

void KERNEL(round_bf16)(const float *x, int64_t n, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = hsc__f32_to_bf16(x[i]);
}

/* Words of two values: the one in the low half, and the one in the high half. */
INLINE vf low_of(vi pair)
{
    return vf_bits(vi_shl(pair, 16));
}

INLINE vf high_of(vi pair)
{
    return vf_bits(vi_and(pair, vi_set1((int)0xFFFF0000u)));
}

/* Rows of floats, [n_k][NR], become rows of pairs. */
static void pair_up(const float *wide, int n_k, uint32_t *panel)
{
    for (int k = 0; k < n_k; k += 2, wide += 2 * NR) {
        for (int o = 0; o < NR; o++) {
            uint32_t high = k + 1 < n_k ? hsc__f32_to_bf16(wide[NR + o]) : 0;
            *panel++ = high << 16 | hsc__f32_to_bf16(wide[o]);
        }
    }
}

/* Rows of bfloat16 lie as pairs already: 32-bit words, turned round. */
static void pack_pairs(const unsigned char *const rows[VL], size_t row_bytes, int n_k, uint32_t *panel)
{
    (void)row_bytes;
    for (int k = 0; k < n_k; k += 2 * VL) {
        int left = n_k - k < 2 * VL ? n_k - k : 2 * VL; /* values */
        vf t[VL];
        for (int i = 0; i < VL; i++) {
            uint16_t cut[2 * VL] = {0};
            if (left < 2 * VL) memcpy(cut, rows[i] + 2 * k, (size_t)left * sizeof cut[0]);
            t[i] = left < 2 * VL ? vf_load(cut) : vf_load(rows[i] + 2 * k);
        }
        vf_transpose(t);
        for (int i = 0; i < (left + 1) / 2; i++) vf_store((float *)(void *)(panel + (k / 2 + i) * NR), t[i]);
    }
}

#include "kernels/simd/bf16_pack.h"

/* Pairs become floats, [n_k][NR]. */
static void widen_panel(const uint32_t *panel, int n_k, float *wide)
{
    for (int k = 0; k < n_k; k += 2, wide += 2 * NR, panel += NR) {
        for (int v = 0; v < NV; v++) {
            vi pair = vi_bits(vf_load(panel + v * VL));
            vf_store(wide + v * VL, low_of(pair));
            if (k + 1 < n_k) vf_store(wide + NR + v * VL, high_of(pair));
        }
    }
}

static void widen_x(const uint16_t *x, size_t x_stride, int n_rows, int n_k, float *wide)
{
    for (int r = 0; r < n_rows; r++, x += x_stride, wide += BF16_STRIDE) {
        int k = 0;
        for (; k + VL <= n_k; k += VL) vf_store(wide + k, vf_load_bf16(x + k));
        for (; k < n_k; k++) wide[k] = hsc__bf16_to_f32(x[k]);
    }
}

/* All rows of x times a panel of floats, n_k at most HSC__K_CHUNK. */
static void multiply(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const uint16_t *x, size_t x_stride,
                     const float *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    float wide[BF16_ROWS * BF16_STRIDE];
    for (int r = 0; r < n_rows; r += BF16_ROWS) {
        int rows = n_rows - r < BF16_ROWS ? n_rows - r : BF16_ROWS;
        widen_x(x + (size_t)r * x_stride, x_stride, rows, n_k, wide);
        if (end) fetch_ending(end, r, rows, 0, n_cols);
        KERNEL(gemm)(mode, rows, n_cols, n_k, wide, BF16_STRIDE, panel, NR, y + (size_t)r * y_stride, y_stride, NULL);
        if (end) end_tile(end, r, rows, 0, n_cols, y + (size_t)r * y_stride, y_stride);
    }
}

void KERNEL(gemm_bf16)(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const uint16_t *x, size_t x_stride,
                       const uint32_t *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    float wide[HSC__K_CHUNK * NR];
    if (n_k <= HSC__K_CHUNK) {
        widen_panel(panel, n_k, wide);
        multiply(mode, n_rows, n_cols, n_k, x, x_stride, wide, y, y_stride, end);
        return;
    }
    /* A longer sum goes on from chunk to chunk in an array of its own, since y may have to be added at the end. */
    for (int r = 0; r < n_rows; r++, x += x_stride, y += y_stride) {
        float sum[NR] = {0};
        if (mode == HSC__GEMM_CONTINUE) memcpy(sum, y, (size_t)n_cols * sizeof *y);
        for (int k = 0; k < n_k; k += HSC__K_CHUNK) {
            int n = n_k - k < HSC__K_CHUNK ? n_k - k : HSC__K_CHUNK;
            widen_panel(panel + (size_t)(k / 2) * NR, n, wide);
            multiply(HSC__GEMM_CONTINUE, 1, n_cols, n, x + k, x_stride, wide, sum, NR, NULL);
        }
        for (int c = 0; c < n_cols; c++) y[c] = mode == HSC__GEMM_ADD ? y[c] + sum[c] : sum[c];
        if (end) end_tile(end, r, 1, 0, n_cols, y, y_stride);
    }
}

/* The weights of a panel in bfloat16, as floats. */
static void round_panel(float *wide, int n_k)
{
    for (int i = 0; i < n_k * NR; i++) wide[i] = hsc__bf16_to_f32(hsc__f32_to_bf16(wide[i]));
}

void KERNEL(few_bf16_panels)(hsc_dtype dtype, bool transposed, const char *w, size_t row_bytes, int n_out, int64_t n_in,
                             const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    float wide[HSC__K_CHUNK * NR];
    for (int o = 0; o < n_out; o += NR) {
        int n = n_out - o < NR ? n_out - o : NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            if (transposed) KERNEL(pack_t)
            (dtype, w + (size_t)k0 * row_bytes + hsc__dtype_bytes(dtype, (size_t)o), row_bytes, n, n_k, wide);
            else KERNEL(pack)(dtype, w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, wide);
            if (dtype != HSC_BF16) round_panel(wide, n_k);
            multiply(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x + k0, x_stride, wide, y + o, y_stride,
                     NULL);
        }
    }
}

void KERNEL(few_t_bf16)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                        size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    KERNEL(few_bf16_panels)(dtype, true, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

#endif
