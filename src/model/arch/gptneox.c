/*
 * GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same residual, a quarter of each head is
 * rotated. Folder: q, k and v of a head lie together in one matrix, [n_heads][3][d_head] rows. GGUF: all of q, then k,
 * then v.
 */
#include "model/arch/fused.h"
#include "model/rope.h"

#include <math.h>

static void finish_layers(hsc__desc *desc, const hsc__rope *rope)
{
    for (int i = 0; i < desc->config.n_layers; i++) {
        desc->layers[i].rope = *rope;
        desc->layers[i].attn_scale = 1 / sqrtf((float)desc->config.d_head);
    }
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, bool *tie, hsc__bias *bias, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool has_bias;
    HSC_TRY(hsc__config_int(src, "hidden_size", NULL, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int(src, "num_hidden_layers", NULL, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "num_attention_heads", NULL, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int(src, "intermediate_size", NULL, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 2048, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 50432, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_act(src, "hidden_act", "gelu", &desc->act, err));
    HSC_TRY(hsc__config_eps(src, "layer_norm_eps", 1e-5f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "use_parallel_residual", true, &desc->parallel, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "attention_bias", true, &has_bias, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", false, tie, src->config_path, err));
    *bias = has_bias ? HSC__BIAS : HSC__NO_BIAS;
    c->is_rotary = 1;
    return hsc__fused_fill(desc, src->config_path, err);
}

/* Older files have names of their own for base and share. */
static hsc_status read_rope(hsc__source *src, hsc__desc *desc, hsc__rope *rope, hsc_error *err)
{
    hsc__rope_defaults d = {.theta = 10000, .partial = 0.25};
    HSC_TRY(hsc__json_double(src->config, "rotary_emb_base", d.theta, &d.theta, src->config_path, err));
    HSC_TRY(hsc__json_double(src->config, "rotary_pct", d.partial, &d.partial, src->config_path, err));
    return hsc__rope_from_config(src, &desc->config, &d, rope, err);
}

hsc_status hsc__gptneox_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"gpt_neox.", "", NULL};
    bool tie;
    hsc__bias bias;
    hsc__rope rope;
    HSC_TRY(read_config(src, desc, &tie, &bias, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "layers.0.input_layernorm.weight");
    const char *head = hsc__tensors_find(src->tensors, "lm_head.weight") ? "lm_head.weight" : "embed_out.weight";
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model,
                              *src->prefix ? "gpt_neox.embed_in.weight" : "embed_in.weight", head, tie, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, desc->config.d_model, HSC__BIAS, err, "final_layer_norm"));
    for (int i = 0; i < desc->config.n_layers; i++)
        HSC_TRY(hsc__fused_folder_layer(src, desc, i, "layers", "attention", bias, err));
    hsc__source_ignore(src, ".attention.bias"); /* buffers of older checkpoints */
    hsc__source_ignore(src, ".attention.masked_bias");
    hsc__source_ignore(src, ".rotary_emb.inv_freq");
    HSC_TRY(read_rope(src, desc, &rope, err));
    finish_layers(desc, &rope);
    return HSC_OK;
}

hsc_status hsc__gptneox_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    hsc__rope rope;
    HSC_TRY(hsc__fused_gguf_sizes(src, desc, err));
    HSC_TRY(hsc__meta_bool(src, "use_parallel_residual", true, &desc->parallel, err));
    c->is_rotary = 1;
    desc->act = HSC__ACT_GELU;
    HSC_TRY(hsc__bind_unembed(src, desc, c->d_model, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS, err, "output_norm"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(hsc__fused_gguf_layer(src, desc, i, HSC__BIAS_IF_THERE, err));
    HSC_TRY(hsc__rope_from_gguf(src, c, &rope, err));
    finish_layers(desc, &rope);
    return HSC_OK;
}
