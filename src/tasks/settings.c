/* What a model's files say besides weights and vocabulary: which tokens end a text, which one stands for a masked word,
 * and the chat template with the special tokens that it names. A folder has them in its JSON files, a GGUF file in its
 * metadata. */
#include "tasks/settings.h"

#include "base/alloc.h"
#include "base/file.h"
#include "formats/json.h"
#include "model/model.h"

#include <string.h>

enum { MAX_SETTINGS = 16 << 20, MAX_ENDS = 64 };

typedef struct ends {
    hsc_token ids[MAX_ENDS];
    int n, n_vocab;
} ends;

static hsc_status add(ends *e, int64_t id, const char *path, const char *field, hsc_error *err)
{
    HSC_FAIL_IF(id < 0 || id >= e->n_vocab, HSC_EFORMAT, "%s: %s is %lld, the vocabulary has %d tokens", path, field,
                (long long)id, e->n_vocab);
    for (int i = 0; i < e->n; i++)
        if (e->ids[i] == id) return HSC_OK;
    HSC_FAIL_IF(e->n == MAX_ENDS, HSC_EUNSUPPORTED, "%s: %s names more than %d tokens", path, field, (int)MAX_ENDS);
    e->ids[e->n++] = (hsc_token)id;
    return HSC_OK;
}

/* "eos_token_id": 2, or [2, 7], or null. */
static hsc_status add_field(ends *e, const json_t *config, const char *path, hsc_error *err)
{
    const json_t *value = json_object_get(config, "eos_token_id");
    if (!value || json_is_null(value)) return HSC_OK;
    if (json_is_integer(value)) return add(e, json_integer_value(value), path, "eos_token_id", err);
    HSC_FAIL_IF(!json_is_array(value), HSC_EFORMAT, "%s: eos_token_id is neither a number nor a list", path);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *id = json_array_get(value, i);
        HSC_FAIL_IF(!json_is_integer(id), HSC_EFORMAT, "%s: eos_token_id[%zu] is not a whole number", path, i);
        HSC_TRY(add(e, json_integer_value(id), path, "eos_token_id", err));
    }
    return HSC_OK;
}

hsc_status hsc__settings_load(json_t **out, const char *folder, const char *name, hsc__string *path, hsc_error *err)
{
    path->n = 0;
    *out = NULL;
    hsc__string_printf(path, "%s/%s", folder, name);
    if (path->failed) return hsc__fail_memory(err, strlen(folder), "a path");
    hsc_status status = hsc__json_load(out, path->data, MAX_SETTINGS, err);
    if (status != HSC_ENOTFOUND) return status;
    hsc__error_clear(err);
    return HSC_OK;
}

static hsc_status read_file(ends *e, const char *folder, const char *name, hsc_error *err)
{
    hsc__string path = {0};
    json_t *config = NULL;
    hsc_status status = hsc__settings_load(&config, folder, name, &path, err);
    if (status == HSC_OK) status = add_field(e, config, path.data, err);
    json_decref(config);
    hsc__string_free(&path);
    return status;
}

static hsc_status read_metadata(ends *e, const hsc__gguf *gguf, hsc_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id;
        if (!hsc__gguf_has(gguf, keys[i])) continue;
        HSC_TRY(hsc__gguf_get_int(gguf, keys[i], 0, 0, UINT32_MAX, &id, err));
        if (id < e->n_vocab) HSC_TRY(add(e, id, hsc__gguf_path(gguf), keys[i], err)); /* -1 as u32 means none */
    }
    return HSC_OK;
}

static hsc_status read_ends(ends *e, hsc_model *model, hsc_error *err)
{
    if (model->gguf) {
        pthread_mutex_lock(&model->lock); /* the file's getters keep what they convert */
        hsc_status status = read_metadata(e, model->gguf, err);
        pthread_mutex_unlock(&model->lock);
        return status;
    }
    HSC_TRY(read_file(e, model->path, "generation_config.json", err));
    return e->n ? HSC_OK : read_file(e, model->path, "config.json", err);
}

int hsc_model_end_tokens(const hsc_model *model, hsc_token *out, int capacity, hsc_error *err)
{
    ends e = {.n_vocab = model->desc.config.d_vocab};
    hsc__error_clear(err);
    HSC_TRY(read_ends(&e, (hsc_model *)(uintptr_t)model, err));
    for (int i = 0; i < e.n && i < capacity; i++) out[i] = e.ids[i];
    return e.n;
}

/* ------------------------------------------------------------------------------------------------ chat template ----
 */

/* "<s>" or {"content": "<s>", ...}. */
static void take_special(const json_t *config, const char *field, hsc__string *out)
{
    const json_t *value = json_object_get(config, field);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (json_is_string(value) && !out->n) hsc__string_add(out, json_string_value(value), json_string_length(value));
}

/* A text, or a list of {"name", "template"}, of which the one named "default" counts, else the first. */
static hsc_status take_template(const json_t *config, const char *path, hsc__string *out, hsc_error *err)
{
    const json_t *value = json_object_get(config, "chat_template"), *chosen = NULL;
    if (!value || json_is_null(value) || out->n) return HSC_OK;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *named = json_array_get(value, i), *name = json_object_get(named, "name");
        bool is_default = json_is_string(name) && strcmp(json_string_value(name), "default") == 0;
        if (!chosen || is_default) chosen = json_object_get(named, "template");
        if (is_default) break;
    }
    if (json_is_array(value)) value = chosen;
    HSC_FAIL_IF(!json_is_string(value), HSC_EFORMAT, "%s: chat_template is neither a text nor a list of named ones",
                path);
    hsc__string_add(out, json_string_value(value), json_string_length(value));
    return HSC_OK;
}

