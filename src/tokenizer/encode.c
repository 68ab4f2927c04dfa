/* Text to tokens: the walk through the pipeline. All that changes lives on this call's stack or in its scratch, so any
 * number of threads may encode with one tokenizer. */
#include "tokenizer/pipeline.h"
#include "tokenizer/word_cache.h"

#include <string.h>

typedef struct encoder {
    const hsc_tokenizer *tokenizer;
    hsc_encoding *out;
    bool parse_special;
    hsc__pieces pieces[HSC__MAX_STAGES];
    hsc__aligned changed[HSC__MAX_STAGES];
    hsc__word word;
    hsc__word_cache cache;
    hsc__aligned normal, spare;
    int32_t n_words; /* of this text, so far */
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
    size_t need = out->n + more, ids = out->capacity, spans = ids, words = ids, segments = ids, texts = ids;
    if (need <= out->capacity) return HSC_OK;
    HSC_TRY(hsc__grow(&out->ids, &ids, need, sizeof *out->ids, err));
    HSC_TRY(hsc__grow(&out->spans, &spans, need, sizeof *out->spans, err));
    HSC_TRY(hsc__grow(&out->words, &words, need, sizeof *out->words, err));
    HSC_TRY(hsc__grow(&out->segments, &segments, need, sizeof *out->segments, err));
    HSC_TRY(hsc__grow(&out->texts, &texts, need, sizeof *out->texts, err));
    out->capacity = texts;
    return HSC_OK;
}

static inline void put(hsc_encoding *out, hsc_token id, hsc_span span, int32_t word)
{
    out->ids[out->n] = id;
    out->words[out->n] = word;
    out->spans[out->n++] = span;
}

static hsc_status add_token(encoder *e, hsc_token id, hsc_span span, int32_t word)
{
    HSC_TRY(reserve(e->out, 1, e->err));
    put(e->out, id, span, word);
    return HSC_OK;
}

static hsc_span span_of(const stretch *text, size_t start, size_t end)
{
    if (!text->span) return (hsc_span){text->offset + start, text->offset + end};
    return (hsc_span){text->span[start].start, text->span[end - 1].end};
}

static hsc_status encode_whole(encoder *e, const char *word, size_t n)
{
    const hsc_tokenizer *t = e->tokenizer;
    hsc_token id = hsc__vocab_find(&t->vocab, word, n);
    if (id < 0) id = t->wordlevel_unk;
    if (id < 0) return hsc__fail_unspelled(*word, e->err);
    HSC_TRY(hsc__word_begin(&e->word, n, e->err));
    hsc__word_add(&e->word, id, n);
    return HSC_OK;
}

static hsc_status run_model(encoder *e, const char *word, size_t n)
{
    const hsc_tokenizer *t = e->tokenizer;
    if (t->kind == HSC__UNIGRAM) return hsc__unigram_encode(&t->unigram, &e->word, word, n, e->err);
    if (t->kind == HSC__WORDPIECE) return hsc__wordpiece_encode(&t->wordpiece, &e->word, word, n, e->err);
    if (t->kind == HSC__WORDLEVEL) return encode_whole(e, word, n);
    return hsc__bpe_encode(&t->bpe, &e->word, word, n, e->err);
}

static hsc_status encode_word(encoder *e, const stretch *text, size_t start, size_t end)
{
    int32_t word = e->n_words++;
    hsc__cached_word *cached = hsc__word_cache_slot(&e->cache, text->data, text->n, start, end);
    if (cached && cached->n) {
        HSC_TRY(reserve(e->out, HSC__CACHED_TOKENS, e->err));
        for (size_t i = 0, from = start; i < cached->n; i++, from = start + cached->ends[i - 1])
            put(e->out, cached->ids[i], span_of(text, from, start + cached->ends[i]), word);
        return HSC_OK;
    }
    HSC_TRY(run_model(e, text->data + start, end - start));
    const uint32_t *ends = e->word.ends;
    HSC_TRY(reserve(e->out, e->word.n, e->err));
    for (size_t i = 0, from = start; i < e->word.n; from = start + ends[i++])
        put(e->out, e->word.ids[i], span_of(text, from, start + ends[i]), word);
    if (cached) hsc__word_cache_fill(cached, e->word.ids, ends, e->word.n);
    return HSC_OK;
}

