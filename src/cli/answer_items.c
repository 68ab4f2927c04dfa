/* The texts that an answer is asked of: one, or the lines of a file; and their clusters. */
#include "cli/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hsc__items_free(hsc__items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        hsc__free(items->list[i].ids);
        hsc__free(items->list[i].source);
        hsc__free(items->list[i].cluster);
    }
    for (size_t i = 0; i < items->n_left_out; i++) hsc__free(items->left_out[i].why);
    hsc__free(items->left_out);
    hsc__free(items->list);
    *items = (hsc__items){0};
}

void hsc__items_drop_last(hsc__items *items)
{
    hsc__item *item = &items->list[--items->n];
    hsc__free(item->ids);
    hsc__free(item->source);
    hsc__free(item->cluster);
}

static hsc_status add(hsc__items *items, const hsc_token *ids, size_t n, hsc_error *err)
{
    HSC_FAIL_IF(n == 0, HSC_EINVAL, "a text has no tokens");
    HSC_TRY(hsc__grow(&items->list, &items->capacity, items->n + 1, sizeof *items->list, err));
    hsc_token *copy = hsc__malloc(n * sizeof *copy);
    if (!copy) return hsc__fail_memory(err, n * sizeof *copy, "tokens");
    memcpy(copy, ids, n * sizeof *copy);
    items->list[items->n++] = (hsc__item){.ids = copy, .n_tokens = (int)n, .twin = -1, .word = -1};
    return HSC_OK;
}

hsc_status hsc__items_add_ids(hsc__items *items, const hsc__ids *ids, hsc_error *err)
{
    return add(items, ids->ids, ids->n, err);
}

hsc_status hsc__items_add_target(hsc__items *items, const hsc_token *source, size_t n_source, const hsc__ids *target,
                                 hsc_error *err)
{
    HSC_FAIL_IF(n_source == 0, HSC_EINVAL, "a source has no tokens");
    hsc_token *copy = hsc__malloc(n_source * sizeof *copy);
    if (!copy) return hsc__fail_memory(err, n_source * sizeof *copy, "tokens");
    memcpy(copy, source, n_source * sizeof *copy);
    hsc_status status = add(items, target->ids, target->n, err);
    if (status != HSC_OK) {
        hsc__free(copy);
        return status;
    }
    items->list[items->n - 1].source = copy;
    items->list[items->n - 1].n_source = (int)n_source;
    return HSC_OK;
}

static hsc_status find_target(const hsc__items *items, const hsc__opened *opened, const hsc__source_options *o,
                              const hsc__tokens *source, hsc__tokens *out, hsc_error *err)
{
    hsc__target_options how = *o->target;
    hsc__pass_options pass = {.compute = o->compute};
    hsc_target begins;
    how.with_end = items->with_end;
    if (how.text || how.ids.ids || items->with_end)
        return hsc__target_find(opened, &how, &pass, o->n_threads, source->encoding.ids, (int)source->encoding.n, out,
                                err);
    HSC_TRY(hsc_model_target(opened->model, &begins, err));
    hsc__ids start = {begins.start, (size_t)begins.n_start};
    return hsc__tokens_from_ids(out, hsc_model_target_tokenizer(opened->model, NULL), &start, err);
}

hsc_status hsc__items_add_source(hsc__items *items, const hsc__opened *opened, const hsc__source_options *o,
                                 hsc_error *err)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(opened->model, NULL);
    hsc__tokens source = {0}, target = {0};
    if (o->text) HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    hsc_status status = o->text ? hsc__tokens_encode(&source, tokenizer, o->text, strlen(o->text), o->flags, err)
                                : hsc__tokens_from_ids(&source, tokenizer, o->ids, err);
    if (status == HSC_OK) status = hsc__source_fits(opened, source.encoding.n, err);
    if (status == HSC_OK && source.encoding.n == 0) status = hsc__fail(err, HSC_EINVAL, 0, "the text has no tokens");
    if (status == HSC_OK) status = find_target(items, opened, o, &source, &target, err);
    hsc__ids ids = {target.encoding.ids, target.encoding.n};
    if (status == HSC_OK) status = hsc__items_add_target(items, source.encoding.ids, source.encoding.n, &ids, err);
    hsc__tokens_free(&source);
    hsc__tokens_free(&target);
    return status;
}

