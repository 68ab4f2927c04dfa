/* GGUF: the manifest, the headers that broke other readers, metadata getters, split models, files cut and flipped. */
#include "test_formats_support.h"

#include "formats/gguf.h"

#include <math.h>

/* Calls every getter on every key and reads every byte of every tensor, so that a wrong pointer is seen. */
static unsigned touch(const hsc__gguf *gguf)
{
    unsigned sum = 0;
    const hsc__tensors *set = hsc__gguf_tensors(gguf);
    for (size_t i = 0; i < hsc__tensors_count(set); i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        assert_ptr_equal(hsc__tensors_find(set, t->name), t);
        for (uint64_t k = 0; k < t->n_bytes; k++) sum += ((const unsigned char *)t->data)[k];
    }
    for (size_t i = 0; i < hsc__gguf_n_kv(gguf); i++) {
        const char *key, *type, *text;
        char value[24];
        int64_t whole;
        double real;
        bool truth;
        hsc__bytes string;
        const hsc__bytes *strings;
        const int32_t *ints;
        const float *floats;
        size_t n;
        assert_int_equal(hsc__gguf_describe(gguf, i, &key, &type, value, sizeof value), HSC_OK);
        assert_true(strlen(value) < sizeof value);
        assert_true(hsc__gguf_has(gguf, key));
        (void)hsc__gguf_get_int(gguf, key, 0, -5, 5, &whole, NULL);
        (void)hsc__gguf_get_double(gguf, key, 0, &real, NULL);
        (void)hsc__gguf_get_bool(gguf, key, false, &truth, NULL);
        if (hsc__gguf_get_string(gguf, key, &string, NULL) == HSC_OK)
            for (size_t k = 0; k < string.n; k++) sum += (unsigned char)string.data[k];
        if (hsc__gguf_get_cstring(gguf, key, "", &text, NULL) == HSC_OK) sum += (unsigned)strlen(text);
        if (hsc__gguf_get_strings(gguf, key, &strings, &n, NULL) == HSC_OK)
            for (size_t k = 0; k < n; k++) sum += strings[k].n ? (unsigned char)strings[k].data[strings[k].n - 1] : 0;
        if (hsc__gguf_get_ints(gguf, key, &ints, &n, NULL) == HSC_OK)
            for (size_t k = 0; k < n; k++) sum += (unsigned)ints[k];
        if (hsc__gguf_get_floats(gguf, key, &floats, &n, NULL) == HSC_OK)
            for (size_t k = 0; k < n; k++) sum += floats[k] > 0;
    }
    return sum;
}

static hsc_status parse(const void *data, size_t n, hsc_error *err)
{
    hsc__gguf *gguf;
    void *block = exact(data, n);
    *err = (hsc_error){0};
    counter_start(0);
    hsc_status status = hsc__gguf_parse(&gguf, block, n, "t.gguf", err);
    if (status == HSC_OK) touch(gguf);
    else assert_null(gguf);
    hsc__gguf_close(gguf);
    counter_stop();
    free(block);
    assert_true(counter.peak < (size_t)256 * 1024 + 64 * n); /* nothing is allocated for what the file only claims */
    assert_int_equal(err->code, status);
    if (status != HSC_OK) assert_non_null(strstr(err->message, "t.gguf"));
    return status;
}

static void visit_manifest(const char *path, bool sound)
{
    hsc__gguf *gguf;
    hsc_error err = {0};
    hsc_status status = hsc__gguf_open(&gguf, path, &err);
    if (sound != (status == HSC_OK)) fail_msg("%s: status %d: %s", path, status, err.message);
    if (status == HSC_OK) touch(gguf);
    else assert_non_null(strstr(err.message, path));
    hsc__gguf_close(gguf);

    bytes b = read_bytes(path);
    assert_int_equal(parse(b.data, b.n, &err), status);
    if (sound) each_damage(&b, parse);
    bytes_free(&b);
}

static void test_manifest(void **state)
{
    (void)state;
    if (!formats_folder()) skip();
    assert_true(each_manifest_file("gguf/", visit_manifest) >= 40);
}

