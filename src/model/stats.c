/*
 * Statistics of attention, taken from each row of weights while it is in cache. A row's figures depend on the row
 * alone; what a key receives is summed over rows in integers, so that no order of workers shows.
 */
#include "model/session.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_TOP_K = 8, MAX_TOP_K = 64 };

static const struct {
    const char *name;
} stats[HSC_N_STATS] = {
#define HSC_STAT_ROW(id, name, shape, meaning) [id] = {name},
    HSC_STAT_LIST(HSC_STAT_ROW)
#undef HSC_STAT_ROW
};

const char *hsc_stat_name(hsc_stat stat)
{
    return (unsigned)stat < HSC_N_STATS ? stats[stat].name : NULL;
}

static void free_layer(hsc__stat_layer *l)
{
    hsc__free(l->floats);
    hsc__free(l->topk_keys);
    hsc__free(l->received);
}

void hsc__stats_free(hsc_session *s)
{
    hsc__stats *t = &s->stats;
    for (int i = 0; t->layers && i < s->desc->config.n_layers; i++) free_layer(&t->layers[i]);
    free_layer(&t->passing);
    hsc__free(t->layers);
    hsc__free(t->partial);
    *t = (hsc__stats){0};
}

/* The session of the stack whose statistics are collected. */
static const hsc_session *collecting(const hsc_session *s)
{
    return s->encoder && s->encoder->stats.layers ? s->encoder : s;
}

hsc_status hsc_session_collect(hsc_session *s, const hsc_stats_options *o, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_FAIL_IF(o && o->of_encoder && !s->encoder, HSC_EINVAL, "%s has no encoder", s->desc->config.name);
    if (s->encoder) hsc__stats_free(s->encoder);
    if (o && o->of_encoder) {
        hsc__stats_free(s);
        s = s->encoder;
    }
    const hsc_config *c = &s->desc->config;
    if (o) {
        HSC_FAIL_IF(o->layer < -1 || o->layer >= c->n_layers, HSC_EINVAL, "layer %d does not exist, the model has %d",
                    o->layer, c->n_layers);
        HSC_FAIL_IF(o->top_k < 0 || o->top_k > MAX_TOP_K, HSC_EINVAL, "top_k is %d, 0 to %d are accepted", o->top_k,
                    MAX_TOP_K);
        HSC_FAIL_IF(o->stats >> HSC_N_STATS, HSC_EINVAL, "stats 0x%x has bits that stand for nothing", o->stats);
    }
    hsc__stats_free(s);
    s->valid = false;
    if (!o) return HSC_OK;
    s->stats.layers = hsc__calloc((size_t)c->n_layers, sizeof *s->stats.layers);
    if (!s->stats.layers) return hsc__fail_memory(err, (size_t)c->n_layers * sizeof *s->stats.layers, "statistics");
    s->stats.layer = o->layer;
    s->stats.stats = o->stats ? o->stats : (1u << HSC_N_STATS) - 1;
    s->stats.top_k = o->top_k ? o->top_k : DEFAULT_TOP_K;
    s->stats.on_rows = o->on_rows;
    s->stats.user = o->user;
    return HSC_OK;
}

static bool collects(const hsc__stats *t, hsc_stat stat)
{
    return t->stats >> stat & 1;
}

/* Floats that a query row of one head has in an array; 0 for received, which has none. */
static size_t row_floats(const hsc__stats *t, hsc_stat stat)
{
    if (!collects(t, stat) || stat == HSC_STAT_RECEIVED) return 0;
    return stat == HSC_STAT_DISTANCE ? (size_t)t->n_bins : stat == HSC_STAT_TOPK ? (size_t)t->top_k : 1;
}