/* The text as the stage changes it, in the encoder's memory for that stage. */
static hsc_status change(encoder *e, size_t depth, stretch *text)
{
    hsc__aligned *changed = &e->changed[depth];
    if (text->span) {
        hsc__aligned whole = {.data = (char *)text->data, .span = (hsc_span *)text->span, .n = text->n};
        HSC_TRY(hsc__aligned_slice(changed, &whole, 0, text->n, e->err));
    } else {
        HSC_TRY(hsc__aligned_set(changed, text->data, text->n, text->offset, e->err));
    }
    HSC_TRY(hsc__normalize(&e->tokenizer->stage[depth].change, changed, &e->spare, e->err));
    *text = (stretch){.data = changed->data, .n = changed->n, .span = changed->span};
    return HSC_OK;
}

static stretch part_of(const stretch *text, size_t start, size_t end)
{
    return (stretch){.data = text->data + start,
                     .n = end - start,
                     .span = text->span ? text->span + start : NULL,
                     .offset = text->offset + start};
}

/* Plain text, normalized: the stages from `depth` on, then the model. */
static hsc_status encode_plain(encoder *e, size_t depth, stretch text)
{
    const hsc__stage *stage = &e->tokenizer->stage[depth];
    hsc__pieces *pieces = &e->pieces[depth];
    if (text.n && stage->change.n_ops) HSC_TRY(change(e, depth, &text));
    if (text.n == 0) return HSC_OK;
    HSC_TRY(hsc__pieces_begin(pieces, &stage->splitter, text.data, text.n, e->err));
    for (;;) {
        size_t start, end;
        HSC_TRY(hsc__pieces_next(pieces, &start, &end, e->err));
        if (start == end) return HSC_OK;
        if (depth + 1 < e->tokenizer->n_stages) HSC_TRY(encode_plain(e, depth + 1, part_of(&text, start, end)));
        else HSC_TRY(encode_word(e, &text, start, end));
    }
}

/* The code of a language that the text begins with is a token of its own, whatever stands between its brackets. */
static hsc_status encode_language(encoder *e, stretch *text)
{
    const hsc_tokenizer *t = e->tokenizer;
    size_t n = 4;
    if (text->n < n || memcmp(text->data, ">>", 2) != 0) return HSC_OK;
    while (n <= text->n && memcmp(text->data + n - 2, "<<", 2) != 0) n++;
    if (n > text->n) return HSC_OK;
    hsc_token id = hsc__vocab_find(&t->vocab, text->data, n);
    if (id < 0) id = t->unigram.token_of[t->unigram.unk];
    HSC_TRY(add_token(e, id, span_of(text, 0, n), e->n_words++));
    *text = part_of(text, n, text->n);
    return HSC_OK;
}

/* Text between raw added tokens: normalize it, cut out the added tokens that are sought normalized. */
static hsc_status encode_stretch(encoder *e, stretch text)
{
    const hsc_tokenizer *t = e->tokenizer;
    if (t->has_languages) HSC_TRY(encode_language(e, &text));
    if (text.n == 0) return HSC_OK;
    if (t->normalizer.n_ops) {
        HSC_TRY(hsc__aligned_set(&e->normal, text.data, text.n, text.offset, e->err));
        HSC_TRY(hsc__normalize(&t->normalizer, &e->normal, &e->spare, e->err));
        text = (stretch){.data = e->normal.data, .n = e->normal.n, .span = e->normal.span};
    }
    hsc__added_search search = hsc__added_search_begin(&t->added.normalized, e->parse_special, text.data, text.n);
    for (size_t done = 0, start, end; done < text.n; done = end) {
        const hsc__added_token *token = hsc__added_next(&search, &start, &end);
        HSC_TRY(encode_plain(e, 0, part_of(&text, done, start)));
        if (!token) break;
        HSC_TRY(add_token(e, token->id, span_of(&text, start, end), e->n_words++));
    }
    return HSC_OK;
}

