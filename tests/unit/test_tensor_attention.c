/*
 * Attention against its formula in double precision, and its "same bits" promises by memcmp: alone or among other rows,
 * at any cut of the cache, with later keys present, watched or not, on any number of threads.
 */
#include "random_array.h"

#include "base/alloc.h"
#include "tensor/attention.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    int n_heads, n_kv_heads, d_head, n_key, window;
    bool causal;
    float cap, scale;
    float *q, *k, *v; /* [n_key][heads][d_head] */
    hsc__kv kv;
    int sinks, block, n_blocks;
    const unsigned char *allowed; /* [n_blocks][n_blocks] or NULL */
    const float *alibi;           /* [n_heads] or NULL */
} fixture;

static fixture make(int n_heads, int n_kv_heads, int d_head, int n_key)
{
    fixture f = {n_heads, n_kv_heads, d_head, n_key, 0, true, 0,   1 / sqrtf((float)d_head), NULL, NULL,
                 NULL,    {0},        0,      0,     0, NULL, NULL};
    size_t kv = (size_t)n_kv_heads * (size_t)d_head, cells = ((size_t)n_key + 255) / 256 * 256;
    f.q = random_array((size_t)n_key * (size_t)n_heads * (size_t)d_head, 2);
    f.k = random_array((size_t)n_key * kv, 2);
    f.v = random_array((size_t)n_key * kv, 2);
    f.kv = (hsc__kv){.dtype = HSC_F32,
                     .n_kv_heads = n_kv_heads,
                     .d_head = d_head,
                     .n_cells = (int)cells,
                     .head_bytes = cells * (size_t)d_head * sizeof(float),
                     .k = (char *)random_array(cells * kv, 2),
                     .v = (char *)random_array(cells * kv, 2)};
    hsc__kv_store(hsc__kernels_get(), &f.kv, 0, n_key, f.k, kv, f.v, kv);
    return f;
}

static void drop(fixture *f)
{
    free(f->q);
    free(f->k);
    free(f->v);
    free(f->kv.k);
    free(f->kv.v);
}

/* z of the queries [first, first + n), with n_key keys in the cache; patterns into `watched` when it is not NULL. */
typedef struct {
    float *data;
    int n_query, n_key;
} watched;

static int keep(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    watched *w = user;
    (void)seq;
    for (int r = 0; r < n_rows; r++)
        memcpy(w->data + (((size_t)head * (size_t)w->n_query) + (size_t)(first_query + r)) * (size_t)n_key,
               data + (size_t)r * stride, (size_t)n_key * sizeof *data);
    return 0;
}

static float *run(const fixture *f, int first, int n, int n_key, int n_threads, watched *pattern, watched *scores)
{
    size_t row = (size_t)f->n_heads * (size_t)f->d_head;
    float *z = malloc((size_t)n * row * sizeof *z);
    hsc__exec exec;
    assert_non_null(z);
    assert_int_equal(hsc__exec_init(&exec, n_threads, hsc__attention_scratch(hsc__kernels_get(), n_key, f->d_head),
                                    HSC_COMPUTE_F32, 1, 1, NULL),
                     HSC_OK);
    hsc__attention_seq seq = {0, n, first, n_key, f->kv};
    hsc__attention job = {.n_heads = f->n_heads,
                          .n_kv_heads = f->n_kv_heads,
                          .d_head = f->d_head,
                          .causal = f->causal,
                          .window = f->window,
                          .scale = f->scale,
                          .cap = f->cap,
                          .sinks = f->sinks,
                          .allowed = f->allowed,
                          .block = f->block,
                          .n_blocks = f->n_blocks,
                          .alibi = f->alibi,
                          .q = f->q + (size_t)first * row,
                          .q_stride = row,
                          .z = z,
                          .z_stride = row,
                          .seqs = &seq,
                          .n_seqs = 1,
                          .on_pattern = pattern ? keep : NULL,
                          .on_scores = scores ? keep : NULL,
                          .user = pattern ? pattern : scores};
    assert_int_equal(hsc__attention_forward(&exec, &job), HSC_OK);
    hsc__exec_free(&exec);
    return z;
}

/* The masks by their definitions. */
static bool sees(const fixture *f, int query, int key)
{
    bool near = f->window <= 0 || (key > query - f->window && key < query + f->window) || key < f->sinks;
    bool listed = !f->allowed || f->allowed[query / f->block * f->n_blocks + key / f->block];
    return near && listed && (!f->causal || key <= query);
}

