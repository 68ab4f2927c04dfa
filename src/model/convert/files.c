/*
 * The two kinds of output. A GGUF file is written beside its name and renamed; a folder is filled beside its name and
 * renamed whole. What is there already is replaced only where the caller said so, and a folder only when it holds
 * nothing but files.
 */
#include "model/convert/convert.h"

#include "base/file.h"
#include "formats/safetensors_writer.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_LIMIT = 1 << 30 };

/* ------------------------------------------------------------------------------------------------- one GGUF file ----
 */

static hsc_status write_items(hsc__convert *c, bool pad, hsc__sink *sink, hsc_error *err)
{
    for (size_t i = 0; i < c->n_items; i++) {
        HSC_TRY(hsc__convert_data(c, &c->items[i], sink, err));
        if (pad) HSC_TRY(hsc__gguf_write_padding(sink, err));
    }
    return HSC_OK;
}

static hsc_status fill_writer(hsc__convert *c, hsc__gguf_writer *w, hsc_error *err)
{
    if (c->model) {
        HSC_TRY(hsc__convert_put_metadata(c, w, err));
        HSC_TRY(hsc__convert_put_tokenizer(c, w, err));
    } else {
        hsc__convert_copy_metadata(c, w);
    }
    for (size_t i = 0; i < c->n_items; i++) {
        const hsc__item *item = &c->items[i];
        uint64_t n_bytes;
        HSC_TRY(hsc__gguf_add_tensor(w, item->name, item->type_name, item->n_dims, item->shape, &n_bytes, err));
    }
    return HSC_OK;
}

static hsc_status write_gguf(hsc__convert *c, const hsc__gguf_writer *w, hsc_error *err)
{
    hsc__output output = {0};
    HSC_TRY(hsc__output_open(&output, c->out, err));
    hsc__sink sink = {output.stream, c->out, 0};
    hsc_status status = hsc__gguf_write_header(w, &sink, err);
    if (status == HSC_OK) status = write_items(c, true, &sink, err);
    if (status == HSC_OK) return hsc__output_commit(&output, err);
    hsc__output_abort(&output);
    return status;
}

hsc_status hsc__convert_to_gguf(hsc__convert *c, hsc_error *err)
{
    hsc__gguf_writer w = {0};
    hsc_status status = fill_writer(c, &w, err);
    if (status == HSC_OK) status = write_gguf(c, &w, err);
    hsc__gguf_writer_free(&w);
    return status;
}

/* --------------------------------------------------------------------------------------------- files of a folder ----
 */

/* Opens dir/name to be written; the caller frees *path. */
static hsc_status open_in(hsc__output *output, char **path, const char *dir, const char *name, hsc_error *err)
{
    *path = hsc__path_join(dir, name);
    if (!*path) return hsc__fail_memory(err, strlen(dir), name);
    return hsc__output_open(output, *path, err);
}

static hsc_status close_in(hsc__output *output, char *path, hsc_status status, hsc_error *err)
{
    if (status == HSC_OK) status = hsc__output_commit(output, err);
    else hsc__output_abort(output);
    hsc__free(path);
    return status;
}

static hsc_status write_text(const char *dir, const char *name, const char *text, size_t n, hsc_error *err)
{
    hsc__output output = {0};
    char *path;
    hsc_status status = open_in(&output, &path, dir, name, err);
    if (status == HSC_OK) status = hsc__sink_put(&(hsc__sink){output.stream, path, 0}, text, n, err);
    return close_in(&output, path, status, err);
}

static hsc_status write_json(const char *dir, const char *name, const json_t *json, size_t layout, hsc_error *err)
{
    size_t n = json_dumpb(json, NULL, 0, layout);
    char *text = hsc__malloc(n + 1);
    if (!n || !text) {
        hsc__free(text);
        return hsc__fail_memory(err, n, name);
    }
    json_dumpb(json, text, n, layout);
    text[n] = '\n';
    hsc_status status = write_text(dir, name, text, n + 1, err);
    hsc__free(text);
    return status;
}

