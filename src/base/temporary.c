/* Files without a name, read and written with pread and pwrite: pages of a mapping count as the process's memory, those
 * of a file that is read in pieces do not. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/temporary.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static const char *folder_for_files(void)
{
    const char *named = getenv("TMPDIR");
    if (named && *named) return named;
    return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

static hsc_status fail_file(const hsc__temporary *t, const char *action, hsc_error *err)
{
    return hsc__fail(err, HSC_EIO, 0,
                     "%s: cannot %s a temporary file of %llu bytes there (TMPDIR names another folder): %s", t->folder,
                     action, (unsigned long long)t->size, strerror(errno));
}

/* A descriptor, or -1. A file that never had a name is not left behind even by a process that is killed in between; not
 * every file system has such files. */
static int make_file(const char *folder, char *path)
{
#ifdef O_TMPFILE
    int file = open(folder, O_TMPFILE | O_RDWR | O_EXCL, 0600);
#else
    int file = -1;
    (void)folder;
#endif
    if (file >= 0) return file;
    file = mkstemp(path);
    if (file >= 0) unlink(path);
    return file;
}

hsc_status hsc__temporary_open(hsc__temporary *t, uint64_t size, hsc_error *err)
{
    const char *folder = folder_for_files();
    *t = (hsc__temporary){.size = size, .folder = hsc__strndup(folder, strlen(folder))};
    char *path = hsc__path_join(folder, "headscope-XXXXXX");
    if (!t->folder || !path) {
        hsc__free(path);
        return hsc__fail_memory(err, strlen(folder), "the path of a temporary file");
    }
    int file = make_file(folder, path);
    hsc_status status = HSC_OK;
    if (file < 0) status = fail_file(t, "make", err);
    else {
        t->file = file + 1;
        fcntl(file, F_SETFD, FD_CLOEXEC);
        if (ftruncate(file, (off_t)size) != 0) status = fail_file(t, "make", err);
    }
    hsc__free(path);
    return status;
}

void hsc__temporary_close(hsc__temporary *t)
{
    hsc__free(t->folder);
    if (t->file) close(t->file - 1);
    *t = (hsc__temporary){0};
}

hsc_status hsc__temporary_write(hsc__temporary *t, uint64_t at, const void *bytes, size_t n, hsc_error *err)
{
    const unsigned char *from = bytes;
    if (at + n > t->size) t->size = at + n;
    for (size_t done = 0; done < n;) {
        ssize_t wrote = pwrite(t->file - 1, from + done, n - done, (off_t)(at + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_file(t, "write", err);
        done += (size_t)wrote;
    }
    return HSC_OK;
}

hsc_status hsc__temporary_read(const hsc__temporary *t, uint64_t at, void *bytes, size_t n, hsc_error *err)
{
    unsigned char *to = bytes;
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(t->file - 1, to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; /* the file is shorter than it was made */
        if (got <= 0) return fail_file(t, "read", err);
        done += (size_t)got;
    }
    return HSC_OK;
}
