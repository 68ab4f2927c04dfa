/*
 * Mean patterns from recorded ones; rollout from products of whole matrices; flow on a graph worked out by hand,
 * against the smallest cut of small random graphs, and its bounds; norms of values from the recorded values and the
 * stored W_O.
 */
#include "failing_alloc.h"
#include "headscope/analysis.h"
#include "tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 23, L = TINY_LAYERS };

static hsc_error err;

/* ---------------------------------------------------------------------------------------------------- a model's ----
 */

static void check_norms(const hsc_model *model, const hsc_token *ids, const hsc_session *s, const float *w_o,
                        bool transposed)
{
    static float out[L * 8 * N], plain[L * 8 * N];
    const hsc_config *c = hsc_model_config(model);
    hsc_view v;
    int dh = c->d_head, wide = c->n_heads * dh, d = c->d_model, last = L - 1;
    assert_int_equal(hsc_value_norms(model, ids, N, HSC_NORM_OUTPUT, &(hsc_mix_options){.n_threads = 2}, out, &err),
                     HSC_OK);
    assert_int_equal(hsc_value_norms(model, ids, N, HSC_NORM_VALUE, NULL, plain, &err), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_V, last, 0, &v, &err), HSC_OK);
    for (int h = 0; h < c->n_heads; h++) {
        int kv = h / (c->n_heads / c->n_kv_heads);
        for (int k = 0; k < N; k++) {
            const float *x = v.data + (k * c->n_kv_heads + kv) * dh;
            double square = 0, own = 0;
            for (int i = 0; i < dh; i++) own += (double)x[i] * (double)x[i];
            for (int o = 0; o < d; o++) {
                double sum = 0;
                for (int i = 0; i < dh; i++)
                    sum += (double)x[i] * (double)w_o[transposed ? (h * dh + i) * d + o : o * wide + h * dh + i];
                square += sum * sum;
            }
            assert_float_equal(out[(last * c->n_heads + h) * N + k], sqrt(square), 1e-4);
            assert_float_equal(plain[(last * c->n_heads + h) * N + k], sqrt(own), 1e-5);
        }
    }
}

static void check_model(bool llama)
{
    tiny_model m;
    hsc_model *model = NULL;
    hsc_session *s = NULL;
    hsc_view p;
    hsc_token ids[N];
    static float means[L * N * N];
    const float *w_o = NULL;
    if (llama) tiny_llama(&m);
    else tiny_gpt2(&m);
    tiny_ids(ids, N);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    const hsc_config *c = hsc_model_config(model);
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, &err), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_V, -1, -1, -1}, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, &err), HSC_OK);
    assert_int_equal(hsc_mean_patterns(model, ids, N, &(hsc_mix_options){.n_threads = 3}, means, &err), HSC_OK);
    for (int l = 0; l < L; l++) {
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, l, 0, &p, &err), HSC_OK);
        for (int i = 0; i < N * N; i++) {
            double sum = 0;
            for (int h = 0; h < c->n_heads; h++) sum += (double)p.data[h * N * N + i];
            assert_float_equal(means[l * N * N + i], sum / c->n_heads, 1e-7);
        }
    }
    const char *name = llama ? "model.layers.2.self_attn.o_proj.weight" : "transformer.h.2.attn.c_proj.weight";
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.arrays[i].name, name) == 0) w_o = m.arrays[i].data;
    }
    check_norms(model, ids, s, w_o, !llama);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_model(void **unused)
{
    (void)unused;
    check_model(false);
    check_model(true);
}

/* ------------------------------------------------------------------------------------------------------ rollout ----
 */

/* Rows of positive weights that sum to 1; causal ones see no later key. */
static void random_means(float *means, int n_layers, int n, bool causal, unsigned *state)
{
    for (int row = 0; row < n_layers * n; row++) {
        float sum = 0;
        for (int k = 0; k < n; k++) {
            *state = *state * 1664525U + 1013904223U;
            means[row * n + k] = causal && k > row % n ? 0 : (float)(*state >> 16) / 65536.0f + 0.01f;
            sum += means[row * n + k];
        }
        for (int k = 0; k < n; k++) means[row * n + k] /= sum;
    }
}

