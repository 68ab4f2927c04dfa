/* Saving a sequence's keys and values, and reading them back: float32 rows, whatever the cache's own type and layout.
 * A layer with a ring has fewer positions in the file than the others: the last ones. */
#include "model/session.h"

#include <stdio.h>
#include <string.h>

enum { HEADER = 7 }; /* version, n_layers, n_kv_heads, d_head, length, the model's mark in two */

static const int32_t version = 3;

static hsc_status check_file_seq(const hsc_session *s, int seq, const char *path, hsc_error *err)
{
    size_t n = strlen(path);
    HSC_FAIL_IF(s->encoder, HSC_EUNSUPPORTED,
                "%s: the cache of an encoder-decoder is not saved: it is of its source too", path);
    HSC_FAIL_IF(seq < 0 || seq >= s->max_seqs, HSC_EINVAL, "sequence %d does not exist, the session has %d", seq,
                s->max_seqs);
    HSC_FAIL_IF(n < 12 || strcmp(path + n - 12, ".safetensors") != 0, HSC_EINVAL,
                "%s: a cache is kept in a .safetensors file", path);
    return HSC_OK;
}

/* How many positions of a sequence, its last ones, a layer still holds: at least those that its window needs. */
static int n_kept(const hsc__cache *c, int layer, const hsc__cache_seq *seq)
{
    const hsc__cache_layer *l = &c->layers[layer];
    int gone = seq->written - l->n_cells, kept = seq->length - gone;
    if (l->window == 0 || gone <= 0) return seq->length;
    if (kept < l->window) kept = l->window;
    return kept < seq->length ? kept : seq->length;
}

/* rows: [2][n_kv_heads][n][d_head], keys then values. */
static void read_layer(const hsc_session *s, int layer, int seq, int first, int n, float *rows)
{
    hsc__kv kv = hsc__cache_kv(&s->cache, layer, seq);
    size_t d = (size_t)kv.d_head, half = (size_t)kv.n_kv_heads * (size_t)n * d;
    for (int h = 0; h < kv.n_kv_heads; h++) {
        for (int i = 0; i < n; i++) {
            float *k = rows + ((size_t)h * (size_t)n + (size_t)i) * d;
            hsc__kv_read(s->exec.kernels, &kv, h, first + i, k, k + half);
        }
    }
}

hsc_status hsc_session_save(const hsc_session *s, int seq, const char *path, hsc_error *err)
{
    const hsc__cache *c = &s->cache;
    hsc__error_clear(err);
    HSC_TRY(check_file_seq(s, seq, path, err));
    int length = c->seqs[seq].length;
    HSC_FAIL_IF(length == 0, HSC_EINVAL, "sequence %d is empty", seq);
    size_t row = 2 * (size_t)c->n_kv_heads * (size_t)c->d_head, layers = (size_t)c->n_layers, n_rows = 0, at = 0;
    for (int i = 0; i < c->n_layers; i++) n_rows += (size_t)n_kept(c, i, &c->seqs[seq]);
    int32_t header[HEADER] = {version, c->n_layers, c->n_kv_heads, c->d_head, length};
    uint64_t mark = hsc__model_mark(s->model);
    memcpy(header + HEADER - 2, &mark, sizeof mark);
    float *rows = hsc__malloc(n_rows * row * sizeof *rows);
    hsc_named_array *arrays = hsc__malloc((layers + 1) * sizeof *arrays);
    char(*names)[24] = hsc__malloc(layers * sizeof *names);
    hsc_status status = HSC_OK;
    if (!rows || !arrays || !names) status = hsc__fail_memory(err, n_rows * row * sizeof *rows, "a saved cache");
    if (status == HSC_OK) {
        arrays[0] = (hsc_named_array){"headscope.cache", HSC_I32, 1, {HEADER}, header};
        for (size_t i = 0; i < layers; i++) {
            int n = n_kept(c, (int)i, &c->seqs[seq]);
            snprintf(names[i], sizeof names[i], "kv.%zu", i);
            read_layer(s, (int)i, seq, length - n, n, rows + at);
            arrays[i + 1] = (hsc_named_array){names[i], HSC_F32, 4, {2, c->n_kv_heads, n, c->d_head}, rows + at};
            at += (size_t)n * row;
        }
        status = hsc_write_arrays(path, arrays, layers + 1, err);
    }
    hsc__free(rows);
    hsc__free(arrays);
    hsc__free(names);
    return status;
}

/* The positions of a layer that the file holds; its length is that of the sequence. */
static hsc_status find_layer(const hsc_session *s, const hsc__tensors *set, int layer, int length, const char *path,
                             const hsc__tensor **out, hsc_error *err)
{
    const hsc__cache *c = &s->cache;
    const hsc__cache_layer *l = &c->layers[layer];
    char name[24];
    snprintf(name, sizeof name, "kv.%d", layer);
    const hsc__tensor *t = *out = hsc__tensors_find(set, name);
    HSC_FAIL_IF(!t || t->dtype != HSC_F32 || t->n_dims != 4 || t->shape[0] != 2 || t->shape[1] != c->n_kv_heads ||
                    t->shape[2] < 1 || t->shape[2] > length || t->shape[3] != c->d_head,
                HSC_EFORMAT, "%s: tensor %s is missing or not of this model's shape", path, name);
    int needed = l->n_cells < length ? l->window : length;
    HSC_FAIL_IF(t->shape[2] < needed, HSC_EINVAL, "%s: tensor %s holds the last %d positions, this session needs %d",
                path, name, (int)t->shape[2], needed);
    return HSC_OK;
}

