/*
 * Gemma 2 (Riviere et al. 2024): Llama's shape with norms on both sides of each branch, gains stored less 1, the
 * embedding scaled by sqrt(d_model), soft caps of scores and logits, and a window in every other layer. Gemma 3 (2025)
 * drops the caps for norms of each head's q and k, has five layers with a window to one without, and another rotary
 * base in those with one.
 */
#include "model/arch/decoder.h"

#include <math.h>

static const double GEMMA2_ATTN_CAP = 50, GEMMA2_LOGIT_CAP = 30, GEMMA3_LOCAL_THETA = 10000;
enum { GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };

static const hsc__decoder shape = {.n_kv_heads = 4,
                                   .d_head = 256,
                                   .n_ctx = 8192,
                                   .d_vocab = 256000,
                                   .eps = 1e-6,
                                   .act_field = "hidden_activation",
                                   .act = "gelu_pytorch_tanh",
                                   .tie = true,
                                   .rope = {.theta = 10000},
                                   .branch_norms = true,
                                   .less_one = true};

/* A cap: absent is the family's own, null is none. */
static hsc_status read_cap(const hsc__source *src, const char *field, double fallback, float *out, hsc_error *err)
{
    double cap;
    HSC_TRY(hsc__json_double(src->config, field, hsc__config_is_null(src, field) ? 0 : fallback, &cap, src->config_path,
                             err));
    HSC_FAIL_IF(!(cap >= 0) || (cap == 0 && json_is_number(json_object_get(src->config, field))), HSC_EFORMAT,
                "%s: field \"%s\" is %g and must be above 0", src->config_path, field, cap);
    *out = (float)cap;
    return HSC_OK;
}

/* Sizes and tensors of both; `d` comes with what is theirs alone. */
static hsc_status bind(hsc__source *src, hsc__desc *desc, hsc__decoder *d, hsc_error *err)
{
    bool both_ways;
    double scalar;
    HSC_TRY(hsc__decoder_sizes(src, desc, d, err));
    HSC_TRY(hsc__decoder_attention_bias(src, d, err));
    HSC_TRY(hsc__json_bool(src->config, "use_bidirectional_attention", false, &both_ways, src->config_path, err));
    HSC_FAIL_IF(both_ways, HSC_EUNSUPPORTED, "%s: field \"use_bidirectional_attention\": true is not supported",
                src->config_path);
    HSC_TRY(hsc__json_double(src->config, "query_pre_attn_scalar", 256, &scalar, src->config_path, err));
    HSC_FAIL_IF(!(scalar > 0), HSC_EFORMAT, "%s: field \"query_pre_attn_scalar\" is %g and must be above 0",
                src->config_path, scalar);
    HSC_TRY(hsc__decoder_bind(src, desc, d, err));
    desc->embed_scale = sqrtf((float)desc->config.d_model);
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].attn_scale = (float)(1 / sqrt(scalar));
    return HSC_OK;
}

static hsc_status read_windows(hsc__source *src, hsc__desc *desc, int every, hsc_error *err)
{
    int window = 0;
    if (!hsc__config_is_null(src, "sliding_window"))
        HSC_TRY(hsc__config_int_or(src, "sliding_window", NULL, 4096, 1, 1 << 24, &window, err));
    return hsc__decoder_windows(src, desc, window, 0, every, err);
}

hsc_status hsc__gemma2_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = shape;
    float cap;
    HSC_TRY(bind(src, desc, &d, err));
    HSC_TRY(read_cap(src, "attn_logit_softcapping", GEMMA2_ATTN_CAP, &cap, err));
    HSC_TRY(read_cap(src, "final_logit_softcapping", GEMMA2_LOGIT_CAP, &desc->logit_cap, err));
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].attn_cap = cap;
    return read_windows(src, desc, 2, err);
}

/* Two rotations: transformers 5 has an object a kind of layer in rope_parameters; before, rope_theta with rope_scaling
 * was the one of the layers that see everything, and rope_local_base_freq the other. */
static hsc_status gemma3_ropes(hsc__source *src, hsc__desc *desc, hsc__rope *full, hsc__rope *local, hsc_error *err)
{
    const json_t *nested = json_object_get(src->config, "rope_parameters");
    const json_t *rope = json_object_get(nested, "full_attention"), *old = json_object_get(src->config, "rope_scaling");
    hsc__rope_defaults wide = {.theta = 1e6}, near = {.theta = GEMMA3_LOCAL_THETA};
    HSC_TRY(hsc__json_double(src->config, "rope_theta", wide.theta, &wide.theta, src->config_path, err));
    HSC_TRY(hsc__json_double(src->config, "rope_local_base_freq", near.theta, &near.theta, src->config_path, err));
    if (json_is_object(old)) rope = old;
    HSC_FAIL_IF(json_object_get(nested, "rope_theta"), HSC_EUNSUPPORTED,
                "%s: field \"rope_parameters\": settings for full_attention and for sliding_attention are expected",
                src->config_path);
    HSC_TRY(hsc__rope_from_object(src, &desc->config, rope, "rope_parameters.full_attention", &wide, full, err));
    return hsc__rope_from_object(src, &desc->config, json_object_get(nested, "sliding_attention"),
                                 "rope_parameters.sliding_attention", &near, local, err);
}

