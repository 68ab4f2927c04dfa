/* Splitting: the hand-written splitters against PCRE2 with the same pattern, the translation of patterns, and the steps
 * and behaviors of pre-tokenizers. */
#include "test_tokenizer_support.h"
#include "tokenizer/unicode.h"

/* The pieces' ends, joined: "3,5,9". */
static void list_pieces(hsc__pieces *pieces, const hsc__splitter *splitter, const char *text, size_t n,
                        hsc__string *out)
{
    hsc_error err = {0};
    size_t start = 0, end;
    out->n = 0;
    if (hsc__pieces_begin(pieces, splitter, text, n, &err) != HSC_OK) fail_msg("%s", err.message);
    for (;;) {
        if (hsc__pieces_next(pieces, &start, &end, &err) != HSC_OK) fail_msg("%s", err.message);
        if (start == end) return;
        hsc__string_printf(out, "%zu-%zu ", start, end);
    }
}

static hsc__splitter splitter_of(const char *pattern, bool by_hand)
{
    hsc__splitter splitter = {0};
    hsc_error err = {0};
    hsc__split_step step = {.kind = HSC__SPLIT_PATTERN};
    if (by_hand) {
        step.kind = HSC__SPLIT_SCAN;
        step.scan = hsc__scan_find(pattern, strlen(pattern));
        assert_non_null(step.scan);
    } else if (hsc__pattern_compile(&step.pattern, pattern, strlen(pattern), &err) != HSC_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(hsc__splitter_add(&splitter, step, NULL), HSC_OK);
    return splitter;
}

static void test_hand_written_equals_pcre2(void **state)
{
    (void)state;
    static const char *const patterns[] = {HSC__GPT2_PATTERN, HSC__LLAMA3_PATTERN, HSC__QWEN2_PATTERN};
    hsc__pieces a = {0}, b = {0};
    hsc__string left = {0}, right = {0};
    char text[400];
    for (size_t k = 0; k < COUNT(patterns); k++) {
        hsc__splitter hand = splitter_of(patterns[k], true), oracle = splitter_of(patterns[k], false);
        for (int round = 0; round < 6000; round++) {
            size_t n = round % 3 == 2 ? random_bytes(text, random_below(40)) : random_text(text, random_below(30));
            char *exact = malloc(n ? n : 1);
            memcpy(exact, text, n);
            list_pieces(&a, &hand, exact, n, &left);
            list_pieces(&b, &oracle, exact, n, &right);
            if (left.n != right.n || (left.n && memcmp(left.data, right.data, left.n) != 0)) {
                hsc__string shown = {0};
                hsc__text_repr(&shown, text, n);
                fail_msg("pattern %zu, text %s\nby hand %s\nPCRE2   %s", k, shown.data, left.data, right.data);
            }
            free(exact);
        }
        hsc__splitter_free(&hand);
        hsc__splitter_free(&oracle);
    }
    hsc__pieces_free(&a);
    hsc__pieces_free(&b);
    hsc__string_free(&left);
    hsc__string_free(&right);
}

/* In Ruby's syntax, in which the files are written, ^ and $ stand at every line. */
static void test_anchors_stand_at_every_line(void **state)
{
    (void)state;
    hsc__splitter splitter = splitter_of("^x|x$", false);
    hsc__pieces pieces = {0};
    hsc__string out = {0};
    list_pieces(&pieces, &splitter, "xx\nxyx\n", 7, &out);
    assert_string_equal(out.data, "0-1 1-2 2-3 3-4 4-5 5-6 6-7 ");
    hsc__string_free(&out);
    hsc__pieces_free(&pieces);
    hsc__splitter_free(&splitter);
}

static void test_trailing_blanks_equal_pcre2(void **state)
{
    (void)state;
    hsc__splitter hand = {.step = {{.kind = HSC__SPLIT_SCAN, .scan = hsc__scan_trailing_blanks}}, .n_steps = 1};
    hsc__splitter oracle = splitter_of("\\s+$", false);
    hsc__pieces a = {0}, b = {0};
    hsc__string left = {0}, right = {0};
    char text[400];
    for (int round = 0; round < 4000; round++) {
        size_t n = round % 3 == 2 ? random_bytes(text, random_below(12)) : random_text(text, random_below(12));
        for (size_t i = 0; i < n; i++)
            if (text[i] == '\n') text[i] = '\t';
        list_pieces(&a, &hand, text, n, &left);
        list_pieces(&b, &oracle, text, n, &right);
        assert_int_equal(left.n, right.n);
        if (left.n) assert_memory_equal(left.data, right.data, right.n);
    }
    hsc__splitter_free(&oracle);
    hsc__pieces_free(&a);
    hsc__pieces_free(&b);
    hsc__string_free(&left);
    hsc__string_free(&right);
}

/* Every code point alone: PCRE2 with the translated class says what hsc__class_of says. */
static void test_classes_of_every_code_point(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        hsc__class class;
    } cases[] = {
        {"\\p{L}", HSC__LETTER}, {"\\p{N}", HSC__NUMBER}, {"\\s", HSC__SPACE}, {"[^\\s\\p{L}\\p{N}]", HSC__OTHER}};
    hsc__match match = {0};
    for (size_t k = 0; k < COUNT(cases); k++) {
        hsc__pattern *pattern;
        assert_int_equal(hsc__pattern_compile(&pattern, cases[k].pattern, strlen(cases[k].pattern), NULL), HSC_OK);
        for (int32_t c = 0; c < 0x110000; c++) {
            char text[4];
            size_t start, end, n = (size_t)hsc__utf8_write(c, text);
            if (c >= 0xD800 && c <= 0xDFFF) continue;
            assert_int_equal(hsc__pattern_find(pattern, &match, text, n, 0, &start, &end, NULL), HSC_OK);
            if ((start == 0) != (hsc__class_of(c) == cases[k].class))
                fail_msg("U+%04X: %s", (unsigned)c, cases[k].pattern);
        }
        hsc__pattern_free(pattern);
    }
    hsc__match_free(&match);
    /* \s is White_Space: 25 characters, U+0085 among them, U+180E and U+200B not. */
    int n_spaces = 0;
    for (int32_t c = 0; c < 0x110000; c++) n_spaces += hsc__is_space(c);
    assert_int_equal(n_spaces, 25);
    assert_true(hsc__is_space(0x85) && !hsc__is_space(0x180E) && !hsc__is_space(0x200B));
    /* Unicode 16 whatever the libraries have: Garay, Kawi and ideographs of extension I. */
    assert_int_equal(hsc__class_of(0x10D50), HSC__LETTER);
    assert_int_equal(hsc__class_of(0x11F04), HSC__LETTER);
    assert_int_equal(hsc__class_of(0x2EBF0), HSC__LETTER);
    assert_int_equal(hsc__class_of(0x10D40), HSC__NUMBER);
}

