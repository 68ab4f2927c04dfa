/*
 * headscope/nn.h: the building blocks of a transformer as single functions, forward and backward.
 *
 * These are the engine's own parts: hsc_forward runs the same loops, so that a layer here gives the bits that it has
 * there.
 *
 *     float q[2] = {1, 0}, k[6] = {1, 0, 0, 1, 0.7f, 0.7f}, v[6] = {10, 0, 0, 10, 5, 5}, out[2], weights[3];
 *     hsc_nn_attention_shape shape = {.n_query = 1, .n_key = 3, .d_k = 2, .d_v = 2};
 *     hsc_nn_attention_forward(&shape, NULL, q, k, v, out, weights, &err);      out is 6.1 3.9
 *
 * Rules that hold for every function here, besides those of headscope.h:
 *   - Arrays are float32, row-major and dense. Batches and heads are leading dimensions; n_rows stands for all leading
 *     dimensions multiplied, where a layer treats every row alike.
 *   - `_forward` writes its outputs. An output may be an input only where it says so.
 *   - `_backward` takes what `_forward` read, and dy, the derivative of the loss by the output. It ADDS the derivatives
 *     by inputs and parameters to dx, dw, ...; set them to 0 first. NULL: not wanted. They must not overlap with dy.
 *   - A row's result is the same bits for any number of rows beside it and any number of threads.
 *   - HSC_EINVAL: a size is out of range (2^30 is the largest) or an array is NULL; the message names it. HSC_ENOMEM:
 *     no room for scratch. What returns void cannot fail and does not look at its arrays. n_rows, and in other layers
 *     than attention n_batch and n, may be 0, and nothing happens. `_kept` is 0 for sizes that are out of range.
 */
#ifndef HEADSCOPE_NN_H
#define HEADSCOPE_NN_H

#include "headscope.h"
#include "headscope/random.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- linear maps ---- */

/* y = x W^T + bias, or y = x W + bias. */
typedef struct hsc_nn_linear {
    const float *w; /* [n_out][n_in] as in nn.Linear; with in_out [n_in][n_out], the X @ W of a textbook and Conv1D */
    const float *bias; /* [n_out] or NULL */
    int n_in, n_out;
    int in_out;
} hsc_nn_linear;

/* Where the derivatives of a linear map are added: shapes as in hsc_nn_linear. NULL: not wanted. */
typedef struct hsc_nn_linear_grad {
    float *w, *bias;
} hsc_nn_linear_grad;

/* X @ W with w [n_in][n_out] and no bias. */
static inline hsc_nn_linear hsc_nn_matrix(const float *w, int n_in, int n_out)
{
    hsc_nn_linear map = {w, 0, n_in, n_out, 1};
    return map;
}

/* x [n_rows][n_in] -> y [n_rows][n_out]. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_linear_forward(const hsc_nn_linear *map, const float *x, int n_rows, float *y,
                                                        hsc_error *err);
/* dx [n_rows][n_in] += dy W; grad->w += dy^T x; grad->bias += column sums of dy. grad may be NULL. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_linear_backward(const hsc_nn_linear *map, const float *x, const float *dy,
                                                         int n_rows, float *dx, const hsc_nn_linear_grad *grad,
                                                         hsc_error *err);

/* Rows of a table [n_ids][d]: y [n][d], row i being table row ids[i]. HSC_EINVAL: an id outside [0, n_ids). */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_embedding_forward(const float *table, int n_ids, int d, const hsc_token *ids,
                                                           int n, float *y, hsc_error *err);
/* dtable[ids[i]] += dy[i]. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_embedding_backward(const hsc_token *ids, int n, int n_ids, int d,
                                                            const float *dy, float *dtable, hsc_error *err);

/* -------------------------------------------------------------------------------------------- softmax and loss ---- */

/* Each row of x [n_rows][n] becomes exp(x - max) / sum (Bridle 1990). -inf becomes exactly 0; a row of nothing but -inf
 * becomes all 0. y may be x. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_softmax_forward(const float *x, int n_rows, int n, float *y, hsc_error *err);
/* By the output y: dx_i += y_i (dy_i - sum_j y_j dy_j). */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_softmax_backward(const float *y, const float *dy, int n_rows, int n, float *dx,
                                                          hsc_error *err);
/* All derivatives at one row p [n]: jacobian[i][j] = dp_i/dz_j = p_i ((i == j) - p_j), so p (1 - p) on the diagonal. */
HSC_API void hsc_nn_softmax_jacobian(const float *p, int n, float *jacobian);

