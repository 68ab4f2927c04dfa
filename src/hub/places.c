/*
 * The environment, read as huggingface_hub reads it: a leading ~ and $NAME are expanded, an empty variable counts as
 * not set. No other file of the project calls getenv for these.
 */
#include "hub/places.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "hub/name.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char default_endpoint[] = "https://huggingface.co";

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *home(void)
{
    const char *value = variable("HOME");
    return value ? value : "/";
}

static bool is_name_character(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* Copies `path` with a leading ~ and every $NAME and ${NAME} replaced; a variable that is not set stays as written. */
static char *expand(const char *path)
{
    hsc__string out = {0};
    if (path[0] == '~' && (path[1] == '/' || !path[1])) {
        hsc__string_text(&out, home());
        path++;
    }
    while (*path) {
        size_t plain = strcspn(path, "$");
        hsc__string_add(&out, path, plain);
        path += plain;
        if (!*path) break;
        bool braced = path[1] == '{';
        const char *start = path + (braced ? 2 : 1), *end = start;
        while (is_name_character(*end, end == start)) end++;
        char name[128];
        size_t n = (size_t)(end - start);
        bool known = n > 0 && n < sizeof name && (!braced || *end == '}');
        if (known) {
            memcpy(name, start, n);
            name[n] = '\0';
            known = getenv(name) != NULL;
        }
        if (known) {
            hsc__string_text(&out, getenv(name));
            path = end + (braced ? 1 : 0);
        } else {
            hsc__string_add(&out, path++, 1);
        }
    }
    if (!out.failed && out.data) return out.data;
    hsc__string_free(&out);
    return NULL;
}

/* HF_HOME or what stands for it, expanded. */
static char *hf_home(void)
{
    const char *value = variable("HF_HOME");
    if (value) return expand(value);
    value = variable("XDG_CACHE_HOME");
    char *base = value ? expand(value) : hsc__path_join(home(), ".cache");
    char *path = base ? hsc__path_join(base, "huggingface") : NULL;
    hsc__free(base);
    return path;
}

/* The value of a variable, expanded, else HF_HOME/name. */
static char *below_home(const char *value, const char *name)
{
    if (value) return expand(value);
    char *base = hf_home();
    char *path = base ? hsc__path_join(base, name) : NULL;
    hsc__free(base);
    return path;
}

hsc_status hsc__hub_cache_dir(char **out, hsc_error *err)
{
    const char *value = variable("HF_HUB_CACHE");
    if (!value) value = variable("HUGGINGFACE_HUB_CACHE");
    *out = below_home(value, "hub");
    return *out ? HSC_OK : hsc__fail_memory(err, HSC__NAME_MAX, "the cache's path");
}

static bool is_true(const char *value)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    return false;
}

/* Takes the blanks and line ends off both ends and refuses what cannot stand in a header. */
static hsc_status clean_token(char **out, const char *text, const char *source, hsc_error *err)
{
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    for (size_t i = 0; i < n; i++)
        HSC_FAIL_IF(text[i] <= 0x20 || text[i] >= 0x7f, HSC_EINVAL,
                    "the token in %s has a blank, a control or a non-ASCII character at position %zu", source, i + 1);
    if (n == 0) return HSC_OK;
    *out = hsc__strndup(text, n);
    return *out ? HSC_OK : hsc__fail_memory(err, n + 1, "the token");
}

static hsc_status read_token(char **out, hsc_error *err)
{
    const char *value = variable("HF_TOKEN");
    if (!value) value = variable("HUGGING_FACE_HUB_TOKEN");
    if (value) return clean_token(out, value, "HF_TOKEN", err);
    if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return HSC_OK;
    char *path = below_home(variable("HF_TOKEN_PATH"), "token");
    if (!path) return hsc__fail_memory(err, HSC__NAME_MAX, "the token's path");
    char *text = NULL;
    hsc_error reason;
    hsc_status status = hsc__read_file(&text, NULL, path, 64 * 1024, &reason);
    if (status == HSC_OK) status = clean_token(out, text, path, err);
    else if (status == HSC_ENOTFOUND) status = HSC_OK;
    else status = hsc__fail(err, status, 0, "%s", reason.message);
    hsc__free(text);
    hsc__free(path);
    return status;
}

/* The address without a name and password, which are nobody's business in a message. NULL: not a URL. */
static char *without_user(const char *address)
{
    char *shown = NULL, *out = NULL;
    CURLU *url = curl_url();
    if (url && !curl_url_set(url, CURLUPART_URL, address, 0) && !curl_url_set(url, CURLUPART_USER, NULL, 0) &&
        !curl_url_set(url, CURLUPART_PASSWORD, NULL, 0) && !curl_url_get(url, CURLUPART_URL, &shown, 0))
        out = hsc__strndup(shown, strlen(shown));
    curl_free(shown);
    curl_url_cleanup(url);
    return out;
}

static void trim_slashes(char *text)
{
    size_t n = strlen(text);
    while (n && text[n - 1] == '/') text[--n] = '\0';
}

static hsc_status read_endpoint(hsc__hub_places *out, hsc_error *err)
{
    const char *value = variable("HF_ENDPOINT");
    if (!value) value = default_endpoint;
    bool web = strncasecmp(value, "http://", 7) == 0 || strncasecmp(value, "https://", 8) == 0;
    HSC_FAIL_IF(!web, HSC_EINVAL, "HF_ENDPOINT: does not begin with http:// or https://");
    out->endpoint_shown = without_user(value);
    HSC_FAIL_IF(!out->endpoint_shown, HSC_EINVAL,
                "HF_ENDPOINT: is not a URL that can be read (http://HOST or http://HOST:PORT)");
    out->endpoint = hsc__strndup(value, strlen(value));
    if (!out->endpoint) return hsc__fail_memory(err, strlen(value) + 1, "the endpoint");
    trim_slashes(out->endpoint);
    trim_slashes(out->endpoint_shown);
    return HSC_OK;
}

hsc_status hsc__hub_places_read(hsc__hub_places *out, hsc_error *err)
{
    *out = (hsc__hub_places){0};
    const char *offline = variable("HF_HUB_OFFLINE");
    out->offline = is_true(offline ? offline : variable("TRANSFORMERS_OFFLINE"));
    hsc_status status = hsc__hub_cache_dir(&out->cache, err);
    if (status == HSC_OK && !out->offline) status = read_endpoint(out, err);
    if (status == HSC_OK && !out->offline) status = read_token(&out->token, err);
    if (status != HSC_OK) hsc__hub_places_free(out);
    return status;
}

void hsc__hub_places_free(hsc__hub_places *places)
{
    hsc__free(places->cache);
    hsc__free(places->endpoint);
    hsc__free(places->endpoint_shown);
    hsc__free(places->token);
    *places = (hsc__hub_places){0};
}
