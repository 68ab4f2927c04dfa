/* What detectors and drift share: windows of tokens, and what is known of their positions before any head is run. */
#ifndef HSC_INSPECT_DETECT_H
#define HSC_INSPECT_DETECT_H

#include "base/alloc.h"
#include "headscope/inspect.h"
#include "headscope/random.h"

#include <stdbool.h>

/* What stands at a position. */
typedef struct hsc__place {
    bool special, punctuation;
    int first_piece; /* of its word, when the token is a later one; else -1 */
    int same;        /* the last earlier position with the same token, or -1 */
} hsc__place;

typedef struct hsc__window {
    hsc_token ids[HSC_DETECT_WINDOW];
    hsc__place places[HSC_DETECT_WINDOW];
    int n, n_own;    /* tokens; without those that the tokenizer adds */
    int half, start; /* random sequences: the second half begins at start + half; 0 in a text */
} hsc__window;

/* Cuts a text into windows a piece at a time, or draws random ones. */
typedef struct hsc__windows {
    const hsc_model *model;
    const hsc_tokenizer *tokenizer; /* NULL: the model has none */
    const char *text;
    size_t n_text, at;
    hsc_encoding piece; /* what was read of the text and is not in a window yet begins at `used` */
    size_t used;
    hsc_token before[8], after[8]; /* what the tokenizer adds to a text */
    int n_before, n_after;
    int most; /* tokens of a window */
    hsc_random random;
    int length;
    int64_t low, high; /* of random ids */
} hsc__windows;

/* HSC_EINVAL: the context or the vocabulary is too small, or an option is out of range. */
hsc_status hsc__windows_open(hsc__windows *out, const hsc_model *model, const char *text, size_t n,
                             const hsc_detect_options *options, hsc_error *err);
void hsc__windows_close(hsc__windows *windows);
/* The next window of the text; n is 0 past the last. */
hsc_status hsc__windows_next(hsc__windows *windows, hsc__window *out, hsc_error *err);
/* Whether something is left that hsc__windows_next would give. */
bool hsc__windows_more(const hsc__windows *windows);
/* A random sequence: `length` ids twice. */
hsc_status hsc__windows_random(hsc__windows *windows, hsc__window *out, hsc_error *err);

/* A session for windows, one at a time. */
hsc_status hsc__windows_session(const hsc__windows *windows, const hsc_model *model, const hsc_detect_options *options,
                                hsc_session **out, hsc_error *err);
/* Runs a window by itself. */
hsc_status hsc__window_forward(hsc_session *session, const hsc__window *window, hsc_error *err);

/* ---- detect_rows.c: what a row says ---- */

enum { HSC__TL_PREVIOUS, HSC__TL_DUPLICATE, HSC__TL_INDUCTION, HSC__N_TL };

/* Figures of one row of one head. NaN: this row has none. */
typedef struct hsc__row {
    float figure[HSC_N_DETECTORS];
    float bins[HSC_DETECT_BINS];
    float tl[HSC__N_TL];
    short key[HSC_N_DETECTORS]; /* the heaviest key that the detector looks for, or -1 */
} hsc__row;

/* weights: [n_keys], what the query at position `query` sees of the window. */
void hsc__row_take(const hsc__window *window, bool causal, int query, const float *weights, int n_keys, hsc__row *out);

/* ---- detect_run.c: what is kept of a window ---- */

/* Of each head: the detectors' means over the window's rows (NaN where no row has one), TransformerLens's, and the mean
 * weights by distance. */
enum {
    HSC__FIRST_TL = HSC_N_DETECTORS,
    HSC__FIRST_BIN = HSC__FIRST_TL + HSC__N_TL,
    HSC__N_FIGURES = HSC__FIRST_BIN + HSC_DETECT_BINS
};

/* Windows of one kind, in their order. */
typedef struct hsc__pile {
    double *values; /* [n_windows][HSC__N_FIGURES][n_heads] */
    size_t capacity;
    int n_windows, n_tokens;
    hsc_detect_example *examples; /* [HSC_N_DETECTORS][n_heads], of all windows so far */
} hsc__pile;

struct hsc_detect {
    const hsc_config *config;
    hsc_detect_options options;
    hsc_detect_counts counts;
    int n_heads; /* of all layers */
    hsc__pile text, random;
};

/* Fills both piles. text NULL: the random sequences alone. */
hsc_status hsc__detect_pass(hsc_detect *detect, const hsc_model *model, const char *text, size_t n, hsc_error *err);

int hsc__detect_sequences(const hsc_detect_options *options);
int hsc__detect_windows(const hsc_detect_options *options);

#endif
