/*
 * A Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json names for each tensor. The
 * index is untrusted: a shard's name may not leave the folder, and what it promises must be where it says.
 */
#include "formats/content.h"
#include "formats/json.h"
#include "formats/tensor_set.h"

#include <string.h>

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";
enum { MAX_INDEX = 100000000 };

typedef struct folder {
    const char *dir;
    char *index_path;
    json_t *index;
    const char **shards; /* names of the shards in order of first mention, borrowed from index */
    size_t n_shards;
    hsc__names shard_names;
    const char **paths; /* [n_shards], the paths that the tensors carry */
} folder;

/* The shard names become paths: they must stay in the folder. */
static hsc_status check_shard_name(const folder *f, const char *tensor, const json_t *value, hsc_error *err)
{
    int shown = hsc__shown(tensor, strlen(tensor));
    HSC_FAIL_IF(!json_is_string(value), HSC_EFORMAT, "%s: weight_map: '%.*s' does not name a file", f->index_path,
                shown, tensor);
    const char *name = json_string_value(value);
    bool leaves = !*name || strpbrk(name, "/\\") || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    HSC_FAIL_IF(leaves, HSC_EFORMAT, "%s: weight_map: '%.*s' is in '%.*s', which is no plain file name", f->index_path,
                shown, tensor, hsc__shown(name, strlen(name)), name);
    return HSC_OK;
}

static hsc_status collect_shards(folder *f, json_t *weight_map, hsc_error *err)
{
    size_t n = json_object_size(weight_map);
    HSC_FAIL_IF(n == 0, HSC_EFORMAT, "%s: \"weight_map\" is missing or empty", f->index_path);
    HSC_TRY(hsc__names_reserve(&f->shard_names, n, err));
    f->shards = hsc__calloc(n, sizeof *f->shards);
    f->paths = hsc__calloc(n, sizeof *f->paths);
    if (!f->shards || !f->paths) return hsc__fail_memory(err, n * sizeof *f->shards, f->index_path);
    const char *tensor;
    json_t *value;
    json_object_foreach(weight_map, tensor, value)
    {
        HSC_TRY(check_shard_name(f, tensor, value, err));
        const char *name = json_string_value(value);
        if (hsc__names_add(&f->shard_names, name, strlen(name), f->n_shards) == HSC_NO_INDEX)
            f->shards[f->n_shards++] = name;
    }
    return HSC_OK;
}

static hsc_status open_shard(folder *f, hsc__tensors *set, size_t i, hsc_error *err)
{
    char *path = hsc__path_join(f->dir, f->shards[i]);
    if (!path) return hsc__fail_memory(err, strlen(f->shards[i]), "a path");
    hsc__map map;
    hsc_status status = hsc__tensors_map(set, path, &map, &f->paths[i], err);
    hsc__free(path);
    if (status == HSC_ENOTFOUND) {
        return hsc__fail_prefix(err, status, "%s: shard %zu of %zu is missing", f->index_path, i + 1, f->n_shards);
    }
    HSC_TRY(status);
    return hsc__safetensors_add(set, map.data, map.size, f->paths[i], err);
}

/* Every tensor of the index must be there, in the shard that the index names. */
static hsc_status check_promises(const folder *f, const hsc__tensors *set, json_t *weight_map, hsc_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(weight_map, name, value)
    {
        const char *shard = json_string_value(value);
        size_t i = hsc__names_find(&f->shard_names, shard, strlen(shard));
        const hsc__tensor *t = hsc__tensors_find(set, name);
        HSC_FAIL_IF(!t || t->path != f->paths[i], HSC_EFORMAT,
                    "%s: weight_map: '%.*s' is said to be in %s, but that file does not hold it", f->index_path,
                    hsc__shown(name, strlen(name)), name, shard);
    }
    return HSC_OK;
}

static hsc_status open_shards(folder *f, hsc__tensors *set, hsc_error *err)
{
    HSC_TRY(hsc__json_load(&f->index, f->index_path, MAX_INDEX, err));
    json_t *weight_map = json_object_get(f->index, "weight_map");
    HSC_TRY(collect_shards(f, weight_map, err));
    for (size_t i = 0; i < f->n_shards; i++) HSC_TRY(open_shard(f, set, i, err));
    HSC_TRY(hsc__tensors_index(set, err));
    return check_promises(f, set, weight_map, err);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = hsc__path_join(dir, name);
    bool found = path && hsc__is_file(path);
    hsc__free(path);
    return found;
}

static hsc_status fail_no_weights(const char *dir, hsc_error *err)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "pytorch_model-00001-of-00002.bin"};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        HSC_FAIL_IF(has_file(dir, pickles[i]), HSC_EUNSUPPORTED, "%s: has %s and no %s; %s", dir, pickles[i],
                    single_name, hsc__pickle_advice);
    }
    return hsc__fail(err, HSC_ENOTFOUND, 0, "%s: has neither %s nor %s", dir, single_name, index_name);
}

static hsc_status open_folder(hsc__tensors **out, folder *f, hsc_error *err)
{
    f->index_path = hsc__path_join(f->dir, index_name);
    if (!f->index_path) return hsc__fail_memory(err, strlen(f->dir), "a path");
    if (!hsc__is_file(f->index_path)) return fail_no_weights(f->dir, err);
    hsc__tensors *set;
    HSC_TRY(hsc__tensors_new(&set, err));
    hsc_status status = open_shards(f, set, err);
    if (status == HSC_OK) *out = set;
    else hsc__tensors_close(set);
    return status;
}

static void folder_free(folder *f)
{
    hsc__names_free(&f->shard_names);
    hsc__free(f->shards);
    hsc__free(f->paths);
    hsc__free(f->index_path);
    json_decref(f->index);
}

hsc_status hsc__safetensors_open_dir(hsc__tensors **out, const char *dir, hsc_error *err)
{
    *out = NULL;
    char *single = hsc__path_join(dir, single_name);
    if (!single) return hsc__fail_memory(err, strlen(dir), "a path");
    hsc_status status = hsc__safetensors_open(out, single, err);
    hsc__free(single);
    if (status != HSC_ENOTFOUND) return status;
    HSC_FAIL_IF(!hsc__is_dir(dir), HSC_ENOTFOUND, "%s: is not a folder", dir);
    hsc__error_clear(err);
    folder f = {.dir = dir};
    status = open_folder(out, &f, err);
    folder_free(&f);
    return status;
}
