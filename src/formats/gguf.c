/*
 * Reading GGUF. Nothing in the file is trusted: a count is compared with the bytes that are left before anything is
 * allocated for it, a length before it is skipped, and a product or a sum before it is used.
 */
#include "formats/content.h"
#include "formats/dtype.h"
#include "formats/gguf_file.h"
#include "formats/gguf_types.h"

#include <stdio.h>
#include <string.h>

enum {
    MIN_KV_BYTES = 8 + 1 + 4 + 1,         /* key length, key, kind, the smallest value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* name length, name, n_dims, type, offset */
    MAX_KEY = 65535,
    MAX_NAME = 1024,
    MAX_DIMS = 4,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 20,
};

/* What is left to read: data[at..size). */
typedef struct reader {
    const unsigned char *data;
    uint64_t size, at;
} reader;

static hsc_status take(reader *r, uint64_t n, const unsigned char **out, const char *what, hsc_error *err)
{
    uint64_t left = r->size - r->at;
    HSC_FAIL_AT_IF(n > left, HSC_EFORMAT, r->at, "%s takes %llu bytes at byte %llu, but the file has %llu left", what,
                   (unsigned long long)n, (unsigned long long)r->at, (unsigned long long)left);
    *out = r->data + r->at;
    r->at += n;
    return HSC_OK;
}

static hsc_status take_u32(reader *r, uint32_t *out, const char *what, hsc_error *err)
{
    const unsigned char *bytes;
    HSC_TRY(take(r, 4, &bytes, what, err));
    memcpy(out, bytes, 4);
    return HSC_OK;
}

static hsc_status take_u64(reader *r, uint64_t *out, const char *what, hsc_error *err)
{
    const unsigned char *bytes;
    HSC_TRY(take(r, 8, &bytes, what, err));
    memcpy(out, bytes, 8);
    return HSC_OK;
}

static hsc_status take_string(reader *r, hsc__bytes *out, const char *what, hsc_error *err)
{
    uint64_t n;
    const unsigned char *bytes;
    HSC_TRY(take_u64(r, &n, what, err));
    HSC_TRY(take(r, n, &bytes, what, err));
    *out = (hsc__bytes){(const char *)bytes, (size_t)n};
    return HSC_OK;
}

/* A key or a tensor's name: 1 to `most` bytes of UTF-8, kept with a NUL. */
static hsc_status take_name(reader *r, hsc__tensors *set, size_t most, const char *what, const char **out,
                            hsc_error *err)
{
    hsc__bytes name;
    uint64_t start = r->at;
    HSC_TRY(take_string(r, &name, what, err));
    HSC_FAIL_AT_IF(name.n == 0 || name.n > most, HSC_EFORMAT, start, "%s is %zu bytes long, it must be 1 to %zu", what,
                   name.n, most);
    HSC_FAIL_AT_IF(!hsc__name_valid(name.data, name.n), HSC_EFORMAT, start, "%s is not text (UTF-8 without a NUL)",
                   what);
    return hsc__tensors_keep(set, name.data, name.n, out, err);
}

