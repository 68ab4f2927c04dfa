/* Vectors of 16 floats for AVX-512 (F, BW, DQ, VL). Partial loads and stores touch nothing past their lanes. */
#ifndef HSC_KERNELS_SIMD_VEC_AVX512_H
#define HSC_KERNELS_SIMD_VEC_AVX512_H

#define KERNEL(name) hsc__avx512_##name

/* 24 accumulators, two panel vectors and a broadcast leave a few of 32 registers. */
#define TILE_ROWS 12
enum { VL = 16, MR = TILE_ROWS, NV = 2 };

#include "kernels/simd/isa.h"

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vpart;

/* The first n lanes, 0 <= n; all of them from VL on. */
INLINE vpart part(int n)
{
    return n >= VL ? (vpart)0xFFFF : (vpart)((1u << n) - 1);
}

INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vf vf_set1(float a)
{
    return _mm512_set1_ps(a);
}

INLINE vf vf_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

/* Lanes outside the part become 0. */
INLINE vf vf_load_part(const void *p, vpart lanes)
{
    return _mm512_maskz_loadu_ps(lanes, p);
}

INLINE void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

INLINE void vf_store_part(float *p, vf a, vpart lanes)
{
    _mm512_mask_storeu_ps(p, lanes, a);
}

/* Lanes outside the part are taken from `others`. */
INLINE vf vf_fill(vf a, vpart lanes, vf others)
{
    return _mm512_mask_blend_ps(lanes, others, a);
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* c - a * b, rounded once. */
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* A lane of b that is NaN comes out NaN. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

INLINE vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}

/* The magnitude of a with the sign of b. */
INLINE vf vf_copysign(vf a, vf b)
{
    const vi sign = _mm512_set1_epi32((int)0x80000000u);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(a), _mm512_castps_si512(b), 0xAC));
}

/* a where x < limit, else b (also where x is NaN). */
INLINE vf vf_where_less(vf x, vf limit, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), b, a);
}

/* Whether a < b in any lane; a lane with a NaN says no. */
INLINE bool vf_any_less(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0;
}

INLINE vi vi_set1(int a)
{
    return _mm512_set1_epi32(a);
}

INLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

INLINE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

/* Shifts by a constant: left, right with zeros, right with the sign. */
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n)
#define vi_sar(a, n) _mm512_srai_epi32(a, n)

INLINE vf vf_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

INLINE vi vi_bits(vf a)
{
    return _mm512_castps_si512(a);
}

INLINE vf vf_from_int(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* Lane i: the f16 in the low half of lane i. */
INLINE vf vf_from_low_f16(vi a)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}

INLINE vf vf_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

INLINE vf vf_load_f16_part(const void *p, vpart lanes)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, p));
}

INLINE vf vf_load_bf16(const void *p)
{
    return vf_bits(vi_shl(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

INLINE vf vf_load_bf16_part(const void *p, vpart lanes)
{
    return vf_bits(vi_shl(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p)), 16));
}

INLINE vf vf_load_f64_part(const void *p, vpart lanes)
{
    __m256 low = _mm512_cvtpd_ps(_mm512_maskz_loadu_pd((__mmask8)lanes, p));
    __m256 high = _mm512_cvtpd_ps(_mm512_maskz_loadu_pd((__mmask8)(lanes >> 8), (const double *)p + 8));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

INLINE vf vf_load_f64(const void *p)
{
    return vf_load_f64_part(p, (vpart)0xFFFF);
}

/* Sums and maxima over the lanes, by halves: one fixed tree. */
INLINE float vf_sum(vf a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE float vf_largest(vf a)
{
    return _mm512_reduce_max_ps(a);
}

/* The first half of a transpose: of rows t[0..VL) it makes t[4 g + i] = values 4 g .. 4 g + 3 of rows i, i + 4, ... */
INLINE void vf_regroup(vf t[VL])
{
    vf a[VL];
    UNROLL
    for (int i = 0; i < 4; i++) {
        vf x0 = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x44), x1 = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xEE);
        vf x2 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x44), x3 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xEE);
        a[i] = _mm512_shuffle_f32x4(x0, x2, 0x88);
        a[i + 4] = _mm512_shuffle_f32x4(x0, x2, 0xDD);
        a[i + 8] = _mm512_shuffle_f32x4(x1, x3, 0x88);
        a[i + 12] = _mm512_shuffle_f32x4(x1, x3, 0xDD);
    }
    UNROLL
    for (int i = 0; i < VL; i++) t[i] = a[i];
}

/* The second half: from t[4 g ..] of vf_regroup the values 4 g .. 4 g + 3, each with the rows in lanes. */
INLINE void vf_quad(const vf t[4], vf out[4])
{
    __m512d x0 = _mm512_castps_pd(_mm512_unpacklo_ps(t[0], t[1])),
            x1 = _mm512_castps_pd(_mm512_unpackhi_ps(t[0], t[1]));
    __m512d x2 = _mm512_castps_pd(_mm512_unpacklo_ps(t[2], t[3])),
            x3 = _mm512_castps_pd(_mm512_unpackhi_ps(t[2], t[3]));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(x0, x2));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x0, x2));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(x1, x3));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(x1, x3));
}

/* Four consecutive 32-bit words of each row: out[g] lane i = word g at rows[i] + offset. */
INLINE void vi_gather4(const unsigned char *const rows[VL], size_t offset, vi out[4])
{
    vi a[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        a[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(rows[i] + offset)));
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const void *)(rows[i + 4] + offset)), 1);
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const void *)(rows[i + 8] + offset)), 2);
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const void *)(rows[i + 12] + offset)), 3);
    }
    vi x0 = _mm512_unpacklo_epi32(a[0], a[1]), x1 = _mm512_unpackhi_epi32(a[0], a[1]);
    vi x2 = _mm512_unpacklo_epi32(a[2], a[3]), x3 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(x0, x2);
    out[1] = _mm512_unpackhi_epi64(x0, x2);
    out[2] = _mm512_unpacklo_epi64(x1, x3);
    out[3] = _mm512_unpackhi_epi64(x1, x3);
}

/* Lane i = the 32-bit (16-bit, zero-extended) word at rows[i] + offset. */
INLINE vi vi_gather32(const unsigned char *const rows[VL], size_t offset)
{
    int w[VL];
    UNROLL
    for (int i = 0; i < VL; i++) memcpy(&w[i], rows[i] + offset, sizeof w[i]);
    return _mm512_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
                             w[14], w[15]);
}

INLINE vi vi_gather16(const unsigned char *const rows[VL], size_t offset)
{
    short w[VL];
    UNROLL
    for (int i = 0; i < VL; i++) memcpy(&w[i], rows[i] + offset, sizeof w[i]);
    return _mm512_cvtepu16_epi32(_mm256_setr_epi16(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
                                                   w[11], w[12], w[13], w[14], w[15]));
}

/* Even and odd lanes of the 2 VL floats a, b: (a0 a2 .. b0 b2 ..) and (a1 a3 .. b1 b3 ..); and back. */
INLINE void vf_split(vf a, vf b, vf *even, vf *odd)
{
    const vi e = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(a, e, b);
    *odd = _mm512_permutex2var_ps(a, vi_add(e, vi_set1(1)), b);
}

INLINE void vf_join(vf even, vf odd, vf *a, vf *b)
{
    const vi low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    *a = _mm512_permutex2var_ps(even, low, odd);
    *b = _mm512_permutex2var_ps(even, vi_add(low, vi_set1(8)), odd);
}

#endif
