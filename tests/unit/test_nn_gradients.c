/*
 * Every layer's output against its definition in double, and every derivative against central differences of that
 * definition, on odd sizes.
 */
#include "nn_reference.h"

static float *zeros(size_t n)
{
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

#define OK(call) assert_int_equal((call), HSC_OK)

/* ------------------------------------------------------------------------------------------------------ linear ---- */

static void linear(const ref_case *c, double *y)
{
    const int *s = c->sizes_of_layer;
    if (!s[3]) {
        ref_linear(c->wide[0], c->wide[1], c->wide[2], s[0], s[1], s[2], y);
        return;
    }
    double w[MAX_FLOATS];
    for (int i = 0; i < s[1]; i++)
        for (int o = 0; o < s[2]; o++) w[o * s[1] + i] = c->wide[1][i * s[2] + o];
    ref_linear(c->wide[0], w, c->wide[2], s[0], s[1], s[2], y);
}

static void test_linear(void **state)
{
    (void)state;
    static const int shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {19, 7, 3}, {2, 33, 17}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int in_out = 0; in_out < 2; in_out++) {
            int rows = shapes[i][0], n_in = shapes[i][1], n_out = shapes[i][2];
            ref_case c = {.name = "linear", .forward = linear, .sizes_of_layer = {rows, n_in, n_out, in_out}};
            float *x = ref_add(&c, (size_t)(rows * n_in), 1), *w = ref_add(&c, (size_t)(n_in * n_out), 1);
            float *b = ref_add(&c, (size_t)n_out, 1), *y = zeros((size_t)(rows * n_out));
            ref_output(&c, (size_t)(rows * n_out));
            hsc_nn_linear map = {w, b, n_in, n_out, in_out};
            OK(hsc_nn_linear_forward(&map, x, rows, y, NULL));
            hsc_nn_linear_grad grad = {c.grads[1], c.grads[2]};
            OK(hsc_nn_linear_backward(&map, x, c.dy, rows, c.grads[0], &grad, NULL));
            ref_check_output(&c, y);
            ref_check_grads(&c);
            free(y);
            ref_free(&c);
        }
    }
}

/* ----------------------------------------------------------------------------------------------- softmax, loss ---- */

static void softmax(const ref_case *c, double *y)
{
    int rows = c->sizes_of_layer[0], n = c->sizes_of_layer[1];
    memcpy(y, c->wide[0], (size_t)(rows * n) * sizeof *y);
    for (int r = 0; r < rows; r++) ref_softmax(y + r * n, n);
}

static const hsc_token targets[5] = {2, 0, -1, 6, 6};

static void loss(const ref_case *c, double *y)
{
    int rows = c->sizes_of_layer[0], n = c->sizes_of_layer[1];
    for (int r = 0; r < rows; r++) {
        double row[MAX_FLOATS];
        memcpy(row, c->wide[0] + r * n, (size_t)n * sizeof *row);
        ref_softmax(row, n);
        y[r] = targets[r] < 0 ? 0 : -log(row[targets[r]]);
    }
}

static void test_softmax_and_loss(void **state)
{
    (void)state;
    enum { ROWS = 5, N = 7 };
    float y[ROWS * N];
    ref_case c = {.name = "softmax", .forward = softmax, .sizes_of_layer = {ROWS, N}};
    float *x = ref_add(&c, ROWS * N, 3);
    ref_output(&c, ROWS * N);
    OK(hsc_nn_softmax_forward(x, ROWS, N, y, NULL));
    OK(hsc_nn_softmax_backward(y, c.dy, ROWS, N, c.grads[0], NULL));
    ref_check_output(&c, y);
    ref_check_grads(&c);
    ref_free(&c);
    ref_case l = {.name = "loss", .forward = loss, .sizes_of_layer = {ROWS, N}};
    x = ref_add(&l, ROWS * N, 3);
    ref_output(&l, ROWS);
    OK(hsc_nn_cross_entropy_forward(x, targets, ROWS, N, y, NULL));
    OK(hsc_nn_cross_entropy_backward(x, targets, l.dy, ROWS, N, l.grads[0], NULL));
    ref_check_output(&l, y);
    ref_check_grads(&l);
    ref_free(&l);
}

