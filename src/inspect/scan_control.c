/*
 * A control: the same words at the same places without the relation. Its shift is taken from the pair's own, pair by
 * pair, so that what the swapped word does by itself falls out.
 */
#include "base/status.h"
#include "inspect/scan.h"

#include <stdlib.h>
#include <string.h>

/* Where a pair of the control stands in its file, and in its scan. */
typedef struct place {
    int number, index;
} place;

static int by_number(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* What the comparison needs beside the two scans. */
typedef struct workspace {
    const hsc_scan *scan, *control;
    place *places;                      /* [control->n_used] by number */
    hsc_seen *own, *other;              /* [2][n_heads] of a pair and of its control */
    double *sum_difference, *sum_alone; /* [n_heads] over a cluster's pairs */
    double *alone;                      /* [n_heads] over clusters */
    hsc__columns difference;            /* means of the clusters that have a pair */
    hsc__tested *tested;                /* [n_heads] */
    int n_pairs;
} workspace;

static hsc_status add_pair(workspace *w, int pair, int control, hsc_error *err)
{
    size_t n = (size_t)w->scan->n_heads;
    HSC_TRY(hsc__scan_read(w->scan, pair, w->own, err));
    HSC_TRY(hsc__scan_read(w->control, control, w->other, err));
    for (size_t h = 0; h < n; h++) {
        double own = hsc__shift_of(w->own + h, w->own + n + h), other = hsc__shift_of(w->other + h, w->other + n + h);
        w->sum_difference[h] += own - other;
        w->sum_alone[h] += other;
    }
    return HSC_OK;
}

/* The pairs of a cluster that have a control; `at` moves to the next cluster. */
static hsc_status add_cluster(workspace *w, int *at, hsc_error *err)
{
    const hsc_scan *scan = w->scan;
    size_t n = (size_t)scan->n_heads;
    int n_found = 0, cluster = scan->pairs[scan->by_cluster[*at]].cluster;
    memset(w->sum_difference, 0, n * sizeof *w->sum_difference);
    memset(w->sum_alone, 0, n * sizeof *w->sum_alone);
    for (; *at < scan->n_used && scan->pairs[scan->by_cluster[*at]].cluster == cluster; ++*at) {
        int pair = scan->by_cluster[*at];
        hsc__scan_forget(scan, (size_t)*at);
        place wanted = {.number = scan->pairs[pair].said->pair->number};
        const place *found = bsearch(&wanted, w->places, (size_t)w->control->n_used, sizeof *w->places, by_number);
        if (!found) continue;
        n_found++;
        HSC_TRY(add_pair(w, pair, found->index, err));
    }
    w->n_pairs += n_found;
    for (size_t h = 0; h < n && n_found; h++) {
        w->sum_difference[h] /= n_found;
        w->alone[h] += w->sum_alone[h] / n_found;
    }
    return n_found ? hsc__columns_add(&w->difference, w->sum_difference, err) : HSC_OK;
}

static hsc_status compare(workspace *w, const hsc_scan_statistics *o, hsc_scan_difference *out, hsc_error *err)
{
    const hsc_scan *scan = w->scan;
    for (int i = 0; i < w->control->n_used; i++) {
        w->places[i] = (place){w->control->pairs[i].said->pair->number, i};
        hsc__scan_forget(w->control, (size_t)i);
    }
    qsort(w->places, (size_t)w->control->n_used, sizeof *w->places, by_number);
    for (int at = 0; at < scan->n_used;) HSC_TRY(add_cluster(w, &at, err));
    HSC_FAIL_IF(w->n_pairs == 0, HSC_EINVAL, "the control has no pair at the place of any of these");
    HSC_TRY(hsc__columns_end(&w->difference, err));
    HSC_TRY(hsc__test_columns(&w->difference, o, scan->memory, w->tested, err));
    for (int h = 0; h < scan->n_heads; h++)
        out[h] = (hsc_scan_difference){.control = w->alone[h] / w->difference.n_rows,
                                       .shift = w->tested[h].effect.mean,
                                       .ci = w->tested[h].ci,
                                       .p = w->tested[h].p,
                                       .p_fwer = w->tested[h].p_fwer};
    return HSC_OK;
}

static hsc_status open_workspace(workspace *w, hsc_error *err)
{
    size_t n = (size_t)w->scan->n_heads;
    w->places = hsc__calloc((size_t)w->control->n_used, sizeof *w->places);
    w->own = hsc__calloc(2 * n, sizeof *w->own);
    w->other = hsc__calloc(2 * n, sizeof *w->other);
    w->sum_difference = hsc__calloc(n, sizeof *w->sum_difference);
    w->sum_alone = hsc__calloc(n, sizeof *w->sum_alone);
    w->alone = hsc__calloc(n, sizeof *w->alone);
    w->tested = hsc__calloc(n, sizeof *w->tested);
    if (w->places && w->own && w->other && w->sum_difference && w->sum_alone && w->alone && w->tested)
        return hsc__columns_open(&w->difference, w->scan->n_clusters, w->scan->n_heads, w->scan->memory / 2, err);
    return hsc__fail_memory(err, n * sizeof *w->tested, "the control");
}

hsc_status hsc_scan_control(const hsc_scan *scan, const hsc_scan *control, const hsc_scan_statistics *options,
                            hsc_scan_difference *out, int *n_pairs, int *n_clusters, hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    HSC_FAIL_IF(scan->n_heads != control->n_heads, HSC_EINVAL,
                "control: the two scans are of models of %d and %d heads", scan->n_heads, control->n_heads);
    workspace w = {.scan = scan, .control = control};
    hsc_status status = open_workspace(&w, err);
    if (status == HSC_OK) status = compare(&w, options ? options : &defaults, out, err);
    if (status == HSC_OK) {
        *n_pairs = w.n_pairs;
        *n_clusters = w.difference.n_rows;
    }
    hsc__free(w.places);
    hsc__free(w.own);
    hsc__free(w.other);
    hsc__free(w.sum_difference);
    hsc__free(w.sum_alone);
    hsc__free(w.alone);
    hsc__free(w.tested);
    hsc__columns_free(&w.difference);
    return status;
}
