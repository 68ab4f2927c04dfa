/* Tokens that are ruled out. A sequence that would stand twice is found by going through the text once a step. */
#include "tasks/rules.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

hsc_status hsc__rules_check(int min_tokens, int no_repeat, hsc_error *err)
{
    HSC_FAIL_IF(min_tokens < 0, HSC_EINVAL, "min_tokens is %d; it goes from 0 (no least) up", min_tokens);
    HSC_FAIL_IF(no_repeat < 0, HSC_EINVAL, "no_repeat is %d; it goes from 0 (off) up", no_repeat);
    return HSC_OK;
}

static void bar(float *logits, int n_vocab, hsc_token id)
{
    if (id >= 0 && id < n_vocab) logits[id] = -INFINITY;
}

void hsc__rule_out(const hsc__rules *r, const hsc_token *ids, size_t n_ids, float *logits, int n_vocab)
{
    for (int i = 0; i < r->n_barred; i++) bar(logits, n_vocab, r->barred[i]);
    for (int i = 0; i < r->n_ends && n_ids < r->least; i++) bar(logits, n_vocab, r->ends[i]);
    if (!r->no_repeat || n_ids < (size_t)r->no_repeat) return;
    size_t same = (size_t)r->no_repeat - 1; /* so many of the last tokens would begin the sequence */
    for (size_t at = 0; at + same < n_ids; at++)
        if (memcmp(ids + at, ids + n_ids - same, same * sizeof *ids) == 0) bar(logits, n_vocab, ids[at + same]);
}
