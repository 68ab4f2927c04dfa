/*
 * Exercise 6: change "tired" to "wide". Does "it" look elsewhere?
 *
 * In a causal model it cannot. The row of "it" is softmax(q_it . k_j) over the tokens j up to "it"; the word that
 * changes comes after. The q and k of a layer are made from the layer below, itself causal, so by induction nothing at
 * or before "it" changes: the difference is exactly 0. Only the row of the last word can change. Without a mask "it"
 * looks at that word too, and its row changes from the first layer on. First random blocks, with and without the mask;
 * then the heads of a model that is named: of an encoder, as BERT is, from "it" as well as from the last word.
 */
#include "lesson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 11, IT = 7, D = 32, HEADS = 4, PARAMETERS = 12704 };
/* The largest change of one row of weights when the last token changes, in two random blocks. */
static hsc_status random_model(bool causal, int row, float *change, hsc_error *err)
{
    static float parameters[PARAMETERS];
    float x[2][N * D], weights[2][HEADS][N][N];
    hsc_nn_block block = {.d_model = D, .n_heads = HEADS, .d_ff = 4 * D};
    hsc_nn_mask mask = {.causal = causal};
    hsc_random r;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 1, N * D, x[0]);
    memcpy(x[1], x[0], sizeof x[0]);
    hsc_random_normal(&r, 0, 1, D, x[1] + (N - 1) * D); /* another word at the end */
    for (int layer = 0; layer < 2; layer++) {
        CHECK(hsc_nn_block_init(&block, &r, parameters, err));
        for (int i = 0; i < 2; i++)
            CHECK(hsc_nn_block_forward(&block, parameters, &mask, x[i], 1, N, x[i], weights[i][0][0], NULL, err));
    }
    *change = 0;
    for (int h = 0; h < HEADS; h++)
        *change = fmaxf(*change, lesson_furthest(weights[0][h][row], weights[1][h][row], N));
    return HSC_OK;
}

/* The three heads whose weight from one token moves most from "animal" to "street". */
static void print_movers(const lesson_patterns look[2], const char *name, int from, int animal, int street)
{
    float below = INFINITY;
    printf("from %s, the heads that move most from \"animal\" to \"street\":\n", name);
    for (int place = 0; place < 3; place++) {
        float most = 0;
        int best = -1;
        for (int i = 0; i < look->n_heads; i++) {
            const float *a = lesson_row(&look[0], i, from), *b = lesson_row(&look[1], i, from);
            float move = b[street] - a[street] - (b[animal] - a[animal]);
            if (move > most && move < below) most = move, best = i;
        }
        if (best < 0) return;
        below = most;
        const float *a = lesson_row(&look[0], best, from), *b = lesson_row(&look[1], best, from);
        printf("%s: animal %.2f -> %.2f, street %.2f -> %.2f\n", lesson_head(look, best), a[animal], b[animal],
               a[street], b[street]);
    }
}

static void compare(const hsc_config *c, const lesson_patterns look[2])
{
    int it = lesson_find(look, "it"), last = lesson_find(look, "tired"), wide = lesson_find(&look[1], "wide");
    int animal = lesson_find(look, "animal"), street = lesson_find(look, "street"), n = look->n;
    float change = 0;
    printf("\n%s, %s\n", c->name, c->causal ? "causal mask" : "no mask");
    if (n != look[1].n || it < 0 || animal < 0 || street < 0 || last < 0 || last != wide) {
        printf("its tokens are not the words that this program looks for\n");
        return;
    }
    for (int i = 0; i < look->n_heads; i++)
        change = fmaxf(change, lesson_furthest(lesson_row(&look[0], i, it), lesson_row(&look[1], i, it), (size_t)n));
    printf("the row of \"it\" changes by at most %.2g in %d heads\n", change, look->n_heads);
    if (!c->causal) print_movers(look, "\"it\"", it, animal, street);
    print_movers(look, "the last word", last, animal, street);
}

int main(int argc, char **argv)
{
    hsc_error err = {0};
    float it, last;
    printf("the last word changes; largest change of a row of weights, two random blocks\n");
    for (int causal = 1; causal >= 0; causal--) {
        TRY(random_model(causal, IT, &it, &err));
        TRY(random_model(causal, N - 1, &last, &err));
        const char *name = causal ? "causal mask:" : "without mask:";
        printf("  %-13s row of \"it\" %.1g, row of the last word %.2f\n", name, it, last);
    }
    if (argc < 2) return 0;
    lesson_model m;
    lesson_patterns look[2] = {0};
    TRY(lesson_open(&m, argv[1], &err));
    hsc_status status = lesson_look(&m, "The animal didn't cross the street because it was too tired", &look[0], &err);
    if (!status) status = lesson_look(&m, "The animal didn't cross the street because it was too wide", &look[1], &err);
    if (!status) compare(hsc_model_config(m.model), look);
    for (int i = 0; i < 2; i++) lesson_patterns_free(&look[i]);
    lesson_close_model(&m);
    return status ? lesson_fail(&err) : 0;
}
