/*
 * p-values of many tests, the sign test, and what a number of clusters can show: effect sizes, the least p, the least
 * effect. All closed formulas or one-dimensional integrals; the sources stand in headscope/inspect.h.
 */
#include "base/alloc.h"
#include "base/status.h"
#include "inspect/statistics.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

hsc_effect hsc_effect_size(const double *x, int n, int stride)
{
    hsc_effect e = {NAN, NAN, NAN, NAN};
    double sum = 0, squares = 0;
    if (n < 1) return e;
    for (int i = 0; i < n; i++) sum += x[(size_t)i * (size_t)stride];
    e.mean = sum / n;
    if (n < 2) return e;
    for (int i = 0; i < n; i++) {
        double d = x[(size_t)i * (size_t)stride] - e.mean;
        squares += d * d;
    }
    e.sd = sqrt(squares / (n - 1));
    e.dz = e.mean / e.sd;
    e.t = e.dz * sqrt(n);
    return e;
}

/* ------------------------------------------------------------------------------------------------- many tests ---- */

typedef struct ranked {
    double p;
    int index;
} ranked;

static int by_p(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* From the largest p down: the least of m p / rank so far. */
static void step_up(const ranked *list, int m, double factor, double *out)
{
    double least = 1;
    for (int i = m - 1; i >= 0; i--) {
        least = fmin(least, factor * m / (i + 1) * list[i].p);
        out[list[i].index] = least;
    }
}

/* From the smallest p up: the largest of (m - rank + 1) p so far. */
static void step_down(const ranked *list, int m, double *out)
{
    double largest = 0;
    for (int i = 0; i < m; i++) {
        largest = fmax(largest, fmin(1, (m - i) * list[i].p));
        out[list[i].index] = largest;
    }
}

hsc_status hsc_adjust_p(hsc_adjust kind, const double *p, int n, double *out, hsc_error *err)
{
    int m = 0;
    double harmonic = 0;
    HSC_FAIL_IF(n < 0, HSC_EINVAL, "adjust: n is %d, it must not be negative", n);
    ranked *list = hsc__calloc((size_t)n, sizeof *list);
    if (!list) return hsc__fail_memory(err, (size_t)n * sizeof *list, "ranks");
    for (int i = 0; i < n; i++) {
        if (isnan(p[i])) out[i] = NAN;
        else list[m++] = (ranked){p[i], i};
    }
    qsort(list, (size_t)m, sizeof *list, by_p);
    for (int i = 1; i <= m; i++) harmonic += 1.0 / i;
    if (kind == HSC_ADJUST_HOLM) step_down(list, m, out);
    else step_up(list, m, kind == HSC_ADJUST_BY ? harmonic : 1, out);
    hsc__free(list);
    return HSC_OK;
}

double hsc_sign_test(int n_right, int n_wrong)
{
    if (n_right < 0 || n_wrong < 0) return NAN;
    int n = n_right + n_wrong, k = n_right > n_wrong ? n_right : n_wrong;
    double tail = 0;
    for (int i = n; i >= k; i--) /* smallest terms first */
        tail += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) - n * log(2));
    return fmin(1, 2 * tail);
}

/* ----------------------------------------------------------------------------------- what a run could have found ----
 */

int hsc_min_clusters(int n_tests, double alpha)
{
    double n = fmax(1, ceil(1 + log2(n_tests / alpha)));
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* P(T > t) of the noncentral t distribution: T = (Z + delta) / s with s^2 chi-squared over its degrees of freedom, so
 * the integral over s of Phi(delta - t s) times the density of s. The density is smooth and falls off as a normal one
 * of standard deviation 1 / sqrt(2 nu); Simpson's rule over ten of them on either side, cut at 0. */
static double t_tail(double t, double nu, double delta)
{
    enum { N_STEPS = 2000 };
    double reach = 10 / sqrt(2 * nu) + 0.5, low = fmax(0, 1 - reach), high = 1 + 2 * reach, sum = 0;
    double step = (high - low) / N_STEPS, norm = log(2) + nu / 2 * log(nu / 2) - lgamma(nu / 2);
    for (int i = 0; i <= N_STEPS; i++) {
        double s = low + i * step, weight = i == 0 || i == N_STEPS ? 1 : i % 2 ? 4 : 2;
        double log_power = nu == 1 ? 0 : s > 0 ? (nu - 1) * log(s) : -INFINITY;
        sum += weight * exp(norm + log_power - nu * s * s / 2) * erfc((t * s - delta) / sqrt(2)) / 2;
    }
    return sum * step / 3;
}

double hsc_min_dz(int n_clusters, int n_tests, double alpha, double power)
{
    if (n_clusters < 2 || n_clusters < hsc_min_clusters(n_tests, alpha) || !(power > 0 && power < 1)) return NAN;
    double nu = n_clusters - 1, level = alpha / n_tests / 2, low = 0, high = 1;
    while (t_tail(high, nu, 0) > level) high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (t_tail(middle, nu, 0) > level) low = middle;
        else high = middle;
    }
    double critical = high;
    for (low = 0, high = 1; t_tail(critical, nu, high * sqrt(n_clusters)) < power;) high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (t_tail(critical, nu, middle * sqrt(n_clusters)) < power) low = middle;
        else high = middle;
    }
    return high;
}
