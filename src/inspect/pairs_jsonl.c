/*
 * Pairs from JSONL: lines of candidates (own_twins, winogender), of the IOI task, and of repeated random ids. A line's
 * fields are strict: what is missing or null leaves the line out, with the reason.
 */
#include "base/status.h"
#include "base/text.h"
#include "formats/json.h"
#include "inspect/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct record {
    json_t *object;
    const char *id, *twin; /* borrowed from object; twin may be NULL */
    int line, number;
} record;

typedef struct reader {
    hsc_pairs *pairs;
    const char *cluster_field;
    record *records; /* in the order of the file */
    size_t n, capacity;
    record **by_id;
} reader;

static int compare_ids(const void *a, const void *b)
{
    return strcmp((*(record *const *)a)->id, (*(record *const *)b)->id);
}

static record *find(const reader *r, const char *id)
{
    record key = {.id = id}, *pointer = &key;
    record **found = bsearch(&pointer, r->by_id, r->n, sizeof *r->by_id, compare_ids);
    return found ? *found : NULL;
}

/* ---------------------------------------------------------------------------------------------------- the fields ----
 */

/* Whether a character of text[n] may begin or end at byte `at`. */
static bool between_characters(const char *text, size_t n, size_t at)
{
    return at == n || ((unsigned char)text[at] & 0xC0) != 0x80;
}

/* [start, end) inside the text, whole characters; false when it is anything else. Spans that were counted in characters
 * and not in bytes cut one sooner or later. */
static bool read_span(const json_t *value, const hsc_wording *w, hsc_span *out)
{
    if (!json_is_array(value) || json_array_size(value) != 2) return false;
    const json_t *start = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (!json_is_integer(start) || !json_is_integer(end)) return false;
    json_int_t s = json_integer_value(start), e = json_integer_value(end);
    if (s < 0 || s >= e || (uint64_t)e > w->n_text) return false;
    if (w->text &&
        !(between_characters(w->text, w->n_text, (size_t)s) && between_characters(w->text, w->n_text, (size_t)e)))
        return false;
    *out = (hsc_span){(size_t)s, (size_t)e};
    return true;
}

static bool has_prefix(const char *text, size_t n, const char *prefix, size_t n_prefix)
{
    return n >= n_prefix && memcmp(text, prefix, n_prefix) == 0;
}

/* The field's text, copied; a reason when it is none. */
static const char *read_text(const reader *r, const record *rec, const char *field, hsc_wording *out)
{
    const json_t *value = json_object_get(rec->object, field);
    if (!json_is_string(value) || json_string_length(value) == 0) return "its text is missing";
    out->line = rec->line;
    out->n_text = json_string_length(value);
    out->text = hsc__pairs_text(r->pairs, json_string_value(value), out->n_text);
    return NULL;
}

/* A line with "cands". Returns why it cannot be used, or NULL. */
static const char *read_candidates(const reader *r, const record *rec, hsc_wording *out)
{
    const json_t *list = json_object_get(rec->object, "cands");
    const char *why = read_text(r, rec, "text", out);
    if (why) return why;
    if (json_array_size(list) != 2) return "\"cands\" wants two candidates";
    if (!read_span(json_object_get(json_array_get(list, 0), "span"), out, &out->a) ||
        !read_span(json_object_get(json_array_get(list, 1), "span"), out, &out->b))
        return "the span of a candidate is null, not inside the text, or cuts a character (spans count bytes)";
    if (!read_span(json_object_get(rec->object, "pronoun_span"), out, &out->query))
        return "\"pronoun_span\" is null, not inside the text, or cuts a character (spans count bytes)";
    const json_t *swap = json_object_get(rec->object, "swap_span");
    if (swap && !read_span(swap, out, &out->swap))
        return "\"swap_span\" is not inside the text, or cuts a character (spans count bytes)";
    return NULL;
}

