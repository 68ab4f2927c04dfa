/* Opening a checkpoint: which container it is, which family, and everything that can be wrong with it. */
#include "model/model.h"

#include "base/pages.h"
#include "model/arch/arch.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

enum { CONFIG_LIMIT = 16 << 20 };

/* The tensors that the description will be bound to, none of them used yet. */
static hsc_status take_tensors(hsc_model *m, hsc__source *src, const hsc__tensors *set, hsc_error *err)
{
    size_t n = hsc__tensors_count(set) + 1;
    m->tensors = src->tensors = set;
    src->used = hsc__arena_alloc(&m->arena, n);
    if (!src->used) return hsc__fail_memory(err, n, "the tensor list");
    memset(src->used, 0, n);
    return HSC_OK;
}

/* Not causal: a decoder whose tokens see later ones too (embedding models made of Qwen 2, say). `field` of `path` says
 * so. */
static hsc_status see_both_ways(hsc__desc *desc, const char *path, const char *field, hsc_error *err)
{
    bool windows = false;
    for (int i = 0; i < desc->config.n_layers; i++) windows |= desc->layers[i].window > 0;
    HSC_FAIL_IF(windows || desc->encoder, HSC_EUNSUPPORTED,
                "%s: %s: false is not supported with a sliding window or an encoder", path, field);
    desc->config.causal = 0;
    return HSC_OK;
}

static hsc_status gguf_description(hsc_model *m, hsc__source *src, const hsc__arch *arch, hsc_error *err)
{
    bool causal;
    HSC_TRY(arch->from_gguf(src, &m->desc, err));
    if (!m->desc.config.causal) return HSC_OK;
    HSC_TRY(hsc__meta_bool(src, "attention.causal", true, &causal, err));
    return causal ? HSC_OK : see_both_ways(&m->desc, m->path, "key attention.causal", err);
}

static hsc_status open_gguf(hsc_model *m, hsc__source *src, hsc_error *err)
{
    const hsc__arch *arch;
    const char *name, *title;
    HSC_TRY(hsc__gguf_open(&m->gguf, m->path, err));
    HSC_TRY(take_tensors(m, src, hsc__gguf_tensors(m->gguf), err));
    src->gguf = m->gguf;
    HSC_TRY(hsc__gguf_get_cstring(m->gguf, "general.architecture", NULL, &name, err));
    HSC_FAIL_IF(!name, HSC_EFORMAT, "%s: key general.architecture is missing", m->path);
    src->arch = name;
    HSC_TRY(hsc__gguf_get_cstring(m->gguf, "general.name", NULL, &title, err));
    if (title && *title) m->desc.config.name = title;
    HSC_TRY(hsc__arch_find(name, m->path, &arch, err));
    HSC_FAIL_IF(!arch->from_gguf, HSC_EUNSUPPORTED, "%s: architecture \"%s\" is not supported in GGUF files", m->path,
                name);
    m->desc.config.arch = arch->name;
    return gguf_description(m, src, arch, err);
}

/* GPTQ, AWQ, bitsandbytes and their like: tensors that mean something else than their types and shapes say. */
static hsc_status refuse_quantised(const hsc__source *src, hsc_error *err)
{
    const json_t *how = json_object_get(src->config, "quantization_config");
    const char *method = json_string_value(json_object_get(how, "quant_method"));
    HSC_FAIL_IF(how && !json_is_null(how), HSC_EUNSUPPORTED,
                "%s: field \"quantization_config\": weights quantised by \"%s\" are not supported; those of GGUF files "
                "are",
                src->config_path, method ? method : "?");
    return HSC_OK;
}

static hsc_status folder_description(hsc_model *m, hsc__source *src, hsc_error *err)
{
    const hsc__arch *arch;
    const char *name;
    bool causal;
    HSC_TRY(hsc__json_string(src->config, "model_type", NULL, &name, src->config_path, err));
    HSC_FAIL_IF(!name, HSC_EFORMAT, "%s: field \"model_type\" is missing", src->config_path);
    HSC_TRY(hsc__arch_find(name, src->config_path, &arch, err));
    HSC_TRY(refuse_quantised(src, err));
    HSC_FAIL_IF(!arch->from_folder, HSC_EUNSUPPORTED, "%s: architecture \"%s\" is not supported in folders",
                src->config_path, name);
    m->desc.config.arch = arch->name;
    HSC_TRY(hsc__safetensors_open_dir(&m->folder, m->path, err));
    HSC_TRY(take_tensors(m, src, m->folder, err));
    HSC_TRY(arch->from_folder(src, &m->desc, err));
    HSC_TRY(hsc__json_bool(src->config, "is_causal", true, &causal, src->config_path, err));
    if (causal || !m->desc.config.causal) return HSC_OK;
    return see_both_ways(&m->desc, src->config_path, "field \"is_causal\"", err);
}

