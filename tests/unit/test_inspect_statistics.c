/*
 * The statistics against what the definition gives: every assignment of signs listed one by one, p-values worked out by
 * hand, and figures of scipy 1.x that the comments name. tests/peers/test_scan_statistics.py holds them against scipy.
 */
#include "failing_alloc.h"
#include "headscope/inspect.h"
#include "headscope/random.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

static void fill(double *x, size_t n, uint64_t seed)
{
    hsc_random random;
    hsc_random_seed(&random, seed);
    for (size_t i = 0; i < n; i++) x[i] = (double)(hsc_random_bits32(&random) >> 8) / (1 << 24) - 0.4;
}

/* The definition: all 2^n assignments. */
static double listed_p(const double *x, int n, int stride)
{
    double observed = 0;
    long hits = 0;
    for (int i = 0; i < n; i++) observed += x[i * stride];
    for (long bits = 0; bits < 1L << n; bits++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += bits >> i & 1 ? -x[i * stride] : x[i * stride];
        hits += fabs(sum) >= fabs(observed) - 1e-12;
    }
    return ldexp((double)hits, -n);
}

static void test_exact_is_the_definition(void **unused)
{
    (void)unused;
    double x[3 * 16], p;
    for (int n = 1; n <= 16; n++) {
        fill(x, 48, (uint64_t)n);
        for (int stride = 1; stride <= 3; stride += 2) {
            assert_int_equal(hsc_sign_flip_exact(x, n, stride, &p, NULL), HSC_OK);
            assert_near(p, listed_p(x, n, stride), 0);
        }
    }
}

