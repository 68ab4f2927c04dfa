/* One safetensors file: the manifest, every header that broke other readers, and files cut and flipped at each byte. */
#include "test_formats_support.h"

#include "formats/tensors.h"

/* Reads every byte that a set points at, so that a wrong pointer is seen. */
static unsigned touch(const hsc__tensors *set)
{
    unsigned sum = 0;
    for (size_t i = 0; i < hsc__tensors_count(set); i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        assert_ptr_equal(hsc__tensors_find(set, t->name), t);
        sum += (unsigned)strlen(t->dtype_name);
        for (uint64_t k = 0; k < t->n_bytes; k++) sum += ((const unsigned char *)t->data)[k];
    }
    return sum;
}

static hsc_status parse(const void *data, size_t n, hsc_error *err)
{
    hsc__tensors *set;
    void *block = exact(data, n);
    *err = (hsc_error){0};
    counter_start(0);
    hsc_status status = hsc__safetensors_parse(&set, block, n, "t.safetensors", err);
    if (status == HSC_OK) touch(set);
    else assert_null(set);
    hsc__tensors_close(set);
    counter_stop();
    free(block);
    assert_true(counter.peak < (size_t)256 * 1024 + 64 * n); /* nothing is allocated for what the file only claims */
    assert_int_equal(err->code, status);
    if (status != HSC_OK) {
        assert_non_null(strstr(err->message, "t.safetensors"));
        assert_null(strchr(err->message, '\n'));
    }
    return status;
}

/* A file of a header and n_data zeros. */
static hsc_status parse_header_n(const char *header, size_t n_header, size_t n_data, hsc_error *err)
{
    bytes b = {0};
    put_u64(&b, n_header);
    put(&b, header, n_header);
    put_zeros(&b, n_data);
    hsc_status status = parse(b.data, b.n, err);
    bytes_free(&b);
    return status;
}

static hsc_status parse_header(const char *header, size_t n_data, hsc_error *err)
{
    return parse_header_n(header, strlen(header), n_data, err);
}

/* The file is refused, and the message says why. */
static void refuse(hsc_status code, const char *header, size_t n_data, const char *why)
{
    hsc_error err;
    hsc_status status = parse_header(header, n_data, &err);
    if (status != code || !strstr(err.message, why))
        fail_msg("%s: status %d, message '%s'", header, status, err.message);
}

static void accept(const char *header, size_t n_data)
{
    hsc_error err;
    if (parse_header(header, n_data, &err) != HSC_OK) fail_msg("%s: %s", header, err.message);
}

#define T(dtype, shape, offsets) "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void visit_manifest(const char *path, bool sound)
{
    hsc__tensors *set;
    hsc_error err = {0};
    hsc_status status = hsc__safetensors_open(&set, path, &err);
    if (sound != (status == HSC_OK)) fail_msg("%s: status %d: %s", path, status, err.message);
    if (status == HSC_OK) touch(set);
    else assert_non_null(strstr(err.message, path));
    hsc__tensors_close(set);

    bytes b = read_bytes(path);
    assert_int_equal(parse(b.data, b.n, &err), status);
    if (sound) each_damage(&b, parse);
    bytes_free(&b);
}

static void test_manifest(void **state)
{
    (void)state;
    if (!formats_folder()) skip();
    assert_true(each_manifest_file("safetensors/", visit_manifest) >= 27);
}

static void test_header_length(void **state) /* B29 */
{
    (void)state;
    hsc_error err;
    bytes b = {0};
    assert_int_equal(parse("", 0, &err), HSC_EFORMAT);
    assert_int_equal(parse("\0\0\0\0\0\0\0", 7, &err), HSC_EFORMAT);
    assert_int_equal(parse("\0\0\0\0\0\0\0\0", 8, &err), HSC_EFORMAT);
    assert_int_equal(parse("\xff\xff\xff\xff\xff\xff\xff\xff", 8, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "18446744073709551615"));
    assert_non_null(strstr(err.message, "100000000"));
    assert_int_equal(parse("\0\0\0\0\0\0\0\x80{}", 10, &err), HSC_EFORMAT);
    const uint64_t lengths[] = {100000001, 1000};
    for (int i = 0; i < 2; i++) {
        put_u64(&b, lengths[i]);
        put_text(&b, "{}");
        assert_int_equal(parse(b.data, b.n, &err), HSC_EFORMAT);
        bytes_free(&b);
    }
    refuse(HSC_EFORMAT, "[]", 0, "not a JSON object");
    refuse(HSC_EFORMAT, "{}x", 0, "not valid JSON");
    refuse(HSC_EFORMAT, "      ", 0, "not a JSON object");
    refuse(HSC_EFORMAT, "\xef\xbb\xbf{}", 0, "not a JSON object");
    accept("{}      ", 0);
    refuse(HSC_EFORMAT, "{}", 1, "the tensors end at byte 0");
}

