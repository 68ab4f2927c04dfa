/*
 * Reading patterns: the heaviest keys and their ties, summaries and links worked out by hand on small tables, and the
 * overview of a whole pass against the same figures from recorded patterns, for several numbers of threads and cuts.
 */
#include "failing_alloc.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N_TOKENS = 37, N_LINKS = 10 };

static void assert_keys(const float *row, int n_key, int first_key, int k, const int *expected, int n)
{
    hsc_key_weight best[16];
    assert_int_equal(hsc_top_keys(row, n_key, first_key, k, best), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(best[i].key, expected[i]);
        assert_memory_equal(&best[i].weight, &row[expected[i]], sizeof(float));
    }
}

static void test_top_keys(void **unused)
{
    (void)unused;
    const float row[] = {0.5f, 0.1f, 0.2f, 0.1f, 0.2f, 0};
    assert_keys(row, 6, 0, 1, (int[]){0}, 1);
    assert_keys(row, 6, 1, 1, (int[]){2}, 1); /* 2 and 4 are equal: the lower position */
    assert_keys(row, 6, 1, 3, (int[]){2, 4, 1}, 3);
    assert_keys(row, 6, 0, 16, (int[]){0, 2, 4, 1, 3, 5}, 6);
    assert_keys(row, 6, -3, 2, (int[]){0, 2}, 2);
    assert_keys(row, 6, 6, 4, NULL, 0);
    assert_keys(row, 6, 0, 0, NULL, 0);
    assert_keys(row, 0, 0, 4, NULL, 0);
}

static void test_top_keys_all_equal(void **unused)
{
    (void)unused;
    const float row[] = {0.25f, 0.25f, 0.25f, 0.25f};
    assert_keys(row, 4, 0, 4, (int[]){0, 1, 2, 3}, 4);
    assert_keys(row, 4, 0, 2, (int[]){0, 1}, 2);
    assert_keys(row, 4, 1, 1, (int[]){1}, 1);
}

static void test_top_keys_nan(void **unused)
{
    (void)unused;
    const float row[] = {NAN, 0.25f, NAN, 0.5f};
    const float none[] = {NAN, NAN};
    assert_keys(row, 4, 0, 4, (int[]){3, 1}, 2);
    assert_keys(none, 2, 0, 2, NULL, 0);
}

/* Rows q = 1, 2, 3 of a causal pattern whose figures are exact in binary. */
static const float pattern[4][4] = {
    {1, 0, 0, 0}, {0.5f, 0.5f, 0, 0}, {0.25f, 0.5f, 0.25f, 0}, {0.125f, 0.5f, 0.25f, 0.125f}};

static void assert_close(float a, double b)
{
    if (!(fabs((double)a - b) <= 1e-6)) fail_msg("%.9g is not %.9g", (double)a, b);
}

static void test_summary(void **unused)
{
    (void)unused;
    hsc_head_summary s;
    double ln2 = log(2);
    hsc_summarise_head(pattern[0], 4, 4, &s);
    assert_close(s.first, (0.5 + 0.25 + 0.125) / 3);
    assert_close(s.self, (0.5 + 0.25 + 0.125) / 3);
    assert_close(s.prev, (0.5 + 0.5 + 0.25) / 3); /* for q = 1 the one before is the first */
    assert_close(s.other, 0.5 / 3);               /* only key 1 of row 3 */
    assert_close(s.entropy, (ln2 + 1.5 * ln2 + 1.75 * ln2) / 3);
    hsc_summarise_head(pattern[2], 2, 4, &s); /* the last two rows of a longer text, as a cache gives them */
    assert_close(s.first, (0.25 + 0.125) / 2);
    assert_close(s.prev, (0.5 + 0.25) / 2);
    hsc_summarise_head(pattern[0], 1, 1, &s);
    assert_close(s.first, 0);
    assert_close(s.entropy, 0);
}

static void test_links(void **unused)
{
    (void)unused;
    hsc_link best[4];
    int n = 0;
    hsc_strongest_links(pattern[0], 4, 4, 7, 2, best, &n, 4);
    assert_int_equal(n, 1); /* everything else is the first, itself, the one before, or masked */
    assert_int_equal(best[0].query, 3);
    assert_int_equal(best[0].key, 1);
    assert_int_equal(best[0].layer, 7);
    hsc_strongest_links(pattern[0], 4, 4, 3, 5, best, &n, 4); /* equal weight: the lower layer comes first */
    assert_int_equal(n, 2);
    assert_int_equal(best[0].layer, 3);
    assert_int_equal(best[1].layer, 7);
    n = 0;
    hsc_strongest_links(pattern[0], 4, 4, 7, 2, best, &n, 1);
    hsc_strongest_links(pattern[0], 4, 4, 3, 5, best, &n, 1);
    assert_int_equal(n, 1);
    assert_int_equal(best[0].layer, 3);
    n = 0;
    hsc_strongest_links(pattern[0], 4, 4, 7, 2, best, &n, 0);
    assert_int_equal(n, 0);
}

