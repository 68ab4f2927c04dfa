/* Normalizers, pre-tokenizers, post-processors and added tokens of a tokenizer.json. */
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

static hsc_status unknown(const char *path, const char *part, const json_t *json, hsc_error *err)
{
    const char *type = hsc__type_of(json);
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: %s \"%s\" is not supported", path, part, type ? type : "(no type)");
}

/* A required string field, copied. */
static hsc_status get_text(hsc_tokenizer *t, const json_t *json, const char *field, const char *path, hsc__bytes *out,
                           hsc_error *err)
{
    const json_t *value = json_object_get(json, field);
    HSC_FAIL_IF(!json_is_string(value), HSC_EFORMAT, "%s: %s: \"%s\" must be a string", path, hsc__type_of(json),
                field);
    *out = hsc__keep(t, json_string_value(value), json_string_length(value));
    return out->data ? HSC_OK : hsc__fail_memory(err, json_string_length(value), path);
}

/* The steps of a "Sequence" under whichever of the two names it has. NULL when it is none. */
static const json_t *steps_of(const json_t *json, const char *field)
{
    const char *type = hsc__type_of(json);
    const json_t *steps = type && strcmp(type, "Sequence") == 0 ? json_object_get(json, field) : NULL;
    return json_is_array(steps) ? steps : NULL;
}

static hsc_status load_replace(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    hsc__normalize_op op = {.kind = HSC__REPLACE};
    HSC_FAIL_IF(!json_is_string(json_object_get(pattern, "String")), HSC_EUNSUPPORTED,
                "%s: normalizer \"Replace\" with a pattern that is not a string is not supported", path);
    HSC_TRY(get_text(t, pattern, "String", path, &op.text, err));
    HSC_TRY(get_text(t, json, "content", path, &op.with, err));
    HSC_FAIL_IF(op.text.n == 0, HSC_EUNSUPPORTED, "%s: normalizer \"Replace\" of nothing is not supported", path);
    return hsc__normalizer_add(&t->normalizer, op, err);
}

hsc_status hsc__load_normalizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    static const struct {
        const char *name;
        hsc__normalize_kind kind;
    } forms[] = {{"NFC", HSC__NFC}, {"NFD", HSC__NFD}, {"NFKC", HSC__NFKC}, {"NFKD", HSC__NFKD}};
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = steps_of(json, "normalizers");
    for (size_t i = 0; i < json_array_size(steps); i++)
        HSC_TRY(hsc__load_normalizer(t, json_array_get(steps, i), path, err));
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    for (size_t i = 0; type && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(type, forms[i].name) == 0)
            return hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = forms[i].kind}, err);
    if (type && strcmp(type, "Replace") == 0) return load_replace(t, json, path, err);
    if (!type || strcmp(type, "Prepend") != 0) return unknown(path, "normalizer", json, err);
    hsc__normalize_op op = {.kind = HSC__PREPEND};
    HSC_TRY(get_text(t, json, "prepend", path, &op.text, err));
    return hsc__normalizer_add(&t->normalizer, op, err);
}

/* Ops that change a piece's text work on the whole stretch here, so nothing may have been cut before. */
static hsc_status add_prefix(hsc_tokenizer *t, hsc__normalize_op op, const char *path, const char *type, hsc_error *err)
{
    HSC_FAIL_IF(t->splitter.n_steps, HSC_EUNSUPPORTED,
                "%s: pre_tokenizer \"%s\" that adds a prefix after another step "
                "is not supported",
                path, type);
    return hsc__normalizer_add(&t->prefix, op, err);
}

static hsc_status load_byte_level(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    bool prefix, use_regex;
    HSC_TRY(hsc__json_bool(json, "add_prefix_space", true, &prefix, path, err));
    HSC_TRY(hsc__json_bool(json, "use_regex", true, &use_regex, path, err));
    if (prefix) {
        hsc__normalize_op op = {.kind = HSC__PREPEND_MISSING, .text = {" ", 1}};
        HSC_TRY(add_prefix(t, op, path, "ByteLevel", err));
    }
    t->bpe.byte_level = true;
    if (!use_regex) return HSC_OK;
    return hsc__splitter_add(&t->splitter, (hsc__split_step){.kind = HSC__SPLIT_SCAN, .scan = hsc__scan_gpt2}, err);
}

