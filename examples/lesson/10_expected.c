/*
 * The output as an expected value.
 *
 * A row of weights can be read as probabilities, since none is negative and they sum to 1. Then sum_j w_j V_j is, by
 * definition, the expected value of V_J for a random key J with P(J = j) = w_j. To see it, draw keys and average their
 * values: the law of large numbers brings the mean to attention's output, with an error of std / sqrt(draws), so that a
 * hundred times the draws give one more digit. The example is the one of the first program.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

static const float Q[2] = {1, 0}, K[6] = {1, 0, 0, 1, 0.7f, 0.7f}, V[6] = {10, 0, 0, 10, 5, 5};

/* A key drawn under the weights: where u falls among their running sums. */
static int draw_key(hsc_random *r, const float *weights)
{
    float u;
    hsc_random_uniform(r, 0, 1, 1, &u);
    return u < weights[0] ? 0 : u < weights[0] + weights[1] ? 1 : 2;
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    enum { STEPS = 4 };
    float out[2], weights[3];
    double draws[STEPS], off[STEPS], bar[STEPS], sum[2] = {0}, squares[2] = {0};
    hsc_error err = {0};
    hsc_random r;
    hsc_nn_attention_shape shape = {.n_query = 1, .n_key = 3, .d_k = 2, .d_v = 2};
    TRY(hsc_nn_attention_forward(&shape, NULL, Q, K, V, out, weights, &err));
    printf("attention's output: ");
    lesson_print_array(out, 0, 2, 3);
    printf("\n");

    hsc_random_seed(&r, 0);
    long n = 0;
    for (int step = 0, goal = 100; step < STEPS; step++, goal *= 10) {
        for (; n < goal; n++) {
            const float *value = V + 2 * draw_key(&r, weights);
            for (int i = 0; i < 2; i++) {
                sum[i] += value[i];
                squares[i] += (double)value[i] * value[i];
            }
        }
        double mean[2], error[2];
        bool within = true;
        for (int i = 0; i < 2; i++) {
            mean[i] = sum[i] / (double)n;
            error[i] = sqrt((squares[i] / (double)n - mean[i] * mean[i]) / (double)n);
            within = within && fabs(mean[i] - out[i]) <= 3 * error[i];
        }
        draws[step] = (double)n;
        off[step] = fabs(mean[0] - out[0]);
        bar[step] = error[0];
        printf("mean of %6ld draws: %.3f +- %.3f, %.3f +- %.3f   within 3 errors: %s\n", n, mean[0], error[0], mean[1],
               error[1], lesson_truth(within));
    }
    printf("the error shrinks as draws^%.2f\n", lesson_exponent(draws, bar, STEPS));
    lesson_panel panel = {.x_title = "draws",
                          .y_title = "distance from attention's output",
                          .log_x = true,
                          .log_y = true,
                          .curves = {{"mean of the drawn values, first component", STEPS, draws, off, false},
                                     {"its standard error", STEPS, draws, bar, true}}};
    return lesson_show_curves("Attention as an expected value", &panel, 1);
}
