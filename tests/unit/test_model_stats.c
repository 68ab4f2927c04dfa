/*
 * Statistics against the patterns they summarise (recorded in the same pass, figures in double), and the same bits for
 * any threads, chunk and batch. Watching them leaves the logits alone.
 */
#include "tiny_model.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 70, TOP = 5, LONG = 650 };

static hsc_token ids[N];

static hsc_session *run(const hsc_model *m, hsc_session_options o, bool collect)
{
    hsc_session *s;
    assert_int_equal(hsc_session_new(&s, m, &o, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, NULL), HSC_OK);
    if (collect)
        assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1, .top_k = TOP}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    return s;
}

static const float *stat(const hsc_session *s, hsc_stat which, int layer, int64_t *width)
{
    hsc_view v;
    hsc_error err = {0};
    if (hsc_session_stat(s, which, layer, 0, &v, &err) != HSC_OK) fail_msg("%s", err.message);
    *width = v.shape[v.n_dims - 1];
    return v.data;
}

static void check_row(const hsc_session *s, int layer, int head, int q, const float *row, double *received)
{
    int64_t bins, width;
    const float *entropy = stat(s, HSC_STAT_ENTROPY, layer, &width), *sink = stat(s, HSC_STAT_SINK, layer, &width);
    const float *self = stat(s, HSC_STAT_SELF, layer, &width), *prev = stat(s, HSC_STAT_PREV, layer, &width);
    const float *distance = stat(s, HSC_STAT_DISTANCE, layer, &bins), *top = stat(s, HSC_STAT_TOPK, layer, &width);
    const int32_t *keys;
    int at = head * N + q;
    double h = 0, far[16] = {0};
    assert_int_equal(hsc_session_topk_keys(s, layer, 0, &keys, NULL), HSC_OK);
    assert_int_equal(bins, 8); /* distances up to 69: 0, 1, 2-3, ..., 64-127 */
    for (int k = 0; k < N; k++) {
        int bin = 0;
        while (q - k >= 1 << bin) bin++;
        if (row[k] > 0) h -= row[k] * log(row[k]);
        if (k <= q) far[bin] += row[k];
        received[k] += row[k];
    }
    assert_true(fabs(entropy[at] - h) <= 1e-5);
    assert_true(sink[at] == row[0] && self[at] == row[q] && prev[at] == (q ? row[q - 1] : 0));
    for (int b = 0; b < bins; b++) assert_true(fabs(distance[(size_t)at * (size_t)bins + (size_t)b] - far[b]) <= 1e-6);
    hsc_key_weight best[TOP];
    int n = 0;
    for (int i = 0; i < TOP; i++) { /* the heaviest not yet taken, the lower position first */
        int choice = -1;
        for (int k = 0; k <= q; k++) {
            bool taken = false;
            for (int j = 0; j < n; j++) taken |= best[j].key == k;
            if (!taken && (choice < 0 || row[k] > row[choice])) choice = k;
        }
        if (choice >= 0) best[n++] = (hsc_key_weight){choice, row[choice]};
        assert_int_equal(keys[at * TOP + i], choice);
        assert_true(top[at * TOP + i] == (choice < 0 ? 0 : row[choice]));
    }
}

static void check_against_patterns(const hsc_session *s)
{
    const hsc_config *c = hsc_model_config(hsc_session_model(s));
    for (int layer = 0; layer < c->n_layers; layer++) {
        hsc_view p;
        int64_t width;
        const float *received = stat(s, HSC_STAT_RECEIVED, layer, &width);
        assert_int_equal(width, N);
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, layer, 0, &p, NULL), HSC_OK);
        for (int head = 0; head < c->n_heads; head++) {
            double sums[N] = {0};
            for (int q = 0; q < N; q++) check_row(s, layer, head, q, p.data + (head * N + q) * N, sums);
            for (int k = 0; k < N; k++)
                assert_true(fabs(received[head * N + k] - sums[k]) <= 4 * FLT_EPSILON * (sums[k] + 1e-3));
        }
    }
}

static void assert_same_stats(const hsc_session *a, int seq_a, const hsc_session *b, int seq_b)
{
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        for (int i = 0; i < HSC_N_STATS; i++) {
            hsc_view x, y;
            assert_int_equal(hsc_session_stat(a, (hsc_stat)i, layer, seq_a, &x, NULL), HSC_OK);
            assert_int_equal(hsc_session_stat(b, (hsc_stat)i, layer, seq_b, &y, NULL), HSC_OK);
            assert_int_equal(x.n_dims, y.n_dims);
            size_t n = (size_t)(x.shape[0] * x.shape[1] * (x.n_dims == 3 ? x.shape[2] : 1));
            assert_memory_equal(x.data, y.data, n * sizeof *x.data);
        }
        const int32_t *p, *q;
        assert_int_equal(hsc_session_topk_keys(a, layer, seq_a, &p, NULL), HSC_OK);
        assert_int_equal(hsc_session_topk_keys(b, layer, seq_b, &q, NULL), HSC_OK);
        assert_memory_equal(p, q, (size_t)N * TOP * sizeof *p);
    }
}

