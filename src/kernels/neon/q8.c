/* The q8 kind by panels for NEON. */
#include "kernels/simd/bytes_neon.h"

#include "kernels/simd/q8.h"
