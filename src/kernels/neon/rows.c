/* softmax and the norms for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/rows.h"