/* losses[row] = -log softmax(logits[row])[targets[row]] in nats; 0 where a target is negative (nothing to predict).
 * logits [n_rows][n_classes], targets [n_rows]. HSC_EINVAL: a target is n_classes or above. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_cross_entropy_forward(const float *logits, const hsc_token *targets,
                                                               int n_rows, int n_classes, float *losses,
                                                               hsc_error *err);
/* dlosses [n_rows]: for the mean over m targets it is 1 / m everywhere. dlogits += dloss (softmax - one at target). */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_cross_entropy_backward(const float *logits, const hsc_token *targets,
                                                                const float *dlosses, int n_rows, int n_classes,
                                                                float *dlogits, hsc_error *err);

/* ------------------------------------------------------------------------------------------------------- norms ---- */

/* y = gain (x - mean) / sqrt(var + eps) + bias, mean and (biased) variance of each row of x [n_rows][n] (Ba et al.
 * 2016, nn.LayerNorm). gain, bias [n] or NULL (1 and 0). y may be x. A constant row gives the bias
 * where eps is above 0. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_layer_norm_forward(const float *x, const float *gain, const float *bias,
                                                            float eps, int n_rows, int n, float *y, hsc_error *err);
/* dgain, dbias [n]. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_layer_norm_backward(const float *x, const float *gain, float eps,
                                                             const float *dy, int n_rows, int n, float *dx,
                                                             float *dgain, float *dbias, hsc_error *err);

/* y = gain x / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019, nn.RMSNorm). gain [n] or NULL. y may be x. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_rms_norm_forward(const float *x, const float *gain, float eps, int n_rows,
                                                          int n, float *y, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_rms_norm_backward(const float *x, const float *gain, float eps,
                                                           const float *dy, int n_rows, int n, float *dx, float *dgain,
                                                           hsc_error *err);

/* ------------------------------------------------------------------------------------------------- activations ---- */

/* One list makes the enum and the names. GELU: Hendrycks and Gimpel 2016, exact and by tanh
 * (nn.GELU(approximate="tanh"), GPT-2's gelu_new); SiLU: Elfwing et al. 2017. */
#define HSC_NN_ACTIVATION_LIST(X)                                                                                      \
    X(HSC_NN_RELU, "relu", "max(x, 0)")                                                                                \
    X(HSC_NN_GELU, "gelu", "x/2 (1 + erf(x / sqrt 2))")                                                                \
    X(HSC_NN_GELU_TANH, "gelu_tanh", "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))")                                  \
    X(HSC_NN_SILU, "silu", "x / (1 + exp(-x))")                                                                        \
    X(HSC_NN_TANH, "tanh", "tanh(x)")

typedef enum {
#define HSC_NN_ACTIVATION_ENUM(id, name, formula) id,
    HSC_NN_ACTIVATION_LIST(HSC_NN_ACTIVATION_ENUM)
#undef HSC_NN_ACTIVATION_ENUM
        HSC_NN_N_ACTIVATIONS
} hsc_nn_activation;

/* "relu", and so on; NULL out of range. Static storage. */
HSC_API const char *hsc_nn_activation_name(hsc_nn_activation activation);

/* y[i] = f(x[i]); y may be x. HSC_EINVAL: no such activation. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_activation_forward(hsc_nn_activation activation, const float *x, size_t n,
                                                            float *y, hsc_error *err);
/* dx[i] += f'(x[i]) dy[i]; f' of ReLU is 0 at 0. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_activation_backward(hsc_nn_activation activation, const float *x,
                                                             const float *dy, size_t n, float *dx, hsc_error *err);

/* A gated unit: y[i] = f(gate[i]) up[i] (Dauphin et al. 2016). y may be gate or up. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_gate_forward(hsc_nn_activation activation, const float *gate, const float *up,
                                                      size_t n, float *y, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_gate_backward(hsc_nn_activation activation, const float *gate, const float *up,
                                                       const float *dy, size_t n, float *dgate, float *dup,
                                                       hsc_error *err);

/* ---------------------------------------------------------------------------------------------------- position ---- */

/* omega_i = 1 / base^(2i / d), for i < d / 2. The paper's base is 10000. */
HSC_API double hsc_nn_frequency(int i, int d, double base);

