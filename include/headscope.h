/*
 * headscope: run a transformer and see what every attention head looks at.
 *
 * Three objects, by lifetime:
 *   hsc_model     weights (mapped from the file, never copied), configuration and tokenizer. Read-only after
 *                 hsc_model_open, so any number of threads may share one.
 *   hsc_session   key/value cache, scratch memory, records and observers. One per thread.
 *   hsc_tokenizer text <-> token ids. Read-only after open, may be shared.
 *
 * A complete program:
 *
 *     hsc_error err = {0};
 *     hsc_model *model = NULL;  hsc_session *s = NULL;  hsc_encoding text = {0};
 *     if (hsc_model_open(&model, "SmolLM2.gguf", NULL, &err)) { puts(err.message); return 1; }
 *     hsc_encode(hsc_model_tokenizer(model, &err), "The animal is tired", 19, 0, &text, &err);
 *     hsc_session_new(&s, model, NULL, &err);
 *     hsc_session_record(s, &(hsc_record){.site = HSC_PATTERN, .layer = 4, .head = -1, .query = -1}, &err);
 *     hsc_forward(s, &(hsc_batch){.ids = text.ids, .n_tokens = (int)text.n}, &err);
 *     hsc_view p;
 *     hsc_session_activation(s, HSC_PATTERN, 4, 0, &p, &err);    // p.data is [n_heads][n_query][n_key]
 *     hsc_encoding_free(&text);  hsc_session_free(s);  hsc_model_close(model);
 *
 * Rules that hold for every function:
 *   - It returns hsc_status and never exits, aborts, prints or reads the locale. The details of a failure go into the
 *     caller's hsc_error, which may be NULL.
 *   - Arrays are float32 and row-major; shapes are written [outer][inner]. Token, layer and head numbers count from 0.
 *   - Option structs: NULL or all zero means the defaults. Free functions accept NULL.
 *   - What is not in this header, or in headscope/analysis.h, inspect.h, intervene.h, nn.h, random.h and tasks.h, is
 *     not part of the interface.
 */
#ifndef HEADSCOPE_H
#define HEADSCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HSC_API __attribute__((visibility("default")))
#define HSC_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HSC_API
#define HSC_MUST_CHECK
#endif

#define HSC_VERSION_MAJOR 0
#define HSC_VERSION_MINOR 1
#define HSC_VERSION_PATCH 0

/* The version as text, "0.1.0". Static storage. */
HSC_API const char *hsc_version(void);

/* ---------------------------------------------------------------------------------------------------- errors ---- */

/* One list makes the enum and the names. */
#define HSC_STATUS_LIST(X)                                                                                             \
    X(HSC_OK, 0, "ok")                                                                                                 \
    X(HSC_ENOMEM, -1, "out of memory")                                                                                 \
    X(HSC_EIO, -2, "the system refused to open, read or write a file")                                                 \
    X(HSC_EFORMAT, -3, "a file is damaged or not what it says it is")                                                  \
    X(HSC_EUNSUPPORTED, -4, "a file is sound but asks for what headscope does not have")                               \
    X(HSC_EINVAL, -5, "an argument is out of range or does not fit the model")                                         \
    X(HSC_ECANCELED, -6, "stopped by the caller")                                                                      \
    X(HSC_ENOTFOUND, -7, "no such file, tensor, token or name")

typedef enum {
#define HSC_STATUS_ENUM(name, value, text) name = value,
    HSC_STATUS_LIST(HSC_STATUS_ENUM)
#undef HSC_STATUS_ENUM
} hsc_status;

/* Caller-owned. `offset` is the byte in the file that is at fault, or 0. `message` is one line of UTF-8 without a
 * newline that names the file, the field and the limit. */
typedef struct hsc_error {
    hsc_status code;
    uint64_t offset;
    char message[1024];
} hsc_error;

/* The text of a status from HSC_STATUS_LIST, or "unknown status". Static storage. */
HSC_API const char *hsc_status_text(hsc_status status);

/* ---------------------------------------------------------------------------------------------------- memory ---- */

/* A host may replace the allocator of the whole library. Call it before any other function, never later.
 * `alloc(user, n)` returns n bytes aligned for any type or NULL; `realloc` and `free` as in C, `ptr` may be NULL. */
typedef struct hsc_allocator {
    void *(*alloc)(void *user, size_t n_bytes);
    void *(*realloc)(void *user, void *ptr, size_t n_bytes);
    void (*free)(void *user, void *ptr);
    void *user;
} hsc_allocator;

/* NULL puts malloc, realloc and free back. The struct is copied. */
HSC_API void hsc_set_allocator(const hsc_allocator *allocator);

/* ------------------------------------------------------------------------------------------------- tokenizer ---- */

typedef int32_t hsc_token;
typedef struct hsc_tokenizer hsc_tokenizer;

/* The bytes [start, end) of the input text that a token came from. A token that was added (BOS) has start == end. */
typedef struct hsc_span {
    size_t start, end;
} hsc_span;

/* A growing list of tokens. Zero it before its first use; hsc_encode reuses its memory. */
typedef struct hsc_encoding {
    hsc_token *ids;  /* [n] */
    hsc_span *spans; /* [n] in the token's own text */
    size_t n;
    size_t capacity;
    int32_t *words; /* [n] the word that a token is a piece of, counted from 0 in its text as the pre-tokenizer cuts it;
                       -1 for a token that was added */
    int32_t
        *segments; /* [n] what encoders embed beside a token (token_type_ids): mostly 0, and 1 for the second text */
    signed char *texts; /* [n] 0, or 1 for the second text of a pair; -1 for a token that was added */
} hsc_encoding;

typedef enum {
    HSC_ENCODE_DEFAULT = 0,       /* no special tokens added; their text is plain text */
    HSC_ENCODE_ADD_SPECIAL = 1,   /* add what the tokenizer's post-processor adds (BOS, EOS, ...) */
    HSC_ENCODE_PARSE_SPECIAL = 2, /* "<|endoftext|>" in the text becomes that token */
} hsc_encode_flags;

/* Opens the tokenizer of a Hugging Face folder (tokenizer.json, else a SentencePiece model, vocab.json + merges.txt or
 * vocab.txt; of a Marian folder that of its source language), of a tokenizer.json, of a SentencePiece model (.model,
 * .spm), or of a GGUF file. HSC_ENOTFOUND: the folder has no tokenizer. HSC_EUNSUPPORTED: a component is not known
 * (named in the message). HSC_EFORMAT, HSC_EIO, HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_tokenizer_open(hsc_tokenizer **out, const char *path, hsc_error *err);
HSC_API void hsc_tokenizer_free(hsc_tokenizer *tokenizer);

/* Number of ids: every id is below it, added tokens included. */
HSC_API size_t hsc_tokenizer_size(const hsc_tokenizer *tokenizer);

