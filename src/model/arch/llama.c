/*
 * The Llama family (Touvron et al. 2023) and what shares its shape, SmolLM among them: RMS norm, rotary positions,
 * grouped-query heads, gated feed-forward. Folder: transformers' LlamaForCausalLM or LlamaModel, rotary pairs (i, i +
 * d/2). GGUF: llama.cpp's names; its converter has permuted the rows of q and k within each head so that pairs lie side
 * by side, and the forward pass puts them back.
 */
#include "model/arch/arch.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

static const double MAX_THETA = 1e30; /* past it no frequency but the first is told from 0 in float32 */

typedef struct {
    bool tie, attention_bias, mlp_bias;
    double rope_theta;
} options;

/* `field` is what the container calls the number of kv heads. */
static hsc_status check_shape(const hsc_config *c, const char *path, const char *field, hsc_error *err)
{
    HSC_FAIL_IF(c->n_heads % c->n_kv_heads != 0, HSC_EFORMAT,
                "%s: field \"%s\": %d heads cannot be shared out over %d kv heads", path, field, c->n_heads,
                c->n_kv_heads);
    HSC_FAIL_IF(c->d_head % 2 != 0, HSC_EFORMAT, "%s: the head width %d is odd, rotary positions need pairs", path,
                c->d_head);
    return HSC_OK;
}

static void fill_common(hsc__desc *desc)
{
    hsc_config *c = &desc->config;
    c->causal = 1;
    c->is_rotary = 1;
    c->is_gated = 1;
    desc->norm_kind = HSC__NN_RMS_NORM;
    desc->pos_kind = HSC__POS_ROTARY;
}

/* Rotary settings of their own for each kind of layer belong to other families. */
static hsc_status refuse_nested(const hsc__source *src, const json_t *rope, const char *field, hsc_error *err)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)rope, name, value)
    {
        HSC_FAIL_IF(json_is_object(value), HSC_EUNSUPPORTED,
                    "%s: field \"%s.%s\": settings a layer kind are not supported", src->config_path, field, name);
    }
    return HSC_OK;
}

/* rope_theta stands in rope_parameters (transformers 5), else beside rope_scaling. Scaled variants are refused by
 * name. */
static hsc_status read_rope(hsc__source *src, double *theta, hsc_error *err)
{
    static const char *const fields[] = {"rope_parameters", "rope_scaling"};
    HSC_TRY(hsc__json_double(src->config, "rope_theta", 10000, theta, src->config_path, err));
    for (int i = 0; i < 2; i++) {
        const json_t *rope = json_object_get(src->config, fields[i]);
        if (!rope || json_is_null(rope)) continue;
        HSC_FAIL_IF(!json_is_object(rope), HSC_EFORMAT, "%s: field \"%s\" is not an object", src->config_path,
                    fields[i]);
        HSC_TRY(refuse_nested(src, rope, fields[i], err));
        const char *type, *old;
        HSC_TRY(hsc__json_string(rope, "type", "default", &old, src->config_path, err));
        HSC_TRY(hsc__json_string(rope, "rope_type", old, &type, src->config_path, err));
        HSC_FAIL_IF(strcmp(type, "default") != 0, HSC_EUNSUPPORTED,
                    "%s: field \"%s\": rotary scaling \"%s\" is not supported", src->config_path, fields[i], type);
        HSC_TRY(hsc__json_double(rope, "rope_theta", *theta, theta, src->config_path, err));
    }
    HSC_FAIL_IF(!(*theta > 0 && *theta <= MAX_THETA), HSC_EFORMAT,
                "%s: field \"rope_theta\" is %g, above 0 to %g is accepted", src->config_path, *theta, MAX_THETA);
    return HSC_OK;
}

/* A field that would change the result and that this family does not have: it must be absent or null. */
static hsc_status refuse(const hsc__source *src, const char *field, hsc_error *err)
{
    const json_t *value = json_object_get(src->config, field);
    HSC_FAIL_IF(value && !json_is_null(value), HSC_EUNSUPPORTED,
                "%s: field \"%s\" is not supported for this architecture", src->config_path, field);
    return HSC_OK;
}

