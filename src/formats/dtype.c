/* The tables behind dtype.h, made from HSC_DTYPE_LIST. */
#include "formats/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t block, bytes;
} table[HSC_N_DTYPES] = {
#define HSC_DTYPE_ROW(id, name, block, bytes) [id] = {name, block, bytes},
    HSC_DTYPE_LIST(HSC_DTYPE_ROW)
#undef HSC_DTYPE_ROW
};

static int row(hsc_dtype dtype)
{
    int i = (int)dtype;
    return i >= 0 && i < HSC_N_DTYPES ? i : HSC_OTHER;
}

const char *hsc_dtype_name(hsc_dtype dtype)
{
    return table[row(dtype)].name;
}

size_t hsc__dtype_block(hsc_dtype dtype)
{
    return table[row(dtype)].block;
}

size_t hsc__dtype_bytes(hsc_dtype dtype)
{
    return table[row(dtype)].bytes;
}

hsc_dtype hsc__dtype_find(const char *name)
{
    for (int i = 0; i < HSC_OTHER; i++) {
        if (table[i].block == 1 && strcmp(table[i].name, name) == 0) return (hsc_dtype)i;
    }
    return HSC_OTHER;
}

/* Both factors and the product are at most INT64_MAX. */
static bool multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    if (a && b > (uint64_t)INT64_MAX / a) return false;
    *product = a * b;
    return true;
}

bool hsc__shape_size(const int64_t *shape, int n_dims, size_t block, size_t bytes, uint64_t *n_elements,
                     uint64_t *n_bytes)
{
    uint64_t n = 1;
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0 || !multiply(n, (uint64_t)shape[i], &n)) return false;
    }
    uint64_t row_size = n_dims ? (uint64_t)shape[n_dims - 1] : 1;
    if (row_size % block != 0) return false;
    *n_elements = n;
    return multiply(n / block, bytes, n_bytes);
}
