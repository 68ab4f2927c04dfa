/*
 * Sweeps judged as the searches that they are: a table with a column for each that was tried and a row a cluster gets
 * the scan's tests, and what a part of the clusters chooses is judged on the others.
 */
#include "base/status.h"
#include "headscope/random.h"
#include "inspect/scan.h"
#include "inspect/statistics.h"

#include <math.h>

/* ---------------------------------------------------------------------------------------------- all that was tried --
 */

/* p: room for three figures of each column. */
static hsc_status test(const hsc_table *effects, const hsc_scan_statistics *o, double *p, hsc_interval *ci,
                       hsc__tested *tested, hsc_sweep_effect *out, hsc_error *err)
{
    hsc__family family;
    hsc_flip_options flips = hsc__flips_of(o);
    int n = effects->n_columns;
    double *q = p + n, *p_fwer = q + n;
    hsc_status status = hsc__family_open(&family, effects->n_clusters, n, &flips, err);
    if (status == HSC_OK) status = hsc__test_table(effects, o, &family, p, ci, tested, err);
    if (status == HSC_OK) hsc__family_share(&family, p_fwer);
    hsc__family_free(&family);
    if (status == HSC_OK) status = hsc_adjust_p(o->fdr, p, n, q, err);
    for (int j = 0; j < n && status == HSC_OK; j++)
        out[j] = (hsc_sweep_effect){tested[j].effect.mean, ci[j], tested[j].effect.dz, p[j], p_fwer[j], q[j]};
    return status;
}

hsc_status hsc_sweep_figures(const hsc_table *effects, const hsc_scan_statistics *options, hsc_sweep_effect *out,
                             hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    const hsc_scan_statistics *o = options ? options : &defaults;
    size_t n = (size_t)effects->n_columns;
    HSC_TRY(hsc__check_table(effects, err));
    HSC_FAIL_IF(effects->n_clusters < 2, HSC_EINVAL, "a sweep over one cluster: two at least can be tested");
    HSC_TRY(hsc__check_fdr(o, err));
    double *p = hsc__calloc(3 * n, sizeof *p);
    hsc_interval *ci = hsc__calloc(n, sizeof *ci);
    hsc__tested *tested = hsc__calloc(n, sizeof *tested);
    hsc_status status = p && ci && tested ? test(effects, o, p, ci, tested, out, err)
                                          : hsc__fail_memory(err, n * sizeof *out, "the tests");
    hsc__free(p);
    hsc__free(ci);
    hsc__free(tested);
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

static double mean_of(const split *s, int column)
{
    double sum = 0;
    for (int i = 0; i < s->n_choosing; i++) sum += cell(s, i, column);
    return sum / s->n_choosing;
}

/* The size of a column's mean, or of its t through |mean| / sqrt(sum x^2), which rises with it and is finite. */
static double score(const split *s, int column, hsc_scan_by by)
{
    double squares = 0, mean = mean_of(s, column);
    for (int i = 0; i < s->n_choosing; i++) squares += cell(s, i, column) * cell(s, i, column);
    if (by == HSC_BY_SHIFT) return fabs(mean);
    return squares > 0 ? fabs(mean) / sqrt(squares) : 0;
}

/* Memory of a judgement. */
typedef struct judgement {
    double *scores; /* [n_columns] */
    int *chosen;    /* [k] */
    double *table;  /* [judging clusters][k] */
    double *p;      /* [k] */
    hsc_interval *ci;
} judgement;

static hsc_status judge(const split *s, const hsc_scan_choice *choice, const judgement *w, int k,
                        hsc_sweep_held_out *out, hsc_error *err)
{
    int n = s->effects->n_clusters - s->n_choosing;
    hsc_table held = {w->table, n, k};
    hsc_bootstrap_options bootstrap = hsc__bootstrap_of(&choice->statistics);
    for (int j = 0; j < s->effects->n_columns; j++) w->scores[j] = score(s, j, choice->by);
    hsc__choose(w->scores, s->effects->n_columns, k, w->chosen);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) w->table[i * k + j] = cell(s, s->n_choosing + i, w->chosen[j]);
    HSC_TRY(hsc_bootstrap(&held, &bootstrap, w->ci, err));
    HSC_TRY(hsc__flip_columns(&held, &choice->statistics, w->p, err));
    HSC_TRY(hsc_adjust_p(HSC_ADJUST_HOLM, w->p, k, w->p, err));
    for (int j = 0; j < k; j++)
        out[j] = (hsc_sweep_held_out){.column = w->chosen[j],
                                      .chosen_mean = mean_of(s, w->chosen[j]),
                                      .mean = hsc_effect_size(w->table + j, n, k).mean,
                                      .ci = w->ci[j],
                                      .p = w->p[j],
                                      .n_clusters = n};
    return HSC_OK;
}

static hsc_status split_and_judge(const hsc_table *effects, const hsc_scan_choice *choice, int k, int n_choosing,
                                  int64_t *order, hsc_sweep_held_out *out, hsc_error *err)
{
    hsc_random random;
    size_t n = (size_t)effects->n_clusters, chosen = (size_t)k;
    judgement w = {.scores = hsc__calloc((size_t)effects->n_columns, sizeof *w.scores),
                   .chosen = hsc__calloc(chosen, sizeof *w.chosen),
                   .table = hsc__calloc(n * chosen, sizeof *w.table),
                   .p = hsc__calloc(chosen, sizeof *w.p),
                   .ci = hsc__calloc(chosen, sizeof *w.ci)};
    hsc_status status = w.scores && w.chosen && w.table && w.p && w.ci
                            ? HSC_OK
                            : hsc__fail_memory(err, n * chosen * sizeof *w.table, "the judgement");
    hsc_random_seed(&random, hsc__stream_seed(choice->statistics.seed, HSC__STREAM_SPLIT));
    if (status == HSC_OK) status = hsc_random_permutation(&random, effects->n_clusters, order, err);
    if (status == HSC_OK) status = judge(&(split){effects, order, n_choosing}, choice, &w, k, out, err);
    hsc__free(w.scores);
    hsc__free(w.chosen);
    hsc__free(w.table);
    hsc__free(w.p);
    hsc__free(w.ci);
    return status;
}

hsc_status hsc_sweep_hold_out(const hsc_table *effects, const hsc_scan_choice *choice, hsc_sweep_held_out *out,
                              hsc_error *err)
{
    int k = choice->n_chosen ? choice->n_chosen : 1, n_choosing;
    HSC_FAIL_IF(choice->by == HSC_BY_ACCURACY, HSC_EINVAL, "a sweep has no accuracy to choose by");
    HSC_FAIL_IF(k < 1 || k > effects->n_columns, HSC_EINVAL, "%d cannot be chosen of %d", k, effects->n_columns);
    HSC_TRY(hsc__check_table(effects, err));
    HSC_TRY(hsc__split_size(effects->n_clusters, choice->held_out, &n_choosing, err));
    int64_t *order = hsc__calloc((size_t)effects->n_clusters, sizeof *order);
    if (!order) return hsc__fail_memory(err, (size_t)effects->n_clusters * sizeof *order, "the split");
    hsc_status status = split_and_judge(effects, choice, k, n_choosing, order, out, err);
    hsc__free(order);
    return status;
}
