/*
 * Statistics of a row, and storing values in narrower types, for AVX-512. Sums go as in simd/rows.h: vector v to
 * accumulator v % 4, then one tree.
 */
#include "kernels/ref/ref.h"
#include "kernels/simd/vec_avx512.h"

enum { SUMS = 4 };

static float total(const vf sum[SUMS])
{
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

float hsc__avx512_row_sum(const float *p, int n)
{
    vf sum[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    for (int i = 0, v = 0; i < n; i += VL, v++) sum[v % SUMS] = vf_add(sum[v % SUMS], vf_load_part(p + i, part(n - i)));
    return total(sum);
}

/*
 * p ln p: p = m 2^e with m in [0.75, 1.5), ln p = e ln 2 + t q(t) for t = m - 1, q a polynomial of degree 9 fitted to
 * ln(1 + t) / t at Chebyshev points; off by at most 3e-8. A weight of 0 gives 0, a NaN NaN.
 */
INLINE vf p_log_p(vf p)
{
    static const float q[] = {0x1.555c6p-2f,  -0x1.00003ep-2f, 0x1.996178p-3f, -0x1.54e596p-3f,
                              0x1.28ce66p-3f, -0x1.0e2b8ep-3f, 0x1.ac49bap-4f, -0x1.6e4bbap-5f};
    vf m = _mm512_getmant_ps(p, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    vf e = _mm512_getexp_ps(_mm512_div_ps(p, m)), t = vf_sub(m, vf_set1(1)), sum = vf_set1(q[7]);
    UNROLL
    for (int i = 6; i >= 0; i--) sum = vf_fma(sum, t, vf_set1(q[i]));
    sum = vf_fma(sum, t, vf_set1(-0.5f));
    sum = vf_fma(sum, t, vf_set1(1));
    vf log = vf_fma(sum, t, vf_mul(e, vf_set1(0.69314718f)));
    return _mm512_mask_mul_ps(vf_zero(), _mm512_cmp_ps_mask(p, vf_zero(), _CMP_NEQ_UQ), p, log);
}

float hsc__avx512_row_entropy(const float *p, int n)
{
    vf sum[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) sum[j] = vf_add(sum[j], p_log_p(vf_load(p + i + j * VL)));
    }
    for (int v = 0; i < n; i += VL, v++) sum[v] = vf_add(sum[v], p_log_p(vf_load_part(p + i, part(n - i))));
    return 0 - total(sum);
}

int hsc__avx512_row_above(const float *p, int from, int n, float threshold)
{
    vf limit = vf_set1(threshold);
    for (int i = from; i < n; i += VL) {
        vpart lanes = part(n - i);
        unsigned above = _mm512_mask_cmp_ps_mask(lanes, vf_load_part(p + i, lanes), limit, _CMP_GT_OQ);
        if (above) return i + __builtin_ctz(above);
    }
    return n;
}

void hsc__avx512_row_maxima(const float *p, int n, float *out)
{
    enum { VECTORS = HSC__MAXIMA / VL };
    vf best[VECTORS];
    int i = HSC__MAXIMA;
    UNROLL
    for (int j = 0; j < VECTORS; j++) best[j] = vf_load(p + j * VL);
    for (; i + HSC__MAXIMA <= n; i += HSC__MAXIMA) {
        UNROLL
        for (int j = 0; j < VECTORS; j++) best[j] = vf_max(best[j], vf_load(p + i + j * VL));
    }
    for (int j = 0; i < n; i += VL, j++) {
        vpart lanes = part(n - i);
        best[j] = _mm512_mask_max_ps(best[j], lanes, best[j], vf_load_part(p + i, lanes));
    }
    UNROLL
    for (int j = 0; j < VECTORS; j++) vf_store(out + j * VL, best[j]);
}

void hsc__avx512_row_received(const float *p, int n, int64_t *acc)
{
    const __m512 unit = _mm512_set1_ps((float)((int64_t)1 << HSC__RECEIVED_BITS));
    for (int i = 0; i < n; i += VL) {
        vf units = _mm512_mul_ps(vf_load_part(p + i, part(n - i)), unit);
        __mmask8 low = (__mmask8)part(n - i), high = (__mmask8)(part(n - i) >> 8);
        __m512i a = _mm512_cvtps_epi64(_mm512_castps512_ps256(units));
        __m512i b = _mm512_cvtps_epi64(_mm512_extractf32x8_ps(units, 1));
        _mm512_mask_storeu_epi64(acc + i, low, _mm512_add_epi64(a, _mm512_maskz_loadu_epi64(low, acc + i)));
        if (high)
            _mm512_mask_storeu_epi64(acc + i + 8, high,
                                     _mm512_add_epi64(b, _mm512_maskz_loadu_epi64(high, acc + i + 8)));
    }
}

static void to_f16(const float *src, int64_t n, uint16_t *dst)
{
    for (int64_t i = 0; i < n; i += VL) {
        vpart lanes = part(n - i < VL ? (int)(n - i) : VL);
        __m256i half = _mm512_cvtps_ph(vf_load_part(src + i, lanes), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(dst + i, lanes, half);
    }
}

void hsc__avx512_quantise(hsc_dtype dtype, const float *src, int64_t n, void *dst)
{
    if (dtype == HSC_F16) to_f16(src, n, dst);
    else hsc__ref_quantise(dtype, src, n, dst);
}
