/*
 * Sign-flip tests over clusters. One column exactly, from two sorted halves of signed sums; a whole family under common
 * signs, drawn or listed. Sums run in a fixed order and hits are integers, so the number of threads never shows.
 */
#include "base/alloc.h"
#include "base/parallel.h"
#include "base/status.h"
#include "headscope/random.h"
#include "inspect/statistics.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* What two ways of adding n numbers may differ by, twice over. */
static double rounding(int n, double sum_of_magnitudes)
{
    return 4 * n * DBL_EPSILON * sum_of_magnitudes;
}

/* ------------------------------------------------------------------------------------------------- one column ---- */

/* The 2^n signed sums of x in rising order. Adding an element makes two sorted lists, one a shift of the other, and
 * merges them. sums, spare: [2^n]. Returns which of the two holds the result. */
static double *signed_sums(const double *x, int n, int stride, double *sums, double *spare)
{
    sums[0] = 0;
    for (int i = 0; i < n; i++) {
        double step = fabs(x[(size_t)i * (size_t)stride]);
        size_t size = (size_t)1 << i, low = 0, high = 0;
        for (size_t k = 0; k < 2 * size; k++) {
            bool take_low = high == size || (low < size && sums[low] - step <= sums[high] + step);
            spare[k] = take_low ? sums[low++] - step : sums[high++] + step;
        }
        double *swap = sums;
        sums = spare;
        spare = swap;
    }
    return sums;
}

/* Pairs (a, b) with a + b >= threshold; both lists rise. */
static uint64_t count_pairs(const double *a, size_t n_a, const double *b, size_t n_b, double threshold)
{
    uint64_t count = 0;
    size_t first = n_b; /* b[first..] are large enough for the a at hand; it sinks as a rises */
    for (size_t i = 0; i < n_a; i++) {
        while (first > 0 && a[i] + b[first - 1] >= threshold) first--;
        count += n_b - first;
    }
    return count;
}

