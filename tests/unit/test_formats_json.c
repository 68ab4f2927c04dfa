/* Strict JSON: what is refused and where, the getters' kinds and ranges, and numbers under another locale. */
#include "test_formats_support.h"

#include <locale.h>

static hsc_status parse(const char *text, size_t n, json_t **out, hsc_error *err)
{
    char *block = exact(text, n);
    *err = (hsc_error){0};
    hsc_status status = hsc__json_parse(out, block, n, "c.json", err);
    free(block);
    return status;
}

static json_t *object(const char *text)
{
    json_t *json;
    hsc_error err;
    if (parse(text, strlen(text), &json, &err) != HSC_OK) fail_msg("%s: %s", text, err.message);
    return json;
}

/* The place is where the parser stopped, at or soon after the fault. */
static void refuse(const char *text, const char *why, size_t at_least)
{
    json_t *json;
    hsc_error err;
    assert_int_equal(parse(text, strlen(text), &json, &err), HSC_EFORMAT);
    assert_null(json);
    assert_int_equal(strncmp(err.message, "c.json: not valid JSON: ", 24), 0);
    if (!strstr(err.message, why)) fail_msg("%s: %s", text, err.message);
    assert_in_range(err.offset, at_least, strlen(text));
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("{\"a\":1,\"a\":2}", "duplicate object key", 7);
    refuse("{\"a\":1,\n \"b\" 2}", "line 2", 12);
    refuse("{\"a\":1} x", "end of file expected", 8);
    refuse("{\"a\":01}", "", 5);
    refuse("{\"a\":NaN}", "", 5);
    refuse("{\"a\":1e999}", "real number overflow", 5);
    refuse("{'a':1}", "", 1);
    refuse("{\"a\":1,}", "", 7);
    refuse("", "", 0);
    refuse("1", "'[' or '{' expected", 0);
    refuse("{\"a\":\"\xff\"}", "unable to decode byte 0xff", 6);
    refuse("{\"a\":\"\\u0000\"}", "\\u0000 is not allowed", 6);
    refuse("{\"a\":\"\\ud800\"}", "invalid Unicode", 6);
}

static void test_depth(void **state)
{
    (void)state;
    char text[400];
    json_t *json;
    hsc_error err;
    for (int depth = 127; depth <= 130; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        hsc_status status = parse(text, 2 * (size_t)depth, &json, &err);
        assert_int_equal(status, depth <= 128 ? HSC_OK : HSC_EFORMAT);
        if (status != HSC_OK) assert_int_equal(err.offset, 128);
        json_decref(json);
    }
    char quoted[256] = "{\"a\":\"\\\""; /* a quote in a string does not end it, and brackets in it do not count */
    size_t n = strlen(quoted);
    memset(quoted + n, '[', 200);
    memcpy(quoted + n + 200, "\"}", 3);
    json = object(quoted);
    json_decref(json);
}

