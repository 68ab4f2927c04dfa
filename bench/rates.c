/*
 * bench_kernels [-r REPEATS] [-t THREADS] [-i ISA] [WORD...]: what each kernel reaches of what the machine allows.
 *
 * Peak (a multiply-add loop in registers on all threads) and read bandwidth are measured beside every figure, in the
 * same repeat, so that a busy or throttled machine moves both; each line gives medians. One thread is timed by its own
 * processor time. WORDs pick kernels and types: "gemm", "few", "row", "Q4_1".
 */
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/pages.h"
#include "base/parallel.h"
#include "kernels/kernels.h"
#include "tensor/linear.h"

#include "bench/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPEATS = 201, POOL_BYTES = 256 << 20 };

static struct {
    const hsc__kernels *kernels;
    int threads, repeats;
    char *pool; /* more bytes than any cache holds: weights come from memory */
    size_t pool_at;
} bench;

static const char *const type_names[HSC_N_DTYPES] = {
#define TYPE_NAME(id, name, block, bytes) [id] = (name),
    HSC_DTYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
};

/* A product of `rows` rows with a weight of n_out x n_in. */
typedef struct {
    const char *name;
    hsc_dtype dtype;
    bool by_input, is_few, in_cache;
    int rows, n_out, n_in;
} shape;

/* Outputs a task takes: of a weight [n_in][n_out] long runs, for memory's sake. */
static int step_of(const shape *s)
{
    if (!s->is_few) return bench.kernels->nr;
    if (!s->by_input) return 128;
    int share = ((s->n_out + bench.threads - 1) / bench.threads + 127) / 128 * 128;
    return share < 512 ? share : 512;
}

typedef struct {
    const shape *s;
    const char *w;
    size_t row_bytes, x_stride;
    float *x, *y, *scratch;
    size_t scratch_floats;
} job;

static void panel_task(void *context, size_t task, int worker)
{
    const job *j = context;
    const hsc__kernels *k = bench.kernels;
    const shape *s = j->s;
    int o = (int)task * k->nr, cols = s->n_out - o < k->nr ? s->n_out - o : k->nr;
    float *panel = j->scratch + (size_t)worker * j->scratch_floats, *tile = panel + HSC__K_CHUNK * k->nr;
    for (int k0 = 0; k0 < s->n_in; k0 += HSC__K_CHUNK) {
        int n = s->n_in - k0 < HSC__K_CHUNK ? s->n_in - k0 : HSC__K_CHUNK;
        if (s->by_input)
            k->pack_t(s->dtype, j->w + (size_t)k0 * j->row_bytes + hsc__dtype_bytes(s->dtype, (size_t)o), j->row_bytes,
                      cols, n, panel);
        else k->pack(s->dtype, j->w + (size_t)o * j->row_bytes, j->row_bytes, cols, k0, n, panel);
        k->gemm(k0 ? HSC__GEMM_ADD : HSC__GEMM_START, s->rows, cols, n, j->x + k0, j->x_stride, panel, (size_t)k->nr,
                tile, (size_t)k->nr, NULL);
    }
    for (int r = 0; r < s->rows; r++)
        memcpy(j->y + (size_t)r * (size_t)s->n_out + o, tile + (size_t)r * (size_t)k->nr, (size_t)cols * sizeof(float));
}

static void few_task(void *context, size_t task, int worker)
{
    const job *j = context;
    const shape *s = j->s;
    int step = step_of(s), o = (int)task * step, cols = s->n_out - o < step ? s->n_out - o : step;
    float *tile = j->scratch + (size_t)worker * j->scratch_floats;
    if (s->by_input)
        bench.kernels->few_t(s->dtype, j->w + hsc__dtype_bytes(s->dtype, (size_t)o), j->row_bytes, cols, s->n_in, j->x,
                             j->x_stride, s->rows, tile, (size_t)step);
    else
        bench.kernels->few(s->dtype, j->w + (size_t)o * j->row_bytes, j->row_bytes, cols, s->n_in, j->x, j->x_stride,
                           s->rows, tile, (size_t)step);
    for (int r = 0; r < s->rows; r++)
        memcpy(j->y + (size_t)r * (size_t)s->n_out + o, tile + (size_t)(r * step), (size_t)cols * sizeof(float));
}

static void run_product(job *j, size_t bytes)
{
    const shape *s = j->s;
    if (!s->in_cache) {
        if (bench.pool_at + bytes > POOL_BYTES) bench.pool_at = 0;
        j->w = bench.pool + bench.pool_at;
        bench.pool_at += bytes;
    }
    int step = step_of(s);
    hsc__parallel_for(bench.threads, (size_t)((s->n_out + step - 1) / step), s->is_few ? few_task : panel_task, j);
}

