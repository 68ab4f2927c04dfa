/*
 * pack and pack_t: weights of any type into a panel of floats, panel[k][output]. A weight stored by outputs is
 * transposed in registers, VL x VL at a time.
 */
#ifndef HSC_KERNELS_SIMD_PACK_H
#define HSC_KERNELS_SIMD_PACK_H

#include "kernels/simd/load.h"

/* One vector column of the panel, VL outputs, of an unquantised type. */
INLINE void pack_plain(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, float *panel)
{
    size_t size = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)k0 * size;
    int k = 0;
    for (; k + VL <= n_k; k += VL, offset += VL * size, panel += VL * NR) {
        vf t[VL];
        UNROLL
        for (int i = 0; i < VL; i++) t[i] = load_values(dtype, rows[i] + offset);
        vf_transpose(t);
        UNROLL
        for (int i = 0; i < VL; i++) vf_store(panel + i * NR, t[i]);
    }
    if (k == n_k) return;
    vf t[VL];
    for (int i = 0; i < VL; i++) t[i] = load_values_part(dtype, rows[i] + offset, part(n_k - k));
    vf_transpose(t);
    for (int i = 0; i < n_k - k; i++) vf_store(panel + i * NR, t[i]);
}

INLINE void pack_blocks(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, float *panel)
{
    size_t bytes = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)(k0 / 32) * bytes;
    for (int k = 0; k < n_k; k += 32, offset += bytes) unpack_block(dtype, rows, offset, NR, panel + (size_t)k * NR);
}

/* Zeros in the lanes from n on. */
static void clear_lanes(int n, int n_k, float *panel)
{
    for (int k = 0; k < n_k; k++) {
        float *p = panel + (size_t)k * NR;
        vf_store(p, n > 0 ? vf_load_part(p, part(n)) : vf_zero());
    }
}

static void pack_column(hsc_dtype dtype, const unsigned char *const rows[VL], int64_t k0, int n_k, float *panel)
{
    switch (dtype) {
    case HSC_F16: pack_plain(HSC_F16, rows, k0, n_k, panel); return;
    case HSC_BF16: pack_plain(HSC_BF16, rows, k0, n_k, panel); return;
    case HSC_F64: pack_plain(HSC_F64, rows, k0, n_k, panel); return;
    case HSC_Q4_0: pack_blocks(HSC_Q4_0, rows, k0, n_k, panel); return;
    case HSC_Q4_1: pack_blocks(HSC_Q4_1, rows, k0, n_k, panel); return;
    case HSC_Q5_0: pack_blocks(HSC_Q5_0, rows, k0, n_k, panel); return;
    case HSC_Q5_1: pack_blocks(HSC_Q5_1, rows, k0, n_k, panel); return;
    case HSC_Q8_0: pack_blocks(HSC_Q8_0, rows, k0, n_k, panel); return;
    default: pack_plain(HSC_F32, rows, k0, n_k, panel); return;
    }
}

void KERNEL(pack)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, float *panel)
{
    for (int o = 0; o < NR; o += VL, panel += VL) {
        int n = n_out - o;
        if (n > 0) {
            const unsigned char *rows[VL];
            find_rows(rows, (const unsigned char *)w + (size_t)o * row_bytes, row_bytes, n);
            pack_column(dtype, rows, k0, n_k, panel);
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
