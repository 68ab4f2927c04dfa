/* Metadata of GGUF: looking up, converting with every range checked, and describing for people. */
#include "formats/gguf_file.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[HSC_GGUF_N_KINDS] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};
static const char *const array_names[HSC_GGUF_N_KINDS] = {"u8[]",  "i8[]",  "u16[]",  "i16[]",    "u32[]",
                                                          "i32[]", "f32[]", "bool[]", "string[]", "array[]",
                                                          "u64[]", "i64[]", "f64[]"};

static const char *kind_name(const hsc__gguf_kv *kv)
{
    return kv->kind == HSC_GGUF_ARRAY ? array_names[kv->item_kind] : kind_names[kv->kind];
}

static hsc__gguf_kv *find(const hsc__gguf *gguf, const char *key)
{
    size_t i = hsc__names_find(&gguf->kvs->names, key, strlen(key));
    return i == HSC_NO_INDEX ? NULL : &gguf->kvs->items[i];
}

static hsc_status fail_kind(const hsc__gguf *gguf, const hsc__gguf_kv *kv, const char *wanted, hsc_error *err)
{
    return hsc__fail(err, HSC_EFORMAT, 0, "%s: '%s' is of type %s, %s is expected", gguf->path, kv->key, kind_name(kv),
                     wanted);
}

#define HSC_READ(type, from)                                                                                           \
    do {                                                                                                               \
        type value_;                                                                                                   \
        memcpy(&value_, (from), sizeof value_);                                                                        \
        *out = value_;                                                                                                 \
        return true;                                                                                                   \
    } while (0)

/* False when the kind is no integer, or when a u64 does not fit. */
static bool read_int(hsc__gguf_kind kind, const unsigned char *from, int64_t *out)
{
    switch (kind) {
    case HSC_GGUF_U8:
    case HSC_GGUF_BOOL: HSC_READ(uint8_t, from);
    case HSC_GGUF_I8: HSC_READ(int8_t, from);
    case HSC_GGUF_U16: HSC_READ(uint16_t, from);
    case HSC_GGUF_I16: HSC_READ(int16_t, from);
    case HSC_GGUF_U32: HSC_READ(uint32_t, from);
    case HSC_GGUF_I32: HSC_READ(int32_t, from);
    case HSC_GGUF_I64: HSC_READ(int64_t, from);
    case HSC_GGUF_U64: {
        uint64_t value;
        memcpy(&value, from, sizeof value);
        *out = value > INT64_MAX ? INT64_MAX : (int64_t)value;
        return value <= INT64_MAX;
    }
    case HSC_GGUF_F32:
    case HSC_GGUF_F64:
    case HSC_GGUF_STRING:
    case HSC_GGUF_ARRAY:
    case HSC_GGUF_N_KINDS: break;
    }
    return false;
}

static bool is_int(hsc__gguf_kind kind)
{
    return hsc__gguf_kind_size(kind) && kind != HSC_GGUF_F32 && kind != HSC_GGUF_F64 && kind != HSC_GGUF_BOOL;
}

/* Any number that is finite. */
static bool read_double(hsc__gguf_kind kind, const unsigned char *from, double *out)
{
    if (kind == HSC_GGUF_F32) {
        float value;
        memcpy(&value, from, sizeof value);
        *out = value;
        return isfinite(value);
    }
    if (kind == HSC_GGUF_F64) {
        memcpy(out, from, sizeof *out);
        return isfinite(*out);
    }
    int64_t whole = 0;
    bool fits = is_int(kind) && read_int(kind, from, &whole);
    if (fits) *out = (double)whole;
    return fits;
}

bool hsc__gguf_has(const hsc__gguf *gguf, const char *key)
{
    return find(gguf, key) != NULL;
}

hsc_status hsc__gguf_get_int(const hsc__gguf *gguf, const char *key, int64_t fallback, int64_t low, int64_t high,
                             int64_t *out, hsc_error *err)
{
    const hsc__gguf_kv *kv = find(gguf, key);
    *out = fallback;
    if (!kv) return HSC_OK;
    if (!is_int(kv->kind)) return fail_kind(gguf, kv, "an integer", err);
    int64_t value = 0;
    bool fits = read_int(kv->kind, kv->value, &value) && value >= low && value <= high;
    HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: '%s' is %lld, it must be from %lld to %lld", gguf->path, key, (long long)value,
                (long long)low, (long long)high);
    *out = value;
    return HSC_OK;
}

