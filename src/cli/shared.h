/* What several subcommands share: a model by name, text from the arguments or a file, tokens with their texts, JSON and
 * CSV. Functions that return int say GO_ON or print a message and return the exit status. */
#ifndef HSC_CLI_SHARED_H
#define HSC_CLI_SHARED_H

#include "base/alloc.h"
#include "cli/cli.h"
#include "plot/plot.h"

#include <jansson.h>

/* The path of -m MODEL, or of HEADSCOPE_MODEL when `model` is NULL; free with hsc__free. */
int hsc__cli_model_path(const hsc__command *command, const char *model, char **path);

typedef struct hsc__opened {
    hsc_model *model;
    const hsc_config *config;
    char *path;
    const char *name; /* what people call it: the name in the cache that was typed, else the config's */
} hsc__opened;

/* Opens the model; what it remarks while opening is said as notes when `notes` is set, and what it cost to convert its
 * weights. `dtype` is hsc__pass_options's. */
int hsc__cli_open(const hsc__command *command, const char *model, int dtype, bool notes, hsc__opened *out);
/* The stack that reads a text by itself: an encoder-decoder's encoder. */
const hsc_config *hsc__cli_reader(const hsc__opened *opened);
/* How a title names that stack behind the model: ", encoder"; "" where there is one alone. */
const char *hsc__cli_stack(const hsc__opened *opened);
void hsc__cli_close(hsc__opened *opened);

/* Bytes that patterns may take: n x n weights can outgrow the machine, and a message is better than the system's
 * killer. */
double hsc__cli_room(void);

/* Shows how far a pass has come, on a terminal and once it has taken a while. Zero it before use; it must live until
 * the pass is over. */
typedef struct hsc__progress {
    double started, shown; /* seconds of the monotonic clock */
    uint64_t rows, n_rows; /* rows that left a layer, and how many will */
} hsc__progress;
/* Adds an observer for the next pass over n_tokens tokens. */
hsc_status hsc__progress_watch(hsc__progress *progress, hsc_session *session, size_t n_tokens, hsc_error *err);

/* The type of the weights in memory that the options ask for; NULL: as in the file. */
const char *hsc__pass_dtype(const hsc__pass_options *options);
/* HSC__EXIT_USAGE after a message when the options do not go together. */
int hsc__pass_check(const hsc__command *command, const hsc__pass_options *options);
/* What a session for passes of at most max_tokens tokens is made with. */
hsc_session_options hsc__pass_session(const hsc__pass_options *options, int n_threads, int max_tokens);
/* The kind of arithmetic that the options mean for this model; never HSC_COMPUTE_AUTO. */
hsc_compute hsc__pass_compute(const hsc__pass_options *options, const hsc_model *model);
/* Whether a result differs from what the defaults give. */
bool hsc__pass_special(const hsc__pass_options *options, const hsc_model *model);
/* Appends "compute f32", and what else is not the default: ", weights bf16, cache q8_0, window 64, sinks 4". */
void hsc__pass_describe(hsc__string *out, const hsc__pass_options *options, const hsc_model *model);
/* The same in an object: "compute", and where they are not the default "weights", "cache", "window" and
 * "sinks". */
void hsc__json_set_pass(json_t *object, const hsc__pass_options *options, const hsc_model *model);

/* A file, or standard input when the path is "-", that is read in pieces. HSC_EINVAL when there are more bytes than
 * HSC__READ_LIMIT: a device or a pipe may never end. */
enum { HSC__READ_LIMIT = 1 << 30 };
typedef struct hsc__input {
    FILE *file;
    const char *path;
    size_t n; /* bytes so far */
} hsc__input;
hsc_status hsc__input_open(hsc__input *input, const char *path, hsc_error *err);
/* As hsc_reader wants it; user: the input. */
hsc_status hsc__input_read(void *user, char *out, size_t n, size_t *n_read, hsc_error *err);
void hsc__input_close(hsc__input *input);

/* Appends all bytes of such a file; NUL bytes are kept. */
hsc_status hsc__cli_read(const char *path, hsc__string *out, hsc_error *err);

