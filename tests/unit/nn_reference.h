/*
 * The layers in double, written from their definitions, and derivatives by central differences: what the tests of the
 * float32 layers compare with. Arrays are dense and row-major.
 */
#ifndef HSC_TESTS_NN_REFERENCE_H
#define HSC_TESTS_NN_REFERENCE_H

#include "headscope/nn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ARRAYS = 16, MAX_FLOATS = 4096 };

/* ------------------------------------------------------------------------------------------------------ layers ---- */

/* y [rows][n_out] = x W^T + b with w [n_out][n_in]. */
static inline void ref_linear(const double *x, const double *w, const double *b, int rows, int n_in, int n_out,
                              double *y)
{
    for (int r = 0; r < rows; r++) {
        for (int o = 0; o < n_out; o++) {
            double sum = b ? b[o] : 0;
            for (int i = 0; i < n_in; i++) sum += x[r * n_in + i] * w[o * n_in + i];
            y[r * n_out + o] = sum;
        }
    }
}

static inline void ref_softmax(double *row, int n)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, row[i]);
    for (int i = 0; i < n && max > -INFINITY; i++) sum += exp(row[i] - max);
    for (int i = 0; i < n; i++) row[i] = max > -INFINITY ? exp(row[i] - max) / sum : 0;
}

static inline void ref_norm(bool layer, const double *x, const double *gain, const double *bias, double eps, int rows,
                            int n, double *y)
{
    for (int r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0, var = 0;
        for (int i = 0; i < n && layer; i++) mean += x[i] / n;
        for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
        for (int i = 0; i < n; i++)
            y[i] = (x[i] - mean) / sqrt(var + eps) * (gain ? gain[i] : 1) + (bias ? bias[i] : 0);
    }
}

static inline double ref_act(hsc_nn_activation kind, double x)
{
    switch (kind) {
    case HSC_NN_RELU: return x > 0 ? x : 0;
    case HSC_NN_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
    case HSC_NN_GELU_TANH: return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case HSC_NN_SILU: return x / (1 + exp(-x));
    case HSC_NN_TANH: return tanh(x);
    default: return x;
    }
}

/* One head: out [n_query][d_v]; rows of q, k, v and out are strides apart. allowed(q, k) by the mask's words. */
typedef struct ref_head {
    const double *q, *k, *v;
    int n_query, n_key, d_k, d_v, q_stride, k_stride, v_stride;
    const hsc_nn_mask *mask; /* one table */
} ref_head;

static inline bool ref_allowed(const ref_head *h, int q, int k)
{
    const hsc_nn_mask *m = h->mask;
    int position = h->n_key - h->n_query + q;
    if (!m) return true;
    if (m->allowed && !m->allowed[q * h->n_key + k]) return false;
    return !(m->causal && k > position) && !(m->window > 0 && k <= position - m->window);
}

static inline void ref_attention(const ref_head *h, double *out, int out_stride)
{
    double row[MAX_FLOATS];
    for (int q = 0; q < h->n_query; q++) {
        for (int k = 0; k < h->n_key; k++) {
            double sum = 0;
            for (int i = 0; i < h->d_k; i++) sum += h->q[q * h->q_stride + i] * h->k[k * h->k_stride + i];
            row[k] = ref_allowed(h, q, k) ? sum / sqrt(h->d_k) : -INFINITY;
        }
        ref_softmax(row, h->n_key);
        for (int i = 0; i < h->d_v; i++) {
            double sum = 0;
            for (int k = 0; k < h->n_key; k++) sum += row[k] * h->v[k * h->v_stride + i];
            out[q * out_stride + i] = sum;
        }
    }
}

/* Heads of width d / n_heads over x [batch][n][d]; w [4][d][d] and b [4][d]: q, k, v, o. */
static inline void ref_heads(const double *x, const double *w, const double *b, int batch, int n, int d, int n_heads,
                             const hsc_nn_mask *mask, double *y)
{
    double q[MAX_FLOATS], k[MAX_FLOATS], v[MAX_FLOATS], z[MAX_FLOATS];
    int rows = batch * n, size = d / n_heads;
    assert_true(rows * d <= MAX_FLOATS);
    ref_linear(x, w, b, rows, d, d, q);
    ref_linear(x, w + d * d, b + d, rows, d, d, k);
    ref_linear(x, w + 2 * d * d, b + 2 * d, rows, d, d, v);
    for (int i = 0; i < batch; i++) {
        for (int h = 0; h < n_heads; h++) {
            int at = i * n * d + h * size;
            ref_head head = {q + at, k + at, v + at, n, n, size, size, d, d, d, mask};
            ref_attention(&head, z + at, d);
        }
    }
    ref_linear(z, w + 3 * d * d, b + 3 * d, rows, d, d, y);
}

