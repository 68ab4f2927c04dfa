/* The vocabulary's arrays and its hash table: open addressing, linear probing, at most half full. The hash is kept
 * beside the id so that a lookup seldom reads a text that is not the one it wants. */
#include "tokenizer/vocab.h"

#include <string.h>

static uint64_t load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t load32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* Up to eight bytes as one number, in which each of them counts. */
static uint64_t load_tail(const char *p, size_t n)
{
    const unsigned char *b = (const unsigned char *)p;
    if (n >= 4) return load32(p) | load32(p + n - 4) << 32;
    return n ? b[0] | (uint64_t)b[n / 2] << 8 | (uint64_t)b[n - 1] << 16 : 0;
}

static uint32_t hash_text(const char *text, size_t n)
{
    uint64_t h = n;
    for (; n > 8; text += 8, n -= 8) h = mix(h, load64(text));
    h = mix(mix(h, load_tail(text, n)), 0);
    return (uint32_t)(h ^ h >> 29);
}

static bool equals(const hsc__bytes *a, const char *text, size_t n)
{
    return a->n == n && memcmp(a->data, text, n) == 0;
}

/* The slot that holds the text, or the empty one where it would go. */
static size_t probe(const hsc__vocab *vocab, uint32_t hash, const char *text, size_t n)
{
    size_t mask = vocab->n_slots - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        const hsc__vocab_slot *slot = &vocab->slot[i];
        if (slot->id < 0 || (slot->hash == hash && equals(&vocab->text[slot->id], text, n))) return i;
    }
}

static hsc_status grow_slots(hsc__vocab *vocab, size_t need, hsc_error *err)
{
    size_t n_slots = vocab->n_slots ? vocab->n_slots : 64;
    while (n_slots < need * 2) n_slots *= 2;
    if (n_slots == vocab->n_slots) return HSC_OK;
    hsc__vocab_slot *slot = hsc__malloc(n_slots * sizeof *slot);
    if (!slot) return hsc__fail_memory(err, n_slots * sizeof *slot, "the vocabulary");
    for (size_t i = 0; i < n_slots; i++) slot[i] = (hsc__vocab_slot){0, -1};
    for (size_t i = 0; i < vocab->n_slots; i++) {
        if (vocab->slot[i].id < 0) continue;
        size_t at = vocab->slot[i].hash & (n_slots - 1);
        while (slot[at].id >= 0) at = (at + 1) & (n_slots - 1);
        slot[at] = vocab->slot[i];
    }
    hsc__free(vocab->slot);
    vocab->slot = slot;
    vocab->n_slots = n_slots;
    return HSC_OK;
}

hsc_status hsc__vocab_resize(hsc__vocab *vocab, size_t n, hsc_error *err)
{
    if (n > vocab->capacity) {
        size_t text = vocab->capacity, bytes = vocab->capacity, kind = vocab->capacity;
        HSC_TRY(hsc__grow(&vocab->text, &text, n, sizeof *vocab->text, err));
        HSC_TRY(hsc__grow(&vocab->bytes, &bytes, n, sizeof *vocab->bytes, err));
        HSC_TRY(hsc__grow(&vocab->kind, &kind, n, sizeof *vocab->kind, err));
        vocab->capacity = kind;
    }
    for (size_t i = vocab->n; i < n; i++) {
        vocab->text[i] = vocab->bytes[i] = (hsc__bytes){0};
        vocab->kind[i] = HSC__TOKEN_NONE;
    }
    if (n > vocab->n) vocab->n = n;
    return grow_slots(vocab, vocab->n, err);
}

hsc_status hsc__vocab_set(hsc__vocab *vocab, hsc_token id, hsc__bytes text, hsc__token_kind kind, hsc_token *existing,
                          hsc_error *err)
{
    *existing = -1;
    if ((size_t)id >= vocab->n) HSC_TRY(hsc__vocab_resize(vocab, (size_t)id + 1, err));
    uint32_t hash = hash_text(text.data, text.n);
    size_t at = probe(vocab, hash, text.data, text.n);
    if (vocab->slot[at].id >= 0) {
        *existing = vocab->slot[at].id;
        return HSC_OK;
    }
    vocab->slot[at] = (hsc__vocab_slot){hash, id};
    vocab->text[id] = vocab->bytes[id] = text;
    vocab->kind[id] = (uint8_t)kind;
    return HSC_OK;
}

hsc_token hsc__vocab_find(const hsc__vocab *vocab, const char *text, size_t n)
{
    if (!vocab->n_slots) return -1;
    return vocab->slot[probe(vocab, hash_text(text, n), text, n)].id;
}

void hsc__vocab_free(hsc__vocab *vocab)
{
    hsc__free(vocab->text);
    hsc__free(vocab->bytes);
    hsc__free(vocab->kind);
    hsc__free(vocab->slot);
    *vocab = (hsc__vocab){0};
}
