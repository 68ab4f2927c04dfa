/*
 * The scan of a small random model through the library: the store's contract, twins that share their prefix against the
 * same pairs run whole, memory that runs out, and memory that does not grow with the pairs.
 */
#include "failing_alloc.h"
#include "headscope/inspect.h"
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Pairs as token ids: T = 6, so that a = 3, b = 5 and the query is token 8. */
static const char repeats[] = "{\"id\": \"r\", \"T\": 6, \"ids\": [9, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]}\n"
                              "{\"id\": \"s\", \"T\": 6, \"ids\": [9, 6, 4, 2, 1, 3, 5, 6, 4, 2, 1, 3, 5]}\n"
                              "{\"id\": \"t\", \"T\": 6, \"ids\": [9, 7, 8, 2, 1, 3, 5, 7, 8, 2, 1, 3, 5]}\n";

enum { N_HEADS = 64 }; /* more than the model has */

typedef struct fixture {
    tiny_model files;
    hsc_model *model;
    hsc_pairs *pairs;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    hsc_error err = {0};
    tiny_llama(&f.files);
    if (hsc_model_open(&f.model, f.files.dir, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    if (hsc_pairs_parse(&f.pairs, "r", repeats, sizeof repeats - 1, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    hsc_pairs_free(f->pairs);
    hsc_model_close(f->model);
    tiny_remove(&f->files);
    return 0;
}

/* The weights of one wording by a plain pass over all its tokens. */
static void assert_plain(const fixture *f, const hsc_pair *pair, int wording, const hsc_seen *seen)
{
    const hsc_wording *w = &pair->wording[wording];
    const hsc_config *c = hsc_model_config(f->model);
    hsc_session *s;
    hsc_view p;
    assert_int_equal(hsc_session_new(&s, f->model, NULL, NULL), HSC_OK);
    assert_int_equal(
        hsc_session_record(s, &(hsc_record){.site = HSC_PATTERN, .layer = -1, .head = -1, .query = -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = w->ids, .n_tokens = w->n_ids}, NULL), HSC_OK);
    for (int layer = 0; layer < c->n_layers; layer++) {
        assert_int_equal(hsc_session_activation(s, HSC_PATTERN, layer, 0, &p, NULL), HSC_OK);
        for (int head = 0; head < c->n_heads; head++) {
            size_t n = (size_t)w->n_ids;
            const float *row = p.data + ((size_t)head * n + w->query.start) * n;
            hsc_seen want = {row[w->a.start], row[w->b.start], row[0]};
            assert_memory_equal(&seen[layer * c->n_heads + head], &want, sizeof want);
        }
    }
    hsc_session_free(s);
}

static void test_same_bits_as_plain_passes(void **state)
{
    const fixture *f = *state;
    hsc_scan *scan;
    hsc_error err = {0};
    hsc_seen seen[2 * N_HEADS];
    if (hsc_scan_run(&scan, f->model, f->pairs, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_scan_counts counts = hsc_scan_count(scan);
    assert_int_equal(counts.n_used, 3);
    for (int i = 0; i < 3; i++) {
        const hsc_pair *pair = hsc_scan_pair(scan, i);
        assert_int_equal(hsc_scan_seen(scan, i, seen, NULL), HSC_OK);
        for (int w = 0; w < 2; w++) assert_plain(f, pair, w, seen + w * counts.n_layers * counts.n_heads);
    }
    assert_null(hsc_scan_pair(scan, 3));
    assert_int_equal(hsc_scan_seen(scan, 3, seen, NULL), HSC_EINVAL);
    assert_null(hsc_scan_skipped(scan, 0));
    hsc_scan_free(scan);
}

/* What a test's store holds: one pair, with weights that no model would give. */
typedef struct memory_store {
    int n_saved, n_flushed, n_loaded;
} memory_store;

static int load_second(void *user, const hsc_pair *pair, uint64_t digest, hsc_seen *seen)
{
    memory_store *store = user;
    assert_true(digest != 0);
    if (strcmp(pair->id, "s") != 0) return 0;
    store->n_loaded++;
    seen[0] = (hsc_seen){0.25f, 0.125f, 0.5f};
    return 1;
}

static hsc_status count_saved(void *user, const hsc_pair *pair, uint64_t digest, const hsc_seen *seen, hsc_error *err)
{
    (void)digest;
    (void)err;
    assert_true(strcmp(pair->id, "s") != 0);
    assert_true(seen[0].a > 0);
    ((memory_store *)user)->n_saved++;
    return HSC_OK;
}

static hsc_status count_flushed(void *user, hsc_error *err)
{
    (void)err;
    ((memory_store *)user)->n_flushed++;
    return HSC_OK;
}

static int stop(void *user, int n_done, int n_pairs)
{
    (void)user;
    return n_done == n_pairs;
}

static void test_store_and_stop(void **state)
{
    const fixture *f = *state;
    memory_store kept = {0};
    hsc_scan *scan;
    hsc_seen seen[2 * N_HEADS];
    hsc_scan_store store = {load_second, count_saved, count_flushed, &kept};
    hsc_scan_options options = {.store = &store};
    assert_int_equal(hsc_scan_run(&scan, f->model, f->pairs, &options, NULL), HSC_OK);
    assert_int_equal(kept.n_loaded, 1);
    assert_int_equal(kept.n_saved, 2);
    assert_int_equal(kept.n_flushed, 1);
    assert_int_equal(hsc_scan_count(scan).n_loaded, 1);
    assert_int_equal(hsc_scan_seen(scan, 1, seen, NULL), HSC_OK);
    assert_true(seen[0].a == 0.25f && seen[0].sink == 0.5f);
    hsc_scan_free(scan);
    options.tell = stop;
    assert_int_equal(hsc_scan_run(&scan, f->model, f->pairs, &options, NULL), HSC_ECANCELED);
    assert_null(scan);
    assert_int_equal(kept.n_saved, 4); /* what was done is kept all the same */
}

static hsc_status everything(const fixture *f)
{
    hsc_scan *scan = NULL;
    static hsc_scan_head heads[64];
    static hsc_scan_difference differences[64];
    static int chosen[64];
    static double median[64];
    hsc_held_out held;
    hsc_scan_null null;
    int n_pairs, n_clusters;
    hsc_scan_statistics few = {.n_bootstrap = 5, .n_flips = 5, .n_threads = 1};
    hsc_scan_choice choice = {.statistics = few};
    hsc_scan_options options = {.session = {.n_threads = 1}};
    hsc_status status = hsc_scan_run(&scan, f->model, f->pairs, &options, NULL);
    if (status == HSC_OK) status = hsc_scan_figures(scan, &few, heads, NULL);
    if (status == HSC_OK) status = hsc_scan_confirm(scan, scan, &choice, &held, NULL);
    if (status == HSC_OK) status = hsc_scan_exchange(scan, &choice, 3, &null, NULL);
    if (status == HSC_OK) status = hsc_scan_control(scan, scan, &few, differences, &n_pairs, &n_clusters, NULL);
    if (status == HSC_OK && hsc_scan_cross(scan, &choice, 3, chosen, median, NULL) == HSC_ENOMEM) status = HSC_ENOMEM;
    hsc_scan_free(scan);
    return status;
}

static void test_out_of_memory(void **state)
{
    const fixture *f = *state;
    long k = 1;
    for (;; k++) {
        failing_alloc a;
        failing_alloc_install(&a, k);
        hsc_status status = everything(f);
        failing_alloc_remove();
        assert_int_equal(a.held, 0);
        if (status == HSC_OK) break;
        assert_int_equal(status, HSC_ENOMEM);
    }
    assert_true(k > 30);
}

/* ------------------------------------------------------------------------------------------------- many pairs ---- */

/* n pairs as token ids, no two alike, in clusters of two. */
static hsc_pairs *many_pairs(int n)
{
    char *text = malloc((size_t)n * 160);
    size_t at = 0;
    hsc_pairs *pairs;
    hsc_error err = {0};
    assert_non_null(text);
    for (int i = 0; i < n; i++) {
        int ids[] = {10 + i % 40, 50 + i / 40 % 30, 80 + i / 1200 % 17, 3, 4, 5};
        at += (size_t)snprintf(text + at, 160, "{\"id\": \"%06d\", \"of\": \"%d\", \"T\": 6, \"ids\": [9", i, i / 2);
        for (int k = 0; k < 12; k++) at += (size_t)snprintf(text + at, 16, ", %d", ids[k % 6]);
        at += (size_t)snprintf(text + at, 8, "]}\n");
    }
    if (hsc_pairs_parse(&pairs, "many", text, at, "of", &err) != HSC_OK) fail_msg("%s", err.message);
    free(text);
    return pairs;
}

/* All that is said of a scan. */
typedef struct said_of {
    hsc_scan_head heads[N_HEADS];
    hsc_scan_difference differences[N_HEADS];
    int chosen[N_HEADS];
    double median[N_HEADS];
    hsc_held_out held[3], confirmed[3];
    hsc_scan_null null[3];
    int n_pairs, n_clusters;
} said_of;

static void say_all(const hsc_model *model, const hsc_pairs *pairs, size_t memory, said_of *out)
{
    hsc_scan *scan = NULL;
    hsc_error err = {0};
    hsc_scan_statistics few = {.n_bootstrap = 20, .n_flips = 50, .n_threads = 2};
    hsc_scan_choice choice = {.n_chosen = 3, .statistics = few};
    hsc_scan_options options = {.session = {.n_threads = 1}, .memory = memory};
    memset(out, 0, sizeof *out);
    if (hsc_scan_run(&scan, model, pairs, &options, &err) != HSC_OK) fail_msg("%s", err.message);
    assert_true(hsc_scan_count(scan).n_layers * hsc_scan_count(scan).n_heads <= N_HEADS);
    assert_int_equal(hsc_scan_count(scan).n_used, hsc_pairs_count(pairs));
    assert_int_equal(hsc_scan_figures(scan, &few, out->heads, NULL), HSC_OK);
    assert_int_equal(hsc_scan_hold_out(scan, &choice, out->held, NULL), HSC_OK);
    assert_int_equal(hsc_scan_confirm(scan, scan, &choice, out->confirmed, NULL), HSC_OK);
    assert_int_equal(hsc_scan_cross(scan, &choice, 70, out->chosen, out->median, NULL), HSC_OK);
    for (int by = 0; by < 3; by++) {
        choice.by = (hsc_scan_by)by;
        assert_int_equal(hsc_scan_exchange(scan, &choice, 70, &out->null[by], NULL), HSC_OK);
    }
    assert_int_equal(hsc_scan_control(scan, scan, &few, out->differences, &out->n_pairs, &out->n_clusters, NULL),
                     HSC_OK);
    hsc_scan_free(scan);
}

/* Weights in temporary files and statistics a column at a time are the bits of all in memory. */
static void test_memory_shows_in_no_bit(void **state)
{
    const fixture *f = *state;
    static said_of roomy, narrow;
    hsc_pairs *pairs = many_pairs(300);
    say_all(f->model, pairs, 0, &roomy);
    say_all(f->model, pairs, 1, &narrow);
    assert_memory_equal(&roomy, &narrow, sizeof roomy);
    assert_int_equal(narrow.n_clusters, 150);
    assert_true(narrow.differences[0].shift == 0 && narrow.differences[0].control == narrow.heads[0].shift);
    hsc_pairs_free(pairs);
}

/* An allocator that knows the most bytes that were held. */
typedef struct meter {
    size_t held, peak;
} meter;

static void *meter_resize(void *user, void *ptr, size_t n_bytes)
{
    meter *m = user;
    size_t *block = ptr ? (size_t *)ptr - 2 : NULL, before = block ? *block : 0;
    size_t *grown = realloc(block, n_bytes + 2 * sizeof *block);
    if (!grown) return NULL;
    *grown = n_bytes;
    m->held += n_bytes - before;
    if (m->held > m->peak) m->peak = m->held;
    return grown + 2;
}

static void *meter_new(void *user, size_t n_bytes)
{
    return meter_resize(user, NULL, n_bytes);
}

static void meter_free(void *user, void *ptr)
{
    if (!ptr) return;
    ((meter *)user)->held -= ((size_t *)ptr)[-2];
    free((size_t *)ptr - 2);
}

/* The most bytes that n pairs, their scan and all that is said of it hold beside the model. */
static size_t peak_of(const char *folder, int n)
{
    static said_of out;
    static meter m;
    hsc_model *model;
    m = (meter){0};
    hsc_set_allocator(&(hsc_allocator){meter_new, meter_resize, meter_free, &m});
    assert_int_equal(hsc_model_open(&model, folder, NULL, NULL), HSC_OK);
    size_t before = m.held;
    m.peak = m.held;
    hsc_pairs *pairs = many_pairs(n);
    say_all(model, pairs, 1 << 16, &out);
    size_t peak = m.peak - before;
    hsc_model_close(model);
    hsc_pairs_free(pairs);
    hsc_set_allocator(NULL);
    assert_int_equal(m.held, 0);
    return peak;
}

/* 48 heads: their weights are 1152 bytes a pair, their figures 96 doubles a cluster of two. A pair's tokens and places
 * and a few numbers a pair or cluster may stay. */
static void test_memory_does_not_grow(void **state)
{
    (void)state;
    enum { FEW = 400, MANY = 4400, MOST_BYTES = 120 };
    tiny_model files;
    tiny_llama_of(&files, (tiny_shape){32, 16, 8, 4, 24, 3, TINY_CTX, false});
    size_t few = peak_of(files.dir, FEW), many = peak_of(files.dir, MANY);
    tiny_remove(&files);
    if (many - few > (size_t)(MANY - FEW) * MOST_BYTES)
        fail_msg("%zu bytes for %d pairs, %zu for %d: %zu a pair", few, (int)FEW, many, (int)MANY,
                 (many - few) / (MANY - FEW));
}

/* The first reason that a temporary file cannot be made is told by name. */
static void test_no_folder(void **state)
{
    const fixture *f = *state;
    hsc_error err = {0};
    hsc_scan *scan;
    char kept[256];
    const char *named = getenv("TMPDIR");
    snprintf(kept, sizeof kept, "%s", named ? named : "");
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(hsc_scan_run(&scan, f->model, f->pairs, &(hsc_scan_options){.memory = 1}, &err), HSC_EIO);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    assert_null(scan);
    if (named) setenv("TMPDIR", kept, 1);
    else unsetenv("TMPDIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_plain_passes),
        cmocka_unit_test(test_store_and_stop),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_memory_shows_in_no_bit),
        cmocka_unit_test(test_memory_does_not_grow),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
