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

#define SHOW(site, layer, data, row_size)                                                                              \
    do {                                                                                                               \
        if (hsc__watched(s, site, layer))                                                                              \
            HSC_TRY(hsc__watch_rows(s, site, layer, data, row_size, (size_t)(row_size), err));                         \
    } while (0)

/* ------------------------------------------------------------- row-wise steps: the layers of nn, on a chunk ---- */

static void norm_rows(const hsc_session *s, const hsc__norm *norm, const float *in, int n_rows, float *out)
{
    const hsc__desc *d = s->desc;
    hsc__nn_norm layer = {d->norm_kind, norm->gain, norm->bias, d->norm_eps, d->config.d_model};
    hsc__nn_norm_rows(&s->exec, &layer, in, n_rows, out);
}

static void add_rows(const hsc_session *s, const float *branch)
{
    hsc__nn_add_rows(&s->exec, s->resid, branch, s->n_rows, s->desc->config.d_model, s->resid);
}

static void turn_heads(const hsc_session *s, const hsc__nn_turn *turn, int n_heads, float *x)
{
    hsc__nn_turn_rows(&s->exec, turn, s->positions, s->n_rows, n_heads, s->desc->config.d_head, x);
}

typedef struct {
    int n_heads, d_head;
    float *x; /* [n_rows][n_heads][d_head] */
} head_rows;

/* GGUF's llama keeps pair (2i, 2i+1) where the field has (i, i + half): puts the field's order back, head by head. */
static void deinterleave_row(void *context, size_t row, int worker)
{
    (void)worker;
    const head_rows *rows = context;
    int d = rows->d_head;
    float *x = rows->x + row * (size_t)rows->n_heads * (size_t)d, head[HSC__MAX_D_HEAD];
    for (int h = 0; h < rows->n_heads; h++, x += d) {
        memcpy(head, x, (size_t)d * sizeof *x);
        for (int i = 0; i < d / 2; i++) {
            x[i] = head[2 * i];
            x[i + d / 2] = head[2 * i + 1];
        }
    }
}

static void deinterleave(const hsc_session *s, int n_heads, float *x)
{
    head_rows rows = {n_heads, s->desc->config.d_head, x};
    hsc__parallel_for(s->exec.n_threads, (size_t)s->n_rows, deinterleave_row, &rows);
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
    add_rows(s, s->branch);
    return HSC_OK;
}

/* The session's table for a layer's rotary embedding; the session has made one for every layer's. */
static hsc__nn_turn rope_turn(const hsc_session *s, const hsc__rope *rope)
{
    const hsc__rope_table *t = s->ropes;
    while (t->rope->inv_freq != rope->inv_freq) t++;
    return (hsc__nn_turn){t->cosine, t->sine, rope->half, rope->interleaved};
}

/* q, k and v of the chunk, rotated where the model rotates. */
static hsc_status project(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    int q_size = c->n_heads * c->d_head, kv_size = c->n_kv_heads * c->d_head;
    hsc__linear p[3] = {product(&l->w_q, s->x, s->q), product(&l->w_k, s->x, s->k), product(&l->w_v, s->x, s->v)};
    hsc__linear_forward(&s->exec, p, 3, s->n_rows);
    if (s->desc->interleaved_qk) {
        deinterleave(s, c->n_heads, s->q);
        deinterleave(s, c->n_kv_heads, s->k);
    }
    SHOW(HSC_Q, layer, s->q, q_size);
    SHOW(HSC_K, layer, s->k, kv_size);
    SHOW(HSC_V, layer, s->v, kv_size);
    if (!l->rope.half) return HSC_OK;
    hsc__nn_turn turn = rope_turn(s, &l->rope);
    turn_heads(s, &turn, c->n_heads, s->q);
    turn_heads(s, &turn, c->n_kv_heads, s->k);
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
    if (stats) HSC_TRY(hsc__stats_layer_end(s, layer, err));
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
    hsc__nn_act_rows(&s->exec, s->desc->act, s->pre, gated ? s->up : NULL, s->n_rows, m, s->pre);
    SHOW(HSC_MLP_POST, layer, s->pre, m);
    return add_branch(s, &l->w_out, s->pre, HSC_MLP_OUT, layer, err);
}

static hsc_status run_layer(hsc_session *s, int layer, hsc_error *err)
{
    const hsc__layer *l = &s->desc->layers[layer];
    int d = s->desc->config.d_model;
    SHOW(HSC_RESID_PRE, layer, s->resid, d);
    norm_rows(s, &l->ln1, s->resid, s->n_rows, s->x);
    SHOW(HSC_LN1, layer, s->x, d);
    HSC_TRY(project(s, l, layer, err));
    HSC_TRY(attend(s, l, layer, err));
    HSC_TRY(add_branch(s, &l->w_o, s->z, HSC_ATTN_OUT, layer, err));
    SHOW(HSC_RESID_MID, layer, s->resid, d);
    norm_rows(s, &l->ln2, s->resid, s->n_rows, s->x);
    SHOW(HSC_LN2, layer, s->x, d);
    HSC_TRY(feed_forward(s, l, layer, err));
    SHOW(HSC_RESID_POST, layer, s->resid, d);
    return HSC_OK;
}

static hsc_status embed(hsc_session *s, const hsc_token *ids, hsc_error *err)
{
    int d = s->desc->config.d_model;
    hsc__nn_table_rows(&s->exec, &s->desc->embed, ids, s->n_rows, s->resid);
    SHOW(HSC_EMBED, 0, s->resid, d);
    if (s->desc->pos_kind != HSC__POS_LEARNED) return HSC_OK;
    hsc__nn_table_rows(&s->exec, &s->desc->pos_embed, s->positions, s->n_rows, s->branch);
    SHOW(HSC_POS_EMBED, 0, s->branch, d);
    add_rows(s, s->branch);
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
        else norm_rows(s, &s->desc->ln_final, s->resid + row * d, 1, s->branch + (size_t)n * d);
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
        norm_rows(s, &desc->ln_final, s->resid, s->n_rows, s->x);
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
    size_t d = (size_t)s->desc->config.d_model;
    if (s->start)
        memcpy(s->resid, s->start + (size_t)s->pieces[0].batch_row * d, (size_t)s->n_rows * d * sizeof(float));
    else HSC_TRY(embed(s, ids, err));
    for (int layer = s->first_layer; layer < s->desc->config.n_layers; layer++) HSC_TRY(run_layer(s, layer, err));
    return unembed(s, err);
}
