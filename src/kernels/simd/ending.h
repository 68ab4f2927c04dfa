/* What becomes of a tile of finished sums (hsc__ending): bias and residual on the way from scratch to y. The lines of y
 * are fetched before the tile is computed, because no prefetcher foresees the columns of a matrix. */
#ifndef HSC_KERNELS_SIMD_ENDING_H
#define HSC_KERNELS_SIMD_ENDING_H

#include "kernels/simd/isa.h"

/* The lines that rows [row, row + n_rows) of columns [col, col + n_cols) will go to. */
static inline void fetch_ending(const hsc__ending *end, int row, int n_rows, int col, int n_cols)
{
    enum { LINE = 64 / sizeof(float) };
    for (int r = row; r < row + n_rows; r++) {
        for (int c = col; c < col + n_cols; c += LINE) fetch_far(end->y + (size_t)r * end->y_stride + c);
    }
}

INLINE void end_vector(const hsc__ending *end, int row, int col, vf sum, vpart lanes, bool whole)
{
    const float *residual = end->residual ? end->residual + (size_t)row * end->residual_stride + col : NULL;
    float *y = end->y + (size_t)row * end->y_stride + col;
    if (end->bias) sum = vf_add(sum, whole ? vf_load(end->bias + col) : vf_load_part(end->bias + col, lanes));
    if (residual) sum = vf_add(whole ? vf_load(residual) : vf_load_part(residual, lanes), sum);
    if (whole) vf_store(y, sum);
    else vf_store_part(y, sum, lanes);
}

/* sums: [n_rows][stride], of rows from `row` and columns from `col` on. */
static inline void end_tile(const hsc__ending *end, int row, int n_rows, int col, int n_cols, const float *sums,
                            size_t stride)
{
    for (int r = 0; r < n_rows; r++, sums += stride) {
        int c = 0;
        for (; c + VL <= n_cols; c += VL) end_vector(end, row + r, col + c, vf_load(sums + c), part(VL), true);
        if (c == n_cols) continue;
        vpart lanes = part(n_cols - c);
        end_vector(end, row + r, col + c, vf_load_part(sums + c, lanes), lanes, false);
    }
}

#endif
