/*
 * How likely text is. A long text is read in overlapping windows, as the perplexity guide of transformers does it: each
 * token is scored once, in the first window that holds it. Logits are made for a few rows at a time, so that their
 * memory does not grow with the text.
 */
#include "base/alloc.h"
#include "base/parallel.h"
#include "headscope/tasks.h"
#include "model/session.h"

#include <string.h>

enum { ROWS = 64, GROUP_ROWS = 256 };

/* Rows of logits, and the token that follows each. */
typedef struct rows {
    const float *logits;
    int n_vocab;
    const hsc_token *next;
    double *out;
} rows;

static void score_row(void *context, size_t row, int worker)
{
    const rows *r = context;
    (void)worker;
    r->out[row] = hsc_log_prob(r->logits + row * (size_t)r->n_vocab, r->n_vocab, r->next[row]);
}

static void score_rows(const hsc_session *s, const rows *r, size_t n)
{
    hsc__parallel_for(hsc_session_n_threads(s), n, score_row, (void *)(uintptr_t)r);
}

static int room(const hsc_session *s)
{
    int n_ctx = s->desc->config.n_ctx;
    return s->max_tokens < n_ctx ? s->max_tokens : n_ctx;
}

static hsc_status check_causal(const hsc_session *s, hsc_error *err)
{
    HSC_FAIL_IF(!s->desc->config.causal, HSC_EINVAL, "%s is not causal: its tokens see what comes after them",
                s->desc->config.name);
    return HSC_OK;
}

/* Feeds ids[from..to) and scores what follows each; log_probs belongs to the whole text. */
static hsc_status score_part(hsc_session *s, const hsc_token *ids, int from, int to, double *log_probs, hsc_error *err)
{
    hsc_view view;
    for (int at = from; at < to; at += ROWS) {
        int n = to - at < ROWS ? to - at : ROWS;
        hsc_batch batch = {.ids = ids + at, .n_tokens = n, .logits = HSC_LOGITS_ALL};
        HSC_TRY(hsc_forward(s, &batch, err));
        HSC_TRY(hsc_session_logits(s, &view, err));
        score_rows(s, &(rows){view.data, (int)view.shape[1], ids + at + 1, log_probs + at + 1}, (size_t)n);
    }
    return HSC_OK;
}

hsc_status hsc_score(hsc_session *s, const hsc_token *ids, int n, const hsc_score_options *options, double *log_probs,
                     hsc_error *err)
{
    static const hsc_score_options defaults;
    const hsc_score_options *o = options ? options : &defaults;
    int window = o->window ? o->window : room(s), stride = o->stride ? o->stride : (window + 1) / 2;
    hsc__error_clear(err);
    HSC_TRY(check_causal(s, err));
    HSC_FAIL_IF(n < 1, HSC_EINVAL, "the text is empty");
    HSC_FAIL_IF(window < 2 || window > room(s), HSC_EINVAL, "the window is %d tokens; it goes from 2 to %d", window,
                room(s));
    HSC_FAIL_IF(stride < 1 || stride >= window, HSC_EINVAL, "the stride is %d tokens; it goes from 1 to %d", stride,
                window - 1);
    HSC_TRY(hsc__session_check_ids(s, ids, n, err)); /* the last one is never read, and its logit is */
    log_probs[0] = 0;
    for (int begin = 0, scored = 1; scored < n; begin += stride) {
        int end = n - begin > window ? begin + window : n, before = scored - 1 - begin;
        HSC_TRY(hsc_session_truncate(s, 0, 0, err));
        hsc_batch batch = {.ids = ids + begin, .n_tokens = before, .logits = HSC_LOGITS_NONE};
        if (before) HSC_TRY(hsc_forward(s, &batch, err));
        HSC_TRY(score_part(s, ids, scored - 1, end - 1, log_probs, err));
        scored = end;
        HSC_FAIL_IF(o->tell && o->tell(o->user, scored, n), HSC_ECANCELED, "stopped after %d of %d tokens", scored, n);
    }
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------- continuations ---- */

/* How many tokens all of list[0..n) begin with, at most the least `first`. */
static int common_beginning(const hsc_continuation *list, int n)
{
    int common = list[0].first;
    for (int i = 1; i < n; i++) {
        int same = 0, most = list[i].first < common ? list[i].first : common;
        while (same < most && list[i].ids[same] == list[0].ids[same]) same++;
        common = same;
    }
    return common;
}

static hsc_status check_list(const hsc_session *s, const hsc_continuation *list, int n, hsc_error *err)
{
    for (int i = 0; i < n; i++) {
        HSC_FAIL_IF(list[i].first < 1 || list[i].first >= list[i].n, HSC_EINVAL,
                    "text %d has %d tokens, of which %d come before: at least one must come before and one after", i,
                    list[i].n, list[i].first);
        HSC_FAIL_IF(list[i].n - 1 > room(s), HSC_EINVAL, "text %d has %d tokens, the context has room for %d", i,
                    list[i].n, room(s) + 1);
        hsc_status status = hsc__session_check_ids(s, list[i].ids, list[i].n, err); /* of the last one too */
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "text %d", i);
    }
    return HSC_OK;
}

