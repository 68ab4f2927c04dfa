/*
 * T5 (Raffel et al. 2020): an encoder and a decoder of pre-norm blocks with RMS norms and no biases. A position is
 * known by its distance alone: the first block's table of biases, shared by all blocks of its stack, is added to scores
 * that are not scaled. Version 1.1 (Flan-T5) gates its feed-forward and has an output matrix of its own; where that is
 * the embedding, ln_final is scaled by 1/sqrt(d_model) on its way to it. A folder of the encoder alone (T5EncoderModel,
 * which sentence-transformers takes) is a model of one stack.
 */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Distances have no end in T5. A session is sized by its context, which ends here unless the file says more. */
/* Known models ask for distances of 128 to 1024; the table of biases has every one, for each head. */
enum { CONTEXT = 8192, MAX_BUCKETS = 1 << 12, MAX_DISTANCE = 1 << 14 };

typedef struct {
    int n_buckets, max_distance;
    bool tie, scale;
} options;

enum { NAME_BYTES = 64 };

/* What one block's parts are called; of an attention, the name behind which `dot` and q, k, v or o stand. */
typedef struct {
    char attention[NAME_BYTES], ln1[NAME_BYTES], cross[NAME_BYTES], cross_ln[NAME_BYTES], w_in[NAME_BYTES],
        w_up[NAME_BYTES], w_out[NAME_BYTES], ln2[NAME_BYTES];
    char dot;
} names;

#define NAME(to, ...) snprintf(to, NAME_BYTES, __VA_ARGS__)

static void name_folder(names *n, const hsc_config *c, int i)
{
    const char *side = c->causal ? "decoder" : "encoder";
    int ff = c->causal ? 2 : 1;
    n->dot = '.';
    NAME(n->attention, "%s.block.%d.layer.0.SelfAttention", side, i);
    NAME(n->ln1, "%s.block.%d.layer.0.layer_norm", side, i);
    NAME(n->cross, "%s.block.%d.layer.1.EncDecAttention", side, i);
    NAME(n->cross_ln, "%s.block.%d.layer.1.layer_norm", side, i);
    NAME(n->w_in, "%s.block.%d.layer.%d.DenseReluDense.%s", side, i, ff, c->is_gated ? "wi_0" : "wi");
    NAME(n->w_up, "%s.block.%d.layer.%d.DenseReluDense.wi_1", side, i, ff);
    NAME(n->w_out, "%s.block.%d.layer.%d.DenseReluDense.wo", side, i, ff);
    NAME(n->ln2, "%s.block.%d.layer.%d.layer_norm", side, i, ff);
}

static void name_gguf(names *n, const hsc_config *c, int i)
{
    const char *side = c->causal ? "dec" : "enc";
    n->dot = '_';
    NAME(n->attention, "%s.blk.%d.attn", side, i);
    NAME(n->ln1, "%s.blk.%d.attn_norm", side, i);
    NAME(n->cross, "%s.blk.%d.cross_attn", side, i);
    NAME(n->cross_ln, "%s.blk.%d.cross_attn_norm", side, i);
    NAME(n->w_in, "%s.blk.%d.%s", side, i, c->is_gated ? "ffn_gate" : "ffn_up");
    NAME(n->w_up, "%s.blk.%d.ffn_up", side, i);
    NAME(n->w_out, "%s.blk.%d.ffn_down", side, i);
    NAME(n->ln2, "%s.blk.%d.ffn_norm", side, i);
}

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

