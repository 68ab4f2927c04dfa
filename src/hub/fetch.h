/* Requests that are repeated: a bounded number of times, later and later, going on where a file was cut. */
#ifndef HSC_HUB_FETCH_H
#define HSC_HUB_FETCH_H

#include "base/text.h"
#include "hub/http.h"
#include "hub/hub.h"

/* `event` says which file the progress is about; the caller fills file, index and n_files. */
typedef struct hsc__fetcher {
    hsc__http *http;
    hsc__pull_fn progress; /* may be NULL */
    void *user;
    hsc__pull_event event;
} hsc__fetcher;

/* Sends the event; non-zero when the user says stop. */
int hsc__fetch_tell(hsc__fetcher *fetcher, hsc__pull_what what);

/* Each returns HSC_OK when an answer came, also one like 404 or, after the last try, 503: look at reply->code. */
hsc_status hsc__fetch_text(hsc__fetcher *fetcher, const char *url, hsc__string *out, hsc__http_reply *reply,
                           hsc_error *err);
hsc_status hsc__fetch_head(hsc__fetcher *fetcher, const char *url, hsc__http_reply *reply, hsc_error *err);

/* Fetches into the file at `path`, going on behind what it holds. `size` is the whole length or -1. On HSC_OK with a
 * code of 200 or 206 the file is complete; on failure it holds what came and may be gone on with. */
hsc_status hsc__fetch_file(hsc__fetcher *fetcher, const char *url, const char *path, int64_t size,
                           hsc__http_reply *reply, hsc_error *err);

#endif
