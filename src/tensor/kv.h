/*
 * The keys and values of one sequence in one layer, and how they lie.
 *
 * float32: keys in tiles of nr (the kernel table's panel width) positions, transposed, k[kv_head][cell / nr][d_head]
 * [cell % nr], so that a tile is a panel of gemm; values as rows, v[kv_head][cell][d_head]. Other types: both as rows,
 * unpacked as they are read. Position p lies in cell p % n_cells: with a sliding window a ring, else simply p.
 */
#ifndef HSC_TENSOR_KV_H
#define HSC_TENSOR_KV_H

#include "kernels/kernels.h"

typedef struct hsc__kv {
    hsc_dtype dtype;
    int n_kv_heads, d_head;
    int n_cells;       /* a multiple of HSC__K_CHUNK */
    size_t head_bytes; /* from one kv head to the next */
    char *k, *v;
    /* Positions below n_shared (a multiple of 64) are read from another sequence of the same layout. */
    const char *k_shared, *v_shared;
    int n_shared;
} hsc__kv;

/* Bytes of k (or v) of one kv head. */
size_t hsc__kv_head_bytes(hsc_dtype dtype, int d_head, int n_cells);

/* True for the types that a cache can have: F32, F16, BF16, and Q8_0 when d_head is whole blocks. */
bool hsc__kv_can_store(hsc_dtype dtype, int d_head);

/* Stores n_rows new keys and values, [n_rows][n_kv_heads][d_head] with rows a stride apart, from position `first` on.
 * Positions are stored in rising order: one that begins a tile may clear the keys of the tile's later ones. */
void hsc__kv_store(const hsc__kernels *kernels, const hsc__kv *kv, int first, int n_rows, const float *k,
                   size_t k_stride, const float *v, size_t v_stride);

/* The keys of the nr positions from `position` (a multiple of nr) as a panel [d_head][nr]; unpacked into
 * scratch[d_head * nr] when they are not float32. */
const float *hsc__kv_key_panel(const hsc__kernels *kernels, const hsc__kv *kv, int head, int position, float *scratch);

/* The end of the run of positions from `from` that lie one after the other, at most `to`. */
int hsc__kv_run(const hsc__kv *kv, int from, int to);

/* The values of a run [from, to) of at most HSC__K_CHUNK positions as rows [d_head]; scratch[HSC__K_CHUNK * d_head]. */
const float *hsc__kv_value_rows(const hsc__kernels *kernels, const hsc__kv *kv, int head, int from, int to,
                                float *scratch);

/* Key and value of one position of a head as float32, [d_head] each (for saving). */
void hsc__kv_read(const hsc__kernels *kernels, const hsc__kv *kv, int head, int position, float *k, float *v);

#endif
