/*
 * Readers of sentence pairs: marks and their spans, turned answers, literals, the JSONL kinds on lines made here, twins
 * that do not fit, clusters, and the counts of the project's own data where they are present.
 */
#include "failing_alloc.h"
#include "headscope/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hsc_pairs *parse(const char *text)
{
    hsc_pairs *pairs;
    hsc_error err = {0};
    if (hsc_pairs_parse(&pairs, "f", text, strlen(text), NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return pairs;
}

static void assert_refused(const char *text, const char *cluster_field, const char *says)
{
    hsc_pairs *pairs;
    hsc_error err = {0};
    assert_int_equal(hsc_pairs_parse(&pairs, "f", text, strlen(text), cluster_field, &err), HSC_EFORMAT);
    assert_null(pairs);
    if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
}

static void assert_span(const hsc_wording *w, hsc_span span, const char *text)
{
    assert_int_equal(span.end - span.start, strlen(text));
    assert_memory_equal(w->text + span.start, text, strlen(text));
}

static void test_marked(void **unused)
{
    (void)unused;
    hsc_pairs *pairs =
        parse("# a comment\n\nThe [a:animal] didn't cross the [b:street] because [q:it] was {tired|wide}.\n"
              "{The|A} [b:\\[x\\]] \\{ and\\! [a:two words] end\r\n"
              "[a:one] [b:two] [q:q {left|right}!!]");
    assert_int_equal(hsc_pairs_count(pairs), 3);
    const hsc_pair *p = hsc_pairs_get(pairs, 0);
    assert_string_equal(p->id, "000003");
    assert_string_equal(p->cluster, "000003");
    assert_string_equal(p->wording[0].text, "The animal didn't cross the street because it was tired.");
    assert_string_equal(p->wording[1].text, "The animal didn't cross the street because it was wide.");
    assert_int_equal(p->wording[1].n_text, strlen(p->wording[1].text));
    assert_int_equal(p->wording[0].line, 3);
    for (int i = 0; i < 2; i++) {
        assert_span(&p->wording[i], p->wording[i].a, "animal");
        assert_span(&p->wording[i], p->wording[i].b, "street");
        assert_span(&p->wording[i], p->wording[i].query, "it");
        assert_span(&p->wording[i], p->wording[i].swap, i ? "wide" : "tired");
    }
    p = hsc_pairs_get(pairs, 1);
    assert_string_equal(p->wording[1].text, "A [x] { and! two words end");
    assert_span(&p->wording[1], p->wording[1].b, "[x]");
    assert_span(&p->wording[1], p->wording[1].query, "A"); /* no [q:..]: the swapped word */
    assert_int_equal(p->number, 1);
    p = hsc_pairs_get(pairs, 2);
    assert_string_equal(p->wording[0].text, "one two q right!"); /* turned */
    assert_span(&p->wording[0], p->wording[0].query, "q right!");
    assert_span(&p->wording[0], p->wording[0].swap, "right");
    assert_null(hsc_pairs_get(pairs, 3));
    assert_null(hsc_pairs_get(pairs, -1));
    assert_null(hsc_pairs_skipped(pairs, 0));
    hsc_pairs_free(pairs);
}

static void test_marked_skipped(void **unused)
{
    (void)unused;
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"[a:x] [b:y] [q:z] {u|v}", NULL},
        {"[a:x] [q:z] {u|v}", "exactly one [a:..]"},
        {"[a:x] [b:y] [b:y] {u|v}", "exactly one [a:..]"},
        {"[a:x] [b:y] u", "exactly one {x|y}"},
        {"[a:x] [b:y] {u|v} {u|v}", "exactly one {x|y}"},
        {"[a:x] [b:y] [q:r] [q:s] {u|v}", "more than one [q:..]"},
        {"[a:x [b:y]] {u|v}", "inside another"},
        {"[a:x] [c:y] {u|v}", "no mark"},
        {"[a:x] [b:y {u|v}", "not closed"},
        {"[a:x] [b:y] {u|v", "not closed"},
        {"[a:x] [b:y] {uv}", "closes no"},
        {"[a:x] [b:y] u|v", "no {x|y} wants it"},
        {"[a:x] [b:y] u] {u|v}", "closes nothing"},
        {"[a:x] [b:] {u|v}", "empty"},
        {"[a:x] [b:y] {u|u}", "the same"},
        {"[a:x] [b:y] {|v}", "the query is empty"},
        {"[a:x\xff] [b:y] {u|v}", "UTF-8"},
    };
    char text[2048];
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", cases[i].line);
    hsc_pairs *pairs = parse(text);
    assert_int_equal(hsc_pairs_count(pairs), 1);
    for (int i = 1; i < (int)(sizeof cases / sizeof *cases); i++) {
        const hsc_skipped *s = hsc_pairs_skipped(pairs, i - 1);
        assert_non_null(s);
        assert_int_equal(s->line, i + 1);
        if (!strstr(s->why, cases[i].why)) fail_msg("line %d: '%s' does not say '%s'", s->line, s->why, cases[i].why);
    }
    hsc_pairs_free(pairs);
    assert_refused("# nothing\n", NULL, "no sentence pairs");
    assert_refused("", NULL, "no sentence pairs");
    assert_refused("plain text\n", NULL, "line 1");
    assert_refused("[a:x] [b:y] {u|v}\n", "topic", "marked text has no fields");
}

