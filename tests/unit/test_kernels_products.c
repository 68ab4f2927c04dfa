/*
 * The matrix kernels of the level in use (HEADSCOPE_ISA) against double precision, and the promise of the same bits: a
 * row alone or among many, columns cut anywhere, sums cut anywhere, and `few` against pack and gemm.
 */
#include "kernel_data.h"

static void test_dequantise(void **state)
{
    (void)state;
    const hsc__kernels *kernels = hsc__kernels_get(), *ref = hsc__kernels_ref();
    for (int t = 0; t < N_DATA_TYPES; t++) {
        int block = hsc__dtype_block(data_types[t]);
        for (int n = 0; n <= 70 * block; n += n < 70 ? block : 7 * block) {
            size_t bytes = hsc__dtype_bytes(data_types[t], (size_t)n);
            unsigned char *src = (unsigned char *)get_memory(bytes + 1) + 1;
            float *a = get_floats((size_t)n), *b = get_floats((size_t)n);
            random_weights(data_types[t], src, (size_t)n);
            kernels->dequantise(data_types[t], src, n, a);
            ref->dequantise(data_types[t], src, n, b);
            assert_same_bits(a, b, (size_t)n, "dequantise", (int)data_types[t], n);
            free(src - 1);
            drop(a);
            drop(b);
        }
    }
}

/* Every half-precision number, NaN by kind. */
static void test_halves(void **state)
{
    (void)state;
    uint16_t *src = get_memory(65536 * sizeof *src);
    float *a = get_floats(65536), *b = get_floats(65536);
    for (int i = 0; i < 65536; i++) src[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        hsc_dtype dtype = t ? HSC_BF16 : HSC_F16;
        hsc__kernels_get()->dequantise(dtype, src, 65536, a);
        hsc__kernels_ref()->dequantise(dtype, src, 65536, b);
        for (int i = 0; i < 65536; i++) {
            if (isnan(a[i]) && isnan(b[i])) continue;
            assert_same_bits(a + i, b + i, 1, "half", t, i);
        }
    }
    free(src);
    drop(a);
    drop(b);
}

static void check_pack(hsc_dtype dtype, int n_out, int k0, int n_k, int n_in)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    matrix w = random_matrix(dtype, n_out, n_in, 6);
    float *panel = get_floats((size_t)n_k * (size_t)kernels->nr);
    kernels->pack(dtype, w.data, w.row_bytes, n_out, k0, n_k, panel);
    for (int k = 0; k < n_k; k++) {
        for (int o = 0; o < kernels->nr; o++) {
            float right = o < n_out ? w.values[(size_t)o * (size_t)n_in + (size_t)(k0 + k)] : 0;
            assert_same_bits(panel + (size_t)k * (size_t)kernels->nr + o, &right, 1, "pack", (int)dtype, n_out);
        }
    }
    drop(panel);
    drop_matrix(&w);
}

static void test_pack(void **state)
{
    (void)state;
    for (int t = 0; t < N_DATA_TYPES; t++) {
        int block = hsc__dtype_block(data_types[t]);
        for (int n_out = 1; n_out <= hsc__kernels_get()->nr; n_out++) {
            int n_k = (1 + random_below(block == 1 ? 70 : 3)) * block, k0 = random_below(4) * block;
            check_pack(data_types[t], n_out, k0, n_k, k0 + n_k);
            check_pack(data_types[t], n_out, k0, n_k, k0 + n_k + block);
        }
    }
}

static void test_pack_t(void **state)
{
    (void)state;
    const hsc__kernels *kernels = hsc__kernels_get();
    for (int t = 0; hsc__dtype_block(data_types[t]) == 1; t++) {
        for (int n_out = 1; n_out <= kernels->nr; n_out++) {
            int n_k = 1 + random_below(70);
            matrix w = random_matrix(data_types[t], n_k, n_out, 3);
            float *panel = get_floats((size_t)n_k * (size_t)kernels->nr);
            kernels->pack_t(data_types[t], w.data, w.row_bytes, n_out, n_k, panel);
            for (int k = 0; k < n_k; k++) {
                for (int o = 0; o < kernels->nr; o++) {
                    float right = o < n_out ? w.values[(size_t)k * (size_t)n_out + (size_t)o] : 0;
                    assert_same_bits(panel + (size_t)k * (size_t)kernels->nr + o, &right, 1, "pack_t", t, n_out);
                }
            }
            drop(panel);
            drop_matrix(&w);
        }
    }
}

