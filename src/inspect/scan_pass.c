/*
 * The passes of a scan. A batch is some pairs, both wordings. A causal model reads what twins have in common once, is
 * forked, and reads the rest of both; any other reads both whole. An observer takes the query's row of each head as it
 * goes by and keeps three sums of it. Every cell has one writer, so threads never show. A round's weights are written
 * away before the next one begins.
 */
#include "base/parallel.h"
#include "base/status.h"
#include "inspect/scan.h"
#include "inspect/team.h"
#include "model/texts.h"

#include <math.h>
#include <string.h>

enum {
    MOST_PAIRS = 32,    /* pairs of a batch */
    MOST_TOKENS = 4096, /* positions that the sequences of a batch may have together */
};

typedef struct batch {
    hsc_scan *scan;
    hsc_session *session;
    int pairs[MOST_PAIRS], n; /* which pairs of the scan */
    int first;                /* the place of pairs[0] in the round, a batch of each process */
    int most_pairs;
    hsc_seen *seen;         /* [pairs of a round][2][n_heads] */
    int shared[MOST_PAIRS]; /* tokens that twins read together */
    hsc_token *ids;         /* of one pass */
    int lengths[2 * MOST_PAIRS];
    hsc_seen *rows;             /* [n_heads][n_rows]: a row for each query token of each sequence */
    int row_of[2 * MOST_PAIRS]; /* the first row of a sequence */
    int n_rows;
    size_t rows_capacity;
} batch;

/* Sequence k + w n of a batch is wording w of its pair k. */
static const hsc__said *said_of(const batch *b, int seq)
{
    return &b->scan->pairs[b->pairs[seq % b->n]].said->wording[seq / b->n];
}

/* The weights of pair k of the round, [2][n_heads]. */
static hsc_seen *seen_of(const batch *b, int k)
{
    return b->seen + (size_t)k * 2 * (size_t)b->scan->n_heads;
}

/* ------------------------------------------------------------------------------------------------------ watching ----
 */

static float weigh(const float *row, int n_key, hsc__range range, hsc_scan_keys keys)
{
    double sum = 0;
    int first = keys == HSC_KEYS_LAST ? range.last : range.first;
    for (int i = first; i <= range.last && i < n_key; i++) sum += (double)row[i];
    return (float)(keys == HSC_KEYS_MEAN ? sum / (range.last - range.first + 1) : sum);
}

static int take_rows(void *user, const hsc_block *block)
{
    batch *b = user;
    const hsc__said *s = said_of(b, block->seq);
    size_t head = (size_t)block->layer * (size_t)b->scan->config->n_heads + (size_t)block->head;
    hsc_seen *rows = b->rows + head * (size_t)b->n_rows + (size_t)b->row_of[block->seq];
    for (int query = s->query.first; query <= s->query.last; query++) {
        int r = query - block->first_row;
        if (r < 0 || r >= block->n_rows) continue;
        const float *row = block->data + (size_t)r * block->stride;
        rows[query - s->query.first] = (hsc_seen){weigh(row, block->row_size, s->a, b->scan->options.keys),
                                                  weigh(row, block->row_size, s->b, b->scan->options.keys), row[0]};
    }
    return 0;
}

static hsc_status make_rows(batch *b, hsc_error *err)
{
    b->n_rows = 0;
    for (int seq = 0; seq < 2 * b->n; seq++) {
        b->row_of[seq] = b->n_rows;
        b->n_rows += said_of(b, seq)->query.last - said_of(b, seq)->query.first + 1;
    }
    return hsc__grow(&b->rows, &b->rows_capacity, (size_t)b->scan->n_heads * (size_t)b->n_rows, sizeof *b->rows, err);
}

/* The mean over the query's tokens, in their order. */
static hsc_seen mean_row(const hsc_seen *rows, int n)
{
    double a = 0, b = 0, sink = 0;
    for (int i = 0; i < n; i++) {
        a += (double)rows[i].a;
        b += (double)rows[i].b;
        sink += (double)rows[i].sink;
    }
    return (hsc_seen){(float)(a / n), (float)(b / n), (float)(sink / n)};
}

