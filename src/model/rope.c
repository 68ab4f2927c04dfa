/* Frequencies first, then what a scaling makes of them. Sources: Su et al. 2021 (rotary), Chen et al. 2023 (linear),
 * Peng et al. 2023 (yarn), Ding et al. 2024 (longrope), and the Llama 3.1 release (llama3). */
#include "model/rope.h"

#include <math.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586;
static const double MAX_THETA = 1e30; /* past it no frequency but the first is told from 0 in float32 */

hsc_status hsc__rope_plain(hsc__source *src, double theta, int d_rot, hsc__rope *out, hsc_error *err)
{
    float *inv_freq = hsc__source_alloc(src, (size_t)(d_rot / 2) * sizeof *inv_freq);
    if (!inv_freq) return hsc__fail_memory(err, (size_t)d_rot * 2, "rotary frequencies");
    hsc__nn_frequencies(theta, d_rot, inv_freq);
    *out = (hsc__rope){.half = d_rot / 2, .inv_freq = inv_freq, .scale = 1};
    return HSC_OK;
}

static float *frequencies(const hsc__rope *rope)
{
    return hsc__bound_values(rope->inv_freq);
}

static void scale_linear(hsc__rope *rope, double factor)
{
    for (int i = 0; i < rope->half; i++) frequencies(rope)[i] /= (float)factor;
}

/* Long waves are stretched, short ones kept, those between blended. */
static void scale_llama3(hsc__rope *rope, double factor, double low, double high, double original)
{
    float *f = frequencies(rope), span = (float)(high - low);
    for (int i = 0; i < rope->half; i++) {
        float wave = (float)TWO_PI / f[i];
        if (wave < (float)(original / high)) continue;
        float smooth = ((float)original / wave - (float)low) / span;
        if (wave > (float)(original / low)) f[i] = f[i] / (float)factor;
        else f[i] = (1 - smooth) * f[i] / (float)factor + smooth * f[i];
    }
}

typedef struct {
    double factor, original, beta_fast, beta_slow;
    bool truncate;
} yarn;

/* The pair that turns `rotations` times over the original context. */
static double turning_pair(double rotations, int d_rot, double theta, double original)
{
    return d_rot * log(original / (rotations * TWO_PI)) / (2 * log(theta));
}

/* Pairs below `low` keep their frequency, those from `high` on are stretched. */
static void scale_yarn(hsc__rope *rope, double theta, const yarn *y)
{
    int d_rot = 2 * rope->half;
    float *f = frequencies(rope);
    double low = turning_pair(y->beta_fast, d_rot, theta, y->original);
    double high = turning_pair(y->beta_slow, d_rot, theta, y->original);
    if (y->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, d_rot - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < rope->half; i++) {
        float wave = (float)pow(theta, (double)((float)(2 * i) / (float)d_rot));
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float keep = 1 - ramp;
        f[i] = 1 / ((float)y->factor * wave) * (1 - keep) + 1 / wave * keep;
    }
}

/* yarn's factor of sines and cosines. */
static double yarn_scale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* ------------------------------------------------------------------------------------------- from config.json ---- */

typedef struct {
    hsc__source *src;
    hsc_config *config;
    const json_t *rope;
    const char *field;
    double theta;
    double original; /* original_max_position_embeddings beside the object, which goes before that in it; 0: none */
} reader;

static hsc_status number(const reader *r, const char *name, double fallback, double *out, hsc_error *err)
{
    return hsc__json_double(r->rope, name, fallback, out, r->src->config_path, err);
}

/* A number above 0 that must be there. */
static hsc_status positive(const reader *r, const char *name, double *out, hsc_error *err)
{
    HSC_TRY(number(r, name, NAN, out, err));
    HSC_FAIL_IF(isnan(*out), HSC_EFORMAT, "%s: field \"%s.%s\" is missing", r->src->config_path, r->field, name);
    HSC_FAIL_IF(!(*out > 0), HSC_EFORMAT, "%s: field \"%s.%s\" is %g and must be above 0", r->src->config_path,
                r->field, name, *out);
    return HSC_OK;
}

/* The length that the model was trained with. */
static hsc_status original_length(const reader *r, double *out, hsc_error *err)
{
    HSC_TRY(number(r, "original_max_position_embeddings", r->config->n_ctx, out, err));
    if (r->original != 0) *out = r->original;
    HSC_FAIL_IF(!(*out >= 1), HSC_EFORMAT, "%s: field \"%s.original_max_position_embeddings\" is %g and must be from 1",
                r->src->config_path, r->field, *out);
    return HSC_OK;
}

