/* Unigram: the best path, unknown characters, byte pieces, compiled maps, and what is refused. Scores are chosen so
 * that the right cut can be worked out by hand. */
#include "test_tokenizer_support.h"

/* "ab" + "c" is -3, "a" + "bc" -4, "abc" alone -9: cut, but not letter by letter (-6). */
#define PIECES                                                                                                         \
    "[\"<unk>\",0],[\"a\",-2],[\"b\",-2.0],[\"c\",-2e0],[\"ab\",-1],[\"bc\",-2],[\"abc\",-9],"                         \
    "[\"\\u2581\",-3],[\"\\u2581a\",-2.5]"
#define UNIGRAM(pieces, options) "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[" pieces "]}" options "}"
#define METASPACE                                                                                                      \
    ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":"           \
    "\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"}]},\"decoder\":{\"type\":\"Metaspace\","  \
    "\"replacement\":\"\\u2581\"}"

static void test_best_path(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_text(UNIGRAM(PIECES, ""));
    check(t, "abc", 0, 4, 3, END);
    check(t, "abcabc", 0, 4, 3, 4, 3, END);
    check(t, "aabcc", 0, 1, 4, 3, 3, END);
    check(t, "xyz", 0, 0, END); /* unknown characters side by side are one */
    check(t, "axbyy", 0, 1, 0, 2, 0, END);
    check(t, "a\xffz", 0, 1, 0, END);
    check(t, "a<unk>b", 0, 1, 0, 2, END); /* its text is its token */
    check(t, "", 0, END);
    hsc_tokenizer_free(t);
}

static void test_stages(void **state)
{
    (void)state;
    size_t n;
    hsc_encoding out = {0};
    hsc_tokenizer *t = open_text(UNIGRAM(PIECES, METASPACE));
    check(t, " a \n bc", 0, 8, 7, 5, END);
    char *text = decode(t, (hsc_token[]){8, 7, 5}, 3, &n);
    assert_string_equal(text, "a bc");
    free(text);
    assert_int_equal(hsc_encode(t, " a  bc", 6, 0, &out, NULL), HSC_OK);
    assert_int_equal(out.n, 3);
    static const size_t starts[] = {1, 4, 4}, ends[] = {2, 4, 6}; /* the mark before bc has no text of its own */
    static const int words[] = {0, 1, 1};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(out.spans[i].start, starts[i]);
        assert_int_equal(out.spans[i].end, ends[i]);
        assert_int_equal(out.words[i], words[i]);
    }
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
}

static void test_byte_pieces(void **state)
{
    (void)state;
    static const char json[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[" PIECES
                               ",[\"<0xC3>\",-9],[\"<0xA9>\",-9]]}}";
    hsc_tokenizer *t = open_text(json);
    check(t, "a\xc3\xa9", 0, 1, 9, 10, END);
    check(t, "\xc3\xa9x", 0, 0, END); /* side by side, and x has no byte piece */
    hsc_tokenizer_free(t);
}

/* A map of "A" to "bb" and of "c" to nothing: units of the double array by hand. The root's children lie at their
 * bytes; a leaf's value lies at its own offset. */
static void test_compiled_map(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { UNITS = 256, TEXTS = 4 };
    unsigned char map[4 + 4 * UNITS + TEXTS] = {0x00, 0x04};
    uint32_t units[UNITS] = {0};
    units[0] = 0;                                   /* offset 0 */
    units['A'] = 'A' | 1u << 8 | (uint32_t)3 << 10; /* leaf; its value is at 'A' ^ 3 */
    units['A' ^ 3] = 0x80000000u | 0;
    units['c'] = 'c' | 1u << 8 | (uint32_t)4 << 10;
    units['c' ^ 4] = 0x80000000u | 2;
    for (int i = 0; i < UNITS; i++)
        for (int k = 0; k < 4; k++) map[4 + 4 * i + k] = (unsigned char)(units[i] >> (8 * k));
    memcpy(map + 4 + 4 * UNITS, "bb\0", TEXTS);
    hsc__string json = {0};
    hsc__string_text(&json, "{\"model\":{\"unk_id\":0,\"vocab\":[" PIECES
                            "]},\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    for (size_t i = 0; i < sizeof map; i += 3) {
        size_t left = sizeof map - i;
        uint32_t bits =
            (uint32_t)map[i] << 16 | (left > 1 ? (uint32_t)map[i + 1] << 8 : 0) | (left > 2 ? map[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) hsc__string_add(&json, k > left ? "=" : &digits[bits >> (18 - 6 * k) & 63], 1);
    }
    hsc__string_text(&json, "\"}}");
    hsc_tokenizer *t = open_text(json.data);
    check(t, "aAc", 0, 4, 2, END);
    check(t, "A\xcc\x81", 0, 2, 2, END); /* a mapped beginning stands for the whole cluster */
    check(t, "cc", 0, END);
    hsc_tokenizer_free(t);
    hsc__string_free(&json);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
    } cases[] = {
        {UNIGRAM("", ""), "\"vocab\" is empty"},
        {UNIGRAM("[\"a\"]", ""), "',' expected"},
        {UNIGRAM("[\"a\",\"b\"]", ""), "a score expected"},
        {UNIGRAM("[\"a\",1,2]", ""), "']' expected"},
        {UNIGRAM("[\"a\",--1]", ""), "JSON"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}", "must be an array"},
        {UNIGRAM("[\"a\",0]", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"), "not BPE"},
        {UNIGRAM("[\"a\",0]", ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA\"}"), "base64"},
        {UNIGRAM("[\"a\",0]", ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/wAAAA==\"}"),
         "damaged"},
        {UNIGRAM("[\"a\",0]", ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}"),
         "\"Replace\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc_tokenizer *t;
        hsc_error err = {0};
        hsc_status status = parse_text(&t, cases[i].json, &err);
        if (status == HSC_OK || status == HSC_ENOMEM) fail_msg("%s: status %d", cases[i].json, status);
        if (!strstr(err.message, cases[i].part) && strcmp(cases[i].part, "JSON") != 0)
            fail_msg("%s: %s", cases[i].json, err.message);
        assert_non_null(strstr(err.message, "test.json"));
    }
    hsc_tokenizer *t = open_text("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}");
    hsc_encoding out = {0};
    hsc_error err = {0};
    assert_int_equal(hsc_encode(t, "ab", 2, 0, &out, &err), HSC_EINVAL); /* X14: no unknown token */
    assert_non_null(strstr(err.message, "0x62"));
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_path),    cmocka_unit_test(test_stages),   cmocka_unit_test(test_byte_pieces),
        cmocka_unit_test(test_compiled_map), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
