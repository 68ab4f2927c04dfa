/*
 * Records and observers. They only read what the pass computes anyway (or write into it, when they edit), so the
 * arithmetic is the same whoever watches.
 */
#include "model/session.h"

#include <math.h>
#include <string.h>

/* The session that a caller's site belongs to, and what it is called there. */
static hsc_session *home_of(const hsc_session *session, hsc_site *site)
{
    hsc_session *s = (hsc_session *)(uintptr_t)session;
    hsc_site inner = hsc__site_in_encoder(*site);
    if (!s->encoder) return s;
    if (inner != HSC_N_SITES) *site = inner;
    return inner != HSC_N_SITES || *site == HSC_CROSS_K || *site == HSC_CROSS_V ? s->encoder : s;
}

/* The stack whose sizes a site of this session has. */
static const hsc__desc *stack_of(const hsc_session *s, hsc_site site)
{
    return s->reader && hsc__site_is_cross(site) ? s->reader : s->desc;
}

int hsc__site_row_size(const hsc__desc *desc, hsc_site site)
{
    const hsc_config *c = &desc->config;
    hsc_heads heads = hsc_site_heads(site);
    if (hsc_site_is_map(site)) return 0;
    if (heads != HSC_NO_HEADS) return (heads == HSC_KV_HEADS ? c->n_kv_heads : c->n_heads) * c->d_head;
    switch (site) {
    case HSC_MLP_PRE:
    case HSC_MLP_UP:
    case HSC_MLP_POST: return c->d_mlp;
    case HSC_LOGITS: return c->d_vocab;
    case HSC_LN_HEAD: return desc->w_head.n_out;
    default: return c->d_model;
    }
}

static void mark(hsc_session *s, hsc_site site, int layer, int bit)
{
    size_t n = (size_t)s->n_watch_layers;
    bool all = layer < 0 && hsc_site_per_layer(site);
    for (size_t i = 0; i < n; i++) {
        if (all || i == (size_t)(hsc_site_per_layer(site) ? layer : 0))
            s->watch[(size_t)site * n + i] |= (unsigned char)bit;
    }
}

static hsc_status check_place(const hsc_session *s, hsc_site site, int layer, hsc_error *err)
{
    int n_layers = hsc_model_site_layers(s->model, site);
    HSC_FAIL_IF((unsigned)site >= HSC_N_SITES, HSC_EINVAL, "site %d does not exist", (int)site);
    HSC_FAIL_IF(!hsc_model_has_site(s->model, site), HSC_EINVAL, "a model of architecture %s has no site \"%s\"",
                s->desc->config.arch, hsc_site_name(site));
    HSC_FAIL_IF(hsc_site_per_layer(site) && (layer < -1 || layer >= n_layers), HSC_EINVAL,
                "layer %d does not exist, the model has %d", layer, n_layers);
    return HSC_OK;
}

static bool same_place(hsc_site site, int layer, hsc_site of, int of_layer)
{
    return site == of && (!hsc_site_per_layer(site) || of_layer < 0 || layer == of_layer);
}

/* The record that answers for a place. */
static const hsc__kept *find_kept(const hsc_session *s, hsc_site site, int layer)
{
    for (size_t i = 0; i < s->n_kept; i++) {
        if (same_place(site, layer, s->kept[i].spec.site, s->kept[i].spec.layer)) return &s->kept[i];
    }
    return NULL;
}

/* One record answers for a place: the same one again changes nothing, another one would never be read. */
static hsc_status check_recorded(const hsc_session *s, const hsc_record *r, int layer, hsc_error *err)
{
    const hsc__kept *kept = find_kept(s, r->site, layer);
    HSC_FAIL_IF(kept && (kept->spec.head != r->head || kept->spec.query != r->query), HSC_EINVAL,
                "%s of layer %d is recorded already, with head %d and query %d (-1: every one): a place has one record",
                hsc_site_name(hsc__site_outside(s, r->site)), layer, kept->spec.head, kept->spec.query);
    return HSC_OK;
}

hsc_status hsc_session_record(hsc_session *session, const hsc_record *record, hsc_error *err)
{
    hsc_record r = *record;
    hsc__error_clear(err);
    HSC_TRY(check_place(session, r.site, r.layer, err));
    int n_layers = hsc_model_site_layers(session->model, r.site);
    hsc_session *s = home_of(session, &r.site);
    HSC_FAIL_IF(r.head < -1 || r.head >= s->desc->config.n_heads, HSC_EINVAL, "head %d does not exist, a layer has %d",
                r.head, s->desc->config.n_heads);
    HSC_FAIL_IF(r.query < -1, HSC_EINVAL, "query %d does not exist", r.query);
    if (!hsc_site_is_map(r.site)) r.head = r.query = -1;
    bool each = hsc_site_per_layer(r.site) && r.layer < 0;
    int first = each || !hsc_site_per_layer(r.site) ? 0 : r.layer, last = each ? n_layers - 1 : first;
    for (int layer = first; layer <= last; layer++) HSC_TRY(check_recorded(s, &r, layer, err));
    HSC_TRY(hsc__grow(&s->kept, &s->kept_capacity, s->n_kept + (size_t)(last - first + 1), sizeof *s->kept, err));
    for (r.layer = first; r.layer <= last; r.layer++) {
        if (!find_kept(s, r.site, r.layer)) s->kept[s->n_kept++] = (hsc__kept){.spec = r};
    }
    mark(s, r.site, record->layer, HSC__WATCH_RECORD);
    session->valid = s->valid = false;
    return HSC_OK;
}

