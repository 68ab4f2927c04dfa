/* The parts of `headscope look`: look.c reads the arguments and runs the pass, the other look_*.c show what came of it.
 */
#ifndef HSC_CLI_LOOK_H
#define HSC_CLI_LOOK_H

#include "cli/target.h"

typedef struct hsc__look_options {
    const char *model, *file, *token, *to, *versus, *versus_target, *plot, *second;
    hsc__ids ids;
    hsc__target_options target;
    int side; /* hsc__look_side, or HSC__LOOK_UNSET */
    hsc__layers layers;
    hsc__head head;
    int pos, to_pos; /* -1: not given */
    int top;         /* 0: not given */
    int scale;       /* hsc__scale */
    int threads;
    hsc__pass_options pass;
    bool include_first, no_special, parse_special, json, csv, heatmap, stats;
} hsc__look_options;

/* Which attention of an encoder-decoder; a model of one stack has but its own. */
typedef enum { HSC__LOOK_CROSS, HSC__LOOK_ENCODER, HSC__LOOK_DECODER, HSC__LOOK_OWN } hsc__look_side;
enum { HSC__LOOK_UNSET = -1 };

/* What is shown. */
typedef enum {
    HSC__LOOK_OVERVIEW, /* every head in a letter, and the strongest links */
    HSC__LOOK_QUERY,    /* --token: what it looks at, head by head */
    HSC__LOOK_KEY,      /* --to: who looks at it, head by head */
    HSC__LOOK_PAIR,     /* --token and --to: the heads that join the two */
    HSC__LOOK_HEAD,     /* --head alone: what each token looks at in it */
    HSC__LOOK_VERSUS,   /* --vs, --vs-target: the heads that move between two texts */
    HSC__LOOK_STATS,    /* --stats: every head in figures */
} hsc__look_mode;

/* --stats: one head over the whole text; means over the rows q >= 1. */
enum { HSC__LOOK_MAX_BINS = 32 };
typedef struct hsc__look_stats {
    double entropy, first, self, prev;
    double distance[HSC__LOOK_MAX_BINS]; /* by bins of HSC_STAT_DISTANCE */
    int most;                            /* the key that receives most, and how much from all rows */
    float received;
} hsc__look_stats;

/* One text on its way through the model. */
typedef struct hsc__look_pass {
    hsc__tokens tokens; /* that look: the rows of a pattern */
    int n_tokens;
    hsc__tokens source;      /* of an encoder-decoder whose decoder is looked at */
    const hsc__tokens *keys; /* that are looked at: `tokens`, or in cross-attention `source` */
    int n_keys;
    int query, key; /* positions; -1: none asked for */
    hsc_session *session;
    /* [n_layers][n_heads][n_tokens, or n_keys when they are more]: the row of the query, else the column of the key.
     * Only chosen heads are filled. */
    float *weights;
    hsc_overview *overview;
} hsc__look_pass;

/* How the tokens of two texts lie against each other: n of either, equal ones at both ends. */
typedef struct hsc__look_match {
    int n1, n2, n_prefix, n_suffix;
} hsc__look_match;

typedef struct hsc__look {
    const hsc__look_options *options;
    hsc__look_mode mode;
    hsc__opened opened;
    hsc__look_side side;
    hsc_site site; /* the pattern that is looked at */
    int n_layers, n_heads;
    bool causal;
    const float *pattern;         /* HSC__LOOK_HEAD: [n_tokens][n_keys] */
    hsc__look_stats *stats;       /* HSC__LOOK_STATS: [n_layers][n_heads]; only chosen heads are filled */
    int n_bins;                   /* of their distances */
    hsc__look_pass first, second; /* second: HSC__LOOK_VERSUS only */
    /* HSC__LOOK_VERSUS: of the tokens that look and of those that are looked at. */
    hsc__look_match rows, keys;
    bool same_source; /* HSC__LOOK_VERSUS: there is no source, or both texts have the same one */
} hsc__look;

/* ---- look_find.c ---- */

/* The position of the one token whose decoded text is `text`. HSC_ENOTFOUND, HSC_EINVAL: several; the message lists
 * them. `option` ("--token") and `other` ("--pos", which chooses one of several) are for the message. */
hsc_status hsc__look_find(const hsc__tokens *tokens, const char *text, const char *option, const char *other, int *pos,
                          hsc_error *err);
