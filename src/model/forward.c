/*
 * One forward pass for every architecture description. It reads like the block's formula:
 *     x = resid + W_O attention(ln1(resid))
 *     resid = x + W_out act(W_in ln2(x))            (gated: act(W_in y) * (W_up y))
 * where in a decoder that reads an encoder x gains W_O cross-attention(cross_ln1(x)) before the second line, and with
 * the norms after the sums, both branches from the same residual, or norms of the branches, where the description says
 * so. Each step writes where the next reads; a watched site is shown between two steps, and what is fused when nobody
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

/* ----------------------------------------------------------------------------------------- row-wise steps ---- */

/* y = norm(x) over rows of n values; without a norm y = x. */
static void norm_rows(const hsc_session *s, const hsc__norm *norm, int n, const float *x, int n_rows, float *y)
{
    const hsc__desc *d = s->desc;
    hsc__nn_norm rows = {d->norm_kind, norm->gain, norm->bias, d->norm_eps, n};
    if (norm->present) hsc__nn_norm_rows(&s->exec, &rows, x, n_rows, y);
    else if (y != x) memcpy(y, x, (size_t)n_rows * (size_t)n * sizeof *y);
}

typedef struct {
    const hsc_session *s;
    float *x;
    int n, n_heads;
    float scale, cap;
} row_job;

/* GGUF's llama keeps pair (2i, 2i+1) where the field has (i, i + half): puts the field's order back, head by head. */
static void deinterleave_row(void *context, size_t row, int worker)
{
    (void)worker;
    const row_job *job = context;
    int d = job->n;
    float *x = job->x + row * (size_t)job->n_heads * (size_t)d, head[HSC__MAX_D_HEAD];
    for (int h = 0; h < job->n_heads; h++, x += d) {
        memcpy(head, x, (size_t)d * sizeof *x);
        for (int i = 0; i < d / 2; i++) {
            x[i] = head[2 * i];
            x[i + d / 2] = head[2 * i + 1];
        }
    }
}

static void deinterleave(const hsc_session *s, float *x, int n_heads)
{
    row_job job = {.s = s, .x = x, .n = s->desc->config.d_head, .n_heads = n_heads};
    hsc__parallel_for(s->exec.n_threads, (size_t)s->n_rows, deinterleave_row, &job);
}

static void scale_row(void *context, size_t row, int worker)
{
    (void)worker;
    const row_job *job = context;
    job->s->exec.kernels->scale_cap(job->x + row * (size_t)job->n, job->n, job->scale, job->cap);
}

/* x = scale x, then, with a cap, cap tanh(x / cap). */
static void scale_rows(const hsc_session *s, float *x, int n_rows, int n, float scale, float cap)
{
    row_job job = {.s = s, .x = x, .n = n, .scale = scale, .cap = cap};
    hsc__parallel_for(s->exec.n_threads, (size_t)n_rows, scale_row, &job);
}

/* ----------------------------------------------------------------------------------------- the block's steps ---- */

static hsc__linear product(const hsc__weight *w, const float *x, float *y)
{
    return (hsc__linear){.w = w, .x = x, .x_stride = (size_t)w->n_in, .y = y, .y_stride = (size_t)w->n_out};
}

/* resid += norm(W in). A branch that is watched or has a norm is made by itself first; the sum is the same. */
static hsc_status add_branch(hsc_session *s, const hsc__weight *w, const hsc__norm *norm, const float *in,
                             hsc_site site, int layer, hsc_error *err)
{
    int d = s->desc->config.d_model;
    hsc__linear p = product(w, in, s->resid);
    if (!norm->present && !hsc__watched(s, site, layer)) {
        p.residual = s->resid;
        p.residual_stride = (size_t)d;
        hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
        return HSC_OK;
    }
    p.y = s->branch;
    hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
    norm_rows(s, norm, d, s->branch, s->n_rows, s->branch);
    SHOW(site, layer, s->branch, d);
    hsc__nn_add_rows(&s->exec, s->resid, s->branch, s->n_rows, d, s->resid);
    return HSC_OK;
}

