/* dequantise: plain types a vector at a time; of quantised types, VL blocks are unpacked side by side and turned round.
 */
#ifndef HSC_KERNELS_SIMD_DEQUANTISE_H
#define HSC_KERNELS_SIMD_DEQUANTISE_H

#include "kernels/kquants.h"
#include "kernels/simd/load.h"

INLINE void convert(hsc_dtype dtype, const unsigned char *src, int64_t n, float *dst)
{
    size_t size = (size_t)hsc__dtype_block_bytes(dtype);
    int64_t i = 0;
    for (; i + VL <= n; i += VL, src += VL * size) vf_store(dst + i, load_values(dtype, src));
    if (i == n) return;
    vpart lanes = part((int)(n - i));
    vf_store_part(dst + i, load_values_part(dtype, src, lanes), lanes);
}

INLINE void unpack_all(hsc_dtype dtype, const unsigned char *src, int64_t n_blocks, float *dst)
{
    size_t bytes = (size_t)hsc__dtype_block_bytes(dtype);
    for (; n_blocks > 0; n_blocks -= VL, src += VL * bytes, dst += 32 * VL) {
        float values[32 * VL]; /* [k][block] */
        int n = n_blocks < VL ? (int)n_blocks : VL;
        const unsigned char *rows[VL];
        find_rows(rows, src, bytes, n);
        block b = load_block(dtype, rows, 0);
        UNROLL_32
        for (size_t k = 0; k < 32; k++) vf_store(values + k * VL, block_value(dtype, &b, k));
        for (int k = 0; k < 32; k += VL) {
            vf t[VL];
            UNROLL
            for (int i = 0; i < VL; i++) t[i] = vf_load(values + (k + i) * VL);
            vf_transpose(t);
            for (int i = 0; i < n; i++) vf_store(dst + i * 32 + k, t[i]);
        }
    }
}

void KERNEL(dequantise)(hsc_dtype dtype, const void *src, int64_t n, float *dst)
{
    switch (dtype) {
    case HSC_F32: memcpy(dst, src, (size_t)n * sizeof *dst); return;
    case HSC_F16: convert(HSC_F16, src, n, dst); return;
    case HSC_BF16: convert(HSC_BF16, src, n, dst); return;
    case HSC_F64: convert(HSC_F64, src, n, dst); return;
    case HSC_Q4_0: unpack_all(HSC_Q4_0, src, n / 32, dst); return;
    case HSC_Q4_1: unpack_all(HSC_Q4_1, src, n / 32, dst); return;
    case HSC_Q5_0: unpack_all(HSC_Q5_0, src, n / 32, dst); return;
    case HSC_Q5_1: unpack_all(HSC_Q5_1, src, n / 32, dst); return;
    case HSC_Q8_0: unpack_all(HSC_Q8_0, src, n / 32, dst); return;
    default: hsc__kquant_dequantise(dtype, src, n, dst); return;
    }
}

#endif
