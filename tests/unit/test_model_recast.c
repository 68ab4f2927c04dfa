/*
 * Weights converted when a model is opened: each row is what the kernels make of the file's row, whichever way the file
 * has it; in float32 the results are the same bits; what is told adds up; memory that runs out leaves nothing behind.
 */
#include "tiny_model.h"

#include "base/dtype.h"
#include "failing_alloc.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static hsc_model *open_model(const char *path, const hsc_model_options *options)
{
    hsc_model *m;
    hsc_error err = {0};
    if (hsc_model_open(&m, path, options, &err) != HSC_OK) fail_msg("%s", err.message);
    return m;
}

/* Output o of a weight as floats, read one element at a time. */
static void row_of(const hsc__weight *w, int o, float *out)
{
    if (!w->transposed) {
        hsc__weight_row(hsc__kernels_ref(), w, o, out);
        return;
    }
    for (int64_t k = 0; k < w->n_in; k++) {
        const char *at = (const char *)w->data + (size_t)k * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)o);
        hsc__kernels_ref()->dequantise(w->dtype, at, 1, out + k);
    }
}

static void check_weight(const hsc__weight *plain, const hsc__weight *cast, hsc_dtype dtype)
{
    float want[256], got[256];
    unsigned char stored[1024];
    assert_true(plain->n_in <= 256 && cast->n_in == plain->n_in && cast->n_out == plain->n_out);
    if (plain->n_in % hsc__dtype_block(dtype) != 0) {
        assert_int_equal(cast->dtype, plain->dtype);
        return;
    }
    assert_int_equal(cast->dtype, dtype);
    assert_false(cast->transposed);
    assert_true(cast->bias == plain->bias || memcmp(cast->bias, plain->bias, (size_t)cast->n_out * sizeof(float)) == 0);
    for (int o = 0; o < plain->n_out; o++) {
        row_of(plain, o, want);
        hsc__kernels_ref()->quantise(dtype, want, plain->n_in, stored);
        hsc__kernels_ref()->dequantise(dtype, stored, plain->n_in, want);
        row_of(cast, o, got);
        assert_memory_equal(got, want, (size_t)plain->n_in * sizeof *got);
    }
}

static void check_model(const char *path, hsc_dtype dtype, int n_threads)
{
    hsc_model *plain = open_model(path, NULL);
    hsc_model *cast = open_model(path, &(hsc_model_options){.recast = 1, .dtype = dtype, .n_threads = n_threads});
    for (int i = 0; i < plain->desc.config.n_layers; i++) {
        const hsc__layer *a = &plain->desc.layers[i], *b = &cast->desc.layers[i];
        check_weight(&a->w_q, &b->w_q, dtype);
        check_weight(&a->w_k, &b->w_k, dtype);
        check_weight(&a->w_v, &b->w_v, dtype);
        check_weight(&a->w_o, &b->w_o, dtype);
        check_weight(&a->w_in, &b->w_in, dtype);
        if (a->w_up.data) check_weight(&a->w_up, &b->w_up, dtype);
        check_weight(&a->w_out, &b->w_out, dtype);
    }
    check_weight(&plain->desc.unembed, &cast->desc.unembed, dtype);
    assert_int_equal(cast->desc.embed.dtype, HSC_F32);
    hsc_model_close(plain);
    hsc_model_close(cast);
}

static void test_rows(void **unused)
{
    (void)unused;
    static const hsc_dtype types[] = {HSC_BF16, HSC_F16, HSC_Q8_0};
    tiny_model gpt2, llama;
    tiny_gpt2(&gpt2);
    tiny_llama_of(&llama, (tiny_shape){64, 4, 2, 16, 96, 2, 80, true});
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        check_model(gpt2.dir, types[t], 1 + (int)t);
        check_model(llama.dir, types[t], 3);
    }
    tiny_remove(&gpt2);
    tiny_remove(&llama);
}

static void logits_of(hsc_model *m, float *out, size_t n)
{
    static const hsc_token ids[5] = {1, 5, 9, 2, 7};
    hsc_session *s;
    hsc_error err = {0};
    hsc_view view;
    assert_int_equal(hsc_session_new(&s, m, NULL, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 5}, &err), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &view, &err), HSC_OK);
    assert_true((size_t)view.shape[1] == n);
    memcpy(out, view.data, n * sizeof *out);
    hsc_session_free(s);
}

