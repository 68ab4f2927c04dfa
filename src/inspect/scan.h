/*
 * What the files of the scan share: pairs as tokens, the weights of all heads, and the tables of figures by cluster.
 * What grows with pairs times heads (weights, shift, accuracy) lies where hsc__spill puts it and is read in bounded
 * pieces, tokens and places lie in an archive; in memory are a few numbers a pair or cluster. docs/scan.md counts them.
 */
#ifndef HSC_INSPECT_SCAN_H
#define HSC_INSPECT_SCAN_H

#include "base/alloc.h"
#include "base/archive.h"
#include "base/spill.h"
#include "headscope/inspect.h"
#include "inspect/columns.h"
#include "inspect/pairs.h"

#include <stdbool.h>

/* Tokens first .. last; last < first: none. */
typedef struct hsc__range {
    int first, last;
} hsc__range;

/* A wording as the model reads it. */
typedef struct hsc__said {
    const hsc_token *ids; /* [n_tokens] */
    int n_tokens;         /* behind the query of a causal model nothing is kept */
    hsc__range a, b, query;
} hsc__said;

/* A pair as the model reads it, of the scan's archive. */
typedef struct hsc__said_pair {
    const hsc_pair *pair;
    hsc__said wording[2];
    uint64_t digest;
} hsc__said_pair;

/* What memory holds of a pair. */
typedef struct hsc__scan_pair {
    const hsc__said_pair *said;
    int cluster;
    bool equal;  /* the candidates have equally many tokens, in both wordings */
    bool loaded; /* its weights came from the store */
} hsc__scan_pair;

/* Figures of a pair, averaged over a cluster's pairs, then over clusters. */
typedef enum {
    HSC__A1,
    HSC__B1,
    HSC__A2,
    HSC__B2,
    HSC__SHIFT,
    HSC__SHARE, /* NaN where no pair has enough mass */
    HSC__MASS,
    HSC__SINK,
    HSC__ACCURACY,
    HSC__EQUAL, /* accuracy over pairs of equal counts; NaN where there are none */
    HSC__BOTH_RIGHT,
    HSC__BOTH_WRONG,
    HSC__N_FIGURES
} hsc__figure;

struct hsc_scan {
    const hsc_model *model;
    const hsc_pairs *source;
    hsc_scan_options options;
    const hsc_config *config;
    int n_heads;   /* of all layers */
    size_t memory; /* bytes that each of what follows may take at most */

    hsc__scan_pair *pairs; /* [n_used], by id */
    int n_used, n_same, n_clusters;
    int *by_cluster; /* [n_used] the pairs of the first cluster, by id, of the second, and so on */
    hsc__spill seen; /* [n_used][2][n_heads] hsc_seen */
    hsc_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    hsc__archive archive; /* of what is said */

    hsc__columns shift, accuracy; /* a row a cluster, a column a head */
    double *means;                /* [HSC__N_FIGURES][n_heads] over clusters */
    int *n_right, *n_wrong;       /* [n_heads] clusters with more pairs both right, both wrong */
    hsc__columns rules;           /* accuracy: a row a cluster, a column a rule */
    hsc_scan_rule rule[HSC_N_RULES];
};

/* The weights of a pair, [2][n_heads]. */
hsc_status hsc__scan_write(hsc_scan *scan, int pair, const hsc_seen *seen, hsc_error *err);
hsc_status hsc__scan_read(const hsc_scan *scan, int pair, hsc_seen *seen, hsc_error *err);

/* For loops over what is said: called after the i-th pair was read, lets pages go from time to time. */
static inline void hsc__scan_forget(const hsc_scan *scan, size_t i)
{
    hsc__archive_forget(&scan->archive, i);
    hsc__pairs_forget(scan->source, i);
}

static inline double hsc__shift_of(const hsc_seen *first, const hsc_seen *second)
{
    return ((double)first->a - (double)first->b) - ((double)second->a - (double)second->b);
}

/* 1, 0.5 or 0: whether the wording's answer gets more weight. */
static inline double hsc__right(double answer, double other)
{
    return answer > other ? 1 : answer == other ? 0.5 : 0;
}

/* scan_prepare.c: texts to tokens, what cannot be used, clusters. */
hsc_status hsc__scan_prepare(hsc_scan *scan, hsc_error *err);
hsc_status hsc__scan_skip(hsc_scan *scan, int line, const char *why, hsc_error *err);

/* scan_pass.c: writes scan->seen for the pairs that were not loaded. */
hsc_status hsc__scan_passes(hsc_scan *scan, hsc_error *err);

/* scan_figures.c and scan_rules.c: fill the tables. */
hsc_status hsc__scan_tabulate(hsc_scan *scan, hsc_error *err);
hsc_status hsc__scan_rules(hsc_scan *scan, hsc_error *err);

/* What is said of every column of a table. */
typedef struct hsc__tested {
    hsc_effect effect;
    hsc_interval ci;
    double p, p_fwer; /* NaN for columns of zeros */
} hsc__tested;
/* Everything but p_fwer, which the family knows when all tables were added. p, ci: room for [table->n_columns]. */
struct hsc__family;
hsc_status hsc__test_table(const hsc_table *table, const hsc_scan_statistics *options, struct hsc__family *family,
                           double *p, hsc_interval *ci, hsc__tested *out, hsc_error *err);
hsc_status hsc__test_columns(const hsc__columns *columns, const hsc_scan_statistics *options, size_t memory,
                             hsc__tested *out, hsc_error *err);

/* p of every column: exact to HSC_EXACT_CLUSTERS clusters, sampled beyond. NaN for columns of zeros. */
hsc_status hsc__check_fdr(const hsc_scan_statistics *options, hsc_error *err);
hsc_status hsc__flip_columns(const hsc_table *table, const hsc_scan_statistics *options, double *p, hsc_error *err);

/* The streams of random numbers that one seed makes: the bootstrap has the seed itself. */
typedef enum { HSC__STREAM_SIGNS = 1, HSC__STREAM_SPLIT, HSC__STREAM_NULL } hsc__stream;
static inline uint64_t hsc__stream_seed(uint64_t seed, hsc__stream stream)
{
    return seed + (uint64_t)stream * 0x9E3779B9U;
}

/* What the tests of a run have in common. */
static inline hsc_flip_options hsc__flips_of(const hsc_scan_statistics *o)
{
    return (hsc_flip_options){o->n_flips, hsc__stream_seed(o->seed, HSC__STREAM_SIGNS), o->n_threads};
}

static inline hsc_bootstrap_options hsc__bootstrap_of(const hsc_scan_statistics *o)
{
    return (hsc_bootstrap_options){.n_draws = o->n_bootstrap, .seed = o->seed, .n_threads = o->n_threads};
}

/* scan_choose.c. Of n_clusters the part that chooses; HSC_EINVAL: a side has fewer than two. */
hsc_status hsc__split_size(int n_clusters, double held_out, int *n_choosing, hsc_error *err);
/* chosen[k]: the k best of scores[n], best first; of equals the earlier one. */
void hsc__choose(const double *scores, int n, int k, int *chosen);

#endif
