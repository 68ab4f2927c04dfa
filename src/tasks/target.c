/* How the text that an encoder-decoder writes begins and ends, and by which rules it is written, as its files say it:
 * generation_config.json where there is one, else config.json with what its family takes for granted, or GGUF's
 * metadata. Of a decoder's file only, which of its rules is not followed. */
#include "base/file.h"
#include "formats/json.h"
#include "model/model.h"
#include "tasks/settings.h"

#include <string.h>

/* What transformers' configurations hold where the file is silent; -1: nothing. */
static const struct {
    const char *arch;
    int64_t start, end;
} families[] = {{"bart", 2, 2}, {"marian", 58100, 0}, {"t5", -1, -1}};

typedef struct {
    const json_t *json; /* may be NULL */
    const char *path;
    int n_vocab;
} file;

/* The token of a field, or `fallback` where it is absent or null. Of a list it is the first. */
static hsc_status read_token(const file *f, const char *field, int64_t fallback, int64_t *out, hsc_error *err)
{
    const json_t *value = json_object_get(f->json, field);
    *out = fallback;
    if (json_is_array(value)) value = json_array_get(value, 0);
    if (!value || json_is_null(value)) return HSC_OK;
    HSC_FAIL_IF(!json_is_integer(value), HSC_EFORMAT, "%s: field \"%s\" is not a token's number", f->path, field);
    *out = json_integer_value(value);
    HSC_FAIL_IF(*out < 0 || *out >= f->n_vocab, HSC_EFORMAT, "%s: field \"%s\" is %lld, the vocabulary has %d tokens",
                f->path, field, (long long)*out, f->n_vocab);
    return HSC_OK;
}

/* Single tokens of bad_words_ids. */
static hsc_status read_barred(const file *f, hsc_target *out, hsc_error *err)
{
    const json_t *words = json_object_get(f->json, "bad_words_ids");
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i), *id = json_array_get(word, 0);
        if (json_array_size(word) != 1) out->left_out = "bad_words_ids of several tokens";
        if (json_array_size(word) != 1) continue;
        HSC_FAIL_IF(!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= f->n_vocab,
                    HSC_EFORMAT, "%s: field \"bad_words_ids\": entry %zu is not a token of the vocabulary of %d",
                    f->path, i, f->n_vocab);
        HSC_FAIL_IF(out->n_barred == HSC_TARGET_BARRED, HSC_EUNSUPPORTED,
                    "%s: field \"bad_words_ids\": more than %d tokens", f->path, (int)HSC_TARGET_BARRED);
        out->barred[out->n_barred++] = (hsc_token)json_integer_value(id);
    }
    return HSC_OK;
}

static hsc_status read_count(const file *f, const char *field, int *out, hsc_error *err)
{
    int64_t n;
    HSC_TRY(hsc__json_int(f->json, field, 0, 0, INT32_MAX, &n, f->path, err));
    *out = (int)n;
    return HSC_OK;
}

static hsc_status read_real(const file *f, const char *field, float *out, hsc_error *err)
{
    double value;
    HSC_TRY(hsc__json_double(f->json, field, (double)*out, &value, f->path, err));
    *out = (float)value;
    return HSC_OK;
}

/* A length counts the token that begins the text; new tokens do not. */
static hsc_status read_lengths(const file *f, hsc_target *out, hsc_error *err)
{
    int least, most, new_least, new_most;
    HSC_TRY(read_count(f, "min_length", &least, err));
    HSC_TRY(read_count(f, "max_length", &most, err));
    HSC_TRY(read_count(f, "min_new_tokens", &new_least, err));
    HSC_TRY(read_count(f, "max_new_tokens", &new_most, err));
    out->min_tokens = least - 1 > new_least ? least - 1 : new_least;
    out->max_tokens = new_most ? new_most : most > 1 ? most - 1 : 0;
    return HSC_OK;
}

/* true, false or "never". */
static hsc_status read_stop(const file *f, hsc_target *out, hsc_error *err)
{
    const json_t *value = json_object_get(f->json, "early_stopping");
    bool never = json_is_string(value) && strcmp(json_string_value(value), "never") == 0;
    HSC_FAIL_IF(value && !json_is_null(value) && !json_is_boolean(value) && !never, HSC_EFORMAT,
                "%s: field \"early_stopping\" is neither true nor false nor \"never\"", f->path);
    out->stop = never ? HSC_STOP_NEVER : json_is_true(value) ? HSC_STOP_ENOUGH : HSC_STOP_HOPELESS;
    return HSC_OK;
}

/* Whether a field says more than nothing: not null, false, empty, or the number that changes nothing. */
static bool says(const json_t *json, const char *field, double nothing)
{
    const json_t *value = json_object_get(json, field);
    if (json_is_number(value)) return json_number_value(value) != nothing;
    if (json_is_array(value) || json_is_object(value)) return json_array_size(value) + json_object_size(value) > 0;
    return json_is_true(value) || json_is_string(value);
}

typedef struct {
    const char *field;
    double nothing;
} rule;

/* Rules of writing that nothing here follows. */
static const rule others[] = {{"encoder_repetition_penalty", 1},
                              {"encoder_no_repeat_ngram_size", 0},
                              {"exponential_decay_length_penalty", 0},
                              {"sequence_bias", 0},
                              {"suppress_tokens", 0},
                              {"begin_suppress_tokens", 0},
                              {"guidance_scale", 1},
                              {"penalty_alpha", 0},
                              {"num_beam_groups", 1},
                              {"diversity_penalty", 0},
                              {"force_words_ids", 0},
                              {"constraints", 0},
                              {"stop_strings", 0}};
