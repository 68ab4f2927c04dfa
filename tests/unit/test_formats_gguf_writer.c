/* GGUF out: what is written reads back as it was put, byte for byte where a file is copied; places, padding, refusals.
 */
#include "test_formats_support.h"

#include "formats/gguf.h"
#include "formats/gguf_writer.h"

static const char *dir;

static const char *write_gguf(const char *name, const hsc__gguf_writer *w, const float *data, size_t n_tensors,
                              size_t n)
{
    const char *path = path_in(dir, name);
    hsc_error err = {0};
    hsc__sink sink = {fopen(path, "wb"), path, 0};
    assert_non_null(sink.stream);
    assert_int_equal(hsc__gguf_write_header(w, &sink, &err), HSC_OK);
    assert_int_equal(sink.at % 32, 0);
    for (size_t i = 0; i < n_tensors; i++) {
        assert_int_equal(hsc__sink_put(&sink, data, n * sizeof *data, &err), HSC_OK);
        assert_int_equal(hsc__gguf_write_padding(&sink, &err), HSC_OK);
    }
    assert_int_equal(fclose(sink.stream), 0);
    return path;
}

static void put_everything(hsc__gguf_writer *w)
{
    static const hsc__bytes words[3] = {{"one", 3}, {"", 0}, {"t\0o", 3}};
    static const int32_t ints[2] = {-5, 7};
    static const float floats[3] = {0.5f, -2, 1e-30f};
    hsc__gguf_put_string(w, "general.architecture", "none", 4);
    hsc__gguf_put_u32(w, "a.u32", 4000000000u);
    hsc__gguf_put_f32(w, "a.f32", 1e-5f);
    hsc__gguf_put_bool(w, "a.bool", true);
    hsc__gguf_put_strings(w, "a.strings", words, 3);
    hsc__gguf_put_ints(w, "a.ints", ints, 2);
    hsc__gguf_put_floats(w, "a.floats", floats, 3);
}

static void check_everything(const hsc__gguf *g)
{
    hsc_error err = {0};
    int64_t whole;
    double real;
    bool flag;
    const char *text;
    const hsc__bytes *words;
    const int32_t *ints;
    const float *floats;
    size_t n;
    assert_int_equal(hsc__gguf_get_cstring(g, "general.architecture", NULL, &text, &err), HSC_OK);
    assert_string_equal(text, "none");
    assert_int_equal(hsc__gguf_get_int(g, "a.u32", 0, 0, INT64_MAX, &whole, &err), HSC_OK);
    assert_true(whole == 4000000000);
    assert_int_equal(hsc__gguf_get_double(g, "a.f32", 0, &real, &err), HSC_OK);
    assert_true(real == (double)1e-5f);
    assert_int_equal(hsc__gguf_get_bool(g, "a.bool", false, &flag, &err), HSC_OK);
    assert_true(flag);
    assert_int_equal(hsc__gguf_get_strings(g, "a.strings", &words, &n, &err), HSC_OK);
    assert_int_equal(n, 3);
    assert_true(words[0].n == 3 && words[1].n == 0 && words[2].n == 3);
    assert_memory_equal(words[2].data, "t\0o", 3);
    assert_int_equal(hsc__gguf_get_ints(g, "a.ints", &ints, &n, &err), HSC_OK);
    assert_true(n == 2 && ints[0] == -5 && ints[1] == 7);
    assert_int_equal(hsc__gguf_get_floats(g, "a.floats", &floats, &n, &err), HSC_OK);
    assert_true(n == 3 && floats[0] == 0.5f && floats[1] == -2 && floats[2] == 1e-30f);
    assert_int_equal(hsc__gguf_n_kv(g), 7);
}

static hsc__gguf *open_gguf(const char *path)
{
    hsc_error err = {0};
    hsc__gguf *g;
    if (hsc__gguf_open(&g, path, &err) != HSC_OK) fail_msg("%s", err.message);
    return g;
}

