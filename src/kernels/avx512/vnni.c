/*
 * The q8 compute kind with AVX-512's 8-bit dot product (VPDPBUSD): four products a lane and instruction. Integer sums
 * are exact, so only the order of the float sums over groups matters.
 */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512vnni"))), apply_to = function)
#else
#pragma GCC target("avx512vnni")
#endif
#include "kernels/simd/vec_avx512.h"

#include "kernels/avx512/q8_types.h"
#include "kernels/simd/ending.h"
#include "kernels/simd/q8_panel.h"

enum { ROWS = 6 /* 12 integer and 12 float accumulators */ };

void hsc__avx512_quantise_x(const float *x, int64_t n, int8_t *q, hsc__x8_group *group)
{
    for (; n > 0; n -= GROUP, x += GROUP, q += GROUP, group++) {
        vf a = vf_load(x), b = vf_load(x + VL);
        float most = vf_largest(vf_max(vf_abs(a), vf_abs(b)));
        vf odd = vf_fma(a, vf_zero(), vf_mul(b, vf_zero())); /* NaN as soon as one value is not finite */
        if (hsc__q8_empty_group(most, vf_sum(odd), q, group)) continue;
        vf inverse = vf_set1(127 / most);
        vi i = _mm512_cvtps_epi32(vf_mul(a, inverse)), j = _mm512_cvtps_epi32(vf_mul(b, inverse));
        group->d = most / 127;
        group->first = _mm512_reduce_add_epi32(i);
        group->total = group->first + _mm512_reduce_add_epi32(j);
        group->sum = group->d * (float)group->total;
        _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(i));
        _mm_storeu_si128((void *)(q + VL), _mm512_cvtepi32_epi8(j));
    }
}

/* Half of the codes of a quad of VL rows, turned round; they become steps `step` and on of n_groups groups. */
INLINE void pack_codes(vf t[VL], int n_groups, int step, char *group)
{
    vf_regroup(t);
    for (int g = 0; g < n_groups; g++, group += hsc__q8_group_bytes(NR)) {
        vf quad[4];
        vf_quad(t + 4 * g, quad);
        UNROLL
        for (int i = 0; i < 4; i++) vf_store((float *)(void *)codes_at(group, step + i), quad[i]);
    }
}

/* A quad of VL rows into the columns of the panel from `group` on. */
INLINE void pack_quad(hsc_dtype dtype, const unsigned char *const rows[VL], const place *p, int n_groups, char *group)
{
    const hsc__q8_type type = hsc__q8_type_of(dtype);
    vf low[VL], high[VL];
    UNROLL
    for (int i = 0; i < VL; i++) {
        codes c = quad_codes(dtype, rows[i], p);
        low[i] = vf_bits(c.low);
        high[i] = vf_bits(c.high);
    }
    pack_codes(low, n_groups, 0, group);
    pack_codes(high, n_groups, STEPS / 2, group);
    quad_scales s;
    find_scales(dtype, rows, p, &s);
    UNROLL
    for (int g = 0; g < QUAD; g++, group += hsc__q8_group_bytes(NR)) {
        for (int h = 0; h < 1 + type.halves && g < n_groups; h++) {
            vf_store(scales_at(group, h), s.scale[g][h]);
            if (type.has_minimum) vf_store(minima_at(group, h), s.minimum[g][h]);
        }
    }
}

