/*
 * Hand-written splitters for the patterns that most byte-level models use. Each is the pattern beside its name and
 * nothing else; PCRE2 is their oracle in the tests.
 */
#ifndef HSC_TOKENIZER_SCAN_H
#define HSC_TOKENIZER_SCAN_H

#include <stddef.h>

/* The end of the piece that starts at text[from], from < n. Ill-formed bytes are characters of no class. */
typedef size_t (*hsc__scan_fn)(const char *text, size_t n, size_t from);

#define HSC__GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define HSC__LLAMA3_PATTERN                                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HSC__QWEN2_PATTERN                                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"                \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

size_t hsc__scan_gpt2(const char *text, size_t n, size_t from);
size_t hsc__scan_llama3(const char *text, size_t n, size_t from);
size_t hsc__scan_qwen2(const char *text, size_t n, size_t from);

/* "\s+$" in a text without newlines: all but the blanks at its end, then those. */
size_t hsc__scan_trailing_blanks(const char *text, size_t n, size_t from);

/* The splitter of exactly this pattern, or NULL. */
hsc__scan_fn hsc__scan_find(const char *pattern, size_t n);

#endif
