/* The decoder of a tokenizer.json, worked out once: what each token's text becomes, and what is stripped off the start
 * of the whole. Every decoder that is known acts on one token at a time but for that strip. */
#include "base/text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/load.h"

#include <limits.h>
#include <string.h>

typedef struct decoder {
    bool byte_level, byte_fallback, fused;
    hsc__normalizer replace; /* HSC__REPLACE only */
    bool words, cleanup;     /* WordPiece's */
    const char *prefix;
    const char *suffix; /* BPEDecoder's, or NULL */
} decoder;

static hsc_status read_replace(hsc_tokenizer *t, decoder *d, const json_t *json, const char *path, hsc_error *err)
{
    const json_t *from = json_object_get(json_object_get(json, "pattern"), "String"),
                 *to = json_object_get(json, "content");
    HSC_FAIL_IF(!json_string_length(from) || !json_is_string(to), HSC_EUNSUPPORTED,
                "%s: decoder \"Replace\" is supported with a string for another string only", path);
    hsc__normalize_op op = {.kind = HSC__REPLACE,
                            .text = hsc__keep(t, json_string_value(from), json_string_length(from)),
                            .with = hsc__keep(t, json_string_value(to), json_string_length(to))};
    if (!op.text.data || !op.with.data) return hsc__fail_memory(err, 1, path);
    return hsc__normalizer_add(&d->replace, op, err);
}

/* Strip takes `start` characters off the front; behind Fuse the front is that of the whole. */
static hsc_status read_strip(hsc_tokenizer *t, const decoder *d, const json_t *json, const char *path, hsc_error *err)
{
    const char *content;
    int64_t start, stop;
    HSC_TRY(hsc__json_string(json, "content", "", &content, path, err));
    HSC_TRY(hsc__json_int(json, "start", 0, 0, 1000, &start, path, err));
    HSC_TRY(hsc__json_int(json, "stop", 0, 0, 1000, &stop, path, err));
    bool simple = d->fused && strlen(content) == 1 && (unsigned char)*content < 0x80 && stop == 0;
    HSC_FAIL_IF(!simple, HSC_EUNSUPPORTED,
                "%s: decoder \"Strip\" is supported behind \"Fuse\", at the start, for one ASCII character only", path);
    t->strip = (hsc__strip){*content, (unsigned)start};
    return HSC_OK;
}

/* Metaspace: the mark becomes a blank, or nothing at the start of the text. */
static hsc_status read_metaspace(hsc_tokenizer *t, decoder *d, const json_t *json, const char *path, hsc_error *err)
{
    const char *mark, *scheme;
    HSC_TRY(hsc__json_string(json, "replacement", "\xe2\x96\x81", &mark, path, err));
    HSC_TRY(hsc__json_string(json, "prepend_scheme", "always", &scheme, path, err));
    hsc__normalize_op op = {.kind = HSC__REPLACE, .text = hsc__keep(t, mark, strlen(mark)), .with = {" ", 1}};
    if (!op.text.data) return hsc__fail_memory(err, 1, path);
    if (strcmp(scheme, "never") != 0) t->strip = (hsc__strip){' ', UINT_MAX};
    return hsc__normalizer_add(&d->replace, op, err);
}

static hsc_status read_words(decoder *d, const json_t *json, const char *path, hsc_error *err)
{
    d->words = true;
    HSC_TRY(hsc__json_bool(json, "cleanup", true, &d->cleanup, path, err));
    return hsc__json_string(json, "prefix", "##", &d->prefix, path, err);
}

