/*
 * Pairs from JSONL: lines of candidates (own_twins, winogender), of the IOI task, and of repeated random ids. A line's
 * fields are strict: what is missing or null leaves the line out, with the reason. Each line is read once, into a
 * record that lies in an archive of its own; memory holds its id until the twins have found each other.
 */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "formats/json.h"
#include "inspect/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { CANDIDATES, IOI, REPEAT } kind;

/* What a line says. */
typedef struct record {
    kind kind;
    int line, number;
    bool winogender;
    const char *twin, *cluster; /* NULL where the line names none; cluster: the field that makes them */
    const char *why;            /* the line cannot be used; NULL */
    hsc_wording wording;        /* of a repeat the first */
    int which;                  /* wording of its pair: 0 or 1; -1: the fields do not say */
} record;

/* A record by its id. */
typedef struct entry {
    const char *id;
    const record *record;
} entry;

typedef struct reader {
    hsc_pairs *pairs;
    const char *cluster_field;
    entry *entries;
    size_t n, capacity;
    hsc__arena ids;       /* of the entries */
    hsc__archive archive; /* records and what they point at */
    hsc_token *tokens;    /* of a line, or of a wording */
    size_t tokens_capacity;
    int no_cluster; /* the first line of a pair without the field; 0: none */
} reader;

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->id, ((const entry *)b)->id);
}

static const entry *find(const reader *r, const char *id)
{
    return bsearch(&(entry){.id = id}, r->entries, r->n, sizeof *r->entries, compare_ids);
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

/* The field's text, borrowed from the object; a reason when it is none. */
static const char *read_text(const json_t *object, const char *field, hsc_wording *out)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_string(value) || json_string_length(value) == 0) return "its text is missing";
    out->n_text = json_string_length(value);
    out->text = json_string_value(value);
    return NULL;
}

/* A line with "cands". Returns why it cannot be used, or NULL. */
static const char *read_candidates(const json_t *object, hsc_wording *out)
{
    const json_t *list = json_object_get(object, "cands");
    const char *why = read_text(object, "text", out);
    if (why) return why;
    if (json_array_size(list) != 2) return "\"cands\" wants two candidates";
    if (!read_span(json_object_get(json_array_get(list, 0), "span"), out, &out->a) ||
        !read_span(json_object_get(json_array_get(list, 1), "span"), out, &out->b))
        return "the span of a candidate is null, not inside the text, or cuts a character (spans count bytes)";
    if (!read_span(json_object_get(object, "pronoun_span"), out, &out->query))
        return "\"pronoun_span\" is null, not inside the text, or cuts a character (spans count bytes)";
    const json_t *swap = json_object_get(object, "swap_span");
    if (swap && !read_span(swap, out, &out->swap))
        return "\"swap_span\" is not inside the text, or cuts a character (spans count bytes)";
    return NULL;
}

/* A line with "name_spans": the text ends where the prompt does. */
static const char *read_ioi(const json_t *object, hsc_wording *out)
{
    const json_t *names = json_object_get(object, "name_spans");
    const char *why = read_text(object, "prompt", out);
    if (why) return why;
    if (!read_span(json_array_get(names, 0), out, &out->a) || !read_span(json_array_get(names, 1), out, &out->b))
        return "the first two of \"name_spans\" are not inside the prompt, or cut a character (spans count bytes)";
    if (!read_span(json_object_get(object, "s2_span"), out, &out->swap))
        return "\"s2_span\" is null, not inside the prompt, or cuts a character (spans count bytes)";
    const char *last = strrchr(out->text, ' ');
    out->query = (hsc_span){last ? (size_t)(last - out->text) + 1 : 0, out->n_text};
    if (out->query.start == out->query.end) return "the prompt ends in a blank";
    return NULL;
}

