/*
 * The generator: one prompt, one or more samples, a token a step. Running samples are the session's sequences 0 to
 * n_running - 1, all of one length, so a step is one packed pass; when one ends, the last takes its place.
 */
#include "base/alloc.h"
#include "headscope/tasks.h"
#include "model/session.h"
#include "tasks/reply.h"
#include "tasks/rules.h"

#include <string.h>

typedef struct sample {
    hsc_sample out;
    hsc_token *all; /* prompt and what was generated */
    size_t n_all, capacity;
    hsc_random random;
    hsc__reply reply;
} sample;

struct hsc_generator {
    hsc_session *session;
    const hsc_tokenizer *tokenizer; /* NULL: ids only */
    hsc_generate_options o;
    hsc__arena arena; /* what o points to */
    hsc__stop *stops;
    size_t n_prompt;
    int n_vocab; /* logits that may be chosen: those that have a token */
    int limit;   /* tokens that a sequence may hold */
    int length;  /* tokens that each running sequence holds */
    int kept;    /* the window's first tokens that stay when it slides */
    int dropped; /* tokens that are left out behind them */
    bool started;
    sample *samples; /* [o.n_samples] */
    int *running;    /* [n_running] the sample that is in this sequence */
    int n_running;
    float *logits; /* [n_vocab] */
    hsc_token *feed;
    size_t feed_capacity;
    int *lengths; /* [o.n_samples] */
};

const char *hsc_finish_name(hsc_finish finish)
{
    static const char *const names[] = {
#define FINISH_NAME(id, name) name,
        HSC_FINISH_LIST(FINISH_NAME)
#undef FINISH_NAME
    };
    return (unsigned)finish < HSC_N_FINISHES ? names[finish] : NULL;
}

/* -------------------------------------------------------------------------------------------------- the making ---- */

static hsc_status check(const hsc_session *s, const hsc_token *prompt, int n_prompt, const hsc_generate_options *o,
                        int limit, hsc_error *err)
{
    int n_samples = o->n_samples ? o->n_samples : 1;
    HSC_TRY(hsc_sampling_check(&o->sampling, err));
    HSC_FAIL_IF(!s->desc->config.causal, HSC_EINVAL, "%s is not causal: it cannot write on", s->desc->config.name);
    HSC_FAIL_IF(n_prompt < 1 || !prompt, HSC_EINVAL, "the prompt is empty");
    HSC_FAIL_IF(n_prompt > limit, HSC_EINVAL, "the prompt has %d tokens, the context has room for %d", n_prompt, limit);
    HSC_FAIL_IF(n_samples < 1 || n_samples > s->max_seqs, HSC_EINVAL,
                "%d samples were asked for, the session has room for %d sequences", n_samples, s->max_seqs);
    HSC_FAIL_IF(o->max_tokens < 0, HSC_EINVAL, "max_tokens is %d; it goes from 0 (no limit) up", o->max_tokens);
    HSC_FAIL_IF(o->last && (*o->last < 0 || *o->last >= s->desc->config.d_vocab), HSC_EINVAL,
                "last is %d, the vocabulary has %d tokens", (int)*o->last, s->desc->config.d_vocab);
    HSC_TRY(hsc__rules_check(o->min_tokens, o->no_repeat, err));
    HSC_FAIL_IF(o->keep < 0, HSC_EINVAL, "keep is %d; it goes from 0 up", o->keep);
    HSC_FAIL_IF(o->n_cached < 0 || o->n_cached > hsc_session_length(s, 0), HSC_EINVAL,
                "n_cached is %d, the session holds %d tokens", o->n_cached, hsc_session_length(s, 0));
    for (int i = 0; i < o->n_stops; i++)
        HSC_FAIL_IF(!o->stops[i] || !o->stops[i][0], HSC_EINVAL, "stop string %d is empty", i);
    return HSC_OK;
}

static void *copy(hsc_generator *g, const void *from, int count, size_t size)
{
    void *to = count > 0 ? hsc__arena_alloc(&g->arena, (size_t)count * size) : NULL;
    if (to) memcpy(to, from, (size_t)count * size);
    return to;
}

