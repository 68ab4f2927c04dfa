/* The parts of `headscope steer`: steer.c reads the arguments, makes the direction and runs, steer_report.c shows. */
#ifndef HSC_CLI_STEER_H
#define HSC_CLI_STEER_H

#include "cli/reading.h"
#include "headscope/inspect.h"

enum { HSC__STEER_CONTROLS = 5, HSC__STEER_DOSES = 32 };

typedef struct hsc__steer_options {
    hsc__reading_options r; /* model, plot, ids, compute, threads, json; special tokens */
    const char *toward, *away, *metric, *pairs, *doses;
    hsc__layers layers;
    int site, side, at, limit, seed, write; /* side: -1: not given, 0: the encoder, 1: the decoder */
    bool no_controls;
} hsc__steer_options;

/* One strength at one layer. */
typedef struct hsc__steer_point {
    double value, effect; /* means over clusters; effect: minus the run as it is */
    hsc_interval ci;      /* of the effect */
    int n_right;
    double control, control_low, control_high; /* effects of random directions of the same length; NaN: none */
    char *text;                                /* what is written with it; NULL */
} hsc__steer_point;

typedef struct hsc__steer {
    const hsc__steer_options *options;
    hsc__opened opened;
    hsc__metric metric;
    bool measured; /* there is a metric */
    hsc__items items, toward, away;
    hsc__items prompt; /* what an encoder-decoder writes on from where items hold whole targets, their end included */
    hsc_site site;
    const hsc_config *stack; /* whose layers are steered */
    float *directions;       /* [n_layers][row] */
    float *random;           /* [HSC__STEER_CONTROLS][row], of length 1 */
    double doses[HSC__STEER_DOSES];
    int n_doses, n_controls;
    int *layers; /* [n_layers] that are steered */
    int n_layers;
    double *values;           /* [n_items][n_layers][n_doses][1 + n_controls], then the run as it is */
    hsc__steer_point *points; /* [n_layers][n_doses] */
    double clean;
    int n_clusters, n_right;
} hsc__steer;

/* Euclidean length of a layer's direction. */
double hsc__steer_length(const hsc__steer *steer, int layer);
int hsc__steer_print(const hsc__steer *steer);
int hsc__steer_print_json(const hsc__steer *steer);
int hsc__steer_print_csv(const hsc__steer *steer);

#endif
