/*
 * From weights to figures, cluster by cluster: its pairs are averaged first, in the order of their ids; every figure of
 * a head is then over clusters. What is tested later is kept as a table, of the other figures only the mean. Nothing
 * but the stored weights enters, so batches, threads and resuming cannot change a bit.
 */
#include "base/status.h"
#include "inspect/scan.h"

#include <math.h>
#include <string.h>

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

/* One cluster at a time; the arrays are [HSC__N_FIGURES][n_heads]. */
typedef struct tabulation {
    hsc_scan *scan;
    hsc_seen *seen; /* [2][n_heads] of a pair */
    double *sums;   /* over the cluster's pairs, then their means; NaN where no pair has the figure */
    int *counts;    /* pairs that have it */
    int *clusters;  /* that have it */
} tabulation;

static hsc_status add_pair(tabulation *t, int pair, hsc_error *err)
{
    size_t n_heads = (size_t)t->scan->n_heads;
    HSC_TRY(hsc__scan_read(t->scan, pair, t->seen, err));
    for (size_t h = 0; h < n_heads; h++) {
        double figures[HSC__N_FIGURES];
        figures_of(&t->seen[h], &t->seen[n_heads + h], t->scan->pairs[pair].equal, figures);
        for (size_t f = 0; f < HSC__N_FIGURES; f++) {
            if (isnan(figures[f])) continue;
            t->sums[f * n_heads + h] += figures[f];
            t->counts[f * n_heads + h]++;
        }
    }
    return HSC_OK;
}

static hsc_status add_cluster(tabulation *t, hsc_error *err)
{
    hsc_scan *scan = t->scan;
    size_t n_heads = (size_t)scan->n_heads;
    const double *right = t->sums + HSC__BOTH_RIGHT * n_heads, *wrong = t->sums + HSC__BOTH_WRONG * n_heads;
    for (size_t i = 0; i < HSC__N_FIGURES * n_heads; i++) {
        t->sums[i] = t->counts[i] ? t->sums[i] / t->counts[i] : NAN;
        if (!t->counts[i]) continue;
        scan->means[i] += t->sums[i];
        t->clusters[i]++;
    }
    for (size_t h = 0; h < n_heads; h++) {
        scan->n_right[h] += right[h] > wrong[h];
        scan->n_wrong[h] += wrong[h] > right[h];
    }
    HSC_TRY(hsc__columns_add(&scan->shift, t->sums + HSC__SHIFT * n_heads, err));
    return hsc__columns_add(&scan->accuracy, t->sums + HSC__ACCURACY * n_heads, err);
}

static hsc_status add_all(tabulation *t, hsc_error *err)
{
    hsc_scan *scan = t->scan;
    size_t n = HSC__N_FIGURES * (size_t)scan->n_heads;
    for (int i = 0; i < scan->n_used;) {
        int cluster = scan->pairs[scan->by_cluster[i]].cluster;
        memset(t->sums, 0, n * sizeof *t->sums);
        memset(t->counts, 0, n * sizeof *t->counts);
        for (; i < scan->n_used && scan->pairs[scan->by_cluster[i]].cluster == cluster; i++)
            HSC_TRY(add_pair(t, scan->by_cluster[i], err));
        HSC_TRY(add_cluster(t, err));
    }
    for (size_t i = 0; i < n; i++) scan->means[i] = t->clusters[i] ? scan->means[i] / t->clusters[i] : NAN;
    HSC_TRY(hsc__columns_end(&scan->shift, err));
    return hsc__columns_end(&scan->accuracy, err);
}

hsc_status hsc__scan_tabulate(hsc_scan *scan, hsc_error *err)
{
    size_t n_heads = (size_t)scan->n_heads, n = HSC__N_FIGURES * n_heads;
    tabulation t = {.scan = scan,
                    .seen = hsc__calloc(2 * n_heads, sizeof *t.seen),
                    .sums = hsc__calloc(n, sizeof *t.sums),
                    .counts = hsc__calloc(n, sizeof *t.counts),
                    .clusters = hsc__calloc(n, sizeof *t.clusters)};
    scan->means = hsc__calloc(n, sizeof *scan->means);
    scan->n_right = hsc__calloc(n_heads, sizeof *scan->n_right);
    scan->n_wrong = hsc__calloc(n_heads, sizeof *scan->n_wrong);
    hsc_status status = hsc__columns_open(&scan->shift, scan->n_clusters, scan->n_heads, scan->memory / 2, err);
    if (status == HSC_OK)
        status = hsc__columns_open(&scan->accuracy, scan->n_clusters, scan->n_heads, scan->memory / 2, err);
    if (status == HSC_OK &&
        (!t.seen || !t.sums || !t.counts || !t.clusters || !scan->means || !scan->n_right || !scan->n_wrong))
        status = hsc__fail_memory(err, n * sizeof *t.sums, "the figures");
    if (status == HSC_OK) status = add_all(&t, err);
    hsc__free(t.seen);
    hsc__free(t.sums);
    hsc__free(t.counts);
    hsc__free(t.clusters);
    return status;
}
