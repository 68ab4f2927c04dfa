/*
 * Attention as a soft lookup.
 *
 * Think of a table of keys and values. An exact lookup answers with the value behind the one key that fits, or not at
 * all. Attention lets every key answer, and each counts by how well it fits: its dot product with the query is its
 * score,
 *
 *     attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V        (Vaswani et al. 2017, eq. 1)
 *
 * and softmax makes shares of a query's scores, which sum to 1. Here one query meets a key that is equal to it, one at
 * a right angle to it, and one in between.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    hsc_error err = {0};
    const float Q[1][2] = {{1, 0}};
    const float K[3][2] = {{1, 0}, {0, 1}, {0.7f, 0.7f}};
    const float V[3][2] = {{10, 0}, {0, 10}, {5, 5}};
    float out[1][2], weights[1][3];

    hsc_nn_attention_shape shape = {.n_query = 1, .n_key = 3, .d_k = 2, .d_v = 2};
    TRY(hsc_nn_attention_forward(&shape, NULL, Q[0], K[0], V[0], out[0], weights[0], &err));
    printf("weights: ");
    lesson_print_array(weights[0], 1, 3, 3);
    printf("  output: ");
    lesson_print_array(out[0], 1, 2, 2);
    printf("\n");

    /* The same by the formula, written out. */
    double scores[3], sum = 0, right[2] = {0};
    for (int k = 0; k < 3; k++) {
        scores[k] = exp((Q[0][0] * K[k][0] + Q[0][1] * K[k][1]) / sqrt(2));
        sum += scores[k];
    }
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2; i++) right[i] += scores[k] / sum * V[k][i];
    }
    float by_hand[2] = {(float)right[0], (float)right[1]};
    printf("equal to the formula written out: %s\n", lesson_truth(lesson_close(out[0], by_hand, 2, 1e-5)));
    return 0;
}
