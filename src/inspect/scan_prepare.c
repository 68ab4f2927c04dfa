/*
 * A scan's pairs as tokens: the file's spans become ranges of tokens, the query is found, and what cannot be used is
 * left out with the reason. A token belongs to a span when they share a byte that is no blank: byte-level tokens carry
 * the blank before their word.
 */
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/scan.h"

#include <stdlib.h>
#include <string.h>

/* A wording being prepared: `why` is set when it cannot be used. */
typedef struct draft {
    const hsc_wording *wording;
    hsc__said said;
    hsc_token *ids; /* of said; memory that the next pair uses again */
    size_t capacity;
    const hsc_span *spans; /* of the tokens in the text; NULL when the file has ids */
    int n_added;           /* tokens that --bos put in front */
    const char *why;
} draft;

/* Both wordings of a pair, and what their texts are encoded into. */
typedef struct desk {
    hsc_encoding encoding;
    draft drafts[2];
} desk;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool shares_byte(const char *text, hsc_span token, hsc_span span)
{
    size_t start = token.start > span.start ? token.start : span.start;
    size_t end = token.end < span.end ? token.end : span.end;
    for (size_t i = start; i < end; i++)
        if (!is_blank(text[i])) return true;
    return false;
}

static hsc__range range_of(const draft *d, hsc_span span)
{
    hsc__range range = {0, -1};
    if (!d->spans)
        return span.end > span.start ? (hsc__range){(int)span.start + d->n_added, (int)span.end - 1 + d->n_added}
                                     : range;
    for (int i = d->n_added; i < d->said.n_tokens; i++) {
        if (!shares_byte(d->wording->text, d->spans[i - d->n_added], span)) continue;
        if (range.last < range.first) range.first = i;
        range.last = i;
    }
    return range;
}

/* ------------------------------------------------------------------------------------------------------- queries ----
 */

