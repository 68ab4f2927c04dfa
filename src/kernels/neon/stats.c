/* Row statistics for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/received.h"
#include "kernels/simd/stats.h"
