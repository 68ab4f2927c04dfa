/*
 * Circuits and composition. OV and QK of a head against the formulas, written out here over the stored weights of a
 * GPT-2 and a Llama; copying scores against the ranks of the circuits; composition against products of whole matrices.
 */
#include "failing_alloc.h"
#include "headscope/analysis.h"
#include "inspect/eigen.h"
#include "tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { V = TINY_VOCAB, D_MAX = 48, DH_MAX = 20, LAYER = 1, HEAD = 1 };

static hsc_error err;
static tiny_model m;
static hsc_model *model;
static const hsc_config *config;
static bool llama;

static void open_tiny(bool is_llama)
{
    llama = is_llama;
    if (llama) tiny_llama(&m);
    else tiny_gpt2(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    config = hsc_model_config(model);
}

static void close_tiny(void)
{
    hsc_model_close(model);
    tiny_remove(&m);
}

static const float *tensor(int layer, const char *gpt2, const char *other)
{
    char name[96];
    snprintf(name, sizeof name, llama ? "model.layers.%d.%s.weight" : "transformer.h.%d.%s", layer,
             llama ? other : gpt2);
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.arrays[i].name, name) == 0) return m.arrays[i].data;
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Weight of input i and output o of q (0), k (1) or v (2) of a head. */
static double weight(int which, int layer, int head, int o, int i)
{
    static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    int d = config->d_model, dh = config->d_head;
    if (llama) return (double)tensor(layer, "", names[which])[(head * dh + o) * d + i];
    return (double)tensor(layer, "attn.c_attn.weight", "")[i * 3 * d + which * d + head * dh + o];
}

static double bias(int which, int layer, int head, int o)
{
    if (llama) return 0;
    return (double)tensor(layer, "attn.c_attn.bias", "")[which * config->d_model + head * config->d_head + o];
}

static double output(int layer, int head, int i, int o)
{
    int d = config->d_model, wide = config->n_heads * config->d_head, at = head * config->d_head + i;
    if (llama) return (double)tensor(layer, "", "self_attn.o_proj")[o * wide + at];
    return (double)tensor(layer, "attn.c_proj.weight", "")[at * d + o];
}

static int kv_of(int head)
{
    return head / (config->n_heads / config->n_kv_heads);
}

/* ---------------------------------------------------------------------------------------------------- circuits ---- */

/* The residual stream after layer 0 of single words, attention and positions taken out: by edits of an ordinary pass.
 */
static int zero(void *user, const hsc_block *b)
{
    (void)user;
    for (int r = 0; r < b->n_rows; r++) memset(b->data + (size_t)r * b->stride, 0, (size_t)b->row_size * sizeof(float));
    return 0;
}

static void effective(hsc_token word, double *x)
{
    hsc_session *s = NULL;
    hsc_view view;
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_session_observe(s, &(hsc_observer){HSC_ATTN_OUT, 0, zero, NULL}, &err), HSC_OK);
    if (!llama) assert_int_equal(hsc_session_observe(s, &(hsc_observer){HSC_POS_EMBED, 0, zero, NULL}, &err), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_LN1, LAYER, -1, -1}, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = &word, .n_tokens = 1}, &err), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_LN1, LAYER, 0, &view, &err), HSC_OK);
    for (int i = 0; i < config->d_model; i++) x[i] = (double)view.data[i];
    hsc_session_free(s);
}

static const float *global(const char *name)
{
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.arrays[i].name, name) == 0) return m.arrays[i].data;
    }
    return NULL;
}

/* unembed(ln_final(o)) */
static void read_out(const double *o, double *logits)
{
    const float *gain = global(llama ? "model.norm.weight" : "transformer.ln_f.weight"),
                *b = global("transformer.ln_f.bias");
    const float *u = global(llama ? "lm_head.weight" : "transformer.wte.weight");
    int d = config->d_model;
    double mean = 0, square = 0;
    for (int i = 0; i < d && !llama; i++) mean += o[i] / d;
    for (int i = 0; i < d; i++) square += (o[i] - mean) * (o[i] - mean) / d;
    for (int t = 0; t < V; t++) {
        logits[t] = 0;
        for (int i = 0; i < d; i++) {
            double y = (o[i] - mean) / sqrt(square + (llama ? 1e-6 : 1e-5)) * (double)gain[i] + (b ? (double)b[i] : 0);
            logits[t] += y * (double)u[t * d + i];
        }
    }
}

