/*
 * OPT (Zhang et al. 2022): GPT-2's shape with the fields' names of BART, positions stored from row 2 on, ReLU, and
 * norms before the branches or after the sums. Folder only: llama.cpp has no such architecture.
 */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>

enum { POSITION_OFFSET = 2 };

typedef struct {
    bool tie, affine, final_norm;
    hsc__bias bias;
    int d_embed;
} options;

static hsc_status read_config(hsc__source *src, hsc__desc *desc, options *o, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool before, has_bias, no_final;
    HSC_TRY(hsc__config_int(src, "hidden_size", NULL, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int(src, "num_hidden_layers", NULL, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "num_attention_heads", NULL, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int(src, "ffn_dim", NULL, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 2048, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 50272, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_int_or(src, "word_embed_proj_dim", NULL, c->d_model, 1, 1 << 20, &o->d_embed, err));
    HSC_TRY(hsc__config_act(src, "activation_function", "relu", &desc->act, err));
    HSC_TRY(hsc__json_bool(src->config, "do_layer_norm_before", true, &before, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "_remove_final_layer_norm", false, &no_final, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "enable_bias", true, &has_bias, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "layer_norm_elementwise_affine", true, &o->affine, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, &o->tie, src->config_path, err));
    HSC_FAIL_IF(o->d_embed > c->d_model, HSC_EUNSUPPORTED,
                "%s: field \"word_embed_proj_dim\": an embedding of %d values in a model of %d is not supported",
                src->config_path, o->d_embed, c->d_model);
    HSC_TRY(hsc__desc_heads(desc, src->config_path, err));
    o->bias = has_bias ? HSC__BIAS : HSC__NO_BIAS;
    o->final_norm = before && !no_final;
    c->causal = c->has_pos_embed = 1;
    desc->post_norm = !before;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    desc->norm_eps = 1e-5f;
    return HSC_OK;
}

static hsc_status norm(hsc__source *src, hsc__norm *out, const options *o, int n, const char *name, hsc_error *err)
{
    *out = (hsc__norm){.present = true};
    return o->affine ? hsc__bind_norm(src, out, n, HSC__BIAS, err, "%s", name) : HSC_OK;
}

static hsc_status bind_layer(hsc__source *src, hsc__desc *desc, const options *o, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    int d = desc->config.d_model, m = desc->config.d_mlp;
    char ln1[64], ln2[64];
    snprintf(ln1, sizeof ln1, "layers.%d.self_attn_layer_norm", i);
    snprintf(ln2, sizeof ln2, "layers.%d.final_layer_norm", i);
    HSC_TRY(norm(src, &l->ln1, o, d, ln1, err));
    HSC_TRY(norm(src, &l->ln2, o, d, ln2, err));
    HSC_TRY(hsc__bind_linear(src, &l->w_q, d, d, o->bias, err, "layers.%d.self_attn.q_proj", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_k, d, d, o->bias, err, "layers.%d.self_attn.k_proj", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_v, d, d, o->bias, err, "layers.%d.self_attn.v_proj", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, o->bias, err, "layers.%d.self_attn.out_proj", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, o->bias, err, "layers.%d.fc1", i));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, o->bias, err, "layers.%d.fc2", i));
    l->attn_scale = 1 / sqrtf((float)desc->config.d_head);
    return HSC_OK;
}

hsc_status hsc__opt_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"model.decoder.", "decoder.", "", NULL};
    hsc_config *c = &desc->config;
    options o;
    char embed[64];
    hsc__weight positions;
    HSC_TRY(read_config(src, desc, &o, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "layers.0.fc1.weight");
    snprintf(embed, sizeof embed, "%sembed_tokens.weight", src->prefix);
    HSC_TRY(hsc__bind_unembed(src, desc, o.d_embed, embed, "lm_head.weight", o.tie, err));
    HSC_TRY(hsc__bind_matrix(src, &positions, c->n_ctx + POSITION_OFFSET, c->d_model, false, err,
                             "embed_positions.weight"));
    desc->pos_embed = hsc__weight_part(&positions, POSITION_OFFSET, c->n_ctx);
    if (o.d_embed != c->d_model) {
        HSC_TRY(hsc__bind_linear(src, &desc->w_embed, c->d_model, o.d_embed, HSC__NO_BIAS, err, "project_in"));
        HSC_TRY(hsc__bind_linear(src, &desc->w_head, o.d_embed, c->d_model, HSC__NO_BIAS, err, "project_out"));
    }
    if (o.final_norm) HSC_TRY(norm(src, &desc->ln_final, &o, c->d_model, "final_layer_norm", err));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(bind_layer(src, desc, &o, i, err));
    return HSC_OK;
}
