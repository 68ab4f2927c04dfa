/* A Hugging Face folder: one file or shards, an index that is not to be trusted, and what is said when weights lack. */
#include "test_formats_support.h"

#include "formats/tensors.h"

/* A file with the named U8 tensors of one byte each, their values counting from `value`. */
static void write_shard(const char *dir, const char *file, const char *const *names, int n, int value)
{
    bytes header = {0}, b = {0};
    char entry[256];
    put_text(&header, "{");
    for (int i = 0; i < n; i++) {
        snprintf(entry, sizeof entry, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i ? "," : "", names[i], i, i + 1);
        put_text(&header, entry);
    }
    put_text(&header, "}");
    put_u64(&b, header.n);
    put(&b, header.data, header.n);
    for (int i = 0; i < n; i++) put(&b, &(unsigned char){(unsigned char)(value + i)}, 1);
    write_bytes(dir, file, &b);
    bytes_free(&header);
    bytes_free(&b);
}

static void write_index(const char *dir, const char *text)
{
    write_file(dir, "model.safetensors.index.json", text, strlen(text));
}

static void expect(const char *dir, hsc_status code, const char *why, size_t n_tensors)
{
    hsc__tensors *set;
    hsc_error err = {0};
    hsc_status status = hsc__safetensors_open_dir(&set, dir, &err);
    if (status != code || !strstr(err.message, why)) fail_msg("%s: status %d, message '%s'", why, status, err.message);
    if (status == HSC_OK) assert_int_equal(hsc__tensors_count(set), n_tensors);
    else assert_null(set);
    hsc__tensors_close(set);
}

#define INDEX(map) "{\"metadata\":{\"total_size\":4},\"weight_map\":" map "}"
static const char sound_index[] = INDEX("{\"a\":\"s1.safetensors\",\"c\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}");

static void write_sound(const char *dir)
{
    write_shard(dir, "s1.safetensors", (const char *const[]){"a", "b"}, 2, 1);
    write_shard(dir, "s2.safetensors", (const char *const[]){"c", "extra"}, 2, 10);
    write_index(dir, sound_index);
}

