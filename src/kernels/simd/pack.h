/*
 * pack and pack_t: weights of any type into a panel of floats, panel[k][output]. A weight stored by outputs is transposed
 * in registers, VL x VL at a time.
 */
#ifndef HSC_KERNELS_SIMD_PACK_H
#define HSC_KERNELS_SIMD_PACK_H

#include "kernels/simd/load.h"

/* VL outputs (fewer exist when is_cut) of an unquantised type into one vector column of the panel. */
INLINE void pack_plain(hsc_dtype dtype, const unsigned char *const rows[VL], bool is_cut, vpart lanes, int64_t k0,
                       int n_k, float *panel)
{
    size_t size = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)k0 * size;
    for (int k = 0; k < n_k; k += VL, offset += VL * size, panel += VL * NR) {
        vf t[VL];
        int n = n_k - k < VL ? n_k - k : VL;
        if (n == VL) {
            UNROLL
            for (int i = 0; i < VL; i++) t[i] = load_values(dtype, rows[i] + offset);
        } else {
            for (int i = 0; i < VL; i++) t[i] = load_values_part(dtype, rows[i] + offset, part(n));
        }
        vf_transpose(t);
        if (is_cut) {
            for (int i = 0; i < VL; i++) t[i] = vf_keep(t[i], lanes);
        }
        if (n == VL) {
            UNROLL
            for (int i = 0; i < VL; i++) vf_store(panel + i * NR, t[i]);
        } else {
            for (int i = 0; i < n; i++) vf_store(panel + i * NR, t[i]);
        }
    }
}

INLINE void pack_nibbles(hsc_dtype dtype, const unsigned char *const rows[VL], bool is_cut, vpart lanes, int64_t k0,
                         int n_k, float *panel)
{
    size_t bytes = (size_t)hsc__dtype_block_bytes(dtype), offset = (size_t)(k0 / 32) * bytes;
    for (int k = 0; k < n_k; k += 32, offset += bytes, panel += 32 * NR) {
        block b = load_block(dtype, rows, offset);
        /* Bit 4 is where block_value looks for the fifth bit: that of value 0 comes from bit 0. */
        vi low = vi_shl(b.fifth, 4), high = vi_shr(b.fifth, 12);
        UNROLL
        for (int j = 0; j < 16; j++) {
            vi word = b.q[j / 4];
            vf first = block_value(dtype, &b, word, low), second = block_value(dtype, &b, vi_shr(word, 4), high);
            vf_store(panel + j * NR, is_cut ? vf_keep(first, lanes) : first);
            vf_store(panel + (j + 16) * NR, is_cut ? vf_keep(second, lanes) : second);
            b.q[j / 4] = vi_shr(word, 8);
            low = vi_shr(low, 1);
            high = vi_shr(high, 1);
        }
    }
}

/* Q8_0: a half-precision scale, then 32 signed bytes; d q is exact. */
INLINE void pack_bytes(const unsigned char *const rows[VL], bool is_cut, vpart lanes, int64_t k0, int n_k, float *panel)
{
    size_t offset = (size_t)(k0 / 32) * 34;
    for (int k = 0; k < n_k; k += 32, offset += 34, panel += 32 * NR) {
        vf d = vf_from_low_f16(vi_gather16(rows, offset));
        UNROLL
        for (int half = 0; half < 2; half++) {
            vi q[4];
            vi_gather4(rows, offset + 2 + (size_t)half * 16, q);
            UNROLL
            for (int j = 0; j < 16; j++) { /* the bytes of a word from the last, which alone carries a sign */
                int at = half * 16 + j / 4 * 4 + 3 - j % 4;
                vf value = vf_mul(vf_from_int(vi_sar(q[j / 4], 24)), d);
                vf_store(panel + at * NR, is_cut ? vf_keep(value, lanes) : value);
                q[j / 4] = vi_shl(q[j / 4], 8);
            }
        }
    }
}

INLINE void pack_column(hsc_dtype dtype, const unsigned char *const rows[VL], bool is_cut, vpart lanes, int64_t k0,
                        int n_k, float *panel)
{
    switch (dtype) {
    case HSC_F16: pack_plain(HSC_F16, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_BF16: pack_plain(HSC_BF16, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_F64: pack_plain(HSC_F64, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_Q4_0: pack_nibbles(HSC_Q4_0, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_Q4_1: pack_nibbles(HSC_Q4_1, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_Q5_0: pack_nibbles(HSC_Q5_0, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_Q5_1: pack_nibbles(HSC_Q5_1, rows, is_cut, lanes, k0, n_k, panel); return;
    case HSC_Q8_0: pack_bytes(rows, is_cut, lanes, k0, n_k, panel); return;
    default: pack_plain(HSC_F32, rows, is_cut, lanes, k0, n_k, panel); return;
    }
}

static void clear_column(int n_k, float *panel)
{
    for (int k = 0; k < n_k; k++) vf_store(panel + (size_t)k * NR, vf_zero());
}

void KERNEL(pack)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, float *panel)
{
    for (int o = 0; o < NR; o += VL, panel += VL) {
        if (o >= n_out) {
            clear_column(n_k, panel);
            continue;
        }
        const unsigned char *rows[VL];
        find_rows(rows, (const unsigned char *)w + (size_t)o * row_bytes, row_bytes, n_out - o);
        bool is_cut = n_out - o < VL;
        pack_column(dtype, rows, is_cut, part(n_out - o), k0, n_k, panel);
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
