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

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t hsc__f32_to_bf16(float value)
{
    uint32_t bits = hsc__f32_to_bits(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t hsc__f32_to_f16(float value)
{
    uint32_t bits = hsc__f32_to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (size >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and more round to infinity */
    if (size < 0x38800000) {                                  /* subnormal: the addition rounds at 2^-24 */
        float small = hsc__bits_to_f32(size) + 0.5f;
        return (uint16_t)(sign | (hsc__f32_to_bits(small) - 0x3F000000));
    }
    size += 0xFFF + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

#endif
