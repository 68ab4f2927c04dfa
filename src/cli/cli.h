/*
 * The frame of the program: exit statuses, one declarative table of options a subcommand, messages, output, and the
 * pieces that several subcommands share. A subcommand is one function in a file of its own (pull.c, look.c, ...) and
 * one row in main.c. Results go to standard output, everything said about them to standard error.
 */
#ifndef HSC_CLI_CLI_H
#define HSC_CLI_CLI_H

#include "base/text.h"
#include "plot/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* 2: the arguments alone show the fault; 1: a file or the model was needed to see it; 130: Ctrl-C. */
enum { HSC__EXIT_OK = 0, HSC__EXIT_FAILED = 1, HSC__EXIT_USAGE = 2, HSC__EXIT_INTERRUPTED = 130 };

/* The subcommands. argv[0] is the subcommand's name; the result is the exit status. */
int hsc__cli_ablate(int argc, char **argv);
int hsc__cli_attribute(int argc, char **argv);
int hsc__cli_bench(int argc, char **argv);
int hsc__cli_chat(int argc, char **argv);
int hsc__cli_circuit(int argc, char **argv);
int hsc__cli_compose(int argc, char **argv);
int hsc__cli_convert(int argc, char **argv);
int hsc__cli_detect(int argc, char **argv);
int hsc__cli_drift(int argc, char **argv);
int hsc__cli_info(int argc, char **argv);
int hsc__cli_lens(int argc, char **argv);
int hsc__cli_lesson(int argc, char **argv);
int hsc__cli_embed(int argc, char **argv);
int hsc__cli_export(int argc, char **argv);
int hsc__cli_fill(int argc, char **argv);
int hsc__cli_generate(int argc, char **argv);
int hsc__cli_look(int argc, char **argv);
int hsc__cli_patch(int argc, char **argv);
int hsc__cli_pull(int argc, char **argv);
int hsc__cli_rollout(int argc, char **argv);
int hsc__cli_run(int argc, char **argv);
int hsc__cli_scan(int argc, char **argv);
int hsc__cli_score(int argc, char **argv);
int hsc__cli_steer(int argc, char **argv);
int hsc__cli_tokenize(int argc, char **argv);
int hsc__cli_values(int argc, char **argv);

/* --------------------------------------------------------------------------------------------------- options ---- */

/* Layers as one types them: "L4", "L0-L11" from 0, a bare "5" or "1-12" from 1, and comma lists of these. */
enum { HSC__MAX_RANGES = 64 };
typedef struct hsc__layers {
    int n; /* 0: not given */
    struct {
        int first, last; /* from 0, both inside */
    } range[HSC__MAX_RANGES];
} hsc__layers;

/* "L4H3", both from 0. */
typedef struct hsc__head {
    bool given;
    int layer, head;
} hsc__head;

/* "L13H8,L4H3", both from 0. */
enum { HSC__MAX_HEADS = 32 };
typedef struct hsc__heads {
    int n; /* 0: not given */
    struct {
        int layer, head;
    } list[HSC__MAX_HEADS];
} hsc__heads;

/* Every use of the option adds one. Borrowed from argv. */
enum { HSC__MAX_TEXTS = 32 };
typedef struct hsc__texts {
    const char *list[HSC__MAX_TEXTS];
    int n;
} hsc__texts;

/* "1,2,3". The ids are of hsc__malloc; the subcommand frees them. */
typedef struct hsc__ids {
    hsc_token *ids; /* NULL: not given */
    size_t n;
} hsc__ids;

/* How a pass computes, and what a query may see. Zeros are the defaults. */
typedef struct hsc__pass_options {
    int dtype;         /* of the matrices in memory: as in the file, or which of f32, f16, bf16 and q8_0 */
    int compute;       /* hsc_compute */
    int cache;         /* which of f32, f16, bf16 and q8_0 */
    int window, sinks; /* as in hsc_mask */
} hsc__pass_options;

