/* Vectors made with the reference tokenizers: llama.cpp's for every vocabulary that can be read, ggml's prompts, a long
 * French text, and the round trip of the test texts. */
#include "test_tokenizer_support.h"

#include <pthread.h>

static char *read_data(const char *name, size_t *n)
{
    char *text;
    hsc_error err = {0};
    if (hsc__read_file(&text, n, data_path(name), 1 << 28, &err) != HSC_OK) fail_msg("%s", err.message);
    return text;
}

/* Numbers up to the end of the line, whatever stands between them; *at moves to the next line. */
static size_t read_numbers(const char **at, hsc_token *out, size_t capacity)
{
    size_t n = 0;
    while (**at && **at != '\n') {
        if (**at < '0' || **at > '9') {
            (*at)++;
            continue;
        }
        char *end;
        assert_true(n < capacity);
        out[n++] = (hsc_token)strtol(*at, &end, 10);
        *at = end;
    }
    if (**at) (*at)++;
    return n;
}

/* .inp: texts between lines __ggml_vocab_test__; .out: a line of ids for each. Returns how many there were. */
static int check_llama_cpp(const char *vocabulary)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char gguf[256], name[300];
    hsc_token ids[2000];
    size_t n_inp, n_out;
    int count = 0;
    snprintf(gguf, sizeof gguf, "tokenizers/llamacpp-vocab/ggml-vocab-%s.gguf", vocabulary);
    if (!hsc__is_file(data_path(gguf))) return 0;
    hsc_tokenizer *t = open_path(data_path(gguf));
    snprintf(name, sizeof name, "%s.inp", gguf);
    char *inp = read_data(name, &n_inp);
    snprintf(name, sizeof name, "%s.out", gguf);
    char *out = read_data(name, &n_out);
    const char *text = inp, *line = out;
    for (bool more = true; more; count++) {
        const char *end = strstr(text, mark);
        size_t n = end ? (size_t)(end - text) : strlen(text);
        size_t n_ids = read_numbers(&line, ids, COUNT(ids));
        check_ids(t, text, n, 0, ids, n_ids);
        more = end;
        if (end) text = end + strlen(mark);
    }
    hsc__free(inp);
    hsc__free(out);
    hsc_tokenizer_free(t);
    return count;
}

static void test_llama_cpp_vectors(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2",        "starcoder",      "refact",    "falcon", "mpt",
                                        "deepseek-llm", "deepseek-coder", "llama-spm", "phi-3"};
    int most = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        int count = check_llama_cpp(names[i]);
        if (!count) print_message("no vocabulary %s here\n", names[i]);
        if (count > most) most = count;
    }
    assert_int_equal(most, 47);
}

/* Lines "text => id,id,id". */
static void check_prompts(const char *prompts, const char *vocabulary)
{
    hsc_token ids[500];
    size_t n;
    int count = 0;
    hsc_tokenizer *t = open_path(data_path(vocabulary));
    char *text = read_data(prompts, &n);
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n'), *arrow = NULL;
        if (!end) end = line + strlen(line);
        for (const char *at = line; (at = strstr(at, " => ")) && at < end; at++) arrow = at;
        if (arrow) {
            const char *numbers = arrow + 4;
            size_t n_ids = read_numbers(&numbers, ids, COUNT(ids));
            check_ids(t, line, (size_t)(arrow - line), 0, ids, n_ids);
            count++;
        }
        line = *end ? end + 1 : end;
    }
    assert_int_equal(count, 100);
    hsc__free(text);
    hsc_tokenizer_free(t);
}

static void test_ggml_prompts(void **state)
{
    (void)state;
    check_prompts("tokenizer_vectors/ggml-prompts/gpt-2.txt", "tokenizers/gpt2");
    check_prompts("tokenizer_vectors/ggml-prompts/gpt-neox.txt", "tokenizers/llamacpp-vocab/ggml-vocab-gpt-neox.gguf");
    check_prompts("tokenizer_vectors/ggml-prompts/starcoder.txt", "tokenizers/llamacpp-vocab/ggml-vocab-refact.gguf");
}

static void test_a_long_text(void **state)
{
    (void)state;
    hsc_error err = {0};
    json_t *json;
    if (hsc__json_load(&json, data_path("tokenizer_vectors/gpt2/gpt2_encoded_tokens.json"), 1 << 20, &err) != HSC_OK)
        fail_msg("%s", err.message);
    const json_t *text = json_object_get(json, "text"), *list = json_object_get(json, "token_ids");
    hsc_token ids[300];
    size_t n = json_array_size(list);
    assert_true(n > 200 && n < COUNT(ids));
    for (size_t i = 0; i < n; i++) ids[i] = (hsc_token)json_integer_value(json_array_get(list, i));
    hsc_tokenizer *t = open_path(data_path("tokenizers/gpt2"));
    check_ids(t, json_string_value(text), json_string_length(text), 0, ids, n);
    hsc_tokenizer_free(t);
    json_decref(json);
}

