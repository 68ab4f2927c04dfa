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
#include "kernels/simd/few_q8_strip.h"

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

#include "kernels/simd/few_q8_strips.h"

void KERNEL(few_q8)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                    int n_rows, float *y, size_t y_stride)
{
    run_strips(dtype, w, row_bytes, n_out, n_in, x, n_rows, y, y_stride);
}

#endif
