/* Normalizers: the aligned text, the ops that work on texts, and the walk over all ops. */
#include "tokenizer/normalize.h"

#include "base/text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/unicode.h"

#include <string.h>

hsc_status hsc__normalizer_add(hsc__normalizer *normalizer, hsc__normalize_op op, hsc_error *err)
{
    if (normalizer->n_ops == HSC__MAX_OPS) {
        hsc__pattern_free(op.pattern);
        return hsc__fail(err, HSC_EUNSUPPORTED, 0, "more than %d normalizers", (int)HSC__MAX_OPS);
    }
    normalizer->op[normalizer->n_ops++] = op;
    return HSC_OK;
}

void hsc__normalizer_free(hsc__normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->n_ops; i++) hsc__pattern_free(normalizer->op[i].pattern);
    normalizer->n_ops = 0;
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

hsc_status hsc__aligned_append(hsc__aligned *out, const char *bytes, size_t n, hsc_span from, hsc_error *err)
{
    HSC_TRY(reserve(out, out->n + n, err));
    memcpy(out->data + out->n, bytes, n);
    for (size_t i = 0; i < n; i++) out->span[out->n + i] = from;
    out->n += n;
    return HSC_OK;
}

hsc_status hsc__aligned_append_part(hsc__aligned *out, const hsc__aligned *text, size_t start, size_t end,
                                    hsc_error *err)
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
    if (wanted) HSC_TRY(hsc__aligned_append(out, op->text.data, op->text.n, (hsc_span){start, start}, err));
    return hsc__aligned_append_part(out, text, 0, text->n, err);
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
        HSC_TRY(hsc__aligned_append_part(out, text, done, i, err));
        HSC_TRY(hsc__aligned_append(out, op->with.data, op->with.n,
                                    (hsc_span){text->span[i].start, text->span[end - 1].end}, err));
        done = i = end;
    }
    return hsc__aligned_append_part(out, text, done, text->n, err);
}

static hsc_status spell_bytes(const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    for (size_t i = 0; i < text->n; i++) {
        char spelled[4];
        size_t n = (size_t)hsc__byte_spell((unsigned char)text->data[i], spelled);
        HSC_TRY(hsc__aligned_append(out, spelled, n, text->span[i], err));
    }
    return HSC_OK;
}

/* White space off the start or the end. */
static hsc_status strip(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out, hsc_error *err)
{
    size_t start = 0, end = text->n;
    for (int32_t c; op->kind == HSC__STRIP_LEFT && start < end;) {
        size_t length = (size_t)hsc__utf8_read(text->data + start, end - start, &c);
        if (!hsc__is_space(c)) break;
        start += length;
    }
    if (op->kind == HSC__STRIP_RIGHT) end = hsc__trim_right(text->data, start, end);
    return hsc__aligned_append_part(out, text, start, end, err);
}

static bool is_ascii(const hsc__aligned *text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text->n; i++) all |= (unsigned char)text->data[i];
    return all < 0x80;
}

/* Whether the op leaves ASCII as it is. */
static bool spares_ascii(hsc__normalize_kind kind)
{
    return kind <= HSC__NFKD || kind == HSC__IDEOGRAPHS || kind == HSC__NO_NONSPACING || kind == HSC__NO_MARKS;
}

static hsc_status apply(const hsc__normalize_op *op, hsc__aligned *text, hsc__aligned *out, bool *in_place,
                        hsc_error *err)
{
    bool ascii = is_ascii(text);
    *in_place = ascii && spares_ascii(op->kind);
    if (*in_place) return HSC_OK;
    out->n = 0;
    HSC_TRY(reserve(out, text->n, err));
    switch (op->kind) {
    case HSC__PREPEND:
    case HSC__PREPEND_MISSING:
    case HSC__PREPEND_FIRST: return prepend(op, text, out, err);
    case HSC__SPELL_BYTES: return spell_bytes(text, out, err);
    case HSC__REPLACE: return replace(op, text, out, err);
    case HSC__STRIP_LEFT:
    case HSC__STRIP_RIGHT: return strip(op, text, out, err);
    case HSC__SQUEEZE:
    case HSC__TRIM:
    case HSC__REPLACE_PATTERN: return hsc__normalize_replace(op, text, out, err);
    case HSC__CHARSMAP: return hsc__charsmap_clusters(op->charsmap, text, out, err);
    case HSC__CHARSMAP_LONGEST: return hsc__charsmap_longest(op->charsmap, text, out, err);
    case HSC__NFC:
    case HSC__NFD:
    case HSC__NFKC:
    case HSC__NFKD: return hsc__normalize_form(op->kind, text, out, err);
    default: return hsc__normalize_characters(op->kind, text, ascii, out, in_place, err);
    }
}

hsc_status hsc__normalize(const hsc__normalizer *normalizer, hsc__aligned *text, hsc__aligned *spare, hsc_error *err)
{
    for (size_t i = 0; i < normalizer->n_ops && text->n; i++) {
        bool in_place = false;
        HSC_TRY(apply(&normalizer->op[i], text, spare, &in_place, err));
        if (in_place) continue;
        hsc__aligned swapped = *text;
        *text = *spare;
        *spare = swapped;
    }
    return HSC_OK;
}