/* The formula, in double: weights of one query of one head over n_key keys. */
static void oracle(const fixture *f, int query, int head, int n_key, double *weights, double *z)
{
    int kv = head / (f->n_heads / f->n_kv_heads);
    size_t d = (size_t)f->d_head;
    const float *q = f->q + ((size_t)query * (size_t)f->n_heads + (size_t)head) * d;
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < n_key; j++) {
        const float *k = f->k + ((size_t)j * (size_t)f->n_kv_heads + (size_t)kv) * d;
        double s = 0;
        for (size_t i = 0; i < d; i++) s += (double)q[i] * k[i];
        s *= f->scale;
        if (f->cap > 0) s = f->cap * tanh(s / f->cap);
        if (f->alibi) s += (double)f->alibi[head] * (j - query);
        weights[j] = sees(f, query, j) ? s : -INFINITY;
        if (weights[j] > max) max = weights[j];
    }
    for (int j = 0; j < n_key; j++) sum += weights[j] = exp(weights[j] - max);
    for (size_t i = 0; i < d; i++) z[i] = 0;
    for (int j = 0; j < n_key; j++) {
        const float *v = f->v + ((size_t)j * (size_t)f->n_kv_heads + (size_t)kv) * d;
        weights[j] /= sum;
        for (size_t i = 0; i < d; i++) z[i] += weights[j] * v[i];
    }
}

/* Scores here stay under 4 d_head scale = 4 sqrt(d); their rounding error is at most d eps times that, and a weight's
 * relative error twice the scores' absolute one. A bias by distance is rounded, so are the
 * sum with it, the row's largest and the difference of both: by half an eps each. */
static void compare(const fixture *f)
{
    int n = f->n_key;
    float tolerance = 2 * (float)f->d_head * FLT_EPSILON * 4 * sqrtf((float)f->d_head) + 8 * FLT_EPSILON;
    for (int h = 0; f->alibi && h < f->n_heads; h++) tolerance += 3 * FLT_EPSILON * f->alibi[h] * (float)n;
    watched w = {malloc((size_t)f->n_heads * (size_t)n * (size_t)n * sizeof(float)), n, n};
    double *weights = malloc((size_t)n * sizeof *weights), *z = malloc((size_t)f->d_head * sizeof *z);
    float *got = run(f, 0, n, n, 2, &w, NULL);
    for (int h = 0; h < f->n_heads; h++) {
        for (int q = 0; q < n; q++) {
            oracle(f, q, h, n, weights, z);
            const float *row = w.data + ((size_t)h * (size_t)n + (size_t)q) * (size_t)n;
            for (int j = 0; j < n; j++) {
                assert_true(fabs(row[j] - weights[j]) <= tolerance * weights[j] + 2 * FLT_MIN);
                if (weights[j] == 0) assert_true(row[j] == 0); /* masked: exactly nothing */
            }
            const float *z_row = got + ((size_t)q * (size_t)f->n_heads + (size_t)h) * (size_t)f->d_head;
            for (int i = 0; i < f->d_head; i++)
                assert_true(fabs(z_row[i] - z[i]) <= 2 * (tolerance + (float)n * FLT_EPSILON));
        }
    }
    free(w.data);
    free(weights);
    free(z);
    free(got);
}

