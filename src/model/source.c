/* Binding of names to tensors and fields, with every check that a hostile or foreign checkpoint needs. */
#include "model/source.h"

#include "base/dtype.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256, MAX_VOCAB = 1 << 24 };

void *hsc__source_alloc(hsc__source *src, size_t n_bytes)
{
    return hsc__arena_alloc(src->arena, n_bytes);
}

static void full_name(char *out, const hsc__source *src, const char *name)
{
    snprintf(out, NAME_MAX_BYTES, "%s%s", src->prefix ? src->prefix : "", name);
}

bool hsc__source_has(const hsc__source *src, const char *name)
{
    char full[NAME_MAX_BYTES];
    full_name(full, src, name);
    return hsc__tensors_find(src->tensors, full) != NULL;
}

void hsc__source_prefix(hsc__source *src, const char *const *candidates, const char *probe)
{
    for (; *candidates; candidates++) {
        src->prefix = *candidates;
        if (hsc__source_has(src, probe)) return;
    }
    src->prefix = "";
}

/* Finds a tensor and marks it as used; NULL when absent. */
static const hsc__tensor *take(hsc__source *src, const char *full)
{
    const hsc__tensor *t = hsc__tensors_find(src->tensors, full);
    if (t) src->used[t - hsc__tensors_at(src->tensors, 0)] = 1;
    return t;
}

