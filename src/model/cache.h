/* The key/value cache of a session: sequences, what they share, and saving. */
#ifndef HSC_MODEL_CACHE_H
#define HSC_MODEL_CACHE_H

#include "model/desc.h"
#include "tensor/kv.h"

typedef struct hsc__cache_layer {
    char *k, *v;      /* [max_seqs][n_kv_heads][n_cells] rows */
    size_t seq_bytes; /* from one sequence to the next */
    int n_cells;      /* fewer than the longest sequence: a ring */
    int window;       /* keys a query sees; 0: all */
} hsc__cache_layer;

typedef struct hsc__cache_seq {
    int length;
    int written;  /* how far it ever reached since it was empty: in a ring, what lies n_cells before that is gone */
    int n_shared; /* positions below it lie with sequence `owner`; a multiple of 64 */
    int owner;
} hsc__cache_seq;

typedef struct hsc__cache {
    const hsc__kernels *kernels;
    hsc_dtype dtype;
    int n_layers, n_kv_heads, d_head, max_seqs;
    bool has_ring;
    bool shared;              /* one memory for all layers: no pass continues another when tokens see later ones */
    hsc__cache_layer *layers; /* [n_layers] */
    hsc__cache_seq *seqs;     /* [max_seqs] */
} hsc__cache;

/* Sequences of at most max_tokens, of which at most max_rows come in one go; `window` overrides the layers' own when it
 * is not 0, and `ring` lets a window save memory. HSC_ENOMEM. */
hsc_status hsc__cache_init(hsc__cache *cache, const hsc__desc *desc, hsc_dtype dtype, int max_seqs, int max_tokens,
                           int max_rows, int window, bool ring, hsc_error *err);
void hsc__cache_free(hsc__cache *cache);

/* Bytes that all sequences touch of such a cache once each holds max_tokens: whole tiles of positions. */
size_t hsc__cache_bytes(const hsc__desc *desc, hsc_dtype dtype, int max_seqs, int max_tokens, int max_rows, int window,
                        bool ring);

/* The keys and values of a sequence in a layer. */
hsc__kv hsc__cache_kv(const hsc__cache *cache, int layer, int seq);

/* Sequence `seq` is about to change from position n_tokens on: whoever shares more of it than that gets a copy. */
void hsc__cache_release(hsc__cache *cache, int seq, int n_tokens);

/* Whether a sequence that reached `written` tokens can go on from n_tokens: false when a ring has overwritten keys that
 * it would still see. */
bool hsc__cache_can_cut(const hsc__cache *cache, int written, int n_tokens);

/* Sequence `seq` is cut to, or now holds, n_tokens. */
void hsc__cache_set_length(hsc__cache *cache, int seq, int n_tokens);

#endif
