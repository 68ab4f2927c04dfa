/*
 * "Same bits" (docs/decisions.md): whatever the threads, the chunking, the recording, the company in the batch, the cut
 * of the cache or the tokens that follow, a token's row of every site is the same by memcmp.
 */
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 70 };

static hsc_token ids[N];

/* Everything one sequence shows: all sites, all layers, one after the other. */
typedef struct {
    float *data[HSC_N_SITES][TINY_LAYERS];
    int64_t shape[HSC_N_SITES][3];
} shown;

static void drop(shown *x)
{
    for (int s = 0; s < HSC_N_SITES; s++)
        for (int l = 0; l < TINY_LAYERS; l++) free(x->data[s][l]);
    free(x);
}

static bool is_square(int site)
{
    return site == HSC_PATTERN || site == HSC_ATTN_SCORES;
}

static size_t size_of(const hsc_view *v)
{
    size_t n = 1;
    for (int i = 0; i < v->n_dims; i++) n *= (size_t)v->shape[i];
    return n;
}

/* Appends what sequence `seq` of the last pass shows to x, row sites by rows; patterns only when x is empty there. */
static void collect(const hsc_session *s, int seq, shown *x)
{
    const hsc_model *m = hsc_session_model(s);
    for (int site = 0; site < HSC_N_SITES; site++) {
        if (!hsc_model_has_site(m, (hsc_site)site)) continue;
        for (int l = 0; l < (hsc_site_per_layer((hsc_site)site) ? TINY_LAYERS : 1); l++) {
            hsc_view v;
            assert_int_equal(hsc_session_activation(s, (hsc_site)site, l, seq, &v, NULL), HSC_OK);
            size_t n = size_of(&v);
            size_t have =
                x->data[site][l] && !is_square(site) ? (size_t)x->shape[site][0] * (n / (size_t)v.shape[0]) : 0;
            x->data[site][l] = realloc(x->data[site][l], (have + n) * sizeof(float));
            memcpy(x->data[site][l] + have, v.data, n * sizeof(float));
            if (l + 1 < (hsc_site_per_layer((hsc_site)site) ? TINY_LAYERS : 1)) continue;
            x->shape[site][0] = (is_square(site) ? 0 : x->shape[site][0]) + v.shape[0];
            x->shape[site][1] = v.n_dims > 1 ? v.shape[1] : 1;
            x->shape[site][2] = v.n_dims > 2 ? v.shape[2] : 1;
        }
    }
}

static void record_all(hsc_session *s)
{
    for (int site = 0; site < HSC_N_SITES; site++)
        if (hsc_model_has_site(hsc_session_model(s), (hsc_site)site))
            assert_int_equal(hsc_session_record(s, &(hsc_record){(hsc_site)site, -1, -1, -1}, NULL), HSC_OK);
}

static hsc_session *open_session(const hsc_model *m, hsc_session_options o)
{
    hsc_session *s;
    assert_int_equal(hsc_session_new(&s, m, &o, NULL), HSC_OK);
    record_all(s);
    return s;
}

static shown *show_whole(const hsc_model *m, hsc_session_options o, int n)
{
    hsc_session *s = open_session(m, o);
    shown *x = calloc(1, sizeof *x);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = n}, NULL), HSC_OK);
    collect(s, 0, x);
    hsc_session_free(s);
    return x;
}

/* The first n rows of every row site, and the n x n corner of every pattern, are the same bits. */
static void assert_same(const shown *a, const shown *b, int n)
{
    for (int site = 0; site < HSC_N_SITES; site++) {
        for (int l = 0; l < TINY_LAYERS; l++) {
            const float *x = a->data[site][l], *y = b->data[site][l];
            const int64_t *p = a->shape[site], *q = b->shape[site];
            if (!x) continue;
            assert_non_null(y);
            if (!is_square(site)) {
                assert_memory_equal(x, y, (size_t)n * (size_t)(p[1] * p[2]) * sizeof *x);
                continue;
            }
            for (int64_t h = 0; h < p[0]; h++)
                for (int r = 0; r < n; r++)
                    assert_memory_equal(x + (h * p[1] + r) * p[2], y + (h * q[1] + r) * q[2], (size_t)n * sizeof *x);
        }
    }
}

static void check_plain(const hsc_model *m, const shown *whole)
{
    static const int chunks[] = {1, 2, 7, 13, 64};
    for (int threads = 1; threads <= 3; threads++) {
        shown *x = show_whole(m, (hsc_session_options){.n_threads = threads}, N);
        assert_same(whole, x, N);
        drop(x);
    }
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        shown *x = show_whole(m, (hsc_session_options){.n_threads = 2, .chunk = chunks[i]}, N);
        assert_same(whole, x, N);
        drop(x);
    }
    for (int n = 1; n < N; n += 9) { /* fewer rows, and none of the later tokens */
        shown *x = show_whole(m, (hsc_session_options){.n_threads = 2}, n);
        assert_same(x, whole, n);
        drop(x);
    }
}

