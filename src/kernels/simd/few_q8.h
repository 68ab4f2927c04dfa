/*
 * few_q8 for AVX2 and NEON: a product of few rows of activations straight from quantised rows as they are mapped. Dot
 * products run along k; the sums of VL rows then go into lanes, and from there on every output takes its groups in
 * rising k, as in gemm_q8.
 */
#ifndef HSC_KERNELS_SIMD_FEW_Q8_H
#define HSC_KERNELS_SIMD_FEW_Q8_H

#include "kernels/simd/fetch.h"
#include "kernels/simd/q8_types.h"

enum { MOST_ROWS = 4 };

/* VL outputs for n_rows rows of activations. */
typedef struct strip {
    const unsigned char *rows[VL];
    const hsc__x8 *x;
    int n_rows;
    const unsigned char *ahead; /* what is read after these rows, in the order in which it lies */
    vf total[MOST_ROWS];        /* of the chunk */
} strip;

INLINE void add_group(hsc_dtype dtype, const int n_rows, strip *s, int64_t g)
{
    const hsc__q8_type type = type_of(dtype);
    const place p = place_of(dtype, g);
    const int bytes = (int)hsc__dtype_bytes(dtype, HSC__K_CHUNK) / 8 * VL; /* of the group in VL rows */
    vb w[VL];
    UNROLL
    for (int i = 0; i < VL; i++) w[i] = group_codes(dtype, s->rows[i] + p.offset, p.g);
    scales found = find_scales(dtype, s->rows, p);
    fetch_run(s->ahead, (bytes + 63) / 64);
    s->ahead += bytes;
    for (int r = 0; r < n_rows; r++) {
        const hsc__x8_group *x = s->x->group + (size_t)r * s->x->group_stride + g;
        vi dot[2];
        vb_dot_rows(is_small(dtype), w, vb_load(s->x->q + (size_t)r * s->x->q_stride + g * GROUP), dot);
        if (!type.halves) dot[0] = vi_add(dot[0], dot[1]);
        for (int h = 0; h < 1 + type.halves; h++)
            s->total[r] = add_part(type, x, h, dot[h], found.scale[h], found.minimum[h], s->total[r]);
    }
}

/* All of k: chunks of HSC__K_CHUNK by themselves, their sums added in order. */
INLINE void add_all(hsc_dtype dtype, const int n_rows, strip *s, int64_t n_in, vf sum[MOST_ROWS])
{
    const int64_t n_groups = n_in / GROUP, chunk = HSC__K_CHUNK / GROUP;
    for (int64_t g0 = 0; g0 < n_groups; g0 += chunk) {
        for (int r = 0; r < n_rows; r++) s->total[r] = vf_zero();
        for (int64_t g = g0; g < g0 + chunk && g < n_groups; g++) add_group(dtype, n_rows, s, g);
        for (int r = 0; r < n_rows; r++) sum[r] = g0 ? vf_add(sum[r], s->total[r]) : s->total[r];
    }
}

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
Q8_TYPES(STRIP)

#define STRIP_ENTRY(type) [HSC_##type] = {one_##type, some_##type},
static const strip_fn strips[HSC_N_DTYPES][2] = {Q8_TYPES(STRIP_ENTRY)};

void KERNEL(few_q8)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
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
