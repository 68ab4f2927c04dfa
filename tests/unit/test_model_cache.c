/*
 * The cache: forks that share, cuts below a shared prefix, rings of sliding windows against the full mask, other types,
 * saving and loading, and masks of the caller's own against the definition.
 */
#include "tiny_model.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 300, CTX = 400, D_HEAD = 32 };

static hsc_token ids[CTX];

static tiny_model files;
static hsc_model *model;

static int open_model(void **unused)
{
    (void)unused;
    tiny_llama_of(&files, (tiny_shape){40, 4, 2, D_HEAD, 72, 2, CTX, true});
    for (int i = 0; i < CTX; i++) ids[i] = (i * i * 13 + 7 * i + 2) % TINY_VOCAB;
    return hsc_model_open(&model, files.dir, NULL, NULL);
}

static int close_model(void **unused)
{
    (void)unused;
    hsc_model_close(model);
    tiny_remove(&files);
    return 0;
}

static hsc_session *new_session(hsc_session_options o)
{
    hsc_session *s;
    hsc_error err = {0};
    if (hsc_session_new(&s, model, &o, &err) != HSC_OK) fail_msg("%s", err.message);
    return s;
}

/* Appends tokens to sequence `seq` (every other sequence of the session gets none) and gives all their logits. */
static float *append(hsc_session *s, int seq, const hsc_token *tokens, int n)
{
    /* A batch holds sequences 0..k: those before `seq` are given one token and cut back. */
    hsc_token packed[CTX + 8];
    int lengths[8], before[8];
    hsc_view v;
    hsc_error err = {0};
    for (int i = 0; i < seq; i++) {
        packed[i] = 0;
        lengths[i] = 1;
        before[i] = hsc_session_length(s, i);
    }
    memcpy(packed + seq, tokens, (size_t)n * sizeof *tokens);
    lengths[seq] = n;
    hsc_batch b = {
        .ids = packed, .n_tokens = seq + n, .seq_lengths = lengths, .n_seqs = seq + 1, .logits = HSC_LOGITS_ALL};
    if (hsc_forward(s, &b, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_int_equal(hsc_session_logits(s, &v, NULL), HSC_OK);
    float *copy = malloc((size_t)n * TINY_VOCAB * sizeof *copy);
    memcpy(copy, v.data + seq * TINY_VOCAB, (size_t)n * TINY_VOCAB * sizeof *copy);
    for (int i = 0; i < seq; i++) assert_int_equal(hsc_session_truncate(s, i, before[i], NULL), HSC_OK);
    return copy;
}

/* The logits of `tokens` after `prefix`, in a session of their own. */
static float *alone(hsc_session_options o, const hsc_token *prefix, int n_prefix, const hsc_token *tokens, int n)
{
    hsc_session *s = new_session(o);
    if (n_prefix) free(append(s, 0, prefix, n_prefix));
    float *logits = append(s, 0, tokens, n);
    hsc_session_free(s);
    return logits;
}

static void assert_same(float *a, float *b, int n)
{
    assert_memory_equal(a, b, (size_t)n * TINY_VOCAB * sizeof *a);
    free(a);
    free(b);
}

static void test_fork(void **unused)
{
    (void)unused;
    static const int cuts[] = {1, 63, 64, 65, 200, 300};
    static const hsc_dtype types[] = {HSC_F32, HSC_F16, HSC_Q8_0};
    for (size_t t = 0; t < 3; t++) {
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            hsc_session_options o = {.max_seqs = 4, .cache = types[t], .n_threads = 2};
            hsc_session *s = new_session(o);
            int cut = cuts[c];
            hsc_token other[20];
            for (int i = 0; i < 20; i++) other[i] = (hsc_token)(96 - i);
            free(append(s, 0, ids, N));
            assert_int_equal(hsc_session_fork(s, 0, 1, cut, NULL), HSC_OK);
            assert_int_equal(hsc_session_fork(s, 1, 2, cut, NULL), HSC_OK); /* a fork of a fork */
            float *one = append(s, 1, other, 20);
            float *two = append(s, 2, ids + cut, 20);
            assert_same(one, alone(o, ids, cut, other, 20), 20);
            assert_same(two, alone(o, ids, cut, ids + cut, 20), 20);
            assert_int_equal(hsc_session_fork(s, 1, 3, cut + 10, NULL), HSC_OK); /* past what the parent shares */
            hsc_token longer[CTX];
            memcpy(longer, ids, (size_t)cut * sizeof *ids);
            memcpy(longer + cut, other, 10 * sizeof *other);
            assert_same(append(s, 3, ids, 9), alone(o, longer, cut + 10, ids, 9), 9);
            /* The root changes below the shared prefix: the others keep theirs. */
            assert_int_equal(hsc_session_truncate(s, 0, 0, NULL), HSC_OK);
            free(append(s, 0, other, 20));
            hsc_token joined[CTX];
            memcpy(joined, ids, (size_t)cut * sizeof *ids);
            memcpy(joined + cut, other, sizeof other);
            assert_same(append(s, 1, ids, 5), alone(o, joined, cut + 20, ids, 5), 5);
            hsc_session_free(s);
        }
    }
}

static void test_fork_limits(void **unused)
{
    (void)unused;
    hsc_session *s = new_session((hsc_session_options){.max_seqs = 2});
    free(append(s, 0, ids, 10));
    assert_int_equal(hsc_session_fork(s, 0, 0, 5, NULL), HSC_EINVAL);
    assert_int_equal(hsc_session_fork(s, 0, 2, 5, NULL), HSC_EINVAL);
    assert_int_equal(hsc_session_fork(s, 0, 1, 11, NULL), HSC_EINVAL);
    hsc_session_free(s);
}

/* A ring that the tokens go round several times gives the bits of the full cache under the same mask. */
static void test_ring(void **unused)
{
    (void)unused;
    static const int windows[] = {1, 4, 64, 100};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        /* A block list that allows everything keeps the full cache's path through the mask, without the ring. */
        unsigned char all[1] = {1};
        hsc_session_options full = {
            .mask = {.window = windows[w], .sinks = 0, .allowed = all, .block = CTX, .n_blocks = 1}, .n_threads = 2};
        hsc_session_options ring = {.mask = {.window = windows[w]}, .chunk = 32, .n_threads = 2};
        hsc_session *s = new_session(ring);
        float *whole = alone(full, NULL, 0, ids, CTX);
        float *first = append(s, 0, ids, 350);
        assert_memory_equal(first, whole, 350 * TINY_VOCAB * sizeof *first);
        free(first);
        for (int i = 350; i < CTX; i += 10) {
            float *next = append(s, 0, ids + i, 10);
            assert_memory_equal(next, whole + i * TINY_VOCAB, 10 * TINY_VOCAB * sizeof *next);
            free(next);
        }
        free(whole);
        hsc_error err = {0};
        assert_int_equal(hsc_session_truncate(s, 0, 20, &err), HSC_EINVAL); /* long overwritten */
        assert_non_null(strstr(err.message, "sliding window"));
        hsc_session_free(s);
    }
}

