/* What every model leaves behind for one word: its tokens, and the memory of one hsc_encode call, reused from word to
 * word. */
#ifndef HSC_TOKENIZER_WORD_H
#define HSC_TOKENIZER_WORD_H

#include "base/alloc.h"

/* Zero it before use. */
typedef struct hsc__word {
    hsc_token *ids; /* [n] the word's tokens */
    uint32_t *ends; /* [n] the byte of the word at which each token ends */
    size_t n, capacity, ends_capacity;
    struct hsc__bpe_node *nodes; /* BPE: long words */
    uint64_t *heap;
    char *spelled; /* BPE: a word in the byte alphabet, for ignore_merges */
    size_t nodes_capacity, heap_capacity, spelled_capacity;
    struct hsc__best_path *paths; /* Unigram: the best way to each byte */
    size_t paths_capacity;
} hsc__word;

/* Makes room for a word of n bytes, which has at most n tokens, and empties it. HSC_EINVAL past 2^32 - 2 bytes. */
hsc_status hsc__word_begin(hsc__word *word, size_t n, hsc_error *err);
void hsc__word_free(hsc__word *word);

static inline void hsc__word_add(hsc__word *word, hsc_token id, size_t end)
{
    word->ids[word->n] = id;
    word->ends[word->n++] = (uint32_t)end;
}

/* HSC_EINVAL: no token for that byte and no unknown token. */
hsc_status hsc__fail_unspelled(char byte, hsc_error *err);

#endif
