/*
 * Byte-pair encoding of one word: start from one symbol a byte (or a character), and merge the neighbours whose merge
 * ranks first, leftmost first, until none is left (Sennrich et al. 2016; GPT-2). SentencePiece's BPE is the same with
 * any pair whose text is a token, the best score first.
 */
#ifndef HSC_TOKENIZER_BPE_H
#define HSC_TOKENIZER_BPE_H

#include "tokenizer/vocab.h"
#include "tokenizer/word.h"

typedef struct hsc__merge {
    hsc_token left, right; /* left -1: an empty slot */
    uint32_t rank;
    hsc_token merged;
} hsc__merge;

/* A merge of two bytes; rank_1 is its rank plus one, 0 when there is none. */
struct hsc__byte_pair {
    uint32_t rank_1;
    hsc_token merged;
};

typedef struct hsc__bpe {
    const hsc__vocab *vocab;
    hsc__merge *slot; /* [n_slots] open addressing, a power of two */
    size_t n_slots, n_merges;
    hsc_token last;   /* what the merge added last makes */
    uint64_t *filter; /* a bit for every hash that a merge has: most pairs are told from it to have none */
    size_t n_filter;  /* words of 64 bits, a power of two */
    struct hsc__byte_pair *byte_pairs; /* [65536] merges of two single bytes, by their bytes; NULL unless byte-level */
    const float *scores;               /* [vocab->n] SentencePiece's scores in place of merges, or NULL */
    hsc__bytes prefix, suffix;         /* of every symbol of a word but the first, and of its last one; ASCII */
    hsc_token *affixed;                /* [4][256] byte-level with one of them: byte_id, by the place in the word */
    bool byte_level;                   /* symbols are bytes; else characters */
    bool byte_fallback;                /* a character without a token becomes its bytes' tokens */
    bool fuse_unk;                     /* unknown characters side by side become one unknown token */
    bool ignore_merges;                /* a word that is a token stays whole */
    hsc_token unk;                     /* -1: none */
    hsc_token byte_id[256]; /* the token of each byte, or -1: the symbols, or what byte_fallback falls back to */
} hsc__bpe;

enum { HSC__LONGEST_AFFIX = 32 };

hsc_status hsc__bpe_reserve(hsc__bpe *bpe, size_t n_merges, hsc_error *err);
/* The merge of two texts (the right one without the prefix that it has) with that rank (lower goes first; a pair given
 * twice keeps the later rank). `where` and the rank name the place in messages. HSC_EFORMAT when a part or the result
 * is not in the vocabulary. */
hsc_status hsc__bpe_add(hsc__bpe *bpe, uint32_t rank, hsc__bytes left, hsc__bytes right, const char *where,
                        hsc_error *err);
/* The same with the ids. HSC_ENOMEM. */
hsc_status hsc__bpe_add_ids(hsc__bpe *bpe, uint32_t rank, hsc_token left, hsc_token right, hsc_token merged,
                            hsc_error *err);
/* Once byte_id and the merges are there: the tables that make lookups fast. HSC_ENOMEM. */
hsc_status hsc__bpe_finish(hsc__bpe *bpe, hsc_error *err);
void hsc__bpe_free(hsc__bpe *bpe);

/* Encodes one word. Time grows as n log n at most.
 * HSC_EINVAL when the vocabulary cannot spell the word. */
hsc_status hsc__bpe_encode(const hsc__bpe *bpe, hsc__word *out, const char *word, size_t n, hsc_error *err);

#endif
