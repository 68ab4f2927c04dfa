/* GPT-2's tokenizer from each kind of file. The ids are those of the tokenizers package, but for ill-formed UTF-8,
 * where they follow from the definition: the merges applied to the bytes. */
#include "test_tokenizer_support.h"

static hsc_tokenizer *gpt2;

static void make_copy(const char *name)
{
    char *text;
    size_t n;
    char from[1024];
    snprintf(from, sizeof from, "tokenizers/gpt2/%s", name);
    assert_int_equal(hsc__read_file(&text, &n, data_path(from), 1 << 28, NULL), HSC_OK);
    assert_true(scratch_write(scratch_path(name), text, n));
    hsc__free(text);
}

static void check_words(const hsc_tokenizer *t)
{
    check(t, "Hello  world", 0, 15496, 220, 995, END);
    check(t, "a\n\n b", 0, 64, 628, 275, END);
    check(t, "a \n b", 0, 64, 220, 198, 275, END);
    check(t, "\t\tx", 0, 197, 197, 87, END);
    check(t, "x\r\ny", 0, 87, 201, 198, 88, END);
    check(t, "  \n  x", 0, 220, 220, 198, 220, 2124, END);
    check(t, "Hello world ", 0, 15496, 995, 220, END);
    check(t,
          "a \xe2\x80\x89\xe2\x80\x89"
          "b",
          0, 64, 564, 231, 447, 231, 65, END);
    check(t,
          "a\xe3\x80\x80"
          "b",
          0, 64, 5099, 222, 65, END);
    check(t,
          "a \xe2\x80\x8b"
          "b",
          0, 64, 20126, 65, END);
    check(t, "x\xc2\x85y", 0, 87, 126, 227, 88, END);
    check(t, "I'M we'll can't", 0, 40, 6, 44, 356, 1183, 460, 470, END);
    check(t, "''ll", 0, 7061, 297, END);
    check(t, "\xc2\xb2\xc2\xbd\xd9\xa3\xe0\xa7\xa9", 0, 31185, 23141, 149, 96, 156, 100, 102, END);
    check(t, "don\xe2\x80\x99t", 0, 9099, 447, 247, 83, END);
    check(t, "1234567", 0, 10163, 2231, 3134, END);
    check(t, "", 0, END);
}

