/* Any bytes as a tokenizer.json, then some text through it; and any bytes as text through a byte-level tokenizer, which
 * must give them back. Spans lie in order within the text, and a stream writes whole characters within its bound. */
#include "fuzz.h"

#include "base/text.h"
#include "tokenizer/pipeline.h"

#include <string.h>

static hsc_tokenizer *parse(const char *text, size_t n)
{
    hsc_tokenizer *t;
    hsc_error err = {0};
    hsc_status status = hsc__tokenizer_parse_json(&t, hsc__strndup(text, n), n, "fuzz", NULL, &err);
    CHECK(status == err.code && (status == HSC_OK) == (t != NULL) && (t || err.message[0]));
    return t;
}

static void stream(const hsc_tokenizer *t, const hsc_encoding *tokens)
{
    size_t bound = hsc_stream_bound(t);
    char *out = malloc(bound);
    hsc_stream state = {0};
    for (size_t i = 0; i < tokens->n; i++) {
        int64_t n = hsc_stream_next(t, &state, tokens->ids[i], out, bound);
        CHECK(n >= 0 && (size_t)n <= bound && hsc__utf8_valid(out, (size_t)n));
    }
    CHECK(hsc_stream_end(&state, out, bound) >= 0);
    free(out);
}

static void run(const hsc_tokenizer *t, const char *text, size_t n, bool lossless)
{
    hsc_encoding tokens = {0};
    size_t end = 0;
    for (unsigned flags = lossless ? 0 : 3; flags < 4; flags++) {
        if (hsc_encode(t, text, n, flags, &tokens, NULL) != HSC_OK) break;
        for (size_t i = end = 0; i < tokens.n; i++) {
            CHECK(tokens.spans[i].start <= tokens.spans[i].end && tokens.spans[i].end <= n &&
                  tokens.spans[i].end >= end);
            end = tokens.spans[i].end;
        }
        stream(t, &tokens);
        int64_t length = hsc_decode(t, tokens.ids, tokens.n, NULL, 0);
        CHECK(length >= 0 && (!lossless || (size_t)length == n));
        char *back = malloc((size_t)length + 1);
        CHECK(hsc_decode(t, tokens.ids, tokens.n, back, (size_t)length) == length);
        CHECK(!lossless || n == 0 || memcmp(back, text, n) == 0);
        free(back);
    }
    hsc_encoding_free(&tokens);
}

/* Every byte, two merges, an added token that strips nothing. */
static hsc_tokenizer *byte_level(void)
{
    hsc__string json = {0};
    hsc__string_text(&json,
                     "{\"added_tokens\":[{\"id\":300,\"content\":\"<x>\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                     "\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"merges\":[\"a b\",\"\\u0120 a\"],"
                     "\"vocab\":{\"ab\":256,\"\\u0120a\":257");
    for (int c = 0, id = 0; c < 0x144; c++) {
        bool spells = (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || c >= 0xAE;
        if (spells) hsc__string_printf(&json, ",\"\\u%04x\":%d", (unsigned)c, id++);
    }
    hsc__string_text(&json, "}}}");
    hsc_tokenizer *t = parse(json.data, json.n);
    hsc__string_free(&json);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sample[] = " Hello <s>e\xcc\x81 \xff 12'll\n\n aab<x>";
    static hsc_tokenizer *bytes;
    if (!bytes) bytes = byte_level();
    CHECK(bytes);
    run(bytes, (const char *)data, size, true);
    hsc_tokenizer *t = size < 20000 ? parse((const char *)data, size) : NULL;
    if (t) run(t, sample, sizeof sample - 1, false);
    hsc_tokenizer_free(t);
    return 0;
}