#define CANDS "\"cands\": [{\"span\": [0, 3]}, {\"span\": [8, 11]}], "
#define TWIN(id, twin, answer, text, more)                                                                             \
    "{\"id\": \"" id "\", \"twin\": \"" twin "\", \"answer\": " #answer ", " CANDS "\"text\": \"" text "\"" more "}\n"

static void test_twins(void **unused)
{
    (void)unused;
    hsc_pairs *pairs =
        parse(TWIN("w-2", "w-1", 1, "The and the dog: it was wide.", ", \"pronoun_span\": [17, 19]")
                  TWIN("w-1", "w-2", 0, "The and the dog: it was very tired.", ", \"pronoun_span\": [17, 19]"));
    assert_int_equal(hsc_pairs_count(pairs), 1);
    const hsc_pair *p = hsc_pairs_get(pairs, 0);
    assert_string_equal(p->id, "w-2"); /* the line that stands first names the pair */
    assert_string_equal(p->wording[0].text, "The and the dog: it was very tired."); /* the answer is a */
    assert_span(&p->wording[0], p->wording[0].query, "it");
    assert_span(&p->wording[0], p->wording[0].swap, "very tired"); /* in whole words, without the full stop */
    assert_span(&p->wording[1], p->wording[1].swap, "wide");
    assert_int_equal(p->wording[0].line, 2);
    hsc_pairs_free(pairs);
}

static void test_twins_skipped(void **unused)
{
    (void)unused;
#define SPAN ", \"pronoun_span\": [17, 19]"
    static const char text[] = TWIN("a", "b", 0, "The and the dog: it was wide.",
                                    SPAN) TWIN("b", "a", 1, "The and the dog: it was tired.", SPAN)
        TWIN("c", "none", 0, "The and the dog: it was wide.", SPAN) TWIN("d", "a", 1, "The and the dog: it was.", SPAN)
            TWIN("e", "f", 0, "The and the dog: it was wide.", SPAN) TWIN("f", "e", 0, "The and the dog: it is.", SPAN)
                TWIN("g", "h", 0, "The and the dog: it was wide.", ", \"pronoun_span\": null")
                    TWIN("h", "g", 1, "The and the dog: it is.", SPAN) TWIN("i", "j", 0, "The and the dog", SPAN)
                        TWIN("j", "i", 1, "The and", SPAN) TWIN("k", "l", 0, "The and the dog: it is.", SPAN)
                            TWIN("l", "k", 1, "The and the dog: it is.", SPAN) "{\"id\": \"m\"}\n";
    static const struct {
        int line;
        const char *why;
    } wanted[] = {{3, "'none' is not in the file"},
                  {4, "not a twin"},
                  {5, "one answer each"},
                  {7, "pronoun_span"},
                  {9, "pronoun_span"},
                  {11, "the same text"},
                  {13, "\"twin\" is missing"}};
    hsc_pairs *pairs = parse(text);
    assert_int_equal(hsc_pairs_count(pairs), 1);
    for (int i = 0; i < (int)(sizeof wanted / sizeof *wanted); i++) {
        const hsc_skipped *s = hsc_pairs_skipped(pairs, i);
        assert_non_null(s);
        if (s->line != wanted[i].line || !strstr(s->why, wanted[i].why)) fail_msg("line %d: %s", s->line, s->why);
    }
    assert_null(hsc_pairs_skipped(pairs, sizeof wanted / sizeof *wanted));
    hsc_pairs_free(pairs);
}