/* One product y[rows][cols] = x[rows][n_k] * panel[n_k][cols]; strides wider than need be. */
typedef struct product {
    int rows, cols, n_k;
    size_t x_stride, panel_stride, y_stride;
    float *x, *panel, *y;
} product;

static product random_product(int rows, int cols, int n_k)
{
    product p = {rows, cols, n_k, (size_t)n_k + 3, (size_t)cols + 5, (size_t)cols + 1, NULL, NULL, NULL};
    p.x = random_floats((size_t)(rows - 1) * p.x_stride + (size_t)n_k);
    p.panel = random_floats((size_t)(n_k - 1) * p.panel_stride + (size_t)cols);
    p.y = random_floats((size_t)(rows - 1) * p.y_stride + (size_t)cols);
    return p;
}

static void drop_product(product *p)
{
    drop(p->x);
    drop(p->panel);
    drop(p->y);
}

static size_t y_floats(const product *p)
{
    return (size_t)(p->rows - 1) * p->y_stride + (size_t)p->cols;
}

/* Any order of n products and sums errs by at most n eps times the sum of magnitudes (Higham 2002, section 3.1). */
static void check_gemm(const product *p, hsc__gemm_mode mode)
{
    float *y = get_floats(y_floats(p));
    memcpy(y, p->y, y_floats(p) * sizeof *y);
    hsc__kernels_get()->gemm(mode, p->rows, p->cols, p->n_k, p->x, p->x_stride, p->panel, p->panel_stride, y,
                             p->y_stride, NULL);
    for (int r = 0; r < p->rows; r++) {
        for (size_t c = 0; c < p->y_stride; c++) {
            size_t at = (size_t)r * p->y_stride + c;
            if (at >= y_floats(p)) break;
            if (c >= (size_t)p->cols) { /* between the rows nothing may change */
                assert_same_bits(y + at, p->y + at, 1, "gemm beside its columns", p->cols, p->rows);
                continue;
            }
            double sum = mode == HSC__GEMM_START ? 0 : p->y[at], size = fabs(sum);
            for (int k = 0; k < p->n_k; k++) {
                double term =
                    (double)p->x[(size_t)r * p->x_stride + (size_t)k] * p->panel[(size_t)k * p->panel_stride + c];
                sum += term;
                size += fabs(term);
            }
            if (fabs(y[at] - sum) > (p->n_k + 2) * (double)FLT_EPSILON / 2 * size * 1.01)
                fail_msg("gemm %d x %d x %d mode %d: row %d column %zu is %g, not %g", p->rows, p->cols, p->n_k,
                         (int)mode, r, c, (double)y[at], sum);
        }
    }
    drop(y);
}

static void test_gemm(void **state)
{
    (void)state;
    for (int mode = HSC__GEMM_START; mode <= HSC__GEMM_ADD; mode++) {
        for (int i = 1; i <= 70; i++) {
            product shapes[] = {random_product(i, 1 + random_below(70), 1 + random_below(70)),
                                random_product(1 + random_below(30), i, 1 + random_below(70)),
                                random_product(1 + random_below(30), 1 + random_below(70), i)};
            for (int s = 0; s < 3; s++) {
                check_gemm(&shapes[s], (hsc__gemm_mode)mode);
                drop_product(&shapes[s]);
            }
        }
    }
    product large = random_product(129, 257, 515);
    check_gemm(&large, HSC__GEMM_START);
    drop_product(&large);
}

static void test_gemm_nothing(void **state)
{
    (void)state;
    const hsc__kernels *kernels = hsc__kernels_get();
    float y[3] = {1, -2, 3}, none = 0;
    kernels->gemm(HSC__GEMM_ADD, 1, 3, 0, &none, 0, &none, 0, y, 3, NULL);
    kernels->gemm(HSC__GEMM_CONTINUE, 1, 3, 0, &none, 0, &none, 0, y, 3, NULL);
    kernels->gemm(HSC__GEMM_START, 0, 3, 5, &none, 0, &none, 0, y, 3, NULL);
    kernels->gemm(HSC__GEMM_START, 3, 0, 5, &none, 0, &none, 0, y, 3, NULL);
    assert_true(y[0] == 1 && y[1] == -2 && y[2] == 3);
    kernels->gemm(HSC__GEMM_START, 1, 3, 0, &none, 0, &none, 0, y, 3, NULL);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0);
}

