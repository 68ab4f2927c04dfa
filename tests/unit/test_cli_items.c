/*
 * The texts of an intervention in clusters: means by the definition, in the order the clusters appear, and for as many
 * texts as a corpus has.
 */
#include "cli/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static char a[] = "a", b[] = "b";

/* Clusters b, none, a; the unused text of b counts nowhere. */
static void test_means(void **state)
{
    (void)state;
    hsc__item list[] = {{.cluster = b}, {.cluster = NULL}, {.cluster = a}, {.cluster = b, .unused = true},
                        {.cluster = a}, {.cluster = b}};
    const hsc__items items = {.list = list, .n = 6};
    const double values[] = {1, 10, 2, 20, 3, 30, 100, 1000, 5, 50, 4, 80};
    double means[12];
    int n_clusters;
    hsc_error err = {0};
    if (hsc__items_cluster_means(&items, values, 2, means, &n_clusters, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(n_clusters, 3);
    const double wanted[] = {2.5, 45, 2, 20, 4, 40};
    assert_memory_equal(means, wanted, sizeof wanted);
}

/* A cluster whose first text is unused is numbered where its first used one stands. */
static void test_unused_first(void **state)
{
    (void)state;
    hsc__item list[] = {{.cluster = b, .unused = true}, {.cluster = a}, {.cluster = b}};
    const hsc__items items = {.list = list, .n = 3};
    const double values[] = {7, 1, 2};
    double means[3];
    int n_clusters;
    assert_int_equal(hsc__items_cluster_means(&items, values, 1, means, &n_clusters, NULL), HSC_OK);
    assert_int_equal(n_clusters, 2);
    assert_true(means[0] == 1 && means[1] == 2);
}

/* Every text compared with every other would be 20 thousand million comparisons, minutes of a processor. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 200000, SECONDS = 20 };
    const char *patience = getenv("HEADSCOPE_TEST_PATIENCE");
    hsc__item *list = calloc(N, sizeof *list);
    double *values = calloc(2 * N, sizeof *values), *means = values + N;
    char(*names)[24] = calloc(N, sizeof *names);
    int n_clusters;
    assert_true(list && values && names);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "a cluster %d", (i * 7) % (N / 2));
        list[i].cluster = names[i];
        values[i] = i;
    }
    const hsc__items items = {.list = list, .n = N};
    clock_t start = clock();
    assert_int_equal(hsc__items_cluster_means(&items, values, 1, means, &n_clusters, NULL), HSC_OK);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC <
                SECONDS * (patience ? (int)strtol(patience, NULL, 10) : 1));
    assert_int_equal(n_clusters, N / 2);
    for (int c = 0; c < n_clusters; c++) assert_true(means[c] == c + N / 4.0); /* texts c and c + N / 2 */
    free(list);
    free(values);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_unused_first),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
