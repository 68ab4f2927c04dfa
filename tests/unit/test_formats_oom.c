/* Memory runs out at the first allocation, the second, and so on until none fails: each time HSC_ENOMEM, a message,
 * nothing leaked, nothing half-written. What jansson and stdio allocate for themselves is outside the allocator. */
#include "test_formats_support.h"

#include "formats/gguf.h"

static const char *dir;

/* One whole use of the library, from open to close. */
typedef hsc_status (*use_fn)(hsc_error *err);

static void sweep(use_fn use)
{
    for (size_t k = 1;; k++) {
        hsc_error err = {0};
        size_t n_files = count_files(dir);
        counter_start(k);
        hsc_status status = use(&err);
        bool failed_one = counter.n_calls >= k;
        counter_stop();
        if (!failed_one) {
            if (status != HSC_OK) fail_msg("without a failure: %s", err.message);
            assert_true(k > 1);
            return;
        }
        if (status != HSC_ENOMEM) fail_msg("allocation %zu failed, status %d, message '%s'", k, status, err.message);
        assert_int_equal(err.code, HSC_ENOMEM);
        assert_non_null(strstr(err.message, "out of memory"));
        assert_int_equal(count_files(dir), n_files);
        assert_true(k < 1000);
    }
}

static hsc_status use_safetensors(hsc_error *err)
{
    hsc__tensors *set;
    hsc_status status = hsc__safetensors_open(&set, path_in(dir, "model.safetensors"), err);
    hsc__tensors_close(set);
    return status;
}

static hsc_status use_folder(hsc_error *err)
{
    hsc__tensors *set;
    hsc_status status = hsc__safetensors_open_dir(&set, path_in(dir, "shards"), err);
    hsc__tensors_close(set);
    return status;
}

static hsc_status use_json(hsc_error *err)
{
    json_t *json;
    hsc_status status = hsc__json_load(&json, path_in(dir, "shards/model.safetensors.index.json"), 1 << 20, err);
    json_decref(json);
    return status;
}

static hsc_status ask(const hsc__gguf *g, hsc_error *err)
{
    const char *text, *key, *type;
    char value[64];
    const hsc__bytes *strings;
    const int32_t *ints;
    const float *floats;
    size_t n;
    HSC_TRY(hsc__gguf_get_cstring(g, "text", NULL, &text, err));
    HSC_TRY(hsc__gguf_get_strings(g, "strings", &strings, &n, err));
    HSC_TRY(hsc__gguf_get_ints(g, "ints", &ints, &n, err));
    HSC_TRY(hsc__gguf_get_floats(g, "floats", &floats, &n, err));
    for (size_t i = 0; i < hsc__gguf_n_kv(g); i++) {
        hsc_status status = hsc__gguf_describe(g, i, &key, &type, value, sizeof value);
        if (status == HSC_ENOMEM) hsc__fail_memory(err, sizeof value, "a description");
        HSC_TRY(status);
    }
    return HSC_OK;
}

static hsc_status use_gguf(hsc_error *err)
{
    hsc__gguf *g;
    hsc_status status = hsc__gguf_open(&g, path_in(dir, "m-00001-of-00002.gguf"), err);
    if (status == HSC_OK) status = ask(g, err);
    hsc__gguf_close(g);
    return status;
}

static hsc_status write_named(const char *name, hsc_error *err)
{
    static const float data[2] = {1, 2};
    static const hsc_named_array list[] = {{"a", HSC_F32, 1, {2}, data}, {"b", HSC_F32, 0, {0}, data}};
    bool single = strstr(name, ".npy") != NULL;
    hsc_status status = hsc_write_arrays(path_in(dir, name), list, single ? 1 : 2, err);
    unlink(path_in(dir, name));
    return status;
}

static hsc_status use_write_safetensors(hsc_error *err)
{
    return write_named("out.safetensors", err);
}

static hsc_status use_write_npz(hsc_error *err)
{
    return write_named("out.npz", err);
}

static hsc_status use_write_npy(hsc_error *err)
{
    return write_named("out.npy", err);
}

static void put_gguf_array(bytes *b, const char *key, uint32_t kind, uint64_t n)
{
    put_string(b, key);
    put_u32(b, 9);
    put_u32(b, kind);
    put_u64(b, n);
}

static void write_gguf_part(const char *name, const char *tensor, uint32_t number)
{
    static const char *const keys[] = {"split.no", "split.count"};
    bytes b = {0};
    put_text(&b, "GGUF");
    put_u32(&b, 3);
    put_u64(&b, 1);
    put_u64(&b, 6);
    for (uint32_t i = 0; i < 2; i++) {
        put_string(&b, keys[i]);
        put_u32(&b, 4);
        put_u32(&b, i == 0 ? number : 2);
    }
    put_string(&b, "text");
    put_u32(&b, 8);
    put_string(&b, "some text");
    put_gguf_array(&b, "strings", 8, 5000); /* enough for blocks of their own */
    for (int i = 0; i < 5000; i++) put_string(&b, "x");
    put_gguf_array(&b, "ints", 4, 20000);
    put_zeros(&b, 80000);
    put_gguf_array(&b, "floats", 6, 20000);
    put_zeros(&b, 80000);
    put_string(&b, tensor);
    put_u32(&b, 1);
    put_u64(&b, 1);
    put_u32(&b, 0);
    put_u64(&b, 0);
    while (b.n % 32) put_zeros(&b, 1);
    put_zeros(&b, 4);
    write_bytes(dir, name, &b);
    bytes_free(&b);
}

static void write_safetensors(const char *name, const char *tensor)
{
    bytes b = {0};
    char header[256];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"format\":\"pt\"},\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
             tensor);
    put_string(&b, header);
    put_zeros(&b, 1);
    write_bytes(dir, name, &b);
    bytes_free(&b);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}";
    dir = new_folder();
    assert_int_equal(mkdir(path_in(dir, "shards"), 0700), 0);
    write_safetensors("model.safetensors", "t");
    write_safetensors("shards/1.safetensors", "a");
    write_safetensors("shards/2.safetensors", "b");
    write_file(dir, "shards/model.safetensors.index.json", index, sizeof index - 1);
    write_gguf_part("m-00001-of-00002.gguf", "a", 0);
    write_gguf_part("m-00002-of-00002.gguf", "b", 1);
    static const use_fn uses[] = {use_safetensors,       use_folder,    use_json,     use_gguf,
                                  use_write_safetensors, use_write_npz, use_write_npy};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) sweep(uses[i]);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
