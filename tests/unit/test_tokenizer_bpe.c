/* The merging itself: short words, long words and a plain reading of the definition agree on random merges; the cases
 * of merge lists; growth on one huge word. No test data needed. */
#include "test_tokenizer_support.h"

#include "tokenizer/word_cache.h"

#include <time.h>

/* ---- the definition: the pair of least rank, leftmost first, until none is left ---- */

typedef struct model {
    hsc__vocab vocab;
    hsc__bpe bpe;
    float scores[512];
    struct {
        hsc__bytes left, right;
    } merge[400];
    size_t n_merges;
    hsc__arena arena;
} model;

static hsc__bytes join(model *m, hsc__bytes left, hsc__bytes right)
{
    char *text = hsc__arena_alloc(&m->arena, left.n + right.n);
    memcpy(text, left.data, left.n);
    memcpy(text + left.n, right.data, right.n);
    return (hsc__bytes){text, left.n + right.n};
}

/* Letters a, b, c and random merges of what exists. */
static model *random_model(size_t n_merges)
{
    model *m = calloc(1, sizeof *m);
    hsc_token existing;
    m->bpe.vocab = &m->vocab;
    m->bpe.unk = -1;
    m->bpe.byte_level = true;
    for (int b = 0; b < 256; b++) m->bpe.byte_id[b] = b >= 'a' && b <= 'c' ? b - 'a' : -1;
    for (hsc_token id = 0; id < 3; id++)
        assert_int_equal(hsc__vocab_set(&m->vocab, id, (hsc__bytes){"abc" + id, 1}, HSC__TOKEN_NORMAL, &existing, NULL),
                         0);
    while (m->n_merges < n_merges) {
        hsc__bytes left = m->vocab.text[random_below((uint32_t)m->vocab.n)];
        hsc__bytes right = m->vocab.text[random_below((uint32_t)m->vocab.n)];
        if (left.n + right.n > 40) continue;
        bool known = false;
        for (size_t i = 0; i < m->n_merges; i++)
            known = known || (m->merge[i].left.data == left.data && m->merge[i].right.data == right.data);
        if (known) continue;
        hsc_token id = (hsc_token)m->vocab.n;
        hsc__bytes both = join(m, left, right);
        if (hsc__vocab_find(&m->vocab, both.data, both.n) < 0)
            assert_int_equal(hsc__vocab_set(&m->vocab, id, both, HSC__TOKEN_NORMAL, &existing, NULL), 0);
        m->merge[m->n_merges].left = left;
        m->merge[m->n_merges].right = right;
        assert_int_equal(hsc__bpe_add(&m->bpe, (uint32_t)m->n_merges++, left, right, "merges", NULL), HSC_OK);
    }
    assert_int_equal(hsc__bpe_finish(&m->bpe, NULL), HSC_OK);
    return m;
}

static void free_model(model *m)
{
    hsc__bpe_free(&m->bpe);
    hsc__vocab_free(&m->vocab);
    hsc__arena_free(&m->arena);
    free(m);
}

static long rank_of(const model *m, hsc__bytes left, hsc__bytes right)
{
    for (size_t i = 0; i < m->n_merges; i++) {
        hsc__bytes l = m->merge[i].left, r = m->merge[i].right;
        if (l.n == left.n && r.n == right.n && !memcmp(l.data, left.data, l.n) && !memcmp(r.data, right.data, r.n))
            return (long)i;
    }
    return -1;
}

/* By rank of the merges, or by the score of the joined text (highest first). */
static size_t merge_by_definition(const model *m, const char *word, size_t n, size_t *ends)
{
    for (size_t i = 0; i < n; i++) ends[i] = i + 1;
    for (;;) {
        size_t best = n;
        double best_rank = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t start = i ? ends[i - 1] : 0;
            double rank;
            if (m->bpe.scores) {
                hsc_token id = hsc__vocab_find(&m->vocab, word + start, ends[i + 1] - start);
                if (id < 0) continue;
                rank = -(double)m->scores[id];
            } else {
                hsc__bytes left = {word + start, ends[i] - start}, right = {word + ends[i], ends[i + 1] - ends[i]};
                if (rank_of(m, left, right) < 0) continue;
                rank = (double)rank_of(m, left, right);
            }
            if (best == n || rank < best_rank) best = i, best_rank = rank;
        }
        if (best == n) return n;
        n--;
        for (size_t i = best; i < n; i++) ends[i] = ends[i + 1];
    }
}

