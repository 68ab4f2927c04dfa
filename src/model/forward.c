/*
 * One forward pass for every architecture description. It reads like the block's formula:
 *     x = resid + W_O attention(ln1(resid))
 *     resid = x + W_out act(W_in ln2(x))            (gated: act(W_in y) * (W_up y))
 * Each step writes where the next reads; a watched site is shown between two steps, and what is fused when nobody
 * watches rounds the same way as what is not.
 */
#include "base/parallel.h"
#include "model/session.h"

#include <string.h>

enum { ROW_BLOCK = 16 }; /* rows that one task of a row-wise step takes */

#define SHOW(site, layer, data, row_size)                                                                              \
    do {                                                                                                               \
        if (hsc__watched(s, site, layer))                                                                              \
            HSC_TRY(hsc__watch_rows(s, site, layer, data, row_size, (size_t)(row_size), err));                         \
    } while (0)

/* ------------------------------------------------------------------------------- row-wise steps, in parallel ---- */

typedef struct row_step {
    hsc_session *s;
    void (*run)(const struct row_step *step, int row);
    const hsc__norm *norm;
    const hsc__rope_table *rope;
    const hsc_token *ids;
    const float *in;
    float *out;
    int n_heads;
    bool gated;
} row_step;

static void run_rows(void *context, size_t task, int worker)
{
    (void)worker;
    const row_step *step = context;
    int from = (int)task * ROW_BLOCK, to = from + ROW_BLOCK;
    if (to > step->s->n_rows) to = step->s->n_rows;
    for (int row = from; row < to; row++) step->run(step, row);
}

static void each_row(row_step step)
{
    hsc__parallel_for(step.s->exec.n_threads, (size_t)(step.s->n_rows + ROW_BLOCK - 1) / ROW_BLOCK, run_rows, &step);
}

static void embed_row(const row_step *step, int row)
{
    const hsc__desc *d = step->s->desc;
    hsc__weight_row(step->s->exec.kernels, &d->embed, step->ids[row],
                    step->out + (size_t)row * (size_t)d->config.d_model);
}

static void position_row(const row_step *step, int row)
{
    const hsc__desc *d = step->s->desc;
    hsc__weight_row(step->s->exec.kernels, &d->pos_embed, step->s->positions[row],
                    step->out + (size_t)row * (size_t)d->config.d_model);
}

static void norm_row(const hsc_session *s, const hsc__norm *norm, const float *in, float *out)
{
    const hsc__desc *d = s->desc;
    if (d->norm_kind == HSC__NORM_LAYER)
        s->exec.kernels->layer_norm(in, norm->gain, norm->bias, d->norm_eps, d->config.d_model, out);
    else s->exec.kernels->rms_norm(in, norm->gain, d->norm_eps, d->config.d_model, out);
}

static void norm_step(const row_step *step, int row)
{
    size_t at = (size_t)row * (size_t)step->s->desc->config.d_model;
    norm_row(step->s, step->norm, step->in + at, step->out + at);
}

/* GGUF's llama keeps pair (2i, 2i+1) where the field has (i, i + half): puts the field's order back, head by head. */
static void deinterleave_step(const row_step *step, int row)
{
    int d = step->s->desc->config.d_head;
    float *x = step->out + (size_t)row * (size_t)step->n_heads * (size_t)d, head[HSC__MAX_D_HEAD];
    for (int h = 0; h < step->n_heads; h++, x += d) {
        memcpy(head, x, (size_t)d * sizeof *x);
        for (int i = 0; i < d / 2; i++) {
            x[i] = head[2 * i];
            x[i + d / 2] = head[2 * i + 1];
        }
    }
}

static void rope_step(const row_step *step, int row)
{
    const hsc_session *s = step->s;
    const hsc__rope *rope = step->rope->rope;
    size_t at = (size_t)s->positions[row] * (size_t)rope->half, d = (size_t)s->desc->config.d_head;
    for (int h = 0; h < step->n_heads; h++)
        s->exec.kernels->rope(step->out + ((size_t)row * (size_t)step->n_heads + (size_t)h) * d,
                              step->rope->cosine + at, step->rope->sine + at, rope->half, rope->interleaved);
}

