/* Repeatable random floats for tests. */
#ifndef TESTS_RANDOM_ARRAY_H
#define TESTS_RANDOM_ARRAY_H

#include <stdint.h>
#include <stdlib.h>

/* Uniform in [-1, 1), from one state a program. */
static inline float random_float(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / (float)(1 << 23) - 1;
}

/* n values in [-size, size); free it with free. */
static inline float *random_array(size_t n, float size)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    if (!x) abort();
    for (size_t i = 0; i < n; i++) x[i] = size * random_float();
    return x;
}

#endif