hsc_status hsc_sign_flip_exact(const double *x, int n, int stride, double *p, hsc_error *err)
{
    HSC_FAIL_IF(n < 1 || n > HSC_EXACT_CLUSTERS, HSC_EINVAL, "sign flips: %d clusters, 1 to %d are listed exactly", n,
                (int)HSC_EXACT_CLUSTERS);
    double sum = 0, magnitudes = 0;
    for (int i = 0; i < n; i++) {
        sum += x[(size_t)i * (size_t)stride];
        magnitudes += fabs(x[(size_t)i * (size_t)stride]);
    }
    HSC_FAIL_IF(!isfinite(magnitudes), HSC_EINVAL, "sign flips: a value is not finite");
    double threshold = fabs(sum) - rounding(n, magnitudes);
    *p = 1;
    if (threshold <= 0) return HSC_OK;
    int n_a = n / 2, n_b = n - n_a;
    size_t size_a = (size_t)1 << n_a, size_b = (size_t)1 << n_b, n_bytes = 2 * (size_a + size_b) * sizeof(double);
    double *memory = hsc__malloc(n_bytes);
    if (!memory) return hsc__fail_memory(err, n_bytes, "signed sums");
    const double *a = signed_sums(x, n_a, stride, memory, memory + size_a);
    double *rest = memory + 2 * size_a;
    const double *b = signed_sums(x + (size_t)n_a * (size_t)stride, n_b, stride, rest, rest + size_b);
    uint64_t n_above = count_pairs(a, size_a, b, size_b, threshold);
    hsc__free(memory);
    *p = fmin(1, ldexp(2 * (double)n_above, -n)); /* the sums below -threshold are as many */
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- a family ---- */

enum {
    ROUND = 1024,          /* draws that are worked on together, at most */
    ROUND_BYTES = 4 << 20, /* that their signs take, but for one draw */
    TASKS = 16,            /* of a round */
    GROUP = 4,             /* clusters whose 16 signed sums are looked up at once */
    BLOCK_GROUPS = 64,     /* groups whose tables are in memory together */
    WORD = 32,             /* signs a drawn number has */
    N_DRAWS = 100000,      /* when nobody says */
};

/* Some columns of a family, under the family's signs. */
typedef struct panel {
    const hsc_table *table;
    size_t n_columns, n_words; /* words of signs a draw */
    bool listed;               /* every assignment instead of draws */
    int n_threads;
    double *threshold;                 /* [n_columns] on |S|; infinite for a column outside the family */
    double *scale;                     /* [n_columns] 1 / sqrt(sum x^2); 0 outside */
    double *signed_of;                 /* [BLOCK_GROUPS][16][n_columns] of the block at hand */
    double *sums;                      /* [most_rows][n_columns] */
    uint32_t *signs;                   /* [most_rows][n_words] */
    double *largest;                   /* [n_rows] max |S| scale of the round's draws, of the panels so far */
    uint64_t *hits;                    /* [n_threads][n_columns] */
    int first_group, n_groups, n_rows; /* of the block and round at hand */
    int most_rows;
} panel;

static void free_panel(panel *f)
{
    hsc__free(f->threshold);
    hsc__free(f->scale);
    hsc__free(f->signed_of);
    hsc__free(f->sums);
    hsc__free(f->signs);
    hsc__free(f->hits);
}

static hsc_status make_panel(panel *f, hsc_error *err)
{
    size_t n = f->n_columns;
    f->threshold = hsc__calloc(n, sizeof *f->threshold);
    f->scale = hsc__calloc(n, sizeof *f->scale);
    f->signed_of = hsc__calloc(BLOCK_GROUPS * 16 * n, sizeof *f->signed_of);
    f->sums = hsc__calloc((size_t)f->most_rows * n, sizeof *f->sums);
    f->signs = hsc__calloc((size_t)f->most_rows * f->n_words, sizeof *f->signs);
    f->hits = hsc__calloc((size_t)f->n_threads * n, sizeof *f->hits);
    if (f->threshold && f->scale && f->signed_of && f->sums && f->signs && f->hits) return HSC_OK;
    return hsc__fail_memory(err, ((size_t)f->most_rows + BLOCK_GROUPS * 16) * n * sizeof *f->sums, "sign flips");
}

/* What a draw must reach to count: the observed |S| less what rounding may take from it. */
static void observe(panel *f)
{
    const hsc_table *t = f->table;
    for (size_t j = 0; j < f->n_columns; j++) {
        double sum = 0, magnitudes = 0, squares = 0;
        for (int i = 0; i < t->n_clusters; i++) {
            double x = t->values[(size_t)i * f->n_columns + j];
            sum += x;
            magnitudes += fabs(x);
            squares += x * x;
        }
        bool member = magnitudes > 0;
        f->threshold[j] = member ? fabs(sum) - rounding(t->n_clusters, magnitudes) : INFINITY;
        f->scale[j] = member ? 1 / sqrt(squares) : 0;
    }
}

/* The 16 signed sums of each group of four clusters in the block; clusters past the last count as 0. */
static void fill_group(void *context, size_t task, int worker)
{
    (void)worker;
    panel *f = context;
    const hsc_table *t = f->table;
    int first = (f->first_group + (int)task) * GROUP;
    for (unsigned bits = 0; bits < 1U << GROUP; bits++) {
        double *out = f->signed_of + (task * 16 + bits) * f->n_columns;
        memset(out, 0, f->n_columns * sizeof *out);
        for (int k = 0; k < GROUP && first + k < t->n_clusters; k++) {
            const double *row = t->values + (size_t)(first + k) * f->n_columns;
            double sign = bits >> k & 1 ? -1 : 1;
            for (size_t j = 0; j < f->n_columns; j++) out[j] += sign * row[j];
        }
    }
}

static void add_draws(void *context, size_t task, int worker)
{
    (void)worker;
    panel *f = context;
    for (int d = (int)task; d < f->n_rows; d += TASKS) {
        double *sums = f->sums + (size_t)d * f->n_columns;
        const uint32_t *signs = f->signs + (size_t)d * f->n_words;
        if (f->first_group == 0) memset(sums, 0, f->n_columns * sizeof *sums);
        for (int g = 0; g < f->n_groups; g++) {
            int cluster = (f->first_group + g) * GROUP;
            unsigned bits = signs[cluster / WORD] >> (cluster % WORD) & 15U;
            const double *row = f->signed_of + ((size_t)g * 16 + bits) * f->n_columns;
            for (size_t j = 0; j < f->n_columns; j++) sums[j] += row[j];
        }
    }
}

static void judge_draws(void *context, size_t task, int worker)
{
    panel *f = context;
    uint64_t *hits = f->hits + (size_t)worker * f->n_columns;
    for (int d = (int)task; d < f->n_rows; d += TASKS) {
        const double *sums = f->sums + (size_t)d * f->n_columns;
        double largest = f->largest[d];
        for (size_t j = 0; j < f->n_columns; j++) {
            double size = fabs(sums[j]);
            hits[j] += size >= f->threshold[j];
            largest = fmax(largest, size * f->scale[j]);
        }
        f->largest[d] = largest;
    }
}

static void draw_signs(panel *f, hsc_random *random, int64_t first)
{
    for (int d = 0; d < f->n_rows; d++) {
        uint32_t *signs = f->signs + (size_t)d * f->n_words;
        if (f->listed) signs[0] = (uint32_t)(first + d);
        for (size_t w = 0; w < f->n_words && !f->listed; w++) signs[w] = hsc_random_bits32(random);
    }
}

/* One round: the sums of n_rows draws, block of clusters by block, so that memory does not grow with the clusters. */
static void run_round(panel *f)
{
    int n_groups = (f->table->n_clusters + GROUP - 1) / GROUP;
    size_t n_tasks = f->n_rows < TASKS ? (size_t)f->n_rows : TASKS;
    for (f->first_group = 0; f->first_group < n_groups; f->first_group += BLOCK_GROUPS) {
        f->n_groups = n_groups - f->first_group < BLOCK_GROUPS ? n_groups - f->first_group : BLOCK_GROUPS;
        hsc__parallel_for(f->n_threads, (size_t)f->n_groups, fill_group, f);
        hsc__parallel_for(f->n_threads, n_tasks, add_draws, f);
    }
    hsc__parallel_for(f->n_threads, n_tasks, judge_draws, f);
}

static void run_panel(panel *f, const hsc__family *family)
{
    hsc_random random;
    hsc_random_seed(&random, family->seed);
    for (int64_t done = 0; done < family->n_draws; done += f->n_rows) {
        f->n_rows = (int)(family->n_draws - done < f->most_rows ? family->n_draws - done : f->most_rows);
        f->largest = family->largest + done;
        draw_signs(f, &random, done);
        run_round(f);
    }
}

/* Shares of the draws; with a listing the observed assignment is among them already. */
static double share_of(const hsc__family *family, uint64_t hits)
{
    double one = family->listed ? 0 : 1;
    return (one + (double)hits) / (one + (double)family->n_draws);
}

static void share_hits(const panel *f, hsc__family *family, double *p)
{
    for (size_t j = 0; j < f->n_columns; j++) {
        uint64_t hits = 0;
        for (int w = 0; w < f->n_threads; w++) hits += f->hits[(size_t)w * f->n_columns + j];
        bool member = f->scale[j] > 0;
        if (p) p[j] = member ? share_of(family, hits) : NAN;
        family->reached[family->n_columns++] = member ? f->threshold[j] * f->scale[j] : NAN;
    }
}

hsc_status hsc__check_table(const hsc_table *t, hsc_error *err)
{
    HSC_FAIL_IF(t->n_clusters < 1 || t->n_columns < 1, HSC_EINVAL, "a table of %d clusters and %d columns is empty",
                t->n_clusters, t->n_columns);
    for (size_t i = 0; i < (size_t)t->n_clusters * (size_t)t->n_columns; i++)
        HSC_FAIL_IF(!isfinite(t->values[i]), HSC_EINVAL, "the table's value of cluster %zu, column %zu is not finite",
                    i / (size_t)t->n_columns, i % (size_t)t->n_columns);
    return HSC_OK;
}

hsc_status hsc__family_open(hsc__family *family, int n_clusters, int n_columns, const hsc_flip_options *options,
                            hsc_error *err)
{
    static const hsc_flip_options defaults;
    const hsc_flip_options *o = options ? options : &defaults;
    *family = (hsc__family){.seed = o->seed, .n_draws = o->n_draws ? o->n_draws : N_DRAWS};
    HSC_FAIL_IF(o->n_draws < 0, HSC_EINVAL, "sign flips: n_draws is %d, it must not be negative", o->n_draws);
    family->n_threads = o->n_threads > 0 ? o->n_threads : hsc__default_threads();
    family->listed = n_clusters < WORD - 1 && ((int64_t)1 << n_clusters) <= family->n_draws;
    if (family->listed) family->n_draws = (int64_t)1 << n_clusters;
    family->largest = hsc__calloc((size_t)family->n_draws, sizeof *family->largest);
    family->reached = hsc__calloc((size_t)n_columns, sizeof *family->reached);
    if (family->largest && family->reached) return HSC_OK;
    return hsc__fail_memory(err, (size_t)family->n_draws * sizeof *family->largest, "sign flips");
}

void hsc__family_free(hsc__family *family)
{
    hsc__free(family->largest);
    hsc__free(family->reached);
}

hsc_status hsc__family_add(hsc__family *family, const hsc_table *table, double *p, hsc_error *err)
{
    HSC_TRY(hsc__check_table(table, err));
    panel f = {.table = table,
               .n_columns = (size_t)table->n_columns,
               .n_words = ((size_t)table->n_clusters + WORD - 1) / WORD,
               .listed = family->listed,
               .n_threads = family->n_threads};
    size_t fit = ROUND_BYTES / (f.n_words * sizeof *f.signs);
    f.most_rows = fit < 1 ? 1 : fit < ROUND ? (int)fit : ROUND;
    hsc_status status = make_panel(&f, err);
    if (status == HSC_OK) {
        observe(&f);
        run_panel(&f, family);
        share_hits(&f, family, p);
    }
    free_panel(&f);
    return status;
}

void hsc__family_share(const hsc__family *family, double *p_fwer)
{
    for (int j = 0; j < family->n_columns; j++) {
        uint64_t hits = 0;
        for (int64_t d = 0; d < family->n_draws; d++) hits += family->largest[d] >= family->reached[j];
        p_fwer[j] = isnan(family->reached[j]) ? NAN : share_of(family, hits);
    }
}

hsc_status hsc_sign_flip_family(const hsc_table *table, const hsc_flip_options *options, double *p, double *p_fwer,
                                int *n_used, hsc_error *err)
{
    hsc__family family;
    HSC_TRY(hsc__check_table(table, err));
    hsc_status status = hsc__family_open(&family, table->n_clusters, table->n_columns, options, err);
    if (status == HSC_OK) status = hsc__family_add(&family, table, p, err);
    if (status == HSC_OK && p_fwer) hsc__family_share(&family, p_fwer);
    if (status == HSC_OK && n_used) *n_used = (int)family.n_draws;
    hsc__family_free(&family);
    return status;
}
