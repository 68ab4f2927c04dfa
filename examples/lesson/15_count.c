/*
 * Exercise 5: the parameters of a block with d = d_model = 768, 12 heads and f = d_ff = 3072.
 *
 *     attention     W_Q, W_K, W_V and W_O are d x d, each with a bias of d     4 d^2 + 4 d
 *     feed-forward  W_1 is f x d with a bias of f, W_2 is d x f with one of d  2 d f + f + d = 8 d^2 + 5 d  (f = 4 d)
 *     two norms     a gain and a bias of d each                                4 d
 *     in all                                                                   12 d^2 + 13 d
 *
 * The number of heads does not matter: they share d dimensions. The rule of thumb, 12 d^2, leaves out 13 d: the share
 * 13 / (12 d + 13) of a block, less the wider it is. Two thirds of a block lie in its feed-forward network.
 *
 * GPT-2, the smallest, is twelve of these blocks between a table of 50257 tokens, one of 1024 positions and a last
 * norm: 12 (12 d^2 + 13 d) + (50257 + 1024) d + 2 d. It has no output matrix: it multiplies by the table of tokens
 * again.
 */
#include "lesson.h"

#include <stdio.h>

/* One line: a count and its share of a sum. */
static void print_share(const char *what, long long count, long long of)
{
    printf("%-32s %9lld %6.2f%%\n", what, count, 100 * (double)count / (double)of);
}

/* A whole model of n blocks: where its parameters lie. */
static void print_model(long long n, long long block, long long d, long long n_tokens, long long n_positions)
{
    long long rows = (n_tokens + n_positions) * d, sum = n * block + rows + 2 * d;
    print_share("GPT-2's twelve blocks", n * block, sum);
    print_share("its tokens and positions", rows, sum);
    print_share("its last norm", 2 * d, sum);
    print_share("GPT-2 in all", sum, sum);
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    hsc_nn_block block = {.d_model = 768, .n_heads = 12, .d_ff = 3072};
    hsc_error err = {0};
    long long d = block.d_model, sum = 0, parts[3] = {0};
    int64_t count;
    for (int i = 0; i < HSC_NN_N_BLOCK_TENSORS; i++) {
        hsc_nn_parameter p;
        TRY(hsc_nn_block_parameter(&block, (hsc_nn_block_tensor)i, &p, &err));
        if (p.n_dims == 2) printf("%-20s %4d x %4d %9lld\n", p.name, p.shape[0], p.shape[1], (long long)p.count);
        else printf("%-20s %11d %9lld\n", p.name, p.shape[0], (long long)p.count);
        sum += p.count;
        parts[i < HSC_NN_FF_IN_WEIGHT ? 0 : i < HSC_NN_NORM1_WEIGHT ? 1 : 2] += p.count;
    }
    TRY(hsc_nn_block_count(&block, &count, &err));
    printf("%-32s %9lld\n", "in all", (long long)count);
    printf("%-32s %9lld\n", "12 d^2 + 13 d", 12 * d * d + 13 * d);
    printf("%-32s %9lld\n", "the rule of thumb, 12 d^2", 12 * d * d);
    printf("the terms sum to it: %s; the rule is %.2f%% below\n",
           lesson_truth(sum == count && sum == 12 * d * d + 13 * d),
           100 * (double)(count - 12 * d * d) / (double)count);
    print_share("attention", parts[0], sum);
    print_share("feed-forward", parts[1], sum);
    print_share("norms", parts[2], sum);
    print_model(12, sum, d, 50257, 1024);
    return 0;
}
