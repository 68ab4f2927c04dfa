/*
 * A control: the same words at the same places without the relation. Its shift is taken from the pair's own, pair by
 * pair, so that what the swapped word does by itself falls out.
 */
#include "base/status.h"
#include "inspect/scan.h"

#include <math.h>

/* A scan's pair with this place in its file, or -1. */
static int find_number(const hsc_scan *scan, int number)
{
    for (int i = 0; i < scan->n_used; i++)
        if (scan->pairs[i].pair->number == number) return i;
    return -1;
}

/* Sums of differences and of the control's shifts by cluster; counts: pairs of a cluster. Returns the pairs matched. */
static int sum_differences(const hsc_scan *scan, const hsc_scan *control, double *difference, double *alone,
                           int *counts)
{
    int n_pairs = 0;
    size_t n_heads = (size_t)scan->n_heads;
    for (int i = 0; i < scan->n_used; i++) {
        int k = find_number(control, scan->pairs[i].pair->number);
        if (k < 0) continue;
        size_t row = (size_t)scan->pairs[i].cluster * n_heads;
        n_pairs++;
        counts[scan->pairs[i].cluster]++;
        for (size_t h = 0; h < n_heads; h++) {
            double own = hsc__shift_of(hsc__seen_of(scan, i, 0) + h, hsc__seen_of(scan, i, 1) + h);
            double other = hsc__shift_of(hsc__seen_of(control, k, 0) + h, hsc__seen_of(control, k, 1) + h);
            difference[row + h] += own - other;
            alone[row + h] += other;
        }
    }
    return n_pairs;
}

/* Means of the clusters that have a pair, moved together. Returns how many. */
static int close_ranks(const hsc_scan *scan, double *difference, double *alone, const int *counts)
{
    int n = 0;
    size_t n_heads = (size_t)scan->n_heads;
    for (int c = 0; c < scan->n_clusters; c++) {
        for (size_t h = 0; h < n_heads && counts[c]; h++) {
            difference[(size_t)n * n_heads + h] = difference[(size_t)c * n_heads + h] / counts[c];
            alone[(size_t)n * n_heads + h] = alone[(size_t)c * n_heads + h] / counts[c];
        }
        n += counts[c] > 0;
    }
    return n;
}

typedef struct workspace {
    double *difference, *alone, *p, *p_fwer;
    hsc_interval *ci;
    int *counts;
} workspace;

static hsc_status compare(const hsc_scan *scan, const hsc_scan *control, const hsc_scan_statistics *o, workspace *w,
                          hsc_scan_difference *out, int *n_pairs, int *n_clusters, hsc_error *err)
{
    *n_pairs = sum_differences(scan, control, w->difference, w->alone, w->counts);
    *n_clusters = close_ranks(scan, w->difference, w->alone, w->counts);
    HSC_FAIL_IF(*n_pairs == 0, HSC_EINVAL, "the control has no pair at the place of any of these");
    hsc_table table = {w->difference, *n_clusters, scan->n_heads};
    hsc_flip_options flips = {o->n_flips, hsc__stream_seed(o->seed, HSC__STREAM_SIGNS), o->n_threads};
    hsc_bootstrap_options bootstrap = {.n_draws = o->n_bootstrap, .seed = o->seed, .n_threads = o->n_threads};
    HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
    HSC_TRY(hsc__flip_columns(&table, o, w->p, err));
    HSC_TRY(hsc_sign_flip_family(&table, &flips, NULL, w->p_fwer, NULL, err));
    for (int h = 0; h < scan->n_heads; h++)
        out[h] = (hsc_scan_difference){.control = hsc_effect_size(w->alone + h, *n_clusters, scan->n_heads).mean,
                                       .shift = hsc_effect_size(w->difference + h, *n_clusters, scan->n_heads).mean,
                                       .ci = w->ci[h],
                                       .p = w->p[h],
                                       .p_fwer = w->p_fwer[h]};
    return HSC_OK;
}

hsc_status hsc_scan_control(const hsc_scan *scan, const hsc_scan *control, const hsc_scan_statistics *options,
                            hsc_scan_difference *out, int *n_pairs, int *n_clusters, hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    size_t n = (size_t)scan->n_heads, n_cells = n * (size_t)scan->n_clusters;
    HSC_FAIL_IF(scan->n_heads != control->n_heads, HSC_EINVAL,
                "control: the two scans are of models of %d and %d heads", scan->n_heads, control->n_heads);
    workspace w = {.difference = hsc__calloc(n_cells, sizeof *w.difference),
                   .alone = hsc__calloc(n_cells, sizeof *w.alone),
                   .p = hsc__calloc(n, sizeof *w.p),
                   .p_fwer = hsc__calloc(n, sizeof *w.p_fwer),
                   .ci = hsc__calloc(n, sizeof *w.ci),
                   .counts = hsc__calloc((size_t)scan->n_clusters, sizeof *w.counts)};
    hsc_status status = w.difference && w.alone && w.p && w.p_fwer && w.ci && w.counts
                            ? compare(scan, control, options ? options : &defaults, &w, out, n_pairs, n_clusters, err)
                            : hsc__fail_memory(err, n_cells * sizeof *w.difference, "the control");
    hsc__free(w.difference);
    hsc__free(w.alone);
    hsc__free(w.p);
    hsc__free(w.p_fwer);
    hsc__free(w.ci);
    hsc__free(w.counts);
    return status;
}