static double xs[V][D_MAX], ks[V][DH_MAX];

static void project(int which, int head, const double *x, double *out)
{
    for (int o = 0; o < config->d_head; o++) {
        out[o] = bias(which, LAYER, head, o);
        for (int i = 0; i < config->d_model; i++) out[o] += weight(which, LAYER, head, o, i) * x[i];
    }
}

static double largest(const double *x, int n, int *at)
{
    *at = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[*at]) *at = i;
    }
    return x[*at];
}

static void check_word(const hsc_circuit *c, int word)
{
    double v[DH_MAX], q[DH_MAX], o[D_MAX] = {0}, logits[V], scores[V];
    int at, rank = 0, turned = 0;
    size_t k = (size_t)(word * c->top_k);
    project(2, kv_of(HEAD), xs[word], v);
    project(0, HEAD, xs[word], q);
    for (int i = 0; i < config->d_head; i++) {
        for (int x = 0; x < config->d_model; x++) o[x] += v[i] * output(LAYER, HEAD, i, x);
    }
    read_out(o, logits);
    for (int t = 0; t < V; t++) {
        scores[t] = 0;
        for (int i = 0; i < config->d_head; i++) scores[t] += q[i] * ks[t][i] / sqrt(config->d_head);
        rank += logits[t] > logits[word];
        turned += logits[t] < logits[word];
    }
    assert_float_equal(c->write_logits[k], largest(logits, V, &at), 1e-4);
    assert_int_equal(c->writes[k], at);
    assert_float_equal(c->key_scores[k], largest(scores, V, &at), 1e-4);
    assert_int_equal(c->keys[k], at);
    assert_int_equal(c->own_ranks[word], rank);
    assert_int_equal(c->turned_ranks[word], turned);
    for (int t = 0; t < V; t++) logits[t] = -logits[t];
    assert_float_equal(-c->lowest_logits[k], largest(logits, V, &at), 1e-4);
    assert_int_equal(c->lowest[k], at);
}

