/*
 * One safetensors file: u64 header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data, which the
 * tensors must fill from the first byte to the last, each byte once. The same rules as the format's own reader.
 */
#include "formats/content.h"
#include "formats/dtype.h"
#include "formats/json.h"
#include "formats/tensor_set.h"

#include <string.h>

enum { MAX_HEADER = 100000000 };

typedef struct data_part {
    const unsigned char *base;
    uint64_t size;
} data_part;

static hsc_status read_shape(const json_t *shape, hsc__tensor *t, hsc_error *err)
{
    HSC_FAIL_IF(!json_is_array(shape), HSC_EFORMAT, "\"shape\" is missing or not an array");
    size_t n_dims = json_array_size(shape);
    HSC_FAIL_IF(n_dims > HSC_MAX_DIMS, HSC_EUNSUPPORTED, "has %zu dimensions, at most %d are supported", n_dims,
                (int)HSC_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (size_t i = 0; i < n_dims; i++) {
        const json_t *size = json_array_get(shape, i);
        HSC_FAIL_IF(!json_is_integer(size) || json_integer_value(size) < 0, HSC_EFORMAT,
                    "\"shape\" holds something that is not an integer of 0 or more");
        t->shape[i] = json_integer_value(size);
    }
    return HSC_OK;
}

static hsc_status read_offsets(const json_t *offsets, data_part part, hsc__tensor *t, hsc_error *err)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    bool pair = json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(last);
    HSC_FAIL_IF(!pair, HSC_EFORMAT, "\"data_offsets\" is missing or not a pair of integers");
    long long begin = json_integer_value(first), end = json_integer_value(last);
    HSC_FAIL_IF(begin < 0 || end < begin, HSC_EFORMAT, "\"data_offsets\" is [%lld, %lld], which is no range", begin,
                end);
    HSC_FAIL_IF((uint64_t)end > part.size, HSC_EFORMAT,
                "\"data_offsets\" is [%lld, %lld], but the file has %llu bytes of data", begin, end,
                (unsigned long long)part.size);
    HSC_FAIL_IF((uint64_t)(end - begin) != t->n_bytes, HSC_EFORMAT,
                "\"data_offsets\" is [%lld, %lld], which is %lld bytes, but dtype and shape need %llu", begin, end,
                end - begin, (unsigned long long)t->n_bytes);
    t->data = part.base + begin;
    return HSC_OK;
}

static hsc_status read_entry(const json_t *entry, data_part part, hsc__tensor *t, hsc_error *err)
{
    HSC_FAIL_IF(!json_is_object(entry), HSC_EFORMAT, "is not an object");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    HSC_FAIL_IF(!dtype, HSC_EFORMAT, "\"dtype\" is missing or not a string");
    t->dtype = hsc__dtype_find(dtype);
    HSC_FAIL_IF(t->dtype == HSC_OTHER, HSC_EUNSUPPORTED, "has dtype '%.*s', which headscope does not read",
                hsc__shown(dtype, strlen(dtype)), dtype);
    t->dtype_name = hsc_dtype_name(t->dtype);
    HSC_TRY(read_shape(json_object_get(entry, "shape"), t, err));
    HSC_FAIL_IF(!hsc__shape_size(t->shape, t->n_dims, 1, hsc__dtype_bytes(t->dtype), &t->n_elements, &t->n_bytes),
                HSC_EFORMAT, "\"shape\" multiplies to more than 2^63 bytes");
    return read_offsets(json_object_get(entry, "data_offsets"), part, t, err);
}

static hsc_status read_metadata(hsc__tensors *set, json_t *metadata, hsc_error *err)
{
    if (json_is_null(metadata)) return HSC_OK;
    HSC_FAIL_IF(!json_is_object(metadata), HSC_EFORMAT, "is not an object");
    HSC_TRY(hsc__grow(&set->metadata, &set->metadata_capacity, set->n_metadata + json_object_size(metadata),
                      sizeof *set->metadata, err));
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        HSC_FAIL_IF(!json_is_string(value), HSC_EFORMAT, "\"%.*s\" is not a string", hsc__shown(key, strlen(key)), key);
        hsc__text_pair pair;
        HSC_TRY(hsc__tensors_keep(set, key, strlen(key), &pair.key, err));
        HSC_TRY(hsc__tensors_keep(set, json_string_value(value), json_string_length(value), &pair.value, err));
        set->metadata[set->n_metadata++] = pair;
    }
    return HSC_OK;
}