/* U+00C9 stands in bytes 4 and 5; spans that count characters fall into the middle of it. */
static void test_cut_character(void **unused)
{
    (void)unused;
    assert_refused(TWIN("a", "b", 0, "The \xc3\x89 and the dog: it was", ", \"pronoun_span\": [5, 7]")
                       TWIN("b", "a", 1, "The \xc3\x89 and the dog: it is", ", \"pronoun_span\": [5, 7]"),
                   NULL, "cuts a character");
    assert_refused(TWIN("a", "b", 0, "The \xc3\x89 and the dog: it was", ", \"pronoun_span\": [0, 5]")
                       TWIN("b", "a", 1, "The \xc3\x89 and the dog: it is", ", \"pronoun_span\": [0, 5]"),
                   NULL, "cuts a character");
}

static void test_byte_order_mark(void **unused)
{
    (void)unused;
    hsc_pairs *pairs = parse("\xef\xbb\xbf[a:x] [b:y] {u|v}\n");
    assert_string_equal(hsc_pairs_get(pairs, 0)->wording[0].text, "x y u");
    hsc_pairs_free(pairs);
    assert_refused("\xef\xbb\xbf{\"id\": \"a\"}\n", NULL, "line 1: \"twin\" is missing");
    assert_refused("\xef\xbb\xbf", NULL, "no sentence pairs");
}

static void test_zero_byte(void **unused)
{
    (void)unused;
    hsc_pairs *pairs;
    hsc_error err = {0};
    static const char text[] = "[a:x] \0 [b:y] {u|v}\n";
    assert_int_equal(hsc_pairs_parse(&pairs, "f", text, sizeof text - 1, NULL, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "zero byte"));
}

static void test_jsonl_refused(void **unused)
{
    (void)unused;
    assert_refused("{\"id\": \"a\"}\n{\"id\": \"a\"}\n", NULL, "lines 1 and 2 have the same id");
    assert_refused("{\"id\": \"a\"}\n{\"id\": }\n", NULL, "f: line 2: not valid JSON");
    assert_refused("{\"is\": \"a\"}\n", NULL, "no \"id\"");
    assert_refused("{\"id\": 7}\n", NULL, "no \"id\" that is a text");
    assert_refused("{ \"id\": \"a\" } \n", NULL, "line 1: \"twin\" is missing"); /* however it is spaced */
    assert_refused("{\"id\": \"a\"}\n", NULL, "line 1: \"twin\" is missing");
    assert_refused(TWIN("a", "b", 0, "The and the dog: it was wide.", SPAN)
                       TWIN("b", "a", 1, "The and the dog: it was tired.", SPAN),
                   "topic", "\"topic\", which is to make clusters, is absent");
}

static void test_cluster_field(void **unused)
{
    (void)unused;
    static const char text[] = TWIN("a", "b", 0, "The and the dog: it was wide.", SPAN ", \"n\": 7")
        TWIN("b", "a", 1, "The and the dog: it was tired.", SPAN ", \"n\": 7");
    hsc_pairs *pairs;
    assert_int_equal(hsc_pairs_parse(&pairs, "f", text, sizeof text - 1, "n", NULL), HSC_OK);
    assert_string_equal(hsc_pairs_get(pairs, 0)->cluster, "7");
    hsc_pairs_free(pairs);
}

