/* Text: UTF-8, what a terminal shows of a string, and numbers that do not depend on the locale. */
#ifndef HSC_BASE_TEXT_H
#define HSC_BASE_TEXT_H

#include "base/status.h"

#include <stdbool.h>

/* Reads one code point at text[0..n), n >= 1. Returns its length in bytes (1-4) and sets *code_point; for bytes that
 * are not UTF-8 sets *code_point to -1 and returns the length of the maximal ill-formed part (Unicode 3.9, U+FFFD
 * substitution of maximal subparts; the same as Python's and WHATWG's decoders). Surrogates and overlong forms are
 * ill-formed. */
int hsc__utf8_read(const char *text, size_t n, int32_t *code_point);

/* Writes a code point as UTF-8 into out[4]; returns the length. Invalid ones become U+FFFD. */
int hsc__utf8_write(int32_t code_point, char *out);

/* n, or less when the text ends inside a character that could still become whole: the length up to that character. */
size_t hsc__utf8_prefix(const char *text, size_t n);

/* 3 when the text begins with a byte order mark, which some editors put before UTF-8 and which is no part of it; 0. */
size_t hsc__text_mark(const char *text, size_t n);

/* The next line of text[*at..n), without "\n" or "\r\n"; *n_line may be 0. Moves *at behind it. At the start of the
 * text, *at = 0, a byte order mark is passed over. False at the end. */
bool hsc__next_line(const char *text, size_t n, size_t *at, const char **line, size_t *n_line);

bool hsc__utf8_valid(const char *text, size_t n);

bool hsc__ends_with(const char *text, const char *ending);

/* Where part[0..n_part) first stands in text[0..n); NULL: nowhere. An empty part stands at the start. The time grows
 * with n + n_part, whatever the two are made of. */
const char *hsc__text_find(const char *text, size_t n, const char *part, size_t n_part);

/* A growing byte string, always NUL-terminated once it is not empty. Zero it before use. A failed append sets
 * `failed` and leaves the contents; check once at the end. */
typedef struct hsc__string {
    char *data;
    size_t n, capacity;
    bool failed;
} hsc__string;
void hsc__string_add(hsc__string *s, const char *bytes, size_t n);
void hsc__string_text(hsc__string *s, const char *text);
/* Floats come out as in the C locale; what is no number is "-", as wide as the format makes it. */
void hsc__string_printf(hsc__string *s, const char *format, ...) HSC_PRINTF(2, 3);
/* As hsc__format_double. */
void hsc__string_double(hsc__string *s, int digits, double value);
void hsc__string_free(hsc__string *s);

/* The bytes as valid UTF-8: every ill-formed part becomes U+FFFD. */
void hsc__text_decode(hsc__string *out, const char *bytes, size_t n);

/* Terminal cells that valid UTF-8 takes (combining marks 0, CJK and emoji 2). */
int hsc__text_cells(const char *text, size_t n);

/* The length in bytes of the longest beginning that takes at most max_cells cells and ends between characters as a
 * reader sees them (base with its combining marks, joined emoji). Sets *cells, which may be NULL, to the cells it
 * takes. */
size_t hsc__text_fit(const char *text, size_t n, int max_cells, int *cells);

/* The text if it takes at most max_cells cells (>= 1), else its beginning and U+2026 in max_cells cells or one less. */
void hsc__text_cut(hsc__string *out, const char *text, size_t n, int max_cells);

/* Appends the text, every line of it that takes more than width cells (0: no limit) broken at blanks, which go. The
 * rest stands `hang` blanks behind where the line begins, or, where the line is a short label, two blanks or more and
 * a text ("layers        30 of them"), under that text. Escape sequences (CSI) take no cells; a word that is longer
 * than a line stays whole, and so do words in quotes (' it') of at most 40 bytes. */
void hsc__text_fold(hsc__string *out, const char *text, size_t n, int width, int hang);

/* Python's repr() of the text: quotes chosen as Python does, \n \t \\ escaped, unprintable ones as \x.. \u....
 * \U........; bytes that are not whole UTF-8, a token that holds part of a character, as <E2><82>. */
void hsc__text_repr(hsc__string *out, const char *bytes, size_t n);

/* One line for a label in a table or a picture: a blank at either end or beside another blank shows as U+2423 (open
 * box), a newline as U+21B5 with carriage return U+240D, a tab as U+21E5, other control, format and direction
 * characters as <U+202E> (a joiner between two characters stays), bytes that are not whole UTF-8 as <E2><82>. A
 * combining mark at the start stands on U+25CC, so that it does not slip onto what is printed before it. Never a raw
 * control character. */
void hsc__text_label(hsc__string *out, const char *bytes, size_t n);

/* strtod and printf("%.*g") in the C locale, whatever setlocale said; "nan" has no sign. hsc__parse_double returns
 * false when the text is not wholly a number. */
bool hsc__parse_double(const char *text, double *out);
void hsc__format_double(char *out, size_t capacity, int digits, double value);
/* vsnprintf in the C locale. */
int hsc__format(char *out, size_t capacity, const char *format, va_list args) HSC_PRINTF(3, 0);

#endif