static void bench_product(const shape *s)
{
    int stored_rows = s->by_input ? s->n_in : s->n_out, stored_cols = s->by_input ? s->n_out : s->n_in;
    job j = {.s = s, .w = bench.pool, .x_stride = (size_t)s->n_in};
    j.row_bytes = hsc__dtype_bytes(s->dtype, (size_t)stored_cols);
    size_t bytes = j.row_bytes * (size_t)stored_rows;
    j.scratch_floats = (size_t)(HSC__K_CHUNK * bench.kernels->nr + s->rows * step_of(s));
    j.x = hsc__malloc_aligned((size_t)s->rows * j.x_stride * sizeof(float));
    j.y = hsc__malloc_aligned((size_t)s->rows * (size_t)s->n_out * sizeof(float));
    j.scratch = hsc__malloc_aligned((size_t)bench.threads * j.scratch_floats * sizeof(float));
    if (!j.x || !j.y || !j.scratch) exit(1);
    for (size_t i = 0; i < (size_t)s->rows * j.x_stride; i++) j.x[i] = (float)(i % 17) / 16 - 0.5f;
    double flops = 2.0 * s->rows * s->n_out * s->n_in, rate[MAX_REPEATS], of_peak[MAX_REPEATS], of_read[MAX_REPEATS];
    int calls = 1 + (int)(30e6 / (double)bytes + 3e9 / flops) / 2;
    for (int i = -1; i < bench.repeats; i++) {
        double peak = limit_peak(bench.threads), read = limit_read(bench.threads, bench.pool, POOL_BYTES / 4);
        double start = seconds();
        for (int c = 0; c < calls; c++) run_product(&j, bytes);
        double each = (seconds() - start) / calls;
        if (i < 0) continue;
        rate[i] = flops / each * 1e-9;
        of_peak[i] = flops / each / peak;
        of_read[i] = (double)bytes / each / read;
    }
    double r = median(rate, bench.repeats), p = median(of_peak, bench.repeats), m = median(of_read, bench.repeats);
    printf("%-10s %-5s %5d x %5d x %5d  %7.1f GFLOP/s  %5.1f%% of peak  %6.1f%% of read bandwidth\n", s->name,
           type_names[s->dtype], s->rows, s->n_out, s->n_in, r, 100 * p, 100 * m);
    fflush(stdout);
    hsc__free_aligned(j.x);
    hsc__free_aligned(j.y);
    hsc__free_aligned(j.scratch);
}

/* One row through a weight, as a token that is made takes it: the loop of tensor/linear.c in the type's own kind. */
typedef struct {
    hsc_dtype dtype;
    hsc_compute compute;
    bool by_input;
    int n_out, n_in;
} row_product;

static const char *const compute_names[] = {
    [HSC_COMPUTE_F32] = "f32", [HSC_COMPUTE_BF16] = "bf16", [HSC_COMPUTE_Q8] = "q8"};

static void bench_row_product(const row_product *r)
{
    hsc__exec exec;
    hsc__weight w = {.dtype = r->dtype, .transposed = r->by_input, .n_out = r->n_out, .n_in = r->n_in};
    w.row_bytes = hsc__dtype_bytes(r->dtype, (size_t)(r->by_input ? r->n_out : r->n_in));
    size_t bytes = w.row_bytes * (size_t)(r->by_input ? r->n_in : r->n_out);
    float *x = hsc__malloc_aligned((size_t)(r->n_in + r->n_out) * sizeof *x);
    if (!x || hsc__exec_init(&exec, bench.threads, hsc__linear_scratch(1), r->compute, 1, r->n_in, NULL) != HSC_OK)
        exit(1);
    for (int i = 0; i < r->n_in; i++) x[i] = (float)(i % 17) / 16 - 0.5f;
    hsc__linear product = {&w, x, (size_t)r->n_in, x + r->n_in, (size_t)r->n_out, NULL, 0};
    exec.kernels = bench.kernels;
    double rate[MAX_REPEATS], of_read[MAX_REPEATS];
    int calls = 1 + (int)(100e6 / (double)bytes);
    for (int i = -1; i < bench.repeats; i++) {
        double read = limit_read(bench.threads, bench.pool, POOL_BYTES / 2), start = seconds();
        for (int c = 0; c < calls; c++, bench.pool_at += bytes) {
            if (bench.pool_at + bytes > POOL_BYTES) bench.pool_at = 0;
            w.data = bench.pool + bench.pool_at;
            hsc__linear_forward(&exec, &product, 1, 1);
        }
        double each = (seconds() - start) / calls;
        if (i < 0) continue;
        rate[i] = (double)bytes / each * 1e-9;
        of_read[i] = (double)bytes / each / read;
    }
    double gb = median(rate, bench.repeats), part = median(of_read, bench.repeats);
    printf("row        %-6s %-4s %5d x %5d%s  %6.1f GB/s  %5.1f%% of read bandwidth\n", type_names[r->dtype],
           compute_names[r->compute], r->n_out, r->n_in, r->by_input ? " t" : "  ", gb, 100 * part);
    fflush(stdout);
    hsc__exec_free(&exec);
    hsc__free_aligned(x);
}

