/* Normalizers. Unicode's forms are applied to one short segment at a time, a starter with the marks that may compose
 * with it, so that spans stay narrow. */
#include "tokenizer/normalize.h"

#include "base/text.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

hsc_status hsc__normalizer_add(hsc__normalizer *normalizer, hsc__normalize_op op, hsc_error *err)
{
    HSC_FAIL_IF(normalizer->n_ops == HSC__MAX_OPS, HSC_EUNSUPPORTED, "more than %d normalizers", (int)HSC__MAX_OPS);
    normalizer->op[normalizer->n_ops++] = op;
    return HSC_OK;
}

static hsc_status reserve(hsc__aligned *aligned, size_t n, hsc_error *err)
{
    HSC_TRY(hsc__grow(&aligned->data, &aligned->capacity, n, 1, err));
    return hsc__grow(&aligned->span, &aligned->span_capacity, n, sizeof *aligned->span, err);
}

hsc_status hsc__aligned_set(hsc__aligned *aligned, const char *text, size_t n, size_t offset, hsc_error *err)
{
    HSC_TRY(reserve(aligned, n, err));
    if (n) memcpy(aligned->data, text, n);
    for (size_t i = 0; i < n; i++) aligned->span[i] = (hsc_span){offset + i, offset + i + 1};
    aligned->n = n;
    return HSC_OK;
}

hsc_status hsc__aligned_slice(hsc__aligned *aligned, const hsc__aligned *from, size_t start, size_t end, hsc_error *err)
{
    size_t n = end - start;
    HSC_TRY(reserve(aligned, n, err));
    if (n) {
        memcpy(aligned->data, from->data + start, n);
        memcpy(aligned->span, from->span + start, n * sizeof *aligned->span);
    }
    aligned->n = n;
    return HSC_OK;
}

void hsc__aligned_free(hsc__aligned *aligned)
{
    hsc__free(aligned->data);
    hsc__free(aligned->span);
    *aligned = (hsc__aligned){0};
}

/* Appends bytes that all came from one place. */
static hsc_status append(hsc__aligned *out, const char *bytes, size_t n, hsc_span from, hsc_error *err)
{
    HSC_TRY(reserve(out, out->n + n, err));
    memcpy(out->data + out->n, bytes, n);
    for (size_t i = 0; i < n; i++) out->span[out->n + i] = from;
    out->n += n;
    return HSC_OK;
}

/* Appends a part of the text with the spans it has. */
static hsc_status append_part(hsc__aligned *out, const hsc__aligned *text, size_t start, size_t end, hsc_error *err)
{
    size_t n = end - start;
    if (n == 0) return HSC_OK;
    HSC_TRY(reserve(out, out->n + n, err));
    memcpy(out->data + out->n, text->data + start, n);
    memcpy(out->span + out->n, text->span + start, n * sizeof *out->span);
    out->n += n;
    return HSC_OK;
}

static bool starts_with(const hsc__aligned *text, size_t at, hsc__bytes what)
{
    return text->n - at >= what.n && memcmp(text->data + at, what.data, what.n) == 0;
}

static hsc_status prepend(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    bool wanted = op->kind == HSC__PREPEND || !starts_with(text, 0, op->text);
    if (op->kind == HSC__PREPEND_FIRST && text->span[0].start != 0) wanted = false;
    size_t start = text->span[0].start;
    if (wanted) HSC_TRY(append(out, op->text.data, op->text.n, (hsc_span){start, start}, err));
    return append_part(out, text, 0, text->n, err);
}

static hsc_status replace(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    size_t done = 0;
    for (size_t i = 0; i + op->text.n <= text->n;) {
        if (!starts_with(text, i, op->text)) {
            i++;
            continue;
        }
        size_t end = i + op->text.n;
        HSC_TRY(append_part(out, text, done, i, err));
        HSC_TRY(append(out, op->with.data, op->with.n, (hsc_span){text->span[i].start, text->span[end - 1].end}, err));
        done = i = end;
    }
    return append_part(out, text, done, text->n, err);
}

/* Whether a character may compose with what stands before it: marks, the vowels and final consonants of Hangul, and
 * Kirat Rai's vowel signs, which are letters. */
static bool may_compose(int32_t c)
{
    if (c < 0x300) return false;
    if ((c >= 0x1160 && c <= 0x11FF) || (c >= 0x16D63 && c <= 0x16D6A)) return true;
    return hsc__major_category(c) == 'M';
}

/* The end of the segment at `i`: one character and all that may compose with it. An ill-formed byte stands alone. */
static size_t segment_end(const hsc__aligned *text, size_t i)
{
    int32_t c;
    size_t length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
    if (c < 0) return i + length;
    for (i += length; i < text->n; i += length) {
        length = (size_t)hsc__utf8_read(text->data + i, text->n - i, &c);
        if (c < 0 || !may_compose(c)) break;
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
    if (n < 0) status = append_part(out, text, start, end, err); /* not UTF-8: as it is */
    hsc_span span = {text->span[start].start, text->span[end - 1].end};
    for (utf8proc_ssize_t i = 0; i < n && status == HSC_OK; i++) {
        char bytes[4];
        status = append(out, bytes, (size_t)hsc__utf8_write(points[i], bytes), span, err);
    }
    if (points != small) hsc__free(points);
    return status;
}

static hsc_status compose(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    bool composes = op->kind == HSC__NFC || op->kind == HSC__NFKC;
    bool compatible = op->kind == HSC__NFKC || op->kind == HSC__NFKD;
    int options =
        UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < text->n;) {
        size_t end = segment_end(text, i);
        bool is_plain = end - i == 1; /* ASCII, or an ill-formed byte */
        HSC_TRY(is_plain ? append_part(out, text, i, end, err) : compose_segment(text, i, end, options, out, err));
        i = end;
    }
    return HSC_OK;
}

hsc_status hsc__normalize(const hsc__normalizer *normalizer, hsc__aligned *text, hsc__aligned *spare, hsc_error *err)
{
    for (size_t i = 0; i < normalizer->n_ops && text->n; i++) {
        const hsc__normalize_op *op = &normalizer->op[i];
        spare->n = 0;
        HSC_TRY(reserve(spare, text->n, err));
        switch (op->kind) {
        case HSC__PREPEND:
        case HSC__PREPEND_MISSING:
        case HSC__PREPEND_FIRST: HSC_TRY(prepend(op, text, spare, err)); break;
        case HSC__REPLACE: HSC_TRY(replace(op, text, spare, err)); break;
        default: HSC_TRY(compose(op, text, spare, err)); break;
        }
        hsc__aligned swapped = *text;
        *text = *spare;
        *spare = swapped;
    }
    return HSC_OK;
}
