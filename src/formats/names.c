/* Open addressing with linear probing; the table is at most half full, so that probes stay short. */
#include "formats/names.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>
#include <time.h>

/* Spreads every bit of x over the whole word (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t hash(const hsc__names *names, const char *text, size_t n)
{
    uint64_t h = mix(names->seed ^ n);
    for (; n >= 8; text += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = mix(h ^ word);
    }
    uint64_t word = 0;
    if (n) memcpy(&word, text, n);
    return mix(h ^ word);
}

/* The slot that holds the name, or the free one where it belongs. */
static hsc__name_slot *probe(const hsc__names *names, const char *text, size_t n)
{
    size_t mask = names->n_slots - 1;
    for (size_t at = (size_t)hash(names, text, n) & mask;; at = (at + 1) & mask) {
        hsc__name_slot *slot = &names->slots[at];
        if (!slot->text || (slot->n == n && memcmp(slot->text, text, n) == 0)) return slot;
    }
}

hsc_status hsc__names_reserve(hsc__names *names, size_t count, hsc_error *err)
{
    hsc__names_free(names);
    size_t n_slots = 8;
    while (n_slots / 2 < count && n_slots <= SIZE_MAX / 2) n_slots *= 2;
    names->slots = hsc__calloc(n_slots, sizeof *names->slots);
    if (!names->slots) return hsc__fail_memory(err, n_slots * sizeof *names->slots, "a table of names");
    names->n_slots = n_slots;
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    names->seed = mix((uint64_t)now.tv_nsec + ((uint64_t)now.tv_sec << 30)) ^ mix((uint64_t)(uintptr_t)names->slots);
    return HSC_OK;
}

size_t hsc__names_add(hsc__names *names, const char *text, size_t n, size_t index)
{
    hsc__name_slot *slot = probe(names, text, n);
    if (slot->text) return slot->index;
    *slot = (hsc__name_slot){text, n, index};
    return HSC_NO_INDEX;
}

size_t hsc__names_find(const hsc__names *names, const char *text, size_t n)
{
    if (!names->n_slots) return HSC_NO_INDEX;
    const hsc__name_slot *slot = probe(names, text, n);
    return slot->text ? slot->index : HSC_NO_INDEX;
}

void hsc__names_free(hsc__names *names)
{
    hsc__free(names->slots);
    *names = (hsc__names){0};
}

int hsc__shown(const char *text, size_t n)
{
    enum { SHOWN = 96 };
    return (int)(n <= SHOWN ? n : hsc__utf8_prefix(text, SHOWN));
}

bool hsc__name_valid(const char *text, size_t n)
{
    return !memchr(text, '\0', n) && hsc__utf8_valid(text, n);
}
