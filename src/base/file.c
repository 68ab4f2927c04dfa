/* POSIX files behind the contracts of file.h. */
#include "base/file.h"

#include "base/alloc.h"
#include "base/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static hsc_status fail_system(hsc_error *err, const char *path, const char *action)
{
    hsc_status code = errno == ENOENT || errno == ENOTDIR ? HSC_ENOTFOUND : HSC_EIO;
    return hsc__fail(err, code, 0, "%s: cannot %s: %s", path, action, strerror(errno));
}

/* Opens a regular file for reading and gives its size. */
static hsc_status open_regular(int *fd, uint64_t *size, const char *path, hsc_error *err)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a FIFO must not hang the open */
    if (*fd < 0) return fail_system(err, path, "open");
    hsc_status status = HSC_OK;
    if (fstat(*fd, &info) != 0) status = fail_system(err, path, "read its size");
    else if (S_ISDIR(info.st_mode)) status = hsc__fail(err, HSC_EIO, 0, "%s: is a directory, a file is expected", path);
    else if (!S_ISREG(info.st_mode)) status = hsc__fail(err, HSC_EIO, 0, "%s: is not a regular file", path);
    if (status != HSC_OK) {
        close(*fd);
        return status;
    }
    *size = (uint64_t)info.st_size;
    return HSC_OK;
}

hsc_status hsc__map_open(hsc__map *out, const char *path, hsc_error *err)
{
    int fd;
    *out = (hsc__map){0};
    HSC_TRY(open_regular(&fd, &out->size, path, err));
    if (out->size == 0) {
        close(fd);
        out->data = (const unsigned char *)"";
        return HSC_OK;
    }
    void *address = out->size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)out->size, PROT_READ, MAP_PRIVATE, fd, 0);
    int saved = errno;
    close(fd);
    errno = saved;
    if (address == MAP_FAILED) return fail_system(err, path, "map");
    hsc__pages_prefer_huge(address, out->size);
    out->address = address;
    out->data = address;
    return HSC_OK;
}

void hsc__map_close(hsc__map *map)
{
    if (map->address) munmap(map->address, (size_t)map->size);
    *map = (hsc__map){0};
}

hsc_status hsc__read_file(char **out, size_t *n_bytes, const char *path, size_t limit, hsc_error *err)
{
    int fd;
    uint64_t size = 0;
    *out = NULL;
    HSC_TRY(open_regular(&fd, &size, path, err));
    if (size > limit) {
        close(fd);
        return hsc__fail(err, HSC_EFORMAT, 0, "%s: is %llu bytes, at most %zu are accepted", path,
                         (unsigned long long)size, limit);
    }
    char *text = hsc__malloc((size_t)size + 1);
    if (!text) {
        close(fd);
        return hsc__fail_memory(err, (size_t)size + 1, path);
    }
    size_t got = 0;
    while (got < size) {
        ssize_t n = read(fd, text + got, (size_t)size - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            hsc_status status = fail_system(err, path, "read");
            close(fd);
            hsc__free(text);
            return status;
        }
        if (n == 0) break; /* it shrank meanwhile */
        got += (size_t)n;
    }
    close(fd);
    text[got] = '\0';
    *out = text;
    if (n_bytes) *n_bytes = got;
    return HSC_OK;
}

bool hsc__is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool hsc__is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

char *hsc__path_join(const char *dir, const char *name)
{
    size_t n_dir = strlen(dir), n_name = strlen(name);
    while (n_dir > 1 && dir[n_dir - 1] == '/') n_dir--;
    char *path = hsc__malloc(n_dir + n_name + 2);
    if (!path) return NULL;
    memcpy(path, dir, n_dir);
    size_t at = n_dir;
    if (n_dir && dir[n_dir - 1] != '/') path[at++] = '/';
    memcpy(path + at, name, n_name + 1);
    return path;
}

