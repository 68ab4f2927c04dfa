/*
 * The lab: a text is run once as it is, its residual stream before every layer kept; each variant then begins where its
 * edits do. The session holds the text's keys and values as its last sequence; variants are its first ones, forked from
 * it at the first position they change. Runs that begin at the same layer are packed into one batch. Variants that
 * change what is read of a source have a session of their own, where each reads its own copy.
 */
#include "inspect/lab.h"
#include "base/alloc.h"
#include "base/status.h"
#include "model/model.h"

#include <string.h>

enum { MAX_SEQS = 64, MAX_ROWS = 256, OF_SOURCE = -2 };

/* Where a variant's run begins: a layer, -1 for the embedding, OF_SOURCE for the encoder. */
typedef struct start {
    int variant, layer, row;
} start;

struct hsc_lab {
    const hsc_model *model;
    const hsc_config *config;
    hsc_lab_options options;
    hsc_session *session;
    hsc_session *outer;   /* for variants that run the encoder anew; made when the first of them comes */
    hsc_session *running; /* the one of the batch that is running */
    int max_seqs;         /* of variants; the text itself is sequence max_seqs */
    hsc_record *kept;
    size_t n_kept, kept_capacity;

    hsc_token *source; /* of an encoder-decoder */
    int n_source;      /* 0: none yet */
    hsc_token *ids;
    int n_tokens;  /* 0: no text yet */
    float *resid;  /* [n_layers + 1][n_tokens][d_model]: resid_pre of every layer, then what ln_final reads */
    float *logits; /* [n_logits][d_vocab] */
    int n_logits;
    float **clean;         /* [n_kept]: each [n_layers or 1] activations end to end */
    hsc_view *clean_views; /* [n_kept]: the shape of one of them */
    size_t n_clean;

    start *starts; /* [n_variants] of the call that is running */
    size_t starts_capacity;
    const hsc_variant *variants;
    /* The batch that is running: sequence i is variant starts[first + i]. */
    int first, n_seqs;
    hsc_token *batch_ids;
    float *batch_resid;
    size_t batch_capacity, resid_capacity;
    unsigned char *watched; /* [HSC_N_SITES][n_watched]: places that have an observer */
    size_t n_watched;       /* layers, of the deeper stack */
};

static void forget_text(hsc_lab *lab)
{
    for (size_t i = 0; i < lab->n_clean; i++) hsc__free(lab->clean[i]);
    hsc__free(lab->clean);
    hsc__free(lab->clean_views);
    hsc__free(lab->ids);
    hsc_session_free(lab->outer);
    lab->outer = NULL;
    hsc__free(lab->resid);
    hsc__free(lab->logits);
    lab->clean = NULL;
    lab->clean_views = NULL;
    lab->ids = NULL;
    lab->resid = lab->logits = NULL;
    lab->n_clean = 0;
    lab->n_tokens = lab->n_logits = 0;
}

void hsc_lab_free(hsc_lab *lab)
{
    if (!lab) return;
    forget_text(lab);
    hsc_session_free(lab->session);
    hsc__free(lab->kept);
    hsc__free(lab->source);
    hsc__free(lab->starts);
    hsc__free(lab->batch_ids);
    hsc__free(lab->batch_resid);
    hsc__free(lab->watched);
    hsc__free(lab);
}