static void turn(hsc_session *s, const hsc__rope *rope, float *x, int n_heads)
{
    const hsc__rope_table *t = s->ropes;
    while (t->rope->inv_freq != rope->inv_freq) t++; /* the session has made a table of each */
    hsc__nn_turn angles = {t->cosine, t->sine, rope->half, rope->interleaved};
    hsc__nn_turn_rows(&s->exec, &angles, s->positions, s->n_rows, n_heads, s->desc->config.d_head, x);
}

enum { HEAD_GROUP = 16 }; /* heads whose shares are multiplied in one call: a bound for the lists on the stack */

/* q, k and v of matrices that lie head by head inside another: a product for each head's share. */
static void project_by_head(hsc_session *s, const hsc__layer *l, const float *x)
{
    const hsc__weight *const whole[3] = {&l->w_q, &l->w_k, &l->w_v};
    float *const y[3] = {s->q, s->k, s->v};
    int d = l->w_q.group, n_heads = s->desc->config.n_heads;
    for (int first = 0; first < n_heads; first += HEAD_GROUP) {
        hsc__weight parts[3 * HEAD_GROUP];
        hsc__linear p[3 * HEAD_GROUP];
        int n = 0;
        for (int h = first; h < n_heads && h < first + HEAD_GROUP; h++) {
            for (int i = 0; i < 3; i++, n++) {
                parts[n] = hsc__weight_group(whole[i], h);
                p[n] = product(&parts[n], x, y[i] + (size_t)h * (size_t)d);
                p[n].y_stride = (size_t)whole[i]->n_out;
            }
        }
        hsc__linear_forward(&s->exec, p, n, s->n_rows);
    }
}

/* q, k and v of the chunk, normed and rotated where the model does that. */
static hsc_status project(hsc_session *s, const hsc__layer *l, int layer, const float *x, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    int q_size = c->n_heads * c->d_head, kv_size = c->n_kv_heads * c->d_head;
    hsc__linear p[3] = {product(&l->w_q, x, s->q), product(&l->w_k, x, s->k), product(&l->w_v, x, s->v)};
    if (l->w_q.group) project_by_head(s, l, x);
    else hsc__linear_forward(&s->exec, p, 3, s->n_rows);
    if (s->desc->interleaved_qk) {
        deinterleave(s, s->q, c->n_heads);
        deinterleave(s, s->k, c->n_kv_heads);
    }
    SHOW(HSC_Q, layer, s->q, q_size);
    SHOW(HSC_K, layer, s->k, kv_size);
    SHOW(HSC_V, layer, s->v, kv_size);
    norm_rows(s, &l->q_norm, c->d_head, s->q, s->n_rows * c->n_heads, s->q);
    norm_rows(s, &l->k_norm, c->d_head, s->k, s->n_rows * c->n_kv_heads, s->k);
    if (!l->rope.half) return HSC_OK;
    turn(s, &l->rope, s->q, c->n_heads);
    turn(s, &l->rope, s->k, c->n_kv_heads);
    SHOW(HSC_ROT_Q, layer, s->q, q_size);
    SHOW(HSC_ROT_K, layer, s->k, kv_size);
    return HSC_OK;
}

typedef struct {
    hsc_session *s;
    int layer, n_done; /* pieces before the group that is running */
    bool cross;
    hsc__cache *store;
} attention_watch;

static int on_scores(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    const attention_watch *w = user;
    return hsc__watch_block(w->s, w->cross ? HSC_CROSS_ATTN_SCORES : HSC_ATTN_SCORES, w->layer, w->n_done + seq, head,
                            first_query, n_rows, n_key, data, stride);
}

static int on_pattern(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    const attention_watch *w = user;
    return hsc__watch_block(w->s, w->cross ? HSC_CROSS_PATTERN : HSC_PATTERN, w->layer, w->n_done + seq, head,
                            first_query, n_rows, n_key, data, stride);
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
    const hsc__piece *p = &s->pieces[task];
    size_t kv_size = (size_t)w->store->n_kv_heads * (size_t)w->store->d_head, at = (size_t)p->row * kv_size;
    hsc__kv kv = hsc__cache_kv(w->store, w->layer, p->seq);
    hsc__kv_store(s->exec.kernels, &kv, p->position, p->n_rows, s->k + at, kv_size, s->v + at, kv_size);
}

