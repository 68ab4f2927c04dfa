/* dequantise for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/dequantise.h"
