/*
 * Configuration, both ways: GGUF's keys as llama.cpp reads them from the description of a folder's model, and
 * config.json as transformers reads it from the description of a GGUF model. What the other side has no word for is
 * refused: a file that computes something else must not be written.
 */
#include "model/convert/convert.h"

#include "base/dtype.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTISATION_VERSION = 2, POOLING_LIMIT = 1 << 20 };

/* general.file_type: what most matrices are, by llama.cpp's numbers. */
static int file_type(hsc_dtype dtype)
{
    static const signed char numbers[HSC_N_DTYPES] = {
        [HSC_F16] = 1,   [HSC_Q4_0] = 2,    [HSC_Q4_1] = 3,    [HSC_Q8_0] = 7,  [HSC_Q5_0] = 8,
        [HSC_Q5_1] = 9,  [HSC_Q2_K] = 10,   [HSC_Q3_K] = 11,   [HSC_Q4_K] = 14, [HSC_Q5_K] = 16,
        [HSC_Q6_K] = 18, [HSC_IQ4_NL] = 25, [HSC_IQ4_XS] = 30, [HSC_BF16] = 32};
    return numbers[dtype];
}

/* The type of most of the values; HSC_F32 when none is known. */
static hsc_dtype main_type(const hsc__convert *c)
{
    uint64_t n[HSC_N_DTYPES] = {0};
    hsc_dtype most = HSC_F32;
    if (c->options->recast) return c->options->dtype;
    for (size_t i = 0; i < c->n_items; i++) n[c->items[i].dtype] += c->items[i].from->n_elements;
    for (int i = 0; i < HSC_OTHER; i++) {
        if (n[i] > n[most]) most = (hsc_dtype)i;
    }
    return most;
}

static bool any_quantised(const hsc__convert *c)
{
    for (size_t i = 0; i < c->n_items; i++) {
        hsc_dtype dtype = c->items[i].dtype;
        if (dtype == HSC_OTHER || hsc__dtype_block(dtype) > 1) return true;
    }
    return false;
}

static void put_types(const hsc__convert *c, hsc__gguf_writer *w)
{
    hsc__gguf_put_u32(w, "general.file_type", (uint32_t)file_type(main_type(c)));
    if (any_quantised(c)) hsc__gguf_put_u32(w, "general.quantization_version", QUANTISATION_VERSION);
}

/* --------------------------------------------------------------------------------------------- folder to GGUF ---- */

static bool is_family(const hsc__convert *c, const char *gguf)
{
    return strcmp(c->family->gguf, gguf) == 0;
}

/* Families with a LayerNorm and no key of a width for heads. */
static bool is_plain(const hsc__convert *c)
{
    return is_family(c, "gpt2") || is_family(c, "gptneox") || is_family(c, "bloom") || is_family(c, "bert");
}

static bool is_gemma(const hsc__convert *c)
{
    return is_family(c, "gemma2") || is_family(c, "gemma3");
}

static void put_key(const hsc__convert *c, hsc__gguf_writer *w, const char *name, uint32_t value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->family->gguf, name);
    hsc__gguf_put_u32(w, key, value);
}

static void put_real(const hsc__convert *c, hsc__gguf_writer *w, const char *name, float value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->family->gguf, name);
    hsc__gguf_put_f32(w, key, value);
}

/* Gemma's scale of scores is not written: it is that of the heads' width, and in the largest model of each family that
 * of the width over the number of heads. */
static float told_scale(const hsc__convert *c)
{
    const hsc_config *config = &c->model->desc.config;
    bool largest =
        (is_family(c, "gemma2") && config->n_layers == 46) || (is_family(c, "gemma3") && config->n_layers == 62);
    return 1 / sqrtf(largest ? (float)config->d_model / (float)config->n_heads : (float)config->d_head);
}

/* The window of the layers that have one; 0: none has. */
static int window_of(const hsc__desc *d)
{
    int most = 0;
    for (int i = 0; i < d->config.n_layers; i++) most = d->layers[i].window > most ? d->layers[i].window : most;
    return most;
}