static void check_circuit(bool is_llama, int threads)
{
    hsc_circuit c;
    open_tiny(is_llama);
    for (int t = 0; t < V; t++) {
        effective(t, xs[t]);
        project(1, kv_of(HEAD), xs[t], ks[t]);
    }
    hsc_circuit_options o = {.n_threads = threads, .top_k = 3};
    if (hsc_circuit_run(model, LAYER, HEAD, &o, &c, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(c.n_inputs, V);
    for (int t = 0; t < V; t++) check_word(&c, t);
    hsc_circuit_free(&c);
    close_tiny();
}

static void test_circuit(void **unused)
{
    (void)unused;
    check_circuit(false, 1);
    check_circuit(true, 3);
}

static void test_copying(void **unused)
{
    (void)unused;
    enum { TOP = 20 };
    hsc_token inputs[V];
    double copy[64], against[64];
    open_tiny(true);
    for (int i = 0; i < V; i++) inputs[i] = i;
    hsc_circuit_options o = {.inputs = inputs, .n_inputs = V, .top_k = TOP};
    assert_int_equal(hsc_circuit_copying(model, &o, copy, against, &err), HSC_OK);
    for (int h = 0; h < config->n_heads; h++) assert_true(isnan(copy[h]) && isnan(against[h]));
    for (int i = config->n_heads; i < config->n_layers * config->n_heads; i++) {
        hsc_circuit c;
        int n_copy = 0, n_against = 0;
        assert_int_equal(hsc_circuit_run(model, i / config->n_heads, i % config->n_heads, &o, &c, &err), HSC_OK);
        for (int t = 0; t < V; t++) {
            n_copy += c.own_ranks[t] < TOP;
            n_against += c.turned_ranks[t] < TOP;
        }
        assert_float_equal(copy[i] * V, n_copy, 0.01);
        assert_float_equal(against[i] * V, n_against, 0.01);
        hsc_circuit_free(&c);
    }
    close_tiny();
}

/* Where the output matrix is 0 all logits are one: words are then ordered by id, turned or not, and five are the five.
 */
static void test_ties(void **unused)
{
    (void)unused;
    enum { TOP = 5 };
    hsc_token inputs[V];
    double copy[64], against[64];
    hsc_circuit c;
    open_tiny(true);
    memset((void *)(uintptr_t)global("lm_head.weight"), 0, (size_t)(V * config->d_model) * sizeof(float));
    hsc_model_close(model);
    tiny_save(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    config = hsc_model_config(model);
    for (int i = 0; i < V; i++) inputs[i] = i;
    hsc_circuit_options o = {.inputs = inputs, .n_inputs = V, .top_k = TOP};
    assert_int_equal(hsc_circuit_run(model, LAYER, HEAD, &o, &c, &err), HSC_OK);
    for (int t = 0; t < V; t++) assert_true(c.own_ranks[t] == t && c.turned_ranks[t] == t);
    for (int k = 0; k < TOP; k++) assert_true(c.writes[k] == k && c.lowest[k] == k);
    hsc_circuit_free(&c);
    assert_int_equal(hsc_circuit_copying(model, &o, copy, against, &err), HSC_OK);
    for (int i = config->n_heads; i < config->n_layers * config->n_heads; i++)
        assert_true(fabs(copy[i] - (double)TOP / V) < 1e-12 && fabs(against[i] - (double)TOP / V) < 1e-12);
    close_tiny();
}

/* ------------------------------------------------------------------------------------------------- composition ---- */

/* The gain of the norm before attention; in a layer norm the mean of the row is taken out, too. */
static void folded(int which, int layer, int head, double rows[DH_MAX][D_MAX])
{
    const float *gain = tensor(layer, "ln_1.weight", "input_layernorm");
    int d = config->d_model;
    for (int o = 0; o < config->d_head; o++) {
        double mean = 0;
        for (int i = 0; i < d; i++) {
            rows[o][i] = weight(which, layer, head, o, i) * (double)gain[i];
            mean += llama ? 0 : rows[o][i] / d;
        }
        for (int i = 0; i < d; i++) rows[o][i] -= mean;
    }
}

typedef double square[D_MAX][D_MAX];

/* out = a^T b, rows by rows; b is W_O where `writes`. */
static void product(double a[DH_MAX][D_MAX], double b[DH_MAX][D_MAX], square out)
{
    for (int i = 0; i < config->d_model; i++) {
        for (int k = 0; k < config->d_model; k++) {
            out[i][k] = 0;
            for (int o = 0; o < config->d_head; o++) out[i][k] += a[o][i] * b[o][k];
        }
    }
}

static double norm(square a)
{
    double sum = 0;
    for (int i = 0; i < config->d_model; i++) {
        for (int k = 0; k < config->d_model; k++) sum += a[i][k] * a[i][k];
    }
    return sqrt(sum);
}

static void make_ov(int layer, int head, square out)
{
    double v[DH_MAX][D_MAX], o[DH_MAX][D_MAX];
    folded(2, layer, kv_of(head), v);
    for (int i = 0; i < config->d_head; i++) {
        for (int x = 0; x < config->d_model; x++) o[i][x] = output(layer, head, i, x);
    }
    product(v, o, out);
}

static double compose(hsc_compose kind, int l1, int h1, int l2, int h2)
{
    static square ov, second, both;
    double q[DH_MAX][D_MAX], k[DH_MAX][D_MAX];
    make_ov(l1, h1, ov);
    folded(0, l2, h2, q);
    folded(1, l2, kv_of(h2), k);
    if (kind == HSC_COMPOSE_Q) product(q, k, second);
    else if (kind == HSC_COMPOSE_K) product(k, q, second);
    else make_ov(l2, h2, second);
    for (int i = 0; i < config->d_model; i++) {
        for (int x = 0; x < config->d_model; x++) {
            both[i][x] = 0;
            for (int y = 0; y < config->d_model; y++) both[i][x] += ov[i][y] * second[y][x];
        }
    }
    return norm(both) / (norm(ov) * norm(second));
}

static void check_composition(bool is_llama, int threads)
{
    static float out[256];
    open_tiny(is_llama);
    int heads = config->n_heads, n = config->n_layers * heads;
    for (int kind = 0; kind < HSC_N_COMPOSES; kind++) {
        assert_int_equal(hsc_composition(model, (hsc_compose)kind, threads, out, &err), HSC_OK);
        for (int i = 0; i < n * n; i++) {
            int one = i / n, two = i % n;
            if (one / heads >= two / heads) assert_true(isnan(out[i]));
            else
                assert_float_equal(
                    out[i], compose((hsc_compose)kind, one / heads, one % heads, two / heads, two % heads), 1e-5);
        }
    }
    close_tiny();
}

static void test_composition(void **unused)
{
    (void)unused;
    check_composition(false, 1);
    check_composition(true, 3);
}

/* ------------------------------------------------------------------------------------------- eigenvalue score ---- */

/* W_U with the last norm folded in and the mean word taken out. */
static void folded_words(double u[V][D_MAX])
{
    const float *gain = global(llama ? "model.norm.weight" : "transformer.ln_f.weight");
    const float *words = global(llama ? "lm_head.weight" : "transformer.wte.weight");
    int d = config->d_model;
    double word[D_MAX] = {0};
    for (int t = 0; t < V; t++) {
        double mean = 0;
        for (int i = 0; i < d; i++) {
            u[t][i] = (double)words[t * d + i] * (double)gain[i];
            mean += llama ? 0 : u[t][i] / d;
        }
        for (int i = 0; i < d; i++) {
            u[t][i] -= mean;
            word[i] += u[t][i] / V;
        }
    }
    for (int t = 0; t < V; t++)
        for (int i = 0; i < d; i++) u[t][i] -= word[i];
}

/* The sum of the eigenvalues of W_U W_O W_V W_E over the sum of their sizes, from W_V (W_E W_U) W_O, which has the same
 * ones but for zeros. */
static double eigen_score(int layer, int head, square middle)
{
    double v[DH_MAX][D_MAX], a[DH_MAX * DH_MAX], real[DH_MAX], imag[DH_MAX], sum = 0, sizes = 0;
    int d = config->d_model, dh = config->d_head;
    folded(2, layer, kv_of(head), v);
    for (int x = 0; x < dh; x++) {
        for (int y = 0; y < dh; y++) {
            a[x * dh + y] = 0;
            for (int i = 0; i < d; i++)
                for (int k = 0; k < d; k++) a[x * dh + y] += v[x][i] * middle[i][k] * output(layer, head, y, k);
        }
    }
    assert_true(hsc__eigenvalues(a, dh, real, imag));
    for (int i = 0; i < dh; i++) {
        sum += real[i];
        sizes += hypot(real[i], imag[i]);
    }
    return sum / sizes;
}

static void check_eigen(bool is_llama, int threads)
{
    static double u[V][D_MAX];
    static square middle;
    double scores[64];
    open_tiny(is_llama);
    int d = config->d_model;
    const float *words = global(llama ? "model.embed_tokens.weight" : "transformer.wte.weight");
    folded_words(u);
    for (int i = 0; i < d; i++) {
        for (int k = 0; k < d; k++) {
            middle[i][k] = 0;
            for (int t = 0; t < V; t++) middle[i][k] += (double)words[t * d + i] * u[t][k];
        }
    }
    assert_int_equal(hsc_circuit_eigen(model, &(hsc_circuit_options){.n_threads = threads}, scores, &err), HSC_OK);
    for (int i = 0; i < config->n_layers * config->n_heads; i++) {
        double want = eigen_score(i / config->n_heads, i % config->n_heads, middle);
        assert_true(fabs(scores[i] - want) < 1e-4);
    }
    close_tiny();
}

static void test_eigen(void **unused)
{
    (void)unused;
    check_eigen(false, 1);
    check_eigen(true, 3);
}

/* ----------------------------------------------------------------------------------------------------- refusals ----
 */

static int stop(void *user, int n_done, int n_all)
{
    (void)user;
    (void)n_done;
    (void)n_all;
    return 1;
}

static void test_refused(void **unused)
{
    (void)unused;
    hsc_circuit c;
    hsc_token out_of_range = V;
    double scores[64];
    static float out[256];
    open_tiny(false);
    assert_int_equal(hsc_circuit_run(model, 99, 0, NULL, &c, &err), HSC_EINVAL);
    assert_int_equal(hsc_circuit_run(model, 0, 99, NULL, &c, &err), HSC_EINVAL);
    const hsc_circuit_options bad[] = {
        {.top_k = -1}, {.inputs = &out_of_range, .n_inputs = 1}, {.inputs = &out_of_range}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hsc_circuit_run(model, 1, 0, &bad[i], &c, &err), HSC_EINVAL);
    assert_int_equal(hsc_circuit_run(model, 1, 0, &(hsc_circuit_options){.tell = stop}, &c, &err), HSC_ECANCELED);
    assert_int_equal(hsc_circuit_copying(model, NULL, scores, scores, &err), HSC_EINVAL);
    assert_int_equal(hsc_composition(model, HSC_N_COMPOSES, 1, out, &err), HSC_EINVAL);
    close_tiny();
    tiny_bert(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    assert_int_equal(hsc_circuit_run(model, 1, 0, NULL, &c, &err), HSC_EUNSUPPORTED);
    close_tiny();
}

static hsc_status circuit_once(void *unused)
{
    (void)unused;
    hsc_circuit c;
    hsc_status status = hsc_circuit_run(model, 1, 0, NULL, &c, &err);
    if (status == HSC_OK) hsc_circuit_free(&c);
    return status;
}

static hsc_status composition_once(void *unused)
{
    (void)unused;
    static float scores[256];
    return hsc_composition(model, HSC_COMPOSE_K, 2, scores, &err);
}

static hsc_status eigen_once(void *unused)
{
    (void)unused;
    static double eigen[256];
    return hsc_circuit_eigen(model, NULL, eigen, &err);
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    failing_alloc a;
    failing_alloc_install(&a, 0);
    open_tiny(true);
    failing_alloc_each(&a, circuit_once, NULL);
    failing_alloc_each(&a, composition_once, NULL);
    failing_alloc_each(&a, eigen_once, NULL);
    close_tiny();
    failing_alloc_remove();
}

/* Behind a norm of the embedding (BLOOM) the length of a word's row says nothing, so no score knows it. */
static void test_embedding_norm(void **state)
{
    (void)state;
    double scores[2][TINY_LAYERS * 6];
    char path[128];
    tiny_bloom(&m);
    tiny_add(&m, "lm_head.weight", V, 48, 1, 0);
    snprintf(path, sizeof path, "%s/config.json", m.dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"model_type\":\"bloom\",\"hidden_size\":48,\"n_layer\":3,\"n_head\":6,\"vocab_size\":97,"
          "\"tie_word_embeddings\":false}",
          f);
    fclose(f);
    for (int run = 0; run < 2; run++) {
        float *words = (float *)(uintptr_t)m.arrays[0].data;
        assert_string_equal(m.arrays[0].name, "transformer.word_embeddings.weight");
        for (int i = 0; run && i < V * 48; i++) words[i] *= (float)(1 + i / 48 % 7);
        tiny_save(&m);
        assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
        assert_int_equal(hsc_circuit_eigen(model, NULL, scores[run], &err), HSC_OK);
        hsc_model_close(model);
    }
    for (int i = 0; i < TINY_LAYERS * 6; i++) assert_true(fabs(scores[0][i] - scores[1][i]) < 1e-3);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_circuit),       cmocka_unit_test(test_copying),
                                       cmocka_unit_test(test_ties),          cmocka_unit_test(test_eigen),
                                       cmocka_unit_test(test_composition),   cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_embedding_norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
