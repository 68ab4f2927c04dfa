/*
 * The causal mask: nobody looks ahead.
 *
 * Where key j comes after query i, the score is replaced by -infinity; its share of the softmax, exp(-infinity), is 0
 * and not merely small. The first token is left with itself. The three batches are the lesson's next draws, so what was
 * drawn before them is drawn here too.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>

enum { N = 5, D = 8 };

/* Everything that the sections before took from the generator: X, W_Q, W_K, W_V, W_O, a block and its tokens. */
static hsc_status draw_what_came_before(hsc_random *r, hsc_error *err)
{
    static float scratch[49984];
    hsc_nn_block block = {.d_model = 64, .n_heads = 4, .d_ff = 256};
    hsc_random_normal(r, 0, 1, 5 * 16, scratch);
    for (int i = 0; i < 4; i++) hsc_random_normal(r, 0, 1, 16 * 16, scratch);
    hsc_status status = hsc_nn_block_init(&block, r, scratch, err);
    hsc_random_normal(r, 0, 1, 2 * 10 * 64, scratch);
    return status;
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    float Q[N * D], K[N * D], V[N * D], out[N * D], weights[N * N];
    unsigned char allowed[N * N];
    hsc_error err = {0};
    hsc_random r;
    hsc_random_seed(&r, 0);
    TRY(draw_what_came_before(&r, &err));
    hsc_random_normal(&r, 0, 1, N * D, Q);
    hsc_random_normal(&r, 0, 1, N * D, K);
    hsc_random_normal(&r, 0, 1, N * D, V);

    hsc_nn_mask_causal(N, N, allowed);
    hsc_nn_attention_shape shape = {.n_query = N, .n_key = N, .d_k = D, .d_v = D};
    TRY(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.allowed = allowed}, Q, K, V, out, weights, &err));
    lesson_print_array(weights, N, N, 2);
    bool all_zero = true;
    for (int i = 0; i < N; i++) {
        for (int j = i + 1; j < N; j++) all_zero = all_zero && weights[i * N + j] == 0;
    }
    printf("\nexactly zero above the diagonal: %s\n", lesson_truth(all_zero));

    /* The same mask in a word; and as a table for nn.MultiheadAttention, where true means: do not look. */
    float again[N * D];
    TRY(hsc_nn_attention_forward(&shape, &(hsc_nn_mask){.causal = 1}, Q, K, V, again, NULL, &err));
    printf("same output by the word causal: %s\n", lesson_truth(lesson_furthest(out, again, N * D) == 0));
    hsc_nn_mask_invert(allowed, N * N, allowed);
    printf("nn.MultiheadAttention's attn_mask, row 2: [");
    for (int j = 0; j < N; j++) printf("%s%s", j ? ", " : "", lesson_truth(allowed[2 * N + j]));
    printf("]\n");
    return lesson_show_pattern("Five tokens, causal", weights, N, NULL, true);
}
