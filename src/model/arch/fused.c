/* Decoders with q, k and v in one matrix. */
#include "model/arch/fused.h"

hsc_status hsc__fused_fill(hsc__desc *desc, const char *path, hsc_error *err)
{
    HSC_TRY(hsc__desc_heads(desc, path, err));
    desc->config.causal = 1;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    return HSC_OK;
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

hsc_status hsc__fused_folder_layer(hsc__source *src, hsc__desc *desc, int i, const char *layers, const char *attention,
                                   hsc__bias bias, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = c->d_model, m = c->d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "%s.%d.input_layernorm", layers, i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "%s.%d.post_attention_layernorm", layers, i));
    HSC_TRY(
        hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, bias, err, "%s.%d.%s.query_key_value", layers, i, attention));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, bias, err, "%s.%d.%s.dense", layers, i, attention));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "%s.%d.mlp.dense_h_to_4h", layers, i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "%s.%d.mlp.dense_4h_to_h", layers, i));
    HSC_TRY(split(src, c, &qkv, 0, &l->w_q, err));
    HSC_TRY(split(src, c, &qkv, 1, &l->w_k, err));
    return split(src, c, &qkv, 2, &l->w_v, err);
}

hsc_status hsc__fused_gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc__bias bias, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv;
    int d = c->d_model, m = c->d_mlp;
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "blk.%d.attn_norm", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "blk.%d.ffn_norm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, bias, err, "blk.%d.attn_qkv", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, bias, err, "blk.%d.attn_output", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "blk.%d.ffn_up", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "blk.%d.ffn_down", i));
    hsc__desc_thirds(l, &qkv, d);
    return HSC_OK;
}

hsc_status hsc__fused_gguf_sizes(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    double eps;
    HSC_TRY(hsc__meta_sizes(src, c, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_epsilon", 1e-5, &eps, err));
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    HSC_TRY(hsc__fused_fill(desc, src->path, err));
    desc->norm_eps = (float)eps;
    return hsc__desc_layers(src, desc, err);
}
