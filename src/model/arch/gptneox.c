/*
 * GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same residual, a quarter of each head is
 * rotated. Folder: q, k and v of a head lie together in one matrix, [n_heads][3][d_head] rows. GGUF: all of q, then k,
 * then v.
 */
#include "model/arch/arch.h"
#include "model/rope.h"

#include <math.h>

static hsc_status fill_common(hsc__desc *desc, const char *path, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_FAIL_IF(c->d_model % c->n_heads != 0, HSC_EFORMAT, "%s: the width %d is not a multiple of the %d heads", path,
                c->d_model, c->n_heads);
    c->n_kv_heads = c->n_heads;
    c->d_head = c->d_model / c->n_heads;
    c->causal = 1;
    c->is_rotary = 1;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    return HSC_OK;
}

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
    return fill_common(desc, src->config_path, err);
}

/* Older files have names of their own for base and share. */
static hsc_status read_rope(hsc__source *src, hsc__desc *desc, hsc__rope *rope, hsc_error *err)
{
    hsc__rope_defaults d = {10000, 0.25, false};
    HSC_TRY(hsc__json_double(src->config, "rotary_emb_base", d.theta, &d.theta, src->config_path, err));
    HSC_TRY(hsc__json_double(src->config, "rotary_pct", d.partial, &d.partial, src->config_path, err));
    return hsc__rope_from_config(src, &desc->config, &d, rope, err);
}

/* Every third run of d_head rows of the fused matrix, from run `part` on; its bias in the order of the outputs. */
static hsc_status split(hsc__source *src, const hsc_config *c, const hsc__weight *fused, int part, hsc__weight *out,
                        hsc_error *err)
{
    int d = c->d_head, n = c->n_heads * d;
    *out = hsc__weight_part(fused, part * d, n);
    out->group = d;
    out->group_bytes = 3 * (size_t)d * fused->row_bytes;
    if (!fused->bias) return HSC_OK;
    float *bias = hsc__source_alloc(src, (size_t)n * sizeof *bias);
    if (!bias) return hsc__fail_memory(err, (size_t)n * sizeof *bias, "a bias");
    for (int i = 0; i < n; i++) bias[i] = fused->bias[(i / d * 3 + part) * d + i % d];
    out->bias = bias;
    return HSC_OK;
}

static hsc_status folder_layer(hsc__source *src, hsc__desc *desc, hsc__bias bias, int i, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = c->d_model, m = c->d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "layers.%d.input_layernorm", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "layers.%d.post_attention_layernorm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, bias, err, "layers.%d.attention.query_key_value", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, bias, err, "layers.%d.attention.dense", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "layers.%d.mlp.dense_h_to_4h", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "layers.%d.mlp.dense_4h_to_h", i));
    HSC_TRY(split(src, c, &qkv, 0, &l->w_q, err));
    HSC_TRY(split(src, c, &qkv, 1, &l->w_k, err));
    return split(src, c, &qkv, 2, &l->w_v, err);
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
    for (int i = 0; i < desc->config.n_layers; i++) HSC_TRY(folder_layer(src, desc, bias, i, err));
    hsc__source_ignore(src, ".attention.bias"); /* buffers of older checkpoints */
    hsc__source_ignore(src, ".attention.masked_bias");
    hsc__source_ignore(src, ".rotary_emb.inv_freq");
    HSC_TRY(read_rope(src, desc, &rope, err));
    finish_layers(desc, &rope);
    return HSC_OK;
}

static hsc_status gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = c->d_model, m = c->d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "blk.%d.attn_norm", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "blk.%d.ffn_norm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, HSC__BIAS_IF_THERE, err, "blk.%d.attn_qkv", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, HSC__BIAS_IF_THERE, err, "blk.%d.attn_output", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "blk.%d.ffn_up", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "blk.%d.ffn_down", i));
    l->w_q = hsc__weight_part(&qkv, 0, d);
    l->w_k = hsc__weight_part(&qkv, d, d);
    l->w_v = hsc__weight_part(&qkv, 2 * d, d);
    return HSC_OK;
}

hsc_status hsc__gptneox_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    hsc__rope rope;
    double eps;
    HSC_TRY(hsc__meta_int(src, "embedding_length", 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__meta_int(src, "block_count", 4096, &c->n_layers, err));
    HSC_TRY(hsc__meta_int(src, "attention.head_count", 4096, &c->n_heads, err));
    HSC_TRY(hsc__meta_int(src, "context_length", 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__meta_int(src, "feed_forward_length", 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_epsilon", 1e-5, &eps, err));
    HSC_TRY(hsc__meta_bool(src, "use_parallel_residual", true, &desc->parallel, err));
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    HSC_TRY(fill_common(desc, src->path, err));
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_GELU;
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS, err, "output_norm"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(gguf_layer(src, desc, i, err));
    HSC_TRY(hsc__rope_from_gguf(src, c, &rope, err));
    finish_layers(desc, &rope);
    return HSC_OK;
}
