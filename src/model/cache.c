/*
 * Cells, sharing and files. A fork shares whole tiles of its parent's prefix and copies the rest; before a parent's
 * prefix changes, its children get a copy of their own, so nobody ever sees another's tokens.
 */
#include "model/session.h"

#include "base/dtype.h"

#include <string.h>

enum { TILE = 64 }; /* positions; a multiple of every panel width */

static int round_up(int64_t n, int step)
{
    return (int)((n + step - 1) / step * step);
}

/* Cells of a layer: all positions, or with a window enough that a chunk never overwrites what its rows still see. */
static int cells_of(const hsc__layer *layer, int max_tokens, int max_rows, int window, bool ring)
{
    int all = round_up(max_tokens, HSC__K_CHUNK), seen = window ? window : layer->window;
    if (!ring || seen <= 0) return all;
    int need = round_up((int64_t)seen + max_rows + TILE, HSC__K_CHUNK);
    return need < all ? need : all;
}

size_t hsc__cache_bytes(const hsc__desc *desc, hsc_dtype dtype, int max_seqs, int max_tokens, int max_rows, int window,
                        bool ring)
{
    size_t total = 0;
    ring &= desc->config.causal != 0;
    for (int i = 0; i < desc->config.n_layers; i++) {
        int cells = cells_of(&desc->layers[i], max_tokens, max_rows, window, ring), tiles = round_up(max_tokens, TILE);
        if (tiles < cells) cells = tiles;
        total += hsc__kv_head_bytes(dtype, desc->config.d_head, cells);
        if (!desc->config.causal) break; /* the layers share one */
    }
    return 2 * total * (size_t)desc->config.n_kv_heads * (size_t)max_seqs;
}

hsc_status hsc__cache_init(hsc__cache *c, const hsc__desc *desc, hsc_dtype dtype, int max_seqs, int max_tokens,
                           int max_rows, int window, bool ring, hsc_error *err)
{
    const hsc_config *config = &desc->config;
    ring &= config->causal != 0; /* else a sequence needs all its keys at once */
    *c = (hsc__cache){hsc__kernels_get(),
                      dtype,
                      config->n_layers,
                      config->n_kv_heads,
                      config->d_head,
                      max_seqs,
                      false,
                      false,
                      NULL,
                      NULL};
    c->shared = !config->causal;
    HSC_FAIL_IF(
        !hsc__kv_can_store(dtype, config->d_head), HSC_EINVAL,
        "a cache of type %s is not possible with heads of %d values (F32, F16 and BF16 are; Q8_0 needs multiples "
        "of 32)",
        hsc_dtype_name(dtype), config->d_head);
    c->layers = hsc__calloc((size_t)c->n_layers, sizeof *c->layers);
    c->seqs = hsc__calloc((size_t)max_seqs, sizeof *c->seqs);
    if (!c->layers || !c->seqs) return hsc__fail_memory(err, (size_t)max_seqs * sizeof *c->seqs, "the cache");
    for (int i = 0; i < c->n_layers; i++) {
        hsc__cache_layer *l = &c->layers[i];
        l->window = window ? window : desc->layers[i].window;
        l->n_cells = cells_of(&desc->layers[i], max_tokens, max_rows, window, ring);
        c->has_ring |= l->n_cells < max_tokens;
        l->seq_bytes = hsc__kv_head_bytes(dtype, c->d_head, l->n_cells) * (size_t)c->n_kv_heads;
        if (c->shared && i > 0) {
            *l = c->layers[0];
            continue;
        }
        l->k = hsc__calloc((size_t)max_seqs, l->seq_bytes);
        l->v = hsc__calloc((size_t)max_seqs, l->seq_bytes);
        if (!l->k || !l->v)
            return hsc__fail_memory(err, hsc__cache_bytes(desc, dtype, max_seqs, max_tokens, max_rows, window, ring),
                                    "the key/value cache");
    }
    return HSC_OK;
}

void hsc__cache_free(hsc__cache *c)
{
    for (int i = 0; c->layers && i < (c->shared ? 1 : c->n_layers); i++) {
        hsc__free(c->layers[i].k);
        hsc__free(c->layers[i].v);
    }
    hsc__free(c->layers);
    hsc__free(c->seqs);
    *c = (hsc__cache){0};
}

hsc__kv hsc__cache_kv(const hsc__cache *c, int layer, int seq)
{
    const hsc__cache_layer *l = &c->layers[layer];
    const hsc__cache_seq *q = &c->seqs[seq];
    size_t own = (size_t)seq * l->seq_bytes, shared = (size_t)q->owner * l->seq_bytes;
    return (hsc__kv){.dtype = c->dtype,
                     .n_kv_heads = c->n_kv_heads,
                     .d_head = c->d_head,
                     .n_cells = l->n_cells,
                     .head_bytes = l->seq_bytes / (size_t)c->n_kv_heads,
                     .k = l->k + own,
                     .v = l->v + own,
                     .k_shared = l->k + shared,
                     .v_shared = l->v + shared,
                     .n_shared = q->n_shared};
}

