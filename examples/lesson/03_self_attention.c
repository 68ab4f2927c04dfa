/*
 * Self-attention: one sequence asks itself.
 *
 *     Q = X W_Q,  K = X W_K,  V = X W_V        X [n_tokens][d_model]
 *
 * Three learned maps give each token three roles: as one that asks (q), as one that may answer (k), and the answer it
 * would give (v). weights[i][j] is how much of token j's answer token i takes; distance plays no part in it.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

enum { N = 5, D = 16 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    float X[N * D], W_Q[D * D], W_K[D * D], W_V[D * D], out[N * D], weights[N * N];
    hsc_error err = {0};
    hsc_random r;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, N * D, X);
    float std = 1 / sqrtf(D);
    hsc_random_normal(&r, 0, std, D * D, W_Q);
    hsc_random_normal(&r, 0, std, D * D, W_K);
    hsc_random_normal(&r, 0, std, D * D, W_V);

    hsc_nn_heads self = {.q = hsc_nn_matrix(W_Q, D, D), .k = hsc_nn_matrix(W_K, D, D), .v = hsc_nn_matrix(W_V, D, D)};
    TRY(hsc_nn_heads_forward(&self, NULL, X, 1, N, out, weights, NULL, &err));
    lesson_print_array(weights, N, N, 2);
    printf("\ntorch.Size([%d, %d])\n", N, D);

    for (int i = 0; i < N; i++) {
        float *row = weights + i * N;
        double sum = row[0] + (double)row[1] + row[2] + row[3] + row[4];
        if (fabs(sum - 1) > 1e-6) printf("row %d sums to %g\n", i, sum);
    }
    return lesson_show_pattern("Five random tokens", weights, N, NULL, false);
}
