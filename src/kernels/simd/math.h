/*
 * exp, tanh and the activations on vectors. Coefficients: coefficients.py. Every lane is computed alike, whatever
 * stands beside it. NaN stays NaN.
 */
#ifndef HSC_KERNELS_SIMD_MATH_H
#define HSC_KERNELS_SIMD_MATH_H

/* Horner's rule in fused multiply-adds; c[n - 1] is the highest. */
INLINE vf polynomial(vf x, const float *c, int n)
{
    vf sum = vf_set1(c[n - 1]);
    UNROLL
    for (int i = n - 2; i >= 0; i--) sum = vf_fma(sum, x, vf_set1(c[i]));
    return sum;
}

/* Within 1 unit in the last place; exp(0) = 1, exp(-inf) = 0. Below -86.9 (results under 1.8e-38) it is 0: no subnormal
 * number slows down what follows. Above 88.722 it is infinite. */
INLINE vf vf_exp(vf x)
{
    /* x = n ln 2 + r; n is rounded by adding 1.5 * 2^23, which leaves it in the low bits. */
    const vf magic = vf_set1(0x1.8p23f);
    vf below = vf_min(vf_set1(89), x);
    vf shifted = vf_fma(below, vf_set1(0x1.715476p+0f), magic), n = vf_sub(shifted, magic);
    vf r = vf_fnma(n, vf_set1(0x1.62e4p-1f), below);
    r = vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), r);
    /* 2 e^r times 2^(n-1): so that n = 128 still has a float. */
    static const float c[] = {0x1.fffffcp-1f, 0x1.555490p-2f, 0x1.5558f4p-4f, 0x1.123a6cp-6f, 0x1.6a2352p-9f};
    vf p = polynomial(r, c, 5);
    p = vf_fma(p, r, vf_set1(2));
    p = vf_fma(p, r, vf_set1(2));
    vi power = vi_add(vi_shl(vi_bits(shifted), 23), vi_set1(126 << 23));
    return vf_where_less(x, vf_set1(-86.9f), vf_zero(), vf_mul(p, vf_bits(power)));
}

/* Within 3 units in the last place. */
INLINE vf vf_tanh(vf x)
{
    static const float c[] = {-0x1.555524p-2f, 0x1.1103f2p-3f, -0x1.b7cff2p-5f, 0x1.4f5ef8p-6f, -0x1.69711ap-8f};
    vf size = vf_abs(x), square = vf_mul(x, x);
    vf small = vf_fma(vf_mul(polynomial(square, c, 5), square), x, x);
    vf e = vf_exp(vf_add(size, size));
    vf large = vf_sub(vf_set1(1), vf_div(vf_set1(2), vf_add(e, vf_set1(1))));
    return vf_where_less(size, vf_set1(0.625f), small, vf_copysign(large, x));
}

/* x/2 (1 + erf(x / sqrt 2)), as x times half of erfc(|x| / sqrt 2) or of what that leaves to 2: nothing cancels for
 * negative x. erfc(t) = exp(-t q(t)). */
INLINE vf vf_gelu(vf x)
{
    static const float c[] = {0x1.20dd7ep+0f,  0x1.45f1d2p-1f,   0x1.a52c80p-4f,  -0x1.3bb760p-6f,  -0x1.3929e6p-16f,
                              0x1.9fffb8p-10f, -0x1.47c76ap-11f, 0x1.120394p-13f, -0x1.f8f1bep-17f, 0x1.91d61ap-21f};
    vf t = vf_mul(vf_abs(x), vf_set1(0x1.6a09e6p-1f));
    vf half = vf_mul(vf_set1(0.5f), vf_exp(vf_sub(vf_zero(), vf_mul(t, polynomial(t, c, 10)))));
    return vf_mul(x, vf_where_less(x, vf_zero(), half, vf_sub(vf_set1(1), half)));
}

/* x / (1 + exp(-x)) */
INLINE vf vf_silu(vf x)
{
    return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_sub(vf_zero(), x))));
}

/* x/2 (1 + tanh u) = x / (1 + exp(-2 u)), u = sqrt(2/pi) (x + 0.044715 x^3). */
INLINE vf vf_gelu_tanh(vf x)
{
    vf cube = vf_mul(vf_mul(x, x), x), u = vf_fma(vf_set1(0.044715f), cube, x);
    vf e = vf_exp(vf_mul(vf_set1(-0x1.988454p+0f), u));
    return vf_div(x, vf_add(vf_set1(1), e));
}

/* `kind` is constant after inlining. */
INLINE vf vf_act(hsc__act kind, vf x)
{
    switch (kind) {
    case HSC__ACT_RELU: return vf_max(vf_zero(), x);
    case HSC__ACT_GELU: return vf_gelu(x);
    case HSC__ACT_GELU_TANH: return vf_gelu_tanh(x);
    case HSC__ACT_SILU: return vf_silu(x);
    case HSC__ACT_TANH: return vf_tanh(x);
    default: return x;
    }
}

#endif
