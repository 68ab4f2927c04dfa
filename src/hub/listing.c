/*
 * The list of files and the choice among them. Everything here comes from a server: names are checked before they are
 * kept, commits and checksums are hexadecimal digits of the right length or refused.
 */
#include "hub/listing.h"

#include "base/alloc.h"
#include "base/text.h"
#include "formats/json.h"
#include "hub/name.h"

#include <string.h>

enum { MAX_FILES = 1000 * 1000, MAX_INDEX = 64 * 1024 * 1024 };

static const char weights[] = "model.safetensors", weights_index[] = "model.safetensors.index.json";

/* What a model and its tokenizer are read from; small files, fetched where the repository has them. */
static const char *const small_files[] = {
    "config.json",         "generation_config.json",
    "tokenizer.json",      "tokenizer_config.json",
    "vocab.json",          "merges.txt",
    "vocab.txt",           "special_tokens_map.json",
    "added_tokens.json",   "tokenizer.model",
    "spiece.model",        "chat_template.json",
    "chat_template.jinja",
};

bool hsc__plan_is_pickle(const char *name)
{
    static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (hsc__ends_with(name, endings[i])) return true;
    return false;
}

/* Fills size and checksum as far as the server tells them; an LFS file's own stand in its "lfs" object. */
static hsc_status read_details(hsc__remote_file *file, const json_t *item, const char *source, hsc_error *err)
{
    const json_t *lfs = json_object_get(item, "lfs");
    bool is_lfs = json_is_object(lfs);
    const char *oid = NULL;
    HSC_TRY(hsc__json_int(is_lfs ? lfs : item, "size", -1, 0, INT64_MAX, &file->size, source, err));
    HSC_TRY(hsc__json_string(is_lfs ? lfs : item, is_lfs ? "sha256" : "blobId", NULL, &oid, source, err));
    if (!oid) return HSC_OK;
    size_t n = is_lfs ? 64 : 40;
    HSC_FAIL_IF(!hsc__hub_is_hex(oid, n), HSC_EFORMAT,
                "%s: the checksum of \"%s\" is \"%.80s\", not %zu hexadecimal digits", source, file->name, oid, n);
    memcpy(file->oid, oid, n + 1);
    return HSC_OK;
}

static hsc_status read_sibling(hsc__listing *out, const json_t *item, const char *source, hsc_error *err)
{
    const char *name = NULL;
    HSC_FAIL_IF(!json_is_object(item), HSC_EFORMAT, "%s: an entry of \"siblings\" is not an object", source);
    HSC_TRY(hsc__json_string(item, "rfilename", NULL, &name, source, err));
    HSC_FAIL_IF(!name, HSC_EFORMAT, "%s: an entry of \"siblings\" has no \"rfilename\"", source);
    /* Names with a backslash exist (uploads from Windows); they are of no use to us but no reason to refuse the rest.
     */
    if (strchr(name, '\\')) return HSC_OK;
    HSC_FAIL_IF(!hsc__hub_file_name_ok(name), HSC_EFORMAT, "%s: the server names a file \"%.200s\", which is refused",
                source, name);
    HSC_TRY(hsc__grow(&out->files, &out->capacity, out->n + 1, sizeof *out->files, err));
    hsc__remote_file *file = &out->files[out->n];
    *file = (hsc__remote_file){.size = -1, .name = hsc__strndup(name, strlen(name))};
    if (!file->name) return hsc__fail_memory(err, strlen(name) + 1, "a file name");
    out->n++;
    return read_details(file, item, source, err);
}

static hsc_status read_info(hsc__listing *out, const json_t *info, const char *source, hsc_error *err)
{
    HSC_FAIL_IF(!json_is_object(info), HSC_EFORMAT, "%s: the answer is not a JSON object", source);
    const char *commit = NULL;
    HSC_TRY(hsc__json_string(info, "sha", NULL, &commit, source, err));
    HSC_FAIL_IF(!commit || !hsc__hub_is_hex(commit, 40), HSC_EFORMAT,
                "%s: \"sha\" is not a commit (40 hexadecimal digits); is this a Hugging Face server?", source);
    memcpy(out->commit, commit, 41);
    const json_t *siblings = json_object_get(info, "siblings");
    HSC_FAIL_IF(!json_is_array(siblings), HSC_EFORMAT, "%s: \"siblings\" is not a list", source);
    size_t n = json_array_size(siblings);
    HSC_FAIL_IF(n > MAX_FILES, HSC_EFORMAT, "%s: %zu files, at most %d are accepted", source, n, MAX_FILES);
    for (size_t i = 0; i < n; i++) HSC_TRY(read_sibling(out, json_array_get(siblings, i), source, err));
    return HSC_OK;
}

hsc_status hsc__listing_parse(hsc__listing *out, const char *text, size_t n, const char *source, hsc_error *err)
{
    json_t *info = NULL;
    *out = (hsc__listing){0};
    HSC_TRY(hsc__json_parse(&info, text, n, source, err));
    hsc_status status = read_info(out, info, source, err);
    json_decref(info);
    if (status != HSC_OK) hsc__listing_free(out);
    return status;
}

void hsc__listing_free(hsc__listing *listing)
{
    for (size_t i = 0; i < listing->n; i++) hsc__free(listing->files[i].name);
    hsc__free(listing->files);
    *listing = (hsc__listing){0};
}

hsc__remote_file *hsc__listing_find(const hsc__listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->n; i++)
        if (strcmp(listing->files[i].name, name) == 0) return &listing->files[i];
    return NULL;
}

void hsc__plan_free(hsc__plan *plan)
{
    hsc__free(plan->files);
    *plan = (hsc__plan){0};
}

