/*
 * A table from names to positions: constant-time look-up of tensors and keys. The names stay where they are and must
 * outlive the table. The hash is seeded anew for every table, so that no file can choose names that collide.
 */
#ifndef HSC_FORMATS_NAMES_H
#define HSC_FORMATS_NAMES_H

#include "base/status.h"

#include <stdbool.h>

typedef struct hsc__name_slot {
    const char *text; /* NULL: free */
    size_t n, index;
} hsc__name_slot;

/* Zero it before use. */
typedef struct hsc__names {
    hsc__name_slot *slots; /* [n_slots], a power of two at least twice the names it has room for */
    size_t n_slots;
    uint64_t seed;
} hsc__names;

#define HSC_NO_INDEX SIZE_MAX

/* Empties the table and makes room for `count` names. */
hsc_status hsc__names_reserve(hsc__names *names, size_t count, hsc_error *err);
/* Adds a name; no more than were reserved. Returns the index of the same name added before, else HSC_NO_INDEX. */
size_t hsc__names_add(hsc__names *names, const char *text, size_t n, size_t index);
/* The index of that name, or HSC_NO_INDEX. */
size_t hsc__names_find(const hsc__names *names, const char *text, size_t n);
void hsc__names_free(hsc__names *names);

/* How much of a name to print: for "%.*s". Long names are cut, at a whole character. */
int hsc__shown(const char *text, size_t n);

/* True when the bytes can be a name: valid UTF-8 without a NUL. */
bool hsc__name_valid(const char *text, size_t n);

#endif