/* The tokens that begin a target. */
static hsc_status begin_target(const hsc__opened *opened, hsc__ids *out, hsc_error *err)
{
    hsc_target how;
    HSC_TRY(hsc_model_target(opened->model, &how, err));
    out->n = (size_t)how.n_start;
    out->ids = hsc__malloc(out->n * sizeof *out->ids);
    if (!out->ids) return hsc__fail_memory(err, out->n * sizeof *out->ids, "the target");
    memcpy(out->ids, how.start, out->n * sizeof *out->ids);
    return HSC_OK;
}

/* A source and a target with a tab between them; a source alone where targets do not count. */
static hsc_status add_line(hsc__items *items, const hsc__opened *opened, const hsc_tokenizer *tokenizer,
                           const char *text, size_t n, unsigned flags, hsc_error *err)
{
    const char *tab = memchr(text, '\t', n);
    hsc_encoding source = {0};
    hsc__ids target = {0};
    HSC_FAIL_IF(!tab && !items->of_source, HSC_EINVAL,
                "%s is an encoder-decoder: a source, a tab and a target are wanted", opened->name);
    size_t n_source = tab ? (size_t)(tab - text) : n;
    hsc_status status = hsc_encode(tokenizer, text, n_source, flags, &source, err);
    if (status == HSC_OK) status = hsc__source_fits(opened, source.n, err);
    if (status == HSC_OK && !tab) status = begin_target(opened, &target, err);
    else if (status == HSC_OK)
        status = hsc__target_encode(opened, tab + 1, n - n_source - 1, items->with_end, &target, NULL, err);
    if (status == HSC_OK) status = hsc__target_fits(opened, target.n, err);
    if (status == HSC_OK) status = hsc__items_add_target(items, source.ids, source.n, &target, err);
    hsc_encoding_free(&source);
    hsc__free(target.ids);
    return status;
}

hsc_status hsc__items_add_text(hsc__items *items, const hsc__opened *opened, const char *text, size_t n, unsigned flags,
                               hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding encoding = {0};
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    if (hsc_model_encoder(opened->model)) return add_line(items, opened, tokenizer, text, n, flags, err);
    hsc_status status = hsc_encode(tokenizer, text, n, flags, &encoding, err);
    if (status == HSC_OK && encoding.n > (size_t)opened->config->n_ctx)
        status = hsc__fail(err, HSC_EINVAL, 0, "the text has %zu token%s, the context of %s %d", encoding.n,
                           HSC__PLURAL(encoding.n), opened->name, opened->config->n_ctx);
    if (status == HSC_OK) status = add(items, encoding.ids, encoding.n, err);
    hsc_encoding_free(&encoding);
    return status;
}

hsc_status hsc__items_add_lines(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err)
{
    hsc__lines lines = {0};
    hsc_status status = hsc__lines_open(&lines, path, err);
    size_t before = items->n;
    while (status == HSC_OK && hsc__lines_next(&lines)) {
        if (limit && items->n - before >= (size_t)limit) break;
        if (!lines.n) continue;
        status = hsc__items_add_text(items, opened, lines.text, lines.n, flags, err);
        status = hsc__lines_did(&lines, status, err);
    }
    if (status == HSC_OK && items->n == before) status = hsc__fail(err, HSC_EINVAL, 0, "%s: holds no text", path);
    hsc__lines_close(&lines);
    return status;
}

void hsc__joined_free(hsc_texts *texts)
{
    hsc__free((void *)(uintptr_t)texts->ids);
    hsc__free((void *)(uintptr_t)texts->lengths);
    hsc__free((void *)(uintptr_t)texts->sources);
    hsc__free((void *)(uintptr_t)texts->source_lengths);
}

