/*
 * BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018): an encoder and a decoder of the first
 * transformer's blocks, LayerNorm after the sums. BART learns its positions, stored from row 2 on, and norms the
 * embedding; Marian's are sinusoids, and its two languages may have vocabularies of their own. Both add a bias to the
 * logits.
 */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>

enum { POSITION_OFFSET = 2, MAX_SINUSOIDS = 1 << 15 };

typedef struct {
    bool tie, share, sinusoids, norm_embedding;
    int d_vocab; /* of the encoder */
} options;

static hsc_status refuse(const hsc__source *src, const char *field, hsc_error *err)
{
    bool on;
    HSC_TRY(hsc__json_bool(src->config, field, false, &on, src->config_path, err));
    HSC_FAIL_IF(on, HSC_EUNSUPPORTED, "%s: field \"%s\": true is not supported", src->config_path, field);
    return HSC_OK;
}

/* The fields that each side has under its own name. */
static hsc_status read_side(hsc__source *src, hsc__desc *desc, const char *side, hsc_error *err)
{
    hsc_config *c = &desc->config;
    char layers[48], heads[48], ffn[48];
    snprintf(layers, sizeof layers, "%s_layers", side);
    snprintf(heads, sizeof heads, "%s_attention_heads", side);
    snprintf(ffn, sizeof ffn, "%s_ffn_dim", side);
    HSC_TRY(hsc__config_int_or(src, layers, NULL, 12, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int_or(src, heads, NULL, 16, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, ffn, NULL, 4096, 1, 1 << 24, &c->d_mlp, err));
    HSC_FAIL_IF(c->d_model % c->n_heads != 0, HSC_EFORMAT, "%s: field \"%s\": the width %d is not a multiple of %d",
                src->config_path, heads, c->d_model, c->n_heads);
    c->n_kv_heads = c->n_heads;
    c->d_head = c->d_model / c->n_heads;
    return HSC_OK;
}

/* What both sides have in common, into desc; then the encoder's copy of it and what is each one's own. */
static hsc_status read_config(hsc__source *src, hsc__desc *desc, int d_vocab, options *o, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool scale;
    HSC_TRY(hsc__config_int_or(src, "d_model", NULL, 1024, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 1024, 1, o->sinusoids ? MAX_SINUSOIDS : 1 << 24,
                               &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, d_vocab, 1, 1 << 24, &o->d_vocab, err));
    HSC_TRY(hsc__config_act(src, "activation_function", "gelu", &desc->act, err));
    HSC_TRY(hsc__json_bool(src->config, "scale_embedding", false, &scale, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, &o->tie, src->config_path, err));
    HSC_TRY(refuse(src, "normalize_before", err)); /* of files from when one class was many models */
    HSC_TRY(refuse(src, "add_final_layer_norm", err));
    c->d_vocab = o->d_vocab;
    c->has_pos_embed = 1;
    c->is_sinusoidal = o->sinusoids;
    desc->post_norm = true;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    desc->norm_eps = 1e-5f;
    if (scale) desc->embed_scale = sqrtf((float)c->d_model);
    HSC_TRY(hsc__desc_encoder(src, desc, err));
    hsc__desc *encoder = desc->encoder;
    *encoder = *desc;
    encoder->encoder = NULL;
    c->causal = 1;
    HSC_TRY(read_side(src, encoder, "encoder", err));
    return read_side(src, desc, "decoder", err);
}

static hsc_status bind_attention(hsc__source *src, int d, hsc__weight *const w[4], const char *at, hsc_error *err)
{
    static const char *const names[4] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    for (int i = 0; i < 4; i++) HSC_TRY(hsc__bind_linear(src, w[i], d, d, HSC__BIAS, err, "%s.%s", at, names[i]));
    return HSC_OK;
}

static hsc_status bind_layer(hsc__source *src, hsc__desc *desc, const char *side, int i, hsc_error *err)
{
    hsc__layer *l = &desc->layers[i];
    hsc__cross *x = &l->cross;
    int d = desc->config.d_model, m = desc->config.d_mlp;
    char block[32], at[64];
    snprintf(block, sizeof block, "%s.layers.%d", side, i);
    snprintf(at, sizeof at, "%s.self_attn", block);
    HSC_TRY(bind_attention(src, d, (hsc__weight *[]){&l->w_q, &l->w_k, &l->w_v, &l->w_o}, at, err));
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "%s.self_attn_layer_norm", block));
    if (desc->encoder) {
        snprintf(at, sizeof at, "%s.encoder_attn", block);
        HSC_TRY(bind_attention(src, d, (hsc__weight *[]){&x->w_q, &x->w_k, &x->w_v, &x->w_o}, at, err));
        HSC_TRY(hsc__bind_norm(src, &x->ln, d, HSC__BIAS, err, "%s.encoder_attn_layer_norm", block));
    }
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "%s.fc1", block));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "%s.fc2", block));
    l->attn_scale = 1 / sqrtf((float)desc->config.d_head);
    return hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "%s.final_layer_norm", block);
}

