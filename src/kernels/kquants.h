/*
 * Types whose scales are themselves quantised: Q2_K to Q6_K and IQ4_XS hold 256 values a block in eight groups of 32,
 * IQ4_NL is one group with a table of its own. The layouts are those of the ggml project (ggml-common.h), stated beside
 * each function; the arithmetic rounds as the `gguf` package does: scale first, then a product, then a sum.
 *
 * One group is unpacked at a time, so that a product may begin at any multiple of 32 values. Everything is inline: each
 * instruction set compiles these loops with its own flags, and -ffp-contract=off keeps the bits the same.
 */
#ifndef HSC_KERNELS_KQUANTS_H
#define HSC_KERNELS_KQUANTS_H

#include "base/dtype.h"
#include "kernels/half.h"

#include <stdbool.h>

enum { HSC__KQUANT_GROUP = 32, HSC__KQUANT_BLOCK = 256 };

static inline bool hsc__is_kquant(hsc_dtype dtype)
{
    return dtype >= HSC_Q2_K && dtype <= HSC_IQ4_XS;
}

static inline float hsc__kquant_f16(const unsigned char *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return hsc__f16_to_f32(bits);
}

/* The values of the 4-bit codes of IQ4_NL and IQ4_XS: closer together near 0, where weights are dense. */
static const signed char hsc__iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

/* Scale and minimum (6 bits each) of group g from 12 bytes: of groups 0-3 in the low bits of bytes g and g + 4; of
 * groups 4-7 four bits in byte g + 4 and the two high bits in the tops of bytes g - 4 and g. */
static inline void hsc__kquant_scale(const unsigned char *packed, int g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = packed[g] & 63;
        *minimum = packed[g + 4] & 63;
    } else {
        *scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6 << 4);
        *minimum = packed[g + 4] >> 4 | (packed[g] >> 6 << 4);
    }
}

/* 16 scales of 4 bits each with a minimum of 4 above, 64 bytes of 2-bit codes, f16 scale of scales, f16 of minima;
 * d s q - m_d m. Group g takes bits 2 (g % 4) of 32 bytes. */
static inline void hsc__q2_k_group(const unsigned char *b, int g, float *y)
{
    const unsigned char *codes = b + 16 + g / 4 * 32;
    float d = hsc__kquant_f16(b + 80), m = hsc__kquant_f16(b + 82);
    int shift = g % 4 * 2;
    for (int half = 0; half < 2; half++, codes += 16, y += 16) {
        int packed = b[g * 2 + half];
        float scale = d * (float)(packed & 15), minimum = m * (float)(packed >> 4);
        for (int j = 0; j < 16; j++) y[j] = scale * (float)(codes[j] >> shift & 3) - minimum;
    }
}

/* The 6-bit scale i of 16, of which 32 is 0: four bits in byte i % 8, the two high ones in bytes 8 to 11. */
static inline int hsc__q3_k_scale(const unsigned char *packed, int i)
{
    return ((packed[i % 8] >> (i / 8 * 4) & 15) | (packed[8 + i % 4] >> (i / 4 * 2) & 3) << 4) - 32;
}

/* 32 bytes of third bits (bit g is group g's; where it is not set, 4 is taken off), 64 bytes of 2-bit codes, 12 bytes
 * of scales, f16 scale of scales; d s q. */
static inline void hsc__q3_k_group(const unsigned char *b, int g, float *y)
{
    const unsigned char *codes = b + 32 + g / 4 * 32;
    float d = hsc__kquant_f16(b + 108);
    int shift = g % 4 * 2;
    for (int half = 0; half < 2; half++, codes += 16, y += 16) {
        const unsigned char *third = b + half * 16;
        float scale = d * (float)hsc__q3_k_scale(b + 96, g * 2 + half);
        for (int j = 0; j < 16; j++) y[j] = scale * (float)((codes[j] >> shift & 3) - 4 + ((third[j] >> g & 1) << 2));
    }
}

/* f16 scale of scales, f16 of minima, 12 bytes of both, 128 bytes of codes: groups 2i and 2i + 1 are the low and high
 * halves of the same 32 bytes; d s q - m_d m. */
static inline void hsc__q4_k_group(const unsigned char *b, int g, float *y)
{
    const unsigned char *codes = b + 16 + g / 2 * 32;
    int s, m, shift = g % 2 * 4;
    hsc__kquant_scale(b + 4, g, &s, &m);
    float scale = hsc__kquant_f16(b) * (float)s, minimum = hsc__kquant_f16(b + 2) * (float)m;
    for (int j = 0; j < 32; j++) y[j] = scale * (float)(codes[j] >> shift & 15) - minimum;
}