/* However the calls come, equal weights stand by layer, head, query and key. */
static void test_equal_links(void **unused)
{
    (void)unused;
    const float even[16] = {1, 0, 0, 0, 0.5f, 0.5f, 0, 0, 0.25f, 0.25f, 0.5f, 0, 0.25f, 0.25f, 0.25f, 0.25f};
    const float wide[25] = {[15] = 0.25f, 0.25f, 0.25f, 0.25f, 0, 0.25f, 0.25f, 0.25f, 0.25f};
    static const int expected[6][4] = {{1, 2, 3, 1}, {1, 2, 4, 1}, {1, 2, 4, 2},
                                       {1, 5, 3, 1}, {2, 0, 3, 1}, {2, 1, 3, 1}};
    hsc_link best[6];
    int n = 0;
    hsc_strongest_links(even, 4, 4, 2, 1, best, &n, 6);
    hsc_strongest_links(even, 4, 4, 1, 5, best, &n, 6);
    hsc_strongest_links(even, 4, 4, 2, 2, best, &n, 6);
    hsc_strongest_links(wide, 5, 5, 1, 2, best, &n, 6);
    hsc_strongest_links(even, 4, 4, 2, 0, best, &n, 6);
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++) {
        assert_int_equal(best[i].layer, expected[i][0]);
        assert_int_equal(best[i].head, expected[i][1]);
        assert_int_equal(best[i].query, expected[i][2]);
        assert_int_equal(best[i].key, expected[i][3]);
    }
}

static void test_links_both_ways(void **unused)
{
    (void)unused;
    const float seen[9] = {0.25f, 0.25f, 0.5f, 0.1f, 0.2f, 0.7f, 0.3f, 0.3f, 0.4f};
    hsc_link best[4];
    int n = 0;
    hsc_strongest_links(seen, 3, 3, 0, 0, best, &n, 4); /* an encoder also looks ahead */
    assert_int_equal(n, 3);
    assert_int_equal(best[0].query, 1);
    assert_int_equal(best[0].key, 2);
    assert_int_equal(best[1].query, 0);
    assert_int_equal(best[1].key, 2);
    assert_int_equal(best[2].query, 0);
    assert_int_equal(best[2].key, 1);
}

/* --------------------------------------------------------------------------------------------------- overview ---- */

static hsc_session *new_session(const hsc_model *m, int n_threads, int chunk)
{
    hsc_session *s;
    hsc_error err = {0};
    hsc_session_options options = {.n_threads = n_threads, .chunk = chunk};
    if (hsc_session_new(&s, m, &options, &err) != HSC_OK) fail_msg("%s", err.message);
    return s;
}

static void pass(hsc_session *s)
{
    hsc_token ids[N_TOKENS];
    hsc_error err = {0};
    for (int i = 0; i < N_TOKENS; i++) ids[i] = (i * 29 + 5) % TINY_VOCAB;
    hsc_batch batch = {.ids = ids, .n_tokens = N_TOKENS, .logits = HSC_LOGITS_NONE};
    if (hsc_forward(s, &batch, &err) != HSC_OK) fail_msg("%s", err.message);
}

/* The same figures the plain way, from whole patterns. */
static void check_overview(const hsc_model *m, const hsc_overview *overview)
{
    const hsc_config *c = hsc_model_config(m);
    hsc_session *s = new_session(m, 1, 0);
    hsc_link links[N_LINKS], seen[N_LINKS];
    int n_links = 0;
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, NULL), HSC_OK);
    pass(s);
    for (int layer = 0; layer < c->n_layers; layer++) {
        hsc_view view;
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, layer, 0, &view, NULL), HSC_OK);
        for (int head = 0; head < c->n_heads; head++) {
            const float *one = view.data + (size_t)head * N_TOKENS * N_TOKENS;
            hsc_head_summary whole, streamed = hsc_overview_head(overview, layer, head);
            hsc_summarise_head(one, N_TOKENS, N_TOKENS, &whole);
            assert_memory_equal(&whole, &streamed, sizeof whole);
            hsc_strongest_links(one, N_TOKENS, N_TOKENS, layer, head, links, &n_links, N_LINKS);
        }
    }
    assert_int_equal(n_links, N_LINKS);
    assert_int_equal(hsc_overview_links(overview, NULL, seen, N_LINKS), N_LINKS);
    assert_memory_equal(links, seen, sizeof links);
    hsc_session_free(s);
}