/* Continues sequence `seq` at `cut` with ten tokens that must get the bits of `whole`. */
static void assert_goes_on(hsc_session *s, int seq, int cut, const float *whole)
{
    float *next = append(s, seq, ids + cut, 10);
    assert_memory_equal(next, whole + cut * TINY_VOCAB, 10 * TINY_VOCAB * sizeof *next);
    free(next);
}

/* One cut back after another: the ring remembers how far it was once written, also in a fork. To 0 always works. */
static void test_ring_cuts(void **unused)
{
    (void)unused;
    hsc_session_options ring = {.mask = {.window = 64}, .chunk = 32, .n_threads = 2, .max_seqs = 3};
    hsc_session *s = new_session(ring);
    float *whole = alone(ring, NULL, 0, ids, CTX);
    free(append(s, 0, ids, 380));
    assert_int_equal(hsc_session_fork(s, 0, 1, 370, NULL), HSC_OK);
    int cut = 380, n_cuts = 0;
    while (hsc_session_truncate(s, 0, cut - 10, NULL) == HSC_OK && cut > 10) {
        cut -= 10;
        n_cuts++;
        assert_goes_on(s, 0, cut, whole);
        assert_int_equal(hsc_session_truncate(s, 0, cut, NULL), HSC_OK);
        assert_int_equal(hsc_session_truncate(s, 1, cut, NULL), HSC_OK);
        assert_goes_on(s, 1, cut, whole);
    }
    assert_true(n_cuts > 5 && cut > 100); /* a window of 64 in 256 cells, written up to position 380 */
    assert_int_equal(hsc_session_truncate(s, 0, 0, NULL), HSC_OK);
    assert_goes_on(s, 0, 0, whole);
    assert_int_equal(hsc_session_fork(s, 1, 2, 0, NULL), HSC_OK);
    assert_int_equal(hsc_session_length(s, 2), 0);
    assert_goes_on(s, 2, 0, whole);
    free(whole);
    hsc_session_free(s);
}