static hsc_status read_llama3(const reader *r, hsc__rope *out, hsc_error *err)
{
    double factor, low, high, original;
    HSC_TRY(positive(r, "factor", &factor, err));
    HSC_TRY(positive(r, "low_freq_factor", &low, err));
    HSC_TRY(positive(r, "high_freq_factor", &high, err));
    HSC_TRY(original_length(r, &original, err));
    HSC_FAIL_IF(!(high > low), HSC_EFORMAT, "%s: field \"%s.high_freq_factor\" is %g, not above low_freq_factor %g",
                r->src->config_path, r->field, high, low);
    scale_llama3(out, factor, low, high, original);
    return HSC_OK;
}

static hsc_status read_yarn(const reader *r, hsc__rope *out, hsc_error *err)
{
    yarn y;
    double attention, m, m_all;
    HSC_TRY(original_length(r, &y.original, err));
    HSC_TRY(positive(r, "factor", &y.factor, err));
    HSC_TRY(number(r, "beta_fast", 32, &y.beta_fast, err));
    HSC_TRY(number(r, "beta_slow", 1, &y.beta_slow, err));
    HSC_TRY(number(r, "attention_factor", NAN, &attention, err));
    HSC_TRY(number(r, "mscale", 0, &m, err));
    HSC_TRY(number(r, "mscale_all_dim", 0, &m_all, err));
    HSC_TRY(hsc__json_bool(r->rope, "truncate", true, &y.truncate, r->src->config_path, err));
    if (y.beta_fast == 0) y.beta_fast = 32;
    if (y.beta_slow == 0) y.beta_slow = 1;
    HSC_FAIL_IF(!(y.beta_fast > 0 && y.beta_slow > 0 && r->theta > 1), HSC_EFORMAT,
                "%s: field \"%s\": beta_fast, beta_slow and rope_theta - 1 must be above 0", r->src->config_path,
                r->field);
    scale_yarn(out, r->theta, &y);
    if (isnan(attention))
        attention =
            m != 0 && m_all != 0 ? yarn_scale(y.factor, m) / yarn_scale(y.factor, m_all) : yarn_scale(y.factor, 1);
    out->scale = (float)attention;
    return HSC_OK;
}

/* Each frequency has a divisor of its own: one list up to the original length and another past it. */
static hsc_status read_longrope(const reader *r, hsc__rope *out, hsc_error *err)
{
    const json_t *list = json_object_get(r->rope, "short_factor");
    double original, factor, attention;
    HSC_TRY(original_length(r, &original, err));
    HSC_FAIL_IF(!(original > 1), HSC_EFORMAT, "%s: field \"original_max_position_embeddings\" is %g, below 2",
                r->src->config_path, original);
    HSC_TRY(number(r, "factor", r->config->n_ctx / original, &factor, err));
    HSC_TRY(number(r, "attention_factor", factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original)), &attention, err));
    HSC_FAIL_IF(!json_is_array(list) || json_array_size(list) != (size_t)out->half, HSC_EFORMAT,
                "%s: field \"%s.short_factor\" must be a list of %d numbers", r->src->config_path, r->field, out->half);
    for (int i = 0; i < out->half; i++) {
        double divisor = json_number_value(json_array_get(list, (size_t)i));
        HSC_FAIL_IF(!(divisor > 0), HSC_EFORMAT, "%s: field \"%s.short_factor\": number %d must be above 0",
                    r->src->config_path, r->field, i);
        float exponent = (float)(2 * i) / (float)(2 * out->half);
        frequencies(out)[i] = 1.0f / ((float)divisor * (float)pow(r->theta, (double)exponent));
    }
    out->scale = (float)attention;
    if (original < r->config->n_ctx) {
        hsc__source_warn(r->src,
                         "%s: longrope: the context ends at the original %d tokens, past which other frequencies hold",
                         r->src->path, (int)original);
        r->config->n_ctx = (int)original;
    }
    return HSC_OK;
}

/* Settings of their own for each kind of layer belong to the families that ask for them. */
static hsc_status refuse_nested(const reader *r, hsc_error *err)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->rope, name, value)
    {
        HSC_FAIL_IF(json_is_object(value), HSC_EUNSUPPORTED,
                    "%s: field \"%s.%s\": settings a layer kind are not supported", r->src->config_path, r->field,
                    name);
    }
    return HSC_OK;
}

