/*
 * Paths between heads, mediation and knocked-out edges against whole runs in plain sessions, made as the definitions
 * say: the same bits.
 */
#include "headscope/intervene.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 13, LONGER = 2, SEAM = 5 }; /* the longer text has LONGER tokens more, from SEAM on */

static hsc_error err;
static hsc_model *model;
static const hsc_config *config;
static hsc_token texts[2][N], longer[N + LONGER];
static int row; /* floats of a row of z */

static hsc_model *open_tiny(tiny_model *m, bool llama)
{
    *m = (tiny_model){0};
    if (llama) tiny_llama(m);
    else tiny_gpt2(m);
    if (hsc_model_open(&model, m->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    config = hsc_model_config(model);
    row = hsc_site_row(model, HSC_Z);
    for (int i = 0; i < N; i++) texts[0][i] = texts[1][i] = (hsc_token)((i * 7 + 3) % config->d_vocab);
    texts[1][5] = (texts[1][5] + 11) % config->d_vocab;
    for (int i = 0; i < N + LONGER; i++)
        longer[i] = i < SEAM ? texts[0][i] : texts[0][i < SEAM + LONGER ? 0 : i - LONGER];
    for (int i = SEAM; i <= SEAM + LONGER; i++) longer[i] = (longer[i] + 11 + i) % config->d_vocab;
    return model;
}

/* What a plain run does with a site: copies it, or puts something in. */
typedef struct place {
    hsc_site site;
    int layer, first, n; /* numbers of a row; n 0: all */
    const float *put;    /* [n_pos][width of the row] */
    float *take;         /* the same */
    int width;
    const int *map; /* [n_pos]: the row of `put` for each position, -1: leaves it; NULL: its own */
} place;

static int at_place(void *user, const hsc_block *b)
{
    const place *p = user;
    int n = p->n ? p->n : b->row_size;
    for (int r = 0; r < b->n_rows; r++) {
        float *x = b->data + (size_t)r * b->stride + p->first;
        int pos = b->first_row + r, from = p->map ? p->map[pos] : pos;
        if (from < 0) continue;
        size_t at = (size_t)from * (size_t)p->width + (size_t)p->first;
        if (p->put) memcpy(x, p->put + at, (size_t)n * sizeof *x);
        if (p->take) memcpy(p->take + at, x, (size_t)n * sizeof *x);
    }
    return 0;
}

static void run_any(const hsc_token *ids, int n_tokens, place *places, int n, float *logits)
{
    hsc_session *s = NULL;
    hsc_view view;
    assert_int_equal(hsc_session_new(&s, model, NULL, &err), HSC_OK);
    for (int i = 0; i < n; i++)
        assert_int_equal(
            hsc_session_observe(s, &(hsc_observer){places[i].site, places[i].layer, at_place, &places[i]}, &err),
            HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = n_tokens}, &err), HSC_OK);
    assert_int_equal(hsc_session_logits(s, &view, &err), HSC_OK);
    if (logits) memcpy(logits, view.data, (size_t)config->d_vocab * sizeof *logits);
    hsc_session_free(s);
}

static void run(const hsc_token *ids, place *places, int n, float *logits)
{
    run_any(ids, N, places, n, logits);
}

/* z of every layer in the plain run of a text: [n_layers][n_tokens][row]. */
static float *plain_z_any(const hsc_token *ids, int n_tokens)
{
    float *z = calloc((size_t)(config->n_layers * n_tokens * row), sizeof *z);
    place *p = calloc((size_t)config->n_layers, sizeof *p);
    for (int l = 0; l < config->n_layers; l++)
        p[l] = (place){.site = HSC_Z, .layer = l, .take = z + (size_t)(l * n_tokens * row), .width = row};
    run_any(ids, n_tokens, p, config->n_layers, NULL);
    free(p);
    return z;
}

static float *plain_z(const hsc_token *ids)
{
    return plain_z_any(ids, N);
}

