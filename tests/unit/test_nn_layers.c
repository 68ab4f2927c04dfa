/*
 * The layers where others break: masks that hide everything, scores far from 0, rows without variance, known values of
 * the rotary embedding, parameters counted by hand; refusals, memory that runs out, and the same bits for any rows
 * beside. Right values come from float64 and the definitions.
 */
#include "nn_reference.h"

#include "failing_alloc.h"

#include <limits.h>

#define OK(call) assert_int_equal((call), HSC_OK)
#define REFUSED(call, words)                                                                                           \
    do {                                                                                                               \
        hsc_error err = {0};                                                                                           \
        assert_int_equal((call), HSC_EINVAL);                                                                          \
        if (!strstr(err.message, words)) fail_msg("'%s' does not say '%s'", err.message, words);                       \
    } while (0)

static void assert_near(double x, double right, double bar)
{
    if (!(fabs(x - right) <= bar)) fail_msg("%.9g is not %.9g", x, right);
}

/* --------------------------------------------------------------------------------------------------- attention ---- */

/* B13: a query that sees nothing has weights and output 0, and no derivative. */
static void test_nothing_to_see(void **state)
{
    (void)state;
    const float q[] = {1, 0, 0, 1}, v[] = {1, 2, 3, 4}, dout[] = {5, 6, 7, 8};
    const unsigned char allowed[] = {0, 0, 1, 1};
    float out[4], w[4], dq[4] = {0}, dk[4] = {0}, dv[4] = {0};
    hsc_nn_attention_shape shape = {.n_query = 2, .n_key = 2, .d_k = 2, .d_v = 2};
    hsc_nn_mask mask = {.allowed = allowed};
    OK(hsc_nn_attention_forward(&shape, &mask, q, q, v, out, w, NULL));
    const double right_w[] = {0, 0, 0.330238, 0.669762}, right_out[] = {0, 0, 2.339523, 3.339523};
    for (int i = 0; i < 4; i++) {
        assert_near(w[i], right_w[i], 5e-7);
        assert_near(out[i], right_out[i], 1e-6);
    }
    assert_true(w[0] == 0 && w[1] == 0 && out[0] == 0 && out[1] == 0);
    OK(hsc_nn_attention_backward(&shape, &mask, q, q, v, w, dout, dq, dk, dv, NULL));
    assert_true(dq[0] == 0 && dq[1] == 0);
    for (int i = 0; i < 4; i++) assert_true(isfinite(dq[i]) && isfinite(dk[i]) && isfinite(dv[i]));
    assert_near(dv[0], 0.330238 * 7, 1e-5); /* only the second query looks at the first value */
    /* Causal and left padding at once: the padding's rows see nothing, the others each other. */
    const unsigned char real[] = {0, 0, 1, 1};
    unsigned char table[16], causal[16];
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8], p[16];
    hsc_nn_mask_padding(real, 1, 4, 4, table);
    hsc_nn_mask_causal(4, 4, causal);
    hsc_nn_mask_and(table, causal, 16, table);
    hsc_nn_attention_shape four = {.n_query = 4, .n_key = 4, .d_k = 2, .d_v = 2};
    OK(hsc_nn_attention_forward(&four, &(hsc_nn_mask){.allowed = table}, x, x, x, y, p, NULL));
    for (int i = 0; i < 8; i++) assert_true(p[i] == 0);
    for (int i = 0; i < 4; i++) assert_true(y[i] == 0);
    assert_true(p[10] == 1 && p[8] == 0 && p[9] == 0 && p[11] == 0 && y[4] == 5 && y[5] == 6);
    assert_near(p[14] + p[15], 1, 1e-6);
}

/* B15: scores of -1e6, and a first row whose only score is -20000. */
static void test_very_negative_scores(void **state)
{
    (void)state;
    const float q = 1024, k[] = {-1000, -1000 - 1.0f / 1024}, v[] = {1, 0}; /* scores one apart, exactly */
    float out, w[2];
    hsc_nn_attention_shape shape = {.n_query = 1, .n_key = 2, .d_k = 1, .d_v = 1};
    OK(hsc_nn_attention_forward(&shape, NULL, &q, k, v, &out, w, NULL));
    assert_near(w[0], 0.7310586, 1e-6);
    assert_near(w[1], 0.2689414, 1e-6);
    float qs[] = {-20000, 1}, ks[] = {1, 1}, rows[4], outs[2];
    hsc_nn_attention_shape two = {.n_query = 2, .n_key = 2, .d_k = 1, .d_v = 1};
    OK(hsc_nn_attention_forward(&two, &(hsc_nn_mask){.causal = 1}, qs, ks, v, outs, rows, NULL));
    assert_true(rows[0] == 1 && rows[1] == 0 && outs[0] == 1);
}

