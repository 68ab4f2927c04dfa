/* Statistics of a row for AVX-512. */
#include "kernels/simd/vec_avx512.h"

#include "kernels/simd/careful.h"
#include "kernels/simd/stats.h"

/* By the instruction that makes 64-bit integers of floats: in two thirds of the time of simd/received.h. */
void hsc__avx512_row_received(const float *p, int n, float most, int64_t *acc)
{
    const __m512 unit = _mm512_set1_ps((float)((int64_t)1 << HSC__RECEIVED_BITS));
    if (any_odd(p, n, most)) {
        hsc__ref_row_received(p, n, most, acc);
        return;
    }
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
