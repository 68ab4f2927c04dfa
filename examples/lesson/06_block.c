/*
 * The transformer block: attention between tokens, then a small network for each of them.
 *
 *     x = x + multi_head(layer_norm(x))
 *     x = x + feed_forward(layer_norm(x)),      feed_forward(x) = max(0, x W_1 + b_1) W_2 + b_2
 *     layer_norm(x) = gain (x - mean) / sqrt(var + eps) + bias, over the features of each token
 *
 * Both halves only add to x, so that in a deep stack the derivative by an early x has a term that no layer weakens. The
 * parameters begin as PyTorch's modules begin; the lesson seeds once, some sections earlier, so what was drawn since
 * then is drawn here too.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 2, N = 10, D = 64, EARLIER = 5 * 16, SQUARE = 16 * 16 };

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static float tokens[B * N * D], out[B * N * D], pe[N * D], earlier[SQUARE];
    hsc_nn_block block = {.d_model = D, .n_heads = 4, .d_ff = 256};
    hsc_error err = {0};
    hsc_random r;
    int64_t n_parameters;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, EARLIER, earlier);                            /* X */
    for (int i = 0; i < 4; i++) hsc_random_normal(&r, 0, 1, SQUARE, earlier); /* W_Q, W_K, W_V, W_O */

    TRY(hsc_nn_block_count(&block, &n_parameters, &err));
    float *parameters = malloc((size_t)n_parameters * sizeof *parameters);
    if (!parameters) return lesson_fail(&(hsc_error){.code = HSC_ENOMEM});
    hsc_status status = hsc_nn_block_init(&block, &r, parameters, &err);
    hsc_random_normal(&r, 0, 1, B * N * D, tokens);
    if (status == HSC_OK) status = hsc_nn_sinusoid(N, D, 10000, pe, &err);
    for (int i = 0; i < B * N * D; i++) tokens[i] += pe[i % (N * D)];
    if (status == HSC_OK) status = hsc_nn_block_forward(&block, parameters, NULL, tokens, B, N, out, NULL, NULL, &err);
    free(parameters);
    TRY(status);

    printf("torch.Size([%d, %d, %d])\n", B, N, D);
    printf("parameters per block: %lld\n", (long long)n_parameters);
    printf("output[0, 0, :5]: ");
    lesson_print_tensor(out, 5);
    printf("\n");
    return 0;
}
