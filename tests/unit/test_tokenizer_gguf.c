/* Tokenizers in GGUF metadata, on small files made here: what is read, and what is refused by name. */
#include "test_tokenizer_support.h"
#include "tokenizer/gguf_pre.h"

/* ---- a GGUF file without tensors ---- */

typedef struct file {
    hsc__string bytes;
    uint64_t n_kv;
} file;

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static void put_u32(file *f, uint32_t v)
{
    hsc__string_add(&f->bytes, (const char *)&v, 4);
}

static void put_u64(file *f, uint64_t v)
{
    hsc__string_add(&f->bytes, (const char *)&v, 8);
}

static void put_string(file *f, const char *text)
{
    put_u64(f, strlen(text));
    hsc__string_text(&f->bytes, text);
}

static void begin(file *f)
{
    *f = (file){0};
    hsc__string_text(&f->bytes, "GGUF");
    put_u32(f, 3);
    put_u64(f, 0);
    put_u64(f, 0);
}

static void key(file *f, const char *name, uint32_t type)
{
    f->n_kv++;
    put_string(f, name);
    put_u32(f, type);
}

static void add_text(file *f, const char *name, const char *text)
{
    key(f, name, STRING);
    put_string(f, text);
}

static void add_u32(file *f, const char *name, uint32_t v)
{
    key(f, name, U32);
    put_u32(f, v);
}

static void add_bool(file *f, const char *name, bool v)
{
    key(f, name, BOOL);
    hsc__string_add(&f->bytes, v ? "\1" : "\0", 1);
}

/* Texts between commas. */
static void add_texts(file *f, const char *name, const char *list)
{
    uint64_t n = 1;
    key(f, name, ARRAY);
    put_u32(f, STRING);
    for (const char *c = list; *c; c++) n += *c == ',';
    put_u64(f, n);
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        put_u64(f, length);
        hsc__string_add(&f->bytes, at, length);
        at += length;
        if (!*at) return;
    }
}

static void add_ints(file *f, const char *name, const int32_t *v, size_t n)
{
    key(f, name, ARRAY);
    put_u32(f, I32);
    put_u64(f, n);
    hsc__string_add(&f->bytes, (const char *)v, n * 4);
}

static void add_floats(file *f, const char *name, const float *v, size_t n)
{
    key(f, name, ARRAY);
    put_u32(f, F32);
    put_u64(f, n);
    hsc__string_add(&f->bytes, (const char *)v, n * 4);
}

/* The tokenizer of the file; NULL and the message when it is refused. */
static hsc_tokenizer *open_file(file *f, hsc__gguf **gguf, hsc_status *status, hsc_error *err)
{
    hsc_tokenizer *t = NULL;
    memcpy(f->bytes.data + 16, &f->n_kv, 8);
    if (hsc__gguf_parse(gguf, (const unsigned char *)f->bytes.data, f->bytes.n, "test.gguf", err) != HSC_OK)
        fail_msg("%s", err->message);
    *status = hsc__tokenizer_from_gguf(&t, *gguf, err);
    return t;
}

/* The tokenizer of a file that is as it should be; free it, and close_file. */
static hsc_tokenizer *open_good(file *f, hsc__gguf **gguf)
{
    hsc_status status;
    hsc_error err = {0};
    hsc_tokenizer *t = open_file(f, gguf, &status, &err);
    if (!t) fail_msg("%s", err.message);
    return t;
}

#define T "tokenizer.ggml."
#define SPACE "\xc4\xa0" /* a blank in the byte alphabet */

static void small_gpt2(file *f, const char *pre)
{
    static const int32_t types[] = {1, 1, 1, 1, 3, 4, 1};
    begin(f);
    add_text(f, T "model", "gpt2");
    if (pre) add_text(f, T "pre", pre);
    add_texts(f, T "tokens", "a,b," SPACE "," SPACE "a,<s>,<u>,ab");
    add_ints(f, T "token_type", types, COUNT(types));
    add_texts(f, T "merges", SPACE " a,a b");
    add_u32(f, T "bos_token_id", 4);
}

static void close_file(file *f, hsc__gguf *gguf)
{
    hsc__gguf_close(gguf);
    hsc__string_free(&f->bytes);
}

static void test_gpt2_kind(void **state)
{
    (void)state;
    file f;
    hsc__gguf *gguf;
    size_t n;
    small_gpt2(&f, "gpt-2");
    add_bool(&f, T "add_bos_token", true);
    hsc_tokenizer *t = open_good(&f, &gguf);
    check(t, "ab ab<u>b", 0, 6, 3, 1, 5, 1, END); /* what the user of the model added is always matched */
    check(t, "a<s>", HSC_ENCODE_PARSE_SPECIAL | HSC_ENCODE_ADD_SPECIAL, 4, 0, 4, END);
    assert_memory_equal(hsc_token_bytes(t, 3, &n), " a", 2);
    assert_true(hsc_token_is_special(t, 4));
    assert_false(hsc_token_is_special(t, 5));
    hsc_tokenizer_free(t);
    close_file(&f, gguf);
}

