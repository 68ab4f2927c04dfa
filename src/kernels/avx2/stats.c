/* Row statistics for AVX2. */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/received.h"
#include "kernels/simd/stats.h"
