/* The one door to threads: a parallel loop. How it is done is parallel.c's affair. */
#ifndef HSC_BASE_PARALLEL_H
#define HSC_BASE_PARALLEL_H

#include <stddef.h>

/* One task. `worker` is in [0, n_threads), so scratch can be indexed by it. */
typedef void (*hsc__task_fn)(void *context, size_t task, int worker);

/* Runs tasks 0..n_tasks-1 on at most n_threads threads, and no more than 1024, handed out one at a time in rising
 * order, and waits for all. Results must not depend on which worker takes which task. */
void hsc__parallel_for(int n_threads, size_t n_tasks, hsc__task_fn fn, void *context);

/* Threads that this process may use: CPU affinity, then the control group's CPU quota, at least 1. */
int hsc__default_threads(void);

#endif
