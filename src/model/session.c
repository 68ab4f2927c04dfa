/* Sessions: memory sized up front, the cache's bookkeeping, and the cutting of a batch into chunks. */
#include "model/session.h"

#include "base/pages.h"
#include "base/parallel.h"

#include <string.h>

enum { DEFAULT_CHUNK = 512 };

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

/* The buffers of a chunk; s may be NULL when only the sizes are wanted. */
typedef struct {
    float **pointer;
    size_t width;
} part;

enum { N_PARTS = 9 };

static size_t kv_width(const hsc_config *c)
{
    return (size_t)c->n_kv_heads * (size_t)c->d_head;
}

static void list_parts(const hsc__desc *desc, const hsc__desc *reader, hsc_session *s, part out[N_PARTS])
{
    const hsc_config *c = &desc->config;
    size_t d = (size_t)c->d_model, q = (size_t)c->n_heads * (size_t)c->d_head;
    size_t kv = kv_width(c), m = (size_t)c->d_mlp;
    if (reader && kv_width(&reader->config) > kv) kv = kv_width(&reader->config);
    const size_t widths[N_PARTS] = {d, d, q, kv, kv, q, d, m, c->is_gated ? m : 0};
    for (int i = 0; i < N_PARTS; i++) out[i] = (part){NULL, widths[i]};
    if (!s) return;
    float **const pointers[N_PARTS] = {&s->resid, &s->x, &s->q, &s->k, &s->v, &s->z, &s->branch, &s->pre, &s->up};
    for (int i = 0; i < N_PARTS; i++) out[i].pointer = pointers[i];
}

size_t hsc__arena_floats(const hsc__desc *desc, const hsc__desc *reader, int max_rows)
{
    part parts[N_PARTS];
    size_t total = 0;
    list_parts(desc, reader, NULL, parts);
    for (int i = 0; i < N_PARTS; i++) total += round_up(parts[i].width * (size_t)max_rows, 16);
    return total;
}

static hsc_status make_arena(hsc_session *s, hsc_error *err)
{
    part parts[N_PARTS];
    size_t total = hsc__arena_floats(s->desc, s->reader, s->max_rows);
    list_parts(s->desc, s->reader, s, parts);
    s->arena = hsc__malloc_aligned(total * sizeof(float));
    s->positions = hsc__malloc((size_t)s->max_rows * sizeof *s->positions);
    s->segments = hsc__malloc((size_t)s->max_rows * sizeof *s->segments);
    if (!s->arena || !s->positions || !s->segments)
        return hsc__fail_memory(err, total * sizeof(float), "the activations");
    float *next = s->arena;
    for (int i = 0; i < N_PARTS; i++) {
        *parts[i].pointer = next;
        next += round_up(parts[i].width * (size_t)s->max_rows, 16);
    }
    return HSC_OK;
}

static hsc_status make_rope(hsc_session *s, const hsc__rope *rope, hsc_error *err)
{
    for (int i = 0; i < s->n_ropes; i++) {
        if (s->ropes[i].rope->inv_freq == rope->inv_freq) return HSC_OK;
    }
    HSC_FAIL_IF(s->n_ropes == (int)(sizeof s->ropes / sizeof *s->ropes), HSC_EUNSUPPORTED,
                "more than %d kinds of rotary embedding in one model", s->n_ropes);
    hsc__rope_table *t = &s->ropes[s->n_ropes++];
    size_t n = (size_t)s->max_tokens * (size_t)rope->half;
    *t = (hsc__rope_table){rope, hsc__malloc(n * sizeof(float)), hsc__malloc(n * sizeof(float))};
    if (!t->cosine || !t->sine) return hsc__fail_memory(err, n * sizeof(float), "the rotary table");
    hsc__nn_angles(rope->inv_freq, rope->half, NULL, s->max_tokens, t->cosine, t->sine);
    for (size_t i = 0; rope->scale != 1 && i < n; i++) {
        t->cosine[i] *= rope->scale;
        t->sine[i] *= rope->scale;
    }
    return HSC_OK;
}

