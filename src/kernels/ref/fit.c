/* Least squares over candidates. Sums run in four lanes that are added in one order, so results do not depend on flags.
 */
#include "kernels/ref/fit.h"

#include <math.h>

/* Sums over the codes q of a run. */
typedef struct sums {
    float q, qq, xq;
} sums;

/* Adds up over codes nearest(inverse * (x - base)). n is a multiple of 4. */
static sums sum_codes(const float *x, int n, float inverse, float base, float low, float high)
{
    float code[HSC__FIT_MAX], q[4] = {0}, qq[4] = {0}, xq[4] = {0};
    for (int j = 0; j < n; j++) code[j] = hsc__nearest((x[j] - base) * inverse, low, high);
    for (int j = 0; j < n; j += 4) {
        for (int l = 0; l < 4; l++) {
            q[l] += code[j + l];
            qq[l] += code[j + l] * code[j + l];
            xq[l] += x[j + l] * code[j + l];
        }
    }
    return (sums){q[0] + q[1] + (q[2] + q[3]), qq[0] + qq[1] + (qq[2] + qq[3]), xq[0] + xq[1] + (xq[2] + xq[3])};
}

/* With codes fixed, the squared error is sum x^2 - (sum x q)^2 / sum q^2 at the best scale sum x q / sum q^2. */
float hsc__fit_symmetric(const float *x, int n, int m)
{
    float most = 0, best = 0, scale = 0;
    for (int j = 0; j < n; j++) most = fabsf(x[j]) > fabsf(most) ? x[j] : most;
    if (most == 0) return 0;
    for (int step = -9; step <= 9; step++) {
        float inverse = -((float)m + 0.1f * (float)step) / most; /* the side of the extreme value has a code more */
        sums s = sum_codes(x, n, inverse, 0, (float)-m, (float)(m - 1));
        if (!(s.qq > 0 && s.xq * s.xq > best * s.qq)) continue;
        best = s.xq * s.xq / s.qq;
        scale = s.xq / s.qq;
    }
    return scale;
}

/* The best d and minimum for fixed codes, and how much of the squared error they take away. */
static float solve(sums s, float sum_x, int n, bool below, float *d, float *minimum)
{
    float count = (float)n, det = count * s.qq - s.q * s.q;
    *d = *minimum = 0;
    if (det > 0) {
        *d = (count * s.xq - sum_x * s.q) / det;
        *minimum = (s.qq * sum_x - s.q * s.xq) / det;
    }
    if (det <= 0 || (below && *minimum > 0)) {
        *d = s.qq > 0 ? s.xq / s.qq : 0;
        *minimum = 0;
    }
    return 2 * (*d * s.xq + *minimum * sum_x) - *d * *d * s.qq - 2 * *d * *minimum * s.q - count * *minimum * *minimum;
}

void hsc__fit_affine(const float *x, int n, int top, bool below, float *scale, float *minimum)
{
    float low = x[0], high = x[0], sum_x = 0;
    for (int j = 0; j < n; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
        sum_x += x[j];
    }
    if (below && low > 0) low = 0;
    *scale = 0;
    *minimum = low;
    if (!(high > low)) return;
    *scale = (high - low) / (float)top;
    float best = -INFINITY;
    for (int step = -10; step <= 10; step++) {
        float d, m, inverse = ((float)top + 0.1f * (float)step) / (high - low);
        solve(sum_codes(x, n, inverse, low, 0, (float)top), sum_x, n, below, &d, &m);
        if (!(d > 0)) continue;
        /* The solution moves some values to another code: once more from there. */
        float gain = solve(sum_codes(x, n, 1 / d, m, 0, (float)top), sum_x, n, below, &d, &m);
        if (!(gain > best && d > 0)) continue;
        best = gain;
        *scale = d;
        *minimum = m;
    }
}