/* A config file may start with a byte order mark, end its lines with CRLF and write integers as 8.0 (B32). */
static void test_getters(void **state)
{
    (void)state;
    json_t *json =
        object("\xef\xbb\xbf{\r\n\"i\": 8,\r\n\"r\": 8.0,\r\n\"h\": 8.5,\r\n\"e\": 1e-05,\r\n\"s\": \"text\",\r\n"
               "\"t\": true,\r\n\"n\": null,\r\n\"o\": {},\r\n\"big\": 9223372036854775807,\r\n\"x\": 1e300}\r\n");
    hsc_error err = {0};
    int64_t i;
    double d;
    bool b;
    const char *s;
    assert_int_equal(hsc__json_int(json, "i", 0, 1, 8, &i, "c", &err), HSC_OK);
    assert_true(i == 8);
    assert_int_equal(hsc__json_int(json, "r", 0, 8, 9, &i, "c", &err), HSC_OK);
    assert_true(i == 8);
    assert_int_equal(hsc__json_int(json, "big", 0, 0, INT64_MAX, &i, "c", &err), HSC_OK);
    assert_true(i == INT64_MAX);
    assert_int_equal(hsc__json_int(json, "n", 7, 8, 9, &i, "c", &err), HSC_OK);
    assert_true(i == 7);
    assert_int_equal(hsc__json_int(json, "absent", 7, 8, 9, &i, "c", &err), HSC_OK);
    assert_true(i == 7);
    assert_int_equal(hsc__json_int(json, "i", 0, 9, 10, &i, "dir/config.json", &err), HSC_EFORMAT);
    assert_string_equal(err.message, "dir/config.json: \"i\" is 8, it must be from 9 to 10");
    assert_int_equal(hsc__json_int(json, "i", 0, 1, 7, &i, "c", &err), HSC_EFORMAT);
    static const char *const no_integers[] = {"h", "s", "t", "o", "x", "e"};
    for (size_t k = 0; k < 6; k++)
        assert_int_equal(hsc__json_int(json, no_integers[k], 0, 0, 9, &i, "c", &err), HSC_EFORMAT);
    assert_int_equal(hsc__json_double(json, "e", 0, &d, "c", &err), HSC_OK);
    assert_true(d == 1e-5);
    assert_int_equal(hsc__json_double(json, "i", 0, &d, "c", &err), HSC_OK);
    assert_true(d == 8);
    assert_int_equal(hsc__json_double(json, "n", 2.5, &d, "c", &err), HSC_OK);
    assert_true(d == 2.5);
    assert_int_equal(hsc__json_double(json, "s", 0, &d, "c", &err), HSC_EFORMAT);
    assert_string_equal(err.message, "c: \"s\" is a string, a number is expected");
    assert_int_equal(hsc__json_bool(json, "t", false, &b, "c", &err), HSC_OK);
    assert_true(b);
    assert_int_equal(hsc__json_bool(json, "absent", true, &b, "c", &err), HSC_OK);
    assert_true(b);
    assert_int_equal(hsc__json_bool(json, "i", true, &b, "c", &err), HSC_EFORMAT);
    assert_int_equal(hsc__json_string(json, "s", NULL, &s, "c", &err), HSC_OK);
    assert_string_equal(s, "text");
    assert_int_equal(hsc__json_string(json, "n", "other", &s, "c", &err), HSC_OK);
    assert_string_equal(s, "other");
    assert_int_equal(hsc__json_string(json, "o", NULL, &s, "c", &err), HSC_EFORMAT);
    assert_string_equal(err.message, "c: \"o\" is an object, a string is expected");
    json_decref(json);
    json = object("{\"model_max_length\": 1000000000000000019884624838656, \"i\": 8}"); /* as transformers writes it */
    assert_int_equal(hsc__json_int(json, "i", 0, 1, 8, &i, "c", &err), HSC_OK);
    assert_true(i == 8);
    assert_int_equal(hsc__json_int(json, "model_max_length", 0, 1, 8, &i, "c", &err), HSC_EFORMAT);
    json_decref(json);
    json = object("[1]"); /* not an object at all: every field is absent */
    assert_int_equal(hsc__json_int(json, "i", 3, 0, 9, &i, "c", &err), HSC_OK);
    assert_true(i == 3);
    json_decref(json);
}

static void test_locale(void **state) /* B56 */
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) skip();
    json_t *json = object("{\"eps\": 1e-05, \"p\": 0.1}");
    double eps, p;
    assert_int_equal(hsc__json_double(json, "eps", 0, &eps, "c", NULL), HSC_OK);
    assert_int_equal(hsc__json_double(json, "p", 0, &p, "c", NULL), HSC_OK);
    setlocale(LC_ALL, "C");
    json_decref(json);
    assert_true(eps == 1e-5 && p == 0.1);
}

static void test_load(void **state)
{
    (void)state;
    const char *dir = new_folder();
    json_t *json;
    hsc_error err = {0};
    write_file(dir, "ok.json", "{\"a\":1}", 7);
    write_file(dir, "empty.json", "", 0);
    write_file(dir, "lfs.json", "version https://git-lfs.github.com/spec/v1\n", 43);
    assert_int_equal(hsc__json_load(&json, path_in(dir, "ok.json"), 7, &err), HSC_OK);
    json_decref(json);
    assert_int_equal(hsc__json_load(&json, path_in(dir, "ok.json"), 6, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "at most 6"));
    assert_null(json);
    assert_int_equal(hsc__json_load(&json, path_in(dir, "empty.json"), 99, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "is empty"));
    assert_int_equal(hsc__json_load(&json, path_in(dir, "lfs.json"), 99, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "Git LFS"));
    assert_int_equal(hsc__json_load(&json, path_in(dir, "absent.json"), 99, &err), HSC_ENOTFOUND);
    assert_int_equal(hsc__json_load(&json, dir, 99, &err), HSC_EIO);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_depth), cmocka_unit_test(test_getters),
        cmocka_unit_test(test_locale),   cmocka_unit_test(test_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
