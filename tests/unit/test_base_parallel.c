/* parallel-for: each task runs once, workers stay in range, one at a time each. */
#include "base/parallel.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void add_one(void *context, size_t task, int worker)
{
    int *sums = context; /* [MAX_WORKERS], a place a worker: a race between loops would lose some */
    (void)task;
    sums[worker]++;
}

static int add_in_loops(int n_loops)
{
    int sums[MAX_WORKERS] = {0}, sum = 0, expected = 0;
    for (int i = 0; i < n_loops; i++) {
        int threads = 1 + i % 5, tasks = i % 11;
        hsc__parallel_for(threads, (size_t)tasks, add_one, sums);
        expected += tasks;
    }
    for (int i = 0; i < MAX_WORKERS; i++) sum += sums[i];
    return sum - expected;
}

/* Many short loops of changing width, one right after the other. */
static void test_many_loops(void **state)
{
    (void)state;
    assert_int_equal(add_in_loops(20000), 0);
}

static void *loops_of_a_thread(void *result)
{
    *(int *)result = add_in_loops(3000);
    return NULL;
}

/* Threads of the host run loops at once, each with its own team, and end. */
static void test_two_callers(void **state)
{
    (void)state;
    pthread_t threads[3];
    int differences[3] = {1, 1, 1};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, loops_of_a_thread, &differences[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(differences[i], 0);
    }
}

/* Gives the others time to come, until one has. */
static void wait_for_another(void *context, size_t task, int worker)
{
    int *met = context;
    (void)task;
    if (worker > 0) __atomic_store_n(met, 1, __ATOMIC_RELAXED);
    else if (!__atomic_load_n(met, __ATOMIC_RELAXED)) usleep(100);
}

static void *wide_loop(void *met)
{
    hsc__parallel_for(1 << 15, 1 << 15, wait_for_another, met);
    return NULL;
}

/* More threads than there can be are as many as there can be; in a thread of its own, with which they end. */
static void test_very_many_threads(void **state)
{
    (void)state;
    pthread_t thread;
    int met = 0;
    assert_int_equal(pthread_create(&thread, NULL, wide_loop, &met), 0);
    pthread_join(thread, NULL);
    assert_true(met);
}

static void inner_loop(void *context, size_t task, int worker)
{
    int *totals = context;
    int sums[MAX_WORKERS] = {0};
    (void)worker;
    hsc__parallel_for(3, 7, add_one, sums);
    totals[task] = 0;
    for (int i = 0; i < MAX_WORKERS; i++) totals[task] += sums[i];
}

static void test_loop_in_loop(void **state)
{
    (void)state;
    int totals[20] = {0};
    hsc__parallel_for(4, 20, inner_loop, totals);
    for (int i = 0; i < 20; i++) assert_int_equal(totals[i], 7);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#endif

/* A child of fork has none of the parent's threads and must not wait for them. */
static void test_after_fork(void **state)
{
    (void)state;
#ifdef WITH_TSAN
    skip(); /* the sanitizer itself does not allow threads after a fork */
#endif
    assert_int_equal(add_in_loops(50), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(add_in_loops(50) == 0 ? 0 : 1);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_no_threads_means_one),
        cmocka_unit_test(test_one_thread_goes_in_order),
        cmocka_unit_test(test_default_threads),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_two_callers),
        cmocka_unit_test(test_very_many_threads),
        cmocka_unit_test(test_loop_in_loop),
        cmocka_unit_test(test_after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
