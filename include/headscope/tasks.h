/*
 * headscope/tasks.h: what one does with a model: write on, score, fill gaps, converse, embed.
 *
 * Writing twenty tokens, greedily, and printing them as they come:
 *
 *     hsc_generate_options o = {.max_tokens = 20};
 *     hsc_generator *g = NULL;
 *     hsc_generator_new(&g, session, ids, n_ids, &o, &err);
 *     while (hsc_generator_next(g, &err) == HSC_OK && hsc_generator_sample(g, 0)->n_new) {
 *         const hsc_sample *s = hsc_generator_sample(g, 0);
 *         fwrite(s->fresh, 1, s->n_fresh, stdout);
 *     }
 *     hsc_generator_free(g);
 *
 * The rules of headscope.h hold here too.
 */
#ifndef HEADSCOPE_TASKS_H
#define HEADSCOPE_TASKS_H

#include "headscope.h"
#include "headscope/random.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ choosing the next token ---- */

/*
 * How the next token is chosen from its logits. The steps run in this order, that of transformers' generate(), each on
 * what the one before left; zeros leave a step out.
 *   repetition   > 0  divides positive logits of tokens that are in the text (prompt included) and multiplies negative
 *                     ones (Keskar et al. 2019)
 *   presence          subtracted once from every token that was generated
 *   frequency         subtracted as often as the token was generated
 *   temperature  > 0  divides all logits; 0: the largest logit is taken, and the steps below do nothing
 *   top_k        > 0  the k largest stay, with those that equal the k-th (Fan et al. 2018)
 *   top_p        > 0  the fewest tokens whose probabilities reach top_p stay, at least one (Holtzman et al. 2020);
 *                     1: all
 *   min_p        > 0  tokens with at least min_p of the largest probability stay (Nguyen et al. 2024)
 *   typical_p    > 0  tokens nearest to the expected information stay until they reach typical_p (Meister et al.
 *                     2023); 1: all
 */
typedef struct hsc_sampling {
    float repetition, presence, frequency;
    float temperature;
    int top_k;
    float top_p, min_p, typical_p;
} hsc_sampling;

/* HSC_EINVAL: a number is outside its limits or not finite; the message names it. Presence and frequency may be
 * negative: what was written then comes more easily. */
HSC_API HSC_MUST_CHECK hsc_status hsc_sampling_check(const hsc_sampling *sampling, hsc_error *err);

/* Applies the steps to logits [n_vocab] in place; what is ruled out becomes -inf. ids [n_ids] is the text so far, of
 * which the first n_prompt were given and not generated. HSC_EINVAL: as hsc_sampling_check, or a logit is NaN.
 * HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_filter_logits(const hsc_sampling *sampling, const hsc_token *ids, size_t n_ids,
                                                    size_t n_prompt, float *logits, int n_vocab, hsc_error *err);

/* Draws from softmax(logits): 53 random bits give u in [0, 1), and the token is the first, in the order of ids, at
 * which the sum of the probabilities (in double) exceeds u. With random NULL: the largest logit, the lowest id of
 * equals. HSC_EINVAL: a logit is NaN or +inf, or all are -inf. */
HSC_API HSC_MUST_CHECK hsc_status hsc_sample_token(const float *logits, int n_vocab, hsc_random *random, hsc_token *out,
                                                   hsc_error *err);

/* log(softmax(logits)[token]), in nats; sums in double. */
HSC_API double hsc_log_prob(const float *logits, int n_vocab, hsc_token token);

/* The tokens that end a text of this model, from generation_config.json or config.json, or from GGUF's metadata.
 * Returns how many there are and writes at most `capacity`. Negative: an hsc_status, when a field is damaged. */
HSC_API int hsc_model_end_tokens(const hsc_model *model, hsc_token *out, int capacity, hsc_error *err);

/* When a beam search ends, besides at its last place. */
typedef enum {
    HSC_STOP_HOPELESS, /* when no running text could beat the finished ones if it ended as it is */
    HSC_STOP_ENOUGH,   /* or as soon as n_beams texts are finished (early_stopping true) */
    HSC_STOP_NEVER     /* when none could if it kept its score up to the last place (early_stopping "never") */
} hsc_beam_stop;

/* How the text that an encoder-decoder writes begins, and what its files say about writing it. Numbers of tokens are of
 * what is written: forced_bos_token_id counts, decoder_start_token_id does not. 0: the files say nothing. */
