/*
 * Fetching a repository into the cache: list, choose, then file by file lock, fetch, verify, name, link; the ref last,
 * so that an interrupted pull leaves the previous version as the current one.
 */
#include "base/alloc.h"
#include "base/file.h"
#include "hub/digest.h"
#include "hub/fetch.h"
#include "hub/hub.h"
#include "hub/listing.h"
#include "hub/name.h"
#include "hub/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct pull {
    hsc__hub_name name;
    hsc__hub_places places;
    hsc__pull_options options;
    hsc__fetcher fetcher;
    hsc__store store;
    hsc__listing listing;
    hsc__plan plan;
} pull;

static hsc_status fail_address(hsc_error *err)
{
    return hsc__fail_memory(err, 4096, "an address");
}

static int on_tick(void *user)
{
    return hsc__fetch_tell(user, HSC__PULL_BYTES);
}

static int on_digest(void *user, uint64_t done)
{
    hsc__fetcher *fetcher = user;
    fetcher->event.done = done;
    return hsc__fetch_tell(fetcher, HSC__PULL_CHECK);
}

/* Percent-encodes what may not stand in a path; keeps '/' only where it separates folders. */
static void add_escaped(hsc__string *url, const char *text, bool keep_slash)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.~", c);
        if (plain || (c == '/' && keep_slash)) hsc__string_add(url, text, 1);
        else hsc__string_printf(url, "%%%02X", c);
    }
}

/* What a refusal means for this repository, in words that say what to do. `file` is NULL for the list of files. */
static hsc_status fail_refused(const pull *p, const hsc__http_reply *reply, hsc_error *err)
{
    const char *repo = p->name.repo, *endpoint = p->places.endpoint_shown;
    if (strcmp(reply->error_code, "GatedRepo") == 0)
        return hsc__fail(
            err, HSC_EIO, 0,
            p->places.token
                ? "%s is gated and this token's account has no access: ask for it at %s/%s, then pull again"
                : "%s is gated: accept its conditions at %s/%s, then set HF_TOKEN to a token of your account",
            repo, endpoint, repo);
    if (reply->code == 401 && !p->places.token)
        return hsc__fail(
            err, HSC_ENOTFOUND, 0,
            "%s: no such repository at %s, or it is private (HTTP 401); check the spelling, or set HF_TOKEN "
            "to a token that may read it",
            repo, endpoint);
    if (reply->code == 401)
        return hsc__fail(err, HSC_EIO, 0,
                         "%s: %s does not accept the token (HTTP 401)%s%s; check HF_TOKEN or the token file", repo,
                         endpoint, reply->error_message[0] ? ": " : "", reply->error_message);
    return hsc__fail(err, HSC_EIO, 0, "%s: %s refuses access (HTTP 403)%s%s; %s", repo, endpoint,
                     reply->error_message[0] ? ": " : "", reply->error_message,
                     p->places.token ? "the token may lack the right to read this repository"
                                     : "set HF_TOKEN to a token that may read it");
}

static hsc_status fail_missing(const pull *p, const char *file, const hsc__http_reply *reply, hsc_error *err)
{
    const char *repo = p->name.repo, *code = reply->error_code;
    if (strcmp(code, "RevisionNotFound") == 0 || (!file && !code[0] && p->name.has_revision))
        return hsc__fail(err, HSC_ENOTFOUND, 0, "%s has no branch, tag or commit \"%s\"%s", repo, p->name.revision,
                         code[0] ? "" : ", or there is no such repository (HTTP 404)");
    if (file && strcmp(code, "RepoNotFound") != 0)
        return hsc__fail(err, HSC_ENOTFOUND, 0, "%s has no file \"%s\" at commit %s (HTTP 404)", repo, file,
                         p->listing.commit);
    return hsc__fail(err, HSC_ENOTFOUND, 0, "%s: no such repository at %s%s", repo, p->places.endpoint_shown,
                     p->places.token ? ", or the token may not see it (HTTP 404)"
                                     : " (HTTP 404); a private one needs HF_TOKEN");
}

