/* Strict JSON behind the contracts of json.h. The text is scanned for its depth first: the parser is recursive, and an
 * embedding program may call from a thread with a small stack. */
#include "formats/json.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/content.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 128 };

/* The byte at which brackets nest deeper than MAX_DEPTH, or n. */
static size_t too_deep(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            else if (c == '"') quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH) return i;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return n;
}

hsc_status hsc__json_parse(json_t **out, const char *text, size_t n, const char *path, hsc_error *err)
{
    *out = NULL;
    size_t skipped = hsc__text_mark(text, n);
    text += skipped;
    n -= skipped;
    size_t deep = too_deep(text, n);
    HSC_FAIL_AT_IF(deep < n, HSC_EFORMAT, skipped + deep, "%s: not valid JSON: nested deeper than %d levels", path,
                   (int)MAX_DEPTH);
    json_error_t error;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    /* tokenizer_config.json likes to say that a length is 1000000000000000019884624838656, which no integer holds. */
    if (!*out && json_error_code(&error) == json_error_numeric_overflow)
        *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (*out) return HSC_OK;
    if (json_error_code(&error) == json_error_out_of_memory) return hsc__fail_memory(err, n, path);
    uint64_t offset = error.position > 0 ? (uint64_t)error.position + skipped : skipped;
    return hsc__fail(err, HSC_EFORMAT, offset, "%s: not valid JSON: line %d, column %d: %s", path, error.line,
                     error.column, error.text);
}

hsc_status hsc__json_load(json_t **out, const char *path, size_t limit, hsc_error *err)
{
    char *text;
    size_t n;
    *out = NULL;
    HSC_TRY(hsc__read_file(&text, &n, path, limit, err));
    hsc_status status;
    if (n == 0) status = hsc__fail(err, HSC_EFORMAT, 0, "%s: is empty, JSON is expected", path);
    else if (hsc__is_lfs_pointer(text, n)) status = hsc__fail_lfs_pointer(path, err);
    else status = hsc__json_parse(out, text, n, path, err);
    hsc__free(text);
    return status;
}

/* The field's value, or NULL when it is absent or null. */
static const json_t *field_of(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return json_is_null(value) ? NULL : value;
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: return "null";
    }
    return "of an unknown kind";
}

static hsc_status fail_kind(const json_t *value, const char *field, const char *wanted, const char *path,
                            hsc_error *err)
{
    return hsc__fail(err, HSC_EFORMAT, 0, "%s: \"%s\" is %s, %s is expected", path, field, kind_of(value), wanted);
}

hsc_status hsc__json_int(const json_t *object, const char *field, int64_t fallback, int64_t low, int64_t high,
                         int64_t *out, const char *path, hsc_error *err)
{
    const json_t *value = field_of(object, field);
    *out = fallback;
    if (!value) return HSC_OK;
    int64_t number = 0;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else {
        double real = json_is_real(value) ? json_real_value(value) : 0.5;
        bool whole = real == floor(real) && fabs(real) < 9007199254740992.0;
        if (!whole) return fail_kind(value, field, "an integer", path, err);
        number = (int64_t)real;
    }
    HSC_FAIL_IF(number < low || number > high, HSC_EFORMAT, "%s: \"%s\" is %lld, it must be from %lld to %lld", path,
                field, (long long)number, (long long)low, (long long)high);
    *out = number;
    return HSC_OK;
}

hsc_status hsc__json_double(const json_t *object, const char *field, double fallback, double *out, const char *path,
                            hsc_error *err)
{
    const json_t *value = field_of(object, field);
    *out = fallback;
    if (!value) return HSC_OK;
    if (!json_is_number(value)) return fail_kind(value, field, "a number", path, err);
    *out = json_number_value(value);
    return HSC_OK;
}

hsc_status hsc__json_bool(const json_t *object, const char *field, bool fallback, bool *out, const char *path,
                          hsc_error *err)
{
    const json_t *value = field_of(object, field);
    *out = fallback;
    if (!value) return HSC_OK;
    if (!json_is_boolean(value)) return fail_kind(value, field, "true or false", path, err);
    *out = json_is_true(value);
    return HSC_OK;
}

hsc_status hsc__json_string(const json_t *object, const char *field, const char *fallback, const char **out,
                            const char *path, hsc_error *err)
{
    const json_t *value = field_of(object, field);
    *out = fallback;
    if (!value) return HSC_OK;
    if (!json_is_string(value)) return fail_kind(value, field, "a string", path, err);
    *out = json_string_value(value);
    return HSC_OK;
}