/* Row and element kernels: ns and GB/s of a row that stays in the second-level cache, on one thread. */
typedef struct {
    const char *name;
    int n;
    void (*run)(int n, float *a, const float *b, const float *c);
} row_kernel;

static void run_layer_norm(int n, float *a, const float *b, const float *c)
{
    bench.kernels->layer_norm(b, c, c, 1e-5f, n, a);
}

static void run_rms_norm(int n, float *a, const float *b, const float *c)
{
    bench.kernels->rms_norm(b, c, 1e-5f, n, a);
}

static void run_softmax(int n, float *a, const float *b, const float *c)
{
    (void)b;
    (void)c;
    bench.kernels->softmax(a, n);
}

static void run_scale_cap(int n, float *a, const float *b, const float *c)
{
    (void)b;
    (void)c;
    bench.kernels->scale_cap(a, n, 1.01f, 50);
}

static void run_scale(int n, float *a, const float *b, const float *c)
{
    (void)b;
    (void)c;
    bench.kernels->scale_cap(a, n, 1, 0);
}

static void run_gelu(int n, float *a, const float *b, const float *c)
{
    (void)c;
    bench.kernels->act(HSC__ACT_GELU, b, n, a);
}

static void run_gelu_tanh(int n, float *a, const float *b, const float *c)
{
    (void)c;
    bench.kernels->act(HSC__ACT_GELU_TANH, b, n, a);
}

static void run_tanh(int n, float *a, const float *b, const float *c)
{
    (void)c;
    bench.kernels->act(HSC__ACT_TANH, b, n, a);
}

static void run_silu_gate(int n, float *a, const float *b, const float *c)
{
    bench.kernels->gate(HSC__ACT_SILU, b, c, n, a);
}

static void run_add(int n, float *a, const float *b, const float *c)
{
    bench.kernels->add(b, c, n, a);
}

static void run_rope(int n, float *a, const float *b, const float *c)
{
    bench.kernels->rope(a, b, c, n / 2, false);
}

static void run_rope_pairs(int n, float *a, const float *b, const float *c)
{
    bench.kernels->rope(a, b, c, n / 2, true);
}

static const row_kernel row_kernels[] = {{"softmax", 512, run_softmax},
                                         {"softmax", 4096, run_softmax},
                                         {"layer_norm", 768, run_layer_norm},
                                         {"rms_norm", 576, run_rms_norm},
                                         {"gelu", 3072, run_gelu},
                                         {"gelu_tanh", 3072, run_gelu_tanh},
                                         {"tanh", 3072, run_tanh},
                                         {"silu_gate", 1536, run_silu_gate},
                                         {"scale_cap", 4096, run_scale_cap},
                                         {"scale", 4096, run_scale},
                                         {"add", 768, run_add},
                                         {"rope", 64, run_rope},
                                         {"rope_pairs", 64, run_rope_pairs}};

static void bench_row(const row_kernel *k)
{
    float *a = hsc__malloc_aligned((size_t)k->n * 3 * sizeof *a), *b = a + k->n, *c = b + k->n;
    if (!a) exit(1);
    double rate[MAX_REPEATS];
    int calls = 1 + 2000000 / k->n;
    for (int i = 0; i < bench.repeats; i++) {
        for (int j = 0; j < 3 * k->n; j++) a[j] = (float)(j * 7919 % 1024) / 200 - 2.5f;
        double start = seconds();
        for (int j = 0; j < calls; j++) k->run(k->n, a, b, c);
        rate[i] = (double)k->n * calls / (seconds() - start) * 1e-9;
    }
    double r = median(rate, bench.repeats);
    printf("%-10s %22d  %7.2f Gvalues/s  %8.1f ns a row\n", k->name, k->n, r, k->n / r);
    hsc__free_aligned(a);
}

