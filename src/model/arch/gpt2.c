/*
 * GPT-2 (Radford et al. 2019). Folder: transformers' GPT2LMHeadModel or GPT2Model, weights as Conv1D [n_in][n_out].
 * GGUF: llama.cpp's names, weights as Linear [n_out][n_in].
 */
#include "model/arch/arch.h"

#include <math.h>

static void fill_common(hsc__desc *desc)
{
    hsc_config *c = &desc->config;
    c->n_kv_heads = c->n_heads;
    c->d_head = c->d_model / c->n_heads;
    c->causal = 1;
    c->has_pos_embed = 1;
    desc->norm_kind = HSC__NN_LAYER_NORM;
}

static hsc_status check_heads(const hsc_config *c, const char *path, hsc_error *err)
{
    HSC_FAIL_IF(c->d_model % c->n_heads != 0, HSC_EFORMAT, "%s: the width %d is not a multiple of the %d heads", path,
                c->d_model, c->n_heads);
    return HSC_OK;
}

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
    return check_heads(c, src->config_path, err);
}

/* Splits the fused projection [3 d] into q, k and v. */
static void split_qkv(hsc__layer *layer, const hsc__weight *fused, int d)
{
    layer->w_q = hsc__weight_part(fused, 0, d);
    layer->w_k = hsc__weight_part(fused, d, d);
    layer->w_v = hsc__weight_part(fused, 2 * d, d);
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
    split_qkv(l, &qkv, d);
    return HSC_OK;
}

hsc_status hsc__gpt2_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"transformer.", "", NULL};
    hsc_config *c = &desc->config;
    bool tie, scale, by_layer;
    HSC_TRY(read_config(src, desc, &tie, &scale, &by_layer, err));
    fill_common(desc);
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

static hsc_status gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = desc->config.d_model, m = desc->config.d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "blk.%d.attn_norm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, HSC__BIAS, err, "blk.%d.attn_qkv", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, HSC__BIAS, err, "blk.%d.attn_output", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "blk.%d.ffn_norm", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "blk.%d.ffn_up", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "blk.%d.ffn_down", i));
    l->attn_scale = 1 / sqrtf((float)desc->config.d_head);
    split_qkv(l, &qkv, d);
    return HSC_OK;
}

hsc_status hsc__gpt2_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    double eps;
    HSC_TRY(hsc__meta_sizes(src, c, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_epsilon", 1e-5, &eps, err));
    HSC_TRY(check_heads(c, src->path, err));
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_GELU_TANH;
    fill_common(desc);
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_matrix(src, &desc->pos_embed, c->n_ctx, c->d_model, false, err, "position_embd.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS, err, "output_norm"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(gguf_layer(src, desc, i, err));
    return HSC_OK;
}