/* Row sites and logits when the tokens come in pieces of `step` on a filled cache. */
static void check_cache(const hsc_model *m, const shown *whole, int step)
{
    hsc_session *s = open_session(m, (hsc_session_options){.n_threads = 2});
    shown *x = calloc(1, sizeof *x);
    for (int from = 0; from < N; from += step) {
        int n = N - from < step ? N - from : step;
        assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids + from, .n_tokens = n}, NULL), HSC_OK);
        collect(s, 0, x);
        for (int l = 0; l < TINY_LAYERS; l++) { /* pattern rows on a cache: the rows of the full pattern */
            const int64_t *p = whole->shape[HSC_PATTERN], *q = x->shape[HSC_PATTERN];
            assert_true(q[1] == n && q[2] == from + n);
            for (int64_t h = 0; h < p[0]; h++)
                for (int r = 0; r < n; r++)
                    assert_memory_equal(whole->data[HSC_PATTERN][l] + (h * p[1] + from + r) * p[2],
                                        x->data[HSC_PATTERN][l] + (h * q[1] + r) * q[2],
                                        (size_t)(from + n) * sizeof(float));
        }
    }
    for (int site = 0; site < HSC_N_SITES; site++)
        for (int l = 0; l < TINY_LAYERS; l++)
            if (whole->data[site][l] && !is_square(site))
                assert_memory_equal(whole->data[site][l], x->data[site][l],
                                    (size_t)N * (size_t)(whole->shape[site][1] * whole->shape[site][2]) *
                                        sizeof(float));
    drop(x);
    hsc_session_free(s);
}

/* Three sequences end to end, and a truncated one that goes another way: each as if it were alone. */
static void check_batch(const hsc_model *m, const shown *whole)
{
    static const int lengths[3] = {11, N, 30};
    hsc_token packed[11 + N + 30];
    memcpy(packed, ids, 11 * sizeof *ids);
    memcpy(packed + 11, ids, sizeof ids);
    memcpy(packed + 11 + N, ids, 30 * sizeof *ids);
    for (int chunk = 0; chunk <= 17; chunk += 17) {
        hsc_session *s = open_session(m, (hsc_session_options){.n_threads = 2, .max_seqs = 3, .chunk = chunk});
        hsc_batch b = {.ids = packed, .n_tokens = 11 + N + 30, .seq_lengths = lengths, .n_seqs = 3};
        for (int pass = 0; pass < 2; pass++) {
            hsc_session_reset(s);
            assert_int_equal(hsc_forward(s, &b, NULL), HSC_OK);
            for (int i = 0; i < 3; i++) {
                shown *x = calloc(1, sizeof *x);
                collect(s, i, x);
                assert_same(x, whole, lengths[i]);
                drop(x);
            }
        }
        hsc_session_free(s);
    }
}

/* Nobody watches, one row of logits a sequence: the same logits. */
static void check_unwatched(const hsc_model *m, const shown *whole)
{
    hsc_session *s;
    hsc_view v;
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &v, NULL), HSC_OK);
    assert_true(v.shape[0] == 1 && v.shape[1] == TINY_VOCAB);
    assert_memory_equal(v.data, whole->data[HSC_LOGITS][0] + (N - 1) * TINY_VOCAB, TINY_VOCAB * sizeof(float));
    assert_int_equal(hsc_session_truncate(s, 0, 40, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids + 40, .n_tokens = 5, .logits = HSC_LOGITS_ALL}, NULL),
                     HSC_OK);
    assert_int_equal(hsc_session_length(s, 0), 45);
    assert_int_equal(hsc_session_logits(s, &v, NULL), HSC_OK);
    assert_memory_equal(v.data, whole->data[HSC_LOGITS][0] + 40 * TINY_VOCAB, 5 * TINY_VOCAB * sizeof(float));
    hsc_session_free(s);
}

/* Rows sum to 1, nothing above the diagonal, row 0 looks at itself (case B16). */
static void check_patterns(const shown *whole)
{
    const int64_t *p = whole->shape[HSC_PATTERN];
    for (int l = 0; l < TINY_LAYERS; l++) {
        for (int64_t row = 0; row < p[0] * p[1]; row++) {
            const float *x = whole->data[HSC_PATTERN][l] + row * p[2];
            double sum = 0;
            for (int64_t k = 0; k < p[2]; k++) {
                sum += x[k];
                if (k > row % p[1]) assert_true(x[k] == 0);
            }
            assert_true(fabs(sum - 1) <= 1e-6);
            if (row % p[1] == 0) assert_true(x[0] == 1);
        }
    }
}

static void check_model(void (*make)(tiny_model *))
{
    tiny_model t;
    hsc_model *m;
    hsc_error err = {0};
    make(&t);
    if (hsc_model_open(&m, t.dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    for (int i = 0; i < N; i++) ids[i] = (i * i * 31 + 5 * i + 3) % TINY_VOCAB;
    shown *whole = show_whole(m, (hsc_session_options){.n_threads = 1}, N);
    check_patterns(whole);
    check_plain(m, whole);
    static const int steps[] = {1, 2, 3, 12, 33, 64};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) check_cache(m, whole, steps[i]);
    check_batch(m, whole);
    check_unwatched(m, whole);
    drop(whole);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2), cmocka_unit_test(test_llama),
                                       cmocka_unit_test(test_bloom)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
