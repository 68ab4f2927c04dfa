/*
 * Quantised weights for the 8-bit dot product: four groups of 32 values (a quad) of a row as two vectors of bytes, and
 * the scales of 16 rows. The same values as kernels/q8.h. Every `dtype` is constant after inlining. Include after
 * vec_avx512.h.
 */
#ifndef HSC_KERNELS_AVX512_Q8_TYPES_H
#define HSC_KERNELS_AVX512_Q8_TYPES_H

#include "kernels/q8.h"
#include "kernels/simd/load.h"

enum { GROUP = HSC__Q8_GROUP, QUAD = 4 };

/* Where a quad lies: in four blocks of 32 values, or in one half of a block of 256. */
typedef struct place {
    size_t offset;     /* of the quad's first block from the row */
    size_t step[QUAD]; /* of each group's block from there; of groups past the end that of the last */
    int half;
} place;

/* The quad of row values that begins with group g, of which n_groups (1 to 4) exist. */
INLINE place place_of(hsc_dtype dtype, int64_t g, int n_groups)
{
    const size_t bytes = (size_t)hsc__dtype_block_bytes(dtype);
    if (hsc__dtype_block(dtype) != GROUP) return (place){(size_t)(g / 8) * bytes, {0}, g % 8 != 0};
    place p = {.offset = (size_t)g * bytes};
    for (int i = 1; i < QUAD; i++) p.step[i] = (size_t)(i < n_groups ? i : n_groups - 1) * bytes;
    return p;
}

/* Lane i of 128 bits: the 16 bytes at b + at + step[i]. */
INLINE vi four_pieces(const unsigned char *b, const size_t step[QUAD], size_t at)
{
    const __m128i *p0 = (const void *)(b + at), *p1 = (const void *)(b + at + step[1]),
                  *p2 = (const void *)(b + at + step[2]), *p3 = (const void *)(b + at + step[3]);
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(p0)), _mm_loadu_si128(p1), 1);
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(p2)), _mm_loadu_si128(p3), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

INLINE vi every_lane(const unsigned char *b)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)b));
}

/* Lane i of 128 bits shifted right by its own count. */
INLINE vi shift_lanes(vi a, int c0, int c1, int c2, int c3)
{
    return _mm512_srlv_epi64(a, _mm512_setr_epi64(c0, c0, c1, c1, c2, c2, c3, c3));
}

INLINE vi bytes_and(vi a, int mask)
{
    return vi_and(a, _mm512_set1_epi8((char)mask));
}

/* Half of the codes of a group, 16 in each lane. */
typedef struct codes {
    vi low, high;
} codes;

INLINE codes halfbytes(vi pieces)
{
    return (codes){bytes_and(pieces, 15), bytes_and(vi_shr(pieces, 4), 15)};
}

