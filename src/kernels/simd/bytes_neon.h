/*
 * Groups of 32 bytes for NEON, and dot products of them with 8-bit activations: by the instruction for it where the
 * file is compiled for processors that have it, else by widening products, whose pairs fit into 16 bits. All codes are
 * used as signed bytes; those of `small` types are below 64.
 */
#ifndef HSC_KERNELS_SIMD_BYTES_NEON_H
#define HSC_KERNELS_SIMD_BYTES_NEON_H

#include "kernels/simd/vec_neon.h"

typedef struct vb {
    uint8x16_t low, high;
} vb;

INLINE vb vb_load(const void *p)
{
    const unsigned char *bytes = p;
    return (vb){vld1q_u8(bytes), vld1q_u8(bytes + 16)};
}

INLINE void vb_store(void *p, vb a)
{
    unsigned char *bytes = p;
    vst1q_u8(bytes, a.low);
    vst1q_u8(bytes + 16, a.high);
}

/* The low halves of 16 bytes, then their high halves. */
INLINE vb vb_halfbytes(const void *p)
{
    uint8x16_t a = vld1q_u8(p);
    return (vb){vandq_u8(a, vdupq_n_u8(15)), vshrq_n_u8(a, 4)};
}

/* Each byte shifted right by n, of which the bits of the mask are kept. */
INLINE vb vb_bits_down(vb a, int n, int mask)
{
    int8x16_t down = vdupq_n_s8((int8_t)-n);
    uint8x16_t kept = vdupq_n_u8((uint8_t)mask);
    return (vb){vandq_u8(vshlq_u8(a.low, down), kept), vandq_u8(vshlq_u8(a.high, down), kept)};
}

/* a, with the bits of b above it; b << n fits into a byte. */
INLINE vb vb_with_above(vb a, vb b, int n)
{
    int8x16_t up = vdupq_n_s8((int8_t)n);
    return (vb){vorrq_u8(a.low, vshlq_u8(b.low, up)), vorrq_u8(a.high, vshlq_u8(b.high, up))};
}

/* Byte k: bit k of the 32-bit word at p. */
INLINE vb vb_spread_bits(const void *p)
{
    static const unsigned char byte[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                           2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
    static const unsigned char bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t word;
    memcpy(&word, p, sizeof word);
    uint8x16_t all = vreinterpretq_u8_u32(vdupq_n_u32(word)), own = vld1q_u8(bit), one = vdupq_n_u8(1);
    return (vb){vandq_u8(vtstq_u8(vqtbl1q_u8(all, vld1q_u8(byte)), own), one),
                vandq_u8(vtstq_u8(vqtbl1q_u8(all, vld1q_u8(byte + 16)), own), one)};
}

INLINE vb vb_look_up(const signed char table[16], vb a)
{
    uint8x16_t values = vreinterpretq_u8_s8(vld1q_s8(table));
    return (vb){vqtbl1q_u8(values, a.low), vqtbl1q_u8(values, a.high)};
}

/* Lane i of `sum` gains the four products of bytes 4 i to 4 i + 3. */
INLINE vi dot_four(vi sum, int8x16_t w, int8x16_t x)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sum, w, x);
#else
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}

/* Lane i of sum[0]: values 0 to 15 of w[i] times those of x; of sum[1]: values 16 to 31. */
INLINE void vb_dot_rows(const bool is_small, const vb w[VL], vb x, vi sum[2])
{
    (void)is_small;
    vi low[VL], high[VL];
    UNROLL
    for (int i = 0; i < VL; i++) {
        low[i] = dot_four(vi_set1(0), vreinterpretq_s8_u8(w[i].low), vreinterpretq_s8_u8(x.low));
        high[i] = dot_four(vi_set1(0), vreinterpretq_s8_u8(w[i].high), vreinterpretq_s8_u8(x.high));
    }
    sum[0] = vpaddq_s32(vpaddq_s32(low[0], low[1]), vpaddq_s32(low[2], low[3]));
    sum[1] = vpaddq_s32(vpaddq_s32(high[0], high[1]), vpaddq_s32(high[2], high[3]));
}

/* Two steps of a panel: lane i of `sum` gains the four products of each w[s] with x[4 s ..]. */
INLINE vi vi_dot_two(const bool is_small, const vi w[2], const int8_t *x, vi sum)
{
    (void)is_small;
    UNROLL
    for (int s = 0; s < 2; s++) {
        int four;
        memcpy(&four, x + 4 * s, sizeof four);
        sum = dot_four(sum, vreinterpretq_s8_s32(w[s]), vreinterpretq_s8_s32(vi_set1(four)));
    }
    return sum;
}

/* To the nearest, ties to even. */
INLINE vi vi_round(vf a)
{
    return vcvtnq_s32_f32(a);
}

INLINE int vi_sum(vi a)
{
    return vaddvq_s32(a);
}

/* 32 integers that fit into a byte. */
INLINE void store_bytes(int8_t *q, const vi a[8])
{
    UNROLL
    for (int i = 0; i < 8; i += 2, q += 8) vst1_s8(q, vmovn_s16(vcombine_s16(vmovn_s32(a[i]), vmovn_s32(a[i + 1]))));
}

#endif
