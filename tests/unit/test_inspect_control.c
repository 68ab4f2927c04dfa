/*
 * A control's shift taken from the pair's own: means by the definition, which pairs find one, and for as many pairs as
 * a corpus has. The scans are made by hand: one head whose weights are known.
 */
#include "inspect/scan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* A scan of one head over n pairs; pair i has place numbers[i] in its file, cluster clusters[i] (rising) and the shift
 * shifts[i] / 64. */
typedef struct made {
    hsc_scan scan;
    hsc_pair *list;
    hsc__said_pair *said;
} made;

static const hsc_pairs no_texts;

static void make(made *m, int n, const int *numbers, const int *clusters, const int *shifts)
{
    *m = (made){
        .scan = {.source = &no_texts, .n_used = n, .n_heads = 1, .n_clusters = clusters[n - 1] + 1, .memory = 1 << 20}};
    m->list = calloc((size_t)n, sizeof *m->list);
    m->said = calloc((size_t)n, sizeof *m->said);
    m->scan.pairs = hsc__calloc((size_t)n, sizeof *m->scan.pairs);
    m->scan.by_cluster = hsc__calloc((size_t)n, sizeof *m->scan.by_cluster);
    assert_true(m->list && m->said && m->scan.pairs && m->scan.by_cluster);
    assert_int_equal(hsc__spill_open(&m->scan.seen, (uint64_t)n * 2 * sizeof(hsc_seen), 1 << 30, NULL), HSC_OK);
    for (int i = 0; i < n; i++) {
        m->list[i].number = numbers[i];
        m->said[i].pair = &m->list[i];
        m->scan.pairs[i].said = &m->said[i];
        m->scan.pairs[i].cluster = clusters[i];
        m->scan.by_cluster[i] = i;
        hsc_seen seen[2] = {{.a = 0.5f + (float)shifts[i] / 64, .b = 0.25f}, {.a = 0.375f, .b = 0.125f}};
        assert_int_equal(hsc__scan_write(&m->scan, i, seen, NULL), HSC_OK);
    }
}

static void discard(made *m)
{
    hsc__spill_free(&m->scan.seen);
    hsc__free(m->scan.by_cluster);
    hsc__free(m->scan.pairs);
    free(m->list);
    free(m->said);
}

static const hsc_scan_statistics few = {.n_bootstrap = 1, .n_flips = 1, .n_threads = 1};

/* Of five pairs four have a control, in three clusters; the control's file has them in another order. */
static void test_means(void **state)
{
    (void)state;
    made own, other;
    hsc_scan_difference d;
    int n_pairs, n_clusters;
    make(&own, 5, (int[]){7, 2, 4, 9, 1}, (int[]){0, 0, 1, 2, 3}, (int[]){8, 4, 6, 2, 16});
    make(&other, 5, (int[]){1, 4, 2, 8, 7}, (int[]){0, 1, 2, 3, 4}, (int[]){2, 1, 3, 30, 5});
    assert_int_equal(hsc_scan_control(&own.scan, &other.scan, &few, &d, &n_pairs, &n_clusters, NULL), HSC_OK);
    assert_int_equal(n_pairs, 4);
    assert_int_equal(n_clusters, 3);
    /* clusters: ((8 - 5) + (4 - 3)) / 2 = 2, 6 - 1 = 5, 16 - 2 = 14; alone 4, 1, 2. */
    assert_true(fabs(d.shift - 21.0 / 3 / 64) < 1e-12);
    assert_true(fabs(d.control - 7.0 / 3 / 64) < 1e-12);
    discard(&own);
    discard(&other);
}

static void test_none(void **state)
{
    (void)state;
    made own, other;
    hsc_scan_difference d;
    int n_pairs, n_clusters;
    make(&own, 1, (int[]){7}, (int[]){0}, (int[]){8});
    make(&other, 1, (int[]){6}, (int[]){0}, (int[]){8});
    assert_int_equal(hsc_scan_control(&own.scan, &other.scan, &few, &d, &n_pairs, &n_clusters, NULL), HSC_EINVAL);
    discard(&own);
    discard(&other);
}

/* Every pair compared with every control would be 20 thousand million comparisons, minutes of a processor. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 200000, SECONDS = 15 };
    const char *patience = getenv("HEADSCOPE_TEST_PATIENCE");
    int *numbers = calloc(N, sizeof *numbers), *clusters = calloc(N, sizeof *clusters), n_pairs, n_clusters;
    int *turned = calloc(N, sizeof *turned), *shifts = calloc(N, sizeof *shifts);
    made own, other;
    hsc_scan_difference d;
    assert_true(numbers && clusters && turned && shifts);
    for (int i = 0; i < N; i++) {
        numbers[i] = clusters[i] = i;
        turned[i] = N - 1 - i;
        shifts[i] = i % 16;
    }
    make(&own, N, numbers, clusters, shifts);
    make(&other, N, turned, clusters, shifts);
    clock_t start = clock();
    assert_int_equal(hsc_scan_control(&own.scan, &other.scan, &few, &d, &n_pairs, &n_clusters, NULL), HSC_OK);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC <
                SECONDS * (patience ? (double)strtol(patience, NULL, 10) : 1));
    assert_int_equal(n_pairs, N);
    assert_true(fabs(d.shift) < 1e-12 && fabs(d.control - 7.5 / 64) < 1e-9);
    discard(&own);
    discard(&other);
    free(numbers);
    free(clusters);
    free(turned);
    free(shifts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_means),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