/* HSC_OK for an answer that is one. */
static hsc_status check_reply(const pull *p, const char *file, const hsc__http_reply *reply, hsc_error *err)
{
    if (reply->code == 200 || reply->code == 206) return HSC_OK;
    if (reply->code == 401 || reply->code == 403) return fail_refused(p, reply, err);
    if (reply->code == 404) return fail_missing(p, file, reply, err);
    const char *what = reply->code == 429 ? "too many requests, try again later" : reply->error_message;
    return hsc__fail(err, HSC_EIO, 0, "%s%s%s: %s answers HTTP %ld%s%s%s", p->name.repo, file ? "/" : "",
                     file ? file : "", p->places.endpoint_shown, reply->code, what[0] ? ": " : "", what,
                     reply->transient ? " (tried several times)" : "");
}

/* Asks for the revision's commit and files. */
static hsc_status fetch_listing(pull *p, hsc_error *err)
{
    hsc__string url = {0}, text = {0};
    hsc__http_reply reply;
    hsc__string_printf(&url, "%s/api/models/%s/revision/", p->places.endpoint, p->name.repo);
    add_escaped(&url, p->name.revision, false);
    hsc__string_text(&url, "?blobs=true");
    hsc_status status = url.failed ? fail_address(err) : hsc__fetch_text(&p->fetcher, url.data, &text, &reply, err);
    if (status == HSC_OK) status = check_reply(p, NULL, &reply, err);
    if (status == HSC_OK)
        status = hsc__listing_parse(&p->listing, text.data ? text.data : "", text.n, p->places.endpoint_shown, err);
    hsc__string_free(&url);
    hsc__string_free(&text);
    return status;
}

/* The list of files; where a server does not know a repository by its old name, it is asked for the new one. */
static hsc_status find_repository(pull *p, hsc_error *err)
{
    hsc_status status = fetch_listing(p, err);
    const char *new_name = hsc__hub_new_name(p->name.repo);
    if (status != HSC_ENOTFOUND || !new_name) return status;
    char old_name[sizeof p->name.repo];
    memcpy(old_name, p->name.repo, sizeof old_name);
    snprintf(p->name.repo, sizeof p->name.repo, "%s", new_name);
    if (fetch_listing(p, NULL) == HSC_OK) return HSC_OK;
    memcpy(p->name.repo, old_name, sizeof old_name);
    return status;
}

static char *file_url(const pull *p, const char *file)
{
    hsc__string url = {0};
    hsc__string_printf(&url, "%s/%s/resolve/%s/", p->places.endpoint, p->name.repo, p->listing.commit);
    add_escaped(&url, file, true);
    if (!url.failed) return url.data;
    hsc__string_free(&url);
    return NULL;
}

/* Size and checksum from the headers, for servers whose list has only names. */
static hsc_status fetch_details(pull *p, const char *url, hsc__remote_file *file, hsc_error *err)
{
    hsc__http_reply reply;
    HSC_TRY(hsc__fetch_head(&p->fetcher, url, &reply, err));
    HSC_TRY(check_reply(p, file->name, &reply, err));
    HSC_FAIL_IF(reply.commit[0] && strcmp(reply.commit, p->listing.commit) != 0, HSC_EFORMAT,
                "%s: %s sends commit \"%s\", %s was asked for", file->name, p->places.endpoint_shown, reply.commit,
                p->listing.commit);
    HSC_FAIL_IF(!hsc__hub_is_hex(reply.etag, 64) && !hsc__hub_is_hex(reply.etag, 40), HSC_EFORMAT,
                "%s: %s sends no checksum (ETag \"%s\"), so the file cannot be verified", file->name,
                p->places.endpoint_shown, reply.etag);
    memcpy(file->oid, reply.etag, strlen(reply.etag) + 1);
    if (file->size < 0) file->size = reply.size;
    return HSC_OK;
}

/* True when the path leads to a file of the expected size (any size while that is unknown). */
static bool is_whole(const char *path, int64_t size)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && (size < 0 || info.st_size == size);
}

/* Better said before half a day of fetching than after. */
static hsc_status check_space(const pull *p, const char *path, int64_t size, hsc_error *err)
{
    struct statvfs disk;
    struct stat partial;
    if (size < 0 || statvfs(p->store.folder, &disk) != 0) return HSC_OK;
    uint64_t have = stat(path, &partial) == 0 ? (uint64_t)partial.st_size : 0;
    uint64_t need = (uint64_t)size > have ? (uint64_t)size - have : 0;
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    HSC_FAIL_IF(need > room, HSC_EIO, "%s: %llu bytes are needed and %llu are free; HF_HUB_CACHE may name another disk",
                p->store.cache, (unsigned long long)need, (unsigned long long)room);
    return HSC_OK;
}

