/* Arrays written piece by piece, side by side, are the bytes that hsc_write_arrays writes in one go; too much, too
 * little and a wrong ending are refused and leave no file. */
#include "formats/array_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 7, COLUMNS = 5 };

static hsc_error err;
static float matrix[ROWS][COLUMNS];
static int32_t numbers[ROWS];
static char folder[] = "/tmp/headscope-test-XXXXXX";

static void fill(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) matrix[i / COLUMNS][i % COLUMNS] = (float)i * 0.5f;
    for (int i = 0; i < ROWS; i++) numbers[i] = 100 - i;
}

static char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_same_files(const char *a, const char *b)
{
    char *one, *two;
    size_t n, m;
    assert_int_equal(hsc__read_file(&one, &n, path_of(a), 1 << 20, &err), HSC_OK);
    assert_int_equal(hsc__read_file(&two, &m, path_of(b), 1 << 20, &err), HSC_OK);
    assert_int_equal(n, m);
    assert_memory_equal(one, two, n);
    hsc__free(one);
    hsc__free(two);
}

static void stream_all(const char *name, const hsc_named_array *arrays, size_t n)
{
    hsc__array_stream s;
    char *path = strdup(path_of(name));
    if (hsc__array_stream_open(&s, path, arrays, n, &err) != HSC_OK) fail_msg("%s", err.message);
    for (int i = 0; i < ROWS; i++) { /* by turns, the second array ahead of the first */
        if (n > 1) assert_int_equal(hsc__array_stream_put(&s, 1, &numbers[i], sizeof numbers[i], &err), HSC_OK);
        assert_int_equal(hsc__array_stream_put(&s, 0, matrix[i], sizeof matrix[i], &err), HSC_OK);
    }
    assert_int_equal(hsc__array_stream_put(&s, 0, matrix, 1, &err), HSC_EINVAL);
    if (hsc__array_stream_commit(&s, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc__array_stream_free(&s);
    free(path);
}

static void test_same_bytes(void **unused)
{
    (void)unused;
    fill();
    const hsc_named_array arrays[] = {{"resid_post.4", HSC_F32, 2, {ROWS, COLUMNS}, matrix},
                                      {"text", HSC_I32, 1, {ROWS}, numbers}};
    assert_int_equal(hsc_write_arrays(path_of("a.npz"), arrays, 2, &err), HSC_OK);
    stream_all("b.npz", arrays, 2);
    assert_same_files("a.npz", "b.npz");
    assert_int_equal(hsc_write_arrays(path_of("a.npy"), arrays, 1, &err), HSC_OK);
    stream_all("b.npy", arrays, 1);
    assert_same_files("a.npy", "b.npy");
    const char *const made[] = {"a.npz", "b.npz", "a.npy", "b.npy"};
    for (size_t i = 0; i < 4; i++) assert_int_equal(unlink(path_of(made[i])), 0);
}

static void test_refused(void **unused)
{
    (void)unused;
    hsc__array_stream s;
    const hsc_named_array arrays[] = {{"a", HSC_F32, 1, {ROWS}, NULL}, {"b", HSC_F32, 1, {ROWS}, NULL}};
    assert_int_equal(hsc__array_stream_open(&s, path_of("c.txt"), arrays, 1, &err), HSC_EINVAL);
    hsc__array_stream_free(&s);
    assert_int_equal(hsc__array_stream_open(&s, path_of("c.npy"), arrays, 2, &err), HSC_EINVAL);
    hsc__array_stream_free(&s);
    char *path = strdup(path_of("c.npz"));
    assert_int_equal(hsc__array_stream_open(&s, path, arrays, 2, &err), HSC_OK);
    assert_int_equal(hsc__array_stream_put(&s, 0, matrix, ROWS * sizeof(float), &err), HSC_OK);
    assert_int_equal(hsc__array_stream_commit(&s, &err), HSC_EINVAL);
    hsc__array_stream_free(&s);
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
}

static int make_folder(void **unused)
{
    (void)unused;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **unused)
{
    (void)unused;
    return rmdir(folder); /* empty: nothing half-written is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
