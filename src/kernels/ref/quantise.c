/*
 * float32 -> stored values, for caches and conversion. Layouts as in dequantise.c. Where a block has a scale of its own
 * kind (Q4, Q5) it is sought for the least squared error, and codes are made with the scale as it is kept.
 */
#include "base/dtype.h"
#include "kernels/kquants.h"
#include "kernels/ref/fit.h"
#include "kernels/ref/ref.h"

#include <float.h>
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
    float d = most / 127, inverse = d >= FLT_MIN ? 1 / d : 0; /* below, codes of a scale that is kept as 0 */
    uint16_t scale = hsc__f32_to_f16(d);
    memcpy(block, &scale, sizeof scale);
    for (int j = 0; j < 32; j++) block[2 + j] = (unsigned char)(signed char)roundf(src[j] * inverse);
}

/* The low halves of 32 codes: code j in the low half of byte j, code j + 16 in its high half. */
static void put_halves(const int *code, unsigned char *p)
{
    for (int j = 0; j < 16; j++) p[j] = (unsigned char)((code[j] & 15) | (code[j + 16] & 15) << 4);
}

/* Codes nearest to (src - minimum) / d, from 0 to top after `zero` was added. */
static void make_codes(const float *src, float d, float minimum, int zero, int top, int *code)
{
    float inverse = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++)
        code[j] = (int)hsc__nearest((src[j] - minimum) * inverse, (float)-zero, (float)(top - zero)) + zero;
}

static void q4_0(const float *src, unsigned char *block)
{
    int code[32];
    make_codes(src, hsc__keep_f16(hsc__fit_symmetric(src, 32, 8), block), 0, 8, 15, code);
    put_halves(code, block + 2);
}

static void q4_1(const float *src, unsigned char *block)
{
    int code[32];
    float scale, minimum;
    hsc__fit_affine(src, 32, 15, false, &scale, &minimum);
    scale = hsc__keep_f16(scale, block);
    minimum = hsc__keep_f16(minimum, block + 2);
    make_codes(src, scale, minimum, 0, 15, code);
    put_halves(code, block + 4);
}

static void q5_0(const float *src, unsigned char *block)
{
    int code[32];
    make_codes(src, hsc__keep_f16(hsc__fit_symmetric(src, 32, 16), block), 0, 16, 31, code);
    memset(block + 2, 0, 4);
    for (int j = 0; j < 32; j++) block[2 + j / 8] |= (unsigned char)(code[j] >> 4 << (j % 8));
    put_halves(code, block + 6);
}

bool hsc__kernels_can_write(hsc_dtype dtype)
{
    switch (dtype) {
    case HSC_F32:
    case HSC_F16:
    case HSC_BF16:
    case HSC_Q4_0:
    case HSC_Q4_1:
    case HSC_Q5_0:
    case HSC_Q8_0:
    case HSC_Q4_K:
    case HSC_Q6_K: return true;
    default: return false;
    }
}

static bool all_finite(const float *src, int n)
{
    float odd = 0;
    for (int i = 0; i < n; i++) odd += src[i] * 0; /* NaN as soon as one value is not finite */
    return odd == odd;
}

/* A block that reads as NaN throughout: its scale is NaN. */
static void nan_block(hsc_dtype dtype, unsigned char *block)
{
    memset(block, 0, (size_t)hsc__dtype_block_bytes(dtype));
    hsc__keep_f16(NAN, block + (dtype == HSC_Q6_K ? 208 : 0));
}

static void one_block(hsc_dtype dtype, const float *src, unsigned char *block)
{
    switch (dtype) {
    case HSC_Q4_0: q4_0(src, block); return;
    case HSC_Q4_1: q4_1(src, block); return;
    case HSC_Q5_0: q5_0(src, block); return;
    case HSC_Q4_K: hsc__ref_quantise_q4_k(src, block); return;
    case HSC_Q6_K: hsc__ref_quantise_q6_k(src, block); return;
    default: q8_0(src, block); return;
    }
}

void hsc__ref_quantise(hsc_dtype dtype, const float *src, int64_t n, void *dst)
{
    int block = hsc__dtype_block(dtype), bytes = hsc__dtype_block_bytes(dtype);
    unsigned char *out = dst;
    if (dtype == HSC_F32) {
        memcpy(dst, src, (size_t)n * sizeof *src);
    } else if (block == 1) {
        to_half(dtype, src, n, out);
    } else {
        for (int64_t i = 0; i < n; i += block, out += bytes) {
            if (all_finite(src + i, block)) one_block(dtype, src + i, out);
            else nan_block(dtype, out);
        }
    }
}