static void put_header(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    put_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}

static void put_kv_u32(bytes *b, const char *key, uint32_t value)
{
    put_string(b, key);
    put_u32(b, 4);
    put_u32(b, value);
}

static void put_tensor(bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset)
{
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 8; i++) put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

static void put_padding(bytes *b, size_t alignment)
{
    while (b->n % alignment) put_zeros(b, 1);
}

/* The bytes get this status and a message that says why; they are freed. */
static void expect(bytes *b, hsc_status code, const char *why)
{
    hsc_error err;
    hsc_status status = parse(b->data, b->n, &err);
    if (status != code || !strstr(err.message, why)) fail_msg("%s: status %d, message '%s'", why, status, err.message);
    bytes_free(b);
}

static void test_alignment(void **state) /* B35 */
{
    (void)state;
    const uint32_t bad[] = {0, 3, 4, 13, 0x80000000u, 0xffffffffu, 1 << 21};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes b = {0};
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, "general.alignment", bad[i]);
        assert_int_equal(b.n, 57);
        expect(&b, HSC_EFORMAT, "power of two");
    }
    bytes b = {0};
    put_header(&b, 3, 0, 1);
    put_string(&b, "general.alignment");
    put_u32(&b, 8);
    put_string(&b, "32");
    expect(&b, HSC_EFORMAT, "not a 32-bit unsigned integer");
    put_header(&b, 3, 0, 1);
    put_string(&b, "general.alignment");
    put_u32(&b, 10);
    put_u64(&b, 32);
    expect(&b, HSC_EFORMAT, "not a 32-bit unsigned integer");
    for (uint32_t good = 8; good <= 1 << 20; good *= 2) {
        put_header(&b, 2, 0, 1);
        put_kv_u32(&b, "general.alignment", good);
        expect(&b, HSC_OK, "");
    }
}

/* One tensor, its data all there unless it is big. */
static void expect_tensor(const char *name, uint32_t n_dims, uint64_t d0, uint64_t d1, uint32_t type, uint64_t offset,
                          size_t n_data, hsc_status code, const char *why)
{
    bytes b = {0};
    const uint64_t dims[8] = {d0, d1, 1, 1, 1, 1, 1, 1};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, name, n_dims, dims, type, offset);
    put_padding(&b, 32);
    put_zeros(&b, n_data);
    expect(&b, code, why);
}

static void test_tensor_infos(void **state) /* B37 */
{
    (void)state;
    expect_tensor("t", 2, (uint64_t)1 << 32, (uint64_t)1 << 32, 0, 0, 64, HSC_EFORMAT, "2^63");
    expect_tensor("t", 1, (uint64_t)1 << 62, 1, 0, 0, 64, HSC_EFORMAT, "2^63");
    expect_tensor("t", 1, (uint64_t)1 << 63, 1, 0, 0, 64, HSC_EFORMAT, "positive");
    expect_tensor("t", 2, 1, 0, 0, 0, 64, HSC_EFORMAT, "positive");
    expect_tensor("t", 5, 1, 1, 0, 0, 64, HSC_EFORMAT, "5 dimensions");
    expect_tensor("t", 0xffffffffu, 1, 1, 0, 0, 64, HSC_EFORMAT, "4294967295 dimensions");
    expect_tensor("t", 1, 1, 1, 255, 0, 64, HSC_EUNSUPPORTED, "type 255");
    expect_tensor("t", 1, 1, 1, 4, 0, 64, HSC_EUNSUPPORTED, "type 4");
    expect_tensor("t", 1, 1, 1, 0xffffffffu, 0, 64, HSC_EUNSUPPORTED, "type 4294967295");
    expect_tensor("t", 1, 1, 1, 0, UINT64_MAX - 31, 64, HSC_EFORMAT, "64 bytes of data");
    expect_tensor("t", 1, 8, 1, 0, UINT64_MAX - 31, 64, HSC_EFORMAT, "64 bytes of data"); /* the sum wraps to 0 */
    expect_tensor("t", 1, 1, 1, 0, 64, 64, HSC_EFORMAT, "64 bytes of data");
    expect_tensor("t", 1, 1, 1, 0, 1, 64, HSC_EFORMAT, "no multiple of 32");
    expect_tensor("t", 1, 1000, 1, 0, 0, 0, HSC_EFORMAT, "4000 bytes");
    expect_tensor("t", 1, 33, 1, 2, 0, 64, HSC_EFORMAT, "33 values");
    expect_tensor("t", 0, 1, 1, 2, 0, 64, HSC_EFORMAT, "1 values");
    expect_tensor("", 1, 1, 1, 0, 0, 64, HSC_EFORMAT, "0 bytes long");
    expect_tensor("\xff", 1, 1, 1, 0, 0, 64, HSC_EFORMAT, "UTF-8");
    char longest[100001];
    memset(longest, 'n', 100000);
    longest[100000] = '\0';
    expect_tensor(longest, 1, 1, 1, 0, 0, 64, HSC_EFORMAT, "100000 bytes long");
    expect_tensor("t", 0, 1, 1, 0, 0, 4, HSC_OK, "");
    expect_tensor("t", 4, 1, 1, 0, 0, 4, HSC_OK, "");
    expect_tensor("t", 1, 32, 1, 2, 0, 18, HSC_OK, "");
    expect_tensor("t", 1, 32, 1, 2, 0, 17, HSC_EFORMAT, "18 bytes");
    expect_tensor("t", 1, 32, 1, 2, 32, 50, HSC_OK, "");
}

