/*
 * Groups of 32 bytes for AVX2, and dot products of them with 8-bit activations. AVX2 multiplies unsigned by signed
 * bytes and adds two products in 16 bits, where it saturates; so a type's codes are `small` (unsigned and below 64: up
 * to 63 * 127 * 2 * 2 fits), or are signed and lend their sign to the activation (128 * 127 * 2 fits).
 */
#ifndef HSC_KERNELS_SIMD_BYTES_AVX2_H
#define HSC_KERNELS_SIMD_BYTES_AVX2_H

#include "kernels/simd/vec_avx2.h"

typedef __m256i vb;

INLINE vb vb_load(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE void vb_store(void *p, vb a)
{
    _mm256_storeu_si256(p, a);
}

/* The low halves of 16 bytes, then their high halves. */
INLINE vb vb_halfbytes(const void *p)
{
    __m128i a = _mm_loadu_si128(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(a, 4), a), _mm256_set1_epi8(15));
}

/* Each byte shifted right by n, of which the bits of the mask are kept; it lies within 8 - n bits. */
INLINE vb vb_bits_down(vb a, int n, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(a, _mm_cvtsi32_si128(n)), _mm256_set1_epi8((char)mask));
}

/* a, with the bits of b above it; b << n fits into a byte. */
#define vb_with_above(a, b, n) _mm256_or_si256(a, _mm256_slli_epi16(b, n))

/* Byte k: bit k of the 32-bit word at p. */
INLINE vb vb_spread_bits(const void *p)
{
    int word;
    memcpy(&word, p, sizeof word);
    const vb byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const vb bit = _mm256_set1_epi64x((int64_t)0x8040201008040201u);
    vb own = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(own, bit), _mm256_set1_epi8(1));
}

INLINE vb vb_look_up(const signed char table[16], vb a)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), a);
}

/* Sums of pairs of products in 16 bits. */
INLINE vi pairs_of(const bool is_small, vb w, vb x)
{
    return is_small ? _mm256_maddubs_epi16(w, x) : _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

INLINE vi widen_pairs(vi pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* Lane i of sum[0]: values 0 to 15 of w[i] times those of x; of sum[1]: values 16 to 31. */
INLINE void vb_dot_rows(const bool is_small, const vb w[VL], vb x, vi sum[2])
{
    vi d[VL];
    UNROLL
    for (int i = 0; i < VL; i++) d[i] = widen_pairs(pairs_of(is_small, w[i], x));
    vi a = _mm256_hadd_epi32(_mm256_hadd_epi32(d[0], d[1]), _mm256_hadd_epi32(d[2], d[3]));
    vi b = _mm256_hadd_epi32(_mm256_hadd_epi32(d[4], d[5]), _mm256_hadd_epi32(d[6], d[7]));
    sum[0] = _mm256_permute2x128_si256(a, b, 0x20);
    sum[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

/* Two steps of a panel: lane i of `sum` gains the four products of each w[s] with x[4 s ..]. */
INLINE vi vi_dot_two(const bool is_small, const vi w[2], const int8_t *x, vi sum)
{
    int four[2];
    memcpy(four, x, sizeof four);
    vi a = pairs_of(is_small, w[0], vi_set1(four[0])), b = pairs_of(is_small, w[1], vi_set1(four[1]));
    if (is_small) return vi_add(sum, widen_pairs(_mm256_add_epi16(a, b)));
    return vi_add(sum, vi_add(widen_pairs(a), widen_pairs(b)));
}

INLINE vi vi_round(vf a)
{
    return _mm256_cvtps_epi32(a);
}

INLINE int vi_sum(vi a)
{
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xB1)));
}

/* 32 integers that fit into a byte. */
INLINE void store_bytes(int8_t *q, const vi a[4])
{
    vi low = _mm256_packs_epi32(a[0], a[1]), high = _mm256_packs_epi32(a[2], a[3]);
    vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    vb_store(q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
}

#endif
