/* few_t for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/few_t.h"
