/*
 * What a tokenizer is made of, in the order in which text goes through it:
 *   added tokens (as given) -> normalizer -> added tokens (normalized) -> prefix -> splitter -> model -> template
 * and the decoder, which is worked out once: vocab.bytes holds what each token stands for.
 */
#ifndef HSC_TOKENIZER_PIPELINE_H
#define HSC_TOKENIZER_PIPELINE_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"

/* Tokens put around one text when special tokens are asked for. */
typedef struct hsc__template {
    hsc_token *before, *after; /* in the tokenizer's arena */
    size_t n_before, n_after;
} hsc__template;

/* Decoding takes up to `count` bytes `byte` off the start of the whole. */
typedef struct hsc__strip {
    char byte;
    unsigned count;
} hsc__strip;

struct hsc_tokenizer {
    hsc__vocab vocab;
    hsc__added added;
    hsc__normalizer normalizer;
    hsc__normalizer prefix; /* the part of a pre-tokenizer that changes the text of each piece */
    hsc__splitter splitter;
    hsc__bpe bpe;
    hsc__template template;
    hsc__strip strip;
    size_t longest; /* bytes of the longest token */
    hsc__arena arena;
    char *files[2];  /* texts that the vocabulary borrows from */
    hsc__gguf *gguf; /* kept open when the tokenizer was opened from its path */
};

/* An empty tokenizer, to be filled by a loader and then finished. */
hsc_status hsc__tokenizer_new(hsc_tokenizer **out, hsc_error *err);
/* Sorts the added tokens and measures the tokens; the last step of every loader. */
hsc_status hsc__tokenizer_finish(hsc_tokenizer *tokenizer, hsc_error *err);

/* A token that is added to the vocabulary (or marked in it). Its id and content are set; HSC_EFORMAT when the id
 * belongs to another token. `where` names the place in messages. */
hsc_status hsc__tokenizer_add_token(hsc_tokenizer *tokenizer, hsc__added_token token, const char *where,
                                    hsc_error *err);

/* A tokenizer.json in memory: text[0..n) with a NUL behind it, from hsc__malloc, which the tokenizer (or the failure)
 * takes. `path` names it in messages; `dir` is the folder whose other files count too, or NULL. */
hsc_status hsc__tokenizer_parse_json(hsc_tokenizer **out, char *text, size_t n, const char *path, const char *dir,
                                     hsc_error *err);
hsc_status hsc__tokenizer_from_json(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err);
hsc_status hsc__tokenizer_from_merges(hsc_tokenizer **out, const char *dir, hsc_error *err);

#endif