static hsc_status write_weights(hsc__convert *c, const char *dir, hsc_error *err)
{
    hsc__output output = {0};
    char *path = NULL;
    hsc__tensor_spec *specs = hsc__calloc(c->n_items, sizeof *specs);
    if (!specs) return hsc__fail_memory(err, c->n_items * sizeof *specs, "a safetensors header");
    for (size_t i = 0; i < c->n_items; i++) {
        const hsc__item *item = &c->items[i];
        specs[i] = (hsc__tensor_spec){item->name, item->dtype, item->n_dims, item->shape, item->n_bytes};
    }
    hsc_status status = open_in(&output, &path, dir, "model.safetensors", err);
    hsc__sink sink = {output.stream, path, 0};
    if (status == HSC_OK) status = hsc__safetensors_write_header(&sink, specs, c->n_items, "pt", err);
    if (status == HSC_OK) status = write_items(c, false, &sink, err);
    hsc__free(specs);
    return close_in(&output, path, status, err);
}

static hsc_status write_config(hsc__convert *c, const char *dir, hsc_error *err)
{
    json_t *config;
    HSC_TRY(hsc__convert_config(c, &config, err));
    hsc_status status = write_json(dir, "config.json", config, JSON_INDENT(2) | JSON_REAL_PRECISION(15), err);
    json_decref(config);
    return status;
}

/* Of a folder, everything that is neither weights nor config.json and that a tokenizer or generation may want. */
static hsc_status copy_beside(const hsc__convert *c, const char *dir, hsc_error *err)
{
    static const char *const names[] = {
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",     "vocab.json",
        "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "generation_config.json"};
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == HSC_OK; i++) {
        char *text = NULL, *path = hsc__path_join(c->in, names[i]);
        size_t n;
        if (!path) return hsc__fail_memory(err, strlen(c->in), names[i]);
        if (hsc__is_file(path)) {
            status = hsc__read_file(&text, &n, path, TEXT_LIMIT, err);
            if (status == HSC_OK) status = write_text(dir, names[i], text, n, err);
        }
        hsc__free(text);
        hsc__free(path);
    }
    return status;
}

static hsc_status write_tokenizer(hsc__convert *c, const char *dir, hsc_error *err)
{
    json_t *tokenizer, *config;
    if (c->config) return copy_beside(c, dir, err);
    hsc_status status = hsc__convert_tokenizer_json(c, &tokenizer, &config, err);
    if (status == HSC_OK && tokenizer) status = write_json(dir, "tokenizer.json", tokenizer, JSON_INDENT(1), err);
    if (status == HSC_OK && config) status = write_json(dir, "tokenizer_config.json", config, JSON_INDENT(2), err);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}

/* ------------------------------------------------------------------------------------------------- the folder itself
 * ---- */

