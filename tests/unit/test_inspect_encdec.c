/* The lab on an encoder-decoder: variants of either stack and of cross-attention are what passes with the same changes
 * give, to the last bit, in any order and however many run together. Which texts an export reads. */
#include "failing_alloc.h"
#include "headscope/analysis.h"
#include "headscope/intervene.h"
#include "tiny_t5.h"

static int edit_site(void *user, const hsc_block *block)
{
    const hsc_edit *e = user;
    for (int r = 0; r < block->n_rows; r++) {
        float *row = block->data + (size_t)r * block->stride;
        if (e->site == HSC_CROSS_PATTERN && block->head != e->head) continue;
        for (int i = 0; i < block->row_size; i++)
            if (i >= e->first && (!e->n || i < e->first + e->n)) row[i] = e->keep * row[i] + e->constant;
    }
    return 0;
}

/* All logits of one text with an edit, by a pass with an observer. */
static void run_edited(const hsc_model *model, hsc_edit *e, float *logits)
{
    hsc_error err = {0};
    hsc_session *s;
    hsc_view view;
    OK(hsc_session_new(&s, model, NULL, &err));
    if (e) OK(hsc_session_observe(s, &(hsc_observer){e->site, e->layer, edit_site, e}, &err));
    OK(hsc_session_read_source(s, &(hsc_batch){.ids = source, .n_tokens = N_SOURCE}, &err));
    OK(hsc_forward(s, &(hsc_batch){.ids = target, .n_tokens = N_TARGET, .logits = HSC_LOGITS_ALL}, &err));
    OK(hsc_session_logits(s, &view, &err));
    memcpy(logits, view.data, N_TARGET * VOCABULARY * sizeof *logits);
    hsc_session_free(s);
}

typedef struct {
    float (*want)[N_TARGET * VOCABULARY];
    int seen;
} trials;

static int same_bits(void *user, const hsc_trial *t)
{
    trials *all = user;
    size_t n = (size_t)t->n_rows * VOCABULARY;
    assert_int_equal(t->n_rows + t->first_row, N_TARGET);
    assert_memory_equal(t->logits, all->want[t->variant] + N_TARGET * VOCABULARY - n, n * sizeof(float));
    all->seen++;
    return 0;
}

/* Variants of both stacks in one run, in a lab that had another source before. */
static void test_lab(void **state)
{
    (void)state;
    enum { N = 6 };
    static float want[N + 1][N_TARGET * VOCABULARY];
    tiny_model m;
    hsc_model *model;
    hsc_lab *lab;
    hsc_error err = {0};
    hsc_edit edits[N] = {{.site = HSC_CROSS_Z, .layer = 1, .first = 8, .n = 8},
                         {.site = HSC_ENC_Z, .layer = 0, .n = 8},
                         {.site = HSC_Z, .layer = 0, .first = 8, .n = 8, .keep = 2},
                         {.site = HSC_CROSS_V, .layer = 0, .constant = 0.5f},
                         {.site = HSC_ENC_MLP_OUT, .layer = 1},
                         {.site = HSC_CROSS_PATTERN, .layer = 0, .head = 1, .first = 3, .n = 4}};
    hsc_variant variants[N + 1];
    model = open_t5(&m);
    for (int i = 0; i < N; i++) {
        variants[i] = (hsc_variant){&edits[i], 1};
        run_edited(model, &edits[i], want[i]);
    }
    variants[N] = (hsc_variant){0};
    run_edited(model, NULL, want[N]);
    for (int i = 0; i < N; i++) assert_memory_not_equal(want[i], want[N], sizeof want[N]);
    for (int max_rows = 1; max_rows <= 64; max_rows *= 8) {
        hsc_view view;
        trials all = {want, 0};
        OK(hsc_lab_new(&lab, model, &(hsc_lab_options){.logits = HSC_LOGITS_ALL, .max_rows = max_rows}, &err));
        assert_int_equal(hsc_lab_text(lab, target, N_TARGET, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, "hsc_lab_source"));
        OK(hsc_lab_source(lab, source + N_SOURCE, 5, &err));
        OK(hsc_lab_text(lab, target, N_TARGET, &err));
        OK(hsc_lab_source(lab, source, N_SOURCE, &err));
        OK(hsc_lab_keep(lab, HSC_ENC_Z, -1, &err));
        OK(hsc_lab_text(lab, target, N_TARGET, &err));
        OK(hsc_lab_logits(lab, &view, &err));
        assert_memory_equal(view.data, want[N], sizeof want[N]);
        OK(hsc_lab_clean(lab, HSC_ENC_Z, 1, &view, &err));
        assert_int_equal(view.shape[0], N_SOURCE);
        OK(hsc_lab_run(lab, variants, N + 1, same_bits, &all, &err));
        assert_int_equal(all.seen, N + 1);
        edits[1].first_pos = N_SOURCE;
        assert_int_equal(hsc_lab_run(lab, variants, N + 1, same_bits, &all, &err), HSC_EINVAL);
        edits[1].first_pos = 0;
        assert_int_equal(hsc_mediate(lab, lab, 1, 2, 0, &(hsc_mediation){0}, &err), HSC_EUNSUPPORTED);
        hsc_lab_free(lab);
    }
    hsc_model_close(model);
    tiny_remove(&m);
}

