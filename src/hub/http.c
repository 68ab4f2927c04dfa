/*
 * HTTP on libcurl, with its own defaults for proxies and certificates. Invariants: only http and https, never from
 * https down to http, at most MAX_REDIRECTS hops, and the Authorization header only where scheme, host and port are
 * those of the endpoint. Bodies of redirects and of errors are thrown away.
 */
#include "hub/http.h"

#include "base/alloc.h"
#include "base/text.h"
#include "hub/name.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    MAX_REDIRECTS = 8,
    CONNECT_SECONDS = 15,
    STALL_SECONDS = 30,
    BACKOFF_MS = 500,
    MAX_WAIT_MS = 60 * 1000,
    SHOWN_URL = 300
};

struct hsc__http {
    CURL *easy;
    const hsc__hub_places *places;
    hsc__http_options options;
    bool reached; /* the server has answered once, so the address is right and the network was there */
    char reason[CURL_ERROR_SIZE];
};

/* What the callbacks of one hop share. */
typedef struct exchange {
    hsc__http *http;
    const hsc__http_request *request;
    hsc__http_reply *reply;
    bool has_reply;
    hsc_status status;
    hsc_error *err;
} exchange;

/* Copies a header's value cut at the buffer's size; leaves `out` alone when there is no such header. */
static bool copy_header(CURL *easy, const char *name, char *out, size_t capacity)
{
    struct curl_header *header;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return false;
    size_t n = strlen(header->value);
    if (n >= capacity) n = capacity - 1;
    memcpy(out, header->value, n);
    out[n] = '\0';
    return true;
}

/* A count of decimal digits alone, or -1. */
static int64_t parse_size(const char *text)
{
    int64_t value = 0;
    if (!*text) return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value > (INT64_MAX - 9) / 10) return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

/* W/"x" and "x" give x. */
static void strip_etag(char *etag)
{
    char *start = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
    start += *start == '"';
    size_t n = strlen(start);
    if (n && start[n - 1] == '"') n--;
    memmove(etag, start, n);
    etag[n] = '\0';
}

/* The total that "bytes 10-99/100" ends with and the start it begins with. */
static void read_range(hsc__http_reply *reply, const char *range)
{
    char start[32];
    size_t n = strncmp(range, "bytes ", 6) == 0 ? strcspn(range + 6, "-") : sizeof start;
    if (n >= sizeof start) return;
    memcpy(start, range + 6, n);
    start[n] = '\0';
    reply->range_start = parse_size(start);
    const char *slash = strchr(range, '/');
    if (slash && reply->size < 0) reply->size = parse_size(slash + 1);
}

static void read_headers(exchange *hop)
{
    CURL *easy = hop->http->easy;
    hsc__http_reply *reply = hop->reply;
    char text[256];
    if (hop->has_reply) return;
    hop->has_reply = true;
    hop->http->reached = true;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply->code);
    reply->transient = reply->code == 408 || reply->code == 429 || reply->code >= 500;
    reply->retry_after = copy_header(easy, "Retry-After", text, sizeof text) ? parse_size(text) : 0;
    reply->range_start = -1;
    copy_header(easy, "X-Error-Code", reply->error_code, sizeof reply->error_code);
    copy_header(easy, "X-Error-Message", reply->error_message, sizeof reply->error_message);
    if (!reply->commit[0]) copy_header(easy, "X-Repo-Commit", reply->commit, sizeof reply->commit);
    bool redirect = reply->code >= 300 && reply->code < 400;
    if (reply->size < 0 && copy_header(easy, "X-Linked-Size", text, sizeof text)) reply->size = parse_size(text);
    if (reply->code == 206 && copy_header(easy, "Content-Range", text, sizeof text)) read_range(reply, text);
    if (reply->size < 0 && reply->code == 200 && copy_header(easy, "Content-Length", text, sizeof text))
        reply->size = parse_size(text);
    if (reply->etag[0]) return;
    if (copy_header(easy, "X-Linked-Etag", reply->etag, sizeof reply->etag) ||
        (!redirect && copy_header(easy, "ETag", reply->etag, sizeof reply->etag)))
        strip_etag(reply->etag);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    exchange *hop = user;
    read_headers(hop);
    if (hop->reply->code / 100 != 2 || !hop->request->sink) return size * n;
    hop->status = hop->request->sink(hop->request->user, hop->reply, bytes, size * n, hop->err);
    return hop->status == HSC_OK ? size * n : 0;
}

