/*
 * Self-attention: queries, keys and values all come from the same tokens.
 *
 *     Q = X W_Q,  K = X W_K,  V = X W_V        X [n_tokens][d_model]
 *
 * A query says what a token looks for, a key what it has to offer, a value what it passes on. Row i of the weights says
 * how much token i looks at each token, itself included; every pair is compared at once, however far apart.
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
    return lesson_show_pattern("Self-attention of five random tokens", weights, N, NULL, false);
}
