/* Row statistics of every level against double precision, and the places where they must not depend on anything else.
 */
#include "random_array.h"

#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A row of weights that sums to 1, some of them 0. */
static float *random_weights(int n)
{
    float *p = random_array((size_t)n, 1);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        p[i] = i % 7 == 3 ? 0 : expf(6 * p[i]);
        sum += p[i];
    }
    for (int i = 0; i < n; i++) p[i] = (float)(p[i] / sum);
    return p;
}

static const int sizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 511, 4096, 5003};

static void test_sums_and_entropy(void **unused)
{
    (void)unused;
    const hsc__kernels *k = hsc__kernels_get();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        float *p = random_weights(n);
        double sum = 0, entropy = 0;
        for (int i = 0; i < n; i++) {
            sum += p[i];
            if (p[i] > 0) entropy -= p[i] * log(p[i]);
        }
        assert_true(fabs(k->row_sum(p, n) - sum) <= n * FLT_EPSILON / 8);
        assert_true(fabs(k->row_entropy(p, n) - entropy) <= 2e-7 + entropy * 4 * FLT_EPSILON);
        free(p);
    }
    for (float p = 1e-8f; p < 1; p *= 1.0003f) { /* one weight: the logarithm alone */
        double right = -(double)p * log((double)p);
        assert_true(fabs(k->row_entropy(&p, 1) - right) <= 3 * FLT_EPSILON * right);
    }
    const float one = 1, tiny[3] = {1, 0, FLT_MIN / 4};
    assert_true(k->row_entropy(&one, 1) == 0);
    assert_true(fabs(k->row_entropy(tiny, 3)) < 1e-6);
}

static void test_above(void **unused)
{
    (void)unused;
    const hsc__kernels *k = hsc__kernels_get();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        float *p = random_array((size_t)n, 1);
        for (int from = 0; from <= n; from += 1 + n / 40) {
            int expected = from;
            while (expected < n && !(p[expected] > 0.8f)) expected++;
            assert_int_equal(k->row_above(p, from, n, 0.8f), expected);
        }
        free(p);
    }
}

static void test_maxima(void **unused)
{
    (void)unused;
    for (int n = HSC__MAXIMA; n < 5 * HSC__MAXIMA; n += 7) {
        float *p = random_array((size_t)n, 1), got[HSC__MAXIMA];
        hsc__kernels_get()->row_maxima(p, n, got);
        for (int part = 0; part < HSC__MAXIMA; part++) {
            float most = p[part];
            for (int i = part; i < n; i += HSC__MAXIMA) most = fmaxf(most, p[i]);
            assert_true(got[part] == most);
        }
        free(p);
    }
}

/* Integers, so every level and every order gives the same. */
static void test_received(void **unused)
{
    (void)unused;
    const hsc__kernels *k = hsc__kernels_get();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        float *p = random_weights(n);
        int64_t *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b);
        for (int times = 0; times < 3; times++) {
            k->row_received(p, n, 1, a);
            hsc__kernels_ref()->row_received(p, n, 1, b);
        }
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        free(a);
        free(b);
        free(p);
    }
}

/* What is no number, or does not fit, is never taken back by the rows that follow. */
static void test_received_odd(void **unused)
{
    (void)unused;
    enum { N = 53, ROWS = 1024 };
    const float most = HSC__RECEIVED_MOST / ROWS, odd[] = {NAN, INFINITY, -INFINITY, nextafterf(most, 5000), FLT_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (int at = 0; at < N; at++) {
            int64_t acc[N] = {0}, ref[N] = {0};
            float p[N];
            for (int j = 0; j < N; j++) p[j] = j % 2 ? most : -most;
            p[at] = odd[i];
            hsc__kernels_get()->row_received(p, N, most, acc);
            hsc__kernels_ref()->row_received(p, N, most, ref);
            assert_memory_equal(acc, ref, sizeof acc);
            p[at] = at % 3 ? most : -most;
            for (int row = 1; row < ROWS; row++) hsc__kernels_get()->row_received(p, N, most, acc);
            for (int j = 0; j < N; j++) {
                int64_t sum = (int64_t)1 << 60; /* all that fits */
                assert_int_equal(hsc__received_nan(acc[j]), j == at);
                if (j != at) assert_true(acc[j] == (j % 2 ? sum : -sum));
            }
        }
    }
}

static void test_quantise(void **unused)
{
    (void)unused;
    static const hsc_dtype types[] = {HSC_F32, HSC_F16, HSC_BF16, HSC_Q8_0};
    for (size_t t = 0; t < 4; t++) {
        enum { N = 32 * 7 };
        unsigned char a[4 * N], b[4 * N];
        float *x = random_array(N, 70000);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        x[3] = 1e-7f;
        x[4] = 5.9e-8f;
        x[5] = -0.0f;
        hsc__kernels_get()->quantise(types[t], x, N, a);
        hsc__kernels_ref()->quantise(types[t], x, N, b);
        assert_memory_equal(a, b, sizeof a);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_and_entropy), cmocka_unit_test(test_above),
                                       cmocka_unit_test(test_maxima),           cmocka_unit_test(test_received),
                                       cmocka_unit_test(test_received_odd),     cmocka_unit_test(test_quantise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