static hsc_status make_lists(hsc_session *s, hsc_error *err)
{
    s->n_watch_layers = s->desc->config.n_layers;
    if (s->reader && s->reader->config.n_layers > s->n_watch_layers) s->n_watch_layers = s->reader->config.n_layers;
    size_t n = (size_t)s->max_seqs, sites = (size_t)HSC_N_SITES * (size_t)s->n_watch_layers;
    s->pieces = hsc__calloc(n, sizeof *s->pieces);
    s->seqs = hsc__calloc(n + 1, sizeof *s->seqs);
    s->watch = hsc__calloc(sites, 1);
    if (!s->pieces || !s->seqs || !s->watch) return hsc__fail_memory(err, n * 64 + sites, "a session");
    return HSC_OK;
}

/* The block list is the caller's; a session keeps its own. */
static hsc_status copy_allowed(hsc_session *s, hsc_error *err)
{
    if (!s->mask.allowed) return HSC_OK;
    size_t n = (size_t)s->mask.n_blocks * (size_t)s->mask.n_blocks;
    s->allowed = hsc__malloc(n);
    if (!s->allowed) return hsc__fail_memory(err, n, "the block list");
    memcpy(s->allowed, s->mask.allowed, n);
    return HSC_OK;
}

size_t hsc__scratch_floats(const hsc_config *c, int max_rows, int max_tokens)
{
    size_t linear = hsc__linear_scratch(max_rows);
    size_t attention = hsc__attention_scratch(hsc__kernels_get(), max_tokens, c->d_head);
    return linear > attention ? linear : attention;
}

int hsc__widest_input(const hsc_config *c)
{
    int widest = c->d_mlp > c->d_model ? c->d_mlp : c->d_model, q = c->n_heads * c->d_head;
    return q > widest ? q : widest;
}

int hsc__chunk_rows(const hsc_config *c, const hsc_session_options *o, int max_tokens, int max_seqs)
{
    int64_t all = (int64_t)max_tokens * max_seqs, chunk = o->chunk ? o->chunk : DEFAULT_CHUNK;
    if (!c->causal && chunk < max_tokens) chunk = max_tokens; /* a sequence goes through as a whole */
    return (int)(all < chunk ? all : chunk);
}

static hsc_status new_session(hsc_session **out, const hsc_model *model, const hsc__desc *desc, const hsc__desc *reader,
                              const hsc_session_options *o, hsc_error *err);

/* The keys and values that the reader's blocks make of an encoder's output. */
static hsc_status make_cross(hsc_session *s, const hsc_session_options *o, hsc_error *err)
{
    if (!s->reader) return HSC_OK;
    return hsc__cache_init(&s->cross, s->reader, o->cache, s->max_seqs, s->max_tokens, s->max_rows, 0, false, err);
}

/* Of the options, what is about a source. */
static hsc_status make_encoder(hsc_session *s, const hsc_session_options *o, hsc_error *err)
{
    hsc_session_options inner = *o;
    if (!s->desc->encoder) return HSC_OK;
    inner.max_tokens = o->max_source;
    inner.mask = (hsc_mask){0};
    s->sources = hsc__calloc((size_t)s->max_seqs, sizeof *s->sources);
    if (!s->sources) return hsc__fail_memory(err, (size_t)s->max_seqs * sizeof *s->sources, "a session");
    for (int i = 0; i < s->max_seqs; i++) s->sources[i] = i;
    return new_session(&s->encoder, s->model, s->desc->encoder, s->desc, &inner, err);
}

