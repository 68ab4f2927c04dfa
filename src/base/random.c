/*
 * PyTorch's CPU generator and what it makes of the bits. Nothing here may draw once more or once less than PyTorch
 * does, nor round in another place; tests/peers/test_random.py holds it to that.
 */
#include "headscope/random.h"

#include "base/status.h"

#include <math.h>
#include <stdbool.h>

enum { N_WORDS = 624, SHIFT = 397, BLOCK = 16, HALF = BLOCK / 2 };

/* ------------------------------------------------------------------------------------------------ the bits ---- */

void hsc_random_seed(hsc_random *random, uint64_t seed)
{
    uint32_t word = (uint32_t)seed;
    for (uint32_t i = 0; i < N_WORDS; i++) {
        if (i) word = UINT32_C(1812433253) * (word ^ word >> 30) + i;
        random->state[i] = word;
    }
    random->used = N_WORDS;
    random->has_normal = 0;
    random->normal = 0;
}

/* The next state: each word from itself, the one after it and the one SHIFT further on. */
static void renew(uint32_t *state)
{
    for (int i = 0; i < N_WORDS; i++) {
        uint32_t joined = (state[i] & 0x80000000u) | (state[(i + 1) % N_WORDS] & 0x7fffffffu);
        state[i] = state[(i + SHIFT) % N_WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0dfu : 0);
    }
}

uint32_t hsc_random_bits32(hsc_random *random)
{
    if (random->used >= N_WORDS) {
        renew(random->state);
        random->used = 0;
    }
    uint32_t y = random->state[random->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint64_t hsc_random_bits64(hsc_random *random)
{
    uint64_t high = hsc_random_bits32(random);
    return high << 32 | hsc_random_bits32(random);
}

/* ----------------------------------------------------------------------------------------- uniform and normal ---- */

static float uniform24(hsc_random *random)
{
    return (float)(hsc_random_bits32(random) & 0xffffffu) * 0x1p-24f;
}

static double uniform53(hsc_random *random)
{
    return (double)(hsc_random_bits64(random) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* One rounding, as PyTorch's vector levels have it. */
void hsc_random_uniform(hsc_random *random, float low, float high, size_t n, float *out)
{
    float range = high - low;
    for (size_t i = 0; i < n; i++) out[i] = fmaf(uniform24(random), range, low);
}

static const double two_pi = 6.283185307179586476925;

/* One value of a pair; the other waits for the next call. */
static double next_normal(hsc_random *random)
{
    if (random->has_normal) {
        random->has_normal = 0;
        return random->normal;
    }
    double angle = two_pi * uniform53(random), radius = sqrt(-2 * log1p(-uniform53(random)));
    random->normal = radius * sin(angle);
    random->has_normal = 1;
    return radius * cos(angle);
}

/* Uniform values in [0, 1) become normal ones: value j with value j + HALF. */
static void transform_block(float *x, float mean, float std)
{
    for (int j = 0; j < HALF; j++) {
        double radius = sqrt(-2 * log(1 - (double)x[j])), angle = two_pi * x[j + HALF];
        x[j] = (float)(radius * cos(angle) * std + mean);
        x[j + HALF] = (float)(radius * sin(angle) * std + mean);
    }
}

void hsc_random_normal(hsc_random *random, float mean, float std, size_t n, float *out)
{
    if (n < BLOCK) {
        for (size_t i = 0; i < n; i++) out[i] = (float)(next_normal(random) * std + mean);
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = uniform24(random);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) transform_block(out + i, mean, std);
    if (n % BLOCK == 0) return;
    float *last = out + n - BLOCK;
    for (int i = 0; i < BLOCK; i++) last[i] = uniform24(random);
    transform_block(last, mean, std);
}

/* ------------------------------------------------------------------------------------ integers, initial values ---- */

hsc_status hsc_random_integers(hsc_random *random, int64_t low, int64_t high, size_t n, int64_t *out, hsc_error *err)
{
    HSC_FAIL_IF(low >= high, HSC_EINVAL, "random integers from %lld up to %lld: there are none", (long long)low,
                (long long)high);
    uint64_t range = (uint64_t)high - (uint64_t)low;
    bool wide = range >= UINT64_C(1) << 28; /* the remainder of 32 bits would be uneven */
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = wide ? hsc_random_bits64(random) : hsc_random_bits32(random);
        out[i] = (int64_t)((uint64_t)low + bits % range);
    }
    return HSC_OK;
}

hsc_status hsc_random_permutation(hsc_random *random, int64_t n, int64_t *out, hsc_error *err)
{
    const int64_t limit = UINT32_MAX / 20;
    HSC_FAIL_IF(n < 0 || n >= limit, HSC_EINVAL, "a permutation of %lld: from 0 to %lld is possible", (long long)n,
                (long long)limit - 1);
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t other = i + (int64_t)(hsc_random_bits32(random) % (uint64_t)(n - i)), kept = out[i];
        out[i] = out[other];
        out[other] = kept;
    }
    return HSC_OK;
}

static void symmetric(hsc_random *random, double bound, size_t n, float *out)
{
    hsc_random_uniform(random, (float)-bound, (float)bound, n, out);
}

void hsc_random_kaiming_uniform(hsc_random *random, int n_out, int n_in, double a, float *w)
{
    double std = sqrt(2 / (1 + a * a)) / sqrt(n_in);
    symmetric(random, sqrt(3) * std, (size_t)n_out * (size_t)n_in, w);
}

void hsc_random_xavier_uniform(hsc_random *random, int n_out, int n_in, double gain, float *w)
{
    double std = gain * sqrt(2 / ((double)n_in + n_out));
    symmetric(random, sqrt(3) * std, (size_t)n_out * (size_t)n_in, w);
}
