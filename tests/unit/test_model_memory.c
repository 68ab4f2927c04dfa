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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forecast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
