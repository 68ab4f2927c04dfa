/*
 * PyTorch's random numbers. The values are those of PyTorch 2.13 (tests/peers/test_random.py compares many more), and
 * the ten thousandth of mt19937 is the one that the C++ standard names.
 */
#include "headscope/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hsc_random seeded(uint64_t seed)
{
    hsc_random r;
    hsc_random_seed(&r, seed);
    return r;
}

static void test_bits(void **state)
{
    (void)state;
    hsc_random r = seeded(5489);
    for (int i = 1; i < 10000; i++) hsc_random_bits32(&r);
    assert_int_equal(hsc_random_bits32(&r), 4123659995u);
    hsc_random a = seeded(7), b = seeded(7 + (UINT64_C(1) << 32)); /* only the low 32 bits count */
    uint64_t high = hsc_random_bits32(&a), low = hsc_random_bits32(&a);
    assert_true(hsc_random_bits64(&b) == (high << 32 | low));
}

static void test_uniform(void **state)
{
    (void)state;
    const float right[] = {0x1.fc2ab0p-2f, 0x1.89545ep-1f, 0x1.6a675p-4f, 0x1.0e66p-3f};
    const float in_range[] = {0x1.91eef8p-3f, 0x1.df7588p-2f, -0x1.b132cp-3f};
    const float late[] = {0x1.105d84p-2f, 0x1.592358p-1f};
    float x[702];
    hsc_random r = seeded(0);
    hsc_random_uniform(&r, 0, 1, 4, x);
    assert_memory_equal(x, right, sizeof right);
    r = seeded(0);
    hsc_random_uniform(&r, -0.3f, 0.7f, 3, x);
    assert_memory_equal(x, in_range, sizeof in_range);
    r = seeded(0);
    hsc_random_uniform(&r, 0, 1, 702, x); /* past the first 624 words */
    assert_memory_equal(x + 700, late, sizeof late);
    hsc_random before = r;
    hsc_random_uniform(&r, 0, 1, 0, NULL);
    assert_memory_equal(&r, &before, sizeof r);
}

static void assert_near(float x, float right)
{
    if (!(fabsf(x - right) <= 4e-6f)) fail_msg("%a is not %a", (double)x, (double)right);
}

/* Fewer than 16 values: pairs, the second half of the third pair being taken by the next call. */
static void test_few_normal(void **state)
{
    (void)state;
    const float right[] = {0x1.8a7eb8p+0f, -0x1.2c78ap-2f, -0x1.16e292p+1f, 0x1.23096cp-1f, -0x1.15a342p+0f};
    float x[16];
    hsc_random r = seeded(0);
    hsc_random_normal(&r, 0, 1, 3, x);
    hsc_random_normal(&r, 0, 1, 2, x + 3);
    for (int i = 0; i < 5; i++) assert_near(x[i], right[i]);
    hsc_random_normal(&r, 0, 1, 16, x); /* the waiting value is not for these */
    float next;
    hsc_random_normal(&r, 0, 1, 1, &next);
    r = seeded(0);
    hsc_random_normal(&r, 0, 1, 6, x);
    assert_near(next, x[5]);
    hsc_random_seed(&r, 0); /* and a seed forgets it */
    hsc_random_normal(&r, 0, 1, 1, x);
    assert_near(x[0], right[0]);
}

static void test_many_normal(void **state)
{
    (void)state;
    const struct {
        int at;
        float right;
    } of16[] = {{0, -0x1.20370ap+0f},
                {1, -0x1.270114p+0f},
                {7, -0x1.0ebf82p+1f},
                {8, 0x1.4a027p-2f},
                {15, -0x1.fa6cf8p-3f}},
      of19[] = {{0, -0x1.20370ap+0f}, {2, -0x1.0097acp-2f}, {3, 0x1.9646bap-1f},
                {10, 0x1.7193b6p+0f}, {11, 0x1.77c348p-3f}, {18, 0x1.00a334p+1f}};
    float x[19];
    hsc_random r = seeded(0);
    hsc_random_normal(&r, 0, 1, 16, x);
    for (int i = 0; i < 5; i++) assert_near(x[of16[i].at], of16[i].right);
    r = seeded(0);
    hsc_random_normal(&r, 0, 1, 19, x);
    for (int i = 0; i < 6; i++) assert_near(x[of19[i].at], of19[i].right);
    r = seeded(0);
    hsc_random_normal(&r, 10, 2, 16, x);
    for (int i = 0; i < 5; i++) assert_near((x[of16[i].at] - 10) / 2, of16[i].right);
}

static void test_integers(void **state)
{
    (void)state;
    const int64_t right[] = {4, 9, 3, 0, 3, 9, 7, 3, -1058178736429, 91845220082};
    int64_t x[10];
    hsc_random r = seeded(0);
    assert_int_equal(hsc_random_integers(&r, 0, 10, 8, x, NULL), HSC_OK);
    assert_int_equal(hsc_random_integers(&r, -(INT64_C(1) << 40), INT64_C(1) << 40, 2, x + 8, NULL), HSC_OK);
    assert_memory_equal(x, right, sizeof right);
    assert_int_equal(hsc_random_integers(&r, INT64_MIN, INT64_MAX, 1, x, NULL), HSC_OK);
    hsc_error err;
    assert_int_equal(hsc_random_integers(&r, 3, 3, 1, x, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "from 3 up to 3"));
}

static void test_permutation(void **state)
{
    (void)state;
    const int64_t right[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
    int64_t x[10];
    hsc_random r = seeded(0);
    assert_int_equal(hsc_random_permutation(&r, 10, x, NULL), HSC_OK);
    assert_memory_equal(x, right, sizeof right);
    assert_int_equal(hsc_random_permutation(&r, 0, NULL, NULL), HSC_OK);
    assert_int_equal(hsc_random_permutation(&r, -1, x, NULL), HSC_EINVAL);
    assert_int_equal(hsc_random_permutation(&r, 214748364, x, NULL), HSC_EINVAL);
}

static void test_initial_values(void **state)
{
    (void)state;
    const float kaiming[] = {-0x1.b6db36p-9f, 0x1.6b19e4p-2f, -0x1.798d6cp-3f};
    const float xavier[] = {-0x1.a8ebb8p-8f, 0x1.5f9238p-1f, -0x1.6d9046p-2f};
    float w[15];
    hsc_random r = seeded(0);
    hsc_random_kaiming_uniform(&r, 3, 5, sqrt(5), w);
    for (int i = 0; i < 3; i++) assert_true(w[7 * i] == kaiming[i]);
    r = seeded(0);
    hsc_random_xavier_uniform(&r, 3, 5, 1, w);
    for (int i = 0; i < 3; i++) assert_true(w[7 * i] == xavier[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),           cmocka_unit_test(test_uniform),  cmocka_unit_test(test_few_normal),
        cmocka_unit_test(test_many_normal),    cmocka_unit_test(test_integers), cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_initial_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
