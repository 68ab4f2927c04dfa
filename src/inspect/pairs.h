/* What the readers of sentence pairs share: the list that they fill, and how a line is left out. */
#ifndef HSC_INSPECT_PAIRS_H
#define HSC_INSPECT_PAIRS_H

#include "base/alloc.h"
#include "headscope/inspect.h"

#include <stdbool.h>

struct hsc_pairs {
    hsc_pair *pairs;
    size_t n, capacity;
    hsc_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    hsc__arena arena; /* of all strings and ids */
    const char *name; /* of the file, for messages */
};

/* HSC_ENOMEM or HSC_OK, as for everything that adds. */
hsc_status hsc__pairs_skip(hsc_pairs *pairs, int line, hsc_error *err, const char *format, ...) HSC_PRINTF(4, 5);
hsc_status hsc__pairs_add(hsc_pairs *pairs, const hsc_pair *pair, hsc_error *err);
/* A copy that lives as long as the list. NULL: out of memory. */
char *hsc__pairs_text(hsc_pairs *pairs, const char *text, size_t n);

hsc_status hsc__pairs_marked(hsc_pairs *pairs, const char *bytes, size_t n, hsc_error *err);
hsc_status hsc__pairs_jsonl(hsc_pairs *pairs, const char *bytes, size_t n, const char *cluster_field, hsc_error *err);

/* Where the texts of two wordings differ, in whole words: sets both swap spans. */
void hsc__pairs_find_swap(hsc_wording wording[2]);

#endif
