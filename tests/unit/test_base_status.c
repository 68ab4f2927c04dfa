/* Errors: every code has its own text, messages are one tidy line of whole UTF-8, NULL is accepted everywhere. */
#include "base/status.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "scratch.h"

static void test_every_code_has_a_text(void **state)
{
    (void)state;
    static const hsc_status codes[] = {
#define CODE(name, value, text) name,
        HSC_STATUS_LIST(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_string_not_equal(hsc_status_text(codes[i]), "unknown status");
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(hsc_status_text(codes[i]), hsc_status_text(codes[j]));
            assert_int_not_equal(codes[i], codes[j]);
        }
    }
    assert_string_equal(hsc_status_text((hsc_status)-1000), "unknown status");
}

static void test_version_agrees_with_its_numbers(void **state)
{
    (void)state;
    hsc__string expected = {0};
    hsc__string_printf(&expected, "%d.%d.%d", HSC_VERSION_MAJOR, HSC_VERSION_MINOR, HSC_VERSION_PATCH);
    assert_string_equal(hsc_version(), expected.data);
    hsc__string_free(&expected);
}

static void test_fail_fills_the_error(void **state)
{
    (void)state;
    hsc_error err = {0};
    assert_int_equal(hsc__fail(&err, HSC_EFORMAT, 77, "%s: field %d", "a.gguf", 3), HSC_EFORMAT);
    assert_int_equal(err.code, HSC_EFORMAT);
    assert_int_equal(err.offset, 77);
    assert_string_equal(err.message, "a.gguf: field 3");
    assert_int_equal(hsc__fail_prefix(&err, HSC_EIO, "%s", "folder"), HSC_EFORMAT); /* the first code stays */
    assert_string_equal(err.message, "folder: a.gguf: field 3");
    assert_int_equal(err.offset, 77);
    hsc__error_clear(&err);
    assert_int_equal(err.code, HSC_OK);
    assert_int_equal(err.offset, 0);
    assert_string_equal(err.message, "");
    assert_int_equal(hsc__fail_memory(&err, 123, "a row"), HSC_ENOMEM);
    assert_non_null(strstr(err.message, "123"));
    assert_non_null(strstr(err.message, "a row"));
}

static void test_null_error(void **state)
{
    (void)state;
    assert_int_equal(hsc__fail(NULL, HSC_EIO, 0, "%d", 1), HSC_EIO);
    assert_int_equal(hsc__fail_prefix(NULL, HSC_EINVAL, "%d", 1), HSC_EINVAL);
    assert_int_equal(hsc__fail_memory(NULL, 1, "x"), HSC_ENOMEM);
    hsc__error_clear(NULL);
}

static void test_message_is_one_line(void **state)
{
    (void)state;
    hsc_error err = {0};
    hsc__fail(&err, HSC_EIO, 0, "a\nb\x1b[31mc\x7f");
    assert_string_equal(err.message, "a?b?[31mc?");
    hsc__fail(&err, HSC_EIO, 0,
              "\xc2\x9b"
              "31m \xff \xe2\x82 \xc3\xa9"); /* C1's own escape, bytes of no character, é */
    assert_string_equal(err.message, "?31m ? ? \xc3\xa9");
}

/* Fills the message with 3-byte characters, so that the buffer's end falls inside one. */
static void test_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    for (int shift = 0; shift < 3; shift++) {
        char text[3 * 700 + 4] = "";
        hsc_error err = {0};
        for (int i = 0; i < shift; i++) text[i] = 'x';
        for (int i = 0; i < 700; i++) memcpy(text + shift + 3 * i, "\u65e5", 4);
        hsc__fail(&err, HSC_EIO, 0, "%s", text);
        size_t n = strlen(err.message);
        assert_true(n > sizeof err.message - 4);
        assert_true(hsc__utf8_valid(err.message, n));
        hsc__fail_prefix(&err, HSC_EIO, "%s", "12");
        assert_true(hsc__utf8_valid(err.message, strlen(err.message)));
    }
}

static hsc_status forwards(hsc_status inner, int *after, hsc_error *err)
{
    HSC_TRY(inner);
    (*after)++;
    HSC_FAIL_IF(*after > 1, HSC_EINVAL, "after is %d, at most 1", *after);
    HSC_FAIL_AT_IF(*after == 1, HSC_EFORMAT, 9, "after is %d", *after);
    return HSC_OK;
}

static void test_macros(void **state)
{
    (void)state;
    hsc_error err = {0};
    int after = 0;
    assert_int_equal(forwards(HSC_ENOTFOUND, &after, &err), HSC_ENOTFOUND);
    assert_int_equal(after, 0);
    assert_int_equal(forwards(HSC_OK, &after, &err), HSC_EFORMAT);
    assert_int_equal(err.offset, 9);
    assert_int_equal(forwards(HSC_OK, &after, &err), HSC_EINVAL);
    assert_string_equal(err.message, "after is 2, at most 1");
    assert_int_equal(err.offset, 0);
}

static void test_numbers_in_a_locale_with_a_comma(void **state)
{
    (void)state;
    hsc_error err = {0};
    hsc__string text = {0};
    if (!scratch_comma_locale()) skip();
    hsc__fail(&err, HSC_EINVAL, 0, "eps is %g", 0.5);
    assert_string_equal(err.message, "eps is 0.5");
    hsc__fail_prefix(&err, HSC_EINVAL, "layer %.2f", 1.25);
    assert_string_equal(err.message, "layer 1.25: eps is 0.5");
    hsc__string_printf(&text, "%.3f", 0.5);
    assert_string_equal(text.data, "0.500");
    hsc__string_free(&text);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_has_a_text),
        cmocka_unit_test(test_version_agrees_with_its_numbers),
        cmocka_unit_test(test_fail_fills_the_error),
        cmocka_unit_test(test_null_error),
        cmocka_unit_test(test_message_is_one_line),
        cmocka_unit_test(test_long_message_is_cut_between_characters),
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_numbers_in_a_locale_with_a_comma),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