hsc_status hsc_lab_new(hsc_lab **out, const hsc_model *model, const hsc_lab_options *options, hsc_error *err)
{
    static const hsc_lab_options defaults;
    *out = NULL;
    hsc__error_clear(err);
    hsc_lab_options o = options ? *options : defaults;
    HSC_FAIL_IF(o.max_rows < 0, HSC_EINVAL, "max_rows is %d, it cannot be negative", o.max_rows);
    HSC_FAIL_IF((unsigned)o.logits > HSC_LOGITS_NONE, HSC_EINVAL, "logits is %d, 0 to 2 are accepted", (int)o.logits);
    hsc_lab *lab = hsc__calloc(1, sizeof *lab);
    if (!lab) return hsc__fail_memory(err, sizeof *lab, "a lab");
    lab->model = model;
    lab->config = hsc_model_config(model);
    lab->options = o;
    if (!lab->options.max_rows) lab->options.max_rows = MAX_ROWS;
    const hsc_config *encoder = hsc_model_encoder(model);
    lab->n_watched = (size_t)lab->config->n_layers;
    if (encoder && encoder->n_layers > lab->config->n_layers) lab->n_watched = (size_t)encoder->n_layers;
    lab->watched = hsc__calloc(HSC_N_SITES, lab->n_watched);
    if (!lab->watched) {
        hsc_lab_free(lab);
        return hsc__fail_memory(err, HSC_N_SITES, "a lab");
    }
    *out = lab;
    return HSC_OK;
}

hsc_status hsc_lab_source(hsc_lab *lab, const hsc_token *ids, int n_tokens, hsc_error *err)
{
    const hsc_config *encoder = hsc_model_encoder(lab->model);
    hsc__error_clear(err);
    HSC_FAIL_IF(!encoder, HSC_EINVAL, "%s has no encoder: it reads no source", lab->config->name);
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > encoder->n_ctx, HSC_EINVAL, "the source has %d tokens, 1 to %d are accepted",
                n_tokens, encoder->n_ctx);
    hsc_token *copy = hsc__malloc((size_t)n_tokens * sizeof *copy);
    if (!copy) return hsc__fail_memory(err, (size_t)n_tokens * sizeof *copy, "a source");
    memcpy(copy, ids, (size_t)n_tokens * sizeof *copy);
    forget_text(lab);
    hsc__free(lab->source);
    lab->source = copy;
    lab->n_source = n_tokens;
    return HSC_OK;
}

