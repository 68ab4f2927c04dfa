/*
 * The q8 compute kind in plain C: activations in 8 bits a group of 32, weights as they are stored (kernels/q8.h),
 * integer dot products. A panel here is a list of groups, the columns of the first group of k first.
 */
#include "kernels/q8.h"

#include "base/dtype.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(hsc__q8_group) == HSC__Q8_GROUP + 4 * sizeof(float), "hsc__q8_group_bytes counts so many");

bool hsc__kernels_can_q8(hsc_dtype dtype)
{
    return hsc__q8_type_of(dtype).fits;
}

void hsc__ref_quantise_x(const float *x, int64_t n, int8_t *q, hsc__x8_group *group)
{
    for (; n > 0; n -= HSC__Q8_GROUP, x += HSC__Q8_GROUP, q += HSC__Q8_GROUP, group++) {
        float most = 0, odd = 0;
        for (int j = 0; j < HSC__Q8_GROUP; j++) {
            most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
            odd += x[j] * 0; /* NaN as soon as one value is not finite */
        }
        if (hsc__q8_empty_group(most, odd, q, group)) continue;
        float inverse = 127 / most;
        *group = (hsc__x8_group){.d = most / 127};
        for (int j = 0; j < HSC__Q8_GROUP; j++) {
            q[j] = (int8_t)lrintf(x[j] * inverse);
            group->total += q[j];
            if (j < HSC__Q8_GROUP / 2) group->first += q[j];
        }
        group->sum = group->d * (float)group->total;
    }
}

void hsc__ref_pack_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t k0, int n_k, void *panel)
{
    int groups_a_block = hsc__dtype_block(dtype) / HSC__Q8_GROUP;
    hsc__q8_group *to = panel;
    for (int64_t g = k0 / HSC__Q8_GROUP; g < (k0 + n_k) / HSC__Q8_GROUP; g++, to += HSC__REF_NR) {
        const unsigned char *block =
            (const unsigned char *)w + (size_t)(g / groups_a_block) * (size_t)hsc__dtype_block_bytes(dtype);
        for (int o = 0; o < n_out; o++, block += row_bytes)
            hsc__q8_group_of(dtype, block, (int)(g % groups_a_block), to + o);
        memset(to + n_out, 0, (size_t)(HSC__REF_NR - n_out) * sizeof *to);
    }
}

/* The values [from, from + n) of a group: what they add to a sum that stands at `total`. */
static float add_part(hsc__q8_type type, const int8_t *x, const hsc__x8_group *a, const hsc__q8_group *w, int from,
                      int n, float total)
{
    int half = from > 0;
    int32_t dot = 0, sum = 0;
    for (int j = from; j < from + n; j++) {
        dot += x[j] * (w->q[j] - type.offset);
        sum += x[j];
    }
    total += a->d * w->scale[half] * (float)dot;
    if (type.has_minimum) total += a->d * (float)sum * w->minimum[half];
    return total;
}

void hsc__ref_gemm_q8(hsc_dtype dtype, hsc__gemm_mode mode, int n_rows, int n_cols, int n_k, const hsc__x8 *x,
                      int64_t k0, const void *panel, float *y, size_t y_stride, const hsc__ending *end)
{
    hsc__q8_type type = hsc__q8_type_of(dtype);
    int part = type.halves ? HSC__Q8_GROUP / 2 : HSC__Q8_GROUP;
    for (int r = 0; r < n_rows; r++) {
        const int8_t *q = x->q + (size_t)r * x->q_stride + k0;
        const hsc__x8_group *a = x->group + (size_t)r * x->group_stride + k0 / HSC__Q8_GROUP;
        for (int c = 0; c < n_cols; c++) {
            float *out = y + (size_t)r * y_stride + c, total = mode == HSC__GEMM_CONTINUE ? *out : 0;
            const hsc__q8_group *w = (const hsc__q8_group *)panel + c;
            for (int g = 0; g < n_k / HSC__Q8_GROUP; g++, w += HSC__REF_NR) {
                for (int from = 0; from < HSC__Q8_GROUP; from += part)
                    total = add_part(type, q + g * HSC__Q8_GROUP, &a[g], w, from, part, total);
            }
            *out = mode == HSC__GEMM_ADD ? *out + total : total;
        }
        if (end) hsc__ref_end_row(end, r, 0, n_cols, y + (size_t)r * y_stride);
    }
}

void hsc__ref_few_q8(hsc_dtype dtype, const void *w, size_t row_bytes, int n_out, int64_t n_in, const hsc__x8 *x,
                     int n_rows, float *y, size_t y_stride)
{
    hsc__q8_group panel[HSC__K_CHUNK / HSC__Q8_GROUP * HSC__REF_NR];
    for (int o = 0; o < n_out; o += HSC__REF_NR) {
        int n = n_out - o < HSC__REF_NR ? n_out - o : HSC__REF_NR;
        for (int64_t k0 = 0; k0 < n_in; k0 += HSC__K_CHUNK) {
            int n_k = n_in - k0 < HSC__K_CHUNK ? (int)(n_in - k0) : HSC__K_CHUNK;
            hsc__ref_pack_q8(dtype, (const char *)w + (size_t)o * row_bytes, row_bytes, n, k0, n_k, panel);
            hsc__ref_gemm_q8(dtype, k0 ? HSC__GEMM_ADD : HSC__GEMM_START, n_rows, n, n_k, x, k0, panel, y + o, y_stride,
                             NULL);
        }
    }
}
