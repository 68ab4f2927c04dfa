/* What the files of `headscope generate` share: the options, the job, and the lines of --watch. */
#ifndef HSC_CLI_GENERATE_H
#define HSC_CLI_GENERATE_H

#include "cli/target.h"

/* How the next token is chosen, as options; hsc__cli_sampling makes hsc_sampling of them. */
typedef struct hsc__sampling_options {
    double temperature, top_p, min_p, typical, repetition, presence, frequency; /* below 0: not given */
    int top_k, seed;
} hsc__sampling_options;

/* What none of the options given looks like. */
#define HSC__SAMPLING_UNSET                                                                                            \
    {                                                                                                                  \
        .temperature = -1, .top_p = -1, .min_p = -1, .typical = -1, .repetition = -1                                   \
    }

#define HSC__OPTIONS_SAMPLING(type, field)                                                                             \
    {                                                                                                                  \
        "top-k",                                                                                                       \
        'k',                                                                                                           \
        HSC__OPT_INT,                                                                                                  \
        "K",                                                                                                           \
        offsetof(type, field.top_k),                                                                                   \
        1,                                                                                                             \
        INT32_MAX,                                                                                                     \
        "Draw among the K likeliest tokens."},                                                                         \
        {"top-p",                                                                                                      \
         'p',                                                                                                          \
         HSC__OPT_REAL,                                                                                                \
         "P",                                                                                                          \
         offsetof(type, field.top_p),                                                                                  \
         0,                                                                                                            \
         1,                                                                                                            \
         "Draw among the fewest tokens whose probabilities reach P."},                                                 \
        {"min-p",                                                                                                      \
         0,                                                                                                            \
         HSC__OPT_REAL,                                                                                                \
         "P",                                                                                                          \
         offsetof(type, field.min_p),                                                                                  \
         0,                                                                                                            \
         1,                                                                                                            \
         "Draw among tokens with at least P times the likeliest one's probability."},                                  \
        {"typical",                                                                                                    \
         0,                                                                                                            \
         HSC__OPT_REAL,                                                                                                \
         "P",                                                                                                          \
         offsetof(type, field.typical),                                                                                \
         0,                                                                                                            \
         1,                                                                                                            \
         "Draw among the tokens nearest to the expected information, until they reach P."},                            \
        {"repetition",                                                                                                 \
         0,                                                                                                            \
         HSC__OPT_REAL,                                                                                                \
         "X",                                                                                                          \
         offsetof(type, field.repetition),                                                                             \
         0,                                                                                                            \
         100,                                                                                                          \
         "Divide the logits of tokens that are in the text already by X (multiply negative ones); 1 does nothing."},   \
        {"presence",                                                                                                   \
         0,                                                                                                            \
         HSC__OPT_REAL,                                                                                                \
         "X",                                                                                                          \
         offsetof(type, field.presence),                                                                               \
         -100,                                                                                                         \
         100,                                                                                                          \
         "Subtract X from the logits of tokens that were written."},                                                   \
        {"frequency",                                                                                                  \
         0,                                                                                                            \
         HSC__OPT_REAL,                                                                                                \
         "X",                                                                                                          \
         offsetof(type, field.frequency),                                                                              \
         -100,                                                                                                         \
         100,                                                                                                          \
         "Subtract X from a token's logit for each time it was written."},                                             \
    {                                                                                                                  \
        "seed", 0, HSC__OPT_INT, "N", offsetof(type, field.seed), 0, INT32_MAX,                                        \
            "Seed of the draws, from 0 (default); the same seed gives the same text."                                  \
    }

/* The steps in the library's terms. temperature: what it is when none was given and a filter was not either. */
hsc_sampling hsc__cli_sampling(const hsc__sampling_options *options, double temperature);
/* {"temperature",...}: the steps that do something, and "seed" when tokens are drawn. */
json_t *hsc__json_sampling(const hsc_sampling *sampling, int seed);

typedef struct hsc__generate_options {
    const char *model, *file;
    hsc__ids ids;
    hsc__sampling_options sampling;
    hsc__texts stops;
    hsc__heads watch;
    hsc__pass_options pass;
    double length_penalty;
    int max_tokens, min_tokens, no_repeat, n_samples, n_beams, top, threads;
    bool ignore_end, slide, early_stop, plain, echo, include_first, show_special, no_special, parse_special, json;
} hsc__generate_options;

enum { HSC__GENERATE_MAX_ENDS = 16, HSC__GENERATE_MAX_TOP = 64, HSC__GENERATE_MAX_BEAMS = 64 };

typedef struct hsc__generate {
    hsc__generate_options own;      /* as given, then completed by what the files say and by what is usual */
    const hsc__generate_options *o; /* the same, to read */
    hsc__opened opened;
    hsc__string text; /* of the prompt, unless it came as ids */
    hsc__tokens prompt;
    int n_prompt;
    bool reads_source;  /* an encoder-decoder: what was given is its source, and the prompt how its texts begin */
    hsc__tokens source; /* of an encoder-decoder */
    hsc_target target;
    hsc_beam_stop stop;
    bool renormalise;
    int n_forced; /* tokens at the end of the prompt that count as written */
    hsc_token ends[HSC__GENERATE_MAX_ENDS];
    int n_ends;
    hsc_session *session;
    hsc_generator *generator;
    json_t *watched; /* --json: a list, an object a token */
    double seconds;
    bool late; /* the text is printed at the end, because lines of --watch share its terminal */
} hsc__generate;

/* Notes a rule of the model's files that would change the text and is not followed (hsc_model_unfollowed). */
hsc_status hsc__note_unfollowed(const hsc__opened *opened, hsc_error *err);
/* Adds a record for each layer with a watched head to list [HSC__MAX_HEADS]; returns how many. */
int hsc__watch_records(const hsc__generate *g, hsc_record *list);
/* The lines, or the JSON object, of the token that the last step wrote. */
hsc_status hsc__watch_show(hsc__generate *g, hsc_error *err);
/* A heading over the lines. */
void hsc__watch_begin(const hsc__generate *g);

/* --echo: writes the prompt. */
void hsc__generate_echo(const hsc__generate *g);
/* The search and its result, as JSON or text. Returns the exit status. */
int hsc__generate_beams(hsc__generate *g);

/* {"text","ids","finish","log_prob"} */
json_t *hsc__json_sample(const char *text, size_t n_text, const hsc_token *ids, int n_ids, hsc_finish finish,
                         double log_prob);
/* {"model","compute",...,"prompt","sampling"}: what all results begin with. */
json_t *hsc__json_generate(const hsc__generate *g);

#endif
