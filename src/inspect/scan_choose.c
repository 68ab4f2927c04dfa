/*
 * Choosing a head and judging it elsewhere: a split of the clusters, many splits, another file; the search when nothing
 * is there; and a control's shift taken away. A figure from the clusters that chose is larger than life, so what is
 * reported comes from clusters that did not.
 */
#include "base/status.h"
#include "headscope/random.h"
#include "inspect/scan.h"
#include "inspect/statistics.h"

#include <math.h>
#include <string.h>

/* Rows of a scan's tables. */
typedef struct part {
    const hsc_scan *scan;
    const int64_t *rows; /* [n] clusters; NULL: all, in order */
    int n;
} part;

static size_t cell(const part *p, int i, int head)
{
    size_t cluster = p->rows ? (size_t)p->rows[i] : (size_t)i;
    return cluster * (size_t)p->scan->n_heads + (size_t)head;
}

static double column_mean(const part *p, hsc__figure figure, int head)
{
    const double *table = hsc__figure_table(p->scan, figure);
    double sum = 0;
    for (int i = 0; i < p->n; i++) sum += table[cell(p, i, head)];
    return sum / p->n;
}

/* |t| of the column's shifts, through |S| / sqrt(sum x^2), which rises with it and is finite. */
static double t_score(const part *p, int head)
{
    const double *table = hsc__figure_table(p->scan, HSC__SHIFT);
    double sum = 0, squares = 0;
    for (int i = 0; i < p->n; i++) {
        double x = table[cell(p, i, head)];
        sum += x;
        squares += x * x;
    }
    return squares > 0 ? fabs(sum) / sqrt(squares) : 0;
}

static double score(const part *p, hsc_scan_by by, int head)
{
    if (by == HSC_BY_T) return t_score(p, head);
    return by == HSC_BY_ACCURACY ? column_mean(p, HSC__ACCURACY, head) : fabs(column_mean(p, HSC__SHIFT, head));
}

/* chosen[k]: the k best heads, best first; of equals the earlier one. scores: [n_heads]. */
static void choose(const part *p, hsc_scan_by by, int k, int *chosen, double *scores)
{
    int n = 0;
    for (int h = 0; h < p->scan->n_heads; h++) scores[h] = score(p, by, h);
    for (int h = 0; h < p->scan->n_heads; h++) {
        if (n == k && scores[h] <= scores[chosen[n - 1]]) continue;
        int at = n < k ? n++ : n - 1;
        for (; at > 0 && scores[chosen[at - 1]] < scores[h]; at--) chosen[at] = chosen[at - 1];
        chosen[at] = h;
    }
}

/* ------------------------------------------------------------------------------------------------------- judging ----
 */

/* [n][k] of a figure for the chosen heads. */
static void gather(const part *p, hsc__figure figure, const int *chosen, int k, double *out)
{
    const double *table = hsc__figure_table(p->scan, figure);
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < k; j++) out[(size_t)i * (size_t)k + (size_t)j] = table[cell(p, i, chosen[j])];
}

typedef struct judgement {
    double *table, *p;
    hsc_interval *ci;
} judgement;

static hsc_status fill(const part *choosing, const part *judging, const int *chosen, int k,
                       const hsc_scan_statistics *o, judgement *w, hsc_held_out *out, hsc_error *err)
{
    hsc_table table = {w->table, judging->n, k};
    hsc_bootstrap_options bootstrap = {.n_draws = o->n_bootstrap, .seed = o->seed, .n_threads = o->n_threads};
    gather(judging, HSC__ACCURACY, chosen, k, w->table);
    HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
    for (int j = 0; j < k; j++) {
        out[j] = (hsc_held_out){.layer = chosen[j] / judging->scan->config->n_heads,
                                .head = chosen[j] % judging->scan->config->n_heads,
                                .chosen_shift = column_mean(choosing, HSC__SHIFT, chosen[j]),
                                .shift = column_mean(judging, HSC__SHIFT, chosen[j]),
                                .accuracy = column_mean(judging, HSC__ACCURACY, chosen[j]),
                                .acc_ci = w->ci[j],
                                .n_clusters = judging->n};
    }
    gather(judging, HSC__SHIFT, chosen, k, w->table);
    HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
    HSC_TRY(hsc__flip_columns(&table, o, w->p, err));
    HSC_TRY(hsc_adjust_p(HSC_ADJUST_HOLM, w->p, k, w->p, err));
    for (int j = 0; j < k; j++) {
        out[j].ci = w->ci[j];
        out[j].p = w->p[j];
    }
    return HSC_OK;
}