/* Twins of winogender whose ids have no number are a cluster by themselves. */
static void test_winogender_clusters(void **unused)
{
    (void)unused;
#define WINO SPAN ", \"set\": \"winogender\""
    static const char text[] = TWIN("w-7-p", "w-3-p", 0, "The and the dog: it was wide.", WINO)
        TWIN("w-3-p", "w-7-p", 1, "The and the dog: it was tired.", WINO)
            TWIN("plain", "other", 0, "The and the dog: it was wide.", WINO)
                TWIN("other", "plain", 1, "The and the dog: it was tired.", WINO);
    hsc_pairs *pairs = parse(text);
    assert_int_equal(hsc_pairs_count(pairs), 2);
    assert_string_equal(hsc_pairs_get(pairs, 0)->cluster, "plain");
    assert_string_equal(hsc_pairs_get(pairs, 1)->cluster, "000003");
    hsc_pairs_free(pairs);
}

/* T = 6: j = 2, k = 4, and the token at T + j = 8 is the query. */
static void test_repeated_ids(void **unused)
{
    (void)unused;
    hsc_pairs *pairs =
        parse("{\"id\": \"r\", \"T\": 6, \"ids\": [9, 11, 12, 13, 14, 15, 16, 11, 12, 13, 14, 15, 16]}\n"
              "{\"id\": \"s\", \"T\": 6, \"ids\": [9, 11, 12, 13, 14, 12, 16, 11, 12, 13, 14, 12, 16]}\n"
              "{\"id\": \"t\", \"T\": 6, \"ids\": [9, 11, 12, 13, 14, 15, 16, 11, 12, 13, 14, 15, 17]}\n"
              "{\"id\": \"u\", \"T\": 7, \"ids\": [9, 11, 12, 13, 14, 15, 16, 11, 12, 13, 14, 15, 16]}\n");
    assert_int_equal(hsc_pairs_count(pairs), 1);
    const hsc_wording *w = hsc_pairs_get(pairs, 0)->wording;
    assert_null(w[0].text);
    assert_int_equal(w[0].n_ids, 13);
    assert_int_equal(w[0].ids[8], 12);
    assert_int_equal(w[1].ids[8], 14);
    assert_int_equal(w[0].query.start, 8);
    assert_int_equal(w[0].a.start, 3); /* after the 12 of the first half */
    assert_int_equal(w[0].b.start, 5); /* after its 14 */
    assert_int_equal(hsc_pairs_skipped(pairs, 2)->line, 4);
    hsc_pairs_free(pairs);
}

/* The project's files: how many pairs and clusters they hold. */
static void count_file(const char *name, int n_pairs, int n_clusters)
{
    const char *folder = getenv("HEADSCOPE_TEST_DATA");
    char path[512];
    static char bytes[1 << 20];
    snprintf(path, sizeof path, "%s/pairs/%s", folder ? folder : "", name);
    FILE *f = folder ? fopen(path, "rb") : NULL;
    if (!f) {
        printf("skipped: no %s\n", path);
        return;
    }
    bytes[fread(bytes, 1, sizeof bytes - 1, f)] = '\0';
    fclose(f);
    hsc_pairs *pairs = parse(bytes);
    assert_int_equal(hsc_pairs_count(pairs), n_pairs);
    int n = 0;
    for (int i = 0; i < n_pairs; i++) {
        int first = 1;
        for (int k = 0; k < i && first; k++)
            first = strcmp(hsc_pairs_get(pairs, i)->cluster, hsc_pairs_get(pairs, k)->cluster) != 0;
        n += first;
        if (i) assert_true(strcmp(hsc_pairs_get(pairs, i - 1)->id, hsc_pairs_get(pairs, i)->id) < 0);
    }
    assert_int_equal(n, n_clusters);
    hsc_pairs_free(pairs);
}

/* A pair, a comment of `n` bytes, and a pair; at most `most` bytes at a time. */
typedef struct long_list {
    size_t n, at, most;
} long_list;