hsc_status hsc_lab_keep(hsc_lab *lab, hsc_site site, int layer, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_TRY(hsc__grow(&lab->kept, &lab->kept_capacity, lab->n_kept + 1, sizeof *lab->kept, err));
    lab->kept[lab->n_kept++] = (hsc_record){site, layer, -1, -1};
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------- the text as it is ---- */

static size_t resid_floats(const hsc_lab *lab)
{
    return (size_t)lab->n_tokens * (size_t)lab->config->d_model;
}

/* Keeps what enters every layer, and what leaves the last. */
static int keep_resid(void *user, const hsc_block *block)
{
    hsc_lab *lab = user;
    size_t d = (size_t)lab->config->d_model;
    int layer = block->layer + (block->site != HSC_RESID_PRE);
    float *to = lab->resid + (size_t)layer * resid_floats(lab) + (size_t)block->first_row * d;
    for (int i = 0; i < block->n_rows; i++)
        memcpy(to + (size_t)i * d, block->data + (size_t)i * block->stride, d * sizeof *to);
    return 0;
}

static hsc_status make_session(const hsc_lab *lab, int n_tokens, int max_seqs, hsc_session **out, hsc_error *err)
{
    hsc_session_options o = {.n_threads = lab->options.n_threads,
                             .max_tokens = n_tokens,
                             .max_seqs = max_seqs,
                             .compute = lab->options.compute,
                             .max_source = lab->n_source};
    hsc_session_free(*out);
    *out = NULL;
    HSC_TRY(hsc_session_new(out, lab->model, &o, err));
    for (size_t i = 0; i < lab->n_kept; i++) HSC_TRY(hsc_session_record(*out, &lab->kept[i], err));
    return HSC_OK;
}

static hsc_status keep_site(hsc_lab *lab, size_t i, hsc_error *err)
{
    const hsc_record *r = &lab->kept[i];
    bool each = hsc_site_per_layer(r->site) && r->layer < 0;
    int n_layers = each ? hsc_model_site_layers(lab->model, r->site) : 1;
    for (int layer = 0; layer < n_layers; layer++) {
        hsc_view view;
        HSC_TRY(hsc_session_activation(lab->session, r->site, each ? layer : r->layer, 0, &view, err));
        size_t n = 1;
        for (int d = 0; d < view.n_dims; d++) n *= (size_t)view.shape[d];
        if (!lab->clean[i]) lab->clean[i] = hsc__calloc((size_t)n_layers * n, sizeof(float));
        if (!lab->clean[i]) return hsc__fail_memory(err, (size_t)n_layers * n * sizeof(float), "a site");
        lab->clean_views[i] = view;
        memcpy(lab->clean[i] + (size_t)layer * n, view.data, n * sizeof(float));
    }
    return HSC_OK;
}

static hsc_status keep_run(hsc_lab *lab, hsc_error *err)
{
    hsc_view view;
    for (size_t i = 0; i < lab->n_clean; i++) HSC_TRY(keep_site(lab, i, err));
    if (lab->options.logits == HSC_LOGITS_NONE) return HSC_OK;
    HSC_TRY(hsc_session_logits(lab->session, &view, err));
    size_t n = (size_t)view.shape[0] * (size_t)view.shape[1];
    lab->logits = hsc__malloc(n * sizeof *lab->logits);
    if (!lab->logits) return hsc__fail_memory(err, n * sizeof *lab->logits, "the logits");
    memcpy(lab->logits, view.data, n * sizeof *lab->logits);
    lab->n_logits = (int)view.shape[0];
    return HSC_OK;
}

static hsc_status run_text(hsc_lab *lab, const hsc_token *ids, hsc_error *err)
{
    size_t n = (size_t)lab->n_tokens, floats = resid_floats(lab) * (size_t)(lab->config->n_layers + 1);
    lab->ids = hsc__malloc(n * sizeof *lab->ids);
    lab->resid = hsc__malloc(floats * sizeof *lab->resid);
    lab->clean = hsc__calloc(lab->n_kept + 1, sizeof *lab->clean);
    lab->clean_views = hsc__calloc(lab->n_kept + 1, sizeof *lab->clean_views);
    if (!lab->ids || !lab->resid || !lab->clean || !lab->clean_views)
        return hsc__fail_memory(err, floats * sizeof *lab->resid, "the residual stream of a text");
    lab->n_clean = lab->n_kept;
    memcpy(lab->ids, ids, n * sizeof *ids);
    hsc_observer pre = {HSC_RESID_PRE, -1, keep_resid, lab};
    hsc_site leaves = lab->model->desc.post_norm ? HSC_LN2 : HSC_RESID_POST;
    hsc_observer post = {leaves, lab->config->n_layers - 1, keep_resid, lab};
    HSC_TRY(hsc_session_observe(lab->session, &pre, err));
    HSC_TRY(hsc_session_observe(lab->session, &post, err));
    hsc_batch batch = {.ids = ids, .n_tokens = lab->n_tokens, .logits = lab->options.logits};
    hsc_batch source = {.ids = lab->source, .n_tokens = lab->n_source};
    if (lab->n_source) HSC_TRY(hsc_session_read_source(lab->session, &source, err));
    HSC_TRY(hsc_forward(lab->session, &batch, err));
    hsc_session_observe_clear(lab->session);
    HSC_TRY(keep_run(lab, err));
    return hsc_session_fork(lab->session, 0, lab->max_seqs, hsc_session_length(lab->session, 0), err);
}

hsc_status hsc_lab_text(hsc_lab *lab, const hsc_token *ids, int n_tokens, hsc_error *err)
{
    hsc__error_clear(err);
    int most = lab->options.max_tokens ? lab->options.max_tokens : lab->config->n_ctx;
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > most, HSC_EINVAL, "the text has %d tokens, 1 to %d are accepted", n_tokens,
                most);
    HSC_FAIL_IF(hsc_model_encoder(lab->model) && !lab->n_source, HSC_EINVAL,
                "%s is an encoder-decoder: hsc_lab_source comes before its texts", lab->config->name);
    forget_text(lab);
    int longer = lab->n_source > n_tokens ? lab->n_source : n_tokens, fit = lab->options.max_rows / longer;
    lab->max_seqs = fit < 1 ? 1 : fit > MAX_SEQS ? MAX_SEQS : fit;
    HSC_TRY(make_session(lab, n_tokens, lab->max_seqs + 1, &lab->session, err));
    lab->n_tokens = n_tokens;
    hsc_status status = run_text(lab, ids, err);
    if (status != HSC_OK) forget_text(lab);
    return status;
}

