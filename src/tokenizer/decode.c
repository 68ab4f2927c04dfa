/* Tokens to bytes, whole and as a stream, and what may be asked of one token. */
#include "base/text.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/pipeline.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

size_t hsc_tokenizer_size(const hsc_tokenizer *tokenizer)
{
    return tokenizer->vocab.n;
}

static bool exists(const hsc_tokenizer *tokenizer, hsc_token id)
{
    return id >= 0 && (size_t)id < tokenizer->vocab.n && tokenizer->vocab.kind[id] != HSC__TOKEN_NONE;
}

const char *hsc_token_bytes(const hsc_tokenizer *tokenizer, hsc_token id, size_t *n_bytes)
{
    if (!exists(tokenizer, id)) {
        *n_bytes = 0;
        return NULL;
    }
    *n_bytes = tokenizer->vocab.bytes[id].n;
    return tokenizer->vocab.bytes[id].data;
}

int hsc_token_is_special(const hsc_tokenizer *tokenizer, hsc_token id)
{
    return exists(tokenizer, id) && tokenizer->vocab.kind[id] == HSC__TOKEN_SPECIAL;
}

hsc_token hsc_tokenizer_bos(const hsc_tokenizer *tokenizer)
{
    const hsc__template *around = &tokenizer->single;
    if (tokenizer->bos >= 0) return tokenizer->bos;
    return around->n && around->part[0].id >= 0 ? around->part[0].id : -1;
}

static bool is_bytes(const hsc_tokenizer *t, hsc_token id, const char *bytes, size_t n)
{
    return t->vocab.bytes[id].n == n && memcmp(t->vocab.bytes[id].data, bytes, n) == 0;
}

hsc_token hsc_token_find(const hsc_tokenizer *tokenizer, const char *bytes, size_t n)
{
    const hsc__added_token *added = hsc__added_find(&tokenizer->added, bytes, n);
    if (added) return added->id;
    char spelled[128];
    if (tokenizer->bpe.byte_level && n <= sizeof spelled / 2) { /* the common case, found at once */
        hsc_token id = hsc__vocab_find(&tokenizer->vocab, spelled, hsc__byte_level_spell(bytes, n, spelled));
        if (id >= 0 && is_bytes(tokenizer, id, bytes, n)) return id;
    }
    hsc_token other = -1; /* a byte piece <0x41> counts only when no token is spelled so */
    for (size_t i = 0; i < tokenizer->vocab.n; i++) {
        uint8_t kind = tokenizer->vocab.kind[i];
        if (kind == HSC__TOKEN_NONE || !is_bytes(tokenizer, (hsc_token)i, bytes, n)) continue;
        if (kind != HSC__TOKEN_BYTE) return (hsc_token)i;
        if (other < 0) other = (hsc_token)i;
    }
    return other;
}

/* A token's bytes as the `first` of a text or a later one. */
static hsc__bytes bytes_of(const hsc_tokenizer *tokenizer, hsc_token id, bool first)
{
    hsc__bytes bytes = tokenizer->inner && !first ? tokenizer->inner[id] : tokenizer->vocab.bytes[id];
    for (unsigned i = 0; first && i < tokenizer->strip.count && bytes.n && *bytes.data == tokenizer->strip.byte; i++) {
        bytes.data++;
        bytes.n--;
    }
    return bytes;
}

int64_t hsc_decode(const hsc_tokenizer *tokenizer, const hsc_token *ids, size_t n, char *out, size_t capacity)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (!exists(tokenizer, ids[i])) return HSC_EINVAL;
        hsc__bytes bytes = bytes_of(tokenizer, ids[i], i == 0);
        if (i && tokenizer->ends_word && tokenizer->ends_word[ids[i - 1]]) {
            if (length < capacity) out[length] = ' ';
            length++;
        }
        if (length < capacity && bytes.n) {
            size_t room = capacity - length;
            memcpy(out + length, bytes.data, bytes.n < room ? bytes.n : room);
        }
        length += bytes.n;
    }
    return (int64_t)length;
}

size_t hsc_stream_bound(const hsc_tokenizer *tokenizer)
{
    /* Three held bytes and the token's, each of which may become a U+FFFD of three bytes. */
    return (tokenizer->longest + 3) * 3;
}

/* Writes whole characters of bytes[0..n), U+FFFD for what can never be one; what is left over at the end and may still
 * become a character goes into stream->held. Returns the bytes written. */
static size_t flush(hsc_stream *stream, const char *bytes, size_t n, char *out)
{
    size_t whole = hsc__utf8_prefix(bytes, n), length = 0;
    for (size_t i = 0; i < whole;) {
        int32_t c;
        size_t step = (size_t)hsc__utf8_read(bytes + i, whole - i, &c), size = c < 0 ? 3 : step;
        memcpy(out + length, c < 0 ? replacement : bytes + i, size);
        length += size;
        i += step;
    }
    stream->n_held = (unsigned)(n - whole);
    memcpy(stream->held, bytes + whole, n - whole);
    return length;
}

/* Joins what is held with the bytes until nothing of the held is left, then goes on in the bytes themselves. */
static size_t feed(hsc_stream *stream, hsc__bytes bytes, char *out)
{
    size_t length = 0;
    while (stream->n_held && bytes.n) {
        char joined[4];
        memcpy(joined, stream->held, stream->n_held);
        joined[stream->n_held] = *bytes.data++;
        bytes.n--;
        length += flush(stream, joined, stream->n_held + 1, out + length);
    }
    if (bytes.n) length += flush(stream, bytes.data, bytes.n, out + length);
    return length;
}

/* Of the tokens so far a stream keeps whether there are any, and whether the last one ended a word. */
enum { AT_START, WITHIN, WORD_ENDED };

int64_t hsc_stream_next(const hsc_tokenizer *tokenizer, hsc_stream *stream, hsc_token id, char *out, size_t capacity)
{
    if (!exists(tokenizer, id) || capacity < hsc_stream_bound(tokenizer) || stream->n_held > 3) return HSC_EINVAL;
    size_t length = stream->n_tokens == WORD_ENDED ? feed(stream, (hsc__bytes){" ", 1}, out) : 0;
    length += feed(stream, bytes_of(tokenizer, id, stream->n_tokens == AT_START), out + length);
    stream->n_tokens = tokenizer->ends_word && tokenizer->ends_word[id] ? WORD_ENDED : WITHIN;
    return (int64_t)length;
}

int64_t hsc_stream_end(hsc_stream *stream, char *out, size_t capacity)
{
    if (capacity < 3) return HSC_EINVAL;
    bool unfinished = stream->n_held > 0;
    *stream = (hsc_stream){0};
    if (!unfinished) return 0;
    memcpy(out, replacement, 3);
    return 3;
}