static const shape shapes[] = {
    {"gemm", HSC_F32, false, false, true, 1024, 3072, 768},   {"gemm", HSC_F32, false, false, true, 1024, 768, 3072},
    {"gemm", HSC_F32, true, false, true, 1024, 3072, 768},    {"gemm", HSC_F32, true, false, true, 1024, 768, 3072},
    {"gemm", HSC_F32, false, false, true, 516, 1536, 576},    {"gemm", HSC_F32, false, false, true, 516, 576, 1536},
    {"gemm", HSC_F32, false, false, true, 1024, 1024, 4096},  {"gemm", HSC_F32, false, false, true, 64, 3072, 768},
    {"gemm", HSC_F32, true, false, true, 64, 3072, 768},      {"gemm", HSC_BF16, false, false, true, 516, 1536, 576},
    {"gemm", HSC_F16, false, false, true, 516, 1536, 576},    {"gemm", HSC_Q8_0, false, false, true, 516, 1536, 576},
    {"gemm", HSC_Q4_1, false, false, true, 516, 1536, 576},   {"few", HSC_F32, false, true, false, 1, 49152, 576},
    {"few", HSC_F32, false, true, false, 1, 3072, 768},       {"few", HSC_F32, false, true, false, 1, 768, 3072},
    {"few", HSC_F32, false, true, false, 4, 3072, 768},       {"few", HSC_F32, false, true, false, 8, 3072, 768},
    {"few", HSC_F32, false, true, false, 12, 3072, 768},      {"few", HSC_F32, false, true, false, 12, 768, 3072},
    {"few", HSC_F32, false, true, false, 16, 3072, 768},      {"few", HSC_F32, false, true, false, 24, 3072, 768},
    {"few", HSC_F32, false, true, false, 32, 3072, 768},      {"few", HSC_F32, false, true, false, 48, 3072, 768},
    {"panels", HSC_F32, false, false, false, 12, 3072, 768},  {"panels", HSC_F32, false, false, false, 16, 3072, 768},
    {"panels", HSC_F32, false, false, false, 24, 3072, 768},  {"panels", HSC_F32, false, false, false, 32, 3072, 768},
    {"panels", HSC_F32, false, false, false, 48, 3072, 768},  {"panels", HSC_F32, false, false, false, 64, 3072, 768},
    {"few_t", HSC_F32, true, true, false, 1, 3072, 768},      {"few_t", HSC_F32, true, true, false, 1, 768, 3072},
    {"few_t", HSC_F32, true, true, false, 4, 3072, 768},      {"few_t", HSC_F32, true, true, false, 12, 3072, 768},
    {"few_t", HSC_F32, true, true, false, 12, 768, 3072},     {"few_t", HSC_F32, true, true, false, 24, 3072, 768},
    {"few_t", HSC_F32, true, true, false, 48, 3072, 768},     {"panels_t", HSC_F32, true, false, false, 12, 3072, 768},
    {"panels_t", HSC_F32, true, false, false, 24, 3072, 768}, {"panels_t", HSC_F32, true, false, false, 64, 3072, 768},
    {"few", HSC_BF16, false, true, false, 1, 1536, 576},      {"few", HSC_BF16, false, true, false, 12, 1536, 576},
    {"few", HSC_F16, false, true, false, 1, 1536, 576},       {"few", HSC_F16, false, true, false, 12, 1536, 576},
    {"few", HSC_Q8_0, false, true, false, 1, 1536, 576},      {"few", HSC_Q8_0, false, true, false, 12, 1536, 576},
    {"few", HSC_Q4_0, false, true, false, 1, 1536, 576},      {"few", HSC_Q4_0, false, true, false, 12, 1536, 576},
    {"few", HSC_Q4_1, false, true, false, 1, 1536, 576},      {"few", HSC_Q4_1, false, true, false, 12, 1536, 576},
    {"few", HSC_Q4_1, false, true, false, 32, 1536, 576},     {"few", HSC_Q5_0, false, true, false, 1, 1536, 576},
    {"few", HSC_Q5_1, false, true, false, 1, 1536, 576},      {"few", HSC_Q5_1, false, true, false, 12, 1536, 576},
};