static void check_same_bits(const hsc_model *m, const hsc_session *whole)
{
    static const hsc_session_options options[] = {
        {.n_threads = 2}, {.n_threads = 3, .chunk = 7}, {.n_threads = 2, .chunk = 33}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        hsc_session *s = run(m, options[i], true);
        assert_same_stats(whole, 0, s, 0);
        hsc_session_free(s);
    }
    hsc_session *s;
    hsc_token packed[2 * N];
    memcpy(packed, ids, sizeof ids);
    memcpy(packed + N, ids, sizeof ids);
    assert_int_equal(hsc_session_new(&s, m, &(hsc_session_options){.max_seqs = 2, .n_threads = 2}, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1, .top_k = TOP}, NULL), HSC_OK);
    hsc_batch b = {.ids = packed, .n_tokens = 2 * N, .seq_lengths = (const int[]){N, N}, .n_seqs = 2};
    assert_int_equal(hsc_forward(s, &b, NULL), HSC_OK);
    assert_same_stats(whole, 0, s, 0);
    assert_same_stats(whole, 0, s, 1);
    hsc_session_free(s);
}

/* What on_rows has put together: arrays of the whole pass, as a session that keeps them has. */
typedef struct {
    float *data[TINY_LAYERS][HSC_N_STATS];
    int32_t *keys[TINY_LAYERS];
    int calls, stop_at;
} gathered;

static int gather(void *user, const hsc_stats_rows *rows)
{
    gathered *g = user;
    assert_int_equal(rows->seq, 0);
    assert_null(rows->stat[HSC_STAT_RECEIVED].data);
    for (int i = 0; i < HSC_N_STATS; i++) {
        const hsc_view *v = &rows->stat[i];
        if (i == HSC_STAT_RECEIVED) continue;
        size_t width = v->n_dims == 3 ? (size_t)v->shape[2] : 1;
        float **all = &g->data[rows->layer][i];
        assert_int_equal(v->shape[1], rows->n_rows);
        if (!*all) *all = calloc((size_t)v->shape[0] * N * width, sizeof **all);
        for (int64_t head = 0; head < v->shape[0]; head++)
            memcpy(*all + ((size_t)head * N + (size_t)rows->first_row) * width,
                   v->data + (size_t)(head * rows->n_rows) * width, (size_t)rows->n_rows * width * sizeof **all);
    }
    if (!g->keys[rows->layer]) g->keys[rows->layer] = calloc((size_t)(N * TOP), sizeof(int32_t));
    memcpy(g->keys[rows->layer] + rows->first_row * TOP, rows->topk_keys,
           (size_t)(rows->n_rows * TOP) * sizeof(int32_t)); /* of head 0 */
    return ++g->calls == g->stop_at;
}

static void check_handed_over(const hsc_model *m, const hsc_session *whole)
{
    gathered g = {0}, stopped = {.stop_at = 2};
    hsc_session *s;
    hsc_view v, w;
    const int32_t *keys;
    hsc_stats_options o = {.layer = -1, .top_k = TOP, .on_rows = gather, .user = &g};
    hsc_batch batch = {.ids = ids, .n_tokens = N};
    assert_int_equal(hsc_session_new(&s, m, &(hsc_session_options){.chunk = 11, .n_threads = 2}, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &o, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &batch, NULL), HSC_OK);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_SINK, 0, 0, &v, NULL), HSC_ENOTFOUND);
    assert_int_equal(hsc_session_topk_keys(s, 0, 0, &keys, NULL), HSC_ENOTFOUND);
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        for (int i = 0; i < HSC_N_STATS; i++) {
            assert_int_equal(hsc_session_stat(whole, (hsc_stat)i, layer, 0, &v, NULL), HSC_OK);
            size_t n = (size_t)(v.shape[0] * v.shape[1] * (v.n_dims == 3 ? v.shape[2] : 1));
            w.data = g.data[layer][i];
            if (i == HSC_STAT_RECEIVED) assert_int_equal(hsc_session_stat(s, (hsc_stat)i, layer, 0, &w, NULL), HSC_OK);
            assert_memory_equal(v.data, w.data, n * sizeof *v.data);
            free(g.data[layer][i]);
        }
        assert_int_equal(hsc_session_topk_keys(whole, layer, 0, &keys, NULL), HSC_OK);
        assert_memory_equal(g.keys[layer], keys, (size_t)(N * TOP) * sizeof *keys);
        free(g.keys[layer]);
    }
    o.user = &stopped;
    hsc_session_reset(s);
    assert_int_equal(hsc_session_collect(s, &o, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &batch, NULL), HSC_ECANCELED);
    assert_int_equal(stopped.calls, 2);
    for (int i = 0; i < HSC_N_STATS; i++)
        for (int layer = 0; layer < TINY_LAYERS; layer++) free(stopped.data[layer][i]);
    for (int layer = 0; layer < TINY_LAYERS; layer++) free(stopped.keys[layer]);
    hsc_session_free(s);
}