static hsc_status tick(hsc__http *http, hsc_error *err)
{
    if (http->options.tick && http->options.tick(http->options.user))
        return hsc__fail(err, HSC_ECANCELED, 0, "stopped");
    return HSC_OK;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    exchange *hop = user;
    (void)total, (void)now, (void)up_total, (void)up_now;
    if (hop->status == HSC_OK) hop->status = tick(hop->http, hop->err);
    return hop->status != HSC_OK;
}

hsc_status hsc__http_open(hsc__http **out, const hsc__hub_places *places, const hsc__http_options *options,
                          hsc_error *err)
{
    *out = NULL;
    HSC_FAIL_IF(curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK, HSC_ENOMEM, "libcurl cannot start");
    hsc__http *http = hsc__calloc(1, sizeof *http);
    if (http) http->easy = curl_easy_init();
    if (!http || !http->easy) {
        hsc__free(http);
        curl_global_cleanup();
        return hsc__fail_memory(err, sizeof *http, "a connection");
    }
    http->places = places;
    http->options = *options;
    if (http->options.backoff_ms <= 0) http->options.backoff_ms = BACKOFF_MS;
    if (http->options.stall_s <= 0) http->options.stall_s = STALL_SECONDS;
    *out = http;
    return HSC_OK;
}

void hsc__http_close(hsc__http *http)
{
    if (!http) return;
    curl_easy_cleanup(http->easy);
    hsc__free(http);
    curl_global_cleanup();
}

/* True when both addresses have the same scheme, host and port. */
static bool same_origin(const char *a, const char *b)
{
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *left = curl_url(), *right = curl_url();
    bool same = left && right && !curl_url_set(left, CURLUPART_URL, a, 0) && !curl_url_set(right, CURLUPART_URL, b, 0);
    for (size_t i = 0; same && i < sizeof parts / sizeof *parts; i++) {
        char *x = NULL, *y = NULL;
        same = !curl_url_get(left, parts[i], &x, CURLU_DEFAULT_PORT) &&
               !curl_url_get(right, parts[i], &y, CURLU_DEFAULT_PORT) && strcasecmp(x, y) == 0;
        curl_free(x);
        curl_free(y);
    }
    curl_url_cleanup(left);
    curl_url_cleanup(right);
    return same;
}

/* An address for a message: a redirect's query and a name and password before the host are nobody's business. */
static void show_url(char *out, size_t capacity, const char *url)
{
    char *shown = NULL;
    CURLU *parsed = curl_url();
    bool good = parsed && !curl_url_set(parsed, CURLUPART_URL, url, 0) &&
                !curl_url_set(parsed, CURLUPART_QUERY, NULL, 0) && !curl_url_set(parsed, CURLUPART_USER, NULL, 0) &&
                !curl_url_set(parsed, CURLUPART_PASSWORD, NULL, 0) && !curl_url_get(parsed, CURLUPART_URL, &shown, 0);
    snprintf(out, capacity, "%s", good ? shown : "the server");
    curl_free(shown);
    curl_url_cleanup(parsed);
}

/* Where a redirect leads, made absolute, as memory of hsc__malloc. */
static hsc_status next_url(char **out, CURL *easy, const char *url, hsc_error *err)
{
    struct curl_header *header;
    CURLHcode found = curl_easy_header(easy, "Location", 0, CURLH_HEADER, -1, &header);
    char shown[SHOWN_URL];
    show_url(shown, sizeof shown, url);
    HSC_FAIL_IF(found != CURLHE_OK, HSC_EFORMAT, "%s: a redirect that does not say where to", shown);
    CURLU *parsed = curl_url();
    char *absolute = NULL;
    bool good = parsed && !curl_url_set(parsed, CURLUPART_URL, url, 0) &&
                !curl_url_set(parsed, CURLUPART_URL, header->value, 0) &&
                !curl_url_get(parsed, CURLUPART_URL, &absolute, 0);
    bool http = good && strncasecmp(absolute, "http://", 7) == 0;
    bool https = good && strncasecmp(absolute, "https://", 8) == 0;
    hsc_status status = HSC_OK;
    if (!https && !(http && strncasecmp(url, "http://", 7) == 0))
        status =
            hsc__fail(err, HSC_EFORMAT, 0, "%s: redirects to \"%.100s\", which is not followed", shown, header->value);
    else if (!(*out = hsc__strndup(absolute, strlen(absolute))))
        status = hsc__fail_memory(err, strlen(absolute), "an address");
    curl_free(absolute);
    curl_url_cleanup(parsed);
    return status;
}

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(*list, text) : NULL;
    if (longer) *list = longer;
    return longer != NULL;
}

