/*
 * The seam of twins of different lengths, and what takes from what around it: examples worked out by hand. Letters
 * stand for tokens.
 */
#include "headscope/intervene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 32 };

static hsc_error err;

static hsc_status align(const char *x, const char *y, int word, int *seam)
{
    hsc_token ids[2][MOST];
    for (size_t i = 0; i < strlen(x); i++) ids[0][i] = x[i];
    for (size_t i = 0; i < strlen(y); i++) ids[1][i] = y[i];
    return hsc_align(ids[0], (int)strlen(x), ids[1], (int)strlen(y), word, seam, &err);
}

/* The counterpart in y of every position of x, a letter each, '-' where there is none. */
static void meets(const char *x, const char *y, int word, const char *want, const char *back)
{
    const char *texts[2] = {x, y}, *wanted[2] = {want, back};
    for (int k = 0; k < 2; k++) {
        const char *text = texts[k], *other = texts[1 - k];
        char got[MOST];
        hsc_rows rows[2];
        int seam = -1;
        if (align(text, other, word, &seam) != HSC_OK) fail_msg("%s, %s: %s", text, other, err.message);
        memset(got, '-', sizeof got);
        got[strlen(text)] = '\0';
        int n = hsc_align_rows((int)strlen(text), (int)strlen(other), seam, rows);
        assert_in_range(n, 1, 2);
        for (int r = 0; r < n; r++) {
            assert_true(rows[r].n > 0);
            for (int i = 0; i < rows[r].n; i++) got[rows[r].to + i] = other[rows[r].from + i];
        }
        assert_string_equal(got, wanted[k]);
    }
}

static void refused(const char *x, const char *y, int word, const char *says)
{
    int seam;
    assert_int_equal(align(x, y, word, &seam), HSC_EINVAL);
    if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
}

static void test_meets(void **unused)
{
    (void)unused;
    meets("abcde", "abxde", -1, "abxde", "abcde");       /* one length: every position has its own */
    meets("abc", "xyz", -1, "xyz", "abc");               /* whatever stands there */
    meets("abcde", "abxyde", -1, "abyde", "ab-cde");     /* one token against two: the last meets it */
    meets("abcde", "abxyzde", -1, "abzde", "ab--cde");   /* against three */
    meets("abcdfg", "abxyzfg", -1, "abyzfg", "ab-cdfg"); /* two against three */
    meets("cde", "xyde", -1, "yde", "-cde");             /* the word comes first */
    meets("abc", "abxy", -1, "aby", "ab-c");             /* and last */
    meets("abcabd", "abxyabd", -1, "abyabd", "ab-cabd"); /* what is said again behind it */
    meets("abcb", "abcxb", 2, "abxb", "ab-cb");          /* c and c with the ending x: last meets last */
    meets("abcb", "abcxb", 1, "abxb", "ab-cb");          /* bc and bcx */
    meets("ab", "abx", 1, "ax", "a-b");                  /* at the end of a text */
    meets("abd", "abcd", 1, "acd", "a-bd");
    meets("bd", "bcd", 0, "cd", "-bd");             /* the ending of the first word */
    meets("abced", "abxyed", 1, "abyed", "ab-ced"); /* a word that begins alike: its start meets itself */
}

static void test_refused(void **unused)
{
    (void)unused;
    refused("abc", "wxyz", -1, "3 and 4 tokens have 0 at their ends in common and differ in 3 or more");
    refused("abcde", "avwxye", -1, "5 and 6 tokens have 2 at their ends in common and differ in 3 or more");
    refused("avwxye", "abcde", -1, "6 and 5 tokens have 2 at their ends in common and differ in 3 or more");
    refused("abcb", "abcxb", -1, "4 and 5 tokens: where one has a word more");
    refused("abcb", "abcxb", 3, "a word more"); /* the word begins behind what both begin with: x itself */
    refused("axb", "ab", -1, "3 and 2 tokens: where one has a word more");
    refused("", "abc", -1, "0 and 3 tokens: one is empty");
}

static void test_places(void **unused)
{
    (void)unused;
    refused("abmcde", "axmyzde", -1, "6 and 7 tokens differ in more than one place: token 109");
    refused("axmyzde", "abmcde", -1, "7 and 6 tokens differ in more than one place: token 109");
    meets("abmcde", "axymzde", -1, "aymzde", "a-bmcde"); /* the surplus is in the first place: all meet from the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_meets), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