/* What an option's value must look like, and the type of the field that receives it. */
typedef enum {
    HSC__OPT_FLAG,    /* bool */
    HSC__OPT_TEXT,    /* const char *, borrowed from argv */
    HSC__OPT_TEXTS,   /* hsc__texts */
    HSC__OPT_INT,     /* int, low to high */
    HSC__OPT_REAL,    /* double, low to high */
    HSC__OPT_IDS,     /* hsc__ids */
    HSC__OPT_LAYERS,  /* hsc__layers */
    HSC__OPT_HEAD,    /* hsc__head */
    HSC__OPT_HEADS,   /* hsc__heads */
    HSC__OPT_NEURONS, /* hsc__heads: L4N1500, and L4H1500 */
    HSC__OPT_CHOICE,  /* int: which of the words in `value`, "fixed|max|row", was given; from 0 */
    HSC__OPT_HEADING, /* none: `name` is a heading of the help */
} hsc__option_kind;

typedef struct hsc__option {
    const char *name; /* "layer" is typed --layer; first, so that hsc__cli_nearest can walk the table */
    char letter;      /* 'm' is typed -m; 0: none */
    hsc__option_kind kind;
    const char *value; /* what the help calls the value, "FILE"; NULL for a flag */
    size_t offset;     /* of the field in the subcommand's struct of values */
    int low, high;     /* HSC__OPT_INT and HSC__OPT_REAL */
    const char *help;  /* one or two sentences; wrapped when shown */
} hsc__option;

typedef struct hsc__command {
    const char *name;
    const char *usage; /* lines after "headscope NAME ", separated by '\n' */
    const char *about; /* paragraphs, separated by '\n' */
    const hsc__option *options;
    size_t n_options;
    const char *examples;   /* shown as they stand, each line indented by two blanks */
    int min_args, max_args; /* positional arguments */
    const char *missing;    /* said when there are fewer: "the text to look at is missing" */
    bool of_encoder;        /* of such models it looks at the encoder alone, which is told */
    bool encoder_decoders;  /* it runs models that read a source and write a target; the others refuse them */
} hsc__command;

/* Positional arguments, in order. Borrowed from argv. */
typedef struct hsc__args {
    char **list;
    int n;
} hsc__args;

/* Parses argv into *values, a struct that holds the defaults before. Options and positional arguments may be mixed;
 * "--" ends the options; the last of a repeated option counts. --help prints the help. Returns HSC__CLI_GO_ON, or the
 * exit status: 0 after --help, 2 after a message. */
enum { HSC__CLI_GO_ON = -1 };
int hsc__cli_parse(const hsc__command *command, int argc, char **argv, void *values, hsc__args *args);

/* Whether layer (from 0) is among them; no layers given means every one. */
bool hsc__layers_have(const hsc__layers *layers, int layer);
/* HSC_EINVAL when one is not below n_layers; the message names it in the lesson's words. */
hsc_status hsc__layers_check(const hsc__layers *layers, int n_layers, hsc_error *err);
/* HSC_EINVAL when a head ("head") or neuron ("neuron") of a layer is not there; the message names it L4H3 or L4N3, says
 * what exists, and begins with the option that asked for it (NULL: none). */
hsc_status hsc__place_check(const char *option, const char *what, int layer, int index, int n_layers, int n,
                            hsc_error *err);
/* As --layer reads them; false when the text is none. */
bool hsc__layers_parse(const char *text, hsc__layers *out);

/* "L4H3", and "L4H3,L5H1"; false when the text is none, or has more than HSC__MAX_HEADS. */
bool hsc__head_parse(const char *text, hsc__head *out);
bool hsc__heads_parse(const char *text, hsc__heads *out);

/* As --ids reads them; false when the text is none or memory is out. Free out->ids with hsc__free either way. */
bool hsc__ids_parse(const char *text, hsc__ids *out);

/* The name that is nearest to a mistyped word, or NULL when none is near. The names are the first fields (const char *)
 * of n structs `stride` bytes apart. */
const char *hsc__cli_nearest(const char *word, const void *names, size_t stride, size_t n);

/* A row of a table; a file names its struct once: #define OPTION(...) HSC__OPTION(values, __VA_ARGS__). */
#define HSC__OPTION(type, name, letter, kind, value, field, low, high, help)                                           \
    {                                                                                                                  \
        name, letter, kind, value, offsetof(type, field), low, high, help                                              \
    }