/* Key heads are repeated 0 0 1 1, not 0 1 0 1. */
static void test_key_heads(void **state)
{
    (void)state;
    float q[4] = {0}, k[2] = {0}, v[2] = {0, 1}, out[4];
    hsc_nn_attention_shape shape = {.n_heads = 4, .n_kv_heads = 2, .n_query = 1, .n_key = 1, .d_k = 1, .d_v = 1};
    OK(hsc_nn_attention_forward(&shape, NULL, q, k, v, out, NULL, NULL));
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 1 && out[3] == 1);
    shape.n_kv_heads = 3;
    REFUSED(hsc_nn_attention_forward(&shape, NULL, q, k, v, out, NULL, &err), "n_kv_heads, 3, does not divide");
}

/* B20: 1, 2, 3, 4, 4, 4 keys for a window of 4; the table and the mask's own words agree to the bit. */
static void test_windows(void **state)
{
    (void)state;
    enum { N = 6 };
    unsigned char table[N * N], all[N * N], again[N * N];
    float *q = ref_random(N * 3, 1), *k = ref_random(N * 3, 1), *v = ref_random(N * 3, 1);
    float a[N * 3], b[N * 3], wa[N * N], wb[N * N];
    hsc_nn_mask_sliding(N, N, 4, table);
    for (int r = 0; r < N; r++) {
        int seen = 0;
        for (int c = 0; c < N; c++) seen += table[r * N + c];
        assert_int_equal(seen, r < 4 ? r + 1 : 4);
        assert_true(table[r * N + r] && (r < 4 || !table[r * N + r - 4]));
    }
    hsc_nn_attention_shape shape = {.n_query = N, .n_key = N, .d_k = 3, .d_v = 3};
    OK(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.allowed = table}, q, k, v, a, wa, NULL));
    OK(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.causal = 1, .window = 4}, q, k, v, b, wb, NULL));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(wa, wb, sizeof wa);
    hsc_nn_mask_sliding(N, N, 0, table); /* no window, and one that is wide enough: causal alone */
    hsc_nn_mask_causal(N, N, all);
    assert_memory_equal(table, all, sizeof all);
    hsc_nn_mask_sliding(N, N, N, table);
    assert_memory_equal(table, all, sizeof all);
    hsc_nn_mask_invert(all, N * N, again);
    assert_true(again[1] == 1 && again[N] == 0);
    hsc_nn_mask_invert(again, N * N, again);
    assert_memory_equal(again, all, sizeof all);
    hsc_nn_mask_causal(2, N, all); /* the last two queries, as with a cache */
    OK(hsc_nn_attention_forward(&(hsc_nn_attention_shape){.n_query = 2, .n_key = N, .d_k = 3, .d_v = 3},
                                &(hsc_nn_mask){.causal = 1}, q + 4 * 3, k, v, a, wa, NULL));
    OK(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.causal = 1}, q, k, v, b, wb, NULL));
    assert_memory_equal(a, b + 4 * 3, 6 * sizeof *a);
    for (int i = 0; i < 2 * N; i++) assert_int_equal(all[i], wa[i] > 0);
    free(q);
    free(k);
    free(v);
}

/* ------------------------------------------------------------------------------------------------------- the rest --
 */

/* B21, float64: pairs (i, i + d/2) and (2i, 2i + 1). */
static void test_rope_pairs(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4};
    const double half[] = {-1.984111, 1.959901, 2.462378, 4.019800},
                 pairs[] = {-1.142640, 1.922076, 2.959851, 4.029800};
    float y[4];
    hsc_nn_rope rope = {.d_head = 4};
    OK(hsc_nn_rope_forward(&rope, x, (const int[]){1}, 1, 1, 1, y, NULL));
    for (int i = 0; i < 4; i++) assert_near(y[i], half[i], 1e-6);
    rope.interleaved = 1;
    OK(hsc_nn_rope_forward(&rope, x, (const int[]){1}, 1, 1, 1, y, NULL));
    for (int i = 0; i < 4; i++) assert_near(y[i], pairs[i], 1e-6);
    rope.n_rotated = 3;
    REFUSED(hsc_nn_rope_forward(&rope, x, NULL, 1, 1, 1, y, &err), "n_rotated is 3");
}

