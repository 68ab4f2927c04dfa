/* Memory: everything the library takes goes through here, so that a host can replace it and tests can make it fail. */
#ifndef HSC_BASE_ALLOC_H
#define HSC_BASE_ALLOC_H

#include "base/status.h"

/* As in C; sizes are checked for overflow (count * size). NULL when it does not fit. hsc__free accepts NULL. */
void *hsc__malloc(size_t n_bytes);
void *hsc__calloc(size_t count, size_t size);
void *hsc__realloc(void *ptr, size_t n_bytes);
void hsc__free(void *ptr);
/* A copy of n bytes with a terminating NUL after them. */
char *hsc__strndup(const char *text, size_t n);

/* 64-byte aligned, contents undefined; free with hsc__free_aligned. */
void *hsc__malloc_aligned(size_t n_bytes);
void hsc__free_aligned(void *ptr);

/* Makes room for `need` elements in a growing array (doubling). Returns HSC_ENOMEM or HSC_OK. */
hsc_status hsc__grow(void *array_ptr, size_t *capacity, size_t need, size_t element_size, hsc_error *err);

/* An arena: blocks that are freed together. Zero it before use. Pointers are 16-byte aligned. */
typedef struct hsc__arena {
    struct hsc__arena_block *head;
    size_t used, size; /* of the newest block */
    size_t held;       /* bytes of all blocks */
} hsc__arena;
void *hsc__arena_alloc(hsc__arena *arena, size_t n_bytes);
char *hsc__arena_strndup(hsc__arena *arena, const char *text, size_t n);
void hsc__arena_free(hsc__arena *arena);

#endif
