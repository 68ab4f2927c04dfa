/* An allocator whose n-th call fails, for tests: install it, run, look at what is still held. */
#ifndef TESTS_FAILING_ALLOC_H
#define TESTS_FAILING_ALLOC_H

#include "headscope.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct failing_alloc {
    long calls;   /* allocations and reallocations so far */
    long fail_at; /* the call that fails, counted from 1; 0: none */
    long held;    /* blocks not yet freed */
} failing_alloc;

static bool failing_alloc_fails(failing_alloc *a)
{
    return ++a->calls == a->fail_at;
}

static void *failing_alloc_new(void *user, size_t n_bytes)
{
    failing_alloc *a = user;
    void *ptr = failing_alloc_fails(a) ? NULL : malloc(n_bytes);
    if (ptr) a->held++;
    return ptr;
}

static void *failing_alloc_resize(void *user, void *ptr, size_t n_bytes)
{
    failing_alloc *a = user;
    void *grown = failing_alloc_fails(a) ? NULL : realloc(ptr, n_bytes);
    if (grown && !ptr) a->held++;
    return grown;
}

static void failing_alloc_free(void *user, void *ptr)
{
    failing_alloc *a = user;
    if (ptr) a->held--;
    free(ptr);
}

static inline void failing_alloc_install(failing_alloc *a, long fail_at)
{
    *a = (failing_alloc){.fail_at = fail_at};
    hsc_set_allocator(&(hsc_allocator){failing_alloc_new, failing_alloc_resize, failing_alloc_free, a});
}

static inline void failing_alloc_remove(void)
{
    hsc_set_allocator(NULL);
}

#endif
