/*
 * GGUF, versions 2 and 3, little-endian (layout: the ggml project's docs/gguf.md):
 *   "GGUF" u32 version  u64 n_tensors  u64 n_kv  n_kv x (string key, u32 type, value)
 *   n_tensors x (string name, u32 n_dims, u64 dims[n_dims] innermost first, u32 type, u64 offset)  padding  data
 */
#ifndef HSC_FORMATS_GGUF_H
#define HSC_FORMATS_GGUF_H

#include "formats/tensors.h"

#include <stdbool.h>

typedef struct hsc__gguf hsc__gguf;

/* Bytes in the mapping, not terminated. */
typedef struct hsc__bytes {
    const char *data;
    size_t n;
} hsc__bytes;

/* HSC_EFORMAT for damage, HSC_EUNSUPPORTED for big-endian files, unknown versions and tensor types. A split model is
 * opened by its first part, which opens its neighbours or names the one that is missing (HSC_ENOTFOUND); a later part
 * is HSC_EINVAL and names the first. */
hsc_status hsc__gguf_open(hsc__gguf **out, const char *path, hsc_error *err);
/* The same from bytes in memory, which must outlive the gguf and be aligned to 8 bytes; `path` is for messages. Parts
 * of a split model are not looked for. */
hsc_status hsc__gguf_parse(hsc__gguf **out, const void *data, size_t n, const char *path, hsc_error *err);
void hsc__gguf_close(hsc__gguf *gguf);
/* The tensors; lives as long as the gguf. */
const hsc__tensors *hsc__gguf_tensors(const hsc__gguf *gguf);
const char *hsc__gguf_path(const hsc__gguf *gguf);
/* True when the file starts with GGUF's magic. */
bool hsc__gguf_is(const char *path);

/* Getters convert when they are first asked and keep the result in the gguf: they are for the one thread that opens a
 * model, not for threads that share it afterwards. What they return lives as long as the gguf.
 *
 * Metadata. An absent key gives the fallback; a value of another kind is HSC_EFORMAT that names the key. Integers of
 * any width convert when they fit, to a double too. A double must be finite. */
bool hsc__gguf_has(const hsc__gguf *gguf, const char *key);
hsc_status hsc__gguf_get_int(const hsc__gguf *gguf, const char *key, int64_t fallback, int64_t low, int64_t high,
                             int64_t *out, hsc_error *err);
hsc_status hsc__gguf_get_double(const hsc__gguf *gguf, const char *key, double fallback, double *out, hsc_error *err);
hsc_status hsc__gguf_get_bool(const hsc__gguf *gguf, const char *key, bool fallback, bool *out, hsc_error *err);
/* A string value; *out has data NULL when absent. */
hsc_status hsc__gguf_get_string(const hsc__gguf *gguf, const char *key, hsc__bytes *out, hsc_error *err);
/* The string as a C string owned by the gguf, `fallback` when absent. HSC_EFORMAT when it holds a NUL. */
hsc_status hsc__gguf_get_cstring(const hsc__gguf *gguf, const char *key, const char *fallback, const char **out,
                                 hsc_error *err);

/* Arrays. *n is 0 when absent. String arrays are indexed once (constant time afterwards). */
hsc_status hsc__gguf_get_strings(const hsc__gguf *gguf, const char *key, const hsc__bytes **out, size_t *n,
                                 hsc_error *err);
/* Arrays of integers of any width or of bools -> int32, owned by the gguf; HSC_EFORMAT when one does not fit. */
hsc_status hsc__gguf_get_ints(const hsc__gguf *gguf, const char *key, const int32_t **out, size_t *n, hsc_error *err);
hsc_status hsc__gguf_get_floats(const hsc__gguf *gguf, const char *key, const float **out, size_t *n, hsc_error *err);

/* Walks all metadata for `info`: key, a name of its type, and a short text of the value (strings cut, arrays counted).
 */
size_t hsc__gguf_n_kv(const hsc__gguf *gguf);
hsc_status hsc__gguf_describe(const hsc__gguf *gguf, size_t index, const char **key, const char **type, char *value,
                              size_t capacity);

#endif
