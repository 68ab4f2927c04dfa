/* The two loops that bound every kernel: multiply-adds that touch no memory, and loads that compute next to nothing. */
#include "bench/limits.h"

#include "base/parallel.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { PEAK_STEPS = 400000, READ_PIECE = 1 << 18 };

static bool is_own_time;

void use_own_time(void)
{
    is_own_time = true;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(is_own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Each: PEAK_STEPS times 12 independent multiply-adds of `lanes` floats; a value that keeps the loop alive. */
#define PEAK_LOOP(type, set1, fma)                                                                                     \
    type sum[12], a = set1(0.999f), b = set1(0.001f);                                                                  \
    for (int i = 0; i < 12; i++) sum[i] = set1((float)i);                                                              \
    for (int s = 0; s < PEAK_STEPS; s++) {                                                                             \
        _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) sum[i] = fma(sum[i], a, b);                              \
    }                                                                                                                  \
    for (int i = 1; i < 12; i++) sum[0] = fma(sum[i], a, sum[0]);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float peak_512(void)
{
    PEAK_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps)
    return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx2,fma"))) static float peak_256(void)
{
    PEAK_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps)
    return _mm256_cvtss_f32(sum[0]);
}

#define SSE_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
static float peak_128(void)
{
    PEAK_LOOP(__m128, _mm_set1_ps, SSE_FMA)
    return _mm_cvtss_f32(sum[0]);
}
#elif defined(__aarch64__)
#define NEON_FMA(a, b, c) vfmaq_f32(c, a, b)
static float peak_128(void)
{
    PEAK_LOOP(float32x4_t, vdupq_n_f32, NEON_FMA)
    return vaddvq_f32(sum[0]);
}
#endif

typedef struct {
    float (*loop)(void);
    const unsigned char *data;
    size_t n_bytes;
    volatile float sink[256];
    volatile uint64_t bits[256];
} limit_job;

static void peak_task(void *context, size_t task, int worker)
{
    limit_job *j = context;
    (void)worker;
    j->sink[task % 256] = j->loop();
}

double limit_peak(int threads)
{
    limit_job j = {0};
    int lanes = 4;
#if defined(__x86_64__)
    j.loop = peak_128;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        j.loop = peak_256;
        lanes = 8;
    }
    if (__builtin_cpu_supports("avx512f")) {
        j.loop = peak_512;
        lanes = 16;
    }
#else
    j.loop = peak_128;
#endif
    double start = seconds();
    hsc__parallel_for(threads, (size_t)threads, peak_task, &j);
    return 2.0 * 12 * lanes * PEAK_STEPS * threads / (seconds() - start);
}

static void read_task(void *context, size_t task, int worker)
{
    limit_job *j = context;
    (void)worker;
    typedef uint64_t words __attribute__((vector_size(16)));
    const words *p = (const words *)(const void *)(j->data + task * READ_PIECE);
    words sum[4] = {{0}};
    for (size_t i = 0; i < READ_PIECE / sizeof *p; i += 8) {
        for (size_t k = 0; k < 4; k++) sum[k] += p[i + k] ^ p[i + k + 4];
    }
    j->bits[task % 256] = sum[0][0] + sum[1][0] + sum[2][0] + sum[3][0];
}

double limit_read(int threads, const void *p, size_t n_bytes)
{
    limit_job j = {.data = p, .n_bytes = n_bytes};
    double start = seconds();
    hsc__parallel_for(threads, n_bytes / READ_PIECE, read_task, &j);
    return (double)(n_bytes / READ_PIECE * READ_PIECE) / (seconds() - start);
}