static hsc_status read_long(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    (void)err;
    static const char pair[] = "[a:x] [b:y] {u|v}\n";
    const size_t n_pair = sizeof pair - 1;
    long_list *l = user;
    for (*n_read = 0; *n_read < n && *n_read < l->most && l->at < 2 * n_pair + l->n + 1; ++*n_read, l->at++) {
        size_t behind = l->at - n_pair;
        out[*n_read] = l->at < n_pair   ? pair[l->at]
                       : behind < l->n  ? '#'
                       : behind == l->n ? '\n'
                                        : pair[behind - l->n - 1];
    }
    return HSC_OK;
}

/* A line has 64 MiB at most, however its bytes come. */
static void test_longest_line(void **unused)
{
    (void)unused;
    enum { LONGEST = 64 << 20 };
    const size_t most[] = {SIZE_MAX, 1 << 16};
    for (int i = 0; i < 2; i++) {
        hsc_pairs *pairs;
        hsc_error err = {0};
        long_list fits = {.n = LONGEST, .most = most[i]}, more = {.n = LONGEST + 1, .most = most[i]};
        assert_int_equal(hsc_pairs_read(&pairs, "f", &(hsc_reader){read_long, &fits}, NULL, &err), HSC_OK);
        assert_int_equal(hsc_pairs_count(pairs), 2);
        assert_int_equal(hsc_pairs_get(pairs, 1)->wording[0].line, 3);
        hsc_pairs_free(pairs);
        assert_int_equal(hsc_pairs_read(&pairs, "f", &(hsc_reader){read_long, &more}, NULL, &err), HSC_EFORMAT);
        assert_string_equal(err.message, "f: line 2 has more than 67108864 bytes");
    }
}

static void test_data(void **unused)
{
    (void)unused;
    count_file("own_twins.jsonl", 32, 32);
    count_file("winogender.jsonl", 357, 60);
    count_file("ioi_500_pairs.jsonl", 500, 15);
}

/* Every allocation fails in turn; nothing may be held afterwards. */
static void run_out_of_memory(const char *text)
{
    for (long k = 1;; k++) {
        failing_alloc a;
        hsc_pairs *pairs;
        failing_alloc_install(&a, k);
        hsc_status status = hsc_pairs_parse(&pairs, "f", text, strlen(text), NULL, NULL);
        hsc_pairs_free(pairs);
        assert_int_equal(a.held, 0);
        failing_alloc_remove();
        if (status == HSC_OK) break;
        assert_int_equal(status, HSC_ENOMEM);
    }
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "[a:x] [b:y] {u|v}\n[a:x] [b:y]\n",
        TWIN("a", "b", 0, "The and the dog: it was wide.", SPAN) TWIN("b", "a", 1, "The and the dog: it was.", SPAN),
        "{\"id\": \"r\", \"T\": 6, \"ids\": [9, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]}\n"};
    for (int t = 0; t < 3; t++) run_out_of_memory(texts[t]);
    /* Prompts that do not fit what is left of the list's memory, so that their copies are allocations of their own. */
    enum { BLANKS = 70000, ROOM = 2 * (BLANKS + 200) };
    char *ioi = malloc(ROOM);
    size_t n = 0;
    assert_non_null(ioi);
    for (int i = 0; i < 2; i++)
        n += (size_t)snprintf(
            ioi + n, ROOM - n,
            "{\"id\": \"%d\", \"twin\": \"%d\", \"io\": \"%s\", \"prompt\": \"Ann and Bob: %s%*s to\", "
            "\"name_spans\": [[0, 3], [8, 11]], \"s2_span\": [13, 16]}\n",
            i, 1 - i, i ? "Bob" : "Ann", i ? "Ann" : "Bob", BLANKS, "");
    run_out_of_memory(ioi);
    free(ioi);
}

/* ------------------------------------------------------------------------------------------------------ pieces ---- */

/* Gives a text in pieces of `most` bytes; at byte `fails` it cannot go on. */
typedef struct trickle {
    const char *text;
    size_t n, at, most, fails;
} trickle;