hsc_status hsc_lab_logits(const hsc_lab *lab, hsc_view *out, hsc_error *err)
{
    HSC_FAIL_IF(!lab->logits, HSC_ENOTFOUND, "the lab has no logits: no text yet, or none were asked for");
    *out = (hsc_view){lab->logits, 2, {lab->n_logits, lab->config->d_vocab}};
    return HSC_OK;
}

hsc_status hsc_lab_clean(const hsc_lab *lab, hsc_site site, int layer, hsc_view *out, hsc_error *err)
{
    bool each = (unsigned)site < HSC_N_SITES && hsc_site_per_layer(site);
    int n_layers = hsc_model_site_layers(lab->model, site);
    HSC_FAIL_IF(each && n_layers && (layer < 0 || layer >= n_layers), HSC_EINVAL,
                "layer %d does not exist, the model has %d", layer, n_layers);
    if (site == HSC_RESID_PRE && lab->n_tokens) {
        *out = (hsc_view){lab->resid + (size_t)layer * resid_floats(lab), 2, {lab->n_tokens, lab->config->d_model}};
        return HSC_OK;
    }
    for (size_t i = 0; i < lab->n_clean; i++) {
        const hsc_record *r = &lab->kept[i];
        if (r->site != site || (each && r->layer >= 0 && r->layer != layer)) continue;
        size_t n = 1;
        *out = lab->clean_views[i];
        for (int d = 0; d < out->n_dims; d++) n *= (size_t)out->shape[d];
        out->data = lab->clean[i] + (each && r->layer < 0 ? (size_t)layer * n : 0);
        return HSC_OK;
    }
    return hsc__fail(err, HSC_ENOTFOUND, 0, "%s was not kept in the lab",
                     hsc_site_name(site) ? hsc_site_name(site) : "?");
}

int hsc__lab_n_tokens(const hsc_lab *lab)
{
    return lab->n_tokens;
}

const hsc_model *hsc__lab_model(const hsc_lab *lab)
{
    return lab->model;
}

int hsc__lab_first_difference(const hsc_lab *x, const hsc_lab *y)
{
    int n = 0, shorter = x->n_tokens < y->n_tokens ? x->n_tokens : y->n_tokens;
    bool same = x->n_source == y->n_source &&
                (!x->n_source || memcmp(x->source, y->source, (size_t)x->n_source * sizeof *x->source) == 0);
    if (!x->config->causal || !same) return 0;
    while (n < shorter - 1 && x->ids[n] == y->ids[n]) n++;
    return n;
}

/* ------------------------------------------------------------------------------------------------- variants ---- */

static int edit_block(void *user, const hsc_block *block)
{
    const hsc_lab *lab = user;
    const hsc_variant *v = &lab->variants[lab->starts[lab->first + block->seq].variant];
    for (int i = 0; i < v->n_edits; i++) hsc__edit_apply(&v->edits[i], block);
    return 0;
}

/* Where the run of a variant begins; without edits, at the final norm of the last row. */
static hsc_status find_start(const hsc_lab *lab, int variant, start *out, hsc_error *err)
{
    const hsc_variant *v = &lab->variants[variant];
    *out = (start){variant, lab->config->n_layers, lab->n_tokens - 1};
    for (int i = 0; i < v->n_edits; i++) {
        hsc_status status = hsc__edit_check(&v->edits[i], lab->model, lab->n_tokens, lab->n_source, err);
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "variant %d, edit %d", variant, i);
        bool of_source = hsc_site_is_of_source(v->edits[i].site);
        int layer = of_source ? OF_SOURCE : hsc__edit_first_layer(&v->edits[i], lab->config->n_layers);
        int row = of_source ? 0 : hsc__edit_first_pos(&v->edits[i], lab->n_tokens);
        if (layer < out->layer) out->layer = layer;
        if (row < out->row) out->row = row;
    }
    if (!lab->config->causal || out->layer == OF_SOURCE) out->row = 0;
    return HSC_OK;
}

