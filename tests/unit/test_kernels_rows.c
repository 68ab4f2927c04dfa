/*
 * Row and element kernels of the level in use (HEADSCOPE_ISA) against long double, over their whole range, and what
 * they promise besides: an element's bits do not depend on its place, a masked key changes nothing, NaN is not hidden.
 */
#include "kernel_data.h"

#define EPS ((double)FLT_EPSILON) /* one unit in the last place of 1; rounding errs by half of it */

/* Floats of every magnitude and sign: each 99,991st bit pattern, then zero, infinities and NaN. */
static size_t all_magnitudes(float **out)
{
    size_t n = 0;
    float *x = get_floats(43000);
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 99991) {
        uint32_t word = (uint32_t)bits;
        memcpy(&x[n], &word, sizeof word);
        n++;
    }
    assert_true(n < 43000);
    *out = x;
    return n;
}

static long double true_act(hsc__act kind, long double x)
{
    switch (kind) {
    case HSC__ACT_NONE: return x;
    case HSC__ACT_RELU: return x > 0 ? x : 0;
    case HSC__ACT_GELU: return x / 2 * erfcl(-x / sqrtl(2));
    case HSC__ACT_GELU_TANH: /* 1 + tanh u = 2 / (1 + exp(-2 u)), which does not cancel */
        return x / (1 + expl(-2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
    case HSC__ACT_SILU: return x / (1 + expl(-x));
    case HSC__ACT_TANH: return tanhl(x);
    }
    return x;
}

/* GELU computed as x times a number in [0, 1] that errs by a few roundings; the others are good to a few units in the
 * last place of the result, where exp(-x) has a float. */
static double act_tolerance(hsc__act kind, double x, double right)
{
    double tiny = 1e-30;
    switch (kind) {
    case HSC__ACT_GELU:
    case HSC__ACT_GELU_TANH: return 2 * EPS * (fabs(x) < 12 ? fabs(x) : fabs(right)) + tiny;
    case HSC__ACT_SILU:
    case HSC__ACT_TANH: return 3 * EPS * fabs(right) + tiny;
    default: return 0;
    }
}

static void test_act(void **state)
{
    (void)state;
    float *x, *y;
    size_t n = all_magnitudes(&x);
    y = get_floats(n);
    for (int kind = HSC__ACT_NONE; kind <= HSC__ACT_TANH; kind++) {
        hsc__kernels_get()->act((hsc__act)kind, x, (int64_t)n, y);
        for (size_t i = 0; i < n; i++) {
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
                continue;
            }
            long double right = true_act((hsc__act)kind, x[i]);
            if (isinf(x[i]) || fabsf(x[i]) > 1e18f) continue; /* the cube of GELU_TANH has no float */
            if (fabs((double)(y[i] - right)) > act_tolerance((hsc__act)kind, x[i], (double)right))
                fail_msg("act %d of %a is %a, not %La", kind, (double)x[i], (double)y[i], right);
        }
    }
    drop(x);
    drop(y);
}

static void test_act_far(void **state)
{
    (void)state;
    float x[] = {1e30f, INFINITY, -1e30f, -3e38f, 200, -200}, y[6];
    for (int kind = HSC__ACT_RELU; kind <= HSC__ACT_TANH; kind++) {
        hsc__kernels_get()->act((hsc__act)kind, x, 6, y);
        bool is_tanh = kind == HSC__ACT_TANH;
        assert_true(y[0] == (is_tanh ? 1 : x[0]) && y[1] == (is_tanh ? 1 : x[1]) && y[4] == (is_tanh ? 1 : x[4]));
        assert_true(y[2] == (is_tanh ? -1 : 0) && y[3] == (is_tanh ? -1 : 0) && y[5] == (is_tanh ? -1 : 0));
    }
}

/* One call over n elements against n calls over one, and in place. */
static void test_places(void **state)
{
    (void)state;
    const hsc__kernels *k = hsc__kernels_get();
    for (int n = 0; n <= 70; n++) {
        float *x = random_floats((size_t)n), *u = random_floats((size_t)n);
        float *y = get_floats((size_t)n), *z = get_floats((size_t)n), *one = get_floats(1);
        for (int i = 0; i < n; i++) x[i] *= 8;
        for (int kind = HSC__ACT_NONE; kind <= HSC__ACT_TANH; kind++) {
            hsc__act f = (hsc__act)kind;
            k->act(f, x, n, y);
            for (int i = 0; i < n; i++) {
                k->act(f, x + i, 1, one);
                assert_same_bits(one, y + i, 1, "act alone", kind, i);
            }
            memcpy(z, x, (size_t)n * sizeof *z);
            k->act(f, z, n, z);
            assert_same_bits(z, y, (size_t)n, "act in place", kind, n);
            for (int i = 0; i < n; i++) y[i] *= u[i];
            k->gate(f, x, u, n, z);
            assert_same_bits(z, y, (size_t)n, "gate", kind, n);
            memcpy(z, x, (size_t)n * sizeof *z);
            k->gate(f, z, u, n, z);
            assert_same_bits(z, y, (size_t)n, "gate in place of g", kind, n);
            memcpy(z, u, (size_t)n * sizeof *z);
            k->gate(f, x, z, n, z);
            assert_same_bits(z, y, (size_t)n, "gate in place of u", kind, n);
        }
        for (int i = 0; i < n; i++) y[i] = x[i] + u[i];
        k->add(x, u, n, z);
        assert_same_bits(z, y, (size_t)n, "add", n, 0);
        memcpy(z, x, (size_t)n * sizeof *z);
        k->add(z, u, n, z);
        assert_same_bits(z, y, (size_t)n, "add in place", n, 0);
        for (float cap = 0; cap < 60; cap += 50) {
            memcpy(y, x, (size_t)n * sizeof *y);
            k->scale_cap(y, n, 3, cap);
            for (int i = 0; i < n; i++) {
                *one = x[i];
                k->scale_cap(one, 1, 3, cap);
                assert_same_bits(one, y + i, 1, "scale_cap alone", (int)cap, i);
            }
        }
        drop(x);
        drop(u);
        drop(y);
        drop(z);
        drop(one);
    }
}

static void test_scale_cap(void **state)
{
    (void)state;
    enum { N = 1000 };
    float s[N], x[N];
    for (int i = 0; i < N; i++) x[i] = 200 * random_float();
    x[0] = -INFINITY;
    x[1] = INFINITY;
    x[2] = -1e6f;
    x[3] = 0;
    x[4] = 1e-6f;
    memcpy(s, x, sizeof s);
    hsc__kernels_get()->scale_cap(s, N, 0.125f, 0);
    for (int i = 0; i < N; i++) assert_true(s[i] == x[i] * 0.125f);
    memcpy(s, x, sizeof s);
    hsc__kernels_get()->scale_cap(s, N, 0.3f, 30);
    for (int i = 0; i < N; i++) { /* two roundings before tanh, which does not magnify them, and one after */
        double right = 30 * tanh((double)0.3f * x[i] / 30);
        assert_true(fabs(s[i] - right) <= 5 * EPS * fabs(right));
    }
    float nan = NAN;
    hsc__kernels_get()->scale_cap(&nan, 1, 1, 30);
    assert_true(isnan(nan));
}

static void check_rope(int half, bool interleaved)
{
    const hsc__kernels *k = hsc__kernels_get();
    float *x = random_floats((size_t)half * 2), *c = get_floats((size_t)half), *s = get_floats((size_t)half);
    float *y = get_floats((size_t)half * 2), *pair = get_floats(2);
    memcpy(y, x, (size_t)half * 2 * sizeof *y);
    for (int i = 0; i < half; i++) {
        c[i] = (float)cos(i * 0.7);
        s[i] = (float)sin(i * 0.7);
    }
    k->rope(y, c, s, half, interleaved);
    for (int i = 0; i < half; i++) {
        int at = interleaved ? 2 * i : i, to = interleaved ? 2 * i + 1 : i + half;
        double a = x[at], b = x[to], first = a * c[i] - b * s[i], second = b * c[i] + a * s[i];
        double size = fabs(a * c[i]) + fabs(b * s[i]) + fabs(b * c[i]) + fabs(a * s[i]);
        assert_true(fabs(y[at] - first) <= 1.5 * EPS * size && fabs(y[to] - second) <= 1.5 * EPS * size);
        pair[0] = x[at];
        pair[1] = x[to];
        k->rope(pair, c + i, s + i, 1, !interleaved);
        assert_same_bits(pair, y + at, 1, "rope alone", half, i);
        assert_same_bits(pair + 1, y + to, 1, "rope alone", half, i);
    }
    drop(x);
    drop(y);
    drop(c);
    drop(s);
    drop(pair);
}

static void test_rope(void **state)
{
    (void)state;
    for (int half = 0; half <= 70; half++) {
        check_rope(half, false);
        check_rope(half, true);
    }
}

/* A term of a sum over n meets at most n/4 + 8 additions (four lanes at least, or double precision). */
static double sum_tolerance(int n)
{
    return (n / 4.0 + 8) * EPS / 2;
}

/* The norms add blocks of 256 in double precision. */
static double norm_tolerance(int n)
{
    return sum_tolerance(n < 256 ? n : 256);
}

/* mean: how far the values stand from 0, in standard deviations. */
static void check_layer_norm(int n, double mean, bool has_gain, bool has_bias)
{
    const hsc__kernels *k = hsc__kernels_get();
    float *x = random_floats((size_t)n), *gain = random_floats((size_t)n), *bias = random_floats((size_t)n);
    float *y = get_floats((size_t)n), eps = 1e-5f;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) x[i] = (float)(x[i] + mean * 0.577);
    if (n > 500) x[7] = 900; /* such outliers are what transformers have */
    for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < n; i++) squares += (x[i] - sum / n) * (x[i] - sum / n);
    k->layer_norm(x, has_gain ? gain : NULL, has_bias ? bias : NULL, eps, n, y);
    for (int i = 0; i < n; i++) {
        double g = has_gain ? gain[i] : 1, part = (x[i] - sum / n) / sqrt(squares / n + eps) * g;
        double right = part + (has_bias ? bias[i] : 0);
        /* The mean errs by what a sum of deviations of size 1 does, however far it is from 0. */
        double lost = norm_tolerance(n) * fabs(g);
        if (fabs(y[i] - right) > (2 * EPS + norm_tolerance(n)) * fabs(part) + EPS / 2 * fabs(right) + lost)
            fail_msg("layer_norm of %d, mean %g: element %d is %.9g, not %.9g", n, mean, i, (double)y[i], right);
    }
    k->layer_norm(x, has_gain ? gain : NULL, has_bias ? bias : NULL, eps, n, x);
    assert_same_bits(x, y, (size_t)n, "layer_norm in place", n, 0);
    drop(x);
    drop(y);
    drop(gain);
    drop(bias);
}

