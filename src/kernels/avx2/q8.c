/* The q8 kind by panels for AVX2. */
#include "kernels/simd/bytes_avx2.h"

#include "kernels/simd/q8.h"