static hsc_status open_folder(hsc_model *m, hsc__source *src, hsc_error *err)
{
    json_t *config = NULL;
    char *config_path = hsc__path_join(m->path, "config.json");
    if (!config_path) return hsc__fail_memory(err, strlen(m->path), "a path");
    hsc_status status = HSC_OK;
    if (!hsc__is_file(config_path))
        status = hsc__fail(err, HSC_ENOTFOUND, 0, "%s: the folder has no config.json", m->path);
    if (status == HSC_OK) status = hsc__json_load(&config, config_path, CONFIG_LIMIT, err);
    if (status == HSC_OK && !json_is_object(config))
        status = hsc__fail(err, HSC_EFORMAT, 0, "%s: is not a JSON object", config_path);
    src->config = config;
    src->config_path = config_path;
    if (status == HSC_OK) status = folder_description(m, src, err);
    json_decref(config);
    hsc__free(config_path);
    return status;
}

static hsc_status open_llama2c(hsc_model *m, hsc__source *src, hsc_error *err)
{
    hsc__llama2c header;
    HSC_TRY(hsc__llama2c_open(&m->folder, m->path, &header, err));
    HSC_TRY(take_tensors(m, src, m->folder, err));
    m->desc.config.arch = "llama";
    m->no_tokenizer = true;
    return hsc__llama_from_llama2c(src, &m->desc, &header, err);
}

/* The folder's or file's own name; for a Hub cache snapshot (models--org--name/snapshots/commit) the repository's. */
static const char *name_of(hsc__arena *arena, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const char *snapshots = NULL, *models = NULL;
    for (const char *at = path; (at = strstr(at, "/snapshots/")); at++) snapshots = at;
    for (const char *at = path; (at = strstr(at, "models--")); at++) models = at;
    size_t start = n, end = n;
    if (snapshots && models && models < snapshots) {
        end = (size_t)(snapshots - path);
        start = (size_t)(models - path) + strlen("models--");
        for (size_t i = start; i + 1 < end; i++) {
            if (path[i] == '-' && path[i + 1] == '-') start = i + 2;
        }
    } else {
        while (start > 0 && path[start - 1] != '/') start--;
        if (end - start > 5 && strncmp(path + end - 5, ".gguf", 5) == 0) end -= 5;
    }
    return hsc__arena_strndup(arena, path + start, end - start);
}

/* The folder below `path` in which a sentence-transformers folder keeps its transformer; NULL when it names none, or
 * one outside itself. */
static const char *module_folder(const json_t *modules)
{
    size_t i;
    const json_t *module;
    json_array_foreach(modules, i, module)
    {
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *folder = json_string_value(json_object_get(module, "path"));
        if (!type || !folder || !strstr(type, ".Transformer")) continue;
        return *folder && *folder != '/' && !strstr(folder, "..") ? folder : NULL;
    }
    return NULL;
}

/* Older sentence-transformers folders have the checkpoint in a folder of its own, which modules.json names. */
static hsc_status enter_module(hsc_model *m, hsc_error *err)
{
    char *config = hsc__path_join(m->path, "config.json"), *modules = hsc__path_join(m->path, "modules.json");
    json_t *list = NULL;
    hsc_status status = config && modules ? HSC_OK : hsc__fail_memory(err, strlen(m->path), "a path");
    if (status == HSC_OK && hsc__is_dir(m->path) && !hsc__is_file(config) && hsc__is_file(modules))
        status = hsc__json_load(&list, modules, CONFIG_LIMIT, err);
    const char *folder = module_folder(list);
    if (status == HSC_OK && folder) {
        char *inner = hsc__path_join(m->path, folder);
        if (inner) {
            m->outer = m->path;
            m->path = inner;
        } else {
            status = hsc__fail_memory(err, strlen(m->path), "a path");
        }
    }
    json_decref(list);
    hsc__free(config);
    hsc__free(modules);
    return status;
}

