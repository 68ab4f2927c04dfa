/* GGUF out. The layout stands in gguf.h; the alignment is the format's default, so no key has to state it. */
#include "formats/gguf_writer.h"

#include "formats/dtype.h"
#include "formats/gguf_file.h"
#include "formats/gguf_types.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3, MAX_DIMS = 4 };

void hsc__gguf_writer_free(hsc__gguf_writer *w)
{
    hsc__string_free(&w->metadata);
    hsc__string_free(&w->tensors);
    *w = (hsc__gguf_writer){0};
}

static void add_bytes(hsc__string *to, const void *bytes, size_t n)
{
    hsc__string_add(to, bytes, n);
}

static void add_u32(hsc__string *to, uint32_t value)
{
    add_bytes(to, &value, sizeof value);
}

static void add_u64(hsc__string *to, uint64_t value)
{
    add_bytes(to, &value, sizeof value);
}

static void add_text(hsc__string *to, const char *text, size_t n)
{
    add_u64(to, n);
    add_bytes(to, text, n);
}

static void begin(hsc__gguf_writer *w, const char *key, hsc__gguf_kind kind)
{
    w->n_metadata++;
    add_text(&w->metadata, key, strlen(key));
    add_u32(&w->metadata, (uint32_t)kind);
}

static void begin_array(hsc__gguf_writer *w, const char *key, hsc__gguf_kind item_kind, uint64_t n)
{
    begin(w, key, HSC_GGUF_ARRAY);
    add_u32(&w->metadata, (uint32_t)item_kind);
    add_u64(&w->metadata, n);
}

void hsc__gguf_put_u32(hsc__gguf_writer *w, const char *key, uint32_t value)
{
    begin(w, key, HSC_GGUF_U32);
    add_u32(&w->metadata, value);
}

void hsc__gguf_put_f32(hsc__gguf_writer *w, const char *key, float value)
{
    begin(w, key, HSC_GGUF_F32);
    add_bytes(&w->metadata, &value, sizeof value);
}

void hsc__gguf_put_bool(hsc__gguf_writer *w, const char *key, bool value)
{
    begin(w, key, HSC_GGUF_BOOL);
    add_bytes(&w->metadata, (const unsigned char[1]){value}, 1);
}

void hsc__gguf_put_string(hsc__gguf_writer *w, const char *key, const char *text, size_t n)
{
    begin(w, key, HSC_GGUF_STRING);
    add_text(&w->metadata, text, n);
}

void hsc__gguf_put_strings(hsc__gguf_writer *w, const char *key, const hsc__bytes *items, size_t n)
{
    begin_array(w, key, HSC_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) add_text(&w->metadata, items[i].data, items[i].n);
}

void hsc__gguf_put_ints(hsc__gguf_writer *w, const char *key, const int32_t *items, size_t n)
{
    begin_array(w, key, HSC_GGUF_I32, n);
    add_bytes(&w->metadata, items, n * sizeof *items);
}

void hsc__gguf_put_bytes(hsc__gguf_writer *w, const char *key, const void *bytes, size_t n)
{
    begin_array(w, key, HSC_GGUF_U8, n);
    add_bytes(&w->metadata, bytes, n);
}

void hsc__gguf_put_floats(hsc__gguf_writer *w, const char *key, const float *items, size_t n)
{
    begin_array(w, key, HSC_GGUF_F32, n);
    add_bytes(&w->metadata, items, n * sizeof *items);
}

/* Bytes that the strings of an array take where they lie; their lengths were checked when the file was read. */
static size_t strings_size(const hsc__gguf_kv *kv)
{
    size_t at = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t n;
        memcpy(&n, kv->value + at, sizeof n);
        at += sizeof n + (size_t)n;
    }
    return at;
}

static void put_as_it_is(hsc__gguf_writer *w, const hsc__gguf_kv *kv)
{
    if (kv->kind == HSC_GGUF_STRING) {
        hsc__gguf_put_string(w, kv->key, (const char *)kv->value, (size_t)kv->count);
    } else if (kv->kind == HSC_GGUF_ARRAY) {
        size_t size = hsc__gguf_kind_size(kv->item_kind);
        begin_array(w, kv->key, kv->item_kind, kv->count);
        add_bytes(&w->metadata, kv->value, size ? (size_t)kv->count * size : strings_size(kv));
    } else {
        begin(w, kv->key, kv->kind);
        add_bytes(&w->metadata, kv->value, hsc__gguf_kind_size(kv->kind));
    }
}

/* Keys that say how the file they stand in is laid out: they are not true of another one. */
static bool is_layout(const char *key)
{
    return strcmp(key, "general.alignment") == 0 || strncmp(key, "split.", 6) == 0;
}

void hsc__gguf_put_all(hsc__gguf_writer *w, const hsc__gguf *from, bool (*skip)(const char *key))
{
    for (size_t i = 0; i < from->kvs->n; i++) {
        const hsc__gguf_kv *kv = &from->kvs->items[i];
        if (!is_layout(kv->key) && !skip(kv->key)) put_as_it_is(w, kv);
    }
}

hsc_status hsc__gguf_add_tensor(hsc__gguf_writer *w, const char *name, const char *type_name, int n_dims,
                                const int64_t *shape, uint64_t *n_bytes, hsc_error *err)
{
    uint32_t number;
    uint64_t n_elements;
    const hsc__ggml_type *type = hsc__ggml_type_named(type_name, &number);
    HSC_FAIL_IF(!type, HSC_EINVAL, "tensor %s: GGUF has no type %s", name, type_name);
    HSC_FAIL_IF(n_dims > MAX_DIMS, HSC_EINVAL, "tensor %s has %d dimensions, GGUF allows %d", name, n_dims,
                (int)MAX_DIMS);
    HSC_FAIL_IF(!hsc__shape_size(shape, n_dims, type->block, type->bytes, &n_elements, n_bytes), HSC_EINVAL,
                "tensor %s: its shape does not make whole blocks of %s in less than 2^63 bytes", name, type_name);
    add_text(&w->tensors, name, strlen(name));
    add_u32(&w->tensors, (uint32_t)n_dims);
    for (int i = n_dims - 1; i >= 0; i--) add_u64(&w->tensors, (uint64_t)shape[i]);
    add_u32(&w->tensors, number);
    add_u64(&w->tensors, w->n_data);
    w->n_tensors++;
    w->n_data += (*n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return HSC_OK;
}

hsc_status hsc__gguf_write_padding(hsc__sink *sink, hsc_error *err)
{
    static const char zeros[ALIGNMENT];
    return hsc__sink_put(sink, zeros, (ALIGNMENT - sink->at % ALIGNMENT) % ALIGNMENT, err);
}

hsc_status hsc__gguf_write_header(const hsc__gguf_writer *w, hsc__sink *sink, hsc_error *err)
{
    const uint32_t version = VERSION;
    if (w->metadata.failed || w->tensors.failed)
        return hsc__fail_memory(err, w->metadata.n + w->tensors.n, "the metadata of a GGUF file");
    HSC_TRY(hsc__sink_put(sink, "GGUF", 4, err));
    HSC_TRY(hsc__sink_put(sink, &version, sizeof version, err));
    HSC_TRY(hsc__sink_put(sink, &w->n_tensors, sizeof w->n_tensors, err));
    HSC_TRY(hsc__sink_put(sink, &w->n_metadata, sizeof w->n_metadata, err));
    HSC_TRY(hsc__sink_put(sink, w->metadata.data, w->metadata.n, err));
    HSC_TRY(hsc__sink_put(sink, w->tensors.data, w->tensors.n, err));
    return hsc__gguf_write_padding(sink, err);
}
