/*
 * The two long lists of a tokenizer file, read without building a tree: "vocab" (an object of token: id, or an array of
 * [token, score]) and "merges" (an array of "a b" or ["a", "b"]). They are nine tenths of the file and most of its
 * loading time. As strict as the JSON parser that reads the rest: lone surrogates, control characters, ill-formed UTF-8
 * and doubled keys are refused.
 */
#ifndef HSC_TOKENIZER_JSON_LISTS_H
#define HSC_TOKENIZER_JSON_LISTS_H

#include "tokenizer/bpe.h"
#include "tokenizer/unigram.h"

/* Bytes [start, end) of a text; empty when absent. */
typedef struct hsc__json_range {
    size_t start, end;
} hsc__json_range;

/* Finds model.vocab (an object or an array) and model.merges (when it is an array) in a tokenizer.json. What is not
 * JSON is left for the parser to report: the ranges are then empty. */
void hsc__json_find_lists(const char *text, size_t n, hsc__json_range *vocab, hsc__json_range *merges);

/* A text being read; path and field name the place in messages. Strings without escapes point into the text, the others
 * into the arena. */
typedef struct hsc__json_reader {
    const char *text;
    size_t at, end;
    hsc__arena *arena;
    const char *path, *field;
} hsc__json_reader;

/* The object {"token": id, ...} that starts at reader->at. HSC_EFORMAT, HSC_ENOMEM. */
hsc_status hsc__json_read_vocab(hsc__json_reader *reader, hsc__vocab *vocab, hsc_error *err);
/* The array [["token", score], ...], ids in order. A text given twice keeps both ids. */
hsc_status hsc__json_read_pieces(hsc__json_reader *reader, hsc__vocab *vocab, hsc__unigram *model, hsc_error *err);
/* The array of merges that starts at reader->at, added by rank to the bpe, whose vocabulary is complete. */
hsc_status hsc__json_read_merges(hsc__json_reader *reader, hsc__bpe *bpe, hsc_error *err);

#endif
