/*
 * Detectors and drift of small random models through the library: every score by its definition from recorded patterns,
 * the same bits for any number of threads, drift of a model from itself, refusals, and memory that runs out.
 */
#include "failing_alloc.h"
#include "headscope/inspect.h"
#include "headscope/random.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEQUENCES = 3, T = 9, N = 2 * T, HEADS = 16 };
static const hsc_detect_options few = {.n_sequences = SEQUENCES, .length = T, .seed = 5, .n_bootstrap = 50};

static hsc_model *open_model(tiny_model *files)
{
    hsc_model *model;
    hsc_error err = {0};
    if (hsc_model_open(&model, files->dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    return model;
}

/* The first random sequence: TINY_VOCAB is below 100 + T, so ids are from 0. */
static void draw(hsc_random *random, hsc_token *ids)
{
    for (int n = 0; n < T;) {
        int64_t id;
        bool there = false;
        assert_int_equal(hsc_random_integers(random, 0, TINY_VOCAB, 1, &id, NULL), HSC_OK);
        for (int i = 0; i < n; i++) there = there || ids[i] == id;
        if (!there) ids[n++] = (hsc_token)id;
    }
    memcpy(ids + T, ids, T * sizeof *ids);
}

typedef struct figures {
    double previous, self, first, duplicate, induction, entropy, tl_previous, tl_induction;
} figures;

/* One sequence's figures of a head from its pattern [N][N]. A token is never there thrice, so a row of the second half
 * has one duplicate. */
static figures by_definition(const float *a)
{
    figures f = {0};
    for (int q = 1; q < N; q++) {
        const float *row = a + (size_t)q * N;
        f.previous += (double)row[q - 1] / (N - 1);
        f.tl_previous += (double)row[q - 1] / N;
        f.self += (double)row[q] / (N - 1);
        f.first += (double)row[0] / (N - 1);
        for (int k = 0; k <= q; k++)
            if (row[k] > 0) f.entropy -= (double)row[k] * log((double)row[k]) / (N - 1);
        if (q < T) continue;
        f.duplicate += (double)row[q - T] / T;
        f.induction += (double)row[q - T + 1] / T;
        f.tl_induction += (double)row[q - T + 1] / N;
    }
    return f;
}

static void record(const hsc_model *model, hsc_session **s)
{
    assert_int_equal(hsc_session_new(s, model, NULL, NULL), HSC_OK);
    assert_int_equal(
        hsc_session_record(*s, &(hsc_record){.site = HSC_PATTERN, .layer = -1, .head = -1, .query = -1}, NULL), HSC_OK);
}

static const float *pattern(hsc_session *s, int head, int n_heads)
{
    hsc_view view;
    assert_int_equal(hsc_session_activation(s, HSC_PATTERN, head / n_heads, 0, &view, NULL), HSC_OK);
    return view.data + (size_t)(head % n_heads) * N * N;
}

static void assert_score(const hsc_detect *detect, hsc_detector d, int head, double want, double tl)
{
    hsc_detect_score scores[HEADS * 8];
    assert_int_equal(hsc_detect_scores(detect, d, scores, NULL), HSC_OK);
    assert_true(fabs(scores[head].score - want) < 1e-6);
    assert_true(scores[head].ci.low <= scores[head].score && scores[head].score <= scores[head].ci.high);
    if (isnan(tl)) assert_true(isnan(scores[head].tl) != 0);
    else assert_true(fabs(scores[head].tl - tl) < 1e-6);
}

static void check_model(tiny_model *files)
{
    hsc_model *model = open_model(files);
    const hsc_config *c = hsc_model_config(model);
    hsc_detect *detect;
    hsc_session *s;
    hsc_random random;
    hsc_error err = {0};
    figures sum[HEADS * 8] = {0};
    int n_heads = c->n_layers * c->n_heads;
    hsc_random_seed(&random, few.seed);
    record(model, &s);
    for (int i = 0; i < SEQUENCES; i++) {
        hsc_token ids[N];
        draw(&random, ids);
        hsc_session_reset(s);
        assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
        for (int h = 0; h < n_heads; h++) {
            figures f = by_definition(pattern(s, h, c->n_heads));
            double *to = &sum[h].previous;
            for (size_t k = 0; k < sizeof f / sizeof(double); k++) to[k] += (&f.previous)[k] / SEQUENCES;
        }
    }
    if (hsc_detect_run(&detect, model, NULL, 0, &few, &err) != HSC_OK) fail_msg("%s", err.message);
    for (int h = 0; h < n_heads; h++) {
        assert_score(detect, HSC_DETECT_PREVIOUS, h, sum[h].previous, sum[h].tl_previous);
        assert_score(detect, HSC_DETECT_SELF, h, sum[h].self, NAN);
        assert_score(detect, HSC_DETECT_FIRST, h, sum[h].first, NAN);
        assert_score(detect, HSC_DETECT_DUPLICATE, h, sum[h].duplicate, sum[h].duplicate / 2);
        assert_score(detect, HSC_DETECT_INDUCTION, h, sum[h].induction, sum[h].tl_induction);
        assert_score(detect, HSC_DETECT_ENTROPY, h, sum[h].entropy, NAN);
    }
    hsc_detect_score next[HEADS * 8];
    assert_int_equal(hsc_detect_scores(detect, HSC_DETECT_NEXT, next, NULL), HSC_OK);
    assert_true(isnan(next[0].score) != 0);
    hsc_detect_free(detect);
    hsc_session_free(s);
    hsc_model_close(model);
}

static void test_definitions(void **state)
{
    (void)state;
    tiny_model files;
    tiny_llama(&files);
    check_model(&files);
    tiny_remove(&files);
    tiny_gpt2(&files);
    check_model(&files);
    tiny_remove(&files);
}

static void test_threads_profile_and_example(void **state)
{
    (void)state;
    tiny_model files;
    tiny_llama(&files);
    hsc_model *model = open_model(&files);
    const hsc_config *c = hsc_model_config(model);
    size_t n_heads = (size_t)(c->n_layers * c->n_heads);
    hsc_detect_score scores[2][HEADS * 8];
    double profile[HEADS * 8 * HSC_DETECT_BINS];
    for (int i = 0; i < 2; i++) {
        hsc_detect *detect;
        hsc_detect_options o = few;
        o.session.n_threads = i ? 3 : 1;
        memset(scores[i], 0, sizeof scores[i]);
        assert_int_equal(hsc_detect_run(&detect, model, NULL, 0, &o, NULL), HSC_OK);
        assert_int_equal(hsc_detect_scores(detect, HSC_DETECT_INDUCTION, scores[i], NULL), HSC_OK);
        hsc_detect_profile(detect, profile);
        hsc_detect_free(detect);
    }
    for (size_t h = 0; h < n_heads; h++) {
        double sum = 0;
        assert_memory_equal(&scores[0][h].score, &scores[1][h].score, sizeof(double));
        assert_memory_equal(&scores[0][h].ci, &scores[1][h].ci, sizeof(hsc_interval));
        assert_int_equal(scores[0][h].best.key, scores[0][h].best.query - T + 1);
        assert_true((double)scores[0][h].best.weight >= scores[0][h].score);
        for (int b = 0; b < HSC_DETECT_BINS; b++) sum += profile[h * HSC_DETECT_BINS + (size_t)b];
        assert_true(fabs(sum - 1) < 1e-5);
    }
    hsc_model_close(model);
    tiny_remove(&files);
}

static int stop(void *user, int n_done, int n_all)
{
    (void)user;
    (void)n_all;
    return n_done == 2;
}

static void assert_refused(const hsc_model *model, const char *text, hsc_detect_options o, hsc_status want,
                           const char *says)
{
    hsc_detect *detect;
    hsc_error err = {0};
    assert_int_equal(hsc_detect_run(&detect, model, text, text ? strlen(text) : 0, &o, &err), want);
    assert_null(detect);
    assert_non_null(strstr(err.message, says));
}

static void test_refusals(void **state)
{
    (void)state;
    tiny_model files;
    tiny_llama(&files);
    hsc_model *model = open_model(&files);
    assert_refused(model, NULL, (hsc_detect_options){.length = 200}, HSC_EINVAL, "length is 200");
    assert_refused(model, NULL, (hsc_detect_options){.n_sequences = -1}, HSC_EINVAL, "n_sequences is -1");
    assert_refused(model, NULL, (hsc_detect_options){.with_bos = 1, .bos = 97}, HSC_EINVAL, "bos is 97");
    assert_refused(model, "a text", few, HSC_ENOTFOUND, "");
    hsc_detect_options stopping = few;
    stopping.tell = stop;
    assert_refused(model, NULL, stopping, HSC_ECANCELED, "2 windows");
    hsc_model_close(model);
    tiny_remove(&files);
}

/* The distance of two rows as scipy's jensenshannon(base=2) defines it. */
static double distance(const float *x, const float *y, int n)
{
    double kl = 0;
    for (int k = 0; k < n; k++) {
        double m = ((double)x[k] + (double)y[k]) / 2;
        if (x[k] > 0) kl += (double)x[k] * log2((double)x[k] / m) / 2;
        if (y[k] > 0) kl += (double)y[k] * log2((double)y[k] / m) / 2;
    }
    return sqrt(fmax(kl, 0));
}

static void test_drift(void **state)
{
    (void)state;
    tiny_model files, other;
    hsc_drift drift[HEADS * 8];
    hsc_model_options q8 = {.recast = 1, .dtype = HSC_BF16};
    hsc_model *b, *c;
    hsc_session *s[2];
    hsc_random random;
    hsc_error err = {0};
    hsc_token ids[N];
    tiny_llama(&files);
    tiny_gpt2(&other);
    hsc_model *a = open_model(&files);
    const hsc_config *config = hsc_model_config(a);
    assert_int_equal(hsc_model_open(&b, files.dir, &q8, NULL), HSC_OK);
    c = open_model(&other);

    assert_int_equal(hsc_drift_run(a, a, NULL, 0, &few, drift, NULL), HSC_OK);
    for (int h = 0; h < config->n_layers * config->n_heads; h++) assert_true(drift[h].largest == 0);

    hsc_detect_options one = few;
    one.n_sequences = 1;
    if (hsc_drift_run(a, b, NULL, 0, &one, drift, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_random_seed(&random, few.seed);
    draw(&random, ids);
    record(a, &s[0]);
    record(b, &s[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(hsc_forward(s[i], &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    for (int h = 0; h < config->n_layers * config->n_heads; h++) {
        const float *x = pattern(s[0], h, config->n_heads), *y = pattern(s[1], h, config->n_heads);
        double want = 0;
        for (int q = 1; q < N; q++) want += distance(x + q * N, y + q * N, N) / (N - 1);
        assert_true(want > 0 && fabs(drift[h].distance - want) < 1e-6);
        assert_true(isnan(drift[h].ci.low) != 0 && drift[h].largest >= drift[h].distance);
    }
    assert_int_equal(hsc_drift_run(a, c, NULL, 0, &few, drift, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "n_heads is"));
    for (int i = 0; i < 2; i++) hsc_session_free(s[i]);
    hsc_model_close(a);
    hsc_model_close(b);
    hsc_model_close(c);
    tiny_remove(&files);
    tiny_remove(&other);
}

static hsc_status run_both(const hsc_model *model)
{
    static hsc_drift drift[HEADS * 8];
    static hsc_detect_score scores[HEADS * 8];
    hsc_detect *detect;
    hsc_detect_options o = {.n_sequences = 2, .length = 4, .n_bootstrap = 5, .session = {.n_threads = 1}};
    hsc_status status = hsc_detect_run(&detect, model, NULL, 0, &o, NULL);
    if (status != HSC_OK) return status;
    status = hsc_detect_scores(detect, HSC_DETECT_SELF, scores, NULL);
    hsc_detect_free(detect);
    return status == HSC_OK ? hsc_drift_run(model, model, NULL, 0, &o, drift, NULL) : status;
}

/* ---- a store ---- */

enum { MANY = 11, RECORD = 1 << 16 };

/* Records of sequences, in memory. */
typedef struct memory {
    struct kept {
        uint64_t digest;
        size_t n;
        unsigned char bytes[RECORD];
    } windows[MANY];
    int n_saved, n_flushed, n_told, stop_after;
    bool damage; /* what load gives names a row past the window */
} memory;

static int load(void *user, int is_random, int index, uint64_t digest, void *record, size_t n)
{
    memory *m = user;
    assert_true(is_random && index >= 0 && index < MANY);
    const struct kept *w = &m->windows[index];
    if (w->digest != digest || w->n != n) return 0;
    memcpy(record, w->bytes, n);
    if (m->damage) memset((unsigned char *)record + n - 192, 0x7F, 24); /* among the best rows: places */
    return 1;
}

static hsc_status save(void *user, int is_random, int index, uint64_t digest, const void *record, size_t n,
                       hsc_error *err)
{
    memory *m = user;
    (void)err;
    assert_true(is_random && index >= 0 && index < MANY && n <= RECORD);
    struct kept *w = &m->windows[index];
    w->digest = digest;
    w->n = n;
    memcpy(w->bytes, record, n);
    m->n_saved++;
    return HSC_OK;
}

static hsc_status flush(void *user, hsc_error *err)
{
    (void)err;
    ((memory *)user)->n_flushed++;
    return HSC_OK;
}

static int stop_at(void *user, int n_done, int n_all)
{
    memory *m = user;
    assert_int_equal(n_all, MANY);
    m->n_told = n_done;
    return n_done == m->stop_after;
}

static hsc_status run_stored(hsc_model *model, memory *m, hsc_detect_score *scores, int *n_loaded)
{
    hsc_detect_store store = {load, save, flush, m};
    hsc_detect_options o = few;
    hsc_detect *detect;
    o.n_sequences = MANY;
    o.store = m ? &store : NULL;
    o.tell = m ? stop_at : NULL;
    o.user = m;
    hsc_status status = hsc_detect_run(&detect, model, NULL, 0, &o, NULL);
    if (status != HSC_OK) return status;
    *n_loaded = hsc_detect_count(detect).n_loaded;
    for (int d = 0; d < HSC_N_DETECTORS; d++)
        assert_int_equal(hsc_detect_scores(detect, (hsc_detector)d, scores + d * HEADS * 8, NULL), HSC_OK);
    hsc_detect_free(detect);
    return HSC_OK;
}

/* A run that stops is gone on with, to the bit; records that do not fit their window are made anew. */
static void test_store(void **state)
{
    (void)state;
    static memory kept;
    static hsc_detect_score want[HSC_N_DETECTORS * HEADS * 8], got[HSC_N_DETECTORS * HEADS * 8];
    int n;
    tiny_model files;
    tiny_llama(&files);
    hsc_model *model = open_model(&files);
    assert_int_equal(run_stored(model, NULL, want, &n), HSC_OK);
    assert_int_equal(n, 0);
    kept.stop_after = 6;
    assert_int_equal(run_stored(model, &kept, got, &n), HSC_ECANCELED);
    assert_true(kept.n_saved >= 6 && kept.n_saved < MANY && kept.n_flushed > 0);
    int saved = kept.n_saved;
    kept.stop_after = -1;
    assert_int_equal(run_stored(model, &kept, got, &n), HSC_OK);
    assert_int_equal(n, saved);
    assert_int_equal(kept.n_saved, MANY);
    assert_memory_equal(got, want, sizeof got);
    kept.damage = true;
    assert_int_equal(run_stored(model, &kept, got, &n), HSC_OK);
    assert_int_equal(n, 0);
    assert_memory_equal(got, want, sizeof got);
    hsc_model_close(model);
    tiny_remove(&files);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    tiny_model files;
    failing_alloc alloc;
    hsc_status status = HSC_ENOMEM;
    tiny_llama(&files);
    for (long at = 1; status != HSC_OK; at++) {
        failing_alloc_install(&alloc, 0);
        hsc_model *model;
        assert_int_equal(hsc_model_open(&model, files.dir, NULL, NULL), HSC_OK);
        (void)hsc_model_tokenizer(model, NULL);
        long held = alloc.held;
        alloc.fail_at = alloc.calls + at;
        status = run_both(model);
        if (status != HSC_OK) assert_int_equal(status, HSC_ENOMEM);
        assert_int_equal(alloc.held, held);
        hsc_model_close(model);
        failing_alloc_remove();
    }
    tiny_remove(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions),   cmocka_unit_test(test_threads_profile_and_example),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_drift),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
