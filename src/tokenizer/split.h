/*
 * The pre-tokenizer: steps that each cut what the step before left, until the pieces are the model's words. A step sees
 * one piece as if nothing stood beside it. Pieces are made one at a time; nothing is stored.
 */
#ifndef HSC_TOKENIZER_SPLIT_H
#define HSC_TOKENIZER_SPLIT_H

#include "tokenizer/pattern.h"
#include "tokenizer/scan.h"

typedef enum {
    HSC__SPLIT_SCAN,        /* a hand-written splitter that covers the whole piece */
    HSC__SPLIT_PATTERN,     /* matches of a pattern */
    HSC__SPLIT_NUMBERS,     /* characters of \p{N} */
    HSC__SPLIT_PUNCTUATION, /* ASCII punctuation and Unicode 9's \p{P} */
    HSC__SPLIT_SPACES,      /* characters of \s */
    HSC__SPLIT_NO_WORD,     /* characters that are not of \w */
} hsc__split_kind;

/* What becomes of a match; the names are those of tokenizer.json. */
typedef enum {
    HSC__ISOLATED,
    HSC__REMOVED,
    HSC__MERGED_WITH_PREVIOUS,
    HSC__MERGED_WITH_NEXT,
    HSC__CONTIGUOUS
} hsc__split_behavior;

typedef struct hsc__split_step {
    hsc__split_kind kind;
    hsc__split_behavior behavior;
    bool invert; /* what matches and what does not change places */
    hsc__scan_fn scan;
    hsc__pattern *pattern; /* owned */
} hsc__split_step;

enum { HSC__MAX_SPLITS = 16 };

typedef struct hsc__splitter {
    hsc__split_step step[HSC__MAX_SPLITS];
    size_t n_steps;
} hsc__splitter;

/* HSC_EUNSUPPORTED when there are too many; the step's pattern is then freed. */
hsc_status hsc__splitter_add(hsc__splitter *splitter, hsc__split_step step, hsc_error *err);
/* A step that isolates the matches of a pattern, by hand where there is a splitter for it. */
hsc_status hsc__splitter_add_pattern(hsc__splitter *splitter, const char *pattern, size_t n,
                                     hsc__split_behavior behavior, bool invert, hsc_error *err);
void hsc__splitter_free(hsc__splitter *splitter);

/* Where one step stands in its piece [base, limit). */
typedef struct hsc__split_level {
    size_t base, limit, cursor;
    size_t match_start, match_end; /* the next match when has_match */
    bool has_match;
} hsc__split_level;

/* An iteration over one text's pieces. Zero it before its first use; it keeps its memory between texts. */
typedef struct hsc__pieces {
    const hsc__splitter *splitter;
    const char *text;
    const char *clean; /* the text with every ill-formed byte replaced, for patterns */
    size_t n;
    hsc__split_level level[HSC__MAX_SPLITS];
    hsc__match match;
    char *cleaned;
    size_t cleaned_capacity;
} hsc__pieces;

hsc_status hsc__pieces_begin(hsc__pieces *pieces, const hsc__splitter *splitter, const char *text, size_t n,
                             hsc_error *err);
/* The next piece [*start, *end); *start == *end == n when there is none left. */
hsc_status hsc__pieces_next(hsc__pieces *pieces, size_t *start, size_t *end, hsc_error *err);
void hsc__pieces_free(hsc__pieces *pieces);

#endif