enum { HSC_TARGET_BARRED = 16 };
typedef struct hsc_target {
    hsc_token start[2]; /* [n_start] decoder_start_token_id, then forced_bos_token_id where the files name one */
    int n_start;
    hsc_token last;                      /* forced_eos_token_id, what the last token of the most allowed is; -1: none */
    hsc_token barred[HSC_TARGET_BARRED]; /* [n_barred] bad_words_ids of one token */
    int n_barred;
    int min_tokens;       /* no end before so many: min_length, min_new_tokens */
    int max_tokens;       /* max_length, or max_new_tokens, which goes before */
    int no_repeat;        /* no_repeat_ngram_size */
    float repetition;     /* repetition_penalty */
    int n_beams;          /* num_beams; 1: greedy */
    float length_penalty; /* 1 where the files say nothing */
    hsc_beam_stop stop;   /* early_stopping */
    int renormalise;      /* renormalize_logits */
    const char *left_out; /* a field that would change the text and is not followed here; NULL: none. Static storage. */
} hsc_target;

/* From generation_config.json, else from config.json and what the family takes for granted, or from GGUF's metadata.
 * HSC_EINVAL: the model has no encoder. HSC_EFORMAT: a field is damaged, or nothing says how a text begins. HSC_EIO,
 * HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_target(const hsc_model *model, hsc_target *out, hsc_error *err);

/* A rule in a decoder's generation_config.json, repetition_penalty for one, by which transformers' generate would write
 * another text than is written here, where options alone decide: *field is its name, NULL where there is none and for
 * GGUF files and models with an encoder. Static storage. Fields of sampling (do_sample, temperature) are no rules.
 * HSC_EFORMAT: the file is damaged. HSC_EIO, HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_unfollowed(const hsc_model *model, const char **field, hsc_error *err);

/* --------------------------------------------------------------------------------------------------- writing ---- */

/* Why a sample has ended. One list makes the enum and the names. */
#define HSC_FINISH_LIST(X)                                                                                             \
    X(HSC_FINISH_NONE, "running")                                                                                      \
    X(HSC_FINISH_END, "end")         /* the model wrote a token that ends a text */                                    \
    X(HSC_FINISH_STOP, "stop")       /* a stop string appeared */                                                      \
    X(HSC_FINISH_LENGTH, "length")   /* max_tokens were written */                                                     \
    X(HSC_FINISH_CONTEXT, "context") /* the session or the model's context is full */                                  \
    X(HSC_FINISH_CALLER, "interrupted")

typedef enum {
#define HSC_FINISH_ENUM(id, name) id,
    HSC_FINISH_LIST(HSC_FINISH_ENUM)
#undef HSC_FINISH_ENUM
        HSC_N_FINISHES
} hsc_finish;

/* "length", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_finish_name(hsc_finish finish);

typedef struct hsc_generate_options {
    hsc_sampling sampling;
    uint64_t seed;  /* sample i draws from a generator seeded with seed + i, so it is what that seed gives alone */
    int max_tokens; /* of each sample; 0: until the context is full */
    int n_samples;  /* of one prompt; 0: 1. They share the prompt's cache; the session needs as many sequences. */
    const hsc_token *end_tokens; /* [n_end_tokens], not part of the text */
    int n_end_tokens;
    const char *const *stops; /* [n_stops] strings that end the text and are not part of it; none is empty */
    int n_stops;
    int show_special; /* non-zero: special tokens that do not end the text are spelled out in it */
    /* Non-zero: when the context is full, the first `keep` tokens and the newest half of the rest stay and are read
     * anew, with positions from 0; so a text can go on for ever. */
    int slide, keep;
    int n_cached; /* so many of the prompt's first tokens are in the session's sequence 0 already */
    /* [n_records] are recorded in the passes that make a token, and not while the rest of the prompt is read: after
     * hsc_generator_next they hold the rows from which the newest tokens came. */
    const hsc_record *records;
    int n_records;
    const hsc_token *barred; /* [n_barred] tokens that are never written */
    int n_barred;
    const hsc_token *last; /* what the token number max_tokens is, whatever the model would write; NULL: its own */
    int min_tokens;        /* no end token before so many are written */
    int no_repeat;         /* no so many tokens in a row that stand in the text already, prompt included; 0: off */
} hsc_generate_options;

/* One text in the making. Borrowed, valid until the next call with the generator. */
typedef struct hsc_sample {
    const hsc_token *ids; /* [n], the prompt's not among them; a token that ended the text is the last */
    int n;
    const char *text; /* [n_text] bytes, whole characters; it may lag behind ids while a character or a stop string may
                       * yet become whole */
    size_t n_text;
    const char *fresh; /* [n_fresh], what the last step added to text */
    size_t n_fresh;
    int n_new; /* tokens that the last step added: 1, or 0 once it has finished */
    hsc_finish finish;
    double log_prob; /* sum of the log-probabilities of ids among all logits, before any filter, in nats */
    int seq;         /* the session's sequence in the pass that made the newest token */
} hsc_sample;

