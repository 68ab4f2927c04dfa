/*
 * Positions as waves.
 *
 *     PE(pos, 2i) = sin(pos w_i),  PE(pos, 2i + 1) = cos(pos w_i),  w_i = 1 / 10000^(2i / d_model)
 *
 * The entries stay in [-1, 1] however long the text is; a fast pair tells neighbours apart, a slow one the far from the
 * near. And a shift by k is one fixed linear map, since
 *
 *     sin((pos + k) w) =  cos(kw) sin(pos w) + sin(kw) cos(pos w)
 *     cos((pos + k) w) = -sin(kw) sin(pos w) + cos(kw) cos(pos w)
 *
 * that is, each pair turns by the angle k w, wherever it was. Rotary embeddings make use of just this: they turn the
 * queries and keys themselves, and of two turned vectors only the difference of the angles is left in the dot product.
 */
#include "lesson.h"

#include <stdio.h>

enum { POSITIONS = 50, D = 16, K = 3 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int from[] = {0, 10, 40};
    static float pe[POSITIONS * D];
    float rotation[D / 2][2][2];
    hsc_error err = {0};
    TRY(hsc_nn_sinusoid(POSITIONS, D, 10000, pe, &err));
    TRY(hsc_nn_sinusoid_rotation(K, D, 10000, rotation[0][0], &err));
    for (int i = 0; i < 3; i++) {
        const float *at = pe + from[i] * D, *after = pe + (from[i] + K) * D;
        float turned[D];
        for (int c = 0; c < D; c++)
            turned[c] = rotation[c / 2][c % 2][0] * at[c / 2 * 2] + rotation[c / 2][c % 2][1] * at[c / 2 * 2 + 1];
        printf("pos %2d: rotating gives position %d: %s\n", from[i], from[i] + K,
               lesson_truth(lesson_close(turned, after, D, 1e-5)));
    }

    /* Rotary: the score of a query at m and a key at n depends on m - n only. */
    const float q[4] = {1, 2, 3, 4}, k[4] = {4, 3, 2, 1};
    const int pairs[3][2] = {{3, 0}, {13, 10}, {43, 40}};
    float scores[3], first[3];
    for (int i = 0; i < 3; i++) {
        float turned_q[4], turned_k[4];
        hsc_nn_rope rope = {.d_head = 4};
        TRY(hsc_nn_rope_forward(&rope, q, &pairs[i][0], 1, 1, 1, turned_q, &err));
        TRY(hsc_nn_rope_forward(&rope, k, &pairs[i][1], 1, 1, 1, turned_k, &err));
        scores[i] = 0;
        for (int c = 0; c < 4; c++) scores[i] += turned_q[c] * turned_k[c];
        first[i] = scores[0];
    }
    printf("rotary scores three apart at 3, 13, 43: %.3f %.3f %.3f, equal: %s\n", (double)scores[0], (double)scores[1],
           (double)scores[2], lesson_truth(lesson_close(scores, first, 3, 1e-4)));

    double x[POSITIONS], waves[3][POSITIONS];
    for (int pos = 0; pos < POSITIONS; pos++) {
        x[pos] = pos;
        for (int i = 0; i < 3; i++) waves[i][pos] = pe[pos * D + 4 * i];
    }
    lesson_panel panel = {.x_title = "position",
                          .y_title = "sin(position w)",
                          .curves = {{"w_0 = 1", POSITIONS, x, waves[0], true},
                                     {"w_2 = 0.1", POSITIONS, x, waves[1], true},
                                     {"w_4 = 0.01", POSITIONS, x, waves[2], true}}};
    return lesson_show_curves("Three waves of 16 dimensions", &panel, 1);
}
