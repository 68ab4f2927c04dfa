/*
 * A trie over bytes: which tokens are prefixes of a text, found in one walk. Edges lie in one open-addressed table, so
 * that a step costs one look whatever the vocabulary's size.
 */
#ifndef HSC_TOKENIZER_TRIE_H
#define HSC_TOKENIZER_TRIE_H

#include "base/alloc.h"

/* key is the parent's number and the byte; child 0 (the root is nobody's child): an empty slot. */
typedef struct hsc__trie_edge {
    uint32_t key, child;
} hsc__trie_edge;

/* Zero it before use. Read-only once it is filled. */
typedef struct hsc__trie {
    hsc__trie_edge *edge; /* [n_slots], a power of two */
    size_t n_slots;
    hsc_token *token; /* [n_nodes] the token that ends at a node, or -1; node 0 is the root */
    size_t n_nodes, capacity;
} hsc__trie;

/* Adds a token; one that has the same text is replaced. HSC_ENOMEM; HSC_EUNSUPPORTED past 2^24 nodes. */
hsc_status hsc__trie_add(hsc__trie *trie, const char *text, size_t n, hsc_token id, hsc_error *err);
void hsc__trie_free(hsc__trie *trie);

static inline size_t hsc__trie_slot(const hsc__trie *trie, uint32_t key)
{
    size_t mask = trie->n_slots - 1, i = (key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
    while (trie->edge[i].child && trie->edge[i].key != key) i = (i + 1) & mask;
    return i;
}

/* The child of a node along a byte; 0 when there is none. An empty trie has no children. */
static inline uint32_t hsc__trie_step(const hsc__trie *trie, uint32_t node, char byte)
{
    if (!trie->n_slots) return 0;
    return trie->edge[hsc__trie_slot(trie, node << 8 | (unsigned char)byte)].child;
}

#endif
