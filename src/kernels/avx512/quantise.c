/* Storing values in narrower types for AVX-512. */
#include "kernels/ref/ref.h"
#include "kernels/simd/vec_avx512.h"

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
