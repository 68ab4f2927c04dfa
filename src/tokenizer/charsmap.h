/*
 * SentencePiece's compiled normalization: a double-array trie (Yata's, as in darts-clone) from texts to places in a
 * block of texts, each closed by a NUL. Layout: u32 bytes of the trie, its units of u32, the block; little-endian.
 */
#ifndef HSC_TOKENIZER_CHARSMAP_H
#define HSC_TOKENIZER_CHARSMAP_H

#include "tokenizer/normalize.h"

typedef struct hsc__charsmap {
    const unsigned char *units; /* [n_units * 4] borrowed */
    size_t n_units;
    hsc__bytes texts;
    bool plain[128]; /* ASCII that nothing is mapped from */
} hsc__charsmap;

/* The bytes must outlive the map. HSC_EFORMAT when the sizes do not fit. */
hsc_status hsc__charsmap_open(hsc__charsmap *map, hsc__bytes bytes, hsc_error *err);

/* As the `tokenizers` library applies it: to short clusters of characters, else to single ones; where several prefixes
 * of one are mapped the shortest counts, and stands for the whole. */
hsc_status hsc__charsmap_clusters(const hsc__charsmap *map, const hsc__aligned *text, hsc__aligned *out,
                                  hsc_error *err);
/* As SentencePiece does: the longest mapped text at each place. */
hsc_status hsc__charsmap_longest(const hsc__charsmap *map, const hsc__aligned *text, hsc__aligned *out, hsc_error *err);

#endif