static hsc_status fail_system(hsc_error *err, const char *path, const char *what)
{
    return hsc__fail(err, HSC_EIO, 0, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* Removes a folder's files and the folder; what cannot be removed stays. */
static void remove_folder(const char *dir)
{
    DIR *stream = opendir(dir);
    for (struct dirent *e; stream && (e = readdir(stream));) {
        char *path = hsc__path_join(dir, e->d_name);
        if (path && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlink(path);
        hsc__free(path);
    }
    if (stream) closedir(stream);
    rmdir(dir);
}

/* Whether a file of that name may go with the model that a folder holds: all that convert writes, and no other model.
 */
static bool is_of_a_model(const char *name)
{
    static const char *const endings[] = {".json", ".safetensors", ".txt", ".model", ".jinja"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(dot, endings[i]) == 0) return true;
    }
    return false;
}

/* A folder that may be replaced holds such files and nothing else, config.json among them (or nothing at all). */
static hsc_status check_replaceable(const char *dir, hsc_error *err)
{
    DIR *stream = opendir(dir);
    size_t n = 0, n_others = 0, n_configs = 0;
    if (!stream) return fail_system(err, dir, "read the folder");
    for (struct dirent *e; (e = readdir(stream));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *path = hsc__path_join(dir, e->d_name);
        n++;
        if (!path || !hsc__is_file(path) || !is_of_a_model(e->d_name)) n_others++;
        n_configs += strcmp(e->d_name, "config.json") == 0;
        hsc__free(path);
    }
    closedir(stream);
    HSC_FAIL_IF(n && (n_others || !n_configs), HSC_EINVAL,
                "%s: is not replaced, because it holds more than a model's files or no config.json", dir);
    return HSC_OK;
}

/* "dir.part.XXXXXX", made; no slash at the end of dir. */
static hsc_status make_neighbour(char **out, const char *dir, hsc_error *err)
{
    static const char ending[] = ".part.XXXXXX";
    size_t n = strlen(dir);
    *out = hsc__malloc(n + sizeof ending);
    if (!*out) return hsc__fail_memory(err, n, dir);
    memcpy(*out, dir, n);
    memcpy(*out + n, ending, sizeof ending);
    if (!mkdtemp(*out)) {
        hsc_status status = fail_system(err, dir, "make a folder beside it");
        hsc__free(*out);
        *out = NULL;
        return status;
    }
    mode_t mask = umask(0);
    umask(mask);
    chmod(*out, 0777 & ~mask);
    return HSC_OK;
}

/* Puts the finished folder in the place of `dir`; one that is there steps aside first and is removed last. */
static hsc_status move_in(const char *finished, const char *dir, hsc_error *err)
{
    char *old = NULL;
    if (rename(finished, dir) == 0) return HSC_OK; /* nothing was there, or an empty folder */
    if (errno != ENOTEMPTY && errno != EEXIST) return fail_system(err, dir, "rename the finished folder");
    HSC_TRY(make_neighbour(&old, dir, err));
    hsc_status status = HSC_OK;
    if (rename(dir, old) != 0 || rename(finished, dir) != 0) {
        status = fail_system(err, dir, "rename the finished folder");
        if (!hsc__is_dir(dir)) rename(old, dir);
    }
    if (status == HSC_OK) remove_folder(old);
    else rmdir(old);
    hsc__free(old);
    return status;
}

/* How embeddings are made stands in folders of its own, which are not written. */
static hsc_status note_pooling(const hsc__convert *c, hsc_error *err)
{
    static const char *const names[] = {NULL, "mean", "cls", "last"};
    char key[128];
    int64_t kind = 0;
    if (c->config) {
        char *path = hsc__path_join(c->in, "modules.json");
        if (path && hsc__is_file(path))
            hsc__convert_note(c, "modules.json, which says how embeddings are made, is left out with what it names");
        hsc__free(path);
        return HSC_OK;
    }
    snprintf(key, sizeof key, "%s.pooling_type", c->model->desc.config.arch);
    HSC_TRY(hsc__gguf_get_int(c->gguf, key, 0, INT64_MIN, INT64_MAX, &kind, err));
    if (kind >= 1 && kind <= 3)
        hsc__convert_note(c, "a folder does not say how embeddings are made: 'embed --pooling %s --normalise yes'",
                          names[kind]);
    return HSC_OK;
}

static hsc_status write_folder(hsc__convert *c, const char *dir, hsc_error *err)
{
    HSC_TRY(note_pooling(c, err));
    HSC_TRY(write_config(c, dir, err));
    HSC_TRY(write_tokenizer(c, dir, err));
    return write_weights(c, dir, err);
}

/* A message about the neighbour is one about the folder that was asked for. */
static void name_as_asked(hsc_error *err, const char *part, const char *dir)
{
    char rest[sizeof err->message];
    size_t n = strlen(part);
    if (!err || strncmp(err->message, part, n) != 0) return;
    snprintf(rest, sizeof rest, "%s", err->message + n);
    hsc__fail(err, err->code, err->offset, "%s%s", dir, rest);
}

hsc_status hsc__convert_to_folder(hsc__convert *c, hsc_error *err)
{
    char *part = NULL;
    size_t n = strlen(c->out);
    while (n > 1 && c->out[n - 1] == '/') n--;
    char *dir = hsc__strndup(c->out, n);
    if (!dir) return hsc__fail_memory(err, n, c->out);
    hsc_status status = hsc__is_dir(dir) ? check_replaceable(dir, err) : HSC_OK;
    if (status == HSC_OK) status = make_neighbour(&part, dir, err);
    if (status == HSC_OK) status = write_folder(c, part, err);
    if (status == HSC_OK) status = move_in(part, dir, err);
    if (status != HSC_OK && part) {
        name_as_asked(err, part, dir);
        remove_folder(part);
    }
    hsc__free(part);
    hsc__free(dir);
    return status;
}
