/*
 * Stored values -> float32, one block at a time. The block layouts are those of the ggml project (ggml-common.h),
 * stated beside each function; the arithmetic rounds as the `gguf` package does: a product, then a sum.
 */
#include "base/dtype.h"
#include "kernels/half.h"
#include "kernels/kquants.h"
#include "kernels/ref/ref.h"

#include <string.h>

static uint16_t load16(const unsigned char *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

/* f16 scale, 16 bytes: value j is in the low half of byte j, value j + 16 in its high half; d (q - 8). */
static void q4_0(const unsigned char *b, float *y)
{
    float d = hsc__f16_to_f32(load16(b));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b[2 + j] & 15) - 8) * d;
        y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
}

/* f16 scale, f16 minimum, 16 bytes as in Q4_0; d q + m. */
static void q4_1(const unsigned char *b, float *y)
{
    float d = hsc__f16_to_f32(load16(b)), m = hsc__f16_to_f32(load16(b + 2));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b[4 + j] & 15) * d + m;
        y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
}

/* The fifth bits of 32 values, one bit a value, follow the scale(s). */
static int fifth(const unsigned char *bits, int j)
{
    return (bits[j / 8] >> (j % 8) & 1) << 4;
}

/* f16 scale, 4 bytes of fifth bits, 16 bytes; d (q - 16). */
static void q5_0(const unsigned char *b, float *y)
{
    float d = hsc__f16_to_f32(load16(b));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(((b[6 + j] & 15) | fifth(b + 2, j)) - 16) * d;
        y[j + 16] = (float)(((b[6 + j] >> 4) | fifth(b + 2, j + 16)) - 16) * d;
    }
}

/* f16 scale, f16 minimum, 4 bytes of fifth bits, 16 bytes; d q + m. */
static void q5_1(const unsigned char *b, float *y)
{
    float d = hsc__f16_to_f32(load16(b)), m = hsc__f16_to_f32(load16(b + 2));
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b[8 + j] & 15) | fifth(b + 4, j)) * d + m;
        y[j + 16] = (float)((b[8 + j] >> 4) | fifth(b + 4, j + 16)) * d + m;
    }
}

/* f16 scale, 32 signed bytes; d q. */
static void q8_0(const unsigned char *b, float *y)
{
    float d = hsc__f16_to_f32(load16(b));
    for (int j = 0; j < 32; j++) y[j] = (float)(signed char)b[2 + j] * d;
}

bool hsc__kernels_can_read(hsc_dtype dtype)
{
    switch (dtype) {
    case HSC_F32:
    case HSC_F16:
    case HSC_BF16:
    case HSC_F64:
    case HSC_Q4_0:
    case HSC_Q4_1:
    case HSC_Q5_0:
    case HSC_Q5_1:
    case HSC_Q8_0: return true;
    default: return hsc__is_kquant(dtype);
    }
}

static void one_block(hsc_dtype dtype, const unsigned char *src, float *dst)
{
    uint16_t half;
    double wide;
    switch (dtype) {
    case HSC_F16:
        memcpy(&half, src, sizeof half);
        *dst = hsc__f16_to_f32(half);
        return;
    case HSC_BF16:
        memcpy(&half, src, sizeof half);
        *dst = hsc__bf16_to_f32(half);
        return;
    case HSC_F64:
        memcpy(&wide, src, sizeof wide);
        *dst = (float)wide;
        return;
    case HSC_Q4_0: q4_0(src, dst); return;
    case HSC_Q4_1: q4_1(src, dst); return;
    case HSC_Q5_0: q5_0(src, dst); return;
    case HSC_Q5_1: q5_1(src, dst); return;
    case HSC_Q8_0: q8_0(src, dst); return;
    default: *dst = 0; return; /* hsc__kernels_can_read keeps these out */
    }
}

void hsc__ref_dequantise(hsc_dtype dtype, const void *src, int64_t n, float *dst)
{
    if (dtype == HSC_F32) {
        memcpy(dst, src, (size_t)n * sizeof *dst);
        return;
    }
    if (hsc__is_kquant(dtype)) {
        hsc__kquant_dequantise(dtype, src, n, dst);
        return;
    }
    int block = hsc__dtype_block(dtype), bytes = hsc__dtype_block_bytes(dtype);
    const unsigned char *p = src;
    for (int64_t i = 0; i < n; i += block, p += bytes) one_block(dtype, p, dst + i);
}
