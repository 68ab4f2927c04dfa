/*
 * Sweeps as searches: tables whose figures follow from how they were made, every assignment of signs listed, and the
 * identities that a split must keep whatever it draws.
 */
#include "headscope/inspect.h"
#include "headscope/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 10, M = 6 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

/* Noise around 0; column 2 is 3 in every cluster, column 4 is 0, column 5 lies at -2 with little noise. */
static void fill(double *x)
{
    hsc_random random;
    hsc_random_seed(&random, 11);
    for (int i = 0; i < N * M; i++) x[i] = (double)(hsc_random_bits32(&random) >> 8) / (1 << 24) - 0.5;
    for (int c = 0; c < N; c++) {
        x[c * M + 2] = 3;
        x[c * M + 4] = 0;
        x[c * M + 5] = x[c * M + 5] / 8 - 2;
    }
}

static void test_figures(void **unused)
{
    (void)unused;
    double x[N * M];
    hsc_sweep_effect out[M];
    fill(x);
    hsc_table table = {x, N, M};
    assert_int_equal(hsc_sweep_figures(&table, NULL, out, NULL), HSC_OK);
    for (int j = 0; j < M; j++) {
        double sum = 0, squares = 0;
        int hits = 0;
        for (int c = 0; c < N; c++) sum += x[c * M + j];
        for (int c = 0; c < N; c++) squares += (x[c * M + j] - sum / N) * (x[c * M + j] - sum / N);
        for (int bits = 0; bits < 1 << N; bits++) {
            double turned = 0;
            for (int c = 0; c < N; c++) turned += bits >> c & 1 ? -x[c * M + j] : x[c * M + j];
            hits += fabs(turned) >= fabs(sum) - 1e-12;
        }
        assert_near(out[j].mean, sum / N, 1e-15);
        if (squares > 0) assert_near(out[j].dz, sum / N / sqrt(squares / (N - 1)), 1e-12);
        assert_true(out[j].ci.low <= out[j].mean && out[j].mean <= out[j].ci.high);
        if (j == 4) assert_true(isnan(out[j].p) && isnan(out[j].p_fwer) && isnan(out[j].q));
        else assert_near(out[j].p, ldexp(hits, -N), 0);
    }
    /* Two columns have the least p that there is: of five tests q is 5 / 2 of it, and no draw but the two of all one
     * sign reaches |t| of the column without spread. */
    assert_near(out[2].p, ldexp(2, -N), 0);
    assert_near(out[5].p, ldexp(2, -N), 0);
    assert_near(out[2].q, ldexp(5, -N), 1e-15);
    assert_near(out[2].p_fwer, ldexp(2, -N), 0);
    assert_near(out[2].ci.low, 3, 0);
    assert_near(out[2].ci.high, 3, 0);
}

static void test_hold_out(void **unused)
{
    (void)unused;
    double x[N * M];
    hsc_sweep_held_out out[3];
    fill(x);
    hsc_table table = {x, N, M};
    for (uint64_t seed = 0; seed < 20; seed++) {
        hsc_scan_choice choice = {.n_chosen = 3, .held_out = 0.4, .statistics.seed = seed};
        assert_int_equal(hsc_sweep_hold_out(&table, &choice, out, NULL), HSC_OK);
        assert_int_equal(out[0].column, 2);
        assert_int_equal(out[1].column, 5);
        assert_near(out[0].mean, 3, 0);
        assert_near(out[0].p, ldexp(2 * 3, -4), 1e-15); /* four clusters judge, Holm over three */
        assert_near(out[1].p, ldexp(2 * 3, -4), 1e-15); /* Holm never falls */
        for (int k = 0; k < 3; k++) {                   /* both parts together are the whole */
            double sum = 0;
            for (int c = 0; c < N; c++) sum += x[c * M + out[k].column];
            assert_int_equal(out[k].n_clusters, 4);
            assert_near(6 * out[k].chosen_mean + 4 * out[k].mean, sum, 1e-12);
        }
        assert_true(fabs(out[1].chosen_mean) >= fabs(out[2].chosen_mean));
    }
}

/* By t the steady column comes before the larger one with more spread. */
static void test_by_t(void **unused)
{
    (void)unused;
    double x[8 * 2];
    hsc_sweep_held_out out;
    for (int c = 0; c < 8; c++) {
        x[c * 2] = c % 2 ? 9 : 1;
        x[c * 2 + 1] = -1;
    }
    hsc_table table = {x, 8, 2};
    hsc_scan_choice choice = {.by = HSC_BY_T};
    assert_int_equal(hsc_sweep_hold_out(&table, &choice, &out, NULL), HSC_OK);
    assert_int_equal(out.column, 1);
    choice.by = HSC_BY_SHIFT;
    assert_int_equal(hsc_sweep_hold_out(&table, &choice, &out, NULL), HSC_OK);
    assert_int_equal(out.column, 0);
}

static void test_refused(void **unused)
{
    (void)unused;
    double x[N * M];
    hsc_sweep_effect figures[M];
    hsc_sweep_held_out out[M];
    hsc_error err = {0};
    fill(x);
    hsc_table one = {x, 1, M}, three = {x, 3, M}, table = {x, N, M};
    hsc_scan_choice many = {.n_chosen = M + 1}, by = {.by = HSC_BY_ACCURACY}, all = {.held_out = 1}, plain = {0};
    hsc_scan_statistics holm = {.fdr = HSC_ADJUST_HOLM};
    assert_int_equal(hsc_sweep_figures(&one, NULL, figures, &err), HSC_EINVAL);
    assert_int_equal(hsc_sweep_figures(&table, &holm, figures, &err), HSC_EINVAL);
    assert_int_equal(hsc_sweep_hold_out(&three, &plain, out, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "3 clusters"));
    assert_int_equal(hsc_sweep_hold_out(&table, &many, out, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "7 cannot be chosen of 6"));
    assert_int_equal(hsc_sweep_hold_out(&table, &by, out, &err), HSC_EINVAL);
    assert_int_equal(hsc_sweep_hold_out(&table, &all, out, &err), HSC_EINVAL);
    x[7] = NAN;
    assert_int_equal(hsc_sweep_figures(&table, NULL, figures, &err), HSC_EINVAL);
    assert_int_equal(hsc_sweep_hold_out(&table, &plain, out, &err), HSC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_hold_out),
        cmocka_unit_test(test_by_t),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
