/* Decoders of Llama's shape: the folder's side first, then GGUF's. */
#include "model/arch/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* `field` is what the container calls the number of kv heads. */
static hsc_status check_shape(const hsc_config *c, const char *path, const char *field, hsc_error *err)
{
    HSC_FAIL_IF(c->n_heads % c->n_kv_heads != 0, HSC_EFORMAT,
                "%s: field \"%s\": %d heads cannot be shared out over %d kv heads", path, field, c->n_heads,
                c->n_kv_heads);
    return HSC_OK;
}

void hsc__decoder_fill(hsc__desc *desc)
{
    desc->config.causal = 1;
    desc->config.is_rotary = 1;
    desc->config.is_gated = 1;
    desc->norm_kind = HSC__NN_RMS_NORM;
}

hsc_status hsc__decoder_sizes(hsc__source *src, hsc__desc *desc, hsc__decoder *d, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__config_int(src, "hidden_size", NULL, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int(src, "num_hidden_layers", NULL, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "num_attention_heads", NULL, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int(src, "intermediate_size", NULL, 1, 1 << 24, &c->d_mlp, err));
    bool all = !d->n_kv_heads || hsc__config_is_null(src, "num_key_value_heads");
    HSC_TRY(hsc__config_int_or(src, "num_key_value_heads", NULL, all ? c->n_heads : d->n_kv_heads, 1, c->n_heads,
                               &c->n_kv_heads, err));
    HSC_TRY(hsc__config_int_or(src, "head_dim", NULL, d->d_head ? d->d_head : c->d_model / c->n_heads, 1,
                               HSC__MAX_D_HEAD, &c->d_head, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, d->n_ctx, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, d->d_vocab, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_act(src, d->act_field ? d->act_field : "hidden_act", d->act, &desc->act, err));
    HSC_TRY(hsc__config_eps(src, "rms_norm_eps", (float)d->eps, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", d->tie, &d->tie, src->config_path, err));
    hsc__decoder_fill(desc);
    HSC_FAIL_IF(c->n_kv_heads > c->n_heads, HSC_EFORMAT, "%s: field \"num_key_value_heads\" is %d, more than %d heads",
                src->config_path, c->n_kv_heads, c->n_heads);
    return check_shape(c, src->config_path, "num_key_value_heads", err);
}

hsc_status hsc__decoder_attention_bias(hsc__source *src, hsc__decoder *d, hsc_error *err)
{
    bool bias;
    HSC_TRY(hsc__json_bool(src->config, "attention_bias", false, &bias, src->config_path, err));
    d->qkv_bias = d->o_bias = bias ? HSC__BIAS : HSC__NO_BIAS;
    return HSC_OK;
}

/* The names that one container gives to the parts of layer %d. */
typedef struct {
    const char *ln1, *ln1_post, *ln2, *ln2_post, *q_norm, *k_norm, *q, *k, *v, *qkv, *o, *gate, *up, *gate_up, *down;
} names;

static const names folder_names = {
    .ln1 = "layers.%d.input_layernorm",
    .ln1_post = "layers.%d.post_attention_layernorm",
    .ln2 = "layers.%d.pre_feedforward_layernorm",
    .ln2_post = "layers.%d.post_feedforward_layernorm",
    .q_norm = "layers.%d.self_attn.q_norm",
    .k_norm = "layers.%d.self_attn.k_norm",
    .q = "layers.%d.self_attn.q_proj",
    .k = "layers.%d.self_attn.k_proj",
    .v = "layers.%d.self_attn.v_proj",
    .qkv = "layers.%d.self_attn.qkv_proj",
    .o = "layers.%d.self_attn.o_proj",
    .gate = "layers.%d.mlp.gate_proj",
    .up = "layers.%d.mlp.up_proj",
    .gate_up = "layers.%d.mlp.gate_up_proj",
    .down = "layers.%d.mlp.down_proj",
};

static const names gguf_names = {
    .ln1 = "blk.%d.attn_norm",
    .ln1_post = "blk.%d.post_attention_norm",
    .ln2 = "blk.%d.ffn_norm",
    .ln2_post = "blk.%d.post_ffw_norm",
    .q_norm = "blk.%d.attn_q_norm",
    .k_norm = "blk.%d.attn_k_norm",
    .q = "blk.%d.attn_q",
    .k = "blk.%d.attn_k",
    .v = "blk.%d.attn_v",
    .qkv = "blk.%d.attn_qkv",
    .o = "blk.%d.attn_output",
    .gate = "blk.%d.ffn_gate",
    .up = "blk.%d.ffn_up",
    .gate_up = "blk.%d.ffn_up",
    .down = "blk.%d.ffn_down",
};

enum { NAME_BYTES = 128 };

/* The pattern with the layer in place of its %d. */
static void layer_name(char out[NAME_BYTES], const char *pattern, int layer)
{
    const char *slot = strstr(pattern, "%d");
    if (slot) snprintf(out, NAME_BYTES, "%.*s%d%s", (int)(slot - pattern), pattern, layer, slot + 2);
    else snprintf(out, NAME_BYTES, "%s", pattern);
}

/* One layer on its way. */
typedef struct {
    hsc__source *src;
    const hsc__decoder *d;
    int index;
} binder;

static hsc_status linear(const binder *b, hsc__weight *out, int64_t n_out, int64_t n_in, hsc__bias bias,
                         const char *name, hsc_error *err)
{
    char full[NAME_BYTES];
    layer_name(full, name, b->index);
    return hsc__bind_linear(b->src, out, n_out, n_in, bias, err, "%s", full);
}

static hsc_status norm(const binder *b, hsc__norm *out, int n, const char *name, hsc_error *err)
{
    char full[NAME_BYTES];
    layer_name(full, name, b->index);
    HSC_TRY(hsc__bind_norm(b->src, out, n, HSC__NO_BIAS, err, "%s", full));
    for (int i = 0; b->d->less_one && i < n; i++) hsc__bound_values(out->gain)[i] += 1;
    return HSC_OK;
}

/* In a folder of Llama's names post_attention_layernorm is the feed-forward's norm, unless branches have norms too. */
static hsc_status bind_norms(const binder *b, const names *n, const hsc_config *c, hsc__layer *l, hsc_error *err)
{
    bool own = b->d->branch_norms || n == &gguf_names;
    HSC_TRY(norm(b, &l->ln1, c->d_model, n->ln1, err));
    HSC_TRY(norm(b, &l->ln2, c->d_model, own ? n->ln2 : n->ln1_post, err));
    if (b->d->branch_norms) HSC_TRY(norm(b, &l->ln1_post, c->d_model, n->ln1_post, err));
    if (b->d->branch_norms) HSC_TRY(norm(b, &l->ln2_post, c->d_model, n->ln2_post, err));
    if (b->d->qk_norm) HSC_TRY(norm(b, &l->q_norm, c->d_head, n->q_norm, err));
    return b->d->qk_norm ? norm(b, &l->k_norm, c->d_head, n->k_norm, err) : HSC_OK;
}

static hsc_status bind_fused(const binder *b, const names *n, const hsc_config *c, hsc__layer *l, hsc_error *err)
{
    int q = c->n_heads * c->d_head, kv = c->n_kv_heads * c->d_head, m = c->d_mlp;
    hsc__weight qkv, gate_up;
    HSC_TRY(linear(b, &qkv, (int64_t)q + 2 * kv, c->d_model, b->d->qkv_bias, n->qkv, err));
    HSC_TRY(linear(b, &gate_up, 2 * (int64_t)m, c->d_model, b->d->mlp_bias, n->gate_up, err));
    l->w_q = hsc__weight_part(&qkv, 0, q);
    l->w_k = hsc__weight_part(&qkv, q, kv);
    l->w_v = hsc__weight_part(&qkv, q + kv, kv);
    l->w_in = hsc__weight_part(&gate_up, 0, m);
    l->w_up = hsc__weight_part(&gate_up, m, m);
    return HSC_OK;
}

static hsc_status bind_apart(const binder *b, const names *n, const hsc_config *c, hsc__layer *l, hsc_error *err)
{
    int q = c->n_heads * c->d_head, kv = c->n_kv_heads * c->d_head, d = c->d_model;
    HSC_TRY(linear(b, &l->w_q, q, d, b->d->qkv_bias, n->q, err));
    HSC_TRY(linear(b, &l->w_k, kv, d, b->d->qkv_bias, n->k, err));
    HSC_TRY(linear(b, &l->w_v, kv, d, b->d->qkv_bias, n->v, err));
    HSC_TRY(linear(b, &l->w_in, c->d_mlp, d, b->d->mlp_bias, n->gate, err));
    return linear(b, &l->w_up, c->d_mlp, d, b->d->mlp_bias, n->up, err);
}

static hsc_status bind_layers(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, const names *n, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    for (int i = 0; i < c->n_layers; i++) {
        hsc__layer *l = &desc->layers[i];
        binder b = {src, d, i};
        HSC_TRY(bind_norms(&b, n, c, l, err));
        HSC_TRY((d->fused ? bind_fused : bind_apart)(&b, n, c, l, err));
        HSC_TRY(linear(&b, &l->w_o, c->d_model, (int64_t)c->n_heads * c->d_head, d->o_bias, n->o, err));
        HSC_TRY(linear(&b, &l->w_out, c->d_model, c->d_mlp, d->mlp_bias, n->down, err));
        l->attn_scale = 1 / sqrtf((float)c->d_head);
    }
    return HSC_OK;
}

void hsc__decoder_share_rope(hsc__desc *desc, const hsc__rope *rope)
{
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].rope = *rope;
}

hsc_status hsc__decoder_bind(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err)
{
    /* The longer ones stand before the text part of a model that sees pictures, new files and old. */
    static const char *const prefixes[] = {"model.", "model.language_model.", "language_model.model.", "", NULL};
    hsc_config *c = &desc->config;
    hsc__rope rope;
    char embed[64];
    binder whole = {src, d, 0};
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "layers.0.input_layernorm.weight");
    bool inner = strcmp(src->prefix, "language_model.model.") == 0;
    const char *head = inner ? "language_model.lm_head.weight" : "lm_head.weight";
    snprintf(embed, sizeof embed, "%sembed_tokens.weight", src->prefix);
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, embed, head, d->tie, err));
    HSC_TRY(norm(&whole, &desc->ln_final, c->d_model, "norm", err));
    HSC_TRY(bind_layers(src, desc, d, &folder_names, err));
    hsc__source_ignore(src, ".rotary_emb.inv_freq"); /* a buffer of older checkpoints */
    if (d->own_rope) return HSC_OK;
    HSC_TRY(hsc__rope_from_config(src, c, &d->rope, &rope, err));
    hsc__decoder_share_rope(desc, &rope);
    return HSC_OK;
}

