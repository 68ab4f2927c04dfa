/*
 * The q8 kind of the level in use (HEADSCOPE_ISA): activations in 8 bits as the reference makes them; products of every
 * quantised type against double precision on the weights that `dequantise` gives; and the same bits for few rows,
 * straight from the mapping, and for many, by panels.
 */
#include "kernel_data.h"
#include "kernels/q8.h"

/* Where the half-precision scales of a block lie; the second may be -1. */
static const struct {
    hsc_dtype dtype;
    int scales[2];
} types[] = {{HSC_Q4_0, {0, -1}}, {HSC_Q4_1, {0, 2}},    {HSC_Q5_0, {0, -1}},   {HSC_Q5_1, {0, 2}},
             {HSC_Q8_0, {0, -1}}, {HSC_Q2_K, {80, 82}},  {HSC_Q3_K, {108, -1}}, {HSC_Q4_K, {0, 2}},
             {HSC_Q5_K, {0, 2}},  {HSC_Q6_K, {208, -1}}, {HSC_IQ4_NL, {0, -1}}, {HSC_IQ4_XS, {0, -1}}};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Random bytes are blocks of every type once the half-precision scales are finite. */
static matrix random_blocks(int t, int rows, int cols, size_t gap)
{
    hsc_dtype dtype = types[t].dtype;
    size_t row = hsc__dtype_bytes(dtype, (size_t)cols), block = (size_t)hsc__dtype_block_bytes(dtype);
    matrix m = {dtype, rows, cols, row + gap, (unsigned char *)get_memory((row + gap) * (size_t)rows - gap + 1) + 1,
                NULL};
    m.values = get_floats((size_t)rows * (size_t)cols);
    for (int r = 0; r < rows; r++) {
        unsigned char *p = m.data + (size_t)r * m.row_bytes;
        for (size_t i = 0; i < row; i++) p[i] = (unsigned char)random_bits();
        for (size_t i = 0; i < row; i += block) {
            for (int s = 0; s < 2 && types[t].scales[s] >= 0; s++) {
                uint16_t half = random_f16();
                memcpy(p + i + types[t].scales[s], &half, sizeof half);
            }
        }
        hsc__kernels_ref()->dequantise(dtype, p, cols, m.values + (size_t)r * (size_t)cols);
    }
    return m;
}

/* Rows of random activations in 8 bits. */
typedef struct {
    hsc__x8 x;
    int8_t *q;
    hsc__x8_group *group;
} activations;

static activations quantise(const hsc__kernels *kernels, const float *x, int rows, int n)
{
    size_t groups = (size_t)(n / HSC__Q8_GROUP);
    activations a = {.q = get_memory((size_t)rows * (size_t)n),
                     .group = get_memory((size_t)rows * groups * sizeof *a.group)};
    a.x = (hsc__x8){a.q, a.group, (size_t)n, groups};
    for (int r = 0; r < rows; r++)
        kernels->quantise_x(x + (size_t)r * (size_t)n, n, a.q + (size_t)r * (size_t)n, a.group + (size_t)r * groups);
    return a;
}

static void drop_activations(activations *a)
{
    free(a->q);
    free(a->group);
}

static void test_activations(void **state)
{
    (void)state;
    for (int n = 32; n <= 32 * 40; n += 32) {
        float *x = random_floats((size_t)n);
        if (n % 64 == 0) memset(x + n - 32, 0, 32 * sizeof *x);
        activations a = quantise(hsc__kernels_get(), x, 1, n), right = quantise(hsc__kernels_ref(), x, 1, n);
        assert_memory_equal(a.q, right.q, (size_t)n);
        assert_memory_equal(a.group, right.group, (size_t)(n / 32) * sizeof *a.group);
        for (int i = 0; i < n; i++)
            assert_true(fabsf(x[i] - right.group[i / 32].d * (float)right.q[i]) <= right.group[i / 32].d * 0.5001f);
        drop_activations(&a);
        drop_activations(&right);
        drop(x);
    }
}