static hsc_status make(hsc_session *s, const hsc_session_options *o, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    HSC_TRY(make_encoder(s, o, err));
    int longest = s->encoder && s->encoder->max_tokens > s->max_tokens ? s->encoder->max_tokens : s->max_tokens;
    int n_threads = o->n_threads ? o->n_threads : hsc__default_threads();
    hsc_compute compute = o->compute == HSC_COMPUTE_AUTO ? hsc_model_auto_compute(s->model) : o->compute;
    HSC_TRY(hsc__exec_init(&s->exec, n_threads, hsc__scratch_floats(c, s->max_rows, longest), compute, s->max_rows,
                           hsc__widest_input(c), err));
    HSC_TRY(make_lists(s, err));
    HSC_TRY(hsc__cache_init(&s->cache, s->desc, o->cache, s->max_seqs, s->max_tokens, s->max_rows, s->mask.window,
                            s->mask.sinks == 0, err));
    HSC_TRY(make_cross(s, o, err));
    HSC_TRY(copy_allowed(s, err));
    HSC_TRY(make_arena(s, err));
    for (int i = 0; i < c->n_layers; i++) {
        if (s->desc->layers[i].rope.half) HSC_TRY(make_rope(s, &s->desc->layers[i].rope, err));
    }
    return HSC_OK;
}

static hsc_status check_mask(const hsc_mask *m, int max_tokens, hsc_error *err)
{
    HSC_FAIL_IF(m->window < 0 || m->sinks < 0, HSC_EINVAL, "mask: window %d and sinks %d cannot be negative", m->window,
                m->sinks);
    HSC_FAIL_IF(m->sinks > 0 && m->window == 0, HSC_EINVAL, "mask: sinks have a meaning only with a window");
    HSC_FAIL_IF(m->allowed && (m->block < 1 || m->n_blocks < 1 || (int64_t)m->block * m->n_blocks < max_tokens),
                HSC_EINVAL, "mask: %d blocks of %d positions do not cover %d tokens", m->n_blocks, m->block,
                max_tokens);
    return HSC_OK;
}

static hsc_status check_options(const hsc_session_options *o, const hsc__desc *desc, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    int most_source = desc->encoder ? desc->encoder->config.n_ctx : 0;
    HSC_FAIL_IF(o->n_threads < 0 || o->n_threads > 1024, HSC_EINVAL, "n_threads is %d, 0 to 1024 are accepted",
                o->n_threads);
    HSC_FAIL_IF(o->max_tokens < 0 || o->max_tokens > c->n_ctx, HSC_EINVAL,
                "max_tokens is %d, the model's context is %d", o->max_tokens, c->n_ctx);
    HSC_FAIL_IF(o->max_source < 0 || o->max_source > most_source, HSC_EINVAL,
                "max_source is %d, the encoder's context is %d", o->max_source, most_source);
    HSC_FAIL_IF(o->max_seqs < 0 || o->max_seqs > 1 << 20, HSC_EINVAL, "max_seqs is %d, 0 to %d are accepted",
                o->max_seqs, 1 << 20);
    HSC_FAIL_IF((unsigned)o->cache >= HSC_N_DTYPES, HSC_EINVAL, "cache type %d does not exist", (int)o->cache);
    HSC_TRY(check_mask(&o->mask, o->max_tokens ? o->max_tokens : c->n_ctx, err));
    HSC_FAIL_IF(o->chunk < 0, HSC_EINVAL, "chunk is %d, it cannot be negative", o->chunk);
    HSC_FAIL_IF((unsigned)o->compute >= HSC_N_COMPUTES, HSC_EINVAL, "compute kind %d does not exist", (int)o->compute);
    return HSC_OK;
}

static hsc_status new_session(hsc_session **out, const hsc_model *model, const hsc__desc *desc, const hsc__desc *reader,
                              const hsc_session_options *o, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc_session *s = hsc__calloc(1, sizeof *s);
    if (!s) return hsc__fail_memory(err, sizeof *s, "a session");
    s->model = model;
    s->desc = desc;
    s->reader = reader;
    s->max_tokens = o->max_tokens ? o->max_tokens : c->n_ctx;
    s->max_seqs = o->max_seqs ? o->max_seqs : 1;
    s->mask = o->mask;
    s->max_rows = hsc__chunk_rows(c, o, s->max_tokens, s->max_seqs);
    hsc_status status = make(s, o, err);
    if (status != HSC_OK) {
        hsc_session_free(s);
        return status;
    }
    *out = s;
    return HSC_OK;
}