static void test_rollout(void **unused)
{
    (void)unused;
    enum { R = 7 };
    float means[L * R * R], out[L * R * R];
    double product[R][R], next[R][R];
    unsigned state = 5;
    random_means(means, L, R, true, &state);
    assert_int_equal(hsc_rollout(means, L, R, out, &err), HSC_OK);
    for (int i = 0; i < R; i++) {
        for (int k = 0; k < R; k++) product[i][k] = i == k;
    }
    for (int l = 0; l < L; l++) {
        for (int i = 0; i < R; i++) {
            double sum = 0;
            for (int k = 0; k < R; k++) {
                next[i][k] = 0;
                for (int x = 0; x < R; x++)
                    next[i][k] += ((double)means[(l * R + i) * R + x] + (i == x)) / 2 * product[x][k];
                assert_float_equal(out[(l * R + i) * R + k], next[i][k], 1e-6);
                sum += (double)out[(l * R + i) * R + k];
            }
            assert_float_equal(sum, 1, 1e-5);
        }
        memcpy(product, next, sizeof next);
    }
    float kept[L * R * R];
    memcpy(kept, out, sizeof kept);
    assert_int_equal(hsc_rollout(means, L, R, means, &err), HSC_OK);
    assert_memory_equal(means, kept, sizeof kept);
    assert_int_equal(hsc_rollout(means, 0, R, means, &err), HSC_EINVAL);
}

/* --------------------------------------------------------------------------------------------------------- flow ----
 */

/* The smallest cut between (n_layers, query) and (0, input), by trying all. */
static double smallest_cut(const float *means, int n_layers, int n, int query, int input)
{
    int n_nodes = (n_layers + 1) * n, source = n_layers * n + query;
    double best = INFINITY;
    for (unsigned set = 0; set < 1U << n_nodes; set++) {
        double cut = 0;
        if (!(set >> source & 1) || (set >> input & 1)) continue;
        for (int l = 1; l <= n_layers; l++) {
            for (int q = 0; q < n; q++) {
                for (int k = 0; k < n && set >> (l * n + q) & 1; k++) {
                    if (!(set >> ((l - 1) * n + k) & 1))
                        cut += 0.5 * (double)means[((l - 1) * n + q) * n + k] + (q == k ? 0.5 : 0);
                }
            }
        }
        best = cut < best ? cut : best;
    }
    return best;
}

static void test_flow(void **unused)
{
    (void)unused;
    enum { F = 4, LAYERS = 3 };
    float means[LAYERS * F * F];
    double out[F];
    unsigned state = 1;
    for (int round = 0; round < 4; round++) {
        random_means(means, LAYERS, F, round % 2, &state);
        for (int query = 0; query < F; query += 3) {
            assert_int_equal(hsc_flow(means, LAYERS, F, query, 1 + round, out, &err), HSC_OK);
            for (int input = 0; input < F; input++)
                assert_float_equal(out[input], smallest_cut(means, LAYERS, F, query, input), 1e-9);
        }
    }
    assert_int_equal(hsc_flow(means, LAYERS, F, F, 1, out, &err), HSC_EINVAL);
    assert_int_equal(hsc_flow(means, LAYERS, HSC_FLOW_TOKENS + 1, 0, 1, out, &err), HSC_EINVAL);
    const float wrong[] = {NAN, INFINITY, -1e-3f}; /* no end of a flow through these */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        means[F + 2] = wrong[i];
        assert_int_equal(hsc_flow(means, LAYERS, F, 1, 2, out, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, "token 1 on token 2 in layer 0"));
    }
}

/* Two layers of two tokens. */
static void test_flow_by_hand(void **unused)
{
    (void)unused;
    const float means[] = {1, 0, 0.5f, 0.5f, 1, 0, 0.8f, 0.2f};
    double out[2];
    /* A' of layer 1: (1, 0), (0.25, 0.75); of layer 2: (1, 0), (0.4, 0.6). To input 0: 0.4 over token 0, and of the 0.6
     * over token 1 only 0.25 fit. To input 1: 0.6 over token 1, where 0.75 would fit. */
    assert_int_equal(hsc_flow(means, 2, 2, 1, 1, out, &err), HSC_OK);
    assert_float_equal(out[0], 0.65, 1e-7);
    assert_float_equal(out[1], 0.6, 1e-7);
}

enum { F = 5 };

static hsc_status flow_once(void *means)
{
    double out[F];
    return hsc_flow(means, L, F, 2, 2, out, &err);
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    failing_alloc a;
    float means[L * F * F];
    unsigned state = 3;
    random_means(means, L, F, true, &state);
    failing_alloc_install(&a, 0);
    failing_alloc_each(&a, flow_once, means);
    failing_alloc_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_rollout),
                                       cmocka_unit_test(test_flow), cmocka_unit_test(test_flow_by_hand),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
