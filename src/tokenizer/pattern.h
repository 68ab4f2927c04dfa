/*
 * Pre-tokenizer patterns on PCRE2. Files write them for Oniguruma or Rust; what means something else to PCRE2 is
 * translated (classes of characters to Unicode 16, \s to White_Space, ^ and $ at every line), what cannot be is
 * refused.
 */
#ifndef HSC_TOKENIZER_PATTERN_H
#define HSC_TOKENIZER_PATTERN_H

#include "base/text.h"

typedef struct hsc__pattern hsc__pattern; /* compiled; read-only, shared by threads */

/* HSC_EUNSUPPORTED naming what PCRE2 cannot say alike; HSC_EFORMAT for a pattern that is wrong; HSC_ENOMEM. */
hsc_status hsc__pattern_compile(hsc__pattern **out, const char *pattern, size_t n, hsc_error *err);
void hsc__pattern_free(hsc__pattern *pattern);

/* A thread's memory for matching. Zero it before use. */
typedef struct hsc__match {
    void *data, *context, *stack;
} hsc__match;
void hsc__match_free(hsc__match *match);

/* The first match in text[0..n) at or after `from` that is not empty at `from` itself. text must be valid UTF-8.
 * *start = *end = n when there is none. HSC_EINVAL when the match passes the limit on effort. */
hsc_status hsc__pattern_find(const hsc__pattern *pattern, hsc__match *match, const char *text, size_t n, size_t from,
                             size_t *start, size_t *end, hsc_error *err);

/* PCRE2 reads valid UTF-8 only. A byte that is not becomes U+0001, one byte as well, which no pattern names and which
 * is neither letter, number nor blank: so it counts as one character of no class. */
void hsc__text_mask(char *text, size_t n);

/* The pattern as PCRE2 gets it; for the tests. */
hsc_status hsc__pattern_translate(hsc__string *out, const char *pattern, size_t n, hsc_error *err);

#endif
