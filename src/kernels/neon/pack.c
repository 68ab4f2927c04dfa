/* pack and pack_t for NEON. */
#include "kernels/simd/vec_neon.h"

#include "kernels/simd/pack.h"
