/* The list of sentence pairs: which reader a file wants, lines left out, order by id, and where two texts differ. */
#include "inspect/pairs.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hsc_status hsc__pairs_skip(hsc_pairs *pairs, int line, hsc_error *err, const char *format, ...)
{
    char why[256];
    const char *copy;
    va_list args;
    va_start(args, format);
    int n = hsc__format(why, sizeof why, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof why ? (size_t)n : hsc__utf8_prefix(why, sizeof why - 1);
    HSC_TRY(hsc__grow(&pairs->skipped, &pairs->skipped_capacity, pairs->n_skipped + 1, sizeof *pairs->skipped, err));
    HSC_TRY(hsc__archive_text(&pairs->archive, why, length, &copy, err));
    pairs->skipped[pairs->n_skipped++] = (hsc_skipped){line, copy};
    return HSC_OK;
}

/* Replaces what a wording points at by copies. */
static hsc_status copy_wording(hsc_pairs *pairs, hsc_wording *w, hsc_error *err)
{
    const void *ids;
    if (w->text) return hsc__archive_text(&pairs->archive, w->text, w->n_text, &w->text, err);
    HSC_TRY(hsc__archive_put(&pairs->archive, w->ids, (size_t)w->n_ids * sizeof *w->ids, &ids, err));
    w->ids = ids;
    return HSC_OK;
}

hsc_status hsc__pairs_add(hsc_pairs *pairs, const hsc_pair *pair, hsc_error *err)
{
    hsc_pair copy = *pair;
    const void *added;
    HSC_TRY(hsc__grow(&pairs->pairs, &pairs->capacity, pairs->n + 1, sizeof *pairs->pairs, err));
    HSC_TRY(hsc__archive_text(&pairs->archive, pair->id, strlen(pair->id), &copy.id, err));
    copy.cluster = copy.id;
    if (strcmp(pair->cluster, pair->id) != 0)
        HSC_TRY(hsc__archive_text(&pairs->archive, pair->cluster, strlen(pair->cluster), &copy.cluster, err));
    for (int i = 0; i < 2; i++) HSC_TRY(copy_wording(pairs, &copy.wording[i], err));
    HSC_TRY(hsc__archive_put(&pairs->archive, &copy, sizeof copy, &added, err));
    if (pairs->n && strcmp(pairs->pairs[pairs->n - 1]->id, copy.id) > 0) pairs->unordered = true;
    hsc__pairs_forget(pairs, pairs->n);
    pairs->pairs[pairs->n++] = added;
    return HSC_OK;
}

/* ---------------------------------------------------------------------------------------------- where texts differ
 * ----
 */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Marks that stand before or after a word and are no part of it. */
static bool in_word(char c)
{
    return !blank(c) && !(c && strchr(".,;:!?\"()[]{}", c));
}

/* The bytes of text[n] between `before` equal ones in front and `after` behind, grown to whole words. */
static hsc_span whole_words(const char *text, size_t n, size_t before, size_t after)
{
    size_t start = before, end = n - after;
    while (start > 0 && in_word(text[start - 1])) start--;
    while (end < n && in_word(text[end]) && end > start && in_word(text[end - 1])) end++;
    while (start < end && blank(text[start])) start++;
    while (end > start && blank(text[end - 1])) end--;
    return (hsc_span){start, end};
}

void hsc__pairs_find_swap(hsc_wording wording[2])
{
    const char *x = wording[0].text, *y = wording[1].text;
    size_t n = wording[0].n_text, m = wording[1].n_text, shorter = n < m ? n : m, before = 0, after = 0;
    while (before < shorter && x[before] == y[before]) before++;
    while (after < shorter - before && x[n - 1 - after] == y[m - 1 - after]) after++;
    wording[0].swap = whole_words(x, n, before, after);
    wording[1].swap = whole_words(y, m, before, after);
}

/* ------------------------------------------------------------------------------------------------------ the list ----
 */

/* A pair and the beginning of its id, which mostly says where it belongs: few pairs are looked at while they are
 * sorted.
 */
typedef struct named {
    char beginning[8];
    const hsc_pair *pair;
} named;

static int by_id(const void *a, const void *b)
{
    const named *x = a, *y = b;
    int order = strncmp(x->beginning, y->beginning, sizeof x->beginning);
    return order ? order : strcmp(x->pair->id, y->pair->id);
}

static hsc_status sort_by_id(hsc_pairs *pairs, hsc_error *err)
{
    if (!pairs->unordered) return HSC_OK;
    named *list = hsc__calloc(pairs->n, sizeof *list);
    if (!list) return hsc__fail_memory(err, pairs->n * sizeof *list, "the order of the pairs");
    for (size_t i = 0; i < pairs->n; i++) {
        const char *id = pairs->pairs[i]->id;
        size_t length = strlen(id);
        memcpy(list[i].beginning, id, length < sizeof list[i].beginning ? length : sizeof list[i].beginning);
        list[i].pair = pairs->pairs[i];
        hsc__pairs_forget(pairs, i);
    }
    qsort(list, pairs->n, sizeof *list, by_id);
    for (size_t i = 0; i < pairs->n; i++) pairs->pairs[i] = list[i].pair;
    hsc__free(list);
    return HSC_OK;
}

static int by_line(const void *a, const void *b)
{
    const hsc_skipped *x = a, *y = b;
    return (x->line > y->line) - (x->line < y->line);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* JSONL: the first line begins an object with a name. */
static bool is_jsonl(const char *line, size_t n)
{
    size_t name = 1;
    if (!line) return false;
    while (is_blank(line[n - 1]) && n > 1) n--;
    while (name < n && is_blank(line[name])) name++;
    return line[0] == '{' && name < n && line[name] == '"' && line[n - 1] == '}';
}

static hsc_status read_pairs(hsc_pairs *pairs, hsc__list *lines, const char *cluster_field, hsc_error *err)
{
    HSC_TRY(hsc__list_next(lines, err));
    lines->again = true;
    bool jsonl = is_jsonl(lines->line, lines->n);
    HSC_FAIL_IF(cluster_field && !jsonl, HSC_EFORMAT,
                "%s: marked text has no fields, so there is none called '%s' to make clusters by", pairs->name,
                cluster_field);
    HSC_TRY(jsonl ? hsc__pairs_jsonl(pairs, lines, cluster_field, err) : hsc__pairs_marked(pairs, lines, err));
    HSC_TRY(sort_by_id(pairs, err));
    if (pairs->n_skipped) qsort(pairs->skipped, pairs->n_skipped, sizeof *pairs->skipped, by_line);
    HSC_FAIL_IF(!pairs->n && pairs->n_skipped, HSC_EFORMAT, "%s: no line can be used; line %d: %s", pairs->name,
                pairs->skipped[0].line, pairs->skipped[0].why);
    HSC_FAIL_IF(!pairs->n, HSC_EFORMAT, "%s: holds no sentence pairs", pairs->name);
    return HSC_OK;
}

hsc_status hsc_pairs_read(hsc_pairs **out, const char *name, const hsc_reader *reader, const char *cluster_field,
                          hsc_error *err)
{
    *out = NULL;
    hsc_pairs *pairs = hsc__calloc(1, sizeof *pairs);
    if (!pairs) return hsc__fail_memory(err, sizeof *pairs, "sentence pairs");
    hsc__list lines = {.reader = reader, .name = name};
    hsc_status status = hsc__archive_text(&pairs->archive, name, strlen(name), &pairs->name, err);
    if (status == HSC_OK) status = read_pairs(pairs, &lines, cluster_field, err);
    hsc__list_free(&lines);
    if (status == HSC_OK) *out = pairs;
    else hsc_pairs_free(pairs);
    return status;
}

/* What is left of bytes in memory. */
typedef struct rest {
    const char *bytes;
    size_t n;
} rest;

static hsc_status read_rest(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    (void)err;
    rest *r = user;
    *n_read = n < r->n ? n : r->n;
    if (*n_read) memcpy(out, r->bytes, *n_read);
    r->bytes += *n_read;
    r->n -= *n_read;
    return HSC_OK;
}

hsc_status hsc_pairs_parse(hsc_pairs **out, const char *name, const char *bytes, size_t n, const char *cluster_field,
                           hsc_error *err)
{
    rest all = {bytes, n};
    return hsc_pairs_read(out, name, &(hsc_reader){read_rest, &all}, cluster_field, err);
}

void hsc_pairs_free(hsc_pairs *pairs)
{
    if (!pairs) return;
    hsc__free(pairs->pairs);
    hsc__free(pairs->skipped);
    hsc__archive_free(&pairs->archive);
    hsc__free(pairs);
}

int hsc_pairs_count(const hsc_pairs *pairs)
{
    return (int)pairs->n;
}

const hsc_pair *hsc_pairs_get(const hsc_pairs *pairs, int index)
{
    return index >= 0 && (size_t)index < pairs->n ? pairs->pairs[index] : NULL;
}

const hsc_skipped *hsc_pairs_skipped(const hsc_pairs *pairs, int index)
{
    return index >= 0 && (size_t)index < pairs->n_skipped ? &pairs->skipped[index] : NULL;
}