/* 0 or 1: which wording a line is; -1: its fields do not say. */
static int wording_of(const json_t *object, const hsc_wording *w)
{
    const json_t *answer = json_object_get(object, "answer");
    const char *io = json_string_value(json_object_get(object, "io"));
    if (json_is_integer(answer) && json_integer_value(answer) >= 0 && json_integer_value(answer) <= 1)
        return (int)json_integer_value(answer);
    if (!io) return -1;
    for (int i = 0; i < 2; i++) {
        hsc_span name = i ? w->b : w->a;
        if (strlen(io) == name.end - name.start && memcmp(io, w->text + name.start, strlen(io)) == 0) return i;
    }
    return -1;
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

/* Repeated random ids, their tokens in r->tokens. */
static hsc_status read_repeat(reader *r, const json_t *object, record *out, hsc_error *err)
{
    const json_t *list = json_object_get(object, "ids");
    size_t n = json_array_size(list);
    json_int_t t = json_integer_value(json_object_get(object, "T"));
    size_t j = t < 0 ? 0 : (size_t)t / 3, k = 2 * j, query = t < 0 ? 0 : (size_t)t + j;
    out->why = check_repeat(list, t, j, k);
    if (out->why) return HSC_OK;
    HSC_TRY(hsc__grow(&r->tokens, &r->tokens_capacity, n, sizeof *r->tokens, err));
    for (size_t i = 0; i < n; i++) r->tokens[i] = (hsc_token)json_integer_value(json_array_get(list, i));
    hsc_span at = {query, query + 1};
    out->wording.ids = r->tokens;
    out->wording.n_ids = (int)n;
    out->wording.a = (hsc_span){j + 1, j + 2};
    out->wording.b = (hsc_span){k + 1, k + 2};
    out->wording.query = out->wording.swap = at;
    return HSC_OK;
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
static void ioi_template(const hsc_wording *w, hsc__string *out)
{
    for (size_t i = 0; i < w->n_text;) {
        size_t filler = i > 0 && w->text[i - 1] == ' ' ? filler_length(w->text + i, w->n_text - i) : 0;
        const hsc_span *name = i == w->a.start ? &w->a : i == w->b.start ? &w->b : i == w->swap.start ? &w->swap : NULL;
        hsc__string_add(out, name ? "N" : filler ? "W" : w->text + i, 1);
        i = name ? name->end : i + (filler ? filler : 1);
    }
}

/* "wgender-17-female-p" -> "17"; twins have two numbers, the lower one counts. A pair without numbers is called after
 * its own id. */
static void winogender_template(const char *const ids[2], hsc__string *out)
{
    char *end;
    long n[2];
    for (int i = 0; i < 2; i++) {
        const char *dash = strchr(ids[i], '-');
        n[i] = dash ? strtol(dash + 1, &end, 10) : -1;
        if (n[i] < 0 || end == dash + 1) {
            hsc__string_text(out, ids[0]);
            return;
        }
    }
    hsc__string_printf(out, "%06ld", n[0] < n[1] ? n[0] : n[1]);
}

/* Adds a pair of x, which its fields are taken from, and its twin y; of a repeat both are the same. */
static hsc_status add_pair(reader *r, const entry *x, const entry *y, hsc_pair *pair, hsc_error *err)
{
    const record *first = x->record;
    hsc__string cluster = {0};
    if (r->cluster_field && !first->cluster && (!r->no_cluster || first->line < r->no_cluster))
        r->no_cluster = first->line;
    if (first->cluster) hsc__string_text(&cluster, first->cluster);
    else if (first->kind == IOI) ioi_template(&pair->wording[0], &cluster);
    else if (first->winogender) winogender_template((const char *const[]){x->id, y->id}, &cluster);
    else hsc__string_text(&cluster, x->id);
    pair->number = first->number;
    pair->id = x->id;
    pair->cluster = cluster.data;
    hsc_status status = cluster.failed ? hsc__fail_memory(err, 64, "a cluster's name") : HSC_OK;
    if (status == HSC_OK) status = hsc__pairs_add(r->pairs, pair, err);
    hsc__string_free(&cluster);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- twins ----
 */

static bool has_swap(const hsc_wording *w)
{
    return w->swap.start < w->swap.end;
}

static hsc_status add_twins(reader *r, const entry *x, const entry *y, hsc_error *err)
{
    const record *twins[2] = {x->record, y->record};
    hsc_pair pair;
    for (int i = 0; i < 2; i++) {
        const char *why = twins[i]->kind == REPEAT ? "its text is missing" : twins[i]->why;
        if (why) return hsc__pairs_skip(r->pairs, twins[i]->line, err, "%s", why);
    }
    if (twins[0]->which < 0 || twins[1]->which < 0 || twins[0]->which == twins[1]->which)
        return hsc__pairs_skip(r->pairs, twins[0]->line, err, "it and its twin in line %d do not have one answer each",
                               twins[1]->line);
    if (strcmp(twins[0]->wording.text, twins[1]->wording.text) == 0)
        return hsc__pairs_skip(r->pairs, twins[0]->line, err, "it and its twin in line %d are the same text",
                               twins[1]->line);
    for (int i = 0; i < 2; i++) pair.wording[twins[i]->which] = twins[i]->wording;
    if (!has_swap(&pair.wording[0]) || !has_swap(&pair.wording[1])) hsc__pairs_find_swap(pair.wording);
    return add_pair(r, x, y, &pair, err);
}

/* A pair is made where its first line stands. */
static hsc_status add_pair_of(reader *r, const entry *x, hsc_error *err)
{
    const record *rec = x->record;
    if (!rec->twin) return hsc__pairs_skip(r->pairs, rec->line, err, "\"twin\" is missing");
    const entry *y = find(r, rec->twin);
    if (!y) return hsc__pairs_skip(r->pairs, rec->line, err, "its twin '%s' is not in the file", rec->twin);
    if (y == x || !y->record->twin || strcmp(y->record->twin, x->id) != 0)
        return hsc__pairs_skip(r->pairs, rec->line, err, "its twin '%s' is not a twin of '%s'", rec->twin, x->id);
    return rec->line < y->record->line ? add_twins(r, x, y, err) : HSC_OK;
}

/* The token that the query is, is the one before a in the first wording and the one before b in the second. */
static hsc_status add_repeat(reader *r, const entry *x, hsc_error *err)
{
    const hsc_wording *w = &x->record->wording;
    size_t n = (size_t)w->n_ids;
    if (x->record->why) return hsc__pairs_skip(r->pairs, x->record->line, err, "%s", x->record->why);
    HSC_TRY(hsc__grow(&r->tokens, &r->tokens_capacity, n, sizeof *r->tokens, err));
    memcpy(r->tokens, w->ids, n * sizeof *w->ids);
    r->tokens[w->query.start] = w->ids[w->b.start - 1];
    hsc_pair pair = {.wording = {*w, *w}};
    pair.wording[1].ids = r->tokens;
    return add_pair(r, x, x, &pair, err);
}

/* --------------------------------------------------------------------------------------------------------- lines ----
 */

/* Moves the texts that a record borrows, and the record, to the archive. */
static hsc_status keep_record(reader *r, record *rec, const record **out, hsc_error *err)
{
    hsc_wording *w = &rec->wording;
    const char **const texts[] = {&rec->twin, &rec->cluster, &w->text};
    const void *kept;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i]) HSC_TRY(hsc__archive_text(&r->archive, *texts[i], strlen(*texts[i]), texts[i], err));
    if (w->ids) {
        HSC_TRY(hsc__archive_put(&r->archive, w->ids, (size_t)w->n_ids * sizeof *w->ids, &kept, err));
        w->ids = kept;
    }
    HSC_TRY(hsc__archive_put(&r->archive, rec, sizeof *rec, &kept, err));
    *out = kept;
    return HSC_OK;
}

/* The value of the field that makes clusters, or NULL. */
static const char *cluster_of(const json_t *object, const char *field, char digits[32])
{
    const json_t *value = field ? json_object_get(object, field) : NULL;
    if (!json_is_integer(value)) return json_string_value(value);
    snprintf(digits, 32, "%lld", (long long)json_integer_value(value));
    return digits;
}

static hsc_status add_record(reader *r, const json_t *object, int line, hsc_error *err)
{
    char digits[32];
    const char *set = json_string_value(json_object_get(object, "set"));
    record rec = {.line = line,
                  .number = (int)r->n,
                  .winogender = set && strcmp(set, "winogender") == 0,
                  .twin = json_string_value(json_object_get(object, "twin")),
                  .cluster = cluster_of(object, r->cluster_field, digits),
                  .wording.line = line};
    rec.kind = json_object_get(object, "ids") ? REPEAT : json_object_get(object, "name_spans") ? IOI : CANDIDATES;
    if (rec.kind == REPEAT) HSC_TRY(read_repeat(r, object, &rec, err));
    else rec.why = rec.kind == IOI ? read_ioi(object, &rec.wording) : read_candidates(object, &rec.wording);
    if (rec.kind != REPEAT && !rec.why) rec.which = wording_of(object, &rec.wording);
    if (rec.why) rec.wording.text = NULL;
    return keep_record(r, &rec, &r->entries[r->n].record, err);
}

static hsc_status add_object(reader *r, const json_t *object, int line, hsc_error *err)
{
    const char *id = json_string_value(json_object_get(object, "id"));
    HSC_FAIL_IF(!id, HSC_EFORMAT, "%s:%d: the line has no \"id\" that is a text", r->pairs->name, line);
    HSC_TRY(hsc__grow(&r->entries, &r->capacity, r->n + 1, sizeof *r->entries, err));
    HSC_TRY(add_record(r, object, line, err));
    r->entries[r->n].id = hsc__arena_strndup(&r->ids, id, strlen(id));
    if (!r->entries[r->n].id) return hsc__fail_memory(err, strlen(id) + 1, "an id");
    r->n++;
    return HSC_OK;
}

static hsc_status add_line(reader *r, const hsc__list *lines, hsc_error *err)
{
    json_t *object;
    hsc_error why = {0};
    char place[32];
    snprintf(place, sizeof place, "line %d", lines->number);
    if (hsc__json_parse(&object, lines->line, lines->n, place, &why) != HSC_OK)
        return hsc__fail(err, why.code, why.offset, "%s: %s", r->pairs->name, why.message);
    hsc_status status = add_object(r, object, lines->number, err);
    json_decref(object);
    return status;
}

static hsc_status sort_entries(reader *r, hsc_error *err)
{
    if (r->n) qsort(r->entries, r->n, sizeof *r->entries, compare_ids);
    for (size_t i = 1; i < r->n; i++) {
        if (strcmp(r->entries[i - 1].id, r->entries[i].id) != 0) continue;
        int x = r->entries[i - 1].record->line, y = r->entries[i].record->line;
        return hsc__fail(err, HSC_EFORMAT, 0, "%s: lines %d and %d have the same id '%s'", r->pairs->name,
                         x < y ? x : y, x < y ? y : x, r->entries[i].id);
    }
    return HSC_OK;
}

/* Pairs in the order of their ids. */
static hsc_status add_pairs(reader *r, hsc_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        const entry *x = &r->entries[i];
        HSC_TRY(x->record->kind == REPEAT ? add_repeat(r, x, err) : add_pair_of(r, x, err));
        hsc__archive_forget(&r->archive, i);
    }
    HSC_FAIL_IF(r->no_cluster, HSC_EFORMAT,
                "%s:%d: \"%s\", which is to make clusters, is absent or neither a string nor an integer",
                r->pairs->name, r->no_cluster, r->cluster_field);
    return HSC_OK;
}

hsc_status hsc__pairs_jsonl(hsc_pairs *pairs, hsc__list *lines, const char *cluster_field, hsc_error *err)
{
    reader r = {.pairs = pairs, .cluster_field = cluster_field};
    hsc_status status = hsc__list_next(lines, err);
    while (status == HSC_OK && lines->line) {
        status = add_line(&r, lines, err);
        if (status == HSC_OK) status = hsc__list_next(lines, err);
    }
    if (status == HSC_OK) status = sort_entries(&r, err);
    if (status == HSC_OK) status = add_pairs(&r, err);
    hsc__free(r.entries);
    hsc__free(r.tokens);
    hsc__arena_free(&r.ids);
    hsc__archive_free(&r.archive);
    return status;
}