static bool copy_options(hsc_generator *g, const hsc_generate_options *o)
{
    g->o = *o;
    g->o.n_samples = o->n_samples ? o->n_samples : 1;
    g->o.end_tokens = copy(g, o->end_tokens, o->n_end_tokens, sizeof *o->end_tokens);
    g->o.records = copy(g, o->records, o->n_records, sizeof *o->records);
    g->o.barred = copy(g, o->barred, o->n_barred, sizeof *o->barred);
    g->o.last = copy(g, o->last, o->last != NULL, sizeof *o->last);
    g->stops = hsc__arena_alloc(&g->arena, (size_t)(o->n_stops + 1) * sizeof *g->stops);
    bool ok = g->stops && (!o->n_end_tokens || g->o.end_tokens) && (!o->n_records || g->o.records) &&
              (!o->n_barred || g->o.barred) && (!o->last || g->o.last);
    for (int i = 0; ok && i < o->n_stops; i++) {
        size_t n = strlen(o->stops[i]);
        g->stops[i] = (hsc__stop){hsc__arena_strndup(&g->arena, o->stops[i], n), n};
        ok = g->stops[i].text != NULL;
    }
    return ok;
}

static hsc_status begin_sample(hsc_generator *g, int index, const hsc_token *prompt, hsc_error *err)
{
    sample *s = &g->samples[index];
    HSC_TRY(hsc__grow(&s->all, &s->capacity, g->n_prompt + 1, sizeof *s->all, err));
    memcpy(s->all, prompt, g->n_prompt * sizeof *prompt);
    s->n_all = g->n_prompt;
    hsc_random_seed(&s->random, g->o.seed + (uint64_t)index);
    s->reply = (hsc__reply){.tokenizer = g->tokenizer, .stops = g->stops, .n_stops = (size_t)g->o.n_stops};
    return hsc__reply_begin(&s->reply, prompt[g->n_prompt - 1], err);
}

static hsc_status build(hsc_generator *g, const hsc_token *prompt, const hsc_generate_options *o, hsc_error *err)
{
    if (!copy_options(g, o)) return hsc__fail_memory(err, sizeof *g, "a generator's options");
    size_t n = (size_t)g->o.n_samples;
    g->samples = hsc__calloc(n, sizeof *g->samples);
    g->running = hsc__calloc(n, sizeof *g->running);
    g->lengths = hsc__calloc(n, sizeof *g->lengths);
    g->logits = hsc__calloc((size_t)g->n_vocab, sizeof *g->logits);
    if (!g->samples || !g->running || !g->lengths || !g->logits)
        return hsc__fail_memory(err, (size_t)g->n_vocab * sizeof *g->logits, "a generator");
    for (int i = 0; i < g->o.n_samples; i++) {
        g->running[i] = i;
        HSC_TRY(begin_sample(g, i, prompt, err));
    }
    g->n_running = g->o.n_samples;
    return HSC_OK;
}

hsc_status hsc_generator_new(hsc_generator **out, hsc_session *session, const hsc_token *prompt, int n_prompt,
                             const hsc_generate_options *options, hsc_error *err)
{
    static const hsc_generate_options defaults;
    const hsc_generate_options *o = options ? options : &defaults;
    const hsc_config *config = &session->desc->config;
    int limit = session->max_tokens < config->n_ctx ? session->max_tokens : config->n_ctx;
    hsc__error_clear(err);
    *out = NULL;
    HSC_TRY(check(session, prompt, n_prompt, o, limit, err));
    hsc_generator *g = hsc__calloc(1, sizeof *g);
    if (!g) return hsc__fail_memory(err, sizeof *g, "a generator");
    g->session = session;
    g->tokenizer = hsc_model_target_tokenizer(session->model, NULL);
    g->n_prompt = (size_t)n_prompt;
    g->limit = limit;
    g->n_vocab = config->d_vocab;
    if (g->tokenizer && hsc_tokenizer_size(g->tokenizer) < (size_t)config->d_vocab)
        g->n_vocab = (int)hsc_tokenizer_size(g->tokenizer);
    hsc_status status = build(g, prompt, o, err);
    if (status != HSC_OK) {
        hsc_generator_free(g);
        return status;
    }
    *out = g;
    return HSC_OK;
}

void hsc_generator_free(hsc_generator *g)
{
    if (!g) return;
    for (int i = 0; g->samples && i < g->o.n_samples; i++) {
        hsc__reply_free(&g->samples[i].reply);
        hsc__free(g->samples[i].all);
    }
    hsc__free(g->samples);
    hsc__free(g->running);
    hsc__free(g->lengths);
    hsc__free(g->logits);
    hsc__free(g->feed);
    hsc__arena_free(&g->arena);
    hsc__free(g);
}

/* ------------------------------------------------------------------------------------------------------ passes ---- */