static hsc_status keep_rows(const batch *b, hsc_error *err)
{
    const hsc_scan *scan = b->scan;
    for (int seq = 0; seq < 2 * b->n; seq++) {
        const hsc__said_pair *pair = scan->pairs[b->pairs[seq % b->n]].said;
        const hsc__range *query = &pair->wording[seq / b->n].query;
        hsc_seen *out = seen_of(b, b->first + seq % b->n) + (size_t)(seq / b->n) * (size_t)scan->n_heads;
        for (int head = 0; head < scan->n_heads; head++) {
            const hsc_seen *rows = b->rows + (size_t)head * (size_t)b->n_rows + (size_t)b->row_of[seq];
            out[head] = mean_row(rows, query->last - query->first + 1);
            HSC_FAIL_IF(!isfinite(out[head].a + out[head].b + out[head].sink), HSC_EINVAL,
                        "line %d: an attention weight of L%dH%d is not finite (NaN): the file's weights are damaged or "
                        "overflow",
                        pair->pair->wording[seq / b->n].line, head / scan->config->n_heads,
                        head % scan->config->n_heads);
        }
    }
    return HSC_OK;
}

/* -------------------------------------------------------------------------------------------------------- passes ----
 */

/* Tokens from `from` on of n sequences, end to end. */
static hsc_status forward(batch *b, int n_seqs, const int *from, const int *to, hsc_error *err)
{
    int n = 0;
    for (int seq = 0; seq < n_seqs; seq++) {
        b->lengths[seq] = to[seq] - from[seq];
        memcpy(b->ids + n, said_of(b, seq)->ids + from[seq], (size_t)b->lengths[seq] * sizeof *b->ids);
        n += b->lengths[seq];
    }
    return hsc__texts_forward(
        b->session,
        &(hsc_batch){
            .ids = b->ids, .n_tokens = n, .seq_lengths = b->lengths, .n_seqs = n_seqs, .logits = HSC_LOGITS_NONE},
        err);
}

/* What both twins read before they differ and before either's query; 0: nothing. */
static int shared_tokens(const hsc__said_pair *pair)
{
    const hsc__said *x = &pair->wording[0], *y = &pair->wording[1];
    int n = 0, limit = x->query.first < y->query.first ? x->query.first : y->query.first;
    while (n < limit && x->ids[n] == y->ids[n]) n++;
    return n;
}

static bool can_share(batch *b)
{
    bool all = b->scan->config->causal;
    for (int k = 0; k < b->n && all; k++) {
        b->shared[k] = shared_tokens(b->scan->pairs[b->pairs[k]].said);
        all = b->shared[k] > 0;
    }
    return all;
}

static hsc_status run_batch(batch *b, hsc_error *err)
{
    static const int zeros[2 * MOST_PAIRS];
    int from[2 * MOST_PAIRS] = {0}, to[2 * MOST_PAIRS];
    for (int seq = 0; seq < 2 * b->n; seq++) to[seq] = said_of(b, seq)->n_tokens;
    HSC_TRY(make_rows(b, err));
    hsc_session_reset(b->session);
    hsc_session_observe_clear(b->session);
    if (can_share(b)) {
        HSC_TRY(forward(b, b->n, zeros, b->shared, err));
        for (int k = 0; k < b->n; k++) {
            HSC_TRY(hsc_session_fork(b->session, k, k + b->n, b->shared[k], err));
            from[k] = from[k + b->n] = b->shared[k];
        }
    }
    hsc_observer observer = {.site = hsc__texts_pattern(b->scan->model), .layer = -1, .fn = take_rows, .user = b};
    HSC_TRY(hsc_session_observe(b->session, &observer, err));
    HSC_TRY(forward(b, 2 * b->n, from, to, err));
    return keep_rows(b, err);
}

/* Pairs of all processes, in their order. */
static hsc_status keep_round(const batch *b, const int *pairs, int n, hsc_error *err)
{
    const hsc_scan_store *store = b->scan->options.store;
    for (int k = 0; k < n; k++) HSC_TRY(hsc__scan_write(b->scan, pairs[k], seen_of(b, k), err));
    if (!store || (b->scan->options.team && b->scan->options.team->rank)) return HSC_OK;
    for (int k = 0; k < n; k++) {
        const hsc__said_pair *pair = b->scan->pairs[pairs[k]].said;
        HSC_TRY(store->save(store->user, pair->pair, pair->digest, seen_of(b, k), err));
    }
    return store->flush ? store->flush(store->user, err) : HSC_OK;
}

/* Where process r's part of n things begins: the first ones have one more. */
static int part_start(int n, int n_ranks, int r)
{
    return r * (n / n_ranks) + (r < n % n_ranks ? r : n % n_ranks);
}

/* Every process has the weights of the round's n pairs; process r ran those from part_start on. */
static hsc_status share_round(const batch *b, int n, hsc_error *err)
{
    const hsc_team *team = b->scan->options.team;
    size_t n_starts = (size_t)team->n_ranks + 1, *starts = hsc__calloc(n_starts, sizeof *starts);
    if (!starts) return hsc__fail_memory(err, n_starts * sizeof *starts, "the parts of a round");
    for (int r = 0; r <= team->n_ranks; r++)
        starts[r] = (size_t)((char *)seen_of(b, part_start(n, team->n_ranks, r)) - (char *)b->seen);
    hsc_status status = hsc__team_share(team, b->seen, starts, err);
    hsc__free(starts);
    return status;
}

