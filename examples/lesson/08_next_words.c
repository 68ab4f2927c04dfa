/*
 * One pass, the loss of every next word.
 *
 * With a causal mask, what comes out at position i depends on the tokens 0 .. i alone: it may be asked for token i + 1,
 * which it has not seen. So one pass over n tokens holds n - 1 predictions with their losses, -log p(next word), and
 * training gets them for the price of one. The program compares with the slow way, a pass for each prefix. The losses
 * are equal to the last bit, because here the arithmetic of a row does not depend on the rows beside it.
 *
 * First a small model of random blocks, which can only guess; then, where a model is named, real words.
 */
#include "lesson.h"

#include <stdio.h>

enum { WORDS = 11, VOCABULARY = 10, D = 32, BLOCKS = 2, MOST = 64 };
static const char *const text[WORDS] = {"The",     "animal", "didn't", "cross", "the",  "street",
                                        "because", "it",     "was",    "too",   "tired"};
static const hsc_token ids[WORDS] = {0, 1, 2, 3, 0, 4, 5, 6, 7, 8, 9};
static const hsc_nn_block block = {.d_model = D, .n_heads = 4, .d_ff = 4 * D};
static float table[VOCABULARY * D], parameters[BLOCKS][12704];
static hsc_status make_model(hsc_error *err)
{
    hsc_random r;
    hsc_random_seed(&r, 0);
    hsc_random_normal(&r, 0, 0.2f, VOCABULARY * D, table);
    for (int b = 0; b < BLOCKS; b++) CHECK(hsc_nn_block_init(&block, &r, parameters[b], err));
    return HSC_OK;
}

/* logits [n][VOCABULARY] of the first n words: embedding and position, blocks, the embedding again as output matrix. */
static hsc_status forward(int n, float *logits, hsc_error *err)
{
    float x[WORDS * D], pe[WORDS * D];
    hsc_nn_linear out = {.w = table, .n_in = D, .n_out = VOCABULARY};
    hsc_nn_mask mask = {.causal = 1};
    CHECK(hsc_nn_embedding_forward(table, VOCABULARY, D, ids, n, x, err));
    CHECK(hsc_nn_sinusoid(n, D, 10000, pe, err));
    for (int i = 0; i < n * D; i++) x[i] += pe[i];
    for (int b = 0; b < BLOCKS; b++)
        CHECK(hsc_nn_block_forward(&block, parameters[b], &mask, x, 1, n, x, NULL, NULL, err));
    return hsc_nn_linear_forward(&out, x, n, logits, err);
}

/* What a real model loses on the words after its first n: on all of them, or on the last. */
static hsc_status losses_of(lesson_model *m, const hsc_token *tokens, int n, hsc_logits_rows rows, float *losses,
                            hsc_error *err)
{
    hsc_view logits;
    hsc_session_reset(m->session);
    CHECK(hsc_forward(m->session, &(hsc_batch){.ids = tokens, .n_tokens = n, .logits = rows}, err));
    CHECK(hsc_session_logits(m->session, &logits, err));
    int n_rows = (int)logits.shape[0], n_words = (int)logits.shape[1];
    return hsc_nn_cross_entropy_forward(logits.data, tokens + n + 1 - n_rows, n_rows, n_words, losses, err);
}

static void report(size_t n, const float *at_once, const float *one_by_one)
{
    float furthest = lesson_furthest(at_once, one_by_one, n);
    printf("mean loss %.2f; largest difference to the prefixes one by one: %g\n", lesson_mean(at_once, n), furthest);
}

static hsc_status real_words(lesson_model *m, hsc_encoding *e, hsc_error *err)
{
    float at_once[MOST], one_by_one[MOST];
    CHECK(lesson_encode(m, "The animal didn't cross the street because it was too tired", e, err));
    int n = e->n > MOST ? MOST : (int)e->n - 1; /* words that have one before them */
    CHECK(losses_of(m, e->ids, n, HSC_LOGITS_ALL, at_once, err));
    for (int i = 1; i <= n; i++) CHECK(losses_of(m, e->ids, i, HSC_LOGITS_LAST, &one_by_one[i - 1], err));
    printf("\n%s:\n", hsc_model_config(m->model)->name);
    for (int i = 0; i < n; i++)
        printf("%-10s -> %-10s loss %5.2f\n", lesson_word(m, e->ids[i]), lesson_word(m, e->ids[i + 1]), at_once[i]);
    report((size_t)n, at_once, one_by_one);
    return HSC_OK;
}

int main(int argc, char **argv)
{
    float logits[WORDS * VOCABULARY], at_once[WORDS], one_by_one[WORDS], *last = logits;
    hsc_error err = {0};
    TRY(make_model(&err));
    TRY(forward(WORDS, logits, &err));
    TRY(hsc_nn_cross_entropy_forward(logits, ids + 1, WORDS - 1, VOCABULARY, at_once, &err));
    for (int n = 1; n < WORDS; n++, last += VOCABULARY) {
        TRY(forward(n, logits, &err));
        TRY(hsc_nn_cross_entropy_forward(last, ids + n, 1, VOCABULARY, &one_by_one[n - 1], &err));
    }
    for (int i = 0; i + 1 < WORDS; i++) printf("%-8s -> %-8s loss %.2f\n", text[i], text[i + 1], at_once[i]);
    report(WORDS - 1, at_once, one_by_one);
    if (argc < 2) return 0;

    lesson_model m;
    hsc_encoding e = {0};
    TRY(lesson_open(&m, argv[1], &err));
    hsc_status status = HSC_OK;
    if (hsc_model_config(m.model)->causal) status = real_words(&m, &e, &err);
    else printf("\n%s looks both ways: it has no next word to guess\n", hsc_model_config(m.model)->name);
    hsc_encoding_free(&e);
    lesson_close_model(&m);
    return status ? lesson_fail(&err) : 0;
}
