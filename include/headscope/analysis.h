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
    int first_pos;           /* positions before it are run but not read */
    const hsc_token *source; /* [n_source] of an encoder-decoder: what it reads; the text is then its target, and the
                                layers are the decoder's */
    int n_source;
} hsc_lens_options;

/* Arrays are [n_stages][n_pos] and more where it says so; position i is token first_pos + i. p of a word is
 * exp(logit - log_sums). */
typedef struct hsc_lens {
    int n_stages, n_pos, first_pos, top_k, n_words;
    hsc_token *top;    /* [..][top_k]: the likeliest words, ties to the lower id */
    float *top_logits; /* [..][top_k] */
    double *log_sums;  /* ln of the sum of exp(logit) */
    double *kl;     /* Kullback-Leibler divergence from the last stage to this one, sum p_last ln(p_last / p), nats; NaN
                     * where the logits of one of the two are no numbers */
    double *losses; /* -ln p of the text's next token, in nats; NaN at the last token and where tokens see later ones */
    float *answer_logits; /* of the word that the last stage holds likeliest at this position */
    float *word_logits;   /* [..][n_words] */
    int *word_ranks;      /* [..][n_words]: from 0, words with a larger logit, or as large and a lower id */
} hsc_lens;

/* Fills *out, which hsc_lens_free frees. Memory: the residual stream of every stage, and logits of a few positions at
 * all stages. HSC_EUNSUPPORTED: the model has no output matrix. HSC_EINVAL: an option is out of range; an
 * encoder-decoder without a source, or a source without one; as hsc_forward. HSC_ENOMEM. */
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

/* --------------------------------------------------------------------------------------------------- circuits ---- */

/*
 * What a head does to single words, away from any text (Elhage et al. 2021; Wang et al. 2022). A word t comes in as its
 * effective embedding x_t = e_t + MLP_0(ln2(e_t)), the first feed-forward alone, without attention and positions; heads
 * of layer 0 read e_t itself. Then
 *     OV   logits of t = unembed(ln_final(W_O (W_V ln1(x_t) + b_V))), the norms with their own statistics
 *     QK   score of t looking at s = attn_scale (W_Q ln1(x_t) + b_Q) . (W_K ln1(x_s) + b_K), both unrotated, as at
 *          distance 0; norms of q and k as the model has them, a soft cap left out. With `distance` n the query is
 *          rotated as n tokens behind the key
 */
typedef struct hsc_circuit_options {
    int n_threads;
    hsc_compute compute;     /* of what makes x_t, q, k and v; the rest is f32 */
    const hsc_token *inputs; /* [n_inputs]; NULL: the whole vocabulary */
    int n_inputs;
    int top_k; /* at most HSC_LENS_MAX_TOP; 0: 5. The result has no more than there are keys */
    int (*tell)(void *user, int n_done, int n_all); /* inputs; non-zero stops with HSC_ECANCELED; may be NULL */
    void *user;
    const hsc_token *keys; /* [n_keys] words that may be looked at; NULL: the inputs */
    int n_keys;
    int distance; /* of QK, in tokens; above 0 for rotary layers alone */
} hsc_circuit_options;

/* Arrays are [n_inputs] and more where it says so. Ties go to the lower id. */
typedef struct hsc_circuit {
    int n_inputs, top_k, d_vocab;
    hsc_token *inputs;
    hsc_token *writes;   /* [..][top_k] words that the head writes for this input, largest logit first */
    float *write_logits; /* [..][top_k] */
    hsc_token *lowest;   /* [..][top_k] words that it speaks against, smallest logit first */
    float *lowest_logits;
    int *own_ranks;    /* of the input among what is written, from 0 */
    int *turned_ranks; /* of the input with the sign of what is written turned, from 0 */
    hsc_token *keys;   /* [..][top_k] words that this one looks at, largest score first */
    float *key_scores; /* [..][top_k] */
} hsc_circuit;

