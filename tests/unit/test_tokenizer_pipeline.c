/* The stages around the model, on toy tokenizers: SentencePiece-like vocabularies, prefixes, templates, decoders,
 * spans, and what is refused. Ids of the first test are those of the tokenizers package. */
#include "test_tokenizer_support.h"

/* <unk> <s> </s>, 256 byte pieces at 3.., then the pieces at 259.. */
static const char *const pieces[] = {"\xe2\x96\x81",
                                     "h",
                                     "e",
                                     "l",
                                     "o",
                                     "u",
                                     "n",
                                     "s",
                                     "\xe2\x96\x81h",
                                     "el",
                                     "lo",
                                     "\xe2\x96\x81hel",
                                     "\xe2\x96\x81hello",
                                     "hel",
                                     "hello",
                                     "\xe2\x96\x81u",
                                     "ns",
                                     "\xe2\x96\x81uns",
                                     "uns",
                                     "\xe2\x96\x81\xe2\x96\x81"};
#define M "\xe2\x96\x81"
static const char merges[] =
    "\"" M " h\",\"e l\",\"l o\",\"" M "h el\",\"h el\",\"" M "hel lo\",\"hel lo\",\"" M " u\",\"n s\","
    "\"" M "u ns\",\"u ns\",\"" M " " M "\"";
#define PREPEND                                                                                                        \
    ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" M "\"},"            \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" M "\"}]}"
#define METASPACE(scheme, split)                                                                                       \
    ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" M "\",\"prepend_scheme\":\"" scheme                \
    "\",\"split\":" split "}"
#define DECODER                                                                                                        \
    ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" M "\"},"      \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"                                              \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define TEMPLATE                                                                                                       \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"            \
    "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"</s>\"}}],\"special_tokens\":"                          \
    "{\"<s>\":{\"id\":\"<s>\",\"ids\":[1]},\"</s>\":{\"id\":\"</s>\",\"ids\":[2,2]}}}"

static hsc_tokenizer *toy(const char *components)
{
    hsc__string json = {0};
    hsc__string_text(&json, "{\"added_tokens\":[");
    for (int i = 0; i < 3; i++)
        hsc__string_printf(&json, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true,\"normalized\":false}",
                           i ? "," : "", i,
                           i == 0   ? "<unk>"
                           : i == 1 ? "<s>"
                                    : "</s>");
    hsc__string_text(&json,
                     "],\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
                     "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2");
    for (int b = 0; b < 256; b++) hsc__string_printf(&json, ",\"<0x%02X>\":%d", b, 3 + b);
    for (size_t i = 0; i < COUNT(pieces); i++) hsc__string_printf(&json, ",\"%s\":%zu", pieces[i], 259 + i);
    hsc__string_printf(&json, "},\"merges\":[%s]}%s}", merges, components);
    hsc_tokenizer *t = open_text(json.data);
    hsc__string_free(&json);
    return t;
}

static void test_sentencepiece_like(void **state)
{
    (void)state;
    const unsigned parse = HSC_ENCODE_PARSE_SPECIAL;
    hsc_tokenizer *t = toy(PREPEND DECODER);
    check(t, "hello", 0, 271, END);
    check(t, " hello", 0, 259, 271, END);
    check(t, "  hello", 0, 278, 271, END);
    check(t, "hello ", 0, 271, 259, END);
    check(t, "hello<s>uns", parse, 271, 1, 276, END);
    check(t, "hello<s> uns", parse, 271, 1, 259, 276, END);
    check(t, "\xf0\x9f\xa6\x99", 0, 259, 243, 162, 169, 156, END);
    check(t, "\xc3\xa9", 0, 259, 198, 172, END);
    check(t, "\n", 0, 259, 13, END);
    check(t, "", 0, END);
    check(t, "\xf0\x9f", 0, 259, 243, 162, END); /* ill-formed bytes fall back to their pieces too */
    hsc_tokenizer_free(t);
    t = toy(METASPACE("first", "true"));
    check(t, " hello", 0, 271, END);
    check(t, "hello<s>uns", parse, 271, 1, 277, END);
    hsc_tokenizer_free(t);
    t = toy(METASPACE("always", "true"));
    check(t, "hello<s>uns", parse, 271, 1, 276, END);
    hsc_tokenizer_free(t);
    t = toy(METASPACE("never", "true"));
    check(t, "hello", 0, 273, END);
    hsc_tokenizer_free(t);
}

