/* float32 -> stored values, for caches and conversion. Layouts as in dequantise.c. */
#include "kernels/half.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

static void to_half(hsc_dtype dtype, const float *src, int64_t n, unsigned char *dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = dtype == HSC_F16 ? hsc__f32_to_f16(src[i]) : hsc__f32_to_bf16(src[i]);
        memcpy(dst + 2 * i, &bits, sizeof bits);
    }
}

static void q8_0(const float *src, unsigned char *block)
{
    float most = 0;
    for (int j = 0; j < 32; j++) most = fabsf(src[j]) > most ? fabsf(src[j]) : most;
    float d = most / 127, inverse = d > 0 ? 1 / d : 0;
    uint16_t scale = hsc__f32_to_f16(d);
    memcpy(block, &scale, sizeof scale);
    for (int j = 0; j < 32; j++) block[2 + j] = (unsigned char)(signed char)roundf(src[j] * inverse);
}

void hsc__ref_quantise(hsc_dtype dtype, const float *src, int64_t n, void *dst)
{
    unsigned char *out = dst;
    if (dtype == HSC_F32) memcpy(dst, src, (size_t)n * sizeof *src);
    else if (dtype == HSC_Q8_0)
        for (int64_t i = 0; i < n; i += 32) q8_0(src + i, out + i / 32 * 34);
    else to_half(dtype, src, n, out);
}