static hsc_status request_headers(struct curl_slist **list, const hsc__http *http, const hsc__http_request *request,
                                  const char *url, hsc_error *err)
{
    char range[64];
    snprintf(range, sizeof range, "Range: bytes=%llu-", (unsigned long long)request->start);
    /* Identity: a compressed body would neither have the file's length nor could it be resumed. */
    bool good = add_header(list, "Accept-Encoding: identity");
    if (request->start) good = good && add_header(list, range);
    if (http->places->token && same_origin(url, http->places->endpoint)) {
        char *token = hsc__hub_format("Authorization: Bearer %s", http->places->token);
        good = good && add_header(list, token);
        hsc__free(token);
    }
    return good ? HSC_OK : hsc__fail_memory(err, sizeof range, "request headers");
}

static void configure(hsc__http *http, exchange *hop, const char *url, struct curl_slist *headers)
{
    CURL *easy = http->easy;
    char agent[32];
    snprintf(agent, sizeof agent, "headscope/%s", hsc_version());
    curl_easy_reset(easy); /* keeps connections alive */
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_NOBODY, hop->request->head ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L * 1024);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)http->options.stall_s);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->reason);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, hop);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, hop);
}

/* Certificates and bad addresses do not mend themselves; a host that never answered is more likely misspelt or out of
 * reach than briefly away. */
static bool is_transient(const hsc__http *http, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR: return http->reached;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

static hsc_status one_hop(hsc__http *http, const hsc__http_request *request, const char *url, hsc__http_reply *reply,
                          hsc_error *err)
{
    exchange hop = {.http = http, .request = request, .reply = reply, .err = err};
    struct curl_slist *headers = NULL;
    hsc_status status = request_headers(&headers, http, request, url, err);
    if (status == HSC_OK) {
        http->reason[0] = '\0';
        reply->code = 0;
        configure(http, &hop, url, headers);
        CURLcode code = curl_easy_perform(http->easy);
        if (code == CURLE_OK) {
            read_headers(&hop);
        } else if (hop.status != HSC_OK) {
            status = hop.status;
        } else {
            char shown[SHOWN_URL];
            show_url(shown, sizeof shown, url);
            reply->transient = is_transient(http, code);
            status =
                hsc__fail(err, HSC_EIO, 0, "%s: %s", shown, http->reason[0] ? http->reason : curl_easy_strerror(code));
        }
    }
    curl_slist_free_all(headers);
    return status;
}

hsc_status hsc__http_send(hsc__http *http, const hsc__http_request *request, hsc__http_reply *reply, hsc_error *err)
{
    *reply = (hsc__http_reply){.size = -1, .range_start = -1};
    char *url = hsc__strndup(request->url, strlen(request->url));
    if (!url) return hsc__fail_memory(err, strlen(request->url), "an address");
    hsc_status status = HSC_OK;
    for (int hop = 0; status == HSC_OK; hop++) {
        status = one_hop(http, request, url, reply, err);
        if (status != HSC_OK || reply->code < 300 || reply->code >= 400) break;
        if (request->head && reply->etag[0]) {
            reply->code = 200;
            break;
        }
        char *next = NULL;
        if (hop == MAX_REDIRECTS)
            status = hsc__fail(err, HSC_EFORMAT, 0, "%s: more than %d redirects", request->url, MAX_REDIRECTS);
        else status = next_url(&next, http->easy, url, err);
        hsc__free(url);
        url = next;
    }
    hsc__free(url);
    return status;
}

hsc_status hsc__http_sleep(hsc__http *http, int milliseconds, hsc_error *err)
{
    enum { STEP_MS = 50 };
    while (milliseconds > 0) {
        HSC_TRY(tick(http, err));
        int step = milliseconds < STEP_MS ? milliseconds : STEP_MS;
        struct timespec time = {0, step * 1000000L};
        nanosleep(&time, NULL);
        milliseconds -= step;
    }
    return tick(http, err);
}

hsc_status hsc__http_wait(hsc__http *http, const hsc__http_reply *reply, int attempt, hsc_error *err)
{
    int64_t wait = http->options.backoff_ms;
    for (int i = 0; i < attempt && wait < MAX_WAIT_MS; i++) wait *= 2;
    if (reply->retry_after > MAX_WAIT_MS / 1000) wait = MAX_WAIT_MS;
    else if (wait < reply->retry_after * 1000) wait = reply->retry_after * 1000;
    if (wait > MAX_WAIT_MS) wait = MAX_WAIT_MS;
    return hsc__http_sleep(http, (int)wait, err);
}
