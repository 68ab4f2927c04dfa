/*
 * float32 -> Q4_K and Q6_K: a scale (and a minimum) for each group by search (fit.h), these scales in 6 or 8 bits of a
 * scale of their own, then the codes that are nearest with what was kept. Layouts as in kernels/kquants.h.
 */
#include "kernels/kquants.h"
#include "kernels/ref/fit.h"
#include "kernels/ref/ref.h"

#include <math.h>

static float inverse_of(float value)
{
    return value != 0 ? 1 / value : 0;
}

/* What hsc__kquant_scale reads. */
static void put_scale(unsigned char *packed, int g, int scale, int minimum)
{
    if (g < 4) {
        packed[g] = (unsigned char)scale;
        packed[g + 4] = (unsigned char)minimum;
    } else {
        packed[g + 4] = (unsigned char)((scale & 15) | (minimum & 15) << 4);
        packed[g - 4] |= (unsigned char)(scale >> 4 << 6);
        packed[g] |= (unsigned char)(minimum >> 4 << 6);
    }
}

void hsc__ref_quantise_q4_k(const float *x, unsigned char *block)
{
    float scale[8], minimum[8], top_scale = 0, top_minimum = 0;
    for (int g = 0; g < 8; g++) {
        hsc__fit_affine(x + g * 32, 32, 15, true, &scale[g], &minimum[g]);
        minimum[g] = -minimum[g];
        top_scale = scale[g] > top_scale ? scale[g] : top_scale;
        top_minimum = minimum[g] > top_minimum ? minimum[g] : top_minimum;
    }
    memset(block, 0, 144);
    float d = hsc__keep_f16(top_scale / 63, block), m = hsc__keep_f16(top_minimum / 63, block + 2);
    for (int g = 0; g < 8; g++) {
        float s = hsc__nearest(scale[g] * inverse_of(d), 0, 63), t = hsc__nearest(minimum[g] * inverse_of(m), 0, 63);
        put_scale(block + 4, g, (int)s, (int)t);
        float inverse = inverse_of(d * s), offset = m * t;
        for (int j = 0; j < 32; j++) {
            int code = (int)hsc__nearest((x[g * 32 + j] + offset) * inverse, 0, 15);
            block[16 + g / 2 * 32 + j] |= (unsigned char)(code << (g % 2 * 4));
        }
    }
}

void hsc__ref_quantise_q6_k(const float *x, unsigned char *block)
{
    float scale[16], most = 0;
    for (int i = 0; i < 16; i++) {
        scale[i] = hsc__fit_symmetric(x + i * 16, 16, 32);
        most = fabsf(scale[i]) > fabsf(most) ? scale[i] : most;
    }
    memset(block, 0, 210);
    float d = hsc__keep_f16(most / -128, block + 208);
    for (int i = 0; i < 16; i++) {
        float s = hsc__nearest(scale[i] * inverse_of(d), -128, 127), inverse = inverse_of(d * s);
        int g = i / 2;
        unsigned char *low = block + g / 4 * 64 + g % 2 * 32 + i % 2 * 16,
                      *high = block + 128 + g / 4 * 32 + i % 2 * 16;
        block[192 + i] = (unsigned char)(signed char)s;
        for (int j = 0; j < 16; j++) {
            int code = (int)hsc__nearest(x[i * 16 + j] * inverse, -32, 31) + 32;
            low[j] |= (unsigned char)((code & 15) << (g % 4 / 2 * 4));
            high[j] |= (unsigned char)(code >> 4 << (g % 4 * 2));
        }
    }
}