/* The data start at a multiple of the file's own alignment. */
static void test_data_start(void **state)
{
    (void)state;
    for (uint32_t alignment = 8; alignment <= 4096; alignment *= 2) {
        bytes b = {0};
        hsc__gguf *g;
        hsc_error err = {0};
        const float values[2] = {1.5f, -2.5f};
        put_header(&b, 3, 1, 1);
        put_kv_u32(&b, "general.alignment", alignment);
        put_tensor(&b, "t", 1, (const uint64_t[]){2}, 0, alignment);
        put_padding(&b, alignment);
        put_zeros(&b, alignment);
        put(&b, values, sizeof values);
        if (hsc__gguf_parse(&g, b.data, b.n, "x", &err) != HSC_OK) fail_msg("%u: %s", (unsigned)alignment, err.message);
        assert_memory_equal(hsc__tensors_find(hsc__gguf_tensors(g), "t")->data, values, sizeof values);
        hsc__gguf_close(g);
        bytes_free(&b);
    }
}

static void test_two_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *second, *why;
        uint64_t at;
        hsc_status code;
    } cases[] = {{"t", "occurs twice", 32, HSC_EFORMAT},
                 {"u", "inside the one before it", 0, HSC_EFORMAT},
                 {"u", "", 32, HSC_OK},
                 {"u", "", 64, HSC_OK}};
    const uint64_t dims[1] = {8}; /* 32 bytes */
    for (int swap = 0; swap < 2; swap++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bytes b = {0};
            put_header(&b, 3, 2, 0);
            put_tensor(&b, swap ? cases[i].second : "t", 1, dims, 0, swap ? cases[i].at : 0);
            put_tensor(&b, swap ? "t" : cases[i].second, 1, dims, 0, swap ? 0 : cases[i].at);
            put_padding(&b, 32);
            put_zeros(&b, 96);
            expect(&b, cases[i].code, cases[i].why);
        }
    }
}

