/*
 * headscope/analysis.h: what a pass means, read from weights and activations without changing anything: what the
 * residual stream would say after each layer, which component a logit is made of, what a head reads and writes.
 *
 * Layers, heads and positions count from 0. Sums are taken in float64 over float32 activations of the compute kind
 * chosen. Results do not depend on the number of threads.
 */
#ifndef HEADSCOPE_ANALYSIS_H
#define HEADSCOPE_ANALYSIS_H

#include "headscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------- lens ---- */

/*
 * The logit lens (nostalgebraist 2020): logits = unembed(ln_final(resid)) for the residual stream before every layer,
 * with the norm's statistics recomputed, and whatever the model has between norm and logits (BERT's head, a soft cap).
 * Stage s = 0 .. n_layers - 1 is what enters layer s (stage 0: the embedding), stage n_layers what leaves the last one:
 * its logits are the model's own, to the bit.
 */
enum { HSC_LENS_MAX_TOP = 64 };

typedef struct hsc_lens_options {
    int n_threads;
    hsc_compute compute;
    int top_k;              /* words kept of each stage and position, at most HSC_LENS_MAX_TOP; 0: 5 */
    const hsc_token *words; /* [n_words] followed through all stages */
    int n_words;
    int first_pos; /* positions before it are run but not read */
} hsc_lens_options;

/* Arrays are [n_stages][n_pos] and more where it says so; position i is token first_pos + i. p of a word is
 * exp(logit - log_sums). */
typedef struct hsc_lens {
    int n_stages, n_pos, first_pos, top_k, n_words;
    hsc_token *top;    /* [..][top_k]: the likeliest words, ties to the lower id */
    float *top_logits; /* [..][top_k] */
    double *log_sums;  /* ln of the sum of exp(logit) */
    double *kl;     /* Kullback-Leibler divergence from the last stage to this one, sum p_last ln(p_last / p), nats */
    double *losses; /* -ln p of the text's next token, in nats; NaN at the last token and where tokens see later ones */
    float *answer_logits; /* of the word that the last stage holds likeliest at this position */
    float *word_logits;   /* [..][n_words] */
    int *word_ranks;      /* [..][n_words]: from 0, words with a larger logit, or as large and a lower id */
} hsc_lens;

/* Fills *out, which hsc_lens_free frees. Memory: the residual stream of every stage, and logits of a few positions at
 * all stages. HSC_EUNSUPPORTED: the model has no output matrix. HSC_EINVAL: an option is out of range; as hsc_forward.
 * HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lens_run(const hsc_model *model, const hsc_token *ids, int n_tokens,
                                               const hsc_lens_options *options, hsc_lens *out, hsc_error *err);
HSC_API void hsc_lens_free(hsc_lens *lens);

/* ------------------------------------------------------------------------------------------------ attribution ---- */

/*
 * Direct logit attribution (Elhage et al. 2021): the last residual stream is a sum, and the last norm is linear once
 * its scale is fixed at what it is in this run. So a logit, or the difference of two, is a sum over what each part
 * wrote: part = x . d,    d = (gain u - mean(gain u)) / sigma    (the mean only in a layer norm),    u = W_U[a] -
 * W_U[b] with sigma of the whole stream. What a head wrote is W_O z, its share of the values' bias included; the bias
 * of W_O, of the norm and of the output matrix are parts of their own. What a part does through other parts is not seen
 * here.
 */
typedef enum {
    HSC_PART_EMBED,        /* token embedding; the whole of the first residual stream where embeddings are normed */
    HSC_PART_POS_EMBED,    /* learned positions; 0 where there are none */
    HSC_PART_HEAD,         /* one head */
    HSC_PART_ATTN_BIAS,    /* the bias of a layer's W_O */
    HSC_PART_MLP,          /* a layer's feed-forward, its bias included */
    HSC_PART_NORM_BIAS,    /* the last norm's */
    HSC_PART_UNEMBED_BIAS, /* the output matrix's */
} hsc_part_kind;

typedef struct hsc_part {
    hsc_part_kind kind;
    int layer, head; /* -1 where there is none */
    double value;    /* in logits */
} hsc_part;

enum { HSC_NO_TOKEN = -1 };

typedef struct hsc_attribution_options {
    int n_threads;
    hsc_compute compute;
    hsc_token a, b; /* the logit of a, less that of b unless it is HSC_NO_TOKEN */
    int by_source;  /* non-zero: heads by source token too */
} hsc_attribution_options;

typedef struct hsc_attribution {
    int n_layers, n_heads, n_tokens, n_parts;
    hsc_part *parts; /* embed, pos_embed; each layer's heads, attn_bias, mlp; norm_bias, unembed_bias */
    double sum;      /* of all parts */
    double metric;   /* by ln_final and the output matrix: what sum is up to rounding. Before a soft cap */
    double
        *sources; /* [n_layers][n_heads][n_tokens], adding up to the head's part: A[last, k] (v_k W_O) . d; or NULL */
} hsc_attribution;

/* Of the last token of ids (a causal model: take fewer tokens for an earlier one). Fills *out, which
 * hsc_attribution_free frees. HSC_EUNSUPPORTED: norms stand behind the sums (BERT), or something that is not linear
 * stands between the last norm and the logits. HSC_EINVAL: a token outside the vocabulary; as hsc_forward. HSC_ENOMEM.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_attribution_run(const hsc_model *model, const hsc_token *ids, int n_tokens,
                                                      const hsc_attribution_options *options, hsc_attribution *out,
                                                      hsc_error *err);
HSC_API void hsc_attribution_free(hsc_attribution *attribution);

#ifdef __cplusplus
}
#endif
#endif
