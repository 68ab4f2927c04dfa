/* How a model's files say that its embeddings are made. sentence-transformers writes a list of modules, each in a
 * folder of its own; GGUF has one number. */
#include "base/alloc.h"
#include "base/text.h"
#include "formats/json.h"
#include "model/model.h"
#include "model/texts.h"
#include "tasks/dense.h"
#include "tasks/settings.h"

#include <string.h>

static const char *const names[HSC_N_POOLINGS] = {
#define POOLING_NAME(id, name) [id] = name,
    HSC_POOLING_LIST(POOLING_NAME)
#undef POOLING_NAME
};

const char *hsc_pooling_name(hsc_pooling pooling)
{
    return (unsigned)pooling < HSC_N_POOLINGS ? names[pooling] : NULL;
}

/* 1_Pooling/config.json: exactly one of its switches is on, and it is one of ours. */
static hsc_status read_pooling(const json_t *config, const char *path, hsc_embedding *out, hsc_error *err)
{
    static const struct {
        const char *field;
        hsc_pooling pooling;
    } modes[] = {{"pooling_mode_mean_tokens", HSC_POOL_MEAN},
                 {"pooling_mode_cls_token", HSC_POOL_CLS},
                 {"pooling_mode_lasttoken", HSC_POOL_LAST}};
    const char *field;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)config, field, value)
    {
        bool known = false;
        if (strncmp(field, "pooling_mode_", 13) != 0 || !json_is_true(value)) continue;
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            if (strcmp(field, modes[i].field) != 0) continue;
            out->pooling = modes[i].pooling;
            known = true;
        }
        HSC_FAIL_IF(!known, HSC_EUNSUPPORTED, "%s: %s is not a pooling that headscope has (mean, cls, last)", path,
                    field);
        n++;
    }
    HSC_FAIL_IF(n != 1, HSC_EUNSUPPORTED, "%s: %d poolings are joined, one is supported", path, n);
    HSC_FAIL_IF(out->known, HSC_EUNSUPPORTED, "%s: a second pooling is not supported", path);
    out->known = 1;
    return HSC_OK;
}

/* A pooling, or a layer behind it. */
static hsc_status read_part(const hsc_model *model, const char *folder, bool dense, hsc__string *path,
                            hsc_embedding *out, hsc_error *err)
{
    hsc__string name = {0};
    json_t *config = NULL;
    hsc__string_printf(&name, "%s/config.json", folder);
    if (name.failed) return hsc__fail_memory(err, strlen(folder), "a path");
    hsc_status status = hsc__settings_load(&config, hsc__model_home(model), name.data, path, err);
    hsc__string_free(&name);
    if (status == HSC_OK && !config) status = hsc__fail(err, HSC_ENOTFOUND, 0, "%s: no such file", path->data);
    hsc__string_printf(&name, "%s/%s", hsc__model_home(model), folder);
    if (status == HSC_OK && name.failed) status = hsc__fail_memory(err, strlen(folder), "a path");
    if (status == HSC_OK)
        status = dense ? hsc__dense_read(out, name.data, config, path->data, err)
                       : read_pooling(config, path->data, out, err);
    hsc__string_free(&name);
    json_decref(config);
    return status;
}

/* In the order in which a text goes through them: the transformer, its pooling, layers, and its length made 1. */
static hsc_status read_module(const hsc_model *model, const json_t *module, const char *list_path, hsc__string *path,
                              hsc_embedding *out, hsc_error *err)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *folder = json_string_value(json_object_get(module, "path"));
    HSC_FAIL_IF(!type || !folder, HSC_EFORMAT, "%s: a module has no type or path", list_path);
    if (hsc__ends_with(type, ".Transformer")) return HSC_OK;
    if (hsc__ends_with(type, ".Normalize")) {
        out->normalise = 1;
        return HSC_OK;
    }
    bool dense = hsc__ends_with(type, ".Dense");
    HSC_FAIL_IF(!dense && !hsc__ends_with(type, ".Pooling"), HSC_EUNSUPPORTED, "%s: the module %s is not supported",
                list_path, type);
    HSC_FAIL_IF(dense && (!out->known || out->normalise), HSC_EUNSUPPORTED,
                "%s: a Dense is supported behind the pooling and before Normalize", list_path);
    HSC_FAIL_IF(strchr(folder, '/') || folder[0] == '.', HSC_EFORMAT, "%s: the path '%s' is no folder beside it",
                list_path, folder);
    return read_part(model, folder, dense, path, out, err);
}

/* Whether the tokenizer makes the same of capitals as of small letters. */
static bool ignores_case(const hsc_model *model)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(model, NULL);
    hsc_encoding upper = {0}, lower = {0};
    bool same = tokenizer && hsc_encode(tokenizer, "A", 1, 0, &upper, NULL) == HSC_OK &&
                hsc_encode(tokenizer, "a", 1, 0, &lower, NULL) == HSC_OK && upper.n == lower.n &&
                memcmp(upper.ids, lower.ids, upper.n * sizeof *upper.ids) == 0;
    hsc_encoding_free(&upper);
    hsc_encoding_free(&lower);
    return same;
}