/* *array holds at least n elements of `size` bytes afterwards; old contents are dropped. */
static hsc_status reserve(void *array_ptr, size_t *capacity, size_t n, size_t size, hsc_error *err)
{
    void *array;
    memcpy(&array, array_ptr, sizeof array);
    if (n <= *capacity) return HSC_OK;
    hsc__free(array);
    array = hsc__calloc(n, size);
    memcpy(array_ptr, &array, sizeof array);
    *capacity = array ? n : 0;
    return array ? HSC_OK : hsc__fail_memory(err, n * size, "statistics");
}

/* Where the rows of a layer go. */
static hsc__stat_layer *rows_of(hsc__stats *t, int layer)
{
    return t->on_rows ? &t->passing : &t->layers[layer];
}

static hsc_status prepare_rows(const hsc__stats *t, hsc__stat_layer *l, size_t rows, hsc_error *err)
{
    size_t total = 0;
    for (int i = 0; i < HSC_N_STATS; i++) total += rows * row_floats(t, (hsc_stat)i);
    HSC_TRY(reserve(&l->floats, &l->capacity, total, sizeof *l->floats, err));
    HSC_TRY(reserve(&l->topk_keys, &l->topk_capacity, rows * row_floats(t, HSC_STAT_TOPK), sizeof *l->topk_keys, err));
    float *next = l->floats;
    for (int i = 0; i < HSC_N_STATS; i++) {
        size_t n = rows * row_floats(t, (hsc_stat)i);
        l->arrays[i] = n ? next : NULL;
        next += n;
    }
    return HSC_OK;
}

static hsc_status prepare_layer(hsc_session *s, int layer, hsc_error *err)
{
    hsc__stats *t = &s->stats;
    hsc__stat_layer *l = &t->layers[layer];
    size_t heads = (size_t)s->desc->config.n_heads, keys = s->seqs[s->n_seqs].keys * heads;
    HSC_TRY(prepare_rows(t, rows_of(t, layer), heads * (size_t)(t->on_rows ? s->max_rows : s->n_tokens), err));
    if (!collects(t, HSC_STAT_RECEIVED)) return HSC_OK;
    HSC_TRY(reserve(&l->received, &l->received_capacity, keys, sizeof *l->received, err));
    memset(l->received, 0, keys * sizeof *l->received);
    return HSC_OK;
}

hsc_status hsc__stats_prepare(hsc_session *s, hsc_error *err)
{
    hsc__stats *t = &s->stats;
    if (!t->layers) return HSC_OK;
    int longest = 1;
    for (int i = 0; i < s->n_seqs; i++)
        longest = hsc__batch_n_key(&s->seqs[i]) > longest ? hsc__batch_n_key(&s->seqs[i]) : longest;
    t->n_bins = 1;
    while ((1 << (t->n_bins - 1)) < longest) t->n_bins++;
    for (int i = 0; i < s->desc->config.n_layers; i++) {
        if (hsc__stats_wanted(s, i)) HSC_TRY(prepare_layer(s, i, err));
    }
    if (!collects(t, HSC_STAT_RECEIVED)) return HSC_OK;
    t->partial_worker = s->seqs[s->n_seqs].keys * (size_t)s->desc->config.n_heads;
    return reserve(&t->partial, &t->partial_capacity, t->partial_worker * (size_t)s->exec.n_threads, sizeof *t->partial,
                   err);
}

/* Sum of the row's weights over the keys [from, to], as far as it has them. */
static float segment(const hsc_session *s, const float *row, int low, int high, int from, int to)
{
    if (from < low) from = low;
    if (to >= high) to = high - 1;
    return from <= to ? s->exec.kernels->row_sum(row + from, to - from + 1) : 0;
}

static void distances(const hsc_session *s, int position, int low, int high, const float *row, float *bins)
{
    bins[0] = segment(s, row, low, high, position, position);
    for (int b = 1; b < s->stats.n_bins; b++) {
        int near = 1 << (b - 1), far = (1 << b) - 1;
        float before = segment(s, row, low, high, position - far, position - near);
        bins[b] = before + (s->desc->config.causal ? 0 : segment(s, row, low, high, position + near, position + far));
    }
}

