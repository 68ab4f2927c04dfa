/*
 * GPT-2's byte alphabet: 256 printable characters, one for each byte, by which byte-level vocabularies are spelled.
 * Bytes 21-7E, A1-AC and AE-FF stand for themselves (as code points); the other 68 follow from U+0100 on, in order.
 */
#ifndef HSC_TOKENIZER_BYTE_LEVEL_H
#define HSC_TOKENIZER_BYTE_LEVEL_H

#include "tokenizer/vocab.h"

/* Writes byte b's character into out[2]; returns its length, 1 or 2. */
int hsc__byte_spell(unsigned char b, char *out);
/* The byte that a code point of the alphabet spells, or -1. */
int hsc__byte_of(int32_t code_point);

/* Sets vocab->bytes from vocab->text for every normal token. A token with a character outside the alphabet stands for
 * its own text. Memory comes from the arena. */
hsc_status hsc__byte_level_decode(hsc__vocab *vocab, hsc__arena *arena, hsc_error *err);

/* Spells n bytes in the alphabet into out[2 * n]; returns the length. */
size_t hsc__byte_level_spell(const char *bytes, size_t n, char *out);

#endif
