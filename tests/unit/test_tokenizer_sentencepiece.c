/* SentencePiece model files: what Llama's kind gives for the cases of blanks, prefixes and byte pieces, and files that
 * are damaged in every way: cut at each byte, each bit turned over, lengths beyond the end, fields of the wrong kind.
 */
#include "sentencepiece_file.h"
#include "test_tokenizer_support.h"

static hsc_status parse(hsc_tokenizer **t, const char *bytes, size_t n, const char *dir, hsc_error *err)
{
    *err = (hsc_error){0};
    return hsc__tokenizer_parse_sentencepiece(t, hsc__strndup(bytes, n), n, "toy.model", dir, err);
}

static hsc_tokenizer *open_toy(bool trims, const char *settings)
{
    hsc__string file = {0};
    hsc_tokenizer *t;
    hsc_error err;
    proto_toy(&file, HSC__SPM_BPE, trims);
    if (settings) assert_true(scratch_write(scratch_path("tokenizer_config.json"), settings, strlen(settings)));
    if (parse(&t, file.data, file.n, settings ? scratch_path("") : NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc__string_free(&file);
    return t;
}

/* The right ids are those of the tokenizers package for the same vocabulary and rules. */
static void test_blanks_and_bytes(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_toy(false, NULL); /* a blank in front of every part, however it starts */
    check(t, "hello", 0, 271, END);
    check(t, " hello", 0, 259, 271, END);
    check(t, "  hello", 0, 278, 271, END);
    check(t, "hello ", 0, 271, 259, END);
    check(t, "hello<s>uns", 2, 271, 1, 276, END);
    check(t, "hello<s> uns", 2, 271, 1, 259, 276, END);
    check(t, "\xf0\x9f\xa6\x99", 0, 259, 243, 162, 169, 156, END);
    check(t, "\xc3\xa9", 0, 259, 198, 172, END);
    check(t, "\n", 0, 259, 13, END);
    check(t, "", 0, END);
    hsc_tokenizer_free(t);
    t = open_toy(true, NULL); /* blanks at the ends go, runs become one */
    check(t, "  hello   uns ", 0, 271, 276, END);
    check(t, "   ", 0, END);
    hsc_tokenizer_free(t);
}

static void test_llama_class(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_toy(false, "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true}");
    check(t, " hello", 0, 271, END);
    check(t, "hello<s>uns", 2, 271, 1, 277, END);
    check(t, "hello", 1, 1, 271, END);
    hsc_tokenizer_free(t);
    t = open_toy(false, "{\"tokenizer_class\":\"LlamaTokenizer\",\"legacy\":true}");
    check(t, "hello<s>uns", 2, 271, 1, 276, END);
    hsc_tokenizer_free(t);
    t = open_toy(false, "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_prefix_space\":false}");
    check(t, "hello", 0, 273, END);
    size_t n;
    char *text = decode(t, (const hsc_token[]){271, 259, 273, 198, 172}, 5, &n);
    assert_string_equal(text, " hello hello\xc3\xa9");
    free(text);
    hsc_tokenizer_free(t);
}

static void check_refused(const char *bytes, size_t n, hsc_status status, const char *words)
{
    hsc_tokenizer *t;
    hsc_error err;
    hsc_status got = parse(&t, bytes, n, NULL, &err);
    if (got != status || !strstr(err.message, words) || strncmp(err.message, "toy.model: ", 11) != 0)
        fail_msg("status %d: %s (expected %s)", got, err.message, words);
    assert_null(t);
}

/* A cut between two fields of the file leaves a smaller model; every other one is refused. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    hsc__string file = {0};
    proto_toy(&file, HSC__SPM_BPE, true);
    size_t n_whole = 0;
    for (size_t n = 0; n < file.n; n++) {
        hsc_tokenizer *t;
        hsc_error err;
        hsc_status status = parse(&t, file.data, n, NULL, &err);
        n_whole += status == HSC_OK;
        assert_true(status == HSC_OK || (status == HSC_EFORMAT && strstr(err.message, "toy.model")));
        hsc_tokenizer_free(t);
    }
    assert_int_equal(n_whole, 280); /* after each of the 279 pieces, and before the last field */
    hsc__string_free(&file);
}

static void test_every_bit(void **state)
{
    (void)state;
    hsc__string file = {0};
    hsc_encoding out = {0};
    size_t n_refused = 0;
    proto_toy(&file, HSC__SPM_BPE, true);
    for (size_t bit = 0; bit < file.n * 8; bit++) {
        hsc_tokenizer *t;
        hsc_error err;
        if (bit > 2000 && bit + 2000 < file.n * 8 && bit % 11) continue; /* the pieces are all alike */
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        hsc_status status = parse(&t, file.data, file.n, NULL, &err);
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ (1 << bit % 8));
        assert_true(status == HSC_OK || (*err.message && strstr(err.message, "toy.model")));
        assert_true(status == HSC_OK || status == HSC_EFORMAT || status == HSC_EUNSUPPORTED);
        n_refused += status != HSC_OK;
        if (status == HSC_OK && hsc_encode(t, " hello \xff uns", 12, 3, &out, &err) == HSC_OK) assert_true(out.n <= 20);
        hsc_tokenizer_free(t);
    }
    assert_true(n_refused > 1000);
    hsc_encoding_free(&out);
    hsc__string_free(&file);
}