/* pe [n_positions][d_model]: pe[pos][2i] = sin(pos omega_i), pe[pos][2i+1] = cos(pos omega_i) (Vaswani et al.
 * 2017, 3.5). HSC_EINVAL: d_model is odd or below 2, or base is not above 0. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_sinusoid(int n_positions, int d_model, double base, float *pe, hsc_error *err);

/* What moves a position by k: rotation [d_model / 2][2][2], [[cos kw, sin kw], [-sin kw, cos kw]] for each frequency w,
 * so that (pe[pos + k][2i], pe[pos + k][2i+1]) = rotation[i] (pe[pos][2i], pe[pos][2i+1]) whatever pos is. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_sinusoid_rotation(double k, int d_model, double base, float *rotation,
                                                           hsc_error *err);

/* Rotary embedding (Su et al. 2021): the pair i of a head at position pos turns by pos * omega_i, (a, b) becoming
 * (a cos - b sin, b cos + a sin). omega_i and the angle are rounded to float32, as transformers has them and as
 * checkpoints were trained: at position pos the angle is within pos 2^-22 of the exact one. Zeros mean the defaults. */
typedef struct hsc_nn_rope {
    int d_head;
    int n_rotated;   /* the first so many dimensions of a head turn, an even number; 0: all */
    int interleaved; /* 0: pairs (i, i + n_rotated / 2), as Hugging Face; else (2i, 2i + 1), as the paper */
    double base;     /* 0: 10000 */
} hsc_nn_rope;

/* x [n_outer][n_pos][n_inner][d_head] -> y: heads may lead (n_outer of them) or follow the position (n_inner).
 * positions [n_pos], NULL: 0, 1, ... y may be x. HSC_EINVAL: n_rotated is odd or above d_head. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_rope_forward(const hsc_nn_rope *rope, const float *x, const int *positions,
                                                      int n_outer, int n_pos, int n_inner, float *y, hsc_error *err);
/* dx += dy turned back. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_rope_backward(const hsc_nn_rope *rope, const float *dy, const int *positions,
                                                       int n_outer, int n_pos, int n_inner, float *dx, hsc_error *err);

/* ------------------------------------------------------------------------------------------------------- masks ---- */

/*
 * Who may look at whom. A byte that is not 0 means: this query may look at this key, as in PyTorch's
 * scaled_dot_product_attention. nn.MultiheadAttention has it the other way round, in attn_mask and in key_padding_mask
 * (True there means: ignore): hsc_nn_mask_invert turns one into the other.
 * Zeros, or NULL in place of the struct: everybody sees everything.
 */
typedef struct hsc_nn_mask {
    const unsigned char *allowed; /* [n_batch if per_batch][n_heads if per_head][n_query][n_key]; NULL: no table */
    int per_batch, per_head;
    int causal; /* the queries are the last n_query of the n_key positions, and a query sees itself and earlier keys */
    int window; /* > 0: a query sees the keys above its position - window only */
} hsc_nn_mask;

/* The masks as tables, allowed [n_query][n_key]; the queries are the last n_query positions, as above. */
HSC_API void hsc_nn_mask_causal(int n_query, int n_key, unsigned char *allowed);
/* Causal, and at most the last `window` keys: 1, 2, ... window, window, ... of them. window <= 0: causal alone. */
HSC_API void hsc_nn_mask_sliding(int n_query, int n_key, int window, unsigned char *allowed);
/* Keys that are padding are seen by nobody: real [n_batch][n_key] (not 0: a token) -> allowed
 * [n_batch][n_query][n_key]. */
HSC_API void hsc_nn_mask_padding(const unsigned char *real, int n_batch, int n_query, int n_key,
                                 unsigned char *allowed);
/* out[i] = a[i] && b[i] and out[i] = !a[i], as 0 or 1; out may be an input. */
HSC_API void hsc_nn_mask_and(const unsigned char *a, const unsigned char *b, size_t n, unsigned char *out);
HSC_API void hsc_nn_mask_invert(const unsigned char *a, size_t n, unsigned char *out);

/* --------------------------------------------------------------------------------------------------- attention ---- */

/* Sizes of scaled dot-product attention. Zeros in the first three: 1 batch, 1 head, as many key heads as query heads.
 */
typedef struct hsc_nn_attention_shape {
    int n_batch, n_heads;
    int n_kv_heads; /* divides n_heads; query head h reads key head h / (n_heads / n_kv_heads) */
    int n_query, n_key, d_k, d_v;
    float scale; /* of q.k; 0: 1 / sqrt(d_k) */
} hsc_nn_attention_shape;