static void act_step(const row_step *step, int row)
{
    const hsc_session *s = step->s;
    int m = s->desc->config.d_mlp;
    float *x = step->out + (size_t)row * (size_t)m;
    if (step->gated) s->exec.kernels->gate(s->desc->act, x, step->in + (size_t)row * (size_t)m, m, x);
    else s->exec.kernels->act(s->desc->act, x, m, x);
}

static void add_step(const row_step *step, int row)
{
    int d = step->s->desc->config.d_model;
    size_t at = (size_t)row * (size_t)d;
    step->s->exec.kernels->add(step->out + at, step->in + at, d, step->out + at);
}

/* ----------------------------------------------------------------------------------------- the block's steps ---- */

static hsc__linear product(const hsc__weight *w, const float *x, float *y)
{
    return (hsc__linear){.w = w, .x = x, .x_stride = (size_t)w->n_in, .y = y, .y_stride = (size_t)w->n_out};
}

/* resid += W in. A watched branch is made by itself first; the sum is the same. */
static hsc_status add_branch(hsc_session *s, const hsc__weight *w, const float *in, hsc_site site, int layer,
                             hsc_error *err)
{
    int d = s->desc->config.d_model;
    hsc__linear p = product(w, in, s->resid);
    if (!hsc__watched(s, site, layer)) {
        p.residual = s->resid;
        p.residual_stride = (size_t)d;
        hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
        return HSC_OK;
    }
    p.y = s->branch;
    hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
    SHOW(site, layer, s->branch, d);
    each_row((row_step){.s = s, .run = add_step, .in = s->branch, .out = s->resid});
    return HSC_OK;
}

static const hsc__rope_table *rope_table(const hsc_session *s, const hsc__rope *rope)
{
    for (int i = 0; i < s->n_ropes; i++) {
        if (s->ropes[i].rope->inv_freq == rope->inv_freq) return &s->ropes[i];
    }
    return NULL;
}

/* q, k and v of the chunk, rotated where the model rotates. */
static hsc_status project(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    int q_size = c->n_heads * c->d_head, kv_size = c->n_kv_heads * c->d_head;
    hsc__linear p[3] = {product(&l->w_q, s->x, s->q), product(&l->w_k, s->x, s->k), product(&l->w_v, s->x, s->v)};
    hsc__linear_forward(&s->exec, p, 3, s->n_rows);
    if (s->desc->interleaved_qk) {
        each_row((row_step){.s = s, .run = deinterleave_step, .out = s->q, .n_heads = c->n_heads});
        each_row((row_step){.s = s, .run = deinterleave_step, .out = s->k, .n_heads = c->n_kv_heads});
    }
    SHOW(HSC_Q, layer, s->q, q_size);
    SHOW(HSC_K, layer, s->k, kv_size);
    SHOW(HSC_V, layer, s->v, kv_size);
    if (!l->rope.half) return HSC_OK;
    const hsc__rope_table *t = rope_table(s, &l->rope);
    each_row((row_step){.s = s, .run = rope_step, .rope = t, .out = s->q, .n_heads = c->n_heads});
    each_row((row_step){.s = s, .run = rope_step, .rope = t, .out = s->k, .n_heads = c->n_kv_heads});
    SHOW(HSC_ROT_Q, layer, s->q, q_size);
    SHOW(HSC_ROT_K, layer, s->k, kv_size);
    return HSC_OK;
}

typedef struct {
    hsc_session *s;
    int layer, n_done; /* pieces before the group that is running */
} attention_watch;

static int on_scores(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    const attention_watch *w = user;
    return hsc__watch_block(w->s, HSC_ATTN_SCORES, w->layer, w->n_done + seq, head, first_query, n_rows, n_key, data,
                            stride);
}

static int on_pattern(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    const attention_watch *w = user;
    return hsc__watch_block(w->s, HSC_PATTERN, w->layer, w->n_done + seq, head, first_query, n_rows, n_key, data,
                            stride);
}