typedef struct hsc_generator hsc_generator;

/* Nothing is run yet. An encoder-decoder writes about the source that was read (hsc_session_read_source), and the
 * prompt is how its text begins (hsc_model_target). The session and its model must outlive the generator and are its
 * own until it is freed; prompt and options are copied. A model without a tokenizer generates ids and no text.
 * HSC_EINVAL: an option is out of range, the prompt is empty or longer than the context, the session has too few
 * sequences, the model is not causal. */
HSC_API HSC_MUST_CHECK hsc_status hsc_generator_new(hsc_generator **out, hsc_session *session, const hsc_token *prompt,
                                                    int n_prompt, const hsc_generate_options *options, hsc_error *err);
HSC_API void hsc_generator_free(hsc_generator *generator);

/* One more token for every sample that still runs; the first call reads the prompt. Does nothing when none runs.
 * As for hsc_forward besides; HSC_EINVAL when the logits are not numbers. */
HSC_API HSC_MUST_CHECK hsc_status hsc_generator_next(hsc_generator *generator, hsc_error *err);
/* How many samples still run. */
HSC_API int hsc_generator_running(const hsc_generator *generator);
/* NULL: no such sample. */
HSC_API const hsc_sample *hsc_generator_sample(const hsc_generator *generator, int index);
/* Ends all samples with HSC_FINISH_CALLER; what was held back of their texts is let go. */
HSC_API void hsc_generator_stop(hsc_generator *generator);
/* Where in the whole text (prompt and sample) the session's position `key` stands, which differs once the window slid.
 */
HSC_API int hsc_generator_position(const hsc_generator *generator, int key);

typedef struct hsc_beam_options {
    hsc_sampling sampling; /* repetition, presence and frequency count; the others must be 0 */
    int n_beams;           /* 2 to 64; the session needs twice as many sequences */
    int max_tokens;        /* 0: until the context is full */
    float length_penalty;  /* a beam's score is its log-probability / length^length_penalty */
    hsc_beam_stop stop;
    const hsc_token *end_tokens;
    int n_end_tokens; /* at most 16 */
    /* Called after each step; non-zero ends the search with what it has. May be NULL. */
    int (*tell)(void *user, int n_steps);
    void *user;
    const hsc_token *barred; /* [n_barred] tokens that are never written */
    int n_barred;
    const hsc_token *last;     /* what the token number max_tokens is; NULL: the model's own */
    int n_written;             /* tokens at the end of the prompt that count as written in max_tokens and the length */
    int min_tokens, no_repeat; /* as in hsc_generate_options; n_written tokens count */
    int renormalise;           /* non-zero: probabilities add up to 1 again after penalties and rules */
} hsc_beam_options;

typedef struct hsc_beam {
    hsc_token *ids; /* [n] */
    int n;
    float score;
    hsc_finish finish;
} hsc_beam;

/* Beam search as transformers' generate(num_beams=n) does it. out[n_beams], best first; *n_out may be less than n_beams
 * when it was ended early. Free with hsc_beams_free. HSC_EINVAL, HSC_ENOMEM; as for hsc_forward besides. */
HSC_API HSC_MUST_CHECK hsc_status hsc_beam_search(hsc_session *session, const hsc_token *prompt, int n_prompt,
                                                  const hsc_beam_options *options, hsc_beam *out, int *n_out,
                                                  hsc_error *err);
HSC_API void hsc_beams_free(hsc_beam *beams, int n);

/* ------------------------------------------------------------------------------------------------------ scoring ----
 */

typedef struct hsc_score_options {
    int window; /* tokens that a pass sees; 0: what the session and the model's context allow */
    int stride; /* tokens from one pass to the next, fewer than window; 0: half of it. Every token is scored once, with
                 * at least window - stride tokens before it where the text has them. */
    /* Called as passes end; non-zero stops with HSC_ECANCELED. May be NULL. */
    int (*tell)(void *user, int n_scored, int n);
    void *user;
} hsc_score_options;

/* log p(ids[i] | the tokens before it in its window), in nats, into log_probs [n]; log_probs[0] is 0, for nothing
 * stands before the first token. exp(-mean of the others) is the perplexity. The session's sequence 0 is used up. Of an
 * encoder-decoder ids are a target about the source that sequence 0 reads, its first token the one that begins a text.
 * HSC_EINVAL: n is below 1, an option is out of range, the model is not causal; as for hsc_forward besides, also of the
 * last id, which is not read. */
