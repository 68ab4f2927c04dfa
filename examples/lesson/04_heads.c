/*
 * Multi-head attention, and the order that it cannot see.
 *
 * h heads each look in their own d_model / h dimensions; their results are put end to end and mixed by W_O:
 *
 *     head_i = attention(Q_i, K_i, V_i),   multi_head(X) = concat(head_1, ..., head_h) W_O
 *
 * Shuffle the rows of X with a permutation P. The scores become (P Q)(P K)^T = P (Q K^T) P^T, softmax works row by row,
 * so the weights are shuffled in the same way, and (P A P^T)(P V) = P (A V): the output is the old one, shuffled.
 * Attention alone sees a bag of words.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 5, D = 16, HEADS = 4 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int order[N] = {3, 0, 4, 1, 2};
    float X[N * D], W[4][D * D], out[N * D], shuffled_X[N * D], shuffled_out[N * D], expected[N * D];
    hsc_error err = {0};
    hsc_random r;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, N * D, X);
    for (int i = 0; i < 4; i++) hsc_random_normal(&r, 0, 1 / sqrtf(D), D * D, W[i]); /* W_Q, W_K, W_V, W_O */

    hsc_nn_heads heads = {.n_heads = HEADS,
                          .q = hsc_nn_matrix(W[0], D, D),
                          .k = hsc_nn_matrix(W[1], D, D),
                          .v = hsc_nn_matrix(W[2], D, D),
                          .o = hsc_nn_matrix(W[3], D, D)};
    TRY(hsc_nn_heads_forward(&heads, NULL, X, 1, N, out, NULL, NULL, &err));
    printf("torch.Size([%d, %d])\n", N, D);

    for (int i = 0; i < N; i++) {
        memcpy(shuffled_X + i * D, X + order[i] * D, D * sizeof *X);
        memcpy(expected + i * D, out + order[i] * D, D * sizeof *out);
    }
    TRY(hsc_nn_heads_forward(&heads, NULL, shuffled_X, 1, N, shuffled_out, NULL, NULL, &err));
    printf("shuffled input gives shuffled output: %s\n",
           lesson_truth(lesson_close(shuffled_out, expected, N * D, 1e-5)));
    return 0;
}
