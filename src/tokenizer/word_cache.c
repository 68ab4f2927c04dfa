/* Memory and filling of the word cache. */
#include "tokenizer/word_cache.h"

enum { FEWEST_BYTES = 4096, MOST_LINES = 8192, BYTES_PER_LINE = 16 };

hsc_status hsc__word_cache_init(hsc__word_cache *cache, size_t n_bytes, hsc_error *err)
{
    if (n_bytes < FEWEST_BYTES) return HSC_OK;
    cache->n_lines = 256;
    while (cache->n_lines < MOST_LINES && cache->n_lines * BYTES_PER_LINE < n_bytes) cache->n_lines *= 2;
    cache->line = hsc__malloc_aligned(cache->n_lines * sizeof *cache->line);
    if (!cache->line) return hsc__fail_memory(err, cache->n_lines * sizeof *cache->line, "the word cache");
    memset(cache->line, 0, cache->n_lines * sizeof *cache->line);
    return HSC_OK;
}

void hsc__word_cache_free(hsc__word_cache *cache)
{
    hsc__free_aligned(cache->line);
    *cache = (hsc__word_cache){0};
}

void hsc__word_cache_fill(hsc__cached_word *line, const hsc_token *ids, const uint32_t *ends, size_t n)
{
    if (n > HSC__CACHED_TOKENS) return;
    for (size_t i = 0; i < n; i++) {
        line->ids[i] = ids[i];
        line->ends[i] = (uint8_t)ends[i];
    }
    line->n = (uint8_t)n;
}
