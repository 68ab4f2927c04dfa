/*
 * What may not be written next, whatever its logit: the same for one text and for beams. The rules are those of
 * transformers' logits processors of the same names: bad_words_ids, no_repeat_ngram_size, min_length.
 */
#ifndef HSC_TASKS_RULES_H
#define HSC_TASKS_RULES_H

#include "headscope/tasks.h"

typedef struct hsc__rules {
    const hsc_token *barred, *ends; /* [n_barred] never written, [n_ends] tokens that end a text */
    int n_barred, n_ends;
    size_t least;  /* no end while a text has fewer tokens */
    int no_repeat; /* no sequence of so many tokens twice in a text; 0: no rule */
} hsc__rules;

/* HSC_EINVAL: an option is out of range. */
hsc_status hsc__rules_check(int min_tokens, int no_repeat, hsc_error *err);

/* Sets the logits [n_vocab] of what may not follow ids [n_ids] to -inf. */
void hsc__rule_out(const hsc__rules *rules, const hsc_token *ids, size_t n_ids, float *logits, int n_vocab);

#endif
