/* Status names and the filling of hsc_error. Nothing here allocates. */
#include "base/status.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define HSC_STRINGIFY_(x) #x
#define HSC_STRINGIFY(x) HSC_STRINGIFY_(x)

const char *hsc_version(void)
{
    return HSC_STRINGIFY(HSC_VERSION_MAJOR) "." HSC_STRINGIFY(HSC_VERSION_MINOR) "." HSC_STRINGIFY(HSC_VERSION_PATCH);
}

const char *hsc_status_text(hsc_status status)
{
    switch (status) {
#define HSC_STATUS_CASE(name, value, text)                                                                             \
    case name: return text;
        HSC_STATUS_LIST(HSC_STATUS_CASE)
#undef HSC_STATUS_CASE
    }
    return "unknown status";
}

/* One line of whole UTF-8 without control characters (C0, DEL, C1): what is none becomes '?', in place. */
static void tidy(char *message)
{
    size_t n = hsc__utf8_prefix(message, strlen(message)), to = 0;
    for (size_t from = 0; from < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(message + from, n - from, &c);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) message[to++] = '?';
        else {
            memmove(message + to, message + from, length);
            to += length;
        }
        from += length;
    }
    message[to] = '\0';
}

hsc_status hsc__fail(hsc_error *err, hsc_status code, uint64_t offset, const char *format, ...)
{
    if (!err) return code;
    va_list args;
    err->code = code;
    err->offset = offset;
    va_start(args, format);
    if (hsc__format(err->message, sizeof err->message, format, args) < 0) err->message[0] = '\0';
    va_end(args);
    tidy(err->message);
    return code;
}

hsc_status hsc__fail_prefix(hsc_error *err, hsc_status code, const char *format, ...)
{
    if (!err) return code;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    int n = hsc__format(err->message, sizeof err->message, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof err->message) snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", old);
    if (err->code == HSC_OK) err->code = code;
    tidy(err->message);
    return err->code;
}

hsc_status hsc__fail_memory(hsc_error *err, size_t n_bytes, const char *what)
{
    return hsc__fail(err, HSC_ENOMEM, 0, "out of memory: %s needs %zu bytes", what, n_bytes);
}

void hsc__error_clear(hsc_error *err)
{
    if (!err) return;
    err->code = HSC_OK;
    err->offset = 0;
    err->message[0] = '\0';
}
