/* What the files of `headscope score` share. */
#ifndef HSC_CLI_SCORE_H
#define HSC_CLI_SCORE_H

#include "cli/heads.h"
#include "cli/target.h"

typedef struct hsc__score_options {
    const char *model, *file, *choices, *pairs;
    hsc__ids ids;
    hsc__target_options target;
    hsc__pass_options pass;
    int window, stride, threads, by, limit, seed;
    bool tokens, no_special, parse_special, json, csv;
} hsc__score_options;

typedef struct hsc__score {
    const hsc__score_options *o;
    hsc__opened opened;
    hsc_session *session;
    bool reads_source;  /* an encoder-decoder: what is scored is a target, about a source */
    hsc__tokens source; /* of a text that is scored */
} hsc__score;

extern const hsc__command hsc__score_command;

/* Tokens of a text of which those behind byte `border` count, or all but the first; a token that spans the border
 * counts, and blanks before it do. HSC_EINVAL: nothing stands before it, or behind. */
hsc_status hsc__score_encode(const hsc__score *score, const hsc_tokenizer *tokenizer, const hsc__string *text,
                             size_t border, hsc_encoding *encoding, hsc_continuation *out, hsc_error *err);

/* The pairs of --pairs, as --choices below. */
int hsc__score_pairs(hsc__score *score);

/* Runs the benchmark of --choices and prints its result. Returns the exit status. */
int hsc__score_choices(hsc__score *score);

#endif