static void on_row(void *user, int worker, int seq, int head, int query, int start, int low, int high, const float *row)
{
    const attention_watch *w = user;
    hsc__stats_row(w->s, w->layer, worker, w->n_done + seq, head, query, start, low, high, row);
}

static void store_piece(void *context, size_t task, int worker)
{
    (void)worker;
    const attention_watch *w = context;
    const hsc_session *s = w->s;
    const hsc_config *c = &s->desc->config;
    const hsc__piece *p = &s->pieces[task];
    size_t kv_size = (size_t)c->n_kv_heads * (size_t)c->d_head, at = (size_t)p->row * kv_size;
    hsc__kv kv = hsc__cache_kv(&s->cache, w->layer, p->seq);
    hsc__kv_store(s->exec.kernels, &kv, p->position, p->n_rows, s->k + at, kv_size, s->v + at, kv_size);
}

enum { SEQ_GROUP = 64 }; /* sequences that one call of the attention takes: a bound for the list on the stack */

/* z of the chunk: every sequence's queries over its own cache. */
static hsc_status attend(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    attention_watch watch = {s, layer, 0};
    size_t q_size = (size_t)c->n_heads * (size_t)c->d_head;
    bool stats = hsc__stats_wanted(s, layer);
    hsc__parallel_for(s->exec.n_threads, (size_t)s->n_pieces, store_piece, &watch);
    if (stats) hsc__stats_layer_begin(s);
    for (int done = 0; done < s->n_pieces; done += SEQ_GROUP) {
        hsc__attention_seq seqs[SEQ_GROUP];
        int n = s->n_pieces - done < SEQ_GROUP ? s->n_pieces - done : SEQ_GROUP;
        for (int i = 0; i < n; i++) {
            const hsc__piece *p = &s->pieces[done + i];
            seqs[i] = (hsc__attention_seq){p->row, p->n_rows, p->position, p->position + p->n_rows,
                                           hsc__cache_kv(&s->cache, layer, p->seq)};
        }
        watch.n_done = done;
        hsc__attention job = {.n_heads = c->n_heads,
                              .n_kv_heads = c->n_kv_heads,
                              .d_head = c->d_head,
                              .causal = c->causal,
                              .window = s->mask.window ? s->mask.window : l->window,
                              .sinks = s->mask.sinks,
                              .allowed = s->allowed,
                              .block = s->mask.block,
                              .n_blocks = s->mask.n_blocks,
                              .scale = l->attn_scale,
                              .cap = l->attn_cap,
                              .q = s->q,
                              .q_stride = q_size,
                              .z = s->z,
                              .z_stride = q_size,
                              .seqs = seqs,
                              .n_seqs = n,
                              .on_scores = hsc__watched(s, HSC_ATTN_SCORES, layer) ? on_scores : NULL,
                              .on_pattern = hsc__watched(s, HSC_PATTERN, layer) ? on_pattern : NULL,
                              .on_row = stats ? on_row : NULL,
                              .user = &watch};
        HSC_FAIL_IF(hsc__attention_forward(&s->exec, &job) != HSC_OK, HSC_ECANCELED,
                    "an observer of the attention of layer %d stopped the pass", layer);
    }
    if (stats) hsc__stats_layer_end(s, layer);
    SHOW(HSC_Z, layer, s->z, (int)q_size);
    return HSC_OK;
}

static hsc_status feed_forward(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    int m = s->desc->config.d_mlp;
    bool gated = l->w_up.data != NULL;
    hsc__linear p[2] = {product(&l->w_in, s->x, s->pre)};
    if (gated) p[1] = product(&l->w_up, s->x, s->up);
    hsc__linear_forward(&s->exec, p, gated ? 2 : 1, s->n_rows);
    SHOW(HSC_MLP_PRE, layer, s->pre, m);
    if (gated) SHOW(HSC_MLP_UP, layer, s->up, m);
    each_row((row_step){.s = s, .run = act_step, .in = s->up, .out = s->pre, .gated = gated});
    SHOW(HSC_MLP_POST, layer, s->pre, m);
    return add_branch(s, &l->w_out, s->pre, HSC_MLP_OUT, layer, err);
}