/* Those that an encoder-decoder's files are followed in, and a decoder's are not. */
static const rule of_targets[] = {{"repetition_penalty", 1},   {"no_repeat_ngram_size", 0}, {"num_beams", 1},
                                  {"min_length", 0},           {"min_new_tokens", 0},       {"bad_words_ids", 0},
                                  {"forced_bos_token_id", -1}, {"forced_eos_token_id", -1}};

static const char *first_said(const json_t *json, const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (says(json, rules[i].field, rules[i].nothing)) return rules[i].field;
    return NULL;
}

static hsc_status read_rules(const file *f, hsc_target *out, hsc_error *err)
{
    bool renormalise;
    HSC_TRY(read_lengths(f, out, err));
    HSC_TRY(read_count(f, "no_repeat_ngram_size", &out->no_repeat, err));
    HSC_TRY(read_count(f, "num_beams", &out->n_beams, err));
    HSC_TRY(read_real(f, "repetition_penalty", &out->repetition, err));
    HSC_TRY(read_real(f, "length_penalty", &out->length_penalty, err));
    HSC_TRY(hsc__json_bool(f->json, "renormalize_logits", false, &renormalise, f->path, err));
    out->renormalise = renormalise;
    HSC_TRY(read_stop(f, out, err));
    out->left_out = first_said(f->json, others, sizeof others / sizeof *others);
    if (says(f->json, "do_sample", 0)) out->left_out = "do_sample";
    return read_barred(f, out, err);
}

static hsc_status fill(const file *f, int64_t start, int64_t end, hsc_target *out, hsc_error *err)
{
    int64_t id;
    if (json_is_null(json_object_get(f->json, "decoder_start_token_id"))) start = -1;
    if (start < 0) {
        HSC_TRY(read_token(f, "pad_token_id", -1, &start, err));
        HSC_TRY(read_token(f, "bos_token_id", start, &start, err));
    }
    HSC_TRY(read_token(f, "decoder_start_token_id", start, &start, err));
    HSC_FAIL_IF(start < 0 || start >= f->n_vocab, HSC_EFORMAT,
                "%s: field \"decoder_start_token_id\" is missing: nothing says how a text begins", f->path);
    out->start[out->n_start++] = (hsc_token)start;
    HSC_TRY(read_token(f, "forced_bos_token_id", -1, &id, err));
    if (id >= 0) out->start[out->n_start++] = (hsc_token)id;
    if (end >= f->n_vocab || json_is_null(json_object_get(f->json, "forced_eos_token_id"))) end = -1;
    HSC_TRY(read_token(f, "forced_eos_token_id", end, &id, err));
    out->last = (hsc_token)id;
    return read_rules(f, out, err);
}

static hsc_status from_folder(const hsc_model *model, hsc_target *out, hsc_error *err)
{
    static const char *const names[] = {"generation_config.json", "config.json"};
    hsc__string path = {0};
    json_t *json = NULL;
    hsc_status status = HSC_OK;
    int64_t start = -1, end = -1;
    for (size_t i = 0; i < 2 && !json && status == HSC_OK; i++) {
        status = hsc__settings_load(&json, model->path, names[i], &path, err);
        if (i == 0) continue;
        for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
            if (strcmp(families[k].arch, model->desc.config.arch) != 0) continue;
            start = families[k].start;
            end = families[k].end;
        }
    }
    file f = {json, path.data ? path.data : model->path, model->desc.config.d_vocab};
    if (status == HSC_OK) status = fill(&f, start, end, out, err);
    json_decref(json);
    hsc__string_free(&path);
    return status;
}

static hsc_status from_gguf(hsc_model *model, hsc_target *out, hsc_error *err)
{
    char key[64];
    int64_t id;
    snprintf(key, sizeof key, "%s.decoder_start_token_id", model->desc.config.arch);
    pthread_mutex_lock(&model->lock);
    hsc_status status = hsc__gguf_get_int(model->gguf, key, 0, 0, model->desc.config.d_vocab - 1, &id, err);
    pthread_mutex_unlock(&model->lock);
    HSC_TRY(status);
    out->start[out->n_start++] = (hsc_token)id;
    return HSC_OK;
}

hsc_status hsc_model_target(const hsc_model *model, hsc_target *out, hsc_error *err)
{
    *out = (hsc_target){.last = -1, .length_penalty = 1};
    hsc__error_clear(err);
    HSC_FAIL_IF(!model->desc.encoder, HSC_EINVAL, "%s has no encoder: its texts go on from a prompt", model->path);
    return model->gguf ? from_gguf((hsc_model *)(uintptr_t)model, out, err) : from_folder(model, out, err);
}

hsc_status hsc_model_unfollowed(const hsc_model *model, const char **field, hsc_error *err)
{
    hsc__string path = {0};
    json_t *json = NULL;
    *field = NULL;
    hsc__error_clear(err);
    if (model->gguf || model->desc.encoder) return HSC_OK;
    hsc_status status = hsc__settings_load(&json, model->path, "generation_config.json", &path, err);
    if (status == HSC_OK && json) *field = first_said(json, of_targets, sizeof of_targets / sizeof *of_targets);
    if (status == HSC_OK && json && !*field) *field = first_said(json, others, sizeof others / sizeof *others);
    json_decref(json);
    hsc__string_free(&path);
    return status;
}
