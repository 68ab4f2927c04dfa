/* few_bf16 and few_t_bf16 by panels, the form that serves every type and number of rows: with what bf16.h has. */
#ifndef HSC_KERNELS_SIMD_FEW_BF16_PANELS_H
#define HSC_KERNELS_SIMD_FEW_BF16_PANELS_H

void KERNEL(few_bf16_panels)(hsc_dtype dtype, bool transposed, const char *w, size_t row_bytes, int n_out, int64_t n_in,
                             const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride);

#endif