/* 1 for a layer that slides, 0 for one that sees everything. */
static hsc_status read_kind(const hsc__source *src, const json_t *list, int layer, bool *out, hsc_error *err)
{
    const char *kind = json_string_value(json_array_get(list, (size_t)layer));
    *out = kind && strcmp(kind, "sliding_attention") == 0;
    HSC_FAIL_IF(!kind, HSC_EFORMAT, "%s: field \"layer_types\" must hold a word for each layer", src->config_path);
    HSC_FAIL_IF(!*out && strcmp(kind, "full_attention") != 0, HSC_EUNSUPPORTED,
                "%s: field \"layer_types\": attention \"%s\" is not supported", src->config_path, kind);
    return HSC_OK;
}

hsc_status hsc__decoder_windows(hsc__source *src, hsc__desc *desc, int window, int first, int every, hsc_error *err)
{
    const json_t *list = json_object_get(src->config, "layer_types");
    int n = desc->config.n_layers;
    if (!list || json_is_null(list)) {
        for (int i = first; i < n; i++) desc->layers[i].window = every == 0 || (i + 1) % every ? window : 0;
        return HSC_OK;
    }
    HSC_FAIL_IF(!json_is_array(list) || json_array_size(list) != (size_t)n, HSC_EFORMAT,
                "%s: field \"layer_types\" must be a list of %d words", src->config_path, n);
    for (int i = 0; i < n; i++) {
        bool slides;
        HSC_TRY(read_kind(src, list, i, &slides, err));
        HSC_FAIL_IF(slides && window == 0, HSC_EUNSUPPORTED,
                    "%s: field \"layer_types\": layer %d slides, but there is no sliding_window", src->config_path, i);
        desc->layers[i].window = slides ? window : 0;
    }
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------ GGUF ---- */

hsc_status hsc__decoder_gguf_sizes(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    int d_value, experts;
    double eps;
    HSC_TRY(hsc__meta_sizes(src, c, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.head_count_kv", c->n_heads, 1, c->n_heads, &c->n_kv_heads, err));
    HSC_TRY(
        hsc__meta_int_or(src, "attention.key_length", c->d_model / c->n_heads, 1, HSC__MAX_D_HEAD, &c->d_head, err));
    HSC_TRY(hsc__meta_int_or(src, "attention.value_length", c->d_head, 1, 1 << 16, &d_value, err));
    HSC_TRY(hsc__meta_double(src, "attention.layer_norm_rms_epsilon", 1e-5, &eps, err));
    HSC_TRY(hsc__meta_int_or(src, "expert_count", 0, 0, INT32_MAX, &experts, err));
    HSC_FAIL_IF(d_value != c->d_head, HSC_EUNSUPPORTED,
                "%s: key %s.attention.value_length: %d differs from the key width %d, which is not supported",
                src->path, src->arch, d_value, c->d_head);
    HSC_FAIL_IF(experts > 0, HSC_EUNSUPPORTED, "%s: key %s.expert_count: mixtures of experts are not supported",
                src->path, src->arch);
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_SILU;
    hsc__decoder_fill(desc);
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    return check_shape(c, src->path, "attention.head_count_kv", err);
}

hsc_status hsc__decoder_gguf_tensors(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err)
{
    hsc__decoder plain = *d;
    plain.less_one = false; /* the converter has added the 1 */
    binder whole = {src, &plain, 0};
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_unembed(src, desc, desc->config.d_model, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(norm(&whole, &desc->ln_final, desc->config.d_model, "output_norm", err));
    return bind_layers(src, desc, &plain, &gguf_names, err);
}

hsc_status hsc__decoder_gguf_bind(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, hsc_error *err)
{
    hsc__rope rope;
    HSC_TRY(hsc__decoder_gguf_tensors(src, desc, d, err));
    HSC_TRY(hsc__rope_from_gguf(src, &desc->config, &rope, err));
    hsc__decoder_share_rope(desc, &rope);
    return HSC_OK;
}

hsc_status hsc__decoder_gguf_windows(hsc__source *src, hsc__desc *desc, int fallback, int every, hsc_error *err)
{
    char key[NAME_BYTES];
    const int32_t *list = NULL;
    size_t n_list = 0;
    int window, n = desc->config.n_layers;
    HSC_TRY(hsc__meta_int_or(src, "attention.sliding_window", fallback, 0, 1 << 24, &window, err));
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", src->arch);
    if (hsc__gguf_get_ints(src->gguf, key, &list, &n_list, NULL) != HSC_OK)
        HSC_TRY(hsc__meta_int_or(src, "attention.sliding_window_pattern", every, 0, 4096, &every, err));
    HSC_FAIL_IF(n_list && n_list != (size_t)n, HSC_EFORMAT, "%s: key %s has %zu values for %d layers", src->path, key,
                n_list, n);
    for (int i = 0; i < n; i++) {
        bool slides = n_list ? list[i] != 0 : every == 0 || (i + 1) % every != 0;
        desc->layers[i].window = slides ? window : 0;
    }
    return HSC_OK;
}