static hsc_status read_decoder(hsc_tokenizer *t, decoder *d, const json_t *json, const char *path, hsc_error *err)
{
    const char *type = hsc__type_of(json);
    if (!type) return hsc__fail(err, HSC_EFORMAT, 0, "%s: a decoder has no \"type\"", path);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *steps = json_object_get(json, "decoders");
        for (size_t i = 0; i < json_array_size(steps); i++)
            HSC_TRY(read_decoder(t, d, json_array_get(steps, i), path, err));
        return HSC_OK;
    }
    if (strcmp(type, "Strip") == 0) return read_strip(t, d, json, path, err);
    if (strcmp(type, "Fuse") == 0) d->fused = true;
    else if (d->fused) return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: decoder \"%s\" after \"Fuse\"", path, type);
    else if (strcmp(type, "ByteLevel") == 0) d->byte_level = true;
    else if (strcmp(type, "ByteFallback") == 0) d->byte_fallback = true;
    else if (strcmp(type, "Replace") == 0) return read_replace(t, d, json, path, err);
    else if (strcmp(type, "Metaspace") == 0) return read_metaspace(t, d, json, path, err);
    else if (strcmp(type, "WordPiece") == 0) return read_words(d, json, path, err);
    else if (strcmp(type, "BPEDecoder") == 0) return hsc__json_string(json, "suffix", "</w>", &d->suffix, path, err);
    else return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: decoder \"%s\" is not supported", path, type);
    return HSC_OK;
}