/* Rows that several subcommands share: a const char *, an int. */
#define HSC__OPTION_MODEL(type, field)                                                                                 \
    {                                                                                                                  \
        "model", 'm', HSC__OPT_TEXT, "MODEL", offsetof(type, field), 0, 0,                                             \
            "A folder with config.json and safetensors, a .gguf file, or a name in the Hub cache such as gpt2. "       \
            "Default: "                                                                                                \
            "HEADSCOPE_MODEL of the environment."                                                                      \
    }
#define HSC__OPTION_THREADS(type, field)                                                                               \
    {                                                                                                                  \
        "threads", 't', HSC__OPT_INT, "N", offsetof(type, field), 1, 1024,                                             \
            "Threads. Never changes a result. Default: what the system allows."                                        \
    }
#define HSC__OPTION_COMPUTE(type, field)                                                                               \
    {                                                                                                                  \
        "compute", 0, HSC__OPT_CHOICE, "f32|bf16|q8|auto", offsetof(type, field), 0, 0,                                \
            "Arithmetic of the products with weights: f32 (default) is exact, bf16 and q8 (8-bit activations on "      \
            "quantised weights) are faster and deviate; auto takes what suits the file. Results name the kind."        \
    }
#define HSC__OPTION_DTYPE(type, field)                                                                                 \
    {                                                                                                                  \
        "dtype", 0, HSC__OPT_CHOICE, "file|f32|f16|bf16|q8_0", offsetof(type, field), 0, 0,                            \
            "Type of the weights in memory: file (default) uses them where they are mapped; any other converts the "   \
            "matrices once when the model is opened. What that costs is told."                                         \
    }
#define HSC__OPTION_CACHE(type, field)                                                                                 \
    {                                                                                                                  \
        "cache", 0, HSC__OPT_CHOICE, "f32|f16|bf16|q8_0", offsetof(type, field), 0, 0,                                 \
            "Type of the cached keys and values. All but f32 (default) round them and save memory."                    \
    }
#define HSC__OPTION_WINDOW(type, field)                                                                                \
    {                                                                                                                  \
        "window", 0, HSC__OPT_INT, "N", offsetof(type, field), 1, INT32_MAX,                                           \
            "Let a token see no more than itself and the N - 1 before it. Default: the model's own window, if any."    \
    }
#define HSC__OPTION_SINKS(type, field)                                                                                 \
    {                                                                                                                  \
        "sinks", 0, HSC__OPT_INT, "N", offsetof(type, field), 1, INT32_MAX,                                            \
            "With --window: the first N tokens stay visible."                                                          \
    }
/* --compute where speed counts more than figures: the field holds HSC__COMPUTE_UNSET before. */
enum { HSC__COMPUTE_UNSET = -1 };
#define HSC__OPTION_COMPUTE_AUTO(type, field)                                                                          \
    {                                                                                                                  \
        "compute", 0, HSC__OPT_CHOICE, "f32|bf16|q8|auto", offsetof(type, field), 0, 0,                                \
            "Arithmetic of the products with weights: f32 is exact, bf16 and q8 (8-bit activations on quantised "      \
            "weights) are faster and deviate; auto (default) takes what suits the file. Results name the kind."        \
    }
/* The five rows of a field of type hsc__pass_options; the second for where speed counts more. */
#define HSC__OPTIONS_PASS(type, field) HSC__OPTION_COMPUTE(type, field.compute), HSC__OPTIONS_PASS_REST(type, field)
#define HSC__OPTIONS_PASS_AUTO(type, field)                                                                            \
    HSC__OPTION_COMPUTE_AUTO(type, field.compute), HSC__OPTIONS_PASS_REST(type, field)
#define HSC__OPTIONS_PASS_REST(type, field)                                                                            \
    HSC__OPTION_DTYPE(type, field.dtype), HSC__OPTION_CACHE(type, field.cache),                                        \
        HSC__OPTION_WINDOW(type, field.window), HSC__OPTION_SINKS(type, field.sinks)
#define HSC__OPTION_NO_SPECIAL(type, field)                                                                            \
    {                                                                                                                  \
        "no-special", 0, HSC__OPT_FLAG, NULL, offsetof(type, field), 0, 0,                                             \
            "Do not add what the tokenizer adds at the ends (BOS, EOS, [CLS], [SEP])."                                 \
    }
#define HSC__OPTION_PARSE_SPECIAL(type, field)                                                                         \
    {                                                                                                                  \
        "parse-special", 0, HSC__OPT_FLAG, NULL, offsetof(type, field), 0, 0,                                          \
            "Read <|endoftext|> and its like in the text as that token; they are plain text otherwise."                \
    }