INLINE void pack_type(hsc_dtype dtype, const unsigned char *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                      char *panel)
{
    const size_t bytes = hsc__dtype_bytes(dtype, HSC__K_CHUNK);
    for (int v = 0; v < NV && v * VL < n_out; v++) {
        const unsigned char *rows[VL];
        find_rows(rows, w + (size_t)(v * VL) * row_bytes, row_bytes, n_out - v * VL);
        for (int k = 0; k < n_k; k += QUAD * GROUP) {
            int n_groups = n_k - k < QUAD * GROUP ? (n_k - k) / GROUP : QUAD;
            place p = place_of(dtype, (k0 + k) / GROUP, n_groups);
            pack_quad(dtype, rows, &p, n_groups,
                      panel + (size_t)(k / GROUP) * hsc__q8_group_bytes(NR) + (size_t)v * VL * sizeof(float));
            for (int i = 0; i < VL; i++) { /* the next panel: no prefetcher foresees so many rows */
                const unsigned char *next = rows[i] + NR * row_bytes + p.offset + (p.half ? bytes / 2 : 0);
                fetch_far(next);
                if (bytes > 128) fetch_far(next + 64);
            }
        }
    }
}

#define PACK(type)                                                                                                     \
    case HSC_##type: pack_type(HSC_##type, w, row_bytes, n_out, k0, n_k, panel); return;

void hsc__avx512_pack_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel)
{
    switch (dtype) {
        PACK(Q4_0)
        PACK(Q4_1)
        PACK(Q5_0)
        PACK(Q5_1)
        PACK(Q2_K)
        PACK(Q3_K)
        PACK(Q4_K)
        PACK(Q5_K)
        PACK(Q6_K)
        PACK(IQ4_NL)
        PACK(IQ4_XS)
    default: pack_type(HSC_Q8_0, w, row_bytes, n_out, k0, n_k, panel); return;
    }
}

/* Steps [from, to) of a group for `rows` rows: dot begins at what the offset takes off. */
INLINE void dot_steps(const int rows, const int from, const int to, char *panel, const int8_t *q, size_t q_stride,
                      vi dot[ROWS][NV])
{
    UNROLL
    for (int s = from; s < to; s++) {
        vi w[NV];
        UNROLL
        for (int v = 0; v < NV; v++) w[v] = _mm512_loadu_si512(codes_at(panel, s) + v * VL * 4);
        UNROLL
        for (int r = 0; r < rows; r++) {
            int four;
            memcpy(&four, q + (size_t)r * q_stride + 4 * s, sizeof four);
            vi a = vi_set1(four);
            UNROLL
            for (int v = 0; v < NV; v++) dot[r][v] = _mm512_dpbusd_epi32(dot[r][v], w[v], a);
        }
    }
}

/* The sums of a group, or of half h of one, are scaled and added. */
INLINE void add_group(const int rows, const hsc__q8_type type, int h, char *panel, const hsc__x8_group *x,
                      size_t x_stride, vi dot[ROWS][NV], vf total[ROWS][NV])
{
    UNROLL
    for (int v = 0; v < NV; v++) {
        vf scale = vf_load(scales_at(panel, h) + v * VL);
        vf minimum = type.has_minimum ? vf_load(minima_at(panel, h) + v * VL) : vf_zero();
        UNROLL
        for (int r = 0; r < rows; r++) {
            const hsc__x8_group *a = x + (size_t)r * x_stride;
            total[r][v] = vf_fma(vf_mul(vf_set1(a->d), scale), vf_from_int(dot[r][v]), total[r][v]);
            if (!type.has_minimum) continue;
            float sum = !type.halves ? a->sum : a->d * (float)(h ? a->total - a->first : a->first);
            total[r][v] = vf_fma(vf_set1(sum), minimum, total[r][v]);
        }
    }
}

