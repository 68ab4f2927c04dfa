/* The header of a safetensors file that is written tensor by tensor: length, JSON, blanks up to a multiple of 8. */
#ifndef HSC_FORMATS_SAFETENSORS_WRITER_H
#define HSC_FORMATS_SAFETENSORS_WRITER_H

#include "formats/sink.h"

typedef struct hsc__tensor_spec {
    const char *name;
    hsc_dtype dtype;
    int n_dims;
    const int64_t *shape; /* outermost first */
    uint64_t n_bytes;
} hsc__tensor_spec;

/* Writes the header; the tensors' data follow in the same order with nothing between them. `format` becomes
 * __metadata__'s "format", which PyTorch's readers want to be "pt"; NULL: no metadata. */
hsc_status hsc__safetensors_write_header(hsc__sink *sink, const hsc__tensor_spec *tensors, size_t n, const char *format,
                                         hsc_error *err);

#endif