static void clear_bit(hsc_session *s, int bit)
{
    size_t n = (size_t)HSC_N_SITES * (size_t)s->n_watch_layers;
    for (size_t i = 0; i < n; i++) s->watch[i] &= (unsigned char)~bit;
}

void hsc_session_record_clear(hsc_session *s)
{
    if (s->encoder) hsc_session_record_clear(s->encoder);
    for (size_t i = 0; i < s->n_kept; i++) hsc__free(s->kept[i].data);
    s->n_kept = 0;
    if (s->watch) clear_bit(s, HSC__WATCH_RECORD);
}

hsc_status hsc_session_observe(hsc_session *session, const hsc_observer *observer, hsc_error *err)
{
    hsc_observer o = *observer;
    hsc__error_clear(err);
    HSC_TRY(check_place(session, o.site, o.layer, err));
    HSC_FAIL_IF(!o.fn, HSC_EINVAL, "an observer needs a function");
    hsc_session *s = home_of(session, &o.site);
    HSC_TRY(hsc__grow(&s->observers, &s->observers_capacity, s->n_observers + 1, sizeof *s->observers, err));
    s->observers[s->n_observers++] = o;
    mark(s, o.site, o.layer, HSC__WATCH_OBSERVE);
    return HSC_OK;
}

void hsc_session_observe_clear(hsc_session *s)
{
    if (s->encoder) hsc_session_observe_clear(s->encoder);
    s->n_observers = 0;
    clear_bit(s, HSC__WATCH_OBSERVE);
}

/* Rows, heads and keys that a pattern record keeps of a sequence. */
static int kept_heads(const hsc_session *s, const hsc__kept *r)
{
    return r->spec.head < 0 ? s->desc->config.n_heads : 1;
}

static int kept_queries(const hsc__kept *r, const hsc__batch_seq *q)
{
    return r->spec.query < 0 ? q->n_query : r->spec.query < q->n_query ? 1 : 0;
}

static int kept_keys(const hsc__kept *r, const hsc__batch_seq *q)
{
    return hsc__site_is_cross(r->spec.site) ? q->n_source : hsc__batch_n_key(q);
}

/* Where the block of sequence `seq` starts; seq = n_seqs gives the whole size. */
static size_t pattern_offset(const hsc_session *s, const hsc__kept *r, int seq)
{
    const hsc__batch_seq *q = &s->seqs[seq];
    bool cross = hsc__site_is_cross(r->spec.site);
    size_t cells = cross ? q->source_cells : q->cells, keys = cross ? q->source_keys : q->keys;
    return (size_t)kept_heads(s, r) * (r->spec.query < 0 ? cells : keys);
}

hsc_status hsc__watch_prepare(hsc_session *s, hsc_error *err)
{
    for (size_t i = 0; i < s->n_kept; i++) {
        hsc__kept *r = &s->kept[i];
        if (r->spec.site == HSC_LOGITS) continue; /* the logits of the pass itself are the record */
        size_t need = hsc_site_is_map(r->spec.site)
                          ? pattern_offset(s, r, s->n_seqs)
                          : (size_t)s->n_tokens * (size_t)hsc__site_row_size(stack_of(s, r->spec.site), r->spec.site);
        if (need <= r->capacity) continue;
        hsc__free(r->data);
        r->capacity = 0;
        r->data = hsc__malloc(need * sizeof *r->data);
        if (!r->data) return hsc__fail_memory(err, need * sizeof *r->data, hsc_site_name(r->spec.site));
        r->capacity = need;
    }
    return HSC_OK;
}

static int call_observers(hsc_session *s, const hsc_block *block)
{
    hsc_block shown = *block;
    shown.site = hsc__site_outside(s, block->site);
    for (size_t i = 0; i < s->n_observers; i++) {
        const hsc_observer *o = &s->observers[i];
        if (same_place(block->site, block->layer, o->site, o->layer) && o->fn(o->user, &shown)) return 1;
    }
    return 0;
}

