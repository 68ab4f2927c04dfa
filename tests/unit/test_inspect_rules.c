/*
 * The simple rules of the scan, by their definitions: hand-made places of candidates and queries, each figure worked
 * out by hand. A rule's mark in a wording is 1, 0 or, for a tie, a half; a pair's is the mean of two; clusters average
 * first.
 */
#include "inspect/scan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4 };

/* One wording: tokens of a, of b and of the query. */
#define SAID(a0, a1, b0, b1, q0, q1)                                                                                   \
    {                                                                                                                  \
        .a = {a0, a1}, .b = {b0, b1}, .query = { q0, q1 }                                                              \
    }

static hsc_scan_rule figures[HSC_N_RULES];
static double by_cluster[HSC_N_RULES][MOST];

typedef struct said_pair {
    int cluster;
    hsc__said said[2];
} said_pair;

static void judge(const said_pair *pairs, int n, int n_clusters)
{
    hsc_pairs no_texts = {0};
    hsc__said_pair said[MOST] = {0};
    hsc__scan_pair list[MOST] = {0};
    int order[MOST], n_listed = 0;
    hsc_scan scan = {.source = &no_texts, .pairs = list, .by_cluster = order, .n_used = n, .n_clusters = n_clusters};
    for (int c = 0; c < n_clusters; c++)
        for (int i = 0; i < n; i++)
            if (pairs[i].cluster == c) order[n_listed++] = i;
    for (int i = 0; i < n; i++) {
        memcpy(said[i].wording, pairs[i].said, sizeof pairs[i].said);
        list[i] = (hsc__scan_pair){.said = &said[i], .cluster = pairs[i].cluster};
    }
    assert_int_equal(hsc__scan_rules(&scan, NULL), HSC_OK);
    for (int rule = 0; rule < HSC_N_RULES; rule++) {
        figures[rule] = hsc_scan_rule_figures(&scan, (hsc_rule)rule);
        assert_int_equal(hsc__columns_read(&scan.rules, rule, by_cluster[rule], NULL), HSC_OK);
    }
    hsc__columns_free(&scan.rules);
}

static void assert_rule(hsc_rule rule, double accuracy, double pair_accuracy)
{
    if (fabs(figures[rule].accuracy - accuracy) > 1e-15 || fabs(figures[rule].pair_accuracy - pair_accuracy) > 1e-15)
        fail_msg("rule %d: %.17g and %.17g, not %g and %g", (int)rule, figures[rule].accuracy,
                 figures[rule].pair_accuracy, accuracy, pair_accuracy);
}

/* Before the query: a stands first and far in wording 1, b in wording 2. */
static void test_before_the_query(void **state)
{
    (void)state;
    said_pair pair = {.said = {SAID(1, 1, 3, 4, 7, 7), SAID(5, 5, 2, 2, 7, 7)}};
    judge(&pair, 1, 1);
    assert_rule(HSC_RULE_FIRST, 1, 1);
    assert_rule(HSC_RULE_NEAREST, 0, 0);
    assert_rule(HSC_RULE_LONGEST, 0.25, 0); /* b is longer where a is right; then equally long: a half of a half */
}

/* Behind the query, as only encoders see them: a next to it in wording 1, b in wording 2. */
static void test_behind_the_query(void **state)
{
    (void)state;
    said_pair pair = {.said = {SAID(5, 6, 8, 8, 2, 3), SAID(9, 9, 4, 4, 2, 3)}};
    judge(&pair, 1, 1);
    assert_rule(HSC_RULE_FIRST, 1, 1);
    assert_rule(HSC_RULE_NEAREST, 1, 1);
    assert_rule(HSC_RULE_LONGEST, 0.75, 0);
}

/* Distances are between the tokens that face each other: 1 on either side here; 0 inside the query. Both are ties. */
static void test_distances_tie(void **state)
{
    (void)state;
    said_pair pair = {.said = {SAID(2, 3, 7, 9, 4, 6), SAID(4, 4, 6, 6, 4, 6)}};
    judge(&pair, 1, 1);
    assert_rule(HSC_RULE_NEAREST, 0.5, 0);
    said_pair inside = {.said = {SAID(5, 5, 7, 7, 4, 6), SAID(3, 3, 4, 6, 4, 6)}};
    judge(&inside, 1, 1);
    assert_rule(HSC_RULE_NEAREST, 1, 1);
}

/* One right and one wrong wording is no pair that is right, and neither is one right and a tie. */
static void test_pairs_want_both(void **state)
{
    (void)state;
    said_pair pair = {.said = {SAID(1, 1, 2, 2, 4, 4), SAID(1, 1, 2, 2, 4, 4)}};
    judge(&pair, 1, 1);
    assert_rule(HSC_RULE_FIRST, 0.5, 0);
    assert_rule(HSC_RULE_NEAREST, 0.5, 0);
    said_pair tie = {.said = {SAID(1, 2, 3, 3, 5, 5), SAID(1, 1, 2, 2, 5, 5)}};
    judge(&tie, 1, 1);
    assert_rule(HSC_RULE_LONGEST, 0.75, 0);
}