/* What it is made of, in a line of words for people: "byte-level BPE"; "NFC, lower case" (empty: text stays as it is);
 * "digits, GPT-2's words" (empty: text is not cut); and what is put around one text A or two, A and B: "<s> A </s>". */
typedef enum {
    HSC_TOKENIZER_MODEL,
    HSC_TOKENIZER_NORMALIZER,
    HSC_TOKENIZER_PRE_TOKENIZER,
    HSC_TOKENIZER_SINGLE,
    HSC_TOKENIZER_PAIR,
} hsc_tokenizer_part;
/* Returns the bytes needed and writes at most `capacity` of them (call with 0 to size), not terminated. Negative: an
 * hsc_status (HSC_EINVAL: no such part; HSC_ENOMEM). */
HSC_API int64_t hsc_tokenizer_describe(const hsc_tokenizer *tokenizer, hsc_tokenizer_part part, char *out,
                                       size_t capacity);

/* Text -> tokens. `text` is n_bytes bytes of anything: NUL bytes and invalid UTF-8 are encoded as they are by
 * byte-level BPE. `flags` is an OR of hsc_encode_flags. HSC_ENOMEM; HSC_EINVAL when the vocabulary cannot spell the
 * text. */
HSC_API HSC_MUST_CHECK hsc_status hsc_encode(const hsc_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                             unsigned flags, hsc_encoding *out, hsc_error *err);
/* Two texts as one sequence (question and passage, premise and claim), as the tokenizer's post-processor joins them:
 * "[CLS] first [SEP] second [SEP]". Without HSC_ENCODE_ADD_SPECIAL the texts stand side by side. As hsc_encode. */
HSC_API HSC_MUST_CHECK hsc_status hsc_encode_pair(const hsc_tokenizer *tokenizer, const char *first, size_t n_first,
                                                  const char *second, size_t n_second, unsigned flags,
                                                  hsc_encoding *out, hsc_error *err);
HSC_API void hsc_encoding_free(hsc_encoding *encoding);

/* The bytes that one token stands for, not terminated, perhaps not whole UTF-8. NULL when the id is not in the
 * vocabulary. Borrowed; lives as long as the tokenizer. */
HSC_API const char *hsc_token_bytes(const hsc_tokenizer *tokenizer, hsc_token id, size_t *n_bytes);

/* Non-zero for a special (control) token such as <|endoftext|>. */
HSC_API int hsc_token_is_special(const hsc_tokenizer *tokenizer, hsc_token id);

/* The token that begins a text: the BOS that the files name (whether or not it is added to every text), else what the
 * post-processor puts first ([CLS]); -1: none. */
HSC_API hsc_token hsc_tokenizer_bos(const hsc_tokenizer *tokenizer);

/* The id of the token with exactly this content (added tokens first), or -1. */
HSC_API hsc_token hsc_token_find(const hsc_tokenizer *tokenizer, const char *bytes, size_t n_bytes);

/* Tokens -> bytes. Returns the bytes needed and writes at most `capacity` of them (call with 0 to size). Negative: an
 * hsc_status (HSC_EINVAL: an id is not in the vocabulary). For byte-level BPE decode(encode(x)) == x, always. */
HSC_API int64_t hsc_decode(const hsc_tokenizer *tokenizer, const hsc_token *ids, size_t n, char *out, size_t capacity);

/* Streaming decode, one token at a time, that never splits a character: what cannot be shown yet is held back, bytes
 * that can never become a character leave at once as U+FFFD. Zero the struct before its first use. */
typedef struct hsc_stream {
    unsigned char held[4];
    unsigned n_held;
    unsigned n_tokens;
} hsc_stream;

/* Feeds one token; writes whole UTF-8 into out and returns its length, or a negative hsc_status: HSC_EINVAL when
 * `capacity` is under hsc_stream_bound bytes or the id is unknown. */
HSC_API int64_t hsc_stream_next(const hsc_tokenizer *tokenizer, hsc_stream *stream, hsc_token id, char *out,
                                size_t capacity);
/* Ends the stream: writes U+FFFD if an unfinished character is held. `capacity` must be at least 3. Returns bytes. */
HSC_API int64_t hsc_stream_end(hsc_stream *stream, char *out, size_t capacity);
/* Bytes that one hsc_stream_next may write for any token of this tokenizer. */
HSC_API size_t hsc_stream_bound(const hsc_tokenizer *tokenizer);

/* ----------------------------------------------------------------------------------------------------- model ---- */

typedef struct hsc_model hsc_model;

/* One list makes the enum, the names and the block sizes: values a block, bytes a block. */
#define HSC_DTYPE_LIST(X)                                                                                              \
    X(HSC_F32, "F32", 1, 4)                                                                                            \
    X(HSC_F16, "F16", 1, 2)                                                                                            \
    X(HSC_BF16, "BF16", 1, 2)                                                                                          \
    X(HSC_F64, "F64", 1, 8)                                                                                            \
    X(HSC_I8, "I8", 1, 1)                                                                                              \
    X(HSC_I16, "I16", 1, 2)                                                                                            \
    X(HSC_I32, "I32", 1, 4)                                                                                            \
    X(HSC_I64, "I64", 1, 8)                                                                                            \
    X(HSC_U8, "U8", 1, 1)                                                                                              \
    X(HSC_U16, "U16", 1, 2)                                                                                            \
    X(HSC_U32, "U32", 1, 4)                                                                                            \
    X(HSC_U64, "U64", 1, 8)                                                                                            \
    X(HSC_BOOL, "BOOL", 1, 1)                                                                                          \
    X(HSC_F8_E4M3, "F8_E4M3", 1, 1)                                                                                    \
    X(HSC_F8_E5M2, "F8_E5M2", 1, 1)                                                                                    \
    X(HSC_C64, "C64", 1, 8)                                                                                            \
    X(HSC_Q4_0, "Q4_0", 32, 18)                                                                                        \
    X(HSC_Q4_1, "Q4_1", 32, 20)                                                                                        \
    X(HSC_Q5_0, "Q5_0", 32, 22)                                                                                        \
    X(HSC_Q5_1, "Q5_1", 32, 24)                                                                                        \
    X(HSC_Q8_0, "Q8_0", 32, 34)                                                                                        \
    X(HSC_Q2_K, "Q2_K", 256, 84)                                                                                       \
    X(HSC_Q3_K, "Q3_K", 256, 110)                                                                                      \
    X(HSC_Q4_K, "Q4_K", 256, 144)                                                                                      \
    X(HSC_Q5_K, "Q5_K", 256, 176)                                                                                      \
    X(HSC_Q6_K, "Q6_K", 256, 210)                                                                                      \
    X(HSC_IQ4_NL, "IQ4_NL", 32, 18)                                                                                    \
    X(HSC_IQ4_XS, "IQ4_XS", 256, 136)                                                                                  \
    X(HSC_OTHER, "other", 1, 0)