/* A line with "name_spans": the text ends where the prompt does. */
static const char *read_ioi(const reader *r, const record *rec, hsc_wording *out)
{
    const json_t *names = json_object_get(rec->object, "name_spans");
    const char *why = read_text(r, rec, "prompt", out);
    if (why) return why;
    if (!read_span(json_array_get(names, 0), out, &out->a) || !read_span(json_array_get(names, 1), out, &out->b))
        return "the first two of \"name_spans\" are not inside the prompt, or cut a character (spans count bytes)";
    if (!read_span(json_object_get(rec->object, "s2_span"), out, &out->swap))
        return "\"s2_span\" is null, not inside the prompt, or cuts a character (spans count bytes)";
    if (!out->text) return NULL; /* the caller sees that memory ran out */
    const char *last = strrchr(out->text, ' ');
    out->query = (hsc_span){last ? (size_t)(last - out->text) + 1 : 0, out->n_text};
    if (out->query.start == out->query.end) return "the prompt ends in a blank";
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------ clusters ----
 */

/* Places and things of the IOI task (Wang et al. 2022), which fill one template with many words. */
static const char *const fillers[] = {
    "store", "garden", "restaurant", "school",   "hospital", "office",     "house", "station",
    "ring",  "kiss",   "bone",       "computer", "necklace", "basketball", "drink", "snack",
};

static size_t filler_length(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        size_t length = strlen(fillers[i]);
        if (has_prefix(text, n, fillers[i], length) && (n == length || strchr(" .,", text[length]))) return length;
    }
    return 0;
}

/* The prompt with names as N and fillers as W. */
static const char *ioi_template(const reader *r, const hsc_wording *w)
{
    char *out = hsc__pairs_text(r->pairs, w->text, w->n_text);
    size_t n = 0;
    for (size_t i = 0; out && i < w->n_text;) {
        size_t filler = i > 0 && w->text[i - 1] == ' ' ? filler_length(w->text + i, w->n_text - i) : 0;
        const hsc_span *name = i == w->a.start ? &w->a : i == w->b.start ? &w->b : i == w->swap.start ? &w->swap : NULL;
        if (name) i = name->end;
        else if (filler) i += filler;
        else out[n++] = w->text[i++];
        if (name || filler) out[n++] = name ? 'N' : 'W';
    }
    if (out) out[n] = '\0';
    return out;
}

/* "wgender-17-female-p" -> "17"; twins have two numbers, the lower one counts. `id` is what a pair without numbers is
 * called. */
static const char *winogender_template(const reader *r, const record *x, const record *y, const char *id)
{
    char *end, text[32];
    long n[2];
    for (int i = 0; i < 2; i++) {
        const char *dash = strchr(i ? y->id : x->id, '-');
        n[i] = dash ? strtol(dash + 1, &end, 10) : -1;
        if (n[i] < 0 || end == dash + 1) return id;
    }
    int length = snprintf(text, sizeof text, "%06ld", n[0] < n[1] ? n[0] : n[1]);
    return hsc__pairs_text(r->pairs, text, (size_t)length);
}

/* The cluster that the line's fields say. */
static hsc_status name_cluster(const reader *r, const record *x, const record *y, hsc_pair *pair, hsc_error *err)
{
    const json_t *value = r->cluster_field ? json_object_get(x->object, r->cluster_field) : NULL;
    const char *set = json_string_value(json_object_get(x->object, "set"));
    char digits[32];
    HSC_FAIL_IF(r->cluster_field && !json_is_string(value) && !json_is_integer(value), HSC_EFORMAT,
                "%s:%d: \"%s\", which is to make clusters, is absent or neither a string nor an integer",
                r->pairs->name, x->line, r->cluster_field);
    if (json_is_string(value)) {
        pair->cluster = hsc__pairs_text(r->pairs, json_string_value(value), json_string_length(value));
    } else if (value) {
        int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
        pair->cluster = hsc__pairs_text(r->pairs, digits, (size_t)n);
    } else if (json_object_get(x->object, "name_spans")) {
        pair->cluster = ioi_template(r, &pair->wording[0]);
    } else {
        pair->cluster = set && strcmp(set, "winogender") == 0 ? winogender_template(r, x, y, pair->id) : pair->id;
    }
    return pair->cluster ? HSC_OK : hsc__fail_memory(err, 64, "a cluster's name");
}

/* --------------------------------------------------------------------------------------------------------- twins ----
 */