hsc_status hsc__make_dirs(const char *path, hsc_error *err)
{
    size_t n = strlen(path);
    char *part = hsc__strndup(path, n);
    if (!part) return hsc__fail_memory(err, n + 1, path);
    hsc_status status = HSC_OK;
    for (size_t i = 1; i <= n && status == HSC_OK; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) status = fail_system(err, part, "create the directory");
        else if (!hsc__is_dir(part)) status = hsc__fail(err, HSC_EIO, 0, "%s: exists and is not a directory", part);
        part[i] = path[i];
    }
    hsc__free(part);
    return status;
}

/* The file that a path stands for in the end, so that writing through a link leaves the link in place. */
static char *follow_link(const char *path)
{
    struct stat info;
    char resolved[PATH_MAX];
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && realpath(path, resolved)) path = resolved;
    return hsc__strndup(path, strlen(path));
}

/* Opens the neighbour, PATH.part.PROCESS.NUMBER with a number that is free; -1 with errno, or -2 when memory is out.
 * open applies the umask, which a library cannot read without changing it for all threads (so no mkstemp). */
static int open_temporary(hsc__output *out)
{
    enum { ENDING = 64, TRIES = 1000 };
    size_t n = strlen(out->path);
    out->temporary = hsc__malloc(n + ENDING);
    if (!out->temporary) return -2;
    memcpy(out->temporary, out->path, n);
    int fd = -1;
    for (int i = 0; i < TRIES; i++) {
        snprintf(out->temporary + n, ENDING, ".part.%ld.%d", (long)getpid(), i);
        fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) {
        int saved = errno;
        hsc__free(out->temporary);
        out->temporary = NULL;
        errno = saved;
    }
    return fd;
}

hsc_status hsc__output_open(hsc__output *out, const char *path, hsc_error *err)
{
    struct stat info;
    *out = (hsc__output){0};
    /* Standard output may be a regular file by now: it is continued, not replaced by a renamed one. */
    int standard = strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 ? STDOUT_FILENO
                   : strcmp(path, "/dev/stderr") == 0                         ? STDERR_FILENO
                                                                              : -1;
    out->path = standard >= 0 ? hsc__strndup(path, strlen(path)) : follow_link(path);
    out->name = hsc__strndup(path, strlen(path));
    if (!out->path || !out->name) {
        hsc__output_abort(out);
        return hsc__fail_memory(err, strlen(path) + 1, path);
    }
    int fd = standard >= 0                                      ? dup(standard)
             : stat(path, &info) == 0 && !S_ISREG(info.st_mode) ? open(path, O_WRONLY | O_CLOEXEC)
                                                                : open_temporary(out);
    if (fd == -2) {
        hsc__output_abort(out);
        return hsc__fail_memory(err, strlen(path), path);
    }
    if (fd >= 0) out->stream = fdopen(fd, "wb");
    if (!out->stream) {
        hsc_status status = fail_system(err, path, "write");
        if (fd >= 0) close(fd);
        hsc__output_abort(out);
        return status;
    }
    return HSC_OK;
}

hsc_status hsc__output_commit(hsc__output *out, hsc_error *err)
{
    int bad = ferror(out->stream);
    errno = 0;
    if (bad) { /* the reason of an earlier failure is gone: one more byte tells it again */
        clearerr(out->stream);
        fputc(0, out->stream);
    }
    bad |= fflush(out->stream) != 0;
    if (!errno && bad) errno = EIO;
    int saved = errno;
    if (fclose(out->stream) != 0 && !bad) {
        bad = 1;
        saved = errno;
    }
    out->stream = NULL;
    if (!bad && out->temporary && rename(out->temporary, out->path) != 0) {
        bad = 1;
        saved = errno;
    }
    hsc_status status = HSC_OK;
    if (bad) {
        errno = saved;
        status = fail_system(err, out->name, "write");
    } else {
        hsc__free(out->temporary);
        out->temporary = NULL;
    }
    hsc__output_abort(out);
    return status;
}

void hsc__output_abort(hsc__output *out)
{
    if (out->stream) fclose(out->stream);
    if (out->temporary) unlink(out->temporary);
    hsc__free(out->temporary);
    hsc__free(out->path);
    hsc__free(out->name);
    *out = (hsc__output){0};
}
