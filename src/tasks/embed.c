/* Texts as vectors. The hidden states are summed up while they pass, so no text keeps its own; texts are packed end to
 * end and not padded, which makes a text's vector the same bits in any company. */
#include "base/alloc.h"
#include "model/session.h"
#include "model/texts.h"
#include "tasks/dense.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 };

/* One pass: sums [n_seqs][d_model] in double, for a mean over hundreds of tokens to round once. */
typedef struct pool {
    hsc_pooling pooling;
    int d_model, width; /* of a hidden state, of a vector */
    const int *lengths;
    double *sums;
    double *scratch; /* of the layers behind the pooling */
} pool;

static int add_rows(void *user, const hsc_block *block)
{
    const pool *p = user;
    double *sum = p->sums + (size_t)block->seq * (size_t)p->d_model;
    for (int r = 0; r < block->n_rows; r++) {
        int position = block->first_row + r, last = p->lengths[block->seq] - 1;
        const float *row = block->data + (size_t)r * block->stride;
        if (p->pooling == HSC_POOL_CLS && position != 0) continue;
        if (p->pooling == HSC_POOL_LAST && position != last) continue;
        for (int i = 0; i < p->d_model; i++) sum[i] += (double)row[i];
    }
    return 0;
}

/* Each text's sum becomes its vector. */
static void finish(const pool *p, int n_seqs, const hsc_embedding *how, float *out)
{
    for (int s = 0; s < n_seqs; s++) {
        double *x = p->sums + (size_t)s * (size_t)p->d_model;
        double n = p->pooling == HSC_POOL_MEAN ? p->lengths[s] : 1, square = 0;
        float *to = out + (size_t)s * (size_t)p->width;
        for (int i = 0; i < p->d_model; i++) x[i] /= n;
        const double *y = hsc__dense_apply(how, x, p->scratch);
        for (int i = 0; i < p->width; i++) square += y[i] * y[i];
        double length = how->normalise ? fmax(sqrt(square), 1e-12) : 1;
        for (int i = 0; i < p->width; i++) to[i] = (float)(y[i] / length);
    }
}

static hsc_status run_batch(hsc_session *s, const hsc_token *ids, const int32_t *segments, const int *lengths,
                            int n_seqs, int n_tokens, pool *p, hsc_error *err)
{
    hsc_batch batch = {.ids = ids,
                       .segments = segments,
                       .n_tokens = n_tokens,
                       .seq_lengths = lengths,
                       .n_seqs = n_seqs,
                       .logits = HSC_LOGITS_NONE};
    p->lengths = lengths;
    memset(p->sums, 0, (size_t)n_seqs * (size_t)p->d_model * sizeof *p->sums);
    hsc_session_reset(s);
    return hsc__texts_forward(s, &batch, err);
}

static hsc_status run_batches(hsc_session *s, const hsc_token *ids, const int *lengths, int n_seqs,
                              const hsc_embedding *how, pool *p, float *out, hsc_error *err)
{
    const int32_t *segments = how->segments;
    for (int at = 0; at < n_seqs;) {
        int n = 0, n_tokens = 0;
        while (at + n < n_seqs && n < s->max_seqs && (n == 0 || n_tokens + lengths[at + n] <= BATCH_TOKENS))
            n_tokens += lengths[at + n++];
        HSC_TRY(run_batch(s, ids, segments, lengths + at, n, n_tokens, p, err));
        finish(p, n, how, out + (size_t)at * (size_t)p->width);
        ids += n_tokens;
        if (segments) segments += n_tokens;
        at += n;
    }
    return HSC_OK;
}

hsc_status hsc_embed(hsc_session *s, const hsc_token *ids, const int *seq_lengths, int n_seqs, const hsc_embedding *how,
                     float *out, hsc_error *err)
{
    const hsc_config *stack = hsc__texts_config(s->model); /* whose output it is */
    int d = stack->d_model;
    hsc_site norm = s->encoder ? HSC_ENC_LN_FINAL : HSC_LN_FINAL,
             last = s->encoder ? HSC_ENC_RESID_POST : HSC_RESID_POST;
    bool has_norm = hsc_model_has_site(s->model, norm) != 0;
    hsc__error_clear(err);
    HSC_FAIL_IF((unsigned)how->pooling >= HSC_N_POOLINGS, HSC_EINVAL, "pooling %d does not exist", (int)how->pooling);
    for (int i = 0; i < n_seqs; i++)
        HSC_FAIL_IF(seq_lengths[i] < 1, HSC_EINVAL, "text %d is empty: it has no embedding", i);
    HSC_TRY(hsc__dense_check(how, d, err));
    pool p = {.pooling = how->pooling, .d_model = d, .width = hsc_embedding_width(s->model, how)};
    size_t n_sums = (size_t)s->max_seqs * (size_t)d;
    p.sums = hsc__calloc(n_sums + hsc__dense_scratch(how), sizeof *p.sums);
    if (!p.sums) return hsc__fail_memory(err, n_sums * sizeof *p.sums, "embeddings");
    p.scratch = p.sums + n_sums;
    hsc_observer observer = {
        .site = has_norm ? norm : last, .layer = has_norm ? 0 : stack->n_layers - 1, .fn = add_rows, .user = &p};
    hsc_session_observe_clear(s);
    hsc_status status = hsc_session_observe(s, &observer, err);
    if (status == HSC_OK) status = run_batches(s, ids, seq_lengths, n_seqs, how, &p, out, err);
    hsc_session_observe_clear(s);
    hsc__free(p.sums);
    return status;
}
