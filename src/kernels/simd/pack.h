/*
 * pack and pack_t: weights of any type into a panel of floats, panel[k][output]. A weight stored by outputs is
 * transposed in registers, VL x VL at a time.
 */
#ifndef HSC_KERNELS_SIMD_PACK_H
#define HSC_KERNELS_SIMD_PACK_H

#include "kernels/simd/unpack.h"

/* Zeros in the lanes from n on. */
static void clear_lanes(int n, int n_k, float *panel)
{
    for (int k = 0; k < n_k; k++) {
        float *p = panel + (size_t)k * NR;
        vf_store(p, n > 0 ? vf_load_part(p, part(n)) : vf_zero());
    }
}

void KERNEL(pack)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, float *panel)
{
    for (int o = 0; o < NR; o += VL, panel += VL) {
        int n = n_out - o;
        if (n > 0) {
            const unsigned char *rows[VL];
            find_rows(rows, (const unsigned char *)w + (size_t)o * row_bytes, row_bytes, n);
            unpack(dtype, rows, k0, n_k, NR, panel);
        }
        if (n < VL) clear_lanes(n, n_k, panel);
    }
}

INLINE void pack_t_plain(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, float *panel)
{
    size_t size = (size_t)hsc__dtype_block_bytes(dtype);
    for (int k = 0; k < n_k; k++, panel += NR) {
        const unsigned char *row = (const unsigned char *)w + (size_t)k * row_bytes;
        for (int o = 0; o < NR; o += VL) {
            vf value = n_out - o >= VL ? load_values(dtype, row + (size_t)o * size)
                       : n_out - o > 0 ? load_values_part(dtype, row + (size_t)o * size, part(n_out - o))
                                       : vf_zero();
            vf_store(panel + o, value);
        }
    }
}

void KERNEL(pack_t)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, float *panel)
{
    switch (dtype) {
    case HSC_F16: pack_t_plain(HSC_F16, w, row_bytes, n_out, n_k, panel); return;
    case HSC_BF16: pack_t_plain(HSC_BF16, w, row_bytes, n_out, n_k, panel); return;
    case HSC_F64: pack_t_plain(HSC_F64, w, row_bytes, n_out, n_k, panel); return;
    default: pack_t_plain(HSC_F32, w, row_bytes, n_out, n_k, panel); return;
    }
}

#endif