/* Scores: ab 1, bc 2, the rest below, so "abc" is a + bc; a character without a token falls back to bytes. */
static void small_llama(file *f, const float *scores)
{
    static const int32_t types[] = {2, 3, 1, 1, 1, 1, 1, 1, 1, 6, 6, 6};
    static const float usual[] = {0, 0, -1, -2, -3, -4, 1, 2, 0.5f, 0, 0, 0};
    begin(f);
    add_text(f, T "model", "llama");
    add_texts(f, T "tokens",
              "<unk>,<s>,\xe2\x96\x81,a,b,c,ab,bc,\xe2\x96\x81"
              "a,<0xC3>,<0xA9>,<0x0A>");
    add_ints(f, T "token_type", types, COUNT(types));
    add_floats(f, T "scores", scores ? scores : usual, COUNT(usual));
}

static void test_llama_kind(void **state)
{
    (void)state;
    file f;
    hsc__gguf *gguf;
    size_t n;
    small_llama(&f, NULL);
    hsc_tokenizer *t = open_good(&f, &gguf);
    check(t, "abc", 0, 8, 7, END);
    check(t, "abc", HSC_ENCODE_ADD_SPECIAL, 1, 8, 7, END);
    check(t, "ab abab", 0, 2, 6, 2, 6, 6, END);
    check(t, "\xc3\xa9\n", 0, 2, 9, 10, 11, END);
    check(t, "z", 0, 2, 0, END);
    check(t, "b<s>b", HSC_ENCODE_PARSE_SPECIAL, 2, 4, 1, 2, 4, END);
    char *text = decode(t, (hsc_token[]){8, 7, 9, 10}, 4, &n);
    assert_string_equal(text, "abc\xc3\xa9");
    free(text);
    hsc_tokenizer_free(t);
    close_file(&f, gguf);

    small_llama(&f, NULL);
    add_bool(&f, T "add_space_prefix", false);
    add_bool(&f, T "add_bos_token", false);
    t = open_good(&f, &gguf);
    check(t, "abc a", HSC_ENCODE_ADD_SPECIAL, 3, 7, 8, END);
    hsc_tokenizer_free(t);
    close_file(&f, gguf);
}

static void test_files_of_the_first_days_name_no_pre_tokenizer(void **state)
{
    (void)state;
    file f;
    hsc__gguf *gguf;
    small_gpt2(&f, NULL);
    add_text(&f, "general.architecture", "gptneox");
    hsc_tokenizer *t = open_good(&f, &gguf);
    hsc_tokenizer_free(t);
    close_file(&f, gguf);
}

/* llama-bpe adds BOS where the file does not say otherwise, if there is one; its words that are tokens stay whole. */
static void test_what_a_pre_tokenizer_brings_along(void **state)
{
    (void)state;
    file f;
    hsc__gguf *gguf;
    for (int with_bos = 0; with_bos < 2; with_bos++) {
        begin(&f);
        add_text(&f, T "model", "gpt2");
        add_text(&f, T "pre", "llama-bpe");
        add_texts(&f, T "tokens", "a,b,ab,aab,<s>");
        add_texts(&f, T "merges", "a b");
        if (with_bos) add_u32(&f, T "bos_token_id", 4);
        hsc_tokenizer *t = open_good(&f, &gguf);
        check(t, "aab", 0, 3, END);
        if (with_bos) check(t, "aab", HSC_ENCODE_ADD_SPECIAL, 4, 3, END);
        else check(t, "aab", HSC_ENCODE_ADD_SPECIAL, 3, END);
        hsc_tokenizer_free(t);
        close_file(&f, gguf);
    }
}

static void test_every_name_of_a_pre_tokenizer(void **state)
{
    (void)state;
    static const char *const names[] = {
        "gpt-2",     "smollm", "llama-bpe", "llama3", "qwen2", "deepseek-llm", "deepseek-coder",
        "starcoder", "refact", "command-r", "falcon", "mpt",   "default"};
    static const char *const unknown[] = {"", " ", "gpt", "gpt-2 gpt2", "2"};
    for (size_t i = 0; i < COUNT(names); i++) {
        hsc__splitter splitter = {0};
        hsc__gguf_pre rules;
        hsc_error err = {0};
        if (hsc__gguf_pre_load(&splitter, &rules, names[i], &err) != HSC_OK) fail_msg("%s: %s", names[i], err.message);
        assert_true(splitter.n_steps > 0);
        assert_int_equal(rules.ignore_merges, i == 2 || i == 3);
        hsc__splitter_free(&splitter);
    }
    for (size_t i = 0; i < COUNT(unknown); i++) {
        hsc__splitter splitter = {0};
        hsc__gguf_pre rules;
        assert_int_equal(hsc__gguf_pre_load(&splitter, &rules, unknown[i], NULL), HSC_EUNSUPPORTED);
    }
}

