/*
 * The search behind quantised blocks: scales (and a minimum) for which a run of values, rounded to whole codes, has the
 * least squared error. Candidates near the range of the values are tried in turn; each gives codes, and the codes give
 * the best scale in closed form (least squares). This is how the ggml project's quantisers go about it, without
 * weights.
 */
#ifndef HSC_KERNELS_REF_FIT_H
#define HSC_KERNELS_REF_FIT_H

#include "kernels/half.h"

#include <stdbool.h>

enum { HSC__FIT_MAX = 32 }; /* values of a run at most */

/* v rounded to a whole number from low to high, all of them below 2^22 in magnitude; a NaN becomes low. */
static inline float hsc__nearest(float v, float low, float high)
{
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (v + 0x1.8p23f) - 0x1.8p23f; /* ties to even */
}

/* Keeps a number as a half at p and returns what was kept. */
static inline float hsc__keep_f16(float value, unsigned char *p)
{
    uint16_t bits = hsc__f32_to_f16(value);
    memcpy(p, &bits, sizeof bits);
    return hsc__f16_to_f32(bits);
}

/* The scale d of codes from -m to m - 1, x = d q; negative where that serves better. 0 when all values are 0. */
float hsc__fit_symmetric(const float *x, int n, int m);

/* Scale and minimum of codes from 0 to top, x = d q + minimum, d >= 0; with `below` the minimum is at most 0. */
void hsc__fit_affine(const float *x, int n, int top, bool below, float *scale, float *minimum);

#endif
