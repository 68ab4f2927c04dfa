/*
 * Exercise 4: PE(pos).PE(pos + k) depends on k only.
 *
 * Proof: the dimensions come in pairs (sin(pos w_i), cos(pos w_i)), and a pair's share of the dot product is
 *     sin(a) sin(b) + cos(a) cos(b) = cos(b - a),    a = pos w_i,  b = (pos + k) w_i,
 * by the angle-addition formula of the cosine. b - a = k w_i does not hold pos any more, and the sum over pairs is
 *     PE(pos).PE(pos + k) = sum_i cos(k w_i).
 * It is largest, d_model / 2, at k = 0, and the same for k and -k.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

enum { POSITIONS = 200, D = 64, OFFSETS = 101 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static const int shown[] = {0, 1, 2, 5, 10, 50, 100};
    static float pe[(POSITIONS + OFFSETS) * D];
    double k_axis[OFFSETS], measured[OFFSETS], spread = 0, furthest = 0;
    hsc_error err = {0};
    TRY(hsc_nn_sinusoid(POSITIONS + OFFSETS, D, 10000, pe, &err));
    for (int k = 0; k < OFFSETS; k++) {
        double low = INFINITY, high = -INFINITY, closed = 0;
        for (int pos = 0; pos < POSITIONS; pos++) {
            double dot = 0;
            for (int c = 0; c < D; c++) dot += (double)pe[pos * D + c] * pe[(pos + k) * D + c];
            low = fmin(low, dot);
            high = fmax(high, dot);
        }
        for (int i = 0; i < D / 2; i++) closed += cos(k * hsc_nn_frequency(i, D, 10000));
        k_axis[k] = k;
        measured[k] = low;
        spread = fmax(spread, high - low);
        furthest = fmax(furthest, fmax(fabs(high - closed), fabs(low - closed)));
        for (size_t s = 0; s < sizeof shown / sizeof *shown; s++) {
            if (shown[s] == k)
                printf("k = %3d: from %.4f to %.4f over %d positions, sum of cos(k w_i) = %.4f\n", k, low, high,
                       POSITIONS, closed);
        }
    }
    printf("largest spread over positions, all k up to %d: below 1e-5: %s\n", OFFSETS - 1, lesson_truth(spread < 1e-5));
    printf("equal to the closed form within 1e-5: %s\n", lesson_truth(furthest < 1e-5));
    lesson_panel panel = {.x_title = "k",
                          .y_title = "PE(pos).PE(pos + k)",
                          .curves = {{"d_model 64, any pos", OFFSETS, k_axis, measured, true}}};
    return lesson_show_curves("How alike are positions k apart", &panel, 1);
}
