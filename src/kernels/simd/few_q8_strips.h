/*
 * few_q8's way through a weight, on every level: VL of its rows at a time, MOST_ROWS rows of activations at most, the
 * type and the case of one row known when it is compiled. Before it stands add_all of the level.
 */
#ifndef HSC_KERNELS_SIMD_FEW_Q8_STRIPS_H
#define HSC_KERNELS_SIMD_FEW_Q8_STRIPS_H

typedef void (*strip_fn)(strip *s, int64_t n_in, vf sum[MOST_ROWS]);

#define STRIP(type)                                                                                                    \
    static void one_##type(strip *s, int64_t n_in, vf sum[MOST_ROWS])                                                  \
    {                                                                                                                  \
        add_all(HSC_##type, 1, s, n_in, sum);                                                                          \
    }                                                                                                                  \
    static void some_##type(strip *s, int64_t n_in, vf sum[MOST_ROWS])                                                 \
    {                                                                                                                  \
        add_all(HSC_##type, s->n_rows, s, n_in, sum);                                                                  \
    }
HSC__Q8_TYPES(STRIP)

#define STRIP_ENTRY(type) [HSC_##type] = {one_##type, some_##type},
static const strip_fn strips[HSC_N_DTYPES][2] = {HSC__Q8_TYPES(STRIP_ENTRY)};

INLINE void run_strips(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                       int n_rows, float *y, size_t y_stride)
{
    for (int o = 0; o < n_out; o += VL) {
        const unsigned char *first = (const unsigned char *)w + (size_t)o * row_bytes;
        for (int r = 0; r < n_rows; r += MOST_ROWS) {
            hsc__x8 at = {x->q + (size_t)r * x->q_stride, x->group + (size_t)r * x->group_stride, x->q_stride,
                          x->group_stride};
            strip s = {.x = &at, .n_rows = n_rows - r < MOST_ROWS ? n_rows - r : MOST_ROWS};
            vf sum[MOST_ROWS];
            find_rows(s.rows, first, row_bytes, n_out - o);
            s.ahead = first + VL * row_bytes;
            strips[dtype][s.n_rows > 1](&s, n_in, sum);
            for (int i = 0; i < s.n_rows; i++)
                vf_store_part(y + (size_t)(r + i) * y_stride + o, sum[i], part(n_out - o));
        }
    }
}

#endif
