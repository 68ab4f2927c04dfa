/*
 * Long texts: a random checkpoint with a context of 131,072, one layer and one head, run in full (33,000 tokens with
 * the plain kernels). Rows at the far end against the definition in double, from the q and k that the pass itself
 * recorded; statistics against the same rows; memory that grows with the length and not with its square. Equal weights,
 * too: their ties must not depend on where a row is cut.
 */
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif
enum { CONTEXT = 131072, SHORTER = 33000, D = 8, TOP = 8 };

static hsc_token *random_ids(int n)
{
    hsc_token *ids = malloc((size_t)n * sizeof *ids);
    uint64_t state = 5;
    for (int i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (hsc_token)((state >> 33) % TINY_VOCAB);
    }
    return ids;
}

static hsc_view activation(const hsc_session *s, hsc_site site)
{
    hsc_view v;
    hsc_error err = {0};
    if (hsc_session_activation(s, site, 0, 0, &v, &err) != HSC_OK) fail_msg("%s", err.message);
    return v;
}

static const float *stat(const hsc_session *s, hsc_stat which, int64_t *width)
{
    hsc_view v;
    hsc_error err = {0};
    if (hsc_session_stat(s, which, 0, 0, &v, &err) != HSC_OK) fail_msg("%s", err.message);
    *width = v.shape[v.n_dims - 1];
    return v.data;
}

/* row[0..query]: softmax of q k / sqrt(d) in double. */
static void define_row(const hsc_session *s, int query, double *row)
{
    const float *q = activation(s, HSC_ROT_Q).data + (size_t)query * D, *k = activation(s, HSC_ROT_K).data;
    double most = -INFINITY, sum = 0;
    for (int i = 0; i <= query; i++) {
        row[i] = 0;
        for (int j = 0; j < D; j++) row[i] += (double)q[j] * k[(size_t)i * D + (size_t)j] / sqrt(D);
        if (row[i] > most) most = row[i];
    }
    for (int i = 0; i <= query; i++) sum += row[i] = exp(row[i] - most);
    for (int i = 0; i <= query; i++) row[i] /= sum;
}

static void assert_near(double got, double want, double tolerance, const char *what)
{
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s is %.9g, %.9g by definition", what, got, want);
}

/* Scores of magnitude up to 10 carry D roundings of float32, so a weight is right to about 10 D 2^-24 of itself. */
static const double relative = 1e-5;

static void check_z(const hsc_session *s, int query, const double *row)
{
    const float *v = activation(s, HSC_V).data, *z = activation(s, HSC_Z).data + (size_t)query * D;
    for (int j = 0; j < D; j++) {
        double sum = 0, size = 0;
        for (int i = 0; i <= query; i++) {
            sum += row[i] * v[(size_t)i * D + (size_t)j];
            size += row[i] * fabs((double)v[(size_t)i * D + (size_t)j]);
        }
        assert_near(z[j], sum, relative * size, "z");
    }
}

/* The weights of the best keys are the largest of the row, in order, and belong to their keys. */
static void check_top(const hsc_session *s, int query, const double *row)
{
    const int32_t *keys;
    int64_t k;
    const float *top = stat(s, HSC_STAT_TOPK, &k) + (size_t)query * TOP;
    double above = INFINITY;
    assert_int_equal(k, TOP);
    assert_int_equal(hsc_session_topk_keys(s, 0, 0, &keys, NULL), HSC_OK);
    keys += (size_t)query * TOP;
    for (int n = 0; n < TOP; n++) {
        int heavier = 0;
        assert_in_range(keys[n], 0, query);
        assert_near(top[n], row[keys[n]], relative * row[keys[n]], "a best weight");
        for (int i = 0; i <= query; i++) heavier += row[i] > row[keys[n]] * (1 + 2 * relative);
        assert_true(heavier <= n && top[n] <= above);
        above = top[n];
    }
}

static void check_stats(const hsc_session *s, int query, const double *row)
{
    int64_t width, bins;
    const float *distance = stat(s, HSC_STAT_DISTANCE, &bins);
    double entropy = 0, far[32] = {0};
    for (int i = 0; i <= query; i++) {
        int bin = 0;
        while (query - i >= 1 << bin) bin++;
        far[bin] += row[i];
        if (row[i] > 0) entropy -= row[i] * log(row[i]);
    }
    assert_near(stat(s, HSC_STAT_ENTROPY, &width)[query], entropy, relative * (1 + entropy), "entropy");
    assert_near(stat(s, HSC_STAT_SINK, &width)[query], row[0], relative * row[0], "sink");
    assert_near(stat(s, HSC_STAT_SELF, &width)[query], row[query], relative * row[query], "self");
    assert_near(stat(s, HSC_STAT_PREV, &width)[query], row[query - 1], relative * row[query - 1], "prev");
    for (int b = 0; b < bins; b++)
        assert_near(distance[(size_t)query * (size_t)bins + (size_t)b], far[b], relative, "a distance bin");
}

static void check_row(const hsc_session *s, int query)
{
    double *row = malloc((size_t)(query + 1) * sizeof *row);
    define_row(s, query, row);
    check_z(s, query, row);
    check_stats(s, query, row);
    check_top(s, query, row);
    free(row);
}