static void test_nesting(void **state) /* B29 */
{
    (void)state;
    hsc_error err;
    for (int object = 0; object < 2; object++) {
        bytes b = {0};
        put_text(&b, "{\"t\":");
        for (int i = 0; i < 200000; i++) put_text(&b, object ? "{\"a\":" : "[");
        assert_int_equal(parse_header_n((char *)b.data, b.n, 0, &err), HSC_EFORMAT);
        assert_non_null(strstr(err.message, "deeper than 128"));
        bytes_free(&b);
    }
}

static void test_sizes(void **state) /* B30 */
{
    (void)state;
    refuse(HSC_EFORMAT, T("F32", "[1000,1000]", "[0,4]"), 4, "need 4000000");
    refuse(HSC_EFORMAT, T("F32", "[4294967296,4294967296]", "[0,0]"), 0, "2^63");
    refuse(HSC_EFORMAT, T("U8", "[9223372036854775810,2]", "[0,4]"), 4, "not an integer");
    refuse(HSC_EFORMAT, T("F32", "[4611686018427387904]", "[0,0]"), 0, "2^63"); /* 2^62 * 4 wraps to 0 */
    refuse(HSC_EFORMAT, T("F64", "[2305843009213693953]", "[0,8]"), 8, "2^63"); /* (2^61 + 1) * 8 wraps to 8 */
    refuse(HSC_EFORMAT, T("F32", "[2]", "[0,8]"), 4, "4 bytes of data");
    refuse(HSC_EFORMAT, T("F32", "[0]", "[4,0]"), 4, "no range");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[-4,0]"), 4, "no range");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[0,9223372036854775807]"), 4, "4 bytes of data");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[0,4,8]"), 4, "pair");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[0]"), 4, "pair");
    refuse(HSC_EFORMAT, T("F32", "[1]", "{}"), 4, "pair");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[0.0,4.0]"), 4, "pair");
    refuse(HSC_EFORMAT, T("F32", "[1.0]", "[0,4]"), 4, "shape");
    refuse(HSC_EFORMAT, T("F32", "[-1]", "[0,4]"), 4, "shape");
    refuse(HSC_EFORMAT, T("F32", "1", "[0,4]"), 4, "shape");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[4,8]"), 8, "hole");
    refuse(HSC_EFORMAT, T("F32", "[1]", "[0,4]"), 5, "the file at byte 5");
    refuse(HSC_EUNSUPPORTED, T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 dimensions");
    accept(T("F32", "[1,1,1,1,1,1,1,1]", "[0,4]"), 4);
    accept(T("F32", "[0]", "[0,0]"), 0);
    accept(T("F32", "[1099511627776,0]", "[0,0]"), 0);
    accept(T("F32", "[]", "[0,4]"), 4);
}

#define ENTRY(name, begin, end) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #begin "," #end "]}"
#define EMPTY(name, at) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[" #at "," #at "]}"

static void test_layout(void **state) /* B30 */
{
    (void)state;
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("b", 0, 4) "}", 4, "inside the one before it");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("b", 2, 6) "}", 6, "inside the one before it");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("b", 8, 12) "}", 12, "hole after byte 4");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("a", 4, 8) "}", 8, "duplicate");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("a", 0, 4) "}", 4, "duplicate");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," ENTRY("\\u0061", 4, 8) "}", 8, "duplicate");
    refuse(HSC_EFORMAT, "{" ENTRY("a", 0, 4) "," EMPTY("b", 2) "}", 4, "inside the one before it");
    accept("{" ENTRY("b", 4, 8) "," ENTRY("a", 0, 4) "}", 8);
    accept("{" ENTRY("a", 0, 4) "," EMPTY("b", 4) "," ENTRY("c", 4, 8) "," EMPTY("d", 0) "," EMPTY("e", 8) "}", 8);
}

static void test_fields(void **state) /* B30 */
{
    (void)state;
    static const char *const unknown[] = {
        T("F128", "[1]", "[0,4]"),   T("f32", "[1]", "[0,4]"),   T("F4", "[8]", "[0,4]"), T("F6_E2M3", "[4]", "[0,3]"),
        T("Q4_0", "[32]", "[0,18]"), T("other", "[4]", "[0,4]"), T("", "[4]", "[0,4]")};
    static const char *const names[] = {"'F128'", "'f32'", "'F4'", "'F6_E2M3'", "'Q4_0'", "'other'", "''"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) refuse(HSC_EUNSUPPORTED, unknown[i], 18, names[i]);
    refuse(HSC_EFORMAT, "{\"t\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype");
    refuse(HSC_EFORMAT, "{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype");
    refuse(HSC_EFORMAT, "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape");
    refuse(HSC_EFORMAT, "{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets");
    refuse(HSC_EFORMAT, "{\"t\":[]}", 0, "not an object");
    refuse(HSC_EFORMAT, "{\"t\":null}", 0, "not an object");
    refuse(HSC_EFORMAT, "{" ENTRY("\xff", 0, 4) "}", 4, "not valid JSON");
    refuse(HSC_EFORMAT, "{" ENTRY("a\\u0000b", 0, 4) "}", 4, "not valid JSON");
    refuse(HSC_EFORMAT, "{" ENTRY("a\\ud800", 0, 4) "}", 4, "not valid JSON");
    refuse(HSC_EFORMAT, "{\"__metadata__\":{\"a\":1}}", 0, "not a string");
    refuse(HSC_EFORMAT, "{\"__metadata__\":[]}", 0, "not an object");
    accept("{\"__metadata__\":{}}", 0);
    accept("{\"__metadata__\":null}", 0);
    accept("{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":[1,{}]}}", 4);
}