static void fill_common(hsc__desc *desc)
{
    hsc_config *c = &desc->config;
    if (c->n_ctx < CONTEXT) c->n_ctx = CONTEXT;
    c->n_kv_heads = c->n_heads;
    c->causal = c->is_relative = 1;
    desc->norm_kind = HSC__NN_RMS_NORM;
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
    fill_common(desc);
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

static hsc_status bind_bias(hsc__source *src, hsc__desc *desc, const options *o, const char *at, hsc_error *err)
{
    hsc__weight table;
    int least = desc->config.causal ? 2 : 4; /* halved, and halved again for the exact ones */
    HSC_FAIL_IF(o->n_buckets < least || o->max_distance <= o->n_buckets / least, HSC_EFORMAT,
                "%s: %d buckets of relative positions for distances up to %d make no sense", src->path, o->n_buckets,
                o->max_distance);
    HSC_TRY(hsc__bind_matrix(src, &table, o->n_buckets, desc->config.n_heads, false, err, "%s.weight", at));
    return spread_bias(src, desc, o, &table, err);
}

/* q, k, v and o of one attention; they differ by their names alone. */
static hsc_status bind_attention(hsc__source *src, const hsc_config *c, hsc__weight *const w[4], const char *at,
                                 char dot, hsc_error *err)
{
    int inner = c->n_heads * c->d_head;
    for (int i = 0; i < 4; i++) {
        bool out = i == 3;
        HSC_TRY(hsc__bind_linear(src, w[i], out ? c->d_model : inner, out ? inner : c->d_model, HSC__NO_BIAS, err,
                                 "%s%c%c", at, dot, "qkvo"[i]));
    }
    return HSC_OK;
}

static hsc_status bind_layer(hsc__source *src, hsc__desc *desc, const names *n, hsc__layer *l, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__cross *x = &l->cross;
    int d = c->d_model, m = c->d_mlp;
    HSC_TRY(bind_attention(src, c, (hsc__weight *[]){&l->w_q, &l->w_k, &l->w_v, &l->w_o}, n->attention, n->dot, err));
    HSC_TRY(hsc__bind_norm(src, &l->ln1, d, HSC__NO_BIAS, err, "%s", n->ln1));
    if (c->causal) {
        HSC_TRY(bind_attention(src, c, (hsc__weight *[]){&x->w_q, &x->w_k, &x->w_v, &x->w_o}, n->cross, n->dot, err));
        HSC_TRY(hsc__bind_norm(src, &x->ln, d, HSC__NO_BIAS, err, "%s", n->cross_ln));
    }
    HSC_TRY(hsc__bind_linear(src, &l->w_in, m, d, HSC__NO_BIAS, err, "%s", n->w_in));
    if (c->is_gated) HSC_TRY(hsc__bind_linear(src, &l->w_up, m, d, HSC__NO_BIAS, err, "%s", n->w_up));
    HSC_TRY(hsc__bind_linear(src, &l->w_out, d, m, HSC__NO_BIAS, err, "%s", n->w_out));
    l->attn_scale = 1;
    return hsc__bind_norm(src, &l->ln2, d, HSC__NO_BIAS, err, "%s", n->ln2);
}

static hsc_status bind_stack(hsc__source *src, hsc__desc *desc, const options *o, hsc_error *err)
{
    names n = {0};
    char bias[NAME_BYTES + 32];
    HSC_TRY(hsc__desc_layers(src, desc, err));
    for (int i = desc->config.n_layers - 1; i >= 0; i--) {
        (src->gguf ? name_gguf : name_folder)(&n, &desc->config, i);
        HSC_TRY(bind_layer(src, desc, &n, &desc->layers[i], err));
    }
    snprintf(bias, sizeof bias, "%s%s", n.attention, src->gguf ? "_rel_b" : ".relative_attention_bias");
    const char *side = desc->config.causal ? "decoder" : "encoder";
    HSC_TRY(hsc__bind_norm(src, &desc->ln_final, desc->config.d_model, HSC__NO_BIAS, err, "%.*s.%s", src->gguf ? 3 : 7,
                           side, src->gguf ? "output_norm" : "final_layer_norm"));
    return bind_bias(src, desc, o, bias, err);
}

/* Both stacks, once desc has what they share; only then is the decoder's own size known to differ. */
static hsc_status bind_both(hsc__source *src, hsc__desc *desc, const options *o, int n_encoder, hsc_error *err)
{
    HSC_TRY(hsc__desc_encoder(src, desc, err));
    hsc__desc *encoder = desc->encoder;
    *encoder =
        (hsc__desc){.config = desc->config, .norm_kind = desc->norm_kind, .norm_eps = desc->norm_eps, .act = desc->act};
    encoder->config.n_layers = n_encoder;
    encoder->config.causal = 0;
    HSC_TRY(bind_stack(src, encoder, o, err));
    HSC_TRY(bind_stack(src, desc, o, err));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, src->gguf ? "token_embd.weight" : "shared.weight",
                              src->gguf ? "output.weight" : "lm_head.weight", o->tie, err));
    encoder->embed = desc->embed;
    return HSC_OK;
}