/* Shapes of SmolLM2-135M and, by input, of GPT-2. */
static const row_product row_products[] = {
    {HSC_F32, HSC_COMPUTE_F32, false, 1536, 576},   {HSC_F32, HSC_COMPUTE_F32, false, 576, 1536},
    {HSC_F32, HSC_COMPUTE_F32, false, 576, 576},    {HSC_F32, HSC_COMPUTE_F32, false, 49152, 576},
    {HSC_F32, HSC_COMPUTE_F32, true, 2304, 768},    {HSC_F32, HSC_COMPUTE_F32, true, 3072, 768},
    {HSC_F32, HSC_COMPUTE_F32, true, 768, 3072},    {HSC_F16, HSC_COMPUTE_F32, false, 1536, 576},
    {HSC_BF16, HSC_COMPUTE_F32, false, 1536, 576},  {HSC_BF16, HSC_COMPUTE_BF16, false, 1536, 576},
    {HSC_BF16, HSC_COMPUTE_BF16, false, 576, 1536}, {HSC_BF16, HSC_COMPUTE_BF16, false, 49152, 576},
    {HSC_Q8_0, HSC_COMPUTE_Q8, false, 1536, 576},   {HSC_Q8_0, HSC_COMPUTE_Q8, false, 576, 1536},
    {HSC_Q8_0, HSC_COMPUTE_Q8, false, 49152, 576},  {HSC_Q4_0, HSC_COMPUTE_Q8, false, 1536, 576},
    {HSC_Q4_1, HSC_COMPUTE_Q8, false, 1536, 576},   {HSC_Q4_1, HSC_COMPUTE_Q8, false, 576, 1536},
    {HSC_Q5_0, HSC_COMPUTE_Q8, false, 1536, 576},   {HSC_Q5_1, HSC_COMPUTE_Q8, false, 1536, 576},
    {HSC_IQ4_NL, HSC_COMPUTE_Q8, false, 1536, 576}, {HSC_Q2_K, HSC_COMPUTE_Q8, false, 1536, 768},
    {HSC_Q3_K, HSC_COMPUTE_Q8, false, 1536, 768},   {HSC_Q4_K, HSC_COMPUTE_Q8, false, 1536, 768},
    {HSC_Q5_K, HSC_COMPUTE_Q8, false, 1536, 768},   {HSC_Q6_K, HSC_COMPUTE_Q8, false, 1536, 768},
    {HSC_IQ4_XS, HSC_COMPUTE_Q8, false, 1536, 768},
};

static bool is_wanted(const char *name, hsc_dtype dtype, int n_words, char **words)
{
    if (n_words == 0) return true;
    for (int i = 0; i < n_words; i++) {
        if (strcmp(name, words[i]) == 0 || (dtype != HSC_OTHER && strcmp(type_names[dtype], words[i]) == 0))
            return true;
    }
    return false;
}

static void fill_pool(void)
{
    for (size_t i = 0; i < POOL_BYTES / sizeof(float); i++) { /* sound as floats and as half-precision scales */
        float value = (float)(i * 2654435761u % 1024) / 1024 - 0.5f;
        memcpy(bench.pool + i * sizeof value, &value, sizeof value);
    }
}

int main(int argc, char **argv)
{
    bench.threads = hsc__default_threads();
    bench.repeats = 9;
    bench.kernels = hsc__kernels_get();
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        const hsc__kernels *all[8];
        int n = hsc__kernels_all(all, 8);
        if (argv[at][1] == 'r') bench.repeats = atoi(argv[at + 1]);
        if (argv[at][1] == 't') bench.threads = atoi(argv[at + 1]);
        for (int i = 0; i < n && argv[at][1] == 'i'; i++) {
            if (strcmp(all[i]->name, argv[at + 1]) == 0) bench.kernels = all[i];
        }
    }
    if (bench.repeats < 1 || bench.repeats > MAX_REPEATS || bench.threads < 1) return 2;
    if (bench.threads == 1) use_own_time();
    bench.pool = hsc__malloc_aligned(POOL_BYTES);
    if (!bench.pool) return 1;
    hsc__pages_prefer_huge(bench.pool, POOL_BYTES); /* as the pages of a checkpoint are where the system can */
    fill_pool();
    printf("%s, %d threads: peak %.1f GFLOP/s, read %.1f GB/s\n", bench.kernels->name, bench.threads,
           limit_peak(bench.threads) * 1e-9, limit_read(bench.threads, bench.pool, POOL_BYTES) * 1e-9);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (is_wanted(shapes[i].name, shapes[i].dtype, argc - at, argv + at)) bench_product(&shapes[i]);
    }
    for (size_t i = 0; i < sizeof row_products / sizeof row_products[0]; i++) {
        if (is_wanted("row", row_products[i].dtype, argc - at, argv + at)) bench_row_product(&row_products[i]);
    }
    for (size_t i = 0; i < sizeof row_kernels / sizeof row_kernels[0]; i++) {
        if (is_wanted(row_kernels[i].name, HSC_OTHER, argc - at, argv + at)) bench_row(&row_kernels[i]);
    }
    hsc__free_aligned(bench.pool);
    return 0;
}