static hsc_lab *lab_of_any(const hsc_token *ids, int n_tokens, hsc_site input)
{
    hsc_lab *lab = NULL;
    assert_int_equal(hsc_lab_new(&lab, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_lab_keep(lab, HSC_Z, -1, &err), HSC_OK);
    if (input != HSC_RESID_POST) assert_int_equal(hsc_lab_keep(lab, input, -1, &err), HSC_OK);
    assert_int_equal(hsc_lab_text(lab, ids, n_tokens, &err), HSC_OK);
    return lab;
}

static hsc_lab *lab_of(int text, hsc_site input)
{
    return lab_of_any(texts[text], N, input);
}

/* Algorithm 1, run by run. */
static void plain_path(const float *z, const float *other, const hsc_head_place *from, const hsc_path_end *end,
                       float *logits)
{
    int d = config->d_head, width = hsc_site_row(model, end->input), n = 0,
        group = config->n_heads / config->n_kv_heads;
    float *arrived = calloc((size_t)(N * width), sizeof *arrived);
    place p[16];
    p[n++] = (place){HSC_Z, from->layer, from->head * d, d, other + (size_t)(from->layer * N * row), NULL, row, NULL};
    for (int l = from->layer + 1; l < config->n_layers; l++)
        p[n++] = (place){HSC_Z, l, 0, 0, z + (size_t)(l * N * row), NULL, row, NULL};
    if (!end->n_receivers) {
        run(texts[0], p, n, logits);
    } else {
        const hsc_head_place *to = end->receivers;
        int head = end->input == HSC_Q ? to->head : to->head / group;
        place take = {end->input, to->layer, head * d, d, NULL, arrived, width, NULL};
        p[n++] = take;
        if (to->layer > from->layer) run(texts[0], p, n, NULL);
        place put = {end->input, to->layer, head * d, d, arrived, NULL, width, NULL};
        run(texts[0], &put, to->layer > from->layer, logits);
    }
    free(arrived);
}

typedef struct seen {
    float *logits; /* [senders][d_vocab] */
    int n;
} seen;

static int keep_logits(void *user, const hsc_trial *t)
{
    seen *s = user;
    s->n++;
    memcpy(s->logits + (size_t)t->variant * (size_t)config->d_vocab,
           t->logits + (size_t)(t->n_rows - 1) * (size_t)config->d_vocab, (size_t)config->d_vocab * sizeof *s->logits);
    return 0;
}

static void check_end(const float *z, const float *other, const hsc_path_end *end)
{
    int n = config->n_layers * config->n_heads, differ = 0;
    size_t v = (size_t)config->d_vocab;
    hsc_lab *base = lab_of(0, end->input), *source = lab_of(1, HSC_RESID_POST);
    hsc_head_place *senders = calloc((size_t)n, sizeof *senders);
    seen s = {calloc((size_t)n * v, sizeof(float)), 0};
    float *want = calloc(v, sizeof *want), *clean = calloc(v, sizeof *clean);
    for (int i = 0; i < n; i++) senders[i] = (hsc_head_place){i / config->n_heads, i % config->n_heads};
    assert_int_equal(hsc_path_patch(base, source, senders, n, end, keep_logits, &s, &err), HSC_OK);
    assert_int_equal(s.n, n);
    run(texts[0], NULL, 0, clean);
    for (int i = 0; i < n; i++) {
        plain_path(z, other, &senders[i], end, want);
        assert_memory_equal(s.logits + (size_t)i * v, want, v * sizeof *want);
        differ += memcmp(want, clean, v * sizeof *want) != 0;
    }
    int reach = end->n_receivers ? end->receivers->layer * config->n_heads : n;
    assert_int_equal(differ, reach); /* every sender before the receiver, and no other, changes something */
    free(senders);
    free(s.logits);
    free(want);
    free(clean);
    hsc_lab_free(base);
    hsc_lab_free(source);
}

static void test_paths(void **unused)
{
    (void)unused;
    for (int llama = 0; llama < 2; llama++) {
        tiny_model m;
        open_tiny(&m, llama);
        float *z = plain_z(texts[0]), *other = plain_z(texts[1]);
        hsc_head_place to = {config->n_layers - 1, config->n_heads - 1};
        const hsc_site inputs[] = {HSC_Q, HSC_K, HSC_V};
        for (int i = 0; i < 3; i++) check_end(z, other, &(hsc_path_end){inputs[i], &to, 1});
        check_end(z, other, &(hsc_path_end){HSC_RESID_POST, NULL, 0});
        free(z);
        free(other);
        hsc_model_close(model);
        tiny_remove(&m);
    }
}

static double lead(const float *logits)
{
    return (double)logits[3] - (double)logits[5];
}

static void test_mediation(void **unused)
{
    (void)unused;
    tiny_model m;
    open_tiny(&m, true);
    int n = config->n_layers * config->n_heads, d = config->d_head;
    float *z[2] = {plain_z(texts[0]), plain_z(texts[1])}, *logits = calloc((size_t)config->d_vocab, sizeof *logits);
    double *parts[2] = {calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))}, ends[2];
    hsc_lab *clean = lab_of(0, HSC_RESID_POST), *other = lab_of(1, HSC_RESID_POST);
    hsc_mediation got = {.indirect = parts[0], .direct = parts[1]};
    assert_int_equal(hsc_mediate(clean, other, 3, 5, 0, &got, &err), HSC_OK);
    for (int t = 0; t < 2; t++) {
        run(texts[t], NULL, 0, logits);
        ends[t] = lead(logits);
    }
    assert_true(got.clean == ends[0] && got.other == ends[1] && ends[0] != ends[1]);
    for (int i = 0; i < n; i++) {
        for (int t = 0; t < 2; t++) { /* text t with the head as it is in the other */
            int layer = i / config->n_heads, head = i % config->n_heads;
            place p = {HSC_Z, layer, head * d, d, z[1 - t] + (size_t)(layer * N * row), NULL, row, NULL};
            run(texts[t], &p, 1, logits);
            assert_true(parts[t][i] == lead(logits) - ends[0]);
        }
    }
    assert_int_equal(hsc_mediate(clean, other, 3, config->d_vocab, 0, &got, &err), HSC_EINVAL);
    for (int t = 0; t < 2; t++) {
        free(z[t]);
        free(parts[t]);
    }
    free(logits);
    hsc_lab_free(clean);
    hsc_lab_free(other);
    hsc_model_close(model);
    tiny_remove(&m);
}