static hsc_status take_lock(pull *p, const hsc__remote_file *file, hsc__store_lock *lock, hsc_error *err)
{
    for (bool held = false;;) {
        HSC_TRY(hsc__store_lock_try(lock, &held, &p->store, file->oid, err));
        if (held) return HSC_OK;
        HSC_FAIL_IF(hsc__fetch_tell(&p->fetcher, HSC__PULL_WAITING), HSC_ECANCELED, "stopped");
        HSC_TRY(hsc__http_sleep(p->fetcher.http, 100, err));
    }
}

/* Fetches into `partial` and verifies it. A wrong sum of bytes that an earlier run left gets a second, fresh try. */
static hsc_status fetch_verified(pull *p, const hsc__remote_file *file, const char *url, const char *partial,
                                 hsc_error *err)
{
    bool resumed = hsc__is_file(partial);
    HSC_TRY(check_space(p, partial, file->size, err));
    for (;;) {
        hsc__http_reply reply;
        HSC_TRY(hsc__fetch_file(&p->fetcher, url, partial, file->size, &reply, err));
        HSC_TRY(check_reply(p, file->name, &reply, err));
        hsc_error reason = {0};
        hsc_status status = hsc__digest_check(partial, file->oid, on_digest, &p->fetcher, &reason);
        if (status == HSC_OK) return HSC_OK;
        if (status == HSC_EFORMAT) unlink(partial);
        if (status != HSC_EFORMAT || !resumed)
            return hsc__fail(err, status, 0, "%s/%s: %s", p->name.repo, file->name, reason.message);
        resumed = false;
    }
}

/* With the lock held: makes the blob, unless another process has meanwhile. */
static hsc_status make_blob(pull *p, const hsc__remote_file *file, const char *url, bool locked, hsc_error *err)
{
    char *blob = hsc__store_blob(&p->store, file->oid);
    /* Where there are no locks, two processes must not write one file. */
    char *partial = !blob    ? NULL
                    : locked ? hsc__hub_format("%s.incomplete", blob)
                             : hsc__hub_format("%s.%ld.incomplete", blob, (long)getpid());
    hsc_status status = HSC_OK;
    if (!partial) status = fail_address(err);
    else if (!is_whole(blob, file->size)) {
        status = fetch_verified(p, file, url, partial, err);
        if (status == HSC_OK && rename(partial, blob) != 0)
            status = hsc__fail(err, HSC_EIO, 0, "%s: cannot put the file in place: %s", blob, strerror(errno));
    }
    hsc__free(partial);
    hsc__free(blob);
    return status;
}

static hsc_status fetch_missing(pull *p, hsc__remote_file *file, hsc_error *err)
{
    const char *commit = p->listing.commit;
    char *url = file_url(p, file->name);
    if (!url) return fail_address(err);
    hsc_status status = file->oid[0] ? HSC_OK : fetch_details(p, url, file, err);
    p->fetcher.event.total = file->size > 0 ? (uint64_t)file->size : 0;
    if (status == HSC_OK) status = hsc__store_prepare(&p->store, commit, file->name, err);
    hsc__store_lock lock = {.fd = -1};
    if (status == HSC_OK) status = take_lock(p, file, &lock, err);
    if (status == HSC_OK) status = make_blob(p, file, url, lock.fd >= 0, err);
    if (status == HSC_OK) status = hsc__store_link(&p->store, commit, file->name, file->oid, err);
    hsc__store_unlock(&lock);
    hsc__free(url);
    return status;
}

static hsc_status fetch_one(pull *p, size_t index, hsc_error *err)
{
    hsc__remote_file *file = p->plan.files[index];
    char *pointer = hsc__store_pointer(&p->store, p->listing.commit, file->name);
    if (!pointer) return fail_address(err);
    p->fetcher.event = (hsc__pull_event){.file = file->name,
                                         .total = file->size > 0 ? (uint64_t)file->size : 0,
                                         .index = (int)index + 1,
                                         .n_files = (int)p->plan.n};
    bool cached = is_whole(pointer, file->size);
    hsc_status status = cached ? HSC_OK : fetch_missing(p, file, err);
    if (status == HSC_OK && hsc__plan_is_index(file->name) && p->options.n_files == 0)
        status = hsc__plan_add_shards(&p->plan, &p->listing, pointer, err);
    hsc__free(pointer);
    if (status != HSC_OK) return status;
    p->fetcher.event.n_files = (int)p->plan.n;
    p->fetcher.event.done = p->fetcher.event.total;
    HSC_FAIL_IF(hsc__fetch_tell(&p->fetcher, cached ? HSC__PULL_CACHED : HSC__PULL_DONE), HSC_ECANCELED, "stopped");
    return HSC_OK;
}

