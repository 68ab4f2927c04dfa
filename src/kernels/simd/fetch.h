/* Memory fetched ahead of its use, a few cache lines at a time while sums run, in the order in which it will be read.
 */
#ifndef HSC_KERNELS_SIMD_FETCH_H
#define HSC_KERNELS_SIMD_FETCH_H

/* Runs of `count` lines, `step` bytes from line to line; `turn` bytes from the end of a run to the next run's first. */
typedef struct fetches {
    const unsigned char *at;
    ptrdiff_t step, turn;
    int count, left;
    int lines; /* at a time */
} fetches;

INLINE fetches fetches_of(const unsigned char *at, ptrdiff_t step, int count, ptrdiff_t from_run_to_run, int lines)
{
    return (fetches){at, step, from_run_to_run - step * count, count, count, lines};
}

INLINE void fetch_next(fetches *f)
{
    for (int i = 0; i < f->lines; i++) {
        fetch_far(f->at);
        f->at += f->step;
        if (--f->left > 0) continue;
        f->left = f->count;
        f->at += f->turn;
    }
}

/* `lines` lines one after the other. */
INLINE void fetch_run(const unsigned char *at, const int lines)
{
    UNROLL
    for (int i = 0; i < lines; i++) fetch_far(at + 64 * i);
}

/* gemm that fetches some lines with every FETCH_STEP values of every tile; `ahead` may be NULL. */
enum { FETCH_STEP = 16 };
void KERNEL(gemm_ahead)(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const float *x, size_t x_stride,
                        const float *panel, size_t panel_stride, float *y, size_t y_stride, fetches *ahead);

#endif
