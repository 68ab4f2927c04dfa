/* An allocator whose n-th call fails, for tests: install it, run, look at what is still held. */
#ifndef TESTS_FAILING_ALLOC_H
#define TESTS_FAILING_ALLOC_H

#include "headscope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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

/* Takes the step with its first allocation failing, then its second, and so on until it succeeds: a failure is
 * HSC_ENOMEM, and every time it has given back all that it took. The allocator is installed already. */
static inline void failing_alloc_each(failing_alloc *a, hsc_status (*step)(void *user), void *user)
{
    long held = a->held, k = 0;
    for (hsc_status status = HSC_ENOMEM; status != HSC_OK;) {
        assert_true(++k < 1000);
        a->fail_at = a->calls + k;
        status = step(user);
        a->fail_at = 0;
        assert_true(status == HSC_OK || status == HSC_ENOMEM);
        assert_int_equal(a->held, held);
    }
    assert_true(k > 1); /* something was allocated */
}

#endif