/* Fills *out, which hsc_circuit_free frees. Memory: (d_vocab + 2 n_inputs + n_keys) d_head floats and 256 rows
 * of logits. HSC_EINVAL: no such layer, head or token, top_k or distance out of range. HSC_EUNSUPPORTED: as for
 * hsc_attribution_run; a distance in a layer that does not rotate.
 * HSC_ECANCELED. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_circuit_run(const hsc_model *model, int layer, int head,
                                                  const hsc_circuit_options *options, hsc_circuit *out, hsc_error *err);
HSC_API void hsc_circuit_free(hsc_circuit *circuit);

/* The copying score of every head (Wang et al. 2022): copy[n_layers * n_heads] is the share of the inputs that the head
 * writes among its top_k words, against[..] the share that is among the top_k with the sign of what it writes turned.
 * Of words with one logit the lower id stands first, so that k words are the top_k whatever ties there are. NaN in
 * layer 0, whose heads do not read the effective embedding. options->inputs must be given. As hsc_circuit_run.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_circuit_copying(const hsc_model *model, const hsc_circuit_options *options,
                                                      double *copy, double *against, hsc_error *err);

/* The eigenvalue copying score of every head (Elhage et al. 2021, "Summarizing OV/QK matrices"): the sum of the
 * eigenvalues of W_U W_O W_V W_E over the sum of their absolute values, from -1 to 1. Near 1 the head makes the words
 * that it looks at likelier, near -1 less likely. Norms are folded in by their gains (a layer norm's mean, too), as
 * TransformerLens's fold_ln does; biases, positions and feed-forwards are left out, so words come in as embeddings
 * (normed where the model norms them: BLOOM).
 * scores: [n_layers * n_heads]; NaN where there is none. Of the options n_threads, tell (blocks of words, then layers)
 * and user count. As hsc_circuit_run; HSC_EUNSUPPORTED besides: an embedding narrower than the stream. */
HSC_API HSC_MUST_CHECK hsc_status hsc_circuit_eigen(const hsc_model *model, const hsc_circuit_options *options,
                                                    double *scores, hsc_error *err);

/* ------------------------------------------------------------------------------------------------ composition ---- */

/*
 * How much of what one head writes a later head can read, by the weights alone (Elhage et al. 2021), as TransformerLens
 * has it (all_composition_scores):
 *     |OV1 M| / (|OV1| |M|),   Frobenius norms,   OV = W_V W_O,   M = QK, QK^T or OV of the later head
 * where QK = W_Q W_K^T. The norm before attention is folded into W_Q, W_K and W_V (its gain; a layer norm's mean too),
 * which changes scores; kv heads stand for each head that reads them; rotation, norms of q and k, and everything
 * between the two heads are left out. A later head turned at random would have a root mean square of 1 / sqrt(d_model).
 */
typedef enum {
    HSC_COMPOSE_Q, /* into where it looks from */
    HSC_COMPOSE_K, /* into what it looks for */
    HSC_COMPOSE_V, /* into what it moves */
    HSC_N_COMPOSES,
} hsc_compose;

/* "q", "k", "v"; NULL out of range. Static storage. */
HSC_API const char *hsc_compose_name(hsc_compose kind);

/* out [n][n], n = n_layers * n_heads: row the writing head, column the reading one; NaN unless its layer is later.
 * Memory: 3 matrices of n_heads * d_head * d_model floats a layer. HSC_EINVAL: no such kind. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_composition(const hsc_model *model, hsc_compose kind, int n_threads, float *out,
                                                  hsc_error *err);

/* ------------------------------------------------------------------------------------ attention through layers ---- */

typedef struct hsc_mix_options {
    int n_threads;
    hsc_compute compute;
} hsc_mix_options;

/* The mean of all heads' patterns: out [n_layers][n_tokens][n_tokens]. Memory besides: patterns of one layer. As
 * hsc_forward. */
HSC_API HSC_MUST_CHECK hsc_status hsc_mean_patterns(const hsc_model *model, const hsc_token *ids, int n_tokens,
                                                    const hsc_mix_options *options, float *out, hsc_error *err);

/*
 * Attention rollout (Abnar and Zuidema 2020): a layer passes on half of a token's own row and half of what its heads
 * see on average, A' = (mean + I) / 2, and the layers are multiplied from the bottom, R_l = A'_l R_{l-1}. means and
 * out: [n_layers][n][n]; out[l][q][k]: the share of input token k in token q after layer l. out may be means.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_rollout(const float *means, int n_layers, int n, float *out, hsc_error *err);

/*
 * Attention flow (same paper): the most that can flow from token `query` above the last layer down to one input token,
 * through edges of capacity A'; each input by itself, so the shares need not sum to 1. means [n_layers][n][n]; out [n].
 * HSC_EINVAL: no such query, a mean that is not finite or below 0, or n is above HSC_FLOW_TOKENS: work grows with the
 * fifth power. HSC_ENOMEM.
 */
