/*
 * The layers of headscope/nn.h against the engine, bit by bit: a whole GPT-2 built from hsc_nn_block, and each step of
 * a Llama layer fed with what the engine recorded before it. What is taught is what runs.
 */
#include "headscope/nn.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 37 }; /* tokens: more than one block of rows, no whole number of them */

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        hsc_error err = {0};                                                                                           \
        if ((call) != HSC_OK) fail_msg("%s", err.message);                                                             \
    } while (0)

static float *floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    return x;
}

/* A tensor of the checkpoint by its name after the prefix. */
static const float *tensor(const tiny_model *m, const char *prefix, int layer, const char *name)
{
    char full[128];
    if (layer < 0) snprintf(full, sizeof full, "%s%s", prefix, name);
    else snprintf(full, sizeof full, "%s%d.%s", prefix, layer, name);
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->arrays[i].name, full) == 0) return m->arrays[i].data;
    }
    fail_msg("no tensor %s", full);
    return NULL;
}

/* Runs the engine on N tokens with every site recorded. */
static hsc_session *run_engine(hsc_model *model, hsc_token *ids)
{
    hsc_session *s = NULL;
    OK(hsc_session_new(&s, model, &(hsc_session_options){.n_threads = 2}, &err));
    for (int site = 0; site < HSC_N_SITES; site++) {
        hsc_record record = {.site = (hsc_site)site, .layer = -1, .head = -1, .query = -1};
        if (hsc_model_has_site(model, (hsc_site)site)) OK(hsc_session_record(s, &record, &err));
    }
    for (int i = 0; i < N; i++) ids[i] = (i * 31 + 5) % TINY_VOCAB;
    OK(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N, .logits = HSC_LOGITS_ALL}, &err));
    return s;
}

static const float *site(const hsc_session *s, hsc_site which, int layer)
{
    hsc_view view;
    OK(hsc_session_activation(s, which, layer, 0, &view, &err));
    return view.data;
}

