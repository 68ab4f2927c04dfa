/*
 * Products: against double precision, and the same bits for a row alone (straight from the mapping) or among many
 * (packed panels), for every stored type and both orientations, with bias and residual fused.
 */
#include "random_array.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "tensor/linear.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Random bytes are legal blocks of every type once the half-precision scales are made small and finite. */
static unsigned char *random_weight(hsc_dtype dtype, size_t rows, size_t columns)
{
    size_t bytes = rows * hsc__dtype_bytes(dtype, columns), block = (size_t)hsc__dtype_block_bytes(dtype);
    unsigned char *w = malloc(bytes);
    assert_non_null(w);
    for (size_t i = 0; i < bytes; i++) w[i] = (unsigned char)(random_float() * 127);
    for (size_t i = 0; i + block <= bytes; i += block) {
        float f = random_float();
        double d = random_float();
        if (dtype == HSC_F32) memcpy(w + i, &f, 4);
        else if (dtype == HSC_F64) memcpy(w + i, &d, 8);
        else if (dtype == HSC_BF16) w[i + 1] = 0x3e;
        else w[i + 1] = 0x24; /* exponent of 1/64 */
        if (dtype == HSC_Q4_1 || dtype == HSC_Q5_1) w[i + 3] = 0xA8;
    }
    return w;
}

typedef struct {
    hsc__weight w;
    unsigned char *data;
    float *bias, *x, *residual, *plain; /* plain: the weight as [n_out][n_in] */
    int n_rows;
} fixture;

static fixture make(hsc_dtype dtype, bool transposed, int n_out, int n_in, int n_rows)
{
    fixture f = {.n_rows = n_rows};
    size_t rows = (size_t)(transposed ? n_in : n_out), columns = (size_t)(transposed ? n_out : n_in);
    f.data = random_weight(dtype, rows, columns);
    f.bias = random_array((size_t)n_out, 1);
    f.x = random_array((size_t)n_rows * (size_t)n_in, 1);
    f.residual = random_array((size_t)n_rows * (size_t)n_out, 1);
    f.plain = malloc((size_t)n_out * (size_t)n_in * sizeof *f.plain);
    float *row = malloc(columns * sizeof *row);
    f.w = (hsc__weight){dtype, transposed, n_out, n_in, hsc__dtype_bytes(dtype, columns), f.data, f.bias, 0, 0};
    for (size_t r = 0; r < rows; r++) {
        hsc__kernels_ref()->dequantise(dtype, f.data + r * f.w.row_bytes, (int64_t)columns, row);
        for (size_t c = 0; c < columns; c++) f.plain[transposed ? c * (size_t)n_in + r : r * (size_t)n_in + c] = row[c];
    }
    free(row);
    return f;
}

static void drop(fixture *f)
{
    free(f->data);
    free(f->bias);
    free(f->x);
    free(f->residual);
    free(f->plain);
}

/* y of rows [from, from + n) with the residual added in place. */
static float *run(const fixture *f, hsc_compute compute, int from, int n, int n_threads)
{
    hsc__exec exec;
    size_t n_out = (size_t)f->w.n_out;
    float *y = malloc((size_t)n * n_out * sizeof *y);
    memcpy(y, f->residual + (size_t)from * n_out, (size_t)n * n_out * sizeof *y);
    assert_int_equal(hsc__exec_init(&exec, n_threads, hsc__linear_scratch(n), compute, n, f->w.n_in, NULL), HSC_OK);
    hsc__linear p = {&f->w, f->x + (size_t)from * (size_t)f->w.n_in, (size_t)f->w.n_in, y, n_out, y, n_out};
    hsc__linear_forward(&exec, &p, 1, n);
    hsc__exec_free(&exec);
    return y;
}

/* What one product may be off by, for inputs below 1 in size: rounding of the sum, and of what the kind rounds first
 * (bf16: both factors to 8 bits; q8: x to a step of 2 / 254 of the group's largest). */
static double tolerance(hsc_compute compute, double terms, double weights)
{
    double sum = (HSC__K_CHUNK + 8) * FLT_EPSILON * terms;
    if (compute == HSC_COMPUTE_BF16) return sum + terms / 128;
    return compute == HSC_COMPUTE_Q8 ? sum + weights / 250 : sum;
}

static void check(hsc_dtype dtype, bool transposed, hsc_compute compute, int n_out, int n_in, int n_rows)
{
    fixture f = make(dtype, transposed, n_out, n_in, n_rows);
    float *whole = run(&f, compute, 0, n_rows, 1);
    for (int r = 0; r < n_rows; r++) {
        for (int o = 0; o < n_out; o++) {
            double sum = f.bias[o] + (double)f.residual[r * n_out + o], size = fabs(sum), weights = 0;
            for (int k = 0; k < n_in; k++) {
                double term = (double)f.x[r * n_in + k] * f.plain[o * n_in + k];
                sum += term;
                size += fabs(term);
                weights += fabs(f.plain[o * n_in + k]);
            }
            assert_true(fabs(whole[r * n_out + o] - sum) <= tolerance(compute, size, weights));
        }
    }
    static const int sizes[] = {1, 2, 3, 5, 8, 13, 21, 34};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int from = 0; from + sizes[i] <= n_rows; from += sizes[i] + 3) {
            float *part = run(&f, compute, from, sizes[i], 2);
            assert_memory_equal(part, whole + from * n_out, (size_t)(sizes[i] * n_out) * sizeof *part);
            free(part);
        }
    }
    free(whole);
    drop(&f);
}

static void test_types(void **unused)
{
    (void)unused;
    static const hsc_dtype types[] = {HSC_F32,  HSC_F16,  HSC_BF16, HSC_F64, HSC_Q4_0,
                                      HSC_Q4_1, HSC_Q5_0, HSC_Q5_1, HSC_Q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int kind = HSC_COMPUTE_F32; kind <= HSC_COMPUTE_Q8; kind++) {
            check(types[i], false, (hsc_compute)kind, 70, 576, 41);
            check(types[i], false, (hsc_compute)kind, 17, 96, 14);
            if (hsc__dtype_block(types[i]) == 1) check(types[i], true, (hsc_compute)kind, 70, 577, 41);
        }
    }
}

static void test_odd_sizes(void **unused)
{
    (void)unused;
    static const int outs[] = {1, 7, 31, 32, 33, 129, 260}, ins[] = {1, 3, 16, 255, 256, 257, 700};
    for (size_t o = 0; o < sizeof outs / sizeof *outs; o++)
        for (size_t i = 0; i < sizeof ins / sizeof *ins; i++) {
            for (int t = 0; t < 4; t++)
                check(HSC_F32, t % 2, t < 2 ? HSC_COMPUTE_F32 : HSC_COMPUTE_BF16, outs[o], ins[i], 14);
            check(HSC_BF16, i % 2, HSC_COMPUTE_BF16, outs[o], ins[i], 14);
            check(HSC_BF16, false, HSC_COMPUTE_BF16, outs[o], ins[i], 9);
        }
}

/* Rows cut into parts so that few panels feed all threads: the result does not show it. */
static void test_row_splits(void **unused)
{
    (void)unused;
    fixture f = make(HSC_F32, false, 40, 300, 500);
    float *one = run(&f, HSC_COMPUTE_F32, 0, 500, 1), *many = run(&f, HSC_COMPUTE_F32, 0, 500, 8);
    assert_memory_equal(one, many, 500 * 40 * sizeof *one);
    free(one);
    free(many);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_odd_sizes),
                                       cmocka_unit_test(test_row_splits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
