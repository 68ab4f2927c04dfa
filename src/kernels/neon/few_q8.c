/* few_q8 for NEON. */
#include "kernels/simd/bytes_neon.h"

#include "kernels/simd/few_q8.h"
