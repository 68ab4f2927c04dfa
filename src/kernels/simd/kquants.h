/* Types with quantised scales as vectors: 32 values of each row on its own, by the loops of kernels/kquants.h under
 * this level's flags, then turned round. */
#ifndef HSC_KERNELS_SIMD_KQUANTS_H
#define HSC_KERNELS_SIMD_KQUANTS_H

#include "kernels/kquants.h"
#include "kernels/simd/load.h"

/* out[(k - k0) * stride + i] = value k of row i, for n_k values of VL rows from k0 on; both are multiples of 32. */
static inline void unpack_groups(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k,
                                 size_t stride, float *out)
{
    int64_t values_a_block = hsc__dtype_block(dtype);
    size_t bytes = (size_t)hsc__dtype_block_bytes(dtype);
    for (int64_t k = k0; k < k0 + n_k; k += 32) {
        float values[VL * 32];
        for (int i = 0; i < VL; i++)
            hsc__kquant_group(dtype, rows[i] + (size_t)(k / values_a_block) * bytes, (int)(k % values_a_block) / 32,
                              values + i * 32);
        for (int from = 0; from < 32; from += VL, out += VL * stride) {
            vf t[VL];
            UNROLL
            for (int i = 0; i < VL; i++) t[i] = vf_load(values + i * 32 + from);
            vf_transpose(t);
            UNROLL
            for (int i = 0; i < VL; i++) vf_store(out + (size_t)i * stride, t[i]);
        }
    }
}

#endif
