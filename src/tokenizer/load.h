/* Shared by the loaders: the parts of a tokenizer.json, and the files that lie beside it. */
#ifndef HSC_TOKENIZER_LOAD_H
#define HSC_TOKENIZER_LOAD_H

#include "formats/json.h"
#include "tokenizer/pipeline.h"

enum { HSC__TOKENIZER_FILE_LIMIT = 1 << 29 };

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
 * tokenizer does not have yet, and add_bos_token / add_eos_token. `defaults` names the special token of a folder whose
 * files say nothing (GPT-2's), or is NULL. */
hsc_status hsc__load_folder_config(hsc_tokenizer *t, const char *dir, const char *defaults, hsc_error *err);

/* Sets the template to these tokens. HSC_ENOMEM. */
hsc_status hsc__set_template(hsc_tokenizer *t, const hsc_token *before, size_t n_before, const hsc_token *after,
                             size_t n_after, hsc_error *err);

/* Sets the bytes of normal tokens to their texts with these replacements made. */
hsc_status hsc__decode_pieces(hsc_tokenizer *t, const hsc__normalizer *replace, hsc_error *err);
/* The byte of a piece <0x00> to <0xFF>, or -1. */
int hsc__byte_piece(hsc__bytes text);
/* Makes such pieces stand for their bytes. */
hsc_status hsc__decode_byte_pieces(hsc_tokenizer *t, hsc_error *err);

/* "type" of a component, or NULL when it is no object or has none. */
const char *hsc__type_of(const json_t *json);
/* A copy in the tokenizer's arena; data NULL when memory is out. */
hsc__bytes hsc__keep(hsc_tokenizer *t, const char *text, size_t n);

#endif