/* The encoder's stack alone, once desc has what both share. */
static hsc_status bind_encoder(hsc__source *src, hsc__desc *desc, const options *o, int n_encoder, const char *embed,
                               hsc_error *err)
{
    hsc_config *c = &desc->config;
    c->n_layers = n_encoder;
    c->causal = 0;
    HSC_TRY(bind_stack(src, desc, o, err));
    return hsc__bind_matrix(src, &desc->embed, c->d_vocab, c->d_model, false, err, "%s", embed);
}

/* T5EncoderModel leaves the decoder out, whether or not the files have one. Files that do not say what they hold are
 * taken by what is there. */
static bool is_encoder_alone(const hsc__source *src)
{
    const json_t *said = json_object_get(src->config, "architectures");
    const char *name = json_string_value(json_array_get(said, 0));
    if (name) return strcmp(name, "T5EncoderModel") == 0;
    return !hsc__source_has(src, "decoder.final_layer_norm.weight");
}

static hsc_status encoder_from_folder(hsc__source *src, hsc__desc *desc, const options *o, int n_encoder,
                                      hsc_error *err)
{
    bool shared = hsc__source_has(src, "shared.weight");
    HSC_TRY(bind_encoder(src, desc, o, n_encoder, shared ? "shared.weight" : "encoder.embed_tokens.weight", err));
    hsc__source_ignore(src, "encoder.embed_tokens.weight");
    hsc__source_ignore(src, "lm_head.weight");
    hsc__source_ignore_part(src, "decoder.");
    return HSC_OK;
}

hsc_status hsc__t5_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o;
    int n_encoder;
    HSC_TRY(read_config(src, desc, &o, &n_encoder, err));
    if (is_encoder_alone(src)) return encoder_from_folder(src, desc, &o, n_encoder, err);
    HSC_TRY(bind_both(src, desc, &o, n_encoder, err));
    if (o.scale) desc->head_scale = 1 / sqrtf((float)desc->config.d_model);
    hsc__source_ignore(src, "encoder.embed_tokens.weight"); /* copies of shared.weight that old files carry */
    hsc__source_ignore(src, "decoder.embed_tokens.weight");
    hsc__source_ignore(src, "EncDecAttention.relative_attention_bias.weight"); /* nobody reads it */
    return HSC_OK;
}

/* llama.cpp's files say neither the activation nor whether ln_final is scaled: a gate means the tanh approximation,
 * else it is ReLU, and what has no output matrix of its own is scaled, as in the models of both versions. */
static hsc_status read_metadata(hsc__source *src, hsc__desc *desc, options *o, int *n_encoder, hsc_error *err)
{
    hsc_config *c = &desc->config;
    double eps;
    *o = (options){.tie = true, .max_distance = 128};
    HSC_TRY(hsc__meta_int(src, "embedding_length", 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__meta_int(src, "block_count", 4096, n_encoder, err));
    HSC_TRY(hsc__meta_int_or(src, "decoder_block_count", *n_encoder, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__meta_int(src, "attention.head_count", 4096, &c->n_heads, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.key_length", 64, 1, HSC__MAX_D_HEAD, &c->d_head, err));
    HSC_TRY(hsc__meta_int(src, "feed_forward_length", 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__meta_int_or(src, "context_length", 512, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.relative_buckets_count", 32, 2, MAX_BUCKETS, &o->n_buckets, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_rms_epsilon", 1e-6, &eps, err));
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    desc->norm_eps = (float)eps;
    c->is_gated = hsc__source_has(src, "enc.blk.0.ffn_gate.weight");
    desc->act = c->is_gated ? HSC__ACT_GELU_TANH : HSC__ACT_RELU;
    fill_common(desc);
    return HSC_OK;
}

hsc_status hsc__t5_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o;
    int n_encoder;
    HSC_TRY(read_metadata(src, desc, &o, &n_encoder, err));
    HSC_TRY(bind_both(src, desc, &o, n_encoder, err));
    if (!hsc__source_has(src, "output.weight")) desc->head_scale = 1 / sqrtf((float)desc->config.d_model);
    hsc__source_ignore(src, "cross_attn_rel_b.weight"); /* nobody reads it */
    return HSC_OK;
}

hsc_status hsc__t5encoder_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    options o;
    int n_encoder;
    HSC_TRY(read_metadata(src, desc, &o, &n_encoder, err));
    HSC_TRY(bind_encoder(src, desc, &o, n_encoder, "token_embd.weight", err));
    hsc__source_ignore(src, "output.weight");
    return HSC_OK;
}
