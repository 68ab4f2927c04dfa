/*
 * What every vector header shares: names, attributes, and one declaration for each row of HSC_KERNEL_LIST.
 *
 * A vector header (vec_avx512.h, vec_avx2.h, vec_neon.h) defines KERNEL(name) and the sizes VL (lanes), MR and NV (the
 * register tile of gemm: MR rows by NV vectors), includes this file, and then gives the types vf (floats), vi (32-bit
 * integers) and vpart (the first n lanes) and functions on them. The bodies in this folder know nothing else about the
 * instruction set.
 */
#ifndef HSC_KERNELS_SIMD_ISA_H
#define HSC_KERNELS_SIMD_ISA_H

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Inlined always: constant arguments (a number of rows, a dtype's load) must reach the loops that they unroll. */
#define INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows, so that arrays of vectors live in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define UNROLL_32 _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_32 _Pragma("GCC unroll 32")
#endif

enum { NR = NV * VL }; /* columns of a panel */

#define HSC_KERNEL_DECLARE(name, type, parameters) type KERNEL(name) parameters;
HSC_KERNEL_LIST(HSC_KERNEL_DECLARE)
#undef HSC_KERNEL_DECLARE

/* Fetches the cache line of p, which need not be readable, into the first or the second level. */
INLINE void fetch_near(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

INLINE void fetch_far(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

#endif
