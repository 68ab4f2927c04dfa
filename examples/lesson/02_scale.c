/*
 * Why scores are divided by the square root of d_k.
 *
 * Let the entries of q and k be independent with mean 0 and variance 1. Then E[q_i k_i] = 0 and E[(q_i k_i)^2] =
 * E[q_i^2] E[k_i^2] = 1, so the d_k terms of q.k, being independent, give it the variance d_k. Wide heads would
 * therefore have large scores, and softmax of large scores is almost a one and zeros. There its derivative, p (1 - p),
 * is almost nothing, and a model that starts like that hardly learns. Dividing by sqrt(d_k) takes the width out of it.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 10000, WIDEST = 512 };

/* dots[PAIRS]: the scores of random pairs. */
static int random_dots(hsc_random *r, int d_k, float *dots)
{
    size_t n = (size_t)PAIRS * (size_t)d_k;
    float *q = malloc(n * sizeof *q), *k = malloc(n * sizeof *k);
    if (q && k) {
        hsc_random_normal(r, 0, 1, n, q);
        hsc_random_normal(r, 0, 1, n, k);
        for (size_t i = 0; i < PAIRS; i++) {
            double sum = 0;
            for (size_t c = i * (size_t)d_k; c < (i + 1) * (size_t)d_k; c++) sum += (double)q[c] * k[c];
            dots[i] = (float)sum;
        }
    }
    bool done = q && k;
    free(q);
    free(k);
    return done ? 0 : lesson_fail(&(hsc_error){.code = HSC_ENOMEM});
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int widths[] = {4, 64, WIDEST};
    static float dots[PAIRS];
    double x[3], raw[3], scaled[3], root[3];
    hsc_error err = {0};
    hsc_random r;
    hsc_random_seed(&r, 0);
    for (int i = 0; i < 3; i++) {
        if (random_dots(&r, widths[i], dots)) return 1;
        x[i] = widths[i];
        root[i] = sqrt(widths[i]);
        raw[i] = lesson_std(dots, PAIRS);
        scaled[i] = raw[i] / root[i];
        printf("d_k = %3d: std of q.k = %6.2f   after / sqrt(d_k) = %.2f\n", widths[i], raw[i], scaled[i]);
    }

    float scores[10], p[10];
    hsc_random_normal(&r, 0, 8, 10, scores); /* as they are for d_k = 64 */
    for (int divided = 0; divided < 2; divided++) {
        for (int i = 0; i < 10 && divided; i++) scores[i] /= 8;
        TRY(hsc_nn_softmax_forward(scores, 1, 10, p, &err));
        float largest = 0;
        for (int i = 0; i < 10; i++) largest = fmaxf(largest, p[i]);
        printf("%-9s: largest weight %.3f, its gradient p(1-p) = %.4f\n", divided ? "scaled" : "unscaled",
               (double)largest, (double)(largest * (1 - largest)));
    }
    lesson_panel panel = {.x_title = "d_k",
                          .y_title = "standard deviation",
                          .log_x = true,
                          .log_y = true,
                          .curves = {{"sqrt(d_k)", 3, x, root, true},
                                     {"q.k", 3, x, raw, false},
                                     {"q.k / sqrt(d_k)", 3, x, scaled, false}}};
    return lesson_show_curves("Scores of 10,000 random pairs", &panel, 1);
}