/* A small file, spoiled in one way. */
static void build(file *f, int which)
{
    static const int32_t types[] = {1, 9}, short_types[] = {1};
    float not_a_number[12] = {0};
    not_a_number[2] = strtof("nan", NULL);
    if (which >= 20) {
        small_llama(f, which == 20 ? not_a_number : NULL);
        if (which == 21) add_u32(f, T "remove_extra_whitespaces", 1);
        if (which == 22) add_u32(f, T "unknown_token_id", 12);
        if (which == 23) add_u32(f, T "bos_token_id", 99);
        if (which == 24) add_texts(f, T "precompiled_charsmap", "x");
        return;
    }
    if (which >= 10) {
        small_gpt2(f, which == 10 ? "never heard of" : which == 11 ? NULL : "gpt-2");
        if (which == 12) add_bool(f, T "add_eos_token", true);
        if (which == 13) add_u32(f, T "eos_token_id", 7);
        if (which == 14) add_u32(f, T "add_bos_token", 1);
        return;
    }
    begin(f);
    if (which == 0) return;
    add_text(f, T "model", which == 1 ? "odd" : which == 2 ? "no_vocab" : which == 8 ? "llama" : "gpt2");
    add_text(f, T "pre", "gpt-2");
    if (which == 3) return;
    if (which != 9) add_texts(f, T "tokens", "a,b");
    if (which == 4) add_ints(f, T "token_type", types, 2);
    if (which == 5) add_ints(f, T "token_type", short_types, 1);
    if (which == 6) add_texts(f, T "merges", "ab");
    if (which == 7) add_texts(f, T "merges", "a b");
    if (which == 9) add_u32(f, T "tokens", 5);
}

static void test_files_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        int which;
        hsc_status status;
        const char *part;
    } cases[] = {
        {0, HSC_ENOTFOUND, "has no tokenizer"},
        {1, HSC_EUNSUPPORTED, "model \"odd\""},
        {2, HSC_ENOTFOUND, "no_vocab"},
        {3, HSC_ENOTFOUND, T "tokens"},
        {4, HSC_EFORMAT, T "token_type[1] is 9"},
        {5, HSC_EFORMAT, "has 1 entries"},
        {6, HSC_EFORMAT, T "merges[0]"},
        {7, HSC_EFORMAT, "the result is not in the vocabulary"},
        {8, HSC_EFORMAT, T "scores has 0 entries"},
        {9, HSC_EFORMAT, T "tokens"},
        {10, HSC_EUNSUPPORTED, "\"never heard of\""},
        {11, HSC_EUNSUPPORTED, T "pre is missing"},
        {12, HSC_EFORMAT, T "eos_token_id is missing"},
        {13, HSC_EFORMAT, T "eos_token_id"},
        {14, HSC_EFORMAT, T "add_bos_token"},
        {20, HSC_EFORMAT, T "scores[2] is not a number"},
        {21, HSC_EFORMAT, "remove_extra_whitespaces"},
        {22, HSC_EFORMAT, T "unknown_token_id"},
        {23, HSC_EFORMAT, T "bos_token_id"},
        {24, HSC_EFORMAT, "precompiled_charsmap"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        file f;
        hsc__gguf *gguf;
        hsc_status status;
        hsc_error err = {0};
        build(&f, cases[i].which);
        assert_null(open_file(&f, &gguf, &status, &err));
        if (status != cases[i].status) fail_msg("%d: status %d, %s", cases[i].which, status, err.message);
        if (!strstr(err.message, cases[i].part)) fail_msg("%d: %s", cases[i].which, err.message);
        if (strncmp(err.message, "test.gguf: ", 11) != 0 || strstr(err.message + 1, "test.gguf"))
            fail_msg("the file is not named once: %s", err.message);
        close_file(&f, gguf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_kind),
        cmocka_unit_test(test_llama_kind),
        cmocka_unit_test(test_files_of_the_first_days_name_no_pre_tokenizer),
        cmocka_unit_test(test_what_a_pre_tokenizer_brings_along),
        cmocka_unit_test(test_every_name_of_a_pre_tokenizer),
        cmocka_unit_test(test_files_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