static bool word_byte(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x80 || (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z');
}

/* The last token with a letter, a digit or a character beyond ASCII in it. */
static hsc__range last_word(const draft *d)
{
    for (int i = d->said.n_tokens - 1; d->spans && i >= d->n_added; i--) {
        hsc_span s = d->spans[i - d->n_added];
        for (size_t k = s.start; k < s.end; k++)
            if (word_byte(d->wording->text[k])) return (hsc__range){i, i};
    }
    return d->spans ? (hsc__range){0, -1} : (hsc__range){d->said.n_tokens - 1, d->said.n_tokens - 1};
}

/* The one place of the text as a whole word. */
static hsc__range find_text(draft *d, const char *wanted)
{
    const char *text = d->wording->text;
    size_t n = strlen(wanted), n_text = d->wording->n_text;
    hsc_span found = {0, 0};
    int n_found = 0;
    for (size_t i = 0; text && n && i + n <= n_text; i++) {
        bool begins = i == 0 || !word_byte(text[i - 1]) || !word_byte(wanted[0]);
        bool ends = i + n == n_text || !word_byte(text[i + n]) || !word_byte(wanted[n - 1]);
        if (!begins || !ends || memcmp(text + i, wanted, n) != 0) continue;
        found = (hsc_span){i, i + n};
        n_found++;
    }
    if (n_found != 1) d->why = n_found ? "the query's text is in it more than once" : "the query's text is not in it";
    return range_of(d, found);
}

static hsc__range find_query(draft *d, const hsc_scan_options *o)
{
    hsc__range swap;
    switch (o->query) {
    case HSC_QUERY_FILE: return range_of(d, d->wording->query);
    case HSC_QUERY_SWAP:
        swap = range_of(d, d->wording->swap);
        return swap.last < swap.first ? swap : (hsc__range){swap.last, swap.last};
    case HSC_QUERY_LAST: return last_word(d);
    case HSC_QUERY_TEXT: return find_text(d, o->query_text ? o->query_text : "");
    }
    return (hsc__range){0, -1};
}

/* -------------------------------------------------------------------------------------------------------- tokens ----
 */

static bool none(hsc__range range)
{
    return range.last < range.first;
}

/* What a causal model cannot see, or sees only as its sink. */
static const char *causal_fault(const hsc__said *s)
{
    if (s->a.last > s->query.first) return "candidate a stands after the query, where a causal model cannot see it";
    if (s->b.last > s->query.first) return "candidate b stands after the query, where a causal model cannot see it";
    if (s->a.first == 0 || s->b.first == 0)
        return "a candidate is the first token, which draws weight that means nothing; a token before it (BOS) helps";
    return NULL;
}

static void judge(const hsc_scan *scan, draft *d)
{
    hsc__said *s = &d->said;
    s->a = range_of(d, d->wording->a);
    s->b = range_of(d, d->wording->b);
    s->query = find_query(d, &scan->options);
    if (d->why) return;
    if (s->n_tokens > scan->config->n_ctx) d->why = "has more tokens than the model's context";
    else if (none(s->a)) d->why = "candidate a has no token";
    else if (none(s->b)) d->why = "candidate b has no token";
    else if (none(s->query)) d->why = "the query has no token";
    else if (scan->config->causal) d->why = causal_fault(s);
    for (int i = 0; i < s->n_tokens && !d->why; i++)
        if (s->ids[i] < 0 || s->ids[i] >= scan->config->d_vocab)
            d->why = "a token id is outside the model's vocabulary";
    if (scan->config->causal && !d->why) s->n_tokens = s->query.last + 1;
}

/* Copies ids, with BOS in front where it is wanted and not there. */
static hsc_status take_ids(const hsc_scan *scan, draft *d, const hsc_token *ids, size_t n, hsc_error *err)
{
    const hsc_scan_options *o = &scan->options;
    d->n_added = o->with_bos && !(n && ids[0] == o->bos);
    size_t total = n + (size_t)d->n_added;
    HSC_TRY(hsc__grow(&d->ids, &d->capacity, total, sizeof *d->ids, err));
    if (d->n_added) d->ids[0] = o->bos;
    if (n) memcpy(d->ids + d->n_added, ids, n * sizeof *ids);
    d->said = (hsc__said){.ids = d->ids, .n_tokens = (int)total};
    return HSC_OK;
}

static hsc_status prepare_wording(const hsc_scan *scan, hsc_encoding *encoding, const hsc_wording *w, draft *d,
                                  hsc_error *err)
{
    d->wording = w;
    d->why = NULL;
    if (w->text) {
        const hsc_tokenizer *tokenizer = hsc_model_tokenizer(scan->model, err);
        if (!tokenizer) return err && err->code ? err->code : HSC_ENOTFOUND;
        HSC_TRY(hsc_encode(tokenizer, w->text, w->n_text, HSC_ENCODE_ADD_SPECIAL, encoding, err));
        HSC_TRY(take_ids(scan, d, encoding->ids, encoding->n, err));
        d->spans = encoding->spans;
    } else {
        HSC_TRY(take_ids(scan, d, w->ids, (size_t)w->n_ids, err));
    }
    judge(scan, d);
    d->spans = NULL;
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- pairs ---- */

static bool same_range(hsc__range x, hsc__range y)
{
    return x.first == y.first && x.last == y.last;
}

/* Whether a causal model reads the same up to the query: then all its weights there are the same bits. */
static bool same_until_query(const hsc__said *x, const hsc__said *y)
{
    return x->n_tokens == y->n_tokens && same_range(x->a, y->a) && same_range(x->b, y->b) &&
           same_range(x->query, y->query) && memcmp(x->ids, y->ids, (size_t)x->n_tokens * sizeof *x->ids) == 0;
}

static uint64_t digest_of(const hsc__said said[2])
{
    uint64_t digest = HSC__DIGEST_START;
    for (int i = 0; i < 2; i++) {
        const hsc__said *s = &said[i];
        const int32_t places[] = {s->n_tokens, s->a.first,     s->a.last,    s->b.first,
                                  s->b.last,   s->query.first, s->query.last};
        hsc__digest_add(&digest, places, sizeof places);
        hsc__digest_add(&digest, s->ids, (size_t)s->n_tokens * sizeof *s->ids);
    }
    return digest;
}

static int count(hsc__range range)
{
    return range.last - range.first + 1;
}

hsc_status hsc__scan_skip(hsc_scan *scan, int line, const char *why, hsc_error *err)
{
    HSC_TRY(hsc__grow(&scan->skipped, &scan->skipped_capacity, scan->n_skipped + 1, sizeof *scan->skipped, err));
    scan->skipped[scan->n_skipped++] = (hsc_skipped){line, why};
    return HSC_OK;
}

/* Moves what is said to the archive. */
static hsc_status keep_said(hsc_scan *scan, hsc__said_pair *said, const hsc__said_pair **out, hsc_error *err)
{
    const void *kept;
    for (int i = 0; i < 2; i++) {
        hsc__said *s = &said->wording[i];
        HSC_TRY(hsc__archive_put(&scan->archive, s->ids, (size_t)s->n_tokens * sizeof *s->ids, &kept, err));
        s->ids = kept;
    }
    HSC_TRY(hsc__archive_put(&scan->archive, said, sizeof *said, &kept, err));
    *out = kept;
    return HSC_OK;
}

static hsc_status prepare_pair(hsc_scan *scan, const hsc_pair *pair, desk *work, hsc_error *err)
{
    for (int i = 0; i < 2; i++) {
        draft *d = &work->drafts[i];
        HSC_TRY(prepare_wording(scan, &work->encoding, &pair->wording[i], d, err));
        if (d->why) return hsc__scan_skip(scan, pair->wording[i].line, d->why, err);
    }
    hsc__said_pair said = {.pair = pair, .wording = {work->drafts[0].said, work->drafts[1].said}};
    const hsc__said *x = &said.wording[0], *y = &said.wording[1];
    if (scan->config->causal && same_until_query(x, y)) {
        scan->n_same++;
        return HSC_OK;
    }
    said.digest = digest_of(said.wording);
    hsc__scan_pair *out = &scan->pairs[scan->n_used];
    out->equal = count(x->a) == count(x->b) && count(y->a) == count(y->b);
    HSC_TRY(keep_said(scan, &said, &out->said, err));
    scan->n_used++;
    return HSC_OK;
}

typedef struct place {
    uint64_t digest;
    int index;
} place;

static int by_digest(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->digest != y->digest) return x->digest < y->digest ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* What the model reads as the same pair counts once: the first by id stays. */
static hsc_status drop_repeats(hsc_scan *scan, hsc_error *err)
{
    size_t n = (size_t)scan->n_used;
    int n_kept = 0;
    place *places = hsc__calloc(n, sizeof *places);
    if (!places) return hsc__fail_memory(err, n * sizeof *places, "digests");
    for (size_t i = 0; i < n; i++) {
        places[i] = (place){scan->pairs[i].said->digest, (int)i};
        hsc__scan_forget(scan, i);
    }
    qsort(places, n, sizeof *places, by_digest);
    hsc_status status = HSC_OK;
    for (size_t i = 1; i < n && status == HSC_OK; i++) {
        if (places[i].digest != places[i - 1].digest) continue;
        hsc__scan_pair *repeat = &scan->pairs[places[i].index];
        status = hsc__scan_skip(scan, repeat->said->pair->wording[0].line, "another line has the same tokens", err);
        repeat->said = NULL;
        hsc__scan_forget(scan, i);
    }
    hsc__free(places);
    for (size_t i = 0; i < n; i++)
        if (scan->pairs[i].said) scan->pairs[n_kept++] = scan->pairs[i];
    scan->n_used = n_kept;
    return status;
}

/* Numbers the clusters; false when their names do not rise with the pairs, as they do where each pair is its own. */
static bool number_rising(hsc_scan *scan)
{
    const char *last = NULL;
    scan->n_clusters = 0;
    for (int i = 0; i < scan->n_used; i++) {
        const char *name = scan->pairs[i].said->pair->cluster;
        int order = last ? strcmp(last, name) : -1;
        if (order > 0) return false;
        scan->n_clusters += order < 0;
        scan->pairs[i].cluster = scan->n_clusters - 1;
        last = name;
        hsc__scan_forget(scan, (size_t)i);
    }
    return true;
}

/* A pair's cluster, by its name in memory. */
typedef struct named {
    const char *name;
    int pair;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* names: [n_used]. */
static hsc_status number_sorted(hsc_scan *scan, named *names, hsc__arena *arena, hsc_error *err)
{
    scan->n_clusters = 0;
    for (int i = 0; i < scan->n_used; i++) {
        const char *name = scan->pairs[i].said->pair->cluster;
        names[i] = (named){hsc__arena_strndup(arena, name, strlen(name)), i};
        if (!names[i].name) return hsc__fail_memory(err, strlen(name) + 1, "clusters");
        hsc__scan_forget(scan, (size_t)i);
    }
    qsort(names, (size_t)scan->n_used, sizeof *names, by_name);
    for (int i = 0; i < scan->n_used; i++) {
        scan->n_clusters += i == 0 || by_name(&names[i - 1], &names[i]) != 0;
        scan->pairs[names[i].pair].cluster = scan->n_clusters - 1;
    }
    return HSC_OK;
}

/* Numbers the clusters in the order of their names. */
static hsc_status number_clusters(hsc_scan *scan, hsc_error *err)
{
    size_t n = (size_t)scan->n_used;
    hsc__arena arena = {0};
    if (number_rising(scan)) return HSC_OK;
    named *names = hsc__calloc(n, sizeof *names);
    hsc_status status =
        names ? number_sorted(scan, names, &arena, err) : hsc__fail_memory(err, n * sizeof *names, "clusters");
    hsc__free(names);
    hsc__arena_free(&arena);
    return status;
}

/* The pairs of the first cluster, in their order, then those of the second, and so on. */
static hsc_status sort_by_cluster(hsc_scan *scan, hsc_error *err)
{
    size_t n = (size_t)scan->n_used, n_ends = (size_t)scan->n_clusters + 1;
    int *starts = hsc__calloc(n_ends, sizeof *starts);
    scan->by_cluster = hsc__calloc(n, sizeof *scan->by_cluster);
    hsc_status status =
        starts && scan->by_cluster ? HSC_OK : hsc__fail_memory(err, n * sizeof *starts, "the order of the clusters");
    for (size_t i = 0; i < n && status == HSC_OK; i++) starts[scan->pairs[i].cluster + 1]++;
    for (size_t c = 1; c < n_ends && status == HSC_OK; c++) starts[c] += starts[c - 1];
    for (size_t i = 0; i < n && status == HSC_OK; i++) scan->by_cluster[starts[scan->pairs[i].cluster]++] = (int)i;
    hsc__free(starts);
    return status;
}

static int by_line(const void *a, const void *b)
{
    const hsc_skipped *x = a, *y = b;
    return (x->line > y->line) - (x->line < y->line);
}

static hsc_status prepare_all(hsc_scan *scan, desk *work, hsc_error *err)
{
    int n = hsc_pairs_count(scan->source);
    for (int i = 0; hsc_pairs_skipped(scan->source, i); i++) {
        const hsc_skipped *s = hsc_pairs_skipped(scan->source, i);
        HSC_TRY(hsc__scan_skip(scan, s->line, s->why, err));
    }
    for (int i = 0; i < n; i++) {
        HSC_TRY(prepare_pair(scan, hsc_pairs_get(scan->source, i), work, err));
        hsc__scan_forget(scan, (size_t)i);
    }
    HSC_TRY(drop_repeats(scan, err));
    if (scan->n_skipped) qsort(scan->skipped, scan->n_skipped, sizeof *scan->skipped, by_line);
    HSC_FAIL_IF(!scan->n_used && scan->n_same, HSC_EINVAL,
                "in all %d pairs this causal model reads the same up to the query, so its heads differ by exactly 0; "
                "the queries swap and last lie behind the difference",
                scan->n_same);
    HSC_FAIL_IF(!scan->n_used, HSC_EINVAL, "no pair can be used; line %d: %s", scan->skipped[0].line,
                scan->skipped[0].why);
    HSC_TRY(number_clusters(scan, err));
    return sort_by_cluster(scan, err);
}

hsc_status hsc__scan_prepare(hsc_scan *scan, hsc_error *err)
{
    size_t n = (size_t)hsc_pairs_count(scan->source);
    desk work = {0};
    scan->pairs = hsc__calloc(n, sizeof *scan->pairs);
    if (!scan->pairs) return hsc__fail_memory(err, n * sizeof *scan->pairs, "the pairs");
    hsc_status status = prepare_all(scan, &work, err);
    hsc_encoding_free(&work.encoding);
    for (int i = 0; i < 2; i++) hsc__free(work.drafts[i].ids);
    return status;
}