hsc_status hsc__gguf_get_double(const hsc__gguf *gguf, const char *key, double fallback, double *out, hsc_error *err)
{
    const hsc__gguf_kv *kv = find(gguf, key);
    *out = fallback;
    if (!kv) return HSC_OK;
    double value;
    if (!read_double(kv->kind, kv->value, &value)) return fail_kind(gguf, kv, "a finite number", err);
    *out = value;
    return HSC_OK;
}

hsc_status hsc__gguf_get_bool(const hsc__gguf *gguf, const char *key, bool fallback, bool *out, hsc_error *err)
{
    const hsc__gguf_kv *kv = find(gguf, key);
    *out = fallback;
    if (!kv) return HSC_OK;
    if (kv->kind != HSC_GGUF_BOOL) return fail_kind(gguf, kv, "a bool", err);
    *out = *kv->value != 0;
    return HSC_OK;
}

hsc_status hsc__gguf_get_string(const hsc__gguf *gguf, const char *key, hsc__bytes *out, hsc_error *err)
{
    const hsc__gguf_kv *kv = find(gguf, key);
    *out = (hsc__bytes){0};
    if (!kv) return HSC_OK;
    if (kv->kind != HSC_GGUF_STRING) return fail_kind(gguf, kv, "a string", err);
    *out = (hsc__bytes){(const char *)kv->value, (size_t)kv->count};
    return HSC_OK;
}

hsc_status hsc__gguf_get_cstring(const hsc__gguf *gguf, const char *key, const char *fallback, const char **out,
                                 hsc_error *err)
{
    hsc__bytes bytes;
    *out = fallback;
    HSC_TRY(hsc__gguf_get_string(gguf, key, &bytes, err));
    if (!bytes.data) return HSC_OK;
    HSC_FAIL_IF(memchr(bytes.data, '\0', bytes.n), HSC_EFORMAT, "%s: '%s' holds a NUL byte", gguf->path, key);
    hsc__gguf_kv *kv = find(gguf, key);
    if (!kv->text) HSC_TRY(hsc__tensors_keep(gguf->tensors, bytes.data, bytes.n, &kv->text, err));
    *out = kv->text;
    return HSC_OK;
}

/* Memory of the gguf for an array made from the elements of kv. */
static void *array_memory(const hsc__gguf *gguf, const hsc__gguf_kv *kv, size_t element_size, hsc_error *err)
{
    size_t n_bytes = kv->count > SIZE_MAX / element_size ? SIZE_MAX : (size_t)kv->count * element_size;
    void *array = hsc__arena_alloc(&gguf->tensors->arena, n_bytes);
    if (!array) hsc__fail_memory(err, n_bytes, kv->key);
    return array;
}

static hsc_status index_strings(const hsc__gguf *gguf, hsc__gguf_kv *kv, hsc_error *err)
{
    hsc__bytes *strings = array_memory(gguf, kv, sizeof *strings, err);
    if (!strings) return HSC_ENOMEM;
    const unsigned char *at = kv->value;
    for (uint64_t i = 0; i < kv->count; i++) { /* the lengths were checked when the file was read */
        uint64_t n;
        memcpy(&n, at, sizeof n);
        strings[i] = (hsc__bytes){(const char *)at + sizeof n, (size_t)n};
        at += sizeof n + n;
    }
    kv->strings = strings;
    return HSC_OK;
}

hsc_status hsc__gguf_get_strings(const hsc__gguf *gguf, const char *key, const hsc__bytes **out, size_t *n,
                                 hsc_error *err)
{
    hsc__gguf_kv *kv = find(gguf, key);
    *out = NULL;
    *n = 0;
    if (!kv) return HSC_OK;
    if (kv->kind != HSC_GGUF_ARRAY || (kv->count && kv->item_kind != HSC_GGUF_STRING))
        return fail_kind(gguf, kv, "an array of strings", err);
    if (kv->count && !kv->strings) HSC_TRY(index_strings(gguf, kv, err));
    *out = kv->strings;
    *n = (size_t)kv->count;
    return HSC_OK;
}

static hsc_status convert_ints(const hsc__gguf *gguf, hsc__gguf_kv *kv, hsc_error *err)
{
    int32_t *ints = array_memory(gguf, kv, sizeof *ints, err);
    if (!ints) return HSC_ENOMEM;
    size_t step = hsc__gguf_kind_size(kv->item_kind);
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t value = 0;
        bool fits = read_int(kv->item_kind, kv->value + i * step, &value) && value >= INT32_MIN && value <= INT32_MAX;
        HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: '%s': element %llu is %lld, which does not fit 32 bits", gguf->path,
                    kv->key, (unsigned long long)i, (long long)value);
        ints[i] = (int32_t)value;
    }
    kv->ints = ints;
    return HSC_OK;
}

