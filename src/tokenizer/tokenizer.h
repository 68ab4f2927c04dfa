/* Inside the library: making a tokenizer from what is already open. The public functions are in headscope.h. */
#ifndef HSC_TOKENIZER_TOKENIZER_H
#define HSC_TOKENIZER_TOKENIZER_H

#include "formats/gguf.h"

/* The gguf must outlive the tokenizer. HSC_ENOTFOUND when the file carries no tokenizer. */
hsc_status hsc__tokenizer_from_gguf(hsc_tokenizer **out, const hsc__gguf *gguf, hsc_error *err);
/* A folder with tokenizer.json, a SentencePiece model, vocab.json and merges.txt, or vocab.txt; Marian's, with
 * source.spm, gives the tokenizer of the source language. HSC_ENOTFOUND when it has none of them. */
hsc_status hsc__tokenizer_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err);
/* The tokenizer of the target language (Marian's target.spm), for texts that are given as the decoder's. HSC_ENOTFOUND
 * when the folder has none of its own: the one above then serves both sides. */
hsc_status hsc__tokenizer_target_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err);

#endif