static hsc_status get_behavior(const json_t *json, const char *path, hsc__split_behavior *out, hsc_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(json, "behavior"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (hsc__split_behavior)i;
        return HSC_OK;
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: pre_tokenizer behavior \"%s\" is not supported", path,
                     name ? name : "(none)");
}

/* A literal text as a pattern: every ASCII character that is not a letter, digit or blank gets a backslash. */
static void quote(hsc__string *out, hsc__bytes text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
            hsc__string_text(out, "\\");
        hsc__string_add(out, text.data + i, 1);
    }
}

static hsc_status add_literal(hsc_tokenizer *t, hsc__bytes text, hsc__split_behavior behavior, bool invert,
                              hsc_error *err)
{
    hsc__string pattern = {0};
    quote(&pattern, text);
    hsc_status status = pattern.failed
                            ? hsc__fail_memory(err, text.n * 2, "a pattern")
                            : hsc__splitter_add_pattern(&t->splitter, pattern.data, pattern.n, behavior, invert, err);
    hsc__string_free(&pattern);
    return status;
}

static hsc_status load_split(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    bool is_regex = json_is_string(json_object_get(pattern, "Regex")), invert;
    hsc__split_behavior behavior = HSC__ISOLATED;
    hsc__bytes text;
    HSC_TRY(get_behavior(json, path, &behavior, err));
    HSC_TRY(hsc__json_bool(json, "invert", false, &invert, path, err));
    HSC_FAIL_IF(!is_regex && !json_is_string(json_object_get(pattern, "String")), HSC_EFORMAT,
                "%s: pre_tokenizer \"Split\": \"pattern\" must hold \"Regex\" or \"String\"", path);
    HSC_TRY(get_text(t, pattern, is_regex ? "Regex" : "String", path, &text, err));
    hsc_status status = is_regex ? hsc__splitter_add_pattern(&t->splitter, text.data, text.n, behavior, invert, err)
                                 : add_literal(t, text, behavior, invert, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s: pre_tokenizer \"Split\"", path);
}

static hsc_status load_metaspace(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    hsc__bytes mark;
    bool split;
    const char *scheme;
    HSC_TRY(get_text(t, json, "replacement", path, &mark, err));
    HSC_TRY(hsc__json_bool(json, "split", true, &split, path, err));
    HSC_TRY(hsc__json_string(json, "prepend_scheme", "always", &scheme, path, err));
    bool always = strcmp(scheme, "always") == 0, first = strcmp(scheme, "first") == 0;
    HSC_FAIL_IF(!always && !first && strcmp(scheme, "never") != 0, HSC_EUNSUPPORTED,
                "%s: pre_tokenizer \"Metaspace\": prepend_scheme \"%s\" is not supported", path, scheme);
    hsc__normalize_op blank = {.kind = HSC__REPLACE, .text = {" ", 1}, .with = mark};
    HSC_TRY(add_prefix(t, blank, path, "Metaspace", err));
    if (always || first) {
        hsc__normalize_op front = {.kind = always ? HSC__PREPEND_MISSING : HSC__PREPEND_FIRST, .text = mark};
        HSC_TRY(add_prefix(t, front, path, "Metaspace", err));
    }
    return split ? add_literal(t, mark, HSC__MERGED_WITH_NEXT, false, err) : HSC_OK;
}

hsc_status hsc__load_pre_tokenizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = steps_of(json, "pretokenizers");
    for (size_t i = 0; i < json_array_size(steps); i++)
        HSC_TRY(hsc__load_pre_tokenizer(t, json_array_get(steps, i), path, err));
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    if (!type) return unknown(path, "pre_tokenizer", json, err);
    /* Behind ByteLevel a step would see the spelling and no longer the text. */
    HSC_FAIL_IF(t->bpe.byte_level, HSC_EUNSUPPORTED, "%s: pre_tokenizer \"%s\" after \"ByteLevel\" is not supported",
                path, type);
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(t, json, path, err);
    if (strcmp(type, "Split") == 0) return load_split(t, json, path, err);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(t, json, path, err);
    hsc__split_step step = {.behavior = HSC__ISOLATED};
    if (strcmp(type, "Digits") == 0) {
        bool individual;
        HSC_TRY(hsc__json_bool(json, "individual_digits", false, &individual, path, err));
        step.kind = HSC__SPLIT_NUMBERS;
        if (!individual) step.behavior = HSC__CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        step.kind = HSC__SPLIT_PUNCTUATION;
        if (json_object_get(json, "behavior")) HSC_TRY(get_behavior(json, path, &step.behavior, err));
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        step.kind = HSC__SPLIT_SPACES;
        step.behavior = HSC__REMOVED;
    } else {
        return unknown(path, "pre_tokenizer", json, err);
    }
    return hsc__splitter_add(&t->splitter, step, err);
}

