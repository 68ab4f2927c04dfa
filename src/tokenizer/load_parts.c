/* What the loaders of a tokenizer.json share, and its added tokens. */
#include "tokenizer/load.h"

#include <string.h>

const char *hsc__type_of(const json_t *json)
{
    return json_string_value(json_object_get(json, "type"));
}

hsc__bytes hsc__keep(hsc_tokenizer *t, const char *text, size_t n)
{
    return (hsc__bytes){hsc__arena_strndup(&t->arena, text, n), n};
}

hsc_status hsc__load_unknown(const char *path, const char *part, const json_t *json, hsc_error *err)
{
    const char *type = hsc__type_of(json);
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: %s \"%s\" is not supported", path, part, type ? type : "(no type)");
}

hsc_status hsc__load_text(hsc_tokenizer *t, const json_t *json, const char *field, const char *path, hsc__bytes *out,
                          hsc_error *err)
{
    const json_t *value = json_object_get(json, field);
    HSC_FAIL_IF(!json_is_string(value), HSC_EFORMAT, "%s: %s: \"%s\" must be a string", path, hsc__type_of(json),
                field);
    *out = hsc__keep(t, json_string_value(value), json_string_length(value));
    return out->data ? HSC_OK : hsc__fail_memory(err, json_string_length(value), path);
}

const json_t *hsc__load_steps(const json_t *json, const char *field)
{
    const char *type = hsc__type_of(json);
    const json_t *steps = type && strcmp(type, "Sequence") == 0 ? json_object_get(json, field) : NULL;
    return json_is_array(steps) ? steps : NULL;
}

hsc_status hsc__load_added_tokens(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    HSC_FAIL_IF(json && !json_is_null(json) && !json_is_array(json), HSC_EFORMAT,
                "%s: \"added_tokens\" must be an array", path);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *item = json_array_get(json, i), *content = json_object_get(item, "content");
        int64_t id;
        hsc__added_token token = {0};
        HSC_FAIL_IF(!json_is_string(content), HSC_EFORMAT, "%s: added_tokens[%zu]: \"content\" must be a string", path,
                    i);
        HSC_TRY(hsc__json_int(item, "id", -1, 0, (1 << 24) - 1, &id, path, err));
        HSC_FAIL_IF(id < 0, HSC_EFORMAT, "%s: added_tokens[%zu]: \"id\" is missing", path, i);
        HSC_TRY(hsc__json_bool(item, "special", false, &token.special, path, err));
        HSC_TRY(hsc__json_bool(item, "lstrip", false, &token.lstrip, path, err));
        HSC_TRY(hsc__json_bool(item, "rstrip", false, &token.rstrip, path, err));
        HSC_TRY(hsc__json_bool(item, "single_word", false, &token.single_word, path, err));
        HSC_TRY(hsc__json_bool(item, "normalized", !token.special, &token.normalized, path, err));
        token.id = (hsc_token)id;
        token.content = hsc__keep(t, json_string_value(content), json_string_length(content));
        if (!token.content.data) return hsc__fail_memory(err, json_string_length(content), path);
        HSC_TRY(hsc__tokenizer_add_token(t, token, path, err));
    }
    return HSC_OK;
}
