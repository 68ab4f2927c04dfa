/*
 * The bf16 kind of the level in use (HEADSCOPE_ISA): rounding by its definition; products of every type against double
 * precision on the rounded factors; and the same bits for few rows, straight from the mapping, for many, by panels, and
 * for sums that are cut.
 */
#include "kernel_data.h"

static uint32_t bits_of(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

static float wide(uint16_t a)
{
    uint32_t bits = (uint32_t)a << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest of the two values on either side; on a tie the even one. */
static void test_round(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < (uint64_t)1 << 32; at += 65521 * 16) {
        float x[16];
        uint16_t y[16];
        for (int i = 0; i < 16; i++) {
            uint32_t bits = (uint32_t)at + (uint32_t)i * 65521;
            if (i == 3) bits = (bits & 0xFFFF0000u) | 0x8000;
            memcpy(&x[i], &bits, sizeof bits);
        }
        hsc__kernels_get()->round_bf16(x, 16, y);
        for (int i = 0; i < 16; i++) {
            uint32_t low = bits_of(x[i]) >> 16, rest = bits_of(x[i]) & 0xFFFF;
            bool up = rest > 0x8000 || (rest == 0x8000 && low % 2);
            bool is_subnormal = (low & 0x7F80) == 0; /* some processors flush them to 0 */
            if (isnan(x[i])) assert_true(isnan(wide(y[i])));
            else if (!is_subnormal || (y[i] & 0x7FFF) != 0) assert_int_equal(y[i], low + up);
        }
    }
}

/* The product as a caller with many rows computes it, through a panel full of rubbish. */
static void by_panels(const matrix *w, bool by_input, int n_out, int n_in, const uint16_t *x, size_t x_stride, int rows,
                      float *y, size_t y_stride)
{
    const hsc__kernels *k = hsc__kernels_get();
    size_t bytes = HSC__K_CHUNK / 2 * (size_t)k->nr_bf16 * sizeof(uint32_t);
    uint32_t *panel = get_memory(bytes);
    memset(panel, 0xFF, bytes);
    for (int o = 0; o < n_out; o += k->nr_bf16) {
        int cols = n_out - o < k->nr_bf16 ? n_out - o : k->nr_bf16;
        for (int at = 0; at < n_in; at += HSC__K_CHUNK) {
            int n_k = n_in - at < HSC__K_CHUNK ? n_in - at : HSC__K_CHUNK;
            if (by_input)
                k->pack_t_bf16(w->dtype, w->data + (size_t)at * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o),
                               w->row_bytes, cols, n_k, panel);
            else k->pack_bf16(w->dtype, w->data + (size_t)o * w->row_bytes, w->row_bytes, cols, at, n_k, panel);
            k->gemm_bf16(at ? HSC__GEMM_ADD : HSC__GEMM_START, rows, cols, n_k, x + at, x_stride, panel, y + o,
                         y_stride, NULL);
        }
    }
    free(panel);
}

/* Products are exact: what is left is the rounding of the sum. */
static void check_value(const matrix *w, bool by_input, int o, const uint16_t *x, int n_in, float y)
{
    double sum = 0, size = 0;
    for (int k = 0; k < n_in; k++) {
        uint16_t rounded;
        float value =
            w->values[by_input ? (size_t)k * (size_t)w->cols + (size_t)o : (size_t)o * (size_t)w->cols + (size_t)k];
        hsc__kernels_ref()->round_bf16(&value, 1, &rounded);
        double term = (double)wide(x[k]) * (double)wide(rounded);
        sum += term;
        size += fabs(term);
    }
    if (fabs(y - sum) > (HSC__K_CHUNK + 8) * (double)FLT_EPSILON / 2 * size)
        fail_msg("type %d, %d values: output %d is %g, not %g", (int)w->dtype, n_in, o, (double)y, sum);
}

static void check(hsc_dtype dtype, bool by_input, int rows, int n_out, int n_in, size_t gap)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    matrix w = by_input ? random_matrix(dtype, n_in, n_out, gap) : random_matrix(dtype, n_out, n_in, gap);
    size_t x_stride = (size_t)(n_in + n_in % 2 + 2), y_stride = (size_t)n_out + 3;
    size_t n = (size_t)(rows - 1) * y_stride + (size_t)n_out;
    float *wide_x = random_floats((size_t)n_in), *right = random_floats(n), *y = get_floats(n);
    uint16_t *x = get_memory((size_t)rows * x_stride * sizeof *x);
    memset(x, 0, (size_t)rows * x_stride * sizeof *x);
    for (int r = 0; r < rows; r++) {
        for (int k = 0; k < n_in; k++) wide_x[k] = random_float();
        hsc__kernels_ref()->round_bf16(wide_x, n_in, x + (size_t)r * x_stride);
    }
    memcpy(y, right, n * sizeof *y);
    by_panels(&w, by_input, n_out, n_in, x, x_stride, rows, right, y_stride);
    (by_input ? kernels->few_t_bf16 : kernels->few_bf16)(dtype, w.data, w.row_bytes, n_out, n_in, x, x_stride, rows, y,
                                                         y_stride);
    assert_same_bits(y, right, n, by_input ? "few_t_bf16" : "few_bf16", (int)dtype, rows * 100000 + n_out);
    for (int i = 0; i < 4; i++) {
        int r = random_below(rows), o = random_below(n_out);
        check_value(&w, by_input, o, x + (size_t)r * x_stride, n_in, y[(size_t)r * y_stride + (size_t)o]);
    }
    drop(wide_x);
    drop(right);
    drop(y);
    free(x);
    drop_matrix(&w);
}

