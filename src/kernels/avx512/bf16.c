/*
 * The bf16 compute kind with AVX-512's dot product of pairs (VDPBF16PS). Each output is one lane that takes its pairs
 * in rising k. Few rows take bfloat16 weights as they are mapped: pairs of 16 rows are turned round in registers and
 * multiplied at once. Packing is that of every level; a tile here multiplies pairs as they lie, without widening them.
 */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#else
#pragma GCC target("avx512bf16")
#endif
#include "kernels/simd/vec_avx512.h"

#include "base/dtype.h"
#include "kernels/simd/ending.h"
#include "kernels/simd/fetch.h"
#include "kernels/simd/load.h"

enum { PAIRS = 2 * VL, DIRECT_ROWS = 8 };

void hsc__avx512_round_bf16(const float *x, int64_t n, uint16_t *y)
{
    for (int64_t i = 0; i < n; i += VL) {
        vpart lanes = part(n - i < VL ? (int)(n - i) : VL);
        _mm256_mask_storeu_epi16(y + i, lanes, (__m256i)_mm512_cvtneps_pbh(vf_load_part(x + i, lanes)));
    }
}

/* Lane o: low half = bf16 of a[o], high half = bf16 of b[o]. */
INLINE vi pair(vf a, vf b)
{
    __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
    __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* A panel of floats becomes one of pairs. */
static void pair_up(const float *wide, int n_k, uint32_t *panel)
{
    for (int k = 0; k < n_k; k += 2, panel += NR) {
        for (int v = 0; v < NV; v++) {
            const float *low = wide + (size_t)k * NR + v * VL;
            _mm512_storeu_si512(panel + v * VL, pair(vf_load(low), k + 1 < n_k ? vf_load(low + NR) : vf_zero()));
        }
    }
}

/* Rows of bfloat16 lie as pairs already: 32-bit words, turned round 16 x 16. */
static void pack_pairs(const unsigned char *const rows[VL], size_t row_bytes, int n_k, uint32_t *panel)
{
    for (int k = 0; k < n_k; k += 2 * VL) {
        int left = n_k - k < 2 * VL ? n_k - k : 2 * VL; /* values */
        __mmask32 lanes = left == 2 * VL ? 0xFFFFFFFFu : (1u << left) - 1;
        vf t[VL], quad[4];
        UNROLL
        for (int i = 0; i < VL; i++) {
            t[i] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(lanes, rows[i] + 2 * k));
            fetch_far(rows[i] + NR * row_bytes + 2 * k); /* the next panel: no prefetcher foresees so many rows */
        }
        vf_regroup(t);
        for (int g = 0; 4 * g < (left + 1) / 2; g++) {
            vf_quad(t + 4 * g, quad);
            for (int i = 0; i < 4 && 4 * g + i < (left + 1) / 2; i++)
                vf_store((float *)(void *)(panel + (size_t)(k / 2 + 4 * g + i) * NR), quad[i]);
        }
    }
}

#include "kernels/simd/bf16_pack.h"

/* One tile of `rows` rows; `tail` cuts the second vector, or the first when there is one. */
INLINE void tile(const int rows, const int vecs, hsc__gemm_mode mode, int n_k, const uint16_t *x, size_t x_stride,
                 const uint32_t *panel, float *y, size_t y_stride, vpart tail)
{
    vf sum[MR][NV];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            const float *p = y + (size_t)r * y_stride + v * VL;
            sum[r][v] = mode == HSC__GEMM_CONTINUE ? vf_load_part(p, v == vecs - 1 ? tail : part(VL)) : vf_zero();
        }
    }
    for (int k = 0; k < n_k; k += 2, panel += NR) {
        __m512bh w[NV];
        UNROLL
        for (int v = 0; v < vecs; v++) w[v] = (__m512bh)_mm512_loadu_si512(panel + v * VL);
        UNROLL
        for (int r = 0; r < rows; r++) {
            int both;
            memcpy(&both, x + (size_t)r * x_stride + k, sizeof both);
            __m512bh a = (__m512bh)_mm512_set1_epi32(both);
            UNROLL
            for (int v = 0; v < vecs; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], a, w[v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            float *p = y + (size_t)r * y_stride + v * VL;
            vpart lanes = v == vecs - 1 ? tail : part(VL);
            if (mode == HSC__GEMM_ADD) sum[r][v] = vf_add(vf_load_part(p, lanes), sum[r][v]);
            vf_store_part(p, sum[r][v], lanes);
        }
    }
}

#define TILE(rows)                                                                                                     \
    static void tile_##rows(hsc__gemm_mode mode, int n_k, const uint16_t *x, size_t x_stride, const uint32_t *panel,   \
                            float *y, size_t y_stride, int n_cols)                                                     \
    {                                                                                                                  \
        if (n_cols > VL) tile(rows, 2, mode, n_k, x, x_stride, panel, y, y_stride, part(n_cols - VL));                 \
        else tile(rows, 1, mode, n_k, x, x_stride, panel, y, y_stride, part(n_cols));                                  \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)

typedef void (*tile_fn)(hsc__gemm_mode mode, int n_k, const uint16_t *x, size_t x_stride, const uint32_t *panel,
                        float *y, size_t y_stride, int n_cols);
static const tile_fn tiles[MR] = {tile_1, tile_2, tile_3, tile_4,  tile_5,  tile_6,
                                  tile_7, tile_8, tile_9, tile_10, tile_11, tile_12};

