/* What the tests of formats share: growing byte strings, blocks of exactly n bytes (so that the address sanitizer sees
 * a read past the end), folders that go away, an allocator that counts and fails, and the manifest of test files. */
#ifndef TEST_FORMATS_SUPPORT_H
#define TEST_FORMATS_SUPPORT_H

#include "base/alloc.h"
#include "base/file.h"
#include "formats/json.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define UNUSED __attribute__((unused))

/* ---- bytes ---- */

typedef struct bytes {
    unsigned char *data;
    size_t n, capacity;
} bytes;

static UNUSED void put(bytes *b, const void *data, size_t n)
{
    if (b->n + n >= b->capacity) {
        b->capacity = 2 * (b->n + n) + 64;
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
}

static UNUSED void put_u32(bytes *b, uint32_t value)
{
    put(b, &value, 4);
}

static UNUSED void put_u64(bytes *b, uint64_t value)
{
    put(b, &value, 8);
}

static UNUSED void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* A length of 8 bytes and the text, as GGUF has it. */
static UNUSED void put_string(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put_text(b, text);
}

static UNUSED void put_zeros(bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) put(b, "", 1);
}

static UNUSED void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

/* A block of exactly n bytes. */
static UNUSED void *exact(const void *data, size_t n)
{
    void *block = malloc(n ? n : 1);
    assert_non_null(block);
    if (n) memcpy(block, data, n);
    return block;
}

/* What is left of a file when it is cut at any byte, and the file with any one bit turned, are parsed; nothing may be
 * read that is not there. */
static UNUSED void each_damage(bytes *b, hsc_status (*parse)(const void *data, size_t n, hsc_error *err))
{
    hsc_error err;
    for (size_t n = 0; n < b->n; n++) (void)parse(b->data, n, &err);
    for (size_t i = 0; i < b->n * 8; i++) {
        unsigned char mask = (unsigned char)(1 << (i % 8)), *at = &b->data[i / 8];
        *at ^= mask;
        (void)parse(b->data, b->n, &err);
        *at ^= mask;
    }
}

/* ---- files ---- */

static UNUSED char *path_in(const char *dir, const char *name)
{
    static char paths[8][1024];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static UNUSED void write_file(const char *dir, const char *name, const void *data, size_t n)
{
    FILE *file = fopen(path_in(dir, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static UNUSED void write_bytes(const char *dir, const char *name, const bytes *b)
{
    write_file(dir, name, b->data, b->n);
}

static UNUSED bytes read_bytes(const char *path)
{
    bytes b = {0};
    char *text;
    hsc_error err = {0};
    if (hsc__read_file(&text, &b.n, path, (size_t)1 << 30, &err) != HSC_OK) fail_msg("%s", err.message);
    b.data = exact(text, b.n);
    hsc__free(text);
    return b;
}

/* A new folder below the system's temporary one. */
static UNUSED char *new_folder(void)
{
    static char dir[256];
    snprintf(dir, sizeof dir, "%s/headscope-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static UNUSED size_t count_files(const char *dir)
{
    DIR *stream = opendir(dir);
    assert_non_null(stream);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(stream));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(stream);
    return n;
}

static UNUSED void remove_folder(const char *dir)
{
    DIR *stream = opendir(dir);
    if (!stream) return;
    for (struct dirent *e; (e = readdir(stream));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) remove_folder(path);
        else unlink(path);
    }
    closedir(stream);
    rmdir(dir);
}

/* ---- memory ---- */

/* Counts blocks and bytes, remembers the peak, fails the allocation number fail_at (from 1; 0: never). */
static struct counter {
    size_t n_calls, fail_at, n_blocks, n_bytes, peak;
} counter;

enum { BLOCK_HEAD = 16 };

static void *counter_alloc(void *user, size_t n)
{
    (void)user;
    if (++counter.n_calls == counter.fail_at) return NULL;
    char *block = malloc(n + BLOCK_HEAD);
    if (!block) return NULL;
    memcpy(block, &n, sizeof n);
    counter.n_blocks++;
    counter.n_bytes += n;
    if (counter.n_bytes > counter.peak) counter.peak = counter.n_bytes;
    return block + BLOCK_HEAD;
}

static void counter_free(void *user, void *ptr)
{
    (void)user;
    if (!ptr) return;
    size_t n;
    memcpy(&n, (char *)ptr - BLOCK_HEAD, sizeof n);
    counter.n_blocks--;
    counter.n_bytes -= n;
    free((char *)ptr - BLOCK_HEAD);
}

static void *counter_realloc(void *user, void *ptr, size_t n)
{
    void *grown = counter_alloc(user, n);
    if (!grown || !ptr) return grown;
    size_t old;
    memcpy(&old, (char *)ptr - BLOCK_HEAD, sizeof old);
    memcpy(grown, ptr, old < n ? old : n);
    counter_free(user, ptr);
    return grown;
}

static UNUSED void counter_start(size_t fail_at)
{
    static const hsc_allocator allocator = {counter_alloc, counter_realloc, counter_free, NULL};
    counter = (struct counter){.fail_at = fail_at};
    hsc_set_allocator(&allocator);
}

/* Everything must have been given back. */
static UNUSED void counter_stop(void)
{
    hsc_set_allocator(NULL);
    if (counter.n_blocks) fail_msg("%zu blocks were not freed", counter.n_blocks);
}

/* ---- test data ---- */

/* The folder with MANIFEST.json, or NULL when there are no test data. */
static UNUSED const char *formats_folder(void)
{
    static char dir[1024];
    const char *data = getenv("HEADSCOPE_TEST_DATA");
    if (!data) return NULL;
    snprintf(dir, sizeof dir, "%s/formats", data);
    return hsc__is_file(path_in(dir, "MANIFEST.json")) ? dir : NULL;
}

/* Calls visit for each file of the manifest whose path starts with `prefix`; returns how many there were. */
static UNUSED int each_manifest_file(const char *prefix, void (*visit)(const char *path, bool sound))
{
    const char *dir = formats_folder();
    json_t *manifest;
    hsc_error err = {0};
    if (hsc__json_load(&manifest, path_in(dir, "MANIFEST.json"), 1 << 20, &err) != HSC_OK) fail_msg("%s", err.message);
    int n = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(manifest, i, entry)
    {
        const char *file = json_string_value(json_object_get(entry, "file"));
        const char *expect = json_string_value(json_object_get(entry, "expect"));
        if (strncmp(file, prefix, strlen(prefix)) != 0) continue;
        assert_true(strcmp(expect, "ok") == 0 || strcmp(expect, "reject") == 0);
        visit(path_in(dir, file), strcmp(expect, "ok") == 0);
        n++;
    }
    json_decref(manifest);
    return n;
}

/* The exit status: 77 when all that could run passed but the test data are absent. */
static UNUSED int finish(int failed)
{
    if (failed || formats_folder()) return failed;
    printf("skipped: no test data at HEADSCOPE_TEST_DATA\n");
    return 77;
}

#endif
