/* The table itself, and what the families share. */
#include "model/arch/arch.h"

#include <stdio.h>

#include <string.h>

static const hsc__arch table[] = {
    {"gpt2", hsc__gpt2_from_folder, hsc__gpt2_from_gguf},
    {"llama", hsc__llama_from_folder, hsc__llama_from_gguf},
    {"mistral", hsc__mistral_from_folder, NULL},
    {"qwen2", hsc__qwen2_from_folder, hsc__qwen2_from_gguf},
    {"qwen3", hsc__qwen3_from_folder, hsc__qwen3_from_gguf},
    {"phi3", hsc__phi3_from_folder, hsc__phi3_from_gguf},
    {"gemma2", hsc__gemma2_from_folder, hsc__gemma2_from_gguf},
    {"gemma3", hsc__gemma3_text_from_folder, hsc__gemma3_from_gguf},
    {"gemma3_text", hsc__gemma3_from_folder, NULL},
    {"gpt_neox", hsc__gptneox_from_folder, NULL},
    {"gptneox", NULL, hsc__gptneox_from_gguf},
    {"bloom", hsc__bloom_from_folder, hsc__bloom_from_gguf},
    {"opt", hsc__opt_from_folder, NULL},
    {"bert", hsc__bert_from_folder, hsc__bert_from_gguf},
    {"roberta", hsc__roberta_from_folder, NULL},
    {"xlm-roberta", hsc__roberta_from_folder, NULL},
    {"distilbert", hsc__distilbert_from_folder, NULL},
    {"modernbert", hsc__modernbert_from_folder, NULL},
    {"modern-bert", NULL, hsc__modernbert_from_gguf},
    {"t5", hsc__t5_from_folder, hsc__t5_from_gguf},
    {"t5encoder", NULL, hsc__t5encoder_from_gguf},
    {"bart", hsc__bart_from_folder, NULL},
    {"marian", hsc__marian_from_folder, NULL},
};

hsc_status hsc__arch_find(const char *name, const char *path, const hsc__arch **out, hsc_error *err)
{
    char known[512] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *out = &table[i];
            return HSC_OK;
        }
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", table[i].name);
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: architecture \"%s\" is not supported (supported: %s)", path, name,
                     known);
}

hsc_status hsc__desc_heads(hsc__desc *desc, const char *path, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_FAIL_IF(c->d_model % c->n_heads != 0, HSC_EFORMAT, "%s: the width %d is not a multiple of the %d heads", path,
                c->d_model, c->n_heads);
    c->n_kv_heads = c->n_heads;
    c->d_head = c->d_model / c->n_heads;
    return HSC_OK;
}

void hsc__desc_thirds(hsc__layer *layer, const hsc__weight *qkv, int d)
{
    layer->w_q = hsc__weight_part(qkv, 0, d);
    layer->w_k = hsc__weight_part(qkv, d, d);
    layer->w_v = hsc__weight_part(qkv, 2 * d, d);
}

hsc_status hsc__desc_layers(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    size_t n_bytes = (size_t)desc->config.n_layers * sizeof *desc->layers;
    desc->layers = hsc__source_alloc(src, n_bytes);
    if (!desc->layers) return hsc__fail_memory(err, n_bytes, "the layer descriptions");
    memset(desc->layers, 0, n_bytes);
    return HSC_OK;
}

hsc_status hsc__desc_encoder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__desc *encoder = hsc__source_alloc(src, sizeof *encoder);
    if (!encoder) return hsc__fail_memory(err, sizeof *encoder, "the encoder's description");
    *encoder = (hsc__desc){.config = {.arch = desc->config.arch, .name = desc->config.name}};
    desc->encoder = encoder;
    return HSC_OK;
}

/* True when some of 16 rows spread over the two matrices differ: enough to say that they are not one. */
static bool rows_differ(const hsc__tensor *a, const hsc__tensor *b)
{
    if (a->dtype != b->dtype || a->n_bytes != b->n_bytes || a->shape[0] < 1) return true;
    uint64_t row = a->n_bytes / (uint64_t)a->shape[0];
    for (int64_t i = 0; i < 16; i++) {
        uint64_t at = (uint64_t)(a->shape[0] - 1) * (uint64_t)i / 15 * row;
        if (memcmp((const char *)a->data + at, (const char *)b->data + at, (size_t)row) != 0) return true;
    }
    return false;
}

hsc_status hsc__bind_unembed(hsc__source *src, hsc__desc *desc, int width, const char *embed, const char *head,
                             bool tie, hsc_error *err)
{
    const char *prefix = src->prefix;
    const hsc__tensor *e = hsc__tensors_find(src->tensors, embed), *h = hsc__tensors_find(src->tensors, head);
    HSC_FAIL_IF(!e && !(h && tie), HSC_EFORMAT, "%s: tensor %s is missing", src->path, embed);
    int64_t n = desc->config.d_vocab, d = width;
    src->prefix = "";
    hsc_status status = hsc__bind_matrix(src, &desc->embed, n, d, false, err, "%s", e ? embed : head);
    if (status == HSC_OK) status = hsc__bind_matrix(src, &desc->unembed, n, d, false, err, "%s", h ? head : embed);
    src->prefix = prefix;
    HSC_TRY(status);
    desc->config.tied = !h || !e;
    if (tie && e && h && rows_differ(e, h))
        hsc__source_warn(src, "%s: tie_word_embeddings is true but %s and %s differ; both are used as stored",
                         src->path, embed, head);
    if (!tie && !h)
        hsc__source_warn(src, "%s: %s is missing though tie_word_embeddings is false; logits are made with %s",
                         src->path, head, embed);
    return HSC_OK;
}