/* A weight that at least k of the row's n keys reach, so that lighter ones need no look: the k-th largest of the maxima
 * of disjoint parts, of which twice as many as k bound it nearly as well as more. 0 for a short row, and where parts
 * hold no number. */
static float reached_by(const hsc__kernels *kernels, const float *row, int n, int k)
{
    float maxima[HSC__MAXIMA], best[MAX_TOP_K];
    int n_parts = HSC__MAXIMA;
    if (n < 4 * HSC__MAXIMA) return 0;
    kernels->row_maxima(row, n, maxima);
    for (; n_parts >= 4 * k; n_parts /= 2) {
        const float *half = maxima + n_parts / 2;
        for (int i = 0; i < n_parts / 2; i++) maxima[i] = half[i] > maxima[i] ? half[i] : maxima[i];
    }
    for (int i = 0; i < n_parts; i++) {
        float most = fmaxf(maxima[i], 0);
        int at = i < k ? i : k;
        for (; at > 0 && most > best[at - 1]; at--)
            if (at < k) best[at] = best[at - 1];
        if (at < k) best[at] = most;
    }
    return best[k - 1];
}

/* The k heaviest keys by insertion: a row is scanned for what beats the lightest kept, which soon is rare. Keys without
 * weight, hidden ones among them, are not listed. What is left over is 0, or NaN where the row holds one. */
static void top_keys(const hsc_session *s, int low, int high, const float *row, float *weights, int32_t *keys)
{
    const hsc__kernels *kernels = s->exec.kernels;
    int k = s->stats.top_k, n = 0;
    float above = nextafterf(reached_by(kernels, row + low, high - low, k), 0);
    for (int i = kernels->row_above(row, low, high, above); i < high; i = kernels->row_above(row, i + 1, high, above)) {
        int at = n < k ? n++ : k - 1;
        for (; at > 0 && row[i] > weights[at - 1]; at--) { /* equal weights: the lower position stays in front */
            weights[at] = weights[at - 1];
            keys[at] = keys[at - 1];
        }
        weights[at] = row[i];
        keys[at] = i;
        if (n == k) above = weights[k - 1];
    }
    float rest = n < k && isnan(kernels->row_sum(row + low, high - low)) ? NAN : 0;
    for (; n < k; n++) {
        weights[n] = rest;
        keys[n] = -1;
    }
}

/* Which row of an array belongs to a head and a query of a piece: arrays hold the batch, or the chunk with on_rows. */
static size_t row_index(const hsc_session *s, const hsc__piece *p, int head, int query)
{
    const hsc__batch_seq *q = &s->seqs[p->seq];
    size_t heads = (size_t)s->desc->config.n_heads;
    if (s->stats.on_rows) return heads * (size_t)p->row + (size_t)head * (size_t)p->n_rows + (size_t)query;
    return heads * (size_t)q->row + (size_t)head * (size_t)q->n_query + (size_t)(p->batch_query + query);
}

/* The largest weight that fits: as many as there are queries must not overflow. Softmax gives at most 1, edits
 * anything.
 */
static float most_received(int n_query)
{
    return fminf(1 << 12, HSC__RECEIVED_MOST / (float)n_query);
}

