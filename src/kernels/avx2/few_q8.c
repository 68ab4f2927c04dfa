/* few_q8 for AVX2. */
#include "kernels/simd/bytes_avx2.h"

#include "kernels/simd/few_q8.h"
