/* few_t for AVX-512. */
#include "kernels/simd/vec_avx512.h"

#include "kernels/simd/few_t.h"
