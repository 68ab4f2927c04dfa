/* A folder for the files of one test program, whole files, and a locale whose decimal point is a comma. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <dirent.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[512];

/* "<scratch>/name"; the buffer is reused after eight calls. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch_dir, name);
    return path;
}

static inline int scratch_make(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/hsc-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

/* Files of the folder, not those of folders inside it. */
static inline int scratch_count(void)
{
    int n = 0;
    DIR *dir = opendir(scratch_dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) n++;
    }
    closedir(dir);
    return n;
}

static void scratch_remove_all(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        char inner[2048];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (lstat(inner, &info) == 0 && S_ISDIR(info.st_mode)) scratch_remove_all(inner);
        else unlink(inner);
    }
    if (dir) closedir(dir);
    rmdir(path);
}

static inline int scratch_remove(void **state)
{
    (void)state;
    scratch_remove_all(scratch_dir);
    return 0;
}

/* The whole file, NUL-terminated, to be freed; NULL when it cannot be read. */
static inline char *scratch_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *bytes = NULL;
    size_t size = 0;
    for (size_t got = 1; got > 0; size += got) {
        bytes = realloc(bytes, size + 65537);
        got = fread(bytes + size, 1, 65536, f);
    }
    fclose(f);
    bytes[size] = '\0';
    if (n) *n = size;
    return bytes;
}

/* Writes a file; false when it cannot. */
static inline bool scratch_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool good = fwrite(bytes, 1, n, f) == n;
    return fclose(f) == 0 && good;
}

/* Sets a locale that writes 0,5 for a half and returns true: glibc's own C.UTF-8 with another decimal point, since a
 * machine need not have a German one. setlocale(LC_ALL, "C") ends it. */
static inline bool scratch_comma_locale(void)
{
    static const char *const homes[] = {"/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8"};
    char copied[1024], text[16];
    const char *const home = access(homes[0], R_OK) == 0 ? homes[0] : homes[1];
    snprintf(copied, sizeof copied, "%s/LC_NUMERIC", home);
    size_t n = 0;
    char *numeric = scratch_read(copied, &n);
    if (!numeric) return false;
    for (size_t i = 0; i < n; i++) {
        if (numeric[i] == '.') numeric[i] = ',';
    }
    mkdir(scratch_path("locale"), 0777);
    mkdir(scratch_path("locale/comma.utf8"), 0777);
    bool good = scratch_write(scratch_path("locale/comma.utf8/LC_NUMERIC"), numeric, n);
    free(numeric);
    setenv("LOCPATH", scratch_path("locale"), 1);
    good = good && setlocale(LC_NUMERIC, "comma.utf8");
    unsetenv("LOCPATH");
    snprintf(text, sizeof text, "%.1f", 0.5);
    return good && strcmp(text, "0,5") == 0;
}

#endif
