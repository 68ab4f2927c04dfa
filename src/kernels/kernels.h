/*
 * The kernel table: every loop whose speed matters, behind one struct of function pointers chosen once by CPU.
 *
 * Contract that every instruction set keeps ("same bits", docs/decisions.md):
 *   - An output is a function of its own row only: the same bits alone or among many rows, at any cut of n_cols.
 *   - Sums over k run in rising k, one multiply-add after the other, into one accumulator an output: lanes lie along
 *     the outputs, never along k. Long sums are cut into chunks of HSC__K_CHUNK by the caller, and the chunks' sums are
 *     added in order (HSC__GEMM_ADD); this keeps the rounding error near that of a pairwise sum.
 *   - Row reductions (norms, softmax) use a number of accumulators and an order fixed by the instruction set alone.
 *   - No kernel reads or writes past the ends that its arguments state. Pointers need no alignment.
 *   - Between instruction sets only tolerances hold (a fused multiply-add rounds once, lanes differ).
 */
#ifndef HSC_KERNELS_KERNELS_H
#define HSC_KERNELS_KERNELS_H

#include "base/status.h"

#include <stdbool.h>

enum {
    HSC__K_CHUNK = 256, /* k values summed before a partial sum is put aside; a multiple of every quantised block */
    HSC__MAX_NR = 32,   /* the widest panel of any instruction set */
    HSC__MAXIMA = 64,   /* parts of a row that row_maxima looks at */
    HSC__RECEIVED_BITS = 38, /* a weight of 1 is 2^38, so that it is kept to 2e-12 */
};

/* What row_received adds up to where a weight was no number, or too large. It stays what it is, to hsc__received_nan,
 * when weights that together are at most HSC__RECEIVED_MOST are added. */
#define HSC__RECEIVED_NAN (-((int64_t)1 << 62))
/* What the weights that a key gets may sum to, but for rounding: 2^60 units, so that nothing overflows. */
#define HSC__RECEIVED_MOST ((float)((int64_t)1 << (60 - HSC__RECEIVED_BITS)))

static inline bool hsc__received_nan(int64_t units)
{
    return units < -((int64_t)1 << 61);
}

/* How gemm treats what y holds. */
typedef enum {
    HSC__GEMM_START,    /* y = sum */
    HSC__GEMM_CONTINUE, /* the sum goes on from y, as if it had not been cut */
    HSC__GEMM_ADD,      /* y = y + sum, the sum having started from 0 */
} hsc__gemm_mode;

/* Activations, with the formula at x (all in float32):
 *   RELU max(x, 0); GELU x/2 (1 + erf(x / sqrt 2)); GELU_TANH x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 *   (Hendrycks and Gimpel 2016); SILU x / (1 + exp(-x)) (Elfwing et al. 2017); TANH. */
typedef enum { HSC__ACT_NONE, HSC__ACT_RELU, HSC__ACT_GELU, HSC__ACT_GELU_TANH, HSC__ACT_SILU, HSC__ACT_TANH } hsc__act;

/* Where finished sums go, y[r][c] = residual[r][c] + (sum + bias[c]) with what is there of the two: y may be the
 * residual.
 */
typedef struct hsc__ending {
    const float *bias;     /* [n_cols] or NULL */
    const float *residual; /* rows residual_stride apart, or NULL */
    size_t residual_stride;
    float *y; /* rows y_stride apart */
    size_t y_stride;
} hsc__ending;

enum { HSC__Q8_GROUP = 32 };

/* A group of 8-bit activations: x[k] = d q[k]. */
typedef struct hsc__x8_group {
    float d, sum;         /* sum: d * total */
    int32_t total, first; /* sums of all q, and of the first half of them */
} hsc__x8_group;

/* Rows of 8-bit activations: row r begins at q + r * q_stride and group + r * group_stride. */
typedef struct hsc__x8 {
    const int8_t *q;
    const hsc__x8_group *group;
    size_t q_stride, group_stride;
} hsc__x8;

/* Bytes that a panel of pack_q8 takes at most for each group. */
static inline size_t hsc__q8_group_bytes(int nr)
{
    return (size_t)nr * (HSC__Q8_GROUP + 4 * sizeof(float));
}