hsc_status hsc__set_template(hsc_tokenizer *t, const hsc_token *before, size_t n_before, const hsc_token *after,
                             size_t n_after, hsc_error *err)
{
    size_t n_bytes = (n_before + n_after + 1) * sizeof *before;
    hsc_token *ids = hsc__arena_alloc(&t->arena, n_bytes);
    if (!ids) return hsc__fail_memory(err, n_bytes, "the template");
    for (size_t i = 0; i < n_before; i++) ids[i] = before[i];
    for (size_t i = 0; i < n_after; i++) ids[n_before + i] = after[i];
    t->template = (hsc__template){.before = ids, .n_before = n_before, .after = ids + n_before, .n_after = n_after};
    return HSC_OK;
}

enum { MOST_TEMPLATE = 64 };

/* Appends the ids of a special token of the template. */
static hsc_status add_special(const json_t *known, const json_t *piece, const char *path, hsc_token *ids, size_t *n,
                              hsc_error *err)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    const json_t *list = name ? json_object_get(json_object_get(known, name), "ids") : NULL;
    HSC_FAIL_IF(!json_is_array(list), HSC_EFORMAT, "%s: post_processor: special token \"%s\" has no ids", path,
                name ? name : "(none)");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        bool fits = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT32_MAX;
        HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: post_processor: special token \"%s\" has an id that is none", path, name);
        HSC_FAIL_IF(*n == MOST_TEMPLATE, HSC_EUNSUPPORTED, "%s: post_processor: more than %d special tokens", path,
                    (int)MOST_TEMPLATE);
        ids[(*n)++] = (hsc_token)json_integer_value(id);
    }
    return HSC_OK;
}

/* "single" of a TemplateProcessing: specials, the text once, specials. */
static hsc_status load_template(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *single = json_object_get(json, "single"), *known = json_object_get(json, "special_tokens");
    hsc_token ids[2][MOST_TEMPLATE];
    size_t n[2] = {0, 0}, n_texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i), *special = json_object_get(piece, "SpecialToken");
        if (special) HSC_TRY(add_special(known, special, path, ids[n_texts > 0], &n[n_texts > 0], err));
        else if (json_object_get(piece, "Sequence")) n_texts++;
    }
    HSC_FAIL_IF(n_texts != 1, HSC_EUNSUPPORTED,
                "%s: post_processor: \"single\" must hold the text once, it does %zu times", path, n_texts);
    return hsc__set_template(t, ids[0], n[0], ids[1], n[1], err);
}

/* BertProcessing and RobertaProcessing: "cls" before, "sep" after, each ["text", id]. */
static hsc_status load_cls_sep(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const char *const fields[2] = {"cls", "sep"};
    hsc_token ids[2];
    for (int i = 0; i < 2; i++) {
        const json_t *id = json_array_get(json_object_get(json, fields[i]), 1);
        bool fits = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT32_MAX;
        HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: post_processor: \"%s\" must be a token and its id", path, fields[i]);
        ids[i] = (hsc_token)json_integer_value(id);
    }
    return hsc__set_template(t, &ids[0], 1, &ids[1], 1, err);
}

hsc_status hsc__load_post_processor(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = steps_of(json, "processors");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        HSC_FAIL_IF(t->template.before, HSC_EUNSUPPORTED, "%s: post_processor: more than one template", path);
        HSC_TRY(hsc__load_post_processor(t, json_array_get(steps, i), path, err));
    }
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    if (type && strcmp(type, "ByteLevel") == 0) return HSC_OK; /* it moves offsets only */
    if (type && strcmp(type, "TemplateProcessing") == 0) return load_template(t, json, path, err);
    if (type && (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0))
        return load_cls_sep(t, json, path, err);
    return unknown(path, "post_processor", json, err);
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