typedef enum {
#define HSC_DTYPE_ENUM(id, name, block, bytes) id,
    HSC_DTYPE_LIST(HSC_DTYPE_ENUM)
#undef HSC_DTYPE_ENUM
        HSC_N_DTYPES
} hsc_dtype;

/* The name from HSC_DTYPE_LIST. Static storage. */
HSC_API const char *hsc_dtype_name(hsc_dtype dtype);

/* What a model is made of. `arch` is Hugging Face's model_type or GGUF's general.architecture ("gpt2", "llama"). */
typedef struct hsc_config {
    const char *arch; /* borrowed, lives as long as the model */
    const char *name; /* folder or file name without its ending, or general.name; borrowed */
    int n_layers, n_heads, n_kv_heads;
    int n_ctx; /* the longest sequence in tokens */
    int d_model, d_head, d_mlp, d_vocab;
    int causal;        /* non-zero: a token sees itself and earlier ones only */
    int tied;          /* non-zero: the output matrix is the token embedding */
    int has_pos_embed; /* non-zero: positions are added to the embedding (the site pos_embed exists) */
    int is_rotary;     /* non-zero: queries and keys are rotated (the sites rot_q and rot_k exist) */
    int is_gated;      /* non-zero: the feed-forward has a gate (the site mlp_up exists) */
    int n_segments;    /* segments that tokens may belong to (the site token_type_embed exists); 0: none */
    int is_sinusoidal; /* non-zero: the positions that are added were not learned (Marian) */
    int is_relative;   /* non-zero: scores are biased by the distance of query and key (T5, BLOOM) */
} hsc_config;

/* A tensor of a file has at most this many dimensions; one with more is refused. */
enum { HSC_MAX_DIMS = 8 };

typedef struct hsc_tensor_info {
    const char *name; /* borrowed, lives as long as the model */
    hsc_dtype dtype;
    const char *dtype_name; /* as the file spells it, also for types that headscope cannot compute with */
    int n_dims;
    int64_t shape[HSC_MAX_DIMS]; /* outermost first */
    uint64_t n_bytes;
    const void *data; /* the bytes as they are in the file, mapped; lives as long as the model */
} hsc_tensor_info;

/* Weights are used where they are mapped. Converting them once costs time and memory of the process's own, and may pay:
 * HSC_BF16 or HSC_F32 from a quantised file, HSC_Q8_0 from a wide one. The bill is hsc_model_recast's. */
typedef struct hsc_model_options {
    int recast;      /* non-zero: matrices that multiply become `dtype`; vectors and embeddings stay as they are */
    hsc_dtype dtype; /* HSC_F32, HSC_F16, HSC_BF16 or HSC_Q8_0 */
    int n_threads;   /* that convert; 0: what affinity and the control group allow. Never changes a result. */
    int shuffle;     /* non-zero: a model that has learnt nothing, of the same shapes and values: each matrix that
                        multiplies becomes HSC_F32 with its values in a random order; recast is ignored */
    uint64_t shuffle_seed;
} hsc_model_options;

/* Opens a Hugging Face folder (config.json and safetensors, one file or shards) or a GGUF file, maps its weights
 * read-only and checks every field before it is used. Weights are read from the mapping for as long as the model is
 * open: replace a file by renaming another over it, never write into it or cut it, or the process gets SIGBUS.
 * HSC_ENOTFOUND: no such path. HSC_EIO. HSC_EFORMAT: damaged. HSC_EUNSUPPORTED: an architecture, tensor type or config
 * value that headscope does not have, named in the message. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_open(hsc_model **out, const char *path, const hsc_model_options *options,
                                                 hsc_error *err);
HSC_API void hsc_model_close(hsc_model *model);

/* What converting the weights took. All zeros: nothing was converted. */
typedef struct hsc_recast {
    size_t n_matrices;
    size_t n_kept;       /* matrices left as they are, because their rows are no whole blocks of the type */
    uint64_t file_bytes; /* of the converted matrices in the file; they are not read any more */
    uint64_t n_bytes;    /* of the same in memory */
    double seconds;
} hsc_recast;
HSC_API hsc_recast hsc_model_recast(const hsc_model *model);

/* Borrowed; lives as long as the model. Of an encoder-decoder it is the decoder's. */
HSC_API const hsc_config *hsc_model_config(const hsc_model *model);
/* The encoder of an encoder-decoder, whose sizes may differ; NULL: the model has one stack of blocks. Borrowed. */
HSC_API const hsc_config *hsc_model_encoder(const hsc_model *model);

/* The model's tokenizer, made on first use (threads may call this at once), or NULL when it has none (such a model runs
 * on ids); `err` then says why. Borrowed; lives as long as the model. */
HSC_API const hsc_tokenizer *hsc_model_tokenizer(const hsc_model *model, hsc_error *err);
/* The tokenizer of what the decoder reads and writes: that of the target language where an encoder-decoder has one of
 * its own (Marian), else the model's. As hsc_model_tokenizer besides. */
HSC_API const hsc_tokenizer *hsc_model_target_tokenizer(const hsc_model *model, hsc_error *err);

/* Tensors in the order of the file(s). Index out of range: HSC_EINVAL. */
HSC_API size_t hsc_model_n_tensors(const hsc_model *model);
HSC_API HSC_MUST_CHECK hsc_status hsc_model_tensor(const hsc_model *model, size_t index, hsc_tensor_info *out);

/* A remark made while opening (for instance: tie_word_embeddings contradicts the file), or NULL past the last. */
HSC_API const char *hsc_model_warning(const hsc_model *model, size_t index);

/* --------------------------------------------------------------------------------------------------- session ---- */

