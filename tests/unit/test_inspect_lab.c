/*
 * The lab: runs that begin late and are packed give the bits of whole runs with the same edits; the arithmetic of a
 * head that is set to 0 (case B25); means over texts from recorded activations; what is refused.
 */
#include "failing_alloc.h"
#include "headscope/intervene.h"
#include "inspect/lab.h"
#include "tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 21, N_VARIANTS = 9 };

static hsc_error err;

static hsc_model *open_tiny(tiny_model *m, bool llama)
{
    hsc_model *model = NULL;
    *m = (tiny_model){0};
    if (llama) tiny_llama(m);
    else tiny_gpt2(m);
    if (hsc_model_open(&model, m->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return model;
}

static void make_ids(const hsc_model *model, hsc_token *ids, int n)
{
    int v = hsc_model_config(model)->d_vocab;
    for (int i = 0; i < n; i++) ids[i] = (hsc_token)((i * 7 + 3) % v);
}

/* Edits of the plainest kind: the whole text, from the embedding, one sequence. */
static int edit_plainly(void *user, const hsc_block *b)
{
    const hsc_variant *v = user;
    for (int i = 0; i < v->n_edits; i++) {
        const hsc_edit *e = &v->edits[i];
        bool pattern = e->site == HSC_PATTERN || e->site == HSC_ATTN_SCORES;
        if (e->site != b->site || (hsc_site_per_layer(e->site) && e->layer != b->layer)) continue;
        if (pattern && e->head != b->head) continue;
        for (int r = 0; r < b->n_rows; r++) {
            int pos = b->first_row + r;
            if (pos < e->first_pos || (e->n_pos && pos >= e->first_pos + e->n_pos)) continue;
            for (int k = e->first; k < (e->n ? e->first + e->n : b->row_size) && k < b->row_size; k++) {
                float *x = &b->data[(size_t)r * b->stride + (size_t)k];
                float add = e->values ? e->values[(size_t)(pos - e->first_pos) * e->stride + (size_t)(k - e->first)]
                                      : e->constant;
                *x = e->keep == 0 ? add : e->keep * *x + add;
            }
        }
    }
    return 0;
}

static void plain_run(const hsc_model *model, const hsc_token *ids, const hsc_variant *v, float *logits)
{
    hsc_session *s = NULL;
    hsc_view view;
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    for (int i = 0; i < v->n_edits; i++) { /* a place twice would be edited twice */
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen |= v->edits[k].site == v->edits[i].site && v->edits[k].layer == v->edits[i].layer;
        hsc_observer o = {v->edits[i].site, v->edits[i].layer, edit_plainly, (void *)v};
        if (!seen) assert_int_equal(hsc_session_observe(s, &o, &err), HSC_OK);
    }
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N, .logits = HSC_LOGITS_ALL}, &err), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &view, &err), HSC_OK);
    memcpy(logits, view.data, (size_t)(view.shape[0] * view.shape[1]) * sizeof *logits);
    hsc_session_free(s);
}

typedef struct {
    const hsc_model *model;
    const hsc_token *ids;
    const hsc_variant *variants;
    int seen[N_VARIANTS];
    bool last_only;
} expected;

static int compare(void *user, const hsc_trial *t)
{
    expected *want = user;
    size_t v = (size_t)hsc_model_config(want->model)->d_vocab;
    float *logits = malloc(N * v * sizeof *logits);
    plain_run(want->model, want->ids, &want->variants[t->variant], logits);
    int first = want->last_only ? N - 1 : t->first_row;
    assert_int_equal(t->n_rows, N - first);
    assert_memory_equal(t->logits, logits + (size_t)first * v, (size_t)t->n_rows * v * sizeof *logits);
    want->seen[t->variant]++;
    free(logits);
    return 0;
}

/* keep 0 puts a number in the place of what is there, be it a number or none; else the old one times keep counts. */
static void test_keep_nothing(void **unused)
{
    (void)unused;
    float rows[2][3] = {{NAN, INFINITY, -INFINITY}, {2, -4, 8}};
    const hsc_block block = {
        .site = HSC_RESID_PRE, .layer = 1, .n_rows = 2, .row_size = 3, .stride = 3, .data = rows[0]};
    hsc_edit edit = {.site = HSC_RESID_PRE, .layer = 1, .constant = 3, .n_pos = 1};
    hsc__edit_apply(&edit, &block);
    for (int i = 0; i < 3; i++) assert_true(rows[0][i] == 3);
    edit.first_pos = 1;
    edit.keep = 0.5f;
    hsc__edit_apply(&edit, &block);
    assert_true(rows[1][0] == 4 && rows[1][1] == 1 && rows[1][2] == 7);
}

