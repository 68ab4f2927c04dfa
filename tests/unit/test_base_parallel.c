/* parallel-for: each task runs once, workers stay in range, one at a time each. */
#include "base/parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_TASKS = 1000, MAX_WORKERS = 16 };

typedef struct counts {
    int task[MAX_TASKS];   /* how often each ran; each is written by its own task alone */
    int busy[MAX_WORKERS]; /* tasks running on a worker at this moment */
    int overlaps, out_of_range;
    int n_threads;
} counts;

static void count(void *context, size_t task, int worker)
{
    counts *c = context;
    if (worker < 0 || worker >= c->n_threads) {
        __atomic_fetch_add(&c->out_of_range, 1, __ATOMIC_RELAXED);
        return;
    }
    if (__atomic_fetch_add(&c->busy[worker], 1, __ATOMIC_RELAXED) != 0)
        __atomic_fetch_add(&c->overlaps, 1, __ATOMIC_RELAXED);
    c->task[task]++;
    __atomic_fetch_sub(&c->busy[worker], 1, __ATOMIC_RELAXED);
}

static void test_each_task_once(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, MAX_WORKERS};
    static const size_t tasks[] = {0, 1, 2, 5, MAX_TASKS};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (size_t k = 0; k < sizeof tasks / sizeof *tasks; k++) {
            counts c = {.n_threads = threads[t]};
            hsc__parallel_for(threads[t], tasks[k], count, &c);
            for (size_t i = 0; i < MAX_TASKS; i++) assert_int_equal(c.task[i], i < tasks[k] ? 1 : 0);
            assert_int_equal(c.overlaps, 0);
            assert_int_equal(c.out_of_range, 0);
        }
    }
}

static void test_no_threads_means_one(void **state)
{
    (void)state;
    counts c = {.n_threads = 1};
    hsc__parallel_for(0, 3, count, &c);
    hsc__parallel_for(-5, 3, count, &c);
    assert_int_equal(c.task[2], 2);
    assert_int_equal(c.out_of_range, 0);
}

static void in_order(void *context, size_t task, int worker)
{
    size_t *next = context;
    assert_int_equal(worker, 0);
    assert_int_equal(task, *next);
    ++*next;
}

static void test_one_thread_goes_in_order(void **state)
{
    (void)state;
    size_t next = 0;
    hsc__parallel_for(1, 50, in_order, &next);
    assert_int_equal(next, 50);
}

static void test_default_threads(void **state)
{
    (void)state;
    int n = hsc__default_threads();
    assert_true(n >= 1 && n <= 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_no_threads_means_one),
        cmocka_unit_test(test_one_thread_goes_in_order),
        cmocka_unit_test(test_default_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
