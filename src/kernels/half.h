/* IEEE binary16 and bfloat16 <-> float32 by their bits, for every value including subnormals, infinities and NaN. */
#ifndef HSC_KERNELS_HALF_H
#define HSC_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float hsc__bits_to_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t hsc__f32_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float hsc__bf16_to_f32(uint16_t half)
{
    return hsc__bits_to_f32((uint32_t)half << 16);
}

static inline float hsc__f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return hsc__bits_to_f32(sign | 0x7F800000 | fraction << 13);
    if (exponent) return hsc__bits_to_f32(sign | (exponent + 112) << 23 | fraction << 13);
    float value = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */
    return sign ? -value : value;
}

#endif