INLINE void tile(const int rows, const hsc__q8_type type, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0,
                 char *panel, float *y, size_t y_stride, int n_cols)
{
    vf total[ROWS][NV];
    const vpart lanes[NV] = {part(n_cols), part(n_cols > VL ? n_cols - VL : 0)};
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < NV; v++)
            total[r][v] =
                mode == HSC__GEMM_CONTINUE ? vf_load_part(y + (size_t)r * y_stride + v * VL, lanes[v]) : vf_zero();
    }
    const int8_t *q = x->q + k0;
    const hsc__x8_group *a = x->group + k0 / GROUP;
    for (int g = 0; g < n_k / GROUP; g++, panel += hsc__q8_group_bytes(NR), q += GROUP, a++) {
        UNROLL
        for (int h = 0; h < 1 + type.halves; h++) {
            vi dot[ROWS][NV];
            UNROLL
            for (int r = 0; r < rows; r++) {
                const hsc__x8_group *of = a + (size_t)r * x->group_stride;
                int sum = !type.halves ? of->total : h ? of->total - of->first : of->first;
                UNROLL
                for (int v = 0; v < NV; v++) dot[r][v] = type.has_minimum ? vi_set1(0) : vi_set1(-type.offset * sum);
            }
            dot_steps(rows, h * STEPS / 2, type.halves && !h ? STEPS / 2 : STEPS, panel, q, x->q_stride, dot);
            add_group(rows, type, h, panel, a, x->group_stride, dot, total);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < NV; v++) {
            float *p = y + (size_t)r * y_stride + v * VL;
            if (mode == HSC__GEMM_ADD) total[r][v] = vf_add(vf_load_part(p, lanes[v]), total[r][v]);
            vf_store_part(p, total[r][v], lanes[v]);
        }
    }
}

typedef void (*tile_fn)(int offset, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0, char *panel, float *y,
                        size_t y_stride, int n_cols);

#define TILE(rows, kind, halves, has_minimum)                                                                          \
    static void tile_##kind##_##rows(int offset, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0,           \
                                     char *panel, float *y, size_t y_stride, int n_cols)                               \
    {                                                                                                                  \
        tile(rows, (hsc__q8_type){true, halves, has_minimum, offset}, mode, n_k, x, k0, panel, y, y_stride, n_cols);   \
    }
#define TILES(kind, halves, has_minimum)                                                                               \
    TILE(1, kind, halves, has_minimum)                                                                                 \
    TILE(2, kind, halves, has_minimum)                                                                                 \
    TILE(3, kind, halves, has_minimum)                                                                                 \
    TILE(4, kind, halves, has_minimum)                                                                                 \
    TILE(5, kind, halves, has_minimum)                                                                                 \
    TILE(6, kind, halves, has_minimum)
#define TILE_ROW(kind)                                                                                                 \
    {                                                                                                                  \
        tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, tile_##kind##_4, tile_##kind##_5, tile_##kind##_6           \
    }
TILES(plain, false, false)
TILES(minimum, false, true)
TILES(halves, true, false)
TILES(both, true, true)

static const tile_fn tiles[2][2][ROWS] = {{TILE_ROW(plain), TILE_ROW(minimum)}, {TILE_ROW(halves), TILE_ROW(both)}};

void hsc__avx512_gemm_q8(hsc_dtype dtype, hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x,
                         int64_t k0, const void *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    hsc__q8_type type = hsc__q8_type_of(dtype);
    hsc__x8 at = *x;
    int blocks = (n_rows + ROWS - 1) / ROWS;
    for (int b = 0, r = 0; b < blocks; b++) {
        int rows = n_rows / blocks + (b < n_rows % blocks);
        if (end) fetch_ending(end, r, rows, 0, n_cols);
        tiles[type.halves][type.has_minimum][rows - 1](type.offset, mode, n_k, &at, k0, (char *)(uintptr_t)panel, y,
                                                       y_stride, n_cols);
        if (end) end_tile(end, r, rows, 0, n_cols, y, y_stride);
        at.q += (size_t)rows * at.q_stride;
        at.group += (size_t)rows * at.group_stride;
        y += (size_t)rows * y_stride;
        r += rows;
    }
}

void hsc__kernels_add_avx512_vnni(hsc__kernels *table)
{
    table->nr_q8 = NR;
    table->few_rows_q8 = 8;
    table->quantise_x = hsc__avx512_quantise_x;
    table->pack_q8 = hsc__avx512_pack_q8;
    table->gemm_q8 = hsc__avx512_gemm_q8;
    table->few_q8 = hsc__avx512_few_q8;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