/* The lens of a target: its last stage is what the model says, whichever rows are read; it wants a source, and a model
 * that reads one. */
static void test_lens(void **state)
{
    (void)state;
    static float want[N_TARGET * VOCABULARY];
    hsc_token words[VOCABULARY];
    tiny_model m;
    hsc_model *model;
    hsc_error err = {0};
    hsc_lens lens;
    for (int i = 0; i < VOCABULARY; i++) words[i] = i;
    model = open_t5(&m);
    run_edited(model, NULL, want);
    hsc_lens_options o = {.words = words, .n_words = VOCABULARY, .source = source, .n_source = N_SOURCE};
    for (o.first_pos = 0; o.first_pos < N_TARGET; o.first_pos += 3) {
        OK(hsc_lens_run(model, target, N_TARGET, &o, &lens, &err));
        assert_int_equal(lens.n_stages, 3);
        size_t n = (size_t)lens.n_pos * VOCABULARY;
        assert_memory_equal(lens.word_logits + 2 * n, want + o.first_pos * VOCABULARY, n * sizeof *want);
        assert_memory_not_equal(lens.word_logits + n, lens.word_logits + 2 * n, n * sizeof *want);
        hsc_lens_free(&lens);
    }
    o.first_pos = 0;
    o.n_source = 0;
    assert_int_equal(hsc_lens_run(model, target, N_TARGET, &o, &lens, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "encoder-decoder"));
    hsc_model_close(model);
    tiny_remove(&m);
}

/* Two texts; what is left out of the second is what the test wants left out. */
typedef struct {
    bool no_source, no_text;
} corpus;

static hsc_status next_text(void *user, int64_t index, hsc_corpus_text *out, int *is_end, hsc_error *err)
{
    const corpus *c = user;
    (void)err;
    *is_end = index == 2;
    *out = (hsc_corpus_text){target, N_TARGET, (int32_t)index, source, N_SOURCE};
    if (index == 1 && c->no_source) out->n_source = 0;
    if (index == 1 && c->no_text) *out = (hsc_corpus_text){.label = 1, .source = source, .n_source = 5};
    return HSC_OK;
}

typedef struct {
    const hsc_model *model;
    char path[128];
    hsc_export_options o;
} export_of;

static hsc_status export_once(void *user)
{
    const export_of *e = user;
    return hsc_export(e->model, e->path, &e->o, NULL, NULL);
}

/* A text is read for the sites that are its own alone, its source always; memory may run out anywhere. */
static void test_export(void **state)
{
    (void)state;
    tiny_model m;
    hsc_error err = {0};
    hsc_export_counts counts;
    corpus whole = {0}, sources = {.no_text = true}, torn = {.no_source = true};
    failing_alloc a;
    failing_alloc_install(&a, 0);
    hsc_model *model = open_t5(&m);
    export_of e = {.model = model, .o = {.layer = -1, .next = next_text}};
    snprintf(e.path, sizeof e.path, "%s/out.npz", m.dir);
    const struct {
        hsc_site site;
        corpus *corpus;
        hsc_status status;
        int n_rows;
    } cases[] = {{HSC_ENC_Z, &sources, HSC_OK, N_SOURCE + 5}, {HSC_CROSS_K, &whole, HSC_OK, 2 * N_SOURCE},
                 {HSC_CROSS_Z, &whole, HSC_OK, 2 * N_TARGET}, {HSC_CROSS_PATTERN, &whole, HSC_OK, 2 * N_TARGET},
                 {HSC_CROSS_Z, &sources, HSC_EINVAL, 0},      {HSC_ENC_Z, &torn, HSC_EINVAL, 0},
                 {HSC_CROSS_PATTERN, &torn, HSC_EINVAL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e.o.site = cases[i].site;
        e.o.user = cases[i].corpus;
        assert_int_equal(hsc_export(model, e.path, &e.o, &counts, &err), cases[i].status);
        if (cases[i].status == HSC_OK) assert_int_equal(counts.n_rows, cases[i].n_rows);
        if (cases[i].status == HSC_OK) failing_alloc_each(&a, export_once, &e);
    }
    unlink(e.path);
    hsc_model_close(model);
    assert_int_equal(a.held, 0);
    failing_alloc_remove();
    tiny_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lab), cmocka_unit_test(test_lens),
                                       cmocka_unit_test(test_export)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
