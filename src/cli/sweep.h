/* What ablate, patch and attribute say of a sweep over many texts: tests over its clusters, a family of all that was
 * tried, and what a held-out part says of the best. */
#ifndef HSC_CLI_SWEEP_H
#define HSC_CLI_SWEEP_H

#include "cli/heads.h"

typedef struct hsc__sweep_options {
    const char *holdout; /* as typed */
    int choose;          /* 0: 1 */
} hsc__sweep_options;

#define HSC__OPTIONS_SWEEP(type, field)                                                                                \
    {"holdout",                                                                                                        \
     0,                                                                                                                \
     HSC__OPT_TEXT,                                                                                                    \
     "SHARE",                                                                                                          \
     offsetof(type, field.holdout),                                                                                    \
     0,                                                                                                                \
     0,                                                                                                                \
     "Hold back this share of the clusters, 0.5: the largest effect is chosen on the rest and judged on it."},         \
    {                                                                                                                  \
        "choose", 0, HSC__OPT_INT, "K", offsetof(type, field.choose), 1, INT32_MAX,                                    \
            "With --holdout: how many are chosen (default 1)."                                                         \
    }

typedef struct hsc__sweep {
    const hsc__sweep_options *options;
    double share;              /* of --holdout; 0: none */
    hsc_sweep_effect *effects; /* [n]; NULL: fewer than two clusters, nothing is tested */
    hsc_sweep_held_out *held;  /* [n_held] */
    int n, n_held, n_clusters, n_tests, seed;
} hsc__sweep;

/* Reads the options; `many`: what is asked sweeps over many texts. HSC__CLI_GO_ON or an exit status. */
int hsc__sweep_check(const hsc__command *command, hsc__sweep *sweep, bool many);
/* Tests n columns of a table, a cluster a row, from `first` on; they are 0 .. n - 1 in what follows. With one cluster
 * nothing is tested, and --holdout is refused. */
hsc_status hsc__sweep_test(hsc__sweep *sweep, const hsc_table *table, int first, int n, int seed, int n_threads,
                           hsc_error *err);
void hsc__sweep_free(hsc__sweep *sweep);

/* Names what a column tried. */
typedef void (*hsc__sweep_name)(const void *user, int column, hsc__string *out);

/* Lines for people: what was tested and could have been found; what the held-out clusters say. */
void hsc__sweep_describe(const hsc__sweep *sweep, hsc__string *out);
void hsc__sweep_add_held_out(const hsc__sweep *sweep, hsc__sweep_name name, const void *user, hsc__string *out);
/* Columns of a table, and a line's numbers in them; nothing stands in those that were not tested or not chosen. */
#define HSC__SWEEP_CSV ",p,p_fwer,q,held_out_effect,held_out_low,held_out_high,held_out_p"
void hsc__sweep_csv(const hsc__sweep *sweep, int column, hsc__string *out);
/* Sets "dz", "p", "p_fwer", "q" and, with --holdout, "held_out" of what a column tried; and "tests", "min_dz" and
 * "seed" of the whole. Nothing where nothing is tested. */
void hsc__sweep_json(const hsc__sweep *sweep, int column, json_t *object);
void hsc__sweep_json_whole(const hsc__sweep *sweep, json_t *root);

#endif
