/*
 * BERT (Devlin et al. 2018) and its kin: every token sees every other, norms stand after the sums, segments have
 * embeddings. MiniLM and most sentence-transformers folders are BERT; RoBERTa (Liu et al. 2019) stores positions from
 * the row after the padding id's on and names its head otherwise; DistilBERT (Sanh et al. 2019) has no segments and
 * names of its own. A checkpoint with a masked-word head makes logits, one without makes hidden states only.
 */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *prefixes[3];
    const char *layers, *q, *k, *v, *o, *ln1, *w_in, *w_out, *ln2; /* after prefix, `layers` and the layer's number */
    const char *head, *ln_head, *decoder, *bias;                   /* full names */
} names;

static const names bert = {
    .prefixes = {"bert.", "", NULL},
    .layers = "encoder.layer.",
    .q = "attention.self.query",
    .k = "attention.self.key",
    .v = "attention.self.value",
    .o = "attention.output.dense",
    .ln1 = "attention.output.LayerNorm",
    .w_in = "intermediate.dense",
    .w_out = "output.dense",
    .ln2 = "output.LayerNorm",
    .head = "cls.predictions.transform.dense",
    .ln_head = "cls.predictions.transform.LayerNorm",
    .decoder = "cls.predictions.decoder",
    .bias = "cls.predictions.bias",
};

static const names distilbert = {
    .prefixes = {"distilbert.", "", NULL},
    .layers = "transformer.layer.",
    .q = "attention.q_lin",
    .k = "attention.k_lin",
    .v = "attention.v_lin",
    .o = "attention.out_lin",
    .ln1 = "sa_layer_norm",
    .w_in = "ffn.lin1",
    .w_out = "ffn.lin2",
    .ln2 = "output_layer_norm",
    .head = "vocab_transform",
    .ln_head = "vocab_layer_norm",
    .decoder = "vocab_projector",
    .bias = "vocab_projector.bias",
};

static const names gguf = {
    .prefixes = {"", NULL, NULL},
    .layers = "blk.",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .o = "attn_output",
    .ln1 = "attn_output_norm",
    .w_in = "ffn_up",
    .w_out = "ffn_down",
    .ln2 = "layer_output_norm",
};

static hsc_status fill_common(hsc__desc *desc, const char *path, hsc_error *err)
{
    HSC_TRY(hsc__desc_heads(desc, path, err));
    desc->config.has_pos_embed = 1;
    desc->post_norm = true;
    desc->norm_kind = HSC__NN_LAYER_NORM;
    return HSC_OK;
}

static hsc_status bind_layers(hsc__source *src, hsc__desc *desc, const names *n, hsc_error *err)
{
    int d = desc->config.d_model, m = desc->config.d_mlp;
    for (int i = 0; i < desc->config.n_layers; i++) {
        hsc__layer *l = &desc->layers[i];
        HSC_TRY(hsc__bind_linear(src, &l->w_q, d, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->q));
        HSC_TRY(hsc__bind_linear(src, &l->w_k, d, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->k));
        HSC_TRY(hsc__bind_linear(src, &l->w_v, d, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->v));
        HSC_TRY(hsc__bind_linear(src, &l->w_o, d, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->o));
        HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->ln1));
        HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->w_in));
        HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->w_out));
        HSC_TRY(hsc__bind_norm(src, &l->ln2, d, HSC__BIAS, err, "%s%d.%s", n->layers, i, n->ln2));
        l->attn_scale = 1 / sqrtf((float)desc->config.d_head);
    }
    return HSC_OK;
}

/* The masked-word head, whose names have no prefix; without one there is an embedding and no output matrix. Old files
 * have the output's bias beside the decoder, new ones in it, some both. */
