/*
 * The scan of a small random model through the library: the store's contract, twins that share their prefix against the
 * same pairs run whole, and memory that runs out.
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
    const hsc_seen *seen;
    if (hsc_scan_run(&scan, f->model, f->pairs, NULL, &err) != HSC_OK) fail_msg("%s", err.message);
    hsc_scan_counts counts = hsc_scan_count(scan);
    assert_int_equal(counts.n_used, 3);
    for (int i = 0; i < 3; i++) {
        const hsc_pair *pair = hsc_scan_pair(scan, i, &seen);
        for (int w = 0; w < 2; w++) assert_plain(f, pair, w, seen + w * counts.n_layers * counts.n_heads);
    }
    assert_null(hsc_scan_pair(scan, 3, NULL));
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
    const hsc_seen *seen;
    hsc_scan_store store = {load_second, count_saved, count_flushed, &kept};
    hsc_scan_options options = {.store = &store};
    assert_int_equal(hsc_scan_run(&scan, f->model, f->pairs, &options, NULL), HSC_OK);
    assert_int_equal(kept.n_loaded, 1);
    assert_int_equal(kept.n_saved, 2);
    assert_int_equal(kept.n_flushed, 1);
    assert_int_equal(hsc_scan_count(scan).n_loaded, 1);
    hsc_scan_pair(scan, 1, &seen);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_as_plain_passes),
        cmocka_unit_test(test_store_and_stop),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