static void test_versions(void **state) /* B38 */
{
    (void)state;
    hsc_error err;
    assert_int_equal(parse("GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, &err), HSC_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "big-endian"));
    const uint32_t versions[] = {0, 1, 2, 3, 4, 0xffffffffu};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        bytes b = {0};
        put_header(&b, versions[i], 0, 0);
        bool good = versions[i] == 2 || versions[i] == 3;
        expect(&b, good ? HSC_OK : HSC_EUNSUPPORTED, good ? "" : "2 and 3 are supported");
    }
    assert_int_equal(parse("GGML", 4, &err), HSC_EFORMAT);
    assert_int_equal(parse("version https://git-lfs.github.com/spec/v1\n", 43, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "Git LFS"));
}

static void put_array(bytes *b, const char *key, uint32_t kind, uint64_t n)
{
    put_string(b, key);
    put_u32(b, 9);
    put_u32(b, kind);
    put_u64(b, n);
}

static void test_metadata_refusals(void **state)
{
    (void)state;
    bytes b = {0};
    put_header(&b, 3, 0, 2);
    put_kv_u32(&b, "k", 1);
    put_kv_u32(&b, "k", 1);
    expect(&b, HSC_EFORMAT, "'k': occurs twice");
    put_header(&b, 3, 0, 1);
    put_kv_u32(&b, "", 1);
    put_zeros(&b, 8);
    expect(&b, HSC_EFORMAT, "0 bytes long");
    put_header(&b, 3, 0, 1);
    put_u64(&b, UINT64_MAX - 31); /* from byte 32 on, so that the sum wraps to 0 */
    put_zeros(&b, 32);
    expect(&b, HSC_EFORMAT, "18446744073709551584 bytes at byte 32");
    put_header(&b, 3, 0, 1);
    put_kv_u32(&b, "\xc3", 1);
    expect(&b, HSC_EFORMAT, "not text");
    put_header(&b, 3, 0, 1);
    put_u64(&b, 2);
    put(&b, "a\0", 2);
    put_u32(&b, 4);
    put_u32(&b, 1);
    expect(&b, HSC_EFORMAT, "not text");
    put_header(&b, 3, 0, 1);
    put_string(&b, "k");
    put_u32(&b, 7);
    put(&b, "\2", 1);
    expect(&b, HSC_EFORMAT, "a bool is 2");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 7, 3);
    put(&b, "\1\0\7", 3);
    expect(&b, HSC_EFORMAT, "a bool is 7");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 9, 1);
    put_zeros(&b, 64);
    expect(&b, HSC_EUNSUPPORTED, "array of arrays");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 8, 3); /* two strings and too little for a third */
    put_string(&b, "one");
    put_string(&b, "a longer one, so that three lengths would fit");
    expect(&b, HSC_EFORMAT, "a string of the array");
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 12, ((uint64_t)1 << 61) + 1); /* times 8 wraps to 8 */
    put_zeros(&b, 64);
    expect(&b, HSC_EFORMAT, "2305843009213693953 elements");
}

