/* Vectors of 8 floats for AVX2, FMA and F16C. Partial loads and stores touch nothing past their lanes. */
#ifndef HSC_KERNELS_SIMD_VEC_AVX2_H
#define HSC_KERNELS_SIMD_VEC_AVX2_H

#define KERNEL(name) hsc__avx2_##name

/* 12 accumulators, two panel vectors and a broadcast leave one of 16 registers. */
#define TILE_ROWS 6
enum { VL = 8, MR = TILE_ROWS, NV = 2 };

#include "kernels/simd/isa.h"

#include <immintrin.h>

typedef __m256 vf;
typedef __m256i vi;
typedef struct vpart {
    __m256i mask;
    int n;
} vpart;

/* The first n lanes, 0 <= n; all of them from VL on. */
INLINE vpart part(int n)
{
    n = n < VL ? n : VL;
    return (vpart){_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), n};
}

INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vf vf_set1(float a)
{
    return _mm256_set1_ps(a);
}

INLINE vf vf_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

/* Lanes outside the part become 0. */
INLINE vf vf_load_part(const void *p, vpart lanes)
{
    return _mm256_maskload_ps(p, lanes.mask);
}

INLINE void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

INLINE void vf_store_part(float *p, vf a, vpart lanes)
{
    _mm256_maskstore_ps(p, lanes.mask, a);
}

/* Lanes outside the part are taken from `others`. */
INLINE vf vf_fill(vf a, vpart lanes, vf others)
{
    return _mm256_blendv_ps(others, a, _mm256_castsi256_ps(lanes.mask));
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b, rounded once. */
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* A lane of b that is NaN comes out NaN. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

INLINE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* The magnitude of a with the sign of b. */
INLINE vf vf_copysign(vf a, vf b)
{
    return _mm256_or_ps(vf_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), b));
}

/* a where x < limit, else b (also where x is NaN). */
INLINE vf vf_where_less(vf x, vf limit, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, limit, _CMP_LT_OQ));
}

/* Whether a < b in any lane; a lane with a NaN says no. */
INLINE bool vf_any_less(vf a, vf b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0;
}

INLINE vi vi_set1(int a)
{
    return _mm256_set1_epi32(a);
}

INLINE vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

INLINE vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

/* Shifts by a constant: left, right with zeros, right with the sign. */
#define vi_shl(a, n) _mm256_slli_epi32(a, n)
#define vi_shr(a, n) _mm256_srli_epi32(a, n)
#define vi_sar(a, n) _mm256_srai_epi32(a, n)

INLINE vf vf_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}

INLINE vi vi_bits(vf a)
{
    return _mm256_castps_si256(a);
}

INLINE vf vf_from_int(vi a)
{
    return _mm256_cvtepi32_ps(a);
}

/* Lane i: the f16 in the low half of lane i. */
INLINE vf vf_from_low_f16(vi a)
{
    vi low = _mm256_and_si256(a, _mm256_set1_epi32(0xFFFF));
    vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

INLINE vf vf_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE vf vf_load_bf16(const void *p)
{
    return vf_bits(vi_shl(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

INLINE vf vf_load_f16_part(const void *p, vpart lanes)
{
    unsigned short copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes.n * sizeof copy[0]);
    return vf_load_f16(copy);
}

INLINE vf vf_load_bf16_part(const void *p, vpart lanes)
{
    unsigned short copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes.n * sizeof copy[0]);
    return vf_load_bf16(copy);
}

INLINE vf vf_load_f64(const void *p)
{
    const unsigned char *bytes = p;
    __m128 low = _mm256_cvtpd_ps(_mm256_loadu_pd((const void *)bytes));
    __m128 high = _mm256_cvtpd_ps(_mm256_loadu_pd((const void *)(bytes + 32)));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

INLINE vf vf_load_f64_part(const void *p, vpart lanes)
{
    double copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes.n * sizeof copy[0]);
    return vf_load_f64(copy);
}

/* Sums and maxima over the lanes, by halves: one fixed tree. */
INLINE float vf_sum(vf a)
{
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE float vf_largest(vf a)
{
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* The first half of a transpose: of rows t[0..VL) it makes t[4 g + i] = values 4 g .. 4 g + 3 of rows i, i + 4. */
INLINE void vf_regroup(vf t[VL])
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        vf low = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
        t[i] = low;
    }
}

/* The second half: from t[4 g ..] of vf_regroup the values 4 g .. 4 g + 3, each with the rows in lanes. */
INLINE void vf_quad(const vf t[4], vf out[4])
{
    __m256d x0 = _mm256_castps_pd(_mm256_unpacklo_ps(t[0], t[1])),
            x1 = _mm256_castps_pd(_mm256_unpackhi_ps(t[0], t[1]));
    __m256d x2 = _mm256_castps_pd(_mm256_unpacklo_ps(t[2], t[3])),
            x3 = _mm256_castps_pd(_mm256_unpackhi_ps(t[2], t[3]));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(x0, x2));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x0, x2));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(x1, x3));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(x1, x3));
}

/* Four consecutive 32-bit words of each row: out[g] lane i = word g at rows[i] + offset. */
INLINE void vi_gather4(const unsigned char *const rows[VL], size_t offset, vi out[4])
{
    vi a[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        a[i] = _mm256_castsi128_si256(_mm_loadu_si128((const void *)(rows[i] + offset)));
        a[i] = _mm256_inserti128_si256(a[i], _mm_loadu_si128((const void *)(rows[i + 4] + offset)), 1);
    }
    vi x0 = _mm256_unpacklo_epi32(a[0], a[1]), x1 = _mm256_unpackhi_epi32(a[0], a[1]);
    vi x2 = _mm256_unpacklo_epi32(a[2], a[3]), x3 = _mm256_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm256_unpacklo_epi64(x0, x2);
    out[1] = _mm256_unpackhi_epi64(x0, x2);
    out[2] = _mm256_unpacklo_epi64(x1, x3);
    out[3] = _mm256_unpackhi_epi64(x1, x3);
}

/* Lane i = the 32-bit (16-bit, zero-extended) word at rows[i] + offset. */
INLINE vi vi_gather32(const unsigned char *const rows[VL], size_t offset)
{
    int w[VL];
    UNROLL
    for (int i = 0; i < VL; i++) memcpy(&w[i], rows[i] + offset, sizeof w[i]);
    return _mm256_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
}

INLINE vi vi_gather16(const unsigned char *const rows[VL], size_t offset)
{
    short w[VL];
    UNROLL
    for (int i = 0; i < VL; i++) memcpy(&w[i], rows[i] + offset, sizeof w[i]);
    return _mm256_cvtepu16_epi32(_mm_setr_epi16(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]));
}

/* Even and odd lanes of the 2 VL floats a, b: (a0 a2 .. b0 b2 ..) and (a1 a3 .. b1 b3 ..); and back. */
INLINE void vf_split(vf a, vf b, vf *even, vf *odd)
{
    vf low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31); /* a0-3 b0-3, a4-7 b4-7 */
    __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88)); /* a0 a2 a4 a6 b0 b2 b4 b6 */
    __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xDD));
    *even = _mm256_castpd_ps(e);
    *odd = _mm256_castpd_ps(o);
}

INLINE void vf_join(vf even, vf odd, vf *a, vf *b)
{
    vf low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}

#endif
