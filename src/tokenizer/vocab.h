/*
 * The vocabulary: ids, the text by which the file spells each one, and the bytes that each one stands for. The two
 * differ for byte-level models, whose files spell bytes in an alphabet of printable characters (byte_level.h).
 * Texts are borrowed from the file's memory, which must outlive the vocabulary.
 */
#ifndef HSC_TOKENIZER_VOCAB_H
#define HSC_TOKENIZER_VOCAB_H

#include "base/alloc.h"
#include "formats/gguf.h"

typedef enum {
    HSC__TOKEN_NONE = 0, /* a hole: no token has this id */
    HSC__TOKEN_NORMAL,
    HSC__TOKEN_SPECIAL, /* control: <|endoftext|>, and the unknown token */
    HSC__TOKEN_ADDED,   /* added by a user of the model, matched in plain text */
    HSC__TOKEN_BYTE,    /* <0x00> to <0xFF> */
    HSC__TOKEN_UNUSED,
} hsc__token_kind;

typedef struct hsc__vocab_slot {
    uint32_t hash;
    hsc_token id; /* -1: empty */
} hsc__vocab_slot;

typedef struct hsc__vocab {
    size_t n;              /* every id is below n */
    size_t capacity;       /* of the arrays below */
    hsc__bytes *text;      /* [n] as the file spells it; data NULL for a hole */
    hsc__bytes *bytes;     /* [n] what the token stands for */
    uint8_t *kind;         /* [n] hsc__token_kind */
    hsc__vocab_slot *slot; /* [n_slots] text -> id, open addressing, a power of two */
    size_t n_slots;
    bool has_doubles; /* two ids share a text, which finds the first of them */
} hsc__vocab;

/* Makes room for ids below n; the new ones are holes. HSC_ENOMEM. */
hsc_status hsc__vocab_resize(hsc__vocab *vocab, size_t n, hsc_error *err);
/* Gives id its text. *existing is -1, or the id that already has this text (then nothing is stored). */
hsc_status hsc__vocab_set(hsc__vocab *vocab, hsc_token id, hsc__bytes text, hsc__token_kind kind, hsc_token *existing,
                          hsc_error *err);
/* The id of that text, or -1. */
hsc_token hsc__vocab_find(const hsc__vocab *vocab, const char *text, size_t n);
void hsc__vocab_free(hsc__vocab *vocab);

#endif