static void test_overview(void **unused)
{
    (void)unused;
    static const int settings[][2] = {{1, 0}, {3, 0}, {2, 5}, {1, 1}};
    tiny_model t;
    hsc_model *m;
    tiny_gpt2(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    for (int i = 0; i < 4; i++) {
        hsc_session *s = new_session(m, settings[i][0], settings[i][1]);
        hsc_overview *overview;
        assert_int_equal(hsc_overview_new(&overview, s, HSC_PATTERN, N_TOKENS, N_LINKS, NULL), HSC_OK);
        pass(s);
        check_overview(m, overview);
        hsc_session_free(s);
        hsc_overview_free(overview);
    }
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_overview_layers(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m;
    hsc_overview *overview;
    hsc_link links[N_LINKS];
    tiny_gpt2(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_session *s = new_session(m, 1, 0);
    assert_int_equal(hsc_overview_new(&overview, s, HSC_PATTERN, N_TOKENS, N_LINKS, NULL), HSC_OK);
    pass(s);
    unsigned char layers[64] = {[1] = 1};
    int n = hsc_overview_links(overview, layers, links, N_LINKS);
    assert_int_equal(n, N_LINKS);
    for (int i = 0; i < n; i++) assert_int_equal(links[i].layer, 1);
    layers[1] = 0;
    assert_int_equal(hsc_overview_links(overview, layers, links, N_LINKS), 0);
    hsc_head_summary none = hsc_overview_head(overview, 99, 0);
    assert_true(none.first == 0 && none.entropy == 0);
    hsc_session_free(s);
    hsc_overview_free(overview);
    hsc_overview_free(NULL);
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_overview_refuses(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m;
    hsc_overview *overview;
    hsc_error err = {0};
    tiny_gpt2(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_session *s = new_session(m, 1, 0);
    assert_int_equal(hsc_overview_new(&overview, s, HSC_PATTERN, -1, 0, &err), HSC_EINVAL);
    assert_int_equal(hsc_overview_new(&overview, s, HSC_PATTERN, 5, 1001, &err), HSC_EINVAL);
    assert_null(overview);
    assert_int_equal(hsc_overview_new(&overview, s, HSC_PATTERN, N_TOKENS - 1, 3, &err),
                     HSC_OK); /* shorter than the pass */
    hsc_token ids[N_TOKENS] = {0};
    hsc_batch batch = {.ids = ids, .n_tokens = N_TOKENS, .logits = HSC_LOGITS_NONE};
    assert_int_equal(hsc_forward(s, &batch, &err), HSC_ECANCELED);
    hsc_session_free(s);
    hsc_overview_free(overview);
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_overview_memory(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m;
    tiny_gpt2(&t);
    failing_alloc a;
    failing_alloc_install(&a, 0);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_session *s = new_session(m, 1, 0);
    long held = a.held;
    hsc_status status = HSC_ENOMEM;
    for (long k = 1; status != HSC_OK; k++) {
        hsc_overview *overview;
        hsc_error err = {0};
        a.calls = 0;
        a.fail_at = k;
        status = hsc_overview_new(&overview, s, HSC_PATTERN, N_TOKENS, N_LINKS, &err);
        a.fail_at = 0;
        if (status != HSC_OK) {
            assert_int_equal(status, HSC_ENOMEM);
            assert_int_equal(a.held, held);
        }
        hsc_overview_free(overview);
    }
    hsc_session_free(s);
    hsc_model_close(m);
    assert_int_equal(a.held, 0);
    failing_alloc_remove();
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_keys),        cmocka_unit_test(test_top_keys_all_equal),
        cmocka_unit_test(test_top_keys_nan),    cmocka_unit_test(test_summary),
        cmocka_unit_test(test_links),           cmocka_unit_test(test_equal_links),
        cmocka_unit_test(test_links_both_ways), cmocka_unit_test(test_overview),
        cmocka_unit_test(test_overview_layers), cmocka_unit_test(test_overview_refuses),
        cmocka_unit_test(test_overview_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
