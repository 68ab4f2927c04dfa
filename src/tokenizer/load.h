/* Shared by the loaders: the parts of a tokenizer.json, and the files that lie beside it. */
#ifndef HSC_TOKENIZER_LOAD_H
#define HSC_TOKENIZER_LOAD_H

#include "base/text.h"
#include "formats/json.h"
#include "tokenizer/pipeline.h"

enum { HSC__TOKENIZER_FILE_LIMIT = 1 << 29 };

/* The kind of model, and what cannot be. */
hsc_status hsc__check_model(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
/* The model: its options, and what it needs besides the vocabulary and the merges, which are there already. */
hsc_status hsc__load_model(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
/* BERT's normalizer. */
hsc_status hsc__add_bert_normalizer(hsc__normalizer *normalizer, bool clean, bool ideographs, bool accents_go,
                                    bool lowercase, hsc_error *err);
/* Appends a literal text as a pattern matches it. */
void hsc__quote_pattern(hsc__string *out, hsc__bytes text);
/* BERT's pre-tokenizer: white space goes, every punctuation character stands alone. */
hsc_status hsc__add_bert_splitter(hsc__splitter *splitter, hsc_error *err);

/* Each reads one component of a tokenizer.json; NULL and JSON null mean none. What is not known is HSC_EUNSUPPORTED
 * naming the component and the file. */
hsc_status hsc__load_normalizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
hsc_status hsc__load_pre_tokenizer(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
hsc_status hsc__load_post_processor(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
/* Works out the bytes of every token. Byte-level models without a decoder are decoded as byte-level. */
hsc_status hsc__load_decoder(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);
/* An array of added tokens, as in tokenizer.json. */
hsc_status hsc__load_added_tokens(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);

/* tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder, where they exist: tokens that the
 * tokenizer does not have yet, add_bos_token and add_eos_token, and BERT's settings. The kind says what a folder
 * without a tokenizer.json means where its files are silent. */
typedef enum {
    HSC__FOLDER_PLAIN,
    HSC__FOLDER_GPT2,
    HSC__FOLDER_BERT,
    HSC__FOLDER_LLAMA, /* these and the following: SentencePiece models, as the classes of transformers open them */
    HSC__FOLDER_GEMMA,
    HSC__FOLDER_T5,
    HSC__FOLDER_XLMR,
    HSC__FOLDER_SENTENCEPIECE, /* any other; its file names its tokens */
    HSC__FOLDER_MARIAN,
} hsc__folder_kind;
enum { HSC__NAMED_TOKENS = 7 };
/* `names`, or NULL for what the kind has: the tokens' texts where the files are silent, in the order bos, eos, unk,
 * sep, pad, cls, mask; each may be NULL. */
hsc_status hsc__load_folder_config(hsc_tokenizer *t, const char *dir, hsc__folder_kind kind, const char *const *names,
                                   hsc_error *err);
/* One file of the folder as an object, numbers as reals; *out is NULL when there is none. */
hsc_status hsc__load_settings(json_t **out, const char *dir, const char *name, hsc_error *err);

/* "CLS first SEP second SEP", the second text in segment 1. */
hsc_status hsc__set_bert_template(hsc_tokenizer *t, hsc_token cls, hsc_token sep, hsc_error *err);
/* "CLS first SEP SEP second SEP", without segments. */
hsc_status hsc__set_roberta_template(hsc_tokenizer *t, hsc_token cls, hsc_token sep, hsc_error *err);

/* Sets the bytes of normal tokens to their texts with these replacements made. */
hsc_status hsc__decode_pieces(hsc_tokenizer *t, const hsc__normalizer *replace, hsc_error *err);
/* WordPiece's: behind another token, one with the prefix goes on with its word, every other one follows a blank.
 * `cleanup` takes the blanks off that stand before punctuation and English endings. */
hsc_status hsc__decode_words(hsc_tokenizer *t, hsc__bytes prefix, bool cleanup, hsc_error *err);
/* The byte of a piece <0x00> to <0xFF>, or -1. */
int hsc__byte_piece(hsc__bytes text);
/* The token of each byte, or -1: for byte-level models those of the alphabet, otherwise the pieces <0x00> to <0xFF>,
 * spelled in capitals. */
void hsc__find_byte_ids(const hsc_tokenizer *t, hsc_token *byte_id);
/* Makes such pieces stand for their bytes. */
hsc_status hsc__decode_byte_pieces(hsc_tokenizer *t, hsc_error *err);

/* HSC_EUNSUPPORTED: this `part` ("normalizer") of the file is of a type that is not known. */
hsc_status hsc__load_unknown(const char *path, const char *part, const json_t *json, hsc_error *err);
/* A required string field, copied into the tokenizer's arena. */
hsc_status hsc__load_text(hsc_tokenizer *t, const json_t *json, const char *field, const char *path, hsc__bytes *out,
                          hsc_error *err);
/* The steps of a "Sequence", which lie in `field`; NULL when it is none. */
const json_t *hsc__load_steps(const json_t *json, const char *field);

/* "type" of a component, or NULL when it is no object or has none. */
const char *hsc__type_of(const json_t *json);
/* vocab.json, {"token": id}, whose text the tokenizer keeps. */
hsc_status hsc__load_vocab_json(hsc_tokenizer *t, const char *path, hsc_error *err);
/* A copy in the tokenizer's arena; data NULL when memory is out. */
hsc__bytes hsc__keep(hsc_tokenizer *t, const char *text, size_t n);

#endif
