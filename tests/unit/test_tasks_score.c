/* Scores on a small random GPT-2: by the definition of the softmax from the logits of a plain pass, in windows, as
 * continuations; and what cannot be scored is refused, the last token's id too, which no pass reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "headscope/tasks.h"
#include "tiny_model.h"

enum { N = 20, WINDOW = 8, STRIDE = 3 };
static tiny_model files;
static hsc_model *model;
static hsc_token ids[N];

static int set_up(void **state)
{
    (void)state;
    tiny_gpt2(&files);
    for (int i = 0; i < N; i++) ids[i] = (i * 31 + 2) % TINY_VOCAB;
    return hsc_model_open(&model, files.dir, NULL, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    hsc_model_close(model);
    tiny_remove(&files);
    return 0;
}

static hsc_session *session(int max_seqs)
{
    hsc_session *s = NULL;
    hsc_session_options o = {.n_threads = 1, .max_seqs = max_seqs};
    assert_int_equal(hsc_session_new(&s, model, &o, NULL), HSC_OK);
    return s;
}

/* log p of each of from[1..n) after those before it, in one pass and by the definition. */
static void by_definition(const hsc_token *from, int n, double *out)
{
    hsc_session *s = session(1);
    hsc_view view;
    hsc_batch batch = {.ids = from, .n_tokens = n, .logits = HSC_LOGITS_ALL};
    assert_int_equal(hsc_forward(s, &batch, NULL), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &view, NULL), HSC_OK);
    for (int i = 1; i < n; i++) {
        const float *row = view.data + (i - 1) * TINY_VOCAB;
        double sum = 0;
        for (int v = 0; v < TINY_VOCAB; v++) sum += exp((double)row[v]);
        out[i] = (double)row[from[i]] - log(sum);
    }
    hsc_session_free(s);
}

static void a_text(void **state)
{
    (void)state;
    double got[N], want[N];
    hsc_session *s = session(1);
    by_definition(ids, N, want);
    assert_int_equal(hsc_score(s, ids, N, NULL, got, NULL), HSC_OK);
    assert_true(got[0] == 0);
    for (int i = 1; i < N; i++) assert_true(fabs(got[i] - want[i]) < 1e-9);
    hsc_score_options o = {.window = WINDOW, .stride = STRIDE};
    assert_int_equal(hsc_score(s, ids, N, &o, got, NULL), HSC_OK);
    for (int begin = 0, scored = 1; scored < N; begin += STRIDE) {
        int end = begin + WINDOW < N ? begin + WINDOW : N;
        by_definition(ids + begin, end - begin, want);
        for (; scored < end; scored++) assert_true(fabs(got[scored] - want[scored - begin]) < 1e-9);
    }
    hsc_session_free(s);
}

/* Of different lengths and beginnings, alone and beside each other. */
static void continuations(void **state)
{
    (void)state;
    hsc_token other[N];
    memcpy(other, ids, sizeof other);
    other[6] = 9;
    for (int max_seqs = 1; max_seqs <= 3; max_seqs++) {
        hsc_session *s = session(max_seqs);
        hsc_continuation list[] = {{.ids = ids, .n = 12, .first = 5},
                                   {.ids = other, .n = N, .first = 6},
                                   {.ids = ids + 3, .n = 2, .first = 1}};
        assert_int_equal(hsc_score_continuations(s, list, 3, NULL), HSC_OK);
        for (int i = 0; i < 3; i++) {
            double each[N], sum = 0;
            by_definition(list[i].ids, list[i].n, each);
            for (int p = list[i].first; p < list[i].n; p++) sum += each[p];
            assert_true(fabs(list[i].log_prob - sum) < 1e-9);
        }
        hsc_session_free(s);
    }
}

static void check_text(hsc_session *s, const hsc_token *text, int n, hsc_score_options o, const char *words)
{
    double got[N];
    hsc_error err = {0};
    assert_int_equal(hsc_score(s, text, n, &o, got, &err), HSC_EINVAL);
    if (!strstr(err.message, words)) fail_msg("%s (expected %s)", err.message, words);
}

static void check_continuation(hsc_session *s, hsc_continuation c, const char *words)
{
    hsc_continuation list[] = {{.ids = ids, .n = 2, .first = 1}, c};
    hsc_error err = {0};
    assert_int_equal(hsc_score_continuations(s, list, 2, &err), HSC_EINVAL);
    if (!strstr(err.message, words)) fail_msg("%s (expected %s)", err.message, words);
}

static void refusals(void **state)
{
    (void)state;
    static const hsc_token outside[][3] = {{1, 2, TINY_VOCAB}, {1, 2, -1}, {1, INT32_MAX, 2}};
    hsc_session *s = session(2);
    check_text(s, ids, 0, (hsc_score_options){0}, "empty");
    check_text(s, ids, N, (hsc_score_options){.window = 1}, "window is 1");
    check_text(s, ids, N, (hsc_score_options){.window = TINY_CTX + 1}, "window is 81");
    check_text(s, ids, N, (hsc_score_options){.window = 4, .stride = 4}, "stride is 4");
    check_text(s, outside[0], 3, (hsc_score_options){0}, "token id 97 at index 2");
    check_text(s, outside[1], 3, (hsc_score_options){0}, "token id -1 at index 2");
    check_text(s, outside[2], 3, (hsc_score_options){0}, "token id 2147483647 at index 1");
    check_continuation(s, (hsc_continuation){.ids = ids, .n = 3, .first = 3}, "text 1 has 3 tokens");
    check_continuation(s, (hsc_continuation){.ids = ids, .n = 3, .first = 0}, "text 1 has 3 tokens");
    check_continuation(s, (hsc_continuation){.ids = ids, .n = TINY_CTX + 2, .first = 1}, "room for 81");
    check_continuation(s, (hsc_continuation){.ids = outside[0], .n = 3, .first = 1}, "text 1: token id 97 at index 2");
    hsc_session_free(s);
}

static hsc_status use(hsc_session *s, double *out)
{
    hsc_continuation list[] = {{.ids = ids, .n = 12, .first = 5}, {.ids = ids, .n = N, .first = 6}};
    hsc_status status = hsc_score_continuations(s, list, 2, NULL);
    out[0] = list[0].log_prob;
    out[1] = list[1].log_prob;
    return status;
}

static void session_survives_memory(void **state)
{
    (void)state;
    static failing_alloc failing;
    double right[2], got[2];
    hsc_session *s = session(2);
    assert_int_equal(use(s, right), HSC_OK);
    hsc_session_free(s);
    s = session(2);
    for (long k = 1; k < 100; k++) {
        failing_alloc_install(&failing, k);
        hsc_status status = use(s, got);
        bool failed_one = failing.calls >= k;
        failing_alloc_remove();
        assert_int_equal(status, failed_one ? HSC_ENOMEM : HSC_OK);
        if (!failed_one) break;
    }
    assert_memory_equal(got, right, sizeof got);
    hsc_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_text), cmocka_unit_test(continuations),
                                       cmocka_unit_test(refusals), cmocka_unit_test(session_survives_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