/* The whole Jacobian: column by column what backward gives for dy = one at i. */
static void test_jacobian(void **state)
{
    (void)state;
    enum { N = 5 };
    float p[N] = {0.1f, 0.4f, 0.2f, 0.25f, 0.05f}, jacobian[N][N];
    hsc_nn_softmax_jacobian(p, N, &jacobian[0][0]);
    for (int i = 0; i < N; i++) {
        float dy[N] = {0}, dx[N] = {0};
        dy[i] = 1;
        OK(hsc_nn_softmax_backward(p, dy, 1, N, dx, NULL));
        for (int j = 0; j < N; j++) assert_true(fabsf(dx[j] - jacobian[i][j]) < 1e-7f);
        assert_true(fabsf(jacobian[i][i] - p[i] * (1 - p[i])) < 1e-7f);
    }
}

/* ------------------------------------------------------------------------------------------------------- norms ---- */

static void norm(const ref_case *c, double *y)
{
    const int *s = c->sizes_of_layer;
    ref_norm(s[2], c->wide[0], c->wide[1], s[2] ? c->wide[2] : NULL, 1e-5, s[0], s[1], y);
}

/* X12: [B][T][C], not only two dimensions. */
static void test_norms(void **state)
{
    (void)state;
    enum { B = 2, T = 3, ROWS = B * T, C = 17 };
    for (int layer = 0; layer < 2; layer++) {
        float y[ROWS * C];
        ref_case c = {.name = layer ? "layer norm" : "RMS norm", .forward = norm, .sizes_of_layer = {ROWS, C, layer}};
        float *x = ref_add(&c, ROWS * C, 2), *gain = ref_add(&c, C, 2), *bias = layer ? ref_add(&c, C, 1) : NULL;
        ref_output(&c, ROWS * C);
        if (layer) {
            OK(hsc_nn_layer_norm_forward(x, gain, bias, 1e-5f, ROWS, C, y, NULL));
            OK(hsc_nn_layer_norm_backward(x, gain, 1e-5f, c.dy, ROWS, C, c.grads[0], c.grads[1], c.grads[2], NULL));
        } else {
            OK(hsc_nn_rms_norm_forward(x, gain, 1e-5f, ROWS, C, y, NULL));
            OK(hsc_nn_rms_norm_backward(x, gain, 1e-5f, c.dy, ROWS, C, c.grads[0], c.grads[1], NULL));
        }
        ref_check_output(&c, y);
        ref_check_grads(&c);
        ref_free(&c);
    }
}

/* ------------------------------------------------------------------------------------------------- activations ---- */

static void activation(const ref_case *c, double *y)
{
    for (int i = 0; i < c->sizes_of_layer[0]; i++) {
        y[i] = ref_act((hsc_nn_activation)c->sizes_of_layer[1], c->wide[0][i]);
        if (c->sizes_of_layer[2]) y[i] *= c->wide[1][i];
    }
}

static void test_activations(void **state)
{
    (void)state;
    enum { N = 61 };
    for (int kind = 0; kind < HSC_NN_N_ACTIVATIONS; kind++) {
        for (int gated = 0; gated < 2; gated++) {
            float y[N];
            hsc_nn_activation f = (hsc_nn_activation)kind;
            ref_case c = {.name = hsc_nn_activation_name(f), .forward = activation, .sizes_of_layer = {N, kind, gated}};
            float *x = ref_add(&c, N, 4), *up = gated ? ref_add(&c, N, 1) : NULL;
            ref_output(&c, N);
            if (gated) {
                OK(hsc_nn_gate_forward(f, x, up, N, y, NULL));
                OK(hsc_nn_gate_backward(f, x, up, c.dy, N, c.grads[0], c.grads[1], NULL));
            } else {
                OK(hsc_nn_activation_forward(f, x, N, y, NULL));
                OK(hsc_nn_activation_backward(f, x, c.dy, N, c.grads[0], NULL));
            }
            ref_check_output(&c, y);
            ref_check_grads(&c);
            ref_free(&c);
        }
    }
}

