/*
 * The q8 compute kind by panels, for AVX2 and NEON. Integer sums are exact, so only the order of the float sums over
 * groups matters.
 */
#ifndef HSC_KERNELS_SIMD_Q8_H
#define HSC_KERNELS_SIMD_Q8_H

#include "kernels/simd/ending.h"
#include "kernels/simd/fetch.h"
#include "kernels/simd/q8_panel.h"
#include "kernels/simd/q8_types.h"

enum { Q8_ROWS = 4, VECTORS = GROUP / VL };

void KERNEL(quantise_x)(const float *x, int64_t n, int8_t *q, hsc__x8_group *group)
{
    for (; n > 0; n -= GROUP, x += GROUP, q += GROUP, group++) {
        vf a[VECTORS], most = vf_zero(), odd = vf_zero();
        vi codes[VECTORS], sum[2] = {vi_set1(0), vi_set1(0)};
        UNROLL
        for (int i = 0; i < VECTORS; i++) {
            a[i] = vf_load(x + i * VL);
            most = vf_max(most, vf_abs(a[i]));
            odd = vf_fma(a[i], vf_zero(), odd); /* NaN as soon as one value is not finite */
        }
        if (hsc__q8_empty_group(vf_largest(most), vf_sum(odd), q, group)) continue;
        float largest = vf_largest(most);
        vf inverse = vf_set1(127 / largest);
        UNROLL
        for (int i = 0; i < VECTORS; i++) {
            codes[i] = vi_round(vf_mul(a[i], inverse));
            sum[i >= VECTORS / 2] = vi_add(sum[i >= VECTORS / 2], codes[i]);
        }
        store_bytes(q, codes);
        group->d = largest / 127;
        group->first = vi_sum(sum[0]);
        group->total = vi_sum(vi_add(sum[0], sum[1]));
        group->sum = group->d * (float)group->total;
    }
}

/* One group of VL rows into the columns of the panel from `group` on: words of four codes, turned round. */
INLINE void pack_group(hsc_dtype dtype, const unsigned char *const rows[VL], place p, char *group)
{
    const hsc__q8_type type = type_of(dtype);
    float words[VL][STEPS];
    UNROLL
    for (int i = 0; i < VL; i++) vb_store(words[i], group_codes(dtype, rows[i] + p.offset, p.g));
    UNROLL
    for (int s = 0; s < STEPS; s += VL) {
        vf t[VL];
        UNROLL
        for (int i = 0; i < VL; i++) t[i] = vf_load(words[i] + s);
        vf_transpose(t);
        UNROLL
        for (int i = 0; i < VL; i++) vf_store((float *)(void *)codes_at(group, s + i), t[i]);
    }
    scales found = find_scales(dtype, rows, p);
    for (int h = 0; h < 1 + type.halves; h++) {
        vf_store(scales_at(group, h), found.scale[h]);
        if (type.has_minimum) vf_store(minima_at(group, h), found.minimum[h]);
    }
}

INLINE void pack_type(hsc_dtype dtype, const unsigned char *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                      char *panel)
{
    for (int v = 0; v < NV && v * VL < n_out; v++) {
        const unsigned char *rows[VL];
        find_rows(rows, w + (size_t)(v * VL) * row_bytes, row_bytes, n_out - v * VL);
        for (int g = 0; g < n_k / GROUP; g++) {
            place p = place_of(dtype, k0 / GROUP + g);
            for (int i = 0; i < VL; i++) fetch_far(rows[i] + NR * row_bytes + p.offset); /* the next panel */
            pack_group(dtype, rows, p, panel + (size_t)g * hsc__q8_group_bytes(NR) + (size_t)v * VL * sizeof(float));
        }
    }
}

#define PACK(type)                                                                                                     \
    case HSC_##type: pack_type(HSC_##type, w, row_bytes, n_out, k0, n_k, panel); return;

void KERNEL(pack_q8)(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel)
{
    switch (dtype) {
        HSC__Q8_TYPES(PACK)
    default: return;
    }
}

/* Steps [from, to) of a group for `rows` rows. */
INLINE void dot_steps(const int rows, const bool small, const int from, const int to, char *panel, const int8_t *q,
                      size_t q_stride, vi dot[Q8_ROWS][NV])
{
    UNROLL
    for (int s = from; s < to; s += 2) {
        UNROLL
        for (int v = 0; v < NV; v++) {
            const vi w[2] = {vi_bits(vf_load(codes_at(panel, s) + v * VL * 4)),
                             vi_bits(vf_load(codes_at(panel, s + 1) + v * VL * 4))};
            UNROLL
            for (int r = 0; r < rows; r++)
                dot[r][v] = vi_dot_two(small, w, q + (size_t)r * q_stride + 4 * s, dot[r][v]);
        }
    }
}