enum { SEQ_GROUP = 64 }; /* sequences that one call of the attention takes: a bound for the list on the stack */

/* What a piece's queries look at: their own sequence's cache, or the source that it reads. */
static hsc__attention_seq keys_of(const hsc_session *s, const hsc__piece *p, int layer, bool cross)
{
    const hsc_session *e = s->encoder;
    if (cross)
        return (hsc__attention_seq){p->row, p->n_rows, p->position, s->seqs[p->seq].n_source,
                                    hsc__cache_kv(&e->cross, layer, s->sources[p->seq])};
    return (hsc__attention_seq){p->row, p->n_rows, p->position, p->position + p->n_rows,
                                hsc__cache_kv(&s->cache, layer, p->seq)};
}

/* Everything of an attention but its sequences and watchers. The masks and the bias are of the stack's own tokens. */
static hsc__attention attention_of(const hsc_session *s, const hsc__layer *l, bool cross)
{
    const hsc_config *c = &s->desc->config;
    size_t q_size = (size_t)c->n_heads * (size_t)c->d_head;
    hsc__attention job = {.n_heads = c->n_heads,
                          .n_kv_heads = c->n_kv_heads,
                          .d_head = c->d_head,
                          .scale = l->attn_scale,
                          .q = s->q,
                          .q_stride = q_size,
                          .z = s->z,
                          .z_stride = q_size};
    if (cross) return job;
    job.causal = c->causal;
    job.window = s->mask.window ? s->mask.window : l->window;
    job.sinks = s->mask.sinks;
    job.allowed = s->allowed;
    job.block = s->mask.block;
    job.n_blocks = s->mask.n_blocks;
    job.cap = l->attn_cap;
    job.bias = l->bias;
    job.bias_span = l->bias_span;
    job.alibi = l->alibi;
    return job;
}

/* z of the chunk: every sequence's queries over what they look at. */
static hsc_status attend(hsc_session *s, const hsc__layer *l, int layer, bool cross, hsc_error *err)
{
    attention_watch watch = {.s = s, .layer = layer, .cross = cross};
    bool stats = !cross && hsc__stats_wanted(s, layer);
    hsc_site scores = cross ? HSC_CROSS_ATTN_SCORES : HSC_ATTN_SCORES,
             pattern = cross ? HSC_CROSS_PATTERN : HSC_PATTERN;
    hsc__attention job = attention_of(s, l, cross);
    if (stats) hsc__stats_layer_begin(s);
    for (int done = 0; done < s->n_pieces; done += SEQ_GROUP) {
        hsc__attention_seq seqs[SEQ_GROUP];
        int n = s->n_pieces - done < SEQ_GROUP ? s->n_pieces - done : SEQ_GROUP;
        for (int i = 0; i < n; i++) seqs[i] = keys_of(s, &s->pieces[done + i], layer, cross);
        watch.n_done = done;
        job.seqs = seqs;
        job.n_seqs = n;
        job.on_scores = hsc__watched(s, scores, layer) ? on_scores : NULL;
        job.on_pattern = hsc__watched(s, pattern, layer) ? on_pattern : NULL;
        job.on_row = stats ? on_row : NULL;
        job.user = &watch;
        HSC_FAIL_IF(hsc__attention_forward(&s->exec, &job) != HSC_OK, HSC_ECANCELED,
                    "an observer of the attention of layer %d stopped the pass", layer);
    }
    if (stats) HSC_TRY(hsc__stats_layer_end(s, layer, err));
    SHOW(cross ? HSC_CROSS_Z : HSC_Z, layer, s->z, (int)job.z_stride);
    return HSC_OK;
}

/* Keys and values of the chunk go where the queries, and those of later passes, find them. */
static void store_keys(hsc_session *s, hsc__cache *cache, int layer)
{
    attention_watch where = {.s = s, .layer = layer, .store = cache};
    hsc__parallel_for(s->exec.n_threads, (size_t)s->n_pieces, store_piece, &where);
}

