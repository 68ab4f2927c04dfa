/* Two walks over the weights: how much memory, then the values. Rows are spread over threads and do not depend on them.
 */
#include "model/recast.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/pages.h"
#include "base/parallel.h"
#include "headscope/random.h"

#include <string.h>
#include <time.h>

enum {
    ALIGNMENT = 64,
    TURNED_OUTPUTS = 64, /* outputs of a task that transposes */
    TASK_VALUES = 1 << 16,
    SLAB_BYTES = 4 << 20, /* of the file that are in memory at once */
};

/* One matrix on its way. */
typedef struct job {
    hsc__weight from;
    hsc_dtype dtype;
    size_t row_bytes;
    int step;       /* outputs a task */
    int begin, end; /* outputs of the slab under way */
    unsigned char *to;
    float *scratch; /* [n_threads][step * n_in] */
} job;

/* Outputs [o, o + n) of a matrix stored [n_in][n_out]. */
static void load_turned(const hsc__weight *w, int o, int n, float *x)
{
    size_t skip = hsc__dtype_bytes(w->dtype, (size_t)o);
    for (int64_t k = 0; k < w->n_in; k++) {
        float part[TURNED_OUTPUTS];
        hsc__kernels_get()->dequantise(w->dtype, (const char *)w->data + (size_t)k * w->row_bytes + skip, n, part);
        for (int i = 0; i < n; i++) x[i * w->n_in + k] = part[i];
    }
}

static void run_task(void *context, size_t task, int worker)
{
    const job *j = context;
    const hsc__weight *w = &j->from;
    int o = j->begin + (int)task * j->step, n = j->end - o < j->step ? j->end - o : j->step;
    float *x = j->scratch + (size_t)worker * (size_t)j->step * (size_t)w->n_in;
    if (w->transposed) load_turned(w, o, n, x);
    for (int i = 0; i < n; i++) {
        if (!w->transposed) hsc__weight_row(hsc__kernels_get(), w, o + i, x + i * w->n_in);
        hsc__kernels_ref()->quantise(j->dtype, x + i * w->n_in, w->n_in, j->to + (size_t)(o + i) * j->row_bytes);
    }
}

static int step_of(const hsc__weight *w)
{
    if (w->transposed) return TURNED_OUTPUTS;
    return w->n_in < TASK_VALUES ? (int)(TASK_VALUES / w->n_in) : 1;
}

/* Bytes of a matrix as it lies in the file, its own outputs only. */
static uint64_t bytes_in_file(const hsc__weight *w)
{
    return (uint64_t)hsc__dtype_bytes(w->dtype, w->transposed ? (size_t)w->n_out : (size_t)w->n_in) *
           (uint64_t)(w->transposed ? w->n_in : w->n_out);
}

/* Bytes from the first to the last that a matrix has in the file; others may lie between them. */
static uint64_t span_in_file(const hsc__weight *w)
{
    if (w->transposed) return (uint64_t)(w->n_in - 1) * w->row_bytes + hsc__dtype_bytes(w->dtype, (size_t)w->n_out);
    if (w->group) return (uint64_t)(w->n_out / w->group - 1) * w->group_bytes + (uint64_t)w->group * w->row_bytes;
    return (uint64_t)w->n_out * w->row_bytes;
}

