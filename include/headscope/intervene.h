/*
 * headscope/intervene.h: change something inside a pass and see what follows: ablation, patching, knocking out.
 *
 * The words of this header:
 *   edit      a change of part of one site: some positions, some numbers of each row.
 *   variant   edits that are made in one run of the text. No edits: the run as it is, to the last bit.
 *   lab       one text, run as it is, and then as often as one likes with edits. A run begins at the first layer that
 *             its edits touch, and in a causal model at the first position: what lies before is taken from the run as
 *             it is. Runs go through the layers together. None of this changes a bit of any result. Of an
 *             encoder-decoder the text is the target, about a source; edits of the encoder, or of what the decoder
 *             makes of its output (cross_k, cross_v), run both anew.
 *
 * Layers, heads, kv heads and positions count from 0. Every figure is float32 arithmetic of the compute kind chosen.
 */
#ifndef HEADSCOPE_INTERVENE_H
#define HEADSCOPE_INTERVENE_H

#include "headscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x becomes keep * x + add, where x is numbers [first, first + n) of the rows [first_pos, first_pos + n_pos) of a site.
 * With keep 0 the old value does not count at all, not even when it is infinite or not a number. All zeros past `layer`
 * set the whole site to 0. */
typedef struct hsc_edit {
    hsc_site site;
    int layer;            /* ignored for a site that exists once */
    int head;             /* attn_scores and pattern: of which head; other sites ignore it */
    int first_pos, n_pos; /* positions, of the source for an encoder's site, cross_k and cross_v; for attn_scores and
                           * pattern the queries. n_pos 0: up to the last */
    int first, n;         /* numbers of a row; for attn_scores and pattern the keys. n 0: up to the last */
    float keep;
    float constant;      /* what is added when values is NULL */
    const float *values; /* what is added: number i of row p is values[p * stride + i], p and i from the edit's first
                            ones. Borrowed until the run is over */
    size_t stride;       /* floats from one position to the next; 0: every position gets the same n */
} hsc_edit;

/* An edit of one head's part of q, k, v, rot_q, rot_k or z (or of their like in cross-attention or an encoder), at
 * every position: sets site, layer, first and n and zeroes the rest, which sets that part to 0. For k, v and rot_k
 * `head` counts kv heads. HSC_EINVAL: no such layer, head or site. */
HSC_API HSC_MUST_CHECK hsc_status hsc_edit_head(hsc_edit *out, const hsc_model *model, hsc_site site, int layer,
                                                int head, hsc_error *err);

/* An edit that keeps one head's queries [first_query, first_query + n_queries) from seeing the keys [first_key,
 * first_key + n_keys); 0 of either: up to the last. With renormalise not 0 the scores become -inf before the softmax,
 * so that the row sums to 1 again (and is 0 throughout where nothing is left to see); else the weights become 0 after
 * it and what stays is as it was. HSC_EINVAL: no such layer or head. */
HSC_API HSC_MUST_CHECK hsc_status hsc_edit_knock_out(hsc_edit *out, const hsc_model *model, int layer, int head,
                                                     int first_query, int n_queries, int first_key, int n_keys,
                                                     int renormalise, hsc_error *err);

typedef struct hsc_variant {
    const hsc_edit *edits; /* [n_edits]; made in this order */
    int n_edits;
} hsc_variant;

typedef struct hsc_lab hsc_lab;

typedef struct hsc_lab_options {
    int n_threads;          /* 0: what affinity and the control group allow */
    int max_tokens;         /* of a text; 0: the model's context */
    int max_rows;           /* tokens of variants that run together; 0: 256. Never changes a result */
    hsc_compute compute;    /* 0: f32 */
    hsc_logits_rows logits; /* of every run */
} hsc_lab_options;