/* 0 or 1: which wording a line is; -1: its fields do not say. */
static int wording_of(const record *rec, const hsc_wording *w)
{
    const json_t *answer = json_object_get(rec->object, "answer");
    const char *io = json_string_value(json_object_get(rec->object, "io"));
    if (json_is_integer(answer) && json_integer_value(answer) >= 0 && json_integer_value(answer) <= 1)
        return (int)json_integer_value(answer);
    if (!io) return -1;
    for (int i = 0; i < 2; i++) {
        hsc_span name = i ? w->b : w->a;
        if (strlen(io) == name.end - name.start && memcmp(io, w->text + name.start, strlen(io)) == 0) return i;
    }
    return -1;
}

static hsc_status add_twins(const reader *r, const record *x, const record *y, hsc_error *err)
{
    const record *twins[2] = {x, y};
    hsc_wording w[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        bool ioi = json_object_get(twins[i]->object, "name_spans") != NULL;
        const char *why = ioi ? read_ioi(r, twins[i], &w[i]) : read_candidates(r, twins[i], &w[i]);
        if (why) return hsc__pairs_skip(r->pairs, twins[i]->line, err, "%s", why);
        if (!w[i].text) return hsc__fail_memory(err, 64, "a sentence");
    }
    int first = wording_of(x, &w[0]), second = wording_of(y, &w[1]);
    if (first < 0 || second < 0 || first == second)
        return hsc__pairs_skip(r->pairs, x->line, err, "it and its twin in line %d do not have one answer each",
                               y->line);
    if (strcmp(w[0].text, w[1].text) == 0)
        return hsc__pairs_skip(r->pairs, x->line, err, "it and its twin in line %d are the same text", y->line);
    hsc_pair pair = {.number = x->number};
    pair.wording[first] = w[0];
    pair.wording[second] = w[1];
    pair.id = hsc__pairs_text(r->pairs, x->id, strlen(x->id));
    if (!pair.id) return hsc__fail_memory(err, strlen(x->id) + 1, "an id");
    if (w[0].swap.start == w[0].swap.end || w[1].swap.start == w[1].swap.end) hsc__pairs_find_swap(pair.wording);
    HSC_TRY(name_cluster(r, x, y, &pair, err));
    return hsc__pairs_add(r->pairs, &pair, err);
}

/* A pair is made where its first line stands. */
static hsc_status add_pair_of(const reader *r, const record *x, hsc_error *err)
{
    if (!x->twin) return hsc__pairs_skip(r->pairs, x->line, err, "\"twin\" is missing");
    const record *y = find(r, x->twin);
    if (!y) return hsc__pairs_skip(r->pairs, x->line, err, "its twin '%s' is not in the file", x->twin);
    if (y == x || !y->twin || strcmp(y->twin, x->id) != 0)
        return hsc__pairs_skip(r->pairs, x->line, err, "its twin '%s' is not a twin of '%s'", x->twin, x->id);
    return x->line < y->line ? add_twins(r, x, y, err) : HSC_OK;
}

/* ----------------------------------------------------------------------------------------------- repeated random ids
 * ---- */

/* A copy of the line's ids with one replaced; NULL when memory is out. */
static hsc_token *copy_ids(const reader *r, const json_t *list, size_t at, size_t from)
{
    size_t n = json_array_size(list);
    hsc_token *ids = hsc__arena_alloc(&r->pairs->arena, n * sizeof *ids);
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = (hsc_token)json_integer_value(json_array_get(list, i == at ? from : i));
    return ids;
}

/* bos, then T ids twice; NULL or why not. */
static const char *check_repeat(const json_t *list, json_int_t t, size_t j, size_t k)
{
    if (t < 6 || json_array_size(list) != 2 * (size_t)t + 1)
        return "\"ids\" are not a start and \"T\" ids twice, T >= 6";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return "an id is no number that a vocabulary has";
    }
    json_int_t x = json_integer_value(json_array_get(list, j)), y = json_integer_value(json_array_get(list, k));
    for (size_t i = 1; i <= (size_t)t; i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        if (id != json_integer_value(json_array_get(list, i + (size_t)t))) return "the second half is not the first";
        if ((id == x && i != j) || (id == y && i != k)) return "the half repeats the token that is asked for";
    }
    return NULL;
}

