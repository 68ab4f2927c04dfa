/*
 * The tokens of words already seen in this hsc_encode call. One line of 64 bytes a word, direct-mapped: a newer word
 * takes the place of an older one, so time and memory stay bounded on any text.
 */
#ifndef HSC_TOKENIZER_WORD_CACHE_H
#define HSC_TOKENIZER_WORD_CACHE_H

#include "base/alloc.h"

#include <string.h>

enum { HSC__CACHED_BYTES = 16, HSC__CACHED_TOKENS = 9 };

typedef struct hsc__cached_word {
    uint64_t word[2]; /* its bytes, zeros behind them */
    uint8_t n_bytes;
    uint8_t n; /* tokens; 0: the line is empty */
    uint8_t ends[HSC__CACHED_TOKENS];
    hsc_token ids[HSC__CACHED_TOKENS];
} hsc__cached_word;

typedef struct hsc__word_cache {
    hsc__cached_word *line; /* [n_lines], a power of two; NULL for short texts */
    size_t n_lines;
} hsc__word_cache;

/* Sized for a text of n_bytes; none at all when it would not pay. */
hsc_status hsc__word_cache_init(hsc__word_cache *cache, size_t n_bytes, hsc_error *err);
void hsc__word_cache_free(hsc__word_cache *cache);

/* The line of the word text[start..end). n > 0: its tokens are there. n == 0: the line is this word's now, to be
 * filled. NULL: words like this one are not kept. text_n: bytes of the whole text. */
static inline hsc__cached_word *hsc__word_cache_slot(hsc__word_cache *cache, const char *text, size_t text_n,
                                                     size_t start, size_t end)
{
    size_t n = end - start;
    if (!cache->line || n > HSC__CACHED_BYTES) return NULL;
    uint64_t word[2] = {0, 0};
    memcpy(word, text + start, text_n - start >= sizeof word && n == sizeof word ? sizeof word : n);
    uint64_t h = (word[0] ^ n) * 0x9E3779B97F4A7C15u ^ word[1] * 0xC2B2AE3D27D4EB4Fu;
    hsc__cached_word *line = &cache->line[(h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 32 & (cache->n_lines - 1)];
    if (line->word[0] != word[0] || line->word[1] != word[1] || line->n_bytes != n) {
        line->word[0] = word[0];
        line->word[1] = word[1];
        line->n_bytes = (uint8_t)n;
        line->n = 0;
    }
    return line;
}

void hsc__word_cache_fill(hsc__cached_word *line, const hsc_token *ids, const uint32_t *ends, size_t n);

#endif