static void assert_bits(const float *mine, const float *engine, size_t n, const char *what, int layer)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&mine[i], &engine[i], sizeof *mine) != 0)
            fail_msg("%s of layer %d: value %zu is %a here, %a in the engine", what, layer, i, (double)mine[i],
                     (double)engine[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------- GPT-2 ---- */

enum { D = 48, HEADS = 3, FF = 192 };
static const hsc_nn_block block = {.d_model = D, .n_heads = HEADS, .d_ff = FF, .activation = HSC_NN_GELU_TANH};

/* A Conv1D's [n_in][n_out] as nn.Linear's [n_out][n_in]. */
static void turn(const float *from, int n_in, int n_out, float *to)
{
    for (int i = 0; i < n_in; i++)
        for (int o = 0; o < n_out; o++) to[o * n_in + i] = from[i * n_out + o];
}

static void take(float *parameters, hsc_nn_block_tensor which, const float *values, bool conv)
{
    hsc_nn_parameter p;
    OK(hsc_nn_block_parameter(&block, which, &p, &err));
    float *to = parameters + p.offset;
    if (conv) turn(values, p.shape[1], p.shape[0], to);
    else memcpy(to, values, (size_t)p.count * sizeof *to);
}

static void block_of(const tiny_model *m, int layer, float *parameters)
{
    const char *h = "transformer.h.";
    take(parameters, HSC_NN_IN_PROJ_WEIGHT, tensor(m, h, layer, "attn.c_attn.weight"), true);
    take(parameters, HSC_NN_IN_PROJ_BIAS, tensor(m, h, layer, "attn.c_attn.bias"), false);
    take(parameters, HSC_NN_OUT_PROJ_WEIGHT, tensor(m, h, layer, "attn.c_proj.weight"), true);
    take(parameters, HSC_NN_OUT_PROJ_BIAS, tensor(m, h, layer, "attn.c_proj.bias"), false);
    take(parameters, HSC_NN_FF_IN_WEIGHT, tensor(m, h, layer, "mlp.c_fc.weight"), true);
    take(parameters, HSC_NN_FF_IN_BIAS, tensor(m, h, layer, "mlp.c_fc.bias"), false);
    take(parameters, HSC_NN_FF_OUT_WEIGHT, tensor(m, h, layer, "mlp.c_proj.weight"), true);
    take(parameters, HSC_NN_FF_OUT_BIAS, tensor(m, h, layer, "mlp.c_proj.bias"), false);
    take(parameters, HSC_NN_NORM1_WEIGHT, tensor(m, h, layer, "ln_1.weight"), false);
    take(parameters, HSC_NN_NORM1_BIAS, tensor(m, h, layer, "ln_1.bias"), false);
    take(parameters, HSC_NN_NORM2_WEIGHT, tensor(m, h, layer, "ln_2.weight"), false);
    take(parameters, HSC_NN_NORM2_BIAS, tensor(m, h, layer, "ln_2.bias"), false);
}

static void test_gpt2(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N];
    int64_t count = 0;
    tiny_gpt2(&m);
    OK(hsc_model_open(&model, m.dir, NULL, &err));
    hsc_session *s = run_engine(model, ids);
    OK(hsc_nn_block_count(&block, &count, &err));
    float *parameters = floats((size_t)count), *weights = floats(HEADS * N * N), *logits = floats(N * TINY_VOCAB);
    float x[N * D];
    const float *wte = tensor(&m, "transformer.", -1, "wte.weight"),
                *wpe = tensor(&m, "transformer.", -1, "wpe.weight");
    OK(hsc_nn_embedding_forward(wte, TINY_VOCAB, D, ids, N, x, &err));
    for (int i = 0; i < N * D; i++) x[i] += wpe[i];
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        block_of(&m, layer, parameters);
        OK(hsc_nn_block_forward(&block, parameters, &(hsc_nn_mask){.causal = 1}, x, 1, N, x, weights, NULL, &err));
        assert_bits(weights, site(s, HSC_PATTERN, layer), HEADS * N * N, "pattern", layer);
        assert_bits(x, site(s, HSC_RESID_POST, layer), N * D, "resid_post", layer);
    }
    OK(hsc_nn_layer_norm_forward(x, tensor(&m, "transformer.", -1, "ln_f.weight"),
                                 tensor(&m, "transformer.", -1, "ln_f.bias"), 1e-5f, N, D, x, &err));
    OK(hsc_nn_linear_forward(&(hsc_nn_linear){.w = wte, .n_in = D, .n_out = TINY_VOCAB}, x, N, logits, &err));
    assert_bits(logits, site(s, HSC_LOGITS, 0), N * TINY_VOCAB, "logits", 0);
    free(parameters);
    free(weights);
    free(logits);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

/* ------------------------------------------------------------------------------------------------------- Llama ---- */

static const tiny_shape llama = {
    .d_model = 40, .n_heads = 4, .n_kv_heads = 2, .d_head = 12, .d_mlp = 70, .n_layers = 2, .n_ctx = 64};

static hsc_nn_linear map(const tiny_model *m, int layer, const char *name, int n_in, int n_out)
{
    return (hsc_nn_linear){.w = tensor(m, "model.layers.", layer, name), .n_in = n_in, .n_out = n_out};
}

/* [n][n_heads][d] -> [n_heads][n][d], and back. */
static void lead(const float *rows, int n_heads, int d, float *heads, bool back)
{
    for (int r = 0; r < N; r++) {
        for (int h = 0; h < n_heads; h++) {
            size_t row = (size_t)((r * n_heads + h) * d), head = (size_t)((h * N + r) * d);
            memcpy(heads + (back ? row : head), rows + (back ? head : row), (size_t)d * sizeof *heads);
        }
    }
}

/* z from the rotated queries and keys. */
static void check_attention(const hsc_session *s, int layer)
{
    int n_q = llama.n_heads, n_kv = llama.n_kv_heads, d = llama.d_head;
    float *q = floats((size_t)(N * n_q * d)), *k = floats((size_t)(N * n_kv * d)), *v = floats((size_t)(N * n_kv * d));
    float *out = floats((size_t)(N * n_q * d)), *z = floats((size_t)(N * n_q * d));
    hsc_nn_attention_shape shape = {.n_heads = n_q, .n_kv_heads = n_kv, .n_query = N, .n_key = N, .d_k = d, .d_v = d};
    lead(site(s, HSC_ROT_Q, layer), n_q, d, q, false);
    lead(site(s, HSC_ROT_K, layer), n_kv, d, k, false);
    lead(site(s, HSC_V, layer), n_kv, d, v, false);
    OK(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.causal = 1}, q, k, v, out, NULL, &err));
    lead(out, n_q, d, z, true);
    assert_bits(z, site(s, HSC_Z, layer), (size_t)(N * n_q * d), "z", layer);
    free(q);
    free(k);
    free(v);
    free(out);
    free(z);
}

