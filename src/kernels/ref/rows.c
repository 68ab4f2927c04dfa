/* Row and element operations in plain C on libm. Sums are kept in double, so this is also the accuracy to compare
 * with. */
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

void hsc__ref_layer_norm(const float *x, const float *gain, const float *bias, float eps, int n, float *y)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    double mean = sum / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(squares / n + eps);
    for (int i = 0; i < n; i++) {
        double v = (x[i] - mean) * scale;
        if (gain) v *= gain[i];
        y[i] = (float)(bias ? v + bias[i] : v);
    }
}

void hsc__ref_rms_norm(const float *x, const float *gain, float eps, int n, float *y)
{
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * x[i];
    double scale = 1 / sqrt(squares / n + eps);
    for (int i = 0; i < n; i++) y[i] = (float)(x[i] * scale * (gain ? gain[i] : 1));
}

void hsc__ref_softmax(float *row, int n)
{
    float max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (row[i] > max || isnan(row[i])) max = row[i];
    }
    if (max == -INFINITY) { /* nothing to see: no weight anywhere */
        for (int i = 0; i < n; i++) row[i] = 0;
        return;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        row[i] = expf(row[i] - max);
        sum += row[i];
    }
    float inverse = (float)(1 / sum);
    for (int i = 0; i < n; i++) row[i] *= inverse;
}

void hsc__ref_scale_cap(float *s, int n, float scale, float cap)
{
    for (int i = 0; i < n; i++) {
        s[i] *= scale;
        if (cap > 0) s[i] = cap * tanhf(s[i] / cap);
    }
}

static float act(hsc__act kind, float x)
{
    const float sqrt_half = 0.70710678118654752440f, sqrt_2_over_pi = 0.79788456080286535588f;
    switch (kind) {
    case HSC__ACT_NONE: return x;
    case HSC__ACT_RELU: return x > 0 ? x : x != x ? x : 0;
    case HSC__ACT_GELU: return 0.5f * x * (1 + erff(x * sqrt_half));
    case HSC__ACT_GELU_TANH: return 0.5f * x * (1 + tanhf(sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
    case HSC__ACT_SILU: return x / (1 + expf(-x));
    case HSC__ACT_TANH: return tanhf(x);
    }
    return x;
}

void hsc__ref_act(hsc__act kind, const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = act(kind, x[i]);
}

void hsc__ref_gate(hsc__act kind, const float *g, const float *u, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = act(kind, g[i]) * u[i];
}

void hsc__ref_add(const float *a, const float *b, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void hsc__ref_rope(float *x, const float *c, const float *s, int half, bool interleaved)
{
    for (int i = 0; i < half; i++) {
        float *a = x + (interleaved ? 2 * i : i), *b = x + (interleaved ? 2 * i + 1 : i + half);
        float left = *a, right = *b;
        *a = left * c[i] - right * s[i];
        *b = right * c[i] + left * s[i];
    }
}

float hsc__ref_row_sum(const float *p, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += p[i];
    return (float)sum;
}

float hsc__ref_row_entropy(const float *p, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += p[i] > 0 ? p[i] * log(p[i]) : 0;
    return (float)(0 - sum);
}

int hsc__ref_row_above(const float *p, int from, int n, float threshold)
{
    while (from < n && !(p[from] > threshold)) from++;
    return from;
}

void hsc__ref_row_maxima(const float *p, int n, float *out)
{
    memcpy(out, p, HSC__MAXIMA * sizeof *out);
    for (int i = HSC__MAXIMA; i < n; i++)
        if (p[i] > out[i % HSC__MAXIMA]) out[i % HSC__MAXIMA] = p[i];
}

void hsc__ref_row_received(const float *p, int n, float most, int64_t *acc)
{
    for (int i = 0; i < n; i++) {
        if (fabsf(p[i]) <= most) acc[i] += llrintf(p[i] * (float)((int64_t)1 << HSC__RECEIVED_BITS));
        else acc[i] = HSC__RECEIVED_NAN;
    }
}