hsc_status hsc__watch_rows(hsc_session *s, hsc_site site, int layer, float *data, int row_size, size_t stride,
                           hsc_error *err)
{
    if (hsc__watched(s, site, layer) & HSC__WATCH_OBSERVE) {
        for (int i = 0; i < s->n_pieces; i++) {
            const hsc__piece *p = &s->pieces[i];
            hsc_block block = {
                site, layer, p->seq, -1, p->position, p->n_rows, row_size, stride, data + (size_t)p->row * stride};
            HSC_FAIL_IF(call_observers(s, &block), HSC_ECANCELED, "an observer at %s stopped the pass",
                        hsc_site_name(hsc__site_outside(s, site)));
        }
    }
    for (size_t i = 0; i < s->n_kept; i++) {
        const hsc__kept *r = &s->kept[i];
        if (site == HSC_LOGITS || !same_place(site, layer, r->spec.site, r->spec.layer)) continue;
        for (int row = 0; row < s->n_rows; row++)
            memcpy(r->data + (size_t)(s->pieces[0].batch_row + row) * (size_t)row_size, data + (size_t)row * stride,
                   (size_t)row_size * sizeof *data);
    }
    return HSC_OK;
}

/* Copies the rows of a block that a record wants. Keys of the batch that lie past this chunk cannot be seen by it. */
static void keep_block(const hsc_session *s, const hsc__kept *r, const hsc__piece *p, int head, int first_query,
                       int n_rows, int n_key, const float *data, size_t stride)
{
    const hsc__batch_seq *q = &s->seqs[p->seq];
    int n_full = kept_keys(r, q), n_queries = kept_queries(r, q);
    if (r->spec.head >= 0 && head != r->spec.head) return;
    float unseen = r->spec.site == HSC_ATTN_SCORES ? -INFINITY : 0;
    float *base = r->data + pattern_offset(s, r, p->seq) +
                  (size_t)(r->spec.head < 0 ? head : 0) * (size_t)n_queries * (size_t)n_full;
    for (int i = 0; i < n_rows; i++) {
        int query = p->batch_query + first_query + i;
        if (r->spec.query >= 0 && query != r->spec.query) continue;
        float *row = base + (size_t)(r->spec.query < 0 ? query : 0) * (size_t)n_full;
        memcpy(row, data + (size_t)i * stride, (size_t)n_key * sizeof *row);
        for (int key = n_key; key < n_full; key++) row[key] = unseen;
    }
}

int hsc__watch_block(hsc_session *s, hsc_site site, int layer, int piece, int head, int first_query, int n_rows,
                     int n_key, float *data, size_t stride)
{
    const hsc__piece *p = &s->pieces[piece];
    if (hsc__watched(s, site, layer) & HSC__WATCH_OBSERVE) {
        hsc_block block = {site, layer, p->seq, head, p->position + first_query, n_rows, n_key, stride, data};
        if (call_observers(s, &block)) return 1;
    }
    for (size_t i = 0; i < s->n_kept; i++) {
        const hsc__kept *r = &s->kept[i];
        if (same_place(site, layer, r->spec.site, r->spec.layer))
            keep_block(s, r, p, head, first_query, n_rows, n_key, data, stride);
    }
    return 0;
}

/* The shape of a row site's rows: heads apart where it has heads. */
static hsc_view view_rows(const hsc_session *s, hsc_site site, const float *rows, int n)
{
    const hsc__desc *stack = stack_of(s, site);
    int row_size = hsc__site_row_size(stack, site), d_head = stack->config.d_head;
    if (hsc_site_heads(site) != HSC_NO_HEADS) return (hsc_view){rows, 3, {n, row_size / d_head, d_head}};
    return (hsc_view){rows, 2, {n, row_size}};
}

hsc_status hsc_session_activation(const hsc_session *session, hsc_site site, int layer, int seq, hsc_view *out,
                                  hsc_error *err)
{
    const char *name = hsc_site_name(site);
    HSC_TRY(check_place(session, site, layer, err));
    HSC_FAIL_IF(layer < 0 && hsc_site_per_layer(site), HSC_EINVAL, "layer %d does not exist, the model has %d", layer,
                hsc_model_site_layers(session->model, site));
    const hsc_session *s = home_of(session, &site);
    const hsc__kept *r = find_kept(s, site, layer);
    bool before = hsc_site_per_layer(site) ? layer < s->first_layer : s->start && site <= HSC_POS_EMBED;
    bool missing = !r || !s->valid || before;
    HSC_FAIL_IF(missing && !hsc_site_per_layer(site), HSC_ENOTFOUND, "%s was not recorded in the last pass", name);
    HSC_FAIL_IF(missing, HSC_ENOTFOUND, "%s of layer %d was not recorded in the last pass", name, layer);
    HSC_FAIL_IF(seq < 0 || seq >= s->n_seqs, HSC_EINVAL, "sequence %d does not exist, the batch had %d", seq,
                s->n_seqs);
    const hsc__batch_seq *q = &s->seqs[seq];
    if (hsc_site_is_map(site)) {
        *out =
            (hsc_view){r->data + pattern_offset(s, r, seq), 3, {kept_heads(s, r), kept_queries(r, q), kept_keys(r, q)}};
        return HSC_OK;
    }
    const float *rows = site == HSC_LOGITS ? s->logits : r->data;
    size_t first = (size_t)q->row * (size_t)hsc__site_row_size(stack_of(s, site), site);
    *out = view_rows(s, site, rows + first, q->n_query);
    return HSC_OK;
}
