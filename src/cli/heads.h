/* What commands about every head share: numbers in tables, the map of layers and heads, progress, the BOS. */
#ifndef HSC_CLI_HEADS_H
#define HSC_CLI_HEADS_H

#include "cli/shared.h"
#include "headscope/inspect.h"

#include <time.h>

/* ---- tables ---- */

/* Of the smallest effect that a run could have found: level of all tests together, and chance to find it. */
#define HSC__ALPHA 0.05
#define HSC__POWER 0.8

/* p as people read it: 0.034, 7.5e-04; "-" where there is none. */
void hsc__add_p(hsc__string *out, double p);
/* A line: the smallest |d_z| that n_tests tests over n_clusters clusters could have found, or that none can pass.
 * Nothing where neither can be said. */
void hsc__add_power(hsc__string *out, int n_clusters, int n_tests);
/* Cells of an hsc__table, each with its tab: a number and "[ 0.1234,  0.5678]", "-" where there is none; p; "L4H3". */
void hsc__cell_number(hsc__string *cells, int decimals, double value);
void hsc__cell_interval(hsc__string *cells, hsc_interval ci);
void hsc__cell_p(hsc__string *cells, double p);
void hsc__cell_head(hsc__string *cells, int layer, int head);
/* "layer 5, head 3 (L4H3)", and where the terminal is narrow "L4H3". */
void hsc__cell_head_name(hsc__string *cells, int layer, int head);
/* ",0.5" of a CSV line; "," where the value is not finite. */
void hsc__csv_number(hsc__string *out, double value);
/* [low, high], null where there is none. */
json_t *hsc__json_interval(hsc_interval ci);

/* Reads --holdout's share, between 0 and 1: HSC__CLI_GO_ON or an exit status. */
int hsc__share_check(const hsc__command *command, const char *text, double *out);

/* ---- map ---- */

/* Layers down, heads across; the darkest cell is the largest value. */
typedef struct hsc__head_map {
    const char *title, *value_title;
    int n_layers, n_heads;
    const double *values; /* [n_layers][n_heads]; NaN is drawn as 0 */
} hsc__head_map;

/* Writes a picture, by its ending, and says so. */
hsc_status hsc__head_map_plot(const char *path, const hsc__head_map *map, hsc_error *err);
/* Appends the map as the terminal shows it. */
hsc_status hsc__head_map_show(hsc__string *out, const hsc__head_map *map, hsc_error *err);

/* ---- progress ---- */

/* Counts things that are done: a line that is rewritten on a terminal; in a log a plain one every ten seconds. */
typedef struct hsc__counting {
    struct timespec started;
    int n_first;              /* that were there before; -1: not yet known */
    double shown;             /* seconds after the start */
    const char *path;         /* what is worked on */
    const char *thing, *unit; /* "pair", "sentences" */
    int per_thing;            /* units of a thing */
} hsc__counting;
void hsc__counting_start(hsc__counting *counting);
/* n_all 0: not known. Returns 0. */
int hsc__counting_tell(void *counting, int n_done, int n_all);
/* Text i of n, from 0, is begun: "ablating: text 3 of 20, 0.8 texts a second, 22 s left". Begins to count with the
 * first; of a single one nothing is said. */
void hsc__counting_text(hsc__counting *counting, const char *doing, size_t i, size_t n);

/* The id of the token with this text, or of the BOS that the model's files name for "own"; HSC_ENOTFOUND names the
 * option --bos. */
hsc_status hsc__cli_find_bos(const hsc__opened *opened, const char *text, hsc_token *out, hsc_error *err);

#endif
