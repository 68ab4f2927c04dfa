/*
 * Split models: PREFIX-00001-of-00003.gguf and so on. Each part is a GGUF file with split.no (from 0), split.count and
 * split.tensors.count; the first one carries the model's metadata.
 */
#include "formats/gguf_file.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 65535, MAX_TENSORS = INT32_MAX };

/* "-00001-of-00003.gguf" */
typedef struct part_ending {
    char text[32];
} part_ending;

static part_ending ending_of(int64_t number, int64_t count)
{
    part_ending ending;
    snprintf(ending.text, sizeof ending.text, "-%05d-of-%05d.gguf", (int)number, (int)count);
    return ending;
}

/* The path of part `number` (from 1), or NULL in *out when `path` is not named as part `from` is. hsc__free it. */
static hsc_status part_path(char **out, const char *path, int64_t from, int64_t number, int64_t count, hsc_error *err)
{
    part_ending old = ending_of(from, count), new = ending_of(number, count);
    size_t n = strlen(path), n_ending = strlen(old.text);
    *out = NULL;
    if (n < n_ending || strcmp(path + n - n_ending, old.text) != 0) return HSC_OK;
    *out = hsc__malloc(n - n_ending + sizeof new.text);
    if (!*out) return hsc__fail_memory(err, n - n_ending + sizeof new.text, "a path");
    memcpy(*out, path, n - n_ending);
    memcpy(*out + n - n_ending, new.text, strlen(new.text) + 1);
    return HSC_OK;
}

/* Opens part `number` (from 1) and checks that it says so itself. */
static hsc_status read_part(hsc__gguf *gguf, const char *path, int64_t number, int64_t count, hsc_error *err)
{
    hsc__map map;
    hsc__gguf_kvs kvs = {0};
    hsc__gguf part = {.tensors = gguf->tensors, .kvs = &kvs};
    int64_t its_index = -1, its_count = 0;
    hsc_status status = hsc__tensors_map(gguf->tensors, path, &map, &part.path, err);
    if (status == HSC_ENOTFOUND) {
        return hsc__fail_prefix(err, status, "%s: part %lld of %lld is missing", gguf->path, (long long)number,
                                (long long)count);
    }
    HSC_TRY(status);
    status = hsc__gguf_read(&kvs, gguf->tensors, map.data, map.size, part.path, err);
    if (status == HSC_OK) status = hsc__gguf_get_int(&part, "split.no", -1, 0, MAX_PARTS, &its_index, err);
    if (status == HSC_OK) status = hsc__gguf_get_int(&part, "split.count", 0, 0, MAX_PARTS, &its_count, err);
    hsc__gguf_kvs_free(&kvs);
    HSC_TRY(status);
    HSC_FAIL_IF(its_index != number - 1 || its_count != count, HSC_EFORMAT,
                "%s: split.no is %lld and split.count %lld, they must be %lld and %lld for part %lld of %s", path,
                (long long)its_index, (long long)its_count, (long long)number - 1, (long long)count, (long long)number,
                gguf->path);
    return HSC_OK;
}

static hsc_status refuse_later_part(const hsc__gguf *gguf, int64_t number, int64_t count, hsc_error *err)
{
    char *first;
    HSC_TRY(part_path(&first, gguf->path, number, 1, count, err));
    hsc_status status =
        hsc__fail(err, HSC_EINVAL, 0, "%s: is part %lld of %lld of a split model; start with part 1, %s", gguf->path,
                  (long long)number, (long long)count, first ? first : ending_of(1, count).text);
    hsc__free(first);
    return status;
}

hsc_status hsc__gguf_open_parts(hsc__gguf *gguf, hsc_error *err)
{
    int64_t index, count, n_tensors;
    HSC_TRY(hsc__gguf_get_int(gguf, "split.count", 0, 0, MAX_PARTS, &count, err));
    HSC_TRY(hsc__gguf_get_int(gguf, "split.no", 0, 0, MAX_PARTS, &index, err));
    HSC_TRY(hsc__gguf_get_int(gguf, "split.tensors.count", -1, 0, MAX_TENSORS, &n_tensors, err));
    if (count < 2) return HSC_OK;
    HSC_FAIL_IF(index >= count, HSC_EFORMAT, "%s: split.no is %lld, it must be below split.count, which is %lld",
                gguf->path, (long long)index, (long long)count);
    if (index > 0) return refuse_later_part(gguf, index + 1, count, err);
    for (int64_t number = 2; number <= count; number++) {
        char *path;
        HSC_TRY(part_path(&path, gguf->path, 1, number, count, err));
        HSC_FAIL_IF(!path, HSC_EFORMAT,
                    "%s: is part 1 of %lld of a split model, but its name does not end in %s, so the others cannot be "
                    "found",
                    gguf->path, (long long)count, ending_of(1, count).text);
        hsc_status status = read_part(gguf, path, number, count, err);
        hsc__free(path);
        HSC_TRY(status);
    }
    HSC_FAIL_IF(n_tensors >= 0 && (uint64_t)n_tensors != gguf->tensors->n, HSC_EFORMAT,
                "%s: split.tensors.count is %lld, but the %lld parts hold %zu tensors", gguf->path,
                (long long)n_tensors, (long long)count, gguf->tensors->n);
    return HSC_OK;
}
