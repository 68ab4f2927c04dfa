/* Unicode's normalization forms on utf8proc, applied to one short segment at a time, a starter with the marks that may
 * compose with it, so that spans stay narrow. */
#include "tokenizer/normalize.h"

#include "base/text.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode9.h"

#include <utf8proc.h>

/* Whether a character may compose with what stands before it: marks, the vowels and final consonants of Hangul, and
 * Kirat Rai's vowel signs, which are letters. The compatible forms see Hangul and Katakana's voice marks through their
 * variants too. */
static bool may_compose(int32_t c, bool compatible)
{
    if (c < 0x300) return false;
    if (compatible && ((c >= 0x3131 && c <= 0x318E) || (c >= 0xFF9E && c <= 0xFFDC))) return true;
    if ((c >= 0x1160 && c <= 0x11FF) || (c >= 0x16D63 && c <= 0x16D6A)) return true;
    return hsc__major_category(c) == 'M';
}

/* The end of the segment at `i`: one character and all that may compose with it. An ill-formed byte stands alone, and a
 * character that is newer than the forms (*unknown): it stays as it is. */
static size_t segment_end(const hsc__aligned *text, size_t i, bool compatible, bool *unknown)
{
    int32_t c;
    size_t length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
    *unknown = c < 0 || hsc__unicode9_unknown(c);
    if (*unknown) return i + length;
    for (i += length; i < text->n; i += length) {
        length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
        if (c < 0 || !may_compose(c, compatible) || hsc__unicode9_unknown(c)) break;
    }
    return i;
}

static hsc_status compose_segment(const hsc__aligned *text, size_t start, size_t end, int options, hsc__aligned *out,
                                  hsc_error *err)
{
    utf8proc_int32_t small[64], *points = small;
    utf8proc_ssize_t capacity = 64, size = (utf8proc_ssize_t)(end - start);
    const utf8proc_uint8_t *from = (const utf8proc_uint8_t *)text->data + start;
    utf8proc_ssize_t n = utf8proc_decompose(from, size, points, capacity, (utf8proc_option_t)options);
    if (n > capacity) {
        points = hsc__malloc((size_t)n * sizeof *points);
        if (!points) return hsc__fail_memory(err, (size_t)n * sizeof *points, "normalization");
        n = utf8proc_decompose(from, size, points, n, (utf8proc_option_t)options);
    }
    hsc_status status = HSC_OK;
    if (n >= 0) n = utf8proc_normalize_utf32(points, n, (utf8proc_option_t)options);
    if (n < 0) status = hsc__aligned_append_part(out, text, start, end, err); /* not UTF-8: as it is */
    hsc_span span = {text->span[start].start, text->span[end - 1].end};
    for (utf8proc_ssize_t i = 0; i < n && status == HSC_OK; i++) {
        char bytes[4];
        status = hsc__aligned_append(out, bytes, (size_t)hsc__utf8_write(points[i], bytes), span, err);
    }
    if (points != small) hsc__free(points);
    return status;
}

/* A character of a segment while it is decomposed. */
typedef struct point {
    utf8proc_int32_t c;
    int class; /* its combining class: marks are sorted by it */
    hsc_span span;
} point;

enum { MOST_POINTS = 18, SMALL = 64 }; /* no character becomes more than 18 */

/* Decomposes the character at i into out[0..return). */
static size_t decompose_one(const hsc__aligned *text, size_t i, size_t length, int options, point *out)
{
    utf8proc_int32_t c, points[MOST_POINTS];
    hsc_span span = {text->span[i].start, text->span[i + length - 1].end};
    hsc__utf8_read(text->data + i, length, &c);
    utf8proc_ssize_t n = utf8proc_decompose_char(c, points, MOST_POINTS, (utf8proc_option_t)options, NULL);
    if (n <= 0 || n > MOST_POINTS) points[0] = c, n = 1;
    for (utf8proc_ssize_t k = 0; k < n; k++)
        out[k] = (point){points[k], utf8proc_get_property(points[k])->combining_class, span};
    return (size_t)n;
}

/* Marks by their classes; those of one class stay in their order. */
static void order(point *p, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        point moved = p[i];
        size_t k = i;
        for (; moved.class && k && p[k - 1].class > moved.class; k--) p[k] = p[k - 1];
        p[k] = moved;
    }
}

/* A segment's characters one by one, so that each keeps its own span. */
static hsc_status decompose_segment(const hsc__aligned *text, size_t start, size_t end, int options, hsc__aligned *out,
                                    hsc_error *err)
{
    point small[SMALL * MOST_POINTS], *points = small;
    size_t n = 0, most = (end - start) * MOST_POINTS;
    if (end - start > SMALL) points = hsc__malloc(most * sizeof *points);
    if (!points) return hsc__fail_memory(err, most * sizeof *points, "normalization");
    for (size_t i = start, length; i < end; i += length) {
        int32_t c;
        length = (size_t)hsc__utf8_read(text->data + i, end - i, &c);
        n += decompose_one(text, i, length, options, points + n);
    }
    order(points, n);
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < n && status == HSC_OK; i++) {
        char bytes[4];
        status = hsc__aligned_append(out, bytes, (size_t)hsc__utf8_write(points[i].c, bytes), points[i].span, err);
    }
    if (points != small) hsc__free(points);
    return status;
}

hsc_status hsc__normalize_form(hsc__normalize_kind kind, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    bool composes = kind == HSC__NFC || kind == HSC__NFKC, compatible = kind == HSC__NFKC || kind == HSC__NFKD;
    int options =
        UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < text->n;) {
        bool unknown;
        size_t end = segment_end(text, i, compatible, &unknown);
        bool is_plain = unknown || end - i == 1; /* ASCII too */
        if (is_plain) HSC_TRY(hsc__aligned_append_part(out, text, i, end, err));
        else if (composes) HSC_TRY(compose_segment(text, i, end, options, out, err));
        else HSC_TRY(decompose_segment(text, i, end, options, out, err));
        i = end;
    }
    return HSC_OK;
}