static hsc_status add(hsc__plan *plan, hsc__remote_file *file, hsc_error *err)
{
    for (size_t i = 0; i < plan->n; i++)
        if (plan->files[i] == file) return HSC_OK;
    HSC_TRY(hsc__grow(&plan->files, &plan->capacity, plan->n + 1, sizeof *plan->files, err));
    plan->files[plan->n++] = file;
    return HSC_OK;
}

hsc_status hsc__plan_named(hsc__plan *plan, const hsc__listing *listing, const char *const *names, size_t n,
                           const char *repo, hsc_error *err)
{
    for (size_t i = 0; i < n; i++) {
        hsc__remote_file *file = hsc__listing_find(listing, names[i]);
        HSC_FAIL_IF(!file, HSC_ENOTFOUND, "%s has no file \"%s\" at commit %s", repo, names[i], listing->commit);
        HSC_TRY(add(plan, file, err));
    }
    return HSC_OK;
}

/* The names with an ending, a few of them, for a message. Returns how many there are. */
static size_t list_names(hsc__string *out, const hsc__listing *listing, bool (*wanted)(const char *name))
{
    size_t n = 0;
    for (size_t i = 0; i < listing->n; i++) {
        if (!wanted(listing->files[i].name)) continue;
        if (out->n < 700) hsc__string_printf(out, "%s%s", n ? ", " : "", listing->files[i].name);
        n++;
    }
    return n;
}

static bool is_gguf(const char *name)
{
    return hsc__ends_with(name, ".gguf");
}

static bool is_pickled_weights(const char *name)
{
    return hsc__plan_is_pickle(name) && strcmp(name, "training_args.bin") != 0;
}

/* No safetensors: a single GGUF file is taken, anything else is for the user to decide. */
static hsc_status plan_without_safetensors(hsc__plan *plan, const hsc__listing *listing, const char *repo,
                                           const char *endpoint, hsc_error *err)
{
    hsc__string names = {0};
    size_t n_gguf = list_names(&names, listing, is_gguf);
    hsc_status status;
    if (n_gguf == 1) status = add(plan, hsc__listing_find(listing, names.data), err);
    else if (n_gguf > 1)
        status = hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s has %zu GGUF files, choose one with --file NAME: %s", repo,
                           n_gguf, names.data ? names.data : "");
    else if (list_names(&names, listing, is_pickled_weights))
        status =
            hsc__fail(err, HSC_EUNSUPPORTED, 0,
                      "%s has no safetensors, only pickled weights (%.300s), which may run code when they are opened "
                      "and are not read; look for a converted copy, or convert it at %s/spaces/safetensors/convert "
                      "and name the revision it makes (--revision refs/pr/NUMBER)",
                      repo, names.data ? names.data : "", endpoint);
    else
        status = hsc__fail(
            err, HSC_EUNSUPPORTED, 0,
            "%s has neither model.safetensors nor a GGUF file; single files are fetched with --file NAME", repo);
    hsc__string_free(&names);
    return status;
}

hsc_status hsc__plan_default(hsc__plan *plan, const hsc__listing *listing, const char *repo, const char *endpoint,
                             hsc_error *err)
{
    hsc__remote_file *whole = hsc__listing_find(listing, weights), *index = hsc__listing_find(listing, weights_index);
    if (!whole && !index) return plan_without_safetensors(plan, listing, repo, endpoint, err);
    HSC_FAIL_IF(
        !hsc__listing_find(listing, small_files[0]), HSC_EUNSUPPORTED,
        "%s has weights but no config.json, so it is not a transformers model; fetch single files with --file NAME",
        repo);
    if (!whole) HSC_TRY(add(plan, index, err));
    for (size_t i = 0; i < sizeof small_files / sizeof *small_files; i++) {
        hsc__remote_file *file = hsc__listing_find(listing, small_files[i]);
        if (file) HSC_TRY(add(plan, file, err));
    }
    return whole ? add(plan, whole, err) : HSC_OK;
}

bool hsc__plan_is_index(const char *name)
{
    return strcmp(name, weights_index) == 0;
}

static hsc_status add_shards(hsc__plan *plan, const hsc__listing *listing, const json_t *index, const char *path,
                             hsc_error *err)
{
    json_t *map = json_object_get(index, "weight_map"), *value;
    const char *tensor;
    HSC_FAIL_IF(!json_is_object(map) || json_object_size(map) == 0, HSC_EFORMAT, "%s: no \"weight_map\"", path);
    json_object_foreach(map, tensor, value)
    {
        const char *shard = json_string_value(value);
        HSC_FAIL_IF(!shard || !hsc__hub_file_name_ok(shard) || !hsc__ends_with(shard, ".safetensors"), HSC_EFORMAT,
                    "%s: \"weight_map\" puts \"%.100s\" into \"%.200s\", which is refused", path, tensor,
                    shard ? shard : "(not text)");
        hsc__remote_file *file = hsc__listing_find(listing, shard);
        HSC_FAIL_IF(!file, HSC_EFORMAT, "%s: \"weight_map\" names \"%.200s\", which the repository does not have", path,
                    shard);
        HSC_TRY(add(plan, file, err));
    }
    return HSC_OK;
}

hsc_status hsc__plan_add_shards(hsc__plan *plan, const hsc__listing *listing, const char *path, hsc_error *err)
{
    json_t *index = NULL;
    HSC_TRY(hsc__json_load(&index, path, MAX_INDEX, err));
    hsc_status status = add_shards(plan, listing, index, path, err);
    json_decref(index);
    return status;
}
