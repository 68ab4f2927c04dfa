/*
 * llama2.c's checkpoint (version 0, the karpathy/llama2.c project's first): seven int32, then float32 tensors one after
 * the other, nothing named and no magic. A file is taken for one when its length is exactly what the seven numbers ask
 * for.
 */
#ifndef HSC_FORMATS_LLAMA2C_H
#define HSC_FORMATS_LLAMA2C_H

#include "formats/tensors.h"

#include <stdbool.h>

typedef struct hsc__llama2c {
    int d_model, d_mlp, n_layers, n_heads, n_kv_heads, d_vocab, n_ctx;
    bool shared; /* the output matrix is the embedding */
} hsc__llama2c;

/* True when the file's length fits its first 28 bytes. */
bool hsc__llama2c_is(const char *path);

/* The tensors under the names that GGUF gives them; rows of q and k lie as GGUF has them. HSC_EFORMAT: not such a file.
 * HSC_EIO, HSC_ENOMEM. */
hsc_status hsc__llama2c_open(hsc__tensors **out, const char *path, hsc__llama2c *header, hsc_error *err);
/* The same from bytes in memory, which must outlive the set; `path` is for messages. */
hsc_status hsc__llama2c_parse(hsc__tensors **out, const void *data, size_t n, const char *path, hsc__llama2c *header,
                              hsc_error *err);

#endif