static void test_getters(void **state)
{
    (void)state;
    bytes b = {0};
    const float third = 0.1f, inf = INFINITY;
    const double tenth = 0.1;
    put_header(&b, 3, 0, 10);
    put_kv_u32(&b, "u32", 4294967295u);
    put_string(&b, "u64");
    put_u32(&b, 10);
    put_u64(&b, UINT64_MAX);
    put_string(&b, "i8");
    put_u32(&b, 1);
    put(&b, "\x80", 1);
    put_string(&b, "f32");
    put_u32(&b, 6);
    put(&b, &third, 4);
    put_string(&b, "f64");
    put_u32(&b, 12);
    put(&b, &tenth, 8);
    put_string(&b, "inf");
    put_u32(&b, 6);
    put(&b, &inf, 4);
    put_string(&b, "nul");
    put_u32(&b, 8);
    put_u64(&b, 3);
    put(&b, "a\0b", 3);
    put_string(&b, "text");
    put_u32(&b, 8);
    put_string(&b, "h\xc3\xa9llo");
    put_array(&b, "u32s", 4, 2);
    put_u32(&b, 7);
    put_u32(&b, 0x80000000u);
    put_array(&b, "i16s", 3, 2);
    put(&b, "\xff\xff\x00\x80", 4);
    hsc__gguf *g;
    hsc_error err = {0};
    int64_t whole;
    double real;
    bool truth;
    hsc__bytes string;
    const char *text, *again;
    const int32_t *ints;
    size_t n;
    if (hsc__gguf_parse(&g, b.data, b.n, "g.gguf", &err) != HSC_OK) fail_msg("%s", err.message);
    assert_string_equal(hsc__gguf_path(g), "g.gguf");
    assert_int_equal(hsc__gguf_get_int(g, "u32", 0, 0, INT64_MAX, &whole, &err), HSC_OK);
    assert_true(whole == 4294967295);
    assert_int_equal(hsc__gguf_get_int(g, "u32", 0, 0, 100, &whole, &err), HSC_EFORMAT);
    assert_string_equal(err.message, "g.gguf: 'u32' is 4294967295, it must be from 0 to 100");
    assert_int_equal(hsc__gguf_get_int(g, "u64", 0, INT64_MIN, INT64_MAX, &whole, &err), HSC_EFORMAT);
    assert_int_equal(hsc__gguf_get_int(g, "i8", 0, -128, 0, &whole, &err), HSC_OK);
    assert_true(whole == -128);
    assert_int_equal(hsc__gguf_get_int(g, "f32", 0, 0, 1, &whole, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "'f32' is of type f32, an integer is expected"));
    assert_int_equal(hsc__gguf_get_int(g, "none", 42, 0, 1, &whole, &err), HSC_OK);
    assert_true(whole == 42);
    assert_int_equal(hsc__gguf_get_double(g, "f32", 0, &real, &err), HSC_OK);
    assert_true(real == (double)0.1f);
    assert_int_equal(hsc__gguf_get_double(g, "f64", 0, &real, &err), HSC_OK);
    assert_true(real == 0.1);
    assert_int_equal(hsc__gguf_get_double(g, "i8", 0, &real, &err), HSC_OK);
    assert_true(real == -128);
    assert_int_equal(hsc__gguf_get_double(g, "inf", 3, &real, &err), HSC_EFORMAT);
    assert_true(real == 3);
    assert_int_equal(hsc__gguf_get_double(g, "text", 3, &real, &err), HSC_EFORMAT);
    assert_int_equal(hsc__gguf_get_bool(g, "i8", true, &truth, &err), HSC_EFORMAT);
    assert_int_equal(hsc__gguf_get_bool(g, "none", true, &truth, &err), HSC_OK);
    assert_true(truth);
    assert_int_equal(hsc__gguf_get_string(g, "nul", &string, &err), HSC_OK);
    assert_int_equal(string.n, 3);
    assert_int_equal(hsc__gguf_get_cstring(g, "nul", "x", &text, &err), HSC_EFORMAT);
    assert_int_equal(hsc__gguf_get_cstring(g, "text", "x", &text, &err), HSC_OK);
    assert_string_equal(text, "h\xc3\xa9llo");
    assert_int_equal(hsc__gguf_get_cstring(g, "text", "x", &again, &err), HSC_OK);
    assert_ptr_equal(text, again);
    assert_int_equal(hsc__gguf_get_cstring(g, "none", "x", &text, &err), HSC_OK);
    assert_string_equal(text, "x");
    assert_int_equal(hsc__gguf_get_ints(g, "i16s", &ints, &n, &err), HSC_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ints[0], -1);
    assert_int_equal(ints[1], -32768);
    assert_int_equal(hsc__gguf_get_ints(g, "u32s", &ints, &n, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "element 1 is 2147483648"));
    assert_null(ints);
    assert_int_equal(hsc__gguf_get_ints(g, "text", &ints, &n, &err), HSC_EFORMAT);
    hsc__gguf_close(g);
    bytes_free(&b);
}