void hsc__avx512_gemm_bf16(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const uint16_t *x, size_t x_stride,
                           const uint32_t *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    int blocks = (n_rows + MR - 1) / MR;
    for (int b = 0, r = 0; b < blocks; b++) { /* as equal as can be */
        int rows = n_rows / blocks + (b < n_rows % blocks);
        float *sums = y + (size_t)r * y_stride;
        if (end) fetch_ending(end, r, rows, 0, n_cols);
        tiles[rows - 1](mode, n_k, x + (size_t)r * x_stride, x_stride, panel, sums, y_stride, n_cols);
        if (end) end_tile(end, r, rows, 0, n_cols, sums, y_stride);
        r += rows;
    }
}

/* VL outputs of a weight of bfloat16, straight from the mapping. */
typedef struct strip {
    const unsigned char *rows[VL];
    const uint16_t *x;
    size_t x_stride;
    const unsigned char *ahead; /* what is read after these rows, in the order in which it lies */
} strip;

/* A block of at most PAIRS values from k on, whose lanes exist as said. */
INLINE void strip_block(const int rows, const strip *s, int64_t k, int n_pairs, __mmask32 lanes, vf sum[DIRECT_ROWS])
{
    vf t[VL];
    UNROLL
    for (int i = 0; i < VL; i++) t[i] = vf_bits(_mm512_maskz_loadu_epi16(lanes, s->rows[i] + 2 * k));
    vf_regroup(t);
    UNROLL
    for (int g = 0; g < VL; g += 4) {
        vf quad[4];
        vf_quad(t + g, quad);
        UNROLL
        for (int i = 0; i < 4; i++) {
            if (g + i >= n_pairs) return;
            UNROLL
            for (int r = 0; r < rows; r++) {
                int both;
                memcpy(&both, s->x + (size_t)r * s->x_stride + k + 2 * (g + i), sizeof both);
                sum[r] = _mm512_dpbf16_ps(sum[r], (__m512bh)vi_bits(quad[i]), (__m512bh)vi_set1(both));
            }
        }
    }
}

INLINE void strip_rows(const int rows, strip *s, int64_t n_in, float *y, size_t y_stride, vpart lanes)
{
    for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
        int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK, k = 0;
        vf sum[DIRECT_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) sum[r] = vf_zero();
        for (; k + PAIRS <= n_k; k += PAIRS) {
            fetch_run(s->ahead, VL);
            s->ahead += VL * 64;
            strip_block(rows, s, k0 + k, VL, 0xFFFFFFFFu, sum);
        }
        if (k < n_k) strip_block(rows, s, k0 + k, (n_k - k + 1) / 2, (1u << (n_k - k)) - 1, sum);
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *to = y + (size_t)r * y_stride;
            vf_store_part(to, k0 ? vf_add(vf_load_part(to, lanes), sum[r]) : sum[r], lanes);
        }
    }
}

typedef void (*strip_fn)(strip *s, int64_t n_in, float *y, size_t y_stride, vpart lanes);

#define STRIP(rows)                                                                                                    \
    static void strip_##rows(strip *s, int64_t n_in, float *y, size_t y_stride, vpart lanes)                           \
    {                                                                                                                  \
        strip_rows(rows, s, n_in, y, y_stride, lanes);                                                                 \
    }
STRIP(1)
STRIP(2)
STRIP(3)
STRIP(4)
STRIP(5)
STRIP(6)
STRIP(7)
STRIP(8)

static const strip_fn strips[DIRECT_ROWS] = {strip_1, strip_2, strip_3, strip_4, strip_5, strip_6, strip_7, strip_8};

static void few_direct(const unsigned char *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                       size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    for (int o = 0; o < n_out; o += VL, w += VL * row_bytes) {
        strip s = {.x = x, .x_stride = x_stride, .ahead = w + VL * row_bytes};
        find_rows(s.rows, w, row_bytes, n_out - o);
        strips[n_rows - 1](&s, n_in, y + o, y_stride, part(n_out - o));
    }
}

/* Other types, and more rows: panels. */
static void few_panels(hsc_dtype dtype, bool transposed, const char *w, size_t row_bytes, int n_out, int64_t n_in,
                       const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    uint32_t panel[HSC__K_CHUNK / 2 * NR];
    for (int o = 0; o < n_out; o += NR) {
        int n = n_out - o < NR ? n_out - o : NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            if (transposed)
                hsc__avx512_pack_t_bf16(dtype, w + (size_t)k0 * row_bytes + hsc__dtype_bytes(dtype, (size_t)o),
                                        row_bytes, n, n_k, panel);
            else hsc__avx512_pack_bf16(dtype, w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, panel);
            hsc__avx512_gemm_bf16(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x + k0, x_stride, panel, y + o,
                                  y_stride, NULL);
        }
    }
}

void hsc__avx512_few_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                          size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    if (n_rows <= 0) return;
    if (dtype == HSC_BF16 && n_rows <= DIRECT_ROWS)
        few_direct(w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
    else few_panels(dtype, false, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void hsc__avx512_few_t_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in,
                            const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    few_panels(dtype, true, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void hsc__kernels_add_avx512_bf16(hsc__kernels *table)
{
    table->nr_bf16 = NR;
    table->few_rows_bf16 = DIRECT_ROWS;
    table->round_bf16 = hsc__avx512_round_bf16;
    table->pack_bf16 = hsc__avx512_pack_bf16;
    table->pack_t_bf16 = hsc__avx512_pack_t_bf16;
    table->gemm_bf16 = hsc__avx512_gemm_bf16;
    table->few_bf16 = hsc__avx512_few_bf16;
    table->few_t_bf16 = hsc__avx512_few_t_bf16;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