hsc_status hsc_session_new(hsc_session **out, const hsc_model *model, const hsc_session_options *options,
                           hsc_error *err)
{
    static const hsc_session_options defaults;
    const hsc_session_options *o = options ? options : &defaults;
    *out = NULL;
    hsc__error_clear(err);
    HSC_TRY(check_options(o, &model->desc, err));
    return new_session(out, model, &model->desc, NULL, o, err);
}

void hsc_session_free(hsc_session *s)
{
    if (!s) return;
    hsc_session_record_clear(s);
    hsc_session_free(s->encoder);
    hsc__free(s->sources);
    hsc__stats_free(s);
    hsc__free(s->kept);
    hsc__free(s->observers);
    hsc__free(s->logits);
    for (int i = 0; i < s->n_ropes; i++) {
        hsc__free(s->ropes[i].cosine);
        hsc__free(s->ropes[i].sine);
    }
    hsc__free_aligned(s->arena);
    hsc__free(s->positions);
    hsc__free(s->segments);
    hsc__cache_free(&s->cache);
    hsc__cache_free(&s->cross);
    hsc__free(s->allowed);
    hsc__free(s->pieces);
    hsc__free(s->seqs);
    hsc__free(s->watch);
    hsc__exec_free(&s->exec);
    hsc__free(s);
}

const hsc_model *hsc_session_model(const hsc_session *s)
{
    return s->model;
}

int hsc_session_n_threads(const hsc_session *s)
{
    return s->exec.n_threads;
}

hsc_compute hsc_session_compute(const hsc_session *s)
{
    return s->exec.compute;
}

/* The final norm and the output matrix read no source. */
static hsc_status check_source(const hsc_session *s, const hsc_batch *b, int seq, hsc_error *err)
{
    bool runs_layers = !b->resid || b->first_layer < s->desc->config.n_layers;
    HSC_FAIL_IF(s->encoder && runs_layers && hsc_session_source_length(s, seq) == 0, HSC_EINVAL,
                "%s is an encoder-decoder and sequence %d has no source: hsc_session_read_source comes first",
                s->desc->config.name, seq);
    return HSC_OK;
}

hsc_status hsc__session_check_ids(const hsc_session *s, const hsc_token *ids, int n, hsc_error *err)
{
    int d_vocab = s->desc->config.d_vocab;
    for (int i = 0; i < n; i++)
        HSC_FAIL_IF(ids[i] < 0 || ids[i] >= d_vocab, HSC_EINVAL,
                    "token id %d at index %d is outside the model's vocabulary of %d", (int)ids[i], i, d_vocab);
    return HSC_OK;
}