static void test_shards(void **state)
{
    (void)state;
    const char *dir = new_folder();
    write_sound(dir);
    hsc__tensors *set;
    hsc_error err = {0};
    if (hsc__safetensors_open_dir(&set, dir, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(hsc__tensors_count(set), 4);
    static const char *const order[] = {"a", "b", "c", "extra"};
    static const int values[] = {1, 2, 10, 11};
    for (size_t i = 0; i < 4; i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        assert_string_equal(t->name, order[i]);
        assert_int_equal(*(const unsigned char *)t->data, values[i]);
        assert_string_equal(t->path, path_in(dir, i < 2 ? "s1.safetensors" : "s2.safetensors"));
        assert_ptr_equal(hsc__tensors_find(set, order[i]), t);
    }
    hsc__tensors_close(set);

    write_shard(dir, "model.safetensors", (const char *const[]){"whole"}, 1, 0);
    expect(dir, HSC_OK, "", 1); /* one file goes before an index */
    remove_folder(dir);
}

static void test_broken_promises(void **state)
{
    (void)state;
    const char *dir = new_folder();
    write_sound(dir);
    unlink(path_in(dir, "s2.safetensors"));
    expect(dir, HSC_ENOTFOUND, "s2.safetensors", 0);
    expect(dir, HSC_ENOTFOUND, "shard 2 of 2 is missing", 0);
    write_shard(dir, "s2.safetensors", (const char *const[]){"d"}, 1, 0);
    expect(dir, HSC_EFORMAT, "'c' is said to be in s2.safetensors", 0);
    write_shard(dir, "s2.safetensors", (const char *const[]){"c", "a"}, 2, 0);
    expect(dir, HSC_EFORMAT, "'a' occurs twice", 0);
    write_shard(dir, "s2.safetensors", (const char *const[]){"b"}, 1, 0);
    write_shard(dir, "s1.safetensors", (const char *const[]){"a", "c"}, 2, 0);
    expect(dir, HSC_EFORMAT, "but that file does not hold it", 0);
    write_sound(dir);
    write_file(dir, "s2.safetensors", "\1\0\0\0\0\0\0\0{", 9);
    expect(dir, HSC_EFORMAT, "s2.safetensors", 0);
    remove_folder(dir);
}

static void test_index(void **state)
{
    (void)state;
    const char *dir = new_folder();
    write_sound(dir);
    static const char *const leaving[] = {INDEX("{\"a\":\"../s1.safetensors\"}"),
                                          INDEX("{\"a\":\"/etc/passwd\"}"),
                                          INDEX("{\"a\":\"sub/s1.safetensors\"}"),
                                          INDEX("{\"a\":\"..\"}"),
                                          INDEX("{\"a\":\".\"}"),
                                          INDEX("{\"a\":\"\"}"),
                                          INDEX("{\"a\":\"..\\\\s1.safetensors\"}")};
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++) {
        write_index(dir, leaving[i]);
        expect(dir, HSC_EFORMAT, "no plain file name", 0);
    }
    static const char *const damaged[][2] = {{INDEX("{\"a\":1}"), "does not name a file"},
                                             {INDEX("{}"), "missing or empty"},
                                             {INDEX("[]"), "missing or empty"},
                                             {"{}", "missing or empty"},
                                             {"[]", "missing or empty"},
                                             {"", "is empty"},
                                             {INDEX("{\"a\":\"s1\",\"a\":\"s1\"}"), "duplicate"},
                                             {INDEX("{\"a\\u0000\":\"s1\"}"), "not valid JSON"},
                                             {INDEX("{\"a\":\"s1\\u0000\"}"), "not valid JSON"},
                                             {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        write_index(dir, damaged[i][0]);
        expect(dir, HSC_EFORMAT, damaged[i][1], 0);
        expect(dir, HSC_EFORMAT, "model.safetensors.index.json", 0);
    }
    remove_folder(dir);
}

static void test_no_weights(void **state) /* B57 */
{
    (void)state;
    const char *dir = new_folder();
    expect(dir, HSC_ENOTFOUND, dir, 0);
    expect(dir, HSC_ENOTFOUND, "has neither model.safetensors nor model.safetensors.index.json", 0);
    expect(path_in(dir, "absent"), HSC_ENOTFOUND, "absent", 0);
    write_file(dir, "pytorch_model.bin", "PK\x03\x04", 4);
    expect(dir, HSC_EUNSUPPORTED, "save_pretrained", 0);
    expect(dir, HSC_EUNSUPPORTED, "pytorch_model.bin", 0);
    expect(path_in(dir, "pytorch_model.bin"), HSC_ENOTFOUND, "pytorch_model.bin", 0);
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n";
    write_file(dir, "model.safetensors", pointer, sizeof pointer - 1);
    expect(dir, HSC_EFORMAT, "Git LFS pointer", 0);
    unlink(path_in(dir, "model.safetensors"));
    assert_int_equal(mkdir(path_in(dir, "model.safetensors"), 0700), 0);
    expect(dir, HSC_EIO, "is a directory", 0);
    remove_folder(dir);
}

static void test_names_of_folders(void **state) /* B57 */
{
    (void)state;
    const char *dir = new_folder();
    char inner[1100];
    snprintf(inner, sizeof inner, "%s", path_in(dir, "\xd0\xbc\xd0\xbe\xd0\xb9 \xd0\xbc"));
    assert_int_equal(mkdir(inner, 0700), 0);
    snprintf(inner, sizeof inner, "%s", path_in(inner, "\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac"));
    assert_int_equal(mkdir(inner, 0700), 0);
    write_sound(inner);
    expect(inner, HSC_OK, "", 4);
    expect(path_in(inner, ""), HSC_OK, "", 4); /* with a slash at the end */
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards),     cmocka_unit_test(test_broken_promises),  cmocka_unit_test(test_index),
        cmocka_unit_test(test_no_weights), cmocka_unit_test(test_names_of_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