/* Patterns under windows, sinks and block lists: what may not be seen is exactly 0, the rest sums to 1. */
static void test_masks(void **unused)
{
    (void)unused;
    enum { LENGTH = 70 };
    unsigned char allowed[25];
    for (int i = 0; i < 25; i++) allowed[i] = (unsigned char)(i / 5 == i % 5 || i % 5 == 0);
    const hsc_mask masks[] = {{.window = 4},
                              {.window = 6, .sinks = 3},
                              {.allowed = allowed, .block = 16, .n_blocks = 5},
                              {.window = 40, .allowed = allowed, .block = 16, .n_blocks = 5}};
    for (size_t m = 0; m < 4; m++) {
        const hsc_mask *k = &masks[m];
        hsc_session *s = new_session((hsc_session_options){.mask = *k, .max_tokens = LENGTH});
        hsc_view v;
        assert_int_equal(hsc_session_record(s, &(hsc_record){HSC_PATTERN, 0, -1, -1}, NULL), HSC_OK);
        free(append(s, 0, ids, LENGTH));
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, 0, 0, &v, NULL), HSC_OK);
        for (int h = 0; h < 4; h++) {
            for (int q = 0; q < LENGTH; q++) {
                double sum = 0;
                for (int key = 0; key < LENGTH; key++) {
                    float p = v.data[((h * LENGTH) + q) * LENGTH + key];
                    bool near = !k->window || key > q - k->window || key < k->sinks;
                    bool listed = !k->allowed || k->allowed[q / k->block * k->n_blocks + key / k->block];
                    if (key > q || !near || !listed) assert_true(p == 0);
                    else assert_true(p > 0);
                    sum += p;
                }
                assert_true(fabs(sum - 1) <= 1e-6);
            }
        }
        hsc_session_free(s);
    }
}

/* Narrower types stay near float32: the error of a logit grows with that of the stored values (2^-11, 2^-8, 1/254). */
static void test_types(void **unused)
{
    (void)unused;
    static const struct {
        hsc_dtype type;
        double bound;
    } cases[] = {{HSC_F16, 0.01}, {HSC_BF16, 0.08}, {HSC_Q8_0, 0.08}};
    float *exact = alone((hsc_session_options){0}, NULL, 0, ids, N);
    double size = 0;
    for (int i = 0; i < N * TINY_VOCAB; i++) size = fmax(size, fabs(exact[i]));
    for (size_t c = 0; c < 3; c++) {
        hsc_session_options o = {.cache = cases[c].type, .n_threads = 2};
        float *near = alone(o, NULL, 0, ids, N);
        double worst = 0;
        for (int i = 0; i < N * TINY_VOCAB; i++) worst = fmax(worst, fabs(near[i] - exact[i]));
        assert_true(worst > 0 && worst <= cases[c].bound * size);
        float *cut = alone(o, ids, 137, ids + 137, N - 137); /* one type, any cut: what is stored is what is read */
        assert_memory_equal(cut, near + 137 * TINY_VOCAB, (size_t)(N - 137) * TINY_VOCAB * sizeof *cut);
        free(cut);
        free(near);
    }
    free(exact);
    hsc_session *s;
    hsc_error err = {0};
    assert_int_equal(hsc_session_new(&s, model, &(hsc_session_options){.cache = HSC_I8}, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "I8"));
}