/* Reads what the group has in common, but for its last token, and shares it. Returns how many tokens that were. What an
 * encoder-decoder's sequences have in common is their source, too. */
static hsc_status share_beginning(hsc_session *s, const hsc_continuation *list, int n, int *shared, hsc_error *err)
{
    int common = common_beginning(list, n) - 1;
    *shared = common > 0 ? common : 0;
    hsc_session_reset(s);
    if (!*shared && !s->encoder) return HSC_OK;
    hsc_batch batch = {.ids = list[0].ids, .n_tokens = *shared, .logits = HSC_LOGITS_NONE};
    if (*shared) HSC_TRY(hsc_forward(s, &batch, err));
    for (int i = 1; i < n; i++) HSC_TRY(hsc_session_fork(s, 0, i, *shared, err));
    return HSC_OK;
}

/* One packed pass over the rest of each text. ids [total] and next [total] are scratch, lengths [n]. */
static hsc_status score_rests(hsc_session *s, hsc_continuation *list, int n, int shared, hsc_token *ids, int *lengths,
                              double *scores, hsc_error *err)
{
    hsc_view view;
    int total = 0;
    for (int i = 0; i < n; i++) total += lengths[i] = list[i].n - 1 - shared;
    hsc_token *next = ids + total;
    for (int i = 0, at = 0; i < n; at += lengths[i++]) {
        memcpy(ids + at, list[i].ids + shared, (size_t)lengths[i] * sizeof *ids);
        memcpy(next + at, list[i].ids + shared + 1, (size_t)lengths[i] * sizeof *ids);
    }
    hsc_batch batch = {.ids = ids, .n_tokens = total, .seq_lengths = lengths, .n_seqs = n, .logits = HSC_LOGITS_ALL};
    HSC_TRY(hsc_forward(s, &batch, err));
    HSC_TRY(hsc_session_logits(s, &view, err));
    score_rows(s, &(rows){view.data, (int)view.shape[1], next, scores}, (size_t)total);
    for (int i = 0, at = 0; i < n; at += lengths[i++]) {
        list[i].log_prob = 0;
        for (int p = list[i].first; p < list[i].n; p++) list[i].log_prob += scores[at + p - 1 - shared];
    }
    return HSC_OK;
}

static hsc_status score_group(hsc_session *s, hsc_continuation *list, int n, hsc_error *err)
{
    int shared, total = 0;
    HSC_TRY(share_beginning(s, list, n, &shared, err));
    for (int i = 0; i < n; i++) total += list[i].n - 1 - shared;
    hsc_token *ids = hsc__calloc(2 * (size_t)total, sizeof *ids);
    int *lengths = hsc__calloc((size_t)n, sizeof *lengths);
    double *scores = hsc__calloc((size_t)total, sizeof *scores);
    hsc_status status = HSC_OK;
    if (!ids || !lengths || !scores) status = hsc__fail_memory(err, (size_t)total * sizeof *scores, "the scores");
    if (status == HSC_OK) status = score_rests(s, list, n, shared, ids, lengths, scores, err);
    hsc__free(ids);
    hsc__free(lengths);
    hsc__free(scores);
    return status;
}

hsc_status hsc_score_continuations(hsc_session *s, hsc_continuation *list, int n_list, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_TRY(check_causal(s, err));
    HSC_TRY(check_list(s, list, n_list, err));
    for (int at = 0; at < n_list;) {
        int n = 0, n_rows = 0;
        while (at + n < n_list && n < s->max_seqs && (n == 0 || n_rows + list[at + n].n <= GROUP_ROWS))
            n_rows += list[at + n++].n;
        HSC_TRY(score_group(s, list + at, n, err));
        at += n;
    }
    return HSC_OK;
}
