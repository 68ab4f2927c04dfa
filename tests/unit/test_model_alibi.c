/*
 * ALiBi through a model: where queries are 0 the scores are the slopes' alone, so that scores, patterns and statistics
 * are known from the paper's definition, for numbers of heads of every kind.
 */
#include "tiny_model.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 70 };

/* Press et al. 2021: 2^(-8 k / n) for k = 1..n; the paper's own code takes for other numbers than powers of two the
 * slopes of the power below, then every other one of the power above. */
static double slope(int n_heads, int head)
{
    int below = 1;
    while (2 * below <= n_heads) below *= 2;
    if (head < below) return pow(2, -8.0 * (head + 1) / below);
    return pow(2, -8.0 * (2 * (head - below) + 1) / (2 * below));
}

static const float *activation(const hsc_session *s, hsc_site site, int layer)
{
    hsc_view v;
    assert_int_equal(hsc_session_activation(s, site, layer, 0, &v, NULL), HSC_OK);
    return v.data;
}

static const float *stat(const hsc_session *s, hsc_stat which, int layer)
{
    hsc_view v;
    assert_int_equal(hsc_session_stat(s, which, layer, 0, &v, NULL), HSC_OK);
    return v.data;
}

/* The slope's ratio was rounded to float32 and taken to a power of at most n_heads. */
static void check_row(const hsc_session *s, int layer, int n_heads, int head, int q, double received[N])
{
    size_t at = (size_t)(head * N + q);
    const float *scores = activation(s, HSC_ATTN_SCORES, layer) + at * N;
    const float *pattern = activation(s, HSC_PATTERN, layer) + at * N;
    double m = slope(n_heads, head), sum = 0, entropy = 0, near = 2.0 * n_heads * FLT_EPSILON;
    for (int k = 0; k <= q; k++) sum += exp(m * (k - q));
    for (int k = 0; k < N; k++) {
        double p = k <= q ? exp(m * (k - q)) / sum : 0;
        if (k <= q) assert_true(fabs(scores[k] - m * (k - q)) <= near * m * (q - k));
        else assert_true(scores[k] == -INFINITY);
        assert_true(fabs(pattern[k] - p) <= (near * m * N + 16 * FLT_EPSILON) * p);
        if (p > 0) entropy -= p * log(p);
        received[k] += p;
    }
    assert_true(fabs(stat(s, HSC_STAT_ENTROPY, layer)[at] - entropy) <= 1e-5);
    assert_true(stat(s, HSC_STAT_SINK, layer)[at] == pattern[0] && stat(s, HSC_STAT_SELF, layer)[at] == pattern[q]);
}

static void check_heads(int n_heads)
{
    tiny_model t;
    hsc_model *m;
    hsc_session *s;
    hsc_token ids[N];
    hsc_error err = {0};
    tiny_bloom_of(&t, n_heads, true);
    if (hsc_model_open(&m, t.dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    const hsc_config *c = hsc_model_config(m);
    assert_true(c->is_relative && !c->has_pos_embed && !c->is_rotary && c->causal && c->tied);
    assert_true(c->n_ctx == 80 && c->d_mlp == 4 * c->d_model && c->n_kv_heads == n_heads);
    for (int i = 0; i < N; i++) ids[i] = (i * i * 17 + 3 * i + 1) % TINY_VOCAB;
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_ATTN_SCORES, -1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        for (int head = 0; head < n_heads; head++) {
            double received[N] = {0};
            for (int q = 0; q < N; q++) check_row(s, layer, n_heads, head, q, received);
            for (int k = 0; k < N; k++)
                assert_true(fabs(stat(s, HSC_STAT_RECEIVED, layer)[head * N + k] - received[k]) <= 1e-4 * received[k]);
        }
    }
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

static void test_slopes(void **unused)
{
    (void)unused;
    static const int heads[] = {1, 2, 3, 4, 6, 8, 12, 16, 20};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) check_heads(heads[i]);
}

/* Older files say n_embed, and where both stand it is what transformers takes. */
static void test_width(void **unused)
{
    (void)unused;
    static const char *const widths[] = {"\"n_embed\":16", "\"n_embed\":16,\"hidden_size\":64",
                                         "\"n_embed\":null,\"hidden_size\":16"};
    tiny_model t;
    hsc_model *m;
    hsc_error err = {0};
    char path[128];
    tiny_bloom_of(&t, 2, false);
    snprintf(path, sizeof path, "%s/config.json", t.dir);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "{\"model_type\":\"bloom\",%s,\"n_layer\":3,\"n_head\":2,\"vocab_size\":97}", widths[i]);
        assert_int_equal(fclose(f), 0);
        if (hsc_model_open(&m, t.dir, NULL, &err) != HSC_OK) fail_msg("%s: %s", widths[i], err.message);
        assert_int_equal(hsc_model_config(m)->d_model, 16);
        hsc_model_close(m);
    }
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slopes), cmocka_unit_test(test_width)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
