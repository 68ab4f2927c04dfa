/* Sessions of a model whose tokens see each other: whole sequences, packed in any number, at any chunk, by themselves.
 */
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { N_SEQS = 5, D = 48 };
static const int lengths[N_SEQS] = {7, 80, 1, 33, 12};
static tiny_model files;
static hsc_model *model;
static hsc_token ids[133];
static int32_t segments[133];

static int set_up(void **state)
{
    (void)state;
    hsc_error err = {0};
    tiny_bert(&files);
    for (int i = 0; i < 133; i++) {
        ids[i] = (i * 37 + 5) % TINY_VOCAB;
        segments[i] = i % 3 == 0;
    }
    if (hsc_model_open(&model, files.dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hsc_model_close(model);
    tiny_remove(&files);
    return 0;
}

static hsc_session *session(int max_seqs, int chunk, int n_threads)
{
    hsc_session *s;
    hsc_error err = {0};
    hsc_session_options o = {.n_threads = n_threads, .max_seqs = max_seqs, .chunk = chunk};
    if (hsc_session_new(&s, model, &o, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_LN_FINAL, -1, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 2, -1, -1}, NULL), HSC_OK);
    return s;
}

/* What a pass left of a sequence at a site, compared with the same sequence alone. */
static void assert_same(hsc_session *a, int seq_a, hsc_session *b, int seq_b, hsc_site site)
{
    hsc_view x, y;
    assert_int_equal(hsc_session_activation(a, site, 2, seq_a, &x, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(b, site, 2, seq_b, &y, NULL), HSC_OK);
    size_t n = 1;
    assert_int_equal(x.n_dims, y.n_dims);
    for (int i = 0; i < x.n_dims; i++) {
        assert_int_equal(x.shape[i], y.shape[i]);
        n *= (size_t)x.shape[i];
    }
    assert_memory_equal(x.data, y.data, n * sizeof *x.data);
}

static void batches_equal_single_sequences(void **state)
{
    (void)state;
    static const int chunks[] = {0, 1, 50, 90};
    hsc_session *alone = session(1, 0, 1);
    for (int c = 0; c < 4; c++) {
        hsc_session *packed = session(N_SEQS, chunks[c], 2);
        for (int repeat = 0; repeat < 2; repeat++) { /* the second pass starts anew */
            hsc_batch batch = {.ids = ids,
                               .n_tokens = 133,
                               .seq_lengths = lengths,
                               .n_seqs = N_SEQS,
                               .logits = HSC_LOGITS_NONE,
                               .segments = segments};
            assert_int_equal(hsc_forward(packed, &batch, NULL), HSC_OK);
            for (int i = 0, at = 0; i < N_SEQS; at += lengths[i++]) {
                hsc_batch one = {
                    .ids = ids + at, .n_tokens = lengths[i], .logits = HSC_LOGITS_NONE, .segments = segments + at};
                assert_int_equal(hsc_forward(alone, &one, NULL), HSC_OK);
                assert_int_equal(hsc_session_length(alone, 0), 0);
                assert_same(packed, i, alone, 0, HSC_LN_FINAL);
                assert_same(packed, i, alone, 0, HSC_PATTERN);
            }
        }
        hsc_session_free(packed);
    }
    hsc_session_free(alone);
}

/* The first token's row has weight on every later one, and segments count. */
static void tokens_see_later_ones(void **state)
{
    (void)state;
    hsc_view v, w;
    hsc_session *a = session(1, 0, 1), *b = session(1, 0, 1);
    assert_int_equal(hsc_forward(a, &(hsc_batch){.ids = ids, .n_tokens = 9}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(a, HSC_PATTERN, 2, 0, &v, NULL), HSC_OK);
    for (int k = 0; k < 9; k++) assert_true(v.data[k] > 0);
    assert_int_equal(hsc_forward(b, &(hsc_batch){.ids = ids, .n_tokens = 9, .segments = segments}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(b, HSC_PATTERN, 2, 0, &w, NULL), HSC_OK);
    assert_memory_not_equal(v.data, w.data, 81 * sizeof *v.data);
    hsc_session_free(a);
    hsc_session_free(b);
}

/* Without a masked-word head there are no logits, whoever asks; segments that do not exist are refused. */
static void what_there_is_not(void **state)
{
    (void)state;
    hsc_view v;
    hsc_error err = {0};
    hsc_session *s = session(1, 0, 1);
    assert_false(hsc_model_has_site(model, HSC_LOGITS));
    assert_false(hsc_model_has_site(model, HSC_LN_HEAD));
    assert_false(hsc_model_has_site(model, HSC_POOLED));
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 5}, &err), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &v, &err), HSC_ENOTFOUND);
    int32_t wrong[5] = {0, 1, 2, 0, 0};
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 5, .segments = wrong}, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "segment 2"));
    hsc_session_free(s);
}

/* A window of one's own reaches to both sides. */
static void a_window_on_both_sides(void **state)
{
    (void)state;
    hsc_session *s;
    hsc_view v;
    hsc_session_options o = {.mask = {.window = 3}};
    assert_int_equal(hsc_session_new(&s, model, &o, NULL), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 0, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = 70}, NULL), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 0, 0, &v, NULL), HSC_OK);
    for (int q = 0; q < 70; q++) {
        for (int k = 0; k < 70; k++) assert_int_equal(v.data[q * 70 + k] > 0, abs(q - k) < 3);
    }
    hsc_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_equal_single_sequences),
        cmocka_unit_test(tokens_see_later_ones),
        cmocka_unit_test(what_there_is_not),
        cmocka_unit_test(a_window_on_both_sides),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