static hsc_status encode_text(encoder *e, const char *text, size_t n)
{
    const hsc_tokenizer *t = e->tokenizer;
    e->n_words = 0;
    hsc__added_search search = hsc__added_search_begin(&t->added.raw, e->parse_special, text, n);
    for (size_t done = 0, start, end; done < n; done = end) {
        const hsc__added_token *token = hsc__added_next(&search, &start, &end);
        HSC_TRY(encode_stretch(e, (stretch){.data = text + done, .n = start - done, .offset = done}));
        if (!token) break;
        HSC_TRY(add_token(e, token->id, (hsc_span){start, end}, e->n_words++));
    }
    return HSC_OK;
}

/* One text, or two, as the template has them. */
static hsc_status encode_template(encoder *e, const hsc__template *template, const hsc__bytes *texts, bool adds)
{
    hsc_encoding *out = e->out;
    size_t place = 0; /* of added tokens: the start of the first text, then the end of the latest */
    for (size_t i = 0; i < template->n; i++) {
        const hsc__template_part *part = &template->part[i];
        size_t first = out->n;
        int text = -1;
        if (part->id < 0) {
            text = part->id == HSC__SECOND_TEXT;
            HSC_TRY(encode_text(e, texts[text].data, texts[text].n));
            place = texts[text].n;
        } else if (adds) {
            HSC_TRY(add_token(e, part->id, (hsc_span){place, place}, -1));
        }
        for (size_t k = first; k < out->n; k++) out->segments[k] = part->segment;
        if (out->n > first) memset(out->texts + first, text, out->n - first);
    }
    return HSC_OK;
}

static hsc_status encode(const hsc_tokenizer *t, const hsc__template *template, const hsc__bytes *texts, unsigned flags,
                         hsc_encoding *out, hsc_error *err)
{
    hsc__error_clear(err);
    out->n = 0;
    HSC_FAIL_IF(flags & ~(unsigned)(HSC_ENCODE_ADD_SPECIAL | HSC_ENCODE_PARSE_SPECIAL), HSC_EINVAL,
                "hsc_encode: flags 0x%x, only HSC_ENCODE_ADD_SPECIAL and HSC_ENCODE_PARSE_SPECIAL are known", flags);
    encoder e = {.tokenizer = t, .out = out, .err = err};
    e.parse_special = flags & HSC_ENCODE_PARSE_SPECIAL;
    hsc_status status = hsc__word_cache_init(&e.cache, texts[0].n + texts[1].n, err);
    if (status == HSC_OK) status = encode_template(&e, template, texts, flags & HSC_ENCODE_ADD_SPECIAL);
    if (status != HSC_OK) out->n = 0;
    for (size_t i = 0; i < t->n_stages; i++) {
        hsc__pieces_free(&e.pieces[i]);
        hsc__aligned_free(&e.changed[i]);
    }
    hsc__word_free(&e.word);
    hsc__word_cache_free(&e.cache);
    hsc__aligned_free(&e.normal);
    hsc__aligned_free(&e.spare);
    return status;
}

hsc_status hsc_encode(const hsc_tokenizer *tokenizer, const char *text, size_t n_bytes, unsigned flags,
                      hsc_encoding *out, hsc_error *err)
{
    const hsc__bytes texts[2] = {{text, n_bytes}, {NULL, 0}};
    return encode(tokenizer, &tokenizer->single, texts, flags, out, err);
}

hsc_status hsc_encode_pair(const hsc_tokenizer *tokenizer, const char *first, size_t n_first, const char *second,
                           size_t n_second, unsigned flags, hsc_encoding *out, hsc_error *err)
{
    const hsc__bytes texts[2] = {{first, n_first}, {second, n_second}};
    return encode(tokenizer, &tokenizer->pair, texts, flags, out, err);
}

void hsc_encoding_free(hsc_encoding *encoding)
{
    if (!encoding) return;
    hsc__free(encoding->ids);
    hsc__free(encoding->spans);
    hsc__free(encoding->words);
    hsc__free(encoding->segments);
    hsc__free(encoding->texts);
    *encoding = (hsc_encoding){0};
}
