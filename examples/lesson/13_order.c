/*
 * Exercise 3: with a causal mask, self-attention is no longer permutation-equivariant.
 *
 * Where the argument breaks: without a mask the scores of the shuffled rows are P S P^T, the same scores in another
 * order, and everything after that is row by row. A mask M is added to the scores by position: the shuffled input gets
 * P S P^T + M, and this is P (S + M) P^T only if P M P^T = M. A causal M is -infinity above the diagonal; P moves
 * entries across the diagonal unless it is the identity, because P M P^T = M would mean that "j is not after i" holds
 * for the places of i and j whenever it holds for i and j, and the only permutation that keeps an order is the
 * identity.
 *
 * One counterexample proves the claim: token 0 sees itself alone, so its output is its own value. Move it to the end
 * and it sees everybody. And shuffling the mask along, P M P^T, mends the equation: that is what was missing.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 5, D = 16 };
static const int order[N] = {3, 0, 4, 1, 2};

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    float X[N * D], W[3][D * D], out[N * D], moved_X[N * D], moved_out[N * D], expected[N * D];
    unsigned char causal[N * N], moved_mask[N * N];
    hsc_error err = {0};
    hsc_random r;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, N * D, X);
    for (int i = 0; i < 3; i++) hsc_random_normal(&r, 0, 1 / sqrtf(D), D * D, W[i]);
    hsc_nn_heads self = {
        .q = hsc_nn_matrix(W[0], D, D), .k = hsc_nn_matrix(W[1], D, D), .v = hsc_nn_matrix(W[2], D, D)};

    hsc_nn_mask_causal(N, N, causal);
    hsc_nn_mask mask = {.allowed = causal};
    TRY(hsc_nn_heads_forward(&self, &mask, X, 1, N, out, NULL, NULL, &err));
    for (int i = 0; i < N; i++) {
        memcpy(moved_X + i * D, X + order[i] * D, D * sizeof *X);
        memcpy(expected + i * D, out + order[i] * D, D * sizeof *out);
        for (int j = 0; j < N; j++) moved_mask[i * N + j] = causal[order[i] * N + order[j]];
    }
    TRY(hsc_nn_heads_forward(&self, &mask, moved_X, 1, N, moved_out, NULL, NULL, &err));
    printf("shuffled input gives shuffled output: %s, the largest difference is %.2f\n",
           lesson_truth(lesson_close(moved_out, expected, N * D, 1e-5)),
           (double)lesson_furthest(moved_out, expected, N * D));

    mask.allowed = moved_mask;
    TRY(hsc_nn_heads_forward(&self, &mask, moved_X, 1, N, moved_out, NULL, NULL, &err));
    printf("with the mask shuffled along: %s\n", lesson_truth(lesson_close(moved_out, expected, N * D, 1e-5)));
    printf("the mask is its own shuffle: %s\n", lesson_truth(memcmp(causal, moved_mask, sizeof causal) == 0));

    TRY(hsc_nn_heads_forward(&self, NULL, X, 1, N, out, NULL, NULL, &err));
    TRY(hsc_nn_heads_forward(&self, NULL, moved_X, 1, N, moved_out, NULL, NULL, &err));
    for (int i = 0; i < N; i++) memcpy(expected + i * D, out + order[i] * D, D * sizeof *out);
    printf("without a mask: %s\n", lesson_truth(lesson_close(moved_out, expected, N * D, 1e-5)));
    return 0;
}
