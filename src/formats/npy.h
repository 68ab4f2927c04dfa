/* NumPy's header, in write_arrays.c. */
#ifndef HSC_FORMATS_NPY_H
#define HSC_FORMATS_NPY_H

#include "headscope.h"

typedef struct hsc__npy_header {
    char bytes[256];
    size_t n;
} hsc__npy_header;

/* Format 1.0: magic, version, u16 length and a Python dictionary, padded so that the data start at a multiple of 64.
 * Four dimensions always fit; format 2.0 is for headers of more than 65535 bytes. Data are not looked at. */
hsc__npy_header hsc__npy_header_of(const hsc_named_array *array);

#endif