static void test_waves(void **state)
{
    (void)state;
    float pe[53 * 16], turn[8][2][2];
    OK(hsc_nn_sinusoid(53, 16, 10000, pe, NULL));
    OK(hsc_nn_sinusoid_rotation(3, 16, 10000, &turn[0][0][0], NULL));
    for (int pos = 0; pos < 50; pos++) {
        for (int i = 0; i < 8; i++) {
            const float *at = pe + pos * 16 + 2 * i, *after = at + 3 * 16;
            double angle = pos / pow(10000, 2 * i / 16.0);
            assert_near(at[0], sin(angle), 1e-7);
            assert_near(at[1], cos(angle), 1e-7);
            for (int r = 0; r < 2; r++) assert_near(turn[i][r][0] * at[0] + turn[i][r][1] * at[1], after[r], 5e-7);
        }
    }
    REFUSED(hsc_nn_sinusoid(1, 3, 10000, pe, &err), "d_model is 3");
    REFUSED(hsc_nn_sinusoid(1, 2, 0, pe, &err), "base is 0");
}

/* X12: variance 0 gives the bias and derivatives that are numbers. */
static void test_constant_row(void **state)
{
    (void)state;
    float x[] = {7, 7, 7, 1, 2, 3}, gain[] = {1, 2, 3}, bias[] = {4, 5, 6}, dy[] = {1, -2, 3, 1, 1, 1}, y[6];
    for (float eps = 0; eps < 1; eps += 0.6f) {
        float dx[6] = {0}, dgain[3] = {0}, dbias[3] = {0};
        if (eps > 0) {
            OK(hsc_nn_layer_norm_forward(x, gain, bias, eps, 2, 3, y, NULL));
            for (int i = 0; i < 3; i++) assert_true(y[i] == bias[i]);
        }
        OK(hsc_nn_layer_norm_backward(x, gain, eps, dy, 2, 3, dx, dgain, dbias, NULL));
        for (int i = 0; i < 6; i++) assert_true(isfinite(dx[i]));
        assert_true(dbias[0] == 2 && dbias[1] == -1 && dbias[2] == 4);
    }
}

static void test_losses(void **state)
{
    (void)state;
    float logits[] = {0, 0, 0, 0, 200, -200, 0, 0, 1, 2, 3, 4}, losses[3], d[12] = {0}, one[] = {1, 1, 1};
    const hsc_token targets[] = {3, 1, -1};
    OK(hsc_nn_cross_entropy_forward(logits, targets, 3, 4, losses, NULL));
    assert_near(losses[0], log(4), 1e-6);
    assert_near(losses[1], 400, 1e-4); /* its weight, exp(-400), is no float */
    assert_true(losses[2] == 0);
    OK(hsc_nn_cross_entropy_backward(logits, targets, one, 3, 4, d, NULL));
    assert_near(d[3], -0.75, 1e-6);
    assert_near(d[5], -1, 1e-6);
    for (int i = 8; i < 12; i++) assert_true(d[i] == 0);
    REFUSED(hsc_nn_cross_entropy_forward(logits, (const hsc_token[]){4}, 1, 4, losses, &err), "targets[0] is 4");
}

static void test_derivatives_add_up(void **state)
{
    (void)state;
    float x[] = {1, 2}, dy[] = {3}, w[] = {4, 5}, dx[] = {10, 20}, dw[] = {30, 40}, db[] = {50};
    hsc_nn_linear map = {w, NULL, 2, 1, 0};
    OK(hsc_nn_linear_backward(&map, x, dy, 1, dx, &(hsc_nn_linear_grad){dw, db}, NULL));
    assert_true(dx[0] == 22 && dx[1] == 35 && dw[0] == 33 && dw[1] == 46 && db[0] == 53);
    OK(hsc_nn_linear_backward(&map, x, dy, 1, NULL, NULL, NULL)); /* nothing wanted */
}