static hsc_status apply_kind(const reader *r, const hsc__rope_defaults *defaults, hsc__rope *out, hsc_error *err)
{
    const char *old, *kind;
    HSC_TRY(hsc__json_string(r->rope, "type", "default", &old, r->src->config_path, err));
    HSC_TRY(hsc__json_string(r->rope, "rope_type", old, &kind, r->src->config_path, err));
    out->scaled = strcmp(kind, "default") != 0;
    if (!out->scaled) return HSC_OK;
    if (defaults->longrope && (strcmp(kind, "su") == 0 || strcmp(kind, "yarn") == 0)) kind = "longrope";
    if (strcmp(kind, "longrope") == 0) return read_longrope(r, out, err);
    if (strcmp(kind, "llama3") == 0) return read_llama3(r, out, err);
    if (strcmp(kind, "yarn") == 0) return read_yarn(r, out, err);
    double factor;
    if (strcmp(kind, "linear") == 0 || strcmp(kind, "dynamic") == 0) {
        HSC_TRY(positive(r, "factor", &factor, err));
        if (*kind == 'l') scale_linear(out, factor);
        else /* nothing changes up to max_position_embeddings */
            hsc__source_warn(r->src,
                             "%s: dynamic: the context ends at %d tokens, past which the frequencies change with the "
                             "length of the text",
                             r->src->path, r->config->n_ctx);
        return HSC_OK;
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: field \"%s\": rotary scaling \"%s\" is not supported",
                     r->src->config_path, r->field, kind);
}

hsc_status hsc__rope_from_object(hsc__source *src, hsc_config *config, const json_t *rope, const char *field,
                                 const hsc__rope_defaults *defaults, hsc__rope *out, hsc_error *err)
{
    reader r = {.src = src, .config = config, .rope = rope, .field = field, .original = defaults->original};
    double partial;
    HSC_FAIL_IF(rope && !json_is_null(rope) && !json_is_object(rope), HSC_EFORMAT, "%s: field \"%s\" is not an object",
                src->config_path, field);
    if (!json_is_object(rope)) r.rope = NULL;
    HSC_TRY(refuse_nested(&r, err));
    HSC_TRY(number(&r, "rope_theta", defaults->theta, &r.theta, err));
    HSC_TRY(number(&r, "partial_rotary_factor", defaults->partial == 0 ? 1 : defaults->partial, &partial, err));
    HSC_FAIL_IF(partial != 1 && defaults->partial == 0, HSC_EUNSUPPORTED,
                "%s: field \"partial_rotary_factor\" is %g: this architecture rotates whole heads", src->config_path,
                partial);
    HSC_FAIL_IF(!(r.theta > 0 && r.theta <= MAX_THETA), HSC_EFORMAT,
                "%s: field \"rope_theta\" is %g, above 0 to %g is accepted", src->config_path, r.theta, MAX_THETA);
    HSC_FAIL_IF(!(partial > 0 && partial <= 1), HSC_EFORMAT,
                "%s: the share of a head that is rotated is %g, above 0 to 1 is accepted", src->config_path, partial);
    int d_rot = (int)(config->d_head * partial);
    HSC_FAIL_IF(d_rot % 2 != 0 || d_rot < 2, HSC_EFORMAT,
                "%s: %d of a head's %d values are rotated, rotary positions need pairs", src->config_path, d_rot,
                config->d_head);
    HSC_TRY(hsc__rope_plain(src, r.theta, d_rot, out, err));
    return r.rope ? apply_kind(&r, defaults, out, err) : HSC_OK;
}

hsc_status hsc__rope_from_config(hsc__source *src, hsc_config *config, const hsc__rope_defaults *defaults,
                                 hsc__rope *out, hsc_error *err)
{
    hsc__rope_defaults d = *defaults;
    const char *field = "rope_scaling";
    const json_t *rope = json_object_get(src->config, field);
    if (!rope || json_is_null(rope)) rope = json_object_get(src->config, field = "rope_parameters");
    HSC_TRY(hsc__json_double(src->config, "rope_theta", d.theta, &d.theta, src->config_path, err));
    HSC_TRY(hsc__json_double(src->config, "original_max_position_embeddings", d.original, &d.original, src->config_path,
                             err));
    if (d.partial != 0)
        HSC_TRY(hsc__json_double(src->config, "partial_rotary_factor", d.partial, &d.partial, src->config_path, err));
    else HSC_TRY(hsc__config_refuse(src, "partial_rotary_factor", err));
    return hsc__rope_from_object(src, config, rope, field, &d, out, err);
}

/* ------------------------------------------------------------------------------------------------- from GGUF ---- */

/* Divisors of the frequencies, one each (llama3's scaling, or longrope's for short sequences). */
static hsc_status divide_by_tensor(hsc__source *src, const char *name, hsc__rope *rope, hsc_error *err)
{
    const float *divisors;
    HSC_TRY(hsc__bind_vector_optional(src, &divisors, rope->half, err, "%s", name));
    for (int i = 0; divisors && i < rope->half; i++) {
        HSC_FAIL_IF(!(divisors[i] > 0), HSC_EFORMAT, "%s: tensor %s: value %d must be above 0", src->path, name, i);
        frequencies(rope)[i] /= divisors[i];
        rope->scaled = true;
    }
    return HSC_OK;
}

