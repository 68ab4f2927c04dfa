/* Masked words of a small BERT: the guesses are what the logits of a plain pass say, by the definition of the softmax;
 * what cannot be is refused; and memory that runs out at any allocation leaves a session that still works. */
#include "failing_alloc.h"
#include "headscope/tasks.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 12, K = 7, N_PLACES = 3 };
static const int places[N_PLACES] = {1, 11, 4};
static tiny_model files;
static hsc_model *model;
static hsc_token ids[N];
static const int32_t segments[N] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1};

static int set_up(void **state)
{
    (void)state;
    hsc_error err = {0};
    tiny_bert_of(&files, true);
    for (int i = 0; i < N; i++) ids[i] = (i * 31 + 2) % TINY_VOCAB;
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

static hsc_session *session(int chunk)
{
    hsc_session *s;
    hsc_error err = {0};
    hsc_session_options o = {.n_threads = 2, .chunk = chunk};
    if (hsc_session_new(&s, model, &o, &err) != HSC_OK) fail_msg("%s", err.message);
    return s;
}

/* One guess by the definition: the token that `rank` others beat, its logit and its share. */
static hsc_guess by_definition(const float *logits, int rank)
{
    double sum = 0;
    hsc_guess out = {.id = -1};
    for (int id = 0; id < TINY_VOCAB; id++) {
        int n_better = 0;
        for (int other = 0; other < TINY_VOCAB; other++)
            n_better += logits[other] > logits[id] || (logits[other] == logits[id] && other < id);
        if (n_better == rank) out = (hsc_guess){.id = id, .logit = logits[id]};
        sum += exp((double)logits[id]);
    }
    out.probability = exp((double)out.logit) / sum;
    return out;
}

static void guesses_are_the_logits(void **state)
{
    (void)state;
    for (int chunk = 0; chunk <= 2; chunk += 2) { /* with 2 the places do not all fit in one product */
        hsc_session *s = session(chunk);
        hsc_guess got[N_PLACES * K];
        hsc_view view;
        hsc_error err = {0};
        hsc_batch batch = {.ids = ids, .segments = segments, .n_tokens = N, .logits = HSC_LOGITS_ALL};
        if (hsc_fill(s, ids, segments, N, places, N_PLACES, K, got, &err) != HSC_OK) fail_msg("%s", err.message);
        assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_LOGITS, -1, -1, -1}, &err), HSC_OK);
        assert_int_equal(hsc_forward(s, &batch, &err), HSC_OK);
        assert_int_equal(hsc_session_activation(s, HSC_LOGITS, 0, 0, &view, &err), HSC_OK);
        assert_int_equal(view.shape[0], N);
        for (int i = 0; i < N_PLACES * K; i++) {
            hsc_guess right = by_definition(view.data + places[i / K] * TINY_VOCAB, i % K);
            assert_int_equal(got[i].id, right.id);
            assert_memory_equal(&got[i].logit, &right.logit, sizeof(float));
            assert_true(fabs(got[i].probability - right.probability) <= 1e-12 * right.probability);
        }
        hsc_session_free(s);
    }
}

static void check_refused(hsc_session *s, int n, const int *at, int n_at, int k, const char *words)
{
    hsc_guess got[TINY_VOCAB + 1];
    hsc_error err = {0};
    assert_int_equal(hsc_fill(s, ids, NULL, n, at, n_at, k, got, &err), HSC_EINVAL);
    if (!strstr(err.message, words)) fail_msg("%s (expected %s)", err.message, words);
}

static void refusals(void **state)
{
    (void)state;
    hsc_session *s = session(0);
    check_refused(s, N, places, 0, K, "no place");
    check_refused(s, N, places, 1, 0, "0 guesses");
    check_refused(s, N, places, 1, TINY_VOCAB + 1, "98 guesses: 1 to 97");
    check_refused(s, 11, places, 2, K, "place 1 is position 11, the text has 11 tokens");
    check_refused(s, N, (const int[]){-1}, 1, K, "position -1");
    hsc_session_free(s);
}

/* Opening, the session and the guesses, with the k-th allocation failing. */
static hsc_status use(hsc_guess *out, hsc_error *err)
{
    hsc_model *m = NULL;
    hsc_session *s = NULL;
    hsc_status status = hsc_model_open(&m, files.dir, NULL, err);
    if (status == HSC_OK) status = hsc_session_new(&s, m, &(hsc_session_options){.n_threads = 1}, err);
    if (status == HSC_OK) status = hsc_fill(s, ids, segments, N, places, N_PLACES, K, out, err);
    hsc_session_free(s);
    hsc_model_close(m);
    return status;
}

static void memory_runs_out(void **state)
{
    (void)state;
    static failing_alloc failing;
    hsc_guess right[N_PLACES * K], got[N_PLACES * K];
    assert_int_equal(use(right, NULL), HSC_OK);
    for (long k = 1;; k++) {
        hsc_error err = {0};
        failing_alloc_install(&failing, k);
        hsc_status status = use(got, &err);
        bool failed_one = failing.calls >= k;
        long held = failing.held;
        failing_alloc_remove();
        assert_int_equal(held, 0);
        if (!failed_one) {
            assert_int_equal(status, HSC_OK);
            assert_memory_equal(got, right, sizeof got);
            assert_true(k > 20);
            return;
        }
        if (status != HSC_ENOMEM) fail_msg("allocation %ld: status %d, %s", k, status, err.message);
    }
}

/* In one session: what did not work for want of memory works afterwards. */
static void session_survives(void **state)
{
    (void)state;
    static failing_alloc failing;
    hsc_guess right[N_PLACES * K], got[N_PLACES * K];
    hsc_session *s = session(0);
    assert_int_equal(hsc_fill(s, ids, segments, N, places, N_PLACES, K, right, NULL), HSC_OK);
    for (long k = 1; k < 100; k++) {
        failing_alloc_install(&failing, k);
        hsc_status status = hsc_fill(s, ids, segments, N, places, N_PLACES, K, got, NULL);
        bool failed_one = failing.calls >= k;
        failing_alloc_remove();
        assert_int_equal(status, failed_one ? HSC_ENOMEM : HSC_OK);
        assert_int_equal(hsc_fill(s, ids, segments, N, places, N_PLACES, K, got, NULL), HSC_OK);
        assert_memory_equal(got, right, sizeof got);
        if (!failed_one) break;
    }
    hsc_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(guesses_are_the_logits), cmocka_unit_test(refusals),
                                       cmocka_unit_test(memory_runs_out), cmocka_unit_test(session_survives)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
