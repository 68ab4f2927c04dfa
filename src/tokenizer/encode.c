/* Text to tokens: the walk through the pipeline. All that changes lives on this call's stack or in its scratch, so any
 * number of threads may encode with one tokenizer. */
#include "tokenizer/pipeline.h"
#include "tokenizer/word_cache.h"

#include <string.h>

typedef struct encoder {
    const hsc_tokenizer *tokenizer;
    hsc_encoding *out;
    bool parse_special;
    hsc__pieces pieces;
    hsc__bpe_scratch bpe;
    hsc__word_cache cache;
    hsc__aligned normal, prefixed, spare;
    hsc_error *err;
} encoder;

/* Text on its way: bytes, and where they came from (span NULL: from `offset` on, one for one). */
typedef struct stretch {
    const char *data;
    size_t n;
    const hsc_span *span;
    size_t offset;
} stretch;

static hsc_status reserve(hsc_encoding *out, size_t more, hsc_error *err)
{
    size_t need = out->n + more, ids = out->capacity, spans = out->capacity;
    if (need <= out->capacity) return HSC_OK;
    HSC_TRY(hsc__grow(&out->ids, &ids, need, sizeof *out->ids, err));
    HSC_TRY(hsc__grow(&out->spans, &spans, need, sizeof *out->spans, err));
    out->capacity = spans;
    return HSC_OK;
}

static hsc_status add_token(encoder *e, hsc_token id, size_t start, size_t end)
{
    HSC_TRY(reserve(e->out, 1, e->err));
    e->out->ids[e->out->n] = id;
    e->out->spans[e->out->n++] = (hsc_span){start, end};
    return HSC_OK;
}

static hsc_span span_of(const stretch *text, size_t start, size_t end)
{
    if (!text->span) return (hsc_span){text->offset + start, text->offset + end};
    return (hsc_span){text->span[start].start, text->span[end - 1].end};
}

static hsc_status encode_word(encoder *e, const stretch *text, size_t start, size_t end)
{
    const hsc_token *ids;
    const uint32_t *ends;
    size_t n;
    hsc__cached_word *cached = hsc__word_cache_slot(&e->cache, text->data, text->n, start, end);
    if (cached && cached->n) {
        HSC_TRY(reserve(e->out, HSC__CACHED_TOKENS, e->err));
        for (size_t i = 0, from = start; i < cached->n; i++, from = start + cached->ends[i - 1]) {
            e->out->ids[e->out->n] = cached->ids[i];
            e->out->spans[e->out->n++] = span_of(text, from, start + cached->ends[i]);
        }
        return HSC_OK;
    }
    HSC_TRY(hsc__bpe_encode(&e->tokenizer->bpe, &e->bpe, text->data + start, end - start, e->err));
    ids = e->bpe.ids, ends = e->bpe.ends, n = e->bpe.n;
    HSC_TRY(reserve(e->out, n, e->err));
    for (size_t i = 0, from = start; i < n; from = start + ends[i++]) {
        e->out->ids[e->out->n] = ids[i];
        e->out->spans[e->out->n++] = span_of(text, from, start + ends[i]);
    }
    if (cached) hsc__word_cache_fill(cached, ids, ends, n);
    return HSC_OK;
}

/* Plain text, normalized: prefix, splitter, model. */
static hsc_status encode_plain(encoder *e, stretch text)
{
    const hsc_tokenizer *t = e->tokenizer;
    if (text.n == 0) return HSC_OK;
    if (t->prefix.n_ops) {
        if (text.span) {
            hsc__aligned whole = {.data = (char *)text.data, .span = (hsc_span *)text.span, .n = text.n};
            HSC_TRY(hsc__aligned_slice(&e->prefixed, &whole, 0, text.n, e->err));
        } else {
            HSC_TRY(hsc__aligned_set(&e->prefixed, text.data, text.n, text.offset, e->err));
        }
        HSC_TRY(hsc__normalize(&t->prefix, &e->prefixed, &e->spare, e->err));
        text = (stretch){.data = e->prefixed.data, .n = e->prefixed.n, .span = e->prefixed.span};
    }
    HSC_TRY(hsc__pieces_begin(&e->pieces, &t->splitter, text.data, text.n, e->err));
    for (;;) {
        size_t start, end;
        HSC_TRY(hsc__pieces_next(&e->pieces, &start, &end, e->err));
        if (start == end) return HSC_OK;
        HSC_TRY(encode_word(e, &text, start, end));
    }
}

