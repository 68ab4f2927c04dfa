/* Text: UTF-8 reading against Python's decoder, repr against Python's repr for every code point, labels that let no
 * control character through, display cells, numbers in any locale. */
#include "base/text.h"
#include "failing_alloc.h"
#include "scratch.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <utf8proc.h>

#include <cmocka.h>

enum { LAST_CODE_POINT = 0x10FFFF };

static bool is_surrogate(int32_t c)
{
    return c >= 0xD800 && c <= 0xDFFF;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Runs a Python script of one argument and says whether it went well; python3 is part of what the tests need. */
static bool run_python(const char *script, const char *argument)
{
    char command[2048];
    if (!scratch_write(scratch_path("script.py"), script, strlen(script))) return false;
    snprintf(command, sizeof command, "python3 '%s' '%s'", scratch_path("script.py"), argument);
    return system(command) == 0;
}

static void test_every_code_point_reads_back(void **state)
{
    (void)state;
    for (int32_t c = 0; c <= LAST_CODE_POINT; c++) {
        if (is_surrogate(c)) continue;
        char bytes[4];
        int32_t read;
        int n = hsc__utf8_write(c, bytes);
        if (hsc__utf8_read(bytes, (size_t)n, &read) != n || read != c) fail_msg("U+%04X", (unsigned)c);
        if (!hsc__utf8_valid(bytes, (size_t)n) || hsc__utf8_prefix(bytes, (size_t)n) != (size_t)n)
            fail_msg("U+%04X", (unsigned)c);
        for (int k = 1; k < n; k++) { /* any proper beginning is one ill-formed part that could become whole */
            if (hsc__utf8_read(bytes, (size_t)k, &read) != k || read != -1) fail_msg("U+%04X", (unsigned)c);
            if (hsc__utf8_prefix(bytes, (size_t)k) != 0) fail_msg("U+%04X", (unsigned)c);
        }
    }
    static const int32_t wrong[] = {-1, 0xD800, 0xDFFF, 0x110000, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char bytes[4];
        assert_int_equal(hsc__utf8_write(wrong[i], bytes), 3);
        assert_memory_equal(bytes, "\xEF\xBF\xBD", 3);
    }
}

static void test_prefix_waits_only_for_what_can_come(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t prefix;
    } cases[] = {{"", 0},
                 {"a", 1},
                 {"a\xC3", 1},
                 {"a\xC3\xA9", 3},
                 {"a\xE2\x82", 1},
                 {"a\xF0\x9F\x99", 1},
                 {"a\xFF", 2},
                 {"a\x80", 2},
                 {"a\xC0", 2},
                 {"a\xC1", 2},
                 {"a\xE0\x80", 3},
                 {"a\xED\xA0", 3},
                 {"a\xF4\x90", 3},
                 {"a\xF5", 2},
                 {"a\xF0\x80", 3},
                 {"a\xE2\x28", 3},
                 {"\x80\x80\x80", 3},
                 {"\xF0\x9F\x99\x82\x80", 5},
                 {"\xE2\x82\xE2\x82", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hsc__utf8_prefix(cases[i].text, strlen(cases[i].text)), cases[i].prefix);
}

/* Random bytes, mostly near the borders of table 3-7, decoded by Python with errors="replace". */
static void test_decode_as_python_does(void **state)
{
    (void)state;
    static const unsigned char likely[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                           0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    static const char script[] = "import sys\n"
                                 "lines = open(sys.argv[1], 'rb').read().splitlines()\n"
                                 "with open(sys.argv[1] + '.decoded', 'wb') as f:\n"
                                 "    for line in lines:\n"
                                 "        text = bytes.fromhex(line.decode()).decode('utf-8', 'replace')\n"
                                 "        f.write(text.encode().hex().encode() + b'\\n')\n";
    hsc__string input = {0}, decoded = {0}, expected = {0};
    uint64_t random = 1;
    for (int i = 0; i < 30000; i++) {
        char bytes[16];
        size_t n = 1 + next_random(&random) % 10;
        for (size_t j = 0; j < n; j++) bytes[j] = (char)likely[next_random(&random) % sizeof likely];
        for (size_t j = 0; j < n; j++) hsc__string_printf(&input, "%02x", (unsigned char)bytes[j]);
        hsc__string_text(&input, "\n");
        decoded.n = 0;
        hsc__text_decode(&decoded, bytes, n);
        assert_true(hsc__utf8_valid(decoded.data, decoded.n));
        for (size_t j = 0; j < decoded.n; j++) hsc__string_printf(&expected, "%02x", (unsigned char)decoded.data[j]);
        hsc__string_text(&expected, "\n");
    }
    assert_true(scratch_write(scratch_path("bytes"), input.data, input.n));
    assert_true(run_python(script, scratch_path("bytes")));
    char *python = scratch_read(scratch_path("bytes.decoded"), NULL);
    assert_non_null(python);
    assert_string_equal(python, expected.data);
    free(python);
    hsc__string_free(&input);
    hsc__string_free(&decoded);
    hsc__string_free(&expected);
}

/* Every code point but those that one of the two Unicode versions has not assigned yet. */
static void test_repr_as_python_does(void **state)
{
    (void)state;
    static const char script[] = "import sys, unicodedata\n"
                                 "with open(sys.argv[1], 'w', encoding='utf-8') as f:\n"
                                 "    for c in map(chr, [*range(0xd800), *range(0xe000, 0x110000)]):\n"
                                 "        f.write('+-'[unicodedata.category(c) == 'Cn'] + repr(c) + '\\n')\n";
    assert_true(run_python(script, scratch_path("repr")));
    char *python = scratch_read(scratch_path("repr"), NULL), *line = python;
    assert_non_null(python);
    const char *stop = python + strlen(python); /* memchr: under ASan each strchr would walk to the end of the file */
    hsc__string repr = {0};
    int n_compared = 0;
    for (int32_t c = 0; c <= LAST_CODE_POINT; c++) {
        if (is_surrogate(c)) continue;
        char *end = memchr(line, '\n', (size_t)(stop - line)), bytes[4];
        assert_non_null(end);
        repr.n = 0;
        hsc__text_repr(&repr, bytes, (size_t)hsc__utf8_write(c, bytes));
        bool assigned = *line == '+' && utf8proc_category(c) != UTF8PROC_CATEGORY_CN;
        if (assigned && (repr.n != (size_t)(end - line - 1) || memcmp(repr.data, line + 1, repr.n) != 0))
            fail_msg("U+%04X: %s, Python: %.*s", (unsigned)c, repr.data, (int)(end - line - 1), line + 1);
        n_compared += assigned;
        line = end + 1;
    }
    assert_true(n_compared > 250000);
    free(python);
    hsc__string_free(&repr);
}

static void assert_text(void (*make)(hsc__string *, const char *, size_t), const char *bytes, size_t n,
                        const char *expected)
{
    hsc__string out = {0};
    make(&out, bytes, n);
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    assert_int_equal(out.n, strlen(expected));
    hsc__string_free(&out);
}

static void test_repr_quotes(void **state)
{
    (void)state;
    assert_text(hsc__text_repr, "", 0, "''");
    assert_text(hsc__text_repr, " it", 3, "' it'");
    assert_text(hsc__text_repr, "'t", 2, "\"'t\"");
    assert_text(hsc__text_repr, "\"", 1, "'\"'");
    assert_text(hsc__text_repr, "'\"", 2, "'\\'\"'");
    assert_text(hsc__text_repr, "a\\\n\t\r\0b", 7, "'a\\\\\\n\\t\\r\\x00b'");
    assert_text(hsc__text_repr, "\xE2\x82", 2, "'<E2><82>'");
    assert_text(hsc__text_repr, "a\x82\u20AC\xE2", 6, "'a<82>\u20AC<E2>'");
    assert_text(hsc__text_repr, "\u00A0\u202E\U000E0001", 9, "'\\xa0\\u202e\\U000e0001'");
}

static void test_labels(void **state)
{
    (void)state;
    assert_text(hsc__text_label, "", 0, "");
    assert_text(hsc__text_label, " ", 1, "\u2423");
    assert_text(hsc__text_label, "   ", 3, "\u2423\u2423\u2423");
    assert_text(hsc__text_label, " it", 3, "\u2423it");
    assert_text(hsc__text_label, "New York ", 9, "New York\u2423");
    assert_text(hsc__text_label, "a  b", 4, "a\u2423\u2423b");
    assert_text(hsc__text_label, "\n", 1, "\u21B5");
    assert_text(hsc__text_label, "\r\n\t", 3, "\u240D\u21B5\u21E5");
    assert_text(hsc__text_label, "\x1b[31m\0\x7f", 7, "<U+001B>[31m<U+0000><U+007F>");
    assert_text(hsc__text_label, "\u202Ex\u200B\uFEFF\u00A0\u2028", 15, "<U+202E>x<U+200B><U+FEFF><U+00A0><U+2028>");
    assert_text(hsc__text_label, "\xE2\x82", 2, "<E2><82>");
    assert_text(hsc__text_label, "a\xF0\x9F", 3, "a<F0><9F>");
    assert_text(hsc__text_label, "\xC2\x80", 2, "<U+0080>"); /* a C1 control, as UTF-8 */
    assert_text(hsc__text_label, "$x_1$ <b>&amp;", 14, "$x_1$ <b>&amp;");
    assert_text(hsc__text_label, "\u0120\u2581", 5,
                "\u0120\u2581"); /* the text itself: not the glyphs of a vocabulary */
    assert_text(hsc__text_label, "e\u0301", 3, "e\u0301");
    assert_text(hsc__text_label, "\u0301", 2, "\u25CC\u0301");
    assert_text(hsc__text_label, "\U0001F469\u200D\U0001F467", 11, "\U0001F469\u200D\U0001F467");
    assert_text(hsc__text_label, "\u200Da\u200D", 7, "<U+200D>a<U+200D>");
}

/* The definition: a label is valid UTF-8 and holds nothing that a terminal, an XML file or a line of text would act on.
 */
static void test_no_label_holds_a_control_character(void **state)
{
    (void)state;
    hsc__string label = {0};
    for (int32_t c = -256; c <= LAST_CODE_POINT; c++) {
        char bytes[6] = "x"; /* below 0 stand single bytes */
        int n = c < 0 ? 1 : hsc__utf8_write(c, bytes + 1);
        if (c < 0) bytes[1] = (char)(c + 256);
        bytes[1 + n] = 'x';
        label.n = 0;
        hsc__text_label(&label, bytes, (size_t)n + 2);
        bool good = hsc__utf8_valid(label.data, label.n);
        for (size_t i = 0; i < label.n && good;) {
            int32_t read;
            i += (size_t)hsc__utf8_read(label.data + i, label.n - i, &read);
            utf8proc_category_t category = utf8proc_category(read);
            bool acts = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
                        category == UTF8PROC_CATEGORY_ZP || (category == UTF8PROC_CATEGORY_CF && read != 0x200D);
            if (acts || read == 0xFFFE || read == 0xFFFF) good = false;
        }
        if (!good) fail_msg("U+%04X gives %s", (unsigned)c, label.data);
    }
    hsc__string_free(&label);
}

/* Case B44. */
static void test_cells(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int cells;
    } cases[] = {{"a", 1}, {"\u65e5\u672c", 4}, {"e\u0301", 1}, {"\U0001F642", 2}, {"\u05e9\u05dc\u05d5\u05dd", 4},
                 {"", 0},  {"\u2423it", 3},     {"\u2026", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hsc__text_cells(cases[i].text, strlen(cases[i].text)), cases[i].cells);
}

static void assert_fold(const char *text, int width, const char *expected)
{
    hsc__string out = {0};
    hsc__text_fold(&out, text, strlen(text), width, 2);
    assert_string_equal(out.data, expected);
    hsc__string_free(&out);
}

static void test_fold_at_blanks(void **state)
{
    (void)state;
    static const char lines[] = "it was too tired\nit was\n";
    assert_fold(lines, 0, lines);
    assert_fold(lines, 16, lines);
    assert_fold(lines, 15, "it was too\n  tired\nit was\n");
    assert_fold(lines, 6, "it was\n  too\n  tired\nit was\n");
    assert_fold("  it  was", 8, "  it\n    was");
    assert_fold("unbreakable it", 8, "unbreakable\n  it");
    assert_fold("\u65e5\u672c \u65e5\u672c", 8, "\u65e5\u672c\n  \u65e5\u672c");
    assert_fold("\x1b[1mred\x1b[0m it", 6, "\x1b[1mred\x1b[0m it");
    assert_fold("it is   ", 6, "it is");
}

/* A blank that belongs to a token is no place to break, and what stands behind a label stays there. */
static void test_fold_keeps_tokens_and_labels(void **state)
{
    (void)state;
    assert_fold("looks at ' it' more", 14, "looks at ' it'\n  more");
    assert_fold("looks at ' it' more", 12, "looks at\n  ' it' more");
    assert_fold("'little ' became 'big ' there", 20, "'little ' became\n  'big ' there");
    assert_fold("it's not its 'own' that isn't", 13, "it's not its\n  'own' that\n  isn't");
    assert_fold("layers  nine or ten of them", 24, "layers  nine or ten of\n        them");
    assert_fold("layers of all kinds  nine or ten", 30, "layers of all kinds  nine or\n  ten");
}

static void assert_cut(const char *text, int max_cells, const char *expected)
{
    hsc__string out = {0};
    hsc__text_cut(&out, text, strlen(text), max_cells);
    assert_string_equal(out.data, expected);
    assert_true(hsc__text_cells(out.data, out.n) <= max_cells);
    hsc__string_free(&out);
}

static void test_cut_never_inside_a_character(void **state)
{
    (void)state;
    assert_cut("tired", 5, "tired");
    assert_cut("tired", 4, "tir\u2026");
    assert_cut("tired", 1, "\u2026");
    assert_cut("\u65e5\u672c\u8a9e", 6, "\u65e5\u672c\u8a9e");
    assert_cut("\u65e5\u672c\u8a9e", 5, "\u65e5\u672c\u2026");
    assert_cut("\u65e5\u672c\u8a9e", 4, "\u65e5\u2026");
    assert_cut("\u65e5\u672c\u8a9e", 1, "\u2026");
    assert_cut("xe\u0301e\u0301", 3, "xe\u0301e\u0301");
    assert_cut("xe\u0301e\u0301z", 3, "xe\u0301\u2026");    /* the mark stays with its letter */
    assert_cut("\U0001F469\u200D\U0001F467z", 3, "\u2026"); /* a joined emoji is one character */
    assert_cut("", 1, "");
    int cells = -1;
    assert_int_equal(hsc__text_fit("e\u0301\u65e5", 6, 2, &cells), 3);
    assert_int_equal(cells, 1);
    assert_int_equal(hsc__text_fit("e\u0301\u65e5", 6, 0, &cells), 0);
    assert_int_equal(cells, 0);
    assert_int_equal(hsc__text_fit("abc", 3, 3, NULL), 3);
}

static void check_numbers(void)
{
    char text[64];
    double value;
    assert_true(hsc__parse_double("1e-05", &value));
    assert_true(value == 1e-05);
    assert_true(hsc__parse_double("0.1", &value));
    assert_true(value == 0.1);
    assert_false(hsc__parse_double("0,1", &value));
    assert_false(hsc__parse_double("", &value));
    assert_false(hsc__parse_double("1x", &value));
    assert_false(hsc__parse_double("x", &value));
    hsc__format_double(text, sizeof text, 17, 0.1);
    assert_string_equal(text, "0.10000000000000001");
    hsc__format_double(text, sizeof text, 3, 1e-05);
    assert_string_equal(text, "1e-05");
    hsc__string out = {0};
    hsc__string_double(&out, 6, -1234.5);
    hsc__string_double(&out, 17, -DBL_MAX);
    assert_string_equal(out.data, "-1234.5-1.7976931348623157e+308");
    hsc__string_free(&out);
}

static void test_numbers(void **state)
{
    (void)state;
    check_numbers();
}

static void test_numbers_in_a_locale_with_a_comma(void **state)
{
    (void)state;
    if (!scratch_comma_locale()) skip();
    check_numbers();
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* the host's locale is as it was */
    setlocale(LC_ALL, "C");
}

static void test_no_number_is_a_dash(void **state)
{
    (void)state;
    hsc__string s = {0};
    double nan = strtod("nan", NULL);
    hsc__string_printf(&s, "%s %.3f %+9.4f|%*.*f (%+.2f to %.1e) %d %% %8s %5.1f nan", "banana", nan, -nan, 6, 2, nan,
                       -nan, -nan, 7, "nan", 1.25);
    assert_string_equal(s.data, "banana -         -|     - (- to -) 7 %      nan   1.2 nan");
    hsc__string_text(&s, ".");
    assert_int_equal(strlen(s.data), s.n);
    hsc__string_free(&s);
    hsc__string_double(&s, 9, -nan);
    assert_string_equal(s.data, "nan");
    hsc__string_free(&s);
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF"
                               "one\r\n\n\xEF\xBB\xBF"
                               "two";
    static const char *const want[] = {"one", "",
                                       "\xEF\xBB\xBF"
                                       "two"};
    const char *line;
    size_t at = 0, n, i = 0;
    for (; hsc__next_line(text, sizeof text - 1, &at, &line, &n); i++) {
        assert_int_equal(n, strlen(want[i]));
        assert_memory_equal(line, want[i], n);
    }
    assert_int_equal(i, 3);
    at = 0;
    assert_false(hsc__next_line(text, 3, &at, &line, &n)); /* a file of nothing else */
}

/* Every part of every text of two letters, up to lengths where all cases stand, against a search place by place. */
static void test_find(void **state)
{
    (void)state;
    enum { N = 8, PART = 4 };
    char text[N], part[PART];
    for (size_t n = 0; n <= N; n++) {
        for (size_t m = 0; m <= PART; m++) {
            for (unsigned bits = 0; bits < 1U << (n + m); bits++) {
                for (size_t i = 0; i < n; i++) text[i] = bits >> i & 1 ? '\0' : 'a';
                for (size_t i = 0; i < m; i++) part[i] = bits >> (n + i) & 1 ? '\0' : 'a';
                size_t at = 0;
                while (at + m <= n && memcmp(text + at, part, m) != 0) at++;
                assert_ptr_equal(hsc__text_find(text, n, part, m), at + m <= n ? text + at : NULL);
            }
        }
    }
}

static void test_string_stays_whole_when_memory_runs_out(void **state)
{
    (void)state;
    failing_alloc failing;
    for (long k = 1;; k++) {
        hsc__string s = {0};
        failing_alloc_install(&failing, k);
        for (int i = 0; i < 200; i++) hsc__string_printf(&s, "%d,", i);
        hsc__text_label(&s, " \xFF\n", 3);
        hsc__text_repr(&s, " \xFF\n", 3);
        hsc__text_cut(&s, "headscope", 9, 4);
        hsc__text_fold(&s, "two words", 9, 4, 2);
        bool failed = s.failed;
        assert_int_equal(s.data ? strlen(s.data) : 0, s.n);
        size_t before = s.n;
        if (failed) {
            hsc__string_text(&s, "more"); /* once failed, nothing is added any more */
            hsc__string_printf(&s, "%s", "more");
            assert_int_equal(s.n, before);
        }
        hsc__string_free(&s);
        failing_alloc_remove();
        assert_int_equal(failing.held, 0);
        assert_true(failed == (failing.calls >= k));
        if (!failed) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point_reads_back),
        cmocka_unit_test(test_prefix_waits_only_for_what_can_come),
        cmocka_unit_test(test_decode_as_python_does),
        cmocka_unit_test(test_repr_as_python_does),
        cmocka_unit_test(test_repr_quotes),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_no_label_holds_a_control_character),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_fold_at_blanks),
        cmocka_unit_test(test_fold_keeps_tokens_and_labels),
        cmocka_unit_test(test_cut_never_inside_a_character),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_in_a_locale_with_a_comma),
        cmocka_unit_test(test_no_number_is_a_dash),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_string_stays_whole_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
