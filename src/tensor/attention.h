/*
 * Attention over a key/value cache: softmax(q k^T scale + bias) v (Vaswani et al. 2017, eq. 1), exact, with nothing of
 * size n x n kept. A block of query rows holds all its scores at once, so softmax needs no rescaling and whoever
 * watches reads the very rows that are used.
 */
#ifndef HSC_TENSOR_ATTENTION_H
#define HSC_TENSOR_ATTENTION_H

#include "tensor/exec.h"
#include "tensor/kv.h"

/* One sequence's share of the queries. */
typedef struct hsc__attention_seq {
    int row;     /* its first query row in q and z */
    int n_query; /* its query rows */
    int first;   /* position of the first query */
    int n_key;   /* positions that the cache holds, these queries' own included */
    hsc__kv kv;
} hsc__attention_seq;

/* Called with a finished block of one head: rows [n_rows][n_key], row r at data + r * stride, the first being query
 * `first_query` of sequence `seq` (both count inside this call). Several workers at once. Non-zero cancels. */
typedef int (*hsc__attention_fn)(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data,
                                 size_t stride);

/* Called with each finished row of weights, after on_pattern: `row` is indexed by key position and holds weights in
 * [low, high); from `start` (below low, fixed by the row) to low it is 0. */
typedef void (*hsc__attention_row_fn)(void *user, int worker, int seq, int head, int query, int start, int low,
                                      int high, const float *row);

typedef struct hsc__attention {
    int n_heads, n_kv_heads, d_head;
    bool causal;
    int window;  /* > 0: a query sees keys > its position - window, and < its position + window */
    float scale; /* of the dot product */
    float cap;   /* > 0: scores become cap * tanh(score / cap) */
    int sinks;   /* with a window: the first keys stay visible (Xiao et al. 2023) */
    /* [n_heads][2 bias_span + 1]: score += bias of key - query, cut to +-bias_span (Raffel et al. 2020); NULL: none */
    const float *bias;
    int bias_span;
    const float *alibi; /* [n_heads] slopes: score += slope * (key - query) (Press et al. 2021); NULL: none */
    /* Block-sparse attention: allowed[query / block * n_blocks + key / block] != 0; NULL: every block. */
    const unsigned char *allowed;
    int block, n_blocks;
    const float *q; /* rows [n_heads][d_head], q_stride apart */
    size_t q_stride;
    float *z; /* rows [n_heads][d_head], z_stride apart */
    size_t z_stride;
    const hsc__attention_seq *seqs;
    int n_seqs;
    hsc__attention_fn on_scores, on_pattern; /* NULL: nobody watches */
    hsc__attention_row_fn on_row;
    void *user;
} hsc__attention;

/* HSC_ECANCELED when a callback said so, else HSC_OK. */
hsc_status hsc__attention_forward(const hsc__exec *exec, const hsc__attention *job);

/* Floats of scratch a worker needs for up to max_key keys; the cache may be of any type. */
size_t hsc__attention_scratch(const hsc__kernels *kernels, int max_key, int d_head);

#endif