/* sin and cos of p / 10000^(2i/d), all sines before all cosines; in double and then rounded, as transformers has it. */
static hsc_status make_sinusoids(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    int n = desc->config.n_ctx, d = desc->config.d_model, n_sines = (d + 1) / 2;
    size_t n_bytes = (size_t)n * (size_t)d * sizeof(float);
    float *rows = hsc__source_alloc(src, n_bytes);
    if (!rows) return hsc__fail_memory(err, n_bytes, "the positions");
    for (int p = 0; p < n; p++) {
        float *row = rows + (size_t)p * (size_t)d;
        for (int i = 0; i < n_sines; i++) {
            double angle = p / pow(10000, 2.0 * i / d);
            row[i] = (float)sin(angle);
            if (n_sines + i < d) row[n_sines + i] = (float)cos(angle);
        }
    }
    desc->pos_embed =
        (hsc__weight){.dtype = HSC_F32, .n_out = n, .n_in = d, .row_bytes = (size_t)d * sizeof *rows, .data = rows};
    return HSC_OK;
}

static hsc_status bind_positions(hsc__source *src, hsc__desc *desc, const options *o, const char *side, hsc_error *err)
{
    hsc__weight rows;
    char name[64];
    int n = desc->config.n_ctx, offset = o->sinusoids ? 0 : POSITION_OFFSET;
    snprintf(name, sizeof name, "%s.embed_positions.weight", side);
    if (o->sinusoids && !hsc__source_has(src, name)) return make_sinusoids(src, desc, err);
    HSC_TRY(hsc__bind_matrix(src, &rows, n + offset, desc->config.d_model, false, err, "%s", name));
    desc->pos_embed = hsc__weight_part(&rows, offset, n);
    return HSC_OK;
}

static hsc_status bind_stack(hsc__source *src, hsc__desc *desc, const options *o, const char *side, hsc_error *err)
{
    HSC_TRY(hsc__desc_layers(src, desc, err));
    for (int i = 0; i < desc->config.n_layers; i++) HSC_TRY(bind_layer(src, desc, side, i, err));
    HSC_TRY(bind_positions(src, desc, o, side, err));
    if (!o->norm_embedding) return HSC_OK;
    return hsc__bind_norm(src, &desc->ln_embed, desc->config.d_model, HSC__BIAS, err, "%s.layernorm_embedding", side);
}

/* The bias of the logits is stored as a matrix of one row; a file may lack it. */
static hsc_status bind_logits_bias(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__weight row;
    size_t n = (size_t)desc->config.d_vocab;
    src->prefix = "";
    if (!hsc__source_has(src, "final_logits_bias")) return HSC_OK;
    HSC_TRY(hsc__bind_matrix(src, &row, 1, (int64_t)n, false, err, "final_logits_bias"));
    float *values = hsc__source_alloc(src, n * sizeof *values);
    if (!values) return hsc__fail_memory(err, n * sizeof *values, "final_logits_bias");
    hsc__weight_row(hsc__kernels_ref(), &row, 0, values);
    desc->unembed.bias = values;
    return HSC_OK;
}

/* A side has an embedding of its own where the vocabularies are apart, or nothing is tied and the file has one. */
static bool has_own_table(const hsc__source *src, const options *o, const char *name)
{
    return !o->share || (!o->tie && hsc__source_has(src, name));
}

static hsc_status bind_tables(hsc__source *src, hsc__desc *desc, const options *o, hsc_error *err)
{
    static const char encoders[] = "encoder.embed_tokens.weight", decoders[] = "decoder.embed_tokens.weight";
    char embed[64];
    int d = desc->config.d_model;
    bool own = has_own_table(src, o, encoders);
    HSC_TRY(hsc__bind_matrix(src, &desc->encoder->embed, o->d_vocab, d, false, err, "%s",
                             own ? encoders : "shared.weight"));
    snprintf(embed, sizeof embed, "%s%s", src->prefix, has_own_table(src, o, decoders) ? decoders : "shared.weight");
    HSC_TRY(hsc__bind_unembed(src, desc, d, embed, "lm_head.weight", o->tie, err));
    HSC_TRY(bind_logits_bias(src, desc, err));
    hsc__source_ignore(src, ".embed_tokens.weight"); /* copies of shared.weight that old files carry, */
    hsc__source_ignore(src, "shared.weight");        /* or what is left of it when each side has its own */
    return HSC_OK;
}

static hsc_status from_folder(hsc__source *src, hsc__desc *desc, const options *o, hsc_error *err)
{
    static const char *const prefixes[] = {"model.", "", NULL};
    hsc__source_prefix(src, prefixes, "decoder.layers.0.fc1.weight");
    HSC_TRY(bind_stack(src, desc->encoder, o, "encoder", err));
    HSC_TRY(bind_stack(src, desc, o, "decoder", err));
    return bind_tables(src, desc, o, err);
}

hsc_status hsc__bart_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o = {.share = true, .norm_embedding = true};
    HSC_TRY(read_config(src, desc, 50265, &o, err));
    return from_folder(src, desc, &o, err);
}

hsc_status hsc__marian_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o = {.sinusoids = true};
    HSC_TRY(read_config(src, desc, 58101, &o, err));
    HSC_TRY(hsc__json_bool(src->config, "share_encoder_decoder_embeddings", true, &o.share, src->config_path, err));
    if (!o.share)
        HSC_TRY(hsc__config_int_or(src, "decoder_vocab_size", NULL, o.d_vocab, 1, 1 << 24, &desc->config.d_vocab, err));
    return from_folder(src, desc, &o, err);
}