hsc_status hsc__decode_pieces(hsc_tokenizer *t, const hsc__normalizer *replace, hsc_error *err)
{
    hsc__aligned text = {0}, spare = {0};
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < t->vocab.n && status == HSC_OK; i++) {
        if (t->vocab.kind[i] != HSC__TOKEN_NORMAL && t->vocab.kind[i] != HSC__TOKEN_UNUSED) continue;
        hsc__bytes from = t->vocab.text[i];
        status = hsc__aligned_set(&text, from.data, from.n, 0, err);
        if (status == HSC_OK) status = hsc__normalize(replace, &text, &spare, err);
        if (status != HSC_OK || (text.n == from.n && memcmp(text.data, from.data, from.n) == 0)) continue;
        t->vocab.bytes[i] = hsc__keep(t, text.data, text.n);
        if (!t->vocab.bytes[i].data) status = hsc__fail_memory(err, text.n, "the tokens' bytes");
    }
    hsc__aligned_free(&text);
    hsc__aligned_free(&spare);
    return status;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char letter = (char)(c | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

int hsc__byte_piece(hsc__bytes text)
{
    if (text.n != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

hsc_status hsc__decode_byte_pieces(hsc_tokenizer *t, hsc_error *err)
{
    char *bytes = hsc__arena_alloc(&t->arena, 256);
    if (!bytes) return hsc__fail_memory(err, 256, "the tokens' bytes");
    for (int b = 0; b < 256; b++) bytes[b] = (char)b;
    for (size_t i = 0; i < t->vocab.n; i++) {
        bool plain = t->vocab.kind[i] == HSC__TOKEN_NORMAL || t->vocab.kind[i] == HSC__TOKEN_BYTE;
        int b = plain ? hsc__byte_piece(t->vocab.text[i]) : -1;
        if (b < 0) continue;
        t->vocab.kind[i] = HSC__TOKEN_BYTE;
        t->vocab.bytes[i] = (hsc__bytes){bytes + b, 1};
    }
    return HSC_OK;
}

/* text[*at..) starts with `what`. */
static bool stands_at(const hsc__string *text, size_t at, const char *what)
{
    size_t n = strlen(what);
    return text->n - at >= n && memcmp(text->data + at, what, n) == 0;
}

/* Replaces one text by another in all its places. */
static void replace_all(hsc__string *text, const char *from, const char *to)
{
    hsc__string out = {0};
    for (size_t i = 0; i < text->n;) {
        bool here = stands_at(text, i, from);
        if (here) hsc__string_text(&out, to);
        else hsc__string_add(&out, text->data + i, 1);
        i += here ? strlen(from) : 1;
    }
    out.failed |= text->failed;
    hsc__string_free(text);
    *text = out;
}

/* What a token says behind another one. */
static void spell_inner(hsc__string *out, hsc__bytes text, hsc__bytes prefix, bool cleanup)
{
    static const char *const changes[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                             {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    bool goes_on = text.n >= prefix.n && memcmp(text.data, prefix.data, prefix.n) == 0;
    if (goes_on) hsc__string_add(out, text.data + prefix.n, text.n - prefix.n);
    else hsc__string_text(out, " ");
    if (!goes_on) hsc__string_add(out, text.data, text.n);
    for (size_t i = 0; cleanup && i < sizeof changes / sizeof *changes; i++)
        replace_all(out, changes[i][0], changes[i][1]);
}

hsc_status hsc__decode_words(hsc_tokenizer *t, hsc__bytes prefix, bool cleanup, hsc_error *err)
{
    size_t n_bytes = t->vocab.n * sizeof *t->inner;
    hsc__bytes *inner = hsc__arena_alloc(&t->arena, n_bytes);
    if (!inner) return hsc__fail_memory(err, n_bytes, "the tokens' bytes");
    for (size_t i = 0; i < t->vocab.n; i++) {
        hsc__string text = {0};
        inner[i] = t->vocab.text[i];
        if (t->vocab.kind[i] == HSC__TOKEN_NONE) continue;
        spell_inner(&text, t->vocab.text[i], prefix, cleanup);
        inner[i] = hsc__keep(t, text.data ? text.data : "", text.n);
        bool failed = text.failed || !inner[i].data;
        hsc__string_free(&text);
        if (failed) return hsc__fail_memory(err, 1, "the tokens' bytes");
    }
    t->inner = inner;
    return HSC_OK;
}

/* BPEDecoder: the suffix is a blank, unless the token is the last one. */
static hsc_status decode_suffix(hsc_tokenizer *t, const char *suffix, const char *path, hsc_error *err)
{
    size_t length = strlen(suffix);
    HSC_FAIL_IF(!length, HSC_EUNSUPPORTED, "%s: decoder \"BPEDecoder\": an empty \"suffix\" is not supported", path);
    t->ends_word = hsc__arena_alloc(&t->arena, t->vocab.n * sizeof *t->ends_word);
    if (!t->ends_word) return hsc__fail_memory(err, t->vocab.n, "the tokens' bytes");
    for (size_t i = 0; i < t->vocab.n; i++) {
        hsc__bytes *bytes = &t->vocab.bytes[i];
        t->ends_word[i] = bytes->n >= length && memcmp(bytes->data + bytes->n - length, suffix, length) == 0;
        if (t->ends_word[i]) bytes->n -= length;
        HSC_FAIL_IF(hsc__text_find(bytes->data, bytes->n, suffix, length), HSC_EUNSUPPORTED,
                    "%s: decoder \"BPEDecoder\": token %zu has \"%s\" inside", path, i, suffix);
    }
    return HSC_OK;
}

hsc_status hsc__load_decoder(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err)
{
    decoder d = {0};
    if (json && !json_is_null(json)) HSC_TRY(read_decoder(t, &d, json, path, err));
    else d.byte_level = t->bpe.byte_level;
    HSC_FAIL_IF(d.byte_level && (d.byte_fallback || d.replace.n_ops), HSC_EUNSUPPORTED,
                "%s: decoder \"ByteLevel\" together with another is not supported", path);
    HSC_FAIL_IF(d.words && (d.byte_level || d.byte_fallback || d.replace.n_ops), HSC_EUNSUPPORTED,
                "%s: decoder \"WordPiece\" together with another is not supported", path);
    HSC_FAIL_IF(d.suffix && (d.words || d.byte_level || d.byte_fallback || d.replace.n_ops), HSC_EUNSUPPORTED,
                "%s: decoder \"BPEDecoder\" together with another is not supported", path);
    if (d.suffix) return decode_suffix(t, d.suffix, path, err);
    if (d.words) return hsc__decode_words(t, (hsc__bytes){d.prefix, strlen(d.prefix)}, d.cleanup, err);
    if (d.byte_level) return hsc__byte_level_decode(&t->vocab, &t->arena, err);
    if (d.byte_fallback) HSC_TRY(hsc__decode_byte_pieces(t, err));
    return d.replace.n_ops ? hsc__decode_pieces(t, &d.replace, err) : HSC_OK;
}