/* Copies the cells [from, to) of every layer and head; from is a multiple of a tile, to is rounded up to one. */
static void copy_cells(hsc__cache *c, int from_seq, int to_seq, int from, int to)
{
    size_t row = hsc__dtype_bytes(c->dtype, (size_t)c->d_head);
    if (from >= to) return;
    for (int i = 0; i < c->n_layers; i++) {
        const hsc__cache_layer *l = &c->layers[i];
        size_t head = l->seq_bytes / (size_t)c->n_kv_heads, at = (size_t)from * row;
        size_t n = (size_t)(round_up(to, TILE) - from) * row;
        for (int h = 0; h < c->n_kv_heads; h++) {
            size_t start = (size_t)h * head + at;
            memcpy(l->k + (size_t)to_seq * l->seq_bytes + start, l->k + (size_t)from_seq * l->seq_bytes + start, n);
            memcpy(l->v + (size_t)to_seq * l->seq_bytes + start, l->v + (size_t)from_seq * l->seq_bytes + start, n);
        }
    }
}

static void unshare(hsc__cache *c, int seq)
{
    hsc__cache_seq *q = &c->seqs[seq];
    copy_cells(c, q->owner, seq, 0, q->n_shared);
    q->n_shared = q->owner = 0;
}

void hsc__cache_release(hsc__cache *c, int seq, int n_tokens)
{
    for (int i = 0; i < c->max_seqs; i++) {
        if (i != seq && c->seqs[i].owner == seq && c->seqs[i].n_shared > n_tokens) unshare(c, i);
    }
    if (c->seqs[seq].n_shared > n_tokens) unshare(c, seq);
}

bool hsc__cache_can_cut(const hsc__cache *c, int written, int n_tokens)
{
    for (int i = 0; i < c->n_layers && n_tokens > 0; i++) {
        const hsc__cache_layer *l = &c->layers[i];
        if (l->window > 0 && written > l->n_cells && n_tokens - l->window < written - l->n_cells) return false;
    }
    return true;
}

void hsc__cache_set_length(hsc__cache *c, int seq, int n_tokens)
{
    hsc__cache_seq *q = &c->seqs[seq];
    q->length = n_tokens;
    if (n_tokens == 0 || n_tokens > q->written) q->written = n_tokens;
}

static hsc_status check_seq(const hsc_session *s, int seq, hsc_error *err)
{
    HSC_FAIL_IF(seq < 0 || seq >= s->max_seqs, HSC_EINVAL, "sequence %d does not exist, the session has %d", seq,
                s->max_seqs);
    return HSC_OK;
}

static hsc_status check_cut(const hsc_session *s, int seq, int n_tokens, hsc_error *err)
{
    int length = s->cache.seqs[seq].length;
    HSC_FAIL_IF(n_tokens < 0 || n_tokens > length, HSC_EINVAL, "sequence %d holds %d tokens and cannot be cut to %d",
                seq, length, n_tokens);
    HSC_FAIL_IF(!hsc__cache_can_cut(&s->cache, s->cache.seqs[seq].written, n_tokens), HSC_EINVAL,
                "sequence %d: the sliding window has passed, its first %d tokens are no longer whole", seq, n_tokens);
    return HSC_OK;
}

void hsc_session_reset(hsc_session *s)
{
    memset(s->cache.seqs, 0, (size_t)s->max_seqs * sizeof *s->cache.seqs);
    for (int i = 0; s->sources && i < s->max_seqs; i++) s->sources[i] = i;
    s->valid = false;
}

int hsc_session_length(const hsc_session *s, int seq)
{
    return seq < 0 || seq >= s->max_seqs ? 0 : s->cache.seqs[seq].length;
}

hsc_status hsc_session_truncate(hsc_session *s, int seq, int n_tokens, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_TRY(check_seq(s, seq, err));
    HSC_TRY(check_cut(s, seq, n_tokens, err));
    hsc__cache_release(&s->cache, seq, n_tokens);
    hsc__cache_set_length(&s->cache, seq, n_tokens);
    return HSC_OK;
}

hsc_status hsc_session_fork(hsc_session *s, int from, int to, int n_tokens, hsc_error *err)
{
    hsc__cache *c = &s->cache;
    hsc__error_clear(err);
    HSC_TRY(check_seq(s, from, err));
    HSC_TRY(check_seq(s, to, err));
    HSC_FAIL_IF(from == to, HSC_EINVAL, "sequence %d cannot be forked into itself", from);
    HSC_TRY(check_cut(s, from, n_tokens, err));
    c->seqs[to].n_shared = 0; /* its prefix is given up, not to be copied for it */
    hsc__cache_release(c, to, 0);
    if (s->sources) s->sources[to] = s->sources[from];
    hsc__cache_seq parent = c->seqs[from];
    if (c->has_ring) {
        for (int i = 0; i < c->n_layers; i++) {
            const hsc__cache_layer *l = &c->layers[i];
            memcpy(l->k + (size_t)to * l->seq_bytes, l->k + (size_t)from * l->seq_bytes, l->seq_bytes);
            memcpy(l->v + (size_t)to * l->seq_bytes, l->v + (size_t)from * l->seq_bytes, l->seq_bytes);
        }
        c->seqs[to] = (hsc__cache_seq){.length = n_tokens, .written = n_tokens ? parent.written : 0};
        return HSC_OK;
    }
    int whole = n_tokens / TILE * TILE, owner = parent.n_shared > 0 ? parent.owner : from;
    int shared = parent.n_shared > 0 && parent.n_shared < whole ? parent.n_shared : whole;
    c->seqs[to] = (hsc__cache_seq){n_tokens, n_tokens, shared, shared ? owner : 0};
    copy_cells(c, shared < parent.n_shared ? parent.owner : from, to, shared, n_tokens);
    return HSC_OK;
}
