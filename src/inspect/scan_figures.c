/*
 * From weights to figures. A cluster's pairs are averaged first, in the order of their ids; every figure of a head is
 * then over clusters. Nothing but the stored weights enters, so batches, threads and resuming cannot change a bit.
 */
#include "base/status.h"
#include "inspect/scan.h"
#include "inspect/statistics.h"

#include <math.h>
#include <string.h>

enum { N_BOOTSTRAP = 10000 };
static const double least_mass = 0.02; /* a + b that a share wants in both wordings */

/* One head's figures of one pair. NaN: none. */
static void figures_of(const hsc_seen *x, const hsc_seen *y, bool equal, double out[HSC__N_FIGURES])
{
    double a1 = (double)x->a, b1 = (double)x->b, a2 = (double)y->a, b2 = (double)y->b;
    double first = hsc__right(a1, b1), second = hsc__right(b2, a2);
    bool shares = a1 + b1 >= least_mass && a2 + b2 >= least_mass;
    out[HSC__A1] = a1;
    out[HSC__B1] = b1;
    out[HSC__A2] = a2;
    out[HSC__B2] = b2;
    out[HSC__SHIFT] = hsc__shift_of(x, y);
    out[HSC__SHARE] = shares ? (a1 - b1) / (a1 + b1) - (a2 - b2) / (a2 + b2) : NAN;
    out[HSC__MASS] = (a1 + b1 + a2 + b2) / 2;
    out[HSC__SINK] = ((double)x->sink + (double)y->sink) / 2;
    out[HSC__ACCURACY] = (first + second) / 2;
    out[HSC__EQUAL] = equal ? out[HSC__ACCURACY] : NAN;
    out[HSC__BOTH_RIGHT] = first == 1 && second == 1;
    out[HSC__BOTH_WRONG] = first == 0 && second == 0;
}

/* Sums of a cluster's pairs, then means; counts[figure][cluster][head] how many pairs had the figure. */
static void sum_pairs(hsc_scan *scan, int *counts)
{
    size_t n_heads = (size_t)scan->n_heads, n_cells = (size_t)scan->n_clusters * n_heads;
    for (int i = 0; i < scan->n_used; i++) {
        const hsc__scan_pair *p = &scan->pairs[i];
        const hsc_seen *x = hsc__seen_of(scan, i, 0), *y = hsc__seen_of(scan, i, 1);
        for (size_t h = 0; h < n_heads; h++) {
            double figures[HSC__N_FIGURES];
            figures_of(&x[h], &y[h], p->equal, figures);
            for (size_t f = 0; f < HSC__N_FIGURES; f++) {
                size_t cell = f * n_cells + (size_t)p->cluster * n_heads + h;
                if (isnan(figures[f])) continue;
                scan->figures[cell] += figures[f];
                counts[cell]++;
            }
        }
    }
    for (size_t i = 0; i < HSC__N_FIGURES * n_cells; i++)
        scan->figures[i] = counts[i] ? scan->figures[i] / counts[i] : NAN;
}

hsc_status hsc__scan_tabulate(hsc_scan *scan, hsc_error *err)
{
    size_t n = HSC__N_FIGURES * (size_t)scan->n_clusters * (size_t)scan->n_heads;
    scan->figures = hsc__calloc(n, sizeof *scan->figures);
    int *counts = hsc__calloc(n, sizeof *counts);
    if (scan->figures && counts) sum_pairs(scan, counts);
    hsc_status status =
        scan->figures && counts ? HSC_OK : hsc__fail_memory(err, n * sizeof *scan->figures, "the figures");
    hsc__free(counts);
    return status;
}

/* ------------------------------------------------------------------------------------------------- means and tests
 * ---- */

/* The mean of a head's column over the clusters that have the figure. */
static double mean_of(const hsc_scan *scan, hsc__figure figure, int head)
{
    const double *table = hsc__figure_table(scan, figure);
    double sum = 0;
    int n = 0;
    for (int c = 0; c < scan->n_clusters; c++) {
        double x = table[(size_t)c * (size_t)scan->n_heads + (size_t)head];
        if (isnan(x)) continue;
        sum += x;
        n++;
    }
    return n ? sum / n : NAN;
}

hsc_status hsc__flip_columns(const hsc_table *table, const hsc_scan_statistics *o, double *p, hsc_error *err)
{
    if (table->n_clusters > HSC_EXACT_CLUSTERS) {
        hsc_flip_options flips = {o->n_flips, hsc__stream_seed(o->seed, HSC__STREAM_SIGNS), o->n_threads};
        return hsc_sign_flip_family(table, &flips, p, NULL, NULL, err);
    }
    for (int j = 0; j < table->n_columns; j++) {
        bool zeros = true;
        for (int c = 0; c < table->n_clusters && zeros; c++)
            zeros = table->values[(size_t)c * (size_t)table->n_columns + (size_t)j] == 0;
        if (zeros) p[j] = NAN;
        else HSC_TRY(hsc_sign_flip_exact(table->values + j, table->n_clusters, table->n_columns, &p[j], err));
    }
    return HSC_OK;
}