/* Fills s->seqs from the batch and checks every limit. */
static hsc_status check_batch(hsc_session *s, const hsc_batch *b, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    int n_seqs = b->seq_lengths ? b->n_seqs : 1;
    hsc__batch_seq sum = {0};
    HSC_FAIL_IF(b->n_tokens < 1, HSC_EINVAL, "the batch has no tokens");
    HSC_FAIL_IF(!b->seq_lengths && (b->n_seqs < 0 || b->n_seqs > 1), HSC_EINVAL,
                "n_seqs is %d and seq_lengths is NULL, which means one sequence", b->n_seqs);
    HSC_FAIL_IF(n_seqs < 1 || n_seqs > s->max_seqs, HSC_EINVAL, "the batch has %d sequences, the session takes 1 to %d",
                n_seqs, s->max_seqs);
    HSC_FAIL_IF((unsigned)b->logits > HSC_LOGITS_NONE, HSC_EINVAL, "logits is %d, 0 to 2 are accepted", (int)b->logits);
    int64_t row = 0;
    for (int i = 0; i < n_seqs; i++) {
        int n = b->seq_lengths ? b->seq_lengths[i] : b->n_tokens, past = s->cache.seqs[i].length;
        HSC_FAIL_IF(n < 1 || row + n > b->n_tokens, HSC_EINVAL, "sequence %d has length %d, the batch has %d tokens", i,
                    n, b->n_tokens);
        HSC_FAIL_IF((int64_t)past + n > c->n_ctx, HSC_EINVAL,
                    "sequence %d would have %lld tokens, the model's context is %d", i, (long long)past + n, c->n_ctx);
        HSC_FAIL_IF((int64_t)past + n > s->max_tokens, HSC_EINVAL,
                    "sequence %d would have %lld tokens, this session was made for %d", i, (long long)past + n,
                    s->max_tokens);
        HSC_TRY(check_source(s, b, i, err));
        sum.row = (int)row;
        sum.n_query = n;
        sum.past = past;
        sum.n_source = hsc_session_source_length(s, i);
        s->seqs[i] = sum;
        sum.keys += (size_t)hsc__batch_n_key(&s->seqs[i]);
        sum.cells += (size_t)n * (size_t)hsc__batch_n_key(&s->seqs[i]);
        sum.source_keys += (size_t)sum.n_source;
        sum.source_cells += (size_t)n * (size_t)sum.n_source;
        row += n;
    }
    HSC_FAIL_IF(row != b->n_tokens, HSC_EINVAL, "the sequences have %lld tokens together, the batch has %d",
                (long long)row, b->n_tokens);
    HSC_TRY(hsc__session_check_ids(s, b->ids, b->n_tokens, err));
    for (int i = 0; b->segments && i < b->n_tokens; i++)
        HSC_FAIL_IF(b->segments[i] < 0 || b->segments[i] >= c->n_segments, HSC_EINVAL,
                    "segment %d of the token at index %d: the model has %d segments", (int)b->segments[i], i,
                    c->n_segments);
    HSC_FAIL_IF(b->first_layer < 0 || b->first_layer > (b->resid ? c->n_layers : 0), HSC_EINVAL,
                "first_layer is %d, the model has %d layers, and a layer past 0 wants resid", b->first_layer,
                c->n_layers);
    sum.row = b->n_tokens;
    s->seqs[n_seqs] = sum;
    s->start = b->resid;
    s->first_layer = b->first_layer;
    s->n_seqs = n_seqs;
    s->n_tokens = b->n_tokens;
    return HSC_OK;
}

/* Room for the rows of logits that the batch asks for. */
static hsc_status prepare_logits(hsc_session *s, hsc_logits_rows rows, hsc_error *err)
{
    s->logits_rows = hsc__watched(s, HSC_LOGITS, 0) ? HSC_LOGITS_ALL : rows;
    if (!s->desc->unembed.data) s->logits_rows = HSC_LOGITS_NONE;
    s->n_logits = s->logits_rows == HSC_LOGITS_ALL ? s->n_tokens : s->logits_rows == HSC_LOGITS_LAST ? s->n_seqs : 0;
    size_t need = (size_t)s->n_logits * (size_t)s->desc->config.d_vocab;
    if (need <= s->logits_capacity) return HSC_OK;
    hsc__pages_prefer_huge(s->desc->unembed.data, hsc__weight_bytes(&s->desc->unembed)); /* read from end to end */
    hsc__free(s->logits);
    s->logits_capacity = 0;
    s->logits = hsc__malloc(need * sizeof *s->logits);
    if (!s->logits) return hsc__fail_memory(err, need * sizeof *s->logits, "the logits");
    s->logits_capacity = need;
    return HSC_OK;
}

/* Rows from batch row `from` on that fit a chunk: whole sequences when tokens see later ones. */
static int rows_of_chunk(const hsc_session *s, int from)
{
    if (s->n_tokens - from <= s->max_rows) return s->n_tokens - from;
    if (s->desc->config.causal) return s->max_rows;
    int end = from;
    for (int i = 0; i < s->n_seqs; i++) {
        int next = s->seqs[i].row + s->seqs[i].n_query;
        if (next > from && next - from <= s->max_rows) end = next;
    }
    return end - from;
}

