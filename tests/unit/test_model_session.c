/*
 * What a session refuses and says, what it leaves behind when it fails (nothing), observers that edit or stop, and
 * allocations that fail one after the other.
 */
#include "failing_alloc.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static hsc_model *open_tiny(tiny_model *t, void (*make)(tiny_model *))
{
    hsc_model *m;
    hsc_error err = {0};
    make(t);
    if (hsc_model_open(&m, t->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return m;
}

static void assert_refused(hsc_status status, hsc_status expected, const hsc_error *err, const char *part)
{
    assert_int_equal(status, expected);
    if (!strstr(err->message, part)) fail_msg("\"%s\" does not say \"%s\"", err->message, part);
}

static void test_limits(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m = open_tiny(&t, tiny_gpt2);
    hsc_session *s;
    hsc_error err = {0};
    hsc_token ids[TINY_CTX + 1] = {0};
    assert_int_equal(hsc_session_new(&s, m, NULL, &err), HSC_OK);
    hsc_batch b = {.ids = ids, .n_tokens = TINY_CTX + 1};
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "81 tokens, the model's context is 80");
    b.n_tokens = 0;
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "no tokens");
    ids[3] = TINY_VOCAB;
    b.n_tokens = 8;
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "token id 97 at index 3");
    ids[3] = -1;
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "token id -1");
    ids[3] = 0;
    b.n_tokens = TINY_CTX; /* exactly the context is legal */
    assert_int_equal(hsc_forward(s, &b, &err), HSC_OK);
    b.n_tokens = 1;
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "context is 80");
    assert_int_equal(hsc_session_length(s, 0), TINY_CTX);
    b.n_seqs = 2;
    b.seq_lengths = (const int[]){1, 1};
    b.n_tokens = 2;
    assert_refused(hsc_forward(s, &b, &err), HSC_EINVAL, &err, "2 sequences");
    assert_refused(hsc_session_truncate(s, 1, 0, &err), HSC_EINVAL, &err, "sequence 1");
    assert_refused(hsc_session_truncate(s, 0, 81, &err), HSC_EINVAL, &err, "cannot be cut");
    assert_refused(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 3, -1, -1}, &err), HSC_EINVAL, &err, "layer 3");
    assert_refused(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 0, 3, -1}, &err), HSC_EINVAL, &err, "head 3");
    assert_refused(hsc_session_record(s, &(hsc_record){HSC_ROT_Q, 0, -1, -1}, &err), HSC_EINVAL, &err, "rot_q");
    hsc_view v;
    assert_refused(hsc_session_activation(s, HSC_Z, 0, 0, &v, &err), HSC_ENOTFOUND, &err, "was not recorded");
    hsc_session_free(s);
    hsc_session_options o = {.max_tokens = 81};
    assert_refused(hsc_session_new(&s, m, &o, &err), HSC_EINVAL, &err, "context is 80");
    assert_null(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

/* A record narrowed to one head and one query row holds that row. */
static void test_narrowed_record(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m = open_tiny(&t, tiny_llama);
    hsc_session *s;
    hsc_token ids[20];
    float row[20];
    hsc_view v;
    for (int i = 0; i < 20; i++) ids[i] = i * 3;
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 20}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 1, 0, &v, NULL), HSC_OK);
    memcpy(row, v.data + (2 * 20 + 17) * 20, sizeof row);
    hsc_session_record_clear(s);
    hsc_session_reset(s);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 1, 2, 17}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 20}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 1, 0, &v, NULL), HSC_OK);
    assert_true(v.shape[0] == 1 && v.shape[1] == 1 && v.shape[2] == 20);
    assert_memory_equal(v.data, row, sizeof row);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

static int zero_head(void *user, const hsc_block *b)
{
    const int *head = user;
    int d = b->row_size / 3;
    for (int r = 0; r < b->n_rows; r++)
        for (int i = 0; i < d; i++) b->data[(size_t)r * b->stride + (size_t)(*head * d + i)] = 0;
    return 0;
}

static int stop(void *user, const hsc_block *b)
{
    (void)user, (void)b;
    return 1;
}

/* Zeroing z of all heads leaves W_O's bias alone; the other layers' cache is untouched by a pass that was stopped. */
static void test_observers(void **unused)
{
    (void)unused;
    tiny_model t;
    hsc_model *m = open_tiny(&t, tiny_gpt2);
    hsc_session *s;
    hsc_error err = {0};
    hsc_token ids[10] = {5, 4, 3, 2, 1, 0, 9, 8, 7, 6};
    int heads[3] = {0, 1, 2};
    hsc_view out, pre, mid;
    const float *bias = NULL;
    for (size_t i = 0; i < t.n; i++)
        if (strcmp(t.arrays[i].name, "transformer.h.1.attn.c_proj.bias") == 0) bias = t.arrays[i].data;
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    for (int h = 0; h < 3; h++)
        assert_int_equal(hsc_session_observe(s, &(hsc_observer){HSC_Z, 1, zero_head, &heads[h]}, NULL), HSC_OK);
    static const hsc_site sites[] = {HSC_ATTN_OUT, HSC_RESID_PRE, HSC_RESID_MID};
    for (int i = 0; i < 3; i++)
        assert_int_equal(hsc_session_record(s, &(hsc_record){sites[i], 1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 10}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_ATTN_OUT, 1, 0, &out, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_RESID_PRE, 1, 0, &pre, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_RESID_MID, 1, 0, &mid, NULL), HSC_OK);
    for (int r = 0; r < 10; r++)
        for (int i = 0; i < 48; i++) {
            assert_true(out.data[r * 48 + i] == bias[i]);
            assert_true(mid.data[r * 48 + i] == pre.data[r * 48 + i] + bias[i]);
        }
    hsc_session_observe_clear(s);
    assert_int_equal(hsc_session_observe(s, &(hsc_observer){HSC_PATTERN, 2, stop, NULL}, NULL), HSC_OK);
    hsc_status status = hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 10}, &err);
    assert_refused(status, HSC_ECANCELED, &err, "layer 2");
    assert_int_equal(hsc_session_length(s, 0), 10);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

/* The whole way from a folder to logits, with allocation 1, 2, 3, ... failing. */
static hsc_status whole_way(const char *dir, hsc_error *err)
{
    static const hsc_token ids[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    hsc_model *m = NULL;
    hsc_session *s = NULL;
    hsc_status status = hsc_model_open(&m, dir, NULL, err);
    if (status == HSC_OK)
        status = hsc_session_new(&s, m, &(hsc_session_options){.n_threads = 1, .max_tokens = 12}, err);
    if (status == HSC_OK) status = hsc_session_record(s, &(hsc_record){HSC_PATTERN, -1, -1, -1}, err);
    if (status == HSC_OK) status = hsc_session_record(s, &(hsc_record){HSC_Z, 1, -1, -1}, err);
    if (status == HSC_OK)
        status = hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 12, .logits = HSC_LOGITS_ALL}, err);
    hsc_session_free(s);
    hsc_model_close(m);
    return status;
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    tiny_model t;
    failing_alloc a;
    hsc_error err = {0};
    tiny_gpt2(&t);
    hsc_status status = HSC_ENOMEM;
    long n = 0;
    while (status != HSC_OK) {
        failing_alloc_install(&a, ++n);
        status = whole_way(t.dir, &err);
        failing_alloc_remove();
        assert_int_equal(a.held, 0);
        if (status != HSC_OK) assert_int_equal(status, HSC_ENOMEM);
        assert_true(n < 5000);
    }
    assert_true(n > 20);
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_narrowed_record),
                                       cmocka_unit_test(test_observers), cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
