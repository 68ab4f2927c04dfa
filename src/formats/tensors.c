/* The set of named tensors that every reader fills and the model reads. */
#include "formats/tensor_set.h"

#include <stdlib.h>
#include <string.h>

hsc_status hsc__tensors_new(hsc__tensors **out, hsc_error *err)
{
    *out = hsc__calloc(1, sizeof **out);
    return *out ? HSC_OK : hsc__fail_memory(err, sizeof **out, "a set of tensors");
}

void hsc__tensors_close(hsc__tensors *set)
{
    if (!set) return;
    for (size_t i = 0; i < set->n_maps; i++) hsc__map_close(&set->maps[i]);
    hsc__names_free(&set->names);
    hsc__free(set->maps);
    hsc__free(set->items);
    hsc__free(set->metadata);
    hsc__arena_free(&set->arena);
    hsc__free(set);
}

hsc_status hsc__tensors_keep(hsc__tensors *set, const char *text, size_t n, const char **out, hsc_error *err)
{
    *out = hsc__arena_strndup(&set->arena, text, n);
    return *out ? HSC_OK : hsc__fail_memory(err, n + 1, "a name");
}

hsc_status hsc__tensors_map(hsc__tensors *set, const char *path, hsc__map *out, const char **kept_path, hsc_error *err)
{
    HSC_TRY(hsc__tensors_keep(set, path, strlen(path), kept_path, err));
    HSC_TRY(hsc__grow(&set->maps, &set->maps_capacity, set->n_maps + 1, sizeof *set->maps, err));
    HSC_TRY(hsc__map_open(out, path, err));
    set->maps[set->n_maps++] = *out;
    return HSC_OK;
}

hsc_status hsc__tensors_reserve(hsc__tensors *set, size_t count, hsc_error *err)
{
    return hsc__grow(&set->items, &set->capacity, set->n + count, sizeof *set->items, err);
}

/* By place, the empty ones first: those lie between two others. */
static int by_place(const void *left, const void *right)
{
    const hsc__tensor *a = left, *b = right;
    uintptr_t at_a = (uintptr_t)a->data, at_b = (uintptr_t)b->data;
    if (at_a != at_b) return at_a < at_b ? -1 : 1;
    return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

hsc_status hsc__tensors_check_layout(hsc__tensors *set, size_t first, const unsigned char *base, uint64_t size,
                                     bool dense, hsc_error *err)
{
    if (set->n > first) qsort(set->items + first, set->n - first, sizeof *set->items, by_place);
    uint64_t end = 0;
    for (size_t i = first; i < set->n; i++) {
        const hsc__tensor *t = &set->items[i];
        uint64_t begin = (uint64_t)((const unsigned char *)t->data - base);
        int shown = hsc__shown(t->name, strlen(t->name));
        HSC_FAIL_IF(begin < end, HSC_EFORMAT,
                    "tensor '%.*s' starts at byte %llu of the data, inside the one before it, which ends at %llu",
                    shown, t->name, (unsigned long long)begin, (unsigned long long)end);
        HSC_FAIL_IF(dense && begin > end, HSC_EFORMAT,
                    "tensor '%.*s' starts at byte %llu of the data, which leaves a hole after byte %llu", shown,
                    t->name, (unsigned long long)begin, (unsigned long long)end);
        end = begin + t->n_bytes;
    }
    HSC_FAIL_IF(dense && end != size, HSC_EFORMAT, "the tensors end at byte %llu of the data, the file at byte %llu",
                (unsigned long long)end, (unsigned long long)size);
    return HSC_OK;
}

hsc_status hsc__tensors_index(hsc__tensors *set, hsc_error *err)
{
    HSC_TRY(hsc__names_reserve(&set->names, set->n, err));
    for (size_t i = 0; i < set->n; i++) {
        const hsc__tensor *t = &set->items[i];
        size_t n_name = strlen(t->name);
        size_t other = hsc__names_add(&set->names, t->name, n_name, i);
        HSC_FAIL_IF(other != HSC_NO_INDEX, HSC_EFORMAT, "%s: tensor '%.*s' occurs twice, the other one is in %s",
                    t->path, hsc__shown(t->name, n_name), t->name, set->items[other].path);
    }
    return HSC_OK;
}

size_t hsc__tensors_count(const hsc__tensors *set)
{
    return set->n;
}

const hsc__tensor *hsc__tensors_at(const hsc__tensors *set, size_t index)
{
    return index < set->n ? &set->items[index] : NULL;
}

const hsc__tensor *hsc__tensors_find(const hsc__tensors *set, const char *name)
{
    size_t index = hsc__names_find(&set->names, name, strlen(name));
    return index == HSC_NO_INDEX ? NULL : &set->items[index];
}

const char *hsc__tensors_metadata(const hsc__tensors *set, const char *key)
{
    for (size_t i = 0; i < set->n_metadata; i++) {
        if (strcmp(set->metadata[i].key, key) == 0) return set->metadata[i].value;
    }
    return NULL;
}
