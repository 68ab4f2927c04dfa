/*
 * Classes of characters as the tables of Unicode 9 have them, which BERT's normalizer, the punctuation splitter and
 * the normalization forms of the `tokenizers` library use to this day. Models were trained on text cut that way, so
 * newer characters must not join these classes.
 */
#ifndef HSC_TOKENIZER_UNICODE9_H
#define HSC_TOKENIZER_UNICODE9_H

#include <stdbool.h>
#include <stdint.h>

/* What BERT's clean-up removes: control, format and private-use characters and U+FFFD, but no tab, newline or carriage
 * return. */
bool hsc__unicode9_control(int32_t code_point);
/* What BERT sets blanks around. */
bool hsc__unicode9_ideograph(int32_t code_point);
/* General category Mn. */
bool hsc__unicode9_nonspacing(int32_t code_point);
/* General category M. */
bool hsc__unicode9_mark(int32_t code_point);
/* General category P, and ASCII punctuation. */
bool hsc__unicode9_punctuation(int32_t code_point);
/* Newer characters that have a combining class or a decomposition today: then, they were neither combined nor moved. */
bool hsc__unicode9_unknown(int32_t code_point);

#endif