static hsc_status bind_head(hsc__source *src, hsc__desc *desc, const names *n, const char *embed, bool tie,
                            hsc_error *err)
{
    int d = desc->config.d_model, v = desc->config.d_vocab;
    char head[64], decoder[64], bias[64];
    snprintf(head, sizeof head, "%s.weight", n->head);
    snprintf(decoder, sizeof decoder, "%s.weight", n->decoder);
    snprintf(bias, sizeof bias, "%s.bias", n->decoder);
    src->prefix = "";
    if (!hsc__source_has(src, head)) return hsc__bind_matrix(src, &desc->embed, v, d, false, err, "%s", embed);
    HSC_TRY(hsc__bind_linear(src, &desc->w_head, d, d, HSC__BIAS, err, "%s", n->head));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_head, d, HSC__BIAS, err, "%s", n->ln_head));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, embed, decoder, tie, err));
    HSC_TRY(hsc__bind_vector_optional(src, &desc->unembed.bias, v, err, "%s", bias));
    if (!desc->unembed.bias) return hsc__bind_vector(src, &desc->unembed.bias, v, err, "%s", n->bias);
    hsc__source_ignore(src, n->bias);
    return HSC_OK;
}

static hsc_status bind_positions(hsc__source *src, hsc__desc *desc, int offset, hsc_error *err)
{
    hsc_config *c = &desc->config;
    hsc__weight rows;
    HSC_FAIL_IF(offset < 0 || offset >= c->n_ctx, HSC_EFORMAT,
                "%s: field \"pad_token_id\": positions would start at row %d of %d", src->config_path, offset,
                c->n_ctx);
    HSC_TRY(hsc__bind_matrix(src, &rows, c->n_ctx, c->d_model, false, err, "embeddings.position_embeddings.weight"));
    c->n_ctx -= offset;
    desc->pos_embed = hsc__weight_part(&rows, offset, c->n_ctx);
    return HSC_OK;
}