/* A batch of each process. */
static hsc_status run_round(batch *b, const int *pairs, int n, hsc_error *err)
{
    const hsc_team *team = b->scan->options.team;
    b->first = team ? part_start(n, team->n_ranks, team->rank) : 0;
    b->n = (team ? part_start(n, team->n_ranks, team->rank + 1) : n) - b->first;
    memcpy(b->pairs, pairs + b->first, (size_t)b->n * sizeof *pairs);
    if (b->n) HSC_TRY(run_batch(b, err));
    if (team) HSC_TRY(share_round(b, n, err));
    return keep_round(b, pairs, n, err);
}

static int most_of_round(const batch *b)
{
    return b->most_pairs * (b->scan->options.team ? b->scan->options.team->n_ranks : 1);
}

static hsc_status tell(const hsc_scan *scan, int n_done, hsc_error *err)
{
    const hsc_scan_options *o = &scan->options;
    HSC_FAIL_IF(o->tell && o->tell(o->user, n_done, scan->n_used), HSC_ECANCELED,
                "the scan was stopped after %d of %d pairs", n_done, scan->n_used);
    return HSC_OK;
}

/* todo: [n_todo] pairs that are not loaded. */
static hsc_status run_rounds(batch *b, const int *todo, int n_todo, hsc_error *err)
{
    hsc_scan *scan = b->scan;
    int n_loaded = scan->n_used - n_todo;
    int most = most_of_round(b);
    HSC_TRY(tell(scan, n_loaded, err));
    for (int at = 0; at < n_todo; at += most) {
        int n = n_todo - at < most ? n_todo - at : most;
        HSC_TRY(run_round(b, todo + at, n, err));
        HSC_TRY(tell(scan, n_loaded + at + n, err));
        for (int i = at; i < at + n; i++) hsc__scan_forget(scan, (size_t)i);
    }
    return HSC_OK;
}

static hsc_status run_all(batch *b, int n_todo, hsc_error *err)
{
    int n = 0, *todo = hsc__calloc((size_t)n_todo, sizeof *todo);
    if (!todo) return hsc__fail_memory(err, (size_t)n_todo * sizeof *todo, "the pairs to run");
    for (int i = 0; i < b->scan->n_used; i++)
        if (!b->scan->pairs[i].loaded) todo[n++] = i;
    hsc_status status = run_rounds(b, todo, n, err);
    hsc__free(todo);
    return status;
}

/* The longest wording decides how many pairs go together. */
static hsc_status make_batch(batch *b, int *n_todo, hsc_error *err)
{
    const hsc_scan *scan = b->scan;
    int longest = 1;
    *n_todo = 0;
    for (int i = 0; i < scan->n_used; i++) {
        if (scan->pairs[i].loaded) continue;
        ++*n_todo;
        for (int w = 0; w < 2; w++) {
            int n = scan->pairs[i].said->wording[w].n_tokens;
            if (n > longest) longest = n;
        }
        hsc__scan_forget(scan, (size_t)i);
    }
    int fit = MOST_TOKENS / (2 * longest);
    b->most_pairs = fit < 1 ? 1 : fit < MOST_PAIRS ? fit : MOST_PAIRS;
    size_t n_ids = 2 * (size_t)b->most_pairs * (size_t)longest;
    b->ids = hsc__calloc(n_ids, sizeof *b->ids);
    if (!b->ids) return hsc__fail_memory(err, n_ids * sizeof *b->ids, "a batch's tokens");
    size_t n_seen = (size_t)most_of_round(b) * 2 * (size_t)scan->n_heads;
    b->seen = hsc__calloc(n_seen, sizeof *b->seen);
    if (!b->seen) return hsc__fail_memory(err, n_seen * sizeof *b->seen, "the weights of a round");
    hsc_session_options session = scan->options.session;
    session.max_tokens = longest;
    session.max_seqs = 2 * b->most_pairs;
    return *n_todo ? hsc__texts_session(&b->session, scan->model, &session, err) : HSC_OK;
}

hsc_status hsc__scan_passes(hsc_scan *scan, hsc_error *err)
{
    batch b = {.scan = scan};
    int n_todo;
    hsc_status status = make_batch(&b, &n_todo, err);
    if (status == HSC_OK && n_todo) status = run_all(&b, n_todo, err);
    hsc_session_free(b.session);
    hsc__free(b.ids);
    hsc__free(b.rows);
    hsc__free(b.seen);
    return status;
}
