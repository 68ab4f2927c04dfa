/*
 * Named tensors of one or more mapped files: safetensors (one file, or shards with an index) and GGUF. Nothing is
 * copied; every field is checked before it is used.
 */
#ifndef HSC_FORMATS_TENSORS_H
#define HSC_FORMATS_TENSORS_H

#include "base/file.h"
#include "base/status.h"

typedef struct hsc__tensor {
    const char *name;       /* NUL-terminated UTF-8; a name with a NUL inside is refused */
    hsc_dtype dtype;        /* HSC_OTHER for a GGUF type that is known to the format and not to headscope */
    const char *dtype_name; /* as the file spells it */
    int n_dims;
    int64_t shape[HSC_MAX_DIMS]; /* outermost first, GGUF's order turned round */
    uint64_t n_elements, n_bytes;
    const void *data; /* in the mapping; GGUF: aligned to 8 bytes or more, safetensors: perhaps not at all */
    const char *path; /* the file it lies in */
} hsc__tensor;

typedef struct hsc__tensors hsc__tensors;

/* One .safetensors file. */
hsc_status hsc__safetensors_open(hsc__tensors **out, const char *path, hsc_error *err);
/* The same from bytes in memory, which must outlive the set; `path` is for messages. */
hsc_status hsc__safetensors_parse(hsc__tensors **out, const void *data, size_t n, const char *path, hsc_error *err);
/* A folder: model.safetensors, else the shards named by model.safetensors.index.json. A pickled pytorch_model.bin alone
 * is HSC_EUNSUPPORTED with advice; an LFS pointer is named as such. */
hsc_status hsc__safetensors_open_dir(hsc__tensors **out, const char *dir, hsc_error *err);

/* In the order of the files and of the data in them. */
size_t hsc__tensors_count(const hsc__tensors *set);
const hsc__tensor *hsc__tensors_at(const hsc__tensors *set, size_t index);
/* NULL when absent. Constant time. */
const hsc__tensor *hsc__tensors_find(const hsc__tensors *set, const char *name);
/* The string of that key in a safetensors __metadata__, or NULL. */
const char *hsc__tensors_metadata(const hsc__tensors *set, const char *key);
void hsc__tensors_close(hsc__tensors *set);

#endif