/* z of a block's own attention to x. */
static hsc_status attend_self(hsc_session *s, const hsc__layer *l, int layer, const float *x, hsc_error *err)
{
    HSC_TRY(project(s, l, layer, x, err));
    store_keys(s, &s->cache, layer);
    return attend(s, l, layer, false, err);
}

static hsc_status feed_forward(hsc_session *s, const hsc__layer *l, int layer, const float *x, hsc_error *err)
{
    int m = s->desc->config.d_mlp;
    bool gated = l->w_up.data != NULL;
    hsc__linear p[2] = {product(&l->w_in, x, s->pre)};
    if (gated) p[1] = product(&l->w_up, x, s->up);
    hsc__linear_forward(&s->exec, p, gated ? 2 : 1, s->n_rows);
    SHOW(HSC_MLP_PRE, layer, s->pre, m);
    if (gated) SHOW(HSC_MLP_UP, layer, s->up, m);
    hsc__nn_act_rows(&s->exec, s->desc->act, s->pre, gated ? s->up : NULL, s->n_rows, m, s->pre);
    SHOW(HSC_MLP_POST, layer, s->pre, m);
    return add_branch(s, &l->w_out, &l->ln2_post, s->pre, HSC_MLP_OUT, layer, err);
}

/* y = norm(resid), shown at its site; y may be resid. */
static hsc_status show_norm(hsc_session *s, const hsc__norm *norm, float *y, hsc_site site, int layer, hsc_error *err)
{
    int d = s->desc->config.d_model;
    norm_rows(s, norm, d, s->resid, s->n_rows, y);
    SHOW(site, layer, y, d);
    return HSC_OK;
}

static hsc_status add_attention(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    return add_branch(s, &l->w_o, &l->ln1_post, s->z, HSC_ATTN_OUT, layer, err);
}

/* resid += W_O of what x's queries find in the source, whose keys and values were made when it was read. */
static hsc_status add_cross(hsc_session *s, const hsc__layer *l, int layer, const float *x, hsc_error *err)
{
    static const hsc__norm none = {0};
    hsc__linear q = product(&l->cross.w_q, x, s->q);
    hsc__linear_forward(&s->exec, &q, 1, s->n_rows);
    SHOW(HSC_CROSS_Q, layer, s->q, l->cross.w_q.n_out);
    HSC_TRY(attend(s, l, layer, true, err));
    HSC_TRY(add_branch(s, &l->cross.w_o, &none, s->z, HSC_CROSS_ATTN_OUT, layer, err));
    SHOW(HSC_CROSS_RESID_MID, layer, s->resid, s->desc->config.d_model);
    return HSC_OK;
}

/* Norms before the branches. In parallel the feed-forward's input is taken before attention is added, so that there is
 * no resid_mid. */
static hsc_status run_pre_norm(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    bool parallel = s->desc->parallel;
    HSC_TRY(show_norm(s, &l->ln1, s->x, HSC_LN1, layer, err));
    HSC_TRY(attend_self(s, l, layer, s->x, err));
    if (parallel) HSC_TRY(show_norm(s, &l->ln2, s->x, HSC_LN2, layer, err));
    HSC_TRY(add_attention(s, l, layer, err));
    if (!parallel) {
        SHOW(HSC_RESID_MID, layer, s->resid, s->desc->config.d_model);
        if (l->cross.w_q.data) {
            HSC_TRY(show_norm(s, &l->cross.ln, s->x, HSC_CROSS_LN1, layer, err));
            HSC_TRY(add_cross(s, l, layer, s->x, err));
        }
        HSC_TRY(show_norm(s, &l->ln2, s->x, HSC_LN2, layer, err));
    }
    HSC_TRY(feed_forward(s, l, layer, s->x, err));
    SHOW(HSC_RESID_POST, layer, s->resid, s->desc->config.d_model);
    return HSC_OK;
}

/* Norms after the sums (Vaswani et al. 2017): ln1, or cross_ln1, is what the feed-forward reads and adds to, ln2 the
 * next block's resid_pre. */
