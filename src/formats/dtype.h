/*
 * Sizes of the element types in HSC_DTYPE_LIST, and of whole tensors, with every product checked for overflow.
 * A block is the smallest run of values that has its own bytes: one value, or 32 of a quantised type.
 */
#ifndef HSC_FORMATS_DTYPE_H
#define HSC_FORMATS_DTYPE_H

#include "base/status.h"

#include <stdbool.h>

/* Everything here is read and written as it lies in memory. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file formats are little-endian and so must the machine be"
#endif

/* Values a block and bytes a block; HSC_OTHER has 1 and 0, because only its file knows them. */
size_t hsc__dtype_block(hsc_dtype dtype);
size_t hsc__dtype_bytes(hsc_dtype dtype);

/* The type of that name among those of one value a block ("F32", "BF16", ...), or HSC_OTHER. Case counts. */
hsc_dtype hsc__dtype_find(const char *name);

/* Sizes of shape[n_dims], outermost first, in blocks of `block` values and `bytes` bytes along the last dimension.
 * False when a product does not fit int64 or a row is not a whole number of blocks. No dimension may be negative;
 * with none at all there is one element. */
bool hsc__shape_size(const int64_t *shape, int n_dims, size_t block, size_t bytes, uint64_t *n_elements,
                     uint64_t *n_bytes);

#endif
