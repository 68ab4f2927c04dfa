/*
 * What a tokenizer is made of, in the order in which text goes through it:
 *   added tokens (as given) -> normalizer -> added tokens (normalized) -> stages -> model -> template
 * and the decoder, which is worked out once: vocab.bytes holds what each token stands for.
 */
#ifndef HSC_TOKENIZER_PIPELINE_H
#define HSC_TOKENIZER_PIPELINE_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

/* A part of a pre-tokenizer: what changes the text of each piece that comes in, and what then cuts it. */
typedef struct hsc__stage {
    hsc__normalizer change;
    hsc__splitter splitter;
} hsc__stage;

enum { HSC__MAX_STAGES = 4 };

typedef enum { HSC__BPE, HSC__WORDPIECE, HSC__UNIGRAM, HSC__WORDLEVEL } hsc__model_kind;

/* What stands around one text, or around two, when special tokens are asked for; without them only the texts count. */
enum { HSC__FIRST_TEXT = -1, HSC__SECOND_TEXT = -2 };
typedef struct hsc__template_part {
    hsc_token id; /* a token, or one of the two above */
    int32_t segment;
} hsc__template_part;

typedef struct hsc__template {
    hsc__template_part *part; /* [n] in the tokenizer's arena */
    size_t n;
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
    hsc__stage stage[HSC__MAX_STAGES];
    size_t n_stages; /* at least 1 */
    hsc__model_kind kind;
    hsc__bpe bpe;
    hsc__wordpiece wordpiece;
    hsc__unigram unigram;
    hsc_token wordlevel_unk; /* -1: none */
    bool has_languages;      /* Marian's: >>fra<< at the start of a text is one token, unknown or not */
    hsc_token bos;           /* as the files name it; -1: they do not */
    hsc__charsmap charsmap;  /* the normalizer's, if it has one */
    hsc__template single, pair;
    hsc__strip strip;
    hsc__bytes *inner; /* [vocab.n] what a token decodes to behind another one; NULL: vocab.bytes */
    bool *ends_word;   /* [vocab.n] a blank follows the token where another token does; NULL: none */
    size_t longest;    /* bytes of the longest token */
    hsc__arena arena;
    char *files[2];  /* texts that the vocabulary (and the map) borrow from */
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

/* Sets the templates: these tokens around each text, the second of a pair in segment 1. HSC_ENOMEM. */
hsc_status hsc__set_template(hsc_tokenizer *tokenizer, const hsc_token *before, size_t n_before, const hsc_token *after,
                             size_t n_after, hsc_error *err);
/* Sets one of the two. HSC_ENOMEM. */
hsc_status hsc__copy_template(hsc_tokenizer *tokenizer, hsc__template *out, const hsc__template_part *part, size_t n,
                              hsc_error *err);

/* A tokenizer.json in memory: text[0..n) with a NUL behind it, from hsc__malloc, which the tokenizer (or the failure)
 * takes. `path` names it in messages; `dir` is the folder whose other files count too, or NULL. */
hsc_status hsc__tokenizer_parse_json(hsc_tokenizer **out, char *text, size_t n, const char *path, const char *dir,
                                     hsc_error *err);
hsc_status hsc__tokenizer_from_json(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err);
hsc_status hsc__tokenizer_from_vocab(hsc_tokenizer **out, const char *dir, hsc_error *err);
/* A SentencePiece model, bytes[0..n) or in a file; as hsc__tokenizer_parse_json otherwise. */
hsc_status hsc__tokenizer_parse_sentencepiece(hsc_tokenizer **out, char *bytes, size_t n, const char *path,
                                              const char *dir, hsc_error *err);
hsc_status hsc__tokenizer_from_sentencepiece(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err);
hsc_status hsc__tokenizer_from_marian(hsc_tokenizer **out, const char *dir, bool target, hsc_error *err);
hsc_status hsc__tokenizer_from_merges(hsc_tokenizer **out, const char *dir, hsc_error *err);

#endif
