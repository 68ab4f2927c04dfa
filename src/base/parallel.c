/* parallel-for on OpenMP, and the number of threads that affinity and control group allow. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "base/parallel.h"

#include <omp.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

void hsc__parallel_for(int n_threads, size_t n_tasks, hsc__task_fn fn, void *context)
{
    if (n_threads > (int)n_tasks && n_tasks < (size_t)n_threads) n_threads = (int)n_tasks;
    if (n_threads <= 1) {
        for (size_t i = 0; i < n_tasks; i++) fn(context, i, 0);
        return;
    }
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1)
    for (size_t i = 0; i < n_tasks; i++) fn(context, i, omp_get_thread_num());
}

/* cgroup v2's "max 100000" or "150000 100000", or v1's pair of files; 0 when there is no quota. */
static int quota_threads(void)
{
    long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) != 2) quota = -1;
        fclose(f);
    } else {
        FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"),
             *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
        if (q && p && (fscanf(q, "%ld", &quota) != 1 || fscanf(p, "%ld", &period) != 1)) quota = -1;
        if (q) fclose(q);
        if (p) fclose(p);
    }
    if (quota <= 0 || period <= 0) return 0;
    long n = (quota + period - 1) / period;
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

int hsc__default_threads(void)
{
    int n = 0;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
#endif
    if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_threads();
    if (quota && quota < n) n = quota;
    return n < 1 ? 1 : n;
}
