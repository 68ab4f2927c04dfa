/* A buffer that grows to the longest line; what is behind the line at hand moves to its front when more is wanted. */
#include "inspect/list.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

enum { BLOCK = 1 << 16, LONGEST = 64 << 20 };

/* More bytes behind those that are there, or `ended`. */
static hsc_status fill(hsc__list *l, hsc_error *err)
{
    size_t n = 0;
    l->filled -= l->at;
    if (l->at && l->filled) memmove(l->buffer, l->buffer + l->at, l->filled);
    l->at = 0;
    HSC_TRY(hsc__grow(&l->buffer, &l->capacity, l->filled + BLOCK, 1, err));
    HSC_TRY(l->reader->read(l->reader->user, l->buffer + l->filled, l->capacity - l->filled, &n, err));
    l->filled += n;
    l->ended = n == 0;
    return HSC_OK;
}

/* n: bytes of the next line, its "\r" among them. */
static hsc_status check_length(const hsc__list *l, size_t n, hsc_error *err)
{
    HSC_FAIL_IF(n > LONGEST, HSC_EFORMAT, "%s: line %d has more than %d bytes", l->name, l->number + 1, (int)LONGEST);
    return HSC_OK;
}

/* The next line of any kind, or NULL. */
static hsc_status next(hsc__list *l, hsc_error *err)
{
    size_t looked = 0; /* bytes that hold no end of a line */
    const char *end = NULL;
    while (!end) {
        size_t n = l->filled - l->at;
        if (n > looked) end = memchr(l->buffer + l->at + looked, '\n', n - looked);
        looked = n;
        if (end || l->ended) break;
        if (n > LONGEST + BLOCK) return check_length(l, n, err); /* a byte order mark is no part of it */
        HSC_TRY(fill(l, err));
    }
    l->line = NULL;
    if (!l->number && looked) l->at += hsc__text_mark(l->buffer + l->at, l->filled - l->at);
    if (l->at == l->filled) return HSC_OK;
    l->line = l->buffer + l->at;
    l->n = end ? (size_t)(end - l->line) : l->filled - l->at;
    HSC_TRY(check_length(l, l->n, err));
    l->at += l->n + (end != NULL);
    if (end && l->n && l->line[l->n - 1] == '\r') l->n--;
    l->number++;
    return HSC_OK;
}

hsc_status hsc__list_next(hsc__list *lines, hsc_error *err)
{
    if (lines->again) {
        lines->again = false;
        return HSC_OK;
    }
    do {
        HSC_TRY(next(lines, err));
    } while (lines->line && (lines->n == 0 || lines->line[0] == '#'));
    return HSC_OK;
}

void hsc__list_free(hsc__list *lines)
{
    hsc__free(lines->buffer);
    lines->buffer = NULL;
}
