/* Marian's tokenizers, which take a SentencePiece model and a vocab.json: ids of the vocabulary whatever the model
 * says, and files that are damaged: cut at each byte, each bit turned over, of the wrong kind. */
#include "sentencepiece_file.h"
#include "test_tokenizer_support.h"

static const char vocabulary[] = "{\"</s>\":0,\"<unk>\":1,\"\xe2\x96\x81"
                                 "ab\":2,\"\xe2\x96\x81\":3,\"a\":4,\"b\":5,\">>fra<<\":6,\"<pad>\":7}";

/* Pieces 0 to 5; number 5 is no token of vocab.json. */
static void make_model(hsc__string *out, uint64_t unk_id)
{
    static const char *const texts[] = {"<unk>",
                                        "\xe2\x96\x81",
                                        "\xe2\x96\x81"
                                        "ab",
                                        "a",
                                        "b",
                                        "c"};
    hsc__string spec = {0};
    for (size_t i = 0; i < COUNT(texts); i++)
        proto_piece(out, texts[i], -(float)i, i ? HSC__PIECE_NORMAL : HSC__PIECE_UNKNOWN);
    proto_int(&spec, 3, HSC__SPM_UNIGRAM);
    proto_int(&spec, 40, unk_id);
    proto_bytes(out, 2, spec.data, spec.n);
    hsc__string_free(&spec);
}

static void write_file(const char *name, const char *bytes, size_t n)
{
    assert_true(scratch_write(scratch_path(name), bytes, n));
}

static hsc_status open_files(hsc_tokenizer **t, const char *model, size_t n_model, const char *vocab, size_t n_vocab,
                             hsc_error *err)
{
    *err = (hsc_error){0};
    write_file("source.spm", model, n_model);
    write_file("vocab.json", vocab, n_vocab);
    hsc_status status = hsc_tokenizer_open(t, scratch_path(""), err);
    assert_true((status == HSC_OK) == (*t != NULL) && status == err->code);
    assert_true(*t || (strncmp(err->message, scratch_dir, strlen(scratch_dir)) == 0));
    return status;
}

/* Ids are of the vocabulary and decode, whatever is encoded. */
static void check_use(const hsc_tokenizer *t)
{
    static const char text[] = " ab c>>fra<< \xff\xe2\x96\x81xyz aab";
    hsc_encoding out = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        if (hsc_encode(t, text, sizeof text - 1, flags, &out, NULL) != HSC_OK) continue;
        for (size_t i = 0; i < out.n; i++) assert_true(out.ids[i] >= 0 && (size_t)out.ids[i] < hsc_tokenizer_size(t));
        assert_true(hsc_decode(t, out.ids, out.n, NULL, 0) >= 0);
    }
    hsc_encoding_free(&out);
}

/* Pieces have numbers of their own: 2 becomes token 2, 3 token 4. A piece that vocab.json lacks is <unk>, also where
 * the model takes that very piece for its unknown one. */
static void test_pieces_are_not_tokens(void **state)
{
    (void)state;
    for (uint64_t unk = 0; unk < 6; unk += 5) {
        hsc__string model = {0};
        hsc_tokenizer *t;
        hsc_error err;
        make_model(&model, unk);
        if (open_files(&t, model.data, model.n, vocabulary, sizeof vocabulary - 1, &err) != HSC_OK)
            fail_msg("%s", err.message);
        check(t, "ab", 0, 2, END);
        check(t, "c", 0, 3, 1, END);
        check_use(t);
        hsc_tokenizer_free(t);
        hsc__string_free(&model);
    }
}

static void test_damaged_model(void **state)
{
    (void)state;
    hsc__string model = {0};
    hsc_tokenizer *t;
    hsc_error err;
    size_t n_refused = 0;
    make_model(&model, 0);
    for (size_t n = 0; n < model.n; n++) {
        if (open_files(&t, model.data, n, vocabulary, sizeof vocabulary - 1, &err) == HSC_OK) check_use(t);
        else n_refused++;
        hsc_tokenizer_free(t);
    }
    for (size_t bit = 0; bit < model.n * 8; bit++) {
        model.data[bit / 8] = (char)(model.data[bit / 8] ^ (1 << bit % 8));
        if (open_files(&t, model.data, model.n, vocabulary, sizeof vocabulary - 1, &err) == HSC_OK) check_use(t);
        else n_refused++;
        model.data[bit / 8] = (char)(model.data[bit / 8] ^ (1 << bit % 8));
        hsc_tokenizer_free(t);
    }
    assert_true(n_refused > model.n);
    hsc__string_free(&model);
}

static void test_damaged_vocabulary(void **state)
{
    (void)state;
    static const char *const wrong[] = {"[]",
                                        "7",
                                        "{}",
                                        "{\"a\":0}",
                                        "{\"<unk>\":-1}",
                                        "{\"<unk>\":1.5}",
                                        "{\"<unk>\":\"1\"}",
                                        "{\"<unk>\":99999999999999999999}",
                                        "{\"<unk>\":16777215}",
                                        "{\"<unk>\":1,\"a\":1}",
                                        "{\"<unk>\":1,\"<unk>\":2}",
                                        "{\"<unk>\":1}x"};
    hsc__string model = {0};
    hsc_tokenizer *t;
    hsc_error err;
    make_model(&model, 0);
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_not_equal(open_files(&t, model.data, model.n, wrong[i], strlen(wrong[i]), &err), HSC_OK);
    for (size_t n = 0; n < sizeof vocabulary - 1; n++)
        assert_int_equal(open_files(&t, model.data, model.n, vocabulary, n, &err), HSC_EFORMAT);
    hsc__string_free(&model);
}

/* What a tokenizer_config.json may say, and what not. */
static void test_settings(void **state)
{
    (void)state;
    static const char *const wrong[] = {"[]", "{\"separate_vocabs\":\"yes\"}", "{\"added_tokens_decoder\":{\"x\":{}}}",
                                        "{\"added_tokens_decoder\":{\"5\":{\"content\":\"not b\"}}}", "{"};
    hsc__string model = {0};
    hsc_tokenizer *t;
    hsc_error err;
    make_model(&model, 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        write_file("tokenizer_config.json", wrong[i], strlen(wrong[i]));
        hsc_status status = open_files(&t, model.data, model.n, vocabulary, sizeof vocabulary - 1, &err);
        if (status != HSC_EFORMAT) fail_msg("%s: status %d: %s", wrong[i], status, err.message);
    }
    unlink(scratch_path("tokenizer_config.json"));
    hsc__string_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_not_tokens),
        cmocka_unit_test(test_damaged_model),
        cmocka_unit_test(test_damaged_vocabulary),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
