/*
 * Requests that are repeated. A try that brought new bytes of a file does not count against the limit, so a bad line
 * ends in the whole file as long as it moves at all. Invariant: a file holds a prefix of what the server has, or is
 * emptied before bytes from another place are written.
 */
#include "hub/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TRIES = 5, MAX_TEXT = 64 * 1024 * 1024 };

/* Where a body goes: into `text`, or into fd from byte `at` on. */
typedef struct target {
    hsc__fetcher *fetcher;
    hsc__string *text;
    const char *path;
    int fd;
    uint64_t at;
    int64_t size;
    bool begun; /* this try has brought bytes */
} target;

int hsc__fetch_tell(hsc__fetcher *fetcher, hsc__pull_what what)
{
    fetcher->event.what = what;
    return fetcher->progress ? fetcher->progress(fetcher->user, &fetcher->event) : 0;
}

static hsc_status take_text(void *user, const hsc__http_reply *reply, const char *bytes, size_t n, hsc_error *err)
{
    target *to = user;
    (void)reply;
    HSC_FAIL_IF(to->text->n + n > MAX_TEXT, HSC_EFORMAT, "the server's list of files is longer than %d bytes",
                MAX_TEXT);
    hsc__string_add(to->text, bytes, n);
    return to->text->failed ? hsc__fail_memory(err, n, "the server's answer") : HSC_OK;
}

static hsc_status empty(target *to, hsc_error *err)
{
    HSC_FAIL_IF(ftruncate(to->fd, 0) != 0 || lseek(to->fd, 0, SEEK_SET) != 0, HSC_EIO, "%s: cannot write: %s", to->path,
                strerror(errno));
    to->at = 0;
    return HSC_OK;
}

/* The first bytes of a try: does the server go on where we are, or start again? */
static hsc_status begin_file(target *to, const hsc__http_reply *reply, hsc_error *err)
{
    to->begun = true;
    if (reply->code != 206) return to->at ? empty(to, err) : HSC_OK;
    HSC_FAIL_IF(reply->range_start != (int64_t)to->at, HSC_EFORMAT,
                "the server sends from byte %lld on, byte %llu was asked for", (long long)reply->range_start,
                (unsigned long long)to->at);
    return HSC_OK;
}

static hsc_status take_file(void *user, const hsc__http_reply *reply, const char *bytes, size_t n, hsc_error *err)
{
    target *to = user;
    if (!to->begun) HSC_TRY(begin_file(to, reply, err));
    HSC_FAIL_IF(to->size >= 0 && n > (uint64_t)to->size - to->at, HSC_EFORMAT,
                "the server sends more than the %lld bytes that the file has", (long long)to->size);
    while (n > 0) {
        ssize_t written = write(to->fd, bytes, n);
        if (written < 0 && errno == EINTR) continue;
        HSC_FAIL_IF(written < 0, HSC_EIO, "%s: cannot write: %s", to->path, strerror(errno));
        bytes += written;
        n -= (size_t)written;
        to->at += (uint64_t)written;
    }
    to->fetcher->event.done = to->at;
    return HSC_OK;
}

/* One try, and whether another one makes sense. */
static hsc_status try_once(target *to, const char *url, bool head, hsc__http_reply *reply, bool *again, hsc_error *err)
{
    bool to_file = !head && !to->text;
    hsc__http_request request = {.url = url, .head = head, .user = to};
    if (!head) request.sink = to_file ? take_file : take_text;
    if (to_file) request.start = to->at;
    if (to->text) to->text->n = 0;
    to->begun = false;
    hsc_status status = hsc__http_send(to->fetcher->http, &request, reply, err);
    *again = reply->transient;
    if (status != HSC_OK) return status;
    if (reply->code >= 300) hsc__fail(err, HSC_EIO, 0, "the server answers HTTP %ld", reply->code);
    if (!to_file) return HSC_OK;
    if (reply->code == 416) {
        *again = true; /* what we hold is longer than the file, so it is another file's */
        return empty(to, err);
    }
    if (reply->code / 100 != 2 || to->size < 0 || (int64_t)to->at == to->size) return HSC_OK;
    *again = true;
    return hsc__fail(err, HSC_EIO, 0, "the connection ended after %llu of %lld bytes", (unsigned long long)to->at,
                     (long long)to->size);
}