static void check_rotation(const hsc_session *s, int layer)
{
    size_t n = (size_t)(N * llama.n_heads * llama.d_head);
    float *y = floats(n);
    const float *right = site(s, HSC_ROT_Q, layer), *q = site(s, HSC_Q, layer);
    OK(hsc_nn_rope_forward(&(hsc_nn_rope){.d_head = llama.d_head}, q, NULL, 1, N, llama.n_heads, y, &err));
    assert_bits(y, right, n, "rot_q", layer);
    free(y);
}

static void check_layer(const tiny_model *m, const hsc_session *s, int layer)
{
    int d = llama.d_model, q_size = llama.n_heads * llama.d_head;
    size_t n = (size_t)(N * d);
    float *x = floats(n), *q = floats((size_t)(N * q_size)), *branch = floats(n);
    const float *pre = site(s, HSC_RESID_PRE, layer), *mid = site(s, HSC_RESID_MID, layer);
    hsc_nn_linear w_q = map(m, layer, "self_attn.q_proj.weight", d, q_size);
    hsc_nn_linear w_o = map(m, layer, "self_attn.o_proj.weight", q_size, d);
    OK(hsc_nn_rms_norm_forward(pre, tensor(m, "model.layers.", layer, "input_layernorm.weight"), 1e-6f, N, d, x, &err));
    assert_bits(x, site(s, HSC_LN1, layer), n, "ln1", layer);
    OK(hsc_nn_linear_forward(&w_q, x, N, q, &err));
    assert_bits(q, site(s, HSC_Q, layer), (size_t)(N * q_size), "q", layer);
    check_rotation(s, layer);
    check_attention(s, layer);
    OK(hsc_nn_linear_forward(&w_o, site(s, HSC_Z, layer), N, branch, &err));
    for (size_t i = 0; i < n; i++) branch[i] += pre[i];
    assert_bits(branch, mid, n, "resid_mid", layer);
    OK(hsc_nn_rms_norm_forward(mid, tensor(m, "model.layers.", layer, "post_attention_layernorm.weight"), 1e-6f, N, d,
                               x, &err));
    hsc_nn_feed_forward ff = {.in = map(m, layer, "mlp.up_proj.weight", d, llama.d_mlp),
                              .gate = map(m, layer, "mlp.gate_proj.weight", d, llama.d_mlp),
                              .out = map(m, layer, "mlp.down_proj.weight", llama.d_mlp, d),
                              .activation = HSC_NN_SILU};
    OK(hsc_nn_feed_forward_forward(&ff, x, N, branch, NULL, &err));
    for (size_t i = 0; i < n; i++) branch[i] += mid[i];
    assert_bits(branch, site(s, HSC_RESID_POST, layer), n, "resid_post", layer);
    free(x);
    free(q);
    free(branch);
}

static void test_llama(void **state)
{
    (void)state;
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N];
    tiny_llama_of(&m, llama);
    OK(hsc_model_open(&model, m.dir, NULL, &err));
    hsc_session *s = run_engine(model, ids);
    for (int layer = 0; layer < llama.n_layers; layer++) check_layer(&m, s, layer);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2), cmocka_unit_test(test_llama)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