size_t hsc__gguf_kind_size(hsc__gguf_kind kind)
{
    static const unsigned char sizes[HSC_GGUF_N_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return sizes[kind];
}

static hsc_status take_kind(reader *r, hsc__gguf_kind *out, const char *what, hsc_error *err)
{
    uint32_t number;
    HSC_TRY(take_u32(r, &number, what, err));
    HSC_FAIL_AT_IF(number >= HSC_GGUF_N_KINDS, HSC_EFORMAT, r->at - 4, "%s is %u, the last known one is %d", what,
                   (unsigned)number, HSC_GGUF_N_KINDS - 1);
    *out = (hsc__gguf_kind)number;
    return HSC_OK;
}

static hsc_status check_bools(const hsc__gguf_kv *kv, hsc_error *err)
{
    for (uint64_t i = 0; i < kv->count; i++) {
        HSC_FAIL_IF(kv->value[i] > 1, HSC_EFORMAT, "a bool is %d, it must be 0 or 1", kv->value[i]);
    }
    return HSC_OK;
}

static hsc_status take_array(reader *r, hsc__gguf_kv *kv, hsc_error *err)
{
    HSC_TRY(take_kind(r, &kv->item_kind, "the type of the elements", err));
    HSC_FAIL_AT_IF(kv->item_kind == HSC_GGUF_ARRAY, HSC_EUNSUPPORTED, r->at - 4, "an array of arrays is not supported");
    HSC_TRY(take_u64(r, &kv->count, "the length of the array", err));
    size_t item_size = hsc__gguf_kind_size(kv->item_kind);
    uint64_t least = item_size ? item_size : 8; /* a string has a length of 8 bytes */
    HSC_FAIL_AT_IF(kv->count > (r->size - r->at) / least, HSC_EFORMAT, r->at - 8,
                   "the array has %llu elements, but the file has %llu bytes left", (unsigned long long)kv->count,
                   (unsigned long long)(r->size - r->at));
    if (item_size) return take(r, kv->count * item_size, &kv->value, "the array", err);
    kv->value = r->data + r->at;
    for (uint64_t i = 0; i < kv->count; i++) {
        hsc__bytes unused;
        HSC_TRY(take_string(r, &unused, "a string of the array", err));
    }
    return HSC_OK;
}

static hsc_status take_value(reader *r, hsc__gguf_kv *kv, hsc_error *err)
{
    HSC_TRY(take_kind(r, &kv->kind, "the type of the value", err));
    kv->count = 1;
    if (kv->kind == HSC_GGUF_ARRAY) {
        HSC_TRY(take_array(r, kv, err));
    } else if (kv->kind == HSC_GGUF_STRING) {
        HSC_TRY(take_u64(r, &kv->count, "the string", err));
        HSC_TRY(take(r, kv->count, &kv->value, "the string", err));
    } else {
        HSC_TRY(take(r, hsc__gguf_kind_size(kv->kind), &kv->value, "the value", err));
    }
    bool bools = kv->kind == HSC_GGUF_BOOL || (kv->kind == HSC_GGUF_ARRAY && kv->item_kind == HSC_GGUF_BOOL);
    return bools ? check_bools(kv, err) : HSC_OK;
}

static hsc_status read_kv(reader *r, hsc__gguf_kvs *kvs, hsc__tensors *set, hsc_error *err)
{
    hsc__gguf_kv *kv = &kvs->items[kvs->n];
    HSC_TRY(take_name(r, set, MAX_KEY, "the key", &kv->key, err));
    size_t n_key = strlen(kv->key);
    bool twice = hsc__names_add(&kvs->names, kv->key, n_key, kvs->n) != HSC_NO_INDEX;
    hsc_status status = twice ? hsc__fail(err, HSC_EFORMAT, r->at, "occurs twice") : take_value(r, kv, err);
    if (status != HSC_OK) return hsc__fail_prefix(err, status, "'%.*s'", hsc__shown(kv->key, n_key), kv->key);
    kvs->n++;
    return HSC_OK;
}

static hsc_status read_kvs(reader *r, uint64_t count, hsc__gguf_kvs *kvs, hsc__tensors *set, hsc_error *err)
{
    HSC_FAIL_AT_IF(count > (r->size - r->at) / MIN_KV_BYTES, HSC_EFORMAT, 16,
                   "the header counts %llu metadata entries, but the file has %llu bytes left",
                   (unsigned long long)count, (unsigned long long)(r->size - r->at));
    kvs->items = hsc__calloc((size_t)count, sizeof *kvs->items);
    if (!kvs->items) return hsc__fail_memory(err, (size_t)count * sizeof *kvs->items, "the metadata");
    HSC_TRY(hsc__names_reserve(&kvs->names, (size_t)count, err));
    for (uint64_t i = 0; i < count; i++) {
        hsc_status status = read_kv(r, kvs, set, err);
        if (status != HSC_OK) {
            return hsc__fail_prefix(err, status, "metadata entry %llu of %llu", (unsigned long long)i + 1,
                                    (unsigned long long)count);
        }
    }
    return HSC_OK;
}

static hsc_status read_dims(reader *r, hsc__tensor *t, hsc_error *err)
{
    uint32_t n_dims;
    HSC_TRY(take_u32(r, &n_dims, "the number of dimensions", err));
    HSC_FAIL_AT_IF(n_dims > MAX_DIMS, HSC_EFORMAT, r->at - 4, "has %u dimensions, GGUF allows %d", (unsigned)n_dims,
                   (int)MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t size;
        HSC_TRY(take_u64(r, &size, "a dimension", err));
        HSC_FAIL_AT_IF(size == 0 || size > INT64_MAX, HSC_EFORMAT, r->at - 8,
                       "a dimension is %lld, it must be positive", (long long)size);
        t->shape[i] = (int64_t)size;
    }
    return HSC_OK;
}

/* All but the place of the data, which is known once every tensor has been read; *offset is from the data's start. */
static hsc_status read_tensor(reader *r, hsc__tensor *t, uint64_t *offset, hsc_error *err)
{
    uint32_t number;
    HSC_TRY(read_dims(r, t, err));
    HSC_TRY(take_u32(r, &number, "the tensor type", err));
    const hsc__ggml_type *type = hsc__ggml_type_find(number);
    HSC_FAIL_AT_IF(!type, HSC_EUNSUPPORTED, r->at - 4, "has type %u, which is not known", (unsigned)number);
    t->dtype = type->dtype;
    t->dtype_name = type->name;
    HSC_TRY(take_u64(r, offset, "the offset", err));
    int64_t row = t->n_dims ? t->shape[t->n_dims - 1] : 1;
    HSC_FAIL_IF(row % type->block != 0, HSC_EFORMAT, "has rows of %lld values, no multiple of the %u of a block of %s",
                (long long)row, type->block, type->name);
    HSC_FAIL_IF(!hsc__shape_size(t->shape, t->n_dims, type->block, type->bytes, &t->n_elements, &t->n_bytes),
                HSC_EFORMAT, "the shape multiplies to more than 2^63 bytes");
    return HSC_OK;
}

static hsc_status read_tensors(reader *r, uint64_t count, hsc__tensors *set, uint64_t **offsets, const char *path,
                               hsc_error *err)
{
    HSC_FAIL_AT_IF(count > (r->size - r->at) / MIN_TENSOR_BYTES, HSC_EFORMAT, 8,
                   "the header counts %llu tensors, but the file has %llu bytes left", (unsigned long long)count,
                   (unsigned long long)(r->size - r->at));
    HSC_TRY(hsc__tensors_reserve(set, (size_t)count, err));
    *offsets = hsc__calloc((size_t)count, sizeof **offsets);
    if (!*offsets) return hsc__fail_memory(err, (size_t)count * sizeof **offsets, "the tensors' offsets");
    for (uint64_t i = 0; i < count; i++) {
        hsc__tensor t = {.path = path};
        hsc_status status = take_name(r, set, MAX_NAME, "the name", &t.name, err);
        if (status == HSC_OK) {
            status = read_tensor(r, &t, &(*offsets)[i], err);
            if (status != HSC_OK) hsc__fail_prefix(err, status, "'%.*s'", hsc__shown(t.name, strlen(t.name)), t.name);
        }
        if (status != HSC_OK) {
            return hsc__fail_prefix(err, status, "tensor %llu of %llu", (unsigned long long)i + 1,
                                    (unsigned long long)count);
        }
        set->items[set->n++] = t;
    }
    return HSC_OK;
}

static hsc_status read_alignment(const hsc__gguf_kvs *kvs, uint32_t *out, hsc_error *err)
{
    static const char key[] = "general.alignment";
    *out = DEFAULT_ALIGNMENT;
    size_t i = hsc__names_find(&kvs->names, key, sizeof key - 1);
    if (i == HSC_NO_INDEX) return HSC_OK;
    const hsc__gguf_kv *kv = &kvs->items[i];
    HSC_FAIL_IF(kv->kind != HSC_GGUF_U32, HSC_EFORMAT, "'%s' is not a 32-bit unsigned integer", key);
    uint32_t value;
    memcpy(&value, kv->value, 4);
    bool good = value >= MIN_ALIGNMENT && value <= MAX_ALIGNMENT && (value & (value - 1)) == 0;
    HSC_FAIL_IF(!good, HSC_EFORMAT, "'%s' is %u, it must be a power of two from %d to %d", key, (unsigned)value,
                (int)MIN_ALIGNMENT, (int)MAX_ALIGNMENT);
    *out = value;
    return HSC_OK;
}

/* Turns offsets into addresses. The last tensor may end without the padding. */
static hsc_status place_tensors(reader *r, hsc__tensors *set, size_t first, const uint64_t *offsets, uint32_t alignment,
                                hsc_error *err)
{
    if (set->n == first) return HSC_OK;
    uint64_t start = (r->at + alignment - 1) / alignment * alignment;
    uint64_t size = r->size > start ? r->size - start : 0;
    for (size_t i = first; i < set->n; i++) {
        hsc__tensor *t = &set->items[i];
        uint64_t offset = offsets[i - first];
        int shown = hsc__shown(t->name, strlen(t->name));
        HSC_FAIL_IF(offset % alignment != 0, HSC_EFORMAT, "tensor '%.*s' lies at offset %llu, no multiple of %u", shown,
                    t->name, (unsigned long long)offset, (unsigned)alignment);
        HSC_FAIL_IF(offset > size || t->n_bytes > size - offset, HSC_EFORMAT,
                    "tensor '%.*s' takes %llu bytes at offset %llu, but the file has %llu bytes of data", shown,
                    t->name, (unsigned long long)t->n_bytes, (unsigned long long)offset, (unsigned long long)size);
        t->data = r->data + start + offset;
    }
    return hsc__tensors_check_layout(set, first, r->data + start, size, false, err);
}

static hsc_status read_header(reader *r, uint64_t *n_tensors, uint64_t *n_kv, hsc_error *err)
{
    const unsigned char *magic;
    uint32_t version;
    HSC_TRY(take(r, 4, &magic, "the magic \"GGUF\"", err));
    HSC_FAIL_IF(memcmp(magic, "GGUF", 4) != 0, HSC_EFORMAT, "is not a GGUF file (it does not start with \"GGUF\")");
    HSC_TRY(take_u32(r, &version, "the version", err));
    HSC_FAIL_AT_IF(version != 0 && (version & 0xffff) == 0, HSC_EUNSUPPORTED, 4,
                   "is a big-endian GGUF file, which is not supported");
    HSC_FAIL_AT_IF(version != 2 && version != 3, HSC_EUNSUPPORTED, 4, "is GGUF version %u, 2 and 3 are supported",
                   (unsigned)version);
    HSC_TRY(take_u64(r, n_tensors, "the number of tensors", err));
    return take_u64(r, n_kv, "the number of metadata entries", err);
}

static hsc_status read_all(reader *r, hsc__gguf_kvs *kvs, hsc__tensors *set, uint64_t **offsets, const char *path,
                           hsc_error *err)
{
    uint64_t n_tensors, n_kv;
    uint32_t alignment;
    size_t first = set->n;
    HSC_TRY(read_header(r, &n_tensors, &n_kv, err));
    HSC_TRY(read_kvs(r, n_kv, kvs, set, err));
    HSC_TRY(read_alignment(kvs, &alignment, err));
    HSC_TRY(read_tensors(r, n_tensors, set, offsets, path, err));
    return place_tensors(r, set, first, *offsets, alignment, err);
}

hsc_status hsc__gguf_read(hsc__gguf_kvs *kvs, hsc__tensors *set, const unsigned char *data, uint64_t size,
                          const char *path, hsc_error *err)
{
    HSC_TRY(hsc__check_content(data, (size_t)size, "GGUF", path, err));
    reader r = {data, size, 0};
    uint64_t *offsets = NULL;
    hsc_status status = read_all(&r, kvs, set, &offsets, path, err);
    hsc__free(offsets);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", path);
}

void hsc__gguf_kvs_free(hsc__gguf_kvs *kvs)
{
    hsc__names_free(&kvs->names);
    hsc__free(kvs->items);
    *kvs = (hsc__gguf_kvs){0};
}

static hsc_status open_file(hsc__gguf *gguf, const char *path, hsc_error *err)
{
    hsc__map map;
    HSC_TRY(hsc__tensors_map(gguf->tensors, path, &map, &gguf->path, err));
    HSC_TRY(hsc__gguf_read(gguf->kvs, gguf->tensors, map.data, map.size, gguf->path, err));
    HSC_TRY(hsc__gguf_open_parts(gguf, err));
    return hsc__tensors_index(gguf->tensors, err);
}

static hsc_status parse_bytes(hsc__gguf *gguf, const void *data, size_t n, const char *path, hsc_error *err)
{
    HSC_TRY(hsc__tensors_keep(gguf->tensors, path, strlen(path), &gguf->path, err));
    HSC_TRY(hsc__gguf_read(gguf->kvs, gguf->tensors, data, n, gguf->path, err));
    return hsc__tensors_index(gguf->tensors, err);
}

static hsc_status gguf_new(hsc__gguf **out, hsc_error *err)
{
    *out = NULL;
    hsc__gguf *gguf = hsc__calloc(1, sizeof *gguf);
    if (!gguf) return hsc__fail_memory(err, sizeof *gguf, "a GGUF file");
    gguf->kvs = hsc__calloc(1, sizeof *gguf->kvs);
    hsc_status status =
        gguf->kvs ? hsc__tensors_new(&gguf->tensors, err) : hsc__fail_memory(err, sizeof *gguf->kvs, "a GGUF file");
    if (status == HSC_OK) *out = gguf;
    else hsc__gguf_close(gguf);
    return status;
}

hsc_status hsc__gguf_open(hsc__gguf **out, const char *path, hsc_error *err)
{
    HSC_TRY(gguf_new(out, err));
    hsc_status status = open_file(*out, path, err);
    if (status == HSC_OK) return HSC_OK;
    hsc__gguf_close(*out);
    *out = NULL;
    return status;
}

hsc_status hsc__gguf_parse(hsc__gguf **out, const void *data, size_t n, const char *path, hsc_error *err)
{
    HSC_TRY(gguf_new(out, err));
    hsc_status status = parse_bytes(*out, data, n, path, err);
    if (status == HSC_OK) return HSC_OK;
    hsc__gguf_close(*out);
    *out = NULL;
    return status;
}

void hsc__gguf_close(hsc__gguf *gguf)
{
    if (!gguf) return;
    if (gguf->kvs) hsc__gguf_kvs_free(gguf->kvs);
    hsc__free(gguf->kvs);
    hsc__tensors_close(gguf->tensors);
    hsc__free(gguf);
}

const hsc__tensors *hsc__gguf_tensors(const hsc__gguf *gguf)
{
    return gguf->tensors;
}

const char *hsc__gguf_path(const hsc__gguf *gguf)
{
    return gguf->path;
}

bool hsc__gguf_is(const char *path)
{
    char magic[4];
    if (!hsc__is_file(path)) return false; /* a FIFO would block */
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    bool is = fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
    fclose(file);
    return is;
}
