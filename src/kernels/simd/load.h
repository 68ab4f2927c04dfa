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
    UNROLL
    for (int i = 0; i < VL; i++) {
        rows[i] = first;
        if (i + 1 < n_rows) first += row_bytes;
    }
}

/* t[i] = value i of VL rows, rows in lanes. */
INLINE void vf_transpose(vf t[VL])
{
    vf_regroup(t);
    UNROLL
    for (int g = 0; g < VL; g += 4) {
        vf values[4];
        vf_quad(t + g, values);
        UNROLL
        for (int i = 0; i < 4; i++) t[g + i] = values[i];
    }
}

INLINE bool has_minimum(hsc_dtype dtype)
{
    return dtype == HSC_Q4_1 || dtype == HSC_Q5_1;
}

INLINE bool has_fifth_bit(hsc_dtype dtype)
{
    return dtype == HSC_Q5_0 || dtype == HSC_Q5_1;
}

/* A quantised block of 32 values of VL rows, rows in lanes. */
typedef struct block {
    vf d, m;  /* scale and minimum */
    vi fifth; /* Q5: bit k is the fifth bit of value k */
    vi q[8];  /* Q4 and Q5: the low half of byte k of 16 is value k, its high half value k + 16; Q8: byte k of 32 */
} block;

INLINE block load_block(hsc_dtype dtype, const unsigned char *const rows[VL], size_t offset)
{
    block b = {vf_zero(), vf_zero(), vi_set1(0), {vi_set1(0)}};
    if (has_minimum(dtype)) {
        vi both = vi_gather32(rows, offset);
        b.d = vf_from_low_f16(both);
        b.m = vf_from_low_f16(vi_shr(both, 16));
        offset += 4;
    } else {
        b.d = vf_from_low_f16(vi_gather16(rows, offset));
        offset += 2;
    }
    if (has_fifth_bit(dtype)) {
        b.fifth = vi_gather32(rows, offset);
        offset += 4;
    }
    vi_gather4(rows, offset, b.q);
    if (dtype == HSC_Q8_0) vi_gather4(rows, offset + 16, b.q + 4);
    return b;
}

/* Bits 4 n and up of a word come down to bit 0; n is constant after inlining, and so is every shift. */
INLINE vi halfbytes_down(vi word, size_t n)
{
    switch (n) {
    case 1: return vi_shr(word, 4);
    case 2: return vi_shr(word, 8);
    case 3: return vi_shr(word, 12);
    case 4: return vi_shr(word, 16);
    case 5: return vi_shr(word, 20);
    case 6: return vi_shr(word, 24);
    case 7: return vi_shr(word, 28);
    default: return word;
    }
}

/* Byte n of a word with its sign. */
INLINE vi signed_byte(vi word, size_t n)
{
    switch (n) {
    case 0: return vi_sar(vi_shl(word, 24), 24);
    case 1: return vi_sar(vi_shl(word, 16), 24);
    case 2: return vi_sar(vi_shl(word, 8), 24);
    default: return vi_sar(word, 24);
    }
}

/* Value k of a block. So short an integer times a half-precision scale is exact in float32: only the sum with a minimum
 * rounds, fused or not. */
INLINE vf block_value(hsc_dtype dtype, const block *b, size_t k)
{
    if (dtype == HSC_Q8_0) return vf_mul(vf_from_int(signed_byte(b->q[k / 4], k % 4)), b->d);
    vi q = vi_and(halfbytes_down(b->q[k % 16 / 4], k % 4 * 2 + k / 16), vi_set1(15));
    if (has_fifth_bit(dtype)) {
        vi bits = halfbytes_down(b->fifth, k / 4), bit = k % 4 == 0   ? vi_shl(bits, 4)
                                                         : k % 4 == 1 ? vi_shl(bits, 3)
                                                         : k % 4 == 2 ? vi_shl(bits, 2)
                                                                      : vi_shl(bits, 1);
        q = vi_or(q, vi_and(bit, vi_set1(16)));
    }
    if (has_minimum(dtype)) return vf_fma(vf_from_int(q), b->d, b->m);
    return vf_mul(vf_from_int(vi_sub(q, vi_set1(dtype == HSC_Q4_0 ? 8 : 16))), b->d);
}

#endif
