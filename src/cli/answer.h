/* What commands about an answer share (ablate, patch, lens, attribute, steer): the metric, the texts it is taken on,
 * clusters of texts, maps of effects. */
#ifndef HSC_CLI_ANSWER_H
#define HSC_CLI_ANSWER_H

#include "cli/target.h"
#include "headscope/inspect.h"
#include "headscope/intervene.h"

typedef enum {
    HSC__METRIC_DIFF,  /* logit of a minus logit of b at the last token */
    HSC__METRIC_LOGIT, /* logit of a at the last token */
    HSC__METRIC_LOSS,  /* mean negative log probability of the tokens at positions first .. last, in nats */
} hsc__metric_kind;

typedef struct hsc__metric {
    hsc__metric_kind kind;
    const char *text; /* as typed */
    int first, last;  /* HSC__METRIC_LOSS: predicted positions; last -1: the text's last */
} hsc__metric;

/* One text and what is asked of it. */
typedef struct hsc__item {
    hsc_token *ids; /* of hsc__malloc */
    int n_tokens;
    hsc_token *source; /* [n_source] of hsc__malloc: what an encoder-decoder reads, ids being its target; NULL */
    int n_source;
    hsc_token a, b; /* HSC__METRIC_DIFF and _LOGIT */
    char *cluster;  /* items of one cluster are averaged first; NULL: an item by itself */
    int line;       /* of a pair file, from 1 */
    int twin;       /* the item of the pair's other wording; -1: none */
    int word;       /* the first token of the word that the wordings exchange; -1: not known */
    int seam;       /* of a twin of another length (hsc_align) */
    bool unused;    /* left out after all: in no cluster */
} hsc__item;

typedef struct hsc__left_out {
    int line;
    char *why;
} hsc__left_out;

typedef struct hsc__items {
    hsc__item *list;
    size_t n, capacity;
    hsc__left_out *left_out; /* lines of a pair file that cannot be used */
    size_t n_left_out, left_capacity, n_unused;
    size_t n_aligned; /* used, and take from a text of another length */
    bool with_end;    /* targets keep the token that ends them: it is predicted, too */
    bool of_source;   /* a line of an encoder-decoder is a source alone, its target what begins one */
} hsc__items;
void hsc__items_free(hsc__items *items);

/* "logit: dog - cat", "logit: dog" or "loss": sets kind and text; false when it is none of them. The words are read
 * later, by hsc__metric_tokens. */
bool hsc__metric_parse(const char *text, hsc__metric *out);
/* The token that n bytes name: a word that is one token after a blank, else by itself; "in quotes" as it stands; #123
 * is an id. HSC_EINVAL: a word of several tokens, or none; the message names the option. */
hsc_status hsc__cli_word(const hsc__opened *opened, const char *option, const char *word, size_t n, hsc_token *out,
                         hsc_error *err);
/* HSC_EUNSUPPORTED: an encoder alone, which answers nothing. */
hsc_status hsc__cli_has_logits(const hsc__opened *opened, hsc_error *err);
/* The tokens that a metric names, as hsc__cli_word reads them. HSC_EUNSUPPORTED: the model makes no logits. */
hsc_status hsc__metric_tokens(const hsc__metric *metric, const hsc__opened *opened, hsc_token *a, hsc_token *b,
                              hsc_error *err);
/* The metric's name for people: "logit of dog minus logit of cat", and with its place: ".. at the last token". */
void hsc__metric_name(hsc__string *out, const hsc__metric *metric);
void hsc__metric_describe(hsc__string *out, const hsc__metric *metric);
const char *hsc__metric_unit(const hsc__metric *metric);
/* The metric of logits whose first row belongs to token first_row; rows as hsc_lab_options asked for them. Loss rows
 * before first_row come from `before`, [n_tokens] losses of the run as it is; each loss goes into losses when that is
 * not NULL. */
double hsc__metric_value(const hsc__metric *metric, const hsc__item *item, const float *logits, int d_vocab,
                         int first_row, int n_rows, const double *before, double *losses);
hsc_logits_rows hsc__metric_rows(const hsc__metric *metric);

/* What an encoder-decoder reads, and what it is asked about. */
typedef struct hsc__source_options {
    const char *text;                  /* the source, or NULL */
    const hsc__ids *ids;               /* the source where there is no text */
    const hsc__target_options *target; /* where none is given: what the model writes, or with items->with_end false the
                                          tokens that begin a text */
    int compute, n_threads;
    unsigned flags;
} hsc__source_options;
hsc_status hsc__items_add_source(hsc__items *items, const hsc__opened *opened, const hsc__source_options *options,
                                 hsc_error *err);

/* Adds a text (of an encoder-decoder a source and a target with a tab between them), ids, a source with its target, the
 * lines of a file (at most `limit` of them, 0: all), or a pair file: JSONL prompts with "right" and
 * "wrong", or with "io" and "s" and no twin; or pairs as hsc_pairs_parse reads them, whose prompts end with their query
 * and whose answers are the candidates. Of an encoder-decoder a line has a "source" and its "prompt" is the target so
 * far; a "twin" names the "id" of another line. HSC_EINVAL: nothing can be used. */
