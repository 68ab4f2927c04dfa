/*
 * softmax and the norms. Sums over a row: vector v goes to accumulator v % 4, and four accumulators are added by one
 * tree, so an element's place in the row says where it is added, and zeros at the end change nothing.
 */
#ifndef HSC_KERNELS_SIMD_ROWS_H
#define HSC_KERNELS_SIMD_ROWS_H

#include "kernels/simd/math.h"

enum { SUMS = 4 };

static inline float total(const vf sum[SUMS])
{
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

static float row_largest(const float *row, int n)
{
    vf least = vf_set1(-INFINITY), max[SUMS] = {least, least, least, least};
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) max[j] = vf_max(max[j], vf_load(row + i + j * VL));
    }
    for (; i < n; i += VL) {
        vpart lanes = part(n - i);
        max[0] = vf_max(max[0], vf_fill(vf_load_part(row + i, lanes), lanes, least));
    }
    return vf_largest(vf_max(vf_max(max[0], max[1]), vf_max(max[2], max[3])));
}

/* row = exp(row - max); returns the sum. */
static float exp_row(float *row, int n, float max)
{
    vf sum[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()}, shift = vf_set1(max);
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) {
            vf e = vf_exp(vf_sub(vf_load(row + i + j * VL), shift));
            vf_store(row + i + j * VL, e);
            sum[j] = vf_add(sum[j], e);
        }
    }
    UNROLL
    for (int j = 0; j < SUMS; j++, i += VL) {
        if (i >= n) break;
        vpart lanes = part(n - i);
        vf e = vf_exp(vf_sub(vf_load_part(row + i, lanes), shift));
        vf_store_part(row + i, e, lanes);
        sum[j] = vf_add(sum[j], vf_fill(e, lanes, vf_zero()));
    }
    return total(sum);
}

/* The largest score may hide a NaN, but its exp does not: only a row of nothing but -inf and NaN must be looked at. */
static bool has_nan(const float *row, int n)
{
    for (int i = 0; i < n; i++) {
        if (row[i] != row[i]) return true;
    }
    return false;
}

void KERNEL(softmax)(float *row, int n)
{
    float max = row_largest(row, n);
    if (max == -INFINITY && !has_nan(row, n)) {
        for (int i = 0; i < n; i++) row[i] = 0;
        return;
    }
    vf inverse = vf_set1(1 / exp_row(row, n, max));
    int i = 0;
    for (; i + VL <= n; i += VL) vf_store(row + i, vf_mul(vf_load(row + i), inverse));
    if (i < n) vf_store_part(row + i, vf_mul(vf_load_part(row + i, part(n - i)), inverse), part(n - i));
}

/* The sum of x - shift, and that of its squares, of at most a block of values. */
static void block_sums(const float *x, int n, float shift, double *sum, double *squares)
{
    vf a[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()}, b[SUMS] = {a[0], a[0], a[0], a[0]};
    vf s = vf_set1(shift);
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) {
            vf d = vf_sub(vf_load(x + i + j * VL), s);
            a[j] = vf_add(a[j], d);
            b[j] = vf_fma(d, d, b[j]);
        }
    }
    UNROLL
    for (int j = 0; j < SUMS; j++, i += VL) {
        if (i >= n) break;
        vpart lanes = part(n - i);
        vf d = vf_fill(vf_sub(vf_load_part(x + i, lanes), s), lanes, vf_zero());
        a[j] = vf_add(a[j], d);
        b[j] = vf_fma(d, d, b[j]);
    }
    *sum += (double)total(a);
    *squares += (double)total(b);
}

/* Blocks are added in double: one large value, of which transformers have a few, would round away the others in its
 * accumulator. */
static void row_sums(const float *x, int n, float shift, double *sum, double *squares)
{
    enum { BLOCK = 256 };
    *sum = *squares = 0;
    for (int i = 0; i < n; i += BLOCK) block_sums(x + i, n - i < BLOCK ? n - i : BLOCK, shift, sum, squares);
}

/* (x - mean - rest) * scale * gain + bias */
INLINE vf normed(vf x, vf mean, vf rest, vf scale)
{
    return vf_mul(vf_sub(vf_sub(x, mean), rest), scale);
}

/* Two passes: the second works on what is left after the rounded mean, and mends both the mean and the variance by it.
 */
void KERNEL(layer_norm)(const float *x, const float *gain, const float *bias, float eps, int n, float *y)
{
    double sum, squares;
    row_sums(x, n, 0, &sum, &squares);
    float mean = (float)(sum / n);
    row_sums(x, n, mean, &sum, &squares);
    double rest = sum / n, variance = squares / n - rest * rest;
    vf m = vf_set1(mean), r = vf_set1((float)rest), scale = vf_set1((float)(1 / sqrt(fmax(variance, 0) + (double)eps)));
    for (int i = 0; i < n; i += VL) {
        vpart lanes = part(n - i);
        bool whole = i + VL <= n;
        vf v = normed(whole ? vf_load(x + i) : vf_load_part(x + i, lanes), m, r, scale);
        if (gain) v = vf_mul(v, whole ? vf_load(gain + i) : vf_load_part(gain + i, lanes));
        if (bias) v = vf_add(v, whole ? vf_load(bias + i) : vf_load_part(bias + i, lanes));
        if (whole) vf_store(y + i, v);
        else vf_store_part(y + i, v, lanes);
    }
}

void KERNEL(rms_norm)(const float *x, const float *gain, float eps, int n, float *y)
{
    double sum, squares;
    row_sums(x, n, 0, &sum, &squares);
    vf scale = vf_set1((float)(1 / sqrt(squares / n + (double)eps)));
    for (int i = 0; i < n; i += VL) {
        vpart lanes = part(n - i);
        bool whole = i + VL <= n;
        vf v = vf_mul(whole ? vf_load(x + i) : vf_load_part(x + i, lanes), scale);
        if (gain) v = vf_mul(v, whole ? vf_load(gain + i) : vf_load_part(gain + i, lanes));
        if (whole) vf_store(y + i, v);
        else vf_store_part(y + i, v, lanes);
    }
}

#endif