static void test_there_and_back(void **state)
{
    (void)state;
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t shape[2] = {2, 3};
    hsc__gguf_writer w = {0};
    uint64_t n_bytes;
    put_everything(&w);
    assert_int_equal(hsc__gguf_add_tensor(&w, "first", "F32", 2, shape, &n_bytes, NULL), HSC_OK);
    assert_int_equal(n_bytes, sizeof data);
    assert_int_equal(hsc__gguf_add_tensor(&w, "second", "I32", 2, shape, &n_bytes, NULL), HSC_OK);
    hsc__gguf *g = open_gguf(write_gguf("a.gguf", &w, data, 2, 6));
    check_everything(g);
    const hsc__tensors *set = hsc__gguf_tensors(g);
    assert_int_equal(hsc__tensors_count(set), 2);
    const hsc__tensor *t = hsc__tensors_find(set, "second");
    assert_true(t->dtype == HSC_I32 && t->n_dims == 2 && t->shape[0] == 2 && t->shape[1] == 3);
    assert_memory_equal(t->data, data, sizeof data);
    assert_int_equal((const char *)t->data - (const char *)hsc__tensors_find(set, "first")->data, 32);
    hsc__gguf_close(g);
    hsc__gguf_writer_free(&w);
}

static bool skip_ints(const char *key)
{
    return strcmp(key, "a.ints") == 0;
}

/* All but one key copied, that one put anew at the end: the same values, and a file of the same length. */
static void test_copy(void **state)
{
    (void)state;
    static const int32_t ints[2] = {-5, 7};
    hsc__gguf_writer w = {0}, copy = {0};
    put_everything(&w);
    hsc__gguf *g = open_gguf(write_gguf("b.gguf", &w, NULL, 0, 0));
    hsc__gguf_put_all(&copy, g, skip_ints);
    assert_int_equal(copy.n_metadata, 6);
    hsc__gguf_put_ints(&copy, "a.ints", ints, 2);
    assert_int_equal(copy.metadata.n, w.metadata.n);
    hsc__gguf *again = open_gguf(write_gguf("c.gguf", &copy, NULL, 0, 0));
    check_everything(again);
    hsc__gguf_close(g);
    hsc__gguf_close(again);
    hsc__gguf_writer_free(&w);
    hsc__gguf_writer_free(&copy);
}

static void test_sizes_and_refusals(void **state)
{
    (void)state;
    static const int64_t blocks[2] = {3, 512}, odd[2] = {3, 500}, many[5] = {1, 1, 1, 1, 1};
    hsc__gguf_writer w = {0};
    hsc_error err = {0};
    uint64_t n_bytes;
    assert_int_equal(hsc__gguf_add_tensor(&w, "a", "Q4_K", 2, blocks, &n_bytes, &err), HSC_OK);
    assert_int_equal(n_bytes, 3 * 2 * 144);
    assert_int_equal(w.n_data % 32, 0);
    assert_true(w.n_data >= n_bytes && w.n_data < n_bytes + 32);
    assert_int_equal(hsc__gguf_add_tensor(&w, "b", "Q4_K", 2, odd, &n_bytes, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "b: its shape"));
    assert_int_equal(hsc__gguf_add_tensor(&w, "b", "Q9_Z", 2, blocks, &n_bytes, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "Q9_Z"));
    assert_int_equal(hsc__gguf_add_tensor(&w, "b", "F32", 5, many, &n_bytes, &err), HSC_EINVAL);
    assert_int_equal(w.n_tensors, 1);
    hsc__gguf_writer_free(&w);
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t k = 1;; k++) {
        hsc__gguf_writer w = {0};
        hsc_error err = {0};
        hsc__sink sink = {fopen("/dev/null", "wb"), "/dev/null", 0};
        counter_start(k);
        put_everything(&w);
        hsc_status status = hsc__gguf_write_header(&w, &sink, &err);
        bool failed_one = counter.n_calls >= k;
        hsc__gguf_writer_free(&w);
        counter_stop();
        fclose(sink.stream);
        assert_int_equal(status, failed_one ? HSC_ENOMEM : HSC_OK);
        if (!failed_one) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_copy),
                                       cmocka_unit_test(test_sizes_and_refusals), cmocka_unit_test(test_memory)};
    dir = new_folder();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(dir);
    return failed;
}
