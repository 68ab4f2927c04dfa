/* Statistics of a row, but for row_received. Sums go as in rows.h: vector v to accumulator v % 4, then one tree. */
#ifndef HSC_KERNELS_SIMD_STATS_H
#define HSC_KERNELS_SIMD_STATS_H

#include <float.h>

enum { SUMS = 4 };

static float total(const vf sum[SUMS])
{
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

float KERNEL(row_sum)(const float *p, int n)
{
    vf sum[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) sum[j] = vf_add(sum[j], vf_load(p + i + j * VL));
    }
    for (int v = 0; i < n; i += VL, v++) sum[v] = vf_add(sum[v], vf_load_part(p + i, part(n - i)));
    return total(sum);
}

/*
 * p ln p: p = m 2^e with m in [0.75, 1.5), ln p = e ln 2 + ln(1 + t) for t = m - 1, and ln(1 + t) = t - t^2/2 + t^3
 * q(t) (coefficients.py), within two units in the last place of ln p. A weight below the least normal number counts as
 * 0, whose p ln p is within 1e-35 of its own; a NaN gives NaN.
 */
INLINE vf p_log_p(vf p)
{
    static const float q[] = {0x1.5555a4p-2f, -0x1.000040p-2f, 0x1.9969b0p-3f, -0x1.54efdcp-3f,
                              0x1.28847ep-3f, -0x1.0d8a90p-3f, 0x1.ac90bap-4f, -0x1.7140acp-5f};
    vi e = vi_sar(vi_sub(vi_bits(p), vi_set1(0x3F400000)), 23); /* the bits of 0.75 */
    vf m = vf_bits(vi_sub(vi_bits(p), vi_shl(e, 23))), t = vf_sub(m, vf_set1(1)), sum = vf_set1(q[7]);
    UNROLL
    for (int i = 6; i >= 0; i--) sum = vf_fma(sum, t, vf_set1(q[i]));
    sum = vf_fma(sum, t, vf_set1(-0.5f));
    sum = vf_fma(sum, t, vf_set1(1));
    vf log = vf_fma(sum, t, vf_mul(vf_from_int(e), vf_set1(0.69314718f)));
    return vf_where_less(p, vf_set1(FLT_MIN), vf_zero(), vf_mul(p, log));
}

static float block_entropy(const float *p, int n)
{
    vf sum[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    int i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        UNROLL
        for (int j = 0; j < SUMS; j++) sum[j] = vf_add(sum[j], p_log_p(vf_load(p + i + j * VL)));
    }
    for (int v = 0; i < n; i += VL, v++) sum[v] = vf_add(sum[v], p_log_p(vf_load_part(p + i, part(n - i))));
    return total(sum);
}

/* Blocks are added in double: the weights of a row that looks everywhere are much alike, and so would be the roundings
 * of a long sum in every lane. */
float KERNEL(row_entropy)(const float *p, int n)
{
    enum { BLOCK = 256 };
    double sum = 0;
    for (int i = 0; i < n; i += BLOCK) sum += (double)block_entropy(p + i, n - i < BLOCK ? n - i : BLOCK);
    return (float)(0 - sum);
}

/* A run without any is passed over as a whole; in the first that has one it is sought value by value. */
int KERNEL(row_above)(const float *p, int from, int n, float threshold)
{
    const vf limit = vf_set1(threshold);
    int i = from;
    while (i + VL <= n && !vf_any_less(limit, vf_load(p + i))) i += VL;
    while (i < n && !(p[i] > threshold)) i++;
    return i;
}

void KERNEL(row_maxima)(const float *p, int n, float *out)
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
    UNROLL
    for (int j = 0; j < VECTORS; j++, i += VL) {
        if (i >= n) break;
        vpart lanes = part(n - i);
        best[j] = vf_max(best[j], vf_fill(vf_load_part(p + i, lanes), lanes, best[j]));
    }
    UNROLL
    for (int j = 0; j < VECTORS; j++) vf_store(out + j * VL, best[j]);
}

#endif