/* HSC_EINVAL: an option is out of range. HSC_ENOMEM. The model must outlive the lab. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_new(hsc_lab **out, const hsc_model *model, const hsc_lab_options *options,
                                              hsc_error *err);
HSC_API void hsc_lab_free(hsc_lab *lab);

/* The source that the texts from now on are about; an encoder-decoder wants one before its first text. HSC_EINVAL: the
 * model has no encoder, or the source does not fit its context. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_source(hsc_lab *lab, const hsc_token *ids, int n_tokens, hsc_error *err);

/* Keeps a site of every run from now on, the one as it is and the variants: hsc_lab_clean and hsc_trial have it. As
 * hsc_session_record. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_keep(hsc_lab *lab, hsc_site site, int layer, hsc_error *err);

/* Takes a text [n_tokens] and runs it as it is. Memory: (n_layers + 1) * n_tokens * d_model floats and the cache.
 * HSC_EINVAL: as hsc_forward, or an encoder-decoder has no source. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_text(hsc_lab *lab, const hsc_token *ids, int n_tokens, hsc_error *err);

/* Of the run as it is: logits [n_rows][d_vocab], one row or n_tokens; a site that was kept, or resid_pre of any layer,
 * whole. Valid until the next hsc_lab_text or hsc_lab_free. HSC_ENOTFOUND: not kept, or no text yet. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_logits(const hsc_lab *lab, hsc_view *out, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_clean(const hsc_lab *lab, hsc_site site, int layer, hsc_view *out,
                                                hsc_error *err);

/* One variant's run. Views are valid during the call. */
typedef struct hsc_trial {
    int variant;
    int first_row;              /* rows before it are those of the run as it is, and not here */
    int first_layer;            /* so are the layers before it; -1: the run began with the embedding */
    const float *logits;        /* [n_rows][d_vocab]: the last token's, or those of the tokens from first_row on */
    int n_rows;                 /* 0: none were asked for */
    const hsc_session *session; /* hsc_session_activation(session, site, layer, seq, ...): rows from first_row on */
    int seq;
} hsc_trial;

/* Non-zero stops with HSC_ECANCELED. */
typedef int (*hsc_trial_fn)(void *user, const hsc_trial *trial);

/* Runs every variant of the text and hands each to fn, in an order of the lab's own. HSC_EINVAL: an edit does not fit
 * the model or the text (the message has its number), no text yet. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_lab_run(hsc_lab *lab, const hsc_variant *variants, int n_variants,
                                              hsc_trial_fn fn, void *user, hsc_error *err);

/* ------------------------------------------------------------------------------------------------ two runs ---- */

/*
 * Twins, texts that differ in a word, may differ in its number of tokens. Their positions are then aligned at a seam:
 * those before it are the same in both, those from it on are counted from the end, so that the word's last token has
 * the other word's last and everything behind it its like. The longer text's surplus, positions [seam, seam + surplus),
 * has no counterpart. One seam serves both directions. Texts of one length need none: every position has its own.
 */

/* Positions [to, to + n) of a text have positions [from, from + n) of its twin. */
typedef struct hsc_rows {
    int to, from, n;
} hsc_rows;

/* Finds the seam of x [n_x] and y [n_y]: behind the tokens that both begin with. `word` is the position where the
 * differing word begins, negative where it is not known: when one text has no token of its own behind that start (a
 * word, and the same with an ending), the seam goes one token back into the word, so that last still meets last. Texts
 * of one length always align, with seam 0.
 * HSC_EINVAL: a text is empty; they have fewer tokens at their ends in common than the shorter has of its own, so there
 * is no frame that they share; a whole word has nothing to be aligned with; they differ in more than one place, so that
 * a token which both have in between would not meet itself. The message has both lengths. */
HSC_API HSC_MUST_CHECK hsc_status hsc_align(const hsc_token *x, int n_x, const hsc_token *y, int n_y, int word,
                                            int *seam, hsc_error *err);
/* What positions of a text of n_tokens take from a twin of n_other, by increasing position: one stretch or two, which
 * is returned. Positions in neither have no counterpart. 0 <= seam < n_tokens, n_other; ignored for equal lengths. */
HSC_API int hsc_align_rows(int n_tokens, int n_other, int seam, hsc_rows out[2]);

/* A head by its place; layers and heads from 0. */
typedef struct hsc_head_place {
    int layer, head;
} hsc_head_place;

/* To where a path leads: what some heads read, or the end. */
typedef struct hsc_path_end {
    hsc_site input;                  /* HSC_Q, HSC_K or HSC_V of the receivers (of their kv heads), or HSC_RESID_POST:
                                        the residual stream behind the last layer */
    const hsc_head_place *receivers; /* [n_receivers]; none with HSC_RESID_POST */
    int n_receivers;
} hsc_path_end;