static hsc_status gguf_yarn(hsc__source *src, const hsc_config *config, double theta, double factor, hsc__rope *out,
                            hsc_error *err)
{
    yarn y = {.factor = factor, .truncate = true};
    double attention;
    HSC_TRY(hsc__meta_double(src, "rope.scaling.original_context_length", config->n_ctx, &y.original, err));
    HSC_TRY(hsc__meta_double(src, "rope.scaling.yarn_beta_fast", 32, &y.beta_fast, err));
    HSC_TRY(hsc__meta_double(src, "rope.scaling.yarn_beta_slow", 1, &y.beta_slow, err));
    HSC_TRY(hsc__meta_double(src, "rope.scaling.attn_factor", 1, &attention, err));
    HSC_FAIL_IF(!(factor > 0 && y.original >= 1 && y.beta_fast > 0 && y.beta_slow > 0 && theta > 1), HSC_EFORMAT,
                "%s: keys %s.rope.scaling.*: yarn needs numbers above 0", src->path, src->arch);
    scale_yarn(out, theta, &y);
    out->scale = (float)(attention * yarn_scale(factor, 1));
    return HSC_OK;
}

static hsc_status gguf_longrope(hsc__source *src, hsc_config *config, hsc__rope *out, hsc_error *err)
{
    double original, attention;
    HSC_TRY(hsc__meta_double(src, "rope.scaling.original_context_length", config->n_ctx, &original, err));
    HSC_TRY(hsc__meta_double(src, "rope.scaling.attn_factor", 1, &attention, err));
    HSC_FAIL_IF(!(original >= 1), HSC_EFORMAT, "%s: key %s.rope.scaling.original_context_length must be from 1",
                src->path, src->arch);
    HSC_TRY(divide_by_tensor(src, "rope_factors_short.weight", out, err));
    hsc__source_ignore(src, "rope_factors_long.weight");
    out->scale = (float)attention;
    if (original < config->n_ctx) {
        hsc__source_warn(src,
                         "%s: longrope: the context ends at the original %d tokens, past which other frequencies hold",
                         src->path, (int)original);
        config->n_ctx = (int)original;
    }
    return HSC_OK;
}

/* A file that names no kind of scaling and has a factor means linear scaling; the first ones wrote the factor under
 * another key. */
static hsc_status gguf_kind(hsc__source *src, hsc_config *config, double theta, hsc__rope *out, hsc_error *err)
{
    const char *kind;
    double old, factor;
    HSC_TRY(hsc__meta_string(src, "rope.scaling.type", NULL, &kind, err));
    HSC_TRY(hsc__meta_double(src, "rope.scale_linear", 1, &old, err));
    HSC_TRY(hsc__meta_double(src, "rope.scaling.factor", old, &factor, err));
    if (hsc__source_has(src, "rope_factors_short.weight")) kind = "longrope";
    if (!kind) kind = factor != 0 && factor != 1 ? "linear" : "none";
    out->scaled = strcmp(kind, "none") != 0;
    if (!out->scaled) return HSC_OK;
    if (strcmp(kind, "longrope") == 0) return gguf_longrope(src, config, out, err);
    if (strcmp(kind, "yarn") == 0) return gguf_yarn(src, config, theta, factor, out, err);
    HSC_FAIL_IF(strcmp(kind, "linear") != 0, HSC_EUNSUPPORTED,
                "%s: key %s.rope.scaling.type: rotary scaling \"%s\" is not supported", src->path, src->arch, kind);
    HSC_FAIL_IF(!(factor > 0), HSC_EFORMAT, "%s: key %s.rope.scaling.factor must be above 0", src->path, src->arch);
    scale_linear(out, factor);
    return HSC_OK;
}

hsc_status hsc__rope_from_gguf(hsc__source *src, hsc_config *config, hsc__rope *out, hsc_error *err)
{
    int d_rot;
    double theta;
    HSC_TRY(hsc__meta_int_or(src, "rope.dimension_count", config->d_head, 2, config->d_head, &d_rot, err));
    HSC_TRY(hsc__meta_double(src, "rope.freq_base", 10000, &theta, err));
    HSC_FAIL_IF(!(theta > 0 && theta <= MAX_THETA), HSC_EFORMAT, "%s: key %s.rope.freq_base must be above 0 to %g",
                src->path, src->arch, MAX_THETA);
    HSC_FAIL_IF(d_rot % 2 != 0, HSC_EFORMAT, "%s: key %s.rope.dimension_count: %d is odd, rotary positions need pairs",
                src->path, src->arch, d_rot);
    HSC_TRY(hsc__rope_plain(src, theta, d_rot, out, err));
    HSC_TRY(gguf_kind(src, config, theta, out, err));
    return divide_by_tensor(src, "rope_freqs.weight", out, err);
}