/*
 * One list makes the struct, the tests and the benchmark: X(name, return type, (parameters)).
 *
 * dequantise: n values of `dtype` at src (n a multiple of the block) -> dst[n].
 *
 * quantise: n values (a multiple of the block) -> the type's storage: F32, F16, BF16 (nearest, ties to even), Q8_0
 *   (scale max |x| / 127 kept as f16, values rounded away from zero at ties, as the ggml project does), or, for
 *   conversion, Q4_0, Q4_1, Q5_0, Q4_K, Q6_K (scales of the least squared error among candidates). A block that holds a
 *   value that is not finite gets a scale of NaN and reads as NaN throughout.
 *
 * pack: a weight stored [n_out][n_in], rows row_bytes apart; w points at the first row wanted. Writes the panel
 *   panel[k][o] = w[o][k0 + k] for k < n_k, o < n_out <= nr, rows of the panel nr floats apart; columns from n_out on
 *   become 0. k0 and n_k are multiples of the block.
 *
 * pack_t: a weight stored [n_in][n_out] (Conv1D); w points at element [k0][first output]. Same panel. Unquantised
 * types.
 *
 * gemm: y[r][c] = sum over k < n_k of x[r * x_stride + k] * panel[k * panel_stride + c], c < n_cols <= any,
 *   r < n_rows <= any. Reads exactly n_cols floats of each panel row. With `end`, which may be NULL, the sums go on to
 *   end->y, and what y holds afterwards is not said.
 *
 * few: a product of few rows straight from a weight stored [n_out][n_in]; the same bits as pack and gemm over chunks:
 *   y[r * y_stride + o] for o < n_out <= any. few_t: the same from [n_in][n_out] with row_bytes between k's.
 *
 * layer_norm: y = gain * (x - mean) / sqrt(var + eps) + bias (Ba et al. 2016; biased variance, as PyTorch); bias may be
 *   NULL. rms_norm: y = gain * x / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019). gain may be NULL in both (then 1).
 *   y may be x.
 *
 * softmax: in place over row[n]: exp(x - max) / sum. -inf becomes exactly 0; a row without any finite score becomes all
 *   0. Adding keys of -inf at the end changes no bit of the others.
 *
 * scale_cap: s = s * scale, then, when cap > 0, s = cap * tanh(s / cap).
 *
 * act: y[i] = f(x[i]); y may be x. gate: y[i] = f(g[i]) * u[i]; y may be g or u.
 *
 * add: y[i] = a[i] + b[i]; y may be a or b.
 *
 * rope: rotates one head in place (Su et al. 2021): with c, s [half] the cosines and sines, pair i is
 *   (x[i], x[i + half]) when !interleaved, else (x[2i], x[2i+1]); (a, b) -> (a c - b s, b c + a s).
 *
 * bf16 (compute kind "bf16"): values rounded to bfloat16, products and sums in float32. Panels hold pairs: panel[k /
 *   2][o] has w[o][k] in the low half and w[o][k + 1] in the high one; an odd n_k is filled up with 0, x must have that
 *   0 too. round_bf16 rounds n values to nearest, ties to even. pack_bf16, pack_t_bf16 and gemm_bf16 are as pack,
 *   pack_t and gemm (the panel's rows nr apart); few_bf16 and few_t_bf16 as few and few_t, x rounded already.
 *
 * q8 (compute kind "q8"): 8-bit activations against quantised weights (kernels/q8.h), in groups of HSC__Q8_GROUP values
 *   along k. quantise_x: per group d = max|x| / 127, q = round(x / d), and the sums of hsc__x8_group; a group that
 * holds a value that is not finite gets d = sum = NaN and q = 0, so that its products are NaN, one whose max|x| is
 * below HSC__Q8_LEAST is 0. pack_q8 writes a panel for gemm_q8 of the same level and type; how it lies is the level's
 * own affair (hsc__q8_group_bytes(nr) a group at most, 64-byte aligned where the scratch is). gemm_q8: y[r][c] (mode as
 * in gemm) = over the groups, or halves of groups where the type has them, in rising k: y = y + (d scale) (sum of q_x
 * (q - offset)), the integer sum exact; then y = y + (d sum of q_x) minimum the second only where the type has minima
 * (a level may fuse each product with its sum). few_q8: the same from a mapped weight [n_out][n_in], with chunks of
 * HSC__K_CHUNK as few has.
 *
 * row_sum: sum of n values. row_entropy: -sum p ln p over n weights, 0 ln 0 = 0. Both start at a place fixed by the
 * row, so their order is the row's own.
 *
 * row_above: the first index i >= from with p[i] > threshold, or n. row_maxima: out[j] = the largest of p[j],
 * p[j + HSC__MAXIMA], p[j + 2 HSC__MAXIMA], ...; n >= HSC__MAXIMA.
 *
 * row_received: acc[i] += p[i] in units of 2^-HSC__RECEIVED_BITS, rounded: integer sums are the same in any order.
 *   acc[i] = HSC__RECEIVED_NAN where |p[i]| > most or p[i] is NaN. most is at most HSC__RECEIVED_MOST / (rows that are
 *   added) and 2^12.
 */
