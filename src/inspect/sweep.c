/*
 * Sweeps judged as the searches that they are: a table with a column for each that was tried and a row a cluster gets
 * the scan's tests, and what a part of the clusters chooses is judged on the others.
 */
#include "base/status.h"
#include "headscope/random.h"
#include "inspect/scan.h"
#include "inspect/statistics.h"

#include <math.h>

static hsc_flip_options flips_of(const hsc_scan_statistics *o)
{
    return (hsc_flip_options){o->n_flips, hsc__stream_seed(o->seed, HSC__STREAM_SIGNS), o->n_threads};
}

static hsc_bootstrap_options bootstrap_of(const hsc_scan_statistics *o)
{
    return (hsc_bootstrap_options){.n_draws = o->n_bootstrap, .seed = o->seed, .n_threads = o->n_threads};
}

/* ---------------------------------------------------------------------------------------------- all that was tried --
 */

/* p, q, p_fwer: [n_columns] each. */
static hsc_status test(const hsc_table *effects, const hsc_scan_statistics *o, double *p, double *q, double *p_fwer,
                       hsc_interval *ci, hsc_error *err)
{
    hsc_flip_options flips = flips_of(o);
    hsc_bootstrap_options bootstrap = bootstrap_of(o);
    HSC_TRY(hsc_bootstrap(effects, &bootstrap, ci, err));
    HSC_TRY(hsc__flip_columns(effects, o, p, err));
    HSC_TRY(hsc_sign_flip_family(effects, &flips, NULL, p_fwer, NULL, err));
    return hsc_adjust_p(o->fdr, p, effects->n_columns, q, err);
}

hsc_status hsc_sweep_figures(const hsc_table *effects, const hsc_scan_statistics *options, hsc_sweep_effect *out,
                             hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    size_t n = (size_t)effects->n_columns;
    HSC_FAIL_IF(effects->n_clusters < 2, HSC_EINVAL, "a sweep over %d cluster: two at least can be tested",
                effects->n_clusters);
    HSC_TRY(hsc__check_table(effects, err));
    double *p = hsc__calloc(3 * n, sizeof *p);
    hsc_interval *ci = hsc__calloc(n, sizeof *ci);
    hsc_status status = p && ci ? test(effects, options ? options : &defaults, p, p + n, p + 2 * n, ci, err)
                                : hsc__fail_memory(err, n * sizeof *out, "the tests");
    for (size_t j = 0; j < n && status == HSC_OK; j++) {
        hsc_effect e = hsc_effect_size(effects->values + j, effects->n_clusters, effects->n_columns);
        out[j] = (hsc_sweep_effect){e.mean, ci[j], e.dz, p[j], p[2 * n + j], p[n + j]};
    }
    hsc__free(p);
    hsc__free(ci);
    return status;
}

/* ------------------------------------------------------------------------------------------ choosing and judging ----
 */

/* Clusters order[0 .. n_choosing) choose, the rest judge. */
typedef struct split {
    const hsc_table *effects;
    const int64_t *order; /* [n_clusters] */
    int n_choosing;
} split;

static double cell(const split *s, int i, int column)
{
    return s->effects->values[(size_t)s->order[i] * (size_t)s->effects->n_columns + (size_t)column];
}

/* The size of a column's mean, or of its t through |S| / sqrt(sum x^2), which rises with it and is finite. */
static double score(const split *s, int column, hsc_scan_by by, double *mean)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < s->n_choosing; i++) {
        double x = cell(s, i, column);
        sum += x;
        squares += x * x;
    }
    *mean = sum / s->n_choosing;
    if (by == HSC_BY_SHIFT) return fabs(*mean);
    return squares > 0 ? fabs(sum) / sqrt(squares) : 0;
}