HSC_API HSC_MUST_CHECK hsc_status hsc_score(hsc_session *session, const hsc_token *ids, int n,
                                            const hsc_score_options *options, double *log_probs, hsc_error *err);

/* How one text goes on after its first `first` tokens. */
typedef struct hsc_continuation {
    const hsc_token *ids; /* [n], what comes before included */
    int n, first;         /* 1 <= first < n */
    double log_prob;      /* out: the sum of log p of ids[first] to ids[n - 1], in nats */
} hsc_continuation;

/* Scores continuations, several at once where the session has sequences for it; what all begin with is read once. Of an
 * encoder-decoder they are targets about the source that sequence 0 reads.
 * HSC_EINVAL: as above, or a text is longer than the context. */
HSC_API HSC_MUST_CHECK hsc_status hsc_score_continuations(hsc_session *session, hsc_continuation *list, int n_list,
                                                          hsc_error *err);

/* ------------------------------------------------------------------------------------------------ masked words ---- */

/* The token that stands for a word to be guessed: mask_token in tokenizer_config.json or special_tokens_map.json, or
 * tokenizer.ggml.mask_token_id of a GGUF file, else the token spelled [MASK] or <mask>. Encode text that holds it with
 * HSC_ENCODE_PARSE_SPECIAL. HSC_ENOTFOUND: the model has no tokenizer, or that none such. HSC_EFORMAT, HSC_EIO,
 * HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_mask_token(const hsc_model *model, hsc_token *out, hsc_error *err);

typedef struct hsc_guess {
    hsc_token id;
    float logit;
    double probability; /* softmax over the whole vocabulary */
} hsc_guess;

/* What would stand at n_positions places of a text of n tokens: for each the k likeliest tokens into
 * out [n_positions][k], likeliest first, the lower id first of equals. A place is guessed from the whole text with what
 * stands there now, which is the mask token where nothing should be told (Devlin et al. 2018); all places are guessed
 * in one pass, none knowing of the others. The logits are the bits of the site logits. The session's sequences are used
 * up; observers are cleared. `segments` [n] is as in hsc_batch, NULL for one text. HSC_EINVAL: the model is causal or
 * has no masked-word head, a position is outside the text, k is below 1 or past the vocabulary, a logit is not finite;
 * as for hsc_forward besides. */
HSC_API HSC_MUST_CHECK hsc_status hsc_fill(hsc_session *session, const hsc_token *ids, const int32_t *segments, int n,
                                           const int *positions, int n_positions, int k, hsc_guess *out,
                                           hsc_error *err);

/* ------------------------------------------------------------------------------------------------ conversation ---- */

/* One turn. role: "system", "user", "assistant". Both are UTF-8, terminated. */
typedef struct hsc_message {
    const char *role, *content;
} hsc_message;

/* The template with which a model was taught to converse: a program in the Jinja language. */
typedef struct hsc_chat_template hsc_chat_template;

/* The template that the model carries: chat_template.jinja or tokenizer_config.json of a folder,
 * tokenizer.chat_template of a GGUF file. HSC_ENOTFOUND: it carries none. HSC_EFORMAT, HSC_EUNSUPPORTED, HSC_ENOMEM: as
 * for hsc_model_open. */
HSC_API HSC_MUST_CHECK hsc_status hsc_chat_template_open(hsc_chat_template **out, const hsc_model *model,
                                                         hsc_error *err);
/* A template from its n bytes, which are copied. bos_token and eos_token may be NULL: not defined. */
HSC_API HSC_MUST_CHECK hsc_status hsc_chat_template_new(hsc_chat_template **out, const char *text, size_t n,
                                                        const char *bos_token, const char *eos_token, hsc_error *err);
HSC_API void hsc_chat_template_free(hsc_chat_template *chat_template);
/* Its source, terminated; lives as long as the template. */
HSC_API const char *hsc_chat_template_text(const hsc_chat_template *chat_template);

/* The text of a conversation as apply_chat_template of transformers renders it; encode it with HSC_ENCODE_PARSE_SPECIAL
 * alone. add_reply non-zero: ended so that the assistant's reply follows. Returns the bytes needed and writes at most
 * `capacity` of them. Negative: an hsc_status; HSC_EINVAL: the template itself refuses the conversation (the message
 * says why), HSC_EUNSUPPORTED: it uses a part of Jinja that is not here (named, with its line). */
