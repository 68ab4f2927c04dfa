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
    const char *arch;        /* of a GGUF file: what its keys begin with */
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

/* A vector that the forward pass reads changed; only its binder, before anybody else has seen it. */
static inline float *hsc__bound_values(const float *values)
{
    return (float *)(uintptr_t)values;
}

typedef enum { HSC__NO_BIAS, HSC__BIAS, HSC__BIAS_IF_THERE } hsc__bias;

/* `name`.weight, a matrix of n_out x n_in, and `name`.bias. */
hsc_status hsc__bind_linear(hsc__source *src, hsc__weight *out, int64_t n_out, int64_t n_in, hsc__bias bias,
                            hsc_error *err, const char *name, ...) HSC_PRINTF(7, 8);
/* The gain `name`.weight (.gamma in old files) and the bias `name`.bias (.beta). */
hsc_status hsc__bind_norm(hsc__source *src, hsc__norm *out, int64_t n, hsc__bias bias, hsc_error *err, const char *name,
                          ...) HSC_PRINTF(6, 7);

/* Outputs [first, first + n) of a fused matrix as a weight of its own. */
hsc__weight hsc__weight_part(const hsc__weight *whole, int first, int n);

/* Marks a tensor as known and not needed (buffers of older checkpoints). */
void hsc__source_ignore(hsc__source *src, const char *suffix);

/* The same for every tensor of a part of the model that is not computed; `part` ends in a dot and stands at the start
 * of a name, or behind "model.". */
void hsc__source_ignore_part(hsc__source *src, const char *part);

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

/* True when the field is there and null, which may mean something else than its absence. */
bool hsc__config_is_null(const hsc__source *src, const char *field);

/* HSC_EUNSUPPORTED when the field has a value: it would change the result and this family has no place for it. */
hsc_status hsc__config_refuse(const hsc__source *src, const char *field, hsc_error *err);

/* GGUF metadata. Keys are given without the architecture that they begin with. A positive integer that must exist. */
hsc_status hsc__meta_int(const hsc__source *src, const char *key, int64_t high, int *out, hsc_error *err);
/* With a fallback where the key is absent. */
hsc_status hsc__meta_int_or(const hsc__source *src, const char *key, int64_t fallback, int64_t low, int64_t high,
                            int *out, hsc_error *err);
hsc_status hsc__meta_double(const hsc__source *src, const char *key, double fallback, double *out, hsc_error *err);
hsc_status hsc__meta_bool(const hsc__source *src, const char *key, bool fallback, bool *out, hsc_error *err);
hsc_status hsc__meta_string(const hsc__source *src, const char *key, const char *fallback, const char **out,
                            hsc_error *err);
/* The vocabulary of a GGUF model: rows of token_embd.weight. */
hsc_status hsc__meta_vocab(const hsc__source *src, int *out, hsc_error *err);
/* d_model, n_layers, n_heads, n_ctx and d_mlp: the keys that every architecture of one stack has. */
hsc_status hsc__meta_sizes(const hsc__source *src, hsc_config *out, hsc_error *err);
/* Rows of a matrix; 0 when there is no such tensor. */
hsc_status hsc__source_rows(const hsc__source *src, const char *name, int *out, hsc_error *err);

/* Activation by Hugging Face's name; HSC_EUNSUPPORTED names it and the field. */
hsc_status hsc__config_act(const hsc__source *src, const char *field, const char *fallback, hsc__act *out,
                           hsc_error *err);

/* The same of a name that the field gave; a field may hold more than the name (T5). */
hsc_status hsc__act_find(const hsc__source *src, const char *field, const char *name, hsc__act *out, hsc_error *err);

/* Memory that lives as long as the model; NULL when out. */
void *hsc__source_alloc(hsc__source *src, size_t n_bytes);

#endif
