/* What `headscope detect` and `headscope drift` share: where they look, and how a model's heads score. */
#ifndef HSC_CLI_DETECT_H
#define HSC_CLI_DETECT_H

#include "base/file.h"
#include "cli/heads.h"

typedef struct hsc__detect_options {
    const char *model, *bos, *by, *plot, *db;
    int sequences, length, windows, top, seed, threads;
    hsc__pass_options pass;
    bool tl, json, csv;
} hsc__detect_options;

#define HSC__DETECT_OPTIONS_WHERE                                                                                      \
    {"windows",                                                                                                        \
     0,                                                                                                                \
     HSC__OPT_INT,                                                                                                     \
     "N",                                                                                                              \
     offsetof(hsc__detect_options, windows),                                                                           \
     1,                                                                                                                \
     4096,                                                                                                             \
     "Windows of 256 tokens of the text that are read (default 200)."},                                                \
        {"bos",                                                                                                        \
         0,                                                                                                            \
         HSC__OPT_TEXT,                                                                                                \
         "TOKEN|own",                                                                                                  \
         offsetof(hsc__detect_options, bos),                                                                           \
         0,                                                                                                            \
         0,                                                                                                            \
         "Begin each window with this token, \"<|endoftext|>\", or the model's own BOS (own), where the tokenizer "    \
         "does not."},                                                                                                 \
        {"sequences",                                                                                                  \
         0,                                                                                                            \
         HSC__OPT_INT,                                                                                                 \
         "N",                                                                                                          \
         offsetof(hsc__detect_options, sequences),                                                                     \
         1,                                                                                                            \
         4096,                                                                                                         \
         "Random sequences (default 20)."},                                                                            \
        {"length",                                                                                                     \
         0,                                                                                                            \
         HSC__OPT_INT,                                                                                                 \
         "T",                                                                                                          \
         offsetof(hsc__detect_options, length),                                                                        \
         2,                                                                                                            \
         127,                                                                                                          \
         "Random tokens that come twice (default 50)."},                                                               \
    {                                                                                                                  \
        "seed", 0, HSC__OPT_INT, "N", offsetof(hsc__detect_options, seed), 0, INT32_MAX,                               \
            "Of random tokens and intervals. Default 0."                                                               \
    }
#define HSC__DETECT_OPTIONS_SHOWN                                                                                      \
    {"plot",                                                                                                           \
     0,                                                                                                                \
     HSC__OPT_TEXT,                                                                                                    \
     "FILE",                                                                                                           \
     offsetof(hsc__detect_options, plot),                                                                              \
     0,                                                                                                                \
     0,                                                                                                                \
     "Write the map of layers and heads, .png, .svg or .pdf."},                                                        \
        HSC__OPTION_JSON(hsc__detect_options, json), HSC__OPTION_CSV(hsc__detect_options, csv)

/* The text to look at. path NULL: none. A file is mapped, so its length does not show in memory. */
typedef struct hsc__corpus {
    const char *path;
    const char *text; /* [n]; NULL: none */
    size_t n;
    hsc__map map;
    hsc__string read; /* of what is no file */
} hsc__corpus;

typedef struct hsc__detect {
    const hsc__detect_options *options;
    hsc__opened opened;
    const hsc__corpus *corpus;
    hsc_detect_counts counts;
    int n_heads;              /* of all layers */
    hsc_detect_score *scores; /* [HSC_N_DETECTORS][n_heads] */
    double *profile;          /* [n_heads][HSC_DETECT_BINS] */
} hsc__detect;

/* What the arguments alone show. */
int hsc__detect_check(const hsc__command *command, const hsc__detect_options *options);
/* Reads the text of a positional argument, if there is one. */
hsc_status hsc__corpus_read(hsc__corpus *corpus, const char *path, hsc_error *err);
void hsc__corpus_close(hsc__corpus *corpus);
/* The library's options; `counting` tells how far it is. */
hsc_status hsc__detect_run_options(const hsc__detect *detect, hsc__counting *counting, hsc_detect_options *out,
                                   hsc_error *err);
/* Scores the heads of detect->opened on detect->corpus. */
hsc_status hsc__detect_heads(hsc__detect *detect, hsc_error *err);
void hsc__detect_close(hsc__detect *detect);

static inline const hsc_detect_score *hsc__detect_score(const hsc__detect *detect, int detector, int head)
{
    return &detect->scores[(size_t)detector * (size_t)detect->n_heads + (size_t)head];
}

/* Sorts heads by rising or falling values; NaN last, equal ones in the model's order. order: [n]. */
void hsc__rank_heads(const double *values, int n, bool rising, int *order);

/* Lines about where was looked. */
void hsc__detect_add_where(const hsc__detect *detect, hsc__string *out);
/* The same in an object. */
void hsc__json_set_where(json_t *object, const hsc__detect *detect);

/* ---- detect_db.c: --db ---- */

typedef struct hsc__detect_db hsc__detect_db;

/* Opens or makes the database; what an earlier run with the same model, text and options left behind is in the store.
 * Close accepts NULL. */
hsc_status hsc__detect_db_open(hsc__detect_db **out, const hsc__detect *detect, hsc_error *err);
hsc_detect_store hsc__detect_db_store(hsc__detect_db *db);
/* Scores, intervals and examples take the place of the windows. */
hsc_status hsc__detect_db_finish(hsc__detect_db *db, const hsc__detect *detect, hsc_error *err);
void hsc__detect_db_close(hsc__detect_db *db);

/* ---- detect_report.c ---- */

/* The text of an example up to its query. */
void hsc__detect_example_text(const hsc__detect *detect, const hsc_detect_example *example, hsc__string *out);

hsc_status hsc__detect_text(const hsc__detect *detect, hsc__string *out, hsc_error *err);
void hsc__detect_csv(const hsc__detect *detect, hsc__string *out);
json_t *hsc__detect_json(const hsc__detect *detect);
/* The map of the detector of --by. */
hsc_status hsc__detect_map(const hsc__detect *detect, hsc__string *out, hsc_error *err);

#endif
