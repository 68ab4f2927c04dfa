/*
 * gemm: y = x * panel by register tiles of MR rows and NV vectors of columns. Each output is one lane of one
 * accumulator that takes its products in rising k, so its bits depend on neither the tile's size nor its place in it.
 */
#ifndef HSC_KERNELS_SIMD_GEMM_H
#define HSC_KERNELS_SIMD_GEMM_H

#include "kernels/simd/ending.h"
#include "kernels/simd/fetch.h"

#include <assert.h>

/* One tile: rows x vecs is constant after inlining; `tail` says which lanes of the last vector exist when is_cut. */
INLINE void tile(const int rows, const int vecs, const bool is_cut, hsc__gemm_mode mode, int n_k, const float *x,
                 size_t x_stride, const float *panel, size_t panel_stride, float *y, size_t y_stride, vpart tail,
                 fetches *ahead)
{
    vf sum[MR][NV];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            const float *p = y + (size_t)r * y_stride + v * VL;
            if (mode != HSC__GEMM_CONTINUE) sum[r][v] = vf_zero();
            else sum[r][v] = is_cut && v == vecs - 1 ? vf_load_part(p, tail) : vf_load(p);
        }
    }
    /* A pointer every three rows: the other two are reached by the stride, and registers suffice. */
    const float *base[(MR + 2) / 3];
    UNROLL
    for (int i = 0; i < (rows + 2) / 3; i++) base[i] = x + (size_t)(3 * i) * x_stride;
    for (int k = 0; k < n_k; k += FETCH_STEP) { /* a cache line of a row: no prefetcher foresees the next tile's */
        UNROLL
        for (int r = 0; r < rows; r++) fetch_far(base[r / 3] + (size_t)(rows + r % 3) * x_stride);
        if (ahead) fetch_next(ahead);
        for (int left = n_k - k < FETCH_STEP ? n_k - k : FETCH_STEP; left > 0; left--) {
            vf w[NV];
            UNROLL
            for (int v = 0; v < vecs; v++) {
                w[v] = is_cut && v == vecs - 1 ? vf_load_part(panel + v * VL, tail) : vf_load(panel + v * VL);
            }
            UNROLL
            for (int r = 0; r < rows; r++) {
                vf a = vf_set1(base[r / 3][(size_t)(r % 3) * x_stride]);
                UNROLL
                for (int v = 0; v < vecs; v++) sum[r][v] = vf_fma(a, w[v], sum[r][v]);
            }
            UNROLL
            for (int i = 0; i < (rows + 2) / 3; i++) base[i]++;
            panel += panel_stride;
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            float *p = y + (size_t)r * y_stride + v * VL;
            if (is_cut && v == vecs - 1) {
                if (mode == HSC__GEMM_ADD) sum[r][v] = vf_add(vf_load_part(p, tail), sum[r][v]);
                vf_store_part(p, sum[r][v], tail);
            } else {
                if (mode == HSC__GEMM_ADD) sum[r][v] = vf_add(vf_load(p), sum[r][v]);
                vf_store(p, sum[r][v]);
            }
        }
    }
}

typedef void (*tile_fn)(hsc__gemm_mode mode, int n_k, const float *x, size_t x_stride, const float *panel,
                        size_t panel_stride, float *y, size_t y_stride, vpart tail, fetches *ahead);

/* The tiles of `rows` rows: whole, with a cut second vector, and of one vector that may be cut. */
#define TILE(name, rows, vecs, is_cut)                                                                                 \
    static void name(hsc__gemm_mode mode, int n_k, const float *x, size_t x_stride, const float *panel,                \
                     size_t panel_stride, float *y, size_t y_stride, vpart tail, fetches *ahead)                       \
    {                                                                                                                  \
        tile(rows, vecs, is_cut, mode, n_k, x, x_stride, panel, panel_stride, y, y_stride, tail, ahead);               \
    }
#define TILES(rows)                                                                                                    \
    TILE(tile_##rows##_whole, rows, NV, false)                                                                         \
    TILE(tile_##rows##_cut, rows, NV, true)                                                                            \
    TILE(tile_##rows##_one, rows, 1, true)
#define TILE_ROW(rows)                                                                                                 \
    {                                                                                                                  \
        tile_##rows##_whole, tile_##rows##_cut, tile_##rows##_one                                                      \
    }

static_assert(NV == 2, "the three kinds of tile know of two vectors");
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
#if TILE_ROWS > 6
TILES(7)
TILES(8)
TILES(9)
TILES(10)
TILES(11)
TILES(12)
#endif

static const tile_fn tiles[MR][3] = {
    TILE_ROW(1), TILE_ROW(2), TILE_ROW(3), TILE_ROW(4),  TILE_ROW(5),  TILE_ROW(6),
#if TILE_ROWS > 6
    TILE_ROW(7), TILE_ROW(8), TILE_ROW(9), TILE_ROW(10), TILE_ROW(11), TILE_ROW(12),
#endif
};

/* Rows this many floats apart, or a multiple, lie in the same few sets of the first-level cache: of such rows a tile
 * takes fewer, or they would push each other out. */
enum { CLASH = 1024, CLASH_ROWS = 6 };

static void run_tiles(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride,
                      const float *panel, size_t panel_stride, float *y, size_t y_stride, fetches *ahead,
                      const hsc__ending *end)
{
    int most = x_stride % CLASH == 0 ? CLASH_ROWS : MR, blocks = (n_rows + most - 1) / most;
    for (int c = 0; c < n_cols; c += NR) {
        int n = n_cols - c < NR ? n_cols - c : NR, kind = n == NR ? 0 : n > VL ? 1 : 2;
        vpart tail = part(n > VL ? n - VL : n);
        for (int b = 0, r = 0; b < blocks; b++) { /* blocks of rows as equal as can be: no tile is left thin */
            int rows = n_rows / blocks + (b < n_rows % blocks);
            float *sums = y + (size_t)r * y_stride + c;
            if (end) fetch_ending(end, r, rows, c, n);
            tiles[rows - 1][kind](mode, n_k, x + (size_t)r * x_stride, x_stride, panel + c, panel_stride, sums,
                                  y_stride, tail, ahead);
            if (end) end_tile(end, r, rows, c, n, sums, y_stride);
            r += rows;
        }
    }
}

void KERNEL(gemm_ahead)(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride,
                        const float *panel, size_t panel_stride, float *y, size_t y_stride, fetches *ahead)
{
    run_tiles(mode, n_rows, n_cols, n_k, x, x_stride, panel, panel_stride, y, y_stride, ahead, NULL);
}

void KERNEL(gemm)(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride,
                  const float *panel, size_t panel_stride, float *y, size_t y_stride, const hsc__ending *end)
{
    run_tiles(mode, n_rows, n_cols, n_k, x, x_stride, panel, panel_stride, y, y_stride, NULL, end);
}

#endif
