/* What commands that read one text share (lens, attribute, rollout, values): their options, the text as tokens, the
 * position that is asked about, names of layers and heads, and how an answer ends. */
#ifndef HSC_CLI_READING_H
#define HSC_CLI_READING_H

#include "cli/answer.h"

typedef struct hsc__reading_options {
    const char *model, *token, *plot;
    hsc__ids ids;
    hsc__target_options target; /* of commands that read encoder-decoders */
    int pos;                    /* -1: not given */
    int top, threads, compute;
    bool no_special, parse_special, json, csv;
} hsc__reading_options;

/* Rows of the option table: `type` has a field `field` of type hsc__reading_options. */
#define HSC__READING_WHERE(type, field)                                                                                \
    {"token",                                                                                                          \
     0,                                                                                                                \
     HSC__OPT_TEXT,                                                                                                    \
     "TEXT",                                                                                                           \
     offsetof(type, field.token),                                                                                      \
     0,                                                                                                                \
     0,                                                                                                                \
     "The token that is asked about, with its blank: \" it\". Default: the last."},                                    \
    {                                                                                                                  \
        "pos", 0, HSC__OPT_INT, "N", offsetof(type, field.pos), 0, INT32_MAX, "The same by its position, from 0."      \
    }
#define HSC__READING_PASS(type, field)                                                                                 \
    {"ids", 0, HSC__OPT_IDS, "IDS", offsetof(type, field.ids), 0, 0, "Token ids such as 1,2,3 instead of TEXT."},      \
        HSC__OPTION_COMPUTE(type, field.compute), HSC__OPTION_NO_SPECIAL(type, field.no_special),                      \
        HSC__OPTION_PARSE_SPECIAL(type, field.parse_special), HSC__OPTION_THREADS(type, field.threads),                \
        HSC__OPTION_JSON(type, field.json), HSC__OPTION_CSV(type, field.csv)

typedef struct hsc__reading {
    const hsc__reading_options *options;
    hsc__opened opened;
    hsc__tokens source; /* of an encoder-decoder, whose `tokens` are the target */
    hsc__tokens tokens;
    int n_tokens, pos;
    bool not_found; /* no token is what --token says */
} hsc__reading;

/* The arguments alone: --json or --csv, the picture's name. */
int hsc__reading_check_output(const hsc__command *command, const hsc__reading_options *options);
/* The same, and TEXT or --ids, --token or --pos. */
int hsc__reading_check(const hsc__command *command, const hsc__reading_options *options, const hsc__args *args);
/* Encodes the text (NULL: the ids) and finds the position; of an encoder-decoder the text is the source, and the
 * position one of the target. */
hsc_status hsc__reading_text(hsc__reading *reading, const char *text, hsc_error *err);
void hsc__reading_free(hsc__reading *reading);

/* The steps of a command that reads a text; `job` is its own. */
typedef struct hsc__reading_steps {
    const hsc__command *command;
    int (*check)(void *job, const hsc__args *args);                 /* what the arguments alone show */
    hsc_status (*run)(void *job, const char *text, hsc_error *err); /* text NULL: none was given */
    hsc_status (*text)(const void *job, hsc__string *out, hsc_error *err);
    void (*csv)(const void *job, hsc__string *out);
    json_t *(*json)(const void *job);
    /* To a picture when path is not NULL, else appended to out for the terminal; --plot calls it with a path. */
    hsc_status (*map)(const void *job, const char *path, hsc__string *out, hsc_error *err);
} hsc__reading_steps;
/* Parses into `values`, opens the model, runs, draws what --plot names and prints. Returns the exit status; what the
 * job holds is still to be freed. */
int hsc__reading_main(const hsc__reading_steps *steps, int argc, char **argv, void *values, hsc__reading *reading,
                      void *job);

/* "layer 5, head 3 (L4H3)" */
void hsc__add_head_name(hsc__string *out, int layer, int head);
/* Python's repr of a token of the vocabulary (of an encoder-decoder its target's); its number without a tokenizer. */
void hsc__add_word(hsc__string *out, const hsc__opened *opened, hsc_token id);
/* ",id,text" and ",position,text" of a line of CSV. */
void hsc__csv_word(hsc__string *out, const hsc__opened *opened, hsc_token id);
void hsc__csv_token(hsc__string *out, const hsc__reading *reading, int pos);
/* {"id","text"} */
json_t *hsc__json_word(const hsc__opened *opened, hsc_token id);
/* Prints *out when status is HSC_OK, else frees it and says what is wrong. Returns the exit status. */
int hsc__answer(hsc_status status, hsc__string *out, const hsc_error *err);
/* The same for JSON. */
/* The same with a text for people, folded. */
int hsc__answer_text(hsc_status status, hsc__string *out, const hsc_error *err);
int hsc__answer_json(hsc_status status, json_t *root, const hsc_error *err);

#endif
