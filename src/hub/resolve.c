/* What a model's name on the command line means. Reads the cache, never the network. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "hub/hub.h"
#include "hub/name.h"
#include "hub/places.h"
#include "hub/store.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 4 };

/* What the model files in a snapshot are. */
typedef struct contents {
    bool has_safetensors; /* at the top, where a model's folder has them */
    int n_gguf;
    char *gguf; /* path of one of them */
} contents;

static hsc_status look_into(contents *found, const char *folder, int depth, hsc_error *err);

static hsc_status look_at(contents *found, const char *folder, const char *name, int depth, hsc_error *err)
{
    hsc_status status = HSC_OK;
    char *path = hsc__path_join(folder, name);
    if (!path) return hsc__fail_memory(err, strlen(folder) + strlen(name) + 2, "a path in the cache");
    if (hsc__is_dir(path)) {
        if (depth < MAX_DEPTH) status = look_into(found, path, depth + 1, err);
    } else if (depth == 0 && hsc__ends_with(name, ".safetensors")) {
        found->has_safetensors = true;
    } else if (hsc__ends_with(name, ".gguf") && hsc__is_file(path) && found->n_gguf++ == 0) {
        found->gguf = path;
        return HSC_OK;
    }
    hsc__free(path);
    return status;
}

static hsc_status look_into(contents *found, const char *folder, int depth, hsc_error *err)
{
    hsc_status status = HSC_OK;
    DIR *directory = opendir(folder);
    HSC_FAIL_IF(!directory, HSC_EIO, "%s: cannot open the folder: %s", folder, strerror(errno));
    for (struct dirent *entry; status == HSC_OK && (entry = readdir(directory));)
        if (entry->d_name[0] != '.') status = look_at(found, folder, entry->d_name, depth, err);
    closedir(directory);
    return status;
}

/* The snapshot folder, or the one GGUF file in it. Takes over `folder`. */
static hsc_status choose(char *folder, const char *name, char **path, hsc_error *err)
{
    contents found = {0};
    hsc_status status = look_into(&found, folder, 0, err);
    if (status == HSC_OK && (found.has_safetensors || found.n_gguf == 0)) {
        *path = folder;
        folder = NULL;
    } else if (status == HSC_OK && found.n_gguf == 1) {
        *path = found.gguf;
        found.gguf = NULL;
    } else if (status == HSC_OK) {
        status = hsc__fail(err, HSC_EINVAL, 0, "%s has %d GGUF files in the cache: give the path of one, such as %s",
                           name, found.n_gguf, found.gguf);
    }
    hsc__free(found.gguf);
    hsc__free(folder);
    return status;
}

/* Looks for one repository name. HSC_ENOTFOUND when the cache has no such snapshot. */
static hsc_status look_up(const char *cache, const char *repo, const char *revision, char **folder, hsc_error *err)
{
    hsc__store store;
    char commit[41];
    HSC_TRY(hsc__store_open(&store, cache, repo, err));
    hsc_status status = hsc__store_commit(&store, revision, commit, err);
    char *path = status == HSC_OK ? hsc__store_snapshot(&store, commit) : NULL;
    if (status == HSC_OK && !path) status = hsc__fail_memory(err, 4096, "a path in the cache");
    else if (status == HSC_OK && !hsc__is_dir(path))
        status = hsc__fail(err, HSC_ENOTFOUND, 0, "%s: no such folder", path);
    hsc__store_close(&store);
    if (status == HSC_OK) *folder = path;
    else hsc__free(path);
    return status;
}

/* The name as typed, then the repository's other name. */
static hsc_status look_up_all(const hsc__hub_name *name, const char *cache, char **folder, hsc_error *err)
{
    const char *names[] = {name->repo, hsc__hub_new_name(name->repo), hsc__hub_old_name(name->repo)};
    hsc_status status = HSC_ENOTFOUND;
    for (size_t i = 0; status == HSC_ENOTFOUND && i < sizeof names / sizeof *names; i++)
        if (names[i]) status = look_up(cache, names[i], name->revision, folder, err);
    return status;
}

static hsc_status fail_not_cached(const hsc__hub_name *name, const char *cache, hsc_error *err)
{
    const char *other = hsc__hub_new_name(name->repo), *at = name->has_revision ? "@" : "";
    if (!other) other = hsc__hub_old_name(name->repo);
    return hsc__fail(err, HSC_ENOTFOUND, 0,
                     "%s%s%s: no such file or folder, and not among the models in %s%s%s%s; fetch it with "
                     "`headscope pull %s%s%s`",
                     name->repo, at, name->has_revision ? name->revision : "", cache, other ? " (nor as " : "",
                     other ? other : "", other ? ")" : "", name->repo, at, name->has_revision ? name->revision : "");
}

/* A name that can only be meant as a path is not worth advice about repositories. */
static bool looks_like_path(const char *name)
{
    size_t n = strlen(name);
    const char *slash = strchr(name, '/');
    return n == 0 || strchr("/.~", name[0]) || name[n - 1] == '/' ||
           (slash && strchr(slash + 1, '/') && !strchr(name, '@')) || hsc__ends_with(name, ".gguf") ||
           hsc__ends_with(name, ".safetensors") || hsc__ends_with(name, ".bin");
}

hsc_status hsc__hub_resolve(const char *name, char **path, hsc_error *err)
{
    struct stat info;
    *path = NULL;
    if (stat(name, &info) == 0) {
        *path = hsc__strndup(name, strlen(name));
        return *path ? HSC_OK : hsc__fail_memory(err, strlen(name) + 1, "a path");
    }
    HSC_FAIL_IF(looks_like_path(name), HSC_ENOTFOUND, "%s: no such file or folder", name);
    hsc__hub_name parsed;
    HSC_FAIL_IF(hsc__hub_name_parse(&parsed, name, NULL, NULL) != HSC_OK, HSC_ENOTFOUND,
                "%s: no such file or folder, and not a repository's name (ORG/NAME or ORG/NAME@REVISION)", name);
    char *cache = NULL, *folder = NULL;
    HSC_TRY(hsc__hub_cache_dir(&cache, err));
    hsc_status status = look_up_all(&parsed, cache, &folder, err);
    if (status == HSC_ENOTFOUND) status = fail_not_cached(&parsed, cache, err);
    hsc__free(cache);
    return status == HSC_OK ? choose(folder, name, path, err) : status;
}
