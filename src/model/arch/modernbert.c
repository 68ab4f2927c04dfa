/*
 * ModernBERT (Warner et al. 2024): an encoder with rotary positions, a gated feed-forward, few biases and norms before
 * the branches; the first block has none before its attention, since the embedding comes normalised. Every third layer
 * sees everything, the others a window on both sides with a rotary base of their own.
 */
#include "model/arch/decoder.h"

#include <math.h>

enum { LOCAL_ATTENTION = 128, GLOBAL_EVERY = 3 };
static const double GLOBAL_THETA = 160000, LOCAL_THETA = 10000;

typedef struct {
    bool tie, decoder_bias;
    hsc__bias norm_bias, attention_bias, mlp_bias, head_bias;
    int window, every;
} options;

static hsc_status fill_common(hsc__desc *desc, const char *path, hsc_error *err)
{
    HSC_TRY(hsc__desc_heads(desc, path, err));
    desc->config.is_rotary = desc->config.is_gated = 1;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    return HSC_OK;
}

static hsc_status read_bias(const hsc__source *src, const char *field, hsc__bias *out, hsc_error *err)
{
    bool on;
    HSC_TRY(hsc__json_bool(src->config, field, false, &on, src->config_path, err));
    *out = on ? HSC__BIAS : HSC__NO_BIAS;
    return HSC_OK;
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, options *o, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__config_int_or(src, "hidden_size", NULL, 768, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int_or(src, "num_hidden_layers", NULL, 22, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int_or(src, "num_attention_heads", NULL, 12, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "intermediate_size", NULL, 1152, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 8192, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 50368, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_int_or(src, "local_attention", NULL, LOCAL_ATTENTION, 1, 1 << 24, &o->window, err));
    HSC_TRY(hsc__config_int_or(src, "global_attn_every_n_layers", NULL, GLOBAL_EVERY, 1, 4096, &o->every, err));
    HSC_TRY(hsc__config_act(src, "hidden_activation", "gelu", &desc->act, err));
    HSC_TRY(hsc__config_act(src, "classifier_activation", "gelu", &desc->head_act, err));
    HSC_TRY(hsc__config_eps(src, "norm_eps", 1e-5f, &desc->norm_eps, err));
    HSC_TRY(read_bias(src, "norm_bias", &o->norm_bias, err));
    HSC_TRY(read_bias(src, "attention_bias", &o->attention_bias, err));
    HSC_TRY(read_bias(src, "mlp_bias", &o->mlp_bias, err));
    HSC_TRY(read_bias(src, "classifier_bias", &o->head_bias, err));
    HSC_TRY(hsc__json_bool(src->config, "decoder_bias", true, &o->decoder_bias, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, &o->tie, src->config_path, err));
    return fill_common(desc, src->config_path, err);
}

/* Splits what one matrix holds: q, k and v; the gate and the other half. */
static void split(hsc__layer *l, const hsc__weight *qkv, const hsc__weight *gate_up, int d, int m)
{
    hsc__desc_thirds(l, qkv, d);
    l->w_in = hsc__weight_part(gate_up, 0, m);
    l->w_up = hsc__weight_part(gate_up, m, m);
}

static hsc_status folder_layer(hsc__source *src, hsc__desc *desc, const options *o, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv, gate_up;
    int d = desc->config.d_model, m = desc->config.d_mlp;
    if (i > 0) HSC_TRY(hsc__bind_norm(src, &l->ln1, d, o->norm_bias, err, "layers.%d.attn_norm", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, o->norm_bias, err, "layers.%d.mlp_norm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, o->attention_bias, err, "layers.%d.attn.Wqkv", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, o->attention_bias, err, "layers.%d.attn.Wo", i));
    HSC_TRY(hsc__bind_linear(src, &gate_up, 2 * (int64_t)m, d, o->mlp_bias, err, "layers.%d.mlp.Wi", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, o->mlp_bias, err, "layers.%d.mlp.Wo", i));
    split(l, &qkv, &gate_up, d, m);
    return HSC_OK;
}

/* The first layer of each run of `every` sees everything, unless layer_types says otherwise. */
static void spread_windows(hsc__desc *desc, int window, int every)
{
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].window = i % every ? window / 2 + 1 : 0;
}

/* An object a kind of layer in rope_parameters (transformers 5), or global_rope_theta and local_rope_theta. */
static hsc_status read_ropes(hsc__source *src, hsc__desc *desc, hsc__rope *full, hsc__rope *local, hsc_error *err)
{
    const json_t *nested = json_object_get(src->config, "rope_parameters");
    hsc__rope_defaults wide = {.theta = GLOBAL_THETA}, near = {.theta = LOCAL_THETA};
    HSC_TRY(hsc__json_double(src->config, "global_rope_theta", wide.theta, &wide.theta, src->config_path, err));
    HSC_TRY(hsc__json_double(src->config, "local_rope_theta", near.theta, &near.theta, src->config_path, err));
    HSC_TRY(hsc__config_refuse(src, "rope_scaling", err));
    HSC_FAIL_IF(json_object_get(nested, "rope_theta"), HSC_EUNSUPPORTED,
                "%s: field \"rope_parameters\": settings for full_attention and for sliding_attention are expected",
                src->config_path);
    HSC_TRY(hsc__rope_from_object(src, &desc->config, json_object_get(nested, "full_attention"),
                                  "rope_parameters.full_attention", &wide, full, err));
    return hsc__rope_from_object(src, &desc->config, json_object_get(nested, "sliding_attention"),
                                 "rope_parameters.sliding_attention", &near, local, err);
}

static void finish_layers(hsc__desc *desc, const hsc__rope *full, const hsc__rope *local)
{
    for (int i = 0; i < desc->config.n_layers; i++) {
        hsc__layer *l = &desc->layers[i];
        l->rope = l->window ? *local : *full;
        l->attn_scale = 1 / sqrtf((float)desc->config.d_head);
    }
}

/* The masked-word head stands outside the body and has no prefix; a body alone has no output matrix. */
static hsc_status bind_head(hsc__source *src, hsc__desc *desc, const options *o, hsc_error *err)
{
    int d = desc->config.d_model, v = desc->config.d_vocab;
    const char *embed = *src->prefix ? "model.embeddings.tok_embeddings.weight" : "embeddings.tok_embeddings.weight";
    const char *prefix = src->prefix;
    hsc_status status;
    src->prefix = "";
    if (!hsc__source_has(src, "head.dense.weight")) {
        status = hsc__bind_matrix(src, &desc->embed, v, d, false, err, "%s", embed);
    } else {
        HSC_TRY(hsc__bind_linear(src, &desc->w_head, d, d, o->head_bias, err, "head.dense"));
        HSC_TRY(hsc__bind_norm(src, &desc->ln_head, d, o->norm_bias, err, "head.norm"));
        status = hsc__bind_unembed(src, desc, desc->config.d_model, embed, "decoder.weight", o->tie, err);
        if (status == HSC_OK && o->decoder_bias)
            status = hsc__bind_vector(src, &desc->unembed.bias, v, err, "decoder.bias");
    }
    src->prefix = prefix;
    return status;
}

hsc_status hsc__modernbert_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"model.", "", NULL};
    hsc_config *c = &desc->config;
    options o;
    hsc__rope full, local;
    HSC_TRY(read_config(src, desc, &o, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "layers.0.attn.Wqkv.weight");
    HSC_TRY(bind_head(src, desc, &o, err));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, c->d_model, o.norm_bias, err, "embeddings.norm"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, o.norm_bias, err, "final_norm"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(folder_layer(src, desc, &o, i, err));
    spread_windows(desc, o.window, o.every);
    if (json_is_array(json_object_get(src->config, "layer_types")))
        HSC_TRY(hsc__decoder_windows(src, desc, o.window / 2 + 1, 0, 0, err));
    HSC_TRY(read_ropes(src, desc, &full, &local, err));
    finish_layers(desc, &full, &local);
    return HSC_OK;
}

static hsc_status gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    hsc__weight qkv, gate_up;
    int d = desc->config.d_model, m = desc->config.d_mlp;
    if (i > 0) HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS_IF_THERE, err, "blk.%d.attn_norm", i));
    HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS_IF_THERE, err, "blk.%d.ffn_norm", i));
    HSC_TRY(hsc__bind_linear(src, &qkv, 3 * (int64_t)d, d, HSC__BIAS_IF_THERE, err, "blk.%d.attn_qkv", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, HSC__BIAS_IF_THERE, err, "blk.%d.attn_output", i));
    HSC_TRY(hsc__bind_linear(src, &gate_up, 2 * (int64_t)m, d, HSC__BIAS_IF_THERE, err, "blk.%d.ffn_up", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS_IF_THERE, err, "blk.%d.ffn_down", i));
    split(l, &qkv, &gate_up, d, m);
    return HSC_OK;
}

