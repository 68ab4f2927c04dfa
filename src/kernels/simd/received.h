/* row_received where no instruction makes 64-bit integers of floats. */
#ifndef HSC_KERNELS_SIMD_RECEIVED_H
#define HSC_KERNELS_SIMD_RECEIVED_H

#include "kernels/simd/careful.h"

/* Rounds in double precision, where the units end once 1.5 * 2^52 is added; a loop that compilers make vectors of. */
void KERNEL(row_received)(const float *p, int n, float most, int64_t *acc)
{
    const double unit = (double)((int64_t)1 << HSC__RECEIVED_BITS), units_end = 0x1.8p52;
    int64_t base;
    if (any_odd(p, n, most)) {
        hsc__ref_row_received(p, n, most, acc);
        return;
    }
    memcpy(&base, &units_end, sizeof base);
    for (int i = 0; i < n; i++) {
        double moved = p[i] * unit + units_end;
        int64_t bits;
        memcpy(&bits, &moved, sizeof bits);
        acc[i] += bits - base;
    }
}

#endif