/*
 * The places where one may look or edit, in the field's words (TransformerLens). One list makes the enum, the names for
 * the program, JSON and Python, and the docs. Rows are tokens, sequences end to end:
 *   X(id, name, scope, shape, meaning)
 * An encoder-decoder has three attentions: cross_ is what a decoder block's tokens look at in the source, enc_ are the
 * encoder's own sites; the others are the decoder's. n_source counts the tokens that hsc_session_read_source read.
 */
#define HSC_SITE_LIST(X)                                                                                               \
    X(HSC_EMBED, "embed", 0, "[n_pos][d_model]", "token embedding")                                                    \
    X(HSC_TOKEN_TYPE_EMBED, "token_type_embed", 0, "[n_pos][d_model]", "embedding of the token's segment")             \
    X(HSC_POS_EMBED, "pos_embed", 0, "[n_pos][d_model]", "position embedding, learned or sinusoidal")                  \
    X(HSC_RESID_PRE, "resid_pre", 1, "[n_pos][d_model]", "residual stream before the block")                           \
    X(HSC_LN1, "ln1", 1, "[n_pos][d_model]", "attention's norm, after gain and bias")                                  \
    X(HSC_Q, "q", 1, "[n_pos][n_heads][d_head]", "query with bias, before rotation")                                   \
    X(HSC_K, "k", 1, "[n_pos][n_kv_heads][d_head]", "key with bias, before rotation")                                  \
    X(HSC_V, "v", 1, "[n_pos][n_kv_heads][d_head]", "value with bias")                                                 \
    X(HSC_ROT_Q, "rot_q", 1, "[n_pos][n_heads][d_head]", "query after rotation")                                       \
    X(HSC_ROT_K, "rot_k", 1, "[n_pos][n_kv_heads][d_head]", "key after rotation")                                      \
    X(HSC_ATTN_SCORES, "attn_scores", 1, "[n_heads][n_query][n_key]",                                                  \
      "scores after scale, soft cap and bias; -inf where masked")                                                      \
    X(HSC_PATTERN, "pattern", 1, "[n_heads][n_query][n_key]", "attention weights; rows sum to 1")                      \
    X(HSC_Z, "z", 1, "[n_pos][n_heads][d_head]", "weighted mean of the values, before W_O")                            \
    X(HSC_ATTN_OUT, "attn_out", 1, "[n_pos][d_model]", "attention's output as it is added to the residual")            \
    X(HSC_RESID_MID, "resid_mid", 1, "[n_pos][d_model]", "residual stream between attention and feed-forward")         \
    X(HSC_CROSS_LN1, "cross_ln1", 1, "[n_pos][d_model]", "cross-attention's norm, after gain and bias")                \
    X(HSC_CROSS_Q, "cross_q", 1, "[n_pos][n_heads][d_head]", "query of cross-attention with bias")                     \
    X(HSC_CROSS_K, "cross_k", 1, "[n_source][n_kv_heads][d_head]", "key that a source token has in this block")        \
    X(HSC_CROSS_V, "cross_v", 1, "[n_source][n_kv_heads][d_head]", "value that a source token has in this block")      \
    X(HSC_CROSS_ATTN_SCORES, "cross_attn_scores", 1, "[n_heads][n_query][n_source]",                                   \
      "scores over the source after scale")                                                                            \
    X(HSC_CROSS_PATTERN, "cross_pattern", 1, "[n_heads][n_query][n_source]", "weights over the source; rows sum to 1") \
    X(HSC_CROSS_Z, "cross_z", 1, "[n_pos][n_heads][d_head]", "weighted mean of the source's values, before W_O")       \
    X(HSC_CROSS_ATTN_OUT, "cross_attn_out", 1, "[n_pos][d_model]",                                                     \
      "cross-attention's output as it is added to the residual")                                                       \
    X(HSC_CROSS_RESID_MID, "cross_resid_mid", 1, "[n_pos][d_model]",                                                   \
      "residual stream between cross-attention and feed-forward")                                                      \
    X(HSC_LN2, "ln2", 1, "[n_pos][d_model]", "feed-forward's norm, after gain and bias")                               \
    X(HSC_MLP_PRE, "mlp_pre", 1, "[n_pos][d_mlp]", "what the activation reads (the gate of a gated one)")              \
    X(HSC_MLP_UP, "mlp_up", 1, "[n_pos][d_mlp]", "the other half of a gated feed-forward")                             \
    X(HSC_MLP_POST, "mlp_post", 1, "[n_pos][d_mlp]", "what W_out reads")                                               \
    X(HSC_MLP_OUT, "mlp_out", 1, "[n_pos][d_model]", "feed-forward's output as it is added to the residual")           \
    X(HSC_RESID_POST, "resid_post", 1, "[n_pos][d_model]", "residual stream after the block")                          \
    X(HSC_LN_FINAL, "ln_final", 0, "[n_pos][d_model]", "last norm, after gain and bias")                               \
    X(HSC_POOLED, "pooled", 0, "[n_pos][d_model]",                                                                     \
      "tanh of the pooler's product with ln_final; row 0 is the one used")                                             \
    X(HSC_LN_HEAD, "ln_head", 0, "[n_pos][d_model]", "what the output matrix reads where a head transforms ln_final")  \
    X(HSC_LOGITS, "logits", 0, "[n_pos][d_vocab]", "scores of the next token, or of the masked one")                   \
    X(HSC_ENC_EMBED, "enc_embed", 0, "[n_source][d_model]", "encoder: embed")                                          \
    X(HSC_ENC_POS_EMBED, "enc_pos_embed", 0, "[n_source][d_model]", "encoder: pos_embed")                              \
    X(HSC_ENC_RESID_PRE, "enc_resid_pre", 1, "[n_source][d_model]", "encoder: resid_pre")                              \
    X(HSC_ENC_LN1, "enc_ln1", 1, "[n_source][d_model]", "encoder: ln1")                                                \
    X(HSC_ENC_Q, "enc_q", 1, "[n_source][n_heads][d_head]", "encoder: q")                                              \
    X(HSC_ENC_K, "enc_k", 1, "[n_source][n_kv_heads][d_head]", "encoder: k")                                           \
    X(HSC_ENC_V, "enc_v", 1, "[n_source][n_kv_heads][d_head]", "encoder: v")                                           \
    X(HSC_ENC_ATTN_SCORES, "enc_attn_scores", 1, "[n_heads][n_source][n_source]", "encoder: attn_scores")              \
    X(HSC_ENC_PATTERN, "enc_pattern", 1, "[n_heads][n_source][n_source]", "encoder: pattern")                          \
    X(HSC_ENC_Z, "enc_z", 1, "[n_source][n_heads][d_head]", "encoder: z")                                              \
    X(HSC_ENC_ATTN_OUT, "enc_attn_out", 1, "[n_source][d_model]", "encoder: attn_out")                                 \
    X(HSC_ENC_RESID_MID, "enc_resid_mid", 1, "[n_source][d_model]", "encoder: resid_mid")                              \
    X(HSC_ENC_LN2, "enc_ln2", 1, "[n_source][d_model]", "encoder: ln2")                                                \
    X(HSC_ENC_MLP_PRE, "enc_mlp_pre", 1, "[n_source][d_mlp]", "encoder: mlp_pre")                                      \
    X(HSC_ENC_MLP_UP, "enc_mlp_up", 1, "[n_source][d_mlp]", "encoder: mlp_up")                                         \
    X(HSC_ENC_MLP_POST, "enc_mlp_post", 1, "[n_source][d_mlp]", "encoder: mlp_post")                                   \
    X(HSC_ENC_MLP_OUT, "enc_mlp_out", 1, "[n_source][d_model]", "encoder: mlp_out")                                    \
    X(HSC_ENC_RESID_POST, "enc_resid_post", 1, "[n_source][d_model]", "encoder: resid_post")                           \
    X(HSC_ENC_LN_FINAL, "enc_ln_final", 0, "[n_source][d_model]", "encoder: ln_final, what cross-attention reads")

