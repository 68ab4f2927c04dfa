/* The texts of an intervention: one, the lines of a file, or the prompts of a pair file. */
#include "cli/intervene.h"

#include <string.h>

void hsc__items_free(hsc__items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        hsc__free(items->list[i].ids);
        hsc__free(items->list[i].cluster);
    }
    hsc__free(items->list);
    *items = (hsc__items){0};
}

static hsc_status add(hsc__items *items, const hsc_token *ids, size_t n, hsc_error *err)
{
    HSC_FAIL_IF(n == 0, HSC_EINVAL, "a text has no tokens");
    HSC_TRY(hsc__grow(&items->list, &items->capacity, items->n + 1, sizeof *items->list, err));
    hsc_token *copy = hsc__malloc(n * sizeof *copy);
    if (!copy) return hsc__fail_memory(err, n * sizeof *copy, "tokens");
    memcpy(copy, ids, n * sizeof *copy);
    items->list[items->n++] = (hsc__item){.ids = copy, .n_tokens = (int)n};
    return HSC_OK;
}

hsc_status hsc__items_add_ids(hsc__items *items, const hsc__ids *ids, hsc_error *err)
{
    return add(items, ids->ids, ids->n, err);
}

hsc_status hsc__items_add_text(hsc__items *items, const hsc__opened *opened, const char *text, size_t n, unsigned flags,
                               hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding encoding = {0};
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    hsc_status status = hsc_encode(tokenizer, text, n, flags, &encoding, err);
    if (status == HSC_OK) status = add(items, encoding.ids, encoding.n, err);
    hsc_encoding_free(&encoding);
    return status;
}

/* Calls add_line for every line that is not empty; a failure names the line. */
typedef hsc_status (*line_fn)(hsc__items *items, const hsc__opened *opened, const char *line, size_t n, unsigned flags,
                              hsc_error *err);

static hsc_status add_file(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags, int limit,
                           line_fn add_line, hsc_error *err)
{
    hsc__string text = {0};
    hsc_status status = hsc__cli_read(path, &text, err);
    size_t before = items->n;
    for (size_t start = 0, line = 1; status == HSC_OK && start < text.n; line++) {
        if (limit && items->n - before >= (size_t)limit) break;
        const char *end = memchr(text.data + start, '\n', text.n - start);
        size_t n = end ? (size_t)(end - text.data) - start : text.n - start, kept = n;
        if (kept && text.data[start + kept - 1] == '\r') kept--;
        if (kept) status = add_line(items, opened, text.data + start, kept, flags, err);
        if (status != HSC_OK) status = hsc__fail_prefix(err, status, "%s: line %zu", path, line);
        start += n + 1;
    }
    if (status == HSC_OK && items->n == before) status = hsc__fail(err, HSC_EINVAL, 0, "%s: holds no text", path);
    hsc__string_free(&text);
    return status;
}

hsc_status hsc__items_add_lines(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err)
{
    return add_file(items, opened, path, flags, limit, hsc__items_add_text, err);
}

/* The token that comes after the item's prompt when the prompt goes on with a blank and the word. */
static hsc_status first_token(const hsc__opened *opened, const hsc__item *item, const char *prompt, const char *word,
                              unsigned flags, hsc_token *out, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding whole = {0};
    hsc__string text = {0};
    size_t n = (size_t)item->n_tokens;
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    hsc__string_printf(&text, *word == ' ' ? "%s%s" : "%s %s", prompt, word);
    hsc_status status = text.failed ? hsc__fail_memory(err, strlen(prompt), "an answer")
                                    : hsc_encode(tokenizer, text.data, text.n, flags, &whole, err);
    if (status == HSC_OK && (whole.n <= n || memcmp(whole.ids, item->ids, n * sizeof *item->ids) != 0))
        status = hsc__fail(err, HSC_EINVAL, 0, "'%s' after the prompt changes the tokens of the prompt itself", word);
    if (status == HSC_OK) *out = whole.ids[n];
    hsc_encoding_free(&whole);
    hsc__string_free(&text);
    return status;
}

static const char *text_of(const json_t *object, const char *name, const char *other)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : json_string_value(json_object_get(object, other));
}

/* The cluster of a line: its "cluster", else its "id" up to the last '-', which twins share. */
static hsc_status set_cluster(hsc__item *item, const json_t *object, hsc_error *err)
{
    const char *name = json_string_value(json_object_get(object, "cluster"));
    const char *id = name ? name : json_string_value(json_object_get(object, "id"));
    if (!id) return HSC_OK;
    const char *dash = name ? NULL : strrchr(id, '-');
    size_t n = dash ? (size_t)(dash - id) : strlen(id);
    item->cluster = hsc__strndup(id, n);
    return item->cluster ? HSC_OK : hsc__fail_memory(err, n + 1, "a cluster");
}

static hsc_status add_object(hsc__items *items, const hsc__opened *opened, const json_t *object, unsigned flags,
                             hsc_error *err)
{
    const char *prompt = json_string_value(json_object_get(object, "prompt"));
    const char *right = text_of(object, "right", "io"), *wrong = text_of(object, "wrong", "s");
    HSC_FAIL_IF(!prompt || !right || !wrong, HSC_EFORMAT,
                "a line of a pair file is {\"prompt\", \"right\", \"wrong\"} or {\"prompt\", \"io\", \"s\"}");
    HSC_TRY(hsc__items_add_text(items, opened, prompt, strlen(prompt), flags, err));
    hsc__item *item = &items->list[items->n - 1];
    HSC_TRY(first_token(opened, item, prompt, right, flags, &item->a, err));
    HSC_TRY(first_token(opened, item, prompt, wrong, flags, &item->b, err));
    HSC_FAIL_IF(item->a == item->b, HSC_EINVAL, "'%s' and '%s' begin with the same token", right, wrong);
    return set_cluster(item, object, err);
}

static hsc_status add_pair(hsc__items *items, const hsc__opened *opened, const char *line, size_t n, unsigned flags,
                           hsc_error *err)
{
    json_error_t where;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES, &where);
    if (!object) return hsc__fail(err, HSC_EFORMAT, 0, "column %d: %s", where.column, where.text);
    hsc_status status = add_object(items, opened, object, flags, err);
    json_decref(object);
    return status;
}

hsc_status hsc__items_add_pairs(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err)
{
    return add_file(items, opened, path, flags, limit, add_pair, err);
}

/* --------------------------------------------------------------------------------------------------- clusters ---- */

int hsc__items_clusters(const hsc__items *items, int *numbers)
{
    int n = 0;
    for (size_t i = 0; i < items->n; i++) {
        const char *name = items->list[i].cluster;
        numbers[i] = -1;
        for (size_t k = 0; name && k < i && numbers[i] < 0; k++) {
            if (items->list[k].cluster && strcmp(items->list[k].cluster, name) == 0) numbers[i] = numbers[k];
        }
        if (numbers[i] < 0) numbers[i] = n++;
    }
    return n;
}

void hsc__cluster_means(const double *values, size_t n_items, size_t n_columns, const int *numbers, int n_clusters,
                        double *table)
{
    memset(table, 0, (size_t)n_clusters * n_columns * sizeof *table);
    for (int c = 0; c < n_clusters; c++) {
        double *row = table + (size_t)c * n_columns;
        int members = 0;
        for (size_t i = 0; i < n_items; i++) {
            if (numbers[i] != c) continue;
            members++;
            for (size_t k = 0; k < n_columns; k++) row[k] += values[i * n_columns + k];
        }
        for (size_t k = 0; k < n_columns; k++) row[k] /= members;
    }
}
