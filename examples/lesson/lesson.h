/*
 * What the programs of the lesson share: the list of them, printing as numpy and PyTorch print, a count of memory, and
 * pictures. Each NN_name.c is a program of its own; `headscope lesson N` holds the same sources.
 */
#ifndef HEADSCOPE_LESSON_H
#define HEADSCOPE_LESSON_H

#include "headscope.h"
#include "headscope/nn.h"
#include "headscope/random.h"

#include <stdbool.h>
#include <stddef.h>

/* What a program does besides printing: it has something to draw, or it asks a model, if argv[1] names one. */
typedef enum { LESSON_PRINTS, LESSON_DRAWS, LESSON_ASKS } lesson_kind;

/* X(number, file, kind, what it shows). */
#define LESSON_LIST(X)                                                                                                 \
    X(01, "lookup", LESSON_PRINTS, "attention as a soft lookup")                                                       \
    X(02, "scale", LESSON_DRAWS, "why scores are divided by the root of d_k")                                          \
    X(03, "self_attention", LESSON_DRAWS, "queries, keys and values from the same tokens")                             \
    X(04, "heads", LESSON_PRINTS, "several patterns at once, and the order that they cannot see")                      \
    X(05, "position", LESSON_DRAWS, "positions as waves, an offset as a rotation")                                     \
    X(06, "block", LESSON_PRINTS, "the transformer block")                                                             \
    X(07, "causal", LESSON_DRAWS, "the causal mask")                                                                   \
    X(08, "next_words", LESSON_ASKS, "one pass, the loss of every next word")                                          \
    X(09, "cost", LESSON_DRAWS, "time and memory against length")                                                      \
    X(10, "expected", LESSON_DRAWS, "the output as an expected value")                                                 \
    X(11, "equal", LESSON_DRAWS, "exercise 1: equal scores, and one that grows")                                       \
    X(12, "slope", LESSON_DRAWS, "exercise 2: the derivative p(1 - p)")                                                \
    X(13, "order", LESSON_PRINTS, "exercise 3: a causal mask knows the order")                                         \
    X(14, "offset", LESSON_DRAWS, "exercise 4: PE(pos).PE(pos + k) depends on k only")                                 \
    X(15, "count", LESSON_PRINTS, "exercise 5: the parameters of a block")                                             \
    X(16, "wide", LESSON_ASKS, "exercise 6: from \"tired\" to \"wide\"")

/* The main function of each under the name that it has inside headscope. */
#define LESSON_MAIN(number, file, kind, about) int lesson_##number(int argc, char **argv);
LESSON_LIST(LESSON_MAIN)
#undef LESSON_MAIN

/* Leaves main with the message of a call that failed; `err` must be in scope. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != HSC_OK) return lesson_fail(&err);                                                                \
    } while (0)
int lesson_fail(const hsc_error *err);
/* The same in a function that returns a status and has nothing to free. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hsc_status check_status_ = (call);                                                                             \
        if (check_status_ != HSC_OK) return check_status_;                                                             \
    } while (0)

/* ---------------------------------------------------------------------------------------------------- printing ---- */

/* As print(x.numpy().round(decimals)) without the line end: a matrix [rows][columns], or a vector when rows is 0. */
void lesson_print_array(const float *x, int rows, int columns, int decimals);
/* As print(x) of a torch vector: tensor([-1.2254,  2.4192]) */
void lesson_print_tensor(const float *x, int n);
/* "True" or "False", as Python says it. */
const char *lesson_truth(bool truth);

/* ----------------------------------------------------------------------------------------------------- numbers ---- */

float lesson_furthest(const float *a, const float *b, size_t n); /* the largest |a - b| */
bool lesson_close(const float *a, const float *b, size_t n, double bar);
double lesson_mean(const float *x, size_t n);
double lesson_std(const float *x, size_t n); /* over n - 1, as torch */
/* The slope of the line through (log x, log y): the exponent of y ~ x^e. */
double lesson_exponent(const double *x, const double *y, int n);

/* Seconds of processor time of this process, all threads together: what a busy machine hardly changes. */
double lesson_clock(void);
/* Counts what the library asks of the allocator. Call it before any other function of the library; a second call does
 * nothing. lesson_memory_peak: the most bytes in use since lesson_memory_reset, beyond those in use then. */
void lesson_memory_watch(void);
void lesson_memory_reset(void);
double lesson_memory_peak(void);

/* ----------------------------------------------------------------------------------------------------- a model ---- */

typedef struct lesson_model {
    hsc_model *model;
    hsc_session *session;
    const hsc_tokenizer *tokenizer; /* the model's */
} lesson_model;
hsc_status lesson_open(lesson_model *m, const char *path, hsc_error *err);
void lesson_close_model(lesson_model *m);
/* The tokens of a text, with what the tokenizer adds at its ends. */
hsc_status lesson_encode(const lesson_model *m, const char *text, hsc_encoding *out, hsc_error *err);
/* The pattern of every head over a text, which must outlive it. Free it. */
typedef struct lesson_patterns {
    const char *text;
    hsc_encoding tokens;
    int n;                      /* tokens */
    int n_heads, heads_a_layer; /* heads of all layers */
    float *weights;             /* [n_heads][n][n] */
} lesson_patterns;
hsc_status lesson_look(lesson_model *m, const char *text, lesson_patterns *out, hsc_error *err);
void lesson_patterns_free(lesson_patterns *patterns);
/* The row [n] of one query of a head; heads are counted through all layers. */
const float *lesson_row(const lesson_patterns *patterns, int head, int query);
/* "layer  5, head  2 (L4H2)". The text is used again after the next call. */
const char *lesson_head(const lesson_patterns *patterns, int head);
/* The place of the first token that stands for exactly this word of the text, or -1. GPT's tokens bring the blank in
 * front of a word along, BERT's do not: either will do. */
int lesson_find(const lesson_patterns *patterns, const char *word);
/* A token in quotes. The text is used again after four calls. */
const char *lesson_word(const lesson_model *m, hsc_token id);

/* ---------------------------------------------------------------------------------------------------- pictures ---- */

typedef struct lesson_curve {
    const char *name;
    int n;
    const double *x, *y;
    bool plain; /* a line without marks, for what is computed */
} lesson_curve;

enum { LESSON_MAX_CURVES = 8 };
typedef struct lesson_panel {
    const char *title, *x_title, *y_title;
    bool log_x, log_y;
    lesson_curve curves[LESSON_MAX_CURVES]; /* the first without points ends them */
} lesson_panel;

/* Shows curves, or a pattern of weights [n][n], to whoever draws pictures: `headscope lesson N --plot FILE` does, a
 * program by itself does not. Returns what main is to return. labels [n] or NULL. */
int lesson_show_curves(const char *title, const lesson_panel *panels, int n_panels);
int lesson_show_pattern(const char *title, const float *weights, int n, const char *const *labels, bool causal);

/* Who draws. NULL: nobody. */
typedef struct lesson_painter {
    int (*curves)(void *user, const char *title, const lesson_panel *panels, int n_panels);
    int (*pattern)(void *user, const char *title, const float *weights, int n, const char *const *labels, bool causal);
    void *user;
} lesson_painter;
void lesson_set_painter(const lesson_painter *painter);

#endif