hsc_status hsc__items_add_text(hsc__items *items, const hsc__opened *opened, const char *text, size_t n, unsigned flags,
                               hsc_error *err);
hsc_status hsc__items_add_ids(hsc__items *items, const hsc__ids *ids, hsc_error *err);
hsc_status hsc__items_add_target(hsc__items *items, const hsc_token *source, size_t n_source, const hsc__ids *target,
                                 hsc_error *err);
hsc_status hsc__items_add_lines(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err);
hsc_status hsc__items_add_pairs(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err);

/* A line of prompts as it stands in its file. */
typedef struct hsc__prompt {
    const char *source;    /* what an encoder-decoder reads, the text being its target so far; NULL: none */
    const char *id, *twin; /* the line's name, and that of the one which it is compared with; NULL */
    const char *text;      /* [n] */
    size_t n;
    const char *right, *wrong;
    const char *cluster; /* NULL: the prompt by itself */
    int line;
} hsc__prompt;

/* Gets what a pair file holds, in its order. HSC_EINVAL of `prompt` leaves the line out; `pair` does that itself. */
typedef struct hsc__pair_reader {
    hsc_status (*prompt)(void *user, const hsc__prompt *prompt, hsc_error *err);
    hsc_status (*pair)(void *user, const hsc_pair *pair, hsc_error *err);
    void *user;
    hsc__items *items; /* filled by the two; lines that are left out go there */
} hsc__pair_reader;
/* HSC_EINVAL: nothing can be used. limit: the first lines alone; 0: all. */
hsc_status hsc__read_pairs(const hsc__pair_reader *reader, const char *path, int limit, hsc_error *err);
/* HSC_EINVAL: the line has a source and the model reads none, or the other way round. */
hsc_status hsc__prompt_check(const hsc__opened *opened, const hsc__prompt *prompt, hsc_error *err);
/* Whether both wordings say the same up to the query, so that nothing tells their answers apart there. */
bool hsc__same_prompt(const hsc_pair *pair);

/* The texts end to end, and their sources where they have some. Free with hsc__joined_free, whatever the status. */
hsc_status hsc__items_join(const hsc__items *items, hsc_texts *out, hsc_error *err);
void hsc__joined_free(hsc_texts *texts);

void hsc__items_drop_last(hsc__items *items);
hsc_status hsc__items_leave_out(hsc__items *items, int line, const char *why, hsc_error *err);
/* The item is in no cluster; its line is left out, once for both wordings. */
hsc_status hsc__items_leave_unused(hsc__items *items, size_t item, const char *why, hsc_error *err);
/* The first token of text[n] that reaches beyond byte `start`, where a word begins; -1: none. */
hsc_status hsc__word_at(const hsc__opened *opened, const char *text, size_t n, size_t start, unsigned flags, int *out,
                        hsc_error *err);
/* The first token of a word that one text has with another ending than the other, for hsc_align; -1: the first place
 * where they differ is none. */
hsc_status hsc__differing_word(const hsc__opened *opened, const char *x, const char *y, unsigned flags, int *out,
                               hsc_error *err);
/* Finds where every item is aligned with its twin, by its source's tokens with of_source; those without a twin that
 * fits are left out and become unused. path: for messages. HSC_EINVAL: none is left. */
hsc_status hsc__items_align_twins(hsc__items *items, const char *path, bool of_source, hsc_error *err);
/* "over 20 texts in 10 clusters; 1 line left out: line 3 (why)", a line; and the left-out lines as JSON. */
void hsc__items_describe(hsc__string *out, const hsc__items *items, int n_clusters);
json_t *hsc__items_json_skipped(const hsc__items *items);

/* values [items->n][n_columns] averaged over the items of each cluster, in the order that clusters appear; those that
 * are unused count nowhere. means: [*n_clusters][n_columns], with room for items->n rows. HSC_EINVAL: a value of
 * several clusters is not finite. */
hsc_status hsc__items_cluster_means(const hsc__items *items, const double *values, size_t n_columns, double *means,
                                    int *n_clusters, hsc_error *err);

/* A map of numbers: rows down, columns across; red below 0 and blue above where any is below; NaN is left blank. Labels
 * are the given ones, or "L0", "H0" and so on, with a name before those of the rows or up to two behind those of the
 * columns. To a picture when path is not NULL, else appended for the terminal. Frees the title. */
typedef struct hsc__effect_map {
    hsc__string title;
    const char *x_title, *y_title, *value_title;
    int n_rows, n_cols;
    const double *values;                      /* [n_rows][n_cols] */
    double start;                              /* drawn white: what a value is as long as nothing is done */
    const hsc__label *row_labels, *col_labels; /* NULL: letters */
    char row_letter, col_letter;
    const char *row_before, *col_after[2];
    bool causal;             /* what lies beyond the diagonal is left blank */
    const char *blank_title; /* what a NaN stands for */
} hsc__effect_map;
hsc_status hsc__effect_map_show(hsc__effect_map *map, const char *path, hsc__string *out, hsc_error *err);

#endif
