/*
 * What decoders with q, k and v in one matrix and LayerNorms before the branches share (GPT-2, GPT-NeoX, BLOOM): the
 * names of GGUF, and in a folder of the latter two names and the order of the rows, [n_heads][3][d_head].
 */
#ifndef HSC_MODEL_ARCH_FUSED_H
#define HSC_MODEL_ARCH_FUSED_H

#include "model/arch/arch.h"

/* Layer i of a folder, its q, k and v head by head. Names begin with `layers`, "h" say, and the attention is called
 * `attention`; `bias` is attention's. */
hsc_status hsc__fused_folder_layer(hsc__source *src, hsc__desc *desc, int i, const char *layers, const char *attention,
                                   hsc__bias bias, hsc_error *err);

/* Layer i of a GGUF file, where all of q lies before k, and all of k before v; `bias` is attention's. */
hsc_status hsc__fused_gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc__bias bias, hsc_error *err);

/* Sizes, epsilon and vocabulary of a GGUF file; as many kv heads as heads. Then the layers are there, empty. */
hsc_status hsc__fused_gguf_sizes(hsc__source *src, hsc__desc *desc, hsc_error *err);

/* As many kv heads as heads, of one width together: d_model. LayerNorms, causal. */
hsc_status hsc__fused_fill(hsc__desc *desc, const char *path, hsc_error *err);

#endif
