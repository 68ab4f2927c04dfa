/*
 * Exercise 6: change "tired" to "wide". Does "it" look elsewhere?
 *
 * In a causal model it cannot. The row of "it" is softmax(q_it . k_j) over the tokens j up to "it"; the word that
 * changes comes after. The q and k of a layer are made from the layer below, itself causal, so by induction nothing at
 * or before "it" changes: the difference is exactly 0. Only the last token's row can change. Without a mask, as in
 * BERT, all can. First random blocks with and without the mask; then, where a model is named, its own heads. headscope
 * cannot open a model that looks in both directions yet, so for BERT's half of the answer there are the random blocks
 * alone.
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

/* Prints the head whose weight from the last token moves most from one word to the other, but less than `below`. */
static float next_move(const lesson_patterns *tired, const lesson_patterns *wide, float below, int animal, int street)
{
    float most = 0;
    int best = -1;
    for (int i = 0; i < tired->n_heads; i++) {
        const float *a = lesson_row(tired, i, tired->n - 1), *b = lesson_row(wide, i, wide->n - 1);
        float move = b[street] - a[street] - (b[animal] - a[animal]);
        if (!(move > most && move < below)) continue;
        most = move;
        best = i;
    }
    if (best < 0) return 0;
    const float *a = lesson_row(tired, best, tired->n - 1), *b = lesson_row(wide, best, wide->n - 1);
    printf("%s: ' animal' %.2f -> %.2f, ' street' %.2f -> %.2f\n", lesson_head(tired, best), a[animal], b[animal],
           a[street], b[street]);
    return most;
}

static void compare(const lesson_model *m, const lesson_patterns *tired, const lesson_patterns *wide)
{
    const hsc_config *c = hsc_model_config(m->model);
    float change = 0, below = INFINITY;
    int it = lesson_find(m, tired, " it"), animal = lesson_find(m, tired, " animal"), n = tired->n;
    int street = lesson_find(m, tired, " street");
    printf("\n%s, %s: ", c->name, c->causal ? "causal mask" : "no mask");
    if (n != wide->n || it < 0 || animal < 0 || street < 0) {
        printf("its tokens are not the words that this program looks for\n");
        return;
    }
    for (int i = 0; i < tired->n_heads; i++)
        change = fmaxf(change, lesson_furthest(lesson_row(tired, i, it), lesson_row(wide, i, it), (size_t)n));
    printf("the row of ' it' changes by at most %g in %d heads\n", change, tired->n_heads);
    printf("from the last token, the heads that move most from ' animal' to ' street':\n");
    for (int place = 0; place < 3; place++) below = next_move(tired, wide, below, animal, street);
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
    lesson_patterns tired = {0}, wide = {0};
    TRY(lesson_open(&m, argv[1], &err));
    hsc_status status = lesson_look(&m, "The animal didn't cross the street because it was too tired", &tired, &err);
    if (!status) status = lesson_look(&m, "The animal didn't cross the street because it was too wide", &wide, &err);
    if (!status) compare(&m, &tired, &wide);
    lesson_patterns_free(&tired);
    lesson_patterns_free(&wide);
    lesson_close_model(&m);
    return status ? lesson_fail(&err) : 0;
}
