/* Masked words: what an encoder with a masked-word head would put into places of a text. The head's rows at those
 * places are kept while they pass and only they meet the output matrix, so no table of tokens times vocabulary is made.
 */
#include "base/alloc.h"
#include "headscope/tasks.h"
#include "model/session.h"
#include "tasks/settings.h"
#include "tensor/linear.h"

#include <math.h>
#include <string.h>

/* The rows [n][width] that the output matrix will read. */
typedef struct places {
    const int *positions; /* [n] */
    int n, width;
    float *rows;
} places;

static int keep_rows(void *user, const hsc_block *block)
{
    const places *p = user;
    for (int i = 0; i < p->n; i++) {
        int at = p->positions[i] - block->first_row;
        if (at < 0 || at >= block->n_rows) continue;
        memcpy(p->rows + (size_t)i * (size_t)p->width, block->data + (size_t)at * block->stride,
               (size_t)p->width * sizeof *p->rows);
    }
    return 0;
}

/* The k largest logits, the lowest id first among equals, with their shares of the softmax over all. */
static hsc_status choose(const float *logits, int n_vocab, int k, hsc_guess *out, hsc_error *err)
{
    int n = 0;
    for (int id = 0; id < n_vocab; id++) {
        float logit = logits[id];
        HSC_FAIL_IF(!isfinite(logit), HSC_EINVAL, "the logit of token %d is not a finite number", id);
        if (n == k && logit <= out[k - 1].logit) continue;
        int at = n < k ? n++ : k - 1;
        for (; at > 0 && logit > out[at - 1].logit; at--) out[at] = out[at - 1];
        out[at] = (hsc_guess){.id = id, .logit = logit};
    }
    double largest = (double)out[0].logit, log_prob = hsc_log_prob(logits, n_vocab, out[0].id);
    for (int i = 0; i < n; i++) out[i].probability = exp((double)out[i].logit - largest + log_prob);
    return HSC_OK;
}

static hsc_status run(hsc_session *s, const hsc_token *ids, const int32_t *segments, int n, places *p, hsc_error *err)
{
    hsc_batch batch = {.ids = ids, .segments = segments, .n_tokens = n, .logits = HSC_LOGITS_NONE};
    hsc_observer observer = {.site = s->desc->w_head.data ? HSC_LN_HEAD : HSC_LN_FINAL, .fn = keep_rows, .user = p};
    hsc_session_observe_clear(s);
    hsc_session_reset(s);
    hsc_status status = hsc_session_observe(s, &observer, err);
    if (status == HSC_OK) status = hsc_forward(s, &batch, err);
    hsc_session_observe_clear(s);
    return status;
}

/* As many places at once as the session's scratch is made for. */
static hsc_status guess(const hsc_session *s, const places *p, float *logits, int k, hsc_guess *out, hsc_error *err)
{
    int v = s->desc->config.d_vocab;
    for (int first = 0; first < p->n; first += s->max_rows) {
        int n = p->n - first < s->max_rows ? p->n - first : s->max_rows;
        hsc__linear product = {.w = &s->desc->unembed,
                               .x = p->rows + (size_t)first * (size_t)p->width,
                               .x_stride = (size_t)p->width,
                               .y = logits,
                               .y_stride = (size_t)v};
        hsc__linear_forward(&s->exec, &product, 1, n);
        for (int i = 0; i < n; i++)
            HSC_TRY(choose(logits + (size_t)i * (size_t)v, v, k, out + (size_t)(first + i) * (size_t)k, err));
    }
    return HSC_OK;
}

static hsc_status check(const hsc_session *s, int n, const int *positions, int n_positions, int k, hsc_error *err)
{
    const hsc_config *c = &s->desc->config;
    HSC_FAIL_IF(c->causal, HSC_EINVAL, "%s is causal: no token sees what comes after it, so it fills no gap", c->name);
    HSC_FAIL_IF(!s->desc->unembed.data, HSC_EINVAL,
                "%s has no masked-word head: its file ends at the hidden states, from which no word is guessed",
                c->name);
    HSC_FAIL_IF(n_positions < 1, HSC_EINVAL, "no place to fill was given");
    HSC_FAIL_IF(k < 1 || k > c->d_vocab, HSC_EINVAL, "%d guesses: 1 to %d (the vocabulary) are accepted", k,
                c->d_vocab);
    for (int i = 0; i < n_positions; i++)
        HSC_FAIL_IF(positions[i] < 0 || positions[i] >= n, HSC_EINVAL,
                    "place %d is position %d, the text has %d tokens", i, positions[i], n);
    return HSC_OK;
}

hsc_status hsc_fill(hsc_session *s, const hsc_token *ids, const int32_t *segments, int n, const int *positions,
                    int n_positions, int k, hsc_guess *out, hsc_error *err)
{
    hsc__error_clear(err);
    HSC_TRY(check(s, n, positions, n_positions, k, err));
    size_t width = (size_t)s->desc->unembed.n_in, v = (size_t)s->desc->config.d_vocab;
    size_t at_once = (size_t)(n_positions < s->max_rows ? n_positions : s->max_rows);
    size_t floats = (size_t)n_positions * width + at_once * v;
    places p = {.positions = positions, .n = n_positions, .width = (int)width};
    p.rows = hsc__calloc(floats, sizeof *p.rows);
    if (!p.rows) return hsc__fail_memory(err, floats * sizeof *p.rows, "the logits of the masked words");
    hsc_status status = run(s, ids, segments, n, &p, err);
    if (status == HSC_OK) status = guess(s, &p, p.rows + (size_t)n_positions * width, k, out, err);
    hsc__free(p.rows);
    return status;
}

/* The token that files or custom name: what tokenizer_config.json or special_tokens_map.json call mask_token, the
 * number in GGUF's metadata, and else the token that BERT or RoBERTa would call so. */
hsc_status hsc_model_mask_token(const hsc_model *model, hsc_token *out, hsc_error *err)
{
    static const char *const customary[] = {"[MASK]", "<mask>"};
    hsc__error_clear(err);
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(model, err);
    if (!tokenizer) return HSC_ENOTFOUND;
    *out = -1;
    HSC_TRY(hsc__settings_mask((hsc_model *)(uintptr_t)model, tokenizer, out, err));
    for (int i = 0; i < 2 && *out < 0; i++) *out = hsc_token_find(tokenizer, customary[i], strlen(customary[i]));
    HSC_FAIL_IF(*out < 0, HSC_ENOTFOUND, "%s: its tokenizer has no mask token ([MASK], <mask>)", model->path);
    return HSC_OK;
}
