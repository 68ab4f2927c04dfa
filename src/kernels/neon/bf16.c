/* The bf16 kind for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/bf16.h"
