/* Filling and freeing the trie. The table is at most half full. */
#include "tokenizer/trie.h"

enum { MOST_NODES = 1 << 24 };

static hsc_status grow_edges(hsc__trie *trie, hsc_error *err)
{
    hsc__trie old = *trie;
    size_t n_slots = old.n_slots ? old.n_slots * 2 : 1024;
    hsc__trie_edge *edge = hsc__calloc(n_slots, sizeof *edge);
    if (!edge) return hsc__fail_memory(err, n_slots * sizeof *edge, "the vocabulary");
    trie->edge = edge;
    trie->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.edge[i].child) edge[hsc__trie_slot(trie, old.edge[i].key)] = old.edge[i];
    hsc__free(old.edge);
    return HSC_OK;
}

static hsc_status add_node(hsc__trie *trie, hsc_error *err)
{
    HSC_FAIL_IF(trie->n_nodes == MOST_NODES, HSC_EUNSUPPORTED, "the vocabulary's texts have more than %d prefixes",
                (int)MOST_NODES);
    HSC_TRY(hsc__grow(&trie->token, &trie->capacity, trie->n_nodes + 1, sizeof *trie->token, err));
    trie->token[trie->n_nodes++] = -1;
    return HSC_OK;
}

hsc_status hsc__trie_add(hsc__trie *trie, const char *text, size_t n, hsc_token id, hsc_error *err)
{
    if (!trie->n_nodes) HSC_TRY(add_node(trie, err));
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t child = hsc__trie_step(trie, node, text[i]);
        if (!child) {
            if (trie->n_nodes * 2 >= trie->n_slots) HSC_TRY(grow_edges(trie, err));
            child = (uint32_t)trie->n_nodes;
            HSC_TRY(add_node(trie, err));
            uint32_t key = node << 8 | (unsigned char)text[i];
            trie->edge[hsc__trie_slot(trie, key)] = (hsc__trie_edge){key, child};
        }
        node = child;
    }
    trie->token[node] = id;
    return HSC_OK;
}

void hsc__trie_free(hsc__trie *trie)
{
    hsc__free(trie->edge);
    hsc__free(trie->token);
    *trie = (hsc__trie){0};
}