static void check_model(void (*make)(tiny_model *))
{
    tiny_model t;
    hsc_model *m;
    hsc_view a, b;
    make(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    for (int i = 0; i < N; i++) ids[i] = (i * i * 17 + 3 * i + 1) % TINY_VOCAB;
    hsc_session *s = run(m, (hsc_session_options){.n_threads = 1}, true),
                *plain = run(m, (hsc_session_options){0}, false);
    check_against_patterns(s);
    check_same_bits(m, s);
    check_handed_over(m, s);
    assert_int_equal(hsc_session_logits(s, &a, NULL), HSC_OK);
    assert_int_equal(hsc_session_logits(plain, &b, NULL), HSC_OK);
    assert_memory_equal(a.data, b.data, TINY_VOCAB * sizeof(float));
    assert_int_equal(hsc_session_stat(plain, HSC_STAT_SINK, 0, 0, &a, NULL), HSC_ENOTFOUND);
    hsc_session_free(s);
    hsc_session_free(plain);
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_gpt2(void **unused)
{
    (void)unused;
    check_model(tiny_gpt2);
}

static void test_llama(void **unused)
{
    (void)unused;
    check_model(tiny_llama);
}

static void test_bloom(void **unused)
{
    (void)unused;
    check_model(tiny_bloom);
}

/* The list is in order, each weight is its key's, and no key that is left out should stand before the last. */
static void check_heaviest(const float *row, int n, int k, const float *weights, const int32_t *keys)
{
    int seen = 0, before = 0;
    for (int j = 0; j < n; j++) seen += row[j] > 0;
    int last = seen < k ? seen - 1 : k - 1;
    for (int i = 0; i <= last; i++) {
        assert_in_range(keys[i], 0, n - 1);
        assert_true(weights[i] == row[keys[i]]);
        assert_true(i == 0 || weights[i] < weights[i - 1] || (weights[i] == weights[i - 1] && keys[i] > keys[i - 1]));
    }
    for (int j = 0; j < n && last >= 0; j++)
        before += row[j] > weights[last] || (row[j] == weights[last] && j < keys[last]);
    assert_int_equal(before, last < 0 ? 0 : last);
    for (int i = last + 1; i < k; i++) assert_true(keys[i] == -1 && weights[i] == 0);
}

/* The lists of rows long enough for the search that skips light keys. */
static void check_long_rows(const hsc_model *m, const hsc_mask *mask, int k)
{
    static hsc_token many[LONG];
    hsc_session *s;
    hsc_view p, w;
    const int32_t *keys;
    for (int i = 0; i < LONG; i++) many[i] = (i * i * 31 + 7 * i + 2) % TINY_VOCAB;
    assert_int_equal(hsc_session_new(&s, m, &(hsc_session_options){.mask = *mask}, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1, .top_k = k}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = many, .n_tokens = LONG}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 0, 0, &p, NULL), HSC_OK);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_TOPK, 0, 0, &w, NULL), HSC_OK);
    assert_int_equal(hsc_session_topk_keys(s, 0, 0, &keys, NULL), HSC_OK);
    for (int row = 0; row < 2 * LONG; row++)
        check_heaviest(p.data + (size_t)row * LONG, row % LONG + 1, k, w.data + row * k, keys + row * k);
    hsc_session_free(s);
}

/* Where a mask hides keys, a block list all keys of some rows, fewer than k are left. */
static void test_heaviest_keys_of_long_rows(void **unused)
{
    (void)unused;
    static const unsigned char allowed[16] = {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1};
    static const hsc_mask masks[] = {{0}, {.window = 9, .sinks = 2}, {.allowed = allowed, .block = 163, .n_blocks = 4}};
    tiny_model t;
    hsc_model *m;
    tiny_llama_of(&t, (tiny_shape){32, 2, 1, 16, 48, 1, LONG, true});
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (int k = 1; k <= 64; k += 21) check_long_rows(m, &masks[i], k);
    hsc_model_close(m);
    tiny_remove(&t);
}

