/*
 * The bf16 compute kind with AVX-512's dot product of pairs (VDPBF16PS). Each output is one lane that takes its pairs
 * in rising k. Products of few rows are panels too: unpacking a panel costs less than reading it from memory.
 */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#else
#pragma GCC target("avx512bf16")
#endif
#include "kernels/simd/vec_avx512.h"

#include "base/dtype.h"

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

static void pack_bf16_rows(const unsigned char *w, size_t row_bytes, int n_out, int64_t k0, int n_k, uint32_t *panel)
{
    static const unsigned char zeros[2 * HSC__K_CHUNK];
    for (int v = 0; v < NV; v++) {
        const unsigned char *rows[VL];
        for (int i = 0; i < VL; i++) {
            int o = v * VL + i;
            rows[i] = o < n_out ? w + (size_t)o * row_bytes + 2 * (size_t)k0 : zeros;
        }
        pack_pairs(rows, row_bytes, n_k, panel + v * VL);
    }
}

void hsc__avx512_pack_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k,
                           uint32_t *panel)
{
    float wide[HSC__K_CHUNK * NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK, panel += HSC__K_CHUNK / 2 * NR) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        if (dtype == HSC_BF16) {
            pack_bf16_rows(w, row_bytes, n_out, k0 + done, n, panel);
            continue;
        }
        hsc__avx512_pack(dtype, w, row_bytes, n_out, k0 + done, n, wide);
        pair_up(wide, n, panel);
    }
}

void hsc__avx512_pack_t_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int n_k, uint32_t *panel)
{
    float wide[HSC__K_CHUNK * NR];
    for (int done = 0; done < n_k; done += HSC__K_CHUNK, panel += HSC__K_CHUNK / 2 * NR) {
        int n = n_k - done < HSC__K_CHUNK ? n_k - done : HSC__K_CHUNK;
        hsc__avx512_pack_t(dtype, (const char *)w + (size_t)done * row_bytes, row_bytes, n_out, n, wide);
        pair_up(wide, n, panel);
    }
}

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
                           const uint32_t *panel, float *y, size_t y_stride)
{
    int blocks = (n_rows + MR - 1) / MR;
    for (int b = 0, r = 0; b < blocks; b++) { /* as equal as can be */
        int rows = n_rows / blocks + (b < n_rows % blocks);
        tiles[rows - 1](mode, n_k, x + (size_t)r * x_stride, x_stride, panel, y + (size_t)r * y_stride, y_stride,
                        n_cols);
        r += rows;
    }
}

static void few(hsc_dtype dtype, bool transposed, const char *w, size_t row_bytes, int n_out, int64_t n_in,
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
                                  y_stride);
        }
    }
}

void hsc__avx512_few_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const uint16_t *x,
                          size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    few(dtype, false, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void hsc__avx512_few_t_bf16(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in,
                            const uint16_t *x, size_t x_stride, int n_rows, float *y, size_t y_stride)
{
    few(dtype, true, w, row_bytes, n_out, n_in, x, x_stride, n_rows, y, y_stride);
}

void hsc__kernels_add_avx512_bf16(hsc__kernels *table)
{
    table->nr_bf16 = NR;
    table->few_rows_bf16 = 4;
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