static size_t bytes_converted(const hsc__weight *w, hsc_dtype dtype)
{
    size_t n = (size_t)w->n_out * hsc__dtype_bytes(dtype, (size_t)w->n_in);
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The weights that multiply, in the order in which a pass reads them: those of every layer, the encoder's first, then
 * the output. The embedding is looked up row by row where it is mapped, also where the output is the same matrix. */
static hsc__weight *weight_at(hsc__desc *desc, size_t index)
{
    enum { N = 11 };
    size_t layer = index / N, n_encoder = desc->encoder ? (size_t)desc->encoder->config.n_layers : 0;
    size_t n_layers = n_encoder + (size_t)desc->config.n_layers;
    if (layer >= n_layers) return index == N * n_layers ? &desc->unembed : NULL;
    hsc__layer *l = layer < n_encoder ? &desc->encoder->layers[layer] : &desc->layers[layer - n_encoder];
    hsc__cross *c = &l->cross;
    hsc__weight *const weights[N] = {&l->w_q, &l->w_k, &l->w_v,  &l->w_o,  &c->w_q,  &c->w_k,
                                     &c->w_v, &c->w_o, &l->w_in, &l->w_up, &l->w_out};
    return weights[index % N];
}

static bool is_wanted(const hsc__weight *w, const hsc__recast_plan *plan, hsc__recast *r)
{
    if (!w->data || (w->dtype == plan->dtype && !plan->shuffle)) return false;
    if (w->n_in % hsc__dtype_block(plan->dtype) == 0) return true;
    r->n_odd++;
    return false;
}

static size_t widest_scratch(hsc__desc *desc, const hsc__recast_plan *plan)
{
    size_t most = 0;
    hsc__recast unused = {0};
    hsc__weight *w;
    for (size_t i = 0; (w = weight_at(desc, i)); i++) {
        if (!is_wanted(w, plan, &unused)) continue;
        size_t n = (size_t)step_of(w) * (size_t)w->n_in;
        most = n > most ? n : most;
    }
    return most;
}

/* Fisher and Yates. The bias of a 32-bit remainder is below n / 2^32. */
static void shuffle(float *x, size_t n, uint64_t seed)
{
    hsc_random random;
    hsc_random_seed(&random, seed);
    for (size_t i = n; i > 1; i--) {
        size_t at = hsc_random_bits32(&random) % i;
        float kept = x[i - 1];
        x[i - 1] = x[at];
        x[at] = kept;
    }
}

/* What was read is let go slab by slab, so that a large matrix is never in memory as a whole beside its copy. One whose
 * rows do not follow each other is a slab of its own. */
static void convert_matrix(job *j, int n_threads)
{
    const hsc__weight *w = &j->from;
    int slab = w->n_out;
    if (!w->transposed && !w->group) slab = (int)(SLAB_BYTES / w->row_bytes) / j->step * j->step;
    if (slab < j->step) slab = j->step;
    for (j->begin = 0; j->begin < w->n_out; j->begin = j->end) {
        j->end = w->n_out - j->begin < slab ? w->n_out : j->begin + slab;
        hsc__parallel_for(n_threads, (size_t)((j->end - j->begin + j->step - 1) / j->step), run_task, j);
        if (slab < w->n_out)
            hsc__pages_forget((const char *)w->data + (size_t)j->begin * w->row_bytes,
                              (uint64_t)(j->end - j->begin) * w->row_bytes);
    }
    hsc__pages_forget(w->data, span_in_file(w));
}

static void convert(hsc__desc *desc, const hsc__recast_plan *plan, int n_threads, float *scratch, hsc__recast *r)
{
    hsc_dtype dtype = plan->dtype;
    unsigned char *to = r->data;
    hsc__weight *w;
    hsc__recast unused = {0};
    for (size_t i = 0; (w = weight_at(desc, i)); i++) {
        if (!is_wanted(w, plan, &unused)) continue;
        job j = {.from = *w, .dtype = dtype, .row_bytes = hsc__dtype_bytes(dtype, (size_t)w->n_in)};
        j.step = step_of(w);
        j.to = to;
        j.scratch = scratch;
        convert_matrix(&j, n_threads);
        if (plan->shuffle) shuffle((float *)(void *)to, (size_t)w->n_out * (size_t)w->n_in, plan->seed + i);
        w->dtype = dtype;
        w->transposed = false;
        w->group = 0;
        w->row_bytes = j.row_bytes;
        w->data = to;
        to += bytes_converted(w, dtype);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

hsc_status hsc__recast_weights(hsc__desc *desc, const hsc__recast_plan *plan, hsc__recast *out, hsc_error *err)
{
    hsc_dtype dtype = plan->dtype;
    int n_threads = plan->n_threads;
    hsc__weight *w;
    double begin = now();
    *out = (hsc__recast){0};
    HSC_FAIL_IF(dtype != HSC_F32 && dtype != HSC_F16 && dtype != HSC_BF16 && dtype != HSC_Q8_0, HSC_EINVAL,
                "weights are not converted to %s in memory: F32, F16, BF16 and Q8_0 are possible",
                hsc_dtype_name(dtype));
    if (n_threads <= 0) n_threads = hsc__default_threads();
    for (size_t i = 0; (w = weight_at(desc, i)); i++) {
        if (!is_wanted(w, plan, out)) continue;
        out->n_bytes += bytes_converted(w, dtype);
        out->from_bytes += bytes_in_file(w);
        out->n_matrices++;
    }
    if (out->n_matrices == 0) return HSC_OK;
    size_t scratch_bytes = (size_t)n_threads * widest_scratch(desc, plan) * sizeof(float);
    float *scratch = hsc__malloc(scratch_bytes);
    out->data = hsc__malloc_aligned((size_t)out->n_bytes);
    if (!scratch || !out->data) {
        uint64_t n_bytes = out->n_bytes;
        hsc__free(scratch);
        hsc__recast_free(out);
        return hsc__fail_memory(err, (size_t)n_bytes, "the converted weights");
    }
    hsc__pages_prefer_huge(out->data, out->n_bytes);
    convert(desc, plan, n_threads, scratch, out);
    hsc__free(scratch);
    out->seconds = now() - begin;
    return HSC_OK;
}

void hsc__recast_free(hsc__recast *recast)
{
    hsc__free_aligned(recast->data);
    *recast = (hsc__recast){0};
}