static hsc_status read_trickle(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    trickle *t = user;
    size_t left = t->n - t->at;
    if (t->at >= t->fails) {
        snprintf(err->message, sizeof err->message, "the line is cut");
        return HSC_EIO;
    }
    *n_read = left < n ? left : n;
    if (*n_read > t->most) *n_read = t->most;
    memcpy(out, t->text + t->at, *n_read);
    t->at += *n_read;
    return HSC_OK;
}

/* Pieces of any size are the file; a failure of the source is told as it is. */
static void test_pieces(void **unused)
{
    (void)unused;
    static const char text[] = "\xef\xbb\xbf# first\r\n\r\n[a:x] [b:y] {u|v}\r\n#\n\n[a:long] [b:er] {u|v}";
    for (size_t most = 1; most <= sizeof text; most++) {
        trickle t = {.text = text, .n = sizeof text - 1, .most = most, .fails = SIZE_MAX};
        hsc_pairs *pairs;
        assert_int_equal(hsc_pairs_read(&pairs, "f", &(hsc_reader){read_trickle, &t}, NULL, NULL), HSC_OK);
        assert_int_equal(hsc_pairs_count(pairs), 2);
        assert_string_equal(hsc_pairs_get(pairs, 0)->id, "000003");
        assert_string_equal(hsc_pairs_get(pairs, 0)->wording[1].text, "x y v");
        assert_string_equal(hsc_pairs_get(pairs, 1)->wording[0].text, "long er u");
        assert_int_equal(hsc_pairs_get(pairs, 1)->wording[0].line, 6);
        hsc_pairs_free(pairs);
        hsc_error err = {0};
        trickle cut = {.text = text, .n = sizeof text - 1, .most = most, .fails = 30};
        assert_int_equal(hsc_pairs_read(&pairs, "f", &(hsc_reader){read_trickle, &cut}, NULL, &err), HSC_EIO);
        assert_string_equal(err.message, "the line is cut");
        assert_null(pairs);
    }
}

static hsc_status read_zeros(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    (void)user;
    (void)err;
    memset(out, 0, n);
    *n_read = n;
    return HSC_OK;
}

static void test_endless_line(void **unused)
{
    (void)unused;
    hsc_pairs *pairs;
    hsc_error err = {0};
    assert_int_equal(hsc_pairs_read(&pairs, "f", &(hsc_reader){read_zeros, NULL}, NULL, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "f: line 1 has more than 67108864 bytes"));
}

/* Ids of marked text are line numbers of six digits: behind line 999,999 their order is not the file's any more. */
static void test_a_million_lines(void **unused)
{
    (void)unused;
    enum { N = 1000002 };
    char *text = malloc(N + 128), *at = text;
    at += snprintf(at, 32, "[a:x] [b:y] {p|q}\n");
    for (int i = 2; i < N - 3; i++) *at++ = '\n';
    for (int i = 0; i < 4; i++) at += snprintf(at, 32, "[a:x] [b:y] {u|v}\n");
    hsc_pairs *pairs;
    assert_int_equal(hsc_pairs_parse(&pairs, "f", text, (size_t)(at - text), NULL, NULL), HSC_OK);
    assert_int_equal(hsc_pairs_count(pairs), 5);
    for (int i = 1; i < 5; i++) assert_true(strcmp(hsc_pairs_get(pairs, i - 1)->id, hsc_pairs_get(pairs, i)->id) < 0);
    assert_int_equal(hsc_pairs_get(pairs, 1)->wording[0].line, 1000000);
    assert_int_equal(hsc_pairs_get(pairs, 4)->wording[0].line, 999999);
    hsc_pairs_free(pairs);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_a_million_lines),
        cmocka_unit_test(test_marked),
        cmocka_unit_test(test_marked_skipped),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_twins_skipped),
        cmocka_unit_test(test_jsonl_refused),
        cmocka_unit_test(test_cluster_field),
        cmocka_unit_test(test_cut_character),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_repeated_ids),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_winogender_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