/* Both effects of every head between `texts[0]` and `longer` with the seam at `seam`, against plain runs. */
static void check_seam(int seam)
{
    const hsc_token *ids[2] = {texts[0], longer};
    const int lengths[2] = {N, N + LONGER};
    int n = config->n_layers * config->n_heads, d = config->d_head, maps[2][N + LONGER], differ = 0;
    for (int i = 0; i < N; i++) maps[0][i] = i < seam ? i : i + LONGER;
    for (int i = 0; i < N + LONGER; i++) maps[1][i] = i < seam ? i : i < seam + LONGER ? -1 : i - LONGER;
    float *logits = calloc((size_t)config->d_vocab, sizeof *logits), *z[2];
    double *parts[4], ends[2];
    for (int i = 0; i < 4; i++) parts[i] = calloc((size_t)n, sizeof *parts[i]);
    for (int t = 0; t < 2; t++) {
        z[t] = plain_z_any(ids[t], lengths[t]);
        run_any(ids[t], lengths[t], NULL, 0, logits);
        ends[t] = lead(logits);
    }
    hsc_lab *labs[2] = {lab_of(0, HSC_RESID_POST), lab_of_any(longer, N + LONGER, HSC_RESID_POST)};
    hsc_mediation got = {.indirect = parts[0], .direct = parts[1]}, back = {.indirect = parts[2], .direct = parts[3]};
    assert_int_equal(hsc_mediate(labs[0], labs[1], 3, 5, seam, &got, &err), HSC_OK);
    assert_int_equal(hsc_mediate(labs[1], labs[0], 5, 3, seam, &back, &err), HSC_OK);
    assert_true(got.clean == ends[0] && got.other == ends[1] && back.clean == -ends[1] && back.other == -ends[0]);
    for (int i = 0; i < n; i++) {
        for (int t = 0; t < 2; t++) {
            int layer = i / config->n_heads;
            place p = {
                HSC_Z, layer,  i % config->n_heads * d, d, z[1 - t] + (size_t)(layer * lengths[1 - t] * row), NULL,
                row,   maps[t]};
            run_any(ids[t], lengths[t], &p, 1, logits);
            assert_true(parts[t][i] == lead(logits) - ends[0]);
            differ += lead(logits) != ends[t];
            double turned = got.other - got.clean - parts[t][i]; /* the mirror's, which adds in another order */
            assert_float_equal(parts[3 - t][i], turned, 1e-12);
        }
    }
    assert_int_equal(differ, 2 * n);
    for (int i = 0; i < 4; i++) free(parts[i]);
    for (int t = 0; t < 2; t++) free(z[t]);
    for (int t = 0; t < 2; t++) hsc_lab_free(labs[t]);
    free(logits);
}

static void test_mediation_of_lengths(void **unused)
{
    (void)unused;
    for (int llama = 0; llama < 2; llama++) {
        tiny_model m;
        int seam;
        open_tiny(&m, llama);
        assert_int_equal(hsc_align(texts[0], N, longer, N + LONGER, -1, &seam, &err), HSC_OK);
        assert_int_equal(seam, SEAM);
        check_seam(seam);
        check_seam(0);        /* counted from the end throughout */
        check_seam(SEAM + 2); /* behind the first difference, which then meets its like */
        hsc_lab *labs[2] = {lab_of(0, HSC_RESID_POST), lab_of_any(longer, N + LONGER, HSC_RESID_POST)};
        assert_int_equal(hsc_mediate(labs[0], labs[1], 3, 5, N, &(hsc_mediation){0}, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, "seam 13 is not within texts of 13 and 15 tokens"));
        assert_int_equal(hsc_mediate(labs[0], labs[1], 3, 5, -1, &(hsc_mediation){0}, &err), HSC_EINVAL);
        for (int t = 0; t < 2; t++) hsc_lab_free(labs[t]);
        hsc_model_close(model);
        tiny_remove(&m);
    }
}

