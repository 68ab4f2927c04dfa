/* The forecast of memory against what the process really grows by. */
#include "tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Resident bytes of this process; 0 where the system does not say. */
static double resident(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%ld %ld", &ignored, &pages) != 2) pages = 0;
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* A model large enough that its parts outweigh the granularity of pages. */
static void test_forecast(void **unused)
{
    (void)unused;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* shadow memory is counted too */
#endif
    enum { N = 3000 };
    tiny_model t;
    hsc_model *m;
    hsc_session *s;
    hsc_memory memory;
    hsc_error err = {0};
    static hsc_token ids[N];
    tiny_llama_of(&t, (tiny_shape){256, 4, 4, 64, 1024, 4, 4096, true});
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, &err), HSC_OK);
    for (int i = 0; i < N; i++) ids[i] = i % TINY_VOCAB;
    hsc_session_options o = {.n_threads = 2, .max_tokens = N};
    assert_int_equal(hsc_model_memory(m, &o, N, &memory, &err), HSC_OK);
    double before = resident();
    if (before == 0) skip();
    assert_int_equal(hsc_session_new(&s, m, &o, &err), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, &err), HSC_OK);
    double grown = resident() - before, forecast = (double)memory.total;
    if (grown < 0.9 * forecast || grown > 1.1 * forecast) fail_msg("grew by %.0f, forecast %.0f", grown, forecast);
    assert_true(memory.patterns == 4ull * 4 * 4 * N * N);
    /* Of a cache whole tiles of 64 positions are touched: [4 layers][k, v][positions][256] floats. */
    static const int lengths[][2] = {{1, 64}, {12, 64}, {64, 64}, {65, 128}, {300, 320}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(hsc_model_memory(m, &o, lengths[i][0], &memory, &err), HSC_OK);
        assert_true(memory.cache == 4ull * 2 * 256 * 4 * (uint64_t)lengths[i][1]);
    }
    assert_int_equal(hsc_model_memory(m, NULL, 4097, &memory, &err), HSC_EINVAL);
    assert_int_equal(hsc_model_memory(m, NULL, 0, &memory, &err), HSC_EINVAL);
    hsc_session_free(s);
    hsc_model_close(m);
    tiny_remove(&t);
}

static void *count_new(void *user, size_t n_bytes)
{
    *(size_t *)user += n_bytes;
    return malloc(n_bytes);
}

static void *count_resize(void *user, void *ptr, size_t n_bytes)
{
    *(size_t *)user += n_bytes;
    return realloc(ptr, n_bytes);
}

static void count_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

/* What a session takes for statistics, of which it touches all; many threads, so that what each of them keeps counts.
 */
static void test_statistics(void **unused)
{
    (void)unused;
    enum { N = 300 };
    tiny_model t;
    hsc_model *m;
    hsc_session *s;
    hsc_memory memory;
    size_t taken = 0;
    static hsc_token ids[N];
    tiny_llama_of(&t, (tiny_shape){64, 4, 4, 16, 64, 2, 512, true});
    hsc_set_allocator(&(hsc_allocator){count_new, count_resize, count_free, &taken});
    assert_int_equal(hsc_model_open(&m, t.dir, NULL, NULL), HSC_OK);
    for (int i = 0; i < N; i++) ids[i] = i % TINY_VOCAB;
    hsc_session_options o = {.n_threads = 9, .max_tokens = N};
    assert_int_equal(hsc_model_memory(m, &o, N, &memory, NULL), HSC_OK);
    assert_int_equal(hsc_session_new(&s, m, &o, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    hsc_session_reset(s);
    taken = 0;
    assert_int_equal(hsc_session_collect(s, &(hsc_stats_options){.layer = -1}, NULL), HSC_OK);
    assert_int_equal(hsc_forward(s, &(hsc_batch){.ids = ids, .n_tokens = N}, NULL), HSC_OK);
    double forecast = (double)memory.stats, grown = (double)taken;
    if (grown < 0.97 * forecast || grown > 1.03 * forecast) fail_msg("took %.0f, forecast %.0f", grown, forecast);
    hsc_session_free(s);
    hsc_model_close(m);
    hsc_set_allocator(NULL);
    tiny_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forecast), cmocka_unit_test(test_statistics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
