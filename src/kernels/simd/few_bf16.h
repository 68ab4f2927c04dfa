/* few_bf16 beside few: bfloat16 weights as they are mapped, times x widened chunk by chunk; other types by panels. The
 * products are exact, so the bits are those of gemm_bf16. Include after few.h. */
#ifndef HSC_KERNELS_SIMD_FEW_BF16_H
#define HSC_KERNELS_SIMD_FEW_BF16_H

#include "kernels/half.h"
#include "kernels/simd/few_bf16_panels.h"

/* Rows of zeros fill x up to the next number of rows that has code. */
static void widen_x(const uint16_t *x, size_t x_stride, int n_rows, int n_k, float copy[MR * X_STRIDE])
{
    for (int r = 0; r < n_rows; r++)
        for (int k = 0; k < n_k; k++) copy[r * X_STRIDE + k] = hsc__bf16_to_f32(x[(size_t)r * x_stride + (size_t)k]);
    if (n_rows % 2 && n_rows < MR) memset(copy + n_rows * X_STRIDE, 0, (size_t)n_k * sizeof *copy);
}

/* All chunks of STEP outputs or fewer, for at most MR rows. */
static void few_bf16_outputs(chunk *c, int64_t n_in, const uint16_t *x, size_t x_stride)
{
    float copy[MR * X_STRIDE];
    for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
        size_t bytes = find_chunk(c, n_in, k0);
        widen_x(x + k0, x_stride, c->n_rows, c->n_k, copy);
        for (int o = 0; o < c->n_out; o += VL) one_group(c, copy, o);
        c->w += bytes;
    }
}

void KERNEL(few_bf16)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                      size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    if (n_rows <= 0) return;
    if (dtype != HSC_BF16 || n_rows > MR) {
        KERNEL(few_bf16_panels)(dtype, false, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
        return;
    }
    for (int o = 0; o < n_out; o += STEP) {
        chunk c = {.dtype = dtype, .row_bytes = row_bytes, .n_rows = n_rows, .y = y + o, .y_stride = y_stride};
        c.w = (const unsigned char *)w + (size_t)o * row_bytes;
        c.n_out = n_out - o < STEP ? n_out - o : STEP;
        few_bf16_outputs(&c, n_in, x, x_stride);
    }
}

#endif
