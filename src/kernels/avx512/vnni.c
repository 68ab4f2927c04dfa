/*
 * The q8 compute kind with AVX-512's 8-bit dot product (VPDPBUSD): four products a lane and instruction. Panels as
 * kernels.h describes them; integer sums are exact, so only the order of the float sums over groups matters.
 */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512vnni"))), apply_to = function)
#else
#pragma GCC target("avx512vnni")
#endif
#include "kernels/simd/vec_avx512.h"

#include "base/dtype.h"
#include "kernels/half.h"

enum { GROUP = HSC__Q8_GROUP, STEPS = GROUP / 4, ROWS = 6 /* 12 integer and 12 float accumulators */ };

void hsc__avx512_quantise_x(const float *x, int64_t n, uint8_t *q, float *d, float *sum)
{
    for (int64_t g = 0; g < n / GROUP; g++, x += GROUP, q += GROUP) {
        vf a = vf_load(x), b = vf_load(x + VL);
        float most = vf_largest(vf_max(_mm512_abs_ps(a), _mm512_abs_ps(b)));
        vf inverse = vf_set1(most > 0 ? 127 / most : 0);
        __m512i i = _mm512_cvtps_epi32(vf_mul(a, inverse)), j = _mm512_cvtps_epi32(vf_mul(b, inverse));
        __m512i offset = _mm512_set1_epi32(128);
        d[g] = most / 127;
        sum[g] = d[g] * (float)_mm512_reduce_add_epi32(_mm512_add_epi32(i, j));
        _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(_mm512_add_epi32(i, offset)));
        _mm_storeu_si128((void *)(q + VL), _mm512_cvtepi32_epi8(_mm512_add_epi32(j, offset)));
    }
}

/* The 32 values of a block as signed bytes. */
INLINE __m256i block_values(hsc_dtype dtype, const unsigned char *b)
{
    if (dtype == HSC_Q8_0) return _mm256_loadu_si256((const void *)(b + 2));
    const size_t scales = dtype == HSC_Q4_1 || dtype == HSC_Q5_1 ? 4 : 2;
    const bool five = dtype == HSC_Q5_0 || dtype == HSC_Q5_1;
    __m128i halves = _mm_loadu_si128((const void *)(b + scales + (five ? 4 : 0)));
    __m256i q = _mm256_set_m128i(_mm_srli_epi16(halves, 4), halves);
    q = _mm256_and_si256(q, _mm256_set1_epi8(15));
    if (five) {
        uint32_t bits;
        memcpy(&bits, b + scales, sizeof bits);
        q = _mm256_or_si256(q, _mm256_maskz_set1_epi8(bits, 16));
    }
    if (dtype == HSC_Q4_0) q = _mm256_sub_epi8(q, _mm256_set1_epi8(8));
    if (dtype == HSC_Q5_0) q = _mm256_sub_epi8(q, _mm256_set1_epi8(16));
    return q;
}

/* Half-precision numbers at rows[i] + offset as floats. */
INLINE vf scales_at(const unsigned char *const rows[VL], size_t offset)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(vi_gather16(rows, offset)));
}

/* Turns round two groups (the second may be absent) of 16 rows and writes them into the panel from column `at` on. */
INLINE void pack_groups(hsc_dtype dtype, const unsigned char *const rows[VL], bool two, vpart present, char *group,
                        size_t at)
{
    const size_t bytes = (size_t)hsc__dtype_block_bytes(dtype), numbers = (size_t)GROUP * NR;
    vf t[VL], quad[4];
    UNROLL
    for (int i = 0; i < VL; i++) {
        __m512i both = _mm512_castsi256_si512(block_values(dtype, rows[i]));
        if (two) both = _mm512_inserti64x4(both, block_values(dtype, rows[i] + bytes), 1);
        t[i] = _mm512_castsi512_ps(present >> i & 1 ? both : _mm512_setzero_si512());
    }
    vf_regroup(t);
    for (int g = 0; g < 1 + two; g++, group += hsc__q8_group_bytes(NR)) {
        __m512i sum = _mm512_setzero_si512();
        for (int h = 0; h < 2; h++) {
            vf_quad(t + 8 * g + 4 * h, quad);
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8((char)0x80), _mm512_castps_si512(quad[i]));
                vf_store((float *)(void *)(group + ((size_t)(4 * h + i) * NR + at) * 4), quad[i]);
            }
        }
        vf scale = scales_at(rows, (size_t)g * bytes), min = vf_zero();
        if (dtype == HSC_Q4_1 || dtype == HSC_Q5_1) min = scales_at(rows, (size_t)g * bytes + 2);
        float *tail = (float *)(void *)(group + numbers);
        _mm512_storeu_si512(tail + at, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
        vf_store(tail + NR + at, _mm512_maskz_mov_ps(present, scale));
        vf_store(tail + 2 * NR + at, _mm512_maskz_mov_ps(present, min));
    }
}