static void check_word(const model *m, hsc__word *scratch, const char *word, size_t n)
{
    size_t ends[128], count = merge_by_definition(m, word, n, ends);
    assert_int_equal(hsc__bpe_encode(&m->bpe, scratch, word, n, NULL), HSC_OK);
    assert_int_equal(scratch->n, count);
    for (size_t i = 0; i < count; i++) {
        size_t start = i ? ends[i - 1] : 0;
        hsc__bytes text = m->vocab.text[scratch->ids[i]];
        assert_int_equal(scratch->ends[i], ends[i]);
        assert_int_equal(text.n, ends[i] - start);
        assert_memory_equal(text.data, word + start, text.n);
    }
}

/* Words of 1 to 100 symbols go through both ways of merging. */
static void test_merging_is_the_definition(void **state)
{
    (void)state;
    hsc__word scratch = {0};
    for (int round = 0; round < 60; round++) {
        model *m = random_model(1 + random_below(60));
        if (round % 2) {
            m->bpe.scores = m->scores;
            m->bpe.byte_level = false;
            for (size_t i = 0; i < m->vocab.n; i++) m->scores[i] = (float)random_below(20) - 10.5f; /* ties are many */
        }
        for (int k = 0; k < 60; k++) {
            char word[100];
            size_t n = 1 + random_below(100);
            for (size_t i = 0; i < n; i++) word[i] = (char)('a' + random_below(3));
            check_word(m, &scratch, word, n);
        }
        free_model(m);
    }
    hsc__word_free(&scratch);
}

/* ---- merge lists ---- */

#define BPE(vocab, merges, more) "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges more "}}"
#define ABC "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"

static void check_text(const char *json, const char *text, hsc_token first, hsc_token second, hsc_token third)
{
    hsc_token ids[3] = {first, second, third};
    hsc_tokenizer *t = open_text(json);
    check_ids(t, text, strlen(text), 0, ids, (size_t)(first >= 0) + (second >= 0) + (third >= 0));
    hsc_tokenizer_free(t);
}

static void test_both_spellings_of_merges(void **state)
{
    (void)state;
    check_text(BPE(ABC, "[\"a b\",\"ab c\"]", ""), "abc", 4, -1, -1);
    check_text(BPE(ABC, "[[\"a\",\"b\"],[\"ab\",\"c\"]]", ""), "abc", 4, -1, -1);
    check_text(BPE(ABC, "[\"a b\", [ \"ab\" , \"c\" ] ]", ""), "abc", 4, -1, -1);
    check_text(BPE(ABC, "[\"a b\"]", ",\"ignore_merges\":true"), "abc", 4, -1, -1);
    check_text(BPE(ABC, "[\"a b\"]", ",\"ignore_merges\":false"), "abc", 3, 2, -1);
    check_text(BPE("{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4}", "[\"b c\",\"a b\"]", ""), "abc", 0, 4, -1);
    check_text(BPE("{\"a\":0,\"aa\":1}", "[\"a a\"]", ""), "aaaaa", 1, 1, 0);
    check_text(BPE("{\"\\ud83d\\ude42\":7}", "[]", ""), "\xf0\x9f\x99\x82", 7, -1, -1);
    check_text(BPE("{\"\\u00e9\":1,\"\\n\\\"\":2,\"\\n\":3,\"\\\"\":4}", "[[\"\\n\",\"\\\"\"]]", ""), "\xc3\xa9\n\"", 1,
               2, -1);
}

