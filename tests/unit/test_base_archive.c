/*
 * The archive: records and texts stay where they are and as they were whether memory or the file holds them, across
 * pieces and chunks and after pages were let go; memory holds little of many; and a folder that cannot take the file is
 * named.
 */
#include "base/archive.h"
#include "failing_alloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

/* A record with a pointer to a text of the same archive. */
typedef struct note {
    const char *text;
    size_t n, number;
} note;

/* Texts of 0 to 399 bytes, now and then one of some kilobytes and one that no chunk has room for. */
static size_t length_of(size_t i)
{
    return i == 70000 ? (size_t)17 << 20 : i % 5000 == 77 ? 9000 + i % 7 : i * 37 % 400;
}

static char letter_of(size_t i)
{
    return (char)('a' + i % 26);
}

static void fill(hsc__archive *archive, const note **notes, size_t n)
{
    static char text[(17 << 20) + 1];
    for (size_t i = 0; i < n; i++) {
        note one = {.n = length_of(i), .number = i};
        const void *kept;
        memset(text, letter_of(i), one.n);
        assert_int_equal(hsc__archive_text(archive, text, one.n, &one.text, NULL), HSC_OK);
        assert_int_equal(hsc__archive_put(archive, &one, sizeof one, &kept, NULL), HSC_OK);
        assert_int_equal((uintptr_t)kept % 8, 0);
        notes[i] = kept;
    }
}

static void assert_note(const note *x, size_t i)
{
    assert_int_equal(x->number, i);
    assert_int_equal(x->n, length_of(i));
    assert_int_equal(strlen(x->text), x->n);
    for (size_t k = 0; k < x->n; k += k + 64 < x->n ? 64 : 1)
        if (x->text[k] != letter_of(i)) fail_msg("byte %zu of text %zu is %d", k, i, x->text[k]);
}

static void check(size_t n)
{
    hsc__archive archive = {0};
    const note **notes = calloc(n + 1, sizeof *notes);
    fill(&archive, notes, n);
    for (size_t i = 0; i < n; i++) {
        assert_note(notes[i], i);
        hsc__archive_forget(&archive, i);
    }
    for (size_t i = n; i > 0; i--) assert_note(notes[i * 7919 % n], i * 7919 % n);
    hsc__archive_free(&archive);
    hsc__archive_free(&archive); /* nothing is left to free */
    free(notes);
}

/* In memory alone; some pieces of the file; several chunks, and a text longer than one. */
static void test_records_stay(void **state)
{
    (void)state;
    check(1);
    check(2000);
    check(10000);
    check(100000);
}

/* Bytes of the process that are in memory. */
static size_t resident(void)
{
    unsigned long all, in_memory = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%lu %lu", &all, &in_memory) != 2) in_memory = 0;
    fclose(file);
    return in_memory * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_memory_stays_small(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* shadow memory is counted too */
#endif
    enum { N = 300000, BYTES = 1000, MOST = 16 << 20 };
    hsc__archive archive = {0};
    char record[BYTES] = {1};
    const void **kept = calloc(N, sizeof *kept);
    for (size_t i = 0; i < N; i++) kept[i] = record; /* so that its pages are there */
    size_t before = resident(), most = 0;
    if (!before) skip();
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(hsc__archive_put(&archive, record, sizeof record, &kept[i], NULL), HSC_OK);
        if (i % 1000 == 0 && resident() > most) most = resident();
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(*(const char *)kept[i * 7919 % N], 1);
        hsc__archive_forget(&archive, i);
        if (i % 1000 == 0 && resident() > most) most = resident();
    }
    hsc__archive_free(&archive);
    free(kept);
    if (most - before > MOST) fail_msg("%zu bytes are in memory of %zu", most - before, (size_t)N * BYTES);
}

/* A folder that is not there is named once a file is wanted; what was put before is still there. */
static void test_no_folder(void **state)
{
    (void)state;
    hsc__archive archive = {0};
    hsc_error err = {0};
    char record[1000] = {7}, kept_name[256];
    const void *first, *other;
    const char *named = getenv("TMPDIR");
    snprintf(kept_name, sizeof kept_name, "%s", named ? named : "");
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(hsc__archive_put(&archive, record, sizeof record, &first, &err), HSC_OK);
    hsc_status status = HSC_OK;
    for (int i = 0; status == HSC_OK && i < 2000; i++)
        status = hsc__archive_put(&archive, record, sizeof record, &other, &err);
    assert_int_equal(status, HSC_EIO);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    assert_int_equal(*(const char *)first, 7);
    hsc__archive_free(&archive);
    if (named) setenv("TMPDIR", kept_name, 1);
    else unsetenv("TMPDIR");
}

/* A file that may not become larger, as a full disk, is an error and no signal. */
static void test_full(void **state)
{
    (void)state;
    hsc__archive archive = {0};
    hsc_error err = {0};
    char record[1000] = {7};
    const void *kept;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 3 << 20;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    hsc_status status = HSC_OK;
    for (int i = 0; status == HSC_OK && i < 100000; i++)
        status = hsc__archive_put(&archive, record, sizeof record, &kept, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_int_equal(status, HSC_EIO);
    assert_non_null(strstr(err.message, "cannot write a temporary file of"));
    hsc__archive_free(&archive);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (long k = 1;; k++) {
        failing_alloc failing;
        hsc__archive archive = {0};
        char record[1000] = {7};
        const void *kept;
        hsc_status status = HSC_OK;
        failing_alloc_install(&failing, k);
        for (int i = 0; status == HSC_OK && i < 3000; i++)
            status = hsc__archive_put(&archive, record, sizeof record, &kept, NULL);
        hsc__archive_free(&archive);
        failing_alloc_remove();
        assert_int_equal(failing.held, 0);
        if (status == HSC_OK) break;
        assert_int_equal(status, HSC_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_stay),  cmocka_unit_test(test_memory_stays_small),
        cmocka_unit_test(test_no_folder),     cmocka_unit_test(test_full),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
