/* Decoding as tokens come. Characters are kept whole by hsc_stream; the end of the text that could be the beginning of
 * a stop string is held back until it is decided. */
#include "tasks/reply.h"

#include "base/alloc.h"

#include <string.h>

static hsc_status add(hsc__reply *r, hsc_token id, hsc_error *err)
{
    size_t bound = hsc_stream_bound(r->tokenizer), before = r->text.n;
    char *room = hsc__malloc(bound + 1);
    if (!room) return hsc__fail_memory(err, bound, "the text of a token");
    int64_t n = hsc_stream_next(r->tokenizer, &r->stream, id, room, bound);
    if (n > 0) hsc__string_add(&r->text, room, (size_t)n);
    hsc__free(room);
    HSC_FAIL_IF(n < 0, HSC_EINVAL, "token %d is not in the vocabulary", (int)id);
    if (r->text.failed) return hsc__fail_memory(err, before + bound, "the text");
    return HSC_OK;
}

hsc_status hsc__reply_begin(hsc__reply *r, hsc_token last, hsc_error *err)
{
    size_t n;
    if (!r->tokenizer || hsc_token_is_special(r->tokenizer, last) || !hsc_token_bytes(r->tokenizer, last, &n))
        return HSC_OK;
    HSC_TRY(add(r, last, err));
    r->text.n = 0;
    return HSC_OK;
}

/* The first place at or after `from` where a stop string stands, or the text's length. */
static size_t find_stop(const hsc__reply *r, size_t from)
{
    size_t best = r->text.n;
    for (size_t i = 0; i < r->n_stops; i++) {
        const hsc__stop *stop = &r->stops[i];
        size_t end = best + stop->n < r->text.n ? best + stop->n : r->text.n;
        const char *at = from < end ? hsc__text_find(r->text.data + from, end - from, stop->text, stop->n) : NULL;
        if (at) best = (size_t)(at - r->text.data);
    }
    return best;
}

/* Where the longest end of the text begins that is the beginning of a stop string. */
static size_t find_begun(const hsc__reply *r)
{
    for (size_t at = r->n_shown; at < r->text.n; at++) {
        size_t n = r->text.n - at;
        for (size_t i = 0; i < r->n_stops; i++)
            if (n < r->stops[i].n && memcmp(r->text.data + at, r->stops[i].text, n) == 0) return at;
    }
    return r->text.n;
}

hsc_status hsc__reply_add(hsc__reply *r, hsc_token id, bool *stopped, hsc_error *err)
{
    *stopped = false;
    if (!r->tokenizer) return HSC_OK;
    HSC_TRY(add(r, id, err));
    size_t at = find_stop(r, r->n_shown);
    *stopped = at < r->text.n;
    if (*stopped) r->text.n = at;
    r->n_shown = *stopped ? at : find_begun(r);
    return HSC_OK;
}

hsc_status hsc__reply_end(hsc__reply *r, hsc_error *err)
{
    char tail[8];
    int64_t n = hsc_stream_end(&r->stream, tail, sizeof tail);
    if (n > 0) hsc__string_add(&r->text, tail, (size_t)n);
    r->n_shown = r->text.n;
    if (r->text.failed) return hsc__fail_memory(err, r->text.n, "the text");
    return HSC_OK;
}

void hsc__reply_free(hsc__reply *r)
{
    hsc__string_free(&r->text);
}