/* The values that a set hands out, from the definition of the format. */
static void test_values(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"
                                 "\"\\u0061\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
    const int16_t a[2] = {-1, 300};
    const float f[2] = {1.5f, -2.0f};
    bytes b = {0};
    put_u64(&b, sizeof header - 1);
    put_text(&b, header);
    put(&b, a, sizeof a);
    put(&b, f, sizeof f);
    hsc__tensors *set;
    hsc_error err = {0};
    assert_int_equal(hsc__safetensors_parse(&set, b.data, b.n, "m.safetensors", &err), HSC_OK);
    assert_int_equal(hsc__tensors_count(set), 2);
    assert_string_equal(hsc__tensors_at(set, 0)->name, "a"); /* in the order of the data */
    assert_null(hsc__tensors_at(set, 2));
    assert_null(hsc__tensors_find(set, "c"));
    const hsc__tensor *t = hsc__tensors_find(set, "b");
    assert_int_equal(t->dtype, HSC_F32);
    assert_string_equal(t->dtype_name, "F32");
    assert_string_equal(t->path, "m.safetensors");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 1);
    assert_int_equal(t->n_elements, 2);
    assert_int_equal(t->n_bytes, 8);
    assert_memory_equal(t->data, f, sizeof f);
    assert_memory_equal(hsc__tensors_find(set, "a")->data, a, sizeof a);
    assert_string_equal(hsc__tensors_metadata(set, "format"), "pt");
    assert_string_equal(hsc__tensors_metadata(set, "x"), "");
    assert_null(hsc__tensors_metadata(set, "y"));
    hsc__tensors_close(set);
    bytes_free(&b);
}

/* Files that are something else are named as what they are (B57). */
static void test_other_content(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
        hsc_status code;
    } cases[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer", HSC_EFORMAT},
        {"PK\x03\x04 a zip as torch.save makes it", "pickled", HSC_EUNSUPPORTED},
        {"\x80\x02}q an old pickle", "pickled", HSC_EUNSUPPORTED},
        {"<!DOCTYPE html><html>not found</html>", "web page", HSC_EFORMAT},
        {"GGUF\x03", "GGUF", HSC_EFORMAT},
    };
    hsc_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &err), cases[i].code);
        assert_non_null(strstr(err.message, cases[i].says));
    }
}

static void test_paths(void **state) /* B57 */
{
    (void)state;
    hsc__tensors *set;
    hsc_error err = {0};
    assert_int_equal(hsc__safetensors_open(&set, "/no/such/file.safetensors", &err), HSC_ENOTFOUND);
    assert_non_null(strstr(err.message, "/no/such/file.safetensors"));
    assert_null(set);
    assert_int_equal(hsc__safetensors_open(&set, "/", &err), HSC_EIO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(hsc__safetensors_open(&set, "/no/such/file.safetensors", NULL), HSC_ENOTFOUND);
    assert_int_equal(hsc__safetensors_parse(&set, "", 0, "x", NULL), HSC_EFORMAT);
    hsc__tensors_close(NULL);
}

/* Many tensors: each is found, and none but they. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 5000 };
    bytes b = {0};
    char entry[128];
    put_text(&b, "{");
    for (int i = 0; i < N; i++) {
        snprintf(entry, sizeof entry,
                 "%s\"layers.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", i, i,
                 i + 1);
        put_text(&b, entry);
    }
    put_text(&b, "}");
    bytes file = {0};
    put_u64(&file, b.n);
    put(&file, b.data, b.n);
    for (int i = 0; i < N; i++) put(&file, &(unsigned char){(unsigned char)i}, 1);
    hsc__tensors *set;
    hsc_error err = {0};
    assert_int_equal(hsc__safetensors_parse(&set, file.data, file.n, "x", &err), HSC_OK);
    for (int i = 0; i < N; i++) {
        snprintf(entry, sizeof entry, "layers.%d.weight", i);
        const hsc__tensor *t = hsc__tensors_find(set, entry);
        assert_non_null(t);
        assert_int_equal(*(const unsigned char *)t->data, i & 0xff);
        snprintf(entry, sizeof entry, "layers.%d.weigh", i);
        assert_null(hsc__tensors_find(set, entry));
    }
    hsc__tensors_close(set);
    bytes_free(&file);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest), cmocka_unit_test(test_header_length), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_layout),        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_other_content), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_many),
    };
    return finish(cmocka_run_group_tests(tests, NULL, NULL));
}