hsc_status hsc__items_join(const hsc__items *items, hsc_texts *out, hsc_error *err)
{
    size_t n = 0, n_source = 0;
    for (size_t i = 0; i < items->n; i++) n += (size_t)items->list[i].n_tokens;
    for (size_t i = 0; i < items->n; i++) n_source += (size_t)items->list[i].n_source;
    hsc_token *ids = hsc__malloc(n * sizeof *ids), *sources = n_source ? hsc__malloc(n_source * sizeof *ids) : NULL;
    int *lengths = hsc__malloc(items->n * sizeof *lengths), *source_lengths = hsc__malloc(items->n * sizeof *lengths);
    *out = (hsc_texts){
        .ids = ids, .lengths = lengths, .n_texts = (int)items->n, .sources = sources, .source_lengths = source_lengths};
    if (!ids || !lengths || !source_lengths || (n_source && !sources))
        return hsc__fail_memory(err, (n + n_source) * sizeof *ids, "texts");
    for (size_t i = 0, at = 0, at_source = 0; i < items->n; i++) {
        const hsc__item *item = &items->list[i];
        lengths[i] = item->n_tokens;
        source_lengths[i] = item->n_source;
        memcpy(ids + at, item->ids, (size_t)item->n_tokens * sizeof *ids);
        if (sources) memcpy(sources + at_source, item->source, (size_t)item->n_source * sizeof *ids);
        at += (size_t)item->n_tokens;
        at_source += (size_t)item->n_source;
    }
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------ twins ---- */

hsc_status hsc__word_at(const hsc__opened *opened, const char *text, size_t n, size_t start, unsigned flags, int *out,
                        hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding encoding = {0};
    *out = -1;
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    hsc_status status = hsc_encode(tokenizer, text, n, flags, &encoding, err);
    for (size_t i = 0; status == HSC_OK && *out < 0 && i < encoding.n; i++)
        if (encoding.spans[i].end > start) *out = (int)i;
    hsc_encoding_free(&encoding);
    return status;
}

/* Blanks and the marks beside a word are no part of it. */
static bool in_word(char c)
{
    return c && !strchr(" \t\n.,;:!?\"()[]{}", c);
}

hsc_status hsc__differing_word(const hsc__opened *opened, const char *x, const char *y, unsigned flags, int *out,
                               hsc_error *err)
{
    size_t at = 0;
    *out = -1;
    while (x[at] && x[at] == y[at]) at++;
    if (!at || !in_word(x[at - 1]) || !(in_word(x[at]) || in_word(y[at]))) return HSC_OK;
    while (at && in_word(x[at - 1])) at--;
    return hsc__word_at(opened, x, strlen(x), at, flags, out, err);
}

static hsc_status align(const hsc__items *items, hsc__item *x, bool of_source, bool *aligned, hsc_error *err)
{
    HSC_FAIL_IF(x->twin < 0, HSC_EINVAL, "it has no twin");
    const hsc__item *y = &items->list[x->twin];
    int word = x->word < 0 || y->word < 0 ? -1 : x->word > y->word ? x->word : y->word;
    *aligned = of_source ? x->n_source != y->n_source : x->n_tokens != y->n_tokens;
    hsc_status status = of_source ? hsc_align(x->source, x->n_source, y->source, y->n_source, -1, &x->seam, err)
                                  : hsc_align(x->ids, x->n_tokens, y->ids, y->n_tokens, word, &x->seam, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "its twin does not fit");
}

/* Whether the other wording of the same line is left out already. */
static bool twin_said(const hsc__items *items, size_t i)
{
    int twin = items->list[i].twin;
    return twin >= 0 && (size_t)twin < i && items->list[twin].unused && items->list[twin].line == items->list[i].line;
}

hsc_status hsc__items_leave_out(hsc__items *items, int line, const char *why, hsc_error *err)
{
    HSC_TRY(hsc__grow(&items->left_out, &items->left_capacity, items->n_left_out + 1, sizeof *items->left_out, err));
    hsc__left_out *left = &items->left_out[items->n_left_out];
    *left = (hsc__left_out){line, hsc__strndup(why, strlen(why))};
    if (!left->why) return hsc__fail_memory(err, strlen(why) + 1, "a line that was left out");
    items->n_left_out++;
    return HSC_OK;
}

hsc_status hsc__items_leave_unused(hsc__items *items, size_t i, const char *why, hsc_error *err)
{
    items->list[i].unused = true;
    items->n_unused++;
    return twin_said(items, i) ? HSC_OK : hsc__items_leave_out(items, items->list[i].line, why, err);
}

hsc_status hsc__items_align_twins(hsc__items *items, const char *path, bool of_source, hsc_error *err)
{
    for (size_t i = 0; i < items->n; i++) {
        hsc_error why = {0};
        bool aligned = false;
        if (align(items, &items->list[i], of_source, &aligned, &why) == HSC_OK) {
            items->n_aligned += aligned;
            continue;
        }
        HSC_TRY(hsc__items_leave_unused(items, i, why.message, err));
    }
    HSC_FAIL_IF(items->n_unused == items->n, HSC_EINVAL, "%s: no text has a twin to take from; line %d: %s", path,
                items->left_out[items->n_left_out - 1].line, items->left_out[items->n_left_out - 1].why);
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- clusters ---- */

typedef struct named {
    const char *name;
    size_t item;
} named;

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->item > y->item) - (x->item < y->item);
}