/* As Q4_K, with 32 bytes of fifth bits (bit g is group g's) before the codes. */
static inline void hsc__q5_k_group(const unsigned char *b, int g, float *y)
{
    const unsigned char *fifth = b + 16, *codes = b + 48 + g / 2 * 32;
    int s, m, shift = g % 2 * 4;
    hsc__kquant_scale(b + 4, g, &s, &m);
    float scale = hsc__kquant_f16(b) * (float)s, minimum = hsc__kquant_f16(b + 2) * (float)m;
    for (int j = 0; j < 32; j++) y[j] = scale * (float)((codes[j] >> shift & 15) | (fifth[j] >> g & 1) << 4) - minimum;
}

/* 128 bytes of low halves, 64 bytes of two high bits, 16 signed scales, f16 scale of scales; d s (q - 32). Of each half
 * of the block, groups 0 and 1 are the low, 2 and 3 the high halves of 64 bytes. */
static inline void hsc__q6_k_group(const unsigned char *b, int g, float *y)
{
    const unsigned char *low = b + g / 4 * 64 + g % 2 * 32, *high = b + 128 + g / 4 * 32;
    float d = hsc__kquant_f16(b + 208);
    int shift = g % 4 / 2 * 4, high_shift = g % 4 * 2;
    for (int half = 0; half < 2; half++, low += 16, high += 16, y += 16) {
        float scale = d * (float)(signed char)b[192 + g * 2 + half];
        for (int j = 0; j < 16; j++)
            y[j] = scale * (float)(((low[j] >> shift & 15) | (high[j] >> high_shift & 3) << 4) - 32);
    }
}

/* 16 bytes: code j is in the low half of byte j, code j + 16 in its high half. */
static inline void hsc__iq4_codes(const unsigned char *codes, float scale, float *y)
{
    for (int j = 0; j < 16; j++) {
        y[j] = scale * (float)hsc__iq4_values[codes[j] & 15];
        y[j + 16] = scale * (float)hsc__iq4_values[codes[j] >> 4];
    }
}

/* f16 scale of scales, two high bits of the eight scales (u16), their four low bits (4 bytes), 128 bytes of codes. */
static inline float hsc__iq4_xs_scale(const unsigned char *b, int g)
{
    uint16_t high;
    memcpy(&high, b + 2, sizeof high);
    int s = (b[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
    return hsc__kquant_f16(b) * (float)(s - 32);
}

static inline void hsc__iq4_xs_group(const unsigned char *b, int g, float *y)
{
    hsc__iq4_codes(b + 8 + g * 16, hsc__iq4_xs_scale(b, g), y);
}

/* Group g (0 of IQ4_NL, else 0 to 7) of the block at b as 32 floats. */
static inline void hsc__kquant_group(hsc_dtype dtype, const unsigned char *b, int g, float *y)
{
    switch (dtype) {
    case HSC_Q2_K: hsc__q2_k_group(b, g, y); return;
    case HSC_Q3_K: hsc__q3_k_group(b, g, y); return;
    case HSC_Q4_K: hsc__q4_k_group(b, g, y); return;
    case HSC_Q5_K: hsc__q5_k_group(b, g, y); return;
    case HSC_Q6_K: hsc__q6_k_group(b, g, y); return;
    case HSC_IQ4_XS: hsc__iq4_xs_group(b, g, y); return;
    default: hsc__iq4_codes(b + 2, hsc__kquant_f16(b), y); return; /* IQ4_NL */
    }
}

/* n values, whole blocks, as floats. */
static inline void hsc__kquant_dequantise(hsc_dtype dtype, const unsigned char *b, int64_t n, float *y)
{
    int n_groups = hsc__dtype_block(dtype) / HSC__KQUANT_GROUP, bytes = hsc__dtype_block_bytes(dtype);
    for (; n > 0; n -= n_groups * HSC__KQUANT_GROUP, b += bytes) {
        for (int g = 0; g < n_groups; g++, y += HSC__KQUANT_GROUP) hsc__kquant_group(dtype, b, g, y);
    }
}

/* 256 floats -> one block, in ref/kquants.c. */
void hsc__ref_quantise_q4_k(const float *x, unsigned char *block);
void hsc__ref_quantise_q6_k(const float *x, unsigned char *block);

#endif