/* The same product by row, by columns cut at random, and by k cut at random. */
static void check_cuts(const product *p, hsc__gemm_mode mode)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    size_t n = y_floats(p);
    float *whole = get_floats(n), *cut = get_floats(n);
    memcpy(whole, p->y, n * sizeof *whole);
    kernels->gemm(mode, p->rows, p->cols, p->n_k, p->x, p->x_stride, p->panel, p->panel_stride, whole, p->y_stride,
                  NULL);

    memcpy(cut, p->y, n * sizeof *cut);
    for (int r = 0; r < p->rows; r++) {
        kernels->gemm(mode, 1, p->cols, p->n_k, p->x + (size_t)r * p->x_stride, p->x_stride, p->panel, p->panel_stride,
                      cut + (size_t)r * p->y_stride, p->y_stride, NULL);
    }
    assert_same_bits(cut, whole, n, "a row alone", p->rows, p->cols);

    memcpy(cut, p->y, n * sizeof *cut);
    for (int c = 0, width; c < p->cols; c += width) {
        width = 1 + random_below(p->cols - c);
        kernels->gemm(mode, p->rows, width, p->n_k, p->x, p->x_stride, p->panel + c, p->panel_stride, cut + c,
                      p->y_stride, NULL);
    }
    assert_same_bits(cut, whole, n, "columns cut", p->rows, p->cols);

    if (mode == HSC__GEMM_ADD) mode = HSC__GEMM_START; /* a sum that is set aside cannot be cut in place */
    memcpy(whole, p->y, n * sizeof *whole);
    memcpy(cut, p->y, n * sizeof *cut);
    kernels->gemm(mode, p->rows, p->cols, p->n_k, p->x, p->x_stride, p->panel, p->panel_stride, whole, p->y_stride,
                  NULL);
    for (int k = 0, depth; k < p->n_k; k += depth) {
        depth = 1 + random_below(p->n_k - k);
        kernels->gemm(k ? HSC__GEMM_CONTINUE : mode, p->rows, p->cols, depth, p->x + k, p->x_stride,
                      p->panel + (size_t)k * p->panel_stride, p->panel_stride, cut, p->y_stride, NULL);
    }
    assert_same_bits(cut, whole, n, "sums cut", p->rows, p->n_k);
    drop(whole);
    drop(cut);
}

static void test_gemm_same_bits(void **state)
{
    (void)state;
    for (int i = 1; i <= 70; i++) {
        product p = random_product(1 + random_below(40), i, 1 + random_below(300));
        check_cuts(&p, (hsc__gemm_mode)(i % 3));
        drop_product(&p);
    }
}

static void run_product(const void *user, const hsc__ending *end)
{
    const product *p = user;
    float *sums = get_floats(y_floats(p));
    memcpy(sums, p->y, y_floats(p) * sizeof *sums);
    hsc__kernels_get()->gemm(HSC__GEMM_ADD, p->rows, p->cols, p->n_k, p->x, p->x_stride, p->panel, p->panel_stride,
                             sums, p->y_stride, end);
    drop(sums);
}

static void test_gemm_ending(void **state)
{
    (void)state;
    for (int i = 1; i <= 70; i++) {
        product p = random_product(1 + random_below(40), i, 1 + random_below(300));
        float *sums = get_floats(y_floats(&p));
        memcpy(sums, p.y, y_floats(&p) * sizeof *sums);
        hsc__kernels_get()->gemm(HSC__GEMM_ADD, p.rows, p.cols, p.n_k, p.x, p.x_stride, p.panel, p.panel_stride, sums,
                                 p.y_stride, NULL);
        check_endings(sums, p.rows, p.cols, p.y_stride, run_product, &p);
        drop(sums);
        drop_product(&p);
    }
}

