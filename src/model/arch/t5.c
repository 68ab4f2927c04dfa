/*
 * T5 (Raffel et al. 2020): an encoder and a decoder of pre-norm blocks with RMS norms and no biases. A position is
 * known by its distance alone: the first block's table of biases, shared by all blocks of its stack, is added to scores
 * that are not scaled. Version 1.1 (Flan-T5) gates its feed-forward and has an output matrix of its own; where that is
 * the embedding, ln_final is scaled by 1/sqrt(d_model) on its way to it.
 */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Distances have no end in T5. A session is sized by its context, which ends here unless the file says more. */
enum { CONTEXT = 8192, MAX_BUCKETS = 1 << 12, MAX_DISTANCE = 1 << 20 };

typedef struct {
    int n_buckets, max_distance;
    bool tie, scale;
} options;

/* What tells the two stacks' tensors apart. `cross`, `ff`: the sub-layers of a block. */
typedef struct {
    const char *stack, *cross, *ff;
} names;

static const names encoder_names = {"encoder", NULL, "1"}, decoder_names = {"decoder", "1", "2"};

/* "relu", or "gated-gelu", which means the tanh approximation ("gated-silu" is what it says). */
static hsc_status read_activation(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char gated[] = "gated-";
    const char *name;
    HSC_TRY(hsc__json_string(src->config, "feed_forward_proj", "relu", &name, src->config_path, err));
    bool is_gated = strncmp(name, gated, sizeof gated - 1) == 0;
    desc->config.is_gated = is_gated;
    if (strcmp(name, "gated-gelu") == 0) name = "gelu_new";
    else if (is_gated) name += sizeof gated - 1;
    return hsc__act_find(src, "feed_forward_proj", name, &desc->act, err);
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, options *o, int *n_encoder, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__config_int_or(src, "d_model", "hidden_size", 512, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int_or(src, "d_kv", "head_dim", 64, 1, HSC__MAX_D_HEAD, &c->d_head, err));
    HSC_TRY(hsc__config_int_or(src, "d_ff", NULL, 2048, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "num_heads", "num_attention_heads", 8, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int_or(src, "num_layers", "num_hidden_layers", 6, 1, 4096, n_encoder, err));
    HSC_TRY(hsc__config_int_or(src, "num_decoder_layers", NULL, *n_encoder, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 32128, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_int_or(src, "n_positions", NULL, 512, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "relative_attention_num_buckets", NULL, 32, 2, MAX_BUCKETS, &o->n_buckets, err));
    HSC_TRY(
        hsc__config_int_or(src, "relative_attention_max_distance", NULL, 128, 1, MAX_DISTANCE, &o->max_distance, err));
    HSC_TRY(hsc__config_eps(src, "layer_norm_epsilon", 1e-6f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", true, &o->tie, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "scale_decoder_outputs", o->tie, &o->scale, src->config_path, err));
    if (c->n_ctx < CONTEXT) c->n_ctx = CONTEXT;
    c->n_kv_heads = c->n_heads;
    c->causal = c->is_relative = 1;
    desc->norm_kind = HSC__NN_RMS_NORM;
    return read_activation(src, desc, err);
}

/* The bucket of a distance d >= 0 among n: the nearest have one each, farther ones share them by their logarithm. Every
 * step is float32, as transformers has it. */
static int bucket_of(int d, int n, int max_distance)
{
    int exact = n / 2;
    if (d < exact) return d;
    float share = logf((float)d / (float)exact) / (float)log((double)max_distance / exact) * (float)(n - exact);
    int bucket = exact + (int)share;
    return bucket < n ? bucket : n - 1;
}

/* The bias of every head and distance up to where the last bucket begins. A decoder's buckets are for earlier keys, all
 * later ones have the first; an encoder's second half is for later keys. `table` is [n_buckets][n_heads]. */
static hsc_status spread_bias(hsc__source *src, hsc__desc *desc, const options *o, const hsc__weight *table,
                              hsc_error *err)
{
    int n_heads = desc->config.n_heads, span = o->max_distance, width = 2 * span + 1;
    int n = desc->config.causal ? o->n_buckets : o->n_buckets / 2;
    size_t n_bytes = (size_t)n_heads * (size_t)width * sizeof(float);
    float *bias = hsc__source_alloc(src, n_bytes), *row = hsc__source_alloc(src, (size_t)n_heads * sizeof *row);
    if (!bias || !row) return hsc__fail_memory(err, n_bytes, "the position biases");
    for (int d = -span; d <= span; d++) {
        int bucket = bucket_of(d < 0 ? -d : d, n, span);
        if (d > 0) bucket = desc->config.causal ? 0 : n + bucket;
        hsc__weight_row(hsc__kernels_ref(), table, bucket, row);
        for (int h = 0; h < n_heads; h++) bias[(size_t)h * (size_t)width + (size_t)(d + span)] = row[h];
    }
    for (int i = 0; i < desc->config.n_layers; i++) {
        desc->layers[i].bias = bias;
        desc->layers[i].bias_span = span;
    }
    return HSC_OK;
}

static hsc_status bind_bias(hsc__source *src, hsc__desc *desc, const options *o, const names *n, hsc_error *err)
{
    hsc__weight table;
    int least = desc->config.causal ? 2 : 4; /* halved, and halved again for the exact ones */
    HSC_FAIL_IF(o->n_buckets < least || o->max_distance <= o->n_buckets / least, HSC_EFORMAT,
                "%s: field \"relative_attention_num_buckets\": %d buckets for distances up to %d make no sense",
                src->config_path, o->n_buckets, o->max_distance);
    HSC_TRY(hsc__bind_matrix(src, &table, o->n_buckets, desc->config.n_heads, false, err,
                             "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight", n->stack));
    return spread_bias(src, desc, o, &table, err);
}

/* q, k, v and o of one attention; they differ by their names alone. */
static hsc_status bind_attention(hsc__source *src, const hsc_config *c, hsc__weight *const w[4], const char *at,
                                 hsc_error *err)
{
    int inner = c->n_heads * c->d_head;
    for (int i = 0; i < 4; i++) {
        bool out = i == 3;
        HSC_TRY(hsc__bind_linear(src, w[i], out ? c->d_model : inner, out ? inner : c->d_model, HSC__NO_BIAS, err,
                                 "%s.%c", at, "qkvo"[i]));
    }
    return HSC_OK;
}

static hsc_status bind_layer(hsc__source *src, hsc__desc *desc, const names *n, int i, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    hsc__cross *x = &l->cross;
    char at[64], block[32];
    int d = c->d_model, m = c->d_mlp;
    snprintf(block, sizeof block, "%s.block.%d.layer", n->stack, i);
    snprintf(at, sizeof at, "%s.0.SelfAttention", block);
    HSC_TRY(bind_attention(src, c, (hsc__weight *[]){&l->w_q, &l->w_k, &l->w_v, &l->w_o}, at, err));
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__NO_BIAS, err, "%s.0.layer_norm", block));
    if (n->cross) {
        snprintf(at, sizeof at, "%s.%s.EncDecAttention", block, n->cross);
        HSC_TRY(bind_attention(src, c, (hsc__weight *[]){&x->w_q, &x->w_k, &x->w_v, &x->w_o}, at, err));
        HSC_TRY(hsc__bind_norm(src, &x->ln, d, HSC__NO_BIAS, err, "%s.%s.layer_norm", block, n->cross));
    }
    snprintf(at, sizeof at, "%s.%s.DenseReluDense", block, n->ff);
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__NO_BIAS, err, "%s.%s", at, c->is_gated ? "wi_0" : "wi"));
    if (c->is_gated) HSC_TRY(hsc__bind_linear(src, &l->w_up, m, d, HSC__NO_BIAS, err, "%s.wi_1", at));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__NO_BIAS, err, "%s.wo", at));
    l->attn_scale = 1;
    return hsc__bind_norm(src, &l->ln2, d, HSC__NO_BIAS, err, "%s.%s.layer_norm", block, n->ff);
}

