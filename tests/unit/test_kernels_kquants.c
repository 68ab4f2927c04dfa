/*
 * Types with quantised scales: every bit as the `gguf` package reads it (golden blocks, tests/golden/make_kquants.py),
 * and the level in use against the reference: unpacking, panels, products of few rows. Then the quantisers: their
 * error, and blocks at the edges.
 */
#include "kernel_data.h"

/* In the order of the golden file. */
static const struct {
    hsc_dtype dtype;
    int scales[2]; /* where the half-precision scales of a block lie; the second may be -1 */
} types[] = {{HSC_Q2_K, {80, 82}},  {HSC_Q3_K, {108, -1}}, {HSC_Q4_K, {0, 2}},   {HSC_Q5_K, {0, 2}},
             {HSC_Q6_K, {208, -1}}, {HSC_IQ4_NL, {0, -1}}, {HSC_IQ4_XS, {0, -1}}};
enum { N_TYPES = sizeof types / sizeof types[0] };

static FILE *open_golden(void)
{
    const char *source = getenv("HEADSCOPE_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/kquants.bin", source ? source : ".");
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    return file;
}

static void read_all(void *to, size_t n, FILE *file)
{
    assert_int_equal(fread(to, 1, n, file), n);
}

static void test_as_gguf(void **state)
{
    (void)state;
    FILE *file = open_golden();
    for (int t = 0; t < N_TYPES; t++) {
        uint32_t head[3];
        read_all(head, sizeof head, file);
        size_t n_blocks = head[0], n = n_blocks * head[1], bytes = n_blocks * head[2];
        assert_int_equal(head[1], hsc__dtype_block(types[t].dtype));
        assert_int_equal(head[2], hsc__dtype_block_bytes(types[t].dtype));
        unsigned char *blocks = (unsigned char *)get_memory(bytes + 1) + 1;
        float *right = get_floats(n), *y = get_floats(n);
        read_all(blocks, bytes, file);
        read_all(right, n * sizeof *right, file);
        hsc__kernels_get()->dequantise(types[t].dtype, blocks, (int64_t)n, y);
        assert_same_bits(y, right, n, "dequantise, as gguf does", t, 0);
        free(blocks - 1);
        drop(right);
        drop(y);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void random_blocks(int t, unsigned char *p, size_t n_values)
{
    size_t bytes = hsc__dtype_bytes(types[t].dtype, n_values), size = (size_t)hsc__dtype_block_bytes(types[t].dtype);
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)random_bits();
    for (size_t i = 0; i < bytes; i += size) {
        for (int s = 0; s < 2 && types[t].scales[s] >= 0; s++) {
            uint16_t half = random_f16();
            memcpy(p + i + types[t].scales[s], &half, sizeof half);
        }
    }
}

/* As random_matrix of kernel_data.h. */
static matrix random_kquants(int t, int rows, int cols, size_t gap)
{
    size_t row = hsc__dtype_bytes(types[t].dtype, (size_t)cols), total = (row + gap) * (size_t)rows - gap;
    matrix m = {types[t].dtype, rows, cols, row + gap, (unsigned char *)get_memory(total + 1) + 1, NULL};
    m.values = get_floats((size_t)rows * (size_t)cols);
    for (int r = 0; r < rows; r++) {
        random_blocks(t, m.data + (size_t)r * m.row_bytes, (size_t)cols);
        hsc__kernels_ref()->dequantise(m.dtype, m.data + (size_t)r * m.row_bytes, cols,
                                       m.values + (size_t)r * (size_t)cols);
    }
    return m;
}

static void check_pack(int t, int n_out, int k0, int n_k, int n_in)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    matrix w = random_kquants(t, n_out, n_in, 6);
    float *panel = get_floats((size_t)n_k * (size_t)kernels->nr);
    kernels->pack(w.dtype, w.data, w.row_bytes, n_out, k0, n_k, panel);
    for (int k = 0; k < n_k; k++) {
        for (int o = 0; o < kernels->nr; o++) {
            float right = o < n_out ? w.values[(size_t)o * (size_t)n_in + (size_t)(k0 + k)] : 0;
            assert_same_bits(panel + (size_t)k * (size_t)kernels->nr + o, &right, 1, "pack", t, n_out);
        }
    }
    drop(panel);
    drop_matrix(&w);
}

