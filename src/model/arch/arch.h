/* The table of architectures: a row a family, found by Hugging Face's model_type or GGUF's general.architecture. */
#ifndef HSC_MODEL_ARCH_ARCH_H
#define HSC_MODEL_ARCH_ARCH_H

#include "formats/llama2c.h"
#include "model/source.h"

typedef struct hsc__arch {
    const char *name;
    /* Fill the description from config.json or from GGUF metadata; NULL: that container is not supported. */
    hsc_status (*from_folder)(hsc__source *src, hsc__desc *desc, hsc_error *err);
    hsc_status (*from_gguf)(hsc__source *src, hsc__desc *desc, hsc_error *err);
} hsc__arch;

/* HSC_EUNSUPPORTED with the list of what there is. `path` is for the message. */
hsc_status hsc__arch_find(const char *name, const char *path, const hsc__arch **out, hsc_error *err);

/* Heads that share the width out and have a key and value each: n_kv_heads and d_head. HSC_EFORMAT: the width is no
 * multiple of the heads; `path` is for the message. */
hsc_status hsc__desc_heads(hsc__desc *desc, const char *path, hsc_error *err);

/* w_q, w_k and w_v, the thirds of a matrix of 3 d outputs in this order. */
void hsc__desc_thirds(hsc__layer *layer, const hsc__weight *qkv, int d);

/* Allocates desc->layers, zeroed. */
hsc_status hsc__desc_layers(hsc__source *src, hsc__desc *desc, hsc_error *err);

/* Makes desc->encoder, all zeros but the names. */
hsc_status hsc__desc_encoder(hsc__source *src, hsc__desc *desc, hsc_error *err);

/* The embedding and the output matrix, both `width` wide: `head` when the file has it, else the embedding. `tie` is
 * what the configuration says; a file that contradicts it is warned about. Names are full names, prefix included. */
hsc_status hsc__bind_unembed(hsc__source *src, hsc__desc *desc, int width, const char *embed, const char *head,
                             bool tie, hsc_error *err);

/* What each file of this folder has. */
#define HSC__ARCH_READER(name) hsc_status name(hsc__source *src, hsc__desc *desc, hsc_error *err)
HSC__ARCH_READER(hsc__gpt2_from_folder);
HSC__ARCH_READER(hsc__gpt2_from_gguf);
HSC__ARCH_READER(hsc__llama_from_folder);
HSC__ARCH_READER(hsc__llama_from_gguf);
HSC__ARCH_READER(hsc__mistral_from_folder);
HSC__ARCH_READER(hsc__qwen2_from_folder);
HSC__ARCH_READER(hsc__qwen2_from_gguf);
HSC__ARCH_READER(hsc__qwen3_from_folder);
HSC__ARCH_READER(hsc__qwen3_from_gguf);
HSC__ARCH_READER(hsc__phi3_from_folder);
HSC__ARCH_READER(hsc__phi3_from_gguf);
HSC__ARCH_READER(hsc__gemma2_from_folder);
HSC__ARCH_READER(hsc__gemma2_from_gguf);
HSC__ARCH_READER(hsc__gemma3_from_folder);
HSC__ARCH_READER(hsc__gemma3_text_from_folder);
HSC__ARCH_READER(hsc__gemma3_from_gguf);
HSC__ARCH_READER(hsc__gptneox_from_folder);
HSC__ARCH_READER(hsc__gptneox_from_gguf);
HSC__ARCH_READER(hsc__bloom_from_folder);
HSC__ARCH_READER(hsc__bloom_from_gguf);
HSC__ARCH_READER(hsc__opt_from_folder);
HSC__ARCH_READER(hsc__bert_from_folder);
HSC__ARCH_READER(hsc__bert_from_gguf);
HSC__ARCH_READER(hsc__roberta_from_folder);
HSC__ARCH_READER(hsc__distilbert_from_folder);
HSC__ARCH_READER(hsc__modernbert_from_folder);
HSC__ARCH_READER(hsc__modernbert_from_gguf);
HSC__ARCH_READER(hsc__t5_from_folder);
HSC__ARCH_READER(hsc__t5_from_gguf);
HSC__ARCH_READER(hsc__t5encoder_from_gguf);
HSC__ARCH_READER(hsc__bart_from_folder);
HSC__ARCH_READER(hsc__marian_from_folder);
#undef HSC__ARCH_READER

/* From a llama2.c checkpoint, whose configuration is its header. */
hsc_status hsc__llama_from_llama2c(hsc__source *src, hsc__desc *desc, const hsc__llama2c *header, hsc_error *err);

#endif