/* A quantised file in float32: exact, so the same bits. */
static void test_same_bits(void **unused)
{
    (void)unused;
    char path[4096];
    float plain_logits[64], cast_logits[64];
    const char *source = getenv("HEADSCOPE_SOURCE"), *files[] = {"llama-q8_0", "llama-q4_1"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/tests/golden/data/%s.gguf", source ? source : ".", files[i]);
        hsc_model *plain = open_model(path, NULL),
                  *cast = open_model(path, &(hsc_model_options){.recast = 1, .dtype = HSC_F32, .n_threads = 2});
        logits_of(plain, plain_logits, 64);
        logits_of(cast, cast_logits, 64);
        assert_memory_equal(cast_logits, plain_logits, sizeof cast_logits);
        hsc_recast told = hsc_model_recast(cast);
        assert_int_equal(told.n_matrices, 7 * hsc_model_config(cast)->n_layers + 1);
        assert_true(told.file_bytes < told.n_bytes);
        hsc_model_close(plain);
        hsc_model_close(cast);
    }
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* All values of a matrix, as they stand or sorted. To be freed. */
static float *values_of(const hsc__weight *w, bool sorted)
{
    size_t n = (size_t)w->n_out * (size_t)w->n_in;
    float *x = malloc(n * sizeof *x);
    for (int o = 0; o < w->n_out; o++) row_of(w, o, x + (size_t)o * (size_t)w->n_in);
    if (sorted) qsort(x, n, sizeof *x, by_value);
    return x;
}

static void check_values(const hsc__weight *a, const hsc__weight *b, bool sorted, bool same)
{
    float *x = values_of(a, sorted), *y = values_of(b, sorted);
    assert_int_equal(memcmp(x, y, (size_t)a->n_out * (size_t)a->n_in * sizeof *x) == 0, same);
    free(x);
    free(y);
}

/* A shuffled model has each matrix's own values, elsewhere; the seed alone decides where. */
static void test_shuffled(void **unused)
{
    (void)unused;
    tiny_model gpt2;
    tiny_gpt2(&gpt2);
    hsc_model *plain = open_model(gpt2.dir, NULL);
    hsc_model *x = open_model(gpt2.dir, &(hsc_model_options){.shuffle = 1, .shuffle_seed = 4, .n_threads = 1});
    hsc_model *y = open_model(gpt2.dir, &(hsc_model_options){.shuffle = 1, .shuffle_seed = 4, .n_threads = 3});
    hsc_model *z = open_model(gpt2.dir, &(hsc_model_options){.shuffle = 1, .shuffle_seed = 5});
    for (int i = 0; i < plain->desc.config.n_layers; i++) {
        const hsc__layer *a = &plain->desc.layers[i], *b = &x->desc.layers[i];
        const hsc__weight *from[] = {&a->w_q, &a->w_k, &a->w_v, &a->w_o, &a->w_in, &a->w_out};
        const hsc__weight *to[] = {&b->w_q, &b->w_k, &b->w_v, &b->w_o, &b->w_in, &b->w_out};
        for (int k = 0; k < 6; k++) {
            check_values(from[k], to[k], true, true);
            check_values(from[k], to[k], false, false);
        }
        check_values(&b->w_k, &y->desc.layers[i].w_k, false, true);
        check_values(&b->w_k, &z->desc.layers[i].w_k, false, false);
    }
    assert_true(plain->desc.embed.dtype == x->desc.embed.dtype);
    check_values(&plain->desc.embed, &x->desc.embed, false, true);
    hsc_model_close(plain);
    hsc_model_close(x);
    hsc_model_close(y);
    hsc_model_close(z);
    tiny_remove(&gpt2);
}

static void test_the_bill(void **unused)
{
    (void)unused;
    tiny_model gpt2;
    hsc_memory plain_memory, cast_memory;
    hsc_error err = {0};
    tiny_gpt2(&gpt2);
    hsc_model *plain = open_model(gpt2.dir, NULL),
              *same = open_model(gpt2.dir, &(hsc_model_options){.recast = 1, .dtype = HSC_F32});
    hsc_recast none = hsc_model_recast(plain);
    assert_true(none.n_matrices == 0 && none.n_bytes == 0 && none.file_bytes == 0 && none.n_kept == 0);
    none = hsc_model_recast(same);
    assert_true(none.n_matrices == 0 && none.n_bytes == 0);
    hsc_model_close(same);
    hsc_model *cast = open_model(gpt2.dir, &(hsc_model_options){.recast = 1, .dtype = HSC_Q8_0});
    hsc_recast told = hsc_model_recast(cast);
    /* Rows of 48 are no whole blocks; of each of 3 layers only the last matrix, 48 x 192, is converted. */
    assert_int_equal(told.n_matrices, 3);
    assert_int_equal(told.n_kept, 3 * 5 + 1);
    assert_int_equal(told.file_bytes, 3 * 48 * 192 * 4);
    assert_int_equal(told.n_bytes, 3 * 48 * 192 / 32 * 34);
    assert_int_equal(hsc_model_memory(plain, NULL, 10, &plain_memory, &err), HSC_OK);
    assert_int_equal(hsc_model_memory(cast, NULL, 10, &cast_memory, &err), HSC_OK);
    assert_int_equal(cast_memory.converted, told.n_bytes);
    assert_int_equal(cast_memory.weights, plain_memory.weights - told.file_bytes);
    hsc_model_close(plain);
    hsc_model_close(cast);
    hsc_model *refused;
    assert_int_equal(hsc_model_open(&refused, gpt2.dir, &(hsc_model_options){.recast = 1, .dtype = HSC_Q4_K}, &err),
                     HSC_EINVAL);
    assert_non_null(strstr(err.message, "Q4_K"));
    assert_null(refused);
    tiny_remove(&gpt2);
}

static void test_memory(void **unused)
{
    (void)unused;
    tiny_model gpt2;
    tiny_gpt2(&gpt2);
    for (long k = 1;; k++) {
        hsc_model *m;
        hsc_error err = {0};
        failing_alloc alloc;
        failing_alloc_install(&alloc, k);
        hsc_status status =
            hsc_model_open(&m, gpt2.dir, &(hsc_model_options){.recast = 1, .dtype = HSC_BF16, .n_threads = 2}, &err);
        bool failed_one = alloc.calls >= k;
        hsc_model_close(m);
        failing_alloc_remove();
        assert_int_equal(alloc.held, 0);
        if (!failed_one) break;
        if (status != HSC_OK) assert_int_equal(status, HSC_ENOMEM); /* a remark that does not fit is left out */
    }
    tiny_remove(&gpt2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_shuffled), cmocka_unit_test(test_the_bill),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