static void test_pieces_stand_for_text(void **state)
{
    (void)state;
    hsc_tokenizer *t = toy(PREPEND DECODER TEMPLATE);
    size_t n;
    char *text = decode(t, (hsc_token[]){271, 259, 276}, 3, &n);
    assert_string_equal(text, "hello  uns"); /* the first blank is the prefix */
    free(text);
    text = decode(t, (hsc_token[]){1, 271}, 2, &n);
    assert_string_equal(text, "<s> hello"); /* it no longer stands at the start */
    free(text);
    text = decode(t, (hsc_token[]){243, 162, 169, 156}, 4, &n);
    assert_string_equal(text, "\xf0\x9f\xa6\x99");
    free(text);
    assert_memory_equal(hsc_token_bytes(t, 271, &n), " hello", 6);
    assert_int_equal(n, 6);
    assert_int_equal(hsc_token_find(t, " hello", 6), 271);
    assert_int_equal(hsc_token_find(t, "h", 1), 260); /* the token, not the piece <0x68> */
    assert_int_equal(hsc_token_find(t, "x", 1), 3 + 'x');
    check(t, "hello", HSC_ENCODE_ADD_SPECIAL, 1, 271, 2, 2, END);
    check(t, "", HSC_ENCODE_ADD_SPECIAL, 1, 2, 2, END);
    hsc_stream stream = {0};
    char out[64];
    assert_true(hsc_stream_bound(t) <= sizeof out);
    assert_int_equal(hsc_stream_next(t, &stream, 271, out, sizeof out), 5);
    assert_int_equal(hsc_stream_next(t, &stream, 271, out, sizeof out), 6);
    hsc_tokenizer_free(t);
}

static void check_spans(const hsc_tokenizer *t, const char *text, unsigned flags, const size_t (*spans)[2], size_t n)
{
    hsc_encoding out = {0};
    hsc_error err = {0};
    if (hsc_encode(t, text, strlen(text), flags, &out, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(out.n, n);
    for (size_t i = 0; i < n; i++) {
        if (out.spans[i].start != spans[i][0] || out.spans[i].end != spans[i][1])
            fail_msg("token %zu: [%zu, %zu)", i, out.spans[i].start, out.spans[i].end);
    }
    hsc_encoding_free(&out);
}

static void test_spans_lead_back_to_the_text(void **state)
{
    (void)state;
    hsc_tokenizer *t = toy(PREPEND TEMPLATE);
    check_spans(t, " hello uns<s>hello", HSC_ENCODE_ADD_SPECIAL | HSC_ENCODE_PARSE_SPECIAL,
                (const size_t[][2]){{0, 0}, {0, 0}, {0, 6}, {6, 10}, {10, 13}, {13, 18}, {18, 18}, {18, 18}}, 8);
    check_spans(t, "\xc3\xa9", 0, (const size_t[][2]){{0, 0}, {0, 1}, {1, 2}}, 3);
    hsc_tokenizer_free(t);
    t = toy(METASPACE("always", "true"));
    check_spans(t, "hello uns", 0, (const size_t[][2]){{0, 5}, {5, 9}}, 2);
    hsc_tokenizer_free(t);
}

static void test_text_that_cannot_be_spelled(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_text("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    hsc_encoding out = {0};
    hsc_error err = {0};
    assert_int_equal(hsc_encode(t, "ab", 2, 0, &out, &err), HSC_EINVAL);
    assert_int_equal(out.n, 0);
    assert_non_null(strstr(err.message, "0x62"));
    hsc_encoding_free(&out);
    hsc_tokenizer_free(t);
    t = open_text("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"?\":5},\"merges\":[]}}");
    check(t, "abca", 0, 0, 5, 5, 0, END);
    assert_int_equal(hsc_tokenizer_size(t), 6);
    size_t n;
    assert_null(hsc_token_bytes(t, 3, &n)); /* a hole */
    assert_int_equal(hsc_decode(t, (hsc_token[]){3}, 1, NULL, 0), HSC_EINVAL);
    hsc_tokenizer_free(t);
    t = open_text("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"vocab\":{\"a\":0,\"?\":1},"
                  "\"merges\":[]}}");
    check(t,
          "a\xff\xc3\xa9z"
          "a",
          0, 0, 1, 0, END);
    hsc_tokenizer_free(t);
}

#define MODEL "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<s>\":1},\"merges\":[]}"

static void test_components_that_are_not_known(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
        hsc_status status;
    } cases[] = {
        {MODEL ",\"normalizer\":{\"type\":\"Odd\"}}", "normalizer \"Odd\"", HSC_EUNSUPPORTED},
        {MODEL ",\"normalizer\":{}}", "normalizer \"(no type)\"", HSC_EUNSUPPORTED},
        {MODEL ",\"normalizer\":{\"type\":\"Prepend\"}}", "\"prepend\" must be a string", HSC_EFORMAT},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "pre_tokenizer \"UnicodeScripts\"",
         HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":5}", "pre_tokenizer", HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\h\"},\"behavior\":\"Isolated\"}}",
         "\\h", HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}}", "\"Odd\"",
         HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}}", "\"pattern\"",
         HSC_EFORMAT},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}}",
         "\"last\"", HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
               "\"Digits\"}]}}",
         "\"Digits\" after \"ByteLevel\"", HSC_EUNSUPPORTED},
        {MODEL ",\"post_processor\":{\"type\":\"Odd\"}}", "post_processor \"Odd\"", HSC_EUNSUPPORTED},
        {MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}", "the text once",
         HSC_EUNSUPPORTED},
        {MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
               "{\"Sequence\":{}}]}}",
         "\"x\" has no ids", HSC_EFORMAT},
        {MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"a\",0]}}", "the id 9",
         HSC_EFORMAT},
        {MODEL ",\"decoder\":{\"type\":\"CTC\"}}", "decoder \"CTC\"", HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "pre_tokenizer \"UnicodeScripts\"",
         HSC_EUNSUPPORTED},
        {MODEL ",\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}}", "length", HSC_EFORMAT},
        {MODEL ",\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"\"}}", "\"suffix\"", HSC_EUNSUPPORTED},
        {MODEL ",\"decoder\":{}}", "decoder has no \"type\"", HSC_EFORMAT},
        {MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1}}", "\"Strip\"", HSC_EUNSUPPORTED},
        {MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteLevel\"}]}}",
         "after \"Fuse\"", HSC_EUNSUPPORTED},
        {MODEL ",\"added_tokens\":{}}", "must be an array", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":2}]}", "\"content\" must be a string", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"content\":\"x\"}]}", "\"id\" is missing", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":-4,\"content\":\"x\"}]}", "from 0", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]}", "of another token", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":2,\"content\":\"<s>\"}]}", "the vocabulary says 1", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":16000000,\"content\":\"x\"}]}", "far beyond", HSC_EFORMAT},
        {MODEL ",\"added_tokens\":[{\"id\":2,\"content\":\"x\",\"lstrip\":1}]}", "lstrip", HSC_EFORMAT},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc_tokenizer *t;
        hsc_error err = {0};
        hsc_status status = parse_text(&t, cases[i].json, &err);
        if (status != cases[i].status) fail_msg("%s: status %d, %s", cases[i].json, status, err.message);
        if (!strstr(err.message, cases[i].part)) fail_msg("%s: %s", cases[i].json, err.message);
        if (!strstr(err.message, "test.json")) fail_msg("%s: %s", cases[i].json, err.message);
        assert_null(t);
    }
}