/* -------------------------------------------------------------------------------------------- rotary embedding ---- */

static const int positions[3] = {0, 5, 700};

static void rope(const ref_case *c, double *y)
{
    int d = 7, half = 3, at = 0;
    for (int outer = 0; outer < 2; outer++) {
        for (int pos = 0; pos < 3; pos++) {
            for (int inner = 0; inner < 2; inner++, at += d) {
                memcpy(y + at, c->wide[0] + at, (size_t)d * sizeof *y);
                for (int i = 0; i < half; i++) {
                    bool mixed = c->sizes_of_layer[0];
                    int left = at + (mixed ? 2 * i : i), right = at + (mixed ? 2 * i + 1 : i + half);
                    float exponent = (float)(2 * i) / (float)(2 * half), frequency = 1 / (float)pow(100, exponent);
                    double angle = (float)positions[pos] * frequency; /* in float32 at every step, as stated */
                    double a = c->wide[0][left], b = c->wide[0][right];
                    y[left] = a * cos(angle) - b * sin(angle);
                    y[right] = b * cos(angle) + a * sin(angle);
                }
            }
        }
    }
}

static void test_rope(void **state)
{
    (void)state;
    enum { N = 2 * 3 * 2 * 7 };
    for (int mixed = 0; mixed < 2; mixed++) {
        float y[N];
        ref_case c = {.name = "rope", .forward = rope, .sizes_of_layer = {mixed}};
        float *x = ref_add(&c, N, 1);
        ref_output(&c, N);
        hsc_nn_rope options = {.d_head = 7, .n_rotated = 6, .interleaved = mixed, .base = 100};
        OK(hsc_nn_rope_forward(&options, x, positions, 2, 3, 2, y, NULL));
        OK(hsc_nn_rope_backward(&options, c.dy, positions, 2, 3, 2, c.grads[0], NULL));
        ref_check_output(&c, y);
        ref_check_grads(&c);
        ref_free(&c);
    }
}

/* --------------------------------------------------------------------------------------------------- attention ---- */

/* sizes: n_query, n_key, d_k, d_v; two batches, four heads over two key heads. */
static void attention(const ref_case *c, double *y)
{
    const int *s = c->sizes_of_layer;
    for (int i = 0; i < 8; i++) {
        int kv = i / 4 * 2 + i % 4 / 2;
        ref_head head = {c->wide[0] + i * s[0] * s[2],
                         c->wide[1] + kv * s[1] * s[2],
                         c->wide[2] + kv * s[1] * s[3],
                         s[0],
                         s[1],
                         s[2],
                         s[3],
                         s[2],
                         s[2],
                         s[3],
                         c->mask};
        ref_attention(&head, y + i * s[0] * s[3], s[3]);
    }
}

static void check_attention(int n_query, int n_key, int d_k, int d_v, const hsc_nn_mask *mask)
{
    ref_case c = {
        .name = "attention", .forward = attention, .sizes_of_layer = {n_query, n_key, d_k, d_v}, .mask = mask};
    float *q = ref_add(&c, (size_t)(8 * n_query * d_k), 2), *k = ref_add(&c, (size_t)(4 * n_key * d_k), 2);
    float *v = ref_add(&c, (size_t)(4 * n_key * d_v), 2), *y = zeros((size_t)(8 * n_query * d_v));
    float *weights = zeros((size_t)(8 * n_query * n_key));
    hsc_nn_attention_shape shape = {2, 4, 2, n_query, n_key, d_k, d_v, 0};
    ref_output(&c, (size_t)(8 * n_query * d_v));
    OK(hsc_nn_attention_forward(&shape, mask, q, k, v, y, weights, NULL));
    ref_check_output(&c, y);
    for (int given = 0; given < 2; given++) {
        for (int a = 0; a < 3; a++) memset(c.grads[a], 0, c.sizes[a] * sizeof(float));
        OK(hsc_nn_attention_backward(&shape, mask, q, k, v, given ? weights : NULL, c.dy, c.grads[0], c.grads[1],
                                     c.grads[2], NULL));
        ref_check_grads(&c);
    }
    free(weights);
    free(y);
    ref_free(&c);
}