HSC_API int64_t hsc_chat_render(const hsc_chat_template *chat_template, const hsc_message *messages, size_t n_messages,
                                int add_reply, char *out, size_t capacity, hsc_error *err);

/* --------------------------------------------------------------------------------------------------- embedding ---- */

/* What of a text's last hidden states [n_pos][d_model], after the final norm, is its embedding. Of an encoder-decoder
 * they are the encoder's. */
#define HSC_POOLING_LIST(X)                                                                                            \
    X(HSC_POOL_MEAN, "mean") /* of all tokens, special ones too */                                                     \
    X(HSC_POOL_CLS, "cls")   /* the first token's */                                                                   \
    X(HSC_POOL_LAST, "last") /* the last token's */

typedef enum {
#define HSC_POOLING_ENUM(id, name) id,
    HSC_POOLING_LIST(HSC_POOLING_ENUM)
#undef HSC_POOLING_ENUM
        HSC_N_POOLINGS
} hsc_pooling;

/* "mean", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_pooling_name(hsc_pooling pooling);

/* What a linear layer behind the pooling (sentence-transformers' Dense) puts its sums through: X(id, name), the names
 * those of torch.nn's classes. GELU is the exact one. */
#define HSC_DENSE_ACT_LIST(X)                                                                                          \
    X(HSC_DENSE_IDENTITY, "Identity")                                                                                  \
    X(HSC_DENSE_TANH, "Tanh")                                                                                          \
    X(HSC_DENSE_RELU, "ReLU") X(HSC_DENSE_GELU, "GELU") X(HSC_DENSE_SIGMOID, "Sigmoid") X(HSC_DENSE_SILU, "SiLU")

typedef enum {
#define HSC_DENSE_ACT_ENUM(id, name) id,
    HSC_DENSE_ACT_LIST(HSC_DENSE_ACT_ENUM)
#undef HSC_DENSE_ACT_ENUM
        HSC_N_DENSE_ACTS
} hsc_dense_act;

/* y = act(W x + b), in float64. */
typedef struct hsc_dense {
    int n_in, n_out;
    hsc_dense_act act;
    const float *weight; /* [n_out][n_in] */
    const float *bias;   /* [n_out], or NULL */
} hsc_dense;

typedef struct hsc_embedding {
    hsc_pooling pooling;
    int normalise;           /* non-zero: divided by its length, x / max(|x|, 1e-12) */
    int max_tokens;          /* longer texts are cut there; 0: at the context */
    int known;               /* out of hsc_model_embedding: non-zero when the model's files say so */
    const int32_t *segments; /* of hsc_embed's ids, as in hsc_batch: of pairs of texts; NULL: all 0 */
    const hsc_dense *dense;  /* [n_dense] layers that the pooled vector goes through, before it is normalised */
    int n_dense;
} hsc_embedding;

/* How the model's files say that its embeddings are made: modules.json of sentence-transformers with the folders that
 * it names (pooling, Dense, Normalize) and sentence_bert_config.json, or pooling_type of a GGUF file. Where they do not
 * say: the last token of a causal model, the mean of another (an encoder-decoder's texts go through its encoder), not
 * normalised. HSC_EUNSUPPORTED: a pooling, module or activation that is not here, by name, or what would be done to
 * texts first (small letters, a prompt). HSC_EFORMAT, HSC_EIO, HSC_ENOMEM. Free with hsc_embedding_free; after a
 * failure there is nothing to free, and `out` says what is taken where files are silent. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_embedding(const hsc_model *model, hsc_embedding *out, hsc_error *err);
/* Frees the layers that hsc_model_embedding read, and leaves none. */
HSC_API void hsc_embedding_free(hsc_embedding *embedding);
/* Numbers in a vector: the last layer's n_out, or d_model (of an encoder-decoder the encoder's) without one. */
HSC_API int hsc_embedding_width(const hsc_model *model, const hsc_embedding *embedding);

/* Embeds n_seqs texts, ids end to end as in hsc_batch, into out [n_seqs][hsc_embedding_width]. Runs as many at once as
 * the session has sequences; none is padded, so a text's embedding is the same bits in any batch. The session's
 * sequences are used up; observers are cleared. HSC_EINVAL: a text is empty or longer than the context, or a layer does
 * not take what comes before it; as for hsc_forward besides. */
HSC_API HSC_MUST_CHECK hsc_status hsc_embed(hsc_session *session, const hsc_token *ids, const int *seq_lengths,
                                            int n_seqs, const hsc_embedding *how, float *out, hsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
