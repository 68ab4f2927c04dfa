/* Files: what is refused and how it is said, and output that is whole or not there. */
#include "base/alloc.h"
#include "base/file.h"
#include "failing_alloc.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void make(const char *name, const char *text)
{
    assert_true(scratch_write(scratch_path(name), text, strlen(text)));
}

static void assert_holds(const char *name, const char *text)
{
    size_t n;
    char *got = scratch_read(scratch_path(name), &n);
    assert_non_null(got);
    assert_int_equal(n, strlen(text));
    assert_string_equal(got, text);
    free(got);
}

static void test_map(void **state)
{
    (void)state;
    hsc__map map;
    hsc_error err = {0};
    make("map", "hello");
    assert_int_equal(hsc__map_open(&map, scratch_path("map"), &err), HSC_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "hello", 5);
    hsc__map_close(&map);
    assert_null(map.address);
    make("empty", "");
    assert_int_equal(hsc__map_open(&map, scratch_path("empty"), &err), HSC_OK);
    assert_int_equal(map.size, 0);
    assert_non_null(map.data);
    hsc__map_close(&map);
    hsc__map_close(&map);
}

/* Every way to open a file says the path and the reason. */
static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    hsc__map map;
    char *text;
    size_t n;
    hsc_error err = {0};
    const char *absent = scratch_path("absent"), *fifo = scratch_path("fifo");
    assert_int_equal(hsc__map_open(&map, absent, &err), HSC_ENOTFOUND);
    assert_non_null(strstr(err.message, absent));
    assert_int_equal(hsc__read_file(&text, &n, absent, 10, &err), HSC_ENOTFOUND);
    assert_null(text);
    assert_int_equal(hsc__map_open(&map, scratch_dir, &err), HSC_EIO);
    assert_non_null(strstr(err.message, "is a directory"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(hsc__map_open(&map, fifo, &err), HSC_EIO); /* and does not wait for a writer */
    assert_int_equal(hsc__map_open(&map, "/dev/null", &err), HSC_EIO);
    assert_int_equal(hsc__map_open(&map, scratch_path("fifo/x"), NULL), HSC_ENOTFOUND);
    unlink(fifo);
}

static void test_read_file(void **state)
{
    (void)state;
    char *text;
    size_t n;
    hsc_error err = {0};
    assert_true(scratch_write(scratch_path("whole"), "a\0b", 3));
    assert_int_equal(hsc__read_file(&text, &n, scratch_path("whole"), 3, &err), HSC_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b\0", 4);
    hsc__free(text);
    assert_int_equal(hsc__read_file(&text, NULL, scratch_path("whole"), 2, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "3 bytes"));
    assert_non_null(strstr(err.message, "at most 2"));
    failing_alloc failing;
    failing_alloc_install(&failing, 1);
    assert_int_equal(hsc__read_file(&text, &n, scratch_path("whole"), 3, &err), HSC_ENOMEM);
    failing_alloc_remove();
    assert_null(text);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a//", "b", "a/b"},
                                           {"/", "b", "/b"},  {"", "b", "b"},     {"m x/\u65e5", "b", "m x/\u65e5/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *joined = hsc__path_join(cases[i][0], cases[i][1]);
        assert_string_equal(joined, cases[i][2]);
        hsc__free(joined);
    }
    make("file", "");
    assert_true(hsc__is_dir(scratch_dir));
    assert_false(hsc__is_dir(scratch_path("file")));
    assert_true(hsc__is_file(scratch_path("file")));
    assert_false(hsc__is_file(scratch_dir));
    assert_false(hsc__is_file(scratch_path("absent")));
}

static void test_make_dirs(void **state)
{
    (void)state;
    hsc_error err = {0};
    assert_int_equal(hsc__make_dirs(scratch_path("d/e \u00e9/f"), &err), HSC_OK);
    assert_true(hsc__is_dir(scratch_path("d/e \u00e9/f")));
    assert_int_equal(hsc__make_dirs(scratch_path("d/e \u00e9/f/"), &err), HSC_OK);
    make("plain", "");
    assert_int_equal(hsc__make_dirs(scratch_path("plain/x"), &err), HSC_EIO);
    assert_non_null(strstr(err.message, "plain"));
}

static void test_output_appears_only_when_whole(void **state)
{
    (void)state;
    hsc__output out;
    hsc_error err = {0};
    make("out", "old");
    int before = scratch_count();
    assert_int_equal(hsc__output_open(&out, scratch_path("out"), &err), HSC_OK);
    fputs("new", out.stream);
    fflush(out.stream);
    assert_holds("out", "old");
    assert_int_equal(hsc__output_commit(&out, &err), HSC_OK);
    assert_holds("out", "new");
    assert_int_equal(hsc__output_open(&out, scratch_path("out"), &err), HSC_OK);
    fputs("half", out.stream);
    hsc__output_abort(&out);
    assert_holds("out", "new");
    assert_int_equal(scratch_count(), before);
}

static void test_output_has_the_usual_permissions(void **state)
{
    (void)state;
    hsc__output out;
    struct stat info;
    mode_t mask = umask(027);
    assert_int_equal(hsc__output_open(&out, scratch_path("mode"), NULL), HSC_OK);
    assert_int_equal(hsc__output_commit(&out, NULL), HSC_OK);
    umask(mask);
    assert_int_equal(stat(scratch_path("mode"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void test_output_that_cannot_be(void **state)
{
    (void)state;
    hsc__output out;
    hsc_error err = {0};
    assert_int_equal(hsc__output_open(&out, scratch_path("no/such/out"), &err), HSC_ENOTFOUND);
    assert_non_null(strstr(err.message, "no/such/out"));
    assert_null(out.stream);
    assert_int_equal(hsc__output_open(&out, scratch_dir, &err), HSC_EIO);
    assert_non_null(strstr(err.message, "irectory"));
    hsc__output_abort(&out); /* after a failed open nothing is left to do, and it does nothing */
}

/* A full disk: the message has the path and the system's reason, however late the write is noticed. */
static void test_full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    for (int kib = 0; kib <= 256; kib += 256) {
        hsc__output out;
        hsc_error err = {0};
        assert_int_equal(hsc__output_open(&out, "/dev/full", &err), HSC_OK);
        fputs("x", out.stream);
        for (int i = 0; i < kib * 1024; i++) fputc('x', out.stream);
        assert_int_equal(hsc__output_commit(&out, &err), HSC_EIO);
        assert_non_null(strstr(err.message, "/dev/full"));
        assert_non_null(strstr(err.message, strerror(ENOSPC)));
        assert_int_equal(access("/dev/full", W_OK), 0);
    }
}

/* Writing through a link leaves the link and changes what it points to; standard output by its device name is continued
 * and not renamed away. */
static void test_output_through_links(void **state)
{
    (void)state;
    hsc__output out;
    struct stat info;
    assert_int_equal(symlink("target", scratch_path("link")), 0);
    FILE *f = fopen(scratch_path("target"), "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(hsc__output_open(&out, scratch_path("link"), NULL), HSC_OK);
    fputs("through", out.stream);
    assert_int_equal(hsc__output_commit(&out, NULL), HSC_OK);
    assert_int_equal(lstat(scratch_path("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_holds("target", "through");
    int saved = dup(STDOUT_FILENO), fd = open(scratch_path("device"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    hsc_status opened = hsc__output_open(&out, "/dev/stdout", NULL);
    if (opened == HSC_OK) fputs("bytes", out.stream);
    hsc_status written = opened == HSC_OK ? hsc__output_commit(&out, NULL) : opened;
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(fd);
    assert_int_equal(written, HSC_OK);
    assert_holds("device", "bytes");
    assert_int_equal(lstat("/dev/stdout", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

static void test_output_to_standard_output(void **state)
{
    (void)state;
    hsc__output out;
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), fd = open(scratch_path("stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDOUT_FILENO);
    hsc_status opened = hsc__output_open(&out, "-", NULL);
    if (opened == HSC_OK) fputs("bytes", out.stream);
    hsc_status written = opened == HSC_OK ? hsc__output_commit(&out, NULL) : opened;
    bool still_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(fd);
    assert_int_equal(opened, HSC_OK);
    assert_int_equal(written, HSC_OK);
    assert_true(still_open);
    assert_holds("stdout", "bytes");
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    failing_alloc failing;
    hsc__output out;
    int before = scratch_count();
    for (long k = 1;; k++) {
        hsc_error err = {0};
        failing_alloc_install(&failing, k);
        hsc_status status = hsc__output_open(&out, scratch_path("memory"), &err);
        if (status == HSC_OK) status = hsc__output_commit(&out, &err);
        failing_alloc_remove();
        assert_int_equal(failing.held, 0);
        if (status == HSC_OK) break;
        assert_int_equal(status, HSC_ENOMEM);
        assert_int_equal(scratch_count(), before);
        assert_true(k < 100);
    }
    assert_holds("memory", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_make_dirs),
        cmocka_unit_test(test_output_appears_only_when_whole),
        cmocka_unit_test(test_output_has_the_usual_permissions),
        cmocka_unit_test(test_output_that_cannot_be),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_output_through_links),
        cmocka_unit_test(test_output_to_standard_output),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