hsc_status hsc__modernbert_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    hsc__rope full, local;
    double eps, theta;
    int window, every;
    HSC_TRY(hsc__meta_sizes(src, c, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_epsilon", 1e-5, &eps, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.sliding_window", LOCAL_ATTENTION, 1, 1 << 24, &window, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.sliding_window_pattern", GLOBAL_EVERY, 1, 4096, &every, err));
    HSC_TRY(hsc__meta_double(src, "rope.freq_base_swa", LOCAL_THETA, &theta, err));
    HSC_FAIL_IF(!(theta > 0), HSC_EFORMAT, "%s: key %s.rope.freq_base_swa must be above 0", src->path, src->arch);
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    HSC_TRY(fill_common(desc, src->path, err));
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_GELU;
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_matrix(src, &desc->embed, c->d_vocab, c->d_model, false, err, "token_embd.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, c->d_model, HSC__BIAS_IF_THERE, err, "token_embd_norm"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, c->d_model, HSC__BIAS_IF_THERE, err, "output_norm"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(gguf_layer(src, desc, i, err));
    spread_windows(desc, window, every);
    HSC_TRY(hsc__rope_from_gguf(src, c, &full, err));
    HSC_TRY(hsc__rope_plain(src, theta, c->d_head, &local, err));
    finish_layers(desc, &full, &local);
    return HSC_OK;
}