/*
 * Path patching (Wang et al. 2022, "Interpretability in the wild", algorithm 1), sender by sender. In a run of base's
 * text all heads are held at what they are there, but the sender's z is what it is in source's text; feed-forwards and
 * norms are computed anew. What then arrives at the receivers' input is put into a second run of base's text that is
 * free else, and fn gets that run; with HSC_RESID_POST it gets the first one. trial.variant is the sender. A sender
 * that does not stand before every receiver reaches only those behind it; if there is none, the run is as it is.
 * Both labs have a text of as many tokens and keep z of every layer (hsc_lab_keep); base keeps `input` of every
 * receiver's layer as well. Memory: n_senders * n_receivers * n_tokens * d_head floats
 * at most.
 * HSC_EINVAL: texts of different lengths, a head that the model lacks, an input that is none. HSC_ENOTFOUND: a site is
 * not kept. HSC_EUNSUPPORTED: an encoder-decoder. As hsc_lab_run.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_path_patch(hsc_lab *base, const hsc_lab *source, const hsc_head_place *senders,
                                                 int n_senders, const hsc_path_end *end, hsc_trial_fn fn, void *user,
                                                 hsc_error *err);

/*
 * Causal mediation by heads (Pearl 2001; Vig et al. 2020). y is logit[right] - logit[wrong] of the last token; x is the
 * text of `clean`, x' that of `other`; z(x) what the head's z is in the run of x.
 *     total           y(x') - y(x)
 *     indirect[head]  y(x with the head at z(x')) - y(x): what the head alone carries
 *     direct[head]    y(x' with the head at z(x)) - y(x): what is left when the head alone does not follow
 * The parts need not add up to the total: heads act on each other.
 * Both labs have a text, keep z of every layer and compute the last token's logits (their default). Where the texts
 * differ in length, z is exchanged at the positions that hsc_align_rows pairs by `seam`, in both directions; at the
 * longer one's surplus a head keeps what it has in that run. So hsc_mediate with the labs and the two tokens exchanged
 * has clean -y(x') and other -y(x), and of each head total - direct for indirect and the other way round.
 */
typedef struct hsc_mediation {
    double clean, other; /* y(x), y(x') */
    double *indirect;    /* [n_layers * n_heads], the caller's; NULL: not wanted */
    double *direct;      /* [n_layers * n_heads] */
} hsc_mediation;
/* seam: as hsc_align finds it; ignored for texts of one length. HSC_EINVAL: a seam outside a text, or a token outside
 * the vocabulary. HSC_ENOTFOUND: z is not kept. HSC_EUNSUPPORTED: an encoder-decoder. As hsc_lab_run besides. */
HSC_API HSC_MUST_CHECK hsc_status hsc_mediate(hsc_lab *clean, hsc_lab *other, hsc_token right, hsc_token wrong,
                                              int seam, hsc_mediation *out, hsc_error *err);

/* ------------------------------------------------------------------------------------------- what to put there ---- */

/* The mean of a site over texts, for mean ablation: position 0 of every text is left out, since the first token's
 * activations are like no other's. Texts stand end to end: ids [n_tokens], lengths [n_texts]. Of an encoder-decoder
 * each is about a source, end to end too; the positions of an encoder's site are the source's. */
typedef struct hsc_texts {
    const hsc_token *ids;
    const int *lengths;
    int n_texts;
    const hsc_token *sources;
    const int *source_lengths; /* [n_texts] */
} hsc_texts;

/* out: [n_layers][row], row being the numbers of a row of the site. With by_position not 0 all texts have the same
 * length n and out is [n_layers][n][row], position 0 among them. Sums are in float64 in the order of the texts.
 * HSC_EINVAL: a site without rows or that exists once, no position past the first, lengths that differ, an
 * encoder-decoder without sources. As hsc_forward besides. */
HSC_API HSC_MUST_CHECK hsc_status hsc_site_mean(const hsc_model *model, hsc_site site, const hsc_texts *texts,
                                                int by_position, const hsc_lab_options *options, float *out,
                                                hsc_error *err);
/* A direction to steer by: the mean of a site over the texts of `toward` less that over `away` (Turner et al. 2023;
 * Rimsky et al. 2024, mean difference). at_last 0: means over all positions but position 0; else over the last position
 * of each text. out: [n_layers][row]. As hsc_site_mean. */
HSC_API HSC_MUST_CHECK hsc_status hsc_site_difference(const hsc_model *model, hsc_site site, const hsc_texts *toward,
                                                      const hsc_texts *away, int at_last,
                                                      const hsc_lab_options *options, float *out, hsc_error *err);
/* Numbers that a row of a site has in this model; 0 for scores and patterns, and for a site that the model lacks. */
HSC_API int hsc_site_row(const hsc_model *model, hsc_site site);

#ifdef __cplusplus
}
#endif
#endif
