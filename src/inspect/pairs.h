/* What the readers of sentence pairs share: the list that they fill, and how a line is left out. Memory holds a pointer
 * a pair; pairs and texts lie in an archive. */
#ifndef HSC_INSPECT_PAIRS_H
#define HSC_INSPECT_PAIRS_H

#include "base/archive.h"
#include "headscope/inspect.h"
#include "inspect/list.h"

#include <stdbool.h>

struct hsc_pairs {
    const hsc_pair **pairs;
    size_t n, capacity;
    bool unordered; /* by id, as marked text is from its millionth line on */
    hsc_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    hsc__archive archive; /* pairs, all strings and ids */
    const char *name;     /* of the file, for messages */
};

/* Everything that adds fails with HSC_ENOMEM or HSC_EIO. */
hsc_status hsc__pairs_skip(hsc_pairs *pairs, int line, hsc_error *err, const char *format, ...) HSC_PRINTF(4, 5);
/* Copies all of it. */
hsc_status hsc__pairs_add(hsc_pairs *pairs, const hsc_pair *pair, hsc_error *err);

hsc_status hsc__pairs_marked(hsc_pairs *pairs, hsc__list *lines, hsc_error *err);
hsc_status hsc__pairs_jsonl(hsc_pairs *pairs, hsc__list *lines, const char *cluster_field, hsc_error *err);

/* Where the texts of two wordings differ, in whole words: sets both swap spans. */
void hsc__pairs_find_swap(hsc_wording wording[2]);

/* For loops over pairs: called after the i-th was read, lets pages go from time to time. */
static inline void hsc__pairs_forget(const hsc_pairs *pairs, size_t i)
{
    hsc__archive_forget(&pairs->archive, i);
}

#endif
