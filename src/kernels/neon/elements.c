/* Element-wise kernels for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/elements.h"