enum { HSC_FLOW_TOKENS = 128 };
HSC_API HSC_MUST_CHECK hsc_status hsc_flow(const float *means, int n_layers, int n, int query, int n_threads,
                                           double *out, hsc_error *err);

/* How large what a head can move from each token is (Kobayashi et al. 2020): out [n_layers][n_heads][n_tokens], the
 * Euclidean norm of v_k W_O, or of v_k alone. The values' bias counts. A pattern's weight times this is the size of
 * what is moved. As hsc_forward. */
typedef enum { HSC_NORM_OUTPUT, HSC_NORM_VALUE } hsc_norm_of;
HSC_API HSC_MUST_CHECK hsc_status hsc_value_norms(const hsc_model *model, const hsc_token *ids, int n_tokens,
                                                  hsc_norm_of of, const hsc_mix_options *options, float *out,
                                                  hsc_error *err);

/* ------------------------------------------------------------------------------------------------------ export ---- */

/* A corpus, text after text. Arrays are valid until the next call. */
typedef struct hsc_corpus_text {
    const hsc_token *ids; /* [n_tokens]; of an encoder-decoder what the decoder reads */
    int n_tokens;
    int32_t label;           /* what the index calls it: the number of a line, say */
    const hsc_token *source; /* [n_source]: what an encoder-decoder's encoder reads */
    int n_source;
} hsc_corpus_text;

/* Text number `index`, asked for from 0 on in rising order, and then once more from 0; the same both times. Sets
 * *is_end when there is no such text. */
typedef hsc_status (*hsc_corpus_fn)(void *user, int64_t index, hsc_corpus_text *out, int *is_end, hsc_error *err);

typedef enum {
    HSC_EXPORT_ALL,  /* a row for every token */
    HSC_EXPORT_LAST, /* the last token of each text */
    HSC_EXPORT_MEAN, /* the mean over each text's tokens but the first; of a text of one token that one */
} hsc_export_rows;

typedef struct hsc_export_options {
    int n_threads;
    hsc_compute compute;
    hsc_site site;
    int layer; /* -1: every layer; ignored for a site that exists once */
    hsc_export_rows rows;
    double room; /* bytes that the maps of one text may take; 0: no limit */
    hsc_corpus_fn next;
    void *user;                                             /* of next and tell */
    int (*tell)(void *user, int64_t n_done, int64_t n_all); /* texts; non-zero stops with HSC_ECANCELED; may be NULL */
} hsc_export_options;

typedef struct hsc_export_counts {
    int64_t n_texts, n_rows;
    int64_t n_cut; /* texts of which only the beginning was read: they, or their source, are longer than the context */
} hsc_export_counts;

/*
 * Writes a site's rows over a corpus, for probes, as an .npz: `resid_post.4` [n_rows][row] float32, an array a layer,
 * and an index of the rows, `text` (its label), `position` and `token` [n_rows] int32 (position and token -1 for a
 * mean). An .npy holds one layer's rows alone.
 *
 * attn_scores and pattern are maps whose shape is the text's: `pattern.4` [n_weights] has [n_heads][n_query][n_key] of
 * each text end to end, `shape` [n_texts][3] says which, and `text` [n_texts] and `token` [n_tokens], the ids of all
 * texts end to end, stand beside; of HSC_EXPORT_LAST n_query is 1.
 *
 * Of an encoder-decoder a text is about a source. Rows, `position` and `token` of a site of the source
 * (hsc_site_is_of_source) are the source's, and the text itself is not read; those of any other site are the text's.
 * Maps of cross-attention have n_key tokens of the source, the ids of all of them in `source_token`, and `token` has
 * the ids of their n_query rows.
 *
 * Texts are packed; memory grows neither with their number nor with the file. The file appears when it is whole.
 * HSC_EINVAL: a site that is made neither of rows nor of maps or that the model lacks, several layers or maps in an
 * .npy, a mean of maps, maps of a text beyond `room`, a text or a source without tokens where it is read, a corpus
 * without texts. What next returns. As hsc_forward and hsc_write_arrays besides. counts may be NULL.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_export(const hsc_model *model, const char *path,
                                             const hsc_export_options *options, hsc_export_counts *counts,
                                             hsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