static hsc_status run_post_norm(hsc_session *s, const hsc__layer *l, int layer, hsc_error *err)
{
    HSC_TRY(attend_self(s, l, layer, s->resid, err));
    HSC_TRY(add_attention(s, l, layer, err));
    SHOW(HSC_RESID_MID, layer, s->resid, s->desc->config.d_model);
    HSC_TRY(show_norm(s, &l->ln1, s->resid, HSC_LN1, layer, err));
    if (l->cross.w_q.data) {
        HSC_TRY(add_cross(s, l, layer, s->resid, err));
        HSC_TRY(show_norm(s, &l->cross.ln, s->resid, HSC_CROSS_LN1, layer, err));
    }
    HSC_TRY(feed_forward(s, l, layer, s->resid, err));
    SHOW(HSC_RESID_POST, layer, s->resid, s->desc->config.d_model);
    return show_norm(s, &l->ln2, s->resid, HSC_LN2, layer, err);
}

static hsc_status run_layer(hsc_session *s, int layer, hsc_error *err)
{
    const hsc__layer *l = &s->desc->layers[layer];
    SHOW(HSC_RESID_PRE, layer, s->resid, s->desc->config.d_model);
    return (s->desc->post_norm ? run_post_norm : run_pre_norm)(s, l, layer, err);
}

/* resid += the rows of a table that the chunk's tokens have by their position or type. */
static hsc_status add_table(hsc_session *s, const hsc__weight *table, const int32_t *rows, hsc_site site,
                            hsc_error *err)
{
    int d = s->desc->config.d_model;
    if (!table->data) return HSC_OK;
    hsc__nn_table_rows(&s->exec, table, rows, s->n_rows, s->branch);
    SHOW(site, 0, s->branch, d);
    hsc__nn_add_rows(&s->exec, s->resid, s->branch, s->n_rows, d, s->resid);
    return HSC_OK;
}

static hsc_status embed(hsc_session *s, const hsc_token *ids, hsc_error *err)
{
    const hsc__desc *desc = s->desc;
    int d = desc->config.d_model;
    float *rows = desc->w_embed.data ? s->x : s->resid;
    hsc__nn_table_rows(&s->exec, &desc->embed, ids, s->n_rows, rows);
    if (desc->w_embed.data) {
        hsc__linear p = product(&desc->w_embed, rows, s->resid);
        hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
    }
    if (desc->embed_scale != 0) scale_rows(s, s->resid, s->n_rows, d, desc->embed_scale, 0);
    SHOW(HSC_EMBED, 0, s->resid, d);
    HSC_TRY(add_table(s, &desc->segment_embed, s->segments, HSC_TOKEN_TYPE_EMBED, err));
    HSC_TRY(add_table(s, &desc->pos_embed, s->positions, HSC_POS_EMBED, err));
    norm_rows(s, &desc->ln_embed, d, s->resid, s->n_rows, s->resid);
    return HSC_OK;
}

/* Copies the rows [d] of x whose logits are wanted one after the other into y; returns how many. Row `first` of the
 * logits belongs to the first of them. */
static int gather_last_rows(const hsc_session *s, const float *x, size_t d, float *y, int *first)
{
    int n = 0;
    *first = -1;
    for (int i = 0; i < s->n_pieces; i++) {
        const hsc__piece *p = &s->pieces[i];
        if (p->batch_query + p->n_rows < s->seqs[p->seq].n_query) continue; /* the sequence goes on in the next chunk */
        if (*first < 0) *first = p->seq;
        memcpy(y + (size_t)n++ * d, x + (size_t)(p->row + p->n_rows - 1) * d, d * sizeof *y);
    }
    return n;
}

/* What stands between the final norm and the output matrix: other = ln_head(act(W in)). */
static void run_head(hsc_session *s, const float *in, int n_rows, float *other)
{
    const hsc__desc *desc = s->desc;
    int d = desc->w_head.n_out;
    hsc__linear p = product(&desc->w_head, in, other);
    hsc__linear_forward(&s->exec, &p, 1, n_rows);
    hsc__nn_act_rows(&s->exec, desc->head_act, other, NULL, n_rows, d, other);
    norm_rows(s, &desc->ln_head, d, other, n_rows, other);
}