static void test_layer_norm(void **state)
{
    (void)state;
    for (int n = 1; n <= 70; n++) check_layer_norm(n, 0, n % 3 != 0, n % 2 != 0);
    for (int n = 576; n <= 4096; n += 503) {
        check_layer_norm(n, 0, true, true);
        check_layer_norm(n, 10, true, true);
        check_layer_norm(n, 1000, true, false);
        check_layer_norm(n, -100000, true, false);
    }
}

/* All values alike, to the last bit: nothing but the bias is left. */
static void test_layer_norm_flat(void **state)
{
    (void)state;
    for (int n = 1; n <= 1000; n += 37) {
        float *x = get_floats((size_t)n), *bias = random_floats((size_t)n);
        for (int i = 0; i < n; i++) x[i] = 0.1f;
        hsc__kernels_get()->layer_norm(x, NULL, bias, 1e-5f, n, x);
        for (int i = 0; i < n; i++) assert_true(fabsf(x[i] - bias[i]) <= (float)EPS);
        drop(x);
        drop(bias);
    }
}

static void check_rms_norm(int n, float size, bool has_gain)
{
    const hsc__kernels *k = hsc__kernels_get();
    float *x = random_floats((size_t)n), *gain = random_floats((size_t)n), *y = get_floats((size_t)n), eps = 1e-6f;
    double squares = 0;
    for (int i = 0; i < n; i++) {
        x[i] *= i == 300 ? 900 * size : size;
        squares += (double)x[i] * x[i];
    }
    k->rms_norm(x, has_gain ? gain : NULL, eps, n, y);
    for (int i = 0; i < n; i++) {
        double right = x[i] / sqrt(squares / n + eps) * (has_gain ? gain[i] : 1);
        assert_true(fabs(y[i] - right) <= (2 * EPS + norm_tolerance(n)) * fabs(right));
    }
    k->rms_norm(x, has_gain ? gain : NULL, eps, n, x);
    assert_same_bits(x, y, (size_t)n, "rms_norm in place", n, 0);
    drop(x);
    drop(y);
    drop(gain);
}

