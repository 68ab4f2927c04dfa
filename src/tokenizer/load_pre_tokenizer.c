/* The pre-tokenizer of a tokenizer.json. */
#include "tokenizer/load.h"

#include <stdio.h>
#include <string.h>

/* The stage that the next step belongs to: a new one when the step changes the text of pieces that were cut before. */
static hsc_status stage_for(hsc_tokenizer *t, bool changes, const char *path, hsc__stage **out, hsc_error *err)
{
    if (changes && t->stage[t->n_stages - 1].splitter.n_steps) {
        HSC_FAIL_IF(t->n_stages == HSC__MAX_STAGES, HSC_EUNSUPPORTED,
                    "%s: a pre_tokenizer that changes text after cutting it more than %d times is not supported", path,
                    HSC__MAX_STAGES - 1);
        t->n_stages++;
    }
    *out = &t->stage[t->n_stages - 1];
    return HSC_OK;
}

static hsc_status add_change(hsc_tokenizer *t, hsc__normalize_op op, const char *path, hsc_error *err)
{
    hsc__stage *stage = NULL;
    HSC_TRY(stage_for(t, true, path, &stage, err));
    return hsc__normalizer_add(&stage->change, op, err);
}

static hsc__splitter *splitter_of(hsc_tokenizer *t)
{
    return &t->stage[t->n_stages - 1].splitter;
}

static hsc_status load_byte_level(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    bool prefix, use_regex;
    HSC_TRY(hsc__json_bool(json, "add_prefix_space", true, &prefix, path, err));
    HSC_TRY(hsc__json_bool(json, "use_regex", true, &use_regex, path, err));
    if (prefix) {
        hsc__normalize_op op = {.kind = HSC__PREPEND_MISSING, .text = {" ", 1}};
        HSC_TRY(add_change(t, op, path, err));
    }
    HSC_FAIL_IF(t->kind != HSC__BPE, HSC_EUNSUPPORTED,
                "%s: pre_tokenizer \"ByteLevel\" with a model that is not BPE is not supported", path);
    t->bpe.byte_level = true;
    if (!use_regex) return HSC_OK;
    return hsc__splitter_add(splitter_of(t), (hsc__split_step){.kind = HSC__SPLIT_SCAN, .scan = hsc__scan_gpt2}, err);
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
void hsc__quote_pattern(hsc__string *out, hsc__bytes text)
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
    hsc__quote_pattern(&pattern, text);
    hsc_status status = pattern.failed
                            ? hsc__fail_memory(err, text.n * 2, "a pattern")
                            : hsc__splitter_add_pattern(splitter_of(t), pattern.data, pattern.n, behavior, invert, err);
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
    HSC_TRY(hsc__load_text(t, pattern, is_regex ? "Regex" : "String", path, &text, err));
    hsc_status status = is_regex ? hsc__splitter_add_pattern(splitter_of(t), text.data, text.n, behavior, invert, err)
                                 : add_literal(t, text, behavior, invert, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s: pre_tokenizer \"Split\"", path);
}

static hsc_status load_metaspace(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    hsc__bytes mark;
    bool split;
    const char *scheme;
    HSC_TRY(hsc__load_text(t, json, "replacement", path, &mark, err));
    HSC_TRY(hsc__json_bool(json, "split", true, &split, path, err));
    HSC_TRY(hsc__json_string(json, "prepend_scheme", "always", &scheme, path, err));
    bool always = strcmp(scheme, "always") == 0, first = strcmp(scheme, "first") == 0;
    HSC_FAIL_IF(!always && !first && strcmp(scheme, "never") != 0, HSC_EUNSUPPORTED,
                "%s: pre_tokenizer \"Metaspace\": prepend_scheme \"%s\" is not supported", path, scheme);
    hsc__normalize_op blank = {.kind = HSC__REPLACE, .text = {" ", 1}, .with = mark};
    HSC_TRY(add_change(t, blank, path, err));
    if (always || first) {
        hsc__normalize_op front = {.kind = always ? HSC__PREPEND_MISSING : HSC__PREPEND_FIRST, .text = mark};
        HSC_TRY(add_change(t, front, path, err));
    }
    return split ? add_literal(t, mark, HSC__MERGED_WITH_NEXT, false, err) : HSC_OK;
}