static hsc_status read_tensor(hsc__tensors *set, const char *name, const json_t *entry, data_part part,
                              const char *path, hsc_error *err)
{
    hsc__tensor t = {.path = path};
    HSC_TRY(read_entry(entry, part, &t, err));
    HSC_TRY(hsc__tensors_keep(set, name, strlen(name), &t.name, err));
    set->items[set->n++] = t;
    return HSC_OK;
}

static hsc_status read_header(hsc__tensors *set, json_t *header, data_part part, const char *path, hsc_error *err)
{
    size_t first = set->n;
    HSC_TRY(hsc__tensors_reserve(set, json_object_size(header), err));
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        bool is_metadata = strcmp(name, "__metadata__") == 0;
        hsc_status status =
            is_metadata ? read_metadata(set, entry, err) : read_tensor(set, name, entry, part, path, err);
        if (status != HSC_OK) {
            return hsc__fail_prefix(err, status, "%s: %s'%.*s'", path, is_metadata ? "" : "tensor ",
                                    hsc__shown(name, strlen(name)), name);
        }
    }
    hsc_status status = hsc__tensors_check_layout(set, first, part.base, part.size, true, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", path);
}

hsc_status hsc__safetensors_add(hsc__tensors *set, const unsigned char *data, uint64_t size, const char *path,
                                hsc_error *err)
{
    HSC_TRY(hsc__check_content(data, (size_t)size, "safetensors", path, err));
    HSC_FAIL_IF(size < 8, HSC_EFORMAT, "%s: is %llu bytes, safetensors starts with an 8-byte header length", path,
                (unsigned long long)size);
    uint64_t length;
    memcpy(&length, data, 8);
    HSC_FAIL_IF(length > MAX_HEADER, HSC_EFORMAT, "%s: the header length is %llu bytes, at most %d are accepted", path,
                (unsigned long long)length, (int)MAX_HEADER);
    HSC_FAIL_IF(length > size - 8, HSC_EFORMAT, "%s: the header length is %llu bytes, but only %llu follow it", path,
                (unsigned long long)length, (unsigned long long)(size - 8));
    const char *text = (const char *)data + 8;
    size_t blank = 0;
    while (blank < length && memchr(" \t\r\n", text[blank], 4)) blank++;
    HSC_FAIL_AT_IF(blank == length || text[blank] != '{', HSC_EFORMAT, 8 + blank, "%s: the header is not a JSON object",
                   path);
    json_t *header;
    hsc_status status = hsc__json_parse(&header, text, (size_t)length, path, err);
    if (status != HSC_OK) {
        if (err && err->code == HSC_EFORMAT) err->offset += 8;
        return status;
    }
    status = read_header(set, header, (data_part){data + 8 + length, size - 8 - length}, path, err);
    json_decref(header);
    return status;
}

hsc_status hsc__safetensors_open(hsc__tensors **out, const char *path, hsc_error *err)
{
    hsc__tensors *set;
    hsc__map map;
    const char *kept;
    *out = NULL;
    HSC_TRY(hsc__tensors_new(&set, err));
    hsc_status status = hsc__tensors_map(set, path, &map, &kept, err);
    if (status == HSC_OK) status = hsc__safetensors_add(set, map.data, map.size, kept, err);
    if (status == HSC_OK) status = hsc__tensors_index(set, err);
    if (status == HSC_OK) *out = set;
    else hsc__tensors_close(set);
    return status;
}

hsc_status hsc__safetensors_parse(hsc__tensors **out, const void *data, size_t n, const char *path, hsc_error *err)
{
    hsc__tensors *set;
    const char *kept;
    *out = NULL;
    HSC_TRY(hsc__tensors_new(&set, err));
    hsc_status status = hsc__tensors_keep(set, path, strlen(path), &kept, err);
    if (status == HSC_OK) status = hsc__safetensors_add(set, data, n, kept, err);
    if (status == HSC_OK) status = hsc__tensors_index(set, err);
    if (status == HSC_OK) *out = set;
    else hsc__tensors_close(set);
    return status;
}
