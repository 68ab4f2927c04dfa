/* Inside formats: what a GGUF file holds once it is read, shared by the reader, the splits and the getters. */
#ifndef HSC_FORMATS_GGUF_FILE_H
#define HSC_FORMATS_GGUF_FILE_H

#include "formats/gguf.h"
#include "formats/tensor_set.h"

/* The kinds of metadata values by number. */
typedef enum {
    HSC_GGUF_U8,
    HSC_GGUF_I8,
    HSC_GGUF_U16,
    HSC_GGUF_I16,
    HSC_GGUF_U32,
    HSC_GGUF_I32,
    HSC_GGUF_F32,
    HSC_GGUF_BOOL,
    HSC_GGUF_STRING,
    HSC_GGUF_ARRAY,
    HSC_GGUF_U64,
    HSC_GGUF_I64,
    HSC_GGUF_F64,
    HSC_GGUF_N_KINDS
} hsc__gguf_kind;

/* One key and its value. Of a string, `value` is its bytes and `count` their number; of an array, the first element
 * and the number of elements. The converted forms are made when they are first asked for. */
typedef struct hsc__gguf_kv {
    const char *key;
    hsc__gguf_kind kind;
    hsc__gguf_kind item_kind; /* of an array */
    uint64_t count;
    const unsigned char *value;
    const char *text;
    const hsc__bytes *strings;
    const int32_t *ints;
    const float *floats;
} hsc__gguf_kv;

/* The metadata of one file. */
typedef struct hsc__gguf_kvs {
    hsc__gguf_kv *items;
    size_t n;
    hsc__names names;
} hsc__gguf_kvs;

struct hsc__gguf {
    hsc__tensors *tensors; /* of all parts */
    hsc__gguf_kvs *kvs;    /* of this file, the first part */
    const char *path;
};

/* Bytes of one value of a kind of fixed size, 0 for strings and arrays. */
size_t hsc__gguf_kind_size(hsc__gguf_kind kind);

/* Reads one file's metadata into *kvs (zeroed) and adds its tensors to the set. `path` must live as long as the set. */
hsc_status hsc__gguf_read(hsc__gguf_kvs *kvs, hsc__tensors *set, const unsigned char *data, uint64_t size,
                          const char *path, hsc_error *err);
void hsc__gguf_kvs_free(hsc__gguf_kvs *kvs);

/* Reads the other parts when the file is the first of a split model; refuses it when it is a later one. */
hsc_status hsc__gguf_open_parts(hsc__gguf *gguf, hsc_error *err);

#endif