/* The BOS as the files name it, whether or not it is added; else what stands before every text. */
static void test_bos(void **unused)
{
    (void)unused;
    static const struct {
        const char *path;
        hsc_token bos;
    } cases[] = {{"tokenizers/llamacpp-vocab/ggml-vocab-gpt-2.gguf", 50256},
                 {"tokenizers/llamacpp-vocab/ggml-vocab-llama-spm.gguf", 1},
                 {"tokenizers/bert-base-uncased", 101},
                 {"models/tinystories-656k", 1},
                 {"tokenizers/gpt2/tokenizer.json", -1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc_tokenizer *t = open_path(data_path(cases[i].path));
        if (hsc_tokenizer_bos(t) != cases[i].bos) fail_msg("%s: BOS %d", cases[i].path, (int)hsc_tokenizer_bos(t));
        hsc_tokenizer_free(t);
    }
}

static void test_words_from_every_kind_of_file(void **state)
{
    (void)state;
    check_words(gpt2);
    hsc_tokenizer *t = open_path(data_path("tokenizers/gpt2/tokenizer.json"));
    check_words(t);
    hsc_tokenizer_free(t);
    t = open_path(data_path("tokenizers/llamacpp-vocab/ggml-vocab-gpt-2.gguf"));
    check_words(t);
    hsc_tokenizer_free(t);
    make_copy("vocab.json");
    make_copy("merges.txt");
    t = open_path(scratch_dir);
    check_words(t);
    check(t, "a<|endoftext|>b", HSC_ENCODE_PARSE_SPECIAL, 64, 50256, 65, END);
    hsc_tokenizer_free(t);
}

static void check_bytes(const char *bytes, size_t n, const hsc_token *ids, size_t n_ids)
{
    check_ids(gpt2, bytes, n, 0, ids, n_ids);
    check_round_trip(gpt2, bytes, n);
}
#define BYTES(text, ...)                                                                                               \
    check_bytes(text, sizeof text - 1, (const hsc_token[]){__VA_ARGS__}, COUNT(((hsc_token[]){__VA_ARGS__})))

static void test_ill_formed_utf8(void **state)
{
    (void)state;
    BYTES("a\xe2\x82", 64, 158, 224);
    BYTES("\xf0\x9f\x99", 8582, 247);
    BYTES("\xff\xfe", 187, 186);
    BYTES("\xc0\x80", 124, 222);
    BYTES("\xed\xa0\x80", 169, 254, 222);
    BYTES("\xe2\x82\xac", 26391);
    BYTES("\0", 188);
    check_round_trip(gpt2, "\x82\x82\x82\x82\x82\x82\x82\x82", 8);
}

static void test_decode_keeps_blanks(void **state)
{
    (void)state;
    static const struct {
        hsc_token ids[3];
        size_t n;
        const char *text;
    } cases[] = {{{5633}, 1, " ?"}, {{88, 318, 5633}, 3, "y is ?"}, {{837}, 1, " ,"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n;
        char *text = decode(gpt2, cases[i].ids, cases[i].n, &n);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
    char small[2];
    assert_int_equal(hsc_decode(gpt2, (hsc_token[]){88, 318}, 2, small, 2), 4);
    assert_memory_equal(small, "y ", 2);
    assert_int_equal(hsc_decode(gpt2, (hsc_token[]){50257}, 1, small, 2), HSC_EINVAL);
    assert_int_equal(hsc_decode(gpt2, (hsc_token[]){-1}, 1, small, 2), HSC_EINVAL);
}

/* What each token of a stream brings out. */
static void check_stream(const hsc_token *ids, size_t n, const char *const *chunks, const char *tail)
{
    hsc_stream stream = {0};
    size_t bound = hsc_stream_bound(gpt2);
    char *out = malloc(bound);
    for (size_t i = 0; i < n; i++) {
        int64_t length = hsc_stream_next(gpt2, &stream, ids[i], out, bound);
        assert_int_equal(length, strlen(chunks[i]));
        assert_memory_equal(out, chunks[i], (size_t)length);
    }
    assert_int_equal(hsc_stream_end(&stream, out, 3), strlen(tail));
    assert_memory_equal(out, tail, strlen(tail));
    free(out);
}

static void test_stream_holds_what_is_not_whole(void **state)
{
    (void)state;
    const char *const face[] = {"", "\xf0\x9f\x99\x82"}, *const unfinished[] = {""};
    const char *const family[] = {"", "\xf0\x9f\x91\xa9", "", "\xe2\x80\x8d", "", "\xf0\x9f\x91\xa9"};
    const char *const wrong[] = {"\xef\xbf\xbd", "",
                                 "\xef\xbf\xbd"
                                 "a"};
    check_stream((hsc_token[]){8582, 25081}, 2, face, "");
    check_stream((hsc_token[]){8582}, 1, unfinished, "\xef\xbf\xbd");
    check_stream((hsc_token[]){41840, 102, 447, 235, 41840, 102}, 6, family, "");
    check_stream((hsc_token[]){187, 8582, 64}, 3, wrong, "");
    hsc_stream stream = {0};
    char out[4];
    assert_int_equal(hsc_stream_next(gpt2, &stream, 64, out, 3), HSC_EINVAL);
    assert_int_equal(hsc_stream_end(&stream, out, 2), HSC_EINVAL);
}

/* A stream's chunks joined are the text, ill-formed parts replaced, wherever the tokens cut it. */
static void test_stream_joined_is_the_text(void **state)
{
    (void)state;
    size_t bound = hsc_stream_bound(gpt2);
    char *out = malloc(bound), text[600];
    for (int round = 0; round < 300; round++) {
        size_t n = round % 2 ? random_text(text, 30) : random_bytes(text, 40);
        hsc_encoding tokens = {0};
        hsc__string joined = {0}, right = {0};
        hsc_stream stream = {0};
        assert_int_equal(hsc_encode(gpt2, text, n, 0, &tokens, NULL), HSC_OK);
        for (size_t i = 0; i < tokens.n; i++) {
            int64_t length = hsc_stream_next(gpt2, &stream, tokens.ids[i], out, bound);
            assert_true(length >= 0 && hsc__utf8_valid(out, (size_t)length));
            hsc__string_add(&joined, out, (size_t)length);
        }
        hsc__string_add(&joined, out, (size_t)hsc_stream_end(&stream, out, bound));
        hsc__text_decode(&right, text, n);
        assert_int_equal(joined.n, right.n);
        assert_memory_equal(joined.data, right.data, right.n);
        hsc__string_free(&joined);
        hsc__string_free(&right);
        hsc_encoding_free(&tokens);
    }
    free(out);
}

static void test_special_tokens_are_plain_text_unless_asked(void **state)
{
    (void)state;
    check(gpt2, "a<|endoftext|>b", HSC_ENCODE_PARSE_SPECIAL, 64, 50256, 65, END);
    check(gpt2, "a<|endoftext|>b", HSC_ENCODE_PARSE_SPECIAL | HSC_ENCODE_ADD_SPECIAL, 64, 50256, 65, END);
    check(gpt2, "a<|endoftext|>b", 0, 64, 27, 91, 437, 1659, 5239, 91, 29, 65, END);
    assert_true(hsc_token_is_special(gpt2, 50256));
    assert_false(hsc_token_is_special(gpt2, 50255));
    assert_false(hsc_token_is_special(gpt2, -1));
    assert_false(hsc_token_is_special(gpt2, 50257));
}

/* GPT-2 with more added tokens and perhaps a normalizer: the file with a piece put in. */
static hsc_tokenizer *open_changed(const char *from, const char *to)
{
    char *text;
    size_t n;
    assert_int_equal(hsc__read_file(&text, &n, data_path("tokenizers/gpt2/tokenizer.json"), 1 << 28, NULL), HSC_OK);
    char *at = strstr(text, from);
    assert_non_null(at);
    hsc__string changed = {0};
    hsc__string_add(&changed, text, (size_t)(at - text));
    hsc__string_text(&changed, to);
    hsc__string_text(&changed, at + strlen(from));
    hsc_tokenizer *t = open_text(changed.data);
    hsc__string_free(&changed);
    hsc__free(text);
    return t;
}

static void test_added_tokens(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_changed("\"added_tokens\": [", "\"added_tokens\": ["
                                                           "{\"id\":50261,\"content\":\"zq\",\"single_word\":true},"
                                                           "{\"id\":50257,\"content\":\"<x>\",\"lstrip\":true},"
                                                           "{\"id\":50258,\"content\":\"<y>\",\"rstrip\":true},"
                                                           "{\"id\":50259,\"content\":\"<x>b\"},"
                                                           "{\"id\":50260,\"content\":\"\xc4\x91"
                                                           "em\"},");
    check(t, "a  <x>  b", 0, 64, 50257, 220, 275, END);
    check(t, "a <y>  b", 0, 64, 220, 50258, 65, END);
    check(t, "<x>b", 0, 50259, END);
    check(t, "<|endoftext|><x>b", 0, 27, 91, 437, 1659, 5239, 91, 29, 50259, END); /* special text stays text */
    check(t, "<|endoftext|><x>b", HSC_ENCODE_PARSE_SPECIAL, 50256, 50259, END);
    check(t,
          "a \xc4\x91"
          "em",
          0, 64, 220, 50260, END);
    size_t n;
    const char *bytes = hsc_token_bytes(t, 50260, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(bytes,
                        "\xc4\x91"
                        "em",
                        4);
    char *text = decode(t, (hsc_token[]){50260}, 1, &n);
    assert_string_equal(text, "\xc4\x91"
                              "em");
    free(text);
    assert_int_equal(hsc_tokenizer_size(t), 50262);
    check(t, "zq", 0, 50261, END);
    check(t, "!zq!", 0, 0, 50261, 0, END);
    check(t, "zqa", 0, 89, 20402, END); /* not a word of its own */
    check(t, "\xc3\xa9zq", 0, 2634, 89, 80, END);
    assert_int_equal(hsc_token_find(t, "<x>b", 4), 50259);
    hsc_tokenizer_free(t);
}

static void test_normalizer_nfc(void **state)
{
    (void)state;
    check(gpt2, "e\xcc\x81", 0, 68, 136, 223, END);
    hsc_tokenizer *t = open_changed("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    check(t, "e\xcc\x81", 0, 2634, END);
    check(t, "\xc3\xa9", 0, 2634, END);
    hsc_encoding out = {0};
    assert_int_equal(hsc_encode(t, "ae\xcc\x81 b", 6, 0, &out, NULL), HSC_OK);
    assert_int_equal(out.n, 3);
    assert_int_equal(out.spans[1].start, 1);
    assert_int_equal(out.spans[1].end, 4);
    assert_int_equal(out.spans[2].start, 4);
    assert_int_equal(out.spans[2].end, 6);
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
    hsc_error err = {0};
    assert_int_equal(
        parse_text(&t, "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"normalizer\":{\"type\":\"Odd\"}}",
                   &err),
        HSC_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "\"Odd\""));
    assert_non_null(strstr(err.message, "test.json"));
}

static void test_token_bytes_and_find(void **state)
{
    (void)state;
    size_t n;
    const char *bytes = hsc_token_bytes(gpt2, 5044, &n);
    assert_int_equal(n, 7);
    assert_memory_equal(bytes, " animal", 7);
    assert_null(hsc_token_bytes(gpt2, 50257, &n));
    assert_null(hsc_token_bytes(gpt2, -1, &n));
    assert_int_equal(hsc_tokenizer_size(gpt2), 50257);
    assert_int_equal(hsc_token_find(gpt2, " animal", 7), 5044);
    assert_int_equal(hsc_token_find(gpt2, "<|endoftext|>", 13), 50256);
    assert_int_equal(hsc_token_find(gpt2, "\n", 1), 198);
    assert_int_equal(hsc_token_find(gpt2, "\xe2", 1), 158);
    assert_int_equal(hsc_token_find(gpt2, "no such token", 13), -1);
    assert_int_equal(hsc_token_find(gpt2, "\xc4\xa0the", 5), -1); /* the spelling is not the content */
    for (hsc_token id = 0; id < 50257; id += 7) {
        bytes = hsc_token_bytes(gpt2, id, &n);
        assert_int_equal(hsc_token_find(gpt2, bytes, n), id);
    }
}

static void test_round_trip_of_random_bytes(void **state)
{
    (void)state;
    char text[4000];
    for (int round = 0; round < 400; round++) {
        check_round_trip(gpt2, text, random_bytes(text, random_below(60)));
        check_round_trip(gpt2, text, random_text(text, random_below(60)));
    }
    check_round_trip(gpt2, text, random_bytes(text, sizeof text));
}

static void test_unknown_flags_are_refused(void **state)
{
    (void)state;
    hsc_encoding out = {0};
    hsc_error err = {0};
    assert_int_equal(hsc_encode(gpt2, "a", 1, 8, &out, &err), HSC_EINVAL);
    assert_int_equal(err.code, HSC_EINVAL);
    hsc_encoding_free(&out);
    hsc_encoding_free(NULL);
    hsc_tokenizer_free(NULL);
}

static int setup(void **state)
{
    if (scratch_make(state) != 0) return -1;
    gpt2 = open_path(data_path("tokenizers/gpt2"));
    return 0;
}

static int teardown(void **state)
{
    hsc_tokenizer_free(gpt2);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bos),
        cmocka_unit_test(test_words_from_every_kind_of_file),
        cmocka_unit_test(test_ill_formed_utf8),
        cmocka_unit_test(test_decode_keeps_blanks),
        cmocka_unit_test(test_stream_holds_what_is_not_whole),
        cmocka_unit_test(test_stream_joined_is_the_text),
        cmocka_unit_test(test_special_tokens_are_plain_text_unless_asked),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_normalizer_nfc),
        cmocka_unit_test(test_token_bytes_and_find),
        cmocka_unit_test(test_round_trip_of_random_bytes),
        cmocka_unit_test(test_unknown_flags_are_refused),
    };
    if (!has_data()) {
        puts("skipped: no test data at HEADSCOPE_TEST_DATA");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
