/* A race on purpose: two tasks write one variable without a lock. The thread sanitizer must report it; a silent run
 * would mean that it does not see what happens inside hsc__parallel_for, and then its silence elsewhere proves nothing.
 */
#include "base/parallel.h"

#include <stdio.h>
#include <unistd.h>

static int n_started; /* atomic and relaxed: the tasks meet here, which orders none of their writes */
static long contended;

static void write_it(void *context, size_t task, int worker)
{
    (void)context;
    (void)worker;
    __atomic_fetch_add(&n_started, 1, __ATOMIC_RELAXED);
    for (int waits = 0; waits < 10000 && __atomic_load_n(&n_started, __ATOMIC_RELAXED) < 2; waits++) usleep(1000);
    for (int i = 0; i < 1000; i++) contended += (long)task + 1;
}

int main(void)
{
    hsc__parallel_for(2, 2, write_it, NULL);
    printf("it came to %ld\n", contended);
    return 0;
}
