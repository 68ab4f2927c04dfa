/* The normalizer of a tokenizer.json. */
#include "tokenizer/load.h"

#include <string.h>

/* The same text with another; or what a pattern matches, of which runs of blanks are done by hand. */
static hsc_status load_replace(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    hsc__normalize_op op = {.kind = HSC__REPLACE};
    HSC_FAIL_IF(!regex && !json_is_string(json_object_get(pattern, "String")), HSC_EFORMAT,
                "%s: normalizer \"Replace\": \"pattern\" must hold \"Regex\" or \"String\"", path);
    HSC_TRY(hsc__load_text(t, json, "content", path, &op.with, err));
    HSC_TRY(hsc__load_text(t, pattern, regex ? "Regex" : "String", path, &op.text, err));
    HSC_FAIL_IF(op.text.n == 0, HSC_EUNSUPPORTED, "%s: normalizer \"Replace\" of nothing is not supported", path);
    if (regex && strcmp(regex, " {2,}") == 0) {
        op.kind = HSC__SQUEEZE;
    } else if (regex) {
        op.kind = HSC__REPLACE_PATTERN;
        hsc_status status = hsc__pattern_compile(&op.pattern, op.text.data, op.text.n, err);
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s: normalizer \"Replace\"", path);
    }
    return hsc__normalizer_add(&t->normalizer, op, err);
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Base64 with its padding; data NULL when it is not that or memory is out (*damaged tells which). */
static hsc__bytes decode_base64(hsc_tokenizer *t, const char *text, size_t n, bool *damaged)
{
    *damaged = n % 4 != 0;
    char *out = *damaged ? NULL : hsc__arena_alloc(&t->arena, n / 4 * 3 + 1);
    size_t length = 0;
    for (size_t i = 0; out && i < n; i += 4) {
        size_t padding = i + 4 < n || text[i + 3] != '=' ? 0 : text[i + 2] == '=' ? 2 : 1;
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = k >= 4 - padding ? 0 : base64_digit(text[i + k]);
            *damaged |= digit < 0;
            bits = bits << 6 | (uint32_t)(digit & 63);
        }
        for (size_t k = 0; k < 3 - padding; k++) out[length++] = (char)(bits >> (16 - 8 * k));
    }
    return (hsc__bytes){*damaged ? NULL : out, length};
}

static hsc_status load_precompiled(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *text = json_object_get(json, "precompiled_charsmap");
    bool damaged;
    if (!text || json_is_null(text) || (json_is_string(text) && !json_string_length(text))) return HSC_OK;
    HSC_FAIL_IF(!json_is_string(text), HSC_EFORMAT, "%s: normalizer \"Precompiled\": its map must be a string", path);
    HSC_FAIL_IF(t->charsmap.units, HSC_EUNSUPPORTED, "%s: more than one normalizer \"Precompiled\"", path);
    hsc__bytes map = decode_base64(t, json_string_value(text), json_string_length(text), &damaged);
    HSC_FAIL_IF(damaged, HSC_EFORMAT, "%s: normalizer \"Precompiled\": its map is not base64", path);
    if (!map.data) return hsc__fail_memory(err, json_string_length(text), path);
    hsc_status status = hsc__charsmap_open(&t->charsmap, map, err);
    if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s", path);
    return hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = HSC__CHARSMAP, .charsmap = &t->charsmap},
                               err);
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
                 {"ByteLevel", HSC__SPELL_BYTES},
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
    if (strcmp(type, "Precompiled") == 0) return load_precompiled(t, json, path, err);
    if (strcmp(type, "BertNormalizer") == 0) return load_bert(t, json, path, err);
    return hsc__load_unknown(path, "normalizer", json, err);
}
