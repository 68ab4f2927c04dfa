/*
 * Multi-head attention, and the order that it cannot see.
 *
 * With h heads the d_model dimensions are shared out: each head has d_model / h of its own, with a pattern of its own,
 * and W_O mixes what they found:
 *
 *     head_i = attention(Q_i, K_i, V_i),   multi_head(X) = concat(head_1, ..., head_h) W_O
 *
 * Now put the rows of X into another order, P X. Then Q, K and V become P Q, P K and P V, the scores P Q K^T P^T. Rows
 * of a softmax do not know of each other, so the weights A become P A P^T, and since P^T P = 1 the output is
 *
 *     (P A P^T) (P V) = P (A V),
 *
 * what came out before, in the new order. No token can tell where it stands.
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