static hsc_status forward(hsc_generator *g, const hsc_token *ids, int n, const int *lengths, int n_seqs,
                          hsc_logits_rows rows, hsc_error *err)
{
    hsc_batch batch = {.ids = ids, .n_tokens = n, .seq_lengths = lengths, .n_seqs = n_seqs, .logits = rows};
    return hsc_forward(g->session, &batch, err);
}

/* Keeps of the session what the caller said is the prompt's, but for its last token, whose logits are wanted. */
static int reuse_cache(hsc_generator *g)
{
    int n = g->o.n_cached, most = (int)g->n_prompt - 1;
    if (n > most) n = most;
    if (hsc_session_truncate(g->session, 0, n, NULL) == HSC_OK) return n;
    hsc_session_reset(g->session); /* a window's cache has lost what lies further back */
    return 0;
}

/* The prompt goes into sequence 0; the other samples share it. */
static hsc_status read_prompt(hsc_generator *g, hsc_error *err)
{
    const hsc_token *prompt = g->samples[0].all;
    int from = reuse_cache(g), n = (int)g->n_prompt;
    if (g->o.n_records && n - from > 1) {
        HSC_TRY(forward(g, prompt + from, n - 1 - from, NULL, 0, HSC_LOGITS_NONE, err));
        from = n - 1;
    }
    for (int i = 0; i < g->o.n_records; i++) HSC_TRY(hsc_session_record(g->session, &g->o.records[i], err));
    HSC_TRY(forward(g, prompt + from, n - from, NULL, 0, HSC_LOGITS_LAST, err));
    for (int i = 1; i < g->o.n_samples; i++) HSC_TRY(hsc_session_fork(g->session, 0, i, n, err));
    g->length = n;
    g->started = true;
    return HSC_OK;
}

/* Appends the last n tokens of sample s behind its first `first` ones to the feed. */
static void feed_sample(hsc_generator *g, int seq, const sample *s, int first, int n, size_t at)
{
    memcpy(g->feed + at, s->all, (size_t)first * sizeof *g->feed);
    memcpy(g->feed + at + first, s->all + s->n_all - (size_t)n, (size_t)n * sizeof *g->feed);
    g->lengths[seq] = first + n;
}