static bool told_window(const hsc__convert *c, int layer, int window)
{
    const hsc__desc *d = &c->model->desc;
    int every = c->family->windows;
    if (every == 0) return window == 0;
    return window == (every == 1 || (layer + 1) % every ? window_of(d) : 0);
}

/* What a family's reader takes for granted must be so, for there is no key to say otherwise. */
static hsc_status check_family(const hsc__convert *c, hsc_error *err)
{
    const hsc__desc *d = &c->model->desc;
    HSC_FAIL_IF(is_gemma(c) && window_of(d) == 0, HSC_EUNSUPPORTED,
                "%s: a Gemma without a window cannot be told in GGUF", c->in);
    HSC_FAIL_IF(is_family(c, "gemma2") && !(d->layers[0].attn_cap > 0 && d->logit_cap > 0), HSC_EUNSUPPORTED,
                "%s: a Gemma 2 without its soft caps cannot be told in GGUF", c->in);
    HSC_FAIL_IF(is_family(c, "gemma2") && !d->config.tied, HSC_EUNSUPPORTED,
                "%s: a Gemma 2 with an output matrix of its own cannot be told in GGUF", c->in);
    HSC_FAIL_IF(is_family(c, "gptneox") && !d->layers[0].w_q.bias, HSC_EUNSUPPORTED,
                "%s: a GPT-NeoX without biases of attention cannot be told in GGUF", c->in);
    HSC_FAIL_IF(is_family(c, "bert") && d->config.n_segments < 1, HSC_EUNSUPPORTED,
                "%s: a BERT without segments cannot be told in GGUF", c->in);
    if (is_family(c, "phi3") && window_of(d))
        hsc__convert_note(c, "llama.cpp looks past the window of a Phi-3: there, texts of more than %d tokens differ",
                          window_of(d));
    return HSC_OK;
}

static hsc_status check_says_all(const hsc__convert *c, hsc_error *err)
{
    const hsc__desc *d = &c->model->desc;
    float scale = told_scale(c), cap = is_family(c, "gemma2") ? d->layers[0].attn_cap : 0;
    HSC_FAIL_IF(d->act != c->family->act, HSC_EUNSUPPORTED,
                "%s: the activation of this model cannot be told in GGUF, where %s has one of its own", c->in,
                d->config.arch);
    for (int i = 0; i < d->config.n_layers; i++) {
        const hsc__layer *l = &d->layers[i];
        HSC_FAIL_IF(l->attn_scale != scale, HSC_EUNSUPPORTED,
                    "%s: the scale of its attention scores in layer L%d is not that of heads %d wide, which cannot be "
                    "told in GGUF",
                    c->in, i, d->config.d_head);
        HSC_FAIL_IF(l->attn_cap != cap || !told_window(c, i, l->window), HSC_EUNSUPPORTED,
                    "%s: the window or the cap of attention in layer L%d cannot be told in GGUF", c->in, i);
        HSC_FAIL_IF(l->rope.scaled, HSC_EUNSUPPORTED,
                    "%s: scaled rotary positions are not converted between folders and GGUF", c->in);
    }
    return check_family(c, err);
}

/* The base of a rotation in config.json, wherever it stands; the model was opened with it, so its place and kind are
 * sound. `kind` is that of the layers that have it, where there are two. */
static double rope_theta(const json_t *config, const char *kind, const char *field, double fallback)
{
    const json_t *rope = json_object_get(config, "rope_parameters"), *nested = json_object_get(rope, kind);
    const json_t *theta = json_object_get(nested ? nested : rope, "rope_theta");
    if (!json_is_number(theta)) theta = json_object_get(config, field);
    return json_is_number(theta) ? json_number_value(theta) : fallback;
}