/* Stable, by the layer where runs begin: heads of a sweep come in that order already, so insertion is enough. */
static void sort_starts(start *s, int n)
{
    for (int i = 1; i < n; i++) {
        start moved = s[i];
        int at = i;
        for (; at > 0 && s[at - 1].layer > moved.layer; at--) s[at] = s[at - 1];
        s[at] = moved;
    }
}

/* How many of the starts from `first` on share a batch. */
static int count_batch(const hsc_lab *lab, int first, int n_variants, int *n_rows)
{
    int n = 0;
    *n_rows = 0;
    while (first + n < n_variants && n < lab->max_seqs && lab->starts[first + n].layer == lab->starts[first].layer) {
        int rows = lab->n_tokens - lab->starts[first + n].row;
        if (n && *n_rows + rows > lab->options.max_rows) break;
        *n_rows += rows;
        n++;
    }
    return n;
}

/* One observer a place that some edit of the batch touches. */
static hsc_status watch_edits(hsc_lab *lab, hsc_error *err)
{
    memset(lab->watched, 0, HSC_N_SITES * lab->n_watched);
    hsc_session_observe_clear(lab->running);
    for (int i = 0; i < lab->n_seqs; i++) {
        const hsc_variant *v = &lab->variants[lab->starts[lab->first + i].variant];
        for (int k = 0; k < v->n_edits; k++) {
            const hsc_edit *e = &v->edits[k];
            int layer = hsc_site_per_layer(e->site) ? e->layer : 0;
            unsigned char *seen = &lab->watched[(size_t)e->site * lab->n_watched + (size_t)layer];
            if (*seen) continue;
            *seen = 1;
            hsc_observer o = {e->site, layer, edit_block, lab};
            HSC_TRY(hsc_session_observe(lab->running, &o, err));
        }
    }
    return HSC_OK;
}

/* The rows that the batch computes: ids, and the residual stream where it enters the first layer that runs. */
static hsc_status gather_batch(hsc_lab *lab, int n_rows, int *lengths, hsc_error *err)
{
    size_t d = (size_t)lab->config->d_model, at = 0;
    int layer = lab->starts[lab->first].layer;
    HSC_TRY(hsc__grow(&lab->batch_ids, &lab->batch_capacity, (size_t)n_rows, sizeof *lab->batch_ids, err));
    HSC_TRY(hsc__grow(&lab->batch_resid, &lab->resid_capacity, (size_t)n_rows * d, sizeof *lab->batch_resid, err));
    for (int i = 0; i < lab->n_seqs; i++) {
        int row = lab->starts[lab->first + i].row;
        size_t n = (size_t)(lab->n_tokens - row);
        lengths[i] = (int)n;
        memcpy(lab->batch_ids + at, lab->ids + row, n * sizeof *lab->ids);
        if (layer >= 0)
            memcpy(lab->batch_resid + at * d, lab->resid + (size_t)layer * resid_floats(lab) + (size_t)row * d,
                   n * d * sizeof *lab->resid);
        at += n;
        if (layer == OF_SOURCE) continue; /* reading the sources empties every sequence */
        HSC_TRY(row || lab->n_source ? hsc_session_fork(lab->session, lab->max_seqs, i, row, err)
                                     : hsc_session_truncate(lab->session, i, 0, err));
    }
    return HSC_OK;
}

