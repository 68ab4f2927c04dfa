/* Eigenvalues against those that a matrix is made from, and against its trace and that of its powers. */
#include "inspect/eigen.h"

#include "headscope/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40 };

/* want: [n][2], real and imaginary parts. Each is found once, in any order. */
static void assert_values(const double *a, int n, const double *want, double tolerance)
{
    double copy[MOST * MOST], real[MOST], imag[MOST];
    bool taken[MOST] = {false};
    memcpy(copy, a, (size_t)(n * n) * sizeof *copy);
    assert_true(hsc__eigenvalues(copy, n, real, imag));
    for (int i = 0; i < n; i++) {
        int best = -1;
        for (int k = 0; k < n; k++) {
            if (taken[k]) continue;
            double off = hypot(real[k] - want[2 * i], imag[k] - want[2 * i + 1]);
            if (best < 0 || off < hypot(real[best] - want[2 * i], imag[best] - want[2 * i + 1])) best = k;
        }
        taken[best] = true;
        double off = hypot(real[best] - want[2 * i], imag[best] - want[2 * i + 1]);
        if (off > tolerance) fail_msg("%g%+gi is off by %g", want[2 * i], want[2 * i + 1], off);
    }
}

static void test_small(void **state)
{
    (void)state;
    assert_values((double[]){-3}, 1, (double[]){-3, 0}, 0);
    assert_values((double[]){2, 1, 1, 2}, 2, (double[]){3, 0, 1, 0}, 1e-15);
    assert_values((double[]){0, -2, 2, 0}, 2, (double[]){0, 2, 0, -2}, 1e-15);
    assert_values((double[]){0, 0, 0, 0, 0, 0, 0, 0, 0}, 3, (double[]){0, 0, 0, 0, 0, 0}, 0);
    assert_values((double[]){4, 5, 6, 0, -1, 7, 0, 0, 0.5}, 3, (double[]){4, 0, -1, 0, 0.5, 0}, 1e-14);
    assert_values((double[]){5, 1, 0, 0, 5, 1, 0, 0, 5}, 3, (double[]){5, 0, 5, 0, 5, 0}, 1e-4); /* defective */
    assert_values((double[]){1e200, 0, 0, 0, 1e-200, 0, 0, 0, -1}, 3, (double[]){1e200, 0, 1e-200, 0, -1, 0}, 1e185);
}

/* The companion matrix of (x - 1)(x - 2)...(x - 6). */
static void test_companion(void **state)
{
    (void)state;
    const double c[6] = {720, -1764, 1624, -735, 175, -21};
    const double want[12] = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
    double a[36] = {0};
    for (int i = 0; i < 6; i++) a[i * 6 + 5] = -c[i];
    for (int i = 1; i < 6; i++) a[i * 6 + i - 1] = 1;
    assert_values(a, 6, want, 1e-9);
}

/* A cycle of n rows has the n-th roots of 1; plain steps would turn it in a circle for ever. */
static void test_cycles(void **state)
{
    (void)state;
    for (int n = 3; n <= MOST; n++) {
        double a[MOST * MOST] = {0}, want[2 * MOST];
        for (int i = 0; i < n; i++) {
            double angle = 2 * acos(-1.0) * i / n;
            a[i * n + (i + 1) % n] = 1;
            want[2 * i] = cos(angle);
            want[2 * i + 1] = sin(angle);
        }
        assert_values(a, n, want, 1e-12);
    }
}

static double trace_of_square(const double *a, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) sum += a[i * n + k] * a[k * n + i];
    return sum;
}

static void test_random(void **state)
{
    (void)state;
    hsc_random random;
    hsc_random_seed(&random, 4);
    for (int n = 1; n <= MOST; n++) {
        double a[MOST * MOST], copy[MOST * MOST], real[MOST], imag[MOST], trace = 0, sum = 0, squares = 0, left = 0;
        for (int i = 0; i < n * n; i++) {
            int64_t x;
            assert_int_equal(hsc_random_integers(&random, -1000, 1001, 1, &x, NULL), HSC_OK);
            a[i] = (double)x / 1000;
        }
        memcpy(copy, a, (size_t)(n * n) * sizeof *a);
        assert_true(hsc__eigenvalues(copy, n, real, imag));
        for (int i = 0; i < n; i++) {
            trace += a[i * n + i];
            sum += real[i];
            squares += real[i] * real[i] - imag[i] * imag[i];
            left += imag[i]; /* pairs are conjugate */
        }
        assert_true(fabs(sum - trace) < 1e-12 * n && left == 0);
        assert_true(fabs(squares - trace_of_square(a, n)) < 1e-11 * n);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    double real[2], imag[2];
    assert_false(hsc__eigenvalues((double[]){1, NAN, 0, 1}, 2, real, imag));
    assert_false(hsc__eigenvalues((double[]){1, 0, INFINITY, 1}, 2, real, imag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_companion),
                                       cmocka_unit_test(test_cycles), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