/* What a group of activations cannot hold: NaN and infinities make the group NaN, the tiniest values make it 0. */
static void test_odd_activations(void **state)
{
    (void)state;
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    enum { N = 96 };
    for (int i = 0; i < 32; i++) {
        float *x = random_floats(N);
        for (int j = 0; j < 32; j++) x[64 + j] = 1e-40f;
        x[32 + i] = odd[i % 4];
        activations a = quantise(hsc__kernels_get(), x, 1, N), ref = quantise(hsc__kernels_ref(), x, 1, N);
        assert_memory_equal(a.q, ref.q, N);
        assert_memory_equal(&a.group[0], &ref.group[0], sizeof *a.group);
        assert_memory_equal(&a.group[2], &ref.group[2], sizeof *a.group);
        assert_true(isnan(a.group[1].d) && isnan(a.group[1].sum) && a.group[2].d == 0 && a.group[2].sum == 0);
        assert_int_equal(a.group[1].total, 0);
        assert_int_equal(a.group[1].first, 0);
        for (int j = 32; j < N; j++) assert_int_equal(a.q[j], 0);
        drop_activations(&a);
        drop_activations(&ref);
        drop(x);
    }
}

/* The product as a caller with many rows computes it, through a panel full of rubbish. */
static void by_panels(const matrix *w, int n_out, int n_in, const hsc__x8 *x, int rows, float *y, size_t y_stride)
{
    const hsc__kernels *k = hsc__kernels_get();
    size_t bytes = HSC__K_CHUNK / HSC__Q8_GROUP * hsc__q8_group_bytes(k->nr_q8);
    char *panel = get_memory(bytes);
    memset(panel, 0xFF, bytes);
    for (int o = 0; o < n_out; o += k->nr_q8) {
        int cols = n_out - o < k->nr_q8 ? n_out - o : k->nr_q8;
        for (int at = 0; at < n_in; at += HSC__K_CHUNK) {
            int n_k = n_in - at < HSC__K_CHUNK ? n_in - at : HSC__K_CHUNK;
            k->pack_q8(w->dtype, w->data + (size_t)o * w->row_bytes, w->row_bytes, cols, at, n_k, panel);
            k->gemm_q8(w->dtype, at ? HSC__GEMM_ADD : HSC__GEMM_START, rows, cols, n_k, x, at, panel, y + o, y_stride,
                       NULL);
        }
    }
    free(panel);
}

/* Integer sums are exact: what is left is the rounding of two float terms a part of a group, and of their sum. */
static void check_value(const matrix *w, int o, const activations *a, int r, float y)
{
    hsc__q8_type type = hsc__q8_type_of(w->dtype);
    int groups_a_block = hsc__dtype_block(w->dtype) / HSC__Q8_GROUP, n = w->cols;
    double sum = 0, size = 0;
    for (int k = 0; k < n; k++) {
        hsc__q8_group g;
        const hsc__x8_group *x = a->group + (size_t)r * a->x.group_stride + k / 32;
        hsc__q8_group_of(w->dtype,
                         w->data + (size_t)o * w->row_bytes +
                             (size_t)(k / 32 / groups_a_block) * (size_t)hsc__dtype_block_bytes(w->dtype),
                         k / 32 % groups_a_block, &g);
        double value = (double)x->d * a->q[(size_t)r * (size_t)n + (size_t)k];
        sum += value * (double)w->values[(size_t)o * (size_t)n + (size_t)k];
        size += fabs(value) * (fabs((double)g.scale[k % 32 / 16] * (g.q[k % 32] - type.offset)) +
                               fabs((double)g.minimum[k % 32 / 16]));
    }
    /* The weights of types with minima are rounded once themselves. */
    if (fabs(y - sum) > (n / 8 + 8) * (double)FLT_EPSILON / 2 * size)
        fail_msg("type %d, %d values: output %d of row %d is %g, not %g", (int)w->dtype, n, o, r, (double)y, sum);
}

static void check(int t, int rows, int n_out, int n_in, size_t gap)
{
    matrix w = random_blocks(t, n_out, n_in, gap);
    size_t y_stride = (size_t)n_out + 3, n = (size_t)(rows - 1) * y_stride + (size_t)n_out;
    float *x = random_floats((size_t)rows * (size_t)n_in), *right = random_floats(n), *y = get_floats(n);
    activations a = quantise(hsc__kernels_get(), x, rows, n_in);
    memcpy(y, right, n * sizeof *y);
    by_panels(&w, n_out, n_in, &a.x, rows, right, y_stride);
    hsc__kernels_get()->few_q8(w.dtype, w.data, w.row_bytes, n_out, n_in, &a.x, rows, y, y_stride);
    assert_same_bits(y, right, n, "few_q8", (int)w.dtype, rows * 100000 + n_out);
    for (int i = 0; i < 8; i++) {
        int r = random_below(rows), o = random_below(n_out);
        check_value(&w, o, &a, r, y[(size_t)r * y_stride + (size_t)o]);
    }
    drop_activations(&a);
    drop(x);
    drop(right);
    drop(y);
    drop_matrix(&w);
}

