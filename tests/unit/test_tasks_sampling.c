/* Choosing the next token: each step by its definition, the limits, and the draw. */
#include "tasks/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 4 };

/* Which of four tokens with these probabilities stay, as bits. */
static unsigned kept(hsc_sampling s, const double *probs)
{
    float logits[N];
    unsigned bits = 0;
    hsc_error err = {0};
    s.temperature = 1;
    for (int i = 0; i < N; i++) logits[i] = (float)log(probs[i]);
    assert_int_equal(hsc_filter_logits(&s, NULL, 0, 0, logits, N, &err), HSC_OK);
    for (int i = 0; i < N; i++) bits |= (unsigned)(logits[i] > -INFINITY) << i;
    return bits;
}

/* The token that crosses the limit stays. */
static void test_top_p(void **unused)
{
    (void)unused;
    static const double p[N] = {0.5, 0.3, 0.15, 0.05}, mixed[N] = {0.05, 0.5, 0.15, 0.3};
    assert_int_equal(kept((hsc_sampling){.top_p = 0.6F}, p), 1 | 2);
    assert_int_equal(kept((hsc_sampling){.top_p = 0.79F}, p), 1 | 2);
    assert_int_equal(kept((hsc_sampling){.top_p = 0.85F}, p), 1 | 2 | 4);
    assert_int_equal(kept((hsc_sampling){.top_p = 1e-30F}, p), 1);
    assert_int_equal(kept((hsc_sampling){.top_p = 1}, p), 15);
    assert_int_equal(kept((hsc_sampling){.top_p = 0.6F}, mixed), 2 | 8);
}

static void test_other_filters(void **unused)
{
    (void)unused;
    static const double p[N] = {0.5, 0.3, 0.15, 0.05}, tied[N] = {0.2, 0.4, 0.2, 0.2};
    assert_int_equal(kept((hsc_sampling){.top_k = 1}, p), 1);
    assert_int_equal(kept((hsc_sampling){.top_k = 3}, p), 7);
    assert_int_equal(kept((hsc_sampling){.top_k = 9}, p), 15);
    assert_int_equal(kept((hsc_sampling){.top_k = 2}, tied), 15); /* equals of the second */
    assert_int_equal(kept((hsc_sampling){.min_p = 0.25F}, p), 7);
    assert_int_equal(kept((hsc_sampling){.min_p = 0.9F}, p), 1);
    /* The entropy is 1.1421 nats: 0.3 (1.204) is nearest, then 0.5 (0.693), 0.15 (1.897), 0.05 (2.996). */
    assert_int_equal(kept((hsc_sampling){.typical_p = 0.2F}, p), 2);
    assert_int_equal(kept((hsc_sampling){.typical_p = 0.5F}, p), 1 | 2);
    assert_int_equal(kept((hsc_sampling){.typical_p = 0.9F}, p), 7);
}

static void test_penalties(void **unused)
{
    (void)unused;
    static const hsc_token ids[] = {0, 1, 1, 2, 2, 2};
    float logits[N] = {2, -2, 2, 2};
    hsc_sampling s = {.repetition = 2};
    assert_int_equal(hsc_filter_logits(&s, ids, 6, 1, logits, N, NULL), HSC_OK);
    assert_memory_equal(logits, ((float[N]){1, -4, 1, 2}), sizeof logits);
    float others[N] = {1, 1, 1, 1};
    s = (hsc_sampling){.presence = 0.5F, .frequency = 0.25F}; /* the first id was given, not written */
    assert_int_equal(hsc_filter_logits(&s, ids, 6, 1, others, N, NULL), HSC_OK);
    assert_memory_equal(others, ((float[N]){1, 0, -0.25F, 1}), sizeof others);
}

/* Each step sees what the one before left: top-k takes its share before top-p counts. */
static void test_order(void **unused)
{
    (void)unused;
    static const double p[N] = {0.4, 0.3, 0.2, 0.1};
    assert_int_equal(kept((hsc_sampling){.top_k = 2, .top_p = 0.5F}, p), 1);
    assert_int_equal(kept((hsc_sampling){.top_p = 0.5F}, p), 3);
    float logits[N] = {3, 2, 1, 0};
    hsc_sampling s = {.temperature = 0.5F, .top_k = 3};
    assert_int_equal(hsc_filter_logits(&s, NULL, 0, 0, logits, N, NULL), HSC_OK);
    assert_memory_equal(logits, ((float[N]){6, 4, 2, -INFINITY}), sizeof logits);
    float greedy[N] = {3, 2, 1, 0};
    s = (hsc_sampling){.top_k = 1};
    assert_int_equal(hsc_filter_logits(&s, NULL, 0, 0, greedy, N, NULL), HSC_OK);
    assert_memory_equal(greedy, ((float[N]){3, 2, 1, 0}), sizeof greedy);
}

