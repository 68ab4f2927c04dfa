/*
 * Unigram (Kudo 2018; SentencePiece's first kind): of all ways to cut a word into tokens, the one whose scores (log
 * probabilities) add up to most, found in one pass (Viterbi). A character that no token starts with costs ten less than
 * the lowest score; unknown characters side by side are one unknown token, or their bytes' tokens.
 */
#ifndef HSC_TOKENIZER_UNIGRAM_H
#define HSC_TOKENIZER_UNIGRAM_H

#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"
#include "tokenizer/word.h"

/* What an unknown character costs below the lowest score. */
#define HSC__UNK_PENALTY 10.0

typedef struct hsc__unigram {
    hsc__trie trie;
    double *scores; /* [n] by id */
    size_t n, capacity;
    double unk_score;
    bool single;   /* a path's score is kept in float32, as SentencePiece's own code keeps it: near ties hang on it */
    hsc_token unk; /* -1: none */
    bool byte_fallback;
    hsc_token byte_id[256]; /* or -1 */
    /* Marian's: pieces have numbers of their own. [n] the token of each piece, and where the text of unknown characters
     * is sought; NULL where pieces are tokens. */
    const hsc_token *token_of;
    const hsc__vocab *outside;
} hsc__unigram;

/* Remembers the score of a token; ids may come in any order. HSC_ENOMEM. */
hsc_status hsc__unigram_set_score(hsc__unigram *model, hsc_token id, double score, hsc_error *err);
/* Once scores and options are there. Of tokens with one text the last counts. `usable` (or NULL for all) says for each
 * kind of token whether text is cut into it. */
hsc_status hsc__unigram_finish(hsc__unigram *model, const hsc__vocab *vocab, bool (*usable)(uint8_t kind),
                               hsc_error *err);
void hsc__unigram_free(hsc__unigram *model);

/* HSC_EINVAL when the vocabulary cannot spell the word. Time grows as the word's bytes times the longest token's. */
hsc_status hsc__unigram_encode(const hsc__unigram *model, hsc__word *out, const char *word, size_t n, hsc_error *err);

#endif
