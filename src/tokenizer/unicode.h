/*
 * Classes of code points as pre-tokenizers see them. utf8proc supplies the categories; characters that Unicode 15 and
 * 16 added come from a small table, so that a text is cut alike whatever version the system's libraries have.
 */
#ifndef HSC_TOKENIZER_UNICODE_H
#define HSC_TOKENIZER_UNICODE_H

#include "base/text.h"

/* What GPT-2's pattern and its relatives tell apart: \p{L}, \p{N}, \s, and the rest. */
typedef enum { HSC__OTHER = 0, HSC__LETTER = 1, HSC__NUMBER = 2, HSC__SPACE = 3 } hsc__class;

/* The class of an ASCII byte; HSC__NOT_ASCII for 80 to FF. */
enum { HSC__NOT_ASCII = 4 };
extern const unsigned char hsc__ascii_class[256];

hsc__class hsc__class_of(int32_t code_point);
/* \s: Unicode's White_Space. */
bool hsc__is_space(int32_t code_point);
/* The end of text[start..end) without the white space at its end. */
size_t hsc__trim_right(const char *text, size_t start, size_t end);
/* The first letter of the general category: 'L', 'M', 'N', 'P', 'S', 'Z' or 'C'. */
char hsc__major_category(int32_t code_point);
/* Unicode's \w: alphabetic characters, marks, decimal digits, connector punctuation and the two joiners. */
bool hsc__is_word(int32_t code_point);

/* A number of any kind, those of Unicode 17 too, which patterns do not know yet. */
bool hsc__is_numeric(int32_t code_point);

/* Characters newer than Unicode 14: n rows in rising order. */
typedef struct hsc__new_range {
    int32_t first, last;
    char category[3]; /* general category, two letters */
} hsc__new_range;
const hsc__new_range *hsc__new_ranges(size_t *n);
bool hsc__is_new(int32_t code_point);

/* Writes the lower case of a code point, which is one or two of them, into out[2]; returns their number. Each character
 * stands for itself: no language's rules, no final sigma. */
int hsc__lower(int32_t code_point, int32_t *out);

int hsc__read_class_slow(const char *text, size_t n, hsc__class *class);

/* Reads the character at text[0..n), n >= 1, and its class. A byte that is not part of UTF-8 is one character of the
 * class HSC__OTHER. Returns the length in bytes. */
static inline int hsc__read_class(const char *text, size_t n, hsc__class *class)
{
    unsigned char known = hsc__ascii_class[(unsigned char)text[0]];
    if (known == HSC__NOT_ASCII) return hsc__read_class_slow(text, n, class);
    *class = (hsc__class)known;
    return 1;
}

#endif
