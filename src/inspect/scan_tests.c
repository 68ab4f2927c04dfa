/*
 * Tests of all heads. The tables come in panels of columns that fit a bound of memory; every random choice is drawn
 * anew for each panel from the same seed, so a column's figures are the same bits however the panels are cut.
 */
#include "base/status.h"
#include "inspect/scan.h"
#include "inspect/statistics.h"

#include <math.h>

hsc_status hsc__check_fdr(const hsc_scan_statistics *o, hsc_error *err)
{
    HSC_FAIL_IF(o->fdr != HSC_ADJUST_BH && o->fdr != HSC_ADJUST_BY, HSC_EINVAL,
                "figures: the false discovery rate is by BH or BY");
    return HSC_OK;
}

hsc_status hsc__flip_columns(const hsc_table *table, const hsc_scan_statistics *o, double *p, hsc_error *err)
{
    if (table->n_clusters > HSC_EXACT_CLUSTERS) {
        hsc_flip_options flips = hsc__flips_of(o);
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

/* ------------------------------------------------------------------------------------------------------ panels ---- */

/* Columns of a table that are in memory together. */
typedef struct panel {
    const hsc__columns *columns;
    int width;
    double *values;   /* [n_rows][width], or of the last panel's fewer columns */
    double *p;        /* [width] */
    hsc_interval *ci; /* [width] */
} panel;

static hsc_status open_panel(panel *p, const hsc__columns *columns, size_t memory, hsc_error *err)
{
    p->columns = columns;
    p->width = hsc__panel_width(memory, columns->n_rows, columns->n_columns);
    size_t width = (size_t)p->width, n = width * (size_t)columns->n_rows;
    p->values = hsc__calloc(n, sizeof *p->values);
    p->p = hsc__calloc(width, sizeof *p->p);
    p->ci = hsc__calloc(width, sizeof *p->ci);
    return p->values && p->p && p->ci ? HSC_OK : hsc__fail_memory(err, n * sizeof *p->values, "the tests");
}

static void close_panel(panel *p)
{
    hsc__free(p->values);
    hsc__free(p->p);
    hsc__free(p->ci);
}

/* Columns from `first` on as a table. */
static hsc_status read_panel(const panel *p, int first, hsc_table *out, hsc_error *err)
{
    int n = p->columns->n_columns - first < p->width ? p->columns->n_columns - first : p->width;
    *out = (hsc_table){p->values, p->columns->n_rows, n};
    return hsc__columns_panel(p->columns, first, n, p->values, err);
}

/* Where p is sampled, the family's draws give it too. */
hsc_status hsc__test_table(const hsc_table *table, const hsc_scan_statistics *o, hsc__family *family, double *p,
                           hsc_interval *ci, hsc__tested *out, hsc_error *err)
{
    hsc_bootstrap_options bootstrap = hsc__bootstrap_of(o);
    bool exact = table->n_clusters <= HSC_EXACT_CLUSTERS;
    HSC_TRY(hsc_bootstrap(table, &bootstrap, ci, err));
    if (exact) HSC_TRY(hsc__flip_columns(table, o, p, err));
    HSC_TRY(hsc__family_add(family, table, exact ? NULL : p, err));
    for (int j = 0; j < table->n_columns; j++)
        out[j] = (hsc__tested){
            .effect = hsc_effect_size(table->values + j, table->n_clusters, table->n_columns), .ci = ci[j], .p = p[j]};
    return HSC_OK;
}

static hsc_status test_panels(const panel *w, const hsc_scan_statistics *o, hsc__family *family, hsc__tested *out,
                              hsc_error *err)
{
    hsc_table table;
    for (int first = 0; first < w->columns->n_columns; first += table.n_columns) {
        HSC_TRY(read_panel(w, first, &table, err));
        HSC_TRY(hsc__test_table(&table, o, family, w->p, w->ci, out + first, err));
    }
    return HSC_OK;
}

hsc_status hsc__test_columns(const hsc__columns *columns, const hsc_scan_statistics *o, size_t memory, hsc__tested *out,
                             hsc_error *err)
{
    panel w = {0};
    hsc_flip_options flips = hsc__flips_of(o);
    hsc__family family;
    double *p_fwer = hsc__calloc((size_t)columns->n_columns, sizeof *p_fwer);
    hsc_status status = hsc__family_open(&family, columns->n_rows, columns->n_columns, &flips, err);
    if (status == HSC_OK && !p_fwer)
        status = hsc__fail_memory(err, (size_t)columns->n_columns * sizeof *p_fwer, "the tests");
    if (status == HSC_OK) status = open_panel(&w, columns, memory, err);
    if (status == HSC_OK) status = test_panels(&w, o, &family, out, err);
    if (status == HSC_OK) hsc__family_share(&family, p_fwer);
    for (int j = 0; j < columns->n_columns && status == HSC_OK; j++) out[j].p_fwer = p_fwer[j];
    close_panel(&w);
    hsc__family_free(&family);
    hsc__free(p_fwer);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- the heads ----
 */

/* The head's accuracy less a rule's, cluster by cluster. */
static hsc_status test_rule(const hsc_scan *scan, int rule, const hsc_table *accuracy, double *known,
                            double *difference, const hsc_scan_statistics *o, double *p, hsc_error *err)
{
    size_t n = (size_t)accuracy->n_columns;
    HSC_TRY(hsc__columns_read(&scan->rules, rule, known, err));
    for (int c = 0; c < scan->n_clusters; c++)
        for (size_t j = 0; j < n; j++) difference[(size_t)c * n + j] = accuracy->values[(size_t)c * n + j] - known[c];
    return hsc__flip_columns(&(hsc_table){difference, scan->n_clusters, accuracy->n_columns}, o, p, err);
}

/* known: room for a figure of each cluster; difference: for a panel. */
static hsc_status test_accuracy(const hsc_scan *scan, const panel *w, double *known, double *difference,
                                const hsc_scan_statistics *o, hsc_scan_head *out, hsc_error *err)
{
    hsc_table table;
    hsc_bootstrap_options bootstrap = hsc__bootstrap_of(o);
    for (int first = 0; first < scan->n_heads; first += table.n_columns) {
        HSC_TRY(read_panel(w, first, &table, err));
        HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
        for (int j = 0; j < table.n_columns; j++) out[first + j].acc_ci = w->ci[j];
        for (int rule = 0; rule < HSC_N_RULES; rule++) {
            HSC_TRY(test_rule(scan, rule, &table, known, difference, o, w->p, err));
            for (int j = 0; j < table.n_columns; j++) out[first + j].p_rules[rule] = w->p[j];
        }
    }
    return HSC_OK;
}

static void fill_heads(const hsc_scan *scan, const hsc__tested *shift, hsc_scan_head *out)
{
    const double *means = scan->means;
    size_t n = (size_t)scan->n_heads;
    for (size_t h = 0; h < n; h++)
        out[h] = (hsc_scan_head){.layer = (int)h / scan->config->n_heads,
                                 .head = (int)h % scan->config->n_heads,
                                 .a1 = means[HSC__A1 * n + h],
                                 .b1 = means[HSC__B1 * n + h],
                                 .a2 = means[HSC__A2 * n + h],
                                 .b2 = means[HSC__B2 * n + h],
                                 .shift = shift[h].effect.mean,
                                 .ci = shift[h].ci,
                                 .dz = shift[h].effect.dz,
                                 .p = shift[h].p,
                                 .p_fwer = shift[h].p_fwer,
                                 .share = means[HSC__SHARE * n + h],
                                 .mass = means[HSC__MASS * n + h],
                                 .sink = means[HSC__SINK * n + h],
                                 .accuracy = means[HSC__ACCURACY * n + h],
                                 .accuracy_equal = means[HSC__EQUAL * n + h],
                                 .pair_accuracy = means[HSC__BOTH_RIGHT * n + h],
                                 .p_pairs = hsc_sign_test(scan->n_right[h], scan->n_wrong[h])};
}

/* shift, p and q: [n_heads]. */
static hsc_status test_heads(const hsc_scan *scan, const hsc_scan_statistics *o, hsc__tested *shift, double *p,
                             double *q, hsc_scan_head *out, hsc_error *err)
{
    HSC_TRY(hsc__test_columns(&scan->shift, o, scan->memory, shift, err));
    fill_heads(scan, shift, out);
    for (int h = 0; h < scan->n_heads; h++) p[h] = out[h].p;
    HSC_TRY(hsc_adjust_p(o->fdr, p, scan->n_heads, q, err));
    for (int h = 0; h < scan->n_heads; h++) out[h].q = q[h];
    return HSC_OK;
}

hsc_status hsc_scan_figures(const hsc_scan *scan, const hsc_scan_statistics *options, hsc_scan_head *out,
                            hsc_error *err)
{
    static const hsc_scan_statistics defaults;
    const hsc_scan_statistics *o = options ? options : &defaults;
    size_t n = (size_t)scan->n_heads;
    HSC_TRY(hsc__check_fdr(o, err));
    panel w = {0};
    hsc__tested *shift = hsc__calloc(n, sizeof *shift);
    double *p = hsc__calloc(2 * n, sizeof *p), *known = NULL, *difference = NULL;
    hsc_status status = shift && p ? HSC_OK : hsc__fail_memory(err, n * sizeof *shift, "the tests");
    if (status == HSC_OK) status = test_heads(scan, o, shift, p, p + n, out, err);
    if (status == HSC_OK) status = open_panel(&w, &scan->accuracy, scan->memory / 2, err);
    if (status == HSC_OK) {
        known = hsc__calloc((size_t)scan->n_clusters, sizeof *known);
        difference = hsc__calloc((size_t)w.width * (size_t)scan->n_clusters, sizeof *difference);
        status = known && difference ? test_accuracy(scan, &w, known, difference, o, out, err)
                                     : hsc__fail_memory(err, scan->memory / 2, "the tests");
    }
    close_panel(&w);
    hsc__free(shift);
    hsc__free(p);
    hsc__free(known);
    hsc__free(difference);
    return status;
}
