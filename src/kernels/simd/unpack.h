/* A strip of a weight [n_out][n_in] as floats with outputs in lanes: what pack writes, and what few keeps for later
 * rows. */
#ifndef HSC_KERNELS_SIMD_UNPACK_H
#define HSC_KERNELS_SIMD_UNPACK_H

#include "kernels/simd/kquants.h"

/* out[(k - k0) * stride + i] = value k of row i, for n_k values of VL rows from k0 on, of an unquantised type. */
INLINE void unpack_plain(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, size_t stride,
                         float *out)
{
    size_t size = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)k0 * size;
    int k = 0;
    for (; k + VL <= n_k; k += VL, offset += VL * size, out += VL * stride) {
        vf t[VL];
        UNROLL
        for (int i = 0; i < VL; i++) t[i] = load_values(dtype, rows[i] + offset);
        vf_transpose(t);
        UNROLL
        for (int i = 0; i < VL; i++) vf_store(out + (size_t)i * stride, t[i]);
    }
    if (k == n_k) return;
    vf t[VL];
    for (int i = 0; i < VL; i++) t[i] = load_values_part(dtype, rows[i] + offset, part(n_k - k));
    vf_transpose(t);
    for (int i = 0; i < n_k - k; i++) vf_store(out + (size_t)i * stride, t[i]);
}

/* The same of a type in blocks of 32. */
INLINE void unpack_blocks(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, size_t stride,
                          float *out)
{
    size_t bytes = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)(k0 / 32) * bytes;
    for (int k = 0; k < n_k; k += 32, offset += bytes, out += 32 * stride) {
        block b = load_block(dtype, rows, offset);
        UNROLL_32
        for (size_t i = 0; i < 32; i++) vf_store(out + i * stride, block_value(dtype, &b, i));
    }
}

static inline void unpack(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, size_t stride,
                          float *out)
{
    switch (dtype) {
    case HSC_F32: unpack_plain(HSC_F32, rows, k0, n_k, stride, out); return;
    case HSC_F16: unpack_plain(HSC_F16, rows, k0, n_k, stride, out); return;
    case HSC_BF16: unpack_plain(HSC_BF16, rows, k0, n_k, stride, out); return;
    case HSC_F64: unpack_plain(HSC_F64, rows, k0, n_k, stride, out); return;
    case HSC_Q4_0: unpack_blocks(HSC_Q4_0, rows, k0, n_k, stride, out); return;
    case HSC_Q4_1: unpack_blocks(HSC_Q4_1, rows, k0, n_k, stride, out); return;
    case HSC_Q5_0: unpack_blocks(HSC_Q5_0, rows, k0, n_k, stride, out); return;
    case HSC_Q5_1: unpack_blocks(HSC_Q5_1, rows, k0, n_k, stride, out); return;
    case HSC_Q8_0: unpack_blocks(HSC_Q8_0, rows, k0, n_k, stride, out); return;
    default: unpack_groups(dtype, rows, k0, n_k, stride, out); return;
    }
}

#endif
