/* Splitters by hand: one pass, a table for ASCII, no backtracking. */
#include "tokenizer/scan.h"

#include "tokenizer/unicode.h"

#include <string.h>

/* The end of the run of one class that starts at i. */
static size_t run(const char *text, size_t n, size_t i, hsc__class class)
{
    while (i < n) {
        unsigned char c = hsc__ascii_class[(unsigned char)text[i]];
        if (c == class) {
            i++;
            continue;
        }
        if (c != HSC__NOT_ASCII) break;
        hsc__class here;
        size_t length = (size_t)hsc__read_class(text + i, n - i, &here);
        if (here != class) break;
        i += length;
    }
    return i;
}

/* The start of the character before i; text[from..i) is white space, so it is valid UTF-8. */
static size_t back(const char *text, size_t from, size_t i)
{
    do i--;
    while (i > from && ((unsigned char)text[i] & 0xC0) == 0x80);
    return i;
}

/* \s+(?!\S)|\s+ : blanks but the last, which belongs to what follows, unless it stands alone. */
static size_t blanks(const char *text, size_t n, size_t from)
{
    size_t end = run(text, n, from, HSC__SPACE);
    if (end == n) return end;
    size_t last = back(text, from, end);
    return last > from ? last : end;
}

size_t hsc__scan_gpt2(const char *text, size_t n, size_t from)
{
    size_t i = from;
    hsc__class class;
    if (text[i] == '\'' && i + 1 < n) {
        char a = text[i + 1], b = i + 2 < n ? text[i + 2] : '\0';
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
        if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    }
    size_t length = (size_t)hsc__read_class(text + i, n - i, &class);
    if (text[i] == ' ' && i + 1 < n) {
        i++;
        length = (size_t)hsc__read_class(text + i, n - i, &class);
    }
    if (class == HSC__SPACE) return blanks(text, n, from);
    return run(text, n, i + length, class);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d): the length of the contraction at i, or 0. The long s (U+017F) folds to s. */
static size_t contraction(const char *text, size_t n, size_t i)
{
    if (i + 1 >= n || text[i] != '\'') return 0;
    char a = text[i + 1] | 0x20, b = i + 2 < n ? text[i + 2] | 0x20 : '\0';
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return i + 2 < n && memcmp(text + i + 1, "\xc5\xbf", 2) == 0 ? 3 : 0;
}

static size_t newlines(const char *text, size_t n, size_t i)
{
    while (i < n && (text[i] == '\r' || text[i] == '\n')) i++;
    return i;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last newline among the blanks, else as `blanks`. */
static size_t blanks_or_lines(const char *text, size_t n, size_t from)
{
    size_t end = run(text, n, from, HSC__SPACE);
    for (size_t i = end; i > from; i--)
        if (text[i - 1] == '\r' || text[i - 1] == '\n') return i;
    return blanks(text, n, from);
}

static size_t digits(const char *text, size_t n, size_t i, int most)
{
    for (int k = 0; k < most && i < n; k++) {
        hsc__class class;
        size_t length = (size_t)hsc__read_class(text + i, n - i, &class);
        if (class != HSC__NUMBER) break;
        i += length;
    }
    return i;
}

static size_t scan_lines(const char *text, size_t n, size_t from, int most_digits)
{
    size_t skip = contraction(text, n, from);
    if (skip) return from + skip;
    hsc__class class, next = HSC__SPACE;
    size_t i = from + (size_t)hsc__read_class(text + from, n - from, &class);
    if (class == HSC__LETTER) return run(text, n, i, HSC__LETTER);
    if (class == HSC__NUMBER) return digits(text, n, from, most_digits);
    size_t length = i < n ? (size_t)hsc__read_class(text + i, n - i, &next) : 0;
    bool is_newline = text[from] == '\r' || text[from] == '\n';
    if (length && next == HSC__LETTER && !is_newline) return run(text, n, i + length, HSC__LETTER);
    if (class == HSC__OTHER) return newlines(text, n, run(text, n, i, HSC__OTHER));
    if (length && next == HSC__OTHER && text[from] == ' ')
        return newlines(text, n, run(text, n, i + length, HSC__OTHER));
    return blanks_or_lines(text, n, from);
}

size_t hsc__scan_llama3(const char *text, size_t n, size_t from)
{
    return scan_lines(text, n, from, 3);
}

size_t hsc__scan_qwen2(const char *text, size_t n, size_t from)
{
    return scan_lines(text, n, from, 1);
}

size_t hsc__scan_trailing_blanks(const char *text, size_t n, size_t from)
{
    size_t end = hsc__trim_right(text, from, n);
    return end > from ? end : n;
}

hsc__scan_fn hsc__scan_find(const char *pattern, size_t n)
{
    static const struct {
        const char *pattern;
        hsc__scan_fn scan;
    } known[] = {{HSC__GPT2_PATTERN, hsc__scan_gpt2},
                 {HSC__LLAMA3_PATTERN, hsc__scan_llama3},
                 {HSC__QWEN2_PATTERN, hsc__scan_qwen2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == n && memcmp(known[i].pattern, pattern, n) == 0) return known[i].scan;
    return NULL;
}
