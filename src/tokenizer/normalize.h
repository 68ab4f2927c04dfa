/*
 * Changing the text before it is tokenized, with the way back: every byte of the changed text knows the bytes of the
 * original that it came from. Ill-formed bytes pass through as they are.
 */
#ifndef HSC_TOKENIZER_NORMALIZE_H
#define HSC_TOKENIZER_NORMALIZE_H

#include "base/alloc.h"
#include "formats/gguf.h"
#include "tokenizer/pattern.h"

typedef enum {
    HSC__NFC,
    HSC__NFD,
    HSC__NFKC,
    HSC__NFKD,
    HSC__PREPEND,         /* text in front, unless the whole is empty */
    HSC__PREPEND_MISSING, /* text in front, unless it is there already (or the whole is empty) */
    HSC__PREPEND_FIRST,   /* as HSC__PREPEND_MISSING, only where the original text starts */
    HSC__SPELL_BYTES,     /* every byte by its character of the byte alphabet */
    HSC__REPLACE,         /* every occurrence of one text by another */
    HSC__CLEAN,           /* BERT's: control characters go, blanks of every kind become a blank */
    HSC__IDEOGRAPHS,      /* BERT's: a blank on either side of each ideograph */
    HSC__NO_NONSPACING,   /* nonspacing marks go */
    HSC__NO_MARKS,        /* marks of every kind go */
    HSC__LOWERCASE,
    HSC__NMT,         /* control characters go, others become a blank, as in NMT */
    HSC__STRIP_LEFT,  /* white space at the start goes */
    HSC__STRIP_RIGHT, /* and at the end */
    HSC__SQUEEZE,     /* every run of two blanks or more by one text */
    HSC__TRIM,        /* blanks at both ends go, runs of them become one: SentencePiece's */
    HSC__REPLACE_PATTERN,
    HSC__CHARSMAP,         /* a compiled map, by clusters */
    HSC__CHARSMAP_LONGEST, /* the same as SentencePiece does */
} hsc__normalize_kind;

typedef struct hsc__normalize_op {
    hsc__normalize_kind kind;
    hsc__bytes text; /* what is put in front, or replaced; borrowed */
    hsc__bytes with;
    hsc__pattern *pattern;                /* owned by the normalizer */
    const struct hsc__charsmap *charsmap; /* borrowed */
} hsc__normalize_op;

enum { HSC__MAX_OPS = 16 };

typedef struct hsc__normalizer {
    hsc__normalize_op op[HSC__MAX_OPS];
    size_t n_ops;
} hsc__normalizer;

/* HSC_EUNSUPPORTED when there are too many; the op's pattern is then freed. */
hsc_status hsc__normalizer_add(hsc__normalizer *normalizer, hsc__normalize_op op, hsc_error *err);

void hsc__normalizer_free(hsc__normalizer *normalizer);

/* A text and where its bytes came from. Zero it before its first use; it keeps its memory. */
typedef struct hsc__aligned {
    char *data;     /* [n] */
    hsc_span *span; /* [n] bytes of the original; what was put in has start == end */
    size_t n, capacity, span_capacity;
} hsc__aligned;

/* The original itself: text[0..n) that stands at `offset`. */
hsc_status hsc__aligned_set(hsc__aligned *aligned, const char *text, size_t n, size_t offset, hsc_error *err);
/* A part of another one. */
hsc_status hsc__aligned_slice(hsc__aligned *aligned, const hsc__aligned *from, size_t start, size_t end,
                              hsc_error *err);
void hsc__aligned_free(hsc__aligned *aligned);

/* Appends bytes that all came from one place. */
hsc_status hsc__aligned_append(hsc__aligned *out, const char *bytes, size_t n, hsc_span from, hsc_error *err);
/* Appends a part of another one with the spans it has. */
hsc_status hsc__aligned_append_part(hsc__aligned *out, const hsc__aligned *from, size_t start, size_t end,
                                    hsc_error *err);

/* The ops that look at one character at a time, HSC__CLEAN to HSC__NMT; in characters.c. `is_ascii`: text is. May work
 * in place: *in_place says whether the result is in text and not in out. */
hsc_status hsc__normalize_characters(hsc__normalize_kind kind, hsc__aligned *text, bool is_ascii, hsc__aligned *out,
                                     bool *in_place, hsc_error *err);
/* HSC__SQUEEZE, HSC__TRIM and HSC__REPLACE_PATTERN; in replace.c. */
hsc_status hsc__normalize_replace(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out,
                                  hsc_error *err);
/* Unicode's forms; in compose.c. */
hsc_status hsc__normalize_form(hsc__normalize_kind kind, const hsc__aligned *text, hsc__aligned *out, hsc_error *err);

/* Applies every op in turn; `spare` is scratch. */
hsc_status hsc__normalize(const hsc__normalizer *normalizer, hsc__aligned *text, hsc__aligned *spare, hsc_error *err);

#endif