static stretch part_of(const stretch *text, size_t start, size_t end)
{
    return (stretch){.data = text->data + start,
                     .n = end - start,
                     .span = text->span ? text->span + start : NULL,
                     .offset = text->offset + start};
}

/* Text between raw added tokens: normalize it, cut out the added tokens that are sought normalized. */
static hsc_status encode_stretch(encoder *e, stretch text)
{
    const hsc_tokenizer *t = e->tokenizer;
    if (text.n == 0) return HSC_OK;
    if (t->normalizer.n_ops) {
        HSC_TRY(hsc__aligned_set(&e->normal, text.data, text.n, text.offset, e->err));
        HSC_TRY(hsc__normalize(&t->normalizer, &e->normal, &e->spare, e->err));
        text = (stretch){.data = e->normal.data, .n = e->normal.n, .span = e->normal.span};
    }
    hsc__added_search search = hsc__added_search_begin(&t->added.normalized, e->parse_special, text.data, text.n);
    for (size_t done = 0, start, end; done < text.n; done = end) {
        const hsc__added_token *token = hsc__added_next(&search, &start, &end);
        HSC_TRY(encode_plain(e, part_of(&text, done, start)));
        if (!token) break;
        hsc_span span = span_of(&text, start, end);
        HSC_TRY(add_token(e, token->id, span.start, span.end));
    }
    return HSC_OK;
}

static hsc_status encode_text(encoder *e, const char *text, size_t n, unsigned flags)
{
    const hsc_tokenizer *t = e->tokenizer;
    bool adds = flags & HSC_ENCODE_ADD_SPECIAL;
    HSC_TRY(hsc__word_cache_init(&e->cache, n, e->err));
    for (size_t i = 0; adds && i < t->template.n_before; i++) HSC_TRY(add_token(e, t->template.before[i], 0, 0));
    hsc__added_search search = hsc__added_search_begin(&t->added.raw, e->parse_special, text, n);
    for (size_t done = 0, start, end; done < n; done = end) {
        const hsc__added_token *token = hsc__added_next(&search, &start, &end);
        HSC_TRY(encode_stretch(e, (stretch){.data = text + done, .n = start - done, .offset = done}));
        if (!token) break;
        HSC_TRY(add_token(e, token->id, start, end));
    }
    for (size_t i = 0; adds && i < t->template.n_after; i++) HSC_TRY(add_token(e, t->template.after[i], n, n));
    return HSC_OK;
}

hsc_status hsc_encode(const hsc_tokenizer *tokenizer, const char *text, size_t n_bytes, unsigned flags,
                      hsc_encoding *out, hsc_error *err)
{
    hsc__error_clear(err);
    out->n = 0;
    HSC_FAIL_IF(flags & ~(unsigned)(HSC_ENCODE_ADD_SPECIAL | HSC_ENCODE_PARSE_SPECIAL), HSC_EINVAL,
                "hsc_encode: flags 0x%x, only HSC_ENCODE_ADD_SPECIAL and HSC_ENCODE_PARSE_SPECIAL are known", flags);
    encoder e = {.tokenizer = tokenizer, .out = out, .err = err};
    e.parse_special = flags & HSC_ENCODE_PARSE_SPECIAL;
    hsc_status status = encode_text(&e, text, n_bytes, flags);
    if (status != HSC_OK) out->n = 0;
    hsc__pieces_free(&e.pieces);
    hsc__bpe_scratch_free(&e.bpe);
    hsc__word_cache_free(&e.cache);
    hsc__aligned_free(&e.normal);
    hsc__aligned_free(&e.prefixed);
    hsc__aligned_free(&e.spare);
    return status;
}

void hsc_encoding_free(hsc_encoding *encoding)
{
    if (!encoding) return;
    hsc__free(encoding->ids);
    hsc__free(encoding->spans);
    *encoding = (hsc_encoding){0};
}