static void test_round_trip_of_texts(void **state)
{
    (void)state;
    static const char *const files[] = {"text/tinyshakespeare.txt", "text/novels/Doyle_Hound_1902.txt",
                                        "tokenizer_vectors/cs336/german.txt", "tokenizer_vectors/cs336/corpus.en",
                                        "tokenizer_vectors/ggml-prompts/test-cases.txt"};
    static const char *const vocabularies[] = {"tokenizers/gpt2", "tokenizers/llamacpp-vocab/ggml-vocab-refact.gguf",
                                               "tokenizers/llamacpp-vocab/ggml-vocab-deepseek-coder.gguf"};
    for (size_t v = 0; v < COUNT(vocabularies); v++) {
        hsc_tokenizer *t = open_path(data_path(vocabularies[v]));
        for (size_t i = v ? 1 : 0; i < COUNT(files); i++) { /* the longest with one vocabulary only */
            size_t n;
            char *text = read_data(files[i], &n);
            check_round_trip(t, text, n);
            hsc__free(text);
        }
        hsc_tokenizer_free(t);
    }
}

/* The words of a long text, each encoded alone, are its tokens: the cache of words changes nothing. */
static void test_the_cache_changes_nothing(void **state)
{
    (void)state;
    hsc_tokenizer *t = open_path(data_path("tokenizers/gpt2"));
    hsc_encoding all = {0}, one = {0};
    size_t n, at = 0;
    char *text = read_data("text/novels/Doyle_Hound_1902.txt", &n);
    assert_int_equal(hsc_encode(t, text, n, 0, &all, NULL), HSC_OK);
    for (size_t start = 0; start < n;) {
        size_t end = hsc__scan_gpt2(text, n, start);
        assert_int_equal(hsc_encode(t, text + start, end - start, 0, &one, NULL), HSC_OK);
        for (size_t i = 0; i < one.n; i++, at++) {
            assert_int_equal(all.ids[at], one.ids[i]);
            assert_int_equal(all.spans[at].start, start + one.spans[i].start);
            assert_int_equal(all.spans[at].end, start + one.spans[i].end);
        }
        start = end;
    }
    assert_int_equal(at, all.n);
    hsc_encoding_free(&all);
    hsc_encoding_free(&one);
    hsc__free(text);
    hsc_tokenizer_free(t);
}

typedef struct job {
    const hsc_tokenizer *tokenizer;
    const char *text;
    size_t n;
    hsc_encoding out;
    hsc_status status;
} job;

static void *run_job(void *argument)
{
    job *j = argument;
    j->status = hsc_encode(j->tokenizer, j->text, j->n, HSC_ENCODE_PARSE_SPECIAL, &j->out, NULL);
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { N = 4 };
    static const char *const vocabularies[] = {
        "tokenizers/gpt2", "tokenizers/llamacpp-vocab/ggml-vocab-deepseek-coder.gguf", "models/tinystories-656k"};
    size_t n;
    char *text = read_data("tokenizer_vectors/cs336/corpus.en", &n);
    for (size_t v = 0; v < COUNT(vocabularies); v++) {
        hsc_tokenizer *t = open_path(data_path(vocabularies[v]));
        job alone = {.tokenizer = t, .text = text, .n = n}, jobs[N];
        pthread_t threads[N];
        run_job(&alone);
        for (int i = 0; i < N; i++) {
            jobs[i] = (job){.tokenizer = t, .text = text, .n = n};
            assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
        }
        for (int i = 0; i < N; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(jobs[i].status, HSC_OK);
            assert_int_equal(jobs[i].out.n, alone.out.n);
            assert_memory_equal(jobs[i].out.ids, alone.out.ids, alone.out.n * sizeof *alone.out.ids);
            hsc_encoding_free(&jobs[i].out);
        }
        hsc_encoding_free(&alone.out);
        hsc_tokenizer_free(t);
    }
    hsc__free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_cpp_vectors),
        cmocka_unit_test(test_ggml_prompts),
        cmocka_unit_test(test_a_long_text),
        cmocka_unit_test(test_round_trip_of_texts),
        cmocka_unit_test(test_the_cache_changes_nothing),
        cmocka_unit_test(test_threads_share_a_tokenizer),
    };
    if (!has_data()) {
        puts("skipped: no test data at HEADSCOPE_TEST_DATA");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
