/* The parts of `headscope ablate`: ablate.c reads the arguments, ablate_run.c makes and runs the variants,
 * ablate_fill.c has what is put in, ablate_report.c and ablate_losses.c show what came of it. */
#ifndef HSC_CLI_ABLATE_H
#define HSC_CLI_ABLATE_H

#include "cli/answer.h"
#include "cli/sweep.h"
#include "cli/target.h"
#include "headscope/inspect.h"

typedef struct hsc__ablate_options {
    const char *model, *file, *pairs, *metric, *corpus, *then, *plot;
    hsc__texts donors;
    hsc__ids ids;
    hsc__target_options target;
    hsc__heads heads, neurons;
    hsc__layers attn, mlp, layers;
    const char *range;
    int how, sweep, side; /* HSC__ABLATE_*, HSC__SWEEP_*, HSC__SIDE_* less 1; -1: none was given */
    int n_donors;         /* of resample over a pair file; 0: the twin */
    hsc__sweep_options search;
    int limit, top, threads, compute, seed;
    bool by_position, per_token, no_special, parse_special, no_controls, json, csv;
} hsc__ablate_options;

enum { HSC__ABLATE_ZERO, HSC__ABLATE_MEAN, HSC__ABLATE_RESAMPLE };
enum { HSC__SIDE_OWN, HSC__SIDE_CROSS, HSC__SIDE_ENCODER, HSC__SIDE_DECODER };
enum { HSC__SWEEP_HEADS, HSC__SWEEP_ATTN, HSC__SWEEP_MLP, HSC__SWEEP_LAYERS, HSC__SWEEP_NEURONS };

/* What is ablated of one layer. index: a head of HSC_Z or a neuron of HSC_MLP_POST; -1: the whole of attn_out or
 * mlp_out. */
typedef struct hsc__unit {
    hsc_site site;
    int layer, index;
} hsc__unit;

typedef enum {
    HSC__TARGET_EACH,    /* one of a sweep */
    HSC__TARGET_SET,     /* what the options name, together */
    HSC__TARGET_CONTROL, /* other heads of the same layers */
    HSC__TARGET_ALONE,   /* --then: B by itself */
    HSC__TARGET_AFTER,   /* --then: B after A */
} hsc__target_kind;

/* Units [first, first + n) go together in one run. */
typedef struct hsc__target {
    hsc__target_kind kind;
    int first, n;
    double value, effect; /* means over clusters; effect: minus the run as it is (AFTER: minus the set's) */
    hsc_interval interval;
    int n_right;
} hsc__target;

enum { HSC__ABLATE_CONTROLS = 10 };

typedef struct hsc__ablate {
    const hsc__ablate_options *options;
    hsc__opened opened;
    int side;                /* HSC__SIDE_*: whose heads and neurons units are */
    const hsc_config *stack; /* the blocks of that side */
    hsc__metric metric;
    hsc__items items;
    hsc__unit *units;
    size_t n_units, units_capacity;
    hsc__target *targets;
    size_t n_targets, targets_capacity;
    int set;                   /* the target of kind SET; -1: a sweep without one */
    float *fills[HSC_N_SITES]; /* what takes a unit's place: [n_layers][n_fill][row]; NULL: 0 */
    const char *text;          /* the one that is asked about; NULL: a file, ids, or a source */
    int n_fill;                /* 1: the same row everywhere; else one a position */
    int seam;                  /* of the donor and the text where their lengths differ (hsc_align) */
    double *values;            /* [n_items][n_targets + 1]; the last is the run as it is */
    size_t *donors;            /* [n_items][..]: items of a pair file that resample takes from; NULL */
    int *n_donors;             /* [n_items] */
    double *losses[3]; /* --per-token: of all texts end to end, as it is, with the set ablated, and the mean over
                          controls; NULL */
    int n_controls;
    size_t *first_loss; /* [n_items]: where a text's losses begin */
    size_t n_losses;
    int n_clusters, n_right; /* n_right: of the run as it is */
    double clean;
    hsc__sweep tests; /* of a sweep: a column a target */
} hsc__ablate;

hsc_status hsc__ablate_run(hsc__ablate *job, hsc_error *err);

/* Units are named by the sites of a model of one stack; this is the site that is meant on the job's side. */
hsc_site hsc__ablate_site(const hsc__ablate *job, hsc_site site);
/* The rows that such a site has in a text: tokens of the text, or of its source. */
int hsc__ablate_rows(const hsc__ablate *job, const hsc__item *item);

/* ---- ablate_fill.c ---- */

hsc_lab_options hsc__ablate_lab_options(const hsc__ablate *job);
/* Means over --corpus. */
hsc_status hsc__ablate_fill_corpus(hsc__ablate *job, hsc_error *err);
/* Over a pair file each text gets its donors; those without any are left out. */
hsc_status hsc__ablate_find_donors(hsc__ablate *job, hsc_error *err);
/* 0: nothing is resampled. */
int hsc__ablate_n_donors(const hsc__ablate *job, size_t item);
/* What donor number `donor` of an item holds. */
hsc_status hsc__ablate_fill_donor(hsc__ablate *job, size_t item, int donor, hsc_error *err);

/* ---- what it shows ---- */

hsc_status hsc__ablate_add_losses(const hsc__ablate *job, hsc__string *out, hsc_error *err);
hsc_status hsc__ablate_json_losses(const hsc__ablate *job, json_t *root, hsc_error *err);
int hsc__ablate_print(const hsc__ablate *job);
int hsc__ablate_print_json(const hsc__ablate *job);
int hsc__ablate_print_csv(const hsc__ablate *job);

#endif