static void put_rope(const hsc__convert *c, hsc__gguf_writer *w)
{
    bool neox = is_family(c, "gptneox"), gemma3 = is_family(c, "gemma3");
    double theta =
        rope_theta(c->config, "full_attention", neox ? "rotary_emb_base" : "rope_theta", gemma3 ? 1e6 : 10000);
    put_key(c, w, "rope.dimension_count", 2 * (uint32_t)c->model->desc.layers[0].rope.half);
    put_real(c, w, "rope.freq_base", (float)theta);
    if (gemma3)
        put_real(c, w, "rope.freq_base_swa",
                 (float)rope_theta(c->config, "sliding_attention", "rope_local_base_freq", 10000));
}

static void put_llama(const hsc__convert *c, hsc__gguf_writer *w)
{
    const hsc__desc *d = &c->model->desc;
    put_key(c, w, "attention.head_count_kv", (uint32_t)d->config.n_kv_heads);
    put_key(c, w, "attention.key_length", (uint32_t)d->config.d_head);
    put_key(c, w, "attention.value_length", (uint32_t)d->config.d_head);
    put_real(c, w, "attention.layer_norm_rms_epsilon", d->norm_eps);
    if (window_of(d)) put_key(c, w, "attention.sliding_window", (uint32_t)window_of(d));
    if (d->layers[0].attn_cap > 0) put_real(c, w, "attn_logit_softcapping", d->layers[0].attn_cap);
    if (d->logit_cap > 0) put_real(c, w, "final_logit_softcapping", d->logit_cap);
}

static void put_flag(const hsc__convert *c, hsc__gguf_writer *w, const char *name, bool value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->family->gguf, name);
    hsc__gguf_put_bool(w, key, value);
}

/* Layers behind the pooling, which GGUF has no place for. */
static bool has_dense(const hsc__convert *c)
{
    json_t *modules = NULL;
    char *path = hsc__path_join(c->in, "modules.json");
    bool found = false;
    if (path && hsc__json_load(&modules, path, POOLING_LIMIT, NULL) != HSC_OK) modules = NULL;
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(modules, i), "type"));
        const char *dot = type ? strrchr(type, '.') : NULL;
        found |= dot && strcmp(dot, ".Dense") == 0;
    }
    json_decref(modules);
    hsc__free(path);
    return found;
}

/* How a sentence-transformers folder makes one vector of many, in GGUF's numbers; 0: it says nothing or another way. */
static uint32_t pooling_of(const hsc__convert *c)
{
    json_t *config = NULL;
    uint32_t kind = 0;
    if (has_dense(c)) {
        hsc__convert_note(c, "the folder's Dense layers have no place in GGUF: written without its pooling");
        return 0;
    }
    char *path = hsc__path_join(c->in, "1_Pooling/config.json");
    if (path && hsc__json_load(&config, path, POOLING_LIMIT, NULL) == HSC_OK) {
        if (json_is_true(json_object_get(config, "pooling_mode_mean_tokens"))) kind = 1;
        else if (json_is_true(json_object_get(config, "pooling_mode_cls_token"))) kind = 2;
    }
    json_decref(config);
    hsc__free(path);
    return kind;
}

static void put_bert(const hsc__convert *c, hsc__gguf_writer *w)
{
    uint32_t pooling = pooling_of(c);
    if (pooling) put_key(c, w, "pooling_type", pooling);
    hsc__gguf_put_u32(w, "tokenizer.ggml.token_type_count", (uint32_t)c->model->desc.config.n_segments);
}

hsc_status hsc__convert_put_metadata(hsc__convert *c, hsc__gguf_writer *w, hsc_error *err)
{
    const hsc_config *config = &c->model->desc.config;
    const char *arch = c->family->gguf;
    HSC_TRY(check_says_all(c, err));
    hsc__gguf_put_string(w, "general.architecture", arch, strlen(arch));
    hsc__gguf_put_string(w, "general.type", "model", 5);
    hsc__gguf_put_string(w, "general.name", config->name, strlen(config->name));
    put_types(c, w);
    put_key(c, w, "vocab_size", (uint32_t)config->d_vocab);
    put_key(c, w, "context_length", (uint32_t)config->n_ctx);
    put_key(c, w, "embedding_length", (uint32_t)config->d_model);
    put_key(c, w, "block_count", (uint32_t)config->n_layers);
    put_key(c, w, "feed_forward_length", (uint32_t)config->d_mlp);
    put_key(c, w, "attention.head_count", (uint32_t)config->n_heads);
    if (is_plain(c)) put_real(c, w, "attention.layer_norm_epsilon", c->model->desc.norm_eps);
    else put_llama(c, w);
    if (config->is_rotary) put_rope(c, w);
    if (!config->causal) put_flag(c, w, "attention.causal", false);
    if (is_family(c, "gptneox")) put_flag(c, w, "use_parallel_residual", c->model->desc.parallel);
    if (is_family(c, "bert")) put_bert(c, w);
    return HSC_OK;
}