INLINE uint64_t word32(const unsigned char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Q5_0 and Q5_1: bit k of each group's word is the fifth bit of value k. */
INLINE codes with_fifth_bits(codes c, const unsigned char *b, const size_t step[QUAD])
{
    uint64_t w0 = word32(b), w1 = word32(b + step[1]), w2 = word32(b + step[2]), w3 = word32(b + step[3]);
    uint64_t low = (w0 & 0xFFFF) | (w1 & 0xFFFF) << 16 | (w2 & 0xFFFF) << 32 | w3 << 48;
    uint64_t high = w0 >> 16 | (w1 >> 16) << 16 | (w2 >> 16) << 32 | (w3 >> 16) << 48;
    const vi sixteen = _mm512_set1_epi8(16);
    return (codes){_mm512_mask_add_epi8(c.low, low, c.low, sixteen),
                   _mm512_mask_add_epi8(c.high, high, c.high, sixteen)};
}

INLINE codes look_up(codes c)
{
    const __m128i flip = _mm_set1_epi8((char)128);
    vi table = _mm512_broadcast_i32x4(_mm_xor_si128(_mm_loadu_si128((const void *)hsc__iq4_values), flip));
    return (codes){_mm512_shuffle_epi8(table, c.low), _mm512_shuffle_epi8(table, c.high)};
}

/* Types in blocks of 32. */
INLINE codes block_codes(hsc_dtype dtype, const unsigned char *b, const size_t step[QUAD])
{
    const size_t scales = hsc__q8_type_of(dtype).has_minimum ? 4 : 2;
    if (dtype == HSC_Q8_0) {
        const vi flip = _mm512_set1_epi8((char)128);
        return (codes){_mm512_xor_si512(four_pieces(b, step, 2), flip),
                       _mm512_xor_si512(four_pieces(b, step, 18), flip)};
    }
    if (dtype == HSC_Q5_0 || dtype == HSC_Q5_1)
        return with_fifth_bits(halfbytes(four_pieces(b, step, scales + 4)), b + scales, step);
    codes c = halfbytes(four_pieces(b, step, scales));
    return dtype == HSC_IQ4_NL ? look_up(c) : c;
}

/* Q4_K and Q5_K: groups 2i and 2i + 1 are the low and high halves of the same 32 bytes. */
INLINE codes four_or_five(hsc_dtype dtype, const unsigned char *b, int half)
{
    vi both = _mm512_loadu_si512(b + (dtype == HSC_Q5_K ? 48 : 16) + half * 64);
    codes c = {_mm512_shuffle_i32x4(both, both, 0xA0), _mm512_shuffle_i32x4(both, both, 0xF5)};
    c.low = bytes_and(shift_lanes(c.low, 0, 4, 0, 4), 15);
    c.high = bytes_and(shift_lanes(c.high, 0, 4, 0, 4), 15);
    if (dtype != HSC_Q5_K) return c;
    int g = half * 4;
    vi low = bytes_and(shift_lanes(every_lane(b + 16), g, g + 1, g + 2, g + 3), 1);
    vi high = bytes_and(shift_lanes(every_lane(b + 32), g, g + 1, g + 2, g + 3), 1);
    return (codes){vi_or(c.low, vi_shl(low, 4)), vi_or(c.high, vi_shl(high, 4))};
}

/* Q2_K and Q3_K: a group's codes are two bits of the same 32 bytes. */
INLINE codes two_or_three(hsc_dtype dtype, const unsigned char *b, int half)
{
    const unsigned char *p = b + (dtype == HSC_Q3_K ? 32 : 16) + half * 32;
    codes c = {bytes_and(shift_lanes(every_lane(p), 0, 2, 4, 6), 3),
               bytes_and(shift_lanes(every_lane(p + 16), 0, 2, 4, 6), 3)};
    if (dtype != HSC_Q3_K) return c;
    int g = half * 4;
    vi low = bytes_and(shift_lanes(every_lane(b), g, g + 1, g + 2, g + 3), 1);
    vi high = bytes_and(shift_lanes(every_lane(b + 16), g, g + 1, g + 2, g + 3), 1);
    return (codes){vi_or(c.low, vi_shl(low, 2)), vi_or(c.high, vi_shl(high, 2))};
}

INLINE codes six(const unsigned char *b, int half)
{
    vi both = _mm512_loadu_si512(b + half * 64);
    codes c = {_mm512_shuffle_i32x4(both, both, 0x88), _mm512_shuffle_i32x4(both, both, 0xDD)};
    c.low = bytes_and(shift_lanes(c.low, 0, 0, 4, 4), 15);
    c.high = bytes_and(shift_lanes(c.high, 0, 0, 4, 4), 15);
    const unsigned char *top = b + 128 + half * 32;
    vi low = bytes_and(shift_lanes(every_lane(top), 0, 2, 4, 6), 3);
    vi high = bytes_and(shift_lanes(every_lane(top + 16), 0, 2, 4, 6), 3);
    return (codes){vi_or(c.low, vi_shl(low, 4)), vi_or(c.high, vi_shl(high, 4))};
}

/* Lane i of 128 bits of `low`: values 0 to 15 of group i of the quad; of `high` values 16 to 31. */
INLINE codes quad_codes(hsc_dtype dtype, const unsigned char *row, const place *p)
{
    const unsigned char *b = row + p->offset;
    switch (dtype) {
    case HSC_Q2_K:
    case HSC_Q3_K: return two_or_three(dtype, b, p->half);
    case HSC_Q4_K:
    case HSC_Q5_K: return four_or_five(dtype, b, p->half);
    case HSC_Q6_K: return six(b, p->half);
    case HSC_IQ4_XS: return look_up(halfbytes(_mm512_loadu_si512(b + 8 + p->half * 64)));
    default: return block_codes(dtype, b, p->step);
    }
}

/* Scales and minima of the groups of a quad, 16 rows in lanes; [1]: of second halves, where the type has halves. */
typedef struct quad_scales {
    vf scale[QUAD][2], minimum[QUAD][2];
} quad_scales;

/* Byte n of every word as a float. */
INLINE vf byte_of(vi word, int n)
{
    vi b = n == 0 ? word : n == 1 ? vi_shr(word, 8) : n == 2 ? vi_shr(word, 16) : vi_shr(word, 24);
    return vf_from_int(vi_and(b, vi_set1(255)));
}

INLINE vf negative(vf a)
{
    return _mm512_xor_ps(a, vf_set1(-0.0f));
}

/* Byte i of four words becomes d times it as the scale i of a quad, one a group or two. */
INLINE void scales_of_bytes(vf d, vi word, vi next, bool halves, int less, vf scale[QUAD][2])
{
    UNROLL
    for (int g = 0; g < QUAD; g++) {
        UNROLL
        for (int h = 0; h < 1 + halves; h++) {
            int i = halves ? 2 * g + h : g;
            scale[g][h] = vf_mul(d, vf_sub(byte_of(i < 4 ? word : next, i % 4), vf_set1((float)less)));
        }
    }
}

INLINE void block_scales(hsc_dtype dtype, const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    UNROLL
    for (int g = 0; g < QUAD; g++) {
        if (hsc__q8_type_of(dtype).has_minimum) {
            vi both = vi_gather32(rows, p->offset + p->step[g]);
            s->scale[g][0] = vf_from_low_f16(both);
            s->minimum[g][0] = vf_from_low_f16(vi_shr(both, 16));
        } else {
            s->scale[g][0] = vf_from_low_f16(vi_gather32(rows, p->offset + p->step[g])); /* one code beside it */
        }
    }
}

INLINE vi words_and(vi a, int mask)
{
    return vi_and(a, vi_set1(mask * 0x01010101));
}

INLINE void four_or_five_scales(const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    vi w[4];
    vi_gather4(rows, p->offset, w);
    vf d = vf_from_low_f16(w[0]), m = vf_from_low_f16(vi_shr(w[0], 16));
    vi scale = words_and(w[1], 63), minimum = words_and(w[2], 63);
    if (p->half) {
        scale = vi_or(words_and(w[3], 15), vi_shl(words_and(vi_shr(w[1], 6), 3), 4));
        minimum = vi_or(words_and(vi_shr(w[3], 4), 15), vi_shl(words_and(vi_shr(w[2], 6), 3), 4));
    }
    scales_of_bytes(d, scale, scale, false, 0, s->scale);
    scales_of_bytes(negative(m), minimum, minimum, false, 0, s->minimum);
}

INLINE void two_scales(const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    vi w[4], both = vi_gather32(rows, p->offset + 80);
    vi_gather4(rows, p->offset, w);
    vi first = p->half ? w[2] : w[0], second = p->half ? w[3] : w[1];
    vf d = vf_from_low_f16(both), m = negative(vf_from_low_f16(vi_shr(both, 16)));
    scales_of_bytes(d, words_and(first, 15), words_and(second, 15), true, 0, s->scale);
    scales_of_bytes(m, words_and(vi_shr(first, 4), 15), words_and(vi_shr(second, 4), 15), true, 0, s->minimum);
}

INLINE void three_scales(const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    vf d = vf_from_low_f16(vi_shr(vi_gather32(rows, p->offset + 106), 16));
    vi first = vi_gather32(rows, p->offset + 96), second = vi_gather32(rows, p->offset + 100),
       top = vi_gather32(rows, p->offset + 104);
    if (p->half) {
        first = vi_shr(first, 4);
        second = vi_shr(second, 4);
        top = vi_shr(top, 4);
    }
    first = vi_or(words_and(first, 15), vi_shl(words_and(top, 3), 4));
    second = vi_or(words_and(second, 15), vi_shl(words_and(vi_shr(top, 2), 3), 4));
    scales_of_bytes(d, first, second, true, 32, s->scale);
}

/* Its scales are signed. */
INLINE void six_scales(const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    vf d = vf_from_low_f16(vi_shr(vi_gather32(rows, p->offset + 206), 16));
    vi w[4], flip = vi_set1((int)0x80808080u);
    vi_gather4(rows, p->offset + 192, w);
    vi first = p->half ? w[2] : w[0], second = p->half ? w[3] : w[1];
    scales_of_bytes(d, _mm512_xor_si512(first, flip), _mm512_xor_si512(second, flip), true, 128, s->scale);
}

INLINE void iq4_xs_scales(const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    vi both = vi_gather32(rows, p->offset), low = vi_gather32(rows, p->offset + 4), high = vi_shr(both, 16);
    vf d = vf_from_low_f16(both);
    if (p->half) {
        low = vi_shr(low, 16);
        high = vi_shr(high, 8);
    }
    UNROLL
    for (int g = 0; g < QUAD; g++) {
        vi a = g == 0 ? low : g == 1 ? vi_shr(low, 4) : g == 2 ? vi_shr(low, 8) : vi_shr(low, 12);
        vi b = g == 0 ? vi_shl(high, 4) : g == 1 ? vi_shl(high, 2) : g == 2 ? high : vi_shr(high, 2);
        vi packed = vi_or(vi_and(a, vi_set1(15)), vi_and(b, vi_set1(48)));
        s->scale[g][0] = vf_mul(d, vf_from_int(vi_sub(packed, vi_set1(32))));
    }
}

INLINE void find_scales(hsc_dtype dtype, const unsigned char *const rows[VL], const place *p, quad_scales *s)
{
    switch (dtype) {
    case HSC_Q2_K: two_scales(rows, p, s); return;
    case HSC_Q3_K: three_scales(rows, p, s); return;
    case HSC_Q4_K:
    case HSC_Q5_K: four_or_five_scales(rows, p, s); return;
    case HSC_Q6_K: six_scales(rows, p, s); return;
    case HSC_IQ4_XS: iq4_xs_scales(rows, p, s); return;
    default: block_scales(dtype, rows, p, s); return;
    }
}

#endif