/* ---- folders ---- */

static void put(const char *name, const char *text)
{
    assert_true(scratch_write(scratch_path(name), text, strlen(text)));
}

#define ALPHABET "{\"a\":0,\"b\":1,\"\\u0120\":2,\"\\u0120a\":3,\"#\":4,\"##\":5,\"<|endoftext|>\":6}"

static void test_folder_of_vocab_and_merges(void **state)
{
    (void)state;
    put("vocab.json", ALPHABET);
    put("merges.txt", "#version: 0.2\r\n\xc4\xa0 a\r\n# #\n\n");
    hsc_tokenizer *t = open_path(scratch_dir);
    check(t, " aab##", 0, 3, 0, 1, 5, END);
    check(t, "a<|endoftext|>", HSC_ENCODE_PARSE_SPECIAL | HSC_ENCODE_ADD_SPECIAL, 0, 6, END);
    hsc_tokenizer_free(t);

    put("special_tokens_map.json",
        "{\"pad_token\":{\"content\":\"<p>\",\"lstrip\":true},\"bos_token\":\"<|endoftext|>\"}");
    put("added_tokens.json", "{\"<x>\":7}");
    t = open_path(scratch_dir);
    check(t, "a<x>b <p>", HSC_ENCODE_PARSE_SPECIAL, 0, 7, 1, 8, END);
    hsc_tokenizer_free(t);

    put("tokenizer_config.json",
        "\xef\xbb\xbf{\"add_bos_token\":true,\"add_eos_token\":true,\"add_prefix_space\":true,\"eos_token\":\"<e>\","
        "\"model_max_length\":1000000000000000019884624838656,\"added_tokens_decoder\":{\"7\":{\"content\":\"<e>\","
        "\"special\":true},\"6\":{\"content\":\"<|endoftext|>\",\"special\":true}}}");
    t = open_path(scratch_dir);
    check(t, "a", HSC_ENCODE_ADD_SPECIAL, 6, 3, 7, END);
    check(t, "a", 0, 3, END);
    hsc_tokenizer_free(t);

    unlink(scratch_path("added_tokens.json"));
    unlink(scratch_path("special_tokens_map.json"));
    put("tokenizer_config.json",
        "{\"add_prefix_space\":false,\"added_tokens_decoder\":{\"7\":{\"content\":\"<e>\",\"lstrip\":true}}}");
    put("tokenizer.json",
        "{\"added_tokens\":[{\"id\":7,\"content\":\"<e>\"}],\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":" ALPHABET "}}");
    t = open_path(scratch_dir);
    check(t, "a <e>b", 0, 0, 7, 1, END);
    hsc_tokenizer_free(t);
    unlink(scratch_path("tokenizer_config.json"));
    t = open_path(scratch_dir);
    check(t, "a <e>b", 0, 2, 0, 2, 7, 2, 1, END);
    hsc_tokenizer_free(t);

    put("tokenizer_config.json",
        "{\"add_bos_token\":true,\"added_tokens_decoder\":{\"7\":{\"content\":\"<e>\",\"special\":true}}}");
    /* Beside a tokenizer.json the template is that file's, and added_tokens_decoder has the last word on flags. */
    put("tokenizer.json",
        "{\"added_tokens\":[{\"id\":7,\"content\":\"<e>\"}],\"model\":{\"type\":\"BPE\",\"merges\":[],"
        "\"vocab\":" ALPHABET "}}");
    t = open_path(scratch_dir);
    check(t, "a", HSC_ENCODE_ADD_SPECIAL, 0, END);
    assert_true(hsc_token_is_special(t, 7));
    hsc_tokenizer_free(t);
    unlink(scratch_path("tokenizer.json"));
}