/* What is said anew, or was true of the old file only. */
static bool is_replaced(const char *key)
{
    static const char *const keys[] = {"general.file_type", "general.quantization_version", "general.alignment"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) return true;
    }
    return strncmp(key, "split.", 6) == 0;
}

void hsc__convert_copy_metadata(hsc__convert *c, hsc__gguf_writer *w)
{
    hsc__gguf_put_all(w, c->gguf, is_replaced);
    put_types(c, w);
}

/* --------------------------------------------------------------------------------------------- GGUF to folder ---- */

/* The shortest decimal that is this float: 1e-05 rather than 9.99999975e-06. */
static json_t *short_real(double value)
{
    char text[40];
    double read = value;
    for (int digits = 1; digits <= 9; digits++) {
        hsc__format_double(text, sizeof text, digits, (double)(float)value);
        if (hsc__parse_double(text, &read) && (float)read == (float)value) break;
    }
    return json_real(read);
}

static int set(json_t *object, const char *field, json_t *value)
{
    return json_object_set_new(object, field, value);
}

static int set_int(json_t *object, const char *field, int value)
{
    return set(object, field, json_integer(value));
}

static int add_gpt2(json_t *o, const hsc__desc *d)
{
    const hsc_config *c = &d->config;
    return set_int(o, "n_embd", c->d_model) | set_int(o, "n_layer", c->n_layers) | set_int(o, "n_head", c->n_heads) |
           set_int(o, "n_positions", c->n_ctx) | set_int(o, "n_ctx", c->n_ctx) |
           set(o, "n_inner", c->d_mlp == 4 * c->d_model ? json_null() : json_integer(c->d_mlp)) |
           set(o, "activation_function", json_string("gelu_new")) |
           set(o, "layer_norm_epsilon", short_real((double)d->norm_eps));
}

/* By the names that all but GPT-2 have. */
static int add_sizes(json_t *o, const hsc_config *c)
{
    return set_int(o, "hidden_size", c->d_model) | set_int(o, "num_hidden_layers", c->n_layers) |
           set_int(o, "num_attention_heads", c->n_heads) | set_int(o, "intermediate_size", c->d_mlp) |
           set_int(o, "max_position_embeddings", c->n_ctx);
}

static int add_llama(json_t *o, const hsc__desc *d)
{
    const hsc_config *c = &d->config;
    return add_sizes(o, c) | set_int(o, "num_key_value_heads", c->n_kv_heads) | set_int(o, "head_dim", c->d_head) |
           set(o, "rms_norm_eps", short_real((double)d->norm_eps)) |
           set(o, "attention_bias", json_boolean(d->layers[0].w_q.bias != NULL)) |
           set(o, "mlp_bias", json_boolean(d->layers[0].w_in.bias != NULL)) |
           (strncmp(c->arch, "qwen", 4) == 0 ? set(o, "use_sliding_window", json_false()) : 0);
}

static int add_neox(json_t *o, const hsc__desc *d, double theta)
{
    const hsc_config *c = &d->config;
    return add_sizes(o, c) | set(o, "hidden_act", json_string("gelu")) |
           set(o, "layer_norm_eps", short_real((double)d->norm_eps)) |
           set(o, "use_parallel_residual", json_boolean(d->parallel)) | set(o, "attention_bias", json_true()) |
           set(o, "rotary_pct", json_real(2.0 * d->layers[0].rope.half / c->d_head)) |
           set(o, "rotary_emb_base", short_real(theta));
}

