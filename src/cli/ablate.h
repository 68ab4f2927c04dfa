/* The parts of `headscope ablate`: ablate.c reads the arguments, ablate_run.c makes and runs the variants,
 * ablate_report.c shows what came of it. */
#ifndef HSC_CLI_ABLATE_H
#define HSC_CLI_ABLATE_H

#include "cli/intervene.h"
#include "headscope/inspect.h"

typedef struct hsc__ablate_options {
    const char *model, *file, *pairs, *metric, *corpus, *then, *plot;
    hsc__texts donors;
    hsc__ids ids;
    hsc__heads heads, neurons;
    hsc__layers attn, mlp, positions;
    const char *range;
    int how, sweep; /* HSC__ABLATE_*; 0 heads, 1 attn, 2 mlp */
    int limit, top, threads, compute, seed;
    bool by_position, per_token, no_special, parse_special, no_controls, json;
} hsc__ablate_options;

enum { HSC__ABLATE_ZERO, HSC__ABLATE_MEAN, HSC__ABLATE_RESAMPLE };

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
    hsc__metric metric;
    hsc__items items;
    hsc__unit *units;
    size_t n_units, units_capacity;
    hsc__target *targets;
    size_t n_targets, targets_capacity;
    int set;                   /* the target of kind SET; -1: a sweep without one */
    float *fills[HSC_N_SITES]; /* what takes a unit's place: [n_layers][n_fill][row]; NULL: 0 */
    int n_fill;                /* 1: the same row everywhere; else one a position */
    double *values;            /* [n_items][n_targets + 1]; the last is the run as it is */
    double *losses;            /* [2][n_tokens] of the only text, as it is and with the set ablated; NULL */
    int n_clusters, n_right;   /* n_right: of the run as it is */
    double clean;
} hsc__ablate;

hsc_status hsc__ablate_run(hsc__ablate *job, hsc_error *err);
int hsc__ablate_print(const hsc__ablate *job);
int hsc__ablate_print_json(const hsc__ablate *job);

#endif
