/* Arrays out and back in: safetensors through the reader, npy and npz by the definitions of their fields; what may not
 * be written; a full disk. */
#include "test_formats_support.h"

#include "formats/tensors.h"
#include "formats/zip.h"

static const float floats[6] = {1.5f, -2.0f, 0.0f, 3.25f, 1e-30f, -1e30f};
static const int32_t ints[3] = {1, -1, 2147483647};
static const float scalar[1] = {7.0f};

static const hsc_named_array arrays[] = {
    {"pattern.4", HSC_F32, 3, {1, 2, 3}, floats},          {"ids", HSC_I32, 1, {3}, ints},
    {"a \"name\" \\ \xc3\xa9\n", HSC_F32, 0, {0}, scalar}, {"empty", HSC_F32, 2, {0, 5}, NULL},
    {"resid_post.4.seq2", HSC_F32, 2, {3, 2}, floats},
};
enum { N_ARRAYS = sizeof arrays / sizeof *arrays };

static size_t size_of(const hsc_named_array *a)
{
    size_t n = 4;
    for (int i = 0; i < a->n_dims; i++) n *= (size_t)a->shape[i];
    return n;
}

static void must_write(const char *path, const hsc_named_array *list, size_t n)
{
    hsc_error err = {0};
    if (hsc_write_arrays(path, list, n, &err) != HSC_OK) fail_msg("%s", err.message);
}

