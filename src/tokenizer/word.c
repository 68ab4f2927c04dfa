/* Memory of the word that is being encoded. */
#include "tokenizer/word.h"

hsc_status hsc__word_begin(hsc__word *word, size_t n, hsc_error *err)
{
    HSC_FAIL_IF(n >= UINT32_MAX, HSC_EINVAL, "a word of %zu bytes, at most %u are accepted", n, UINT32_MAX - 1);
    HSC_TRY(hsc__grow(&word->ids, &word->capacity, n, sizeof *word->ids, err));
    HSC_TRY(hsc__grow(&word->ends, &word->ends_capacity, n, sizeof *word->ends, err));
    word->n = 0;
    return HSC_OK;
}

void hsc__word_free(hsc__word *word)
{
    hsc__free(word->ids);
    hsc__free(word->ends);
    hsc__free(word->nodes);
    hsc__free(word->heap);
    hsc__free(word->spelled);
    hsc__free(word->paths);
    *word = (hsc__word){0};
}

hsc_status hsc__fail_unspelled(char byte, hsc_error *err)
{
    return hsc__fail(err, HSC_EINVAL, 0,
                     "the vocabulary cannot spell the text: no token for byte 0x%02X and no unknown token",
                     (unsigned char)byte);
}
