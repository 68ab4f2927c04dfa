/*
 * Writing GGUF version 3. Metadata and tensor descriptions are collected first, because the header counts them and
 * gives every tensor its place; then the caller writes the data, tensor by tensor, in the order of the descriptions.
 */
#ifndef HSC_FORMATS_GGUF_WRITER_H
#define HSC_FORMATS_GGUF_WRITER_H

#include "base/text.h"
#include "formats/gguf.h"
#include "formats/sink.h"

/* Zero it before use; hsc__gguf_writer_free at the end. Memory that runs out is told by hsc__gguf_write_header. */
typedef struct hsc__gguf_writer {
    hsc__string metadata, tensors;
    uint64_t n_metadata, n_tensors;
    uint64_t n_data; /* bytes of the tensors, padding included */
} hsc__gguf_writer;

void hsc__gguf_writer_free(hsc__gguf_writer *writer);

/* One key each. A key may be put once only; nothing checks it here. */
void hsc__gguf_put_u32(hsc__gguf_writer *writer, const char *key, uint32_t value);
void hsc__gguf_put_f32(hsc__gguf_writer *writer, const char *key, float value);
void hsc__gguf_put_bool(hsc__gguf_writer *writer, const char *key, bool value);
void hsc__gguf_put_string(hsc__gguf_writer *writer, const char *key, const char *text, size_t n);
void hsc__gguf_put_strings(hsc__gguf_writer *writer, const char *key, const hsc__bytes *items, size_t n);
void hsc__gguf_put_ints(hsc__gguf_writer *writer, const char *key, const int32_t *items, size_t n);
void hsc__gguf_put_bytes(hsc__gguf_writer *writer, const char *key, const void *bytes, size_t n);
void hsc__gguf_put_floats(hsc__gguf_writer *writer, const char *key, const float *items, size_t n);

/* Copies every key of a file as it stands, but those of the file's own layout (general.alignment, split.*) and those
 * for which skip(key) is true. */
void hsc__gguf_put_all(hsc__gguf_writer *writer, const hsc__gguf *from, bool (*skip)(const char *key));

/* Describes the next tensor: shape outermost first, the type by ggml's name. *n_bytes is what its data take; after them
 * hsc__gguf_write_padding. HSC_EINVAL: no such type, more than four dimensions, or rows of no whole blocks. */
hsc_status hsc__gguf_add_tensor(hsc__gguf_writer *writer, const char *name, const char *type, int n_dims,
                                const int64_t *shape, uint64_t *n_bytes, hsc_error *err);

/* Everything before the data. */
hsc_status hsc__gguf_write_header(const hsc__gguf_writer *writer, hsc__sink *sink, hsc_error *err);
/* Zeros up to the next multiple of the alignment. */
hsc_status hsc__gguf_write_padding(hsc__sink *sink, hsc_error *err);

#endif