static hsc_status read_config(hsc__source *src, hsc__desc *desc, options *o, hsc_error *err)
{
    hsc_config *c = &desc->config;
    HSC_TRY(hsc__config_int(src, "hidden_size", NULL, 1, 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__config_int(src, "num_hidden_layers", NULL, 1, 4096, &c->n_layers, err));
    HSC_TRY(hsc__config_int(src, "num_attention_heads", NULL, 1, 4096, &c->n_heads, err));
    HSC_TRY(hsc__config_int(src, "intermediate_size", NULL, 1, 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__config_int_or(src, "num_key_value_heads", NULL, c->n_heads, 1, c->n_heads, &c->n_kv_heads, err));
    HSC_TRY(hsc__config_int_or(src, "head_dim", NULL, c->d_model / c->n_heads, 1, HSC__MAX_D_HEAD, &c->d_head, err));
    HSC_TRY(hsc__config_int_or(src, "max_position_embeddings", NULL, 2048, 1, 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__config_int_or(src, "vocab_size", NULL, 32000, 1, 1 << 24, &c->d_vocab, err));
    HSC_TRY(hsc__config_act(src, "hidden_act", "silu", &desc->act, err));
    HSC_TRY(hsc__config_eps(src, "rms_norm_eps", 1e-6f, &desc->norm_eps, err));
    HSC_TRY(hsc__json_bool(src->config, "tie_word_embeddings", false, &o->tie, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "attention_bias", false, &o->attention_bias, src->config_path, err));
    HSC_TRY(hsc__json_bool(src->config, "mlp_bias", false, &o->mlp_bias, src->config_path, err));
    HSC_TRY(read_rope(src, &o->rope_theta, err));
    HSC_TRY(refuse(src, "attn_logit_softcapping", err));
    HSC_TRY(refuse(src, "final_logit_softcapping", err));
    return check_shape(c, src->config_path, "num_key_value_heads", err);
}

/* One matrix with a bias that exists exactly when the configuration says so. */
static hsc_status linear(hsc__source *src, hsc__weight *w, int64_t n_out, int64_t n_in, bool bias, int layer,
                         const char *name, hsc_error *err)
{
    const float *b = NULL;
    HSC_TRY(hsc__bind_matrix(src, w, n_out, n_in, false, err, "layers.%d.%s.weight", layer, name));
    if (bias) HSC_TRY(hsc__bind_vector(src, &b, n_out, err, "layers.%d.%s.bias", layer, name));
    w->bias = b;
    return HSC_OK;
}

static hsc_status folder_layer(hsc__source *src, hsc__desc *desc, const options *o, int i, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    int d = c->d_model, q = c->n_heads * c->d_head, kv = c->n_kv_heads * c->d_head, m = c->d_mlp;
    HSC_TRY(hsc__bind_vector(src, &l->ln1.gain, d, err, "layers.%d.input_layernorm.weight", i));
    HSC_TRY(hsc__bind_vector(src, &l->ln2.gain, d, err, "layers.%d.post_attention_layernorm.weight", i));
    HSC_TRY(linear(src, &l->w_q, q, d, o->attention_bias, i, "self_attn.q_proj", err));
    HSC_TRY(linear(src, &l->w_k, kv, d, o->attention_bias, i, "self_attn.k_proj", err));
    HSC_TRY(linear(src, &l->w_v, kv, d, o->attention_bias, i, "self_attn.v_proj", err));
    HSC_TRY(linear(src, &l->w_o, d, q, o->attention_bias, i, "self_attn.o_proj", err));
    HSC_TRY(linear(src, &l->w_in, m, d, o->mlp_bias, i, "mlp.gate_proj", err));
    HSC_TRY(linear(src, &l->w_up, m, d, o->mlp_bias, i, "mlp.up_proj", err));
    HSC_TRY(linear(src, &l->w_out, d, m, o->mlp_bias, i, "mlp.down_proj", err));
    return HSC_OK;
}

/* What the layers share: scale and rotation. */
static hsc_status finish_layers(hsc__source *src, hsc__desc *desc, double theta, int d_rot, hsc_error *err)
{
    hsc__rope rope = {.half = d_rot / 2};
    HSC_TRY(hsc__make_inv_freq(src, &rope.inv_freq, theta, d_rot, err));
    for (int i = 0; i < desc->config.n_layers; i++) {
        desc->layers[i].rope = rope;
        desc->layers[i].attn_scale = 1 / sqrtf((float)desc->config.d_head);
    }
    return HSC_OK;
}

hsc_status hsc__llama_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    static const char *const prefixes[] = {"model.", "", NULL};
    hsc_config *c = &desc->config;
    options o;
    HSC_TRY(read_config(src, desc, &o, err));
    fill_common(desc);
    HSC_TRY(hsc__desc_layers(src, desc, err));
    hsc__source_prefix(src, prefixes, "layers.0.input_layernorm.weight");
    const char *embed = *src->prefix ? "model.embed_tokens.weight" : "embed_tokens.weight";
    HSC_TRY(hsc__bind_unembed(src, desc, embed, "lm_head.weight", o.tie, err));
    HSC_TRY(hsc__bind_vector(src, &desc->ln_final.gain, c->d_model, err, "norm.weight"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(folder_layer(src, desc, &o, i, err));
    hsc__source_ignore(src, ".rotary_emb.inv_freq"); /* a buffer of older checkpoints */
    return finish_layers(src, desc, o.rope_theta, c->d_head, err);
}

static hsc_status gguf_linear(hsc__source *src, hsc__weight *w, int64_t n_out, int64_t n_in, int layer,
                              const char *name, hsc_error *err)
{
    const float *bias;
    HSC_TRY(hsc__bind_matrix(src, w, n_out, n_in, false, err, "blk.%d.%s.weight", layer, name));
    HSC_TRY(hsc__bind_vector_optional(src, &bias, n_out, err, "blk.%d.%s.bias", layer, name));
    w->bias = bias;
    return HSC_OK;
}

static hsc_status gguf_layer(hsc__source *src, hsc__desc *desc, int i, hsc_error *err)
{
    const hsc_config *c = &desc->config;
    hsc__layer *l = &desc->layers[i];
    int d = c->d_model, q = c->n_heads * c->d_head, kv = c->n_kv_heads * c->d_head, m = c->d_mlp;
    HSC_TRY(hsc__bind_vector(src, &l->ln1.gain, d, err, "blk.%d.attn_norm.weight", i));
    HSC_TRY(hsc__bind_vector(src, &l->ln2.gain, d, err, "blk.%d.ffn_norm.weight", i));
    HSC_TRY(gguf_linear(src, &l->w_q, q, d, i, "attn_q", err));
    HSC_TRY(gguf_linear(src, &l->w_k, kv, d, i, "attn_k", err));
    HSC_TRY(gguf_linear(src, &l->w_v, kv, d, i, "attn_v", err));
    HSC_TRY(gguf_linear(src, &l->w_o, d, q, i, "attn_output", err));
    HSC_TRY(gguf_linear(src, &l->w_in, m, d, i, "ffn_gate", err));
    HSC_TRY(gguf_linear(src, &l->w_up, m, d, i, "ffn_up", err));
    HSC_TRY(gguf_linear(src, &l->w_out, d, m, i, "ffn_down", err));
    return HSC_OK;
}

/* Scaled rotary positions. A file that names no kind of scaling and has a factor means linear scaling; the first ones
 * wrote the factor under another key. */
static hsc_status gguf_refuse_scaling(hsc__source *src, hsc_error *err)
{
    const char *kind;
    double old, factor;
    HSC_TRY(hsc__gguf_get_cstring(src->gguf, "llama.rope.scaling.type", NULL, &kind, err));
    HSC_FAIL_IF(kind && strcmp(kind, "none") != 0, HSC_EUNSUPPORTED,
                "%s: key llama.rope.scaling.type: rotary scaling \"%s\" is not supported", src->path, kind);
    HSC_TRY(hsc__gguf_get_double(src->gguf, "llama.rope.scale_linear", 1, &old, err));
    HSC_TRY(hsc__gguf_get_double(src->gguf, "llama.rope.scaling.factor", old, &factor, err));
    char text[32];
    hsc__format_double(text, sizeof text, 6, factor);
    HSC_FAIL_IF(!kind && factor != 0 && factor != 1, HSC_EUNSUPPORTED,
                "%s: key llama.rope.scaling.factor (or llama.rope.scale_linear) is %s, only 1 is supported", src->path,
                text);
    return HSC_OK;
}

/* Metadata that would change the result and is not computed here. */
static hsc_status gguf_refuse(hsc__source *src, hsc_error *err)
{
    HSC_TRY(gguf_refuse_scaling(src, err));
    HSC_FAIL_IF(hsc__source_has(src, "rope_freqs.weight"), HSC_EUNSUPPORTED,
                "%s: tensor rope_freqs.weight: scaled rotary frequencies are not supported", src->path);
    int64_t experts;
    HSC_TRY(hsc__gguf_get_int(src->gguf, "llama.expert_count", 0, 0, INT32_MAX, &experts, err));
    HSC_FAIL_IF(experts > 0, HSC_EUNSUPPORTED, "%s: key llama.expert_count: mixtures of experts are not supported",
                src->path);
    return HSC_OK;
}

hsc_status hsc__llama_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc_config *c = &desc->config;
    const hsc__gguf *g = src->gguf;
    int64_t n_kv, d_head, d_value, d_rot;
    double eps, theta;
    HSC_TRY(hsc__meta_int(src, "llama.embedding_length", 1 << 20, &c->d_model, err));
    HSC_TRY(hsc__meta_int(src, "llama.block_count", 4096, &c->n_layers, err));
    HSC_TRY(hsc__meta_int(src, "llama.attention.head_count", 4096, &c->n_heads, err));
    HSC_TRY(hsc__meta_int(src, "llama.context_length", 1 << 24, &c->n_ctx, err));
    HSC_TRY(hsc__meta_int(src, "llama.feed_forward_length", 1 << 24, &c->d_mlp, err));
    HSC_TRY(hsc__gguf_get_int(g, "llama.attention.head_count_kv", c->n_heads, 1, c->n_heads, &n_kv, err));
    HSC_TRY(
        hsc__gguf_get_int(g, "llama.attention.key_length", c->d_model / c->n_heads, 1, HSC__MAX_D_HEAD, &d_head, err));
    HSC_TRY(hsc__gguf_get_int(g, "llama.attention.value_length", d_head, 1, 1 << 16, &d_value, err));
    HSC_TRY(hsc__gguf_get_int(g, "llama.rope.dimension_count", d_head, 2, d_head, &d_rot, err));
    HSC_TRY(hsc__gguf_get_double(g, "llama.attention.layer_norm_rms_epsilon", 1e-5, &eps, err));
    HSC_TRY(hsc__gguf_get_double(g, "llama.rope.freq_base", 10000, &theta, err));
    HSC_FAIL_IF(d_value != d_head, HSC_EUNSUPPORTED,
                "%s: key llama.attention.value_length: %lld differs from the key width %lld, which is not supported",
                src->path, (long long)d_value, (long long)d_head);
    HSC_FAIL_IF(d_rot != d_head, HSC_EUNSUPPORTED,
                "%s: key llama.rope.dimension_count: %lld differs from the head width %lld, which is not supported",
                src->path, (long long)d_rot, (long long)d_head);
    HSC_FAIL_IF(!(theta > 0), HSC_EFORMAT, "%s: key llama.rope.freq_base must be positive", src->path);
    c->n_kv_heads = (int)n_kv;
    c->d_head = (int)d_head;
    desc->norm_eps = (float)eps;
    desc->act = HSC__ACT_SILU;
    desc->interleaved_qk = true;
    HSC_TRY(check_shape(c, src->path, "llama.attention.head_count_kv", err));
    HSC_TRY(gguf_refuse(src, err));
    HSC_TRY(hsc__meta_vocab(src, &c->d_vocab, err));
    fill_common(desc);
    HSC_TRY(hsc__desc_layers(src, desc, err));
    HSC_TRY(hsc__bind_unembed(src, desc, "token_embd.weight", "output.weight", true, err));
    HSC_TRY(hsc__bind_vector(src, &desc->ln_final.gain, c->d_model, err, "output_norm.weight"));
    for (int i = 0; i < c->n_layers; i++) HSC_TRY(gguf_layer(src, desc, i, err));
    return finish_layers(src, desc, theta, c->d_head, err);
}
