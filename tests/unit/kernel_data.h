/* Random numbers, weights of every type and buffers of exact size for the tests of kernels. */
#ifndef HSC_TESTS_KERNEL_DATA_H
#define HSC_TESTS_KERNEL_DATA_H

#include "base/dtype.h"
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const hsc_dtype data_types[] = {HSC_F32,  HSC_F16,  HSC_BF16, HSC_F64, HSC_Q4_0,
                                       HSC_Q4_1, HSC_Q5_0, HSC_Q5_1, HSC_Q8_0};
enum { N_DATA_TYPES = sizeof data_types / sizeof data_types[0] };

/* xorshift64*: the same numbers everywhere. */
static uint64_t random_state = 88172645463325252u;

static inline uint32_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)(random_state * 2685821657736338717u >> 32);
}

/* In (-1, 1). */
static inline float random_float(void)
{
    return (float)((double)random_bits() / 2147483648.0 - 1);
}

static inline int random_below(int n)
{
    return (int)(random_bits() % (uint32_t)n);
}

static inline void *get_memory(size_t n)
{
    void *p = malloc(n ? n : 1);
    assert_non_null(p);
    return p;
}

/* n floats that end where the block ends and begin off any vector boundary; release with drop. */
static inline float *get_floats(size_t n)
{
    return (float *)get_memory((n + 1) * sizeof(float)) + 1;
}

static inline void drop(float *p)
{
    free(p - 1);
}

static inline float *random_floats(size_t n)
{
    float *p = get_floats(n);
    for (size_t i = 0; i < n; i++) p[i] = random_float();
    return p;
}

static inline uint16_t random_f16(void)
{
    return (uint16_t)((random_bits() & 0x8000) | (8 + random_bits() % 10) << 10 | (random_bits() & 1023));
}

/* n bytes that hold sound values of the type: random bits with finite scales of moderate size. */
static inline void random_weights(hsc_dtype dtype, unsigned char *p, size_t n_values)
{
    size_t block = (size_t)hsc__dtype_block(dtype), bytes = (size_t)hsc__dtype_block_bytes(dtype);
    for (size_t i = 0; i < n_values / block; i++, p += bytes) {
        float single = random_float();
        double wide = single * (1 + 1e-9);
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        uint16_t brain = (uint16_t)(bits >> 16), half = random_f16(), minimum = random_f16();
        for (size_t j = 0; j < bytes; j++) p[j] = (unsigned char)random_bits();
        switch (dtype) {
        case HSC_F32: memcpy(p, &single, sizeof single); break;
        case HSC_F64: memcpy(p, &wide, sizeof wide); break;
        case HSC_BF16: memcpy(p, &brain, sizeof brain); break;
        case HSC_Q4_1:
        case HSC_Q5_1: memcpy(p + 2, &minimum, sizeof minimum); /* fall through */
        default: memcpy(p, &half, sizeof half); break;
        }
    }
}

/* A weight matrix whose first byte is off any boundary and whose last is the block's last; release with drop_matrix. */
typedef struct matrix {
    hsc_dtype dtype;
    int rows, cols; /* as stored */
    size_t row_bytes;
    unsigned char *data;
    float *values; /* [rows][cols], by the reference */
} matrix;

static inline matrix random_matrix(hsc_dtype dtype, int rows, int cols, size_t gap)
{
    size_t row = hsc__dtype_bytes(dtype, (size_t)cols), total = row * (size_t)rows + gap * (size_t)(rows - 1);
    matrix m = {dtype, rows, cols, row + gap, (unsigned char *)get_memory(total + 1) + 1, NULL};
    m.values = get_floats((size_t)rows * (size_t)cols);
    for (int r = 0; r < rows; r++) {
        unsigned char *p = m.data + (size_t)r * m.row_bytes;
        random_weights(dtype, p, (size_t)cols);
        hsc__kernels_ref()->dequantise(dtype, p, cols, m.values + (size_t)r * (size_t)cols);
        if (gap && r + 1 < rows) memset(p + row, 0xFF, gap); /* NaN, should anybody read it */
    }
    return m;
}

static inline void drop_matrix(matrix *m)
{
    free(m->data - 1);
    drop(m->values);
}

static inline void assert_same_bits(const float *a, const float *b, size_t n, const char *what, int i, int j)
{
    for (size_t k = 0; k < n; k++) {
        if (memcmp(a + k, b + k, sizeof *a) == 0) continue;
        fail_msg("%s (%s): %d %d: element %zu is %a, not %a", what, hsc__kernels_get()->name, i, j, k, (double)a[k],
                 (double)b[k]);
    }
}

/* A product of a kernel under test, run with its sums on their way to `end`. */
typedef void (*ending_fn)(const void *user, const hsc__ending *end);

/* That run(user, end) ends sums [rows][stride] as hsc__ending says: with bias, residual (which y is), both, neither;
 * and that it leaves alone what lies between the rows of y. */
static inline void check_endings(const float *sums, int rows, int cols, size_t stride, ending_fn run, const void *user)
{
    size_t wide = (size_t)cols + 3, n = (size_t)rows * wide;
    float *bias = random_floats((size_t)cols), *before = random_floats(n), *y = get_floats(n), *right = get_floats(n);
    for (int kind = 0; kind < 4; kind++) {
        bool has_bias = kind & 1, has_residual = kind & 2;
        memcpy(y, before, n * sizeof *y);
        memcpy(right, before, n * sizeof *right);
        for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) {
            size_t r = i / (size_t)cols, c = i % (size_t)cols, at = r * wide + c;
            float sum = has_bias ? sums[r * stride + c] + bias[c] : sums[r * stride + c];
            right[at] = has_residual ? before[at] + sum : sum;
        }
        hsc__ending end = {has_bias ? bias : NULL, has_residual ? y : NULL, wide, y, wide};
        run(user, &end);
        assert_same_bits(y, right, n, "ending", kind, cols);
    }
    drop(bias);
    drop(before);
    drop(y);
    drop(right);
}

#endif