static hsc_status open_any(hsc_model *m, hsc_error *err)
{
    m->desc.config.name = name_of(&m->arena, m->path);
    if (!m->desc.config.name) return hsc__fail_memory(err, strlen(m->path), "a name");
    HSC_TRY(enter_module(m, err));
    hsc__source src = {.path = m->path, .arena = &m->arena, .prefix = ""};
    hsc_status status;
    if (hsc__is_dir(m->path)) {
        status = open_folder(m, &src, err);
    } else if (hsc__gguf_is(m->path)) {
        status = open_gguf(m, &src, err);
    } else if (hsc__llama2c_is(m->path)) {
        status = open_llama2c(m, &src, err);
    } else {
        hsc__map probe;
        HSC_TRY(hsc__map_open(&probe, m->path, err));
        hsc__map_close(&probe);
        status =
            hsc__fail(err, HSC_EFORMAT, 0,
                      "%s: is neither a folder with config.json nor a GGUF file nor a llama2.c checkpoint", m->path);
    }
    HSC_TRY(status);
    HSC_FAIL_IF(m->desc.config.d_head > HSC__MAX_D_HEAD || m->desc.config.d_head < 1, HSC_EUNSUPPORTED,
                "%s: heads are %d wide, 1 to %d are supported", m->path, m->desc.config.d_head, HSC__MAX_D_HEAD);
    const hsc__desc *encoder = m->desc.encoder;
    HSC_FAIL_IF(encoder && (encoder->config.d_head > HSC__MAX_D_HEAD || encoder->config.d_head < 1), HSC_EUNSUPPORTED,
                "%s: the encoder's heads are %d wide, 1 to %d are supported", m->path, encoder->config.d_head,
                HSC__MAX_D_HEAD);
    hsc__source_warn_unused(&src);
    memcpy(m->warnings, src.warnings, sizeof m->warnings);
    m->n_warnings = src.n_warnings;
    return HSC_OK;
}

/* Without logits a pass reads no more of the tokens' table than the rows of its text; a session that makes logits says
 * otherwise of the output matrix, which may be the same. */
static void expect_few_rows(const hsc__desc *desc)
{
    if (desc->embed.data) hsc__pages_prefer_small(desc->embed.data, hsc__weight_bytes(&desc->embed));
    if (desc->encoder) expect_few_rows(desc->encoder);
}

hsc_status hsc_model_open(hsc_model **out, const char *path, const hsc_model_options *options, hsc_error *err)
{
    *out = NULL;
    hsc__error_clear(err);
    hsc_model *m = hsc__calloc(1, sizeof *m);
    if (!m) return hsc__fail_memory(err, sizeof *m, "a model");
    if (pthread_mutex_init(&m->lock, NULL) != 0) {
        hsc__free(m);
        return hsc__fail_memory(err, sizeof *m, "a lock");
    }
    m->path = hsc__strndup(path, strlen(path));
    hsc_status status = m->path ? open_any(m, err) : hsc__fail_memory(err, strlen(path), "a path");
    if (status == HSC_OK) expect_few_rows(&m->desc);
    if (status == HSC_OK && options && (options->recast || options->shuffle)) {
        hsc__recast_plan plan = {options->shuffle ? HSC_F32 : options->dtype, options->n_threads, options->shuffle != 0,
                                 options->shuffle_seed};
        status = hsc__recast_weights(&m->desc, &plan, &m->recast, err);
    }
    if (status != HSC_OK) {
        hsc_model_close(m);
        return status;
    }
    *out = m;
    return HSC_OK;
}

void hsc_model_close(hsc_model *m)
{
    if (!m) return;
    for (int i = 0; i < 2; i++) hsc_tokenizer_free(m->tokenizers[i].made);
    hsc__tensors_close(m->folder);
    hsc__gguf_close(m->gguf);
    hsc__recast_free(&m->recast);
    hsc__arena_free(&m->arena);
    hsc__free(m->path);
    hsc__free(m->outer);
    pthread_mutex_destroy(&m->lock);
    hsc__free(m);
}

const hsc_config *hsc_model_config(const hsc_model *m)
{
    return &m->desc.config;
}

const hsc_config *hsc_model_encoder(const hsc_model *m)
{
    return m->desc.encoder ? &m->desc.encoder->config : NULL;
}

