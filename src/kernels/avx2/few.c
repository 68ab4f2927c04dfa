/* few and few_bf16 for AVX2. */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/few.h"

#include "kernels/simd/few_bf16.h"
