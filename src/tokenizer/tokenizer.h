/* Inside the library: making a tokenizer from what is already open. The public functions are in headscope.h. */
#ifndef HSC_TOKENIZER_TOKENIZER_H
#define HSC_TOKENIZER_TOKENIZER_H

#include "formats/gguf.h"

/* The gguf must outlive the tokenizer. HSC_ENOTFOUND when the file carries no tokenizer. */
hsc_status hsc__tokenizer_from_gguf(hsc_tokenizer **out, const hsc__gguf *gguf, hsc_error *err);
/* A folder with tokenizer.json, or vocab.json and merges.txt. HSC_ENOTFOUND when it has neither. */
hsc_status hsc__tokenizer_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err);

#endif