static hsc_status load_delimiter(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    hsc__bytes delimiter;
    HSC_TRY(hsc__load_text(t, json, "delimiter", path, &delimiter, err));
    return add_literal(t, delimiter, HSC__REMOVED, false, err);
}

/* Pieces of so many characters, the last one perhaps of fewer. */
static hsc_status load_fixed_length(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    int64_t length;
    char pattern[40];
    HSC_TRY(hsc__json_int(json, "length", 5, 1, 65535, &length, path, err));
    int n = snprintf(pattern, sizeof pattern, "[\\s\\S]{1,%d}", (int)length);
    hsc_status status = hsc__splitter_add_pattern(splitter_of(t), pattern, (size_t)n, HSC__ISOLATED, false, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s: pre_tokenizer \"FixedLength\"", path);
}

hsc_status hsc__add_bert_splitter(hsc__splitter *splitter, hsc_error *err)
{
    HSC_TRY(hsc__splitter_add(splitter, (hsc__split_step){.kind = HSC__SPLIT_SPACES, .behavior = HSC__REMOVED}, err));
    return hsc__splitter_add(splitter, (hsc__split_step){.kind = HSC__SPLIT_PUNCTUATION}, err);
}

/* Those that are made of steps which match single characters. */
static hsc_status load_simple(hsc_tokenizer *t, const char *type, const json_t *json, const char *path, hsc_error *err)
{
    hsc__splitter *splitter = splitter_of(t);
    hsc__split_step step = {.behavior = HSC__ISOLATED}, spaces = {.kind = HSC__SPLIT_SPACES, .behavior = HSC__REMOVED};
    if (strcmp(type, "BertPreTokenizer") == 0) return hsc__add_bert_splitter(splitter, err);
    if (strcmp(type, "WhitespaceSplit") == 0) return hsc__splitter_add(splitter, spaces, err);
    if (strcmp(type, "Whitespace") == 0) { /* \w+|[^\w\s]+ */
        HSC_TRY(hsc__splitter_add(splitter, spaces, err));
        step.kind = HSC__SPLIT_NO_WORD;
        step.behavior = HSC__CONTIGUOUS;
    } else if (strcmp(type, "Digits") == 0) {
        bool individual;
        HSC_TRY(hsc__json_bool(json, "individual_digits", false, &individual, path, err));
        step.kind = HSC__SPLIT_NUMBERS;
        if (!individual) step.behavior = HSC__CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        step.kind = HSC__SPLIT_PUNCTUATION;
        if (json_object_get(json, "behavior")) HSC_TRY(get_behavior(json, path, &step.behavior, err));
    } else {
        return hsc__load_unknown(path, "pre_tokenizer", json, err);
    }
    return hsc__splitter_add(splitter, step, err);
}

hsc_status hsc__load_pre_tokenizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = hsc__load_steps(json, "pretokenizers");
    for (size_t i = 0; i < json_array_size(steps); i++)
        HSC_TRY(hsc__load_pre_tokenizer(t, json_array_get(steps, i), path, err));
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    if (!type) return hsc__load_unknown(path, "pre_tokenizer", json, err);
    /* Behind ByteLevel a step would see the spelling and no longer the text. */
    HSC_FAIL_IF(t->bpe.byte_level, HSC_EUNSUPPORTED, "%s: pre_tokenizer \"%s\" after \"ByteLevel\" is not supported",
                path, type);
    if (strcmp(type, "ByteLevel") == 0) return load_byte_level(t, json, path, err);
    if (strcmp(type, "Split") == 0) return load_split(t, json, path, err);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(t, json, path, err);
    if (strcmp(type, "CharDelimiterSplit") == 0) return load_delimiter(t, json, path, err);
    if (strcmp(type, "FixedLength") == 0) return load_fixed_length(t, json, path, err);
    return load_simple(t, type, json, path, err);
}
