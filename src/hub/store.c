/* The cache on disk behind the contracts of store.h. */
#include "hub/store.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "hub/name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static hsc_status fail_system(hsc_error *err, const char *path, const char *action)
{
    return hsc__fail(err, HSC_EIO, 0, "%s: cannot %s: %s", path, action, strerror(errno));
}

static hsc_status fail_path_memory(hsc_error *err)
{
    return hsc__fail_memory(err, 4096, "a path in the cache");
}

/* "models--org--name". */
static char *folder_name(const char *repo)
{
    const char *slash = strchr(repo, '/');
    if (!slash) return hsc__hub_format("models--%s", repo);
    return hsc__hub_format("models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
}

hsc_status hsc__store_open(hsc__store *out, const char *cache, const char *repo, hsc_error *err)
{
    *out = (hsc__store){.cache = hsc__strndup(cache, strlen(cache))};
    char *name = folder_name(repo);
    if (name) {
        out->folder = hsc__path_join(cache, name);
        out->locks = hsc__hub_format("%s/.locks/%s", cache, name);
    }
    hsc__free(name);
    if (out->cache && out->folder && out->locks) return HSC_OK;
    hsc__store_close(out);
    return fail_path_memory(err);
}

void hsc__store_close(hsc__store *store)
{
    hsc__free(store->cache);
    hsc__free(store->folder);
    hsc__free(store->locks);
    *store = (hsc__store){0};
}

char *hsc__store_snapshot(const hsc__store *store, const char *commit)
{
    return hsc__hub_format("%s/snapshots/%s", store->folder, commit);
}

char *hsc__store_pointer(const hsc__store *store, const char *commit, const char *file)
{
    return hsc__hub_format("%s/snapshots/%s/%s", store->folder, commit, file);
}

char *hsc__store_blob(const hsc__store *store, const char *oid)
{
    return hsc__hub_format("%s/blobs/%s", store->folder, oid);
}

hsc_status hsc__store_commit(const hsc__store *store, const char *revision, char commit[41], hsc_error *err)
{
    if (hsc__hub_is_hex(revision, 40)) {
        memcpy(commit, revision, 41);
        return HSC_OK;
    }
    char *path = hsc__hub_format("%s/refs/%s", store->folder, revision);
    if (!path) return fail_path_memory(err);
    char *text = NULL;
    hsc_status status = hsc__read_file(&text, NULL, path, 4096, err);
    if (status == HSC_OK) {
        size_t n = strlen(text);
        while (n && strchr(" \t\r\n", text[n - 1])) text[--n] = '\0';
        if (hsc__hub_is_hex(text, 40)) memcpy(commit, text, 41);
        else status = hsc__fail(err, HSC_EFORMAT, 0, "%s: does not hold a commit (40 hexadecimal digits)", path);
    }
    hsc__free(text);
    hsc__free(path);
    return status;
}

/* Backup programs skip a folder that holds this file; huggingface_hub writes it too. Not worth failing for. */
static void tag_cache(const hsc__store *store)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This file marks a cache of models that can be fetched again.\n";
    char *path = hsc__path_join(store->cache, "CACHEDIR.TAG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (fd >= 0) {
        if (write(fd, tag, sizeof tag - 1) < 0) unlink(path);
        close(fd);
    }
    hsc__free(path);
}

/* Creates the folder that a file stands in. */
static hsc_status make_parent(const char *path, hsc_error *err)
{
    char *parent = hsc__strndup(path, (size_t)(strrchr(path, '/') - path));
    if (!parent) return fail_path_memory(err);
    hsc_status status = hsc__make_dirs(parent, err);
    hsc__free(parent);
    return status;
}

hsc_status hsc__store_prepare(const hsc__store *store, const char *commit, const char *file, hsc_error *err)
{
    char *pointer = hsc__store_pointer(store, commit, file);
    char *blob = hsc__store_blob(store, "x");
    hsc_status status = pointer && blob ? HSC_OK : fail_path_memory(err);
    if (status == HSC_OK) status = make_parent(blob, err);
    if (status == HSC_OK) status = make_parent(pointer, err);
    if (status == HSC_OK) status = hsc__make_dirs(store->locks, err);
    hsc__free(pointer);
    hsc__free(blob);
    if (status == HSC_OK) tag_cache(store);
    return status;
}

/* The lock file may have been removed between our open and our lock; then the lock is on nothing. */
static bool still_named(int fd, const char *path)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

hsc_status hsc__store_lock_try(hsc__store_lock *lock, bool *held, const hsc__store *store, const char *oid,
                               hsc_error *err)
{
    *lock = (hsc__store_lock){.fd = -1};
    *held = false;
    char *path = hsc__hub_format("%s/%s.lock", store->locks, oid);
    if (!path) return fail_path_memory(err);
    hsc_status status = HSC_OK;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0) {
        status = fail_system(err, path, "open the lock");
    } else if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *held = still_named(fd, path);
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
        *held = true; /* no locks on this file system */
        close(fd);
        fd = -1;
    }
    if (*held) lock->fd = fd;
    else if (fd >= 0) close(fd);
    hsc__free(path);
    return status;
}

void hsc__store_unlock(hsc__store_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}

/* "../../blobs/<oid>" with one more "../" for each folder in the file's name. */
static char *link_target(const char *file, const char *oid)
{
    hsc__string target = {0};
    hsc__string_text(&target, "../../");
    for (const char *c = file; *c; c++)
        if (*c == '/') hsc__string_text(&target, "../");
    hsc__string_printf(&target, "blobs/%s", oid);
    if (!target.failed) return target.data;
    hsc__string_free(&target);
    return NULL;
}

static bool has_no_links(int reason)
{
    return reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS || reason == EACCES;
}

hsc_status hsc__store_link(const hsc__store *store, const char *commit, const char *file, const char *oid,
                           hsc_error *err)
{
    char *pointer = hsc__store_pointer(store, commit, file), *blob = hsc__store_blob(store, oid);
    char *target = link_target(file, oid);
    char *beside = pointer ? hsc__hub_format("%s.%ld.link", pointer, (long)getpid()) : NULL;
    hsc_status status = HSC_OK;
    if (!pointer || !blob || !target || !beside) {
        status = fail_path_memory(err);
    } else {
        unlink(beside);
        bool linked = symlink(target, beside) == 0;
        if (!linked && !has_no_links(errno)) status = fail_system(err, pointer, "make the link");
        else if (rename(linked ? beside : blob, pointer) != 0)
            status = fail_system(err, pointer, "put the file in place");
        if (status != HSC_OK && linked) unlink(beside);
    }
    hsc__free(pointer);
    hsc__free(blob);
    hsc__free(target);
    hsc__free(beside);
    return status;
}

static hsc_status write_text(const char *path, const char *text, hsc_error *err)
{
    hsc__output out;
    HSC_TRY(make_parent(path, err));
    HSC_TRY(hsc__output_open(&out, path, err));
    fputs(text, out.stream); /* commit checks the stream */
    return hsc__output_commit(&out, err);
}

hsc_status hsc__store_write_ref(const hsc__store *store, const char *revision, const char *commit, hsc_error *err)
{
    char known[41];
    if (hsc__store_commit(store, revision, known, NULL) == HSC_OK && strcmp(known, commit) == 0) return HSC_OK;
    char *path = hsc__hub_format("%s/refs/%s", store->folder, revision);
    if (!path) return fail_path_memory(err);
    hsc_status status = write_text(path, commit, err);
    hsc__free(path);
    return status;
}
