/* The text of a sample while it grows: whole characters only, and nothing that may yet turn out to be a stop string. */
#ifndef HSC_TASKS_REPLY_H
#define HSC_TASKS_REPLY_H

#include "base/text.h"

typedef struct hsc__stop {
    char *text;
    size_t n;
} hsc__stop;

/* Zero it, then set the borrowed fields. */
typedef struct hsc__reply {
    const hsc_tokenizer *tokenizer; /* NULL: there is no text */
    const hsc__stop *stops;
    size_t n_stops;
    hsc_stream stream;
    hsc__string text;
    size_t n_shown; /* of text: what cannot change any more */
} hsc__reply;

/* The text follows a prompt that ends in this token: it says whether a blank at the start is one. */
hsc_status hsc__reply_begin(hsc__reply *reply, hsc_token last, hsc_error *err);
/* Adds a token's text. Sets *stopped when a stop string became whole: the text is then cut before it and ended. */
hsc_status hsc__reply_add(hsc__reply *reply, hsc_token id, bool *stopped, hsc_error *err);
/* No token follows: what was held back is shown. */
hsc_status hsc__reply_end(hsc__reply *reply, hsc_error *err);
void hsc__reply_free(hsc__reply *reply);

#endif
