/*
 * A group of a panel of the 8-bit products: bytes [STEPS][NR][4] (four values of k side by side, outputs in lanes),
 * then scales [halves][NR] and minima [halves][NR]. Include after vec_*.h, which says how wide a panel is.
 */
#ifndef HSC_KERNELS_SIMD_Q8_PANEL_H
#define HSC_KERNELS_SIMD_Q8_PANEL_H

#include "kernels/q8.h"

enum { STEPS = HSC__Q8_GROUP / 4 };

INLINE char *codes_at(char *group, int step)
{
    return group + (size_t)step * NR * 4;
}

INLINE float *scales_at(char *group, int half)
{
    return (float *)(void *)group + (STEPS + half) * NR;
}

INLINE float *minima_at(char *group, int half)
{
    return (float *)(void *)group + (STEPS + 2 + half) * NR;
}

#endif