/* The last two keys get weight from one and two rows; all keys together get 1 from each. */
static void check_received(const hsc_session *s, int n)
{
    int64_t width;
    const float *received = stat(s, HSC_STAT_RECEIVED, &width), *self = stat(s, HSC_STAT_SELF, &width);
    const float *prev = stat(s, HSC_STAT_PREV, &width);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += received[i];
    assert_near(sum, n, relative * n, "the weight that all keys received");
    assert_near(received[n - 1], self[n - 1], 1e-9, "the weight that the last key received");
    assert_near(received[n - 2], (double)self[n - 2] + prev[n - 1], 1e-9,
                "the weight that the last key but one received");
}

/* Rotation at the far end: pairs (j, j + D/2) turned by position x 10000^(-2j/D), the product rounded as float32. */
static void check_rotation(const hsc_session *s, int position)
{
    const float *k = activation(s, HSC_K).data + (size_t)position * D;
    const float *turned = activation(s, HSC_ROT_K).data + (size_t)position * D;
    for (int j = 0; j < D / 2; j++) {
        float angle = (float)position * (float)pow(10000, -2.0 * j / D);
        double a = k[j], b = k[j + D / 2], size = hypot(a, b);
        assert_near(turned[j], a * cos(angle) - b * sin(angle), 1e-6 * size, "a rotated key");
        assert_near(turned[j + D / 2], b * cos(angle) + a * sin(angle), 1e-6 * size, "a rotated key");
    }
}

/* Resident bytes of this process at the peak since the last call with `reset`; 0 where the system does not say. */
static double peak(bool reset)
{
    char line[128];
    double kib = 0;
    FILE *f = fopen(reset ? "/proc/self/clear_refs" : "/proc/self/status", reset ? "w" : "r");
    if (!f) return 0;
    if (reset) fputs("5", f);
    else
        while (fgets(line, sizeof line, f))
            if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
    fclose(f);
    return reset ? peak(false) : kib * 1024;
}

/* What a pass may take: the forecast of everything but the model, 5 recorded sites, and the statistics, all of them
 * multiples of n; a tenth more, and the two buffers of a file that libc keeps. */
static void check_memory(const hsc_model *m, const hsc_session_options *o, int n, double grown)
{
    hsc_memory forecast;
    assert_int_equal(hsc_model_memory(m, o, n, &forecast, NULL), HSC_OK);
    double bound = (double)(forecast.total + forecast.stats) + 5.0 * n * D * sizeof(float);
    assert_true(bound < 1000.0 * n);                  /* n x n weights would be 4 n bytes a token: 524 kB */
    if (!IS_SANITIZED && grown > 1.1 * bound + 65536) /* shadow memory is counted too */
        fail_msg("%d tokens took %.0f bytes, %.0f are foreseen", n, grown, bound);
}

static void test_far_end(void **unused)
{
    (void)unused;
    static const hsc_site sites[] = {HSC_K, HSC_V, HSC_ROT_Q, HSC_ROT_K, HSC_Z};
    int n =
        strcmp(hsc_isa(), "avx512") == 0 && !IS_SANITIZED ? CONTEXT : SHORTER; /* elsewhere it would take a minute */
    tiny_model t;
    hsc_model *m;
    hsc_session *s;
    tiny_llama_of(&t, (tiny_shape){D, 1, 1, D, 16, 1, CONTEXT, true});
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_token *ids = random_ids(n);
    hsc_session_options o = {.n_threads = 2, .max_tokens = n};
    double before = peak(true);
    assert_int_equal(hsc_session_new(&s, m, &o, NULL), HSC_OK);
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        assert_int_equal(hsc_session_record(s, &(hsc_record){sites[i], 0, -1, -1}, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1, .top_k = TOP}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = n, .logits = HSC_LOGITS_NONE}, NULL), HSC_OK);
    if (before > 0) check_memory(m, &o, n, peak(false) - before);
    const int queries[] = {1000, 32767, 32768, n / 2, n - 2, n - 1};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) check_row(s, queries[i]);
    check_received(s, n);
    check_rotation(s, n - 1);
    free(ids);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

/* Without a query every score is 0 and every weight of a row equal: the best keys are the first ones. */
static void test_equal_weights(void **unused)
{
    (void)unused;
    enum { N = 700 };
    tiny_model t;
    hsc_model *m;
    hsc_session *s;
    const int32_t *keys;
    tiny_llama_of(&t, (tiny_shape){D, 1, 1, D, 16, 1, CONTEXT, true});
    for (size_t i = 0; i < t.n; i++)
        if (strstr(t.arrays[i].name, "q_proj")) memset((void *)(uintptr_t)t.arrays[i].data, 0, D * D * sizeof(float));
    tiny_save(&t);
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    hsc_token *ids = random_ids(N);
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1, .top_k = TOP}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    assert_int_equal(hsc_session_topk_keys(s, 0, 0, &keys, NULL), HSC_OK);
    for (int query = 0; query < N; query++)
        for (int k = 0; k < TOP; k++) assert_int_equal(keys[query * TOP + k], k <= query ? k : -1);
    free(ids);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_far_end), cmocka_unit_test(test_equal_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
