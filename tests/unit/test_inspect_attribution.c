/*
 * Direct logit attribution: parts add up to the model's logits; a head's part, computed here from z, the stored W_O and
 * the last norm's statistics; sources add up to their head; what is refused.
 */
#include "failing_alloc.h"
#include "headscope/analysis.h"
#include "tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 17, A = 11, B = 40 };

static hsc_error err;

static const float *array_named(const tiny_model *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->arrays[i].name, name) == 0) return m->arrays[i].data;
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* A row of a site at the last token. */
static hsc_session *run_and_record(const hsc_model *model, const hsc_token *ids)
{
    hsc_session *s = NULL;
    const hsc_site sites[] = {HSC_Z, HSC_RESID_POST};
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(hsc_session_record(s, &(hsc_record){sites[i], -1, -1, -1}, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, &err), HSC_OK);
    return s;
}

/* d of the header, from the last stream x and the stored norm. */
static void make_direction(const hsc_config *c, const float *x, const float *gain, const float *unembed, bool centred,
                           double *d)
{
    double mean = 0, mean_d = 0, square = 0;
    for (int i = 0; i < c->d_model; i++) {
        d[i] = (double)gain[i] * ((double)unembed[A * c->d_model + i] - (double)unembed[B * c->d_model + i]);
        mean += centred ? (double)x[i] / c->d_model : 0;
        mean_d += centred ? d[i] / c->d_model : 0;
    }
    for (int i = 0; i < c->d_model; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / c->d_model;
    for (int i = 0; i < c->d_model; i++) d[i] = (d[i] - mean_d) / sqrt(square + (centred ? 1e-5 : 1e-6));
}

static void check_parts(const hsc_attribution *a, const hsc_config *c, const hsc_session *s, const float *w_o,
                        bool transposed, int layer, const double *d)
{
    hsc_view z;
    int wide = c->n_heads * c->d_head;
    assert_int_equal(hsc_session_activation(s, HSC_Z, layer, 0, &z, &err), HSC_OK);
    for (int h = 0; h < c->n_heads; h++) {
        double want = 0, sources = 0;
        const hsc_part *p = &a->parts[2 + layer * (c->n_heads + 2) + h];
        for (int k = h * c->d_head; k < (h + 1) * c->d_head; k++) {
            for (int o = 0; o < c->d_model; o++)
                want += (double)z.data[(N - 1) * wide + k] *
                        (double)w_o[transposed ? k * c->d_model + o : o * wide + k] * d[o];
        }
        assert_int_equal(p->kind, HSC_PART_HEAD);
        assert_int_equal(p->layer, layer);
        assert_int_equal(p->head, h);
        assert_float_equal(p->value, want, 1e-5);
        for (int k = 0; k < N; k++) sources += a->sources[(layer * c->n_heads + h) * N + k];
        assert_float_equal(sources, want, 1e-4);
    }
}

static void check_model(bool llama, int threads)
{
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N];
    hsc_attribution a;
    hsc_view logits, x;
    double d[64], sum = 0;
    if (llama) tiny_llama(&m);
    else tiny_gpt2(&m);
    tiny_ids(ids, N);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    const hsc_config *c = hsc_model_config(model);
    hsc_attribution_options o = {.n_threads = threads, .a = A, .b = B, .by_source = 1};
    if (hsc_attribution_run(model, ids, N, &o, &a, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_session *s = run_and_record(model, ids);
    assert_int_equal(hsc_session_logits(s, &logits, &err), HSC_OK);
    double metric = (double)logits.data[A] - (double)logits.data[B];
    assert_float_equal(a.metric, metric, 1e-5);
    assert_float_equal(a.sum, metric, 1e-5);
    for (int i = 0; i < a.n_parts; i++) sum += a.parts[i].value;
    assert_float_equal(sum, metric, 1e-5);
    assert_int_equal(hsc_session_activation(s, HSC_RESID_POST, TINY_LAYERS - 1, 0, &x, &err), HSC_OK);
    make_direction(c, x.data + (N - 1) * c->d_model,
                   array_named(&m, llama ? "model.norm.weight" : "transformer.ln_f.weight"),
                   array_named(&m, llama ? "lm_head.weight" : "transformer.wte.weight"), !llama, d);
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name,
                 llama ? "model.layers.%d.self_attn.o_proj.weight" : "transformer.h.%d.attn.c_proj.weight", layer);
        check_parts(&a, c, s, array_named(&m, name), !llama, layer, d);
    }
    o.b = HSC_NO_TOKEN;
    hsc_attribution_free(&a);
    assert_int_equal(hsc_attribution_run(model, ids, N, &o, &a, &err), HSC_OK);
    assert_float_equal(a.sum, (double)logits.data[A], 1e-5);
    hsc_attribution_free(&a);
    hsc_session_free(s);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_parts(void **unused)
{
    (void)unused;
    check_model(false, 1);
    check_model(true, 3);
}

static void test_refused(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = NULL;
    hsc_token ids[N];
    hsc_attribution a;
    tiny_ids(ids, N);
    tiny_gpt2(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    const hsc_attribution_options bad[] = {
        {.a = -1, .b = 0}, {.a = TINY_VOCAB, .b = 0}, {.a = 0, .b = TINY_VOCAB}, {.a = 0, .b = -2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hsc_attribution_run(model, ids, N, &bad[i], &a, &err), HSC_EINVAL);
    assert_int_equal(hsc_attribution_run(model, ids, 0, &(hsc_attribution_options){.a = 1}, &a, &err), HSC_EINVAL);
    hsc_model_close(model);
    tiny_remove(&m);
    tiny_bert(&m);
    assert_int_equal(hsc_model_open(&model, m.dir, NULL, &err), HSC_OK);
    assert_int_equal(hsc_attribution_run(model, ids, N, &(hsc_attribution_options){.a = 1}, &a, &err),
                     HSC_EUNSUPPORTED);
    hsc_model_close(model);
    tiny_remove(&m);
}

static hsc_status run_once(void *model)
{
    hsc_token ids[N];
    hsc_attribution out;
    hsc_attribution_options o = {.a = A, .b = B, .by_source = 1};
    tiny_ids(ids, N);
    hsc_status status = hsc_attribution_run(model, ids, N, &o, &out, &err);
    if (status == HSC_OK) hsc_attribution_free(&out);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
