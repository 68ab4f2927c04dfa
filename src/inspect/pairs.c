/* The list of sentence pairs: which reader a file wants, lines left out, order by id, and where two texts differ. */
#include "inspect/pairs.h"

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *hsc__pairs_text(hsc_pairs *pairs, const char *text, size_t n)
{
    return hsc__arena_strndup(&pairs->arena, text, n);
}

hsc_status hsc__pairs_skip(hsc_pairs *pairs, int line, hsc_error *err, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    int n = hsc__format(why, sizeof why, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof why ? (size_t)n : hsc__utf8_prefix(why, sizeof why - 1);
    HSC_TRY(hsc__grow(&pairs->skipped, &pairs->skipped_capacity, pairs->n_skipped + 1, sizeof *pairs->skipped, err));
    char *copy = hsc__pairs_text(pairs, why, length);
    if (!copy) return hsc__fail_memory(err, length + 1, "the lines left out");
    pairs->skipped[pairs->n_skipped++] = (hsc_skipped){line, copy};
    return HSC_OK;
}

hsc_status hsc__pairs_add(hsc_pairs *pairs, const hsc_pair *pair, hsc_error *err)
{
    HSC_TRY(hsc__grow(&pairs->pairs, &pairs->capacity, pairs->n + 1, sizeof *pairs->pairs, err));
    pairs->pairs[pairs->n++] = *pair;
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

static int by_id(const void *a, const void *b)
{
    return strcmp(((const hsc_pair *)a)->id, ((const hsc_pair *)b)->id);
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

/* JSONL: the first line that is neither empty nor a comment begins an object with a name. */
static bool is_jsonl(const char *bytes, size_t n)
{
    const char *line;
    size_t at = 0, n_line;
    while (hsc__next_line(bytes, n, &at, &line, &n_line)) {
        if (n_line == 0 || line[0] == '#') continue;
        size_t name = 1;
        while (is_blank(line[n_line - 1]) && n_line > 1) n_line--;
        while (name < n_line && is_blank(line[name])) name++;
        return line[0] == '{' && name < n_line && line[name] == '"' && line[n_line - 1] == '}';
    }
    return false;
}

static hsc_status read_pairs(hsc_pairs *pairs, const char *bytes, size_t n, const char *cluster_field, hsc_error *err)
{
    bool jsonl = is_jsonl(bytes, n);
    HSC_FAIL_IF(cluster_field && !jsonl, HSC_EFORMAT,
                "%s: marked text has no fields, so there is none called '%s' to make clusters by", pairs->name,
                cluster_field);
    HSC_TRY(jsonl ? hsc__pairs_jsonl(pairs, bytes, n, cluster_field, err) : hsc__pairs_marked(pairs, bytes, n, err));
    if (pairs->n) qsort(pairs->pairs, pairs->n, sizeof *pairs->pairs, by_id);
    if (pairs->n_skipped) qsort(pairs->skipped, pairs->n_skipped, sizeof *pairs->skipped, by_line);
    for (size_t i = 1; i < pairs->n; i++)
        HSC_FAIL_IF(strcmp(pairs->pairs[i - 1].id, pairs->pairs[i].id) == 0, HSC_EFORMAT,
                    "%s:%d: the id '%s' is that of line %d too", pairs->name, pairs->pairs[i].wording[0].line,
                    pairs->pairs[i].id, pairs->pairs[i - 1].wording[0].line);
    HSC_FAIL_IF(!pairs->n && pairs->n_skipped, HSC_EFORMAT, "%s: no line can be used; line %d: %s", pairs->name,
                pairs->skipped[0].line, pairs->skipped[0].why);
    HSC_FAIL_IF(!pairs->n, HSC_EFORMAT, "%s: holds no sentence pairs", pairs->name);
    return HSC_OK;
}

hsc_status hsc_pairs_parse(hsc_pairs **out, const char *name, const char *bytes, size_t n, const char *cluster_field,
                           hsc_error *err)
{
    *out = NULL;
    hsc_pairs *pairs = hsc__calloc(1, sizeof *pairs);
    if (!pairs) return hsc__fail_memory(err, sizeof *pairs, "sentence pairs");
    pairs->name = hsc__pairs_text(pairs, name, strlen(name));
    hsc_status status = pairs->name ? read_pairs(pairs, bytes, n, cluster_field, err)
                                    : hsc__fail_memory(err, strlen(name) + 1, "sentence pairs");
    if (status == HSC_OK) *out = pairs;
    else hsc_pairs_free(pairs);
    return status;
}

void hsc_pairs_free(hsc_pairs *pairs)
{
    if (!pairs) return;
    hsc__free(pairs->pairs);
    hsc__free(pairs->skipped);
    hsc__arena_free(&pairs->arena);
    hsc__free(pairs);
}

int hsc_pairs_count(const hsc_pairs *pairs)
{
    return (int)pairs->n;
}

const hsc_pair *hsc_pairs_get(const hsc_pairs *pairs, int index)
{
    return index >= 0 && (size_t)index < pairs->n ? &pairs->pairs[index] : NULL;
}

const hsc_skipped *hsc_pairs_skipped(const hsc_pairs *pairs, int index)
{
    return index >= 0 && (size_t)index < pairs->n_skipped ? &pairs->skipped[index] : NULL;
}
