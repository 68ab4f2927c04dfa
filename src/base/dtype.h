/* Block sizes of the tensor types: how many values a block holds and in how many bytes (HSC_DTYPE_LIST). */
#ifndef HSC_BASE_DTYPE_H
#define HSC_BASE_DTYPE_H

#include "headscope.h"

static inline int hsc__dtype_block(hsc_dtype dtype)
{
    static const unsigned short values[HSC_N_DTYPES] = {
#define HSC_DTYPE_VALUES(id, name, block, bytes) [id] = (block),
        HSC_DTYPE_LIST(HSC_DTYPE_VALUES)
#undef HSC_DTYPE_VALUES
    };
    return values[dtype];
}

static inline int hsc__dtype_block_bytes(hsc_dtype dtype)
{
    static const unsigned short sizes[HSC_N_DTYPES] = {
#define HSC_DTYPE_BYTES(id, name, block, bytes) [id] = (bytes),
        HSC_DTYPE_LIST(HSC_DTYPE_BYTES)
#undef HSC_DTYPE_BYTES
    };
    return sizes[dtype];
}

/* Bytes that n values take; n must be a multiple of the block. */
static inline size_t hsc__dtype_bytes(hsc_dtype dtype, size_t n)
{
    return n / (size_t)hsc__dtype_block(dtype) * (size_t)hsc__dtype_block_bytes(dtype);
}

#endif