/* What the manifest's file of every kind holds, as its name and the format's definition say. */
static void test_all_kinds(void **state)
{
    (void)state;
    if (!formats_folder()) skip();
    char path[1100];
    snprintf(path, sizeof path, "%s/gguf/ok_all_kv_types.gguf", formats_folder());
    hsc__gguf *g;
    hsc_error err = {0};
    assert_int_equal(hsc__gguf_open(&g, path, &err), HSC_OK);
    static const char *const rows[][3] = {{"general.architecture", "string", "test"},
                                          {"k.u8", "u8", "255"},
                                          {"k.i8", "i8", "-1"},
                                          {"k.u16", "u16", "65535"},
                                          {"k.i16", "i16", "-2"},
                                          {"k.u32", "u32", "4294967295"},
                                          {"k.i32", "i32", "-3"},
                                          {"k.f32", "f32", "1.5"},
                                          {"k.bool", "bool", "true"},
                                          {"k.str", "string", "h\xc3\xa9llo"},
                                          {"k.u64", "u64", "18446744073709551615"},
                                          {"k.i64", "i64", "-4"},
                                          {"k.f64", "f64", "2.5"},
                                          {"k.arr_str", "string[]", "3 values"},
                                          {"k.arr_f32", "f32[]", "2 values"},
                                          {"k.arr_empty", "u32[]", "0 values"},
                                          {"k.arr_bool", "bool[]", "2 values"}};
    assert_int_equal(hsc__gguf_n_kv(g), sizeof rows / sizeof *rows);
    const char *key, *type;
    char value[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(hsc__gguf_describe(g, i, &key, &type, value, sizeof value), HSC_OK);
        assert_string_equal(key, rows[i][0]);
        assert_string_equal(type, rows[i][1]);
        assert_string_equal(value, rows[i][2]);
    }
    assert_int_equal(hsc__gguf_describe(g, 17, &key, &type, value, sizeof value), HSC_EINVAL);
    assert_int_equal(hsc__gguf_describe(g, 9, &key, &type, value, 6), HSC_OK);
    assert_string_equal(value, "h..."); /* cut at a whole character */
    const hsc__bytes *strings, *again;
    const float *floats;
    const int32_t *ints;
    size_t n;
    assert_int_equal(hsc__gguf_get_strings(g, "k.arr_str", &strings, &n, &err), HSC_OK);
    assert_int_equal(n, 3);
    assert_int_equal(strings[0].n, 1);
    assert_int_equal(strings[1].n, 0);
    assert_memory_equal(strings[2].data, "b", 1);
    assert_int_equal(hsc__gguf_get_strings(g, "k.arr_str", &again, &n, &err), HSC_OK);
    assert_ptr_equal(strings, again);
    assert_int_equal(hsc__gguf_get_strings(g, "k.arr_empty", &strings, &n, &err), HSC_OK);
    assert_int_equal(n, 0);
    assert_int_equal(hsc__gguf_get_strings(g, "k.arr_f32", &strings, &n, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "'k.arr_f32' is of type f32[]"));
    assert_int_equal(hsc__gguf_get_floats(g, "k.arr_f32", &floats, &n, &err), HSC_OK);
    assert_int_equal(n, 2);
    assert_true(floats[0] == 1.0f && floats[1] == 2.0f);
    assert_int_equal(hsc__gguf_get_ints(g, "k.arr_bool", &ints, &n, &err), HSC_OK);
    assert_true(n == 2 && ints[0] == 0 && ints[1] == 1);
    hsc__gguf_close(g);
}