typedef enum {
#define HSC_SITE_ENUM(id, name, per_layer, shape, meaning) id,
    HSC_SITE_LIST(HSC_SITE_ENUM)
#undef HSC_SITE_ENUM
        HSC_N_SITES
} hsc_site;

/* "pattern", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_site_name(hsc_site site);
/* The site of that name, or HSC_N_SITES. */
HSC_API hsc_site hsc_site_find(const char *name);
/* Non-zero: the site exists once a layer (`pattern.4`); zero: once a model (`logits`). */
HSC_API int hsc_site_per_layer(hsc_site site);
HSC_API const char *hsc_site_shape(hsc_site site);
HSC_API const char *hsc_site_meaning(hsc_site site);
/* Non-zero when this model has the site at all (GPT-2 has no rot_q, a gateless model no mlp_up). */
HSC_API int hsc_model_has_site(const hsc_model *model, hsc_site site);
/* Layers in which this model has the site: the encoder's for enc_ sites, which may be another number than the
 * decoder's; 1 for a site that exists once, 0 where there is none. */
HSC_API int hsc_model_site_layers(const hsc_model *model, hsc_site site);

/* Non-zero: the site is weights or scores of attention, a map [n_query][n_key] of each head, and not rows. */
HSC_API int hsc_site_is_map(hsc_site site);
/* Whose parts make up a row of the site, or a map of it: q, rot_q, z and maps have one for each head, k, rot_k and v
 * one for each key-value head; other sites are made of no heads. */
typedef enum { HSC_NO_HEADS, HSC_QUERY_HEADS, HSC_KV_HEADS } hsc_heads;
HSC_API hsc_heads hsc_site_heads(hsc_site site);
/* Non-zero: a row of the site belongs to a token of the source (an encoder's sites, cross_k and cross_v). */
HSC_API int hsc_site_is_of_source(hsc_site site);

/* The arithmetic of the products with weights, named in every result; norms, attention and sums are always float32.
 *   HSC_COMPUTE_F32   exact on dequantised weights: the default wherever figures are read.
 *   HSC_COMPUTE_BF16  activations and weights rounded to bfloat16, sums in float32.
 *   HSC_COMPUTE_Q8    8-bit activations against quantised weights, in groups of 32; other weights as in f32.
 *   HSC_COMPUTE_AUTO  q8 when the first feed-forward's weights are quantised, bf16 when they are F16 or
 *                     BF16, else f32. */
#define HSC_COMPUTE_LIST(X)                                                                                            \
    X(HSC_COMPUTE_F32, "f32") X(HSC_COMPUTE_BF16, "bf16") X(HSC_COMPUTE_Q8, "q8") X(HSC_COMPUTE_AUTO, "auto")

typedef enum {
#define HSC_COMPUTE_ENUM(id, name) id,
    HSC_COMPUTE_LIST(HSC_COMPUTE_ENUM)
#undef HSC_COMPUTE_ENUM
        HSC_N_COMPUTES
} hsc_compute;

/* "f32", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_compute_name(hsc_compute compute);
/* The kind of that name, or HSC_N_COMPUTES. */
HSC_API hsc_compute hsc_compute_find(const char *name);
/* What HSC_COMPUTE_AUTO means for this model; never HSC_COMPUTE_AUTO. */
HSC_API hsc_compute hsc_model_auto_compute(const hsc_model *model);

typedef struct hsc_session hsc_session;

/* A mask of one's own, on top of the model's. Zeros: none. */
typedef struct hsc_mask {
    int window; /* a query sees the keys above its position - window, and where it sees later ones at all, those below
                   its position + window; 0: the model's own window, if any */
    int sinks;  /* with a window: the first `sinks` keys stay visible */
    /* Block-sparse attention: query q sees key k only where allowed[q / block * n_blocks + k / block] is not 0.
     * [n_blocks][n_blocks], copied by hsc_session_new; NULL: every block. */
    const unsigned char *allowed;
    int block, n_blocks;
} hsc_mask;

typedef struct hsc_session_options {
    int n_threads;  /* 0: what affinity and the control group allow */
    int max_tokens; /* most tokens that one sequence may hold; 0: the model's context */
    int max_seqs;   /* most sequences at once; 0: 1 */
    hsc_compute compute;
    int chunk;       /* rows that go through a layer together; 0: chosen. Never changes a result. */
    hsc_dtype cache; /* type of the cached keys and values: HSC_F32, HSC_F16, HSC_BF16 or HSC_Q8_0 */
    hsc_mask mask;   /* of an encoder-decoder: of what the decoder's tokens see of each other */
    int max_source;  /* most tokens of one source of an encoder-decoder; 0: the encoder's context */
} hsc_session_options;

/* HSC_ENOMEM; HSC_EINVAL: an option is negative or past the model's limits. The model must outlive the session. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_new(hsc_session **out, const hsc_model *model,
                                                  const hsc_session_options *options, hsc_error *err);
HSC_API void hsc_session_free(hsc_session *session);

/* What a pass over n_tokens tokens touches (of an encoder-decoder: n_tokens on both sides), in bytes: the peak of a
 * process is its own memory before hsc_session_new plus `total`, plus what is recorded (patterns of every head:
 * `patterns`; all statistics with 8 keys: `stats`). */