void hsc__stats_row(hsc_session *s, int layer, int worker, int piece, int head, int query, int start, int low, int high,
                    const float *row)
{
    hsc__stats *t = &s->stats;
    const hsc__stat_layer *l = rows_of(t, layer);
    const hsc__piece *p = &s->pieces[piece];
    const hsc__batch_seq *q = &s->seqs[p->seq];
    int position = p->position + query;
    size_t at = row_index(s, p, head, query);
    if (l->arrays[HSC_STAT_ENTROPY])
        l->arrays[HSC_STAT_ENTROPY][at] = s->exec.kernels->row_entropy(row + start, high - start);
    if (l->arrays[HSC_STAT_SINK]) l->arrays[HSC_STAT_SINK][at] = segment(s, row, low, high, 0, 0);
    if (l->arrays[HSC_STAT_SELF]) l->arrays[HSC_STAT_SELF][at] = segment(s, row, low, high, position, position);
    if (l->arrays[HSC_STAT_PREV]) l->arrays[HSC_STAT_PREV][at] = segment(s, row, low, high, position - 1, position - 1);
    if (l->arrays[HSC_STAT_DISTANCE])
        distances(s, position, low, high, row, l->arrays[HSC_STAT_DISTANCE] + at * (size_t)t->n_bins);
    if (l->arrays[HSC_STAT_TOPK])
        top_keys(s, low, high, row, l->arrays[HSC_STAT_TOPK] + at * (size_t)t->top_k,
                 l->topk_keys + at * (size_t)t->top_k);
    if (collects(t, HSC_STAT_RECEIVED)) {
        size_t key = q->keys * (size_t)s->desc->config.n_heads + (size_t)head * (size_t)hsc__batch_n_key(q);
        s->exec.kernels->row_received(row + low, high - low, most_received(q->n_query),
                                      t->partial + (size_t)worker * t->partial_worker + key + (size_t)low);
    }
}

/* The received weights of the sequences that the chunk has rows of. Returns how many, *first is the first. */
static size_t chunk_keys(const hsc_session *s, size_t *first)
{
    size_t heads = (size_t)s->desc->config.n_heads;
    const hsc__batch_seq *from = &s->seqs[s->pieces[0].seq], *after = &s->seqs[s->pieces[s->n_pieces - 1].seq + 1];
    *first = heads * from->keys;
    return heads * (after->keys - from->keys);
}

void hsc__stats_layer_begin(hsc_session *s)
{
    const hsc__stats *t = &s->stats;
    size_t first, n;
    if (!collects(t, HSC_STAT_RECEIVED)) return;
    n = chunk_keys(s, &first);
    for (int worker = 0; worker < s->exec.n_threads; worker++)
        memset(t->partial + (size_t)worker * t->partial_worker + first, 0, n * sizeof *t->partial);
}

static int64_t sum_received(int64_t a, int64_t b)
{
    return hsc__received_nan(a) || hsc__received_nan(b) ? HSC__RECEIVED_NAN : a + b;
}

static void add_received(hsc_session *s, int layer)
{
    const hsc__stats *t = &s->stats;
    size_t first, n = chunk_keys(s, &first);
    int64_t *received = t->layers[layer].received + first;
    for (int worker = 0; worker < s->exec.n_threads; worker++) {
        const int64_t *partial = t->partial + (size_t)worker * t->partial_worker + first;
        for (size_t i = 0; i < n; i++) received[i] = sum_received(received[i], partial[i]);
    }
}

/* A statistic of n_rows rows of all heads that begin at row `at` of its array. */
static hsc_view rows_view(const hsc_session *s, const hsc__stat_layer *l, hsc_stat stat, size_t at, int64_t n_rows)
{
    const hsc__stats *t = &s->stats;
    bool deep = stat == HSC_STAT_DISTANCE || stat == HSC_STAT_TOPK;
    int64_t floats = (int64_t)row_floats(t, stat);
    if (!l->arrays[stat] || stat == HSC_STAT_RECEIVED) return (hsc_view){0};
    return (hsc_view){
        l->arrays[stat] + at * (size_t)floats, deep ? 3 : 2, {s->desc->config.n_heads, n_rows, deep ? floats : 0}};
}

static hsc_status hand_over(hsc_session *s, int layer, const hsc__piece *p, hsc_error *err)
{
    hsc__stats *t = &s->stats;
    size_t at = row_index(s, p, 0, 0);
    hsc_stats_rows rows = {.layer = layer, .seq = p->seq, .first_row = p->batch_query, .n_rows = p->n_rows};
    for (int i = 0; i < HSC_N_STATS; i++) rows.stat[i] = rows_view(s, &t->passing, (hsc_stat)i, at, p->n_rows);
    if (collects(t, HSC_STAT_TOPK)) rows.topk_keys = t->passing.topk_keys + at * (size_t)t->top_k;
    HSC_FAIL_IF(t->on_rows(t->user, &rows) != 0, HSC_ECANCELED,
                "the reader of the statistics of layer %d stopped the pass", layer);
    return HSC_OK;
}

