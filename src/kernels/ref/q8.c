/*
 * The q8 compute kind in plain C: activations in 8 bits a group of 32, weights as they are stored, integer dot
 * products. Block layouts as in dequantise.c.
 */
#include "base/dtype.h"
#include "kernels/half.h"
#include "kernels/kquants.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

bool hsc__kernels_can_q8(hsc_dtype dtype)
{
    switch (dtype) {
    case HSC_Q4_0:
    case HSC_Q4_1:
    case HSC_Q5_0:
    case HSC_Q5_1:
    case HSC_Q8_0: return true;
    default: return false;
    }
}

void hsc__ref_quantise_x(const float *x, int64_t n, uint8_t *q, float *d, float *sum)
{
    for (int64_t g = 0; g < n / HSC__Q8_GROUP; g++, x += HSC__Q8_GROUP, q += HSC__Q8_GROUP) {
        float most = 0;
        int total = 0;
        for (int j = 0; j < HSC__Q8_GROUP; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
        d[g] = most / 127;
        float inverse = most > 0 ? 127 / most : 0;
        for (int j = 0; j < HSC__Q8_GROUP; j++) {
            int value = (int)lrintf(x[j] * inverse);
            q[j] = (uint8_t)(value + 128);
            total += value;
        }
        sum[g] = d[g] * (float)total;
    }
}

static float scale_at(const unsigned char *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return hsc__f16_to_f32(bits);
}

static int fifth(const unsigned char *bits, int j)
{
    return (bits[j / 8] >> (j % 8) & 1) << 4;
}

/* One block as scale * q + min. */
static void split_block(hsc_dtype dtype, const unsigned char *b, int8_t *q, float *scale, float *min)
{
    *scale = scale_at(b);
    *min = dtype == HSC_Q4_1 || dtype == HSC_Q5_1 ? scale_at(b + 2) : 0;
    for (int j = 0; j < HSC__Q8_GROUP; j++) {
        int half = j % 16, shift = j / 16 * 4;
        switch (dtype) {
        case HSC_Q4_0: q[j] = (int8_t)((b[2 + half] >> shift & 15) - 8); break;
        case HSC_Q4_1: q[j] = (int8_t)(b[4 + half] >> shift & 15); break;
        case HSC_Q5_0: q[j] = (int8_t)(((b[6 + half] >> shift & 15) | fifth(b + 2, j)) - 16); break;
        case HSC_Q5_1: q[j] = (int8_t)((b[8 + half] >> shift & 15) | fifth(b + 4, j)); break;
        default: q[j] = (int8_t)b[2 + j]; break;
        }
    }
}

/* Where the parts of a group of a panel lie. */
typedef struct {
    int8_t *q;
    int32_t *correction;
    float *scale, *min;
} group;

static group group_at(const void *panel, int index)
{
    char *p = (char *)(uintptr_t)panel + (size_t)index * hsc__q8_group_bytes(HSC__REF_NR);
    size_t numbers = HSC__Q8_GROUP * HSC__REF_NR;
    return (group){(int8_t *)p, (int32_t *)(void *)(p + numbers), (float *)(void *)(p + numbers + 4 * HSC__REF_NR),
                   (float *)(void *)(p + numbers + 8 * HSC__REF_NR)};
}

void hsc__ref_pack_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel)
{
    memset(panel, 0, (size_t)(n_k / HSC__Q8_GROUP) * hsc__q8_group_bytes(HSC__REF_NR));
    for (int g = 0; g < n_k / HSC__Q8_GROUP; g++) {
        group to = group_at(panel, g);
        for (int o = 0; o < n_out; o++) {
            int8_t q[HSC__Q8_GROUP];
            size_t at = hsc__dtype_bytes(dtype, (size_t)k0 + (size_t)g * HSC__Q8_GROUP);
            split_block(dtype, (const unsigned char *)w + (size_t)o * row_bytes + at, q, &to.scale[o], &to.min[o]);
            for (int j = 0; j < HSC__Q8_GROUP; j++) {
                to.q[(j / 4 * HSC__REF_NR + o) * 4 + j % 4] = q[j];
                to.correction[o] -= 128 * q[j];
            }
        }
    }
}

void hsc__ref_gemm_q8(hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x, int64_t k0,
                      const void *panel, float *y, size_t y_stride)
{
    for (int r = 0; r < n_rows; r++) {
        const uint8_t *q = x->q + (size_t)r * x->q_stride + k0;
        const float *d = x->d + (size_t)r * x->d_stride + k0 / HSC__Q8_GROUP;
        const float *sums = x->sum + (size_t)r * x->d_stride + k0 / HSC__Q8_GROUP;
        for (int c = 0; c < n_cols; c++) {
            float *out = y + (size_t)r * y_stride + c, total = mode == HSC__GEMM_CONTINUE ? *out : 0;
            for (int g = 0; g < n_k / HSC__Q8_GROUP; g++) {
                group w = group_at(panel, g);
                int32_t dot = w.correction[c];
                for (int j = 0; j < HSC__Q8_GROUP; j++)
                    dot += q[g * HSC__Q8_GROUP + j] * w.q[(j / 4 * HSC__REF_NR + c) * 4 + j % 4];
                total += d[g] * w.scale[c] * (float)dot;
                total += sums[g] * w.min[c];
            }
            *out = mode == HSC__GEMM_ADD ? *out + total : total;
        }
    }
}

void hsc__ref_few_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                     int n_rows, float *y, size_t y_stride)
{
    _Alignas(4) char panel[HSC__K_CHUNK / HSC__Q8_GROUP * HSC__REF_NR * (HSC__Q8_GROUP + 12)];
    for (int o = 0; o < n_out; o += HSC__REF_NR) {
        int n = n_out - o < HSC__REF_NR ? n_out - o : HSC__REF_NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            hsc__ref_pack_q8(dtype, (const char *)w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, panel);
            hsc__ref_gemm_q8(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x, k0, panel, y + o, y_stride);
        }
    }
}