/* Block sizes: bytes = elements / block * bytes a block, so a tensor of one block takes just that. */
static void test_types(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t number, block, size;
        hsc_dtype dtype;
    } types[] = {
        {"F32", 0, 1, 4, HSC_F32},
        {"F16", 1, 1, 2, HSC_F16},
        {"Q4_0", 2, 32, 2 + 16, HSC_Q4_0},
        {"Q4_1", 3, 32, 4 + 16, HSC_Q4_1},
        {"Q5_0", 6, 32, 2 + 4 + 16, HSC_Q5_0},
        {"Q5_1", 7, 32, 4 + 4 + 16, HSC_Q5_1},
        {"Q8_0", 8, 32, 2 + 32, HSC_Q8_0},
        {"Q8_1", 9, 32, 4 + 32, HSC_OTHER},
        {"Q2_K", 10, 256, 84, HSC_Q2_K},
        {"Q3_K", 11, 256, 110, HSC_Q3_K},
        {"Q4_K", 12, 256, 144, HSC_Q4_K},
        {"Q5_K", 13, 256, 176, HSC_Q5_K},
        {"Q6_K", 14, 256, 210, HSC_Q6_K},
        {"Q8_K", 15, 256, 292, HSC_OTHER},
        {"IQ2_XXS", 16, 256, 66, HSC_OTHER},
        {"IQ2_XS", 17, 256, 74, HSC_OTHER},
        {"IQ3_XXS", 18, 256, 98, HSC_OTHER},
        {"IQ1_S", 19, 256, 50, HSC_OTHER},
        {"IQ4_NL", 20, 32, 18, HSC_IQ4_NL},
        {"IQ3_S", 21, 256, 110, HSC_OTHER},
        {"IQ2_S", 22, 256, 82, HSC_OTHER},
        {"IQ4_XS", 23, 256, 136, HSC_IQ4_XS},
        {"I8", 24, 1, 1, HSC_I8},
        {"I16", 25, 1, 2, HSC_I16},
        {"I32", 26, 1, 4, HSC_I32},
        {"I64", 27, 1, 8, HSC_I64},
        {"F64", 28, 1, 8, HSC_F64},
        {"IQ1_M", 29, 256, 56, HSC_OTHER},
        {"BF16", 30, 1, 2, HSC_BF16},
        {"TQ1_0", 34, 256, 54, HSC_OTHER},
        {"TQ2_0", 35, 256, 66, HSC_OTHER},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bytes b = {0};
        const uint64_t dims[2] = {types[i].block, 3};
        put_header(&b, 3, 1, 0);
        put_tensor(&b, "t", 2, dims, types[i].number, 0);
        put_padding(&b, 32);
        put_zeros(&b, 3 * (size_t)types[i].size);
        hsc__gguf *g;
        hsc_error err = {0};
        if (hsc__gguf_parse(&g, b.data, b.n, "x", &err) != HSC_OK) fail_msg("%s: %s", types[i].name, err.message);
        const hsc__tensor *t = hsc__tensors_find(hsc__gguf_tensors(g), "t");
        assert_string_equal(t->dtype_name, types[i].name);
        assert_int_equal(t->dtype, types[i].dtype);
        assert_int_equal(t->n_bytes, 3 * types[i].size);
        assert_int_equal(t->n_elements, 3 * types[i].block);
        assert_int_equal(t->shape[0], 3); /* outermost first */
        assert_int_equal(t->shape[1], types[i].block);
        hsc__gguf_close(g);
        bytes_free(&b);
    }
}

/* A part of a split model with one tensor; total < 0: without split.tensors.count. */
static void write_part(const char *dir, const char *name, const char *tensor, uint32_t number, uint32_t count,
                       int total)
{
    bytes b = {0};
    const uint64_t dims[1] = {8};
    put_header(&b, 3, 1, total < 0 ? 2 : 3);
    put_string(&b, "split.no");
    put_u32(&b, 2);
    put(&b, &(uint16_t){(uint16_t)number}, 2);
    put_string(&b, "split.count");
    put_u32(&b, 2);
    put(&b, &(uint16_t){(uint16_t)count}, 2);
    if (total >= 0) put_kv_u32(&b, "split.tensors.count", (uint32_t)total);
    put_tensor(&b, tensor, 1, dims, 0, 0);
    put_padding(&b, 32);
    for (int i = 0; i < 8; i++) put(&b, &(float){(float)number}, 4);
    write_bytes(dir, name, &b);
    bytes_free(&b);
}

static void expect_open(const char *path, hsc_status code, const char *why, size_t n_tensors)
{
    hsc__gguf *g;
    hsc_error err = {0};
    hsc_status status = hsc__gguf_open(&g, path, &err);
    if (status != code || !strstr(err.message, why)) fail_msg("%s: status %d, message '%s'", path, status, err.message);
    if (status == HSC_OK) {
        touch(g);
        assert_int_equal(hsc__tensors_count(hsc__gguf_tensors(g)), n_tensors);
    }
    hsc__gguf_close(g);
}

