/*
 * few_q8 with AVX-512's 8-bit dot product: a product of few rows of activations straight from quantised rows as they
 * are mapped, without packing. A dot product runs along k, 16 lanes of partial sums a quad of groups and row; integer
 * sums may be added in any order, so 16 rows are then summed up into lanes, and from there on every output takes its
 * groups in rising k, as in gemm_q8.
 */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512vnni"))), apply_to = function)
#else
#pragma GCC target("avx512vnni")
#endif
#include "kernels/simd/vec_avx512.h"

#include "kernels/avx512/q8_types.h"
#include "kernels/avx512/q8_words.h"
#include "kernels/simd/fetch.h"

enum { MOST_ROWS = 8 };
#include "kernels/simd/few_q8_strip.h"

/* Lane 4 g + i = the sum over the four lanes of group g of d[i]. */
INLINE vi sum_lanes(const vi d[4])
{
    vi a = vi_add(_mm512_unpacklo_epi32(d[0], d[1]), _mm512_unpackhi_epi32(d[0], d[1]));
    vi b = vi_add(_mm512_unpacklo_epi32(d[2], d[3]), _mm512_unpackhi_epi32(d[2], d[3]));
    return vi_add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* From t[i] = [group][rows 4 i ..] to t[g] = [rows]. */
INLINE void rows_in_lanes(vi t[4])
{
    vi a = _mm512_shuffle_i32x4(t[0], t[1], 0x44), b = _mm512_shuffle_i32x4(t[2], t[3], 0x44);
    vi c = _mm512_shuffle_i32x4(t[0], t[1], 0xEE), d = _mm512_shuffle_i32x4(t[2], t[3], 0xEE);
    t[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    t[1] = _mm512_shuffle_i32x4(a, b, 0xDD);
    t[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    t[3] = _mm512_shuffle_i32x4(c, d, 0xDD);
}

/* A quad of one row of x, laid as the codes of the weights; groups past the end are 0. */
INLINE codes load_x(const int8_t *q, int n_groups)
{
    __mmask16 first = part(n_groups * 8), second = part(n_groups > 2 ? n_groups * 8 - VL : 0);
    vi a = _mm512_maskz_loadu_epi32(first, q), b = _mm512_maskz_loadu_epi32(second, q + 64);
    return (codes){_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD)};
}

/* Sums of products of four weight rows with one row of x; of halves by themselves where the type has a scale for each.
 */
INLINE void multiply_four(const bool halves, const codes w[4], codes x, vi sum[2])
{
    vi low[4], high[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        low[i] = _mm512_dpbusd_epi32(vi_set1(0), w[i].low, x.low);
        high[i] = _mm512_dpbusd_epi32(halves ? vi_set1(0) : low[i], w[i].high, x.high);
    }
    sum[0] = halves ? sum_lanes(low) : sum_lanes(high);
    if (halves) sum[1] = sum_lanes(high);
}

/* The sums of one group (or half h of it) are scaled and added, as in gemm_q8. */
INLINE vf add_part(const hsc__q8_type type, const hsc__x8_group *x, int h, vi dot, vf scale, vf minimum, vf total)
{
    int sum = !type.halves ? x->total : h ? x->total - x->first : x->first;
    if (type.offset) dot = vi_sub(dot, vi_set1(type.offset * sum));
    total = vf_fma(vf_mul(vf_set1(x->d), scale), vf_from_int(dot), total);
    if (!type.has_minimum) return total;
    return vf_fma(vf_set1(type.halves ? x->d * (float)sum : x->sum), minimum, total);
}

INLINE void add_quad(hsc_dtype dtype, const int n_rows, strip *s, int64_t g, int n_groups)
{
    const hsc__q8_type type = hsc__q8_type_of(dtype);
    const place p = place_of(dtype, g, n_groups);
    const size_t quad_bytes = hsc__dtype_bytes(dtype, HSC__K_CHUNK) / 2;
    vi dot[MOST_ROWS][2][4], heads[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        codes w[4];
        if (lies_in_words(dtype)) four_quads(dtype, s->rows + 4 * i, p.offset, n_groups, w, &heads[i]);
        UNROLL
        for (int j = 0; j < 4; j++) {
            if (!lies_in_words(dtype)) w[j] = quad_codes(dtype, s->rows[4 * i + j], &p);
        }
        fetch_run(s->ahead, (int)(quad_bytes + 15) / 16);
        s->ahead += quad_bytes * 4;
        for (int r = 0; r < n_rows; r++) {
            vi sum[2];
            multiply_four(type.halves, w, load_x(s->x->q + (size_t)r * s->x->q_stride + g * GROUP, n_groups), sum);
            dot[r][0][i] = sum[0];
            if (type.halves) dot[r][1][i] = sum[1];
        }
    }
    quad_scales scales;
    if (lies_in_words(dtype)) {
        rows_in_lanes(heads);
        scales_of_heads(dtype, heads, &scales);
    } else {
        find_scales(dtype, s->rows, &p, &scales);
    }
    for (int r = 0; r < n_rows; r++) {
        const hsc__x8_group *x = s->x->group + (size_t)r * s->x->group_stride + g;
        rows_in_lanes(dot[r][0]);
        if (type.halves) rows_in_lanes(dot[r][1]);
        UNROLL
        for (int i = 0; i < QUAD; i++) {
            for (int h = 0; h < 1 + type.halves && i < n_groups; h++)
                s->total[r] =
                    add_part(type, x + i, h, dot[r][h][i], scales.scale[i][h], scales.minimum[i][h], s->total[r]);
        }
    }
}

/* All of k: chunks of HSC__K_CHUNK by themselves, their sums added in order. */
INLINE void add_all(hsc_dtype dtype, const int n_rows, strip *s, int64_t n_in, vf sum[MOST_ROWS])
{
    const int64_t n_groups = n_in / GROUP, chunk = HSC__K_CHUNK / GROUP;
    for (int64_t g = 0; g < n_groups; g += QUAD) {
        for (int r = 0; r < n_rows && g % chunk == 0; r++) {
            if (g) sum[r] = g == chunk ? s->total[r] : vf_add(sum[r], s->total[r]);
            s->total[r] = vf_zero();
        }
        if (n_groups - g >= QUAD) add_quad(dtype, n_rows, s, g, QUAD);
        else add_quad(dtype, n_rows, s, g, (int)(n_groups - g));
    }
    for (int r = 0; r < n_rows; r++) sum[r] = n_groups > chunk ? vf_add(sum[r], s->total[r]) : s->total[r];
}

#include "kernels/simd/few_q8_strips.h"

void hsc__avx512_few_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                        int n_rows, float *y, size_t y_stride)
{
    run_strips(dtype, w, row_bytes, n_out, n_in, x, n_rows, y, y_stride);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
