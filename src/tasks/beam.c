/*
 * Beam search as transformers' generate(num_beams=n) does it, greedy among beams. In each step the beams' continuations
 * compete; the best (1 + number of end tokens, at least 2) x n_beams are looked at, so that n_beams of them run on even
 * if the others end. Finished texts are scored log-probability / length^length_penalty. Beams are the session's
 * sequences 0 to n_beams - 1; the n_beams behind them are where a beam waits while beams change places.
 */
#include "base/alloc.h"
#include "headscope/tasks.h"
#include "model/session.h"
#include "tasks/rules.h"

#include <math.h>
#include <string.h>

enum { MAX_BEAMS = 64, MAX_ENDS = 16 };

/* What a score that cannot win is lowered by; transformers' own number, because it is added and not set. */
#define BARRED (-1.0e9F)

typedef struct beam {
    hsc_token *ids; /* [limit], prompt included */
    float score;
} beam;

typedef struct choice {
    float score;
    int parent;
    hsc_token id;
    bool ended; /* it cannot run on: an end token, or the last place */
} choice;

typedef struct search {
    hsc_session *session;
    const hsc_beam_options *o;
    hsc_token *ids; /* all beams' ids in one allocation */
    beam run[MAX_BEAMS], next[MAX_BEAMS];
    beam done[MAX_BEAMS], merged[MAX_BEAMS];
    int done_length[MAX_BEAMS], merged_length[MAX_BEAMS];
    bool is_done[MAX_BEAMS], merged_is_done[MAX_BEAMS];
    choice *choices; /* [n_choices], best first */
    int n_choices;
    int n_prompt, length, limit;
    int n_vocab, n_known; /* logits, all of which share a probability of 1, and those that have a token */
    bool can_improve, exhausted;
    float *logits; /* [n_vocab] */
} search;

/* ----------------------------------------------------------------------------------------------- continuations ---- */

/* Puts a continuation where it belongs among the best. Equal scores keep the earlier one first. */
static void offer(search *s, int *n, const choice *c)
{
    if (*n == s->n_choices && c->score <= s->choices[*n - 1].score) return;
    int at = *n < s->n_choices ? (*n)++ : *n - 1;
    for (; at > 0 && s->choices[at - 1].score < c->score; at--) s->choices[at] = s->choices[at - 1];
    s->choices[at] = *c;
}

static bool ends(const search *s, hsc_token id)
{
    for (int i = 0; i < s->o->n_end_tokens; i++)
        if (s->o->end_tokens[i] == id) return true;
    return s->length + 1 >= s->limit;
}

/* What may not follow beam b; at the last place, all but what must stand there. */
static void rule_out(search *s, int b)
{
    const hsc_beam_options *o = s->o;
    size_t n_before = (size_t)(s->n_prompt - o->n_written);
    hsc__rules rules = {o->barred,   o->end_tokens, o->n_barred, o->n_end_tokens, n_before + (size_t)o->min_tokens,
                        o->no_repeat};
    hsc__rule_out(&rules, s->run[b].ids, (size_t)s->length, s->logits, s->n_vocab);
    if (!s->o->last || !s->o->max_tokens || s->length + 1 < s->limit) return;
    for (int i = 0; i < s->n_vocab; i++) s->logits[i] = -INFINITY;
    if (*s->o->last >= 0 && *s->o->last < s->n_vocab) s->logits[*s->o->last] = 0;
}

/* log softmax of row [n_vocab] into s->logits, which may be the same. */
static void log_softmax(search *s, const float *row)
{
    float top = row[0];
    double sum = 0;
    for (int i = 1; i < s->n_vocab; i++) top = row[i] > top ? row[i] : top;
    if (top == -INFINITY) top = 0; /* nothing is possible, and stays so */
    for (int i = 0; i < s->n_vocab; i++) sum += exp((double)row[i] - (double)top);
    double shift = (double)top + log(sum);
    for (int i = 0; i < s->n_vocab; i++) s->logits[i] = row[i] == -INFINITY ? row[i] : (float)((double)row[i] - shift);
}

/* log softmax, then the penalties, as transformers has them in this order. */
static hsc_status weigh(search *s, int b, const float *row, int *n, hsc_error *err)
{
    log_softmax(s, row);
    HSC_TRY(hsc_filter_logits(&s->o->sampling, s->run[b].ids, (size_t)s->length, (size_t)s->n_prompt, s->logits,
                              s->n_vocab, err));
    rule_out(s, b);
    if (s->o->renormalise) log_softmax(s, s->logits);
    for (int i = 0; i < s->n_known; i++)
        offer(s, n, &(choice){.score = s->logits[i] + s->run[b].score, .parent = b, .id = i});
    return HSC_OK;
}