/* list: the used items that have a cluster's name. first[i] becomes the first item of i's cluster, i itself without. */
static void find_first(const hsc__items *items, named *list, size_t *first)
{
    size_t n = 0;
    for (size_t i = 0; i < items->n; i++) {
        first[i] = i;
        if (!items->list[i].unused && items->list[i].cluster) list[n++] = (named){items->list[i].cluster, i};
    }
    if (n) qsort(list, n, sizeof *list, by_name);
    for (size_t k = 1; k < n; k++)
        if (strcmp(list[k].name, list[k - 1].name) == 0) first[list[k].item] = first[list[k - 1].item];
}

/* numbers: [items->n]; members: items of each cluster. Returns how many clusters there are. */
static int number_clusters(const hsc__items *items, const size_t *first, int *numbers, int *members)
{
    int n = 0;
    for (size_t i = 0; i < items->n; i++) {
        if (items->list[i].unused) continue;
        numbers[i] = first[i] == i ? n++ : numbers[first[i]];
        members[numbers[i]]++;
    }
    return n;
}

/* Tests and intervals want numbers: the text that brings none is named. */
static hsc_status check_finite(const hsc__items *items, const double *values, size_t n_columns, hsc_error *err)
{
    for (size_t i = 0; i < items->n; i++)
        for (size_t k = 0; k < n_columns && !items->list[i].unused; k++)
            HSC_FAIL_IF(!isfinite(values[i * n_columns + k]), HSC_EINVAL,
                        "text %zu of %zu: what the model says of it is not finite (NaN): the file's weights are "
                        "damaged or overflow",
                        i + 1, items->n);
    return HSC_OK;
}

hsc_status hsc__items_cluster_means(const hsc__items *items, const double *values, size_t n_columns, double *means,
                                    int *n_clusters, hsc_error *err)
{
    size_t n = items->n;
    named *list = hsc__calloc(n, sizeof *list);
    size_t *first = hsc__calloc(n, sizeof *first);
    int *numbers = hsc__calloc(n, sizeof *numbers), *members = hsc__calloc(n, sizeof *members);
    hsc_status status =
        list && first && numbers && members ? HSC_OK : hsc__fail_memory(err, n * sizeof *list, "the clusters");
    if (status == HSC_OK) {
        find_first(items, list, first);
        *n_clusters = number_clusters(items, first, numbers, members);
        memset(means, 0, (size_t)*n_clusters * n_columns * sizeof *means);
        for (size_t i = 0; i < n; i++) {
            double *row = means + (size_t)numbers[i] * n_columns;
            for (size_t k = 0; k < n_columns && !items->list[i].unused; k++) row[k] += values[i * n_columns + k];
        }
        for (size_t i = 0; i < (size_t)*n_clusters * n_columns; i++) means[i] /= members[i / n_columns];
        if (*n_clusters > 1) status = check_finite(items, values, n_columns, err);
    }
    hsc__free(list);
    hsc__free(first);
    hsc__free(numbers);
    hsc__free(members);
    return status;
}