static void test_splits(void **state) /* B38 */
{
    (void)state;
    const char *dir = new_folder();
    char first[1100], second[1100];
    snprintf(first, sizeof first, "%s/m-00001-of-00002.gguf", dir);
    snprintf(second, sizeof second, "%s/m-00002-of-00002.gguf", dir);
    write_part(dir, "m-00001-of-00002.gguf", "a", 0, 2, 2);
    expect_open(first, HSC_ENOTFOUND, "m-00002-of-00002.gguf", 0);
    expect_open(first, HSC_ENOTFOUND, "part 2 of 2 is missing", 0);
    write_part(dir, "m-00002-of-00002.gguf", "b", 1, 2, 2);
    expect_open(first, HSC_OK, "", 2);
    expect_open(second, HSC_EINVAL, "start with part 1", 0);
    expect_open(second, HSC_EINVAL, first, 0);

    hsc__gguf *g;
    hsc_error err = {0};
    assert_int_equal(hsc__gguf_open(&g, first, &err), HSC_OK);
    const hsc__tensor *b = hsc__tensors_find(hsc__gguf_tensors(g), "b");
    assert_string_equal(b->path, second);
    assert_true(*(const float *)b->data == 1.0f);
    hsc__gguf_close(g);

    write_part(dir, "m-00002-of-00002.gguf", "a", 1, 2, 2);
    expect_open(first, HSC_EFORMAT, "'a' occurs twice", 0);
    write_part(dir, "m-00002-of-00002.gguf", "b", 0, 2, 2);
    expect_open(first, HSC_EFORMAT, "split.no is 0", 0);
    write_part(dir, "m-00002-of-00002.gguf", "b", 1, 3, 2);
    expect_open(first, HSC_EFORMAT, "split.count 3", 0);
    write_part(dir, "m-00002-of-00002.gguf", "b", 1, 2, 2);
    write_part(dir, "m-00001-of-00002.gguf", "a", 0, 2, 3);
    expect_open(first, HSC_EFORMAT, "split.tensors.count is 3", 0);
    write_part(dir, "m-00001-of-00002.gguf", "a", 0, 2, -1);
    expect_open(first, HSC_OK, "", 2);
    write_part(dir, "m-00001-of-00001.gguf", "a", 0, 1, 1);
    expect_open(path_in(dir, "m-00001-of-00001.gguf"), HSC_OK, "", 1);
    write_part(dir, "renamed.gguf", "a", 0, 2, 2);
    expect_open(path_in(dir, "renamed.gguf"), HSC_EFORMAT, "-00001-of-00002.gguf", 0);
    write_part(dir, "m-00001-of-00002.gguf", "a", 5, 2, 2);
    expect_open(first, HSC_EFORMAT, "split.no is 5", 0);
    write_file(dir, "m-00002-of-00002.gguf", "GGUF", 4);
    write_part(dir, "m-00001-of-00002.gguf", "a", 0, 2, 2);
    expect_open(first, HSC_EFORMAT, second, 0);
    remove_folder(dir);
}

static void test_paths(void **state)
{
    (void)state;
    const char *dir = new_folder();
    write_file(dir, "x.gguf", "GGUF", 4);
    write_file(dir, "short", "GGU", 3);
    assert_true(hsc__gguf_is(path_in(dir, "x.gguf")));
    assert_false(hsc__gguf_is(path_in(dir, "short")));
    assert_false(hsc__gguf_is(path_in(dir, "absent")));
    assert_false(hsc__gguf_is(dir));
    expect_open(path_in(dir, "absent"), HSC_ENOTFOUND, "absent", 0);
    expect_open(dir, HSC_EIO, "directory", 0);
    hsc__gguf *g;
    assert_int_equal(hsc__gguf_open(&g, path_in(dir, "x.gguf"), NULL), HSC_EFORMAT);
    hsc__gguf_close(NULL);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_tensor_infos),
        cmocka_unit_test(test_data_start),
        cmocka_unit_test(test_two_tensors),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_metadata_refusals),
        cmocka_unit_test(test_getters),
        cmocka_unit_test(test_all_kinds),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_paths),
    };
    return finish(cmocka_run_group_tests(tests, NULL, NULL));
}