/* The pooler of every row of x, only made when somebody looks: nothing of the pass reads it. */
static hsc_status show_pooled(hsc_session *s, hsc_error *err)
{
    int d = s->desc->config.d_model;
    if (!hsc__watched(s, HSC_POOLED, 0)) return HSC_OK;
    hsc__linear p = product(&s->desc->pooler, s->x, s->branch);
    hsc__linear_forward(&s->exec, &p, 1, s->n_rows);
    hsc__nn_act_rows(&s->exec, HSC__ACT_TANH, s->branch, NULL, s->n_rows, d, s->branch);
    SHOW(HSC_POOLED, 0, s->branch, d);
    return HSC_OK;
}

/* Final norm, head and output matrix, for the rows that somebody asked for. */
static hsc_status unembed(hsc_session *s, hsc_error *err)
{
    const hsc__desc *desc = s->desc;
    int d = desc->config.d_model, v = desc->config.d_vocab, first = s->pieces[0].batch_row, n = s->n_rows;
    bool none = s->logits_rows == HSC_LOGITS_NONE, last = s->logits_rows == HSC_LOGITS_LAST;
    bool watched =
        hsc__watched(s, HSC_LN_FINAL, 0) || hsc__watched(s, HSC_POOLED, 0) || hsc__watched(s, HSC_LN_HEAD, 0);
    if (none && !watched) return HSC_OK;
    const float *in = s->resid;
    if (last && !watched) {
        n = gather_last_rows(s, in, (size_t)d, s->branch, &first);
        in = s->branch;
    }
    if (n == 0) return HSC_OK;
    int width = desc->w_head.data ? desc->w_head.n_out : d;
    float *rows = s->x, *other = s->branch;
    norm_rows(s, &desc->ln_final, d, in, n, rows);
    SHOW(HSC_LN_FINAL, 0, rows, d);
    HSC_TRY(show_pooled(s, err));
    if (desc->head_scale != 0) scale_rows(s, rows, n, d, desc->head_scale, 0);
    if (desc->w_head.data) {
        run_head(s, rows, n, other);
        rows = s->branch;
        other = s->x;
        SHOW(HSC_LN_HEAD, 0, rows, width);
    }
    if (none) return HSC_OK;
    if (last && watched) {
        n = gather_last_rows(s, rows, (size_t)width, other, &first);
        rows = other;
    }
    if (n == 0) return HSC_OK;
    float *logits = s->logits + (size_t)first * (size_t)v;
    hsc__linear p = product(&desc->unembed, rows, logits);
    hsc__linear_forward(&s->exec, &p, 1, n);
    if (desc->logit_cap > 0) scale_rows(s, logits, n, v, 1, desc->logit_cap);
    SHOW(HSC_LOGITS, 0, logits, v);
    return HSC_OK;
}

/* What an encoder ends with: its final norm, and of that the keys and values for each block of the decoder. */
static hsc_status serve_reader(hsc_session *s, hsc_error *err)
{
    const hsc_config *c = &s->reader->config;
    int kv_size = c->n_kv_heads * c->d_head;
    HSC_TRY(show_norm(s, &s->desc->ln_final, s->x, HSC_LN_FINAL, 0, err));
    for (int layer = 0; layer < c->n_layers; layer++) {
        const hsc__cross *cross = &s->reader->layers[layer].cross;
        hsc__linear p[2] = {product(&cross->w_k, s->x, s->k), product(&cross->w_v, s->x, s->v)};
        hsc__linear_forward(&s->exec, p, 2, s->n_rows);
        SHOW(HSC_CROSS_K, layer, s->k, kv_size);
        SHOW(HSC_CROSS_V, layer, s->v, kv_size);
        store_keys(s, &s->cross, layer);
    }
    return HSC_OK;
}

hsc_status hsc__forward_chunk(hsc_session *s, const hsc_token *ids, hsc_error *err)
{
    size_t d = (size_t)s->desc->config.d_model;
    if (s->start)
        memcpy(s->resid, s->start + (size_t)s->pieces[0].batch_row * d, (size_t)s->n_rows * d * sizeof(float));
    else HSC_TRY(embed(s, ids, err));
    for (int layer = s->first_layer; layer < s->desc->config.n_layers; layer++) HSC_TRY(run_layer(s, layer, err));
    return s->reader ? serve_reader(s, err) : unembed(s, err);
}
