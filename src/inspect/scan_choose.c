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
#include <stdbool.h>
#include <string.h>

enum { SPLITS = 64 }; /* that a bit a cluster tells apart */

/* The clusters whose bit of `sides` is `side`; sides NULL: all. */
typedef struct part {
    const hsc_scan *scan;
    const uint64_t *sides; /* [n_clusters] */
    int split;
    unsigned side;
    int n; /* clusters in it */
} part;

static bool holds(const part *p, int cluster)
{
    return !p->sides || (p->sides[cluster] >> p->split & 1) == p->side;
}

/* column: a figure of every cluster. */
static double column_mean(const part *p, const double *column)
{
    double sum = 0;
    for (int c = 0; c < p->scan->n_clusters; c++)
        if (holds(p, c)) sum += column[c];
    return sum / p->n;
}

/* |t| of the shifts, through |S| / sqrt(sum x^2), which rises with it and is finite. */
static double t_score(const part *p, const double *column)
{
    double sum = 0, squares = 0;
    for (int c = 0; c < p->scan->n_clusters; c++) {
        if (!holds(p, c)) continue;
        sum += column[c];
        squares += column[c] * column[c];
    }
    return squares > 0 ? fabs(sum) / sqrt(squares) : 0;
}

/* What heads are chosen by. */
static const hsc__columns *scored(const hsc_scan *scan, hsc_scan_by by)
{
    return by == HSC_BY_ACCURACY ? &scan->accuracy : &scan->shift;
}

static double score(const part *p, hsc_scan_by by, const double *column)
{
    if (by == HSC_BY_T) return t_score(p, column);
    return by == HSC_BY_ACCURACY ? column_mean(p, column) : fabs(column_mean(p, column));
}

void hsc__choose(const double *scores, int n, int k, int *chosen)
{
    int n_chosen = 0;
    for (int h = 0; h < n; h++) {
        if (n_chosen == k && scores[h] <= scores[chosen[k - 1]]) continue;
        int at = n_chosen < k ? n_chosen++ : k - 1;
        for (; at > 0 && scores[chosen[at - 1]] < scores[h]; at--) chosen[at] = chosen[at - 1];
        chosen[at] = h;
    }
}

