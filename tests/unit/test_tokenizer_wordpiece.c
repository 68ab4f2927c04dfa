/* WordPiece: BERT's own vocabulary on the cases of the tokenizers package, toy vocabularies, pairs with their segments
 * and words, decoding, and folders and GGUF files. */
#include "test_tokenizer_support.h"

static void with_specials(const hsc_tokenizer *t, const char *text, const hsc_token *ids, size_t n)
{
    check_ids(t, text, strlen(text), HSC_ENCODE_ADD_SPECIAL, ids, n);
}
#define IS(text, ...)                                                                                                  \
    with_specials(t, text, (const hsc_token[]){__VA_ARGS__}, COUNT(((const hsc_token[]){__VA_ARGS__})))

/* Cases B01, B03 and X1 of the shared list. */
static void test_bert(void **state)
{
    (void)state;
    if (!has_data()) skip();
    static const char *const paths[] = {"tokenizers/bert-base-uncased", "tokenizers/bert-base-uncased/tokenizer.json",
                                        "tokenizers/llamacpp-vocab/ggml-vocab-bert-bge.gguf"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        hsc_tokenizer *t = open_path(data_path(paths[i]));
        IS("Kant\xc5\x8d", 101, 26044, 2080, 102);
        IS("l\xc7\x9cshi", 101, 16299, 2072, 102);
        IS("\xc4\xb0stanbul", 101, 9960, 102);
        IS("Gr\xc3\xb6\xc3\x9f"
           "e",
           101, 24665, 2080, 17499, 102);
        IS("\xed\x95\x9c\xea\xb5\xad", 101, 1469, 30006, 30021, 29991, 30014, 30020, 102);
        IS("\xef\x81\x99x", 101, 1060, 102);
        IS("a\xef\xbf\xbd"
           "b",
           101, 11113, 102);
        IS("a\xff"
           "b",
           101, 11113, 102); /* an ill-formed byte counts as U+FFFD */
        IS("a\xe2\x80\x8b"
           "b",
           101, 11113, 102);
        IS("hello\xc2\xadworld", 101, 7592, 11108, 102);
        hsc_tokenizer_free(t);
    }
}

static void test_long_words(void **state)
{
    (void)state;
    if (!has_data()) skip();
    hsc_tokenizer *t = open_path(data_path("tokenizers/bert-base-uncased"));
    static const struct {
        const char *letter;
        int count;
        hsc_token first, middle, last;
        int n_middle;
    } cases[] = {{"a", 100, 13360, 11057, 2050, 48}, {"\xc3\xa9", 51, 25212, 4402, 2063, 24}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc__string text = {0};
        hsc_token ids[64] = {101, cases[i].first};
        size_t n = 2;
        for (int k = 0; k < cases[i].count; k++) hsc__string_text(&text, cases[i].letter);
        for (int k = 0; k < cases[i].n_middle; k++) ids[n++] = cases[i].middle;
        ids[n++] = cases[i].last;
        ids[n++] = 102;
        with_specials(t, text.data, ids, n);
        hsc__string_free(&text);
    }
    char many[101 * 2 + 1] = "";
    memset(many, 'a', 101);
    IS(many, 101, 100, 102);
    for (int i = 0; i < 101; i++) memcpy(many + 2 * i, "\xd1\x85", 2);
    IS(many, 101, 100, 102);
    hsc_tokenizer_free(t);
}

/* "##" marks what goes on; the longest token wins; a word that cannot be spelled to its end is unknown as a whole. */
#define TOY(normalizer)                                                                                                \
    "{\"added_tokens\":[{\"id\":0,\"content\":\"[CLS]\",\"special\":true},{\"id\":1,\"content\":\"[SEP]\","            \
    "\"special\":"                                                                                                     \
    "true},{\"id\":2,\"content\":\"[UNK]\",\"special\":true}],\"normalizer\":" normalizer                              \
    ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":"      \
    "[\"[CLS]\",0],\"sep\":[\"[SEP]\",1]},\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\","     \
    "\"vocab\":{\"[CLS]\":0,\"[SEP]\":1,\"[UNK]\":2,\"un\":3,\"una\":4,\"##aff\":5,\"##ff\":6,\"##able\":7,\".\":8,"   \
    "\"ea\":9,\"\\u00e9a\":10,\"\\u00c9a\":11,\"Ea\":12,\"i\":13,\"i\\u0307\":14,\"\\u0130\":15,\"I\":16,"             \
    "\"a\":17,\"\\u00e5\":18,\"\\u212b\":19,\"A\":20}}}"