static void check_same_bits(bool llama, hsc_logits_rows rows, int max_rows, int threads)
{
    tiny_model m;
    hsc_model *model = open_tiny(&m, llama);
    const hsc_config *c = hsc_model_config(model);
    hsc_token ids[N];
    static float values[N * 256];
    make_ids(model, ids, N);
    for (int i = 0; i < N * 256; i++) values[i] = (float)(i % 17) / 8 - 1;
    hsc_edit head = {0}, key = {0};
    assert_int_equal(hsc_edit_head(&head, model, HSC_Z, 1, 1, &err), HSC_OK);
    assert_int_equal(hsc_edit_head(&key, model, HSC_K, 1, c->n_kv_heads - 1, &err), HSC_OK);
    key.values = values;
    key.stride = (size_t)c->d_head;
    hsc_edit out = {.site = HSC_MLP_OUT, .layer = 0, .first_pos = 5, .n_pos = 3, .values = values};
    hsc_edit cut = {.site = HSC_ATTN_SCORES, .layer = 1, .head = 1, .first_pos = 9, .first = 3, .n = 2};
    cut.constant = -INFINITY;
    hsc_edit half = {.site = HSC_PATTERN, .layer = 1, .head = 0, .first_pos = N - 1, .keep = 0.5f};
    hsc_edit embed = {.site = HSC_EMBED, .first_pos = 4, .n_pos = 1, .keep = 1, .values = values};
    hsc_edit norm = {.site = HSC_LN_FINAL, .keep = 1, .constant = 0.25f};
    hsc_edit both[] = {head, out};
    hsc_variant variants[N_VARIANTS] = {{&head, 1}, {&out, 1},  {NULL, 0},  {&cut, 1}, {&embed, 1},
                                        {both, 2},  {&norm, 1}, {&half, 1}, {&key, 1}};
    expected want = {model, ids, variants, {0}, rows == HSC_LOGITS_LAST};
    hsc_lab *lab = NULL;
    hsc_lab_options o = {.n_threads = threads, .max_rows = max_rows, .logits = rows};
    assert_int_equal(hsc_lab_new(&lab, model, &o, &err), HSC_OK);
    assert_int_equal(hsc_lab_text(lab, ids, N, &err), HSC_OK);
    if (hsc_lab_run(lab, variants, N_VARIANTS, compare, &want, &err) != HSC_OK) fail_msg("%s", err.message);
    for (int i = 0; i < N_VARIANTS; i++) assert_int_equal(want.seen[i], 1);
    hsc_lab_free(lab);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_same_bits(void **unused)
{
    (void)unused;
    for (int llama = 0; llama < 2; llama++) {
        check_same_bits(llama, HSC_LOGITS_ALL, 0, 1);
        check_same_bits(llama, HSC_LOGITS_ALL, 1, 2);
        check_same_bits(llama, HSC_LOGITS_LAST, 50, 3);
    }
}

static const float *array_named(const tiny_model *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strstr(m->arrays[i].name, name)) return m->arrays[i].data;
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

typedef struct {
    const hsc_lab *lab;
    const float *b_o;
} bias_only;

/* Case B25: all heads of layer 0 at 0 leave the bias of W_O; the patterns of that layer are what they were. */
static int compare_bias(void *user, const hsc_trial *t)
{
    const bias_only *want = user;
    hsc_view out, pattern, clean;
    assert_int_equal(hsc_session_activation(t->session, HSC_ATTN_OUT, 0, t->seq, &out, &err), HSC_OK);
    for (int i = 0; i < N; i++)
        assert_memory_equal(out.data + i * out.shape[1], want->b_o, (size_t)out.shape[1] * sizeof(float));
    for (int layer = 0; layer < 2; layer++) {
        assert_int_equal(hsc_session_activation(t->session, HSC_PATTERN, layer, t->seq, &pattern, &err), HSC_OK);
        assert_int_equal(hsc_lab_clean(want->lab, HSC_PATTERN, layer, &clean, &err), HSC_OK);
        size_t n = (size_t)(clean.shape[0] * clean.shape[1] * clean.shape[2]) * sizeof(float);
        assert_int_equal(memcmp(pattern.data, clean.data, n) == 0, layer == 0);
    }
    return 0;
}

static void test_bias_remains(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = open_tiny(&m, false);
    hsc_token ids[N];
    make_ids(model, ids, N);
    hsc_edit all = {.site = HSC_Z, .layer = 0};
    hsc_lab *lab = NULL;
    assert_int_equal(hsc_lab_new(&lab, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_lab_keep(lab, HSC_ATTN_OUT, 0, &err), HSC_OK);
    assert_int_equal(hsc_lab_keep(lab, HSC_PATTERN, -1, &err), HSC_OK);
    assert_int_equal(hsc_lab_text(lab, ids, N, &err), HSC_OK);
    bias_only want = {lab, array_named(&m, "h.0.attn.c_proj.bias")};
    assert_int_equal(hsc_lab_run(lab, &(hsc_variant){&all, 1}, 1, compare_bias, &want, &err), HSC_OK);
    hsc_lab_free(lab);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_mean(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = open_tiny(&m, true);
    hsc_token ids[12];
    int lengths[] = {5, 7}, row = hsc_site_row(model, HSC_Z), n_layers = hsc_model_config(model)->n_layers;
    make_ids(model, ids, 12);
    float *mean = malloc((size_t)(n_layers * row) * sizeof *mean);
    hsc_texts texts = {.ids = ids, .lengths = lengths, .n_texts = 2};
    assert_int_equal(hsc_site_mean(model, HSC_Z, &texts, 0, NULL, mean, &err), HSC_OK);
    for (int layer = 0; layer < n_layers; layer++) {
        double sum = 0;
        for (int t = 0; t < 2; t++) {
            hsc_session *s = NULL;
            hsc_view z;
            assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
            assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_Z, layer, -1, -1}, &err), HSC_OK);
            assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids + 5 * t, .n_tokens = lengths[t]}, &err), HSC_OK);
            assert_int_equal(hsc_session_activation(s, HSC_Z, layer, 0, &z, &err), HSC_OK);
            for (int i = 1; i < lengths[t]; i++) sum += (double)z.data[i * row + 3];
            hsc_session_free(s);
        }
        assert_float_equal(mean[layer * row + 3], sum / 10, 1e-6);
    }
    assert_int_equal(hsc_site_mean(model, HSC_Z, &texts, 1, NULL, mean, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "text 1 has 7"));
    free(mean);
    hsc_model_close(model);
    tiny_remove(&m);
}