/*
 * out = softmax(q k^T scale, masked) v (Vaswani et al. 2017, eq. 1).
 *   q [n_batch][n_heads][n_query][d_k], k [n_batch][n_kv_heads][n_key][d_k], v [n_batch][n_kv_heads][n_key][d_v]
 *   out [n_batch][n_heads][n_query][d_v]
 *   weights [n_batch][n_heads][n_query][n_key] or NULL: then no table of n_query x n_key is ever made
 * A key that is masked has weight exactly 0; a query that may see no key gets weights 0 and output 0.
 * HSC_EINVAL also: n_kv_heads does not divide n_heads; causal or window with more queries than keys; a mask table
 * together with causal or window when n_query is not n_key.
 */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_attention_forward(const hsc_nn_attention_shape *shape, const hsc_nn_mask *mask,
                                                           const float *q, const float *k, const float *v, float *out,
                                                           float *weights, hsc_error *err);
/* dout as out. weights are those of the forward call, NULL: made again, a head at a time. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_attention_backward(const hsc_nn_attention_shape *shape,
                                                            const hsc_nn_mask *mask, const float *q, const float *k,
                                                            const float *v, const float *weights, const float *dout,
                                                            float *dq, float *dk, float *dv, hsc_error *err);

/* Multi-head self-attention: Q = x W_Q, K = x W_K, V = x W_V, cut into heads; y = heads W_O. With o.w NULL there is no
 * W_O and y is the heads end to end, [n_heads * d_v]. With one head and no W_O it is plain self-attention. */
typedef struct hsc_nn_heads {
    int n_heads;           /* 0: 1; divides the outputs of q, k and v */
    hsc_nn_linear q, k, v; /* from d_model; q and k have the same number of outputs */
    hsc_nn_linear o;
} hsc_nn_heads;

typedef struct hsc_nn_heads_grad {
    hsc_nn_linear_grad q, k, v, o;
} hsc_nn_heads_grad;

/* x [n_batch][n][d_model] -> y [n_batch][n][o.n_out]; weights [n_batch][n_heads][n][n] or NULL.
 * kept: hsc_nn_heads_kept floats for hsc_nn_heads_backward, NULL when none follows. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_heads_forward(const hsc_nn_heads *heads, const hsc_nn_mask *mask,
                                                       const float *x, int n_batch, int n, float *y, float *weights,
                                                       float *kept, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_heads_backward(const hsc_nn_heads *heads, const hsc_nn_mask *mask,
                                                        const float *x, const float *kept, const float *dy, int n_batch,
                                                        int n, float *dx, const hsc_nn_heads_grad *grad,
                                                        hsc_error *err);
HSC_API size_t hsc_nn_heads_kept(const hsc_nn_heads *heads, int n_batch, int n);

/* ------------------------------------------------------------------------------------------------ feed-forward ---- */

/* y = W_out f(W_in x), or, with gate.w, y = W_out (f(W_gate x) * W_in x) (Shazeer 2020), biases where given. */
typedef struct hsc_nn_feed_forward {
    hsc_nn_linear in, gate, out;
    hsc_nn_activation activation;
} hsc_nn_feed_forward;

typedef struct hsc_nn_feed_forward_grad {
    hsc_nn_linear_grad in, gate, out;
} hsc_nn_feed_forward_grad;

/* x [n_rows][d_model] -> y [n_rows][d_model]; kept: hsc_nn_feed_forward_kept floats, or NULL. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_feed_forward_forward(const hsc_nn_feed_forward *ff, const float *x, int n_rows,
                                                              float *y, float *kept, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_feed_forward_backward(const hsc_nn_feed_forward *ff, const float *x,
                                                               const float *kept, const float *dy, int n_rows,
                                                               float *dx, const hsc_nn_feed_forward_grad *grad,
                                                               hsc_error *err);
HSC_API size_t hsc_nn_feed_forward_kept(const hsc_nn_feed_forward *ff, int n_rows);

/* --------------------------------------------------------------------------------------------------- the block ---- */

/* The pre-norm block (Xiong et al. 2020): x = x + attention(norm1(x)); x = x + feed_forward(norm2(x)), with the biases
 * that nn.MultiheadAttention, nn.Linear and nn.LayerNorm carry. */
typedef struct hsc_nn_block {
    int d_model, n_heads, d_ff;
    hsc_nn_activation activation; /* 0: ReLU */
    float eps;                    /* of the norms; 0: 1e-5 */
} hsc_nn_block;

