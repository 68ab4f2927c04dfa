/* WordPiece over two tries: one walk a token. */
#include "tokenizer/wordpiece.h"

#include <string.h>

hsc_status hsc__wordpiece_finish(hsc__wordpiece *model, const hsc__vocab *vocab, hsc__bytes prefix, hsc_error *err)
{
    for (size_t i = 0; i < vocab->n; i++) {
        hsc__bytes text = vocab->text[i];
        bool own = text.n && hsc__vocab_find(vocab, text.data, text.n) == (hsc_token)i; /* else a double or no token */
        if (!own) continue;
        HSC_TRY(hsc__trie_add(&model->start, text.data, text.n, (hsc_token)i, err));
        if (text.n > prefix.n && memcmp(text.data, prefix.data, prefix.n) == 0)
            HSC_TRY(hsc__trie_add(&model->inner, text.data + prefix.n, text.n - prefix.n, (hsc_token)i, err));
    }
    return HSC_OK;
}

void hsc__wordpiece_free(hsc__wordpiece *model)
{
    hsc__trie_free(&model->start);
    hsc__trie_free(&model->inner);
}

/* Characters of the word; an ill-formed byte that continues nothing counts as the end of one, which errs on the side of
 * no limit. */
static size_t count_characters(const char *word, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)word[i] & 0xC0) != 0x80;
    return count;
}

/* The longest token that text[0..n) starts with and its length; -1 when there is none. */
static hsc_token longest(const hsc__trie *trie, const char *text, size_t n, size_t *length)
{
    hsc_token best = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = hsc__trie_step(trie, node, text[i]);
        if (!node) break;
        if (trie->token[node] < 0) continue;
        best = trie->token[node];
        *length = i + 1;
    }
    return best;
}

hsc_status hsc__wordpiece_encode(const hsc__wordpiece *model, hsc__word *out, const char *word, size_t n,
                                 hsc_error *err)
{
    HSC_TRY(hsc__word_begin(out, n, err));
    bool known = n <= model->max_characters || count_characters(word, n) <= model->max_characters;
    for (size_t at = 0, length = 0; known && at < n; at += length) {
        hsc_token id = longest(at ? &model->inner : &model->start, word + at, n - at, &length);
        known = id >= 0;
        if (known) hsc__word_add(out, id, at + length);
    }
    if (known) return HSC_OK;
    if (model->unk < 0) return hsc__fail_unspelled(*word, err);
    out->n = 0;
    hsc__word_add(out, model->unk, n);
    return HSC_OK;
}