INLINE void dot_group(const int rows, const bool small, const hsc__q8_type type, char *panel, const int8_t *q,
                      size_t q_stride, const hsc__x8_group *a, size_t a_stride, vf total[Q8_ROWS][NV])
{
    UNROLL
    for (int h = 0; h < 1 + type.halves; h++) {
        vi dot[Q8_ROWS][NV];
        UNROLL
        for (int i = 0; i < rows * NV; i++) dot[i / NV][i % NV] = vi_set1(0);
        dot_steps(rows, small, h * STEPS / 2, type.halves && !h ? STEPS / 2 : STEPS, panel, q, q_stride, dot);
        UNROLL
        for (int v = 0; v < NV; v++) {
            vf scale = vf_load(scales_at(panel, h) + v * VL);
            vf minimum = type.has_minimum ? vf_load(minima_at(panel, h) + v * VL) : vf_zero();
            UNROLL
            for (int r = 0; r < rows; r++)
                total[r][v] = add_part(type, a + (size_t)r * a_stride, h, dot[r][v], scale, minimum, total[r][v]);
        }
    }
}

/* A tile of at most Q8_ROWS rows and n_cols columns of a panel. */
INLINE void q8_tile(const int rows, const bool small, const hsc__q8_type type, hsc__gemm_mode mode, int n_k,
                    const hsc__x8 *x, int64_t k0, char *panel, float *y, size_t y_stride, int n_cols)
{
    vf total[Q8_ROWS][NV];
    vpart lanes[NV];
    UNROLL
    for (int v = 0; v < NV; v++) lanes[v] = part(n_cols > v * VL ? n_cols - v * VL : 0);
    UNROLL
    for (int i = 0; i < rows * NV; i++) {
        const float *p = y + (size_t)(i / NV) * y_stride + i % NV * VL;
        total[i / NV][i % NV] = mode == HSC__GEMM_CONTINUE ? vf_load_part(p, lanes[i % NV]) : vf_zero();
    }
    const int8_t *q = x->q + k0;
    const hsc__x8_group *a = x->group + k0 / GROUP;
    for (int g = 0; g < n_k / GROUP; g++, panel += hsc__q8_group_bytes(NR), q += GROUP, a++)
        dot_group(rows, small, type, panel, q, x->q_stride, a, x->group_stride, total);
    UNROLL
    for (int i = 0; i < rows * NV; i++) {
        float *p = y + (size_t)(i / NV) * y_stride + i % NV * VL;
        vf sum = total[i / NV][i % NV];
        vf_store_part(p, mode == HSC__GEMM_ADD ? vf_add(vf_load_part(p, lanes[i % NV]), sum) : sum, lanes[i % NV]);
    }
}

typedef void (*q8_tile_fn)(int offset, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0, char *panel,
                           float *y, size_t y_stride, int n_cols);

#define Q8_TILE(rows, kind, small, halves, has_minimum)                                                                \
    static void q8_##kind##_##rows(int offset, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0,             \
                                   char *panel, float *y, size_t y_stride, int n_cols)                                 \
    {                                                                                                                  \
        q8_tile(rows, small, (hsc__q8_type){true, halves, has_minimum, offset}, mode, n_k, x, k0, panel, y, y_stride,  \
                n_cols);                                                                                               \
    }
#define Q8_TILES(kind, small, halves, has_minimum)                                                                     \
    Q8_TILE(1, kind, small, halves, has_minimum)                                                                       \
    Q8_TILE(2, kind, small, halves, has_minimum)                                                                       \
    Q8_TILE(3, kind, small, halves, has_minimum)                                                                       \
    Q8_TILE(4, kind, small, halves, has_minimum)                                                                       \
    static const q8_tile_fn q8_##kind[Q8_ROWS] = {q8_##kind##_1, q8_##kind##_2, q8_##kind##_3, q8_##kind##_4};
Q8_TILES(bytes, false, false, false)
Q8_TILES(plain, true, false, false)
Q8_TILES(minimum, true, false, true)
Q8_TILES(halves, true, true, false)
Q8_TILES(both, true, true, true)

static const q8_tile_fn *tiles_of(hsc_dtype dtype)
{
    const hsc__q8_type type = hsc__q8_type_of(dtype);
    if (!is_small(dtype)) return q8_bytes;
    if (type.halves) return type.has_minimum ? q8_both : q8_halves;
    return type.has_minimum ? q8_minimum : q8_plain;
}

void KERNEL(gemm_q8)(hsc_dtype dtype, hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x,
                     int64_t k0, const void *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    const q8_tile_fn *tiles = tiles_of(dtype);
    hsc__x8 at = *x;
    int blocks = (n_rows + Q8_ROWS - 1) / Q8_ROWS;
    for (int b = 0, r = 0; b < blocks; b++) { /* as equal as can be */
        int rows = n_rows / blocks + (b < n_rows % blocks);
        if (end) fetch_ending(end, r, rows, 0, n_cols);
        tiles[rows - 1](type_of(dtype).offset, mode, n_k, &at, k0, (char *)(uintptr_t)panel, y, y_stride, n_cols);
        if (end) end_tile(end, r, rows, 0, n_cols, y, y_stride);
        at.q += (size_t)rows * at.q_stride;
        at.group += (size_t)rows * at.group_stride;
        y += (size_t)rows * y_stride;
        r += rows;
    }
}

#endif
