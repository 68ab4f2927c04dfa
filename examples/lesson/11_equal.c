/*
 * Exercise 1: equal scores, and one that grows.
 *
 * Claim: when all n scores of a row are equal, attention returns the plain mean of the values.
 * Proof: with every score s, each weight is exp(s) / (n exp(s)) = 1 / n, so the output is sum_j V_j / n.
 *
 * Claim: when one score grows and the others stay, the output goes to that score's value.
 * Proof: let score 0 be s and the others 0. Its weight is exp(s) / (exp(s) + n - 1) = 1 / (1 + (n - 1) exp(-s)), which
 * goes to 1 as s grows; the others sum to 1 minus that, so to 0. The soft lookup becomes a hard one.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

enum { N = 5, D = 2, STEPS = 7 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const float K[N] = {1, 0, 0, 0, 0}; /* d_k = 1: the query's only entry is the score of key 0 */
    const float V[N][D] = {{10, 0}, {0, 10}, {5, 5}, {2, 4}, {3, 1}};
    float out[D], weights[N];
    double s[STEPS], p[STEPS], rest[STEPS];
    hsc_error err = {0};
    hsc_nn_attention_shape shape = {.n_query = 1, .n_key = N, .d_k = 1, .d_v = D};
    float query = 0, mean[D] = {0};
    TRY(hsc_nn_attention_forward(&shape, NULL, &query, K, V[0], out, weights, &err));
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < D; i++) mean[i] += V[j][i] / N;
    }
    printf("equal scores: weights ");
    lesson_print_array(weights, 0, N, 3);
    printf("  output ");
    lesson_print_array(out, 0, D, 3);
    printf("\nthe mean of the values: ");
    lesson_print_array(mean, 0, D, 3);
    printf("  equal: %s\n", lesson_truth(lesson_close(out, mean, D, 1e-5)));

    bool right = true;
    for (int i = 0; i < STEPS; i++) {
        s[i] = 2 * i;
        query = (float)s[i];
        TRY(hsc_nn_attention_forward(&shape, NULL, &query, K, V[0], out, weights, &err));
        double formula = 1 / (1 + (N - 1) * exp(-s[i]));
        p[i] = weights[0];
        rest[i] = weights[1];
        right = right && fabs(weights[0] - formula) < 1e-6;
        printf("score 0 at %2.0f: weight %.5f, output [%.3f %.3f]\n", s[i], (double)weights[0], (double)out[0],
               (double)out[1]);
    }
    printf("as 1 / (1 + (n - 1) exp(-s)): %s\n", lesson_truth(right));
    lesson_panel panel = {.x_title = "score 0 (the others are 0)",
                          .y_title = "weight",
                          .curves = {{"key 0", STEPS, s, p, false}, {"each other key", STEPS, s, rest, false}}};
    return lesson_show_curves("One score grows", &panel, 1);
}