static void test_fields(void **state)
{
    (void)state;
#define REFUSED(bytes, words) check_refused(bytes, sizeof bytes - 1, HSC_EFORMAT, words)
    REFUSED("", "is empty");
    REFUSED("\x0a\x7f", "field 1 takes 127 bytes, the message has 0 left");
    REFUSED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field 1 takes 18446744073709551615 bytes");
    REFUSED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a number of more than 10 bytes");
    REFUSED("\x0a\x80", "a number runs past the end");
    REFUSED("\x02\x00", "a field has the number 0");
    REFUSED("\x0b", "field 1 has the wire type 3, which is not known");
    REFUSED("\x08\x01", "ModelProto: \"pieces\" has the wire type 0, it must be 2");
    REFUSED("\x0a\x02\x0a\x00", "pieces[0]: \"piece\" is empty");
    REFUSED("\x0a\x03\x0a\x01\xff", "pieces: \"piece\" is not valid UTF-8");
    REFUSED("\x0a\x05\x0a\x01\x61\x10\x01", "pieces: \"score\" has the wire type 0, it must be 5");
    REFUSED("\x0a\x08\x0a\x01\x61\x15\x00\x00\xc0\x7f", "pieces[0]: \"score\" is not finite");
    REFUSED("\x0a\x05\x0a\x01\x61\x18\x07", "pieces[0]: \"type\" is 7, it must be from 1 to 6");
    REFUSED("\x12\x02\x18\x02", "has no pieces");
    REFUSED("\x0a\x03\x0a\x01\x61\x12\x02\x18\x09", "\"model_type\" is 9, it must be from 1 to 4");
    REFUSED("\x0a\x03\x0a\x01\x61\x12\x03\xc0\x02\x05", "\"unk_id\" is 5, it must be from 0 to 0");
    REFUSED("\x0a\x03\x0a\x01\x61\x12\x03\x98\x02\x05", "trainer_spec: \"byte_fallback\" is 5, it must be 0 or 1");
    REFUSED("\x0a\x03\x0a\x01\x61\x12\x07\xc0\x02\xff\xff\xff\xff\x7f", "\"unk_id\" is 34359738367, it must be an int");
    REFUSED("\x0a\x03\x0a\x01\x61\x0a\x03\x0a\x01\x61", "\"a\" is the text of the tokens 0 and 1");
    REFUSED("\x0a\x03\x0a\x01\x61\x1a\x06\x12\x04\xff\xff\xff\xff", "precompiled_charsmap");
#undef REFUSED
    check_refused("\x0a\x03\x0a\x01\x61\x12\x02\x18\x04", 9, HSC_EUNSUPPORTED, "\"model_type\" CHAR");
    check_refused("\x0a\x03\x0a\x01\x61\x2a\x03\x12\x01\x61", 10, HSC_EUNSUPPORTED, "denormalizer_spec");
}

/* All cuts of a piece are tried as merges, so a piece may not be of any length. */
static void test_long_piece(void **state)
{
    (void)state;
    hsc__string file = {0};
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    proto_toy(&file, HSC__SPM_BPE, true);
    proto_piece(&file, text, -99, HSC__PIECE_NORMAL);
    check_refused(file.data, file.n, HSC_EUNSUPPORTED, "pieces[279] has 1999 bytes, at most 1024 are supported");
    hsc__string_free(&file);
}

/* Marian's: <unk> 1, _a 2, b 3, a run of 16 b's 4. Each b costs 2^-25, which float32 loses beside the 1 of _a, and the
 * run 2^-22, which it keeps: letter by letter costs less there, and more than the run where sums are exact. */
static void test_marian(void **state)
{
    (void)state;
    hsc__string file = {0};
    hsc_tokenizer *t;
    hsc_error err;
    proto_piece(&file, "<unk>", 0, HSC__PIECE_UNKNOWN);
    proto_piece(&file,
                "\xe2\x96\x81"
                "a",
                -1, HSC__PIECE_NORMAL);
    proto_piece(&file, "b", -0x1p-25f, HSC__PIECE_NORMAL);
    proto_piece(&file, "bbbbbbbbbbbbbbbb", -0x1p-22f, HSC__PIECE_NORMAL);
    assert_true(scratch_write(scratch_path("source.spm"), file.data, file.n));
    static const char vocab[] = "{\"</s>\":0,\"<unk>\":1,\"\xe2\x96\x81"
                                "a\":2,\"b\":3,\"bbbbbbbbbbbbbbbb\":4,\">>fra<<\":5}";
    assert_true(scratch_write(scratch_path("vocab.json"), vocab, sizeof vocab - 1));
    if (hsc_tokenizer_open(&t, scratch_path(""), &err) != HSC_OK) fail_msg("%s", err.message);
    check(t, "abbbbbbbbbbbbbbbb", 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, END);
    check(t, ">>fra<<a", 0, 5, 2, END);
    check(t, ">>fra<< a", 0, 5, 2, END);
    check(t, ">>fra<<", 1, 5, 0, END);
    check(t, ">>nowhere<<ab", 0, 1, 2, 3, END); /* what vocab.json lacks is unknown, and no text */
    check(t, ">><<a", 0, 1, 2, END);
    check(t, "a</s>>>fra<<a", 2, 2, 0, 5, 2, END); /* a text begins behind a special token too */
    check(t, "abz>>fra<<", 0, 2, 3, 1, END);       /* elsewhere its letters count */
    check(t, ">>fra", 0, 1, END);
    hsc_tokenizer_free(t);
    hsc__string_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blanks_and_bytes),
                                       cmocka_unit_test(test_llama_class),
                                       cmocka_unit_test(test_cut_anywhere),
                                       cmocka_unit_test(test_every_bit),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_long_piece),
                                       cmocka_unit_test(test_marian)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
