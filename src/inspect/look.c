/*
 * Reading one pattern: its heaviest keys, what a head mostly does, its strongest links; and the overview, which does
 * the same for every head while the rows stream by. Sums are in double and in the order of the rows, so the order in
 * which blocks arrive from several threads never shows.
 */
#include "base/alloc.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>

int hsc_top_keys(const float *row, int n_key, int first_key, int k, hsc_key_weight *out)
{
    int n = 0;
    for (int key = first_key > 0 ? first_key : 0; key < n_key && k > 0; key++) {
        float weight = row[key];
        if (isnan(weight) || (n == k && weight <= out[n - 1].weight)) continue;
        int at = n < k ? n++ : n - 1;
        for (; at > 0 && out[at - 1].weight < weight; at--) out[at] = out[at - 1];
        out[at] = (hsc_key_weight){key, weight};
    }
    return n;
}

/* ----------------------------------------------------------------------------------- what a head mostly does ---- */

/* Where one row's weight goes. */
typedef struct row_shares {
    float first, self, prev, other, last, entropy;
} row_shares;

/* query >= 1: position 0 of a causal model can only look at itself and is left out everywhere. */
static row_shares share_row(const float *row, int query, int n_key)
{
    const hsc__kernels *k = hsc__kernels_get();
    float before = query > 2 ? k->row_sum(row + 1, query - 2) : 0;
    float after = k->row_sum(row + query + 1, n_key - query - 1);
    return (row_shares){row[0], row[query], row[query - 1], before + after, 0, k->row_entropy(row, n_key)};
}

/* A row over another text, whose last token mostly ends it. */
static row_shares share_cross_row(const float *row, int n_key)
{
    const hsc__kernels *k = hsc__kernels_get();
    float entropy = k->row_entropy(row, n_key);
    if (n_key == 1) return (row_shares){.last = row[0], .entropy = entropy};
    return (row_shares){row[0], 0, 0, k->row_sum(row + 1, n_key - 2), row[n_key - 1], entropy};
}

typedef struct share_sums {
    double first, self, prev, other, last, entropy;
    int n;
} share_sums;

static void add_shares(share_sums *sums, const row_shares *row)
{
    sums->first += row->first;
    sums->self += row->self;
    sums->prev += row->prev;
    sums->other += row->other;
    sums->last += row->last;
    sums->entropy += row->entropy;
    sums->n++;
}

static hsc_head_summary mean_shares(const share_sums *sums)
{
    if (sums->n == 0) return (hsc_head_summary){0};
    return (hsc_head_summary){.first = (float)(sums->first / sums->n),
                              .self = (float)(sums->self / sums->n),
                              .prev = (float)(sums->prev / sums->n),
                              .entropy = (float)(sums->entropy / sums->n),
                              .other = (float)(sums->other / sums->n),
                              .last = (float)(sums->last / sums->n)};
}

void hsc_summarise_head(const float *pattern, int n_query, int n_key, hsc_head_summary *out)
{
    share_sums sums = {0};
    for (int r = 0; r < n_query; r++) {
        int query = n_key - n_query + r;
        if (query < 1) continue;
        row_shares row = share_row(pattern + (size_t)r * (size_t)n_key, query, n_key);
        add_shares(&sums, &row);
    }
    *out = mean_shares(&sums);
}

/* ------------------------------------------------------------------------------------------- strongest links ---- */

/* A total order, so that neither threads nor calls decide between equals. */
static int stronger(const hsc_link *a, const hsc_link *b)
{
    if (a->weight != b->weight) return a->weight > b->weight;
    if (a->layer != b->layer) return a->layer < b->layer;
    if (a->head != b->head) return a->head < b->head;
    if (a->query != b->query) return a->query < b->query;
    return a->key < b->key;
}

static void keep_link(const hsc_link *link, hsc_link *best, int *n_best, int capacity)
{
    if (*n_best == capacity && !stronger(link, &best[capacity - 1])) return;
    int at = *n_best < capacity ? (*n_best)++ : capacity - 1;
    for (; at > 0 && stronger(link, &best[at - 1]); at--) best[at] = best[at - 1];
    best[at] = *link;
}

/* Only weights that could enter the list are looked at: those not below its last, whose equals may come before it.
 * `cross`: the keys are another text's, whose last one does not count. */
static void keep_row(const float *row, int n_key, bool cross, hsc_link link, hsc_link *best, int *n_best, int capacity)
{
    const hsc__kernels *k = hsc__kernels_get();
    if (capacity <= 0) return;
    for (int key = cross ? -1 : 0;;) {
        float threshold = *n_best < capacity ? 0 : nextafterf(best[capacity - 1].weight, 0);
        key = k->row_above(row, key + 1, n_key, threshold);
        if (key >= n_key) return;
        if (cross ? key == n_key - 1 : key == link.query || key == link.query - 1) continue;
        link.key = key;
        link.weight = row[key];
        keep_link(&link, best, n_best, capacity);
    }
}

void hsc_strongest_links(const float *pattern, int n_query, int n_key, int layer, int head, hsc_link *best, int *n_best,
                         int capacity)
{
    for (int r = 0; r < n_query; r++) {
        hsc_link link = {.layer = layer, .head = head, .query = n_key - n_query + r};
        keep_row(pattern + (size_t)r * (size_t)n_key, n_key, false, link, best, n_best, capacity);
    }
}

/* -------------------------------------------------------------------------------------------------- overview ---- */

enum { MAX_LINKS = 1000 };

struct hsc_overview {
    int n_layers, n_heads, n_tokens;
    bool cross;
    row_shares *rows;     /* [n_layers][n_heads][n_tokens] */
    pthread_mutex_t lock; /* guards best and n_best; rows have one writer each */
    int n_links;
    hsc_link *best; /* [n_layers][n_links] */
    int *n_best;    /* [n_layers] */
};

