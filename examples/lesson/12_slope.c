/*
 * Exercise 2: the derivative of a softmax weight by its own score.
 *
 * Claim: dp_i / dz_i = p_i (1 - p_i), and it is largest where p_i = 1/2.
 * Proof: p_i = exp(z_i) / S with S = sum_j exp(z_j), and dS / dz_i = exp(z_i). By the quotient rule
 *     dp_i / dz_i = (exp(z_i) S - exp(z_i) exp(z_i)) / S^2 = p_i - p_i^2 = p_i (1 - p_i).
 * p - p^2 = 1/4 - (p - 1/2)^2 is at most 1/4, and is 1/4 exactly at p = 1/2. Near 0 and 1 it goes to 0: a softmax that
 * is sure learns nothing. (By another score, j != i: dp_i / dz_j = -p_i p_j.)
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

enum { N = 4, POINTS = 81 };

/* Weight i of the scores z, in double, where a difference has digits left. */
static double weight(const double *z, int i)
{
    double sum = 0;
    for (int j = 0; j < N; j++) sum += exp(z[j]);
    return exp(z[i]) / sum;
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const float scores[N] = {2, 0.5f, -1, 1};
    double z[N], h = 1e-5, furthest = 0;
    float p[N], jacobian[N][N];
    hsc_error err = {0};
    TRY(hsc_nn_softmax_forward(scores, 1, N, p, &err));
    hsc_nn_softmax_jacobian(p, N, jacobian[0]);
    for (int i = 0; i < N; i++) z[i] = scores[i];
    for (int i = 0; i < N; i++) {
        double at = z[i];
        z[i] = at + h;
        double up = weight(z, i);
        z[i] = at - h;
        double slope = (up - weight(z, i)) / (2 * h);
        z[i] = at;
        furthest = fmax(furthest, fabs(slope - jacobian[i][i]));
        printf("p = %.4f   p(1-p) = %.4f   by a small step = %.4f\n", (double)p[i], (double)jacobian[i][i], slope);
    }
    printf("equal within 1e-6: %s\n", lesson_truth(furthest < 1e-6));

    /* One score moves, the other three stay at 0. */
    double xs[POINTS], slopes[POINTS];
    int best = 0;
    for (int i = 0; i < POINTS; i++) {
        float row[N] = {(float)(i - 40) * 0.2f + logf(3)};
        TRY(hsc_nn_softmax_forward(row, 1, N, p, &err));
        xs[i] = p[0];
        slopes[i] = p[0] * (1 - (double)p[0]);
        if (slopes[i] > slopes[best]) best = i;
    }
    printf("largest at p = %.3f: %.3f\n", xs[best], slopes[best]);
    lesson_panel panel = {.x_title = "p", .y_title = "dp/dz", .curves = {{"p (1 - p)", POINTS, xs, slopes, true}}};
    return lesson_show_curves("The derivative of a softmax weight", &panel, 1);
}
