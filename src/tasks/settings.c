/* What a model's files say besides weights and vocabulary: which tokens end a text. A folder has it in
 * generation_config.json or config.json, a GGUF file in its metadata. */
#include "base/text.h"
#include "formats/json.h"
#include "headscope/tasks.h"
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

static hsc_status read_file(ends *e, const char *folder, const char *name, hsc_error *err)
{
    hsc__string path = {0};
    json_t *config = NULL;
    hsc__string_printf(&path, "%s/%s", folder, name);
    if (path.failed) return hsc__fail_memory(err, strlen(folder), "a path");
    hsc_status status = hsc__json_load(&config, path.data, MAX_SETTINGS, err);
    if (status == HSC_OK) status = add_field(e, config, path.data, err);
    if (status == HSC_ENOTFOUND) {
        hsc__error_clear(err);
        status = HSC_OK;
    }
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