static void test_activations_far_out(void **state)
{
    (void)state;
    const float x[] = {1e30f, -1e30f, 1e5f, -1e5f, 100, -100, 0};
    for (int kind = 0; kind < HSC_NN_N_ACTIVATIONS; kind++) {
        float dx[7] = {0}, one[] = {1, 1, 1, 1, 1, 1, 1};
        OK(hsc_nn_activation_backward((hsc_nn_activation)kind, x, one, 7, dx, NULL));
        for (int i = 0; i < 6; i += 2) assert_true(dx[i] == (kind == HSC_NN_TANH ? 0 : 1));
        for (int i = 1; i < 6; i += 2) assert_near(dx[i], 0, 1e-30);
        assert_near(dx[6], kind == HSC_NN_RELU ? 0 : kind == HSC_NN_TANH ? 1 : 0.5, 1e-7);
    }
    assert_string_equal(hsc_nn_activation_name(HSC_NN_GELU_TANH), "gelu_tanh");
    assert_null(hsc_nn_activation_name(HSC_NN_N_ACTIVATIONS));
    float y;
    REFUSED(hsc_nn_activation_forward(HSC_NN_N_ACTIVATIONS, x, 1, &y, &err), "activation is 5");
}

/* By hand: attention 4 d^2 + 4 d, feed-forward 2 d f + f + d, two norms 4 d. */
static void test_counts(void **state)
{
    (void)state;
    static const struct {
        int d, heads, f;
        int64_t count;
    } known[] = {{64, 4, 256, 49984}, {768, 12, 3072, 7087872}, {1, 1, 1, 16}};
    for (int i = 0; i < 3; i++) {
        hsc_nn_block block = {.d_model = known[i].d, .n_heads = known[i].heads, .d_ff = known[i].f};
        int64_t count = 0, sum = 0;
        OK(hsc_nn_block_count(&block, &count, NULL));
        assert_true(count == known[i].count);
        for (int t = 0; t < HSC_NN_N_BLOCK_TENSORS; t++) {
            hsc_nn_parameter p;
            OK(hsc_nn_block_parameter(&block, (hsc_nn_block_tensor)t, &p, NULL));
            assert_true(p.offset == sum && p.count == (p.n_dims == 2 ? (int64_t)p.shape[0] * p.shape[1] : p.shape[0]));
            sum += p.count;
        }
        assert_true(sum == count);
    }
    hsc_nn_parameter p;
    OK(hsc_nn_block_parameter(&(hsc_nn_block){8, 2, 16, HSC_NN_RELU, 0}, HSC_NN_FF_OUT_WEIGHT, &p, NULL));
    assert_string_equal(p.name, "ff.2.weight");
    assert_true(p.n_dims == 2 && p.shape[0] == 8 && p.shape[1] == 16);
    int64_t count;
    REFUSED(hsc_nn_block_count(&(hsc_nn_block){10, 3, 8, HSC_NN_RELU, 0}, &count, &err), "n_heads, 3, does not divide");
    REFUSED(hsc_nn_block_count(&(hsc_nn_block){0, 1, 8, HSC_NN_RELU, 0}, &count, &err), "d_model is 0");
}

static void test_refusals(void **state)
{
    (void)state;
    float x[4] = {0}, y[4];
    hsc_nn_attention_shape shape = {.n_query = 2, .n_key = 1, .d_k = 1, .d_v = 1};
    REFUSED(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.causal = 1}, x, x, x, y, NULL, &err), "too many");
    REFUSED(hsc_nn_attention_forward(&shape, NULL, x, NULL, x, y, NULL, &err), "k is NULL");
    shape.n_key = 3;
    const unsigned char table[6] = {1};
    REFUSED(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.allowed = table, .causal = 1}, x, x, x, y, NULL, &err),
            "as many queries as keys");
    REFUSED(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.window = -1}, x, x, x, y, NULL, &err), "window is -1");
    shape.n_query = 0;
    REFUSED(hsc_nn_attention_forward(&shape, NULL, x, x, x, y, NULL, &err), "n_query is 0");
    REFUSED(hsc_nn_linear_forward(&(hsc_nn_linear){x, NULL, 0, 1, 0}, x, 1, y, &err), "n_in is 0");
    REFUSED(hsc_nn_linear_forward(NULL, x, 1, y, &err), "map is NULL");
    REFUSED(hsc_nn_softmax_forward(x, -1, 1, y, &err), "n_rows is -1");
    REFUSED(hsc_nn_layer_norm_forward(x, NULL, NULL, -1, 1, 1, y, &err), "eps is -1");
    REFUSED(hsc_nn_embedding_forward(x, 2, 2, (const hsc_token[]){2}, 1, y, &err), "ids[0] is 2");
    REFUSED(
        hsc_nn_heads_forward(
            &(hsc_nn_heads){.n_heads = 3, .q = {x, NULL, 2, 2, 0}, .k = {x, NULL, 2, 2, 0}, .v = {x, NULL, 2, 2, 0}},
            NULL, x, 1, 1, y, NULL, NULL, &err),
        "cannot be cut into 3 heads");
    OK(hsc_nn_linear_forward(&(hsc_nn_linear){x, NULL, 1, 1, 0}, NULL, 0, NULL, NULL)); /* no rows: nothing happens */
    OK(hsc_nn_softmax_forward(NULL, 0, 1, NULL, NULL));
}