/* Its parameters, one after the other in one array, named and ordered as PyTorch's state_dict has them:
 * X(id, name, rows, columns), with d = d_model and f = d_ff; rows 0: a vector of `columns`. Gradients lie alike. */
#define HSC_NN_BLOCK_LIST(X)                                                                                           \
    X(HSC_NN_IN_PROJ_WEIGHT, "attn.in_proj_weight", 3 * d, d) /* W_Q, W_K, W_V below each other */                     \
    X(HSC_NN_IN_PROJ_BIAS, "attn.in_proj_bias", 0, 3 * d)                                                              \
    X(HSC_NN_OUT_PROJ_WEIGHT, "attn.out_proj.weight", d, d)                                                            \
    X(HSC_NN_OUT_PROJ_BIAS, "attn.out_proj.bias", 0, d)                                                                \
    X(HSC_NN_FF_IN_WEIGHT, "ff.0.weight", f, d)                                                                        \
    X(HSC_NN_FF_IN_BIAS, "ff.0.bias", 0, f)                                                                            \
    X(HSC_NN_FF_OUT_WEIGHT, "ff.2.weight", d, f)                                                                       \
    X(HSC_NN_FF_OUT_BIAS, "ff.2.bias", 0, d)                                                                           \
    X(HSC_NN_NORM1_WEIGHT, "norm1.weight", 0, d)                                                                       \
    X(HSC_NN_NORM1_BIAS, "norm1.bias", 0, d)                                                                           \
    X(HSC_NN_NORM2_WEIGHT, "norm2.weight", 0, d)                                                                       \
    X(HSC_NN_NORM2_BIAS, "norm2.bias", 0, d)

typedef enum {
#define HSC_NN_BLOCK_ENUM(id, name, rows, columns) id,
    HSC_NN_BLOCK_LIST(HSC_NN_BLOCK_ENUM)
#undef HSC_NN_BLOCK_ENUM
        HSC_NN_N_BLOCK_TENSORS
} hsc_nn_block_tensor;

/* One of them: its place in the array and its shape. `name` is static. */
typedef struct hsc_nn_parameter {
    const char *name;
    int64_t offset, count;
    int n_dims;
    int shape[2];
} hsc_nn_parameter;

/* The parameter counter: how many floats a block has in all, and each tensor of it. HSC_EINVAL: d_model, n_heads or
 * d_ff below 1, n_heads does not divide d_model, no such activation or tensor. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_block_count(const hsc_nn_block *block, int64_t *count, hsc_error *err);
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_block_parameter(const hsc_nn_block *block, hsc_nn_block_tensor tensor,
                                                         hsc_nn_parameter *out, hsc_error *err);

/* Initial values as PyTorch draws them, in its order: nn.MultiheadAttention (out_proj as nn.Linear, its bias then 0;
 * in_proj xavier_uniform_, bias 0), two nn.Linear (kaiming_uniform_ with a = sqrt(5), bias uniform in +-1/sqrt(n_in)),
 * two nn.LayerNorm (1 and 0). parameters: hsc_nn_block_count floats. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_block_init(const hsc_nn_block *block, hsc_random *random, float *parameters,
                                                    hsc_error *err);
/* nn.Linear alone: w [n_out][n_in], then bias [n_out] unless NULL. */
HSC_API void hsc_nn_linear_init(int n_out, int n_in, hsc_random *random, float *w, float *bias);

/* x [n_batch][n][d_model] -> y; kept: hsc_nn_block_kept floats for the backward pass, or NULL. y may be x when kept is
 * NULL. weights [n_batch][n_heads][n][n] or NULL. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_block_forward(const hsc_nn_block *block, const float *parameters,
                                                       const hsc_nn_mask *mask, const float *x, int n_batch, int n,
                                                       float *y, float *weights, float *kept, hsc_error *err);
/* gradients: hsc_nn_block_count floats, or NULL. */
HSC_API HSC_MUST_CHECK hsc_status hsc_nn_block_backward(const hsc_nn_block *block, const float *parameters,
                                                        const hsc_nn_mask *mask, const float *x, const float *kept,
                                                        const float *dy, int n_batch, int n, float *dx,
                                                        float *gradients, hsc_error *err);
HSC_API size_t hsc_nn_block_kept(const hsc_nn_block *block, int n_batch, int n);

#ifdef __cplusplus
}
#endif
#endif