#define HSC_KERNEL_LIST(X)                                                                                             \
    X(dequantise, void, (hsc_dtype dtype, const void *src, int64_t n, float *dst))                                     \
    X(quantise, void, (hsc_dtype dtype, const float *src, int64_t n, void *dst))                                       \
    X(pack, void, (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, float *panel))    \
    X(pack_t, void, (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, float *panel))              \
    X(gemm, void,                                                                                                      \
      (hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride, const float *panel,      \
       size_t panel_stride, float *y, size_t y_stride, const hsc__ending *end))                                        \
    X(few, void,                                                                                                       \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x, size_t x_stride,     \
       int n_rows, float *y, size_t y_stride))                                                                         \
    X(few_t, void,                                                                                                     \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const float *x, size_t x_stride,     \
       int n_rows, float *y, size_t y_stride))                                                                         \
    X(round_bf16, void, (const float *x, int64_t n, uint16_t *y))                                                      \
    X(pack_bf16, void,                                                                                                 \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, uint32_t *panel))             \
    X(pack_t_bf16, void, (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, uint32_t *panel))      \
    X(gemm_bf16, void,                                                                                                 \
      (hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const uint16_t *x, size_t x_stride,                       \
       const uint32_t *panel, float *y, size_t y_stride, const hsc__ending *end))                                      \
    X(few_bf16, void,                                                                                                  \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x, size_t x_stride,  \
       int n_rows, float *y, size_t y_stride))                                                                         \
    X(few_t_bf16, void,                                                                                                \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x, size_t x_stride,  \
       int n_rows, float *y, size_t y_stride))                                                                         \
    X(quantise_x, void, (const float *x, int64_t n, int8_t *q, hsc__x8_group *group))                                  \
    X(pack_q8, void, (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel))  \
    X(gemm_q8, void,                                                                                                   \
      (hsc_dtype dtype, hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x, int64_t k0,            \
       const void *panel, float *y, size_t y_stride, const hsc__ending *end))                                          \
    X(few_q8, void,                                                                                                    \
      (hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x, int n_rows,        \
       float *y, size_t y_stride))                                                                                     \
    X(layer_norm, void, (const float *x, const float *gain, const float *bias, float eps, int n, float *y))            \
    X(rms_norm, void, (const float *x, const float *gain, float eps, int n, float *y))                                 \
    X(softmax, void, (float *row, int n))                                                                              \
    X(scale_cap, void, (float *s, int n, float scale, float cap))                                                      \
    X(act, void, (hsc__act kind, const float *x, int64_t n, float *y))                                                 \
    X(gate, void, (hsc__act kind, const float *g, const float *u, int64_t n, float *y))                                \
    X(add, void, (const float *a, const float *b, int64_t n, float *y))                                                \
    X(rope, void, (float *x, const float *c, const float *s, int half, bool interleaved))                              \
    X(row_sum, float, (const float *p, int n))                                                                         \
    X(row_entropy, float, (const float *p, int n))                                                                     \
    X(row_above, int, (const float *p, int from, int n, float threshold))                                              \
    X(row_maxima, void, (const float *p, int n, float *out))                                                           \
    X(row_received, void, (const float *p, int n, float most, int64_t *acc))

typedef struct hsc__kernels {
    const char *name;   /* "ref", "avx2", "avx512", "neon" */
    int nr;             /* columns of a panel, at most HSC__MAX_NR; also the width of a key tile */
    int nr_bf16, nr_q8; /* columns of the other kinds' panels, at most HSC__MAX_NR */
    int mr;             /* rows that gemm takes at once; blocks of rows are multiples of it for speed only */
    /* Up to this many rows `few` (and its kin) is quicker than pack and gemm. */
    int few_rows, few_rows_bf16, few_rows_q8;
#define HSC_KERNEL_MEMBER(name, type, parameters) type(*name) parameters;
    HSC_KERNEL_LIST(HSC_KERNEL_MEMBER)
#undef HSC_KERNEL_MEMBER
} hsc__kernels;

/* The table in use: the best that this CPU and its operating system support, or the one that HEADSCOPE_ISA names. An
 * unknown or unsupported name falls back to the best. Thread-safe. */
const hsc__kernels *hsc__kernels_get(void);

/* Plain C: fallback and oracle. */
const hsc__kernels *hsc__kernels_ref(void);

/* Each instruction set starts as a copy of a lower one and overrides entries. The CPU must have it. */
void hsc__kernels_init_avx2(hsc__kernels *table);
void hsc__kernels_init_avx512(hsc__kernels *table);
void hsc__kernels_init_neon(hsc__kernels *table);
/* What only some CPUs of the avx512 level have: the bf16 and the q8 kind. */
void hsc__kernels_add_avx512_bf16(hsc__kernels *table);
void hsc__kernels_add_avx512_vnni(hsc__kernels *table);
/* What only some CPUs of the neon level have: the 8-bit dot product. */
void hsc__kernels_add_neon_dotprod(hsc__kernels *table);

/* Tables of every level that this CPU has, lowest (ref) first; returns how many and writes at most capacity. */
int hsc__kernels_all(const hsc__kernels **out, int capacity);

/* True for a dtype that pack_q8 and few_q8 read: the quantised ones. */
bool hsc__kernels_can_q8(hsc_dtype dtype);

/* True for a dtype that dequantise, pack and few read. Block sizes are in base/dtype.h. */
bool hsc__kernels_can_read(hsc_dtype dtype);
/* True for a dtype that quantise writes. */
bool hsc__kernels_can_write(hsc_dtype dtype);

#endif