typedef struct hsc_memory {
    uint64_t weights;     /* mapped from the file, shared with other processes that map it */
    uint64_t converted;   /* weights converted at opening: the process's own already, and so not in `total` */
    uint64_t cache;       /* keys and values of n_tokens */
    uint64_t activations; /* of a chunk, scratch of the threads, rotary tables */
    uint64_t logits;      /* of the last token */
    uint64_t total;       /* weights, cache, activations and logits */
    uint64_t patterns, stats;
    uint64_t looked_up; /* part of `weights`: an embedding of which only the rows of the text are read */
    uint64_t unembed;   /* part of `weights`: an output matrix, which only logits read */
} hsc_memory;
/* For one sequence in a session made with `options` (NULL: defaults, but max_tokens n_tokens). HSC_EINVAL: n_tokens is
 * below 1 or past the context. */
HSC_API HSC_MUST_CHECK hsc_status hsc_model_memory(const hsc_model *model, const hsc_session_options *options,
                                                   int n_tokens, hsc_memory *out, hsc_error *err);
HSC_API const hsc_model *hsc_session_model(const hsc_session *session);
HSC_API int hsc_session_n_threads(const hsc_session *session);
/* The compute kind in use; never HSC_COMPUTE_AUTO. */
HSC_API hsc_compute hsc_session_compute(const hsc_session *session);

/* Forgets every sequence; records, observers and sources stay. */
HSC_API void hsc_session_reset(hsc_session *session);
/* Keeps the first n_tokens of sequence `seq`. HSC_EINVAL: no such sequence, it is shorter, or a sliding window has
 * passed what the token at n_tokens would see; 0 always works. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_truncate(hsc_session *session, int seq, int n_tokens, hsc_error *err);
/* Makes sequence `to` the first n_tokens of sequence `from` (what it held is dropped); it then reads the same source.
 * Whole tiles of 64 positions are shared, not copied, until one of the two changes them. HSC_EINVAL: as for truncate,
 * or from == to. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_fork(hsc_session *session, int from, int to, int n_tokens,
                                                   hsc_error *err);
/* Writes the keys and values of sequence `seq` as a .safetensors file (float32), and reads them back into a session of
 * the same model; a float32 cache goes on with the same bits. The token ids are the caller's to keep. HSC_EINVAL: no
 * such sequence, or the ending is not .safetensors. HSC_EFORMAT: the file is not a cache of this model: it
 * bears a mark of settings, types and a sample of the weights, wherever they lie. HSC_EUNSUPPORTED: an encoder-decoder.
 * HSC_EIO. A load that fails leaves the sequence empty. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_save(const hsc_session *session, int seq, const char *path,
                                                   hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_session_load(hsc_session *session, int seq, const char *path, hsc_error *err);
/* Tokens that sequence `seq` holds; 0 when there is none. */
HSC_API int hsc_session_length(const hsc_session *session, int seq);

typedef enum { HSC_LOGITS_LAST = 0, HSC_LOGITS_ALL = 1, HSC_LOGITS_NONE = 2 } hsc_logits_rows;

/* What one forward pass reads: n_seqs sequences end to end, no padding between them. Sequence i is the session's
 * sequence i: its tokens follow what the cache already holds of it. */
typedef struct hsc_batch {
    const hsc_token *ids; /* [n_tokens] */
    int n_tokens;
    const int *seq_lengths; /* [n_seqs], summing to n_tokens; NULL: one sequence */
    int n_seqs;             /* 0 or 1 with seq_lengths NULL */
    hsc_logits_rows logits; /* which rows go through the output matrix; none where the model has none */
    /* Not NULL: the pass begins at layer `first_layer` with this as its resid_pre, [n_tokens][d_model]; n_layers means
     * at the final norm. The layers before run for nothing and keep nothing of these tokens: the sequence may then only
     * be cut back, or go on from the same layer. */
    const float *resid;
    int first_layer;
    const int32_t *segments; /* [n_tokens] the segment of each token, below hsc_config.n_segments; NULL: all 0 */
} hsc_batch;

/* Runs the model and appends to the cache. A model whose tokens see later ones keeps nothing: each pass is of whole
 * sequences, and lengths stay 0. On any failure the cache is as it was before the call; only where a sliding
 * window's pass had overwritten keys that the sequence would need to go on, the sequence is empty.
 * HSC_EINVAL: an id outside the vocabulary, a sequence past the context, more tokens than the cache has room for (the
 * message has the limit and the length). HSC_ENOMEM: records do not fit. HSC_ECANCELED: an observer said stop. */
HSC_API HSC_MUST_CHECK hsc_status hsc_forward(hsc_session *session, const hsc_batch *batch, hsc_error *err);

/* What an encoder-decoder writes about: runs the encoder over the batch's sequences, whole and without padding, and
 * makes the keys and values that each block of the decoder will read, once. Every sequence of the session is emptied;
 * in the passes that follow, sequence i reads source i, and a fork reads what its parent reads. Sites enc_, cross_k and
 * cross_v are seen here and not in hsc_forward, which refuses to run layers for a sequence that has no source. Of the
 * batch, ids and lengths count. HSC_EINVAL: the model has no encoder, or as for hsc_forward; HSC_ENOMEM, HSC_ECANCELED.
 * After a failure no sequence has a source. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_read_source(hsc_session *session, const hsc_batch *batch, hsc_error *err);
/* Tokens of the source that sequence `seq` reads; 0: none. */
HSC_API int hsc_session_source_length(const hsc_session *session, int seq);

/* An array somewhere in the session: shape[n_dims], row-major and dense. Borrowed: valid until the next hsc_forward,
 * hsc_session_read_source, hsc_session_reset, hsc_session_record, hsc_session_record_clear, hsc_session_collect or
 * hsc_session_free. */
typedef struct hsc_view {
    const float *data;
    int n_dims;
    int64_t shape[4];
} hsc_view;

/* Logits of the last hsc_forward: [n_rows][d_vocab], one row a sequence (LAST) or a token (ALL; also when the site
 * logits is recorded or observed, whatever the batch says). HSC_ENOTFOUND: none were asked for. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_logits(const hsc_session *session, hsc_view *out, hsc_error *err);

/* What to keep of a forward pass. layer, head, query: -1 means every one; head and query narrow attn_scores and pattern
 * only (query counts the rows of the batch's sequence, head the heads of the layer). */
typedef struct hsc_record {
    hsc_site site;
    int layer, head, query;
} hsc_record;

