/* The allocator: what a failed call leaves behind, sizes that overflow, alignment, growth, arenas. */
#include "base/alloc.h"
#include "failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static failing_alloc failing;

static int teardown(void **state)
{
    (void)state;
    failing_alloc_remove();
    return 0;
}

static void test_host_allocator_gets_every_call(void **state)
{
    (void)state;
    failing_alloc_install(&failing, 0);
    void *a = hsc__malloc(0), *b = hsc__calloc(3, 5), *c = hsc__realloc(NULL, 7), *d = hsc__malloc_aligned(100);
    char *e = hsc__strndup("abc", 2);
    assert_int_equal(failing.held, 5);
    assert_memory_equal(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    assert_string_equal(e, "ab");
    hsc__free(a);
    hsc__free(b);
    hsc__free(c);
    hsc__free(NULL);
    hsc__free_aligned(d);
    hsc__free_aligned(NULL);
    hsc__free(e);
    assert_int_equal(failing.held, 0);
}

static void test_each_call_may_fail(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++) {
        failing_alloc_install(&failing, 1);
        void *ptr = which == 0   ? hsc__malloc(1)
                    : which == 1 ? hsc__calloc(1, 1)
                    : which == 2 ? hsc__realloc(NULL, 1)
                    : which == 3 ? hsc__malloc_aligned(1)
                                 : (void *)hsc__strndup("a", 1);
        assert_null(ptr);
        assert_int_equal(failing.held, 0);
    }
}

static void test_sizes_that_overflow(void **state)
{
    (void)state;
    hsc__arena arena = {0};
    assert_null(hsc__calloc(SIZE_MAX / 2, 3));
    assert_null(hsc__calloc(SIZE_MAX, SIZE_MAX));
    assert_null(hsc__malloc_aligned(SIZE_MAX));
    assert_null(hsc__malloc_aligned(SIZE_MAX - 10));
    assert_null(hsc__arena_alloc(&arena, SIZE_MAX));
    assert_null(hsc__arena_alloc(&arena, SIZE_MAX - 15));
    hsc__arena_free(&arena);
    void *array = NULL;
    size_t capacity = 0;
    hsc_error err = {0};
    assert_int_equal(hsc__grow(&array, &capacity, SIZE_MAX / 4, 8, &err), HSC_ENOMEM);
    assert_null(array);
    assert_int_equal(capacity, 0);
    assert_int_equal(err.code, HSC_ENOMEM);
}

static void test_aligned(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *ptr = hsc__malloc_aligned(n);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % 64, 0);
        memset(ptr, 1, n);
        hsc__free_aligned(ptr);
    }
}

static void test_grow_doubles_and_keeps(void **state)
{
    (void)state;
    int *array = NULL;
    size_t capacity = 0;
    failing_alloc_install(&failing, 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(hsc__grow(&array, &capacity, (size_t)i + 1, sizeof *array, NULL), HSC_OK);
        array[i] = i;
    }
    for (int i = 0; i < 10000; i++) assert_int_equal(array[i], i);
    assert_true(failing.calls < 20); /* doubling: log2(10000 / 8) calls, not one an element */
    failing.fail_at = failing.calls + 1;
    size_t before = capacity;
    hsc_error err = {0};
    assert_int_equal(hsc__grow(&array, &capacity, capacity + 1, sizeof *array, &err), HSC_ENOMEM);
    assert_int_equal(capacity, before);
    assert_int_equal(array[9999], 9999);
    hsc__free(array);
    assert_int_equal(failing.held, 0);
}

static void test_arena(void **state)
{
    (void)state;
    hsc__arena arena = {0};
    failing_alloc_install(&failing, 0);
    unsigned char *blocks[500];
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = hsc__arena_alloc(&arena, i * 3);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)(i % 251), i * 3);
    }
    assert_non_null(hsc__arena_alloc(&arena, 1000000)); /* larger than a block */
    assert_string_equal(hsc__arena_strndup(&arena, "headscope", 4), "head");
    for (size_t i = 0; i < 500; i++) {
        for (size_t j = 0; j < i * 3; j++) assert_int_equal(blocks[i][j], i % 251);
    }
    hsc__arena_free(&arena);
    assert_int_equal(failing.held, 0);
    failing_alloc_install(&failing, 1);
    assert_null(hsc__arena_alloc(&arena, 1));
    failing_alloc_install(&failing, 1);
    assert_null(hsc__arena_strndup(&arena, "a", 1));
    assert_int_equal(failing.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_host_allocator_gets_every_call, teardown),
        cmocka_unit_test_teardown(test_each_call_may_fail, teardown),
        cmocka_unit_test_teardown(test_sizes_that_overflow, teardown),
        cmocka_unit_test_teardown(test_aligned, teardown),
        cmocka_unit_test_teardown(test_grow_doubles_and_keeps, teardown),
        cmocka_unit_test_teardown(test_arena, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
