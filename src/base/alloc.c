/* The replaceable allocator, growing arrays and arenas. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *user, size_t n_bytes)
{
    (void)user;
    return malloc(n_bytes);
}

static void *default_realloc(void *user, void *ptr, size_t n_bytes)
{
    (void)user;
    return realloc(ptr, n_bytes);
}

static void default_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static const hsc_allocator standard = {default_alloc, default_realloc, default_free, NULL};
static hsc_allocator current = {default_alloc, default_realloc, default_free, NULL};

void hsc_set_allocator(const hsc_allocator *allocator)
{
    current = allocator ? *allocator : standard;
}

void *hsc__malloc(size_t n_bytes)
{
    return current.alloc(current.user, n_bytes ? n_bytes : 1);
}

void *hsc__calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) return NULL;
    size_t n_bytes = count * size;
    if (!n_bytes) n_bytes = 1;
    if (current.alloc == default_alloc) return calloc(1, n_bytes); /* large blocks stay untouched zero pages */
    void *ptr = hsc__malloc(n_bytes);
    if (ptr) memset(ptr, 0, n_bytes);
    return ptr;
}

void *hsc__realloc(void *ptr, size_t n_bytes)
{
    return current.realloc(current.user, ptr, n_bytes ? n_bytes : 1);
}

void hsc__free(void *ptr)
{
    if (ptr) current.free(current.user, ptr);
}

char *hsc__strndup(const char *text, size_t n)
{
    char *copy = hsc__malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

enum { ALIGNMENT = 64 };

void *hsc__malloc_aligned(size_t n_bytes)
{
    if (n_bytes > SIZE_MAX - ALIGNMENT - sizeof(void *)) return NULL;
    char *raw = hsc__malloc(n_bytes + ALIGNMENT + sizeof(void *));
    if (!raw) return NULL;
    uintptr_t start = ((uintptr_t)raw + sizeof(void *) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    ((void **)start)[-1] = raw;
    return (void *)start;
}

void hsc__free_aligned(void *ptr)
{
    if (ptr) hsc__free(((void **)ptr)[-1]);
}

hsc_status hsc__grow(void *array_ptr, size_t *capacity, size_t need, size_t element_size, hsc_error *err)
{
    if (need <= *capacity) return HSC_OK;
    size_t wanted = *capacity > SIZE_MAX / 2 ? need : *capacity * 2;
    if (wanted < need) wanted = need;
    if (wanted < 8) wanted = 8;
    if (wanted > SIZE_MAX / element_size) return hsc__fail_memory(err, SIZE_MAX, "a growing array");
    void *old;
    memcpy(&old, array_ptr, sizeof old);
    void *grown = hsc__realloc(old, wanted * element_size);
    if (!grown) return hsc__fail_memory(err, wanted * element_size, "a growing array");
    memcpy(array_ptr, &grown, sizeof grown);
    *capacity = wanted;
    return HSC_OK;
}

struct hsc__arena_block {
    struct hsc__arena_block *next;
    max_align_t data[];
};

enum { ARENA_BLOCK = 64 * 1024 };

void *hsc__arena_alloc(hsc__arena *arena, size_t n_bytes)
{
    if (n_bytes > SIZE_MAX / 2) return NULL;
    size_t rounded = (n_bytes + 15) & ~(size_t)15;
    if (!arena->head || arena->size - arena->used < rounded) {
        size_t size = rounded > ARENA_BLOCK ? rounded : ARENA_BLOCK;
        struct hsc__arena_block *block = hsc__malloc(sizeof *block + size);
        if (!block) return NULL;
        block->next = arena->head;
        arena->head = block;
        arena->used = 0;
        arena->size = size;
        arena->held += size;
    }
    void *ptr = (char *)arena->head->data + arena->used;
    arena->used += rounded;
    return ptr;
}

char *hsc__arena_strndup(hsc__arena *arena, const char *text, size_t n)
{
    char *copy = hsc__arena_alloc(arena, n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

void hsc__arena_free(hsc__arena *arena)
{
    struct hsc__arena_block *block = arena->head;
    while (block) {
        struct hsc__arena_block *next = block->next;
        hsc__free(block);
        block = next;
    }
    *arena = (hsc__arena){0};
}