static hsc_status find_choices(search *s, hsc_error *err)
{
    hsc_view view;
    int n = 0;
    HSC_TRY(hsc_session_logits(s->session, &view, err));
    for (int b = 0; b < s->o->n_beams; b++) {
        const float *row = view.data + (view.shape[0] > 1 ? (size_t)b * (size_t)view.shape[1] : 0);
        HSC_TRY(weigh(s, b, row, &n, err));
    }
    s->n_choices = n;
    s->exhausted = true;
    for (int i = 0; i < n; i++) {
        s->choices[i].ended = ends(s, s->choices[i].id);
        s->exhausted = s->exhausted && s->choices[i].ended;
    }
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------ finished texts ----
 */

static void write_ids(const search *s, hsc_token *to, const choice *c)
{
    memcpy(to, s->run[c->parent].ids, (size_t)s->length * sizeof *to);
    to[s->length] = c->id;
}

static bool all_done(const search *s)
{
    for (int b = 0; b < s->o->n_beams; b++)
        if (!s->is_done[b]) return false;
    return true;
}

/* What a continuation is worth as a finished text: nothing unless it has ended. */
static float finished_score(const search *s, const choice *c)
{
    float score = c->score / powf((float)(s->length + 1 - s->n_prompt + s->o->n_written), s->o->length_penalty);
    return c->ended ? score : score + BARRED;
}

/* Merges the finished texts with what has ended in this step, among its best n_beams, and keeps the best n_beams of
 * both.
 */
static void update_done(search *s)
{
    int n_beams = s->o->n_beams, from_done = 0, from_new = 0;
    int order[2 * MAX_BEAMS];
    float scores[2 * MAX_BEAMS];
    for (int i = 0; i < n_beams && i < s->n_choices; i++) {
        float score = finished_score(s, &s->choices[i]);
        int at = from_new++;
        for (; at > 0 && scores[at - 1] < score; at--) {
            scores[at] = scores[at - 1];
            order[at] = order[at - 1];
        }
        scores[at] = score;
        order[at] = i;
    }
    for (int b = 0, taken = 0; b < n_beams; b++) {
        beam *to = &s->merged[b];
        if (taken == from_new || s->done[from_done].score >= scores[taken]) {
            int length = s->done_length[from_done];
            memcpy(to->ids, s->done[from_done].ids, (size_t)length * sizeof *to->ids);
            to->score = s->done[from_done].score;
            s->merged_length[b] = length;
            s->merged_is_done[b] = s->is_done[from_done++];
        } else {
            write_ids(s, to->ids, &s->choices[order[taken]]);
            to->score = scores[taken];
            s->merged_length[b] = s->length + 1;
            s->merged_is_done[b] = s->choices[order[taken++]].ended;
        }
    }
    for (int b = 0; b < n_beams; b++) {
        beam swapped = s->done[b];
        s->done[b] = s->merged[b];
        s->merged[b] = swapped;
        s->done_length[b] = s->merged_length[b];
        s->is_done[b] = s->merged_is_done[b];
    }
}

/* ------------------------------------------------------------------------------------------------ running beams ----
 */

/* The best n_beams continuations that have not ended; parent[b] is the beam that b goes on from. */
static void choose_running(search *s, int *parent)
{
    int n = 0;
    for (int pass = 0; pass < 2; pass++) { /* ended ones only where all have ended: they fill places, none goes on */
        for (int i = 0; i < s->n_choices && n < s->o->n_beams; i++) {
            const choice *c = &s->choices[i];
            if (c->ended != (pass == 1)) continue;
            write_ids(s, s->next[n].ids, c);
            s->next[n].score = c->score;
            parent[n++] = c->parent;
        }
    }
    for (int b = 0; b < s->o->n_beams; b++) {
        beam swapped = s->run[b];
        s->run[b] = s->next[b];
        s->next[b] = swapped;
    }
}

/* Moves the beams' caches to where the beams are now. Forks share whole tiles, so little is copied. */
static hsc_status reorder(search *s, const int *parent, hsc_error *err)
{
    int n = s->o->n_beams;
    for (int b = 0; b < n; b++)
        if (parent[b] != b) HSC_TRY(hsc_session_fork(s->session, parent[b], n + b, s->length, err));
    for (int b = 0; b < n; b++) {
        if (parent[b] == b) continue;
        HSC_TRY(hsc_session_fork(s->session, n + b, b, s->length, err));
        HSC_TRY(hsc_session_truncate(s->session, n + b, 0, err));
    }
    return HSC_OK;
}

/* Whether a running beam may still become better than the worst finished text. */
static void judge_improvement(search *s)
{
    bool to_the_end = s->o->stop == HSC_STOP_NEVER && s->o->length_penalty > 0;
    int length = (to_the_end ? s->limit : s->length) - s->n_prompt + s->o->n_written;
    float best = s->run[0].score / powf((float)length, s->o->length_penalty), worst = INFINITY;
    for (int b = 0; b < s->o->n_beams; b++) worst = s->done[b].score < worst ? s->done[b].score : worst;
    s->can_improve = best > worst; /* a place that no finished text has taken is BARRED */
}

static hsc_status run_beams(search *s, hsc_error *err)
{
    hsc_token ids[MAX_BEAMS];
    int lengths[MAX_BEAMS];
    for (int b = 0; b < s->o->n_beams; b++) {
        ids[b] = s->run[b].ids[s->length - 1];
        lengths[b] = 1;
    }
    hsc_batch batch = {.ids = ids, .n_tokens = s->o->n_beams, .seq_lengths = lengths, .n_seqs = s->o->n_beams};
    return hsc_forward(s->session, &batch, err);
}

/* ------------------------------------------------------------------------------------------------------ search ---- */

static hsc_status read_prompt(search *s, hsc_error *err)
{
    hsc_batch batch = {.ids = s->run[0].ids, .n_tokens = s->n_prompt};
    hsc_session_reset(s->session);
    HSC_TRY(hsc_forward(s->session, &batch, err));
    for (int b = 1; b < s->o->n_beams; b++) HSC_TRY(hsc_session_fork(s->session, 0, b, s->n_prompt, err));
    return HSC_OK;
}

static hsc_status run(search *s, hsc_error *err)
{
    int parent[MAX_BEAMS], n_choices = s->n_choices;
    HSC_TRY(read_prompt(s, err));
    for (int step = 1;; step++) {
        s->n_choices = n_choices;
        HSC_TRY(find_choices(s, err));
        update_done(s);
        choose_running(s, parent);
        bool told = s->o->tell && s->o->tell(s->o->user, step) != 0;
        HSC_TRY(reorder(s, parent, err));
        s->length++;
        judge_improvement(s);
        if (told || !s->can_improve || s->exhausted || (all_done(s) && s->o->stop == HSC_STOP_ENOUGH)) return HSC_OK;
        HSC_TRY(run_beams(s, err));
    }
}

static hsc_status check(const hsc_session *session, const hsc_beam_options *o, int n_prompt, int limit, hsc_error *err)
{
    const hsc_sampling *p = &o->sampling;
    HSC_TRY(hsc_sampling_check(p, err));
    HSC_FAIL_IF(!session->desc->config.causal, HSC_EINVAL, "%s is not causal: it cannot write on",
                session->desc->config.name);
    HSC_FAIL_IF(p->temperature != 0 || p->top_k || p->top_p != 0 || p->min_p != 0 || p->typical_p != 0, HSC_EINVAL,
                "a beam search does not draw: temperature and filters must be 0");
    HSC_FAIL_IF(o->n_beams < 2 || o->n_beams > MAX_BEAMS, HSC_EINVAL, "n_beams is %d; it goes from 2 to %d", o->n_beams,
                (int)MAX_BEAMS);
    HSC_FAIL_IF(2 * o->n_beams > session->max_seqs, HSC_EINVAL,
                "%d beams need %d sequences, the session has room for %d", o->n_beams, 2 * o->n_beams,
                session->max_seqs);
    HSC_FAIL_IF(o->n_end_tokens < 0 || o->n_end_tokens > MAX_ENDS, HSC_EINVAL, "%d end tokens; 0 to %d are accepted",
                o->n_end_tokens, (int)MAX_ENDS);
    HSC_FAIL_IF(!isfinite(o->length_penalty), HSC_EINVAL, "the length penalty is not finite");
    HSC_FAIL_IF(o->max_tokens < 0, HSC_EINVAL, "max_tokens is %d; it goes from 0 (no limit) up", o->max_tokens);
    HSC_FAIL_IF((unsigned)o->stop > HSC_STOP_NEVER, HSC_EINVAL, "stop is %d; it goes from 0 to %d", (int)o->stop,
                (int)HSC_STOP_NEVER);
    HSC_TRY(hsc__rules_check(o->min_tokens, o->no_repeat, err));
    HSC_FAIL_IF(n_prompt < 1, HSC_EINVAL, "the prompt is empty");
    HSC_FAIL_IF(o->n_written < 0 || o->n_written >= n_prompt || (o->max_tokens && o->max_tokens <= o->n_written),
                HSC_EINVAL, "n_written is %d, of a prompt of %d tokens and at most %d to be written", o->n_written,
                n_prompt, o->max_tokens);
    HSC_FAIL_IF(n_prompt > limit, HSC_EINVAL, "the prompt has %d tokens, the context has room for %d", n_prompt, limit);
    return HSC_OK;
}

/* A text's last token is only written and never read: it may stand one past what the session holds. */
static hsc_status prepare(search *s, const hsc_token *prompt, int limit, hsc_error *err)
{
    int n_beams = s->o->n_beams, n_ends = s->o->n_end_tokens;
    s->limit = limit + 1;
    int most = s->o->max_tokens - s->o->n_written;
    if (s->o->max_tokens && most < s->limit - s->n_prompt) s->limit = s->n_prompt + most;
    s->n_choices = (n_ends > 1 ? 1 + n_ends : 2) * n_beams;
    s->choices = hsc__calloc((size_t)s->n_choices, sizeof *s->choices);
    s->logits = hsc__calloc((size_t)s->n_vocab, sizeof *s->logits);
    s->ids = hsc__calloc((size_t)(4 * n_beams) * (size_t)s->limit, sizeof *s->ids);
    if (!s->choices || !s->logits || !s->ids)
        return hsc__fail_memory(err, (size_t)(4 * n_beams) * (size_t)s->limit * sizeof *s->ids, "a beam search");
    for (int b = 0; b < n_beams; b++) {
        beam *kinds[] = {&s->run[b], &s->next[b], &s->done[b], &s->merged[b]};
        for (int k = 0; k < 4; k++) kinds[k]->ids = s->ids + ((size_t)(4 * b + k)) * (size_t)s->limit;
        memcpy(s->run[b].ids, prompt, (size_t)s->n_prompt * sizeof *prompt);
        s->run[b].score = b == 0 ? 0 : BARRED;
        s->done[b].score = BARRED;
        s->done_length[b] = s->n_prompt;
    }
    s->length = s->n_prompt;
    s->can_improve = true;
    return HSC_OK;
}

/* Finished texts first; where the search was ended early, running ones fill up. */
static hsc_status hand_out(const search *s, hsc_beam *out, int *n_out, hsc_error *err)
{
    bool any = false;
    for (int b = 0; b < s->o->n_beams; b++) any = any || s->is_done[b];
    for (int b = 0; b < s->o->n_beams; b++) {
        if (any && !s->is_done[b]) continue;
        const beam *from = any ? &s->done[b] : &s->run[b];
        int n = (any ? s->done_length[b] : s->length) - s->n_prompt;
        hsc_beam *to = &out[*n_out];
        *to = (hsc_beam){.ids = hsc__calloc((size_t)n + 1, sizeof *to->ids), .n = n, .score = from->score};
        if (!to->ids) return hsc__fail_memory(err, (size_t)n * sizeof *to->ids, "the texts of a beam search");
        memcpy(to->ids, from->ids + s->n_prompt, (size_t)n * sizeof *to->ids);
        (*n_out)++;
        to->finish = !any                                      ? HSC_FINISH_CALLER
                     : n == s->o->max_tokens - s->o->n_written ? HSC_FINISH_LENGTH
                                                               : HSC_FINISH_CONTEXT;
        for (int i = 0; any && i < s->o->n_end_tokens; i++)
            if (to->ids[n - 1] == s->o->end_tokens[i]) to->finish = HSC_FINISH_END;
    }
    return HSC_OK;
}

hsc_status hsc_beam_search(hsc_session *session, const hsc_token *prompt, int n_prompt, const hsc_beam_options *options,
                           hsc_beam *out, int *n_out, hsc_error *err)
{
    const hsc_config *config = &session->desc->config;
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(session->model, NULL);
    int limit = session->max_tokens < config->n_ctx ? session->max_tokens : config->n_ctx;
    *n_out = 0;
    hsc__error_clear(err);
    HSC_TRY(check(session, options, n_prompt, limit, err));
    search *s = hsc__calloc(1, sizeof *s);
    if (!s) return hsc__fail_memory(err, sizeof *s, "a beam search");
    s->session = session;
    s->o = options;
    s->n_prompt = n_prompt;
    s->n_vocab = s->n_known = config->d_vocab;
    if (tokenizer && hsc_tokenizer_size(tokenizer) < (size_t)s->n_vocab)
        s->n_known = (int)hsc_tokenizer_size(tokenizer);
    hsc_status status = prepare(s, prompt, limit, err);
    if (status == HSC_OK) status = run(s, err);
    if (status == HSC_OK) status = hand_out(s, out, n_out, err);
    if (status != HSC_OK) {
        hsc_beams_free(out, *n_out);
        *n_out = 0;
    }
    hsc__free(s->choices);
    hsc__free(s->logits);
    hsc__free(s->ids);
    hsc__free(s);
    return status;
}

void hsc_beams_free(hsc_beam *beams, int n)
{
    for (int i = 0; i < n; i++) {
        hsc__free(beams[i].ids);
        beams[i] = (hsc_beam){0};
    }
}
