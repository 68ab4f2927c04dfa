/*
 * GPT-2 (Radford et al. 2019). Folder: transformers' GPT2LMHeadModel or GPT2Model, weights as Conv1D [n_in][n_out].
 * GGUF: llama.cpp's names, weights as Linear [n_out][n_in].
 */
#include "model/arch/fused.h"

#include <math.h>

static hsc_status read_config(hsc__source *src, hsc__desc *desc, bool *tie, bool *scale, bool *by_layer, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool cross;
    HSC_TRY(hsc__config_int(src, "n_embd", "hidden_size", 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int(src, "n_layer", "num_hidden_layers", 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "n_head", "num_attention_heads", 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "n_positions", "max_position_embeddings", 1024, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 50257, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_int_or(src, "n_inner", NULL, 4 * (int64_t)c->d_model, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_act(src, "activation_function", "gelu_new", &desc->act, err));
    HSC_TRY(hsc__config_eps(src, "layer_norm_epsilon", 1e-5f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, tie, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "scale_attn_weights", true, scale, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "scale_attn_by_inverse_layer_idx", false, by_layer, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "add_cross_attention", false, &cross, src->config_path, err));
    HSC_FAIL_IF(cross, HSC_EUNSUPPORTED, "%s: field \"add_cross_attention\": cross-attention is not supported here",
                src->config_path);
    c->has_pos_embed = 1;
    return hsc__fused_fill(desc, src->config_path, err);
}

static hsc_status folder_layer(hsc__source *src, hsc__desc *desc, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = desc->config.d_model, m = desc->config.d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "h.%d.ln_1", i));
    HSC_TRY(hsc__bind_matrix(src, &qkv, 3 * (int64_t)d, d, true, err, "h.%d.attn.c_attn.weight", i));
    HSC_TRY(hsc__bind_vector(src, &qkv.bias, 3 * (int64_t)d, err, "h.%d.attn.c_attn.bias", i));
    HSC_TRY(hsc__bind_matrix(src, &l->w_o, d, d, true, err, "h.%d.attn.c_proj.weight", i));
    HSC_TRY(hsc__bind_vector(src, &l->w_o.bias, d, err, "h.%d.attn.c_proj.bias", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "h.%d.ln_2", i));
    HSC_TRY(hsc__bind_matrix(src, &l->w_in, m, d, true, err, "h.%d.mlp.c_fc.weight", i));
    HSC_TRY(hsc__bind_vector(src, &l->w_in.bias, m, err, "h.%d.mlp.c_fc.bias", i));
    HSC_TRY(hsc__bind_matrix(src, &l->w_out, d, m, true, err, "h.%d.mlp.c_proj.weight", i));
    HSC_TRY(hsc__bind_vector(src, &l->w_out.bias, d, err, "h.%d.mlp.c_proj.bias", i));
    hsc__desc_thirds(l, &qkv, d);
    return HSC_OK;
}

hsc_status hsc__gpt2_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"transformer.", "", NULL};
    hsc_config *c = &desc->config;
    bool tie, scale, by_layer;
    HSC_TRY(read_config(src, desc, &tie, &scale, &by_layer, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "h.0.ln_1.weight");
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, *src->prefix ? "transformer.wte.weight" : "wte.weight",
                              "lm_head.weight", tie, err));
    HSC_TRY(hsc__bind_matrix(src, &desc->pos_embed, c->n_ctx, c->d_model, false, err, "wpe.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS, err, "ln_f"));
    for (int i = 0; i < c->n_layers; i++) {
        HSC_TRY(folder_layer(src, desc, i, err));
        desc->layers[i].attn_scale = (scale ? 1 / sqrtf((float)c->d_head) : 1.0f) / (by_layer ? (float)(i + 1) : 1.0f);
    }
    hsc__source_ignore(src, ".attn.bias"); /* causal mask buffers of older checkpoints */
    hsc__source_ignore(src, ".attn.masked_bias");
    return HSC_OK;
}

hsc_status hsc__gpt2_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__fused_gguf_sizes(src, desc, err));
    c->has_pos_embed = 1;
    desc->act = HSC__ACT_GELU_TANH;
    HSC_TRY(hsc__bind_unembed(src, desc, c->d_model, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_matrix(src, &desc->pos_embed, c->n_ctx, c->d_model, false, err, "position_embd.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS, err, "output_norm"));
    for (int i = 0; i < c->n_layers; i++) {
        HSC_TRY(hsc__fused_gguf_layer(src, desc, i, HSC__BIAS, err));
        desc->layers[i].attn_scale = 1 / sqrtf((float)c->d_head);
    }
    return HSC_OK;
}