static void test_products(void **state)
{
    (void)state;
    for (int t = 0; t < N_DATA_TYPES; t++) {
        int block = hsc__dtype_block(data_types[t]);
        for (int rows = 1; rows <= 30; rows++) {
            int n_in = (1 + random_below(40)) * (block == 1 ? 1 + random_below(15) : block);
            check(data_types[t], false, rows, 1 + random_below(90), n_in, (size_t)random_below(9));
            if (block == 1) check(data_types[t], true, rows, 1 + random_below(90), n_in, (size_t)random_below(9));
        }
        for (int n_out = 1; n_out <= 34; n_out++)
            check(data_types[t], false, 1 + n_out % 3, n_out, (1 + n_out % 7) * (block == 1 ? 37 : block), 0);
    }
}

/* Any mode, one panel: many rows at once, or a row at a time with the sum cut between pairs. */
static void test_cuts(void **state)
{
    (void)state;
    const hsc__kernels *kernels = hsc__kernels_get();
    enum { ROWS = 29, IN = 611, STRIDE = IN + 1 };
    int n_out = kernels->nr_bf16 - 3;
    matrix w = random_matrix(HSC_F32, n_out, IN, 0);
    uint16_t *x = get_memory(ROWS * STRIDE * sizeof *x);
    memset(x, 0, ROWS * STRIDE * sizeof *x);
    float *wide_x = random_floats(ROWS * IN), *start = random_floats(ROWS * HSC__MAX_NR);
    for (int r = 0; r < ROWS; r++) hsc__kernels_ref()->round_bf16(wide_x + r * IN, IN, x + r * STRIDE);
    uint32_t *panel = get_memory((IN + 1) / 2 * (size_t)kernels->nr_bf16 * sizeof *panel);
    kernels->pack_bf16(HSC_F32, w.data, w.row_bytes, n_out, 0, IN, panel);
    for (int mode = HSC__GEMM_START; mode <= HSC__GEMM_ADD; mode++) {
        float whole[ROWS * HSC__MAX_NR], cut[HSC__MAX_NR];
        memcpy(whole, start, sizeof whole);
        kernels->gemm_bf16((hsc__gemm_mode)mode, ROWS, n_out, IN, x, STRIDE, panel, whole, HSC__MAX_NR, NULL);
        for (int r = 0; r < ROWS; r++) {
            memcpy(cut, start + r * HSC__MAX_NR, sizeof cut);
            for (int k = 0, n; k < IN; k += n) {
                n = 2 + 2 * random_below(150);
                n = n < IN - k ? n : IN - k;
                hsc__gemm_mode how = k                       ? HSC__GEMM_CONTINUE
                                     : mode == HSC__GEMM_ADD ? HSC__GEMM_START
                                                             : (hsc__gemm_mode)mode;
                kernels->gemm_bf16(how, 1, n_out, n, x + r * STRIDE + k, STRIDE,
                                   panel + (size_t)(k / 2) * (size_t)kernels->nr_bf16, cut, HSC__MAX_NR, NULL);
            }
            for (int c = 0; c < n_out && mode == HSC__GEMM_ADD; c++) cut[c] = start[r * HSC__MAX_NR + c] + cut[c];
            assert_same_bits(whole + r * HSC__MAX_NR, cut, (size_t)n_out, "gemm_bf16 cut", mode, r);
        }
    }
    free(x);
    free(panel);
    drop(wide_x);
    drop(start);
    drop_matrix(&w);
}

typedef struct ended {
    const uint16_t *x;
    const uint32_t *panel;
    int rows, n_out, n_in;
} ended;

static void run_product(const void *user, const hsc__ending *end)
{
    const ended *e = user;
    float sums[64 * HSC__MAX_NR];
    hsc__kernels_get()->gemm_bf16(HSC__GEMM_START, e->rows, e->n_out, e->n_in, e->x, (size_t)e->n_in, e->panel, sums,
                                  HSC__MAX_NR, end);
}

static void test_ending(void **unused)
{
    (void)unused;
    const hsc__kernels *kernels = hsc__kernels_get();
    enum { ROWS = 29, MOST = 400 };
    float *wide_x = random_floats(ROWS * MOST), sums[ROWS * HSC__MAX_NR];
    uint16_t *x = get_memory(ROWS * MOST * sizeof *x);
    kernels->round_bf16(wide_x, ROWS * MOST, x);
    for (int n_in = 100; n_in <= MOST; n_in += 300) { /* in one chunk, and in more */
        for (int n_out = 1; n_out <= kernels->nr_bf16; n_out++) {
            matrix w = random_matrix(HSC_F32, n_out, n_in, 0);
            uint32_t *panel = get_memory((size_t)n_in / 2 * (size_t)kernels->nr_bf16 * sizeof *panel);
            kernels->pack_bf16(HSC_F32, w.data, w.row_bytes, n_out, 0, n_in, panel);
            kernels->gemm_bf16(HSC__GEMM_START, ROWS, n_out, n_in, x, (size_t)n_in, panel, sums, HSC__MAX_NR, NULL);
            ended e = {x, panel, ROWS, n_out, n_in};
            check_endings(sums, ROWS, n_out, HSC__MAX_NR, run_product, &e);
            free(panel);
            drop_matrix(&w);
        }
    }
    free(x);
    drop(wide_x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round), cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_cuts), cmocka_unit_test(test_ending)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