static void fill_means(const hsc_scan *scan, hsc_scan_head *out)
{
    for (int h = 0; h < scan->n_heads; h++) {
        hsc_effect effect = hsc_effect_size(hsc__figure_table(scan, HSC__SHIFT) + h, scan->n_clusters, scan->n_heads);
        int n_right = 0, n_wrong = 0;
        for (int c = 0; c < scan->n_clusters; c++) {
            size_t cell = (size_t)c * (size_t)scan->n_heads + (size_t)h;
            double right = hsc__figure_table(scan, HSC__BOTH_RIGHT)[cell];
            double wrong = hsc__figure_table(scan, HSC__BOTH_WRONG)[cell];
            n_right += right > wrong;
            n_wrong += wrong > right;
        }
        out[h] = (hsc_scan_head){.layer = h / scan->config->n_heads,
                                 .head = h % scan->config->n_heads,
                                 .a1 = mean_of(scan, HSC__A1, h),
                                 .b1 = mean_of(scan, HSC__B1, h),
                                 .a2 = mean_of(scan, HSC__A2, h),
                                 .b2 = mean_of(scan, HSC__B2, h),
                                 .shift = effect.mean,
                                 .dz = effect.dz,
                                 .share = mean_of(scan, HSC__SHARE, h),
                                 .mass = mean_of(scan, HSC__MASS, h),
                                 .sink = mean_of(scan, HSC__SINK, h),
                                 .accuracy = mean_of(scan, HSC__ACCURACY, h),
                                 .accuracy_equal = mean_of(scan, HSC__EQUAL, h),
                                 .pair_accuracy = mean_of(scan, HSC__BOTH_RIGHT, h),
                                 .p_pairs = hsc_sign_test(n_right, n_wrong)};
    }
}

/* What the tests of one scan need beside their results. */
typedef struct workspace {
    double *p, *p_fwer, *q, *difference; /* [n_heads] thrice, [n_clusters][n_heads] */
    hsc_interval *shift_ci, *accuracy_ci;
} workspace;

static hsc_status test_rules(const hsc_scan *scan, const hsc_scan_statistics *o, workspace *w, hsc_scan_head *out,
                             hsc_error *err)
{
    const double *accuracy = hsc__figure_table(scan, HSC__ACCURACY);
    hsc_table table = {w->difference, scan->n_clusters, scan->n_heads};
    for (int rule = 0; rule < HSC_N_RULES; rule++) {
        for (int c = 0; c < scan->n_clusters; c++) {
            double known = scan->rules[(size_t)rule * (size_t)scan->n_clusters + (size_t)c];
            size_t row = (size_t)c * (size_t)scan->n_heads;
            for (int h = 0; h < scan->n_heads; h++) w->difference[row + (size_t)h] = accuracy[row + (size_t)h] - known;
        }
        HSC_TRY(hsc__flip_columns(&table, o, w->p, err));
        for (int h = 0; h < scan->n_heads; h++) out[h].p_rules[rule] = w->p[h];
    }
    return HSC_OK;
}

static hsc_status test_heads(const hsc_scan *scan, const hsc_scan_statistics *o, workspace *w, hsc_scan_head *out,
                             hsc_error *err)
{
    hsc_table shift = {hsc__figure_table(scan, HSC__SHIFT), scan->n_clusters, scan->n_heads};
    hsc_table accuracy = {hsc__figure_table(scan, HSC__ACCURACY), scan->n_clusters, scan->n_heads};
    hsc_flip_options flips = {o->n_flips, hsc__stream_seed(o->seed, HSC__STREAM_SIGNS), o->n_threads};
    hsc_bootstrap_options bootstrap = {.n_draws = o->n_bootstrap, .seed = o->seed, .n_threads = o->n_threads};
    HSC_TRY(test_rules(scan, o, w, out, err));
    HSC_TRY(hsc_bootstrap(&shift, &bootstrap, w->shift_ci, err));
    HSC_TRY(hsc_bootstrap(&accuracy, &bootstrap, w->accuracy_ci, err));
    HSC_TRY(hsc__flip_columns(&shift, o, w->p, err));
    HSC_TRY(hsc_sign_flip_family(&shift, &flips, NULL, w->p_fwer, NULL, err));
    HSC_TRY(hsc_adjust_p(o->fdr, w->p, scan->n_heads, w->q, err));
    for (int h = 0; h < scan->n_heads; h++) {
        out[h].ci = w->shift_ci[h];
        out[h].acc_ci = w->accuracy_ci[h];
        out[h].p = w->p[h];
        out[h].p_fwer = w->p_fwer[h];
        out[h].q = w->q[h];
    }
    return HSC_OK;
}

hsc_status hsc_scan_figures(const hsc_scan *scan, const hsc_scan_statistics *options, hsc_scan_head *out,
                            hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    const hsc_scan_statistics *o = options ? options : &defaults;
    size_t n = (size_t)scan->n_heads;
    HSC_FAIL_IF(o->fdr != HSC_ADJUST_BH && o->fdr != HSC_ADJUST_BY, HSC_EINVAL,
                "figures: the false discovery rate is by BH or BY");
    workspace w = {.p = hsc__calloc(n, sizeof *w.p),
                   .p_fwer = hsc__calloc(n, sizeof *w.p_fwer),
                   .q = hsc__calloc(n, sizeof *w.q),
                   .difference = hsc__calloc(n * (size_t)scan->n_clusters, sizeof *w.difference),
                   .shift_ci = hsc__calloc(n, sizeof *w.shift_ci),
                   .accuracy_ci = hsc__calloc(n, sizeof *w.accuracy_ci)};
    hsc_status status = HSC_OK;
    if (!w.p || !w.p_fwer || !w.q || !w.difference || !w.shift_ci || !w.accuracy_ci)
        status = hsc__fail_memory(err, n * (size_t)scan->n_clusters * sizeof *w.difference, "the tests");
    if (status == HSC_OK) {
        fill_means(scan, out);
        status = test_heads(scan, o, &w, out, err);
    }
    hsc__free(w.p);
    hsc__free(w.p_fwer);
    hsc__free(w.q);
    hsc__free(w.difference);
    hsc__free(w.shift_ci);
    hsc__free(w.accuracy_ci);
    return status;
}
