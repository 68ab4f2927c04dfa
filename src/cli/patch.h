/* The parts of `headscope patch`: patch.c reads the arguments, patch_run.c fills the cells of a map (places, paths, cut
 * edges), patch_report.c shows it; patch_pairs.c is mediation over a pair file. */
#ifndef HSC_CLI_PATCH_H
#define HSC_CLI_PATCH_H

#include "cli/answer.h"
#include "cli/sweep.h"
#include "headscope/inspect.h"

typedef struct hsc__patch_options {
    const char *model, *corrupted, *metric, *plot, *path, *cut, *query, *pairs, *site;
    hsc__ids ids, corrupted_ids;
    hsc__target_options target;
    hsc__sweep_options search;
    int input, by, limit, threads, compute, top, seed;
    bool noise, no_renorm, no_special, parse_special, json, csv;
} hsc__patch_options;

typedef enum {
    HSC__PATCH_PLACES, /* one place of one run in the other */
    HSC__PATCH_PATHS,  /* what a head sends to some inputs */
    HSC__PATCH_CUTS,   /* edges of attention cut, in one text */
    HSC__PATCH_PAIRS,  /* mediation over a pair file */
} hsc__patch_mode;

typedef enum { HSC__COLS_HEADS, HSC__COLS_KV_HEADS, HSC__COLS_POSITIONS, HSC__COLS_LAYER } hsc__patch_cols;

/* --by, in the order of its words. */
typedef enum { HSC__BY_DEFAULT, HSC__BY_HEAD, HSC__BY_POSITION, HSC__BY_LAYER } hsc__patch_by;

/* Positions [first, first + n). */
typedef struct hsc__positions {
    int first, n;
} hsc__positions;

typedef struct hsc__patch {
    const hsc__patch_options *options;
    hsc__patch_mode mode;
    hsc__opened opened;
    hsc__metric metric;
    hsc__items items;   /* clean, corrupted; of PAIRS the prompts */
    hsc__tokens tokens; /* of the text, or of an encoder-decoder's target where its rows have the site */
    hsc__sweep tests;   /* of PAIRS: a column a head */
    hsc_site site;
    hsc__heads receivers; /* of PATHS; none: the end */
    hsc__positions cut, query;
    hsc__patch_cols cols;
    int n_layers, n_cols;
    double clean, corrupted;
    int seam;      /* where texts of different lengths are aligned (hsc_align) */
    double *cells; /* [n_layers][n_cols]; NaN: a position that the other text has not */
} hsc__patch;

hsc_status hsc__patch_run(hsc__patch *job, hsc_error *err);
/* Rows that the patched site has in a text: its tokens, or those of its source. */
int hsc__patch_rows(const hsc__patch *job, const hsc__item *item);
int hsc__patch_print(const hsc__patch *job);
int hsc__patch_print_json(const hsc__patch *job);
int hsc__patch_print_csv(const hsc__patch *job);

/* Reads the pair file, runs and prints. Returns the exit status. */
int hsc__patch_pairs(hsc__patch *job);

#endif
