/*
 * Stored weights as vectors. Unquantised types are read a vector at a time along a row; of quantised types, VL rows at
 * once with the rows in lanes, 32-bit words at a time, so that nothing is left to transpose once values are unpacked.
 * The values are the same bits as the reference's dequantise. Every `dtype` here is constant after inlining.
 */
#ifndef HSC_KERNELS_SIMD_LOAD_H
#define HSC_KERNELS_SIMD_LOAD_H

#include "base/dtype.h"

/* VL (or the first few) consecutive values of an unquantised type. */
INLINE vf load_values(hsc_dtype dtype, const unsigned char *p)
{
    switch (dtype) {
    case HSC_F16: return vf_load_f16(p);
    case HSC_BF16: return vf_load_bf16(p);
    case HSC_F64: return vf_load_f64(p);
    default: return vf_load(p);
    }
}

INLINE vf load_values_part(hsc_dtype dtype, const unsigned char *p, vpart lanes)
{
    switch (dtype) {
    case HSC_F16: return vf_load_f16_part(p, lanes);
    case HSC_BF16: return vf_load_bf16_part(p, lanes);
    case HSC_F64: return vf_load_f64_part(p, lanes);
    default: return vf_load_part(p, lanes);
    }
}

/* VL rows; where there are fewer, the last one again, whose lanes the caller drops. */
INLINE void find_rows(const unsigned char *rows[VL], const unsigned char *first, size_t row_bytes, int n_rows)
{
    for (int i = 0; i < VL; i++) rows[i] = first + (size_t)(i < n_rows ? i : n_rows - 1) * row_bytes;
}

/* So short an integer times a half-precision scale is exact in float32: only the sum with a minimum rounds. */
INLINE vf scale_nibble(hsc_dtype dtype, vi word, vi fifth, vf d, vf m)
{
    vi q = vi_and(word, vi_set1(15));
    if (dtype == HSC_Q5_0 || dtype == HSC_Q5_1) q = vi_or(q, vi_and(fifth, vi_set1(16)));
    if (dtype == HSC_Q4_0) q = vi_sub(q, vi_set1(8));
    if (dtype == HSC_Q5_0) q = vi_sub(q, vi_set1(16));
    vf product = vf_mul(vf_from_int(q), d);
    return dtype == HSC_Q4_1 || dtype == HSC_Q5_1 ? vf_add(product, m) : product;
}

/* The Q4 and Q5 block of 32 values at rows[] + offset: out[k * stride] = value k of each row. Value k < 16 lies in the
 * low half of byte k, value k + 16 in its high half, the fifth bit of value k in bit k of a word. */
INLINE void unpack_nibbles(hsc_dtype dtype, const unsigned char *const rows[VL], size_t offset, size_t stride,
                           float *out)
{
    vi q[4], low = vi_set1(0), high = low;
    vf d, m = vf_zero();
    if (dtype == HSC_Q4_1 || dtype == HSC_Q5_1) {
        vi both = vi_gather32(rows, offset);
        d = vf_from_low_f16(both);
        m = vf_from_low_f16(vi_shr(both, 16));
        offset += 4;
    } else {
        d = vf_from_low_f16(vi_gather16(rows, offset));
        offset += 2;
    }
    if (dtype == HSC_Q5_0 || dtype == HSC_Q5_1) {
        vi fifth = vi_gather32(rows, offset);
        low = vi_shl(fifth, 4); /* scale_nibble wants it in bit 4 */
        high = vi_shr(fifth, 12);
        offset += 4;
    }
    vi_gather4(rows, offset, q);
    UNROLL
    for (size_t k = 0; k < 16; k++) {
        vi word = q[k / 4];
        vf_store(out + k * stride, scale_nibble(dtype, word, low, d, m));
        vf_store(out + (k + 16) * stride, scale_nibble(dtype, vi_shr(word, 4), high, d, m));
        q[k / 4] = vi_shr(word, 8);
        low = vi_shr(low, 1);
        high = vi_shr(high, 1);
    }
}

/* Q8_0: a half-precision scale, then 32 signed bytes; d q is exact. */
INLINE void unpack_bytes(const unsigned char *const rows[VL], size_t offset, size_t stride, float *out)
{
    vf d = vf_from_low_f16(vi_gather16(rows, offset));
    UNROLL
    for (size_t half = 0; half < 2; half++) {
        vi q[4];
        vi_gather4(rows, offset + 2 + half * 16, q);
        UNROLL
        for (size_t k = 0; k < 16; k++) { /* the bytes of a word from its last, where the sign is */
            vf_store(out + (half * 16 + k / 4 * 4 + 3 - k % 4) * stride, vf_mul(vf_from_int(vi_sar(q[k / 4], 24)), d));
            q[k / 4] = vi_shl(q[k / 4], 8);
        }
    }
}

INLINE void unpack_block(hsc_dtype dtype, const unsigned char *const rows[VL], size_t offset, size_t stride, float *out)
{
    switch (dtype) {
    case HSC_Q4_0: unpack_nibbles(HSC_Q4_0, rows, offset, stride, out); return;
    case HSC_Q4_1: unpack_nibbles(HSC_Q4_1, rows, offset, stride, out); return;
    case HSC_Q5_0: unpack_nibbles(HSC_Q5_0, rows, offset, stride, out); return;
    case HSC_Q5_1: unpack_nibbles(HSC_Q5_1, rows, offset, stride, out); return;
    default: unpack_bytes(rows, offset, stride, out); return;
    }
}

#endif
