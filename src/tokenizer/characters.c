/* Normalizers that turn each character into none, one or a few, whatever stands beside it. ASCII, which most of them
 * leave alone or change in place, goes by runs. */
#include "tokenizer/normalize.h"

#include "base/text.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode9.h"

enum { MOST_OUT = 3, REPLACEMENT = 0xFFFD };

static bool is_line_blank(int32_t c)
{
    return c == '\t' || c == '\n' || c == '\r';
}

static int clean(int32_t c, int32_t *out)
{
    if (!is_line_blank(c) && hsc__unicode9_control(c)) return 0;
    if (hsc__is_space(c)) out[0] = ' ';
    return 1;
}

static int part_ideographs(int32_t c, int32_t *out)
{
    if (!hsc__unicode9_ideograph(c)) return 1;
    out[0] = out[2] = ' ';
    out[1] = c;
    return 3;
}

/* The control characters and the blanks that Moses and NMT's scripts know. */
static int nmt(int32_t c, int32_t *out)
{
    bool goes = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == REPLACEMENT;
    if (goes) return 0;
    if (blank) out[0] = ' ';
    return 1;
}

/* What c becomes: out[0..return), which starts as c itself. */
static int map(hsc__normalize_kind kind, int32_t c, int32_t *out)
{
    out[0] = c;
    switch (kind) {
    case HSC__CLEAN: return clean(c, out);
    case HSC__IDEOGRAPHS: return part_ideographs(c, out);
    case HSC__NO_NONSPACING: return !hsc__unicode9_nonspacing(c);
    case HSC__NO_MARKS: return !hsc__unicode9_mark(c);
    case HSC__LOWERCASE: return hsc__lower(c, out);
    default: return nmt(c, out);
    }
}

/* Whether an ASCII character stays as it is. */
static bool stays(hsc__normalize_kind kind, unsigned char c)
{
    if (c >= 0x80) return false;
    if (kind == HSC__LOWERCASE) return c < 'A' || c > 'Z';
    if (kind == HSC__CLEAN || kind == HSC__NMT) return c >= ' ' && c != 0x7F;
    return true;
}

/* ASCII of which every character becomes one of ASCII, in place; false when one goes. */
static bool map_ascii(hsc__normalize_kind kind, hsc__aligned *text)
{
    int32_t out[MOST_OUT];
    for (size_t i = 0; i < text->n; i++)
        if (!stays(kind, (unsigned char)text->data[i]) && map(kind, text->data[i], out) != 1) return false;
    for (size_t i = 0; i < text->n; i++) {
        if (stays(kind, (unsigned char)text->data[i])) continue;
        map(kind, text->data[i], out);
        text->data[i] = (char)out[0];
    }
    return true;
}

/* One character at i; returns its length. An ill-formed byte counts as U+FFFD where that is changed, else it stays. */
static hsc_status map_one(hsc__normalize_kind kind, const hsc__aligned *text, size_t i, hsc__aligned *out,
                          size_t *length, hsc_error *err)
{
    int32_t c, to[MOST_OUT];
    *length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
    bool ill_formed = c < 0;
    if (ill_formed) c = REPLACEMENT;
    int n = map(kind, c, to);
    size_t end = i + *length;
    if (n == 1 && to[0] == c) return hsc__aligned_append_part(out, text, i, end, err);
    for (int k = 0; k < n; k++) {
        char bytes[4];
        size_t size = (size_t)hsc__utf8_write(to[k], bytes);
        HSC_TRY(hsc__aligned_append(out, bytes, size, (hsc_span){text->span[i].start, text->span[end - 1].end}, err));
    }
    return HSC_OK;
}

hsc_status hsc__normalize_characters(hsc__normalize_kind kind, hsc__aligned *text, bool is_ascii, hsc__aligned *out,
                                     bool *in_place, hsc_error *err)
{
    *in_place = is_ascii && map_ascii(kind, text);
    for (size_t i = 0, length; !*in_place && i < text->n; i += length) {
        size_t run = i;
        while (run < text->n && stays(kind, (unsigned char)text->data[run])) run++;
        HSC_TRY(hsc__aligned_append_part(out, text, i, run, err));
        length = run - i;
        if (!length) HSC_TRY(map_one(kind, text, i, out, &length, err));
    }
    return HSC_OK;
}
