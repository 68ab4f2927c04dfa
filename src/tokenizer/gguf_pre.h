/* The pre-tokenizers that GGUF names in tokenizer.ggml.pre. */
#ifndef HSC_TOKENIZER_GGUF_PRE_H
#define HSC_TOKENIZER_GGUF_PRE_H

#include "tokenizer/split.h"

typedef struct hsc__gguf_pre {
    bool ignore_merges; /* a word that is a token stays whole */
    bool add_bos;       /* where the file does not say */
} hsc__gguf_pre;

/* Fills the splitter by name. HSC_EUNSUPPORTED when the name is not known. */
hsc_status hsc__gguf_pre_load(hsc__splitter *splitter, hsc__gguf_pre *out, const char *name, hsc_error *err);

#endif
