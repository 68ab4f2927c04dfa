/* What a tokenizer says of itself, part by part, against what its file asks for. */
#include "test_tokenizer_support.h"

static void check_part(const hsc_tokenizer *t, hsc_tokenizer_part part, const char *right)
{
    char text[400];
    int64_t n = hsc_tokenizer_describe(t, part, text, sizeof text - 1);
    assert_in_range(n, 0, sizeof text - 1);
    text[n] = '\0';
    assert_string_equal(text, right);
    memset(text, '#', sizeof text);
    assert_int_equal(hsc_tokenizer_describe(t, part, text, n ? 1 : 0), n);
    assert_int_equal(text[1], '#');
}

#define MODEL(type, more)                                                                                              \
    "\"model\":{\"type\":\"" type "\",\"vocab\":{\"a\":0,\"[CLS]\":1,\"[SEP]\":2,\"[UNK]\":3}" more "}"

static void test_wordpiece(void **state)
{
    (void)state;
    hsc_tokenizer *t =
        open_text("{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                  "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1],\"sep\":[\"[SEP]\",2]}," MODEL(
                      "WordPiece", "") "}");
    check_part(t, HSC_TOKENIZER_MODEL, "WordPiece");
    check_part(t, HSC_TOKENIZER_NORMALIZER, "no control characters, ideographs apart, NFD, no accents, lower case");
    check_part(t, HSC_TOKENIZER_PRE_TOKENIZER, "white space, punctuation");
    check_part(t, HSC_TOKENIZER_SINGLE, "[CLS] A [SEP]");
    check_part(t, HSC_TOKENIZER_PAIR, "[CLS] A [SEP] B [SEP]");
    assert_int_equal(hsc_tokenizer_describe(t, (hsc_tokenizer_part)5, NULL, 0), HSC_EINVAL);
    hsc_tokenizer_free(t);
}

static void test_bpe(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_text(
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":"
        "\" \"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
        "\"Digits\"},{\"type\":\"ByteLevel\"}]}," MODEL("BPE", ",\"merges\":[],\"end_of_word_suffix\":\"</w>\"") "}");
    check_part(t, HSC_TOKENIZER_MODEL, "byte-level BPE, suffix '</w>'");
    check_part(t, HSC_TOKENIZER_NORMALIZER, "replace the pattern '\\\\s+' by ' '");
    check_part(t, HSC_TOKENIZER_PRE_TOKENIZER, "digits, put in front where missing ' ', GPT-2's words");
    check_part(t, HSC_TOKENIZER_SINGLE, "A");
    check_part(t, HSC_TOKENIZER_PAIR, "A B");
    hsc_tokenizer_free(t);
}

static void test_whole_words(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_text("{" MODEL("WordLevel", ",\"unk_token\":\"[UNK]\"") "}");
    check_part(t, HSC_TOKENIZER_MODEL, "WordLevel");
    check_part(t, HSC_TOKENIZER_NORMALIZER, "");
    check_part(t, HSC_TOKENIZER_PRE_TOKENIZER, "");
    check(t, "a", 0, 0, END);
    check(t, "b", 0, 3, END);
    hsc_tokenizer_free(t);
}

/* CLIP's: what ends a word is another token than what goes on, and BPEDecoder writes a blank between words only. */
static void test_suffix(void **state)
{
    (void)state;
    hsc_tokenizer *t =
        open_text("{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"decoder\":{\"type\":\"BPEDecoder\"},"
                  "\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0,\"b\":1,"
                  "\"a</w>\":2,\"b</w>\":3,\"ab</w>\":4},\"merges\":[\"a b</w>\"]}}");
    const hsc_token ids[] = {4, 0, 3, 2};
    hsc_stream stream = {0};
    hsc__string streamed = {0};
    char out[64];
    size_t n;
    check(t, "ab aab a", 0, 4, 0, 4, 2, END);
    check(t, "ba", 0, 1, 2, END);
    char *text = decode(t, ids, 4, &n);
    assert_string_equal(text, "ab ab a");
    for (int i = 0; i < 4; i++) {
        int64_t length = hsc_stream_next(t, &stream, ids[i], out, sizeof out);
        assert_true(length >= 0);
        hsc__string_add(&streamed, out, (size_t)length);
    }
    assert_string_equal(streamed.data, "ab ab a");
    hsc__string_free(&streamed);
    free(text);
    hsc_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wordpiece), cmocka_unit_test(test_bpe),
                                       cmocka_unit_test(test_whole_words), cmocka_unit_test(test_suffix)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