/* The newest token of every running sample, or what stays in the window when it slides. */
static hsc_status read_newest(hsc_generator *g, hsc_error *err)
{
    int first = 0, newest = 1;
    if (g->length == g->limit) {
        first = g->o.keep < g->limit / 2 ? g->o.keep : g->limit / 2;
        newest = (g->limit - first) / 2 > 1 ? (g->limit - first) / 2 : 1;
        for (int i = 0; i < g->n_running; i++) HSC_TRY(hsc_session_truncate(g->session, i, 0, err));
        g->kept = first;
        g->dropped = (int)g->samples[g->running[0]].n_all - first - newest;
        g->length = 0;
    }
    size_t each = (size_t)(first + newest), n = each * (size_t)g->n_running;
    HSC_TRY(hsc__grow(&g->feed, &g->feed_capacity, n, sizeof *g->feed, err));
    for (int i = 0; i < g->n_running; i++)
        feed_sample(g, i, &g->samples[g->running[i]], first, newest, (size_t)i * each);
    HSC_TRY(forward(g, g->feed, (int)n, g->lengths, g->n_running, HSC_LOGITS_LAST, err));
    g->length += (int)each;
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- samples ---- */

static bool is_end(const hsc_generator *g, hsc_token id)
{
    for (int i = 0; i < g->o.n_end_tokens; i++)
        if (g->o.end_tokens[i] == id) return true;
    return false;
}

static hsc_status choose(hsc_generator *g, sample *s, const float *row, hsc_token *id, hsc_error *err)
{
    const hsc_sampling *how = &g->o.sampling;
    hsc__rules rules = {
        g->o.barred,   g->o.end_tokens, g->o.n_barred, g->o.n_end_tokens, g->n_prompt + (size_t)g->o.min_tokens,
        g->o.no_repeat};
    memcpy(g->logits, row, (size_t)g->n_vocab * sizeof *row);
    hsc__rule_out(&rules, s->all, s->n_all, g->logits, g->n_vocab);
    HSC_TRY(hsc_filter_logits(how, s->all, s->n_all, g->n_prompt, g->logits, g->n_vocab, err));
    HSC_TRY(hsc_sample_token(g->logits, g->n_vocab, how->temperature > 0 ? &s->random : NULL, id, err));
    if (g->o.last && g->o.max_tokens && s->n_all - g->n_prompt + 1 == (size_t)g->o.max_tokens) *id = *g->o.last;
    s->out.log_prob += hsc_log_prob(row, g->session->desc->config.d_vocab, *id);
    return HSC_OK;
}

/* The public view of a sample, after a step during which its shown text began at `before`. */
static void publish(const hsc_generator *g, sample *s, size_t before)
{
    s->out.ids = s->all + g->n_prompt;
    s->out.n = (int)(s->n_all - g->n_prompt);
    s->out.text = s->reply.text.data ? s->reply.text.data : "";
    s->out.n_text = s->reply.n_shown;
    s->out.fresh = s->out.text + before;
    s->out.n_fresh = s->reply.n_shown - before;
}

static hsc_status extend(hsc_generator *g, int seq, const float *row, hsc_error *err)
{
    sample *s = &g->samples[g->running[seq]];
    size_t before = s->reply.n_shown;
    hsc_token id;
    bool stopped = false;
    HSC_TRY(choose(g, s, row, &id, err));
    HSC_TRY(hsc__grow(&s->all, &s->capacity, s->n_all + 1, sizeof *s->all, err));
    s->all[s->n_all++] = id;
    bool ended = is_end(g, id);
    bool hidden = ended || (!g->o.show_special && g->tokenizer && hsc_token_is_special(g->tokenizer, id));
    if (!hidden) HSC_TRY(hsc__reply_add(&s->reply, id, &stopped, err));
    s->out.n_new = 1;
    s->out.seq = seq;
    if (ended) s->out.finish = HSC_FINISH_END;
    else if (stopped) s->out.finish = HSC_FINISH_STOP;
    else if (g->o.max_tokens && s->n_all - g->n_prompt == (size_t)g->o.max_tokens) s->out.finish = HSC_FINISH_LENGTH;
    else if (g->length == g->limit && !g->o.slide) s->out.finish = HSC_FINISH_CONTEXT;
    if (s->out.finish != HSC_FINISH_NONE && !stopped) HSC_TRY(hsc__reply_end(&s->reply, err));
    publish(g, s, before);
    return HSC_OK;
}

/* Sequences of samples that have ended make room. */
static hsc_status compact(hsc_generator *g, hsc_error *err)
{
    for (int i = g->n_running - 1; i >= 0; i--) {
        if (g->samples[g->running[i]].out.finish == HSC_FINISH_NONE) continue;
        int last = --g->n_running;
        if (i == last) continue;
        HSC_TRY(hsc_session_fork(g->session, last, i, g->length, err));
        HSC_TRY(hsc_session_truncate(g->session, last, 0, err));
        g->running[i] = g->running[last];
    }
    return HSC_OK;
}

hsc_status hsc_generator_next(hsc_generator *g, hsc_error *err)
{
    hsc_view view;
    hsc__error_clear(err);
    for (int i = 0; i < g->o.n_samples; i++) {
        sample *s = &g->samples[i];
        s->out.n_new = 0;
        publish(g, s, s->reply.n_shown);
    }
    if (!g->n_running) return HSC_OK;
    bool first = !g->started;
    HSC_TRY(first ? read_prompt(g, err) : read_newest(g, err));
    HSC_TRY(hsc_session_logits(g->session, &view, err));
    for (int i = 0; i < g->n_running; i++)
        HSC_TRY(extend(g, i, view.data + (first ? 0 : (size_t)i * (size_t)view.shape[1]), err));
    return compact(g, err);
}

int hsc_generator_running(const hsc_generator *g)
{
    return g->n_running;
}

const hsc_sample *hsc_generator_sample(const hsc_generator *g, int index)
{
    return index >= 0 && index < g->o.n_samples ? &g->samples[index].out : NULL;
}

void hsc_generator_stop(hsc_generator *g)
{
    for (int i = 0; i < g->o.n_samples; i++) {
        sample *s = &g->samples[i];
        size_t before = s->reply.n_shown;
        s->out.n_new = 0;
        if (s->out.finish == HSC_FINISH_NONE) {
            s->out.finish = HSC_FINISH_CALLER;
            if (hsc__reply_end(&s->reply, NULL) != HSC_OK) s->reply.n_shown = before;
        }
        publish(g, s, before);
    }
    g->n_running = 0;
}

int hsc_generator_position(const hsc_generator *g, int key)
{
    return key < g->kept ? key : key + g->dropped;
}