static void test_toy(void **state)
{
    (void)state;
    size_t n;
    hsc_tokenizer *t = open_text(TOY("null"));
    check(t, "unaffable", 0, 4, 6, 7, END);
    check(t, "unaffably", 0, 2, END);
    check(t, "un.unable", 0, 3, 8, 2, END); /* una is taken, and nothing goes on with ble */
    check(t, " un ", HSC_ENCODE_ADD_SPECIAL, 0, 3, 1, END);
    check(t, "ff", 0, 2, END);
    char *text = decode(t, (hsc_token[]){4, 6, 7, 3, 8}, 5, &n);
    assert_string_equal(text, "unaffable un."); /* a point takes no blank */
    free(text);
    text = decode(t, (hsc_token[]){6, 4}, 2, &n);
    assert_string_equal(text, "##ff una"); /* at the start nothing is there to go on with */
    free(text);
    assert_memory_equal(hsc_token_bytes(t, 6, &n), "##ff", 4);
    hsc_stream stream = {0};
    char out[64];
    assert_int_equal(hsc_stream_next(t, &stream, 4, out, sizeof out), 3);
    assert_int_equal(hsc_stream_next(t, &stream, 6, out, sizeof out), 2);
    assert_int_equal(hsc_stream_next(t, &stream, 3, out, sizeof out), 3);
    hsc_tokenizer_free(t);
}

/* Case B02: strip_accents null follows lowercase. */
static void test_switches(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        hsc_token first, second, third; /* of the three texts below */
    } cases[] = {
        {TOY("{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":null}"), 9, 13, 17},
        {TOY("{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":true}"), 9, 13, 17},
        {TOY("{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":false}"), 10, 14, 18},
        {TOY("{\"type\":\"BertNormalizer\",\"lowercase\":false,\"strip_accents\":null}"), 11, 15, 19},
        {TOY("{\"type\":\"BertNormalizer\",\"lowercase\":false,\"strip_accents\":true}"), 12, 16, 20},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc_tokenizer *t = open_text(cases[i].json);
        check(t,
              "\xc3\x89"
              "a \xc4\xb0 \xe2\x84\xab",
              0, cases[i].first, cases[i].second, cases[i].third, END);
        hsc_tokenizer_free(t);
    }
}

static void test_pair(void **state)
{
    (void)state;
    static const hsc_token ids[] = {0, 4, 6, 8, 1, 4, 6, 7, 1};
    static const int segments[] = {0, 0, 0, 0, 0, 1, 1, 1, 1}, words[] = {-1, 0, 0, 1, -1, 0, 0, 0, -1};
    static const int texts[] = {-1, 0, 0, 0, -1, 1, 1, 1, -1};
    static const size_t starts[] = {0, 0, 3, 5, 6, 1, 4, 6, 10}, ends[] = {0, 3, 5, 6, 6, 4, 6, 10, 10};
    hsc_tokenizer *t = open_text(TOY("null"));
    hsc_encoding out = {0};
    assert_int_equal(hsc_encode_pair(t, "unaff.", 6, " unaffable", 10, HSC_ENCODE_ADD_SPECIAL, &out, NULL), HSC_OK);
    assert_int_equal(out.n, COUNT(ids));
    for (size_t i = 0; i < out.n; i++) {
        assert_int_equal(out.ids[i], ids[i]);
        assert_int_equal(out.segments[i], segments[i]);
        assert_int_equal(out.words[i], words[i]);
        assert_int_equal(out.texts[i], texts[i]);
        assert_int_equal(out.spans[i].start, starts[i]);
        assert_int_equal(out.spans[i].end, ends[i]);
    }
    assert_int_equal(hsc_encode_pair(t, "", 0, "un", 2, 0, &out, NULL), HSC_OK);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.segments[0], 1);
    assert_int_equal(hsc_encode_pair(t, "a", 1, "b", 1, 64, &out, NULL), HSC_EINVAL);
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
}

static void write_file(const char *name, const char *text)
{
    assert_true(scratch_write(scratch_path(name), text, strlen(text)));
}

static void test_folder(void **state)
{
    (void)state;
    hsc_tokenizer *t;
    hsc_error err = {0};
    assert_int_equal(mkdir(scratch_path("words"), 0777), 0);
    write_file("words/vocab.txt", "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\nun\n##able\n\xc3\x89"
                                  "a");
    t = open_path(scratch_path("words"));
    check(t, "Unable x[PAD]", HSC_ENCODE_ADD_SPECIAL | HSC_ENCODE_PARSE_SPECIAL, 2, 4, 5, 1, 0, 3, END);
    hsc_tokenizer_free(t);
    write_file("words/tokenizer_config.json", "{\"do_lower_case\":false,\"cls_token\":\"un\"}");
    t = open_path(scratch_path("words"));
    check(t,
          "\xc3\x89"
          "a Un",
          HSC_ENCODE_ADD_SPECIAL, 4, 6, 1, 3, END);
    hsc_tokenizer_free(t);
    static const char *const refused[][2] = {
        {"", "is empty"}, {"a\nb\na\n", "line 3"}, {"a\n\xff\n", "UTF-8"}, {"[UNK]\nun\n[SEP]\n", "cls_token"}};
    write_file("words/tokenizer_config.json", "{}");
    for (size_t i = 0; i < COUNT(refused); i++) {
        write_file("words/vocab.txt", refused[i][0]);
        assert_int_equal(hsc_tokenizer_open(&t, scratch_path("words"), &err), HSC_EFORMAT);
        if (!strstr(err.message, refused[i][1])) fail_msg("%s", err.message);
        assert_non_null(strstr(err.message, "words"));
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),     cmocka_unit_test(test_long_words), cmocka_unit_test(test_toy),
        cmocka_unit_test(test_switches), cmocka_unit_test(test_pair),       cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
