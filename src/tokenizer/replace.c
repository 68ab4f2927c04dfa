/* Normalizers that replace what a pattern matches, and the two on runs of blanks that SentencePiece's files ask for. */
#include "tokenizer/normalize.h"

#include "base/text.h"

#include <string.h>

static hsc_span span_of(const hsc__aligned *text, size_t start, size_t end)
{
    return (hsc_span){text->span[start].start, text->span[end - 1].end};
}

static size_t blanks_end(const hsc__aligned *text, size_t i)
{
    while (i < text->n && text->data[i] == ' ') i++;
    return i;
}

/* Each run of at least `fewest` blanks becomes `with`; with `trims` those at the ends go, however short. */
static hsc_status squeeze(const hsc__aligned *text, size_t fewest, hsc__bytes with, bool trims, hsc__aligned *out,
                          hsc_error *err)
{
    for (size_t i = 0, end; i < text->n; i = end) {
        const char *blank = memchr(text->data + i, ' ', text->n - i);
        end = blank ? (size_t)(blank - text->data) : text->n;
        HSC_TRY(hsc__aligned_append_part(out, text, i, end, err));
        size_t start = end;
        end = blanks_end(text, start);
        if (start == end || (trims && (start == 0 || end == text->n))) continue;
        if (end - start < fewest) HSC_TRY(hsc__aligned_append_part(out, text, start, end, err));
        else if (with.n) HSC_TRY(hsc__aligned_append(out, with.data, with.n, span_of(text, start, end), err));
    }
    return HSC_OK;
}

/* `clean` is the text as valid UTF-8, byte for byte as long. */
static hsc_status replace_matches(const hsc__normalize_op *op, hsc__match *match, const hsc__aligned *text,
                                  const char *clean, hsc__aligned *out, hsc_error *err)
{
    for (size_t done = 0, start, end; done < text->n; done = end) {
        HSC_TRY(hsc__pattern_find(op->pattern, match, clean, text->n, done, &start, &end, err));
        HSC_TRY(hsc__aligned_append_part(out, text, done, start, err));
        if (end > start && op->with.n)
            HSC_TRY(hsc__aligned_append(out, op->with.data, op->with.n, span_of(text, start, end), err));
        if (end == start && end < text->n) { /* an empty match: the character behind it stays */
            int32_t c;
            end += (size_t)hsc__utf8_read(clean + start, text->n - start, &c);
            HSC_TRY(hsc__aligned_append_part(out, text, start, end, err));
        }
    }
    return HSC_OK;
}

static hsc_status replace_pattern(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out,
                                  hsc_error *err)
{
    hsc__match match = {0};
    char *clean = NULL;
    hsc_status status = HSC_OK;
    if (!hsc__utf8_valid(text->data, text->n)) {
        clean = hsc__strndup(text->data, text->n);
        if (!clean) return hsc__fail_memory(err, text->n, "normalization");
        hsc__text_mask(clean, text->n);
    }
    status = replace_matches(op, &match, text, clean ? clean : text->data, out, err);
    hsc__match_free(&match);
    hsc__free(clean);
    return status;
}

hsc_status hsc__normalize_replace(const hsc__normalize_op *op, const hsc__aligned *text, hsc__aligned *out,
                                  hsc_error *err)
{
    if (op->kind == HSC__SQUEEZE) return squeeze(text, 2, op->with, false, out, err);
    if (op->kind == HSC__TRIM) return squeeze(text, 1, (hsc__bytes){" ", 1}, true, out, err);
    return replace_pattern(op, text, out, err);
}