static void test_merge_lists_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *part;
    } cases[] = {
        {BPE("{\"\\ud83d\":0}", "[]", ""), "surrogate"},
        {BPE("{\"\\ude42\":0}", "[]", ""), "surrogate"},
        {BPE("{\"\\ud83dx\":0}", "[]", ""), "surrogate"},
        {BPE("{\"\\ud83d\\u0041\":0}", "[]", ""), "surrogate"},
        {BPE("{\"\\q\":0}", "[]", ""), "escape"},
        {BPE("{\"\\u12g4\":0}", "[]", ""), "escape"},
        {BPE("{\"\xff\":0}", "[]", ""), "UTF-8"},
        {BPE("{\"a\x01\":0}", "[]", ""), "control"},
        {BPE("{\"\\n\x01\":0}", "[]", ""), "control"},
        {BPE(ABC, "[5]", ""), "a merge must be"},
        {BPE(ABC, "[\"ab\"]", ""), "one blank"},
        {BPE(ABC, "[\"a b c\"]", ""), "one blank"},
        {BPE(ABC, "[\" b\"]", ""), "one blank"},
        {BPE(ABC, "[\"a \"]", ""), "one blank"},
        {BPE(ABC, "[[\"a\"]]", ""), "','"},
        {BPE(ABC, "[[\"a\",\"b\",\"c\"]]", ""), "']'"},
        {BPE(ABC, "[\"a x\"]", ""), "right part"},
        {BPE(ABC, "[\"x a\"]", ""), "left part"},
        {BPE(ABC, "[\"b c\"]", ""), "result"},
        {BPE(ABC, "\"a b\"", ""), "\"merges\" must be an array"},
        {BPE("[\"a\"]", "[]", ""), "\"vocab\" must be an object"},
        {BPE("{\"a\":0,\"b\":0}", "[]", ""), "id given twice"},
        {BPE("{\"a\":0,\"a\":1}", "[]", ""), "token given twice"},
        {BPE("{\"a\":-1}", "[]", ""), "an id from 0"},
        {BPE("{\"a\":1.5}", "[]", ""), "an id from 0"},
        {BPE("{\"a\":\"0\"}", "[]", ""), "an id from 0"},
        {BPE("{\"a\":16777216}", "[]", ""), "an id from 0"},
        {BPE("{\"a\":99999999999999999999}", "[]", ""), "an id from 0"},
        {BPE("{\"a\":16000000}", "[]", ""), "far beyond"},
        {BPE("{\"a\":0,}", "[]", ""), "expected"},
        {BPE("{\"a\" 0}", "[]", ""), "expected"},
        {BPE("{\"a\":0} x", "[]", ""), "JSON"},
        {BPE(ABC, "[]", ",\"merges\":[]"), "JSON"},
        {BPE(ABC, "[]", ",\"dropout\":0.1"), "dropout"},
        {BPE(ABC, "[]", ",\"continuing_subword_prefix\":\"\xc3\xa9\""), "continuing_subword_prefix"},
        {BPE(ABC, "[]", ",\"end_of_word_suffix\":\"-----------------------------------\""), "at most 32 bytes"},
        {BPE(ABC, "[]", ",\"end_of_word_suffix\":\"</w>\",\"byte_fallback\":true"), "\"byte_fallback\""},
        {BPE("{\"a\":0,\"##b\":1,\"a##b\":2}", "[\"a ##b\"]", ",\"continuing_subword_prefix\":\"##\""), "result"},
        {BPE(ABC, "[]", ",\"unk_token\":\"<unk>\""), "unk_token"},
        {BPE(ABC, "[]", ",\"fuse_unk\":1"), "fuse_unk"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "\"merges\" must be an array"},
        {"{\"model\":{\"type\":\"WordOdd\",\"vocab\":{\"a\":0}}}", "model \"WordOdd\""},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", "(no type)"},
        {"{\"model\":[]}", "no \"model\""},
        {"{}", "no \"model\""},
        {"[]", "no \"model\""},
        {"", "is empty"},
        {"{\"model\":{\"vocab\":{\"a\":0", "not valid JSON"},
        {"{\"model\":{\"vocab\":{", "not valid JSON"},
        {"{\"model\":{\"merges\":[", "not valid JSON"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "LFS"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc_tokenizer *t;
        hsc_error err = {0};
        hsc_status status = parse_text(&t, cases[i].json, &err);
        if (status != HSC_EFORMAT && status != HSC_EUNSUPPORTED) fail_msg("%s: status %d", cases[i].json, status);
        if (!strstr(err.message, cases[i].part)) fail_msg("%s: %s", cases[i].json, err.message);
        if (!strstr(err.message, "test.json")) fail_msg("%s: %s", cases[i].json, err.message);
        assert_null(t);
    }
}