/* One layer of one text's site, the mean over its positions in [from, N). */
static double mean_of(const hsc_model *model, const hsc_token *ids, int n, int layer, int from, int number)
{
    hsc_session *s = NULL;
    hsc_view x;
    double sum = 0;
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_RESID_POST, layer, -1, -1}, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = n}, &err), HSC_OK);
    assert_int_equal(hsc_session_activation(s, HSC_RESID_POST, layer, 0, &x, &err), HSC_OK);
    for (int i = from; i < n; i++) sum += (double)x.data[i * (int)x.shape[1] + number];
    hsc_session_free(s);
    return sum;
}

static void test_difference(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = open_tiny(&m, true);
    hsc_token ids[20];
    const int toward[] = {5, 7}, away[] = {8};
    int row = hsc_site_row(model, HSC_RESID_POST), n_layers = hsc_model_config(model)->n_layers;
    make_ids(model, ids, 20);
    float *out = malloc((size_t)(n_layers * row) * sizeof *out);
    hsc_texts a = {.ids = ids, .lengths = toward, .n_texts = 2}, b = {.ids = ids + 12, .lengths = away, .n_texts = 1};
    assert_int_equal(hsc_site_difference(model, HSC_RESID_POST, &a, &b, 0, NULL, out, &err), HSC_OK);
    for (int l = 0; l < n_layers; l++) {
        double want = (mean_of(model, ids, 5, l, 1, 7) + mean_of(model, ids + 5, 7, l, 1, 7)) / 10 -
                      mean_of(model, ids + 12, 8, l, 1, 7) / 7;
        assert_float_equal(out[l * row + 7], want, 1e-5);
    }
    assert_int_equal(hsc_site_difference(model, HSC_RESID_POST, &a, &b, 1, NULL, out, &err), HSC_OK);
    for (int l = 0; l < n_layers; l++) {
        double want = (mean_of(model, ids, 5, l, 4, 7) + mean_of(model, ids + 5, 7, l, 6, 7)) / 2 -
                      mean_of(model, ids + 12, 8, l, 7, 7);
        assert_float_equal(out[l * row + 7], want, 1e-5);
    }
    assert_int_equal(hsc_site_difference(model, HSC_PATTERN, &a, &b, 0, NULL, out, &err), HSC_EINVAL);
    free(out);
    hsc_model_close(model);
    tiny_remove(&m);
}

static int never(void *user, const hsc_trial *t)
{
    (void)user;
    (void)t;
    fail_msg("a refused edit ran");
    return 0;
}

static void test_refused(void **unused)
{
    (void)unused;
    tiny_model m;
    hsc_model *model = open_tiny(&m, false);
    hsc_token ids[N];
    make_ids(model, ids, N);
    hsc_lab *lab = NULL;
    const hsc_edit bad[] = {{.site = HSC_Z, .layer = 99},
                            {.site = HSC_ROT_Q, .layer = 0},
                            {.site = HSC_Z, .layer = 0, .first_pos = N},
                            {.site = HSC_Z, .layer = 0, .first_pos = 1, .n_pos = N},
                            {.site = HSC_Z, .layer = 0, .first = 1, .n = 10000},
                            {.site = HSC_PATTERN, .layer = 0, .head = 99}};
    assert_int_equal(hsc_lab_new(&lab, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_lab_run(lab, NULL, 0, never, NULL, &err), HSC_EINVAL);
    assert_int_equal(hsc_lab_text(lab, ids, N, &err), HSC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hsc_lab_run(lab, &(hsc_variant){&bad[i], 1}, 1, never, NULL, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, "variant 0, edit 0"));
    }
    hsc_batch late = {.ids = ids, .n_tokens = N, .first_layer = 1};
    hsc_session *s = NULL;
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &late, &err), HSC_EINVAL);
    hsc_session_free(s);
    hsc_lab_free(lab);
    hsc_model_close(model);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_bias_remains),
                                       cmocka_unit_test(test_mean),      cmocka_unit_test(test_difference),
                                       cmocka_unit_test(test_refused),   cmocka_unit_test(test_keep_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