static hsc_status judge(const part *choosing, const part *judging, const int *chosen, int k,
                        const hsc_scan_statistics *o, hsc_held_out *out, hsc_error *err)
{
    size_t n = (size_t)judging->n * (size_t)k;
    judgement w = {hsc__calloc(n, sizeof *w.table), hsc__calloc((size_t)k, sizeof *w.p),
                   hsc__calloc((size_t)k, sizeof *w.ci)};
    hsc_status status = w.table && w.p && w.ci ? fill(choosing, judging, chosen, k, o, &w, out, err)
                                               : hsc__fail_memory(err, n * sizeof *w.table, "the judgement");
    hsc__free(w.table);
    hsc__free(w.p);
    hsc__free(w.ci);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ splitting ----
 */

/* Memory of a choice, one allocation each. */
typedef struct chooser {
    const hsc_scan *scan;
    const hsc_scan_choice *choice;
    int k, n_choosing;
    int64_t *order; /* [n_clusters] */
    int *chosen;    /* [k] */
    double *scores; /* [n_heads] */
    part first, second;
} chooser;

static hsc_status open_chooser(chooser *c, const hsc_scan *scan, const hsc_scan_choice *choice, hsc_error *err)
{
    *c = (chooser){.scan = scan, .choice = choice, .k = choice->n_chosen ? choice->n_chosen : 1};
    HSC_FAIL_IF(c->k < 1 || c->k > scan->n_heads, HSC_EINVAL, "%d heads cannot be chosen of %d", c->k, scan->n_heads);
    c->order = hsc__calloc((size_t)scan->n_clusters, sizeof *c->order);
    c->chosen = hsc__calloc((size_t)c->k, sizeof *c->chosen);
    c->scores = hsc__calloc((size_t)scan->n_heads, sizeof *c->scores);
    if (c->order && c->chosen && c->scores) return HSC_OK;
    return hsc__fail_memory(err, (size_t)scan->n_heads * sizeof *c->scores, "the choice");
}

static void close_chooser(chooser *c)
{
    hsc__free(c->order);
    hsc__free(c->chosen);
    hsc__free(c->scores);
}

/* Rows in rising order, so that a sum over a part does not depend on how the split was drawn. */
static void sort_rows(int64_t *rows, int n)
{
    for (int i = 1; i < n; i++) {
        int64_t x = rows[i];
        int at = i;
        for (; at > 0 && rows[at - 1] > x; at--) rows[at] = rows[at - 1];
        rows[at] = x;
    }
}

static hsc_status split(chooser *c, hsc_random *random, hsc_error *err)
{
    int n = c->scan->n_clusters;
    double share = c->choice->held_out > 0 ? c->choice->held_out : 0.5;
    HSC_FAIL_IF(!(share < 1), HSC_EINVAL, "the share that is held out is %g, it must be below 1", share);
    int n_held = (int)(share * n + 0.5);
    c->n_choosing = n - n_held;
    HSC_FAIL_IF(n_held < 2 || c->n_choosing < 2, HSC_EINVAL,
                "%d clusters cannot be split into %d that choose and %d that judge: two a side at least", n,
                c->n_choosing, n_held);
    HSC_TRY(hsc_random_permutation(random, n, c->order, err));
    sort_rows(c->order, c->n_choosing);
    sort_rows(c->order + c->n_choosing, n_held);
    c->first = (part){c->scan, c->order, c->n_choosing};
    c->second = (part){c->scan, c->order + c->n_choosing, n_held};
    choose(&c->first, c->choice->by, c->k, c->chosen, c->scores);
    return HSC_OK;
}

hsc_status hsc_scan_hold_out(const hsc_scan *scan, const hsc_scan_choice *choice, hsc_held_out *out, hsc_error *err)
{
    chooser c;
    hsc_random random;
    hsc_random_seed(&random, hsc__stream_seed(choice->statistics.seed, HSC__STREAM_SPLIT));
    hsc_status status = open_chooser(&c, scan, choice, err);
    if (status == HSC_OK) status = split(&c, &random, err);
    if (status == HSC_OK) status = judge(&c.first, &c.second, c.chosen, c.k, &choice->statistics, out, err);
    close_chooser(&c);
    return status;
}

hsc_status hsc_scan_confirm(const hsc_scan *scan, const hsc_scan *other, const hsc_scan_choice *choice,
                            hsc_held_out *out, hsc_error *err)
{
    chooser c;
    part all = {scan, NULL, scan->n_clusters}, others = {other, NULL, other->n_clusters};
    HSC_FAIL_IF(scan->n_heads != other->n_heads, HSC_EINVAL, "confirm: the two scans are of models of %d and %d heads",
                scan->n_heads, other->n_heads);
    hsc_status status = open_chooser(&c, scan, choice, err);
    if (status == HSC_OK) {
        choose(&all, choice->by, c.k, c.chosen, c.scores);
        status = judge(&all, &others, c.chosen, c.k, &choice->statistics, out, err);
    }
    close_chooser(&c);
    return status;
}

/* effects: [n_repeats][k] of head (as a number) and held-out shift. */
static hsc_status repeat(chooser *c, int n_repeats, int *heads, double *effects, hsc_error *err)
{
    hsc_random random;
    hsc_random_seed(&random, hsc__stream_seed(c->choice->statistics.seed, HSC__STREAM_SPLIT));
    for (int r = 0; r < n_repeats; r++) {
        HSC_TRY(split(c, &random, err));
        for (int j = 0; j < c->k; j++) {
            heads[r * c->k + j] = c->chosen[j];
            effects[r * c->k + j] = column_mean(&c->second, HSC__SHIFT, c->chosen[j]);
        }
    }
    return HSC_OK;
}

hsc_status hsc_scan_cross(const hsc_scan *scan, const hsc_scan_choice *choice, int n_repeats, int *chosen,
                          double *median, hsc_error *err)
{
    chooser c;
    HSC_FAIL_IF(n_repeats < 1, HSC_EINVAL, "cross: %d repeats, 1 at least", n_repeats);
    hsc_status status = open_chooser(&c, scan, choice, err);
    size_t n = (size_t)n_repeats * (size_t)c.k;
    int *heads = hsc__calloc(n, sizeof *heads);
    double *effects = hsc__calloc(n, sizeof *effects), *own = hsc__calloc(n, sizeof *own);
    if (status == HSC_OK && (!heads || !effects || !own))
        status = hsc__fail_memory(err, n * sizeof *own, "the repeats");
    if (status == HSC_OK) status = repeat(&c, n_repeats, heads, effects, err);
    for (int h = 0; status == HSC_OK && h < scan->n_heads; h++) {
        chosen[h] = 0;
        for (size_t i = 0; i < n; i++)
            if (heads[i] == h) own[chosen[h]++] = effects[i];
        hsc__sort_doubles(own, chosen[h]);
        median[h] = chosen[h] ? hsc__percentile(own, chosen[h], 0.5) : NAN;
    }
    hsc__free(heads);
    hsc__free(effects);
    hsc__free(own);
    close_chooser(&c);
    return status;
}

/* ------------------------------------------------------------------------------------------------ nothing is there
 * ---- */

/* Exchanging a cluster's wordings turns its shift and its accuracy about. */
static double turned_score(const hsc_scan *scan, hsc_scan_by by, int head, const unsigned char *turned)
{
    const double *table = hsc__figure_table(scan, by == HSC_BY_ACCURACY ? HSC__ACCURACY : HSC__SHIFT);
    double sum = 0, squares = 0;
    for (int c = 0; c < scan->n_clusters; c++) {
        double x = table[(size_t)c * (size_t)scan->n_heads + (size_t)head];
        if (turned[c]) x = by == HSC_BY_ACCURACY ? 1 - x : -x;
        sum += x;
        squares += x * x;
    }
    if (by == HSC_BY_T) return squares > 0 ? fabs(sum) / sqrt(squares) : 0;
    return by == HSC_BY_ACCURACY ? sum / scan->n_clusters : fabs(sum) / scan->n_clusters;
}

static double best_turned(const hsc_scan *scan, hsc_scan_by by, const unsigned char *turned)
{
    double best = 0;
    for (int h = 0; h < scan->n_heads; h++) best = fmax(best, turned_score(scan, by, h, turned));
    return best;
}

/* u = |S| / sqrt(sum x^2) as the |t| that it stands for. */
static double shown(hsc_scan_by by, double u, int n)
{
    return by == HSC_BY_T ? u * sqrt((n - 1) / fmax(0, n - u * u)) : u;
}

hsc_status hsc_scan_exchange(const hsc_scan *scan, const hsc_scan_choice *choice, int n_repeats, hsc_scan_null *out,
                             hsc_error *err)
{
    hsc_random random;
    int n_reach = 0, n = scan->n_clusters;
    HSC_FAIL_IF(n_repeats < 1, HSC_EINVAL, "exchange: %d repeats, 1 at least", n_repeats);
    double *best = hsc__calloc((size_t)n_repeats, sizeof *best);
    unsigned char *turned = hsc__calloc((size_t)n, 1);
    hsc_status status =
        best && turned ? HSC_OK : hsc__fail_memory(err, (size_t)n_repeats * sizeof *best, "the repeats");
    if (status == HSC_OK) {
        double observed = best_turned(scan, choice->by, turned);
        hsc_random_seed(&random, hsc__stream_seed(choice->statistics.seed, HSC__STREAM_NULL));
        for (int r = 0; r < n_repeats; r++) {
            for (int c = 0; c < n; c++) turned[c] = (unsigned char)(hsc_random_bits32(&random) & 1);
            best[r] = best_turned(scan, choice->by, turned);
            n_reach += best[r] >= observed * (1 - 1e-12);
        }
        hsc__sort_doubles(best, n_repeats);
        *out = (hsc_scan_null){.observed = shown(choice->by, observed, n),
                               .median = shown(choice->by, hsc__percentile(best, n_repeats, 0.5), n),
                               .high = shown(choice->by, hsc__percentile(best, n_repeats, 0.95), n),
                               .p = (1.0 + n_reach) / (1.0 + n_repeats)};
    }
    hsc__free(best);
    hsc__free(turned);
    return status;
}