/* Everything that a folder has, once the sizes are known; positions start at row `offset`. */
static hsc_status bind_folder(hsc__source *src, hsc__desc *desc, const names *n, int offset, bool tie, hsc_error *err)
{
    hsc_config *c = &desc->config;
    char probe[96], embed[96];
    HSC_TRY(fill_common(desc, src->config_path, err));
    HSC_TRY(hsc__desc_layers(src, desc, err));
    snprintf(probe, sizeof probe, "%s0.%s.weight", n->layers, n->q);
    hsc__source_prefix(src, n->prefixes, probe);
    const char *prefix = src->prefix;
    snprintf(embed, sizeof embed, "%sembeddings.word_embeddings.weight", prefix);
    HSC_TRY(bind_head(src, desc, n, embed, tie, err));
    src->prefix = prefix;
    HSC_TRY(bind_positions(src, desc, offset, err));
    if (c->n_segments > 0)
        HSC_TRY(hsc__bind_matrix(src, &desc->segment_embed, c->n_segments, c->d_model, false, err,
                                 "embeddings.token_type_embeddings.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, c->d_model, HSC__BIAS, err, "embeddings.LayerNorm"));
    HSC_TRY(bind_layers(src, desc, n, err));
    if (hsc__source_has(src, "pooler.dense.weight"))
        HSC_TRY(hsc__bind_linear(src, &desc->pooler, c->d_model, c->d_model, HSC__BIAS, err, "pooler.dense"));
    hsc__source_ignore(src, "embeddings.position_ids");     /* a buffer of older checkpoints */
    hsc__source_ignore(src, "cls.seq_relationship.weight"); /* whether one sentence follows another */
    hsc__source_ignore(src, "cls.seq_relationship.bias");
    return HSC_OK;
}

/* Fields that would make another model of it. */
static hsc_status refuse(const hsc__source *src, hsc_error *err)
{
    static const char *const decoder[] = {"is_decoder", "add_cross_attention"};
    const char *positions;
    for (int i = 0; i < 2; i++) {
        bool on;
        HSC_TRY(hsc__json_bool(src->config, decoder[i], false, &on, src->config_path, err));
        HSC_FAIL_IF(on, HSC_EUNSUPPORTED, "%s: field \"%s\": true is not supported", src->config_path, decoder[i]);
    }
    HSC_TRY(hsc__json_string(src->config, "position_embedding_type", "absolute", &positions, src->config_path, err));
    HSC_FAIL_IF(strcmp(positions, "absolute") != 0, HSC_EUNSUPPORTED,
                "%s: field \"position_embedding_type\": \"%s\" is not supported", src->config_path, positions);
    return HSC_OK;
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, int d_vocab, bool *tie, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__config_int_or(src, "hidden_size", NULL, 768, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int_or(src, "num_hidden_layers", NULL, 12, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int_or(src, "num_attention_heads", NULL, 12, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "intermediate_size", NULL, 3072, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 512, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, d_vocab, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_int_or(src, "type_vocab_size", NULL, 2, 1, 1 << 20, &c->n_segments, err));
    HSC_TRY(hsc__config_act(src, "hidden_act", "gelu", &desc->act, err));
    HSC_TRY(hsc__config_eps(src, "layer_norm_eps", 1e-12f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, tie, src->config_path, err));
    desc->head_act = desc->act;
    return refuse(src, err);
}

hsc_status hsc__bert_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    bool tie;
    HSC_TRY(read_config(src, desc, 30522, &tie, err));
    return bind_folder(src, desc, &bert, 0, tie, err);
}

hsc_status hsc__roberta_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    names n = bert;
    bool tie;
    int padding;
    n.prefixes[0] = "roberta.";
    n.head = "lm_head.dense";
    n.ln_head = "lm_head.layer_norm";
    n.decoder = "lm_head.decoder";
    n.bias = "lm_head.bias";
    HSC_TRY(read_config(src, desc, 50265, &tie, err));
    HSC_TRY(hsc__config_int_or(src, "pad_token_id", NULL, 1, 0, 1 << 24, &padding, err));
    desc->head_act = HSC__ACT_GELU;
    return bind_folder(src, desc, &n, padding + 1, tie, err);
}

hsc_status hsc__distilbert_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    bool tie;
    HSC_TRY(hsc__config_int_or(src, "dim", "hidden_size", 768, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int_or(src, "n_layers", "num_hidden_layers", 6, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int_or(src, "n_heads", "num_attention_heads", 12, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "hidden_dim", NULL, 4 * 768, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 512, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 30522, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_act(src, "activation", "gelu", &desc->act, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, &tie, src->config_path, err));
    desc->head_act = desc->act;
    desc->norm_eps = 1e-12f;
    return bind_folder(src, desc, &distilbert, 0, tie, err);
}

hsc_status hsc__bert_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    double eps;
    bool causal;
    HSC_TRY(hsc__meta_sizes(src, c, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_epsilon", 1e-12, &eps, err));
    HSC_TRY(hsc__meta_bool(src, "attention.causal", false, &causal, err));
    HSC_FAIL_IF(causal, HSC_EUNSUPPORTED, "%s: key bert.attention.causal: true is not supported", src->path);
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    HSC_TRY(fill_common(desc, src->path, err));
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_GELU;
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_matrix(src, &desc->embed, c->d_vocab, c->d_model, false, err, "token_embd.weight"));
    HSC_TRY(hsc__bind_matrix(src, &desc->pos_embed, c->n_ctx, c->d_model, false, err, "position_embd.weight"));
    HSC_TRY(hsc__source_rows(src, "token_types.weight", &c->n_segments, err));
    if (c->n_segments > 0)
        HSC_TRY(
            hsc__bind_matrix(src, &desc->segment_embed, c->n_segments, c->d_model, false, err, "token_types.weight"));
    HSC_TRY(hsc__bind_norm(src, &desc->ln_embed, c->d_model, HSC__BIAS, err, "token_embd_norm"));
    return bind_layers(src, desc, &gguf, err);
}
