/* few_q8 with Arm's 8-bit dot product. */
#define KERNEL(name) hsc__neon_dotprod_##name
#include "kernels/simd/bytes_neon.h"

#include "kernels/simd/few_q8.h"