/* ----------------------------------------------------------------------------------- derivatives by differences ----
 */

/* Arrays a layer reads, with the float32 derivatives that are to be right, and its output. */
typedef struct ref_case {
    const char *name;
    int n_arrays;
    size_t sizes[MAX_ARRAYS];
    float *arrays[MAX_ARRAYS], *grads[MAX_ARRAYS]; /* grads set to 0 by ref_add */
    double *wide[MAX_ARRAYS];                      /* the arrays in double */
    size_t n_out;
    float *dy;
    void (*forward)(const struct ref_case *c, double *y);
    int sizes_of_layer[8]; /* what `forward` wants to know */
    const hsc_nn_mask *mask;
} ref_case;

static inline float *ref_random(size_t n, double scale)
{
    static hsc_random random;
    static bool seeded;
    if (!seeded) hsc_random_seed(&random, 5);
    seeded = true;
    float *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    hsc_random_uniform(&random, (float)-scale, (float)scale, n, x);
    return x;
}

/* An array of n random floats; returns it. */
static inline float *ref_add(ref_case *c, size_t n, double scale)
{
    int i = c->n_arrays++;
    assert_true(i < MAX_ARRAYS);
    c->sizes[i] = n;
    c->arrays[i] = ref_random(n, scale);
    c->grads[i] = calloc(n, sizeof(float));
    c->wide[i] = malloc(n * sizeof(double));
    assert_true(c->grads[i] && c->wide[i]);
    for (size_t k = 0; k < n; k++) c->wide[i][k] = c->arrays[i][k];
    return c->arrays[i];
}

static inline void ref_output(ref_case *c, size_t n)
{
    c->n_out = n;
    c->dy = ref_random(n, 1);
}

static inline double ref_loss(const ref_case *c)
{
    double y[MAX_FLOATS], sum = 0;
    assert_true(c->n_out <= MAX_FLOATS);
    c->forward(c, y);
    for (size_t i = 0; i < c->n_out; i++) sum += y[i] * c->dy[i];
    return sum;
}

/* The output of the layer against the definition. */
static inline void ref_check_output(const ref_case *c, const float *y)
{
    double right[MAX_FLOATS], largest = 0;
    c->forward(c, right);
    for (size_t i = 0; i < c->n_out; i++) largest = fmax(largest, fabs(right[i]));
    for (size_t i = 0; i < c->n_out; i++) {
        if (!(fabs(y[i] - right[i]) <= 3e-6 * fmax(largest, 1)))
            fail_msg("%s: output %zu is %g, not %g", c->name, i, (double)y[i], right[i]);
    }
}

/* Every derivative against a central difference of the definition in double: its own error is near 1e-9. */
static inline void ref_check_grads(ref_case *c)
{
    const double h = 1e-5;
    for (int a = 0; a < c->n_arrays; a++) {
        double *right = malloc(c->sizes[a] * sizeof *right), largest = 0;
        assert_non_null(right);
        for (size_t i = 0; i < c->sizes[a]; i++) {
            double at = c->wide[a][i];
            c->wide[a][i] = at + h;
            double up = ref_loss(c);
            c->wide[a][i] = at - h;
            right[i] = (up - ref_loss(c)) / (2 * h);
            c->wide[a][i] = at;
            largest = fmax(largest, fabs(right[i]));
        }
        for (size_t i = 0; i < c->sizes[a]; i++) {
            if (!(fabs(c->grads[a][i] - right[i]) <= 1e-5 * fmax(largest, 1e-2)))
                fail_msg("%s: derivative %zu of array %d is %g, not %g", c->name, i, a, (double)c->grads[a][i],
                         right[i]);
        }
        free(right);
    }
}

static inline void ref_free(ref_case *c)
{
    for (int a = 0; a < c->n_arrays; a++) {
        free(c->arrays[a]);
        free(c->grads[a]);
        free(c->wide[a]);
    }
    free(c->dy);
}

#endif
