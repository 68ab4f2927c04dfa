/*
 * Where an architecture file takes its numbers and tensors from: a Hugging Face folder or a GGUF file. Binding checks
 * presence, shape and type, and remembers which tensors were used, so that what nobody asked for can be named.
 */
#ifndef HSC_MODEL_SOURCE_H
#define HSC_MODEL_SOURCE_H

#include "base/alloc.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/tensors.h"
#include "model/desc.h"

typedef struct hsc__source {
    const char *path;        /* as the user gave it */
    const json_t *config;    /* config.json, or NULL for GGUF */
    const char *config_path; /* for messages */
    const hsc__gguf *gguf;   /* or NULL */
    const hsc__tensors *tensors;
    hsc__arena *arena;   /* lives as long as the model */
    const char *prefix;  /* put before every tensor name: "", "transformer.", "model." */
    unsigned char *used; /* [n_tensors] */
    const char *warnings[16];
    size_t n_warnings;
} hsc__source;

/* Sets src->prefix to the first of the NULL-terminated candidates under which `probe` exists; "" when none does. */
void hsc__source_prefix(hsc__source *src, const char *const *candidates, const char *probe);

/* True when prefix + name exists. */
bool hsc__source_has(const hsc__source *src, const char *name);

/* A matrix of exactly n_out x n_in (stored turned round when transposed). HSC_EFORMAT: absent or of another shape;
 * HSC_EUNSUPPORTED: a type that cannot be computed with. Names take printf arguments. */
hsc_status hsc__bind_matrix(hsc__source *src, hsc__weight *out, int64_t n_out, int64_t n_in, bool transposed,
                            hsc_error *err, const char *name, ...) HSC_PRINTF(7, 8);
/* A vector of n values as float32 in the arena. */
hsc_status hsc__bind_vector(hsc__source *src, const float **out, int64_t n, hsc_error *err, const char *name, ...)
    HSC_PRINTF(5, 6);
/* The same, *out NULL when the tensor is absent. */
hsc_status hsc__bind_vector_optional(hsc__source *src, const float **out, int64_t n, hsc_error *err, const char *name,
                                     ...) HSC_PRINTF(5, 6);

/* Outputs [first, first + n) of a fused matrix as a weight of its own. */
hsc__weight hsc__weight_part(const hsc__weight *whole, int first, int n);

/* Marks a tensor as known and not needed (buffers of older checkpoints). */
void hsc__source_ignore(hsc__source *src, const char *suffix);

/* Adds a remark for hsc_model_warning. Silently full after 16. */
void hsc__source_warn(hsc__source *src, const char *format, ...) HSC_PRINTF(2, 3);

/* One warning that names what no architecture field asked for. */
void hsc__source_warn_unused(hsc__source *src);

/* Integers of a configuration that must exist: the first of the names (field, or alias when not NULL) that is present.
 * low <= value <= high, else HSC_EFORMAT with file, field, value and limits. */
hsc_status hsc__config_int(const hsc__source *src, const char *field, const char *alias, int64_t low, int64_t high,
                           int *out, hsc_error *err);
/* With a default for absent and null. */
hsc_status hsc__config_int_or(const hsc__source *src, const char *field, const char *alias, int64_t fallback,
                              int64_t low, int64_t high, int *out, hsc_error *err);

/* The epsilon of a norm: a number from 0 up. */
hsc_status hsc__config_eps(const hsc__source *src, const char *field, float fallback, float *out, hsc_error *err);

/* A positive integer of the GGUF metadata that must exist. */
hsc_status hsc__meta_int(const hsc__source *src, const char *key, int64_t high, int *out, hsc_error *err);
/* The vocabulary of a GGUF model: rows of token_embd.weight. */
hsc_status hsc__meta_vocab(const hsc__source *src, int *out, hsc_error *err);

/* Activation by Hugging Face's name; HSC_EUNSUPPORTED names it and the field. */
hsc_status hsc__config_act(const hsc__source *src, const char *field, const char *fallback, hsc__act *out,
                           hsc_error *err);

/* Memory that lives as long as the model; NULL when out. */
void *hsc__source_alloc(hsc__source *src, size_t n_bytes);

/* hsc__nn_frequencies in memory of the model's. */
hsc_status hsc__make_inv_freq(hsc__source *src, const float **out, double base, int d_rot, hsc_error *err);

#endif