/* Adds a record for the passes to come. Never changes the arithmetic. A place (a site of a layer) has one record: the
 * same one again changes nothing. HSC_EINVAL: no such layer, head or site in this model, or the place is recorded
 * already with another head or query. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_record(hsc_session *session, const hsc_record *record, hsc_error *err);
HSC_API void hsc_session_record_clear(hsc_session *session);

/* What was recorded at a site for sequence `seq` of the last batch: the shape is that of HSC_SITE_LIST, n_pos and
 * n_query being the sequence's rows in that batch and n_key all that it may see (cache included). A narrowed record has
 * 1 in the narrowed place. layer is ignored for a site that exists once. HSC_ENOTFOUND: not recorded. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_activation(const hsc_session *session, hsc_site site, int layer, int seq,
                                                         hsc_view *out, hsc_error *err);

/* ---------------------------------------------------------------------------------------------- statistics ---- */

/*
 * What a row of attention says, taken while it is hot, in O(n) memory and exact: X(id, name, shape, meaning). The
 * weights are those that make z, after any edit. A row that sees nothing has 0 everywhere.
 * What is made of a weight that is NaN is NaN too. "received" is also NaN for a key that an edit gave a weight larger
 * than 4096 or than 2^22 / n_query.
 * Distance bins: bin 0 is the token itself, bin b holds the weight on keys 2^(b-1) .. 2^b - 1 away (on either side).
 */
#define HSC_STAT_LIST(X)                                                                                               \
    X(HSC_STAT_ENTROPY, "entropy", "[n_heads][n_query]", "entropy of the row in nats: -sum p ln p")                    \
    X(HSC_STAT_SINK, "sink", "[n_heads][n_query]", "weight on position 0")                                             \
    X(HSC_STAT_SELF, "self", "[n_heads][n_query]", "weight on the token itself")                                       \
    X(HSC_STAT_PREV, "prev", "[n_heads][n_query]", "weight on the token before it; 0 at position 0")                   \
    X(HSC_STAT_DISTANCE, "distance", "[n_heads][n_query][n_bins]", "weight by log2 of the distance")                   \
    X(HSC_STAT_RECEIVED, "received", "[n_heads][n_key]", "weight that a key gets from all queries of the pass")        \
    X(HSC_STAT_TOPK, "topk_weight", "[n_heads][n_query][k]", "the k largest weights, largest first")

typedef enum {
#define HSC_STAT_ENUM(id, name, shape, meaning) id,
    HSC_STAT_LIST(HSC_STAT_ENUM)
#undef HSC_STAT_ENUM
        HSC_N_STATS
} hsc_stat;

/* "entropy", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_stat_name(hsc_stat stat);

/* Statistics of rows [first_row, first_row + n_rows) of a sequence's rows in the batch, in one layer, as they come. The
 * views have n_rows in the place of n_query and are valid during the call; what is not collected, and
 * HSC_STAT_RECEIVED, has data NULL. topk_keys as hsc_session_topk_keys has them. */
typedef struct hsc_stats_rows {
    int layer, seq, first_row, n_rows;
    hsc_view stat[HSC_N_STATS];
    const int32_t *topk_keys;
} hsc_stats_rows;

typedef struct hsc_stats_options {
    int layer;      /* -1: every layer */
    unsigned stats; /* OR of 1u << hsc_stat; 0: all */
    int top_k;      /* keys a row keeps, at most 64; 0: 8 */
    /* NULL: statistics are kept until the next pass. Else they are handed over by the thread that runs the pass, in
     * rising rows of a layer and sequence, and only HSC_STAT_RECEIVED is kept: memory does not grow with the rows. A
     * return other than 0 stops the pass with HSC_ECANCELED. */
    int (*on_rows)(void *user, const hsc_stats_rows *rows);
    void *user;
    int of_encoder; /* non-zero: of an encoder-decoder's encoder, in hsc_session_read_source; 0: of the decoder's own
                       attention */
} hsc_stats_options;

/* Collects statistics in the passes to come; NULL stops collecting. A second call replaces the first. HSC_EINVAL: no
 * such layer, top_k out of range, or no encoder. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_collect(hsc_session *session, const hsc_stats_options *options,
                                                      hsc_error *err);

/* A statistic of layer `layer` and sequence `seq` of the last batch, in the shape of HSC_STAT_LIST. Borrowed like
 * hsc_session_activation's view. HSC_ENOTFOUND: not collected, or handed to on_rows. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_stat(const hsc_session *session, hsc_stat stat, int layer, int seq,
                                                   hsc_view *out, hsc_error *err);

/* The keys that belong to HSC_STAT_TOPK, [n_heads][n_query][k]: positions, -1 where a row has fewer than k keys of a
 * weight above 0 (the weight is then 0, or NaN in a row that holds NaN). Ties go to the lower position. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_topk_keys(const hsc_session *session, int layer, int seq,
                                                        const int32_t **out, hsc_error *err);

/* A block of rows passing a site. rows: [n_rows][row_size], row r at data + r * stride. For attn_scores and pattern
 * the block is one head's rows [n_rows][n_key]; elsewhere head is -1 and a row is all heads end to end. */
typedef struct hsc_block {
    hsc_site site;
    int layer, seq, head;
    int first_row; /* position in the sequence of the first row */
    int n_rows, row_size;
    size_t stride;
    float *data; /* what is written here is what the pass goes on with */
} hsc_block;

/* Called as the pass goes by; patterns may come from several threads at once and in any order. Non-zero stops the pass
 * with HSC_ECANCELED. */
typedef int (*hsc_observe_fn)(void *user, const hsc_block *block);

typedef struct hsc_observer {
    hsc_site site;
    int layer; /* -1: every layer */
    hsc_observe_fn fn;
    void *user;
} hsc_observer;

/* Adds an observer. attn_scores, pattern, z and every [n_pos] site may be edited. HSC_EINVAL, HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_session_observe(hsc_session *session, const hsc_observer *observer,
                                                      hsc_error *err);
HSC_API void hsc_session_observe_clear(hsc_session *session);

/* The instruction set that the kernels use: "ref", "avx2", "avx512", "neon". HEADSCOPE_ISA in the environment forces
 * one. Static storage. */
HSC_API const char *hsc_isa(void);

/* --------------------------------------------------------------------------------------------- tensor files ---- */

typedef struct hsc_named_array {
    const char *name;
    hsc_dtype dtype; /* HSC_F32 or HSC_I32 */
    int n_dims;
    int64_t shape[4];
    const void *data;
} hsc_named_array;

