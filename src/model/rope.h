/*
 * Rotary frequencies and their scalings, in the float32 steps of transformers, from config.json and from GGUF. What
 * makes a position's angle depend on how long the sequence is (dynamic, longrope) is computed as for sequences of the
 * length that the model was trained with, and the context ends there: a token's row never depends on later tokens.
 */
#ifndef HSC_MODEL_ROPE_H
#define HSC_MODEL_ROPE_H

#include "model/source.h"

/* What a family assumes where config.json is silent. */
typedef struct hsc__rope_defaults {
    double theta, partial; /* partial: the share of a head that is rotated; 0: the whole head, and no field says else */
    bool longrope;         /* old files call longrope "su" or "yarn" (Phi-3) */
    double original;       /* the length that the model was trained with, where the file says none; 0: its context */
} hsc__rope_defaults;

/* From rope_parameters (transformers 5), or rope_scaling and rope_theta beside it. Reads d_head and may lower n_ctx of
 * the configuration. HSC_EUNSUPPORTED names a kind of scaling that is not known. */
hsc_status hsc__rope_from_config(hsc__source *src, hsc_config *config, const hsc__rope_defaults *defaults,
                                 hsc__rope *out, hsc_error *err);

/* The same from one object, which may be NULL; `field` is its name for messages. */
hsc_status hsc__rope_from_object(hsc__source *src, hsc_config *config, const json_t *rope, const char *field,
                                 const hsc__rope_defaults *defaults, hsc__rope *out, hsc_error *err);

/* From the keys <arch>.rope.* and the tensors rope_freqs.weight or rope_factors_short.weight. */
hsc_status hsc__rope_from_gguf(hsc__source *src, hsc_config *config, hsc__rope *out, hsc_error *err);

/* inv_freq[i] = theta^(-2i/d_rot), rounded to float32 at each step as transformers computes it; d_rot is even. */
hsc_status hsc__rope_plain(hsc__source *src, double theta, int d_rot, hsc__rope *out, hsc_error *err);

#endif