static void test_attention(void **state)
{
    (void)state;
    static const unsigned char table[5 * 5] = {0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1,
                                               0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1};
    check_attention(3, 5, 4, 4, NULL);
    check_attention(5, 5, 3, 5, &(hsc_nn_mask){.allowed = table}); /* the first query sees nothing: case B13 */
    check_attention(3, 6, 5, 3, &(hsc_nn_mask){.causal = 1});
    check_attention(5, 5, 2, 2, &(hsc_nn_mask){.causal = 1, .window = 2});
    check_attention(5, 5, 3, 3, &(hsc_nn_mask){.allowed = table, .causal = 1, .window = 3});
}

/* ------------------------------------------------------------------------------------- heads, feed-forward, block --
 */

enum { BATCH = 2, LEN = 5, D = 6, N_HEADS = 3, F = 7 };

static void heads(const ref_case *c, double *y)
{
    ref_heads(c->wide[0], c->wide[1], c->wide[2], BATCH, LEN, D, N_HEADS, c->mask, y);
}

static void test_heads(void **state)
{
    (void)state;
    ref_case c = {.name = "heads", .forward = heads, .mask = &(hsc_nn_mask){.causal = 1}};
    float *x = ref_add(&c, BATCH * LEN * D, 1), *w = ref_add(&c, 4 * D * D, 1), *b = ref_add(&c, 4 * D, 1);
    float y[BATCH * LEN * D], *dw = c.grads[1], *db = c.grads[2];
    ref_output(&c, BATCH * LEN * D);
    hsc_nn_heads all = {.n_heads = N_HEADS,
                        .q = {w, b, D, D, 0},
                        .k = {w + D * D, b + D, D, D, 0},
                        .v = {w + 2 * D * D, b + 2 * D, D, D, 0},
                        .o = {w + 3 * D * D, b + 3 * D, D, D, 0}};
    hsc_nn_heads_grad grad = {
        {dw, db}, {dw + D * D, db + D}, {dw + 2 * D * D, db + 2 * D}, {dw + 3 * D * D, db + 3 * D}};
    float *kept = zeros(hsc_nn_heads_kept(&all, BATCH, LEN));
    OK(hsc_nn_heads_forward(&all, c.mask, x, BATCH, LEN, y, NULL, kept, NULL));
    OK(hsc_nn_heads_backward(&all, c.mask, x, kept, c.dy, BATCH, LEN, c.grads[0], &grad, NULL));
    ref_check_output(&c, y);
    ref_check_grads(&c);
    free(kept);
    ref_free(&c);
}

static void feed_forward(const ref_case *c, double *y)
{
    double pre[LEN * F], gate[LEN * F];
    bool gated = c->sizes_of_layer[0];
    ref_linear(c->wide[0], c->wide[1], c->wide[2], LEN, D, F, pre);
    if (gated) ref_linear(c->wide[0], c->wide[5], c->wide[6], LEN, D, F, gate);
    for (int i = 0; i < LEN * F; i++)
        pre[i] = gated ? ref_act(HSC_NN_SILU, gate[i]) * pre[i] : ref_act(HSC_NN_GELU, pre[i]);
    ref_linear(pre, c->wide[3], c->wide[4], LEN, F, D, y);
}