/* The lines of a file or of standard input ("-"), one after the other. Zero it before use. */
typedef struct hsc__lines {
    const char *path;
    hsc__string file; /* all of it */
    size_t at;        /* where the next line begins */
    const char *text; /* [n]: the line in hand without its end, in `file`; n may be 0 */
    size_t n;
    int number; /* of that line, from 1; 0 before the first */
} hsc__lines;
/* Reads the file as hsc__cli_read does. */
hsc_status hsc__lines_open(hsc__lines *lines, const char *path, hsc_error *err);
/* False at the end. */
bool hsc__lines_next(hsc__lines *lines);
/* Gives back the status of what was done with the line in hand; a failure's message then begins with file and line. */
hsc_status hsc__lines_did(const hsc__lines *lines, hsc_status status, hsc_error *err);
void hsc__lines_close(hsc__lines *lines);

/* The text of an argument, of standard input when the argument is "-", or of `file` when it is not NULL. One line end
 * at the end of a file is how files end and is left out, and so is a byte order mark at its start. */
hsc_status hsc__cli_read_text(const char *argument, const char *file, hsc__string *out, hsc_error *err);

/* The flags of hsc_encode that --no-special and --parse-special mean: special tokens are added and not parsed unless
 * one asks. */
unsigned hsc__encode_flags(bool no_special, bool parse_special);

/* Whether --plot names a picture that can be drawn (NULL: none is asked for); says what is wrong with it. */
int hsc__check_plot(const hsc__command *command, const char *path);

/* Tokens with the text of each. Zero it before use. */
typedef struct hsc__tokens {
    hsc_encoding encoding;
    hsc__label *texts; /* [encoding.n], borrowed from the tokenizer or `arena` */
    hsc__arena arena;
} hsc__tokens;

/* Encodes n bytes; `flags` as in hsc_encode. An empty text may give no token. */
hsc_status hsc__tokens_encode(hsc__tokens *out, const hsc_tokenizer *tokenizer, const char *text, size_t n,
                              unsigned flags, hsc_error *err);
/* Two texts as hsc_encode_pair joins them. */
hsc_status hsc__tokens_encode_pair(hsc__tokens *out, const hsc_tokenizer *tokenizer, const char *first, size_t n_first,
                                   const char *second, size_t n_second, unsigned flags, hsc_error *err);
/* Takes ids as they are; without a tokenizer, or for an id that it does not know, the text is the id. */
hsc_status hsc__tokens_from_ids(hsc__tokens *out, const hsc_tokenizer *tokenizer, const hsc__ids *ids, hsc_error *err);
void hsc__tokens_free(hsc__tokens *tokens);

/* The model's tokenizer, or the reason for its absence with the advice to use --ids. */
hsc_status hsc__cli_tokenizer(const hsc__opened *opened, const hsc_tokenizer **out, hsc_error *err);

/* Sets "text", and "bytes" in hexadecimal beside it when the bytes are not whole UTF-8. Returns object. */
json_t *hsc__json_set_text(json_t *object, const char *bytes, size_t n);
/* Lower-case hexadecimal. */
json_t *hsc__json_hex(const char *bytes, size_t n);
/* {"pos","text"} of a token; {"pos","text","weight"} with a weight. */
json_t *hsc__json_token(const hsc__tokens *tokens, int pos);
json_t *hsc__json_weight(const hsc__tokens *tokens, int pos, float weight);
/* [{"id","text"}] */
json_t *hsc__json_tokens(const hsc__tokens *tokens);
/* {"name","arch","n_layers","n_heads"} */
json_t *hsc__json_model(const hsc__opened *opened);
/* What a table in the order of size sorts by: the size, and for what is no number less than any. */
double hsc__rank_size(double value);
/* A number, or null when it is not finite. */
json_t *hsc__json_number(double value);
/* [..] of n numbers, and of n whole ones. */
json_t *hsc__json_numbers(const double *values, size_t n);
json_t *hsc__json_floats(const float *values, size_t n);
json_t *hsc__json_ids(const hsc_token *ids, size_t n);
json_t *hsc__json_shape(const int64_t *shape, int n_dims);
/* Prints on standard output, indented on a terminal, and releases. NULL: out of memory. Returns the exit status. */
int hsc__json_print(json_t *root);

/* Appends a field as RFC 4180 wants it: in quotes when it holds a comma, a quote or a line end. */
void hsc__csv_field(hsc__string *out, const char *bytes, size_t n);

/* Appends Python's repr of a token's text, padded to `width` code points as Python's format does. */
void hsc__repr_padded(hsc__string *out, const hsc__label *text, size_t width);

#endif
