/* Memory runs out at the first allocation, the second, and so on until none fails: each time HSC_ENOMEM, nothing
 * leaked, and the same call then works. What jansson allocates for itself is outside the allocator. */
#include "failing_alloc.h"
#include "sentencepiece_file.h"
#include "test_tokenizer_support.h"

static failing_alloc failing;

/* Everything that allocates: a pattern, NFC, added tokens, a template, a decoder, byte-level, unusual escapes. */
static const char json[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<x>\",\"normalized\":true},{\"id\":10,\"content\":\"<s>\",\"special\":"
    "true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":"
    "{\"String\":\"z\"},\"content\":\"aa\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s|"
    "q\"},"
    "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{}"
    "}],"
    "\"special_tokens\":{\"s\":{\"ids\":[10]}}},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,"
    "\"ab\":3,\"?\":4,\"\\u00c3\":5,\"\\u00a9\":6,\"aa\":7,\"\\u0120a\":8},\"merges\":[\"a b\",\"a a\",\"\\u0120 "
    "a\"]}}";

static hsc_status use_json(hsc_error *err)
{
    hsc_tokenizer *t = NULL;
    hsc_encoding out = {0};
    char text[300];
    hsc_status status = hsc_tokenizer_open(&t, scratch_path("tokenizer.json"), err);
    for (size_t i = 0; i < sizeof text; i++) text[i] = "a b<x>e\xcc\x81z<s> ab"[i % 17];
    memset(text + 100, 'a', 100); /* a word long enough for the heap */
    text[250] = '\xff';
    if (status == HSC_OK)
        status = hsc_encode(t, text, sizeof text, HSC_ENCODE_ADD_SPECIAL | HSC_ENCODE_PARSE_SPECIAL, &out, err);
    if (status != HSC_OK) assert_int_equal(out.n, 0);
    else assert_true(out.n > 100);
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
    return status;
}

static hsc_status use_path(const char *path, hsc_error *err)
{
    hsc_tokenizer *t = NULL;
    hsc_encoding out = {0};
    hsc_status status = hsc_tokenizer_open(&t, path, err);
    char text[8000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 5 ? 'a' : 'b';
    if (status == HSC_OK) status = hsc_encode(t, text, sizeof text, HSC_ENCODE_ADD_SPECIAL, &out, err);
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
    return status;
}

static hsc_status use_folder(hsc_error *err)
{
    return use_path(scratch_path("folder"), err);
}

static hsc_status use_words(hsc_error *err)
{
    return use_path(scratch_path("words"), err);
}

static hsc_status use_unigram(hsc_error *err)
{
    return use_path(scratch_path("unigram.json"), err);
}

static hsc_status use_pieces(hsc_error *err)
{
    return use_path(scratch_path("pieces"), err);
}

static hsc_status use_marian(hsc_error *err)
{
    return use_path(scratch_path("marian"), err);
}

static void sweep(hsc_status (*use)(hsc_error *err))
{
    for (long k = 1; k < 2000; k++) {
        hsc_error err = {0};
        failing_alloc_install(&failing, k);
        hsc_status status = use(&err);
        bool failed_one = failing.calls >= k;
        long held = failing.held;
        failing_alloc_remove();
        assert_int_equal(held, 0);
        if (!failed_one) {
            if (status != HSC_OK) fail_msg("without a failure: %s", err.message);
            assert_true(k > 20);
            return;
        }
        /* Matching does without its own stack when that cannot be had. */
        if (status != HSC_ENOMEM && status != HSC_OK) fail_msg("allocation %ld: status %d, %s", k, status, err.message);
        if (status == HSC_ENOMEM) assert_non_null(strstr(err.message, "memory"));
    }
    fail();
}

static void test_tokenizer_json(void **state)
{
    (void)state;
    assert_true(scratch_write(scratch_path("tokenizer.json"), json, sizeof json - 1));
    sweep(use_json);
}

static void test_folder(void **state)
{
    (void)state;
    static const char vocab[] = "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0061a\":3,\"<|endoftext|>\":4}",
                      merges[] = "a b\na a\n";
    static const char config[] = "{\"add_bos_token\":true,\"pad_token\":\"<p>\",\"add_prefix_space\":false}";
    assert_int_equal(mkdir(scratch_path("folder"), 0777), 0);
    assert_true(scratch_write(scratch_path("folder/vocab.json"), vocab, sizeof vocab - 1));
    assert_true(scratch_write(scratch_path("folder/merges.txt"), merges, sizeof merges - 1));
    assert_true(scratch_write(scratch_path("folder/tokenizer_config.json"), config, sizeof config - 1));
    assert_true(scratch_write(scratch_path("folder/added_tokens.json"), "{\"<y>\":5}", 9));
    sweep(use_folder);
}

static void write_text(const char *name, const char *text)
{
    assert_true(scratch_write(scratch_path(name), text, strlen(text)));
}

/* BERT's kind from its folder: the tries, the normalizer, the decoder's two texts of every token. */
static void test_wordpiece(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path("words"), 0777), 0);
    write_text("words/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\n##aaa\n");
    write_text("words/tokenizer_config.json", "{\"do_lower_case\":false,\"mask_token\":\"[MASK]\"}");
    sweep(use_words);
}

static void test_unigram(void **state)
{
    (void)state;
    write_text("unigram.json",
               "{\"normalizer\":{\"type\":\"Nmt\"},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
               "\"\\u2581\"},\"decoder\":{\"type\":\"Metaspace\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
               "\"vocab\":[[\"<unk>\",0],[\"a\",-1.5],[\"\\u2581a\",-2],[\"aa\",-3],[\"b\",-1]]}}");
    sweep(use_unigram);
}

/* Llama's class, which makes the merges of the pieces, and the file's own rules of a Unigram model. */
static void test_sentencepiece(void **state)
{
    (void)state;
    hsc__string file = {0};
    proto_toy(&file, HSC__SPM_BPE, true);
    proto_piece(&file, "ab", -50, HSC__PIECE_USER_DEFINED);
    assert_int_equal(mkdir(scratch_path("pieces"), 0777), 0);
    assert_true(scratch_write(scratch_path("pieces/tokenizer.model"), file.data, file.n));
    sweep(use_pieces);
    write_text("pieces/tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true}");
    sweep(use_pieces);
    file.n = 0;
    proto_toy(&file, HSC__SPM_UNIGRAM, true);
    assert_true(scratch_write(scratch_path("pieces/tokenizer.model"), file.data, file.n));
    write_text("pieces/tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":3}");
    sweep(use_pieces);
    hsc__string_free(&file);
}

static void test_marian(void **state)
{
    (void)state;
    hsc__string file = {0};
    proto_piece(&file, "<unk>", 0, HSC__PIECE_UNKNOWN);
    proto_piece(&file, "a", -1, HSC__PIECE_NORMAL);
    proto_piece(&file,
                "\xe2\x96\x81"
                "b",
                -2, HSC__PIECE_NORMAL);
    assert_int_equal(mkdir(scratch_path("marian"), 0777), 0);
    assert_true(scratch_write(scratch_path("marian/source.spm"), file.data, file.n));
    write_text("marian/vocab.json", "{\"</s>\":0,\"<unk>\":1,\"a\":2,\">>fra<<\":3}");
    sweep(use_marian);
    hsc__string_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokenizer_json), cmocka_unit_test(test_folder),
                                       cmocka_unit_test(test_wordpiece),      cmocka_unit_test(test_unigram),
                                       cmocka_unit_test(test_sentencepiece),  cmocka_unit_test(test_marian)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
