/*
 * Single words through parts of the model. The engine runs them as sequences of one token, so every architecture is
 * what it is in a pass; observers take out what is not wanted (attention of layer 0, positions), copy what is, and stop
 * the pass there.
 */
#include "base/status.h"
#include "inspect/circuit.h"

#include <string.h>

/* What one pass is for. */
typedef struct take {
    hsc_site site[3]; /* what is copied, where; the pass stops when all rows of the last one are there */
    float *to[3];
    int n_sites, n_rows, n_seen;
} take;

static int clear_rows(void *user, const hsc_block *block)
{
    (void)user;
    for (int i = 0; i < block->n_rows; i++)
        memset(block->data + (size_t)i * block->stride, 0, (size_t)block->row_size * sizeof *block->data);
    return 0;
}

static int copy_rows(void *user, const hsc_block *block)
{
    take *t = user;
    int n = (int)block->row_size;
    for (int s = 0; s < t->n_sites; s++) {
        if (t->site[s] != block->site) continue;
        if (t->to[s]) memcpy(t->to[s] + (size_t)block->seq * (size_t)n, block->data, (size_t)n * sizeof *block->data);
        if (s == t->n_sites - 1) t->n_seen += block->n_rows;
    }
    return t->n_seen == t->n_rows;
}

hsc_status hsc__words_init(hsc__words *words, const hsc_model *model, const hsc_circuit_options *options,
                           hsc_error *err)
{
    hsc_session_options o = {.n_threads = options->n_threads,
                             .max_tokens = 1,
                             .max_seqs = HSC__CIRCUIT_ROWS,
                             .chunk = HSC__CIRCUIT_ROWS,
                             .compute = options->compute};
    *words = (hsc__words){.model = model};
    words->lengths = hsc__calloc(HSC__CIRCUIT_ROWS, sizeof *words->lengths);
    if (!words->lengths) return hsc__fail_memory(err, HSC__CIRCUIT_ROWS * sizeof *words->lengths, "passes of words");
    for (int i = 0; i < HSC__CIRCUIT_ROWS; i++) words->lengths[i] = 1;
    return hsc_session_new(&words->session, model, &o, err);
}

void hsc__words_free(hsc__words *words)
{
    hsc_session_free(words->session);
    hsc__free(words->lengths);
    *words = (hsc__words){0};
}

/* A pass that is meant to be stopped by copy_rows. */
static hsc_status run(hsc__words *w, const hsc_batch *batch, take *t, int layer, hsc_error *err)
{
    t->n_rows = batch->n_seqs;
    for (int s = 0; s < t->n_sites; s++)
        HSC_TRY(hsc_session_observe(w->session, &(hsc_observer){t->site[s], layer, copy_rows, t}, err));
    hsc_session_reset(w->session);
    hsc_status status = hsc_forward(w->session, batch, err);
    hsc_session_observe_clear(w->session);
    if (status != HSC_ECANCELED || t->n_seen != t->n_rows) return status;
    hsc__error_clear(err);
    return HSC_OK;
}

static hsc_batch batch_of(const hsc__words *w, const hsc_token *ids, int n)
{
    return (hsc_batch){.ids = ids, .n_tokens = n, .seq_lengths = w->lengths, .n_seqs = n, .logits = HSC_LOGITS_NONE};
}

hsc_status hsc__words_embed(hsc__words *w, const hsc_token *ids, int n, bool effective, float *x, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(w->model);
    hsc_batch batch = batch_of(w, ids, n);
    take t = {.site = {effective ? HSC_RESID_POST : HSC_RESID_PRE}, .to = {x}, .n_sites = 1};
    if (c->has_pos_embed)
        HSC_TRY(hsc_session_observe(w->session, &(hsc_observer){HSC_POS_EMBED, 0, clear_rows, NULL}, err));
    if (effective) HSC_TRY(hsc_session_observe(w->session, &(hsc_observer){HSC_ATTN_OUT, 0, clear_rows, NULL}, err));
    return run(w, &batch, &t, 0, err);
}

hsc_status hsc__words_project(hsc__words *w, const hsc_token *ids, int n, int layer, const float *x, float *q, float *k,
                              float *v, hsc_error *err)
{
    /* A rotation by position 0 changes nothing, and behind it stand the norms of q and k. */
    bool rotary = w->model->desc.layers[layer].rope.half > 0;
    take t = {.site = {HSC_Q, HSC_K, HSC_V}, .to = {q, k, v}, .n_sites = 3};
    if (rotary) t = (take){.site = {HSC_V, HSC_ROT_Q, HSC_ROT_K}, .to = {v, q, k}, .n_sites = 3};
    hsc_batch batch = batch_of(w, ids, n);
    batch.resid = x;
    batch.first_layer = layer;
    return run(w, &batch, &t, layer, err);
}

hsc_status hsc__words_unembed(hsc__words *w, const hsc_token *ids, int n, const float *x, const float **logits,
                              hsc_error *err)
{
    hsc_view view;
    hsc_batch batch = batch_of(w, ids, n);
    batch.resid = x;
    batch.first_layer = hsc_model_config(w->model)->n_layers;
    batch.logits = HSC_LOGITS_ALL;
    hsc_session_reset(w->session);
    HSC_TRY(hsc_forward(w->session, &batch, err));
    HSC_TRY(hsc_session_logits(w->session, &view, err));
    *logits = view.data;
    return HSC_OK;
}

hsc_status hsc__one_norm(const hsc_model *model, const char *what, hsc_error *err)
{
    const hsc__desc *d = &model->desc;
    HSC_FAIL_IF(d->post_norm || d->w_head.data || !d->unembed.data, HSC_EUNSUPPORTED,
                "%s wants one norm between the sum of all parts and the logits; architecture %s %s", what,
                d->config.arch,
                d->post_norm       ? "has a norm behind every sum"
                : !d->unembed.data ? "has no output matrix"
                                   : "has a layer of its own there");
    return HSC_OK;
}

void hsc__keep_top(const float *x, int n, int k, bool smallest, hsc_token *ids, float *values)
{
    int kept = 0;
    float sign = smallest ? -1 : 1;
    for (int i = 0; i < n; i++) {
        float value = sign * x[i];
        if (kept == k && !(value > sign * values[k - 1])) continue;
        int at = kept < k ? kept++ : k - 1;
        for (; at > 0 && value > sign * values[at - 1]; at--) {
            ids[at] = ids[at - 1];
            values[at] = values[at - 1];
        }
        ids[at] = i;
        values[at] = x[i];
    }
}