static row_shares *rows_of(const hsc_overview *overview, int layer, int head)
{
    return overview->rows + ((size_t)layer * (size_t)overview->n_heads + (size_t)head) * (size_t)overview->n_tokens;
}

/* The block's own best first, so that the lock is held only for merging a few. */
static void keep_block(hsc_overview *overview, const hsc_block *block)
{
    hsc_link best[MAX_LINKS];
    int n_best = 0;
    for (int r = 0; r < block->n_rows; r++) {
        hsc_link link = {.layer = block->layer, .head = block->head, .query = block->first_row + r};
        keep_row(block->data + (size_t)r * block->stride, block->row_size, overview->cross, link, best, &n_best,
                 overview->n_links);
    }
    hsc_link *kept = overview->best + (size_t)block->layer * (size_t)overview->n_links;
    pthread_mutex_lock(&overview->lock);
    for (int i = 0; i < n_best; i++) keep_link(&best[i], kept, &overview->n_best[block->layer], overview->n_links);
    pthread_mutex_unlock(&overview->lock);
}

static int watch(void *user, const hsc_block *block)
{
    hsc_overview *overview = user;
    if (block->seq != 0 || block->first_row + block->n_rows > overview->n_tokens) return 1;
    row_shares *rows = rows_of(overview, block->layer, block->head);
    for (int r = 0; r < block->n_rows; r++) {
        int query = block->first_row + r;
        const float *row = block->data + (size_t)r * block->stride;
        if (overview->cross) rows[query] = share_cross_row(row, block->row_size);
        else if (query >= 1) rows[query] = share_row(row, query, block->row_size);
    }
    if (overview->n_links > 0) keep_block(overview, block);
    return 0;
}

static hsc_status allocate(hsc_overview *overview, hsc_error *err)
{
    size_t n_layers = (size_t)overview->n_layers, n_links = (size_t)overview->n_links;
    size_t n_rows = n_layers * (size_t)overview->n_heads * (size_t)overview->n_tokens;
    overview->rows = hsc__calloc(n_rows, sizeof *overview->rows);
    overview->best = hsc__calloc(n_layers * n_links, sizeof *overview->best);
    overview->n_best = hsc__calloc(n_layers, sizeof *overview->n_best);
    if (overview->rows && overview->best && overview->n_best) return HSC_OK;
    return hsc__fail_memory(err, n_rows * sizeof *overview->rows, "overview");
}

hsc_status hsc_overview_new(hsc_overview **out, hsc_session *session, hsc_site pattern, int n_tokens, int n_links,
                            hsc_error *err)
{
    const hsc_model *model = hsc_session_model(session);
    const hsc_config *config = pattern == HSC_ENC_PATTERN ? hsc_model_encoder(model) : hsc_model_config(model);
    *out = NULL;
    HSC_FAIL_IF(n_tokens < 0, HSC_EINVAL, "overview: n_tokens is %d, it must not be negative", n_tokens);
    HSC_FAIL_IF(n_links < 0 || n_links > MAX_LINKS, HSC_EINVAL, "overview: n_links is %d, 0 to %d are possible",
                n_links, (int)MAX_LINKS);
    HSC_FAIL_IF(pattern != HSC_PATTERN && pattern != HSC_ENC_PATTERN && pattern != HSC_CROSS_PATTERN, HSC_EINVAL,
                "overview: site %d is no pattern", (int)pattern);
    HSC_FAIL_IF(!hsc_model_has_site(model, pattern), HSC_EINVAL, "overview: the model has no site \"%s\"",
                hsc_site_name(pattern));
    hsc_overview *overview = hsc__calloc(1, sizeof *overview);
    if (!overview) return hsc__fail_memory(err, sizeof *overview, "overview");
    overview->n_layers = config->n_layers;
    overview->n_heads = config->n_heads;
    overview->n_tokens = n_tokens;
    overview->cross = pattern == HSC_CROSS_PATTERN;
    overview->n_links = n_links;
    pthread_mutex_init(&overview->lock, NULL);
    hsc_observer observer = {.site = pattern, .layer = -1, .fn = watch, .user = overview};
    hsc_status status = allocate(overview, err);
    if (status == HSC_OK) status = hsc_session_observe(session, &observer, err);
    if (status == HSC_OK) *out = overview;
    else hsc_overview_free(overview);
    return status;
}

void hsc_overview_free(hsc_overview *overview)
{
    if (!overview) return;
    pthread_mutex_destroy(&overview->lock);
    hsc__free(overview->rows);
    hsc__free(overview->best);
    hsc__free(overview->n_best);
    hsc__free(overview);
}

hsc_head_summary hsc_overview_head(const hsc_overview *overview, int layer, int head)
{
    share_sums sums = {0};
    if (layer < 0 || layer >= overview->n_layers || head < 0 || head >= overview->n_heads) return (hsc_head_summary){0};
    const row_shares *rows = rows_of(overview, layer, head);
    for (int query = overview->cross ? 0 : 1; query < overview->n_tokens; query++) add_shares(&sums, &rows[query]);
    return mean_shares(&sums);
}

int hsc_overview_links(const hsc_overview *overview, const unsigned char *layers, hsc_link *out, int capacity)
{
    int n = 0;
    for (int layer = 0; layer < overview->n_layers && capacity > 0; layer++) {
        const hsc_link *best = overview->best + (size_t)layer * (size_t)overview->n_links;
        for (int i = 0; (!layers || layers[layer]) && i < overview->n_best[layer]; i++)
            keep_link(&best[i], out, &n, capacity);
    }
    return n;
}
