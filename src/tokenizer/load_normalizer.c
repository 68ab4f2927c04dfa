/* The normalizer of a tokenizer.json. */
#include "tokenizer/load.h"

#include <string.h>

static hsc_status load_replace(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    hsc__normalize_op op = {.kind = HSC__REPLACE};
    HSC_FAIL_IF(!json_is_string(json_object_get(pattern, "String")), HSC_EUNSUPPORTED,
                "%s: normalizer \"Replace\" with a pattern that is not a string is not supported", path);
    HSC_TRY(hsc__load_text(t, pattern, "String", path, &op.text, err));
    HSC_TRY(hsc__load_text(t, json, "content", path, &op.with, err));
    HSC_FAIL_IF(op.text.n == 0, HSC_EUNSUPPORTED, "%s: normalizer \"Replace\" of nothing is not supported", path);
    return hsc__normalizer_add(&t->normalizer, op, err);
}

hsc_status hsc__add_bert_normalizer(hsc__normalizer *normalizer, bool clean, bool ideographs, bool accents_go,
                                    bool lowercase, hsc_error *err)
{
    const struct {
        bool wanted;
        hsc__normalize_kind kind;
    } steps[] = {{clean, HSC__CLEAN},
                 {ideographs, HSC__IDEOGRAPHS},
                 {accents_go, HSC__NFD},
                 {accents_go, HSC__NO_NONSPACING},
                 {lowercase, HSC__LOWERCASE}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted) HSC_TRY(hsc__normalizer_add(normalizer, (hsc__normalize_op){.kind = steps[i].kind}, err));
    return HSC_OK;
}

/* strip_accents null follows lowercase. */
static hsc_status load_bert(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    bool clean, ideographs, accents_go, lowercase;
    HSC_TRY(hsc__json_bool(json, "clean_text", true, &clean, path, err));
    HSC_TRY(hsc__json_bool(json, "handle_chinese_chars", true, &ideographs, path, err));
    HSC_TRY(hsc__json_bool(json, "lowercase", true, &lowercase, path, err));
    HSC_TRY(hsc__json_bool(json, "strip_accents", lowercase, &accents_go, path, err));
    return hsc__add_bert_normalizer(&t->normalizer, clean, ideographs, accents_go, lowercase, err);
}

static hsc_status load_strip(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    bool left, right;
    HSC_TRY(hsc__json_bool(json, "strip_left", true, &left, path, err));
    HSC_TRY(hsc__json_bool(json, "strip_right", true, &right, path, err));
    if (left) HSC_TRY(hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = HSC__STRIP_LEFT}, err));
    if (right) HSC_TRY(hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = HSC__STRIP_RIGHT}, err));
    return HSC_OK;
}

static hsc_status load_prepend(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    hsc__normalize_op op = {.kind = HSC__PREPEND};
    HSC_TRY(hsc__load_text(t, json, "prepend", path, &op.text, err));
    return hsc__normalizer_add(&t->normalizer, op, err);
}

hsc_status hsc__load_normalizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    static const struct {
        const char *name;
        hsc__normalize_kind kind;
    } plain[] = {{"NFC", HSC__NFC},
                 {"NFD", HSC__NFD},
                 {"NFKC", HSC__NFKC},
                 {"NFKD", HSC__NFKD},
                 {"Nmt", HSC__NMT},
                 {"Lowercase", HSC__LOWERCASE},
                 {"StripAccents", HSC__NO_MARKS}};
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = hsc__load_steps(json, "normalizers");
    for (size_t i = 0; i < json_array_size(steps); i++)
        HSC_TRY(hsc__load_normalizer(t, json_array_get(steps, i), path, err));
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    for (size_t i = 0; type && i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].name) == 0)
            return hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = plain[i].kind}, err);
    if (!type) return hsc__load_unknown(path, "normalizer", json, err);
    if (strcmp(type, "Replace") == 0) return load_replace(t, json, path, err);
    if (strcmp(type, "Prepend") == 0) return load_prepend(t, json, path, err);
    if (strcmp(type, "Strip") == 0) return load_strip(t, json, path, err);
    if (strcmp(type, "BertNormalizer") == 0) return load_bert(t, json, path, err);
    return hsc__load_unknown(path, "normalizer", json, err);
}