/* Sizes whose products, or whose rounding up, no int holds; under the sanitizers this is more than a wrong message. */
static void test_sizes_out_of_range(void **state)
{
    (void)state;
    float x[8] = {0}, y[8];
    hsc_nn_attention_shape shape = {.n_batch = 65536, .n_heads = 65536, .n_query = 1, .n_key = 1, .d_k = 1, .d_v = 1};
    REFUSED(hsc_nn_attention_forward(&shape, NULL, x, x, x, y, NULL, &err), "65536 batches of 65536 heads");
    shape = (hsc_nn_attention_shape){.n_query = 1, .n_key = INT_MAX, .d_k = 1, .d_v = 1};
    REFUSED(hsc_nn_attention_forward(&shape, NULL, x, x, x, y, NULL, &err), "n_key is 2147483647, and must be from 1");
    assert_int_equal(hsc_nn_attention_forward(&shape, NULL, x, x, x, y, NULL, NULL), HSC_EINVAL);
    hsc_nn_block block = {.d_model = 1, .n_heads = 1, .d_ff = 1};
    REFUSED(hsc_nn_block_forward(&block, x, NULL, x, 46341, 46341, y, NULL, NULL, &err), "46341 batches of 46341 rows");
    hsc_nn_heads heads = {.q = hsc_nn_matrix(x, 1, 1), .k = hsc_nn_matrix(x, 1, 1), .v = hsc_nn_matrix(x, 1, 1)};
    REFUSED(hsc_nn_heads_forward(&heads, NULL, x, INT_MAX, 1, y, NULL, NULL, &err), "n_batch is 2147483647");
    hsc_nn_rope rope = {.d_head = 65536};
    REFUSED(hsc_nn_rope_forward(&rope, x, NULL, 65536, 65536, 65536, y, &err), "too many");
    REFUSED(hsc_nn_linear_forward(&(hsc_nn_linear){x, NULL, INT_MAX, 1, 0}, x, 1, y, &err), "n_in is 2147483647");
    assert_int_equal(hsc_nn_block_kept(&block, INT_MAX, INT_MAX), 0);
    assert_int_equal(hsc_nn_heads_kept(&heads, INT_MAX, INT_MAX), 0);
    assert_int_equal(hsc_nn_heads_kept(NULL, 1, 1), 0);
    assert_int_equal(hsc_nn_feed_forward_kept(NULL, 1), 0);
    unsigned char allowed[3] = {1, 1, 1};
    hsc_nn_mask_sliding(3, 1, INT_MAX, allowed); /* two queries stand before the first key */
    assert_memory_equal(allowed, ((const unsigned char[]){0, 0, 1}), 3);
}

/* ------------------------------------------------------------------------------- same bits, and running out of memory
 * -- */

/* All sequences together keep several threads busy, one alone does not. */
enum { BATCH = 8, LEN = 100, D = 48 };
static const hsc_nn_block shape = {.d_model = D, .n_heads = 3, .d_ff = 90};

static float *block_parameters(void)
{
    int64_t count = 0;
    OK(hsc_nn_block_count(&shape, &count, NULL));
    float *p = malloc((size_t)count * sizeof *p);
    hsc_random r;
    hsc_random_seed(&r, 1);
    assert_non_null(p);
    OK(hsc_nn_block_init(&shape, &r, p, NULL));
    return p;
}