static void test_pack(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        assert_true(hsc__kernels_can_read(types[t].dtype));
        int block = hsc__dtype_block(types[t].dtype);
        for (int n_out = 1; n_out <= hsc__kernels_get()->nr; n_out++) {
            int n_k = (1 + random_below(2)) * block, k0 = random_below(3) * block;
            check_pack(t, n_out, k0, n_k, k0 + n_k + block);
        }
    }
}

/* few against panels of the same level: the same bits; and against double precision, with the bound for sums of
 * HSC__K_CHUNK terms. */
static void check_few(int t, int rows, int n_out, int n_in)
{
    const hsc__kernels *k = hsc__kernels_get();
    matrix w = random_kquants(t, n_out, n_in, 3);
    size_t nr = (size_t)k->nr, n = (size_t)(rows * n_out);
    float *x = random_floats((size_t)(rows * n_in)), *y = get_floats(n), *right = get_floats(n);
    float *panel = get_floats(HSC__K_CHUNK * nr);
    k->few(w.dtype, w.data, w.row_bytes, n_out, n_in, x, (size_t)n_in, rows, y, (size_t)n_out);
    for (int o = 0; o < n_out; o += k->nr) {
        int cols = n_out - o < k->nr ? n_out - o : k->nr;
        for (int at = 0; at < n_in; at += HSC__K_CHUNK) {
            int n_k = n_in - at < HSC__K_CHUNK ? n_in - at : HSC__K_CHUNK;
            k->pack(w.dtype, w.data + (size_t)o * w.row_bytes, w.row_bytes, cols, at, n_k, panel);
            k->gemm(at ? HSC__GEMM_ADD : HSC__GEMM_START, rows, cols, n_k, x + at, (size_t)n_in, panel, nr, right + o,
                    (size_t)n_out, NULL);
        }
    }
    assert_same_bits(y, right, n, "few", t, n_out);
    for (size_t i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (int j = 0; j < n_in; j++) {
            double term = (double)x[i / (size_t)n_out * (size_t)n_in + (size_t)j] *
                          w.values[i % (size_t)n_out * (size_t)n_in + (size_t)j];
            sum += term;
            size += fabs(term);
        }
        assert_true(fabs(y[i] - sum) <= (HSC__K_CHUNK + n_in / HSC__K_CHUNK + 2) * (double)FLT_EPSILON / 2 * size);
    }
    drop(x);
    drop(y);
    drop(right);
    drop(panel);
    drop_matrix(&w);
}

static void test_few(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        int block = hsc__dtype_block(types[t].dtype);
        for (int rows = 1; rows <= 13; rows += 4)
            check_few(t, rows, 1 + random_below(70), (1 + random_below(5)) * block);
        check_few(t, 1, 65, 1536);
    }
}

/* Every kind of product that the level offers reads these types alike. */
static void test_bf16(void **state)
{
    (void)state;
    enum { ROWS = 2, OUT = 37, IN = 512 };
    const hsc__kernels *k = hsc__kernels_get();
    for (int t = 0; t < N_TYPES; t++) {
        matrix w = random_kquants(t, OUT, IN, 0);
        float *x = random_floats(ROWS * IN), *y = get_floats(ROWS * OUT), *right = get_floats(ROWS * OUT);
        uint16_t x16[ROWS * IN];
        k->round_bf16(x, ROWS * IN, x16);
        k->few_bf16(w.dtype, w.data, w.row_bytes, OUT, IN, x16, IN, ROWS, y, OUT);
        k->few_bf16(HSC_F32, w.values, IN * sizeof(float), OUT, IN, x16, IN, ROWS, right, OUT);
        assert_same_bits(y, right, ROWS * OUT, "few_bf16", t, 0);
        drop(x);
        drop(y);
        drop(right);
        drop_matrix(&w);
    }
}

/* What conversion writes, with the root mean square error of the ggml project's quantisers on standard normal values,
 * as a share of their root mean square (measured: 256 rows of 2,048 values). */
static const struct {
    hsc_dtype dtype;
    double peer;
} written[] = {{HSC_Q4_0, 0.08617}, {HSC_Q4_1, 0.07830}, {HSC_Q5_0, 0.04278},
               {HSC_Q8_0, 0.00537}, {HSC_Q4_K, 0.07144}, {HSC_Q6_K, 0.01779}};
enum { N_WRITTEN = sizeof written / sizeof written[0] };

