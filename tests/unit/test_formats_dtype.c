/* Names and sizes of element types, products that overflow, and the table of names. */
#include "test_formats_support.h"

#include "formats/dtype.h"
#include "formats/names.h"

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        hsc_dtype dtype;
        const char *name;
        size_t block, bytes;
    } rows[] = {{HSC_F32, "F32", 1, 4},     {HSC_F16, "F16", 1, 2},         {HSC_BF16, "BF16", 1, 2},
                {HSC_F64, "F64", 1, 8},     {HSC_I8, "I8", 1, 1},           {HSC_I16, "I16", 1, 2},
                {HSC_I32, "I32", 1, 4},     {HSC_I64, "I64", 1, 8},         {HSC_U8, "U8", 1, 1},
                {HSC_U16, "U16", 1, 2},     {HSC_U32, "U32", 1, 4},         {HSC_U64, "U64", 1, 8},
                {HSC_BOOL, "BOOL", 1, 1},   {HSC_C64, "C64", 1, 8},         {HSC_Q4_0, "Q4_0", 32, 18},
                {HSC_Q4_1, "Q4_1", 32, 20}, {HSC_Q5_0, "Q5_0", 32, 22},     {HSC_Q5_1, "Q5_1", 32, 24},
                {HSC_Q8_0, "Q8_0", 32, 34}, {HSC_F8_E4M3, "F8_E4M3", 1, 1}, {HSC_F8_E5M2, "F8_E5M2", 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(hsc_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(hsc__dtype_block(rows[i].dtype), rows[i].block);
        assert_int_equal(hsc__dtype_bytes(rows[i].dtype), rows[i].bytes);
        assert_int_equal(hsc__dtype_find(rows[i].name), rows[i].block == 1 ? rows[i].dtype : HSC_OTHER);
    }
    for (int i = 0; i < HSC_N_DTYPES; i++) assert_true(strlen(hsc_dtype_name((hsc_dtype)i)) > 0);
    assert_string_equal(hsc_dtype_name((hsc_dtype)1000), "other");
    assert_string_equal(hsc_dtype_name((hsc_dtype)-1), "other");
}

static void test_sizes(void **state)
{
    (void)state;
    uint64_t n, size;
    assert_true(hsc__shape_size(NULL, 0, 1, 4, &n, &size));
    assert_true(n == 1 && size == 4);
    assert_true(hsc__shape_size((int64_t[]){3, 64}, 2, 32, 18, &n, &size));
    assert_true(n == 192 && size == 108);
    assert_false(hsc__shape_size((int64_t[]){32, 33}, 2, 32, 18, &n, &size)); /* a row, not the whole, is in blocks */
    assert_false(hsc__shape_size((int64_t[]){-1}, 1, 1, 4, &n, &size));
    assert_false(hsc__shape_size((int64_t[]){-1, -1}, 2, 1, 4, &n, &size));
    assert_true(hsc__shape_size((int64_t[]){INT64_MAX}, 1, 1, 1, &n, &size));
    assert_false(hsc__shape_size((int64_t[]){INT64_MAX}, 1, 1, 2, &n, &size));
    assert_false(hsc__shape_size((int64_t[]){INT64_MAX, 2}, 2, 1, 1, &n, &size));
    assert_true(hsc__shape_size((int64_t[]){0, INT64_MAX, INT64_MAX}, 3, 1, 8, &n, &size));
    assert_true(n == 0 && size == 0);
}

static void test_names(void **state)
{
    (void)state;
    enum { N = 3000 };
    static char texts[N][24];
    hsc__names names = {0};
    assert_int_equal(hsc__names_find(&names, "x", 1), HSC_NO_INDEX);
    assert_int_equal(hsc__names_reserve(&names, N, NULL), HSC_OK);
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%.*s%zu", (int)(i % 17), "abcdefghijklmnopq", i);
        assert_int_equal(hsc__names_add(&names, texts[i], strlen(texts[i]), i), HSC_NO_INDEX);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(hsc__names_find(&names, texts[i], strlen(texts[i])), i);
        assert_int_equal(hsc__names_add(&names, texts[i], strlen(texts[i]), N), i);
        assert_int_equal(hsc__names_find(&names, texts[i], strlen(texts[i]) + 1), HSC_NO_INDEX); /* with its NUL */
    }
    assert_int_equal(hsc__names_find(&names, "", 0), HSC_NO_INDEX);
    hsc__names_free(&names);
    assert_int_equal(hsc__shown("short", 5), 5);
    char longest[200];
    memset(longest, 'x', sizeof longest);
    memcpy(longest + 94, "\xe6\x97\xa5", 3); /* a character across the cut */
    assert_int_equal(hsc__shown(longest, sizeof longest), 94);
    assert_true(hsc__name_valid("h\xc3\xa9", 3));
    assert_false(hsc__name_valid("h\xc3", 2));
    assert_false(hsc__name_valid("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dtypes), cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