static hsc_status pull_online(pull *p, char **path, hsc_error *err)
{
    hsc__http_options http = {on_tick, &p->fetcher, p->options.backoff_ms, p->options.stall_s};
    p->fetcher.progress = p->options.progress;
    p->fetcher.user = p->options.user;
    HSC_TRY(hsc__http_open(&p->fetcher.http, &p->places, &http, err));
    HSC_TRY(find_repository(p, err));
    HSC_TRY(hsc__store_open(&p->store, p->places.cache, p->name.repo, err));
    if (p->options.n_files)
        HSC_TRY(hsc__plan_named(&p->plan, &p->listing, p->options.files, p->options.n_files, p->name.repo, err));
    else HSC_TRY(hsc__plan_default(&p->plan, &p->listing, p->name.repo, p->places.endpoint_shown, err));
    for (size_t i = 0; i < p->plan.n; i++) HSC_TRY(fetch_one(p, i, err));
    HSC_TRY(hsc__store_write_ref(&p->store, p->name.revision, p->listing.commit, err));
    *path = hsc__store_snapshot(&p->store, p->listing.commit);
    return *path ? HSC_OK : fail_address(err);
}

/* Without the network a pull can only say what is here already. */
static hsc_status pull_offline(pull *p, char **path, hsc_error *err)
{
    char commit[41];
    HSC_TRY(hsc__store_open(&p->store, p->places.cache, p->name.repo, err));
    hsc_status status = hsc__store_commit(&p->store, p->name.revision, commit, NULL);
    char *folder = status == HSC_OK ? hsc__store_snapshot(&p->store, commit) : NULL;
    if (folder && !hsc__is_dir(folder)) status = HSC_ENOTFOUND;
    for (size_t i = 0; status == HSC_OK && i < p->options.n_files; i++) {
        char *file = hsc__hub_file_name_ok(p->options.files[i]) ? hsc__path_join(folder, p->options.files[i]) : NULL;
        if (!file || !hsc__is_file(file)) status = HSC_ENOTFOUND;
        hsc__free(file);
    }
    if (status == HSC_OK) {
        *path = folder;
        return *path ? HSC_OK : fail_address(err);
    }
    hsc__free(folder);
    return hsc__fail(err, status, 0,
                     "%s@%s is not in the cache (%s) and HF_HUB_OFFLINE forbids fetching it; unset HF_HUB_OFFLINE",
                     p->name.repo, p->name.revision, p->places.cache);
}

hsc_status hsc__hub_check(const char *name, const hsc__pull_options *options, hsc_error *err)
{
    hsc__hub_name ignored;
    HSC_TRY(hsc__hub_name_parse(&ignored, name, options ? options->revision : NULL, err));
    for (size_t i = 0; options && i < options->n_files; i++) {
        const char *file = options->files[i];
        HSC_FAIL_IF(!hsc__hub_file_name_ok(file), HSC_EINVAL, "\"%s\" is not the name of a file in a repository", file);
        HSC_FAIL_IF(hsc__plan_is_pickle(file), HSC_EINVAL,
                    "%s: pickled files may run code when they are opened, so headscope reads none; take safetensors or "
                    "GGUF",
                    file);
    }
    return HSC_OK;
}

hsc_status hsc__hub_pull(const char *name, const hsc__pull_options *options, char **path, hsc_error *err)
{
    pull p = {0};
    *path = NULL;
    HSC_TRY(hsc__hub_check(name, options, err));
    if (options) p.options = *options;
    HSC_TRY(hsc__hub_name_parse(&p.name, name, p.options.revision, err));
    HSC_TRY(hsc__hub_places_read(&p.places, err));
    hsc_status status = p.places.offline ? pull_offline(&p, path, err) : pull_online(&p, path, err);
    if (status == HSC_ECANCELED)
        hsc__fail(err, status, 0, "%s: stopped; the same command goes on from here", p.name.repo);
    hsc__plan_free(&p.plan);
    hsc__listing_free(&p.listing);
    hsc__store_close(&p.store);
    hsc__http_close(p.fetcher.http);
    hsc__hub_places_free(&p.places);
    return status;
}