/* Says which tokens there are, on standard error. */
void hsc__look_list_tokens(const hsc__tokens *tokens);
/* Whether --layer and --head leave this head in. */
bool hsc__look_chosen(const hsc__look *look, int layer, int head);
/* The pass's row or column of one head. */
float *hsc__look_weights(const hsc__look *look, const hsc__look_pass *pass, int layer, int head);
/* Whether --window and --sinks let the query see the key; the causal mask stands beside. */
bool hsc__look_in_window(const hsc__look *look, int query, int key);
/* The first key that a maximum may fall on. */
int hsc__look_first_key(const hsc__look *look, int query);
/* Keys that a query sees. */
int hsc__look_n_visible(const hsc__look *look, int query);
/* The heaviest of it, at most k <= HSC__LOOK_MAX_TOP, by the rules: position 0 is left out unless --include-first or
 * the query stands there; what a causal mask or --window hides is never listed. */
enum { HSC__LOOK_MAX_TOP = 1000, HSC__LOOK_LINKS = 10 };
int hsc__look_best(const hsc__look *look, int layer, int head, int k, hsc_key_weight *out);
/* The same for one row of a whole pattern. */
int hsc__look_best_in_row(const hsc__look *look, const float *row, int query, int k, hsc_key_weight *out);
/* K of --top, or what stands for it. */
int hsc__look_top(const hsc__look *look, int standard);

/* Appends "layer 5, head 3 (L4H3)", "12 layers; 12 heads per layer\n", the repr of a token. */
void hsc__look_name_head(hsc__string *out, int layer, int head);
void hsc__look_header(const hsc__look *look, hsc__string *out);
void hsc__look_repr(hsc__string *out, const hsc__tokens *tokens, int pos);
/* Appends ",POS,TEXT" and ",WEIGHT" of a line of CSV. */
void hsc__look_csv_token(hsc__string *out, const hsc__tokens *tokens, int pos);
void hsc__look_csv_number(hsc__string *out, float value);
/* Appends "LAYER,HEAD,NAME". */
void hsc__look_csv_head(hsc__string *out, int layer, int head);
/* HSC_EINVAL: a weight of this head is not finite. */
hsc_status hsc__look_fail_number(int layer, int head, hsc_error *err);
/* {"model","compute",...,"tokens"}, and of an encoder-decoder "side" and, in cross-attention, "source": what every JSON
 * answer begins with; {"layer","head","name"}. */
json_t *hsc__look_json_start(const hsc__look *look);
json_t *hsc__look_json_head(int layer, int head);

/* ---- the views: one function a mode and format ---- */

typedef void (*hsc__look_text_fn)(const hsc__look *look, hsc__string *out);
typedef json_t *(*hsc__look_json_fn)(const hsc__look *look);

void hsc__look_heads_text(const hsc__look *look, hsc__string *out);
void hsc__look_heads_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_heads_json(const hsc__look *look);
void hsc__look_pair_text(const hsc__look *look, hsc__string *out);
void hsc__look_pair_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_pair_json(const hsc__look *look);
void hsc__look_rows_text(const hsc__look *look, hsc__string *out);
void hsc__look_rows_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_rows_json(const hsc__look *look);
void hsc__look_overview_text(const hsc__look *look, hsc__string *out);
void hsc__look_overview_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_overview_json(const hsc__look *look);
void hsc__look_versus_text(const hsc__look *look, hsc__string *out);
void hsc__look_versus_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_versus_json(const hsc__look *look);

void hsc__look_stats_text(const hsc__look *look, hsc__string *out);
void hsc__look_stats_csv(const hsc__look *look, hsc__string *out);
json_t *hsc__look_stats_json(const hsc__look *look);

/* ---- look_stats.c: before the pass, and after it ---- */

hsc_status hsc__look_collect(hsc__look *look, hsc_session *session, hsc_error *err);
/* Fills look->stats. */
hsc_status hsc__look_summarise(hsc__look *look, hsc_error *err);

/* How the second text's tokens lie against the first's, and where the query stands in both. Sets second.query. */
hsc_status hsc__look_align(hsc__look *look, hsc_error *err);

/* --plot and --heatmap. */
hsc_status hsc__look_plot(const hsc__look *look, hsc_error *err);
hsc_status hsc__look_heatmaps(const hsc__look *look, hsc__string *out, hsc_error *err);

#endif
