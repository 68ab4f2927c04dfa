/* A race on purpose: tasks add to one counter without a lock. The thread sanitizer must report it; a silent run would
 * mean that it does not see what happens inside hsc__parallel_for, and then its silence elsewhere proves nothing. */
#include "base/parallel.h"

#include <stdio.h>

static void add(void *context, size_t task, int worker)
{
    (void)worker;
    long *sum = context;
    *sum += (long)task;
}

int main(void)
{
    long sum = 0;
    hsc__parallel_for(4, 10000, add, &sum);
    printf("the sum came to %ld\n", sum);
    return 0;
}
