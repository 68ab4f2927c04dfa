/* The parts of `headscope scan`: scan.c reads the arguments and runs, the other scan_*.c show and keep what came of it.
 */
#ifndef HSC_CLI_SCAN_H
#define HSC_CLI_SCAN_H

#include "cli/heads.h"

typedef struct hsc__scan_options {
    const char *model, *query, *cluster, *confirm, *control, *db, *plot, *holdout, *bos, *null;
    int keys, by, fdr; /* hsc_scan_keys, hsc_scan_by, hsc_adjust */
    int cross, choose, top, seed, threads;
    hsc__head head;
    hsc__pass_options pass;
    bool json, csv;
} hsc__scan_options;

/* One file of pairs and its scan. */
typedef struct hsc__scan_file {
    const char *path;
    hsc_pairs *pairs;
    hsc_scan *scan;
} hsc__scan_file;

/* The same search where the model's weights are in a random order: heads that have learnt nothing. */
typedef struct hsc__scan_weights {
    int layer, head;     /* the best of them */
    double best;         /* its |shift|, |d_z| or accuracy */
    double median, high; /* of all heads that are not all 0; high: the 95th percentile */
    int n_above;         /* heads of the model as it is that lie above the best */
    hsc_scan_counts counts;
} hsc__scan_weights;

typedef struct hsc__scan {
    const hsc__scan_options *options;
    hsc__opened opened;
    hsc__scan_file main, confirm, control;
    hsc_scan_counts counts; /* of main */
    int n_heads;            /* of all layers */
    hsc_scan_query query;
    const char *query_name;
    hsc_token bos;
    hsc_scan_head *heads; /* [n_heads] in the order of the model */
    int *order;           /* [n_heads] ranked */
    hsc_held_out *held;   /* [n_held] of --holdout or --confirm */
    int n_held;
    double held_share; /* of --holdout */
    int *cross;        /* [n_heads] of --cross */
    double *cross_median;
    hsc_scan_difference *difference; /* [n_heads] of --control */
    int control_pairs, control_clusters;
    int n_null; /* of --null R */
    hsc_scan_null null;
    hsc__scan_weights *weights; /* of --null weights; NULL */
} hsc__scan;

/* Figures of a head `h` that CSV and the database have, by their column: X(name, value). */
#define HSC__HEAD_FIGURES(X)                                                                                           \
    X(a1, h->a1)                                                                                                       \
    X(b1, h->b1)                                                                                                       \
    X(a2, h->a2)                                                                                                       \
    X(b2, h->b2)                                                                                                       \
    X(shift, h->shift)                                                                                                 \
    X(ci_low, h->ci.low)                                                                                               \
    X(ci_high, h->ci.high)                                                                                             \
    X(dz, h->dz)                                                                                                       \
    X(share, h->share)                                                                                                 \
    X(mass, h->mass)                                                                                                   \
    X(sink, h->sink)                                                                                                   \
    X(p, h->p)                                                                                                         \
    X(p_fwer, h->p_fwer)                                                                                               \
    X(q, h->q)                                                                                                         \
    X(accuracy, h->accuracy)                                                                                           \
    X(acc_low, h->acc_ci.low)                                                                                          \
    X(acc_high, h->acc_ci.high)                                                                                        \
    X(pair_accuracy, h->pair_accuracy)

/* Tests of the run: heads that are not all 0. */
int hsc__scan_tests(const hsc__scan *scan);

/* The held-out figures of a head, or NULL. */
const hsc_held_out *hsc__scan_held(const hsc__scan *scan, int head);

/* ---- scan_null.c ---- */

/* What a head is ranked by: |shift|, |d_z| or accuracy; minus infinity for one that is all 0. */
double hsc__scan_score(const hsc__scan *scan, const hsc_scan_head *head);
/* --null weights: opens the model anew with its weights shuffled and searches there. */
hsc_status hsc__scan_shuffled(hsc__scan *scan, const hsc_scan_options *run, hsc_error *err);

void hsc__scan_text(const hsc__scan *scan, hsc__string *out);
void hsc__scan_csv(const hsc__scan *scan, hsc__string *out);
json_t *hsc__scan_json(const hsc__scan *scan);
/* The sentences where the head of --head is wrong, worst first. */
hsc_status hsc__scan_failures(const hsc__scan *scan, hsc__string *out, hsc_error *err);
/* The layers x heads map: --plot, and the terminal's. */
hsc_status hsc__scan_plot(const hsc__scan *scan, hsc_error *err);
hsc_status hsc__scan_map(const hsc__scan *scan, hsc__string *out, hsc_error *err);

/* ---- scan_db.c: results in SQLite ---- */

typedef struct hsc__scan_db hsc__scan_db;

/* Opens or makes the database and finds or begins the run of these options, this model and this file. */
hsc_status hsc__scan_db_open(hsc__scan_db **out, const hsc__scan *scan, const char *pairs_path, hsc_error *err);
/* What hsc_scan_run loads from and saves to. */
hsc_scan_store hsc__scan_db_store(hsc__scan_db *db);
/* Keeps the figures of the heads; the run is whole then. */
hsc_status hsc__scan_db_finish(hsc__scan_db *db, const hsc__scan *scan, hsc_error *err);

void hsc__scan_db_close(hsc__scan_db *db);

#endif