static void test_save(void **unused)
{
    (void)unused;
    char path[128], other[128];
    hsc_error err = {0};
    snprintf(path, sizeof path, "%s/cache.safetensors", files.dir);
    snprintf(other, sizeof other, "%s/model.safetensors", files.dir);
    hsc_session *s = new_session((hsc_session_options){.max_seqs = 2}), *t = new_session((hsc_session_options){0});
    free(append(s, 0, ids, 200));
    assert_int_equal(hsc_session_fork(s, 0, 1, 150, NULL), HSC_OK);
    assert_int_equal(hsc_session_save(s, 1, path, &err), HSC_OK);
    assert_int_equal(hsc_session_load(t, 0, path, &err), HSC_OK);
    assert_int_equal(hsc_session_length(t, 0), 150);
    assert_same(append(t, 0, ids + 150, 20), alone((hsc_session_options){0}, ids, 150, ids + 150, 20), 20);
    assert_int_equal(hsc_session_load(t, 0, other, &err), HSC_EFORMAT);
    assert_non_null(strstr(err.message, "not a saved cache"));
    assert_int_equal(hsc_session_length(t, 0), 0);
    assert_int_equal(hsc_session_save(t, 0, path, &err), HSC_EINVAL);
    hsc_session_free(s);
    hsc_session_free(t);
    unlink(path);
}

/* A model of the test's shape and weights, but for the first value of the tensor `name`, added to, and the base of its
 * rotation. NULL: no tensor. */
static void make_twin(tiny_model *twin, const char *name, float more, const char *theta)
{
    char path[128], config[512] = "";
    tiny_llama_of(twin, (tiny_shape){40, 4, 2, D_HEAD, 72, 2, CTX, true});
    for (size_t i = 0; name && i < twin->n; i++)
        if (strcmp(twin->arrays[i].name, name) == 0) *(float *)(uintptr_t)twin->arrays[i].data += more;
    tiny_save(twin);
    snprintf(path, sizeof path, "%s/config.json", twin->dir);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_true(fread(config, 1, sizeof config - 1, f) > 0);
    *strrchr(config, '}') = 0;
    rewind(f);
    fprintf(f, "%s,\"rope_theta\":%s}", config, theta);
    assert_int_equal(fclose(f), 0);
}

static hsc_status load_into(const tiny_model *twin, const hsc_model_options *o, const char *path, hsc_error *err)
{
    hsc_model *m;
    hsc_session *s;
    assert_int_equal(hsc_model_open(&m, twin->dir, o, NULL), HSC_OK);
    assert_int_equal(hsc_session_new(&s, m, NULL, NULL), HSC_OK);
    hsc_status status = hsc_session_load(s, 0, path, err);
    assert_int_equal(hsc_session_length(s, 0), status == HSC_OK ? 30 : 0);
    hsc_session_free(s);
    hsc_model_close(m);
    return status;
}

/* A cache belongs to the weights and settings that made it, wherever they lie. */
static void test_save_mark(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        float more;
        const char *theta;
        hsc_model_options options;
        hsc_status status;
    } cases[] = {{NULL, 0, "10000", {0}, HSC_OK},
                 {NULL, 0, "10001", {0}, HSC_EFORMAT},
                 {"model.layers.1.self_attn.k_proj.weight", 1e-3F, "10000", {0}, HSC_EFORMAT},
                 {"model.layers.0.input_layernorm.weight", 1e-3F, "10000", {0}, HSC_EFORMAT},
                 {NULL, 0, "10000", {.recast = 1, .dtype = HSC_F32}, HSC_OK}, /* they are of that type */
                 {NULL, 0, "10000", {.recast = 1, .dtype = HSC_BF16}, HSC_EFORMAT},
                 {NULL, 0, "10000", {.shuffle = 1}, HSC_EFORMAT}};
    char path[128], old[128];
    hsc_error err = {0};
    snprintf(path, sizeof path, "%s/cache.safetensors", files.dir);
    snprintf(old, sizeof old, "%s/old.safetensors", files.dir);
    hsc_session *s = new_session((hsc_session_options){0});
    free(append(s, 0, ids, 30));
    assert_int_equal(hsc_session_save(s, 0, path, &err), HSC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model twin;
        make_twin(&twin, cases[i].name, cases[i].more, cases[i].theta);
        assert_int_equal(load_into(&twin, &cases[i].options, path, &err), cases[i].status);
        if (cases[i].status != HSC_OK) assert_non_null(strstr(err.message, "another model"));
        tiny_remove(&twin);
    }
    const int32_t header[5] = {2, 2, 2, D_HEAD, 30}; /* as it was before there were marks */
    const hsc_named_array array = {"headscope.cache", HSC_I32, 1, {5}, header};
    assert_int_equal(hsc_write_arrays(old, &array, 1, &err), HSC_OK);
    assert_int_equal(hsc_session_load(s, 0, old, &err), HSC_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "version 2"));
    hsc_session_free(s);
    unlink(path);
    unlink(old);
}