static void test_rms_norm(void **state)
{
    (void)state;
    for (int n = 1; n <= 70; n++) check_rms_norm(n, 1, n % 2 != 0);
    for (int n = 576; n <= 4096; n += 503) {
        check_rms_norm(n, 1, true);
        check_rms_norm(n, 1e4f, true);
        check_rms_norm(n, 1e-4f, false);
    }
}

static void check_softmax(const float *scores, int n)
{
    float *row = get_floats((size_t)n);
    memcpy(row, scores, (size_t)n * sizeof *row);
    hsc__kernels_get()->softmax(row, n);
    long double sum = 0, max = -INFINITY;
    for (int i = 0; i < n; i++) max = scores[i] > max ? scores[i] : max;
    for (int i = 0; i < n; i++) sum += expl(scores[i] - max);
    for (int i = 0; i < n; i++) {
        double right = max == -INFINITY ? 0 : (double)(expl(scores[i] - max) / sum);
        /* The difference to the maximum is rounded: exp magnifies that by its size. */
        double shift = right > 0 ? EPS / 2 * (double)(max - scores[i]) : 0;
        if (fabs(row[i] - right) > (4 * EPS + sum_tolerance(n) + shift) * right + 2e-38)
            fail_msg("softmax of %d: weight %d is %a, not %a", n, i, (double)row[i], right);
        if (scores[i] == -INFINITY) assert_true(row[i] == 0);
    }
    drop(row);
}

