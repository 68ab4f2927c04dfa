/*
 * Stored weights as vectors. Unquantised types are read a vector at a time along a row; of quantised types, VL rows at
 * once with the rows in lanes, 32-bit words at a time, so that nothing is left to transpose once values are unpacked.
 * The values are the same bits as the reference's dequantise.
 */
#ifndef HSC_KERNELS_SIMD_LOAD_H
#define HSC_KERNELS_SIMD_LOAD_H

#include "base/dtype.h"

/* VL (or the first few) consecutive values of an unquantised type. `dtype` is constant after inlining. */
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
INLINE void find_rows(const unsigned char *rows[VL], const void *w, size_t row_bytes, int n_rows)
{
    for (int i = 0; i < VL; i++) rows[i] = (const unsigned char *)w + (size_t)(i < n_rows ? i : n_rows - 1) * row_bytes;
}

/* A block of 32 values of VL rows at rows[] + offset: scale and minimum by row, then values in any order of k. */
typedef struct block {
    vf d, m;
    vi fifth; /* Q5: bit k is the fifth bit of value k */
    vi q[4];  /* Q4 and Q5: byte j of the 16 holds values j and j + 16 */
} block;

INLINE block load_block(hsc_dtype dtype, const unsigned char *const rows[VL], size_t offset)
{
    block b;
    if (dtype == HSC_Q4_1 || dtype == HSC_Q5_1) {
        vi both = vi_gather32(rows, offset);
        b.d = vf_from_low_f16(both);
        b.m = vf_from_low_f16(vi_shr(both, 16));
        offset += 4;
    } else {
        b.d = vf_from_low_f16(vi_gather16(rows, offset));
        b.m = vf_zero();
        offset += 2;
    }
    b.fifth = vi_set1(0);
    if (dtype == HSC_Q5_0 || dtype == HSC_Q5_1) {
        b.fifth = vi_gather32(rows, offset);
        offset += 4;
    }
    vi_gather4(rows, offset, b.q);
    return b;
}

/* Value k of the block, whose nibble lies in the low bits of `word`. */
INLINE vf block_value(hsc_dtype dtype, const block *b, vi word, vi fifth)
{
    vi q = vi_and(word, vi_set1(15));
    if (dtype == HSC_Q5_0 || dtype == HSC_Q5_1) q = vi_or(q, vi_and(fifth, vi_set1(16)));
    if (dtype == HSC_Q4_0) q = vi_sub(q, vi_set1(8));
    if (dtype == HSC_Q5_0) q = vi_sub(q, vi_set1(16));
    /* A product of a half-precision scale and so few bits is exact: only the sum rounds. */
    vf product = vf_mul(vf_from_int(q), b->d);
    return dtype == HSC_Q4_1 || dtype == HSC_Q5_1 ? vf_add(product, b->m) : product;
}

#endif