static void test_limits(void **unused)
{
    (void)unused;
    static const hsc_sampling wrong[] = {
        {.temperature = -1}, {.temperature = NAN}, {.temperature = INFINITY}, {.top_k = -1},     {.top_p = 1.5F},
        {.min_p = -0.1F},    {.typical_p = 2},     {.repetition = -1},        {.presence = NAN}, {.frequency = 1e9F}};
    static const char *const names[] = {"temperature", "temperature", "temperature", "top_k",    "top_p",
                                        "min_p",       "typical_p",   "repetition",  "presence", "frequency"};
    hsc_error err = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(hsc_sampling_check(&wrong[i], &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, names[i]));
    }
    float bad[2] = {0, NAN};
    hsc_token id;
    assert_int_equal(hsc_sample_token(bad, 2, NULL, &id, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "token 1"));
    assert_int_equal(hsc_filter_logits(&(hsc_sampling){0}, NULL, 0, 0, bad, 2, &err), HSC_EINVAL);
    float none[2] = {-INFINITY, -INFINITY};
    assert_int_equal(hsc_sample_token(none, 2, NULL, &id, &err), HSC_EINVAL);
}

static void test_draw(void **unused)
{
    (void)unused;
    static const double p[N] = {0.5, 0.3, 0.15, 0.05};
    enum { DRAWS = 100000 };
    float logits[N + 1];
    int counts[N + 1] = {0};
    hsc_random random;
    hsc_token id;
    for (int i = 0; i < N; i++) logits[i + (i > 1)] = (float)log(p[i]);
    logits[2] = -INFINITY;
    assert_int_equal(hsc_sample_token(logits, N + 1, NULL, &id, NULL), HSC_OK);
    assert_int_equal(id, 0);
    assert_int_equal(hsc_sample_token((float[]){1, 7, 7}, 3, NULL, &id, NULL), HSC_OK);
    assert_int_equal(id, 1);
    hsc_random_seed(&random, 1);
    for (int i = 0; i < DRAWS; i++) {
        assert_int_equal(hsc_sample_token(logits, N + 1, &random, &id, NULL), HSC_OK);
        counts[id]++;
    }
    assert_int_equal(counts[2], 0);
    for (int i = 0; i < N; i++) { /* five standard deviations of a binomial */
        double share = (double)counts[i + (i > 1)] / DRAWS;
        assert_true(fabs(share - p[i]) < 5 * sqrt(p[i] * (1 - p[i]) / DRAWS));
    }
    /* By the documented rule, from the generator's own bits. */
    hsc_random other;
    hsc_random_seed(&random, 9);
    hsc_random_seed(&other, 9);
    for (int i = 0; i < 100; i++) {
        double u = (double)(hsc_random_bits64(&other) >> 11) * 0x1p-53;
        int want = u < 0.5 ? 0 : u < 0.8 ? 1 : u < 0.95 ? 3 : 4;
        assert_int_equal(hsc_sample_token(logits, N + 1, &random, &id, NULL), HSC_OK);
        assert_int_equal(id, want);
    }
}

static void test_log_prob(void **unused)
{
    (void)unused;
    float logits[3] = {1000, 1000 + (float)log(2), -INFINITY};
    assert_true(fabs(hsc_log_prob(logits, 3, 1) - log(2.0 / 3)) < 1e-4);
    assert_true(hsc_log_prob(logits, 3, 2) == -INFINITY);
}

/* Which of four tokens may follow ids [n], as bits. */
static unsigned allowed(hsc__rules rules, const hsc_token *ids, size_t n)
{
    float logits[N] = {0};
    unsigned bits = 0;
    hsc__rule_out(&rules, ids, n, logits, N);
    for (int i = 0; i < N; i++) bits |= (unsigned)(logits[i] > -INFINITY) << i;
    return bits;
}

static void test_rules(void **unused)
{
    (void)unused;
    static const hsc_token barred[] = {2, 99, -1}, ends[] = {3}, text[] = {0, 1, 2, 0, 1};
    assert_int_equal(allowed((hsc__rules){0}, text, 5), 0xF);
    assert_int_equal(allowed((hsc__rules){.barred = barred, .n_barred = 3}, text, 5), 0xB);
    hsc__rules ended = {.ends = ends, .n_ends = 1, .least = 5};
    assert_int_equal(allowed(ended, text, 4), 0x7);
    assert_int_equal(allowed(ended, text, 5), 0xF);
    assert_int_equal(allowed((hsc__rules){.no_repeat = 1}, text, 5), 0x8);
    assert_int_equal(allowed((hsc__rules){.no_repeat = 2}, text, 5), 0xB); /* "1 2" stands there */
    assert_int_equal(allowed((hsc__rules){.no_repeat = 3}, text, 5), 0xB); /* "0 1 2" */
    assert_int_equal(allowed((hsc__rules){.no_repeat = 4}, text, 5), 0xF);
    assert_int_equal(allowed((hsc__rules){.no_repeat = 2}, text, 2), 0xF); /* "1 0" does not stand yet */
    assert_int_equal(allowed((hsc__rules){.no_repeat = 9}, text, 5), 0xF);
    assert_int_equal(hsc__rules_check(-1, 0, NULL), HSC_EINVAL);
    assert_int_equal(hsc__rules_check(0, -1, NULL), HSC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_top_p),     cmocka_unit_test(test_other_filters),
                                       cmocka_unit_test(test_penalties), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_limits),    cmocka_unit_test(test_draw),
                                       cmocka_unit_test(test_log_prob),  cmocka_unit_test(test_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