hsc_status hsc__gguf_get_ints(const hsc__gguf *gguf, const char *key, const int32_t **out, size_t *n, hsc_error *err)
{
    hsc__gguf_kv *kv = find(gguf, key);
    *out = NULL;
    *n = 0;
    if (!kv) return HSC_OK;
    bool right = kv->kind == HSC_GGUF_ARRAY && (!kv->count || is_int(kv->item_kind) || kv->item_kind == HSC_GGUF_BOOL);
    if (!right) return fail_kind(gguf, kv, "an array of integers", err);
    if (kv->count && !kv->ints) HSC_TRY(convert_ints(gguf, kv, err));
    *out = kv->ints;
    *n = (size_t)kv->count;
    return HSC_OK;
}

static hsc_status convert_floats(const hsc__gguf *gguf, hsc__gguf_kv *kv, hsc_error *err)
{
    float *floats = array_memory(gguf, kv, sizeof *floats, err);
    if (!floats) return HSC_ENOMEM;
    if (kv->item_kind == HSC_GGUF_F32) {
        memcpy(floats, kv->value, (size_t)kv->count * sizeof *floats);
    } else {
        for (uint64_t i = 0; i < kv->count; i++) {
            double value;
            memcpy(&value, kv->value + i * sizeof value, sizeof value);
            floats[i] = (float)value;
        }
    }
    kv->floats = floats;
    return HSC_OK;
}

hsc_status hsc__gguf_get_floats(const hsc__gguf *gguf, const char *key, const float **out, size_t *n, hsc_error *err)
{
    hsc__gguf_kv *kv = find(gguf, key);
    *out = NULL;
    *n = 0;
    if (!kv) return HSC_OK;
    bool right =
        kv->kind == HSC_GGUF_ARRAY && (!kv->count || kv->item_kind == HSC_GGUF_F32 || kv->item_kind == HSC_GGUF_F64);
    if (!right) return fail_kind(gguf, kv, "an array of floats", err);
    if (kv->count && !kv->floats) HSC_TRY(convert_floats(gguf, kv, err));
    *out = kv->floats;
    *n = (size_t)kv->count;
    return HSC_OK;
}

size_t hsc__gguf_n_kv(const hsc__gguf *gguf)
{
    return gguf->kvs->n;
}

/* A string as a label, cut at a whole character when it is longer than there is room for. */
static hsc_status describe_string(const hsc__gguf_kv *kv, char *out, size_t capacity)
{
    static const char cut[] = "...";
    size_t n = kv->count < capacity ? (size_t)kv->count : hsc__utf8_prefix((const char *)kv->value, capacity);
    hsc__string label = {0};
    hsc__text_label(&label, (const char *)kv->value, n);
    if (!label.failed) {
        bool whole = n == kv->count && label.n < capacity;
        size_t shown =
            whole ? label.n : hsc__utf8_prefix(label.data, capacity > sizeof cut ? capacity - sizeof cut : 0);
        snprintf(out, capacity, "%.*s%s", (int)shown, label.data ? label.data : "", whole ? "" : cut);
    }
    hsc_status status = label.failed ? HSC_ENOMEM : HSC_OK;
    hsc__string_free(&label);
    return status;
}

hsc_status hsc__gguf_describe(const hsc__gguf *gguf, size_t index, const char **key, const char **type, char *value,
                              size_t capacity)
{
    if (index >= gguf->kvs->n || capacity == 0) return HSC_EINVAL;
    const hsc__gguf_kv *kv = &gguf->kvs->items[index];
    *key = kv->key;
    *type = kind_name(kv);
    value[0] = '\0';
    int64_t whole;
    double real;
    uint64_t big;
    if (kv->kind == HSC_GGUF_STRING) return describe_string(kv, value, capacity);
    if (kv->kind == HSC_GGUF_ARRAY) snprintf(value, capacity, "%llu values", (unsigned long long)kv->count);
    else if (kv->kind == HSC_GGUF_BOOL) snprintf(value, capacity, "%s", *kv->value ? "true" : "false");
    else if (is_int(kv->kind) && read_int(kv->kind, kv->value, &whole))
        snprintf(value, capacity, "%lld", (long long)whole);
    else if (kv->kind == HSC_GGUF_U64) {
        memcpy(&big, kv->value, sizeof big);
        snprintf(value, capacity, "%llu", (unsigned long long)big);
    } else if (read_double(kv->kind, kv->value, &real)) hsc__format_double(value, capacity, 9, real);
    else snprintf(value, capacity, "not finite");
    return HSC_OK;
}
