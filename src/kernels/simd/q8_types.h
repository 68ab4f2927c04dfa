/*
 * Quantised weights for the 8-bit products of AVX2 and NEON: a group of 32 codes of a row as bytes, and the scales of
 * VL rows. The same values as kernels/q8.h. Types whose codes take 8 bits (offset 128) are used as signed bytes without
 * an offset; the others are small and unsigned. Every `dtype` is constant after inlining. Include after bytes_*.h.
 */
#ifndef HSC_KERNELS_SIMD_Q8_TYPES_H
#define HSC_KERNELS_SIMD_Q8_TYPES_H

#include "kernels/q8.h"
#include "kernels/simd/load.h"

enum { GROUP = HSC__Q8_GROUP };

/* The type as these kernels have it. */
INLINE hsc__q8_type type_of(hsc_dtype dtype)
{
    hsc__q8_type type = hsc__q8_type_of(dtype);
    if (type.offset == 128) type.offset = 0;
    return type;
}

INLINE bool is_small(hsc_dtype dtype)
{
    return hsc__q8_type_of(dtype).offset != 128;
}

INLINE vb six(const unsigned char *b, int g)
{
    vb low = vb_bits_down(vb_load(b + g / 4 * 64 + g % 2 * 32), g % 4 / 2 * 4, 15);
    return vb_with_above(low, vb_bits_down(vb_load(b + 128 + g / 4 * 32), g % 4 * 2, 3), 4);
}

/* The codes of group g (0 where a block is one group) of the block at b. */
INLINE vb group_codes(hsc_dtype dtype, const unsigned char *b, int g)
{
    switch (dtype) {
    case HSC_Q4_0: return vb_halfbytes(b + 2);
    case HSC_Q4_1: return vb_halfbytes(b + 4);
    case HSC_Q5_0: return vb_with_above(vb_halfbytes(b + 6), vb_spread_bits(b + 2), 4);
    case HSC_Q5_1: return vb_with_above(vb_halfbytes(b + 8), vb_spread_bits(b + 4), 4);
    case HSC_Q2_K: return vb_bits_down(vb_load(b + 16 + g / 4 * 32), g % 4 * 2, 3);
    case HSC_Q3_K:
        return vb_with_above(vb_bits_down(vb_load(b + 32 + g / 4 * 32), g % 4 * 2, 3), vb_bits_down(vb_load(b), g, 1),
                             2);
    case HSC_Q4_K: return vb_bits_down(vb_load(b + 16 + g / 2 * 32), g % 2 * 4, 15);
    case HSC_Q5_K:
        return vb_with_above(vb_bits_down(vb_load(b + 48 + g / 2 * 32), g % 2 * 4, 15),
                             vb_bits_down(vb_load(b + 16), g, 1), 4);
    case HSC_Q6_K: return six(b, g);
    case HSC_IQ4_NL: return vb_look_up(hsc__iq4_values, vb_halfbytes(b + 2));
    case HSC_IQ4_XS: return vb_look_up(hsc__iq4_values, vb_halfbytes(b + 8 + g * 16));
    default: return vb_load(b + 2);
    }
}

/* Of VL rows in lanes; [1]: of second halves, where the type has halves. */
typedef struct scales {
    vf scale[2], minimum[2];
} scales;

/* Where a group lies in its row. */
typedef struct place {
    size_t offset; /* of its block */
    int g;         /* within it */
} place;

INLINE place place_of(hsc_dtype dtype, int64_t g)
{
    const size_t bytes = (size_t)hsc__dtype_block_bytes(dtype);
    if (hsc__dtype_block(dtype) == GROUP) return (place){(size_t)g * bytes, 0};
    return (place){(size_t)(g / 8) * bytes, (int)(g % 8)};
}

INLINE scales find_scales(hsc_dtype dtype, const unsigned char *const rows[VL], place p)
{
    const hsc__q8_type type = type_of(dtype);
    scales s = {{vf_zero(), vf_zero()}, {vf_zero(), vf_zero()}};
    if (hsc__dtype_block(dtype) == GROUP) {
        vi both = type.has_minimum ? vi_gather32(rows, p.offset) : vi_gather16(rows, p.offset);
        s.scale[0] = vf_from_low_f16(both);
        if (type.has_minimum) s.minimum[0] = vf_from_low_f16(vi_shr(both, 16));
        return s;
    }
    float scale[2][VL], minimum[2][VL];
    for (int i = 0; i < VL; i++) {
        hsc__q8_group of = {.scale = {0}};
        hsc__q8_scales_of(dtype, rows[i] + p.offset, p.g, &of);
        for (int h = 0; h < 2; h++) {
            scale[h][i] = of.scale[h];
            minimum[h][i] = of.minimum[h];
        }
    }
    for (int h = 0; h < 1 + type.halves; h++) {
        s.scale[h] = vf_load(scale[h]);
        s.minimum[h] = vf_load(minimum[h]);
    }
    return s;
}

/* The sum of a group, or of its half h, in activations. */
INLINE int x_sum(const hsc__q8_type type, const hsc__x8_group *x, int h)
{
    return !type.halves ? x->total : h ? x->total - x->first : x->first;
}

/* Sums of products of a group, or of half h of one, are scaled and added. */
INLINE vf add_part(const hsc__q8_type type, const hsc__x8_group *x, int h, vi dot, vf scale, vf minimum, vf total)
{
    int sum = x_sum(type, x, h);
    if (type.offset) dot = vi_sub(dot, vi_set1(type.offset * sum));
    total = vf_fma(vf_mul(vf_set1(x->d), scale), vf_from_int(dot), total);
    if (!type.has_minimum) return total;
    return vf_fma(vf_set1(type.halves ? x->d * (float)sum : x->sum), minimum, total);
}

#endif
