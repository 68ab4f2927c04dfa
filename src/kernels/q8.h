/*
 * Quantised weights as the q8 compute kind reads them: value k of a group of 32 along k is
 *     scale (q[k] - offset) + minimum,   q[k] an unsigned byte,
 * with one scale and minimum a group, or, where the type says halves, one for each 16 values. Block layouts as in
 * ref/dequantise.c and kquants.h. Scales of scales times scales are exact in float32.
 */
#ifndef HSC_KERNELS_Q8_H
#define HSC_KERNELS_Q8_H

#include "kernels/kernels.h"
#include "kernels/kquants.h"

#include <math.h>

/* Groups whose largest magnitude is below this are 0: 127 divided by it must be finite. */
#define HSC__Q8_LEAST 0x1p-100f

typedef struct hsc__q8_type {
    bool fits;        /* the kind reads this type */
    bool halves;      /* a scale for each 16 values, not for each 32 */
    bool has_minimum; /* else it is 0 */
    int offset;
} hsc__q8_type;

static inline hsc__q8_type hsc__q8_type_of(hsc_dtype dtype)
{
    switch (dtype) {
    case HSC_Q4_0: return (hsc__q8_type){true, false, false, 8};
    case HSC_Q4_1: return (hsc__q8_type){true, false, true, 0};
    case HSC_Q5_0: return (hsc__q8_type){true, false, false, 16};
    case HSC_Q5_1: return (hsc__q8_type){true, false, true, 0};
    case HSC_Q8_0: return (hsc__q8_type){true, false, false, 128};
    case HSC_Q2_K: return (hsc__q8_type){true, true, true, 0};
    case HSC_Q3_K: return (hsc__q8_type){true, true, false, 4};
    case HSC_Q4_K: return (hsc__q8_type){true, false, true, 0};
    case HSC_Q5_K: return (hsc__q8_type){true, false, true, 0};
    case HSC_Q6_K: return (hsc__q8_type){true, true, false, 32};
    case HSC_IQ4_NL: return (hsc__q8_type){true, false, false, 128};
    case HSC_IQ4_XS: return (hsc__q8_type){true, false, false, 128};
    default: return (hsc__q8_type){0};
    }
}

/* A group in plain C; where a type has no halves, the second scale and minimum are those of the first. */
typedef struct hsc__q8_group {
    unsigned char q[HSC__Q8_GROUP];
    float scale[2], minimum[2];
} hsc__q8_group;

static inline void hsc__q8_scales(hsc__q8_group *to, float scale, float minimum)
{
    to->scale[0] = to->scale[1] = scale;
    to->minimum[0] = to->minimum[1] = minimum;
}

/* A group whose x has nothing to quantise: true when it was written here. Values that are not finite make the group
 * NaN, and with it every product, so that they are never hidden; a group of nearly nothing, whose codes would need 1 /
 * 0, becomes 0. `odd` is NaN when a value is not finite. */
static inline bool hsc__q8_empty_group(float most, float odd, int8_t *q, hsc__x8_group *group)
{
    if (odd == odd && most >= HSC__Q8_LEAST) return false;
    float d = odd == odd ? 0 : NAN;
    memset(q, 0, HSC__Q8_GROUP);
    *group = (hsc__x8_group){.d = d, .sum = d};
    return true;
}

/* Halves of 16 bytes: code j in the low half of byte j, code j + 16 in its high half; fifth bits or NULL. */
static inline void hsc__q8_halfbytes(hsc__q8_group *to, const unsigned char *codes, const unsigned char *fifth)
{
    for (int j = 0; j < HSC__Q8_GROUP; j++) {
        int bit = fifth ? fifth[j / 8] >> (j % 8) & 1 : 0;
        to->q[j] = (unsigned char)((codes[j % 16] >> (j / 16 * 4) & 15) | bit << 4);
    }
}

static inline void hsc__q8_block(hsc_dtype dtype, const unsigned char *b, hsc__q8_group *to)
{
    const unsigned char *at = b + (hsc__q8_type_of(dtype).has_minimum ? 4 : 2);
    switch (dtype) {
    case HSC_Q8_0:
        for (int j = 0; j < HSC__Q8_GROUP; j++) to->q[j] = (unsigned char)(at[j] ^ 128);
        return;
    case HSC_Q5_0:
    case HSC_Q5_1: hsc__q8_halfbytes(to, at + 4, at); return;
    default: hsc__q8_halfbytes(to, at, NULL); return;
    }
}

/* Codes of IQ4 become the values that they stand for. */
static inline void hsc__q8_look_up(hsc__q8_group *to)
{
    for (int j = 0; j < HSC__Q8_GROUP; j++) to->q[j] = (unsigned char)(hsc__iq4_values[to->q[j]] + 128);
}