static hsc_status load_layer(hsc_session *s, const hsc__tensor *t, int layer, int seq, int length, hsc_error *err)
{
    hsc__kv kv = hsc__cache_kv(&s->cache, layer, seq);
    int n = (int)t->shape[2];
    size_t d = (size_t)kv.d_head, heads = (size_t)kv.n_kv_heads, half = heads * (size_t)n * d;
    float *row = hsc__malloc(2 * heads * d * sizeof *row);
    if (!row) return hsc__fail_memory(err, 2 * heads * d * sizeof *row, "a cache row");
    for (int i = 0; i < n; i++) {
        for (size_t h = 0; h < heads; h++) {
            const char *k = (const char *)t->data + ((h * (size_t)n + (size_t)i) * d) * sizeof *row;
            memcpy(row + h * d, k, d * sizeof *row);
            memcpy(row + (heads + h) * d, k + half * sizeof *row, d * sizeof *row);
        }
        hsc__kv_store(s->exec.kernels, &kv, length - n + i, 1, row, heads * d, row + heads * d, heads * d);
    }
    hsc__free(row);
    return HSC_OK;
}

/* *length: of the sequence. */
static hsc_status check_header(const hsc_session *s, const hsc__tensor *t, const char *path, int *length,
                               hsc_error *err)
{
    const hsc__cache *c = &s->cache;
    int32_t h[HEADER];
    uint64_t mark, own = hsc__model_mark(s->model);
    HSC_FAIL_IF(!t || t->dtype != HSC_I32 || t->n_elements < 1, HSC_EFORMAT, "%s: is not a saved cache", path);
    memcpy(h, t->data, sizeof *h);
    HSC_FAIL_IF(h[0] != version, HSC_EUNSUPPORTED, "%s: cache version %d, this is version %d", path, (int)h[0],
                (int)version);
    HSC_FAIL_IF(t->n_elements != HEADER, HSC_EFORMAT, "%s: tensor headscope.cache has %llu values, not %d", path,
                (unsigned long long)t->n_elements, HEADER);
    memcpy(h, t->data, sizeof h);
    memcpy(&mark, h + HEADER - 2, sizeof mark);
    HSC_FAIL_IF(h[1] != c->n_layers || h[2] != c->n_kv_heads || h[3] != c->d_head, HSC_EFORMAT,
                "%s: is of %d layers, %d kv heads of %d; this model has %d, %d of %d", path, (int)h[1], (int)h[2],
                (int)h[3], c->n_layers, c->n_kv_heads, c->d_head);
    HSC_FAIL_IF(mark != own, HSC_EFORMAT,
                "%s: was saved with another model, of other weights or settings than %s (mark %016llx, not %016llx)",
                path, s->model->path, (unsigned long long)mark, (unsigned long long)own);
    HSC_FAIL_IF(h[4] < 1, HSC_EFORMAT, "%s: has %d tokens", path, (int)h[4]);
    HSC_FAIL_IF(h[4] > s->max_tokens, HSC_EINVAL, "%s: has %d tokens, this session was made for %d", path, (int)h[4],
                s->max_tokens);
    *length = h[4];
    return HSC_OK;
}

static hsc_status load_set(hsc_session *s, const hsc__tensors *set, int seq, const char *path, hsc_error *err)
{
    const hsc__cache *c = &s->cache;
    const hsc__tensor *t = hsc__tensors_find(set, "headscope.cache");
    int length;
    HSC_TRY(check_header(s, t, path, &length, err));
    int written = length;
    for (int i = 0; i < c->n_layers; i++) {
        HSC_TRY(find_layer(s, set, i, length, path, &t, err));
        HSC_TRY(load_layer(s, t, i, seq, length, err));
        int first = length - (int)t->shape[2], reach = first + c->layers[i].n_cells;
        if (first > 0 && reach > written) written = reach; /* what the file lacks counts as overwritten */
    }
    c->seqs[seq].length = length;
    c->seqs[seq].written = written;
    return HSC_OK;
}

hsc_status hsc_session_load(hsc_session *s, int seq, const char *path, hsc_error *err)
{
    hsc__tensors *set;
    hsc__error_clear(err);
    HSC_TRY(check_file_seq(s, seq, path, err));
    HSC_TRY(hsc__safetensors_open(&set, path, err));
    s->cache.seqs[seq] = (hsc__cache_seq){0}; /* until all of it is there; what it shared is given up */
    hsc__cache_release(&s->cache, seq, 0);
    hsc_status status = load_set(s, set, seq, path, err);
    hsc__tensors_close(set);
    return status;
}
