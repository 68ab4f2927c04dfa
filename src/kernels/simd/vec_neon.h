/* Vectors of 4 floats for Arm's Advanced SIMD (AArch64). Partial loads and stores touch nothing past their lanes. */
#ifndef HSC_KERNELS_SIMD_VEC_NEON_H
#define HSC_KERNELS_SIMD_VEC_NEON_H

#ifndef KERNEL /* files for some processors of the level name theirs first */
#define KERNEL(name) hsc__neon_##name
#endif

/* 24 accumulators, two panel vectors and a broadcast leave a few of 32 registers. */
#define TILE_ROWS 12
enum { VL = 4, MR = TILE_ROWS, NV = 2 };

#include "kernels/simd/isa.h"

#include <arm_neon.h>

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef int vpart; /* how many lanes */

/* The first n lanes, 0 <= n; all of them from VL on. */
INLINE vpart part(int n)
{
    return n < VL ? n : VL;
}

INLINE vf vf_zero(void)
{
    return vdupq_n_f32(0);
}

INLINE vf vf_set1(float a)
{
    return vdupq_n_f32(a);
}

INLINE vf vf_load(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

/* Lanes outside the part become 0. */
INLINE vf vf_load_part(const void *p, vpart lanes)
{
    float copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes * sizeof copy[0]);
    return vld1q_f32(copy);
}

INLINE void vf_store(float *p, vf a)
{
    vst1q_f32(p, a);
}

INLINE void vf_store_part(float *p, vf a, vpart lanes)
{
    float copy[VL];
    vst1q_f32(copy, a);
    memcpy(p, copy, (size_t)lanes * sizeof copy[0]);
}

/* Lanes outside the part are taken from `others`. */
INLINE vf vf_fill(vf a, vpart lanes, vf others)
{
    static const int index[VL] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(index), vdupq_n_s32(lanes)), a, others);
}

INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

/* a * b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* c - a * b, rounded once. */
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

/* A lane of b that is NaN comes out NaN. */
INLINE vf vf_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return vminq_f32(a, b);
}

INLINE vf vf_abs(vf a)
{
    return vabsq_f32(a);
}

/* The magnitude of a with the sign of b. */
INLINE vf vf_copysign(vf a, vf b)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), b, a);
}

/* a where x < limit, else b (also where x is NaN). */
INLINE vf vf_where_less(vf x, vf limit, vf a, vf b)
{
    return vbslq_f32(vcltq_f32(x, limit), a, b);
}

/* Whether a < b in any lane; a lane with a NaN says no. */
INLINE bool vf_any_less(vf a, vf b)
{
    return vmaxvq_u32(vcltq_f32(a, b)) != 0;
}

INLINE vi vi_set1(int a)
{
    return vdupq_n_s32(a);
}

INLINE vi vi_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}

INLINE vi vi_sub(vi a, vi b)
{
    return vsubq_s32(a, b);
}

INLINE vi vi_and(vi a, vi b)
{
    return vandq_s32(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return vorrq_s32(a, b);
}

/* Shifts by a constant: left, right with zeros, right with the sign. */
#define vi_shl(a, n) vshlq_n_s32(a, n)
#define vi_shr(a, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n))
#define vi_sar(a, n) vshrq_n_s32(a, n)

INLINE vf vf_bits(vi a)
{
    return vreinterpretq_f32_s32(a);
}

INLINE vi vi_bits(vf a)
{
    return vreinterpretq_s32_f32(a);
}

INLINE vf vf_from_int(vi a)
{
    return vcvtq_f32_s32(a);
}

/* Lane i: the f16 in the low half of lane i. */
INLINE vf vf_from_low_f16(vi a)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(a))));
}

INLINE vf vf_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE vf vf_load_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

INLINE vf vf_load_f16_part(const void *p, vpart lanes)
{
    unsigned short copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes * sizeof copy[0]);
    return vf_load_f16(copy);
}

INLINE vf vf_load_bf16_part(const void *p, vpart lanes)
{
    unsigned short copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes * sizeof copy[0]);
    return vf_load_bf16(copy);
}

INLINE vf vf_load_f64(const void *p)
{
    const unsigned char *bytes = p;
    float64x2_t low = vreinterpretq_f64_u8(vld1q_u8(bytes)), high = vreinterpretq_f64_u8(vld1q_u8(bytes + 16));
    return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}

INLINE vf vf_load_f64_part(const void *p, vpart lanes)
{
    double copy[VL] = {0};
    memcpy(copy, p, (size_t)lanes * sizeof copy[0]);
    return vf_load_f64(copy);
}

/* Sums and maxima over the lanes, by halves: one fixed tree. */
INLINE float vf_sum(vf a)
{
    float32x2_t half = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(half, 0) + vget_lane_f32(half, 1);
}

INLINE float vf_largest(vf a)
{
    return vmaxvq_f32(a);
}

/* The first half of a transpose, which four rows do not need. */
INLINE void vf_regroup(vf t[VL])
{
    (void)t;
}

/* The second half: from the rows t[0..4) their values, each with the rows in lanes. */
INLINE void vf_quad(const vf t[4], vf out[4])
{
    float64x2_t x0 = vreinterpretq_f64_f32(vtrn1q_f32(t[0], t[1])), x1 = vreinterpretq_f64_f32(vtrn2q_f32(t[0], t[1]));
    float64x2_t x2 = vreinterpretq_f64_f32(vtrn1q_f32(t[2], t[3])), x3 = vreinterpretq_f64_f32(vtrn2q_f32(t[2], t[3]));
    out[0] = vreinterpretq_f32_f64(vtrn1q_f64(x0, x2));
    out[1] = vreinterpretq_f32_f64(vtrn1q_f64(x1, x3));
    out[2] = vreinterpretq_f32_f64(vtrn2q_f64(x0, x2));
    out[3] = vreinterpretq_f32_f64(vtrn2q_f64(x1, x3));
}

/* Four consecutive 32-bit words of each row: out[g] lane i = word g at rows[i] + offset. */
INLINE void vi_gather4(const unsigned char *const rows[VL], size_t offset, vi out[4])
{
    vf t[VL], words[4];
    for (int i = 0; i < VL; i++) t[i] = vf_load(rows[i] + offset);
    vf_quad(t, words);
    for (int i = 0; i < 4; i++) out[i] = vi_bits(words[i]);
}

/* Lane i = the 32-bit (16-bit, zero-extended) word at rows[i] + offset. */
INLINE vi vi_gather32(const unsigned char *const rows[VL], size_t offset)
{
    int w[VL];
    for (int i = 0; i < VL; i++) memcpy(&w[i], rows[i] + offset, sizeof w[i]);
    return vld1q_s32(w);
}

INLINE vi vi_gather16(const unsigned char *const rows[VL], size_t offset)
{
    int w[VL];
    for (int i = 0; i < VL; i++) {
        unsigned short half;
        memcpy(&half, rows[i] + offset, sizeof half);
        w[i] = half;
    }
    return vld1q_s32(w);
}

/* Even and odd lanes of the 2 VL floats a, b: (a0 a2 .. b0 b2 ..) and (a1 a3 .. b1 b3 ..); and back. */
INLINE void vf_split(vf a, vf b, vf *even, vf *odd)
{
    *even = vuzp1q_f32(a, b);
    *odd = vuzp2q_f32(a, b);
}

INLINE void vf_join(vf even, vf odd, vf *a, vf *b)
{
    *a = vzip1q_f32(even, odd);
    *b = vzip2q_f32(even, odd);
}

#endif