hsc_status hsc__split_size(int n_clusters, double held_out, int *n_choosing, hsc_error *err)
{
    double share = held_out > 0 ? held_out : 0.5;
    HSC_FAIL_IF(!(share < 1), HSC_EINVAL, "the share that is held out is %g, it must be below 1", share);
    int n_held = (int)(share * n_clusters + 0.5);
    *n_choosing = n_clusters - n_held;
    HSC_FAIL_IF(n_held < 2 || *n_choosing < 2, HSC_EINVAL,
                "%d clusters cannot be split into %d that choose and %d that judge: two a side at least", n_clusters,
                *n_choosing, n_held);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- judging ----
 */

/* Memory of a judgement: some of the chosen heads at a time. */
typedef struct judgement {
    const part *choosing, *judging;
    const hsc_scan_statistics *o;
    int width;
    double *column, *chosen_column; /* a column of either scan */
    double *table;                  /* [judging->n][width] */
    double *p;                      /* [k] */
    hsc_interval *ci;               /* [width] */
} judgement;

/* Reads a figure of n chosen heads as a table; means: [n] over the judging part. */
static hsc_status gather(const judgement *w, const hsc__columns *figure, const int *chosen, int n, double *means,
                         hsc_error *err)
{
    for (int j = 0; j < n; j++) {
        double *out = w->table + j;
        HSC_TRY(hsc__columns_read(figure, chosen[j], w->column, err));
        means[j] = column_mean(w->judging, w->column);
        for (int c = 0; c < figure->n_rows; c++) {
            if (!holds(w->judging, c)) continue;
            *out = w->column[c];
            out += n;
        }
    }
    return HSC_OK;
}

/* Everything of n of the chosen heads but the correction of p. means: room for [n]. */
static hsc_status judge_some(const judgement *w, const int *chosen, int n, double *p, double *means, hsc_held_out *out,
                             hsc_error *err)
{
    const hsc_scan *scan = w->judging->scan;
    hsc_table table = {w->table, w->judging->n, n};
    hsc_bootstrap_options bootstrap = hsc__bootstrap_of(w->o);
    HSC_TRY(gather(w, &scan->accuracy, chosen, n, means, err));
    HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
    for (int j = 0; j < n; j++) {
        HSC_TRY(hsc__columns_read(&w->choosing->scan->shift, chosen[j], w->chosen_column, err));
        out[j] = (hsc_held_out){.layer = chosen[j] / scan->config->n_heads,
                                .head = chosen[j] % scan->config->n_heads,
                                .chosen_shift = column_mean(w->choosing, w->chosen_column),
                                .accuracy = means[j],
                                .acc_ci = w->ci[j],
                                .n_clusters = w->judging->n};
    }
    HSC_TRY(gather(w, &scan->shift, chosen, n, means, err));
    HSC_TRY(hsc_bootstrap(&table, &bootstrap, w->ci, err));
    HSC_TRY(hsc__flip_columns(&table, w->o, p, err));
    for (int j = 0; j < n; j++) {
        out[j].shift = means[j];
        out[j].ci = w->ci[j];
    }
    return HSC_OK;
}

static hsc_status judge_all(const judgement *w, const int *chosen, int k, double *means, hsc_held_out *out,
                            hsc_error *err)
{
    for (int at = 0; at < k; at += w->width) {
        int n = k - at < w->width ? k - at : w->width;
        HSC_TRY(judge_some(w, chosen + at, n, w->p + at, means, out + at, err));
    }
    HSC_TRY(hsc_adjust_p(HSC_ADJUST_HOLM, w->p, k, w->p, err));
    for (int j = 0; j < k; j++) out[j].p = w->p[j];
    return HSC_OK;
}

static hsc_status judge(const part *choosing, const part *judging, const int *chosen, int k,
                        const hsc_scan_statistics *o, hsc_held_out *out, hsc_error *err)
{
    judgement w = {.choosing = choosing, .judging = judging, .o = o};
    w.width = hsc__panel_width(judging->scan->memory, judging->n, k);
    size_t width = (size_t)w.width, n = (size_t)judging->n * width;
    double *means = hsc__calloc(width, sizeof *means);
    w.column = hsc__calloc((size_t)judging->scan->n_clusters, sizeof *w.column);
    w.chosen_column = hsc__calloc((size_t)choosing->scan->n_clusters, sizeof *w.chosen_column);
    w.table = hsc__calloc(n, sizeof *w.table);
    w.p = hsc__calloc((size_t)k, sizeof *w.p);
    w.ci = hsc__calloc(width, sizeof *w.ci);
    hsc_status status = means && w.column && w.chosen_column && w.table && w.p && w.ci
                            ? judge_all(&w, chosen, k, means, out, err)
                            : hsc__fail_memory(err, n * sizeof *w.table, "the judgement");
    hsc__free(means);
    hsc__free(w.column);
    hsc__free(w.chosen_column);
    hsc__free(w.table);
    hsc__free(w.p);
    hsc__free(w.ci);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ splitting ----
 */

/* Memory of a choice. Up to SPLITS splits are scored together, so that a column is read once for all of them. */
typedef struct chooser {
    const hsc_scan *scan;
    const hsc_scan_choice *choice;
    int k, n_choosing;
    int64_t *order;  /* [n_clusters] */
    uint64_t *sides; /* [n_clusters] bit s: the cluster judges in split s */
    double *column;  /* [n_clusters] */
    int *chosen;     /* [k] */
    double *scores;  /* [SPLITS][n_heads] */
} chooser;

static hsc_status open_chooser(chooser *c, const hsc_scan *scan, const hsc_scan_choice *choice, hsc_error *err)
{
    size_t n = (size_t)scan->n_clusters;
    *c = (chooser){.scan = scan, .choice = choice, .k = choice->n_chosen ? choice->n_chosen : 1};
    HSC_FAIL_IF(c->k < 1 || c->k > scan->n_heads, HSC_EINVAL, "%d heads cannot be chosen of %d", c->k, scan->n_heads);
    c->order = hsc__calloc(n, sizeof *c->order);
    c->sides = hsc__calloc(n, sizeof *c->sides);
    c->column = hsc__calloc(n, sizeof *c->column);
    c->chosen = hsc__calloc((size_t)c->k, sizeof *c->chosen);
    c->scores = hsc__calloc(SPLITS * (size_t)scan->n_heads, sizeof *c->scores);
    if (c->order && c->sides && c->column && c->chosen && c->scores) return HSC_OK;
    return hsc__fail_memory(err, SPLITS * (size_t)scan->n_heads * sizeof *c->scores, "the choice");
}

static void close_chooser(chooser *c)
{
    hsc__free(c->order);
    hsc__free(c->sides);
    hsc__free(c->column);
    hsc__free(c->chosen);
    hsc__free(c->scores);
}

static part choosing_part(const chooser *c, int split)
{
    return (part){c->scan, c->sides, split, 0, c->n_choosing};
}

static part judging_part(const chooser *c, int split)
{
    return (part){c->scan, c->sides, split, 1, c->scan->n_clusters - c->n_choosing};
}

/* Splits the clusters n times and scores every head on the choosing parts. */
static hsc_status split(chooser *c, int n, hsc_random *random, hsc_error *err)
{
    const hsc_scan *scan = c->scan;
    memset(c->sides, 0, (size_t)scan->n_clusters * sizeof *c->sides);
    for (int s = 0; s < n; s++) {
        HSC_TRY(hsc_random_permutation(random, scan->n_clusters, c->order, err));
        for (int i = c->n_choosing; i < scan->n_clusters; i++) c->sides[c->order[i]] |= UINT64_C(1) << s;
    }
    for (int h = 0; h < scan->n_heads; h++) {
        HSC_TRY(hsc__columns_read(scored(scan, c->choice->by), h, c->column, err));
        for (int s = 0; s < n; s++) {
            part choosing = choosing_part(c, s);
            c->scores[s * scan->n_heads + h] = score(&choosing, c->choice->by, c->column);
        }
    }
    return HSC_OK;
}

hsc_status hsc_scan_hold_out(const hsc_scan *scan, const hsc_scan_choice *choice, hsc_held_out *out, hsc_error *err)
{
    chooser c;
    hsc_random random;
    hsc_random_seed(&random, hsc__stream_seed(choice->statistics.seed, HSC__STREAM_SPLIT));
    hsc_status status = open_chooser(&c, scan, choice, err);
    if (status == HSC_OK) status = hsc__split_size(scan->n_clusters, choice->held_out, &c.n_choosing, err);
    if (status == HSC_OK) status = split(&c, 1, &random, err);
    if (status == HSC_OK) {
        part choosing = choosing_part(&c, 0), judging = judging_part(&c, 0);
        hsc__choose(c.scores, scan->n_heads, c.k, c.chosen);
        status = judge(&choosing, &judging, c.chosen, c.k, &choice->statistics, out, err);
    }
    close_chooser(&c);
    return status;
}

/* Scores of all heads on all clusters. */
static hsc_status score_all(chooser *c, const part *all, hsc_error *err)
{
    for (int h = 0; h < c->scan->n_heads; h++) {
        HSC_TRY(hsc__columns_read(scored(c->scan, c->choice->by), h, c->column, err));
        c->scores[h] = score(all, c->choice->by, c->column);
    }
    return HSC_OK;
}

hsc_status hsc_scan_confirm(const hsc_scan *scan, const hsc_scan *other, const hsc_scan_choice *choice,
                            hsc_held_out *out, hsc_error *err)
{
    chooser c;
    part all = {.scan = scan, .n = scan->n_clusters}, others = {.scan = other, .n = other->n_clusters};
    HSC_FAIL_IF(scan->n_heads != other->n_heads, HSC_EINVAL, "confirm: the two scans are of models of %d and %d heads",
                scan->n_heads, other->n_heads);
    hsc_status status = open_chooser(&c, scan, choice, err);
    if (status == HSC_OK) status = score_all(&c, &all, err);
    if (status == HSC_OK) {
        hsc__choose(c.scores, scan->n_heads, c.k, c.chosen);
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
        int s = r % SPLITS;
        if (s == 0) HSC_TRY(split(c, n_repeats - r < SPLITS ? n_repeats - r : SPLITS, &random, err));
        part judging = judging_part(c, s);
        hsc__choose(c->scores + s * c->scan->n_heads, c->scan->n_heads, c->k, c->chosen);
        for (int j = 0; j < c->k; j++) {
            HSC_TRY(hsc__columns_read(&c->scan->shift, c->chosen[j], c->column, err));
            heads[r * c->k + j] = c->chosen[j];
            effects[r * c->k + j] = column_mean(&judging, c->column);
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
    if (status == HSC_OK) status = hsc__split_size(scan->n_clusters, choice->held_out, &c.n_choosing, err);
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

/* Exchanging a cluster's wordings turns its shift and its accuracy about. turned: bit `repeat` of a cluster. */
static double turned_score(const double *column, int n, hsc_scan_by by, const uint64_t *turned, int repeat)
{
    double sum = 0, squares = 0;
    for (int c = 0; c < n; c++) {
        double x = column[c];
        if (turned[c] >> repeat & 1) x = by == HSC_BY_ACCURACY ? 1 - x : -x;
        sum += x;
        squares += x * x;
    }
    if (by == HSC_BY_T) return squares > 0 ? fabs(sum) / sqrt(squares) : 0;
    return by == HSC_BY_ACCURACY ? sum / n : fabs(sum) / n;
}

/* Of n repeats, the best head's score. */
static hsc_status best_turned(chooser *c, int n, double *best, hsc_error *err)
{
    const hsc_scan *scan = c->scan;
    for (int r = 0; r < n; r++) best[r] = 0;
    for (int h = 0; h < scan->n_heads; h++) {
        HSC_TRY(hsc__columns_read(scored(scan, c->choice->by), h, c->column, err));
        for (int r = 0; r < n; r++)
            best[r] = fmax(best[r], turned_score(c->column, scan->n_clusters, c->choice->by, c->sides, r));
    }
    return HSC_OK;
}

/* best: [n_repeats]. */
static hsc_status exchange(chooser *c, int n_repeats, double *observed, double *best, hsc_error *err)
{
    hsc_random random;
    size_t n_bytes = (size_t)c->scan->n_clusters * sizeof *c->sides;
    HSC_TRY(best_turned(c, 1, observed, err)); /* nothing is turned yet */
    hsc_random_seed(&random, hsc__stream_seed(c->choice->statistics.seed, HSC__STREAM_NULL));
    for (int done = 0; done < n_repeats; done += SPLITS) {
        int n = n_repeats - done < SPLITS ? n_repeats - done : SPLITS;
        memset(c->sides, 0, n_bytes);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < c->scan->n_clusters; i++)
                c->sides[i] |= (uint64_t)(hsc_random_bits32(&random) & 1) << r;
        HSC_TRY(best_turned(c, n, best + done, err));
    }
    return HSC_OK;
}

/* u = |S| / sqrt(sum x^2) as the |t| that it stands for. */
static double shown(hsc_scan_by by, double u, int n)
{
    return by == HSC_BY_T ? u * sqrt((n - 1) / fmax(0, n - u * u)) : u;
}

hsc_status hsc_scan_exchange(const hsc_scan *scan, const hsc_scan_choice *choice, int n_repeats, hsc_scan_null *out,
                             hsc_error *err)
{
    chooser c;
    double observed = 0;
    int n_reach = 0, n = scan->n_clusters;
    HSC_FAIL_IF(n_repeats < 1, HSC_EINVAL, "exchange: %d repeats, 1 at least", n_repeats);
    hsc_status status = open_chooser(&c, scan, choice, err);
    double *best = hsc__calloc((size_t)n_repeats, sizeof *best);
    if (status == HSC_OK && !best) status = hsc__fail_memory(err, (size_t)n_repeats * sizeof *best, "the repeats");
    if (status == HSC_OK) status = exchange(&c, n_repeats, &observed, best, err);
    if (status == HSC_OK) {
        for (int r = 0; r < n_repeats; r++) n_reach += best[r] >= observed * (1 - 1e-12);
        hsc__sort_doubles(best, n_repeats);
        *out = (hsc_scan_null){.observed = shown(choice->by, observed, n),
                               .median = shown(choice->by, hsc__percentile(best, n_repeats, 0.5), n),
                               .high = shown(choice->by, hsc__percentile(best, n_repeats, 0.95), n),
                               .p = (1.0 + n_reach) / (1.0 + n_repeats)};
    }
    hsc__free(best);
    close_chooser(&c);
    return status;
}