/* Pieces of the next at most max_rows rows of the batch, from batch row `from` on. Returns how many rows they have. */
static int cut_chunk(hsc_session *s, const int32_t *segments, int from)
{
    int n_rows = rows_of_chunk(s, from);
    s->n_pieces = 0;
    s->n_rows = n_rows;
    for (int r = 0; r < n_rows; r++) s->segments[r] = segments ? segments[from + r] : 0;
    for (int i = 0; i < s->n_seqs; i++) {
        const hsc__batch_seq *q = &s->seqs[i];
        int start = q->row > from ? q->row : from, end = q->row + q->n_query;
        if (end > from + n_rows) end = from + n_rows;
        if (start >= end) continue;
        hsc__piece p = {i, start - from, end - start, q->past + start - q->row, start, start - q->row};
        for (int r = 0; r < p.n_rows; r++) s->positions[p.row + r] = p.position + r;
        s->pieces[s->n_pieces++] = p;
    }
    return n_rows;
}

/* After a pass that failed: a ring may have lost keys that the sequence would need to go on; it is then emptied. */
static hsc_status forget_overwritten(hsc_session *s, hsc_status status)
{
    for (int i = 0; i < s->n_seqs; i++) {
        hsc__cache_seq *q = &s->cache.seqs[i];
        int end = s->seqs[i].past + s->seqs[i].n_query;
        if (end > q->written) q->written = end;
        if (!hsc__cache_can_cut(&s->cache, q->written, q->length)) hsc__cache_set_length(&s->cache, i, 0);
    }
    return status;
}

hsc_status hsc_forward(hsc_session *s, const hsc_batch *batch, hsc_error *err)
{
    hsc__error_clear(err);
    s->valid = false;
    HSC_TRY(check_batch(s, batch, err));
    HSC_TRY(prepare_logits(s, batch->logits, err));
    HSC_TRY(hsc__watch_prepare(s, err));
    HSC_TRY(hsc__stats_prepare(s, err));
    hsc_status status = HSC_OK;
    for (int i = 0; i < s->n_seqs; i++) hsc__cache_release(&s->cache, i, s->seqs[i].past);
    for (int from = 0; from < s->n_tokens && status == HSC_OK;) {
        int n_rows = cut_chunk(s, batch->segments, from);
        status = hsc__forward_chunk(s, batch->ids + from, err);
        from += n_rows;
    }
    if (status != HSC_OK) return forget_overwritten(s, status);
    hsc__stats_finish(s);
    for (int i = 0; i < s->n_seqs && s->desc->config.causal; i++)
        hsc__cache_set_length(&s->cache, i, s->seqs[i].past + s->seqs[i].n_query);
    s->valid = true;
    return HSC_OK;
}

hsc_status hsc_session_logits(const hsc_session *s, hsc_view *out, hsc_error *err)
{
    HSC_FAIL_IF(!s->valid || !s->n_logits, HSC_ENOTFOUND, "the last pass made no logits");
    *out = (hsc_view){s->logits, 2, {s->n_logits, s->desc->config.d_vocab}};
    return HSC_OK;
}

hsc_status hsc_session_read_source(hsc_session *s, const hsc_batch *batch, hsc_error *err)
{
    hsc_session *e = s->encoder;
    hsc__error_clear(err);
    HSC_FAIL_IF(!e, HSC_EINVAL, "%s has no encoder: it reads no source", s->desc->config.name);
    hsc_session_reset(s);
    for (int i = 0; i < e->max_seqs; i++) e->cross.seqs[i].length = 0;
    hsc_batch source = {.ids = batch->ids,
                        .n_tokens = batch->n_tokens,
                        .seq_lengths = batch->seq_lengths,
                        .n_seqs = batch->n_seqs,
                        .logits = HSC_LOGITS_NONE};
    hsc_status status = hsc_forward(e, &source, err);
    if (status != HSC_OK) return hsc__fail_prefix(err, status, "the source");
    for (int i = 0; i < e->n_seqs; i++) e->cross.seqs[i].length = e->seqs[i].n_query;
    return HSC_OK;
}

int hsc_session_source_length(const hsc_session *s, int seq)
{
    if (!s->encoder || seq < 0 || seq >= s->max_seqs) return 0;
    return s->encoder->cross.seqs[s->sources[seq]].length;
}