static hsc_status make_tokenizer(hsc_model *m, bool target)
{
    hsc_tokenizer **out = &m->tokenizers[target].made;
    hsc_error *err = &m->tokenizers[target].error;
    if (m->no_tokenizer)
        return hsc__fail(err, HSC_ENOTFOUND, 0, "%s: a llama2.c checkpoint holds no tokenizer", m->path);
    if (target && (m->gguf || !m->desc.encoder)) return HSC_ENOTFOUND;
    if (m->gguf) return hsc__tokenizer_from_gguf(out, m->gguf, err);
    return (target ? hsc__tokenizer_target_from_dir : hsc__tokenizer_from_dir)(out, m->path, err);
}

/* Makes one of the two when it is first asked for; HSC_OK, or why there is none. */
static hsc_status get_tokenizer(const hsc_model *model, bool target, const hsc_tokenizer **out, hsc_error *err)
{
    hsc_model *m = (hsc_model *)(uintptr_t)model; /* what is made late is guarded by the lock */
    pthread_mutex_lock(&m->lock);
    if (!m->tokenizers[target].tried) {
        hsc_status status = make_tokenizer(m, target);
        m->tokenizers[target].tried = status != HSC_ENOMEM; /* there may be more memory the next time */
        m->tokenizers[target].error.code = status;
    }
    *out = m->tokenizers[target].made;
    hsc_status status = m->tokenizers[target].error.code;
    if (!*out && err) *err = m->tokenizers[target].error;
    pthread_mutex_unlock(&m->lock);
    return status;
}

const hsc_tokenizer *hsc_model_tokenizer(const hsc_model *model, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    hsc_status made = get_tokenizer(model, false, &tokenizer, err);
    (void)made;
    return tokenizer;
}

const hsc_tokenizer *hsc_model_target_tokenizer(const hsc_model *model, hsc_error *err)
{
    const hsc_tokenizer *tokenizer;
    hsc_status made = get_tokenizer(model, true, &tokenizer, err);
    return made == HSC_ENOTFOUND ? hsc_model_tokenizer(model, err) : tokenizer;
}

static const char *const compute_names[HSC_N_COMPUTES] = {
#define HSC_COMPUTE_NAME(id, name) [id] = name,
    HSC_COMPUTE_LIST(HSC_COMPUTE_NAME)
#undef HSC_COMPUTE_NAME
};

const char *hsc_compute_name(hsc_compute compute)
{
    return (unsigned)compute < HSC_N_COMPUTES ? compute_names[compute] : NULL;
}

hsc_compute hsc_compute_find(const char *name)
{
    int i = 0;
    while (i < HSC_N_COMPUTES && strcmp(compute_names[i], name) != 0) i++;
    return (hsc_compute)i;
}

hsc_recast hsc_model_recast(const hsc_model *m)
{
    const hsc__recast *r = &m->recast;
    return (hsc_recast){r->n_matrices, r->n_odd, r->from_bytes, r->n_bytes, r->seconds};
}

hsc_compute hsc_model_auto_compute(const hsc_model *m)
{
    hsc_dtype dtype = m->desc.layers[0].w_in.dtype;
    if (hsc__kernels_can_q8(dtype)) return HSC_COMPUTE_Q8;
    return dtype == HSC_F16 || dtype == HSC_BF16 ? HSC_COMPUTE_BF16 : HSC_COMPUTE_F32;
}

size_t hsc_model_n_tensors(const hsc_model *m)
{
    return hsc__tensors_count(m->tensors);
}

hsc_status hsc_model_tensor(const hsc_model *m, size_t index, hsc_tensor_info *out)
{
    if (index >= hsc__tensors_count(m->tensors)) return HSC_EINVAL;
    const hsc__tensor *t = hsc__tensors_at(m->tensors, index);
    *out = (hsc_tensor_info){.name = t->name,
                             .dtype = t->dtype,
                             .dtype_name = t->dtype_name,
                             .n_dims = t->n_dims,
                             .n_bytes = t->n_bytes,
                             .data = t->data};
    memcpy(out->shape, t->shape, sizeof out->shape);
    return HSC_OK;
}

const char *hsc_model_warning(const hsc_model *m, size_t index)
{
    return index < m->n_warnings ? m->warnings[index] : NULL;
}