static hsc_status read_folder_chat(const char *folder, hsc__chat_settings *out, hsc_error *err)
{
    static const char *const names[] = {"tokenizer_config.json", "chat_template.json", "special_tokens_map.json"};
    hsc__string path = {0};
    json_t *config;
    char *text = NULL;
    size_t n;
    hsc_status status = HSC_OK;
    hsc__string_printf(&path, "%s/chat_template.jinja", folder);
    if (path.failed) return hsc__fail_memory(err, strlen(folder), "a path");
    if (hsc__is_file(path.data)) {
        status = hsc__read_file(&text, &n, path.data, MAX_SETTINGS, err);
        if (status == HSC_OK) hsc__string_add(&out->text, text, n);
        hsc__free(text);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && status == HSC_OK; i++) {
        status = hsc__settings_load(&config, folder, names[i], &path, err);
        if (status == HSC_OK) status = take_template(config, path.data, &out->text, err);
        take_special(config, "bos_token", &out->bos);
        take_special(config, "eos_token", &out->eos);
        json_decref(config);
    }
    hsc__string_free(&path);
    return status;
}

static hsc_status read_gguf_special(const hsc_model *model, const hsc_tokenizer *tokenizer, const char *key,
                                    hsc__string *out, hsc_error *err)
{
    int64_t id;
    size_t n = 0;
    HSC_TRY(hsc__gguf_get_int(model->gguf, key, -1, 0, UINT32_MAX, &id, err));
    const char *bytes = id >= 0 && id <= INT32_MAX && tokenizer ? hsc_token_bytes(tokenizer, (hsc_token)id, &n) : NULL;
    if (bytes) hsc__string_add(out, bytes, n);
    return HSC_OK;
}

static hsc_status read_gguf_chat(hsc_model *model, hsc__chat_settings *out, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(model, NULL);
    hsc__bytes text = {0};
    pthread_mutex_lock(&model->lock);
    hsc_status status = hsc__gguf_get_string(model->gguf, "tokenizer.chat_template", &text, err);
    if (status == HSC_OK && text.data) hsc__string_add(&out->text, text.data, text.n);
    if (status == HSC_OK) status = read_gguf_special(model, tokenizer, "tokenizer.ggml.bos_token_id", &out->bos, err);
    if (status == HSC_OK) status = read_gguf_special(model, tokenizer, "tokenizer.ggml.eos_token_id", &out->eos, err);
    pthread_mutex_unlock(&model->lock);
    return status;
}

hsc_status hsc__chat_settings_read(hsc_model *model, hsc__chat_settings *out, hsc_error *err)
{
    HSC_TRY(model->gguf ? read_gguf_chat(model, out, err) : read_folder_chat(model->path, out, err));
    if (out->text.failed || out->bos.failed || out->eos.failed) return hsc__fail_memory(err, 0, "a chat template");
    HSC_FAIL_IF(!out->text.n, HSC_ENOTFOUND, "%s: carries no chat template", model->path);
    return HSC_OK;
}

void hsc__chat_settings_free(hsc__chat_settings *settings)
{
    hsc__string_free(&settings->text);
    hsc__string_free(&settings->bos);
    hsc__string_free(&settings->eos);
}

/* ---------------------------------------------------------------------------------------------------- mask token ----
 */

static hsc_status read_gguf_mask(hsc_model *model, const hsc_tokenizer *tokenizer, hsc_token *out, hsc_error *err)
{
    int64_t id;
    pthread_mutex_lock(&model->lock);
    hsc_status status = hsc__gguf_get_int(model->gguf, "tokenizer.ggml.mask_token_id", -1, 0, UINT32_MAX, &id, err);
    pthread_mutex_unlock(&model->lock);
    HSC_TRY(status);
    if (id >= 0 && (uint64_t)id < hsc_tokenizer_size(tokenizer)) *out = (hsc_token)id;
    return HSC_OK;
}

hsc_status hsc__settings_mask(hsc_model *model, const hsc_tokenizer *tokenizer, hsc_token *out, hsc_error *err)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    hsc__string path = {0}, mask = {0};
    hsc_status status = HSC_OK;
    if (model->gguf) return read_gguf_mask(model, tokenizer, out, err);
    for (size_t i = 0; i < sizeof files / sizeof *files && status == HSC_OK; i++) {
        json_t *config;
        status = hsc__settings_load(&config, model->path, files[i], &path, err);
        if (status == HSC_OK) take_special(config, "mask_token", &mask);
        json_decref(config);
    }
    hsc_token id = mask.n && !mask.failed ? hsc_token_find(tokenizer, mask.data, mask.n) : -1;
    if (status == HSC_OK && mask.failed) status = hsc__fail_memory(err, 0, "the mask token");
    if (status == HSC_OK && id >= 0) *out = id;
    hsc__string_free(&path);
    hsc__string_free(&mask);
    return status;
}