static hsc_status bind_stack(hsc__source *src, hsc__desc *desc, const options *o, const names *n, hsc_error *err)
{
    HSC_TRY(hsc__desc_layers(src, desc, err));
    for (int i = 0; i < desc->config.n_layers; i++) HSC_TRY(bind_layer(src, desc, n, i, err));
    HSC_TRY(
        hsc__bind_norm(src, &desc->ln_final, desc->config.d_model, HSC__NO_BIAS, err, "%s.final_layer_norm", n->stack));
    return bind_bias(src, desc, o, n, err);
}

hsc_status hsc__t5_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o;
    int n_encoder;
    HSC_TRY(read_config(src, desc, &o, &n_encoder, err));
    HSC_TRY(hsc__desc_encoder(src, desc, err));
    hsc__desc *encoder = desc->encoder;
    *encoder =
        (hsc__desc){.config = desc->config, .norm_kind = desc->norm_kind, .norm_eps = desc->norm_eps, .act = desc->act};
    encoder->config.n_layers = n_encoder;
    encoder->config.causal = 0;
    HSC_TRY(bind_stack(src, encoder, &o, &encoder_names, err));
    HSC_TRY(bind_stack(src, desc, &o, &decoder_names, err));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, "shared.weight", "lm_head.weight", o.tie, err));
    encoder->embed = desc->embed;
    if (o.scale) desc->head_scale = 1 / sqrtf((float)desc->config.d_model);
    hsc__source_ignore(src, "encoder.embed_tokens.weight"); /* copies of shared.weight that old files carry */
    hsc__source_ignore(src, "decoder.embed_tokens.weight");
    hsc__source_ignore(src, "EncDecAttention.relative_attention_bias.weight"); /* nobody reads it */
    return HSC_OK;
}