/* Tries until an answer came, the tries are used up, or the failure is one that stays. */
static hsc_status try_often(target *to, const char *url, bool head, hsc__http_reply *reply, hsc_error *err)
{
    hsc__fetcher *fetcher = to->fetcher;
    uint64_t furthest = to->at;
    for (int failures = 0;;) {
        hsc_error reason = {0};
        bool again = false;
        hsc_status status = try_once(to, url, head, reply, &again, &reason);
        if (status == HSC_OK && !again) return HSC_OK;
        failures = to->at > furthest ? 1 : failures + 1;
        if (to->at > furthest) furthest = to->at;
        if (!again) return hsc__fail(err, status, 0, "%s", reason.message);
        if (failures == MAX_TRIES && status == HSC_OK) return HSC_OK;
        if (failures == MAX_TRIES)
            return hsc__fail(err, status, 0, "%s (gave up after %d tries)", reason.message, MAX_TRIES);
        fetcher->event.note = reason.message;
        fetcher->event.done = to->at;
        int stop = hsc__fetch_tell(fetcher, HSC__PULL_RETRY);
        fetcher->event.note = NULL;
        HSC_FAIL_IF(stop, HSC_ECANCELED, "stopped");
        HSC_TRY(hsc__http_wait(fetcher->http, reply, failures - 1, err));
    }
}

hsc_status hsc__fetch_text(hsc__fetcher *fetcher, const char *url, hsc__string *out, hsc__http_reply *reply,
                           hsc_error *err)
{
    target to = {.fetcher = fetcher, .text = out, .fd = -1, .size = -1};
    return try_often(&to, url, false, reply, err);
}

hsc_status hsc__fetch_head(hsc__fetcher *fetcher, const char *url, hsc__http_reply *reply, hsc_error *err)
{
    target to = {.fetcher = fetcher, .fd = -1, .size = -1};
    return try_often(&to, url, true, reply, err);
}

/* Opens the file at its end. */
static hsc_status open_target(target *to, hsc_error *err)
{
    to->fd = open(to->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    off_t end = to->fd < 0 ? -1 : lseek(to->fd, 0, SEEK_END);
    HSC_FAIL_IF(end < 0, HSC_EIO, "%s: cannot write: %s", to->path, strerror(errno));
    to->at = (uint64_t)end;
    if (to->size >= 0 && end > to->size) HSC_TRY(empty(to, err));
    to->fetcher->event.done = to->at;
    return HSC_OK;
}

hsc_status hsc__fetch_file(hsc__fetcher *fetcher, const char *url, const char *path, int64_t size,
                           hsc__http_reply *reply, hsc_error *err)
{
    target to = {.fetcher = fetcher, .path = path, .fd = -1, .size = size};
    hsc_status status = open_target(&to, err);
    if (status == HSC_OK && hsc__fetch_tell(fetcher, HSC__PULL_FILE))
        status = hsc__fail(err, HSC_ECANCELED, 0, "stopped");
    *reply = (hsc__http_reply){.code = 200, .size = size};
    bool whole = size >= 0 && (int64_t)to.at == size;
    if (status == HSC_OK && !whole) status = try_often(&to, url, false, reply, err);
    /* Delayed failures of the disk (quota, network file systems) come out here, before the file gets its name. */
    if (status == HSC_OK && fsync(to.fd) != 0 && errno != EINVAL)
        status = hsc__fail(err, HSC_EIO, 0, "%s: cannot write: %s", path, strerror(errno));
    if (to.fd >= 0) close(to.fd);
    return status;
}