static void test_patterns_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *part;
    } cases[] = {{"\\h+", "\\h"},       {"a\\1", "\\1"},    {"[a&&b]", "&&"},
                 {"[[:alpha:]]", "[:"}, {"[a[^b]]", "[^"},  {"(?<name>a)", "(?<n"},
                 {"[a-[b]]", "[b"},     {"[a[-b]]", "[-"},  {"[a[b]-z]", "]-"},
                 {"[a[b-]c]", "]c"},    {"(?m:.)", "(?m"},  {"\\p{Latin}", "\\p{Latin}"},
                 {"\\p{L", "\\p{"},     {"a{,3}", "{,3}"},  {"\\p{N}{1,3}+", "{1"},
                 {"\\bword", "\\b"},    {"[\\W]", "\\W"},   {"\\x{110000000}", "\\x"},
                 {"\\xff", "\\xff"},    {"\\", "\\"},       {"(*ACCEPT)", "(*"},
                 {"", "empty"},         {"\\u12", "\\u12"}, {"[]a]", "[]"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc__pattern *pattern;
        hsc_error err = {0};
        hsc_status status = hsc__pattern_compile(&pattern, cases[i].pattern, strlen(cases[i].pattern), &err);
        if (status != HSC_EUNSUPPORTED) fail_msg("%s: status %d", cases[i].pattern, status);
        if (!strstr(err.message, cases[i].part)) fail_msg("%s: %s", cases[i].pattern, err.message);
        assert_null(pattern);
    }
    static const char *const wrong[] = {"(", ")", "[a", "[a[b]", "*", "a{3,1}", "[b-a]", "\\x{110000}"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        hsc__pattern *pattern;
        hsc_error err = {0};
        assert_int_equal(hsc__pattern_compile(&pattern, wrong[i], strlen(wrong[i]), &err), HSC_EFORMAT);
        assert_non_null(strstr(err.message, wrong[i]));
    }
}