/* Writes arrays as .safetensors, .npz or (exactly one array) .npy, by the ending of the path. Written beside and then
 * renamed, so nothing half-written is ever seen. HSC_EINVAL: unknown ending. HSC_EIO: with the system's reason. */
HSC_API HSC_MUST_CHECK hsc_status hsc_write_arrays(const char *path, const hsc_named_array *arrays, size_t n,
                                                   hsc_error *err);

/* ------------------------------------------------------------------------------------------------ conversion ---- */

/* Something that happens while hsc_convert works: a note, or else how far it is. */
typedef struct hsc_convert_event {
    const char *note;     /* what one should know about the result; NULL: progress */
    const char *tensor;   /* the tensor under way */
    uint64_t done, total; /* bytes of tensors read, and in all */
} hsc_convert_event;

typedef struct hsc_convert_options {
    int recast; /* non-zero: matrices become `dtype`; 0: all tensors keep their types, as far as the container allows */
    /* HSC_F32, HSC_F16 or HSC_BF16; in a GGUF file also HSC_Q8_0, HSC_Q4_0, HSC_Q4_1, HSC_Q5_0, HSC_Q4_K or HSC_Q6_K.
     */
    hsc_dtype dtype;
    int pure;      /* non-zero: the output matrix too gets a 4-bit dtype; 0: it then gets HSC_Q6_K */
    int overwrite; /* non-zero: an output that exists is replaced (a folder only when it holds a model's files) */
    int n_threads; /* 0: what affinity and the control group allow. Never changes a result. */
    /* May be NULL. Non-zero stops the conversion with HSC_ECANCELED. */
    int (*tell)(void *user, const hsc_convert_event *event);
    void *user;
} hsc_convert_options;

/* Of the tensors that were written in one type. */
typedef struct hsc_convert_sum {
    size_t n_tensors;
    uint64_t n_values, n_bytes;
    double error, size; /* sums of squares, of what rounding changed and of the values, of those that were converted */
    double rms;         /* sqrt(error / size) */
} hsc_convert_sum;

typedef struct hsc_convert_report {
    hsc_convert_sum types[HSC_N_DTYPES];
    uint64_t bytes_in, bytes_out; /* of tensors */
    double seconds;
} hsc_convert_report;

/*
 * Converts between Hugging Face folders and GGUF files, and from GGUF to GGUF in another type. `out` ends in .gguf or
 * is a folder to be made. Tensors stream through one at a time. In GGUF, vectors and position embeddings are float32,
 * and a matrix whose rows are no whole blocks of `dtype` gets a type that fits: HSC_Q5_0 for HSC_Q4_K, HSC_Q8_0 for
 * HSC_Q6_K, else HSC_F16; a note says so. The output appears under its name only when it is whole. `report` may be
 * NULL. HSC_EINVAL: the options or the output do not go together, or the output exists. HSC_EUNSUPPORTED: the other
 * container cannot say what the model computes, or a value does not fit the type. HSC_ECANCELED. As for hsc_model_open
 * besides.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_convert(const char *in, const char *out, const hsc_convert_options *options,
                                              hsc_convert_report *report, hsc_error *err);

/* --------------------------------------------------------------------------------------------------- looking ---- */

typedef struct hsc_key_weight {
    int key;
    float weight;
} hsc_key_weight;

/* The k heaviest keys of one pattern row [n_key], heaviest first, ties to the lower position, skipping keys below
 * first_key. For a causal model pass the row's visible keys only (query + 1 of them), else masked zeros may be listed.
 * Writes at most k and returns how many. A NaN is never listed. */
HSC_API int hsc_top_keys(const float *row, int n_key, int first_key, int k, hsc_key_weight *out);

/* What a head mostly does, averaged over the rows q >= 1 of one or more patterns. first, self, prev and other share a
 * row's weight between them, except that for q = 1 the token before is also the first. */
typedef struct hsc_head_summary {
    float first, self, prev; /* mean weight on position 0, on the token itself, on the token before it */
    float entropy;           /* mean entropy of a row in nats */
    float other;             /* mean weight on everything else */
    float last;              /* cross-attention: mean weight on the source's last token; self and prev are then 0 */
} hsc_head_summary;

/* pattern: [n_query][n_key] of one head, the last row being the last key. All fields are 0 without a row q >= 1. */
HSC_API void hsc_summarise_head(const float *pattern, int n_query, int n_key, hsc_head_summary *out);

/* One weight: the token at `query` looks at the token at `key` (positions). */
typedef struct hsc_link {
    int layer, head, query, key;
    float weight;
} hsc_link;

/* Keeps the strongest links of a pattern [n_query][n_key]: merges into best[*n_best] (sorted, heaviest first, at most
 * capacity) every weight above 0 that is not on the first token, the token itself or the one before. Equal weights keep
 * the lower layer, head, query and key first, so the order of the calls does not matter. Start with *n_best = 0. */
HSC_API void hsc_strongest_links(const float *pattern, int n_query, int n_key, int layer, int head, hsc_link *best,
                                 int *n_best, int capacity);

/* Both of the above for every head of a model, reduced while the patterns stream by: no table of weights is kept. */
typedef struct hsc_overview hsc_overview;

/* Watches the patterns of the next pass of `session` over one sequence of n_tokens tokens: `pattern` is HSC_PATTERN, or
 * of an encoder-decoder also HSC_ENC_PATTERN (n_tokens of the source) or HSC_CROSS_PATTERN, where all rows count and
 * links to the source's last token, which mostly ends it, are left out in place of the others. Keeps n_links links (0:
 * none).
 * The overview must live until that pass is over and hsc_session_observe_clear was called, or the session freed.
 * HSC_EINVAL: n_tokens or n_links is negative, n_links is above 1000, or the model has no such pattern. HSC_ENOMEM. */
HSC_API HSC_MUST_CHECK hsc_status hsc_overview_new(hsc_overview **out, hsc_session *session, hsc_site pattern,
                                                   int n_tokens, int n_links, hsc_error *err);
HSC_API void hsc_overview_free(hsc_overview *overview);

/* What a head mostly does. Zeros when there is no such layer or head. */
HSC_API hsc_head_summary hsc_overview_head(const hsc_overview *overview, int layer, int head);

/* The strongest links, heaviest first, of the layers whose byte in layers [n_layers] is not 0; NULL: of every layer.
 * Writes at most `capacity` (more than n_links are not kept) and returns how many. */
HSC_API int hsc_overview_links(const hsc_overview *overview, const unsigned char *layers, hsc_link *out, int capacity);

#ifdef __cplusplus
}
#endif
#endif
