/*
 * headscope/inspect.h: many sentences. Statistics over clusters of sentences, files of sentence pairs, and the scan:
 * which head follows the answer?
 *
 * The words of this header:
 *   cluster   what is drawn independently: a pair of sentences, or all pairs made from one template. Figures of its
 *             pairs are averaged first; every test, interval and effect size is over clusters.
 *   column    one head (or one head and query). Tables are [n_clusters][n_columns], row-major, float64.
 *   family    all columns that are tested together.
 *
 * All random choices come from headscope/random.h: the same seed gives the same bits on every machine. Nothing here
 * depends on the number of threads.
 */
#ifndef HEADSCOPE_INSPECT_H
#define HEADSCOPE_INSPECT_H

#include "headscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- statistics ---- */

typedef struct hsc_table {
    const double *values; /* [n_clusters][n_columns], finite */
    int n_clusters, n_columns;
} hsc_table;

typedef struct hsc_interval {
    double low, high;
} hsc_interval;

/* Mean; standard deviation with n - 1; d_z = mean / sd (Cohen 1988: the effect in units of its own spread);
 * t = d_z sqrt(n). sd, d_z and t are NaN for n < 2; d_z and t are infinite where all values are equal and not 0, and
 * NaN where all are 0. */
typedef struct hsc_effect {
    double mean, sd, dz, t;
} hsc_effect;
HSC_API hsc_effect hsc_effect_size(const double *x, int n, int stride);

/* Most clusters for which the sign-flip test lists every assignment of signs. */
enum { HSC_EXACT_CLUSTERS = 40 };

/*
 * The two-sided sign-flip (permutation) test of mean 0 (Fisher 1935): with S(s) = sum s_i x_i,
 *     p = #{s in {-1, +1}^n : |S(s)| >= |S(1)|} / 2^n.
 * Every one of the 2^n assignments counts; they are not listed but found by merging two sorted halves of 2^(n/2) signed
 * sums each (Horowitz and Sahni 1974). Sums nearer to |S(1)| than 4 n eps sum |x_i|, the rounding of either sum,
 * count as equal. 16 MiB at n = 40. HSC_EINVAL: n is below 1 or above HSC_EXACT_CLUSTERS, or a value is not finite.
 * HSC_ENOMEM.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_sign_flip_exact(const double *x, int n, int stride, double *p, hsc_error *err);

typedef struct hsc_flip_options {
    int n_draws; /* 0: 100,000 */
    uint64_t seed;
    int n_threads; /* 0: what the system allows */
} hsc_flip_options;

/*
 * The same test for every column of a table under common signs, and the probability of the whole family:
 *     p[j]      = (1 + #{draws : |S_j| >= |S_j(1)|}) / (1 + n_draws)          (Phipson and Smyth 2010)
 *     p_fwer[j] = (1 + #{draws : max_k |t_k| >= |t_j(1)|}) / (1 + n_draws)    (Westfall and Young 1993, single step)
 * The sum of squares of a column never changes under flips, so |t| rises with |S| / sqrt(sum x^2) and that is what is
 * compared. Up to 2^n <= n_draws all 2^n assignments are gone through instead and both are exact: the share of
 * assignments, the observed one among them. A draw takes ceil(n / 32) numbers of 32 bits from the generator; cluster i
 * is turned where bit i % 32 of number i / 32 is set.
 * A column that is all 0 has no p (NaN) and is no member of the family. p and p_fwer: [n_columns], either may be NULL.
 * *n_used (may be NULL): draws, or assignments. HSC_EINVAL: an empty table or a value that is not finite. HSC_ENOMEM.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_sign_flip_family(const hsc_table *table, const hsc_flip_options *options,
                                                       double *p, double *p_fwer, int *n_used, hsc_error *err);

typedef enum {
    HSC_ADJUST_BH,   /* false discovery rate, independent or positively dependent tests (Benjamini and Hochberg 1995) */
    HSC_ADJUST_BY,   /* the same under any dependence: times 1 + 1/2 + ... + 1/m (Benjamini and Yekutieli 2001) */
    HSC_ADJUST_HOLM, /* family-wise: max over smaller p of (m - rank + 1) p, rank from 1 (Holm 1979) */
} hsc_adjust;

/* out[n]: adjusted p, at most 1. p that are NaN stay NaN and do not count in m. out may be p. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_adjust_p(hsc_adjust kind, const double *p, int n, double *out, hsc_error *err);

typedef struct hsc_bootstrap_options {
    int n_draws;   /* 0: 10,000 */
    double level;  /* 0: 0.95 */
    uint64_t seed; /* torch.manual_seed(seed); torch.randint(0, n_clusters, (n_draws, n_clusters)) */
    int n_threads; /* 0: what the system allows */
} hsc_bootstrap_options;

/* The percentile bootstrap of each column's mean over clusters (Efron 1979): out[n_columns]. One index matrix, of the
 * seed, for all columns; percentiles interpolate linearly between order statistics as numpy.percentile does. Memory:
 * 8 bytes a draw and column. HSC_EINVAL: an empty table or a value that is not finite. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_bootstrap(const hsc_table *table, const hsc_bootstrap_options *options,
                                                hsc_interval *out, hsc_error *err);

/* The exact two-sided sign test: min(1, 2 P(X >= max(n_right, n_wrong))), X binomial(n_right + n_wrong, 1/2). Ties are
 * left out before. 1 when both are 0; NaN when one is negative. */
HSC_API double hsc_sign_test(int n_right, int n_wrong);

/* The fewest clusters with which one of n_tests sign-flip tests can pass Bonferroni's alpha: the least possible p is
 * 2^(1-n), so ceil(1 + log2(n_tests / alpha)). */
HSC_API int hsc_min_clusters(int n_tests, double alpha);

/* The smallest |d_z| that a two-sided one-sample t test at level alpha / n_tests finds with probability `power` among
 * n_clusters clusters, by the noncentral t distribution. NaN when n_clusters is below hsc_min_clusters or below 2. */
HSC_API double hsc_min_dz(int n_clusters, int n_tests, double alpha, double power);

#ifdef __cplusplus
}
#endif
#endif