/* out: the k best, best first; of equals the earlier one. scores: [k]. */
static void choose(const split *s, hsc_scan_by by, int k, double *scores, hsc_sweep_held_out *out)
{
    int n = 0;
    for (int j = 0; j < s->effects->n_columns; j++) {
        double mean, own = score(s, j, by, &mean);
        if (n == k && own <= scores[n - 1]) continue;
        int at = n < k ? n++ : n - 1;
        for (; at > 0 && scores[at - 1] < own; at--) {
            scores[at] = scores[at - 1];
            out[at] = out[at - 1];
        }
        scores[at] = own;
        out[at] = (hsc_sweep_held_out){.column = j, .chosen_mean = mean};
    }
}

/* table: room for [judging clusters][k]; p and ci: [k]. */
static hsc_status judge(const split *s, const hsc_scan_statistics *o, int k, double *table, double *p, hsc_interval *ci,
                        hsc_sweep_held_out *out, hsc_error *err)
{
    int n = s->effects->n_clusters - s->n_choosing;
    hsc_table held = {table, n, k};
    hsc_bootstrap_options bootstrap = bootstrap_of(o);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) table[i * k + j] = cell(s, s->n_choosing + i, out[j].column);
    HSC_TRY(hsc_bootstrap(&held, &bootstrap, ci, err));
    HSC_TRY(hsc__flip_columns(&held, o, p, err));
    HSC_TRY(hsc_adjust_p(HSC_ADJUST_HOLM, p, k, p, err));
    for (int j = 0; j < k; j++) {
        out[j].mean = hsc_effect_size(table + j, n, k).mean;
        out[j].ci = ci[j];
        out[j].p = p[j];
        out[j].n_clusters = n;
    }
    return HSC_OK;
}

static hsc_status check_choice(const hsc_table *effects, const hsc_scan_choice *choice, int k, int n_held,
                               hsc_error *err)
{
    int n_choosing = effects->n_clusters - n_held;
    HSC_FAIL_IF(choice->by == HSC_BY_ACCURACY, HSC_EINVAL, "a sweep has no accuracy to choose by");
    HSC_FAIL_IF(k < 1 || k > effects->n_columns, HSC_EINVAL, "%d cannot be chosen of %d", k, effects->n_columns);
    HSC_FAIL_IF(n_held < 2 || n_choosing < 2, HSC_EINVAL,
                "%d clusters cannot be split into %d that choose and %d that judge: two a side at least",
                effects->n_clusters, n_choosing, n_held);
    return HSC_OK;
}

hsc_status hsc_sweep_hold_out(const hsc_table *effects, const hsc_scan_choice *choice, hsc_sweep_held_out *out,
                              hsc_error *err)
{
    hsc_random random;
    int k = choice->n_chosen ? choice->n_chosen : 1, n = effects->n_clusters;
    double share = choice->held_out > 0 ? choice->held_out : 0.5;
    HSC_FAIL_IF(!(share < 1), HSC_EINVAL, "the share that is held out is %g, it must be below 1", share);
    HSC_TRY(hsc__check_table(effects, err));
    int n_held = (int)(share * n + 0.5);
    HSC_TRY(check_choice(effects, choice, k, n_held, err));
    int64_t *order = hsc__calloc((size_t)n, sizeof *order);
    double *numbers = hsc__calloc((size_t)(n + 2) * (size_t)k, sizeof *numbers); /* the table, scores, p */
    hsc_interval *ci = hsc__calloc((size_t)k, sizeof *ci);
    hsc_status status =
        order && numbers && ci ? HSC_OK : hsc__fail_memory(err, (size_t)(n + 2) * (size_t)k * 8, "the judgement");
    hsc_random_seed(&random, hsc__stream_seed(choice->statistics.seed, HSC__STREAM_SPLIT));
    if (status == HSC_OK) status = hsc_random_permutation(&random, n, order, err);
    if (status == HSC_OK) {
        split s = {effects, order, n - n_held};
        choose(&s, choice->by, k, numbers + (size_t)n * (size_t)k, out);
        status = judge(&s, &choice->statistics, k, numbers, numbers + (size_t)(n + 1) * (size_t)k, ci, out, err);
    }
    hsc__free(order);
    hsc__free(numbers);
    hsc__free(ci);
    return status;
}