static void test_formula(void **unused)
{
    (void)unused;
    static const struct {
        int heads, kv, d, n, window;
        bool causal;
        float cap;
    } cases[] = {{1, 1, 2, 1, 0, true, 0},     {2, 2, 4, 7, 0, true, 0},     {4, 2, 16, 33, 0, true, 0},
                 {3, 1, 64, 130, 0, true, 0},  {2, 1, 8, 70, 4, true, 0},    {2, 2, 8, 300, 65, true, 0},
                 {2, 2, 6, 65, 0, false, 0},   {2, 1, 8, 40, 0, true, 1.5f}, {1, 1, 300, 20, 0, true, 0},
                 {2, 1, 8, 600, 1, true, 0},   {1, 1, 5, 12, 100, true, 0},  {4, 4, 16, 270, 0, false, 0},
                 {2, 1, 8, 300, 65, false, 0}, {1, 1, 4, 70, 1, false, 0},   {2, 2, 8, 90, 7, false, 2.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = make(cases[i].heads, cases[i].kv, cases[i].d, cases[i].n);
        f.window = cases[i].window;
        f.causal = cases[i].causal;
        f.cap = cases[i].cap;
        compare(&f);
        drop(&f);
    }
}

/* Sinks before a window, and block lists of which blocks lie across the kernel's own blocks of rows and keys. Every
 * row sees its own block. */
static const fixture masks[] = {
    {.causal = true, .window = 20, .sinks = 4},
    {.causal = true, .window = 70, .sinks = 90},
    {.causal = true, .window = 300, .sinks = 33},
    {.causal = false, .window = 9, .sinks = 40},
    {.causal = true, .block = 64, .n_blocks = 5},
    {.causal = true, .block = 7, .n_blocks = 43},
    {.causal = false, .block = 25, .n_blocks = 12},
    {.causal = true, .window = 50, .sinks = 5, .block = 30, .n_blocks = 10},
};

enum { N_MASKS = sizeof masks / sizeof masks[0], MASK_KEYS = 300 };

static fixture make_masked(const fixture *mask, unsigned char allowed[MASK_KEYS * MASK_KEYS])
{
    fixture f = make(2, 1, 8, MASK_KEYS);
    f.causal = mask->causal;
    f.window = mask->window;
    f.sinks = mask->sinks;
    f.block = mask->block;
    f.n_blocks = mask->n_blocks;
    f.allowed = mask->block ? allowed : NULL;
    for (int i = 0; i < f.n_blocks * f.n_blocks; i++)
        allowed[i] = i / f.n_blocks == i % f.n_blocks || (i / f.n_blocks * 5 + i % f.n_blocks * 3) % 7 < 3;
    return f;
}

static void test_masks(void **unused)
{
    (void)unused;
    static unsigned char allowed[MASK_KEYS * MASK_KEYS];
    for (int i = 0; i < N_MASKS; i++) {
        fixture f = make_masked(&masks[i], allowed);
        compare(&f);
        float *whole = run(&f, 0, MASK_KEYS, MASK_KEYS, 2, NULL, NULL);
        for (int q = 0; q < MASK_KEYS; q += 13) { /* the same bits alone, where a block's rows are heads */
            float *one = run(&f, q, 1, f.causal ? q + 1 : MASK_KEYS, 1, NULL, NULL);
            assert_memory_equal(one, whole + q * 16, 16 * sizeof *one);
            free(one);
        }
        free(whole);
        drop(&f);
    }
}

/* The slopes of ALiBi (Press et al. 2021), as the paper's own code has them: 2^(-8 k / n), and for a number that is no
 * power of two those of the power below, then of the next one every other. */
static void slopes(int n_heads, float *out)
{
    int below = 1;
    while (2 * below <= n_heads) below *= 2;
    for (int h = 0; h < below; h++) out[h] = (float)pow(2, -8.0 * (h + 1) / below);
    for (int h = below; h < n_heads; h++) out[h] = (float)pow(2, -8.0 * (2 * (h - below) + 1) / (2 * below));
}

/* By the definition in double precision, beside every kind of mask; and the same bits from a query alone, where a
 * block's rows are heads that share keys. */
static void test_alibi(void **unused)
{
    (void)unused;
    static const struct {
        int heads, kv, n, window, sinks;
        bool causal;
    } cases[] = {{1, 1, 90, 0, 0, true},  {2, 2, 300, 0, 0, true},   {3, 1, 70, 0, 0, true},  {6, 2, 130, 20, 0, true},
                 {8, 8, 65, 0, 0, false}, {12, 3, 150, 40, 3, true}, {7, 7, 33, 9, 0, false}, {16, 4, 280, 0, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float alibi[16];
        slopes(cases[i].heads, alibi);
        fixture f = make(cases[i].heads, cases[i].kv, 8, cases[i].n);
        f.window = cases[i].window;
        f.sinks = cases[i].sinks;
        f.causal = cases[i].causal;
        f.alibi = alibi;
        compare(&f);
        size_t row = (size_t)f.n_heads * 8;
        float *whole = run(&f, 0, f.n_key, f.n_key, 2, NULL, NULL);
        for (int q = 0; q < f.n_key; q += 11) {
            float *one = run(&f, q, 1, f.causal ? q + 1 : f.n_key, 1, NULL, NULL);
            assert_memory_equal(one, whole + (size_t)q * row, row * sizeof *one);
            free(one);
        }
        free(whole);
        drop(&f);
    }
}

static void test_same_bits(void **unused)
{
    (void)unused;
    static const int windows[] = {0, 5, 70, 300};
    for (size_t i = 0; i < 4; i++) {
        fixture f = make(4, 2, 24, 531);
        f.window = windows[i];
        size_t row = (size_t)f.n_heads * (size_t)f.d_head;
        float *whole = run(&f, 0, f.n_key, f.n_key, 1, NULL, NULL);
        float *threads = run(&f, 0, f.n_key, f.n_key, 2, NULL, NULL);
        assert_memory_equal(whole, threads, (size_t)f.n_key * row * sizeof *whole);
        free(threads);
        for (int first = 0; first < f.n_key;) { /* cuts of every odd size; keys of later queries not there yet */
            int n = first % 29 + 1;
            if (first + n > f.n_key) n = f.n_key - first;
            float *cut = run(&f, first, n, first + n, 2, NULL, NULL);
            assert_memory_equal(whole + (size_t)first * row, cut, (size_t)n * row * sizeof *cut);
            free(cut);
            first += n;
        }
        watched w = {malloc((size_t)f.n_heads * (size_t)f.n_key * (size_t)f.n_key * sizeof(float)), f.n_key, f.n_key};
        float *seen = run(&f, 0, f.n_key, f.n_key, 2, &w, NULL);
        assert_memory_equal(whole, seen, (size_t)f.n_key * row * sizeof *whole);
        free(seen);
        seen = run(&f, 0, f.n_key, f.n_key, 2, NULL, &w);
        assert_memory_equal(whole, seen, (size_t)f.n_key * row * sizeof *whole);
        free(seen);
        free(w.data);
        free(whole);
        drop(&f);
    }
}

/* A lone query, whose heads are taken together where they share keys: z and what a watcher sees of each head are those
 * of the pass over all queries. */
static void test_lone_query(void **unused)
{
    (void)unused;
    static const struct {
        int heads, kv;
    } cases[] = {{9, 3}, {16, 1}, {4, 4}, {10, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f = make(cases[i].heads, cases[i].kv, 24, 261);
        size_t row = (size_t)f.n_heads * (size_t)f.d_head, n = (size_t)f.n_key, last = n - 1;
        watched all = {malloc((size_t)f.n_heads * n * n * sizeof(float)), f.n_key, f.n_key};
        watched one = {malloc((size_t)f.n_heads * n * sizeof(float)), 1, f.n_key};
        float *whole = run(&f, 0, f.n_key, f.n_key, 1, &all, NULL);
        for (int threads = 1; threads <= 4; threads++) {
            float *z = run(&f, (int)last, 1, f.n_key, threads, &one, NULL);
            assert_memory_equal(whole + last * row, z, row * sizeof *z);
            for (size_t h = 0; h < (size_t)f.n_heads; h++)
                assert_memory_equal(all.data + (h * n + last) * n, one.data + h * n, n * sizeof(float));
            free(z);
        }
        free(whole);
        free(all.data);
        free(one.data);
        drop(&f);
    }
}

/* A value that is not a number at a later position must not reach an earlier row. */
static void test_no_leak(void **unused)
{
    (void)unused;
    fixture f = make(2, 2, 8, 100);
    size_t row = (size_t)f.n_heads * (size_t)f.d_head;
    float *before = run(&f, 0, 60, 100, 1, NULL, NULL);
    for (int j = 60; j < 100; j++) {
        float bad[16];
        for (int i = 0; i < 16; i++) bad[i] = NAN;
        hsc__kv_store(hsc__kernels_get(), &f.kv, j, 1, bad, 16, bad, 16);
    }
    float *after = run(&f, 0, 60, 100, 1, NULL, NULL);
    assert_memory_equal(before, after, 60 * row * sizeof *after);
    free(before);
    free(after);
    drop(&f);
}

/* Nor may one that a mask hides inside a row, be it score or value; rows that see it are not numbers themselves, where
 * they see anything. */
static void test_no_leak_through_masks(void **unused)
{
    (void)unused;
    static unsigned char allowed[MASK_KEYS * MASK_KEYS];
    static const int hidden[] = {1, 65, 130, 299}; /* none begins a tile: storing that key clears the tile */
    static float weights[2 * MASK_KEYS * MASK_KEYS];
    watched pattern = {weights, MASK_KEYS, MASK_KEYS};
    for (int i = 0; i < N_MASKS; i++) {
        for (size_t j = 0; j < sizeof hidden / sizeof *hidden; j++) {
            fixture f = make_masked(&masks[i], allowed);
            float bad[8];
            for (int c = 0; c < 8; c++) bad[c] = NAN;
            float *before = run(&f, 0, MASK_KEYS, MASK_KEYS, 1, NULL, NULL);
            hsc__kv_store(hsc__kernels_get(), &f.kv, hidden[j], 1, bad, 8, bad, 8);
            float *after = run(&f, 0, MASK_KEYS, MASK_KEYS, 1, &pattern, NULL);
            for (int q = 0; q < MASK_KEYS; q++) {
                for (int k = 0; k < MASK_KEYS && sees(&f, q, hidden[j]); k++) {
                    float weight = pattern.data[q * MASK_KEYS + k];
                    assert_true(sees(&f, q, k) ? isnan(weight) : weight == 0);
                }
                if (sees(&f, q, hidden[j])) assert_true(isnan(after[q * 16]) && isnan(after[q * 16 + 15]));
                else assert_memory_equal(before + q * 16, after + q * 16, 16 * sizeof *after);
            }
            free(before);
            free(after);
            drop(&f);
        }
    }
}

/* Four query heads on two kv heads: heads 0 and 1 read kv head 0, heads 2 and 3 read kv head 1. */
static void test_grouped_heads(void **unused)
{
    (void)unused;
    fixture f = make(4, 2, 4, 9);
    for (int j = 0; j < 9; j++) {
        float v[8] = {0, 0, 0, 0, 1, 1, 1, 1};
        hsc__kv_store(hsc__kernels_get(), &f.kv, j, 1, f.k + (size_t)j * 8, 8, v, 8);
    }
    float *z = run(&f, 0, 9, 9, 1, NULL, NULL);
    for (int q = 0; q < 9; q++)
        for (int i = 0; i < 16; i++) assert_true(fabsf(z[q * 16 + i] - (i < 8 ? 0.0f : 1.0f)) <= 4 * FLT_EPSILON);
    free(z);
    drop(&f);
}

static int mask_all(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    const int *dead = user;
    (void)seq;
    (void)head;
    for (int r = 0; r < n_rows; r++)
        for (int j = 0; j < n_key && first_query + r == *dead; j++) data[(size_t)r * stride + (size_t)j] = -INFINITY;
    return 0;
}

/* A row that sees nothing is zeros, not NaN; the others are as ever. Values from numpy, by the definition. */
static void test_dead_row(void **unused)
{
    (void)unused;
    static const float q[4] = {1, 0, 0, 1}, v[4] = {1, 2, 3, 4};
    fixture f = make(1, 1, 2, 2);
    int dead = 0;
    memcpy(f.q, q, sizeof q);
    hsc__kv_store(hsc__kernels_get(), &f.kv, 0, 2, q, 2, v, 2);
    f.causal = false;
    float z[4];
    hsc__exec exec;
    assert_int_equal(
        hsc__exec_init(&exec, 1, hsc__attention_scratch(hsc__kernels_get(), 2, 2), HSC_COMPUTE_F32, 1, 1, NULL),
        HSC_OK);
    hsc__attention_seq seq = {0, 2, 0, 2, f.kv};
    hsc__attention job = {.n_heads = 1,
                          .n_kv_heads = 1,
                          .d_head = 2,
                          .scale = f.scale,
                          .q = f.q,
                          .q_stride = 2,
                          .z = z,
                          .z_stride = 2,
                          .seqs = &seq,
                          .n_seqs = 1,
                          .on_scores = mask_all,
                          .user = &dead};
    assert_int_equal(hsc__attention_forward(&exec, &job), HSC_OK);
    hsc__exec_free(&exec);
    assert_true(z[0] == 0 && z[1] == 0);
    assert_true(fabsf(z[2] - 2.339523f) < 2e-6f && fabsf(z[3] - 3.339523f) < 2e-6f);
    drop(&f);
}

static int cancel(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data, size_t stride)
{
    (void)user, (void)seq, (void)head, (void)first_query, (void)n_rows, (void)n_key, (void)data, (void)stride;
    return 1;
}

static void test_cancel(void **unused)
{
    (void)unused;
    fixture f = make(2, 2, 4, 30);
    float z[30 * 8];
    hsc__exec exec;
    assert_int_equal(
        hsc__exec_init(&exec, 2, hsc__attention_scratch(hsc__kernels_get(), 30, 4), HSC_COMPUTE_F32, 1, 1, NULL),
        HSC_OK);
    hsc__attention_seq seq = {0, 30, 0, 30, f.kv};
    hsc__attention job = {.n_heads = 2,
                          .n_kv_heads = 2,
                          .d_head = 4,
                          .scale = 1,
                          .q = f.q,
                          .q_stride = 8,
                          .z = z,
                          .z_stride = 8,
                          .seqs = &seq,
                          .n_seqs = 1,
                          .on_pattern = cancel};
    assert_int_equal(hsc__attention_forward(&exec, &job), HSC_ECANCELED);
    hsc__exec_free(&exec);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),       cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_no_leak),       cmocka_unit_test(test_masks),
        cmocka_unit_test(test_alibi),         cmocka_unit_test(test_no_leak_through_masks),
        cmocka_unit_test(test_grouped_heads), cmocka_unit_test(test_dead_row),
        cmocka_unit_test(test_lone_query),    cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
