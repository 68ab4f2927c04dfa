/*
 * Inside formats: how a set of tensors is filled. A reader makes a set, maps its files, adds their tensors and closes
 * with hsc__tensors_index; on any failure it calls hsc__tensors_close.
 */
#ifndef HSC_FORMATS_TENSOR_SET_H
#define HSC_FORMATS_TENSOR_SET_H

#include "base/alloc.h"
#include "formats/names.h"
#include "formats/tensors.h"

#include <stdbool.h>

typedef struct hsc__text_pair {
    const char *key, *value;
} hsc__text_pair;

struct hsc__tensors {
    hsc__arena arena; /* names, paths and metadata */
    hsc__map *maps;
    size_t n_maps, maps_capacity;
    hsc__tensor *items;
    size_t n, capacity;
    hsc__text_pair *metadata;
    size_t n_metadata, metadata_capacity;
    hsc__names names;
};

hsc_status hsc__tensors_new(hsc__tensors **out, hsc_error *err);

/* Maps a file that lives as long as the set; *kept_path is the set's own copy of the path. */
hsc_status hsc__tensors_map(hsc__tensors *set, const char *path, hsc__map *out, const char **kept_path, hsc_error *err);

/* A NUL-terminated copy that lives as long as the set. */
hsc_status hsc__tensors_keep(hsc__tensors *set, const char *text, size_t n, const char **out, hsc_error *err);

/* Makes room for `count` more tensors. */
hsc_status hsc__tensors_reserve(hsc__tensors *set, size_t count, hsc_error *err);

/* Sorts the tensors from `first` on by where their data lie, then checks that none overlap; with `dense` also that they
 * fill base[0..size) without a hole. The caller puts the path before the message. */
hsc_status hsc__tensors_check_layout(hsc__tensors *set, size_t first, const unsigned char *base, uint64_t size,
                                     bool dense, hsc_error *err);

/* Builds the table of names; two tensors of one name are HSC_EFORMAT. */
hsc_status hsc__tensors_index(hsc__tensors *set, hsc_error *err);

/* Adds the tensors of one safetensors file, given as bytes; `path` must live as long as the set. */
hsc_status hsc__safetensors_add(hsc__tensors *set, const unsigned char *data, uint64_t size, const char *path,
                                hsc_error *err);

#endif
