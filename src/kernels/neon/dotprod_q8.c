/* The q8 kind by panels with Arm's 8-bit dot product (FEAT_DotProd), and the entries of the processors that have it. */
#define KERNEL(name) hsc__neon_dotprod_##name
#include "kernels/simd/bytes_neon.h"

#include "kernels/simd/init.h"
#include "kernels/simd/q8.h"

void hsc__kernels_add_neon_dotprod(hsc__kernels *table)
{
    SIMD_Q8_ENTRIES(SIMD_ENTRY)
}