/* Narrow types are read back as they were, and of a ring what its window still sees: the tokens after give the same
 * bits as where nothing was saved. */
static void test_save_kinds(void **unused)
{
    (void)unused;
    const hsc_session_options kinds[] = {
        {.cache = HSC_F16},
        {.cache = HSC_BF16},
        {.cache = HSC_Q8_0},
        {.mask = {.window = 64}, .chunk = 32},
        {.mask = {.window = 64}, .chunk = 32, .cache = HSC_Q8_0},
        {.mask = {.window = 50, .sinks = 3}},
    };
    char path[128];
    hsc_error err = {0};
    snprintf(path, sizeof path, "%s/cache.safetensors", files.dir);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        hsc_session *s = new_session(kinds[i]), *t = new_session(kinds[i]);
        free(append(t, 0, ids + 7, 40)); /* what was there is forgotten */
        free(append(s, 0, ids, 350));
        assert_int_equal(hsc_session_save(s, 0, path, &err), HSC_OK);
        if (hsc_session_load(t, 0, path, &err) != HSC_OK) fail_msg("%s", err.message);
        assert_int_equal(hsc_session_length(t, 0), 350);
        assert_same(append(t, 0, ids + 350, 30), append(s, 0, ids + 350, 30), 30);
        hsc_session_free(s);
        hsc_session_free(t);
        unlink(path);
    }
}

/* Layers that see everything beside layers with a window, as in Qwen 3 and Gemma: each saves what it holds. */
static void test_save_mixed(void **unused)
{
    (void)unused;
    tiny_model mixed;
    hsc_model *both = model;
    char path[128], name[64];
    hsc_error err = {0};
    tiny_llama_of(&mixed, (tiny_shape){40, 4, 2, D_HEAD, 72, 2, CTX, true});
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.q_norm.weight", i);
        tiny_add(&mixed, name, D_HEAD, 0, 0.2f, 1);
        snprintf(name, sizeof name, "model.layers.%d.self_attn.k_norm.weight", i);
        tiny_add(&mixed, name, D_HEAD, 0, 0.2f, 1);
    }
    tiny_save(&mixed);
    snprintf(path, sizeof path, "%s/config.json", mixed.dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"model_type\":\"qwen3\",\"hidden_size\":40,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
            "\"num_key_value_heads\":2,\"head_dim\":%d,\"intermediate_size\":72,\"vocab_size\":%d,"
            "\"max_position_embeddings\":%d,\"tie_word_embeddings\":true,\"use_sliding_window\":true,"
            "\"sliding_window\":64,\"max_window_layers\":1}",
            D_HEAD, TINY_VOCAB, CTX);
    assert_int_equal(fclose(f), 0);
    if (hsc_model_open(&model, mixed.dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_session_options o = {.chunk = 32};
    hsc_session *s = new_session(o), *t = new_session(o);
    float *whole = alone(o, NULL, 0, ids, CTX);
    snprintf(path, sizeof path, "%s/cache.safetensors", mixed.dir);
    free(append(s, 0, ids, 390));
    assert_int_equal(hsc_session_truncate(s, 0, 380, NULL), HSC_OK);
    if (hsc_session_save(s, 0, path, &err) != HSC_OK) fail_msg("%s", err.message);
    if (hsc_session_load(t, 0, path, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_goes_on(t, 0, 380, whole);
    assert_int_equal(hsc_session_truncate(t, 0, 100, NULL), HSC_EINVAL);
    assert_int_equal(hsc_session_truncate(t, 0, 380, NULL), HSC_OK);
    assert_goes_on(t, 0, 380, whole);
    unlink(path);
    free(whole);
    hsc_session_free(s);
    hsc_session_free(t);
    hsc_model_close(model);
    tiny_remove(&mixed);
    model = both;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fork),      cmocka_unit_test(test_fork_limits),
                                       cmocka_unit_test(test_ring),      cmocka_unit_test(test_masks),
                                       cmocka_unit_test(test_types),     cmocka_unit_test(test_save),
                                       cmocka_unit_test(test_save_mark), cmocka_unit_test(test_save_kinds),
                                       cmocka_unit_test(test_ring_cuts), cmocka_unit_test(test_save_mixed)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
