/* Arrays whose shapes are known and whose data come piece by piece, into one .npz or .npy file: memory does not grow
 * with the arrays. */
#ifndef HSC_FORMATS_ARRAY_STREAM_H
#define HSC_FORMATS_ARRAY_STREAM_H

#include "base/alloc.h"
#include "base/file.h"
#include "formats/zip.h"

typedef struct hsc__array_place {
    uint64_t start, n_bytes, n_done; /* of its data in the file, and how many are there */
    uint32_t crc;
} hsc__array_place;

/* Zero it before use. */
typedef struct hsc__array_stream {
    hsc__output output;
    hsc__zip zip; /* of an .npz; no entries in an .npy */
    const char *path;
    hsc__array_place *places; /* [n] */
    size_t n;
    hsc__arena names;
} hsc__array_stream;

/* Lays the file out: arrays [n], whose data are not looked at. HSC_EINVAL: another ending, or several arrays in an
 * .npy. HSC_EIO, HSC_ENOMEM. */
hsc_status hsc__array_stream_open(hsc__array_stream *stream, const char *path, const hsc_named_array *arrays, size_t n,
                                  hsc_error *err);
/* The next bytes of array `index`. HSC_EINVAL: more than its shape has. HSC_EIO. */
hsc_status hsc__array_stream_put(hsc__array_stream *stream, size_t index, const void *data, uint64_t n_bytes,
                                 hsc_error *err);
/* The file appears under its name. HSC_EINVAL: an array is not whole. HSC_EIO. */
hsc_status hsc__array_stream_commit(hsc__array_stream *stream, hsc_error *err);
/* Removes what was not committed, and frees. */
void hsc__array_stream_free(hsc__array_stream *stream);

#endif