static void test_safetensors(void **state)
{
    (void)state;
    const char *dir = new_folder();
    const char *path = path_in(dir, "out.safetensors");
    hsc__tensors *set;
    hsc_error err = {0};
    must_write(path, arrays, N_ARRAYS);
    if (hsc__safetensors_open(&set, path, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(hsc__tensors_count(set), N_ARRAYS);
    for (size_t i = 0; i < N_ARRAYS; i++) {
        const hsc__tensor *t = hsc__tensors_find(set, arrays[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, arrays[i].dtype);
        assert_int_equal(t->n_dims, arrays[i].n_dims);
        for (int k = 0; k < t->n_dims; k++) assert_int_equal(t->shape[k], arrays[i].shape[k]);
        assert_int_equal(t->n_bytes, size_of(&arrays[i]));
        if (t->n_bytes) assert_memory_equal(t->data, arrays[i].data, t->n_bytes);
        assert_int_equal((uintptr_t)t->data % 4, 0);
    }
    hsc__tensors_close(set);
    must_write(path, NULL, 0);
    assert_int_equal(hsc__safetensors_open(&set, path, &err), HSC_OK);
    assert_int_equal(hsc__tensors_count(set), 0);
    hsc__tensors_close(set);
    assert_int_equal(count_files(dir), 1);
    remove_folder(dir);
}

/* Checks that the bytes are a NumPy file with this dictionary and these data. */
static void check_npy(const unsigned char *data, size_t n, const char *dictionary, const hsc_named_array *a)
{
    assert_true(n >= 10 && memcmp(data, "\x93NUMPY\1\0", 8) == 0);
    size_t length = data[8] + 256u * data[9], start = 10 + length;
    assert_int_equal(start % 64, 0);
    assert_int_equal(n, start + size_of(a));
    assert_memory_equal(data + 10, dictionary, strlen(dictionary));
    for (size_t i = 10 + strlen(dictionary); i + 1 < start; i++) assert_int_equal(data[i], ' ');
    assert_int_equal(data[start - 1], '\n');
    if (size_of(a)) assert_memory_equal(data + start, a->data, size_of(a));
}

static const char *const dictionaries[N_ARRAYS] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }",
    "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
};

static void test_npy(void **state)
{
    (void)state;
    const char *dir = new_folder();
    const char *path = path_in(dir, "out.npy");
    for (size_t i = 0; i < N_ARRAYS; i++) {
        must_write(path, &arrays[i], 1);
        bytes b = read_bytes(path);
        check_npy(b.data, b.n, dictionaries[i], &arrays[i]);
        bytes_free(&b);
    }
    const hsc_named_array widest = {"w", HSC_F32, 4, {INT64_MAX, 0, INT64_MAX, INT64_MAX}, NULL};
    const hsc_named_array longest = {"w", HSC_F32, 4, {0, INT64_MAX, INT64_MAX, INT64_MAX}, NULL};
    hsc_error err = {0};
    assert_int_equal(hsc_write_arrays(path, &widest, 1, &err), HSC_OK);
    must_write(path, &longest, 1);
    bytes b = read_bytes(path);
    check_npy(b.data, b.n,
              "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807, "
              "9223372036854775807), }",
              &(hsc_named_array){.n_dims = 1});
    bytes_free(&b);
    remove_folder(dir);
}

static uint64_t get(const unsigned char *at, int width)
{
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static void test_npz(void **state)
{
    (void)state;
    const char *dir = new_folder();
    const char *path = path_in(dir, "out.npz");
    must_write(path, arrays, N_ARRAYS);
    bytes b = read_bytes(path);
    const unsigned char *end = b.data + b.n - 22;
    assert_int_equal(get(end, 4), 0x06054b50);
    assert_int_equal(get(end + 8, 2), N_ARRAYS);
    assert_int_equal(get(end + 10, 2), N_ARRAYS);
    assert_int_equal(get(end + 16, 4) + get(end + 12, 4), b.n - 22);
    const unsigned char *entry = b.data + get(end + 16, 4);
    for (size_t i = 0; i < N_ARRAYS; i++) {
        assert_int_equal(get(entry, 4), 0x02014b50);
        uint64_t crc = get(entry + 16, 4), size = get(entry + 24, 4), n_name = get(entry + 28, 2);
        const unsigned char *local = b.data + get(entry + 42, 4);
        assert_int_equal(get(entry + 20, 4), size);
        assert_int_equal(get(local, 4), 0x04034b50);
        assert_memory_equal(local + 6, entry + 8, 20); /* from the flags to the sizes they agree */
        assert_int_equal(get(local + 8, 2), 0);
        assert_int_equal(get(local + 26, 2), n_name);
        assert_int_equal(get(local + 28, 2), 0);
        assert_int_equal(n_name, strlen(arrays[i].name) + 4);
        assert_memory_equal(local + 30, arrays[i].name, n_name - 4);
        assert_memory_equal(local + 30 + n_name - 4, ".npy", 4);
        const unsigned char *data = local + 30 + n_name;
        check_npy(data, size, dictionaries[i], &arrays[i]);
        assert_int_equal(hsc__crc32(0, data, size), crc);
        entry += 46 + n_name;
    }
    assert_ptr_equal(entry, end);
    bytes_free(&b);
    remove_folder(dir);
}

/* More entries than 16 bits count: the 64-bit end record has the number. */
static void test_many_entries(void **state)
{
    (void)state;
    enum { N = 65535 };
    static hsc_named_array list[N];
    static char names[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "a%d", i);
        list[i] = (hsc_named_array){names[i], HSC_I32, 0, {0}, ints};
    }
    const char *dir = new_folder();
    must_write(path_in(dir, "out.npz"), list, N);
    bytes b = read_bytes(path_in(dir, "out.npz"));
    const unsigned char *end = b.data + b.n - 22, *locator = end - 20;
    assert_int_equal(get(end + 10, 2), 0xffff);
    assert_int_equal(get(locator, 4), 0x07064b50);
    const unsigned char *record = b.data + get(locator + 8, 8);
    assert_int_equal(get(record, 4), 0x06064b50);
    assert_ptr_equal(record + 12 + get(record + 4, 8), locator);
    assert_int_equal(get(record + 32, 8), N);
    assert_int_equal(get(b.data + get(record + 48, 8), 4), 0x02014b50);
    bytes_free(&b);
    remove_folder(dir);
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(hsc__crc32(0, "123456789", 9), 0xcbf43926); /* the check value of CRC-32 */
    assert_int_equal(hsc__crc32(hsc__crc32(0, "12345", 5), "6789", 4), 0xcbf43926);
    assert_int_equal(hsc__crc32(0, NULL, 0), 0);
}

static void refuse(const char *name, const hsc_named_array *list, size_t n, const char *why)
{
    const char *dir = new_folder();
    hsc_error err = {0};
    const char *path = path_in(dir, name);
    hsc_status status = hsc_write_arrays(path, list, n, &err);
    if (status != HSC_EINVAL || !strstr(err.message, why)) fail_msg("status %d, message '%s'", status, err.message);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(count_files(dir), 0);
    remove_folder(dir);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("out.txt", arrays, 1, ".safetensors, .npz or .npy");
    refuse("npz", arrays, 1, ".safetensors, .npz or .npy");
    refuse("out.npy", arrays, 2, "holds one array, 2 were given");
    refuse("out.npy", arrays, 0, "holds one array, 0 were given");
    static const hsc_named_array bad[] = {
        {NULL, HSC_F32, 0, {0}, floats},
        {"", HSC_F32, 0, {0}, floats},
        {"\xff", HSC_F32, 0, {0}, floats},
        {"__metadata__", HSC_F32, 0, {0}, floats},
        {"x", HSC_F16, 0, {0}, floats},
        {"x", HSC_OTHER, 0, {0}, floats},
        {"x", HSC_F32, 5, {1}, floats},
        {"x", HSC_F32, -1, {1}, floats},
        {"x", HSC_F32, 1, {-1}, floats},
        {"x", HSC_F32, 2, {INT64_MAX, 2}, floats},
        {"x", HSC_F32, 1, {INT64_MAX / 2}, floats},
        {"x", HSC_F32, 1, {1}, NULL},
    };
    static const char *const why[] = {"no name",      "0 bytes",       "UTF-8",    "reserves", "type F16", "type other",
                                      "5 dimensions", "-1 dimensions", "negative", "2^63",     "2^63",     "no data"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuse("out.safetensors", &bad[i], 1, why[i]);
        refuse("out.npz", &bad[i], 1, why[i]);
    }
    const hsc_named_array twice[] = {arrays[0], arrays[1], arrays[0]};
    refuse("out.npz", twice, 3, "array 2: has the name of another one: pattern.4");
    assert_int_equal(hsc_write_arrays(NULL, arrays, 1, NULL), HSC_EINVAL);
}

/* /dev/full through a link with the right ending: the reason is given, for small files at the end, for large at once.
 */
static void test_full_disk(void **state) /* B55 */
{
    (void)state;
    static const char *const names[] = {"full.safetensors", "full.npz", "full.npy"};
    const size_t n = 1 << 20;
    float *large = calloc(n, sizeof *large);
    assert_non_null(large);
    const hsc_named_array sizes[] = {{"small", HSC_F32, 1, {6}, floats}, {"large", HSC_F32, 1, {(int64_t)n}, large}};
    const char *dir = new_folder();
    for (size_t i = 0; i < 3; i++) {
        const char *path = path_in(dir, names[i]);
        if (access("/dev/full", W_OK) != 0 || symlink("/dev/full", path) != 0) {
            free(large);
            remove_folder(dir);
            skip();
        }
        for (size_t k = 0; k < 2; k++) {
            hsc_error err = {0};
            assert_int_equal(hsc_write_arrays(path, &sizes[k], 1, &err), HSC_EIO);
            assert_non_null(strstr(err.message, "No space left on device"));
            assert_non_null(strstr(err.message, path));
        }
    }
    assert_int_equal(count_files(dir), 3);
    hsc_error err = {0};
    assert_int_not_equal(hsc_write_arrays(path_in(dir, "absent/out.npz"), sizes, 1, &err), HSC_OK);
    assert_non_null(strstr(err.message, "absent/out.npz"));
    free(large);
    remove_folder(dir);
}

/* What stood there before is whole until the new file is. */
static void test_replaces(void **state)
{
    (void)state;
    const char *dir = new_folder();
    const char *path = path_in(dir, "out.npy");
    must_write(path, &arrays[0], 1);
    must_write(path, &arrays[1], 1);
    bytes b = read_bytes(path);
    check_npy(b.data, b.n, dictionaries[1], &arrays[1]);
    bytes_free(&b);
    assert_int_equal(count_files(dir), 1);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),  cmocka_unit_test(test_npy),      cmocka_unit_test(test_npz),
        cmocka_unit_test(test_many_entries), cmocka_unit_test(test_crc),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_replaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
