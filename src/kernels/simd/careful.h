/* Rows of weights of which some may be no numbers, or too large: row_received leaves them to the reference. */
#ifndef HSC_KERNELS_SIMD_CAREFUL_H
#define HSC_KERNELS_SIMD_CAREFUL_H

#include "kernels/ref/ref.h"
#include "kernels/simd/isa.h"

/* Whether there are any: the bits of a float's size, as an integer, rise with it, and those of a NaN are above all. A
 * loop that compilers make vectors of. */
static bool any_odd(const float *p, int n, float most)
{
    int32_t limit, bits, largest = 0;
    memcpy(&limit, &most, sizeof limit);
    for (int i = 0; i < n; i++) {
        memcpy(&bits, p + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    return largest > limit;
}

#endif
