/*
 * The logit lens. One pass keeps the residual stream before every layer and after the last; a second kind of pass,
 * begun at the final norm, reads it: a batch has all stages of a few positions, a row each, so that the output matrix
 * is read once for many of them.
 */
#include "base/alloc.h"
#include "base/parallel.h"
#include "base/status.h"
#include "inspect/circuit.h"

#include <math.h>
#include <string.h>

enum { TARGET_ROWS = 128 };

/* What both passes share. */
typedef struct run {
    const hsc_model *model;
    const hsc_config *config;
    const hsc_token *ids;
    const hsc_lens_options *options;
    hsc_lens *lens;
    int n_tokens, n_threads;
    float *stream; /* [n_stages][n_pos][d_model] */
    /* A batch: logits [n_pos][n_stages][d_vocab] of positions from `pos` on. */
    const float *logits;
    int pos;
} run;

/* ------------------------------------------------------------------------------------------- the stream itself ---- */

static int keep_rows(void *user, const hsc_block *block)
{
    run *r = user;
    size_t d = (size_t)r->config->d_model;
    int stage = block->layer + (block->site != HSC_RESID_PRE);
    for (int i = 0; i < block->n_rows; i++) {
        int pos = block->first_row + i - r->lens->first_pos;
        if (pos < 0) continue;
        memcpy(r->stream + ((size_t)stage * (size_t)r->lens->n_pos + (size_t)pos) * d,
               block->data + (size_t)i * block->stride, d * sizeof *r->stream);
    }
    return 0;
}

static hsc_status observe_and_run(run *r, hsc_session *session, hsc_error *err)
{
    hsc_observer before = {HSC_RESID_PRE, -1, keep_rows, r};
    hsc_observer after = {r->model->desc.post_norm ? HSC_LN2 : HSC_RESID_POST, r->config->n_layers - 1, keep_rows, r};
    hsc_batch batch = {.ids = r->ids, .n_tokens = r->n_tokens, .logits = HSC_LOGITS_NONE};
    HSC_TRY(hsc_session_observe(session, &before, err));
    HSC_TRY(hsc_session_observe(session, &after, err));
    hsc_batch source = {.ids = r->options->source, .n_tokens = r->options->n_source};
    if (source.n_tokens) HSC_TRY(hsc_session_read_source(session, &source, err));
    return hsc_forward(session, &batch, err);
}