static hsc_status run_layer(hsc_session *s, int layer, hsc_error *err)
{
    const hsc__layer *l = &s->desc->layers[layer];
    int d = s->desc->config.d_model;
    SHOW(HSC_RESID_PRE, layer, s->resid, d);
    each_row((row_step){.s = s, .run = norm_step, .norm = &l->ln1, .in = s->resid, .out = s->x});
    SHOW(HSC_LN1, layer, s->x, d);
    HSC_TRY(project(s, l, layer, err));
    HSC_TRY(attend(s, l, layer, err));
    HSC_TRY(add_branch(s, &l->w_o, s->z, HSC_ATTN_OUT, layer, err));
    SHOW(HSC_RESID_MID, layer, s->resid, d);
    each_row((row_step){.s = s, .run = norm_step, .norm = &l->ln2, .in = s->resid, .out = s->x});
    SHOW(HSC_LN2, layer, s->x, d);
    HSC_TRY(feed_forward(s, l, layer, err));
    SHOW(HSC_RESID_POST, layer, s->resid, d);
    return HSC_OK;
}

static hsc_status embed(hsc_session *s, const hsc_token *ids, hsc_error *err)
{
    int d = s->desc->config.d_model;
    each_row((row_step){.s = s, .run = embed_row, .ids = ids, .out = s->resid});
    SHOW(HSC_EMBED, 0, s->resid, d);
    if (s->desc->pos_kind != HSC__POS_LEARNED) return HSC_OK;
    each_row((row_step){.s = s, .run = position_row, .out = s->branch});
    SHOW(HSC_POS_EMBED, 0, s->branch, d);
    each_row((row_step){.s = s, .run = add_step, .in = s->branch, .out = s->resid});
    return HSC_OK;
}

/* Puts the final norm of the rows whose logits are wanted one after the other into s->branch; returns how many. Row
 * `first` of the logits belongs to the first of them. */
static int gather_logit_rows(hsc_session *s, bool normed, int *first)
{
    size_t d = (size_t)s->desc->config.d_model;
    int n = 0;
    *first = -1;
    for (int i = 0; i < s->n_pieces; i++) {
        const hsc__piece *p = &s->pieces[i];
        if (p->batch_query + p->n_rows < s->seqs[p->seq].n_query) continue; /* the sequence goes on in the next chunk */
        size_t row = (size_t)(p->row + p->n_rows - 1);
        if (*first < 0) *first = p->seq;
        if (normed) memcpy(s->branch + (size_t)n * d, s->x + row * d, d * sizeof(float));
        else norm_row(s, &s->desc->ln_final, s->resid + row * d, s->branch + (size_t)n * d);
        n++;
    }
    return n;
}

/* Final norm and output matrix, for the rows that somebody asked for. */
static hsc_status unembed(hsc_session *s, hsc_error *err)
{
    const hsc__desc *desc = s->desc;
    int d = desc->config.d_model, v = desc->config.d_vocab, first = s->pieces[0].batch_row, n = s->n_rows;
    bool all = s->logits_rows == HSC_LOGITS_ALL, norm_all = all || hsc__watched(s, HSC_LN_FINAL, 0);
    if (norm_all) {
        each_row((row_step){.s = s, .run = norm_step, .norm = &desc->ln_final, .in = s->resid, .out = s->x});
        SHOW(HSC_LN_FINAL, 0, s->x, d);
    }
    if (s->logits_rows == HSC_LOGITS_NONE) return HSC_OK;
    if (!all) n = gather_logit_rows(s, norm_all, &first);
    if (n == 0) return HSC_OK;
    float *logits = s->logits + (size_t)first * (size_t)v;
    hsc__linear p = product(&desc->unembed, all ? s->x : s->branch, logits);
    hsc__linear_forward(&s->exec, &p, 1, n);
    if (all) SHOW(HSC_LOGITS, 0, logits, v);
    return HSC_OK;
}

hsc_status hsc__forward_chunk(hsc_session *s, const hsc_token *ids, hsc_error *err)
{
    HSC_TRY(embed(s, ids, err));
    for (int layer = 0; layer < s->desc->config.n_layers; layer++) HSC_TRY(run_layer(s, layer, err));
    return unembed(s, err);
}
