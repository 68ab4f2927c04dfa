/* Element by element: activations, gates, sums, score scaling, rotation. The last, partial vector is computed as any.
 */
#ifndef HSC_KERNELS_SIMD_ELEMENTS_H
#define HSC_KERNELS_SIMD_ELEMENTS_H

#include "kernels/simd/math.h"

INLINE void act_loop(hsc__act kind, const float *x, int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) vf_store(y + i, vf_act(kind, vf_load(x + i)));
    if (i == n) return;
    vpart lanes = part((int)(n - i));
    vf_store_part(y + i, vf_act(kind, vf_load_part(x + i, lanes)), lanes);
}

void KERNEL(act)(hsc__act kind, const float *x, int64_t n, float *y)
{
    switch (kind) {
    case HSC__ACT_RELU: act_loop(HSC__ACT_RELU, x, n, y); return;
    case HSC__ACT_GELU: act_loop(HSC__ACT_GELU, x, n, y); return;
    case HSC__ACT_GELU_TANH: act_loop(HSC__ACT_GELU_TANH, x, n, y); return;
    case HSC__ACT_SILU: act_loop(HSC__ACT_SILU, x, n, y); return;
    case HSC__ACT_TANH: act_loop(HSC__ACT_TANH, x, n, y); return;
    case HSC__ACT_NONE: break;
    }
    act_loop(HSC__ACT_NONE, x, n, y);
}

INLINE void gate_loop(hsc__act kind, const float *g, const float *u, int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) vf_store(y + i, vf_mul(vf_act(kind, vf_load(g + i)), vf_load(u + i)));
    if (i == n) return;
    vpart lanes = part((int)(n - i));
    vf_store_part(y + i, vf_mul(vf_act(kind, vf_load_part(g + i, lanes)), vf_load_part(u + i, lanes)), lanes);
}

void KERNEL(gate)(hsc__act kind, const float *g, const float *u, int64_t n, float *y)
{
    switch (kind) {
    case HSC__ACT_RELU: gate_loop(HSC__ACT_RELU, g, u, n, y); return;
    case HSC__ACT_GELU: gate_loop(HSC__ACT_GELU, g, u, n, y); return;
    case HSC__ACT_GELU_TANH: gate_loop(HSC__ACT_GELU_TANH, g, u, n, y); return;
    case HSC__ACT_SILU: gate_loop(HSC__ACT_SILU, g, u, n, y); return;
    case HSC__ACT_TANH: gate_loop(HSC__ACT_TANH, g, u, n, y); return;
    case HSC__ACT_NONE: break;
    }
    gate_loop(HSC__ACT_NONE, g, u, n, y);
}

void KERNEL(add)(const float *a, const float *b, int64_t n, float *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) vf_store(y + i, vf_add(vf_load(a + i), vf_load(b + i)));
    if (i == n) return;
    vpart lanes = part((int)(n - i));
    vf_store_part(y + i, vf_add(vf_load_part(a + i, lanes), vf_load_part(b + i, lanes)), lanes);
}

INLINE vf scaled(vf s, vf scale, bool is_capped, vf cap)
{
    s = vf_mul(s, scale);
    return is_capped ? vf_mul(cap, vf_tanh(vf_div(s, cap))) : s;
}

INLINE void scale_loop(float *s, int n, float scale, bool is_capped, float cap)
{
    vf a = vf_set1(scale), c = vf_set1(cap);
    int i = 0;
    for (; i + VL <= n; i += VL) vf_store(s + i, scaled(vf_load(s + i), a, is_capped, c));
    if (i == n) return;
    vpart lanes = part(n - i);
    vf_store_part(s + i, scaled(vf_load_part(s + i, lanes), a, is_capped, c), lanes);
}

void KERNEL(scale_cap)(float *s, int n, float scale, float cap)
{
    if (cap > 0) scale_loop(s, n, scale, true, cap);
    else scale_loop(s, n, scale, false, 1);
}

/* (a, b) -> (a c - b s, b c + a s) */
INLINE void rotate(vf *a, vf *b, vf c, vf s)
{
    vf x = *a, y = *b;
    *a = vf_fnma(y, s, vf_mul(x, c));
    *b = vf_fma(x, s, vf_mul(y, c));
}

static void rotate_halves(float *x, const float *c, const float *s, int half)
{
    for (int i = 0; i < half; i += VL) {
        if (i + VL <= half) {
            vf a = vf_load(x + i), b = vf_load(x + half + i);
            rotate(&a, &b, vf_load(c + i), vf_load(s + i));
            vf_store(x + i, a);
            vf_store(x + half + i, b);
        } else {
            vpart lanes = part(half - i);
            vf a = vf_load_part(x + i, lanes), b = vf_load_part(x + half + i, lanes);
            rotate(&a, &b, vf_load_part(c + i, lanes), vf_load_part(s + i, lanes));
            vf_store_part(x + i, a, lanes);
            vf_store_part(x + half + i, b, lanes);
        }
    }
}

/* VL pairs, neighbours in x. */
INLINE void rotate_pairs(float *x, vf c, vf s)
{
    vf a = vf_load(x), b = vf_load(x + VL), even, odd;
    vf_split(a, b, &even, &odd);
    rotate(&even, &odd, c, s);
    vf_join(even, odd, &a, &b);
    vf_store(x, a);
    vf_store(x + VL, b);
}

void KERNEL(rope)(float *x, const float *c, const float *s, int half, bool interleaved)
{
    if (!interleaved) {
        rotate_halves(x, c, s, half);
        return;
    }
    int i = 0;
    for (; i + VL <= half; i += VL) rotate_pairs(x + 2 * i, vf_load(c + i), vf_load(s + i));
    if (i == half) return;
    vpart lanes = part(half - i);
    float rest[2 * VL] = {0};
    size_t bytes = (size_t)(half - i) * 2 * sizeof *x;
    memcpy(rest, x + 2 * i, bytes);
    rotate_pairs(rest, vf_load_part(c + i, lanes), vf_load_part(s + i, lanes));
    memcpy(x + 2 * i, rest, bytes);
}

#endif
