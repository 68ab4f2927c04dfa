/*
 * Added tokens: texts that are cut out before anything else and become their token whole. At one place the longest
 * wins. Those with `normalized` are sought in the normalized text (and are normalized themselves), the others before,
 * in the text as it was given.
 */
#ifndef HSC_TOKENIZER_ADDED_H
#define HSC_TOKENIZER_ADDED_H

#include "tokenizer/normalize.h"

typedef struct hsc__added_token {
    hsc__bytes content; /* borrowed */
    hsc__bytes sought;  /* content, normalized where that is asked for; owned by the set's arena */
    hsc_token id;
    bool special, lstrip, rstrip, single_word, normalized;
} hsc__added_token;

/* Tokens to seek together, in rising order of what is sought. */
typedef struct hsc__added_list {
    const hsc__added_token **token; /* [n] */
    size_t n, n_plain;              /* n_plain of them are not special */
    bool starts[256];               /* bytes that one of them starts with */
} hsc__added_list;

typedef struct hsc__added {
    hsc__added_token *token; /* [n] in rising order of content */
    size_t n, capacity;
    hsc__added_list raw, normalized;
    hsc__arena arena;
} hsc__added;

/* Adds a token, or replaces the one of the same content. */
hsc_status hsc__added_put(hsc__added *added, const hsc__added_token *token, hsc_error *err);
/* Sorts; after this the set is read-only. */
hsc_status hsc__added_finish(hsc__added *added, const hsc__normalizer *normalizer, hsc_error *err);
/* The token of exactly this content, or NULL. */
const hsc__added_token *hsc__added_find(const hsc__added *added, const char *content, size_t n);
void hsc__added_free(hsc__added *added);

/* A search for added tokens in one text. */
typedef struct hsc__added_search {
    const hsc__added_list *list;
    bool parse_special;
    const char *text;
    size_t n;
    size_t from; /* where the search goes on */
    size_t done; /* the text before it is dealt with */
} hsc__added_search;

hsc__added_search hsc__added_search_begin(const hsc__added_list *list, bool parse_special, const char *text, size_t n);
/* The next token and the text that it takes [*start, *end), blanks that it strips included; NULL when there is none,
 * and then *start == *end == n. What lies between search->done (before the call) and *start is plain text. */
const hsc__added_token *hsc__added_next(hsc__added_search *search, size_t *start, size_t *end);

#endif
