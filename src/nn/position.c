/* Positions as waves, what moves them, and the rotary embedding (docs/math/position.md). The waves' angles are made in
 * double, where a float's 24 bits would be gone after a few thousand positions; the rotary embedding's in float32,
 * because models were trained with those. */
#include "nn/call.h"
#include "nn/rows.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

double hsc_nn_frequency(int i, int d, double base)
{
    return 1 / pow(base, 2.0 * i / d);
}

static hsc_status check_waves(int d_model, double base, hsc_error *err)
{
    HSC_FAIL_IF(d_model < 2 || d_model % 2, HSC_EINVAL, "d_model is %d, and must be even and at least 2", d_model);
    HSC_FAIL_IF(!(base > 0), HSC_EINVAL, "base is %g, not above 0", base);
    return HSC_OK;
}

hsc_status hsc_nn_sinusoid(int n_positions, int d_model, double base, float *pe, hsc_error *err)
{
    HSC_TRY(check_waves(d_model, base, err));
    HSC__SIZE(n_positions, 0);
    if (n_positions == 0) return HSC_OK;
    HSC__NEED(pe);
    for (int i = 0; i < d_model / 2; i++) {
        double omega = hsc_nn_frequency(i, d_model, base);
        for (int pos = 0; pos < n_positions; pos++) {
            float *pair = pe + (size_t)pos * (size_t)d_model + 2 * (size_t)i;
            pair[0] = (float)sin(pos * omega);
            pair[1] = (float)cos(pos * omega);
        }
    }
    return HSC_OK;
}

hsc_status hsc_nn_sinusoid_rotation(double k, int d_model, double base, float *rotation, hsc_error *err)
{
    HSC_TRY(check_waves(d_model, base, err));
    HSC__NEED(rotation);
    for (int i = 0; i < d_model / 2; i++, rotation += 4) {
        double angle = k * hsc_nn_frequency(i, d_model, base);
        rotation[0] = rotation[3] = (float)cos(angle);
        rotation[1] = (float)sin(angle);
        rotation[2] = -rotation[1];
    }
    return HSC_OK;
}

static int rotated(const hsc_nn_rope *rope)
{
    return rope->n_rotated ? rope->n_rotated : rope->d_head;
}

static hsc_status check_rope(const hsc_nn_rope *rope, int n_outer, int n_pos, int n_inner, hsc_error *err)
{
    HSC__NEED(rope);
    HSC__SIZE(rope->d_head, 1);
    HSC__SIZE(n_outer, 0);
    HSC__SIZE(n_pos, 0);
    HSC__SIZE(n_inner, 0);
    HSC_FAIL_IF(rotated(rope) < 0 || rotated(rope) % 2 || rotated(rope) > rope->d_head, HSC_EINVAL,
                "n_rotated is %d, and must be even and at most d_head, %d", rotated(rope), rope->d_head);
    HSC_FAIL_IF((double)n_outer * n_pos * n_inner * rope->d_head > HSC__NN_MOST * 0x1p30, HSC_EINVAL,
                "%d times %d times %d heads of %d are too many", n_outer, n_pos, n_inner, rope->d_head);
    HSC_FAIL_IF(!(rope->base >= 0), HSC_EINVAL, "base is %g, below 0", rope->base);
    return HSC_OK;
}

void hsc__nn_frequencies(double base, int n_rotated, float *inv_freq)
{
    for (int i = 0; i < n_rotated / 2; i++) {
        float exponent = (float)(2 * i) / (float)n_rotated;
        inv_freq[i] = 1.0f / (float)pow(base, (double)exponent);
    }
}

void hsc__nn_angles(const float *inv_freq, int half, const int *positions, int n_pos, float *cosine, float *sine)
{
    for (int p = 0; p < n_pos; p++) {
        float position = (float)(positions ? positions[p] : p);
        for (int i = 0; i < half; i++) {
            float angle = position * inv_freq[i];
            *cosine++ = cosf(angle);
            *sine++ = sinf(angle);
        }
    }
}

/* Turns x in place, one outer part after the other; `sign` -1 turns back. */
static hsc_status turn(const hsc_nn_rope *rope, const int *positions, int sign, int n_outer, int n_pos, int n_inner,
                       float *x, hsc_error *err)
{
    int half = rotated(rope) / 2;
    size_t n = (size_t)n_pos * (size_t)half, part = (size_t)n_pos * (size_t)n_inner * (size_t)rope->d_head;
    float *table;
    HSC_TRY(hsc__nn_floats(&table, (size_t)half + 2 * n, err));
    float *cosine = table + half, *sine = cosine + n;
    hsc__nn_frequencies(rope->base > 0 ? rope->base : 10000, 2 * half, table);
    hsc__nn_angles(table, half, positions, n_pos, cosine, sine);
    for (size_t i = 0; i < n && sign < 0; i++) sine[i] = -sine[i];
    hsc__nn_turn angles = {cosine, sine, half, rope->interleaved != 0};
    hsc__exec exec = hsc__nn_light_exec((double)part);
    for (int o = 0; o < n_outer; o++)
        hsc__nn_turn_rows(&exec, &angles, NULL, n_pos, n_inner, rope->d_head, x + (size_t)o * part);
    hsc__free_aligned(table);
    return HSC_OK;
}

hsc_status hsc_nn_rope_forward(const hsc_nn_rope *rope, const float *x, const int *positions, int n_outer, int n_pos,
                               int n_inner, float *y, hsc_error *err)
{
    HSC_TRY(check_rope(rope, n_outer, n_pos, n_inner, err));
    size_t n = (size_t)n_outer * (size_t)n_pos * (size_t)n_inner * (size_t)rope->d_head;
    if (n == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    if (y != x) memcpy(y, x, n * sizeof *y);
    return turn(rope, positions, 1, n_outer, n_pos, n_inner, y, err);
}

hsc_status hsc_nn_rope_backward(const hsc_nn_rope *rope, const float *dy, const int *positions, int n_outer, int n_pos,
                                int n_inner, float *dx, hsc_error *err)
{
    float *back;
    HSC_TRY(check_rope(rope, n_outer, n_pos, n_inner, err));
    size_t n = (size_t)n_outer * (size_t)n_pos * (size_t)n_inner * (size_t)rope->d_head;
    if (n == 0 || !dx) return HSC_OK;
    HSC__NEED(dy);
    HSC_TRY(hsc__nn_floats(&back, n, err));
    memcpy(back, dy, n * sizeof *back);
    hsc_status status = turn(rope, positions, -1, n_outer, n_pos, n_inner, back, err);
    for (size_t i = 0; i < n && status == HSC_OK; i++) dx[i] += back[i];
    hsc__free_aligned(back);
    return status;
}