static hsc_status hand_over(const hsc_lab *lab, const int *lengths, hsc_trial_fn fn, void *user, hsc_error *err)
{
    hsc_view logits = {0};
    size_t at = 0;
    if (lab->options.logits != HSC_LOGITS_NONE) HSC_TRY(hsc_session_logits(lab->running, &logits, err));
    bool all = logits.data && logits.shape[0] > lab->n_seqs;
    for (int i = 0; i < lab->n_seqs; i++) {
        const start *s = &lab->starts[lab->first + i];
        hsc_trial trial = {s->variant, s->row, s->layer < 0 ? -1 : s->layer, NULL, 0, lab->running, i};
        if (logits.data) {
            trial.logits = logits.data + at * (size_t)logits.shape[1];
            trial.n_rows = all || lab->options.logits == HSC_LOGITS_ALL ? lengths[i] : 1;
            at += (size_t)trial.n_rows;
        }
        HSC_FAIL_IF(fn(user, &trial), HSC_ECANCELED, "stopped at variant %d", s->variant);
    }
    return HSC_OK;
}

/* Every variant of the batch reads its own copy of the source. */
static hsc_status read_sources(hsc_lab *lab, hsc_error *err)
{
    int lengths[MAX_SEQS];
    size_t n = (size_t)lab->n_source, all = n * (size_t)lab->n_seqs;
    hsc_token *ids = hsc__malloc(all * sizeof *ids);
    if (!ids) return hsc__fail_memory(err, all * sizeof *ids, "the sources of a batch");
    for (int i = 0; i < lab->n_seqs; i++) {
        memcpy(ids + (size_t)i * n, lab->source, n * sizeof *ids);
        lengths[i] = lab->n_source;
    }
    hsc_batch batch = {.ids = ids, .n_tokens = (int)all, .seq_lengths = lengths, .n_seqs = lab->n_seqs};
    hsc_status status = hsc_session_read_source(lab->running, &batch, err);
    hsc__free(ids);
    return status;
}

static hsc_status run_batch(hsc_lab *lab, int n_rows, hsc_trial_fn fn, void *user, hsc_error *err)
{
    int lengths[MAX_SEQS];
    int layer = lab->starts[lab->first].layer;
    if (layer == OF_SOURCE && !lab->outer) HSC_TRY(make_session(lab, lab->n_tokens, lab->max_seqs, &lab->outer, err));
    lab->running = layer == OF_SOURCE ? lab->outer : lab->session;
    HSC_TRY(watch_edits(lab, err));
    HSC_TRY(gather_batch(lab, n_rows, lengths, err));
    if (layer == OF_SOURCE) HSC_TRY(read_sources(lab, err));
    hsc_batch batch = {.ids = lab->batch_ids,
                       .n_tokens = n_rows,
                       .seq_lengths = lengths,
                       .n_seqs = lab->n_seqs,
                       .logits = lab->options.logits,
                       .resid = layer < 0 ? NULL : lab->batch_resid,
                       .first_layer = layer < 0 ? 0 : layer};
    HSC_TRY(hsc_forward(lab->running, &batch, err));
    return hand_over(lab, lengths, fn, user, err);
}

hsc_status hsc_lab_run(hsc_lab *lab, const hsc_variant *variants, int n_variants, hsc_trial_fn fn, void *user,
                       hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF(!lab->n_tokens, HSC_EINVAL, "the lab has no text yet");
    HSC_TRY(hsc__grow(&lab->starts, &lab->starts_capacity, (size_t)n_variants + 1, sizeof *lab->starts, err));
    lab->variants = variants;
    for (int i = 0; i < n_variants; i++) HSC_TRY(find_start(lab, i, &lab->starts[i], err));
    sort_starts(lab->starts, n_variants);
    hsc_status status = HSC_OK;
    for (lab->first = 0; lab->first < n_variants && status == HSC_OK; lab->first += lab->n_seqs) {
        int n_rows;
        lab->n_seqs = count_batch(lab, lab->first, n_variants, &n_rows);
        status = run_batch(lab, n_rows, fn, user, err);
    }
    hsc_session_observe_clear(lab->session);
    if (lab->outer) hsc_session_observe_clear(lab->outer);
    return status;
}
