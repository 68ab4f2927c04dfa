/* Statistics of a row, for AVX2 and NEON. Sums go as in rows.h: vector v to accumulator v % 4, then one tree. */
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
 * p ln p: p = m 2^e with m in [0.75, 1.5), ln p = e ln 2 + t q(t) for t = m - 1, q a polynomial of degree 9 fitted to
 * ln(1 + t) / t at Chebyshev points; off by at most 3e-8. A weight below the least normal number counts as 0, whose p
 * ln p is within 1e-35 of its own; a NaN gives NaN.
 */
INLINE vf p_log_p(vf p)
{
    static const float q[] = {0x1.555c6p-2f,  -0x1.00003ep-2f, 0x1.996178p-3f, -0x1.54e596p-3f,
                              0x1.28ce66p-3f, -0x1.0e2b8ep-3f, 0x1.ac49bap-4f, -0x1.6e4bbap-5f};
    vi e = vi_sar(vi_sub(vi_bits(p), vi_set1(0x3F400000)), 23); /* the bits of 0.75 */
    vf m = vf_bits(vi_sub(vi_bits(p), vi_shl(e, 23))), t = vf_sub(m, vf_set1(1)), sum = vf_set1(q[7]);
    UNROLL
    for (int i = 6; i >= 0; i--) sum = vf_fma(sum, t, vf_set1(q[i]));
    sum = vf_fma(sum, t, vf_set1(-0.5f));
    sum = vf_fma(sum, t, vf_set1(1));
    vf log = vf_fma(sum, t, vf_mul(vf_from_int(e), vf_set1(0.69314718f)));
    return vf_where_less(p, vf_set1(FLT_MIN), vf_zero(), vf_mul(p, log));
}

float KERNEL(row_entropy)(const float *p, int n)
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

/* A run without any is passed over as a whole; in the first that has one it is sought value by value. */
int KERNEL(row_above)(const float *p, int from, int n, float threshold)
{
    const vf limit = vf_set1(threshold), one = vf_set1(1);
    int i = from;
    for (; i + SUMS * VL <= n; i += SUMS * VL) {
        vf any = vf_zero();
        UNROLL
        for (int j = 0; j < SUMS; j++) any = vf_max(any, vf_where_less(limit, vf_load(p + i + j * VL), one, vf_zero()));
        if (vf_largest(any) > 0) break;
    }
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
    for (int j = 0; j < VECTORS; j++) vf_store(out + j * VL, best[j]);
    for (int j = 0; i < n; i++, j++)
        if (p[i] > out[j]) out[j] = p[i];
}

/* Rounds in double precision, where the units end once 1.5 * 2^52 is added; a loop that compilers make vectors of. */
void KERNEL(row_received)(const float *p, int n, int64_t *acc)
{
    const double unit = (double)((int64_t)1 << HSC__RECEIVED_BITS), units_end = 0x1.8p52;
    int64_t base;
    memcpy(&base, &units_end, sizeof base);
    for (int i = 0; i < n; i++) {
        double moved = p[i] * unit + units_end;
        int64_t bits;
        memcpy(&bits, &moved, sizeof bits);
        acc[i] += bits - base;
    }
}

#endif
