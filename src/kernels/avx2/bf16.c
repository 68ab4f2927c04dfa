/* The bf16 kind for AVX2. */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/bf16.h"