/* Q4_K and Q5_K. */
static inline void hsc__q8_four_or_five(hsc_dtype dtype, const unsigned char *b, int g, hsc__q8_group *to)
{
    const unsigned char *codes = b + (dtype == HSC_Q5_K ? 48 : 16) + g / 2 * 32;
    for (int j = 0; j < HSC__Q8_GROUP; j++) {
        int fifth = dtype == HSC_Q5_K ? b[16 + j] >> g & 1 : 0;
        to->q[j] = (unsigned char)((codes[j] >> (g % 2 * 4) & 15) | fifth << 4);
    }
}

static inline void hsc__q8_two_or_three(hsc_dtype dtype, const unsigned char *b, int g, hsc__q8_group *to)
{
    bool three = dtype == HSC_Q3_K;
    const unsigned char *codes = b + (three ? 32 : 16) + g / 4 * 32;
    for (int j = 0; j < HSC__Q8_GROUP; j++) {
        int third = three ? b[j] >> g & 1 : 0;
        to->q[j] = (unsigned char)((codes[j] >> (g % 4 * 2) & 3) | third << 2);
    }
}

static inline void hsc__q8_six(const unsigned char *b, int g, hsc__q8_group *to)
{
    const unsigned char *low = b + g / 4 * 64 + g % 2 * 32, *high = b + 128 + g / 4 * 32;
    for (int j = 0; j < HSC__Q8_GROUP; j++)
        to->q[j] = (unsigned char)((low[j] >> (g % 4 / 2 * 4) & 15) | (high[j] >> (g % 4 * 2) & 3) << 4);
}

static inline void hsc__q8_two_or_three_scales(hsc_dtype dtype, const unsigned char *b, int g, hsc__q8_group *to)
{
    bool three = dtype == HSC_Q3_K;
    float d = hsc__kquant_f16(b + (three ? 108 : 80)), m = three ? 0 : hsc__kquant_f16(b + 82);
    for (int half = 0; half < 2; half++) {
        int packed = b[g * 2 + half];
        to->scale[half] = d * (float)(three ? hsc__q3_k_scale(b + 96, g * 2 + half) : packed & 15);
        to->minimum[half] = three ? 0 : -(m * (float)(packed >> 4));
    }
}

/* Scales and minima of group g of the block at b. */
static inline void hsc__q8_scales_of(hsc_dtype dtype, const unsigned char *b, int g, hsc__q8_group *to)
{
    int scale, minimum;
    switch (dtype) {
    case HSC_Q2_K:
    case HSC_Q3_K: hsc__q8_two_or_three_scales(dtype, b, g, to); return;
    case HSC_Q4_K:
    case HSC_Q5_K:
        hsc__kquant_scale(b + 4, g, &scale, &minimum);
        hsc__q8_scales(to, hsc__kquant_f16(b) * (float)scale, -(hsc__kquant_f16(b + 2) * (float)minimum));
        return;
    case HSC_Q6_K:
        hsc__q8_scales(to, 0, 0);
        for (int half = 0; half < 2; half++)
            to->scale[half] = hsc__kquant_f16(b + 208) * (float)(signed char)b[192 + g * 2 + half];
        return;
    case HSC_IQ4_XS: hsc__q8_scales(to, hsc__iq4_xs_scale(b, g), 0); return;
    default: hsc__q8_scales(to, hsc__kquant_f16(b), hsc__q8_type_of(dtype).has_minimum ? hsc__kquant_f16(b + 2) : 0);
    }
}

/* Group g (0 where a block is one group) of the block at b. */
static inline void hsc__q8_group_of(hsc_dtype dtype, const unsigned char *b, int g, hsc__q8_group *to)
{
    hsc__q8_scales_of(dtype, b, g, to);
    switch (dtype) {
    case HSC_Q2_K:
    case HSC_Q3_K: hsc__q8_two_or_three(dtype, b, g, to); return;
    case HSC_Q4_K:
    case HSC_Q5_K: hsc__q8_four_or_five(dtype, b, g, to); return;
    case HSC_Q6_K: hsc__q8_six(b, g, to); return;
    case HSC_IQ4_XS:
        hsc__q8_halfbytes(to, b + 8 + g * 16, NULL);
        hsc__q8_look_up(to);
        return;
    default:
        hsc__q8_block(dtype, b, to);
        if (dtype == HSC_IQ4_NL) hsc__q8_look_up(to);
    }
}

/* X(name) for every type of the kind. */
#define HSC__Q8_TYPES(X)                                                                                               \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS)

#endif