#define HSC__OPTION_CSV(type, field)                                                                                   \
    {                                                                                                                  \
        "csv", 0, HSC__OPT_FLAG, NULL, offsetof(type, field), 0, 0,                                                    \
            "Print CSV with a line of names; layers, heads and positions from 0."                                      \
    }
#define HSC__OPTION_JSON(type, field)                                                                                  \
    {                                                                                                                  \
        "json", 0, HSC__OPT_FLAG, NULL, offsetof(type, field), 0, 0, "Print JSON; layers, heads and positions from 0." \
    }
#define HSC__OPTION_HEADING(text)                                                                                      \
    {                                                                                                                  \
        text, 0, HSC__OPT_HEADING, NULL, 0, 0, 0, NULL                                                                 \
    }

/* ---------------------------------------------------------------------------------------- messages and output ---- */

/* Called once by main: signals, and standard streams that were closed. */
void hsc__cli_start(void);
/* Called once by main at the end: makes sure that standard output was written. A full disk is an error (1), a pipe that
 * was closed ends quietly. Returns the exit status. */
int hsc__cli_finish(int status);

/* One line on standard error, "headscope: ..."; control characters become '?'. */
void hsc__cli_error(const char *format, ...) HSC_PRINTF(1, 2);
/* "headscope: note: ...", for what one should know about a result. */
void hsc__cli_note(const char *format, ...) HSC_PRINTF(1, 2);
/* A second line after an error: what to do about it. */
void hsc__cli_hint(const char *format, ...) HSC_PRINTF(1, 2);
/* Prints what *err says and returns the exit status for it (1, or 130 when it was cancelled). */
int hsc__cli_fail(const hsc_error *err);
/* "headscope: look: ..." and where the help is; returns 2. */
int hsc__cli_misuse(const hsc__command *command, const char *format, ...) HSC_PRINTF(2, 3);

/* Whether escape sequences may go to this stream: a terminal, not TERM=dumb; colours also want NO_COLOR empty. */
bool hsc__cli_terminal(FILE *stream);
bool hsc__cli_colours(FILE *stream);
/* Cells of a line: COLUMNS of the environment, else those of the stream's terminal, else 80. */
int hsc__cli_width_of(FILE *stream);
/* Of standard output. */
int hsc__cli_width(void);

/* Rewrites one line on standard error when it is a terminal, as much of it as fits; messages clear it first. Ctrl-C
 * says it on any standard error: "headscope: stopped (ablating: text 3 of 20)". */
void hsc__cli_progress(const char *format, ...) HSC_PRINTF(1, 2);
void hsc__cli_progress_end(void);
/* What Ctrl-C says from here on, to the end of the progress; nothing is shown before. */
void hsc__cli_at(const char *format, ...) HSC_PRINTF(1, 2);
/* Whether it adds that the same command goes on from there. */
void hsc__cli_goes_on(bool does);

/* While held, Ctrl-C waits (a second one does not): around the writing of files, so that nothing half-written stays.
 * Letting go ends the program with 130 when Ctrl-C came meanwhile. Not nested. */
void hsc__cli_hold_interrupt(bool held);
/* Whether Ctrl-C came while held. Forget it, and letting go does not end the program. */
bool hsc__cli_interrupted(void);
void hsc__cli_forget_interrupt(void);

/* Writes n bytes to standard output. Returns HSC__EXIT_OK; hsc__cli_finish sees to failures. */
int hsc__cli_write(const char *bytes, size_t n);
/* Writes a string and frees it; HSC__EXIT_FAILED with a message when memory ran out while it was made. */
int hsc__cli_write_string(hsc__string *text);
/* The same for people: lines of prose that are wider than the terminal are folded. Tables must fit: hsc__cli_table. */
int hsc__cli_show(hsc__string *text);
/* hsc__table_write at the width of the terminal; memory that ran out shows in out->failed. */
void hsc__cli_table(hsc__string *out, hsc__table *table);
int hsc__cli_no_memory(void);

/* The ending of a counted word: "%d token%s", n, HSC__PLURAL(n). */
#define HSC__PLURAL(n) ((n) == 1 ? "" : "s")

#endif