/* There and back. */
static void round_trip(hsc_dtype dtype, const float *x, int n, float *y)
{
    unsigned char *blocks = get_memory(hsc__dtype_bytes(dtype, (size_t)n));
    hsc__kernels_get()->quantise(dtype, x, n, blocks);
    hsc__kernels_get()->dequantise(dtype, blocks, n, y);
    free(blocks);
}

static void test_quantise_error(void **state)
{
    (void)state;
    enum { N = 64 * 2048 };
    float *x = get_floats(N), *y = get_floats(N);
    for (int i = 0; i < N; i += 2) { /* Box and Muller 1958 */
        double radius = sqrt(-2 * log((random_bits() + 1.0) / 4294967297.0)), angle = 3.14159265358979 * random_float();
        x[i] = (float)(radius * cos(angle) / 50);
        x[i + 1] = (float)(radius * sin(angle) / 50);
    }
    for (int t = 0; t < N_WRITTEN; t++) {
        double error = 0, size = 0;
        assert_true(hsc__kernels_can_write(written[t].dtype));
        round_trip(written[t].dtype, x, N, y);
        for (int i = 0; i < N; i++) {
            error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
            size += (double)x[i] * x[i];
        }
        if (!(sqrt(error / size) <= 1.02 * written[t].peer))
            fail_msg("type %d: error %g, the peer's is %g", (int)written[t].dtype, sqrt(error / size), written[t].peer);
    }
    drop(x);
    drop(y);
}

/* Zeros, one value throughout, one large value, values on a grid, and the ends of the range: nothing is read or written
 * outside, zeros stay zeros, and what fits the codes exactly is kept exactly. */
static void test_quantise_edges(void **state)
{
    (void)state;
    float *x = get_floats(256), *y = get_floats(256);
    for (int t = 0; t < N_WRITTEN; t++) {
        hsc_dtype dtype = written[t].dtype;
        for (int i = 0; i < 256; i++) x[i] = 0;
        round_trip(dtype, x, 256, y);
        for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int i = 0; i < 256; i++) x[i] = (float)sign * 0.75f;
            round_trip(dtype, x, 256, y);
            for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - x[i]) <= 0.75f / 512);
            for (int i = 0; i < 256; i++) x[i] = i == 77 ? (float)sign * 100 : 0;
            round_trip(dtype, x, 256, y);
            for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - x[i]) <= 100.0f / 64);
        }
        x[130] = FLT_MAX;
        x[200] = 1e-42f;
        round_trip(dtype, x, 256, y);
        for (int i = 0; i < 256; i++) x[i] = 1e-42f;
        round_trip(dtype, x, 256, y);
        for (int i = 0; i < 256; i++) assert_true(fabsf(y[i]) <= 1e-41f);
    }
    static const hsc_dtype exact[] = {HSC_Q4_0, HSC_Q4_1, HSC_Q5_0, HSC_Q4_K};
    for (size_t t = 0; t < sizeof exact / sizeof *exact; t++) {
        for (int i = 0; i < 256; i++) x[i] = 0.125f * (float)(i % 16 - 8);
        round_trip(exact[t], x, 256, y);
        for (int i = 0; i < 256; i++) assert_true(fabsf(y[i] - x[i]) <= (exact[t] == HSC_Q4_K ? 2e-3f : 0));
    }
    drop(x);
    drop(y);
}

/* A block that holds NaN or an infinity reads as NaN, every value of it; no other block changes. */
static void test_not_finite(void **state)
{
    (void)state;
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    enum { N = 3 * 256 };
    float *x = random_floats(N), *right = get_floats(N), *y = get_floats(N);
    for (int t = 0; t < N_WRITTEN; t++) {
        int block = hsc__dtype_block(written[t].dtype);
        round_trip(written[t].dtype, x, N, right);
        for (int i = 0; i < N; i += 41) {
            float was = x[i];
            x[i] = odd[i % 4];
            round_trip(written[t].dtype, x, N, y);
            x[i] = was;
            for (int j = 0; j < N; j++) {
                if (j / block == i / block) assert_true(y[j] != y[j]);
                else assert_true(y[j] == right[j]);
            }
        }
    }
    drop(x);
    drop(right);
    drop(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_gguf),   cmocka_unit_test(test_pack),           cmocka_unit_test(test_few),
        cmocka_unit_test(test_bf16),      cmocka_unit_test(test_quantise_error), cmocka_unit_test(test_quantise_edges),
        cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
