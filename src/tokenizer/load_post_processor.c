/* The post-processor of a tokenizer.json: the templates of one text and of two. */
#include "tokenizer/load.h"

#include <string.h>

enum { MOST_TEMPLATE = 64 };

typedef struct parts {
    hsc__template_part part[MOST_TEMPLATE];
    size_t n;
} parts;

static hsc_status add_part(parts *p, hsc_token id, int32_t segment, const char *path, hsc_error *err)
{
    HSC_FAIL_IF(p->n == MOST_TEMPLATE, HSC_EUNSUPPORTED, "%s: post_processor: a template of more than %d parts", path,
                (int)MOST_TEMPLATE);
    p->part[p->n++] = (hsc__template_part){id, segment};
    return HSC_OK;
}

/* Appends the ids of a special token of the template. */
static hsc_status add_special(const json_t *known, const json_t *piece, int32_t segment, const char *path, parts *p,
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
        HSC_TRY(add_part(p, (hsc_token)json_integer_value(id), segment, path, err));
    }
    return HSC_OK;
}

/* "single" or "pair" of a TemplateProcessing: special tokens, and each of the n_texts texts once. */
static hsc_status read_template(const json_t *json, const char *field, size_t n_texts, const char *path, parts *p,
                                hsc_error *err)
{
    const json_t *pieces = json_object_get(json, field), *known = json_object_get(json, "special_tokens");
    size_t found[2] = {0, 0};
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i), *special = json_object_get(piece, "SpecialToken"),
                     *text = json_object_get(piece, "Sequence");
        int64_t segment;
        HSC_TRY(hsc__json_int(special ? special : text, "type_id", 0, 0, INT32_MAX, &segment, path, err));
        if (special) {
            HSC_TRY(add_special(known, special, (int32_t)segment, path, p, err));
        } else if (text) {
            const char *name = json_string_value(json_object_get(text, "id"));
            bool second = name && strcmp(name, "B") == 0;
            found[second]++;
            HSC_TRY(add_part(p, second ? HSC__SECOND_TEXT : HSC__FIRST_TEXT, (int32_t)segment, path, err));
        }
    }
    HSC_FAIL_IF(found[0] != 1 || found[1] != n_texts - 1, HSC_EUNSUPPORTED,
                "%s: post_processor: \"%s\" must hold %s once, it holds the first text %zu times and the second %zu "
                "times",
                path, field, n_texts == 1 ? "the text" : "each text", found[0], found[1]);
    return HSC_OK;
}

static hsc_status load_template(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    parts single = {.n = 0}, pair = {.n = 0};
    HSC_TRY(read_template(json, "single", 1, path, &single, err));
    if (json_object_get(json, "pair")) {
        HSC_TRY(read_template(json, "pair", 2, path, &pair, err));
    } else {
        HSC_TRY(add_part(&pair, HSC__FIRST_TEXT, 0, path, err));
        HSC_TRY(add_part(&pair, HSC__SECOND_TEXT, 1, path, err));
    }
    HSC_TRY(hsc__copy_template(t, &t->single, single.part, single.n, err));
    return hsc__copy_template(t, &t->pair, pair.part, pair.n, err);
}

static hsc_status set_cls_sep(hsc_tokenizer *t, hsc_token cls, hsc_token sep, bool roberta, hsc_error *err)
{
    int32_t second = !roberta;
    const hsc__template_part full[] = {{cls, 0}, {HSC__FIRST_TEXT, 0},       {sep, 0},
                                       {sep, 0}, {HSC__SECOND_TEXT, second}, {sep, second}};
    const hsc__template_part bert[] = {full[0], full[1], full[2], full[4], full[5]};
    HSC_TRY(hsc__copy_template(t, &t->single, full, 3, err));
    return roberta ? hsc__copy_template(t, &t->pair, full, 6, err) : hsc__copy_template(t, &t->pair, bert, 5, err);
}

hsc_status hsc__set_bert_template(hsc_tokenizer *t, hsc_token cls, hsc_token sep, hsc_error *err)
{
    return set_cls_sep(t, cls, sep, false, err);
}

hsc_status hsc__set_roberta_template(hsc_tokenizer *t, hsc_token cls, hsc_token sep, hsc_error *err)
{
    return set_cls_sep(t, cls, sep, true, err);
}

/* BertProcessing, and RobertaProcessing that has SEP twice between the two texts and no segments. The tokens are given
 * as "cls" and "sep", each ["text", id]. */
static hsc_status load_cls_sep(hsc_tokenizer *t, const json_t *json, bool roberta, const char *path, hsc_error *err)
{
    const char *const fields[2] = {"cls", "sep"};
    hsc_token ids[2];
    for (int i = 0; i < 2; i++) {
        const json_t *id = json_array_get(json_object_get(json, fields[i]), 1);
        bool fits = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT32_MAX;
        HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: post_processor: \"%s\" must be a token and its id", path, fields[i]);
        ids[i] = (hsc_token)json_integer_value(id);
    }
    return set_cls_sep(t, ids[0], ids[1], roberta, err);
}

hsc_status hsc__load_post_processor(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    if (!json || json_is_null(json)) return HSC_OK;
    const json_t *steps = hsc__load_steps(json, "processors");
    for (size_t i = 0; i < json_array_size(steps); i++)
        HSC_TRY(hsc__load_post_processor(t, json_array_get(steps, i), path, err));
    if (steps) return HSC_OK;
    const char *type = hsc__type_of(json);
    if (!type) return hsc__load_unknown(path, "post_processor", json, err);
    if (strcmp(type, "ByteLevel") == 0) return HSC_OK; /* it moves offsets only */
    HSC_FAIL_IF(t->single.n, HSC_EUNSUPPORTED, "%s: post_processor: more than one template", path);
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(t, json, path, err);
    bool roberta = strcmp(type, "RobertaProcessing") == 0;
    if (roberta || strcmp(type, "BertProcessing") == 0) return load_cls_sep(t, json, roberta, path, err);
    return hsc__load_unknown(path, "post_processor", json, err);
}