/* Sums of tenths round differently in every order; they are ties all the same. */
static void test_exact_ties(void **unused)
{
    (void)unused;
    const double tenths[] = {0.1, 0.2, 0.3, -0.1, 0.7, 0.3, -0.2, 0.1, 0.1};
    const double equal[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    const double zero_mean[] = {0.1, 0.2, -0.3}, zeros[] = {0, 0, 0};
    const int whole[] = {1, 2, 3, -1, 7, 3, -2, 1, 1};
    double p, x[9];
    for (int i = 0; i < 9; i++) x[i] = whole[i];
    assert_int_equal(hsc_sign_flip_exact(tenths, 9, 1, &p, NULL), HSC_OK);
    assert_near(p, listed_p(x, 9, 1), 0);
    assert_int_equal(hsc_sign_flip_exact(equal, 7, 1, &p, NULL), HSC_OK);
    assert_near(p, 2.0 / 128, 0);
    assert_int_equal(hsc_sign_flip_exact(zero_mean, 3, 1, &p, NULL), HSC_OK);
    assert_near(p, 1, 0);
    assert_int_equal(hsc_sign_flip_exact(zeros, 3, 1, &p, NULL), HSC_OK);
    assert_near(p, 1, 0);
}

/* Powers of two have distinct sums, so the place of the observed one among the 2^40 is its number. */
static void test_exact_forty(void **unused)
{
    (void)unused;
    double x[41], p;
    for (int i = 0; i < 40; i++) x[i] = ldexp(1, i);
    assert_int_equal(hsc_sign_flip_exact(x, 40, 1, &p, NULL), HSC_OK);
    assert_near(p, ldexp(2, -40), 0);
    x[0] = -x[0]; /* now one sum is larger */
    x[3] = -x[3]; /* and eight more */
    assert_int_equal(hsc_sign_flip_exact(x, 40, 1, &p, NULL), HSC_OK);
    assert_near(p, ldexp(2 * (1 + 9), -40), 0);
    hsc_error err = {0};
    assert_int_equal(hsc_sign_flip_exact(x, 41, 1, &p, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "41"));
    assert_int_equal(hsc_sign_flip_exact(x, 0, 1, &p, NULL), HSC_EINVAL);
    x[5] = NAN;
    assert_int_equal(hsc_sign_flip_exact(x, 8, 1, &p, NULL), HSC_EINVAL);
}

/* Up to 16 clusters the family goes through all assignments: p is the exact one, p_fwer the listed share. */
static void test_family_listed(void **unused)
{
    (void)unused;
    enum { N = 9, M = 5 };
    double x[N * M], p[M], p_fwer[M], t[M], exact;
    int n_used, n_hits[M] = {0};
    fill(x, N * M, 3);
    for (int i = 0; i < N; i++) {
        x[i * M + 1] += 0.3;
        x[i * M + 4] = 0;
    }
    hsc_table table = {x, N, M};
    assert_int_equal(hsc_sign_flip_family(&table, NULL, p, p_fwer, &n_used, NULL), HSC_OK);
    assert_int_equal(n_used, 1 << N);
    for (int j = 0; j < M; j++) t[j] = fabs(hsc_effect_size(x + j, N, M).t);
    for (int bits = 0; bits < 1 << N; bits++) {
        double turned[N * M], largest = 0;
        for (int i = 0; i < N * M; i++) turned[i] = bits >> (i / M) & 1 ? -x[i] : x[i];
        for (int j = 0; j < M - 1; j++) largest = fmax(largest, fabs(hsc_effect_size(turned + j, N, M).t));
        for (int j = 0; j < M - 1; j++) n_hits[j] += largest >= t[j] - 1e-12;
    }
    for (int j = 0; j < M - 1; j++) {
        assert_int_equal(hsc_sign_flip_exact(x + j, N, M, &exact, NULL), HSC_OK);
        assert_near(p[j], exact, 0);
        assert_near(p_fwer[j], ldexp(n_hits[j], -N), 0);
        assert_true(p_fwer[j] >= p[j]);
    }
    assert_true(isnan(p[4]) && isnan(p_fwer[4]));
}

/* A sampled p lies within 4 binomial standard errors of the exact one; seeds differ, threads do not. */
static void test_family_sampled(void **unused)
{
    (void)unused;
    enum { N = 37, M = 7 };
    double x[N * M], p[M], p_fwer[M], again[M], again_fwer[M], exact;
    int n_used;
    fill(x, N * M, 11);
    hsc_table table = {x, N, M};
    hsc_flip_options options = {.seed = 5, .n_threads = 1};
    assert_int_equal(hsc_sign_flip_family(&table, &options, p, p_fwer, &n_used, NULL), HSC_OK);
    assert_int_equal(n_used, 100000);
    for (int j = 0; j < M; j++) {
        assert_int_equal(hsc_sign_flip_exact(x + j, N, M, &exact, NULL), HSC_OK);
        assert_near(p[j], exact, 4 * sqrt(exact * (1 - exact) / 100000) + 1e-5);
        assert_true(p_fwer[j] >= p[j]);
    }
    options.n_threads = 3;
    assert_int_equal(hsc_sign_flip_family(&table, &options, again, again_fwer, NULL, NULL), HSC_OK);
    assert_memory_equal(p, again, sizeof p);
    assert_memory_equal(p_fwer, again_fwer, sizeof p_fwer);
    options.seed = 6;
    assert_int_equal(hsc_sign_flip_family(&table, &options, again, NULL, NULL, NULL), HSC_OK);
    assert_memory_not_equal(p, again, sizeof p);
}

/* More clusters than one block of tables: the sums must be those of all clusters. Every value is 1, so that a draw hits
 * only when all signs agree, and one column's few large values make its p known. */
static void test_family_many_clusters(void **unused)
{
    (void)unused;
    enum { N = 1000, M = 2 };
    double x[N * M], p[M];
    for (int i = 0; i < N; i++) {
        x[i * M] = 1;
        x[i * M + 1] = i % 250 == 249 ? 1000 : 1e-6; /* four large ones: p = 2 / 16 but for the small ones */
    }
    hsc_table table = {x, N, M};
    assert_int_equal(hsc_sign_flip_family(&table, &(hsc_flip_options){.n_draws = 20000}, p, NULL, NULL, NULL), HSC_OK);
    assert_near(p[0], 1.0 / 20001, 1e-15);
    assert_true(p[1] < 4e-3); /* all four agree and all small ones too: never */
    for (int i = 0; i < N; i++) x[i * M + 1] = i % 250 == 249 ? 1000 : 0;
    assert_int_equal(hsc_sign_flip_family(&table, &(hsc_flip_options){.n_draws = 20000}, p, NULL, NULL, NULL), HSC_OK);
    assert_near(p[1], 0.125, 4 * sqrt(0.125 * 0.875 / 20000));
}

static void test_family_refuses(void **unused)
{
    (void)unused;
    double x[] = {1, 2, INFINITY, 4}, p[2];
    hsc_error err = {0};
    assert_int_equal(hsc_sign_flip_family(&(hsc_table){x, 2, 2}, NULL, p, p, NULL, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "cluster 1, column 0"));
    assert_int_equal(hsc_sign_flip_family(&(hsc_table){x, 0, 2}, NULL, p, p, NULL, &err), HSC_EINVAL);
    assert_int_equal(hsc_sign_flip_family(&(hsc_table){x, 1, 2}, &(hsc_flip_options){.n_draws = -1}, p, p, NULL, &err),
                     HSC_EINVAL);
}

/* Worked out by hand for m = 4 (the NaN is no test): p m / rank = 0.004, 0.06 -> 0.048, 0.048, 0.8. */
static void test_adjust(void **unused)
{
    (void)unused;
    const double p[] = {0.03, 0.8, NAN, 0.001, 0.036};
    double out[5];
    assert_int_equal(hsc_adjust_p(HSC_ADJUST_BH, p, 5, out, NULL), HSC_OK);
    assert_near(out[0], 0.048, 1e-15);
    assert_near(out[1], 0.8, 1e-15);
    assert_true(isnan(out[2]));
    assert_near(out[3], 0.004, 1e-15);
    assert_near(out[4], 0.048, 1e-15);
    assert_int_equal(hsc_adjust_p(HSC_ADJUST_BY, p, 5, out, NULL), HSC_OK);
    assert_near(out[3], 0.004 * 25 / 12, 1e-15);
    assert_near(out[1], 1, 0);
    assert_int_equal(hsc_adjust_p(HSC_ADJUST_HOLM, p, 5, out, NULL), HSC_OK);
    assert_near(out[3], 0.004, 1e-15);
    assert_near(out[0], 0.09, 1e-15);
    assert_near(out[4], 0.09, 1e-15); /* 2 x 0.036 is less than what stands before it */
    assert_near(out[1], 0.8, 1e-15);
}

static void test_sign_test(void **unused)
{
    (void)unused;
    assert_near(hsc_sign_test(0, 0), 1, 0);
    assert_near(hsc_sign_test(5, 0), 2.0 / 32, 1e-15);
    assert_near(hsc_sign_test(0, 5), 2.0 / 32, 1e-15);
    assert_near(hsc_sign_test(3, 3), 1, 0);
    assert_near(hsc_sign_test(7, 2), 2 * (36 + 9 + 1) / 512.0, 1e-15);
    assert_near(hsc_sign_test(600, 400), 2.728e-10, 0.001e-10); /* scipy.stats.binomtest(600, 1000).pvalue */
}

static void test_effect(void **unused)
{
    (void)unused;
    const double x[] = {1, 9, 2, 9, 3, 9, 6, 9};
    hsc_effect e = hsc_effect_size(x, 4, 2);
    assert_near(e.mean, 3, 0);
    assert_near(e.sd, sqrt(14.0 / 3), 1e-15);
    assert_near(e.dz, 3 / sqrt(14.0 / 3), 1e-15);
    assert_near(e.t, 6 / sqrt(14.0 / 3), 1e-14);
    e = hsc_effect_size(x + 1, 4, 2);
    assert_true(isinf(e.dz) && e.sd == 0);
    assert_true(isnan(hsc_effect_size((double[]){0, 0}, 2, 1).dz));
    assert_true(isnan(hsc_effect_size(x, 1, 1).sd) && hsc_effect_size(x, 1, 1).mean == 1);
}

/* scipy: t.isf(0.025, 19) = 2.09302405, nct.sf of it reaches 0.8 at d_z = 0.66016; 0.05 / 270: 1.2098 */
static void test_power(void **unused)
{
    (void)unused;
    assert_int_equal(hsc_min_clusters(1, 0.05), 6); /* 2^-5 = 0.03125 */
    assert_int_equal(hsc_min_clusters(270, 0.05), 14);
    assert_int_equal(hsc_min_clusters(16, 0.0625), 9); /* exactly 2^-8 */
    assert_true(isnan(hsc_min_dz(13, 270, 0.05, 0.8)));
    assert_int_equal(hsc_min_clusters(270, 0), INT_MAX);
    assert_true(isnan(hsc_min_dz(1, 1, 1, 0.8)));
    assert_true(isnan(hsc_min_dz(40, 1, 0.05, 1)));
    assert_true(isnan(hsc_min_dz(40, 1, 0.05, 0)));
    assert_false(isnan(hsc_min_dz(14, 270, 0.05, 0.8)));
    assert_near(hsc_min_dz(20, 1, 0.05, 0.8), 0.6604, 2e-3);
    assert_true(hsc_min_dz(40, 270, 0.05, 0.8) > hsc_min_dz(80, 270, 0.05, 0.8));
}

/* The index matrix is torch's, so the first mean is that of the first row. */
static void test_bootstrap(void **unused)
{
    (void)unused;
    enum { N = 23, M = 3, DRAWS = 1001 };
    double x[N * M];
    static double means[M][DRAWS];
    static int64_t index[DRAWS * N];
    hsc_interval ci[M], again[M];
    hsc_random random;
    fill(x, N * M, 2);
    hsc_random_seed(&random, 9);
    assert_int_equal(hsc_random_integers(&random, 0, N, DRAWS * N, index, NULL), HSC_OK);
    hsc_bootstrap_options options = {.n_draws = DRAWS, .seed = 9, .level = 0.9, .n_threads = 1};
    assert_int_equal(hsc_bootstrap(&(hsc_table){x, N, M}, &options, ci, NULL), HSC_OK);
    for (int j = 0; j < M; j++) {
        int n_low = 0, n_high = 0;
        for (int d = 0; d < DRAWS; d++) {
            means[j][d] = 0;
            for (int i = 0; i < N; i++) means[j][d] += x[index[d * N + i] * M + j] / N;
            n_low += means[j][d] < ci[j].low - 1e-12;
            n_high += means[j][d] > ci[j].high + 1e-12;
        }
        assert_int_equal(n_low, 50); /* 0.05 x (1001 - 1): the 50th order statistic itself */
        assert_int_equal(n_high, 50);
    }
    options.n_threads = 4;
    assert_int_equal(hsc_bootstrap(&(hsc_table){x, N, M}, &options, again, NULL), HSC_OK);
    assert_memory_equal(ci, again, sizeof ci);
    options.level = 1;
    assert_int_equal(hsc_bootstrap(&(hsc_table){x, N, M}, &options, again, NULL), HSC_EINVAL);
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    double x[20 * 3], p[3];
    hsc_interval ci[3];
    fill(x, 60, 1);
    hsc_table table = {x, 20, 3};
    for (int what = 0; what < 4; what++) {
        for (long k = 1;; k++) {
            failing_alloc a;
            failing_alloc_install(&a, k);
            hsc_status status = what == 0 ? hsc_sign_flip_exact(x, 20, 3, p, NULL)
                                : what == 1
                                    ? hsc_sign_flip_family(&table, &(hsc_flip_options){.n_draws = 9}, p, p, NULL, NULL)
                                : what == 2 ? hsc_bootstrap(&table, &(hsc_bootstrap_options){.n_draws = 9}, ci, NULL)
                                            : hsc_adjust_p(HSC_ADJUST_BH, x, 3, p, NULL);
            failing_alloc_remove();
            assert_int_equal(a.held, 0);
            if (status == HSC_OK) break;
            assert_int_equal(status, HSC_ENOMEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_is_the_definition),
        cmocka_unit_test(test_exact_ties),
        cmocka_unit_test(test_exact_forty),
        cmocka_unit_test(test_family_listed),
        cmocka_unit_test(test_family_sampled),
        cmocka_unit_test(test_family_many_clusters),
        cmocka_unit_test(test_family_refuses),
        cmocka_unit_test(test_adjust),
        cmocka_unit_test(test_sign_test),
        cmocka_unit_test(test_effect),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_bootstrap),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