INLINE void pack_type(hsc_dtype dtype, const unsigned char *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                      char *panel)
{
    size_t start = hsc__dtype_bytes(dtype, (size_t)k0), bytes = (size_t)hsc__dtype_block_bytes(dtype);
    for (int v = 0; v < NV; v++) {
        const unsigned char *rows[VL];
        int n = n_out - v * VL;
        for (int i = 0; i < VL; i++) rows[i] = w + (size_t)(i < n ? v * VL + i : 0) * row_bytes + start;
        vpart present = part(n > 0 ? n : 0);
        for (int g = 0; g < n_k / GROUP; g += 2) {
            bool two = g + 1 < n_k / GROUP;
            pack_groups(dtype, rows, two, present, panel + (size_t)g * hsc__q8_group_bytes(NR), (size_t)v * VL);
            for (int i = 0; i < VL; i++) {
                rows[i] += 2 * bytes;
                fetch_far(rows[i] + NR * row_bytes); /* the next panel: no prefetcher foresees so many rows */
            }
        }
    }
}

void hsc__avx512_pack_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel)
{
    switch (dtype) {
    case HSC_Q4_0: pack_type(HSC_Q4_0, w, row_bytes, n_out, k0, n_k, panel); return;
    case HSC_Q4_1: pack_type(HSC_Q4_1, w, row_bytes, n_out, k0, n_k, panel); return;
    case HSC_Q5_0: pack_type(HSC_Q5_0, w, row_bytes, n_out, k0, n_k, panel); return;
    case HSC_Q5_1: pack_type(HSC_Q5_1, w, row_bytes, n_out, k0, n_k, panel); return;
    default: pack_type(HSC_Q8_0, w, row_bytes, n_out, k0, n_k, panel); return;
    }
}

INLINE void tile(const int rows, hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0, const char *panel,
                 float *y, size_t y_stride, int n_cols)
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
    const uint8_t *q = x->q + k0;
    const float *d = x->d + k0 / GROUP, *sums = x->sum + k0 / GROUP;
    for (int g = 0; g < n_k / GROUP; g++, panel += hsc__q8_group_bytes(NR), q += GROUP) {
        const float *tail = (const float *)(const void *)(panel + (size_t)GROUP * NR);
        __m512i dot[ROWS][NV];
        UNROLL
        for (int v = 0; v < NV; v++) {
            __m512i correction = _mm512_loadu_si512(tail + v * VL);
            UNROLL
            for (int r = 0; r < rows; r++) dot[r][v] = correction;
        }
        UNROLL
        for (int s = 0; s < STEPS; s++) {
            __m512i w[NV];
            UNROLL
            for (int v = 0; v < NV; v++) w[v] = _mm512_loadu_si512(panel + ((size_t)s * NR + (size_t)v * VL) * 4);
            UNROLL
            for (int r = 0; r < rows; r++) {
                int four;
                memcpy(&four, q + (size_t)r * x->q_stride + 4 * s, sizeof four);
                __m512i a = _mm512_set1_epi32(four);
                UNROLL
                for (int v = 0; v < NV; v++) dot[r][v] = _mm512_dpbusd_epi32(dot[r][v], a, w[v]);
            }
        }
        UNROLL
        for (int v = 0; v < NV; v++) {
            vf scale = vf_load(tail + NR + v * VL), min = vf_load(tail + 2 * NR + v * VL);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vf step = vf_mul(vf_set1(d[(size_t)r * x->d_stride + (size_t)g]), scale);
                total[r][v] = vf_fma(step, _mm512_cvtepi32_ps(dot[r][v]), total[r][v]);
                total[r][v] = vf_fma(vf_set1(sums[(size_t)r * x->d_stride + (size_t)g]), min, total[r][v]);
            }
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

#define TILE(rows)                                                                                                     \
    static void tile_##rows(hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0, const char *panel, float *y,   \
                            size_t y_stride, int n_cols)                                                               \
    {                                                                                                                  \
        tile(rows, mode, n_k, x, k0, panel, y, y_stride, n_cols);                                                      \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

typedef void (*tile_fn)(hsc__gemm_mode mode, int n_k, const hsc__x8 *x, int64_t k0, const char *panel, float *y,
                        size_t y_stride, int n_cols);
static const tile_fn tiles[ROWS] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

void hsc__avx512_gemm_q8(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x, int64_t k0,
                         const void *panel, float *y, size_t y_stride)
{
    hsc__x8 at = *x;
    int blocks = (n_rows + ROWS - 1) / ROWS;
    for (int b = 0; b < blocks; b++) {
        int rows = n_rows / blocks + (b < n_rows % blocks);
        tiles[rows - 1](mode, n_k, &at, k0, panel, y, y_stride, n_cols);
        at.q += (size_t)rows * at.q_stride;
        at.d += (size_t)rows * at.d_stride;
        at.sum += (size_t)rows * at.d_stride;
        y += (size_t)rows * y_stride;
    }
}

void hsc__avx512_few_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                        int n_rows, float *y, size_t y_stride)
{
    _Alignas(64) char panel[HSC__K_CHUNK / GROUP * NR * (GROUP + 12)];
    for (int o = 0; o < n_out; o += NR) {
        int n = n_out - o < NR ? n_out - o : NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            hsc__avx512_pack_q8(dtype, (const char *)w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, panel);
            hsc__avx512_gemm_q8(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x, k0, panel, y + o, y_stride);
        }
    }
}

void hsc__kernels_add_avx512_vnni(hsc__kernels *table)
{
    table->nr_q8 = NR;
    table->few_rows_q8 = 4;
    table->quantise_x = hsc__avx512_quantise_x;
    table->pack_q8 = hsc__avx512_pack_q8;
    table->gemm_q8 = hsc__avx512_gemm_q8;
    table->few_q8 = hsc__avx512_few_q8;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