static hsc_status run_text(run *r, hsc_error *err)
{
    hsc_session *session = NULL;
    hsc_session_options o = {.n_threads = r->options->n_threads,
                             .max_tokens = r->n_tokens,
                             .compute = r->options->compute,
                             .max_source = r->options->n_source};
    HSC_TRY(hsc_session_new(&session, r->model, &o, err));
    hsc_status status = observe_and_run(r, session, err);
    r->n_threads = hsc_session_n_threads(session);
    hsc_session_free(session);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- figures ---- */

static double log_sum(const float *x, int n)
{
    float most = x[0];
    double sum = 0;
    for (int i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int i = 0; i < n; i++) sum += (double)expf(x[i] - most);
    return log(sum) + (double)most;
}

/* sum p ln(p / q), p and q being the softmax of two rows of logits; NaN where one of them has no sum. */
static double divergence(const float *p, double p_sum, const float *q, double q_sum, int n)
{
    double sum = 0;
    if (!isfinite(p_sum) || !isfinite(q_sum)) return NAN;
    for (int i = 0; i < n; i++) {
        double log_p = (double)p[i] - p_sum;
        if (log_p > -80) sum += (double)expf((float)log_p) * (log_p - ((double)q[i] - q_sum));
    }
    return sum < 0 ? 0 : sum;
}

static int rank_of(const float *x, int n, hsc_token word)
{
    int rank = 0;
    for (int i = 0; i < n; i++) rank += x[i] > x[word] || (x[i] == x[word] && i < word);
    return rank;
}

/* Index of a stage and position in the arrays, and its row of logits. */
static size_t place(const run *r, size_t task, const float **row, const float **last)
{
    size_t n = (size_t)r->lens->n_stages, v = (size_t)r->config->d_vocab, stage = task % n;
    *row = r->logits + task * v;
    *last = *row + (n - 1 - stage) * v;
    return stage * (size_t)r->lens->n_pos + (size_t)r->pos + task / n;
}

/* All figures of one stage and position that do not need the last stage's. */
static void read_row(void *context, size_t task, int worker)
{
    (void)worker;
    const run *r = context;
    hsc_lens *l = r->lens;
    const float *row, *last;
    size_t at = place(r, task, &row, &last), k = (size_t)l->top_k, words = (size_t)l->n_words;
    int v = r->config->d_vocab, next = l->first_pos + r->pos + (int)(task / (size_t)l->n_stages) + 1;
    l->log_sums[at] = log_sum(row, v);
    l->losses[at] = NAN;
    if (r->config->causal && next < r->n_tokens) l->losses[at] = l->log_sums[at] - (double)row[r->ids[next]];
    hsc__keep_top(row, v, l->top_k, false, l->top + at * k, l->top_logits + at * k);
    for (size_t i = 0; i < words; i++) {
        l->word_logits[at * words + i] = row[r->options->words[i]];
        l->word_ranks[at * words + i] = rank_of(row, v, r->options->words[i]);
    }
}

static void compare_row(void *context, size_t task, int worker)
{
    (void)worker;
    const run *r = context;
    hsc_lens *l = r->lens;
    const float *row, *last;
    size_t at = place(r, task, &row, &last);
    size_t end = (size_t)(l->n_stages - 1) * (size_t)l->n_pos + at % (size_t)l->n_pos;
    hsc_token answer = l->top[end * (size_t)l->top_k];
    l->kl[at] = row == last ? 0 : divergence(last, l->log_sums[end], row, l->log_sums[at], r->config->d_vocab);
    l->answer_logits[at] = row[answer];
}

/* ---------------------------------------------------------------------------------------------------- batches ---- */

/* What a batch of n positions is made of. */
typedef struct buffers {
    hsc_session *session;
    float *resid;   /* [n_pos][n_stages][d_model] */
    hsc_token *ids; /* [n_pos * n_stages] */
    int *lengths;   /* all 1 */
} buffers;

static hsc_status run_batch(run *r, buffers *b, int n_pos, hsc_error *err)
{
    size_t d = (size_t)r->config->d_model;
    int n_stages = r->lens->n_stages, n_rows = n_pos * n_stages;
    hsc_view view;
    for (int i = 0; i < n_rows; i++) {
        int pos = r->pos + i / n_stages, stage = i % n_stages;
        const float *from = r->stream + ((size_t)stage * (size_t)r->lens->n_pos + (size_t)pos) * d;
        memcpy(b->resid + (size_t)i * d, from, d * sizeof *from);
        b->ids[i] = r->ids[r->lens->first_pos + pos];
        b->lengths[i] = 1;
    }
    hsc_batch batch = {.ids = b->ids,
                       .n_tokens = n_rows,
                       .seq_lengths = b->lengths,
                       .n_seqs = n_rows,
                       .logits = HSC_LOGITS_ALL,
                       .resid = b->resid,
                       .first_layer = r->config->n_layers};
    hsc_session_reset(b->session);
    HSC_TRY(hsc_forward(b->session, &batch, err));
    HSC_TRY(hsc_session_logits(b->session, &view, err));
    r->logits = view.data;
    hsc__parallel_for(r->n_threads, (size_t)n_rows, read_row, r);
    hsc__parallel_for(r->n_threads, (size_t)n_rows, compare_row, r);
    return HSC_OK;
}

static hsc_status read_stream(run *r, hsc_error *err)
{
    int n_stages = r->lens->n_stages, step = TARGET_ROWS / n_stages;
    if (step < 1) step = 1;
    if (step > r->lens->n_pos) step = r->lens->n_pos;
    size_t n_rows = (size_t)step * (size_t)n_stages;
    buffers b = {0};
    hsc_session_options o = {.n_threads = r->options->n_threads,
                             .max_tokens = 1,
                             .max_seqs = (int)n_rows,
                             .compute = r->options->compute,
                             .max_source = r->options->n_source ? 1 : 0}; /* no layer runs, none is read */
    hsc_status status = hsc_session_new(&b.session, r->model, &o, err);
    b.resid = hsc__malloc(n_rows * (size_t)r->config->d_model * sizeof *b.resid);
    b.ids = hsc__calloc(n_rows, sizeof *b.ids);
    b.lengths = hsc__calloc(n_rows, sizeof *b.lengths);
    if (status == HSC_OK && (!b.resid || !b.ids || !b.lengths))
        status = hsc__fail_memory(err, n_rows * (size_t)r->config->d_model * sizeof *b.resid, "a batch of the lens");
    for (r->pos = 0; r->pos < r->lens->n_pos && status == HSC_OK; r->pos += step) {
        int left = r->lens->n_pos - r->pos;
        status = run_batch(r, &b, left < step ? left : step, err);
    }
    hsc_session_free(b.session);
    hsc__free(b.resid);
    hsc__free(b.ids);
    hsc__free(b.lengths);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- lens ---- */

void hsc_lens_free(hsc_lens *lens)
{
    if (!lens) return;
    hsc__free(lens->top);
    hsc__free(lens->top_logits);
    hsc__free(lens->log_sums);
    hsc__free(lens->kl);
    hsc__free(lens->losses);
    hsc__free(lens->answer_logits);
    hsc__free(lens->word_logits);
    hsc__free(lens->word_ranks);
    *lens = (hsc_lens){0};
}

static hsc_status check(const hsc_model *model, int n_tokens, const hsc_lens_options *o, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    HSC_FAIL_IF(!hsc_model_has_site(model, HSC_LOGITS), HSC_EUNSUPPORTED,
                "a model of architecture %s without an output matrix has no words to show", c->arch);
    HSC_FAIL_IF(o->top_k < 0 || o->top_k > HSC_LENS_MAX_TOP, HSC_EINVAL, "top_k is %d, 0 to %d are accepted", o->top_k,
                (int)HSC_LENS_MAX_TOP);
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > c->n_ctx, HSC_EINVAL, "the text has %d tokens, 1 to %d are accepted",
                n_tokens, c->n_ctx);
    HSC_FAIL_IF(o->n_source < 0 || (o->n_source > 0) != (hsc_model_encoder(model) != NULL), HSC_EINVAL,
                hsc_model_encoder(model) ? "%s is an encoder-decoder: its text is about a source of %d tokens"
                                         : "%s has no encoder: it reads no source of %d tokens",
                c->name, o->n_source);
    HSC_FAIL_IF(o->first_pos < 0 || o->first_pos >= n_tokens, HSC_EINVAL,
                "position %d does not exist, the text has %d tokens", o->first_pos, n_tokens);
    for (int i = 0; i < o->n_words; i++)
        HSC_FAIL_IF(o->words[i] < 0 || o->words[i] >= c->d_vocab, HSC_EINVAL,
                    "word %d is token %d, outside the vocabulary of %d", i, (int)o->words[i], c->d_vocab);
    return HSC_OK;
}

static hsc_status make_arrays(run *r, hsc_error *err)
{
    hsc_lens *l = r->lens;
    size_t n = (size_t)l->n_stages * (size_t)l->n_pos, k = (size_t)l->top_k, words = (size_t)l->n_words;
    size_t floats = n * (size_t)r->config->d_model;
    r->stream = hsc__malloc(floats * sizeof *r->stream);
    l->top = hsc__calloc(n * k, sizeof *l->top);
    l->top_logits = hsc__calloc(n * k, sizeof *l->top_logits);
    l->log_sums = hsc__calloc(n, sizeof *l->log_sums);
    l->kl = hsc__calloc(n, sizeof *l->kl);
    l->losses = hsc__calloc(n, sizeof *l->losses);
    l->answer_logits = hsc__calloc(n, sizeof *l->answer_logits);
    l->word_logits = hsc__calloc(n * words + 1, sizeof *l->word_logits);
    l->word_ranks = hsc__calloc(n * words + 1, sizeof *l->word_ranks);
    if (!r->stream || !l->top || !l->top_logits || !l->log_sums || !l->kl || !l->losses || !l->answer_logits ||
        !l->word_logits || !l->word_ranks)
        return hsc__fail_memory(err, floats * sizeof *r->stream, "the residual stream of a text");
    return HSC_OK;
}

hsc_status hsc_lens_run(const hsc_model *model, const hsc_token *ids, int n_tokens, const hsc_lens_options *options,
                        hsc_lens *out, hsc_error *err)
{
    static const hsc_lens_options defaults;
    const hsc_lens_options *o = options ? options : &defaults;
    const hsc_config *c = hsc_model_config(model);
    *out = (hsc_lens){0};
    hsc__error_clear(err);
    HSC_TRY(check(model, n_tokens, o, err));
    run r = {.model = model, .config = c, .ids = ids, .options = o, .lens = out, .n_tokens = n_tokens};
    out->n_stages = c->n_layers + 1;
    out->first_pos = o->first_pos;
    out->n_pos = n_tokens - o->first_pos;
    out->top_k = o->top_k ? o->top_k : 5;
    if (out->top_k > c->d_vocab) out->top_k = c->d_vocab;
    out->n_words = o->n_words;
    hsc_status status = make_arrays(&r, err);
    if (status == HSC_OK) status = run_text(&r, err);
    if (status == HSC_OK) status = read_stream(&r, err);
    hsc__free(r.stream);
    if (status != HSC_OK) hsc_lens_free(out);
    return status;
}
