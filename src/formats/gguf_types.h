/* The tensor types of GGUF by number: what ggml calls them and the size of their blocks. */
#ifndef HSC_FORMATS_GGUF_TYPES_H
#define HSC_FORMATS_GGUF_TYPES_H

#include "headscope.h"

typedef struct hsc__ggml_type {
    const char *name;
    hsc_dtype dtype; /* HSC_OTHER: known, but nothing here computes with it */
    unsigned block, bytes;
} hsc__ggml_type;

/* NULL for a number that is not known. */
const hsc__ggml_type *hsc__ggml_type_find(uint32_t number);
/* The type of that name and its number; NULL when there is none. */
const hsc__ggml_type *hsc__ggml_type_named(const char *name, uint32_t *number);

#endif