static void test_feed_forward(void **state)
{
    (void)state;
    for (int gated = 0; gated < 2; gated++) {
        ref_case c = {.name = "feed-forward", .forward = feed_forward, .sizes_of_layer = {gated}};
        float y[LEN * D], *x = ref_add(&c, LEN * D, 1);
        hsc_nn_feed_forward ff = {.activation = gated ? HSC_NN_SILU : HSC_NN_GELU};
        ff.in = (hsc_nn_linear){ref_add(&c, F * D, 1), ref_add(&c, F, 1), D, F, 0};
        ff.out = (hsc_nn_linear){ref_add(&c, D * F, 1), ref_add(&c, D, 1), F, D, 0};
        if (gated) ff.gate = (hsc_nn_linear){ref_add(&c, F * D, 1), ref_add(&c, F, 1), D, F, 0};
        ref_output(&c, LEN * D);
        hsc_nn_feed_forward_grad grad = {.in = {c.grads[1], c.grads[2]}, .out = {c.grads[3], c.grads[4]}};
        if (gated) grad.gate = (hsc_nn_linear_grad){c.grads[5], c.grads[6]};
        float *kept = zeros(hsc_nn_feed_forward_kept(&ff, LEN));
        OK(hsc_nn_feed_forward_forward(&ff, x, LEN, y, kept, NULL));
        OK(hsc_nn_feed_forward_backward(&ff, x, kept, c.dy, LEN, c.grads[0], &grad, NULL));
        ref_check_output(&c, y);
        ref_check_grads(&c);
        free(kept);
        ref_free(&c);
    }
}

/* By the list of headscope/nn.h: in_proj [3D][D], its bias, out_proj and bias, ff.0, ff.2, norm1, norm2. */
static void block(const ref_case *c, double *y)
{
    enum { N = BATCH * LEN * D };
    const double *p = c->wide[1], *in_w = p, *in_b = in_w + 3 * D * D, *out_w = in_b + 3 * D, *out_b = out_w + D * D;
    const double *w1 = out_b + D, *b1 = w1 + F * D, *w2 = b1 + F, *b2 = w2 + D * F, *n1 = b2 + D, *n2 = n1 + 2 * D;
    double w[4 * D * D], b[4 * D], a[N], mid[N], f[BATCH * LEN * F];
    memcpy(w, in_w, 3 * D * D * sizeof *w);
    memcpy(w + 3 * D * D, out_w, D * D * sizeof *w);
    memcpy(b, in_b, 3 * D * sizeof *b);
    memcpy(b + 3 * D, out_b, D * sizeof *b);
    ref_norm(true, c->wide[0], n1, n1 + D, 1e-5, BATCH * LEN, D, a);
    ref_heads(a, w, b, BATCH, LEN, D, N_HEADS, c->mask, mid);
    for (int i = 0; i < N; i++) mid[i] += c->wide[0][i];
    ref_norm(true, mid, n2, n2 + D, 1e-5, BATCH * LEN, D, a);
    ref_linear(a, w1, b1, BATCH * LEN, D, F, f);
    for (int i = 0; i < BATCH * LEN * F; i++) f[i] = ref_act(HSC_NN_TANH, f[i]);
    ref_linear(f, w2, b2, BATCH * LEN, F, D, y);
    for (int i = 0; i < N; i++) y[i] += mid[i];
}

static void test_block(void **state)
{
    (void)state;
    hsc_nn_block shape = {.d_model = D, .n_heads = N_HEADS, .d_ff = F, .activation = HSC_NN_TANH};
    int64_t count = 0;
    OK(hsc_nn_block_count(&shape, &count, NULL));
    ref_case c = {.name = "block", .forward = block, .mask = &(hsc_nn_mask){.causal = 1}};
    float *x = ref_add(&c, BATCH * LEN * D, 1), *p = ref_add(&c, (size_t)count, 1), y[BATCH * LEN * D];
    ref_output(&c, BATCH * LEN * D);
    float *kept = zeros(hsc_nn_block_kept(&shape, BATCH, LEN));
    OK(hsc_nn_block_forward(&shape, p, c.mask, x, BATCH, LEN, y, NULL, kept, NULL));
    OK(hsc_nn_block_backward(&shape, p, c.mask, x, kept, c.dy, BATCH, LEN, c.grads[0], c.grads[1], NULL));
    ref_check_output(&c, y);
    ref_check_grads(&c);
    free(kept);
    ref_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),       cmocka_unit_test(test_softmax_and_loss),
        cmocka_unit_test(test_jacobian),     cmocka_unit_test(test_norms),
        cmocka_unit_test(test_activations),  cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),    cmocka_unit_test(test_heads),
        cmocka_unit_test(test_feed_forward), cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
