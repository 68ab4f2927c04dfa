/*
 * The logit lens by its definition: logits of a stage are those of a pass that begins at the final norm with that
 * stage's residual stream; the last stage is the model itself, to the bit; divergence, losses, ranks and top words from
 * those logits.
 */
#include "failing_alloc.h"
#include "headscope/analysis.h"
#include "tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 19, WORDS = 2, TOP = 4, STAGES = TINY_LAYERS + 1 };

static hsc_error err;
static const hsc_token words[WORDS] = {5, 96};

/* Logits [N][TINY_VOCAB] of one stage, by hsc_forward alone. */
static void stage_logits(const hsc_model *model, const hsc_token *ids, int stage, float *out)
{
    hsc_session *s = NULL;
    hsc_view view;
    const hsc_config *c = hsc_model_config(model);
    hsc_record r = {HSC_RESID_PRE, stage, -1, -1};
    hsc_batch whole = {.ids = ids, .n_tokens = N, .logits = HSC_LOGITS_ALL};
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    if (stage < c->n_layers) assert_int_equal(hsc_session_record(s, &r, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &whole, &err), HSC_OK);
    float *resid = malloc((size_t)(N * c->d_model) * sizeof *resid);
    if (stage < c->n_layers) {
        assert_int_equal(hsc_session_activation(s, HSC_RESID_PRE, stage, 0, &view, &err), HSC_OK);
        memcpy(resid, view.data, (size_t)(N * c->d_model) * sizeof *resid);
        hsc_session_reset(s);
        whole.resid = resid;
        whole.first_layer = c->n_layers;
        assert_int_equal(hsc_forward(s, &whole, &err), HSC_OK);
    }
    assert_int_equal(hsc_session_logits(s, &view, &err), HSC_OK);
    memcpy(out, view.data, N * TINY_VOCAB * sizeof *out);
    free(resid);
    hsc_session_free(s);
}

static double log_sum(const float *x)
{
    double sum = 0;
    for (int i = 0; i < TINY_VOCAB; i++) sum += exp((double)x[i]);
    return log(sum);
}

static void check_top(const hsc_lens *l, size_t at, const float *x)
{
    for (int k = 0; k < TOP; k++) {
        hsc_token id = l->top[at * TOP + (size_t)k];
        int before = 0;
        assert_true(l->top_logits[at * TOP + (size_t)k] == x[id]);
        for (int i = 0; i < TINY_VOCAB; i++) before += x[i] > x[id] || (x[i] == x[id] && i < id);
        assert_int_equal(before, k);
    }
    for (int w = 0; w < WORDS; w++) {
        int before = 0;
        for (int i = 0; i < TINY_VOCAB; i++) before += x[i] > x[words[w]] || (x[i] == x[words[w]] && i < words[w]);
        assert_int_equal(l->word_ranks[at * WORDS + (size_t)w], before);
        assert_true(l->word_logits[at * WORDS + (size_t)w] == x[words[w]]);
    }
}

static void check_stage(const hsc_lens *l, const hsc_token *ids, int stage, const float *x, const float *last)
{
    for (int i = 0; i < l->n_pos; i++) {
        int pos = l->first_pos + i;
        const float *row = x + pos * TINY_VOCAB, *end = last + pos * TINY_VOCAB;
        size_t at = (size_t)(stage * l->n_pos + i);
        double sum = log_sum(row), end_sum = log_sum(end), kl = 0;
        for (int k = 0; k < TINY_VOCAB; k++)
            kl += exp((double)end[k] - end_sum) * ((double)end[k] - end_sum - ((double)row[k] - sum));
        assert_float_equal(l->log_sums[at], sum, 1e-5);
        assert_float_equal(l->kl[at], kl, 1e-5 + 1e-5 * kl);
        if (pos + 1 < N) assert_float_equal(l->losses[at], sum - (double)row[ids[pos + 1]], 1e-5);
        else assert_true(isnan(l->losses[at]));
        assert_true(l->answer_logits[at] == row[l->top[(size_t)((STAGES - 1) * l->n_pos + i) * TOP]]);
        check_top(l, at, row);
    }
}

static void check_model(bool llama, int first_pos, int threads)
{
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N];
    hsc_lens l;
    static float logits[STAGES][N * TINY_VOCAB];
    if (llama) tiny_llama(&m);
    else tiny_gpt2(&m);
    tiny_ids(ids, N);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    for (int s = 0; s < STAGES; s++) stage_logits(model, ids, s, logits[s]);
    hsc_lens_options o = {.n_threads = threads, .top_k = TOP, .words = words, .n_words = WORDS, .first_pos = first_pos};
    if (hsc_lens_run(model, ids, N, &o, &l, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(l.n_stages, STAGES);
    assert_int_equal(l.n_pos, N - first_pos);
    for (int s = 0; s < STAGES; s++) check_stage(&l, ids, s, logits[s], logits[STAGES - 1]);
    hsc_lens_free(&l);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_definition(void **unused)
{
    (void)unused;
    check_model(false, 0, 1);
    check_model(true, 0, 2);
    check_model(true, N - 1, 3);
}

static void test_refused(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N], out_of_range = TINY_VOCAB;
    hsc_lens l;
    tiny_gpt2(&m);
    tiny_ids(ids, N);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    const hsc_lens_options bad[] = {
        {.top_k = HSC_LENS_MAX_TOP + 1}, {.first_pos = N}, {.words = &out_of_range, .n_words = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hsc_lens_run(model, ids, N, &bad[i], &l, &err), HSC_EINVAL);
    assert_int_equal(hsc_lens_run(model, ids, 0, NULL, &l, &err), HSC_EINVAL);
    hsc_model_close(model);
    tiny_remove(&m);
    tiny_bert(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    assert_int_equal(hsc_lens_run(model, ids, N, NULL, &l, &err), HSC_EUNSUPPORTED);
    hsc_model_close(model);
    tiny_remove(&m);
}

static hsc_status run_once(void *model)
{
    hsc_token ids[N];
    hsc_lens l;
    tiny_ids(ids, N);
    hsc_status status = hsc_lens_run(model, ids, N, NULL, &l, &err);
    if (status == HSC_OK) hsc_lens_free(&l);
    return status;
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = NULL;
    failing_alloc a;
    tiny_llama(&m);
    failing_alloc_install(&a, 0);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    failing_alloc_each(&a, run_once, model);
    hsc_model_close(model);
    failing_alloc_remove();
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