static int add_bloom(json_t *o, const hsc__desc *d)
{
    const hsc_config *c = &d->config;
    return set_int(o, "hidden_size", c->d_model) | set_int(o, "n_layer", c->n_layers) |
           set_int(o, "n_head", c->n_heads) | set_int(o, "seq_length", c->n_ctx) |
           set(o, "layer_norm_epsilon", short_real((double)d->norm_eps)) |
           set(o, "apply_residual_connection_post_layernorm", json_false());
}

static int add_bert(json_t *o, const hsc__desc *d)
{
    const hsc_config *c = &d->config;
    return add_sizes(o, c) | set_int(o, "type_vocab_size", c->n_segments) | set(o, "hidden_act", json_string("gelu")) |
           set(o, "layer_norm_eps", short_real((double)d->norm_eps));
}

static json_t *rope_object(const hsc__desc *d, double theta)
{
    json_t *o = json_pack("{s:s, s:o}", "rope_type", "default", "rope_theta", short_real(theta));
    double share = 2.0 * d->layers[0].rope.half / d->config.d_head;
    if (share < 1) json_object_set_new(o, "partial_rotary_factor", json_real(share));
    return o;
}

/* Windows, a word a layer. */
static int add_windows(json_t *o, const hsc__desc *d)
{
    json_t *kinds = json_array();
    for (int i = 0; i < d->config.n_layers; i++)
        json_array_append_new(kinds, json_string(d->layers[i].window ? "sliding_attention" : "full_attention"));
    return set_int(o, "sliding_window", window_of(d)) | set(o, "layer_types", kinds);
}

static int add_gemma(json_t *o, const hsc__convert *c, double theta, double local)
{
    const hsc__desc *d = &c->model->desc;
    double scale = (double)told_scale(c);
    bool third = is_family(c, "gemma3");
    json_t *rope = rope_object(d, theta);
    if (third) rope = json_pack("{s:o, s:o}", "full_attention", rope, "sliding_attention", rope_object(d, local));
    return add_windows(o, d) | set(o, "hidden_activation", json_string("gelu_pytorch_tanh")) |
           set_int(o, "query_pre_attn_scalar", (int)lround(1 / (scale * scale))) |
           set(o, "attn_logit_softcapping", third ? json_null() : short_real((double)d->layers[0].attn_cap)) |
           set(o, "final_logit_softcapping", d->logit_cap > 0 ? short_real((double)d->logit_cap) : json_null()) |
           (third ? set(o, "rope_local_base_freq", short_real(local)) : 0) | set(o, "rope_theta", short_real(theta)) |
           set(o, "rope_parameters", rope);
}

/* Llama's shape and Phi-3's: one rotation, silu. */
static int add_silu(json_t *o, const hsc__convert *c, double theta)
{
    const hsc__desc *d = &c->model->desc;
    int failed = set(o, "hidden_act", json_string("silu")) | set(o, "rope_theta", short_real(theta)) |
                 set(o, "rope_parameters", rope_object(d, theta));
    if (!is_family(c, "phi3")) return failed;
    return failed | set_int(o, "original_max_position_embeddings", d->config.n_ctx) |
           set(o, "sliding_window", window_of(d) ? json_integer(window_of(d)) : json_null());
}

/* transformers gives all of these biases or none; of Qwen 2 always those of q, k and v, and never that of the output.
 */
static hsc_status check_biases(const hsc__convert *c, hsc_error *err)
{
    const hsc__desc *d = &c->model->desc;
    bool attention = d->layers[0].w_q.bias != NULL, mlp = d->layers[0].w_in.bias != NULL;
    bool qwen2 = strcmp(d->config.arch, "qwen2") == 0;
    for (int i = 0; i < d->config.n_layers; i++) {
        const hsc__layer *l = &d->layers[i];
        bool alike = (l->w_q.bias != NULL) == attention && (l->w_k.bias != NULL) == attention &&
                     (l->w_v.bias != NULL) == attention && (l->w_o.bias != NULL) == (attention && !qwen2) &&
                     (l->w_in.bias != NULL) == mlp && (l->w_up.bias != NULL) == mlp && (l->w_out.bias != NULL) == mlp;
        HSC_FAIL_IF(!alike, HSC_EUNSUPPORTED, "%s: layer L%d has some biases and not others, for which config.json %s",
                    c->in, i, "has no words");
    }
    return HSC_OK;
}