static void share_ropes(hsc__desc *desc, const hsc__rope *full, const hsc__rope *local)
{
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].rope = desc->layers[i].window ? *local : *full;
}

hsc_status hsc__gemma3_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = shape;
    hsc__rope full, local;
    int every;
    d.n_ctx = 131072;
    d.d_vocab = 262208;
    d.qk_norm = true;
    d.own_rope = true;
    HSC_TRY(hsc__config_refuse(src, "attn_logit_softcapping", err));
    HSC_TRY(bind(src, desc, &d, err));
    HSC_TRY(read_cap(src, "final_logit_softcapping", 0, &desc->logit_cap, err));
    HSC_TRY(hsc__config_int_or(src, "sliding_window_pattern", NULL, 6, 1, 4096, &every, err));
    HSC_TRY(read_windows(src, desc, every, err));
    HSC_TRY(gemma3_ropes(src, desc, &full, &local, err));
    share_ropes(desc, &full, &local);
    return HSC_OK;
}

/* Gemma 3 that sees pictures: its text part, as Gemma3ForCausalLM takes it from the same folder. */
hsc_status hsc__gemma3_text_from_folder(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    const json_t *whole = src->config, *text = json_object_get(whole, "text_config");
    HSC_FAIL_IF(!json_is_object(text), HSC_EFORMAT, "%s: field \"text_config\" must be an object", src->config_path);
    src->config = text;
    hsc_status status = hsc__gemma3_from_folder(src, desc, err);
    src->config = whole;
    hsc__source_ignore_part(src, "vision_tower.");
    hsc__source_ignore_part(src, "multi_modal_projector.");
    return status;
}

/* The scale of the scores is not written; the largest model of each family has one of its own. */
static hsc_status gguf_bind(hsc__source *src, hsc__desc *desc, const hsc__decoder *d, int largest, hsc_error *err)
{
    HSC_TRY(hsc__decoder_gguf_sizes(src, desc, err));
    HSC_TRY(hsc__decoder_gguf_bind(src, desc, d, err));
    const hsc_config *c = &desc->config;
    desc->act = HSC__ACT_GELU_TANH;
    desc->embed_scale = sqrtf((float)c->d_model);
    for (int i = 0; i < c->n_layers; i++)
        desc->layers[i].attn_scale =
            1 / sqrtf(c->n_layers == largest ? (float)c->d_model / (float)c->n_heads : (float)c->d_head);
    return HSC_OK;
}

hsc_status hsc__gemma2_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    double attn_cap, logit_cap;
    HSC_TRY(gguf_bind(src, desc, &shape, GEMMA2_27B_LAYERS, err));
    HSC_TRY(hsc__meta_double(src, "attn_logit_softcapping", GEMMA2_ATTN_CAP, &attn_cap, err));
    HSC_TRY(hsc__meta_double(src, "final_logit_softcapping", GEMMA2_LOGIT_CAP, &logit_cap, err));
    for (int i = 0; i < desc->config.n_layers; i++) desc->layers[i].attn_cap = (float)attn_cap;
    desc->logit_cap = (float)logit_cap;
    return hsc__decoder_gguf_windows(src, desc, 4096, 2, err);
}

hsc_status hsc__gemma3_from_gguf(hsc__source *src, hsc__desc *desc, hsc_error *err)
{
    hsc__decoder d = shape;
    hsc__rope full, local;
    double theta, logit_cap;
    d.qk_norm = true;
    HSC_TRY(gguf_bind(src, desc, &d, GEMMA3_27B_LAYERS, err));
    HSC_TRY(hsc__meta_double(src, "final_logit_softcapping", 0, &logit_cap, err));
    HSC_TRY(hsc__decoder_gguf_windows(src, desc, 0, 6, err));
    HSC_TRY(hsc__meta_double(src, "rope.freq_base_swa", GEMMA3_LOCAL_THETA, &theta, err));
    HSC_FAIL_IF(!(theta > 0), HSC_EFORMAT, "%s: key %s.rope.freq_base_swa must be above 0", src->path, src->arch);
    HSC_TRY(hsc__rope_plain(src, theta, desc->config.d_head, &local, err));
    desc->logit_cap = (float)logit_cap;
    full = desc->layers[0].rope;
    share_ropes(desc, &full, &local);
    return HSC_OK;
}
