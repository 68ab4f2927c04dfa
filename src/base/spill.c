/* Bytes in memory or in an unlinked file. The file is read and written with pread and pwrite and never mapped: pages of
 * a mapping count as the process's memory, those of a file that is read in pieces do not. */
#include "base/spill.h"

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

static hsc_status fail_file(const hsc__spill *spill, const char *action, hsc_error *err)
{
    return hsc__fail(err, HSC_EIO, 0,
                     "%s: cannot %s a temporary file of %llu bytes there (TMPDIR names another folder): %s",
                     spill->folder, action, (unsigned long long)spill->size, strerror(errno));
}

/* Makes the file and takes its name away at once, so that nothing is left behind however the process ends. */
static hsc_status open_file(hsc__spill *spill, hsc_error *err)
{
    const char *folder = folder_for_files();
    spill->folder = hsc__strndup(folder, strlen(folder));
    char *path = hsc__path_join(folder, "headscope-XXXXXX");
    if (!spill->folder || !path) {
        hsc__free(path);
        return hsc__fail_memory(err, strlen(folder), "the path of a temporary file");
    }
    int file = mkstemp(path);
    hsc_status status = HSC_OK;
    if (file < 0) status = fail_file(spill, "make", err);
    else {
        spill->file = file + 1;
        unlink(path);
        fcntl(file, F_SETFD, FD_CLOEXEC);
        if (ftruncate(file, (off_t)spill->size) != 0) status = fail_file(spill, "make", err);
    }
    hsc__free(path);
    return status;
}

hsc_status hsc__spill_open(hsc__spill *spill, uint64_t size, size_t in_memory, hsc_error *err)
{
    *spill = (hsc__spill){.size = size};
    if (size > in_memory) return open_file(spill, err);
    spill->memory = hsc__calloc((size_t)size + 1, 1);
    return spill->memory ? HSC_OK : hsc__fail_memory(err, (size_t)size, "an array");
}

void hsc__spill_free(hsc__spill *spill)
{
    hsc__free(spill->memory);
    hsc__free(spill->folder);
    if (spill->file) close(spill->file - 1);
    *spill = (hsc__spill){0};
}

hsc_status hsc__spill_write(hsc__spill *spill, uint64_t at, const void *bytes, size_t n, hsc_error *err)
{
    const unsigned char *from = bytes;
    if (spill->memory) {
        memcpy(spill->memory + at, from, n);
        return HSC_OK;
    }
    for (size_t done = 0; done < n;) {
        ssize_t wrote = pwrite(spill->file - 1, from + done, n - done, (off_t)(at + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_file(spill, "write", err);
        done += (size_t)wrote;
    }
    return HSC_OK;
}

hsc_status hsc__spill_read(const hsc__spill *spill, uint64_t at, void *bytes, size_t n, hsc_error *err)
{
    unsigned char *to = bytes;
    if (spill->memory) {
        memcpy(to, spill->memory + at, n);
        return HSC_OK;
    }
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(spill->file - 1, to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; /* the file is shorter than it was made */
        if (got <= 0) return fail_file(spill, "read", err);
        done += (size_t)got;
    }
    return HSC_OK;
}