/* The product as a caller with many rows computes it: panels packed chunk by chunk, chunk sums added in order. */
static void by_panels(const matrix *w, bool by_input, int n_out, int n_in, const float *x, size_t x_stride, int rows,
                      float *y, size_t y_stride)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    int nr = kernels->nr;
    float *panel = get_floats((size_t)HSC__K_CHUNK * (size_t)nr);
    for (int o = 0; o < n_out; o += nr) {
        int cols = n_out - o < nr ? n_out - o : nr;
        for (int k = 0; k < n_in; k += HSC__K_CHUNK) {
            int n_k = n_in - k < HSC__K_CHUNK ? n_in - k : HSC__K_CHUNK;
            if (by_input) {
                kernels->pack_t(w->dtype, w->data + (size_t)k * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o),
                                w->row_bytes, cols, n_k, panel);
            } else {
                kernels->pack(w->dtype, w->data + (size_t)o * w->row_bytes, w->row_bytes, cols, k, n_k, panel);
            }
            kernels->gemm(k ? HSC__GEMM_ADD : HSC__GEMM_START, rows, cols, n_k, x + k, x_stride, panel, (size_t)nr,
                          y + o, y_stride, NULL);
        }
    }
    drop(panel);
}

static void check_few(hsc_dtype dtype, bool by_input, int rows, int n_out, int n_in, size_t gap)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    matrix w = by_input ? random_matrix(dtype, n_in, n_out, gap) : random_matrix(dtype, n_out, n_in, gap);
    size_t x_stride = (size_t)n_in + 2, y_stride = (size_t)n_out + 3;
    size_t n = (size_t)(rows - 1) * y_stride + (size_t)n_out;
    float *x = random_floats((size_t)(rows - 1) * x_stride + (size_t)n_in);
    float *right = random_floats(n), *y = get_floats(n);
    memcpy(y, right, n * sizeof *y);
    by_panels(&w, by_input, n_out, n_in, x, x_stride, rows, right, y_stride);
    (by_input ? kernels->few_t : kernels->few)(dtype, w.data, w.row_bytes, n_out, n_in, x, x_stride, rows, y, y_stride);
    assert_same_bits(y, right, n, by_input ? "few_t" : "few", (int)dtype, rows * 100000 + n_out);
    drop(x);
    drop(y);
    drop(right);
    drop_matrix(&w);
}

static void test_few(void **state)
{
    (void)state;
    for (int t = 0; t < N_DATA_TYPES; t++) {
        int block = hsc__dtype_block(data_types[t]);
        for (int rows = 1; rows <= 30; rows++) {
            int n_in = (1 + random_below(70)) * (block == 1 ? 1 + random_below(10) : block);
            check_few(data_types[t], false, rows, 1 + random_below(90), n_in, (size_t)random_below(9));
            if (block == 1) check_few(data_types[t], true, rows, 1 + random_below(90), n_in, (size_t)random_below(9));
        }
        check_few(data_types[t], false, 70, 129, 576, 0);
        check_few(data_types[t], false, 1, 129, 3072, 0);
        if (block == 1) check_few(data_types[t], true, 5, 1700, 600, 0);
    }
}

/* few against double precision: what test_gemm shows for gemm holds for the whole product. */
static void test_few_value(void **state)
{
    (void)state;
    enum { ROWS = 3, OUT = 40, IN = 544 };
    for (int t = 0; t < N_DATA_TYPES; t++) {
        matrix w = random_matrix(data_types[t], OUT, IN, 0);
        float *x = random_floats(ROWS * IN), *y = get_floats(ROWS * OUT);
        hsc__kernels_get()->few(data_types[t], w.data, w.row_bytes, OUT, IN, x, IN, ROWS, y, OUT);
        for (int i = 0; i < ROWS * OUT; i++) {
            double sum = 0, size = 0;
            for (int k = 0; k < IN; k++) {
                double term = (double)x[i / OUT * IN + k] * w.values[i % OUT * IN + k];
                sum += term;
                size += fabs(term);
            }
            assert_true(fabs(y[i] - sum) <= (HSC__K_CHUNK + 4) * (double)FLT_EPSILON / 2 * size);
        }
        drop(x);
        drop(y);
        drop_matrix(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dequantise),     cmocka_unit_test(test_halves),      cmocka_unit_test(test_pack),
        cmocka_unit_test(test_pack_t),         cmocka_unit_test(test_gemm),        cmocka_unit_test(test_gemm_nothing),
        cmocka_unit_test(test_gemm_same_bits), cmocka_unit_test(test_gemm_ending), cmocka_unit_test(test_few),
        cmocka_unit_test(test_few_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