static void test_products(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        assert_true(hsc__kernels_can_q8(types[t].dtype));
        int block = hsc__dtype_block(types[t].dtype);
        for (int rows = 1; rows <= 20; rows++)
            check(t, rows, 1 + random_below(90), (1 + random_below(block == 32 ? 30 : 4)) * block,
                  (size_t)random_below(9));
        for (int n_out = 1; n_out <= 33; n_out++) check(t, 1 + n_out % 3, n_out, block * (1 + n_out % 5), 0);
        for (int n_in = block; n_in <= 18 * block && n_in <= 1536; n_in += block) check(t, 1, 17, n_in, 1);
    }
    assert_false(hsc__kernels_can_q8(HSC_F32) || hsc__kernels_can_q8(HSC_BF16));
}

/* A row of activations with a value that is not finite gives NaN in all its outputs, in both forms; no other row does.
 */
static void test_odd_products(void **state)
{
    (void)state;
    enum { ROWS = 3, OUT = 21, IN = 512 };
    for (int t = 0; t < N_TYPES; t++) {
        matrix w = random_blocks(t, OUT, IN, 0);
        float *x = random_floats(ROWS * IN), few[ROWS * OUT], many[ROWS * OUT];
        x[IN + 300] = INFINITY;
        activations a = quantise(hsc__kernels_get(), x, ROWS, IN);
        by_panels(&w, OUT, IN, &a.x, ROWS, many, OUT);
        hsc__kernels_get()->few_q8(w.dtype, w.data, w.row_bytes, OUT, IN, &a.x, ROWS, few, OUT);
        for (int i = 0; i < ROWS * OUT; i++) {
            assert_int_equal(isnan(few[i]) != 0, i / OUT == 1);
            assert_int_equal(isnan(many[i]) != 0, i / OUT == 1);
        }
        drop_activations(&a);
        drop(x);
        drop_matrix(&w);
    }
}

typedef struct ended {
    hsc_dtype dtype;
    const hsc__x8 *x;
    const char *panel;
    int rows, n_out, n_in;
} ended;

static void run_product(const void *user, const hsc__ending *end)
{
    const ended *e = user;
    float sums[64 * HSC__MAX_NR];
    hsc__kernels_get()->gemm_q8(e->dtype, HSC__GEMM_START, e->rows, e->n_out, e->n_in, e->x, 0, e->panel, sums,
                                HSC__MAX_NR, end);
}

/* Columns and rows cut anywhere, and sums cut between groups. */
static void test_cuts(void **state)
{
    (void)state;
    enum { ROWS = 13, OUT = 8, IN = 256 };
    const hsc__kernels *k = hsc__kernels_get();
    for (int t = 0; t < N_TYPES; t++) {
        matrix w = random_blocks(t, OUT, IN, 0);
        float *x = random_floats(ROWS * IN), whole[ROWS * OUT], cut[ROWS * OUT];
        activations a = quantise(k, x, ROWS, IN);
        size_t group_bytes = hsc__q8_group_bytes(k->nr_q8);
        char *panel = get_memory(IN / 32 * group_bytes);
        k->pack_q8(w.dtype, w.data, w.row_bytes, OUT, 0, IN, panel);
        k->gemm_q8(w.dtype, HSC__GEMM_START, ROWS, OUT, IN, &a.x, 0, panel, whole, OUT, NULL);
        for (int r = 0; r < ROWS; r++) {
            hsc__x8 row = {a.q + r * IN, a.group + r * (IN / 32), IN, IN / 32};
            k->gemm_q8(w.dtype, HSC__GEMM_START, 1, OUT, 96, &row, 0, panel, cut + r * OUT, OUT, NULL);
            k->gemm_q8(w.dtype, HSC__GEMM_CONTINUE, 1, OUT, IN - 96, &row, 96, panel + 3 * group_bytes, cut + r * OUT,
                       OUT, NULL);
        }
        assert_same_bits(cut, whole, ROWS * OUT, "gemm_q8 cut", (int)w.dtype, 0);
        ended e = {w.dtype, &a.x, panel, ROWS, OUT, IN};
        check_endings(whole, ROWS, OUT, OUT, run_product, &e);
        free(panel);
        drop_activations(&a);
        drop(x);
        drop_matrix(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_activations), cmocka_unit_test(test_odd_activations),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_odd_products),
                                       cmocka_unit_test(test_cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