typedef struct rows {
    const float *clean; /* [n_heads][N][N] of the layer */
    int head, renormalise;
} rows;

static int compare_rows(void *user, const hsc_trial *t)
{
    const rows *w = user;
    hsc_view view;
    assert_int_equal(hsc_session_activation(t->session, HSC_PATTERN, 1, t->seq, &view, &err), HSC_OK);
    int first = t->first_row;
    for (int q = first; q < N; q++) {
        const float *got = view.data + ((size_t)w->head * (size_t)(N - first) + (size_t)(q - first)) * N;
        const float *was = w->clean + ((size_t)w->head * N + (size_t)q) * N;
        bool cut = q >= 7 && q < 10;
        double left = cut && w->renormalise ? 1 - (double)was[2] - (double)was[3] : 1;
        for (int k = 0; k <= q; k++) {
            double want = cut && (k == 2 || k == 3) ? 0 : (double)was[k] / left;
            assert_float_equal(got[k], want, 1e-6);
        }
    }
    return 0;
}

static void test_knock_out(void **unused)
{
    (void)unused;
    tiny_model m;
    open_tiny(&m, true);
    hsc_lab *lab = NULL;
    hsc_view pattern;
    assert_int_equal(hsc_lab_new(&lab, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_lab_keep(lab, HSC_PATTERN, 1, &err), HSC_OK);
    assert_int_equal(hsc_lab_text(lab, texts[0], N, &err), HSC_OK);
    assert_int_equal(hsc_lab_clean(lab, HSC_PATTERN, 1, &pattern, &err), HSC_OK);
    for (int renormalise = 0; renormalise < 2; renormalise++) {
        hsc_edit cut;
        rows w = {pattern.data, 2, renormalise};
        assert_int_equal(hsc_edit_knock_out(&cut, model, 1, 2, 7, 3, 2, 2, renormalise, &err), HSC_OK);
        assert_int_equal(hsc_lab_run(lab, &(hsc_variant){&cut, 1}, 1, compare_rows, &w, &err), HSC_OK);
    }
    hsc_edit cut;
    assert_int_equal(hsc_edit_knock_out(&cut, model, 99, 2, 7, 3, 2, 2, 1, &err), HSC_EINVAL);
    hsc_lab_free(lab);
    hsc_model_close(model);
    tiny_remove(&m);
}

static void test_refused(void **unused)
{
    (void)unused;
    tiny_model m;
    open_tiny(&m, false);
    hsc_lab *base = lab_of(0, HSC_RESID_POST), *source = lab_of(1, HSC_RESID_POST), *shorter = NULL;
    hsc_head_place from = {0, 0}, to = {1, 0}, none = {0, 99};
    seen s = {NULL, 0};
    const hsc_path_end kept = {HSC_Q, &to, 1}, residual = {HSC_RESID_POST, &to, 1}, site = {HSC_MLP_POST, &to, 1},
                       absent = {HSC_Q, &none, 1};
    assert_int_equal(hsc_path_patch(base, source, &from, 1, &kept, keep_logits, &s, &err), HSC_ENOTFOUND);
    assert_int_equal(hsc_path_patch(base, source, &from, 1, &residual, keep_logits, &s, &err), HSC_EINVAL);
    assert_int_equal(hsc_path_patch(base, source, &from, 1, &site, keep_logits, &s, &err), HSC_EINVAL);
    assert_int_equal(hsc_path_patch(base, source, &from, 1, &absent, keep_logits, &s, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "receiver L0H99"));
    assert_int_equal(hsc_lab_new(&shorter, model, NULL, &err), HSC_OK);
    assert_int_equal(hsc_path_patch(base, shorter, &from, 1, &kept, keep_logits, &s, &err), HSC_EINVAL);
    assert_int_equal(hsc_lab_text(shorter, texts[1], N - 1, &err), HSC_OK);
    assert_int_equal(hsc_path_patch(base, shorter, &from, 1, &kept, keep_logits, &s, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "13 and 12 tokens"));
    hsc_lab_free(base);
    hsc_lab_free(source);
    hsc_lab_free(shorter);
    hsc_model_close(model);
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths), cmocka_unit_test(test_mediation),
                                       cmocka_unit_test(test_mediation_of_lengths), cmocka_unit_test(test_knock_out),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