/* sentence_bert_config.json: where texts are cut, and whether they are put into small letters first. */
static hsc_status read_texts(const hsc_model *model, hsc_embedding *out, hsc_error *err)
{
    hsc__string path = {0};
    json_t *config = NULL;
    int n_ctx = hsc__texts_config(model)->n_ctx;
    int64_t most = 0;
    bool small = false;
    hsc_status status = hsc__settings_load(&config, model->path, "sentence_bert_config.json", &path, err);
    if (status == HSC_OK) status = hsc__json_int(config, "max_seq_length", 0, 0, INT32_MAX, &most, path.data, err);
    if (status == HSC_OK) status = hsc__json_bool(config, "do_lower_case", false, &small, path.data, err);
    if (status == HSC_OK && most) out->max_tokens = most < n_ctx ? (int)most : n_ctx;
    if (status == HSC_OK && small && !ignores_case(model))
        status =
            hsc__fail(err, HSC_EUNSUPPORTED, 0,
                      "%s: do_lower_case is true and the tokenizer tells capitals apart: not supported", path.data);
    json_decref(config);
    hsc__string_free(&path);
    return status;
}

/* config_sentence_transformers.json may put a text of its own before each. */
static hsc_status refuse_prompt(const hsc_model *model, hsc_error *err)
{
    hsc__string path = {0};
    json_t *config = NULL;
    hsc_status status =
        hsc__settings_load(&config, hsc__model_home(model), "config_sentence_transformers.json", &path, err);
    const char *name = json_string_value(json_object_get(config, "default_prompt_name"));
    if (status == HSC_OK && name && json_string_length(json_object_get(json_object_get(config, "prompts"), name)))
        status =
            hsc__fail(err, HSC_EUNSUPPORTED, 0,
                      "%s: default_prompt_name is \"%s\": its prompt is not put before texts here", path.data, name);
    json_decref(config);
    hsc__string_free(&path);
    return status;
}

static hsc_status read_folder(const hsc_model *model, hsc_embedding *out, hsc_error *err)
{
    hsc__string path = {0}, module_path = {0};
    json_t *list = NULL;
    hsc_status status = hsc__settings_load(&list, hsc__model_home(model), "modules.json", &path, err);
    for (size_t i = 0; status == HSC_OK && i < json_array_size(list); i++)
        status = read_module(model, json_array_get(list, i), path.data, &module_path, out, err);
    json_decref(list);
    hsc__string_free(&path);
    hsc__string_free(&module_path);
    HSC_TRY(status);
    if (!out->known) return HSC_OK;
    HSC_TRY(read_texts(model, out, err));
    return refuse_prompt(model, err);
}

/* ARCH.pooling_type: 0 none, 1 mean, 2 cls, 3 last. */
static hsc_status read_gguf(hsc_model *model, hsc_embedding *out, hsc_error *err)
{
    char key[128];
    int64_t type;
    snprintf(key, sizeof key, "%s.pooling_type", model->desc.config.arch);
    pthread_mutex_lock(&model->lock); /* the file's getters keep what they convert */
    hsc_status status = hsc__gguf_get_int(model->gguf, key, 0, 0, 100, &type, err);
    pthread_mutex_unlock(&model->lock);
    HSC_TRY(status);
    HSC_FAIL_IF(type > 3, HSC_EUNSUPPORTED, "%s: %s is %lld; 1 (mean), 2 (cls) and 3 (last) are supported",
                hsc__gguf_path(model->gguf), key, (long long)type);
    if (!type) return HSC_OK;
    out->pooling = type == 1 ? HSC_POOL_MEAN : type == 2 ? HSC_POOL_CLS : HSC_POOL_LAST;
    out->normalise = 1; /* llama.cpp normalises all that it pools */
    out->known = 1;
    return HSC_OK;
}

hsc_status hsc_model_embedding(const hsc_model *model, hsc_embedding *out, hsc_error *err)
{
    hsc__error_clear(err);
    bool sees_ahead = !model->desc.config.causal || model->desc.encoder;
    const hsc_embedding silent = {.pooling = sees_ahead ? HSC_POOL_MEAN : HSC_POOL_LAST};
    *out = silent;
    hsc_model *m = (hsc_model *)(uintptr_t)model;
    hsc_status status = model->gguf ? read_gguf(m, out, err) : read_folder(model, out, err);
    if (status == HSC_OK) status = hsc__dense_check(out, hsc__texts_config(model)->d_model, err);
    if (status != HSC_OK) {
        hsc_embedding_free(out);
        *out = silent;
    }
    return status == HSC_EINVAL ? hsc__fail_prefix(err, HSC_EFORMAT, "%s", model->path) : status;
}
