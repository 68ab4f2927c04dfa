/*
 * The percentile bootstrap over clusters, all columns under one index matrix. The matrix is drawn row by row and never
 * kept: a round of rows at a time, as many as fit a bound of memory, whose means several threads then form.
 */
#include "base/alloc.h"
#include "base/parallel.h"
#include "base/status.h"
#include "headscope/random.h"
#include "inspect/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUND = 256,           /* draws that are worked on together, at most */
    ROUND_BYTES = 4 << 20, /* that their indices take, but for one draw */
    TASKS = 16,            /* of a round */
    N_DRAWS = 10000,       /* when nobody says */
};

typedef struct resampling {
    const hsc_table *table;
    int64_t *indices; /* [most_rows][n_clusters] */
    double *means;    /* [n_draws][n_columns] */
    double *sorted;   /* [n_threads][n_draws] */
    int first, n_rows, most_rows, n_draws;
    double level;
    hsc_interval *out;
} resampling;

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void hsc__sort_doubles(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, rising);
}

double hsc__percentile(const double *sorted, int n, double share)
{
    double at = share * (n - 1), below = floor(at);
    int i = (int)below, next = i + 1 < n ? i + 1 : i;
    return sorted[i] + (sorted[next] - sorted[i]) * (at - below);
}

static void form_means(void *context, size_t task, int worker)
{
    (void)worker;
    const resampling *r = context;
    size_t n_columns = (size_t)r->table->n_columns, n_clusters = (size_t)r->table->n_clusters;
    for (int d = (int)task; d < r->n_rows; d += TASKS) {
        double *mean = r->means + (size_t)(r->first + d) * n_columns;
        const int64_t *index = r->indices + (size_t)d * n_clusters;
        memset(mean, 0, n_columns * sizeof *mean);
        for (size_t i = 0; i < n_clusters; i++) {
            const double *row = r->table->values + (size_t)index[i] * n_columns;
            for (size_t j = 0; j < n_columns; j++) mean[j] += row[j];
        }
        for (size_t j = 0; j < n_columns; j++) mean[j] /= (double)n_clusters;
    }
}

static void take_percentiles(void *context, size_t column, int worker)
{
    const resampling *r = context;
    double *sorted = r->sorted + (size_t)worker * (size_t)r->n_draws;
    for (int d = 0; d < r->n_draws; d++) sorted[d] = r->means[(size_t)d * (size_t)r->table->n_columns + column];
    hsc__sort_doubles(sorted, r->n_draws);
    r->out[column] = (hsc_interval){hsc__percentile(sorted, r->n_draws, (1 - r->level) / 2),
                                    hsc__percentile(sorted, r->n_draws, (1 + r->level) / 2)};
}

static hsc_status resample(resampling *r, uint64_t seed, int n_threads, hsc_error *err)
{
    hsc_random random;
    hsc_random_seed(&random, seed);
    size_t n_clusters = (size_t)r->table->n_clusters;
    for (r->first = 0; r->first < r->n_draws; r->first += r->n_rows) {
        r->n_rows = r->n_draws - r->first < r->most_rows ? r->n_draws - r->first : r->most_rows;
        HSC_TRY(hsc_random_integers(&random, 0, (int64_t)n_clusters, (size_t)r->n_rows * n_clusters, r->indices, err));
        hsc__parallel_for(n_threads, r->n_rows < TASKS ? (size_t)r->n_rows : TASKS, form_means, r);
    }
    hsc__parallel_for(n_threads, (size_t)r->table->n_columns, take_percentiles, r);
    return HSC_OK;
}

static int rows_of_round(int n_clusters)
{
    size_t fit = ROUND_BYTES / ((size_t)n_clusters * sizeof(int64_t));
    return fit < 1 ? 1 : fit < ROUND ? (int)fit : ROUND;
}

hsc_status hsc_bootstrap(const hsc_table *table, const hsc_bootstrap_options *options, hsc_interval *out,
                         hsc_error *err)
{
    static const hsc_bootstrap_options defaults;
    const hsc_bootstrap_options *o = options ? options : &defaults;
    HSC_TRY(hsc__check_table(table, err));
    HSC_FAIL_IF(o->n_draws < 0, HSC_EINVAL, "bootstrap: n_draws is %d, it must not be negative", o->n_draws);
    HSC_FAIL_IF(!(o->level >= 0 && o->level < 1), HSC_EINVAL, "bootstrap: the level must lie between 0 and 1");
    int n_threads = o->n_threads > 0 ? o->n_threads : hsc__default_threads();
    resampling r = {.table = table,
                    .most_rows = rows_of_round(table->n_clusters),
                    .n_draws = o->n_draws ? o->n_draws : N_DRAWS,
                    .level = o->level > 0 ? o->level : 0.95,
                    .out = out};
    size_t n_means = (size_t)r.n_draws * (size_t)table->n_columns;
    r.indices = hsc__calloc((size_t)r.most_rows * (size_t)table->n_clusters, sizeof *r.indices);
    r.means = hsc__calloc(n_means, sizeof *r.means);
    r.sorted = hsc__calloc((size_t)n_threads * (size_t)r.n_draws, sizeof *r.sorted);
    hsc_status status = r.indices && r.means && r.sorted
                            ? resample(&r, o->seed, n_threads, err)
                            : hsc__fail_memory(err, n_means * sizeof *r.means, "the bootstrap's means");
    hsc__free(r.indices);
    hsc__free(r.means);
    hsc__free(r.sorted);
    return status;
}
