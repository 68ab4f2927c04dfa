/* few for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/few.h"
