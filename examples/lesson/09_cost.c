/*
 * The cost of attention.
 *
 * n queries meet n keys: n^2 scores, in time and, if they are kept, in memory. Three remedies:
 *   - tiles: some queries at a time, whose scores are forgotten; still n^2 time, but memory in proportion to n;
 *   - a sliding window of W keys: n W time;
 *   - a cache of keys and values: a new token puts one question to n keys, and no old question is asked again.
 * Processor times are measured here and now, memory is what the library asks of the allocator (and the table itself).
 * The exponent e of cost ~ n^e is the slope of the logarithms.
 */
#include "lesson.h"

#include <stdio.h>
#include <stdlib.h>

enum { D = 64, WINDOW = 128, LENGTHS = 5, LONGEST = 4096, WAYS = 4 };
static const char *const ways[WAYS] = {"full table", "tiles", "window 128", "cache, a token"};

/* One way of attention over n tokens; `table` is for the full one. */
static hsc_status attend(int way, int n, const float *x, float *out, float *table, hsc_error *err)
{
    hsc_nn_attention_shape shape = {.n_query = way == 3 ? 1 : n, .n_key = n, .d_k = D, .d_v = D};
    hsc_nn_mask mask = {.causal = 1, .window = way == 2 ? WINDOW : 0};
    const float *q = way == 3 ? x + (size_t)(n - 1) * D : x; /* with a cache only the newest token asks */
    return hsc_nn_attention_forward(&shape, &mask, q, x, x, out, way == 0 ? table : NULL, err);
}

/* The least time of up to ten, in milliseconds, and the memory in KiB. */
static hsc_status measure(int way, int n, const float *x, float *out, float *table, double *ms, double *kib,
                          hsc_error *err)
{
    hsc_status status = HSC_OK;
    double begin = lesson_clock();
    lesson_memory_reset();
    for (int i = 0; i < 10 && status == HSC_OK && lesson_clock() - begin < 0.3; i++) {
        double start = lesson_clock();
        status = attend(way, n, x, out, table, err);
        double took = 1000 * (lesson_clock() - start);
        if (i == 0 || took < *ms) *ms = took;
    }
    *kib = (lesson_memory_peak() + (way == 0 ? (double)n * n * sizeof *table : 0)) / 1024;
    return status;
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static float x[LONGEST * D], out[LONGEST * D];
    double lengths[LENGTHS], ms[WAYS][LENGTHS], kib[WAYS][LENGTHS];
    hsc_error err = {0};
    hsc_random r;
    lesson_memory_watch();
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, LONGEST * D, x);
    float *table = malloc(sizeof *table * LONGEST * LONGEST);
    hsc_status status = table ? HSC_OK : HSC_ENOMEM;
    for (int step = 0; step < LENGTHS * WAYS && status == HSC_OK; step++) {
        int i = step % LENGTHS, way = step / LENGTHS, n = LONGEST >> (LENGTHS - 1 - i);
        lengths[i] = n;
        status = measure(way, n, x, out, table, &ms[way][i], &kib[way][i], &err);
    }
    free(table);
    err.code = status;
    TRY(status);

    printf("tokens        ");
    for (int i = 0; i < LENGTHS; i++) printf(" %9.0f", lengths[i]);
    printf("   exponent\n");
    for (int memory = 0; memory < 2; memory++) {
        printf("%s\n", memory ? "memory in KiB" : "time in ms");
        for (int way = 0; way < WAYS; way++) {
            const double *cost = memory ? kib[way] : ms[way];
            printf("%-14s", ways[way]);
            for (int i = 0; i < LENGTHS; i++) printf(memory ? " %9.0f" : " %9.3f", cost[i]);
            printf("   %8.2f\n", lesson_exponent(lengths + 1, cost + 1, LENGTHS - 1));
        }
    }
    lesson_panel panels[2] = {{"Time", "tokens", "ms", true, true, {{0}}},
                              {"Memory", "tokens", "KiB", true, true, {{0}}}};
    for (int way = 0; way < WAYS; way++) {
        panels[0].curves[way] = (lesson_curve){ways[way], LENGTHS, lengths, ms[way], false};
        panels[1].curves[way] = (lesson_curve){ways[way], LENGTHS, lengths, kib[way], false};
    }
    return lesson_show_curves("Attention of one head, d_k = 64", panels, 2);
}