static void check_refused(const char *name, const char *text, hsc_status wanted, const char *part)
{
    hsc_tokenizer *t;
    hsc_error err = {0};
    put(name, text);
    hsc_status status = hsc_tokenizer_open(&t, scratch_dir, &err);
    if (status != wanted || !strstr(err.message, part) || !strstr(err.message, name))
        fail_msg("%s: status %d, %s", name, status, err.message);
    assert_null(t);
    unlink(scratch_path(name));
}

static void test_folders_that_are_refused(void **state)
{
    (void)state;
    hsc_tokenizer *t;
    hsc_error err = {0};
    put("vocab.json", ALPHABET);
    put("merges.txt", "\xc4\xa0 a\n");
    unlink(scratch_path("special_tokens_map.json"));
    unlink(scratch_path("added_tokens.json"));
    check_refused("tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", HSC_EFORMAT,
                  "\"x\"");
    check_refused("tokenizer_config.json", "{\"added_tokens_decoder\":{\"2\":{\"content\":\"y\"}}}", HSC_EFORMAT,
                  "another token");
    check_refused("tokenizer_config.json", "{\"add_eos_token\":true,\"eos_token\":\"\"}", HSC_EFORMAT, "eos_token");
    check_refused("tokenizer_config.json", "[1]", HSC_EFORMAT, "an object");
    check_refused("tokenizer_config.json", "{", HSC_EFORMAT, "JSON");
    check_refused("added_tokens.json", "{\"x\":\"y\"}", HSC_EFORMAT, "an id");
    check_refused("merges.txt", "a b c\n", HSC_EFORMAT, "line 1");
    check_refused("merges.txt", "#version\na b\n", HSC_EFORMAT, "line 2");
    check_refused("merges.txt", "\xff a\n", HSC_EFORMAT, "UTF-8");
    assert_int_equal(hsc_tokenizer_open(&t, scratch_dir, &err), HSC_ENOTFOUND); /* merges.txt is gone */
    put("merges.txt", "");
    check_refused("vocab.json", "{\"a\":0} {}", HSC_EFORMAT, "follows");
    check_refused("vocab.json", "[]", HSC_EFORMAT, "'{'");
    assert_int_equal(hsc_tokenizer_open(&t, scratch_dir, &err), HSC_ENOTFOUND);
    assert_non_null(strstr(err.message, "has no tokenizer"));
    assert_int_equal(hsc_tokenizer_open(&t, scratch_path("absent"), &err), HSC_ENOTFOUND);
    assert_non_null(strstr(err.message, "absent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentencepiece_like),
        cmocka_unit_test(test_pieces_stand_for_text),
        cmocka_unit_test(test_spans_lead_back_to_the_text),
        cmocka_unit_test(test_text_that_cannot_be_spelled),
        cmocka_unit_test(test_components_that_are_not_known),
        cmocka_unit_test(test_folder_of_vocab_and_merges),
        cmocka_unit_test(test_folders_that_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
