/*
 * BLOOM (Scao et al. 2022): GPT-2's shape with a norm of the embedding and, in the place of positions, scores that fall
 * with the distance, by another slope in each head (ALiBi, Press et al. 2021). Folder: q, k and v of a head lie
 * together in one matrix, [n_heads][3][d_head] rows. GGUF: all of q, then k, then v.
 */
#include "model/arch/fused.h"

#include <math.h>

/* The paper's slopes, 2^(-8 k / n) for k = 1..n where n is a power of two. For another number of heads: those of the
 * power of two below, then every other one of the power above. As in training the ratio is rounded to float32. */
static void fill_slopes(int n_heads, float *out)
{
    int below = 1;
    while (2 * below <= n_heads) below *= 2;
    float ratio = (float)exp2(-8.0 / below), between = (float)exp2(-4.0 / below);
    for (int h = 0; h < n_heads; h++)
        out[h] = (float)(h < below ? pow((double)ratio, h + 1) : pow((double)between, 2 * (h - below) + 1));
}

/* What all layers share: slopes, and the scale of scores. */
static hsc_status finish(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    float *slopes = hsc__source_alloc(src, (size_t)c->n_heads * sizeof *slopes);
    if (!slopes) return hsc__fail_memory(err, (size_t)c->n_heads * sizeof *slopes, "slopes");
    fill_slopes(c->n_heads, slopes);
    c->is_relative = 1;
    desc->act = HSC__ACT_GELU_TANH;
    for (int i = 0; i < c->n_layers; i++) {
        desc->layers[i].alibi = slopes;
        desc->layers[i].attn_scale = 1 / sqrtf((float)c->d_head);
    }
    return HSC_OK;
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, bool *tie, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool normed;
    const char *width = json_is_number(json_object_get(src->config, "n_embed")) ? "n_embed" : "hidden_size";
    HSC_TRY(hsc__config_int(src, width, NULL, 1, 1 << 20, &c->d_model, err)); /* the older name goes before */
    HSC_TRY(hsc__config_int(src, "n_layer", "num_hidden_layers", 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "n_head", "num_attention_heads", 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "seq_length", NULL, 2048, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 250880, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_eps(src, "layer_norm_epsilon", 1e-5f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, tie, src->config_path, err));
    HSC_TRY(
        hsc__json_bool(src->config, "apply_residual_connection_post_layernorm", false, &normed, src->config_path, err));
    HSC_FAIL_IF(normed, HSC_EUNSUPPORTED,
                "%s: field \"apply_residual_connection_post_layernorm\": a residual of normed values is not supported",
                src->config_path);
    c->d_mlp = 4 * c->d_model;
    return hsc__fused_fill(desc, src->config_path, err);
}

hsc_status hsc__bloom_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"transformer.", "", NULL};
    bool tie;
    HSC_TRY(read_config(src, desc, &tie, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "h.0.input_layernorm.weight");
    const char *embed = *src->prefix ? "transformer.word_embeddings.weight" : "word_embeddings.weight";
    int d = desc->config.d_model;
    HSC_TRY(hsc__bind_unembed(src, desc, d, embed, "lm_head.weight", tie, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, d, HSC__BIAS, err, "word_embeddings_layernorm"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, d, HSC__BIAS, err, "ln_f"));
    for (int i = 0; i < desc->config.n_layers; i++)
        HSC_TRY(hsc__fused_folder_layer(src, desc, i, "h", "self_attention", HSC__BIAS, err));
    return finish(src, desc, err);
}

hsc_status hsc__bloom_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    HSC_TRY(hsc__fused_gguf_sizes(src, desc, err));
    int d = desc->config.d_model;
    HSC_TRY(hsc__bind_unembed(src, desc, d, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, d, HSC__BIAS, err, "token_embd_norm"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, d, HSC__BIAS, err, "output_norm"));
    for (int i = 0; i < desc->config.n_layers; i++)
        HSC_TRY(hsc__fused_gguf_layer(src, desc, i, HSC__BIAS_IF_THERE, err));
    return finish(src, desc, err);
}