/* ---- the cache of words ---- */

/* One line, for which all words compete: it is the word's only when it is that very word. */
static void test_a_line_of_the_cache(void **state)
{
    (void)state;
    static const char text[] = "\0\0\0abcdefghijklmnopqrstuvwxyz";
    hsc__cached_word line = {.n_bytes = 0};
    hsc__word_cache cache = {&line, 1};
    size_t n = sizeof text - 1;
    for (size_t start = 0; start < 6; start++)
        for (size_t end = start + 1; end <= n; end++) {
            hsc__cached_word *got = hsc__word_cache_slot(&cache, text, n, start, end);
            if (end - start > HSC__CACHED_BYTES) {
                assert_null(got);
                continue;
            }
            assert_int_equal(got->n, 0);
            hsc__word_cache_fill(got, (const hsc_token[]){(hsc_token)(start * 100 + end)}, (const uint32_t[]){1}, 1);
            got = hsc__word_cache_slot(&cache, text, n, start, end);
            assert_int_equal(got->n, 1);
            assert_int_equal(got->ids[0], start * 100 + end);
        }
    hsc_token many[HSC__CACHED_TOKENS + 1] = {0};
    uint32_t ends[HSC__CACHED_TOKENS + 1] = {0};
    hsc__cached_word *got = hsc__word_cache_slot(&cache, text, n, 3, 6);
    hsc__word_cache_fill(got, many, ends, HSC__CACHED_TOKENS + 1); /* too many tokens are not kept */
    assert_int_equal(hsc__word_cache_slot(&cache, text, n, 3, 6)->n, 0);
}

/* ---- growth ---- */

static double seconds_for(const hsc_tokenizer *t, const char *text, size_t n)
{
    double best = 1e9;
    hsc_encoding out = {0};
    for (int i = 0; i < 3; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        assert_int_equal(hsc_encode(t, text, n, 0, &out, NULL), HSC_OK);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (s < best) best = s;
    }
    hsc_encoding_free(&out);
    return best;
}

/* Eight times the word may take some sixteen times as long (n log n, and caches run out), not sixty-four times. */
static void test_one_huge_word(void **state)
{
    (void)state;
    enum { SMALL = 60000, LARGE = 8 * SMALL };
    hsc__string json = {0};
    hsc__string_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1");
    for (int i = 1, n = 2; n <= 64; i++, n *= 2) {
        hsc__string_printf(&json, ",\"%.*s\":%d", n, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                           i + 1);
    }
    hsc__string_text(&json, ",\"ab\":90,\"abb\":91},\"merges\":[\"a b\",\"ab b\"");
    for (int n = 1; n <= 32; n *= 2) {
        const char *run = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        hsc__string_printf(&json, ",\"%.*s %.*s\"", n, run, n, run);
    }
    hsc__string_text(&json, "]}}");
    hsc_tokenizer *t = open_text(json.data);
    char *text = malloc(LARGE);
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < LARGE; i++) text[i] = (char)(kind ? 'a' + random_below(2) : 'a');
        double small = seconds_for(t, text, SMALL), large = seconds_for(t, text, LARGE);
        if (large > 32 * small) fail_msg("%d bytes take %.4f s, %d bytes %.4f s", SMALL, small, LARGE, large);
    }
    free(text);
    hsc__string_free(&json);
    hsc_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merging_is_the_definition),
        cmocka_unit_test(test_both_spellings_of_merges),
        cmocka_unit_test(test_merge_lists_that_are_refused),
        cmocka_unit_test(test_a_line_of_the_cache),
        cmocka_unit_test(test_one_huge_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