static void shape_text(char *out, size_t capacity, const hsc__tensor *t)
{
    size_t at = 0;
    for (int i = 0; i < t->n_dims && at < capacity; i++)
        at += (size_t)snprintf(out + at, capacity - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (t->n_dims == 0) snprintf(out, capacity, "%s", "");
}

static hsc_status check_type(const hsc__tensor *t, hsc_error *err)
{
    HSC_FAIL_IF(!hsc__kernels_can_read(t->dtype), HSC_EUNSUPPORTED, "%s: tensor %s has type %s, which is not supported",
                t->path, t->name, t->dtype_name);
    return HSC_OK;
}

static hsc_status bind_matrix(hsc__source *src, hsc__weight *out, int64_t n_out, int64_t n_in, bool transposed,
                              const char *full, hsc_error *err)
{
    const hsc__tensor *t = take(src, full);
    HSC_FAIL_IF(!t, HSC_EFORMAT, "%s: tensor %s is missing", src->path, full);
    int64_t rows = transposed ? n_in : n_out, columns = transposed ? n_out : n_in;
    if (t->n_dims != 2 || t->shape[0] != rows || t->shape[1] != columns) {
        char have[128];
        shape_text(have, sizeof have, t);
        return hsc__fail(err, HSC_EFORMAT, 0, "%s: tensor %s has shape [%s], the configuration asks for [%lld, %lld]",
                         t->path, full, have, (long long)rows, (long long)columns);
    }
    HSC_TRY(check_type(t, err));
    HSC_FAIL_IF(columns % hsc__dtype_block(t->dtype) != 0, HSC_EFORMAT,
                "%s: tensor %s: rows of %lld values are not whole %s blocks", t->path, full, (long long)columns,
                t->dtype_name);
    *out = (hsc__weight){.dtype = t->dtype,
                         .transposed = transposed,
                         .n_out = (int)n_out,
                         .n_in = n_in,
                         .row_bytes = hsc__dtype_bytes(t->dtype, (size_t)columns),
                         .data = t->data};
    return HSC_OK;
}

#define FORMAT_NAME(full)                                                                                              \
    char part_[NAME_MAX_BYTES], full[NAME_MAX_BYTES];                                                                  \
    va_list args_;                                                                                                     \
    va_start(args_, name);                                                                                             \
    vsnprintf(part_, sizeof part_, name, args_);                                                                       \
    va_end(args_);                                                                                                     \
    if (snprintf(full, sizeof full, "%s%s", src->prefix ? src->prefix : "", part_) >= (int)sizeof full)                \
    return hsc__fail(err, HSC_EFORMAT, 0, "%s: a tensor name is too long", src->path)

hsc_status hsc__bind_matrix(hsc__source *src, hsc__weight *out, int64_t n_out, int64_t n_in, bool transposed,
                            hsc_error *err, const char *name, ...)
{
    FORMAT_NAME(full);
    return bind_matrix(src, out, n_out, n_in, transposed, full, err);
}

static hsc_status bind_vector(hsc__source *src, const float **out, int64_t n, bool optional, const char *full,
                              hsc_error *err)
{
    *out = NULL;
    const hsc__tensor *t = take(src, full);
    if (!t && optional) return HSC_OK;
    HSC_FAIL_IF(!t, HSC_EFORMAT, "%s: tensor %s is missing", src->path, full);
    if (t->n_dims != 1 || t->shape[0] != n) {
        char have[128];
        shape_text(have, sizeof have, t);
        return hsc__fail(err, HSC_EFORMAT, 0, "%s: tensor %s has shape [%s], the configuration asks for [%lld]",
                         t->path, full, have, (long long)n);
    }
    HSC_TRY(check_type(t, err));
    float *values = hsc__source_alloc(src, (size_t)n * sizeof *values);
    if (!values) return hsc__fail_memory(err, (size_t)n * sizeof *values, full);
    hsc__kernels_ref()->dequantise(t->dtype, t->data, n, values);
    *out = values;
    return HSC_OK;
}

hsc_status hsc__bind_vector(hsc__source *src, const float **out, int64_t n, hsc_error *err, const char *name, ...)
{
    FORMAT_NAME(full);
    return bind_vector(src, out, n, false, full, err);
}

hsc_status hsc__bind_vector_optional(hsc__source *src, const float **out, int64_t n, hsc_error *err, const char *name,
                                     ...)
{
    FORMAT_NAME(full);
    return bind_vector(src, out, n, true, full, err);
}

/* Formats "<name><suffix>" into full; false when it does not fit. */
static bool suffixed(char *full, const char *stem, const char *suffix)
{
    return snprintf(full, NAME_MAX_BYTES, "%s%s", stem, suffix) < NAME_MAX_BYTES;
}

hsc_status hsc__bind_linear(hsc__source *src, hsc__weight *out, int64_t n_out, int64_t n_in, hsc__bias bias,
                            hsc_error *err, const char *name, ...)
{
    char weight[NAME_MAX_BYTES], vector[NAME_MAX_BYTES];
    const float *values = NULL;
    FORMAT_NAME(full);
    HSC_FAIL_IF(!suffixed(weight, full, ".weight") || !suffixed(vector, full, ".bias"), HSC_EFORMAT,
                "%s: a tensor name is too long", src->path);
    HSC_TRY(bind_matrix(src, out, n_out, n_in, false, weight, err));
    if (bias != HSC__NO_BIAS) HSC_TRY(bind_vector(src, &values, n_out, bias == HSC__BIAS_IF_THERE, vector, err));
    out->bias = values;
    return HSC_OK;
}

hsc_status hsc__bind_norm(hsc__source *src, hsc__norm *out, int64_t n, hsc__bias bias, hsc_error *err, const char *name,
                          ...)
{
    char gain[NAME_MAX_BYTES], vector[NAME_MAX_BYTES];
    FORMAT_NAME(full);
    HSC_FAIL_IF(!suffixed(gain, full, ".gamma") || !suffixed(vector, full, ".beta"), HSC_EFORMAT,
                "%s: a tensor name is too long", src->path);
    if (!hsc__tensors_find(src->tensors, gain)) suffixed(gain, full, ".weight");
    if (!hsc__tensors_find(src->tensors, vector)) suffixed(vector, full, ".bias");
    *out = (hsc__norm){.present = true};
    HSC_TRY(bind_vector(src, &out->gain, n, false, gain, err));
    if (bias != HSC__NO_BIAS) HSC_TRY(bind_vector(src, &out->bias, n, bias == HSC__BIAS_IF_THERE, vector, err));
    return HSC_OK;
}

hsc__weight hsc__weight_part(const hsc__weight *whole, int first, int n)
{
    hsc__weight part = *whole;
    size_t skip = whole->transposed ? hsc__dtype_bytes(whole->dtype, (size_t)first) : (size_t)first * whole->row_bytes;
    part.data = (const char *)whole->data + skip;
    part.n_out = n;
    if (whole->bias) part.bias = whole->bias + first;
    return part;
}

void hsc__source_ignore(hsc__source *src, const char *suffix)
{
    for (size_t i = 0; i < hsc__tensors_count(src->tensors); i++) {
        if (hsc__ends_with(hsc__tensors_at(src->tensors, i)->name, suffix)) src->used[i] = 1;
    }
}

void hsc__source_ignore_part(hsc__source *src, const char *part)
{
    static const char outer[] = "model.";
    for (size_t i = 0; i < hsc__tensors_count(src->tensors); i++) {
        const char *name = hsc__tensors_at(src->tensors, i)->name;
        if (strncmp(name, outer, sizeof outer - 1) == 0) name += sizeof outer - 1;
        if (strncmp(name, part, strlen(part)) == 0) src->used[i] = 1;
    }
}

void hsc__source_warn(hsc__source *src, const char *format, ...)
{
    char text[512];
    va_list args;
    if (src->n_warnings == sizeof src->warnings / sizeof *src->warnings) return;
    va_start(args, format);
    int n = hsc__format(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) return;
    const char *copy = hsc__arena_strndup(src->arena, text, strlen(text));
    if (copy) src->warnings[src->n_warnings++] = copy;
}

void hsc__source_warn_unused(hsc__source *src)
{
    size_t count = hsc__tensors_count(src->tensors), n_unused = 0, first = 0;
    for (size_t i = 0; i < count; i++) {
        if (!src->used[i] && n_unused++ == 0) first = i;
    }
    if (n_unused == 1)
        hsc__source_warn(src, "%s: tensor %s is not used", src->path, hsc__tensors_at(src->tensors, first)->name);
    else if (n_unused)
        hsc__source_warn(src, "%s: %zu tensors are not used, the first is %s", src->path, n_unused,
                         hsc__tensors_at(src->tensors, first)->name);
}

/* The name under which a field stands, `field` winning over `alias`; NULL when absent or null. */
static const char *present(const hsc__source *src, const char *field, const char *alias)
{
    const char *names[2] = {field, alias};
    for (int i = 0; i < 2; i++) {
        if (!names[i]) continue;
        const json_t *value = json_object_get(src->config, names[i]);
        if (value && !json_is_null(value)) return names[i];
    }
    return NULL;
}

hsc_status hsc__config_int_or(const hsc__source *src, const char *field, const char *alias, int64_t fallback,
                              int64_t low, int64_t high, int *out, hsc_error *err)
{
    const char *name = present(src, field, alias);
    int64_t value = fallback;
    if (name) HSC_TRY(hsc__json_int(src->config, name, fallback, low, high, &value, src->config_path, err));
    *out = (int)value;
    return HSC_OK;
}

hsc_status hsc__config_int(const hsc__source *src, const char *field, const char *alias, int64_t low, int64_t high,
                           int *out, hsc_error *err)
{
    HSC_FAIL_IF(!present(src, field, alias), HSC_EFORMAT, "%s: field \"%s\" is missing", src->config_path, field);
    return hsc__config_int_or(src, field, alias, 0, low, high, out, err);
}

hsc_status hsc__config_eps(const hsc__source *src, const char *field, float fallback, float *out, hsc_error *err)
{
    double value;
    HSC_TRY(hsc__json_double(src->config, field, (double)fallback, &value, src->config_path, err));
    HSC_FAIL_IF(!(value >= 0 && value < 1), HSC_EFORMAT, "%s: field \"%s\" must be from 0 up and below 1",
                src->config_path, field);
    *out = (float)value;
    return HSC_OK;
}

bool hsc__config_is_null(const hsc__source *src, const char *field)
{
    return json_is_null(json_object_get(src->config, field));
}

hsc_status hsc__config_refuse(const hsc__source *src, const char *field, hsc_error *err)
{
    HSC_FAIL_IF(present(src, field, NULL), HSC_EUNSUPPORTED, "%s: field \"%s\" is not supported for this architecture",
                src->config_path, field);
    return HSC_OK;
}

/* "<architecture>.<key>", cut when longer than any key that exists. */
static const char *full_key(const hsc__source *src, const char *key, char out[NAME_MAX_BYTES])
{
    snprintf(out, NAME_MAX_BYTES, "%s.%s", src->arch, key);
    return out;
}

hsc_status hsc__meta_int(const hsc__source *src, const char *key, int64_t high, int *out, hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    HSC_FAIL_IF(!hsc__gguf_has(src->gguf, full_key(src, key, full)), HSC_EFORMAT, "%s: key %s is missing", src->path,
                full);
    return hsc__meta_int_or(src, key, 0, 1, high, out, err);
}

hsc_status hsc__meta_int_or(const hsc__source *src, const char *key, int64_t fallback, int64_t low, int64_t high,
                            int *out, hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    int64_t value;
    HSC_TRY(hsc__gguf_get_int(src->gguf, full_key(src, key, full), fallback, low, high, &value, err));
    *out = (int)value;
    return HSC_OK;
}

hsc_status hsc__meta_double(const hsc__source *src, const char *key, double fallback, double *out, hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    return hsc__gguf_get_double(src->gguf, full_key(src, key, full), fallback, out, err);
}

hsc_status hsc__meta_bool(const hsc__source *src, const char *key, bool fallback, bool *out, hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    return hsc__gguf_get_bool(src->gguf, full_key(src, key, full), fallback, out, err);
}

hsc_status hsc__meta_string(const hsc__source *src, const char *key, const char *fallback, const char **out,
                            hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    return hsc__gguf_get_cstring(src->gguf, full_key(src, key, full), fallback, out, err);
}

hsc_status hsc__source_rows(const hsc__source *src, const char *name, int *out, hsc_error *err)
{
    char full[NAME_MAX_BYTES];
    full_name(full, src, name);
    const hsc__tensor *t = hsc__tensors_find(src->tensors, full);
    *out = 0;
    if (!t) return HSC_OK;
    HSC_FAIL_IF(t->n_dims != 2 || t->shape[0] < 1 || t->shape[0] > MAX_VOCAB, HSC_EFORMAT,
                "%s: tensor %s must be a matrix of 1 to %d rows", src->path, full, MAX_VOCAB);
    *out = (int)t->shape[0];
    return HSC_OK;
}

hsc_status hsc__meta_sizes(const hsc__source *src, hsc_config *out, hsc_error *err)
{
    HSC_TRY(hsc__meta_int(src, "embedding_length", 1 << 20, &out->d_model, err));
    HSC_TRY(hsc__meta_int(src, "block_count", 4096, &out->n_layers, err));
    HSC_TRY(hsc__meta_int(src, "attention.head_count", 4096, &out->n_heads, err));
    HSC_TRY(hsc__meta_int(src, "context_length", 1 << 24, &out->n_ctx, err));
    return hsc__meta_int(src, "feed_forward_length", 1 << 24, &out->d_mlp, err);
}

hsc_status hsc__meta_vocab(const hsc__source *src, int *out, hsc_error *err)
{
    HSC_TRY(hsc__source_rows(src, "token_embd.weight", out, err));
    HSC_FAIL_IF(*out == 0, HSC_EFORMAT, "%s: tensor token_embd.weight is missing", src->path);
    return HSC_OK;
}

hsc_status hsc__act_find(const hsc__source *src, const char *field, const char *name, hsc__act *out, hsc_error *err)
{
    static const struct {
        const char *name;
        hsc__act act;
    } known[] = {
        {"gelu", HSC__ACT_GELU},           {"gelu_python", HSC__ACT_GELU},
        {"gelu_new", HSC__ACT_GELU_TANH},  {"gelu_pytorch_tanh", HSC__ACT_GELU_TANH},
        {"gelu_fast", HSC__ACT_GELU_TANH}, {"gelu_accurate", HSC__ACT_GELU_TANH},
        {"relu", HSC__ACT_RELU},           {"silu", HSC__ACT_SILU},
        {"swish", HSC__ACT_SILU},          {"tanh", HSC__ACT_TANH},
        {"linear", HSC__ACT_NONE},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].act;
            return HSC_OK;
        }
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: field \"%s\": activation \"%s\" is not supported", src->config_path,
                     field, name);
}

hsc_status hsc__config_act(const hsc__source *src, const char *field, const char *fallback, hsc__act *out,
                           hsc_error *err)
{
    const char *name;
    HSC_TRY(hsc__json_string(src->config, field, fallback, &name, src->config_path, err));
    return hsc__act_find(src, field, name, out, err);
}