/* The answer lies 3 tokens before the query's last token in every wording, and in pair 2 alone 4 before as well. */
static void test_offset(void **state)
{
    (void)state;
    said_pair pairs[] = {
        {.cluster = 0, .said = {SAID(2, 2, 3, 3, 4, 5), SAID(3, 3, 2, 2, 4, 5)}},
        {.cluster = 1, .said = {SAID(1, 2, 3, 4, 5, 5), SAID(3, 4, 1, 2, 5, 5)}},
    };
    judge(pairs, 2, 2);
    assert_int_equal(figures[HSC_RULE_OFFSET].offset, 3);
    assert_rule(HSC_RULE_OFFSET, 1, 1);
}

/* Of distances that are right equally often the lowest is taken; those behind the query are below 0. */
static void test_offset_of_equals(void **state)
{
    (void)state;
    said_pair both = {.said = {SAID(1, 2, 3, 4, 5, 5), SAID(3, 4, 1, 2, 5, 5)}};
    judge(&both, 1, 1);
    assert_int_equal(figures[HSC_RULE_OFFSET].offset, 3); /* 4 is right as well */
    assert_rule(HSC_RULE_OFFSET, 1, 1);
    said_pair behind = {.said = {SAID(4, 4, 6, 6, 2, 2), SAID(6, 6, 4, 4, 2, 2)}};
    judge(&behind, 1, 1);
    assert_int_equal(figures[HSC_RULE_OFFSET].offset, -2);
    assert_rule(HSC_RULE_OFFSET, 1, 1);
}

static void assert_offset(said_pair pair, int offset, double accuracy)
{
    judge(&pair, 1, 1);
    assert_int_equal(figures[HSC_RULE_OFFSET].offset, offset);
    assert_rule(HSC_RULE_OFFSET, accuracy, 0);
}

/* The best distance may be one that a single candidate of a single wording lies at: the farthest before the query or
 * the farthest behind it, of a or of b. The other wording has no candidate there, a half. */
static void test_offset_at_the_ends(void **state)
{
    (void)state;
    assert_offset((said_pair){.said = {SAID(0, 0, 3, 3, 5, 5), SAID(4, 4, 3, 3, 5, 5)}}, 5, 0.75);
    assert_offset((said_pair){.said = {SAID(3, 3, 4, 4, 5, 5), SAID(3, 3, 0, 0, 5, 5)}}, 5, 0.75);
    assert_offset((said_pair){.said = {SAID(6, 6, 4, 4, 2, 2), SAID(4, 4, 5, 5, 2, 2)}}, -4, 0.75);
    assert_offset((said_pair){.said = {SAID(4, 4, 5, 5, 2, 2), SAID(5, 5, 6, 6, 2, 2)}}, -4, 0.75);
}

/* One candidate inside the other: the one that begins first is mentioned first. */
static void test_nested(void **state)
{
    (void)state;
    said_pair pair = {.said = {SAID(1, 4, 2, 3, 6, 6), SAID(2, 3, 1, 4, 6, 6)}};
    judge(&pair, 1, 1);
    assert_rule(HSC_RULE_FIRST, 1, 1);
}

/* Cluster 0 has a pair that is right and one that is half right, cluster 1 one that is wrong: 0.75 and 0. */
static void test_clusters(void **state)
{
    (void)state;
    said_pair pairs[] = {
        {.cluster = 0, .said = {SAID(1, 1, 2, 2, 4, 4), SAID(2, 2, 1, 1, 4, 4)}},
        {.cluster = 1, .said = {SAID(2, 2, 1, 1, 4, 4), SAID(1, 1, 2, 2, 4, 4)}},
        {.cluster = 0, .said = {SAID(1, 1, 2, 2, 4, 4), SAID(1, 1, 2, 2, 4, 4)}},
    };
    judge(pairs, 3, 2);
    assert_true(by_cluster[HSC_RULE_FIRST][0] == 0.75 && by_cluster[HSC_RULE_FIRST][1] == 0);
    assert_rule(HSC_RULE_FIRST, 0.375, 0.25);
    assert_true(by_cluster[HSC_RULE_NEAREST][0] == 0.25 && by_cluster[HSC_RULE_NEAREST][1] == 1);
    assert_rule(HSC_RULE_NEAREST, 0.625, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_query), cmocka_unit_test(test_behind_the_query),
        cmocka_unit_test(test_distances_tie),    cmocka_unit_test(test_pairs_want_both),
        cmocka_unit_test(test_offset),           cmocka_unit_test(test_offset_of_equals),
        cmocka_unit_test(test_clusters),         cmocka_unit_test(test_offset_at_the_ends),
        cmocka_unit_test(test_nested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