/* A sequence alone, among others, with kept values, with weights, and cut short: the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    hsc_nn_mask mask = {.causal = 1};
    float *p = block_parameters(), *x = ref_random(BATCH * LEN * D, 1);
    float *all = malloc(sizeof(float) * BATCH * LEN * D), *one = malloc(sizeof(float) * LEN * D);
    float *kept = malloc(sizeof(float) * hsc_nn_block_kept(&shape, 1, LEN)), *w = malloc(sizeof(float) * 3 * LEN * LEN);
    assert_true(all && one && kept && w);
    OK(hsc_nn_block_forward(&shape, p, &mask, x, BATCH, LEN, all, NULL, NULL, NULL));
    for (int b = 0; b < BATCH; b++) {
        OK(hsc_nn_block_forward(&shape, p, &mask, x + b * LEN * D, 1, LEN, one, w, kept, NULL));
        assert_memory_equal(one, all + b * LEN * D, sizeof(float) * LEN * D);
    }
    for (int n = 1; n < LEN; n += 31) { /* what comes later changes nothing */
        OK(hsc_nn_block_forward(&shape, p, &mask, x, 1, n, one, NULL, NULL, NULL));
        assert_memory_equal(one, all, sizeof(float) * (size_t)n * D);
    }
    memcpy(one, x, sizeof(float) * LEN * D); /* y may be x */
    OK(hsc_nn_block_forward(&shape, p, &mask, one, 1, LEN, one, NULL, NULL, NULL));
    assert_memory_equal(one, all, sizeof(float) * LEN * D);
    free(p);
    free(x);
    free(all);
    free(one);
    free(kept);
    free(w);
}

/* Every allocation fails once; nothing is lost. */
static void test_out_of_memory(void **state)
{
    (void)state;
    float *p = block_parameters(), *x = ref_random(LEN * D, 1), *y = malloc(sizeof(float) * LEN * D);
    float *kept = malloc(sizeof(float) * hsc_nn_block_kept(&shape, 1, LEN)), *dx = calloc(LEN * D, sizeof(float));
    float logits[8] = {0}, losses[2], d[8] = {0};
    int64_t count = 0;
    OK(hsc_nn_block_count(&shape, &count, NULL));
    float *g = calloc((size_t)count, sizeof(float));
    assert_true(y && kept && dx && g);
    hsc_nn_attention_shape odd = {.n_query = 2, .n_key = 2, .d_k = 2, .d_v = 1};
    for (long at = 1, done = 0; !done; at++) {
        failing_alloc a;
        hsc_error err = {0};
        failing_alloc_install(&a, at);
        hsc_status status = hsc_nn_block_forward(&shape, p, NULL, x, 1, LEN, y, NULL, kept, &err);
        if (status == HSC_OK) status = hsc_nn_block_forward(&shape, p, NULL, x, 1, LEN, y, NULL, NULL, &err);
        if (status == HSC_OK) status = hsc_nn_block_backward(&shape, p, NULL, x, kept, x, 1, LEN, dx, g, &err);
        if (status == HSC_OK) status = hsc_nn_attention_forward(&odd, NULL, x, x, x, y, NULL, &err);
        if (status == HSC_OK) status = hsc_nn_attention_backward(&odd, NULL, x, x, x, NULL, x, dx, dx, dx, &err);
        if (status == HSC_OK) status = hsc_nn_rope_backward(&(hsc_nn_rope){.d_head = D}, x, NULL, 1, LEN, 1, dx, &err);
        if (status == HSC_OK)
            status = hsc_nn_cross_entropy_forward(logits, (const hsc_token[]){0, 1}, 2, 4, losses, &err);
        if (status == HSC_OK)
            status = hsc_nn_cross_entropy_backward(logits, (const hsc_token[]){0, 1}, losses, 2, 4, d, &err);
        if (status == HSC_OK) status = hsc_nn_rms_norm_backward(x, NULL, 1e-5f, x, LEN, D, dx, NULL, &err);
        failing_alloc_remove();
        done = status == HSC_OK;
        if (!done && status != HSC_ENOMEM) fail_msg("allocation %ld: %s", at, err.message);
        assert_int_equal(a.held, 0);
    }
    free(p);
    free(x);
    free(y);
    free(kept);
    free(dx);
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_see),
        cmocka_unit_test(test_very_negative_scores),
        cmocka_unit_test(test_key_heads),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_rope_pairs),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_constant_row),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_derivatives_add_up),
        cmocka_unit_test(test_activations_far_out),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sizes_out_of_range),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