static hsc_status add_repeat(const reader *r, const record *rec, hsc_error *err)
{
    const json_t *list = json_object_get(rec->object, "ids");
    json_int_t t = json_integer_value(json_object_get(rec->object, "T"));
    size_t j = t < 0 ? 0 : (size_t)t / 3, k = 2 * j, query = t < 0 ? 0 : (size_t)t + j;
    const char *why = check_repeat(list, t, j, k);
    if (why) return hsc__pairs_skip(r->pairs, rec->line, err, "%s", why);
    hsc_pair pair = {.number = rec->number, .id = hsc__pairs_text(r->pairs, rec->id, strlen(rec->id))};
    if (!pair.id) return hsc__fail_memory(err, strlen(rec->id) + 1, "an id");
    for (int i = 0; i < 2; i++) {
        hsc_span at = {query, query + 1};
        hsc_token *ids = copy_ids(r, list, query, i ? k : j);
        if (!ids) return hsc__fail_memory(err, json_array_size(list) * sizeof *ids, "token ids");
        pair.wording[i] = (hsc_wording){.line = rec->line,
                                        .ids = ids,
                                        .n_ids = (int)json_array_size(list),
                                        .a = {j + 1, j + 2},
                                        .b = {k + 1, k + 2},
                                        .query = at,
                                        .swap = at};
    }
    HSC_TRY(name_cluster(r, rec, rec, &pair, err));
    return hsc__pairs_add(r->pairs, &pair, err);
}

/* --------------------------------------------------------------------------------------------------------- lines ----
 */

static hsc_status add_line(reader *r, const char *line, size_t n, int number, hsc_error *err)
{
    json_t *object;
    hsc_error why = {0};
    char place[32];
    snprintf(place, sizeof place, "line %d", number);
    if (hsc__json_parse(&object, line, n, place, &why) != HSC_OK)
        return hsc__fail(err, why.code, why.offset, "%s: %s", r->pairs->name, why.message);
    hsc_status status = hsc__grow(&r->records, &r->capacity, r->n + 1, sizeof *r->records, err);
    if (status != HSC_OK) {
        json_decref(object);
        return status;
    }
    record *rec = &r->records[r->n++];
    *rec = (record){.object = object, .line = number, .number = (int)r->n - 1};
    rec->id = json_string_value(json_object_get(object, "id"));
    rec->twin = json_string_value(json_object_get(object, "twin"));
    HSC_FAIL_IF(!rec->id, HSC_EFORMAT, "%s:%d: the line has no \"id\" that is a text", r->pairs->name, number);
    return HSC_OK;
}

static hsc_status index_ids(reader *r, hsc_error *err)
{
    r->by_id = hsc__calloc(r->n, sizeof *r->by_id);
    if (!r->by_id) return hsc__fail_memory(err, r->n * sizeof *r->by_id, "the ids");
    for (size_t i = 0; i < r->n; i++) r->by_id[i] = &r->records[i];
    qsort(r->by_id, r->n, sizeof *r->by_id, compare_ids);
    for (size_t i = 1; i < r->n; i++)
        HSC_FAIL_IF(strcmp(r->by_id[i - 1]->id, r->by_id[i]->id) == 0, HSC_EFORMAT,
                    "%s: lines %d and %d have the same id '%s'", r->pairs->name, r->by_id[i - 1]->line,
                    r->by_id[i]->line, r->by_id[i]->id);
    return HSC_OK;
}

static hsc_status read_lines(reader *r, const char *bytes, size_t n, hsc_error *err)
{
    const char *line;
    size_t at = 0, n_line;
    for (int number = 1; hsc__next_line(bytes, n, &at, &line, &n_line); number++) {
        if (n_line && line[0] != '#') HSC_TRY(add_line(r, line, n_line, number, err));
    }
    HSC_TRY(index_ids(r, err));
    for (size_t i = 0; i < r->n; i++) {
        const record *rec = &r->records[i];
        HSC_TRY(json_object_get(rec->object, "ids") ? add_repeat(r, rec, err) : add_pair_of(r, rec, err));
    }
    return HSC_OK;
}

hsc_status hsc__pairs_jsonl(hsc_pairs *pairs, const char *bytes, size_t n, const char *cluster_field, hsc_error *err)
{
    reader r = {.pairs = pairs, .cluster_field = cluster_field};
    hsc_status status = read_lines(&r, bytes, n, err);
    for (size_t i = 0; i < r.n; i++) json_decref(r.records[i].object);
    hsc__free(r.records);
    hsc__free(r.by_id);
    return status;
}
