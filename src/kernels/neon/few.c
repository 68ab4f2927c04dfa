/* few and few_bf16 for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/few.h"

#include "kernels/simd/few_bf16.h"
