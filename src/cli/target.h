/* The other text of an encoder-decoder: what its decoder reads, which is given as text or ids, or is what the model
 * writes by itself. */
#ifndef HSC_CLI_TARGET_H
#define HSC_CLI_TARGET_H

#include "cli/shared.h"

#include "headscope/tasks.h"

typedef struct hsc__target_options {
    const char *text;
    hsc__ids ids;
    bool with_end; /* a text that is given keeps the token that ends it: it is scored, and never read */
} hsc__target_options;

#define HSC__OPTIONS_TARGET(type, field)                                                                               \
    {"target",                                                                                                         \
     0,                                                                                                                \
     HSC__OPT_TEXT,                                                                                                    \
     "TEXT",                                                                                                           \
     offsetof(type, field.text),                                                                                       \
     0,                                                                                                                \
     0,                                                                                                                \
     "What the decoder of an encoder-decoder (T5, BART, Marian) reads, behind the token that begins its texts. "       \
     "Default: what the model writes, greedily."},                                                                     \
    {                                                                                                                  \
        "target-ids", 0, HSC__OPT_IDS, "IDS", offsetof(type, field.ids), 0, 0,                                         \
            "The same as ids, exactly these: the token that begins a text is the first of them."                       \
    }

enum { HSC__TARGET_MAX_ENDS = 16, HSC__TARGET_MAX_TOKENS = 128 /* that are written where none are given */ };

/* HSC__EXIT_USAGE after a message when the options do not go together. */
int hsc__target_check(const hsc__command *command, const hsc__target_options *options);

/* The tokens of a text as the decoder's, behind the one that begins a text; its end only with `with_end`. *first, where
 * it is not NULL, is the first that stands for something of the text. Free list->ids. */
hsc_status hsc__target_encode(const hsc__opened *opened, const char *text, size_t n_bytes, bool with_end,
                              hsc__ids *list, int *first, hsc_error *err);

/* HSC_EINVAL: a target was given and the model has no encoder. */
hsc_status hsc__target_allowed(const hsc__opened *opened, const hsc__target_options *options, hsc_error *err);

/* The tokens that the decoder reads for a source, their number within its context; `out` is zeroed before. */
hsc_status hsc__target_find(const hsc__opened *opened, const hsc__target_options *options,
                            const hsc__pass_options *pass, int n_threads, const hsc_token *source, int n_source,
                            hsc__tokens *out, hsc_error *err);

/* HSC_EINVAL: a source longer than the encoder's context, a target longer than the decoder's. */
hsc_status hsc__source_fits(const hsc__opened *opened, size_t n_source, hsc_error *err);
hsc_status hsc__target_fits(const hsc__opened *opened, size_t n_target, hsc_error *err);

#endif
