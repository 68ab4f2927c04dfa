/* No race: each task writes its own slot with its worker's scratch, and the next loop reads what other threads wrote.
 * The thread sanitizer must stay silent, so the end of a loop must order what its tasks wrote. */
#include "base/parallel.h"

#include <stdio.h>

enum { N_TASKS = 512, N_THREADS = 4, N_ROUNDS = 50 };

struct state {
    long slots[2][N_TASKS]; /* one half is read while the other is written */
    long scratch[N_THREADS];
    int from;
};

static void step(void *context, size_t task, int worker)
{
    struct state *s = context;
    s->scratch[worker] = s->slots[s->from][(task + 1) % N_TASKS];
    s->slots[1 - s->from][task] = s->scratch[worker] + 1;
}

int main(void)
{
    static struct state s;
    for (int round = 0; round < N_ROUNDS; round++) {
        s.from = round % 2;
        hsc__parallel_for(N_THREADS, N_TASKS, step, &s);
    }
    for (int i = 0; i < N_TASKS; i++) {
        if (s.slots[N_ROUNDS % 2][i] != N_ROUNDS) {
            printf("slot %d holds %ld, not %d\n", i, s.slots[N_ROUNDS % 2][i], N_ROUNDS);
            return 1;
        }
    }
    return 0;
}
