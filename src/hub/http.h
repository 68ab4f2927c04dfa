/*
 * HTTP as the Hub needs it: GET and HEAD, redirects followed by hand so that the token goes to the endpoint's own
 * origin and nowhere else, time limits, and a verdict whether a failure is worth another try.
 */
#ifndef HSC_HUB_HTTP_H
#define HSC_HUB_HTTP_H

#include "hub/places.h"

typedef struct hsc__http hsc__http;

/* Called several times a second while a request runs or waits; non-zero stops it with HSC_ECANCELED. */
typedef int (*hsc__http_tick)(void *user);

typedef struct hsc__http_options {
    hsc__http_tick tick; /* may be NULL */
    void *user;
    int backoff_ms, stall_s; /* 0: the defaults of hub.h */
} hsc__http_options;

/* `places` must outlive it. */
hsc_status hsc__http_open(hsc__http **out, const hsc__hub_places *places, const hsc__http_options *options,
                          hsc_error *err);
void hsc__http_close(hsc__http *http);

/* What the server said. Checksums and commit come from the first answer that has them: where a file is kept elsewhere,
 * the Hub tells them along with the redirect. */
typedef struct hsc__http_reply {
    long code;
    bool transient;      /* the network or the server failed in a way that may pass */
    int64_t retry_after; /* seconds that the server asks to wait; 0 or less: it does not say */
    char etag[128];      /* X-Linked-Etag, else ETag; without W/ and quotes */
    char commit[64];
    char error_code[64], error_message[256]; /* X-Error-Code, X-Error-Message */
    int64_t size;                            /* X-Linked-Size, else Content-Length, of the whole file; -1 unknown */
    int64_t range_start;                     /* of a 206; -1 when it does not say */
} hsc__http_reply;

/* Takes a piece of a 2xx body. */
typedef hsc_status (*hsc__http_sink)(void *user, const hsc__http_reply *reply, const char *bytes, size_t n,
                                     hsc_error *err);

typedef struct hsc__http_request {
    const char *url;
    bool head;      /* ask for headers only; stops at the answer that has the checksum */
    uint64_t start; /* first byte wanted */
    hsc__http_sink sink;
    void *user;
} hsc__http_request;

/* One try. HSC_OK: an answer came, whatever its code; else what the network, the sink or the tick said. */
hsc_status hsc__http_send(hsc__http *http, const hsc__http_request *request, hsc__http_reply *reply, hsc_error *err);

/* Waits before try number `attempt` + 1 (attempt counts from 0): a doubling time, or what the server asked for, at most
 * a minute. */
hsc_status hsc__http_wait(hsc__http *http, const hsc__http_reply *reply, int attempt, hsc_error *err);
/* Ticks for so long; for waiting on something else. */
hsc_status hsc__http_sleep(hsc__http *http, int milliseconds, hsc_error *err);

#endif