static void test_softmax(void **state)
{
    (void)state;
    for (int n = 0; n <= 300; n += n < 70 ? 1 : 23) {
        float *x = random_floats((size_t)n);
        const float sizes[] = {1, 20, 200, 1e6f, 1e-6f}, offsets[] = {0, -1e6f, 1e6f, -1e4f, -50000};
        for (int t = 0; t < 5; t++) {
            float *scores = get_floats((size_t)n);
            for (int i = 0; i < n; i++) scores[i] = x[i] * sizes[t] + (n % 2 ? offsets[t] : 0);
            check_softmax(scores, n);
            for (int i = 0; i < n; i++) {
                if (random_below(3) == 0) scores[i] = -INFINITY;
            }
            check_softmax(scores, n);
            drop(scores);
        }
        drop(x);
    }
}

/* exp over its range: the weight of x beside a 0. */
static void test_softmax_exp(void **state)
{
    (void)state;
    for (float x = -86.8f; x < 0; x += 0.0037f) {
        float row[2] = {x, 0};
        hsc__kernels_get()->softmax(row, 2);
        double right = (double)(expl(x) / (1 + expl(x)));
        assert_true(fabs(row[0] - right) <= 2.5 * EPS * right);
    }
    for (float x = -87; x > -1e38f; x *= 1.7f) {
        float row[2] = {x, 0};
        hsc__kernels_get()->softmax(row, 2);
        assert_true(row[0] >= 0 && row[0] < 2e-38f && row[1] == 1);
    }
}

static void test_softmax_edges(void **state)
{
    (void)state;
    const hsc__kernels *k = hsc__kernels_get();
    for (int n = 1; n <= 70; n++) {
        float *row = get_floats((size_t)n);
        for (int i = 0; i < n; i++) row[i] = -INFINITY;
        k->softmax(row, n);
        for (int i = 0; i < n; i++) assert_true(row[i] == 0);
        int at = random_below(n);
        for (int i = 0; i < n; i++) row[i] = i == at ? -1e6f : -INFINITY;
        k->softmax(row, n);
        for (int i = 0; i < n; i++) assert_true(row[i] == (i == at ? 1 : 0));
        for (int i = 0; i < n; i++) row[i] = -1e6f;
        k->softmax(row, n);
        for (int i = 0; i < n; i++) assert_true(fabsf(row[i] * (float)n - 1) <= 2 * (float)EPS);
        for (int hostile = 0; hostile < 3; hostile++) { /* a NaN, an infinity, a NaN among masked keys */
            for (int i = 0; i < n; i++) row[i] = hostile == 2 ? -INFINITY : random_float();
            row[at] = hostile == 1 ? INFINITY : NAN;
            k->softmax(row, n);
            assert_true(isnan(row[at]));
        }
        drop(row);
    }
}

/* Later keys that are masked, and the end of the row, change no bit. */
static void test_softmax_tail(void **state)
{
    (void)state;
    for (int n = 1; n <= 200; n++) {
        int more = n + 1 + random_below(150);
        float *row = random_floats((size_t)n), *longer = get_floats((size_t)more);
        for (int i = 0; i < n; i++) row[i] *= 9;
        for (int i = 0; i < more; i++) longer[i] = i < n ? row[i] : -INFINITY;
        hsc__kernels_get()->softmax(row, n);
        hsc__kernels_get()->softmax(longer, more);
        assert_same_bits(longer, row, (size_t)n, "softmax with masked keys", n, more);
        for (int i = n; i < more; i++) assert_true(longer[i] == 0);
        drop(row);
        drop(longer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_act),
        cmocka_unit_test(test_act_far),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_scale_cap),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_layer_norm_flat),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_exp),
        cmocka_unit_test(test_softmax_edges),
        cmocka_unit_test(test_softmax_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