/* Sets bos_token_id and its like where the file names such tokens. */
static hsc_status add_ids(const hsc__convert *c, json_t *o, hsc_error *err)
{
    static const char *const names[][2] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token_id", "tokenizer.ggml.eos_token_id"},
                                           {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        HSC_TRY(hsc__gguf_get_int(c->gguf, names[i][1], -1, INT64_MIN, INT64_MAX, &id, err));
        json_t *value = id >= 0 && id < c->model->desc.config.d_vocab ? json_integer(id) : json_null();
        if (set(o, names[i][0], value) != 0) return hsc__fail_memory(err, 1, "config.json");
    }
    return HSC_OK;
}

static const char *torch_type(hsc_dtype dtype)
{
    return dtype == HSC_F16 ? "float16" : dtype == HSC_BF16 ? "bfloat16" : dtype == HSC_F64 ? "float64" : "float32";
}

/* A folder's own config.json, with the new type. */
static hsc_status copy_config(hsc__convert *c, json_t *o, hsc_error *err)
{
    const char *type = torch_type(main_type(c));
    int failed = json_object_update(o, c->config);
    const char *field = json_object_get(o, "torch_dtype") ? "torch_dtype" : "dtype";
    if (failed || set(o, field, json_string(type)) != 0) return hsc__fail_memory(err, 1, "config.json");
    return HSC_OK;
}

static hsc_status make_config(hsc__convert *c, json_t *o, hsc_error *err)
{
    const hsc__desc *d = &c->model->desc;
    char key[64];
    double theta, local;
    snprintf(key, sizeof key, "%s.rope.freq_base", c->family->gguf);
    HSC_TRY(hsc__gguf_get_double(c->gguf, key, 10000, &theta, err));
    snprintf(key, sizeof key, "%s.rope.freq_base_swa", c->family->gguf);
    HSC_TRY(hsc__gguf_get_double(c->gguf, key, 10000, &local, err));
    if (!is_plain(c)) HSC_TRY(check_biases(c, err));
    HSC_FAIL_IF(d->layers[0].rope.scaled || (window_of(d) && !c->family->windows), HSC_EUNSUPPORTED,
                "%s: scaled rotary positions, and sliding windows of %s, are not converted between folders and GGUF",
                c->in, d->config.arch);
    int failed = set(o, "architectures", json_pack("[s]", c->family->class)) |
                 set(o, "model_type", json_string(c->family->folder));
    if (!is_plain(c)) failed |= add_llama(o, d);
    failed |= is_family(c, "gpt2")      ? add_gpt2(o, d)
              : is_family(c, "gptneox") ? add_neox(o, d, theta)
              : is_family(c, "bloom")   ? add_bloom(o, d)
              : is_family(c, "bert")    ? add_bert(o, d)
              : is_gemma(c)             ? add_gemma(o, c, theta, local)
                                        : add_silu(o, c, theta);
    failed |= set_int(o, "vocab_size", d->config.d_vocab) |
              set(o, "tie_word_embeddings", json_boolean(d->config.tied)) |
              set(o, "torch_dtype", json_string(torch_type(main_type(c))));
    if (!d->config.causal && !is_family(c, "bert")) failed |= set(o, "is_causal", json_false());
    if (failed) return hsc__fail_memory(err, 1, "config.json");
    return add_ids(c, o, err);
}

hsc_status hsc__convert_config(hsc__convert *c, json_t **out, hsc_error *err)
{
    *out = json_object();
    if (!*out) return hsc__fail_memory(err, 1, "config.json");
    hsc_status status = c->config ? copy_config(c, *out, err) : make_config(c, *out, err);
    if (status == HSC_OK) return HSC_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}
