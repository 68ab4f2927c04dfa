/*
 * WordPiece (BERT): a word is cut into the longest token that it starts with, then the longest that continues it, and
 * so on; a word that cannot be cut so to its end, or is too long, is the unknown token as a whole.
 */
#ifndef HSC_TOKENIZER_WORDPIECE_H
#define HSC_TOKENIZER_WORDPIECE_H

#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"
#include "tokenizer/word.h"

typedef struct hsc__wordpiece {
    hsc__trie start;       /* every token */
    hsc__trie inner;       /* those that continue a word, without their prefix */
    hsc_token unk;         /* -1: none */
    size_t max_characters; /* of a word that is cut */
} hsc__wordpiece;

/* Fills the tries from the normal tokens; prefix is what marks those that continue a word ("##"). */
hsc_status hsc__wordpiece_finish(hsc__wordpiece *model, const hsc__vocab *vocab, hsc__bytes prefix, hsc_error *err);
void hsc__wordpiece_free(hsc__wordpiece *model);

/* HSC_EINVAL when the word is unknown and there is no token for that. */
hsc_status hsc__wordpiece_encode(const hsc__wordpiece *model, hsc__word *out, const char *word, size_t n,
                                 hsc_error *err);

#endif