hsc_status hsc__stats_layer_end(hsc_session *s, int layer, hsc_error *err)
{
    if (collects(&s->stats, HSC_STAT_RECEIVED)) add_received(s, layer);
    for (int i = 0; s->stats.on_rows && i < s->n_pieces; i++) HSC_TRY(hand_over(s, layer, &s->pieces[i], err));
    return HSC_OK;
}

/* The integers become floats where they lie: each float is written at or before the integer it comes from. */
void hsc__stats_finish(hsc_session *s)
{
    hsc__stats *t = &s->stats;
    for (int i = 0; i < s->desc->config.n_layers; i++) {
        if (!hsc__stats_wanted(s, i) || !collects(t, HSC_STAT_RECEIVED)) continue;
        char *place = (char *)t->layers[i].received;
        for (size_t k = 0; k < t->partial_worker; k++) {
            int64_t units;
            memcpy(&units, place + k * sizeof units, sizeof units);
            float weight = (float)((double)units / (double)((int64_t)1 << HSC__RECEIVED_BITS));
            if (hsc__received_nan(units)) weight = NAN;
            memcpy(place + k * sizeof weight, &weight, sizeof weight);
        }
        t->layers[i].arrays[HSC_STAT_RECEIVED] = (float *)(void *)place;
    }
}

/* Checks that a statistic of the last pass exists. */
static hsc_status check_stat(const hsc_session *s, hsc_stat stat, int layer, int seq, hsc_error *err)
{
    HSC_FAIL_IF((unsigned)stat >= HSC_N_STATS, HSC_EINVAL, "statistic %d does not exist", (int)stat);
    HSC_FAIL_IF(layer < 0 || layer >= s->desc->config.n_layers, HSC_EINVAL, "layer %d does not exist, the model has %d",
                layer, s->desc->config.n_layers);
    bool gone = s->stats.on_rows && stat != HSC_STAT_RECEIVED;
    HSC_FAIL_IF(!s->valid || !hsc__stats_wanted(s, layer) || !collects(&s->stats, stat) || gone, HSC_ENOTFOUND,
                "%s of layer %d was not %s in the last pass", stats[stat].name, layer, gone ? "kept" : "collected");
    HSC_FAIL_IF(seq < 0 || seq >= s->n_seqs, HSC_EINVAL, "sequence %d does not exist, the batch had %d", seq,
                s->n_seqs);
    return HSC_OK;
}

hsc_status hsc_session_stat(const hsc_session *s, hsc_stat stat, int layer, int seq, hsc_view *out, hsc_error *err)
{
    s = collecting(s);
    HSC_TRY(check_stat(s, stat, layer, seq, err));
    const hsc__stat_layer *l = &s->stats.layers[layer];
    const hsc__batch_seq *q = &s->seqs[seq];
    size_t heads = (size_t)s->desc->config.n_heads;
    if (stat == HSC_STAT_RECEIVED)
        *out = (hsc_view){l->arrays[stat] + heads * q->keys, 2, {(int64_t)heads, hsc__batch_n_key(q)}};
    else *out = rows_view(s, l, stat, heads * (size_t)q->row, q->n_query);
    return HSC_OK;
}

hsc_status hsc_session_topk_keys(const hsc_session *s, int layer, int seq, const int32_t **out, hsc_error *err)
{
    s = collecting(s);
    HSC_TRY(check_stat(s, HSC_STAT_TOPK, layer, seq, err));
    *out = s->stats.layers[layer].topk_keys +
           (size_t)s->desc->config.n_heads * (size_t)s->seqs[seq].row * (size_t)s->stats.top_k;
    return HSC_OK;
}
