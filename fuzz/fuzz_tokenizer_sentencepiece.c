/* Any bytes as a SentencePiece model, then some text through it: what is refused names the file and says why; ids are
 * of the vocabulary, spans lie in order within the text, and what comes out decodes. */
#include "fuzz.h"

#include "base/alloc.h"
#include "tokenizer/pipeline.h"

#include <string.h>

static void run(const hsc_tokenizer *t, const char *text, size_t n, unsigned flags)
{
    hsc_encoding tokens = {0};
    size_t end = 0;
    if (hsc_encode(t, text, n, flags, &tokens, NULL) == HSC_OK) {
        for (size_t i = 0; i < tokens.n; i++) {
            CHECK(tokens.ids[i] >= 0 && (size_t)tokens.ids[i] < hsc_tokenizer_size(t));
            CHECK(tokens.spans[i].start <= tokens.spans[i].end && tokens.spans[i].end <= n &&
                  tokens.spans[i].end >= end);
            end = tokens.spans[i].end;
        }
        CHECK(hsc_decode(t, tokens.ids, tokens.n, NULL, 0) >= 0);
    }
    hsc_encoding_free(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sample[] = "  Hello <s>e\xcc\x81 \xff 12'll\n\n aab\xe2\x96\x81x ";
    hsc_tokenizer *t;
    hsc_error err = {0};
    if (size > 1 << 16) return 0;
    hsc_status status =
        hsc__tokenizer_parse_sentencepiece(&t, hsc__strndup((const char *)data, size), size, "fuzz", NULL, &err);
    CHECK(status == err.code && (status == HSC_OK) == (t != NULL));
    CHECK(t || strncmp(err.message, "fuzz", 4) == 0);
    for (unsigned flags = 0; t && flags < 4; flags++) run(t, sample, sizeof sample - 1, flags);
    hsc_tokenizer_free(t);
    return 0;
}