/* BLOOM's pattern has a class inside a class: both are what it leaves out. */
static void test_a_class_inside_a_class(void **state)
{
    (void)state;
    static const char pattern[] = " ?[^(\\s|[.,!?\xe2\x80\xa6[x]])]+", text[] = "ab(cd|e, f.gxh[i]\xe2\x80\xa6 j";
    static const size_t ends[][2] = {{0, 2}, {3, 5}, {6, 7}, {8, 10}, {11, 12}, {13, 17}, {20, 22}};
    hsc__pattern *p;
    hsc__match match = {0};
    size_t at = 0, start, end;
    assert_int_equal(hsc__pattern_compile(&p, pattern, strlen(pattern), NULL), HSC_OK);
    for (size_t i = 0; i < COUNT(ends); i++, at = end) {
        assert_int_equal(hsc__pattern_find(p, &match, text, strlen(text), at, &start, &end, NULL), HSC_OK);
        assert_int_equal(start, ends[i][0]);
        assert_int_equal(end, ends[i][1]);
    }
    hsc__pattern_free(p);
    hsc__match_free(&match);
}

/* A pattern that would try for ever is stopped and says so. */
static void test_a_hostile_pattern_is_stopped(void **state)
{
    (void)state;
    hsc__splitter splitter = splitter_of("(?:a|aa|aaa)+[xy]", false);
    hsc__pieces pieces = {0};
    hsc_error err = {0};
    char text[60];
    size_t start, end;
    memset(text, 'a', sizeof text);
    assert_int_equal(hsc__pieces_begin(&pieces, &splitter, text, sizeof text, &err), HSC_OK);
    assert_int_equal(hsc__pieces_next(&pieces, &start, &end, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "limit"));
    hsc__pieces_free(&pieces);
    hsc__splitter_free(&splitter);
}

/* The pieces of "xabyybza" cut at a or b, as the tokenizers package makes them. */
static void test_behaviors(void **state)
{
    (void)state;
    static const struct {
        hsc__split_behavior behavior;
        bool invert;
        const char *pieces;
    } cases[] = {
        {HSC__REMOVED, false, "x yy z "},
        {HSC__REMOVED, true, "a b b a "},
        {HSC__ISOLATED, false, "x a b yy b z a "},
        {HSC__ISOLATED, true, "x a b yy b z a "},
        {HSC__MERGED_WITH_PREVIOUS, false, "xa b yyb za "},
        {HSC__MERGED_WITH_PREVIOUS, true, "x a byy bz a "},
        {HSC__MERGED_WITH_NEXT, false, "x a byy bz a "},
        {HSC__MERGED_WITH_NEXT, true, "xa b yyb za "},
        {HSC__CONTIGUOUS, false, "x ab yy b z a "},
        {HSC__CONTIGUOUS, true, "x ab yy b z a "},
    };
    hsc__pieces pieces = {0};
    const char *text = "xabyybza";
    for (size_t i = 0; i < COUNT(cases); i++) {
        hsc__splitter splitter = {0};
        hsc__string out = {0};
        size_t start, end;
        assert_int_equal(hsc__splitter_add_pattern(&splitter, "a|b", 3, cases[i].behavior, cases[i].invert, NULL),
                         HSC_OK);
        assert_int_equal(hsc__pieces_begin(&pieces, &splitter, text, 8, NULL), HSC_OK);
        for (;;) {
            assert_int_equal(hsc__pieces_next(&pieces, &start, &end, NULL), HSC_OK);
            if (start == end) break;
            hsc__string_add(&out, text + start, end - start);
            hsc__string_text(&out, " ");
        }
        assert_string_equal(out.data, cases[i].pieces);
        hsc__string_free(&out);
        hsc__splitter_free(&splitter);
    }
    hsc__pieces_free(&pieces);
}

static void test_too_many_steps(void **state)
{
    (void)state;
    hsc__splitter splitter = {0};
    hsc_error err = {0};
    for (int i = 0; i < HSC__MAX_SPLITS; i++)
        assert_int_equal(hsc__splitter_add_pattern(&splitter, "a", 1, HSC__ISOLATED, false, NULL), HSC_OK);
    assert_int_equal(hsc__splitter_add_pattern(&splitter, "a", 1, HSC__ISOLATED, false, &err), HSC_EUNSUPPORTED);
    hsc__splitter_free(&splitter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_written_equals_pcre2),
        cmocka_unit_test(test_anchors_stand_at_every_line),
        cmocka_unit_test(test_trailing_blanks_equal_pcre2),
        cmocka_unit_test(test_classes_of_every_code_point),
        cmocka_unit_test(test_patterns_that_are_refused),
        cmocka_unit_test(test_a_class_inside_a_class),
        cmocka_unit_test(test_a_hostile_pattern_is_stopped),
        cmocka_unit_test(test_behaviors),
        cmocka_unit_test(test_too_many_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