/* What is put into the row of a query of the last layer's head 1. */
typedef struct {
    hsc_site site;
    int query, key;
    float value;
} odd_weight;

static int put_odd(void *user, const hsc_block *b)
{
    const odd_weight *odd = user;
    int r = odd->query - b->first_row;
    if (b->head == 1 && r >= 0 && r < b->n_rows) b->data[(size_t)r * b->stride + (size_t)odd->key] = odd->value;
    return 0;
}

/* The row of that query and head is all NaN, so no key is the heaviest. */
static void check_no_number(const hsc_session *s, int query)
{
    int64_t k;
    const float *weights = stat(s, HSC_STAT_TOPK, TINY_LAYERS - 1, &k);
    const int32_t *keys;
    assert_int_equal(hsc_session_topk_keys(s, TINY_LAYERS - 1, 0, &keys, NULL), HSC_OK);
    for (int64_t i = (N + query) * k; i < (N + query + 1) * k; i++) assert_true(keys[i] == -1 && isnan(weights[i]));
}

/* received of the last layer, [3][N], of a pass in which the odd weight is put in, if any. */
static void received_with(const hsc_model *m, hsc_session_options o, odd_weight *odd, float *out)
{
    hsc_session *s;
    hsc_view v;
    assert_int_equal(hsc_session_new(&s, m, &o, NULL), HSC_OK);
    if (odd)
        assert_int_equal(hsc_session_observe(s, &(hsc_observer){odd->site, TINY_LAYERS - 1, put_odd, odd}, NULL),
                         HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_RECEIVED, TINY_LAYERS - 1, 0, &v, NULL), HSC_OK);
    memcpy(out, v.data, 3 * N * sizeof *out);
    if (odd && odd->site == HSC_ATTN_SCORES) check_no_number(s, odd->query);
    hsc_session_free(s);
}

/* A key that got a weight which is no number, or does not fit, has received no number; every other key, those that
 * the row does not see among them, what it has received without. */
static void test_odd_weights(void **unused)
{
    (void)unused;
    static odd_weight cases[] = {{HSC_PATTERN, 20, 3, NAN},      {HSC_PATTERN, 69, 69, -NAN},
                                 {HSC_PATTERN, 30, 0, INFINITY}, {HSC_PATTERN, 40, 7, 4097},
                                 {HSC_PATTERN, 40, 7, -1e30F},   {HSC_ATTN_SCORES, 33, 2, NAN},
                                 {HSC_ATTN_SCORES, 69, 1, NAN},  {HSC_ATTN_SCORES, 50, 49, INFINITY}};
    static const hsc_mask masks[] = {{0}, {.window = 6, .sinks = 3}};
    static const hsc_session_options options[] = {{.n_threads = 1}, {.n_threads = 3, .chunk = 7}};
    tiny_model t;
    hsc_model *m;
    tiny_gpt2(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    for (int i = 0; i < N; i++) ids[i] = (i * i * 17 + 3 * i + 1) % TINY_VOCAB;
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        odd_weight *odd = &cases[i / 4];
        float plain[3 * N], got[3 * N];
        hsc_session_options o = options[i % 2];
        o.mask = masks[i / 2 % 2];
        received_with(m, o, NULL, plain);
        received_with(m, o, odd, got);
        for (int k = 0; k < N; k++) {
            bool seen = k <= odd->query && (!o.mask.window || k < 3 || k > odd->query - 6);
            if (odd->site == HSC_ATTN_SCORES ? seen : k == odd->key) {
                assert_true(isnan(got[N + k]));
                got[N + k] = plain[N + k];
            }
        }
        assert_memory_equal(plain, got, sizeof got);
    }
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_options(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m;
    hsc_view v;
    tiny_gpt2(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_session *s = run(m, (hsc_session_options){0}, false);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = 3}, NULL), HSC_EINVAL);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.top_k = 65}, NULL), HSC_EINVAL);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = 1, .stats = 1u << HSC_STAT_PREV}, NULL),
                     HSC_OK);
    hsc_session_reset(s);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 9}, NULL), HSC_OK);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_PREV, 1, 0, &v, NULL), HSC_OK);
    assert_true(v.shape[0] == 3 && v.shape[1] == 9 && v.n_dims == 2);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_PREV, 0, 0, &v, NULL), HSC_ENOTFOUND);
    assert_int_equal(hsc_session_stat(s, HSC_STAT_SELF, 1, 0, &v, NULL), HSC_ENOTFOUND);
    assert_int_equal(hsc_session_collect(s, NULL, NULL), HSC_OK);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_bloom),       cmocka_unit_test(test_heaviest_keys_of_long_rows),
        cmocka_unit_test(test_odd_weights), cmocka_unit_test(test_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
