/*
 * The values of one tensor on their way: a slab of rows at a time is read from the mapping, brought into order, written
 * in its new type into a buffer, and read back to measure what was lost. Rows are spread over threads; sums of errors
 * are added in the order of the rows, so that nothing depends on the number of threads.
 */
#include "model/convert/convert.h"

#include "base/dtype.h"
#include "base/pages.h"
#include "base/parallel.h"

#include <math.h>
#include <string.h>

enum {
    SLAB_VALUES = 1 << 22, /* what is in memory at once, in float32 16 MiB */
    TASK_VALUES = 1 << 16,
    TURNED_ROWS = 256, /* rows of a task that transposes: whole blocks of every type */
    COPY_BYTES = 1 << 24,
};

typedef enum { SOUND, NOT_FINITE, TOO_LARGE } fault;

/* What came of a task. */
typedef struct outcome {
    double error, size; /* sums of squares */
    fault fault;
} outcome;

typedef struct slab {
    const hsc__item *item;
    int64_t n_rows, cols; /* of the tensor as it is written */
    int64_t first, count; /* rows of this slab */
    int64_t step;         /* rows a task */
    unsigned char *out;
    float *scratch; /* [n_threads][2][step * cols] */
    outcome *outcomes;
} slab;

static size_t stored_bytes(hsc_dtype dtype, int64_t n)
{
    return hsc__dtype_bytes(dtype, (size_t)n);
}

/* The row of the source that row r of the target is. */
static int64_t source_row(const slab *s, int64_t r)
{
    int64_t n_heads = s->item->n_heads, wide = s->n_rows / n_heads, at = r % wide, half = wide / 2, third = wide / 3;
    int64_t block = r / third;
    switch (s->item->how) {
    case HSC__PAIRED: return r - at + at % 2 * half + at / 2;
    case HSC__UNPAIRED: return r - at + at % half * 2 + at / half;
    case HSC__PARTED: return (block % n_heads * 3 + block / n_heads) * third + r % third;
    case HSC__JOINED: return (block % 3 * n_heads + block / 3) * third + r % third;
    default: return r;
    }
}

/* Target rows [r0, r0 + n) are columns of the source: each of its rows gives one value to each. */
static void load_turned(const slab *s, int64_t r0, int64_t n, float *x)
{
    const hsc__tensor *from = s->item->from;
    size_t row_bytes = stored_bytes(from->dtype, s->n_rows), skip = stored_bytes(from->dtype, r0);
    for (int64_t c = 0; c < s->cols; c++) {
        float part[TURNED_ROWS];
        hsc__kernels_get()->dequantise(from->dtype, (const char *)from->data + (size_t)c * row_bytes + skip, n, part);
        for (int64_t r = 0; r < n; r++) x[r * s->cols + c] = part[r];
    }
}

static void load_rows(const slab *s, int64_t r0, int64_t n, float *x)
{
    const hsc__tensor *from = s->item->from;
    const hsc__kernels *k = hsc__kernels_get();
    size_t row_bytes = stored_bytes(from->dtype, s->cols);
    const char *data = from->data;
    switch (s->item->how) {
    case HSC__TURNED: load_turned(s, r0, n, x); return;
    case HSC__AS_STORED:
    case HSC__LAST_ROWS:
        r0 += s->item->n_before;
        k->dequantise(from->dtype, data + (size_t)r0 * row_bytes, n * s->cols, x);
        return;
    case HSC__ONE_MORE:
    case HSC__ONE_LESS:
        k->dequantise(from->dtype, data + (size_t)r0 * row_bytes, n * s->cols, x);
        for (int64_t i = 0; i < n * s->cols; i++) x[i] += s->item->how == HSC__ONE_MORE ? 1.0f : -1.0f;
        return;
    case HSC__PAIRED:
    case HSC__UNPAIRED:
    case HSC__PARTED:
    case HSC__JOINED:
        for (int64_t r = 0; r < n; r++)
            k->dequantise(from->dtype, data + (size_t)source_row(s, r0 + r) * row_bytes, s->cols, x + r * s->cols);
    }
}

static bool all_finite(const float *x, int64_t n)
{
    float sum = 0; /* 0 times a value is 0, unless it is not finite */
    for (int64_t i = 0; i < n; i++) sum += x[i] * 0.0f;
    return sum == 0;
}

static outcome store_rows(hsc_dtype dtype, const float *x, int64_t n, void *out, float *y)
{
    outcome o = {0};
    bool finite = all_finite(x, n);
    if (!finite && hsc__dtype_block(dtype) > 1) return (outcome){.fault = NOT_FINITE};
    hsc__kernels_ref()->quantise(dtype, x, n, out);
    if (dtype == HSC_F32) return o;
    hsc__kernels_get()->dequantise(dtype, out, n, y);
    if (finite && !all_finite(y, n)) return (outcome){.fault = TOO_LARGE};
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];
        o.error += d * d;
        o.size += (double)x[i] * (double)x[i];
    }
    return o;
}

static void run_task(void *context, size_t task, int worker)
{
    slab *s = context;
    int64_t r0 = (int64_t)task * s->step, n = s->count - r0 < s->step ? s->count - r0 : s->step;
    float *x = s->scratch + (size_t)worker * 2 * (size_t)(s->step * s->cols);
    load_rows(s, s->first + r0, n, x);
    s->outcomes[task] = store_rows(s->item->dtype, x, n * s->cols, s->out + stored_bytes(s->item->dtype, r0 * s->cols),
                                   x + s->step * s->cols);
}

static hsc_status copy_bytes(hsc__convert *c, const hsc__item *item, hsc__sink *sink, hsc_error *err)
{
    for (uint64_t at = 0; at < item->n_bytes; at += COPY_BYTES) {
        const char *data = (const char *)item->from->data + at;
        uint64_t n = item->n_bytes - at < COPY_BYTES ? item->n_bytes - at : COPY_BYTES;
        HSC_TRY(hsc__sink_put(sink, data, n, err));
        hsc__pages_forget(data, n);
        c->done += n;
        HSC_TRY(hsc__convert_progress(c, item->name, err));
    }
    return HSC_OK;
}

static hsc_status judge(const hsc__convert *c, const hsc__item *item, const outcome *o, hsc_error *err)
{
    HSC_FAIL_IF(o->fault == NOT_FINITE, HSC_EUNSUPPORTED, "%s: tensor %s holds values that are not finite, which %s %s",
                c->in, item->from->name, item->type_name, "cannot hold");
    HSC_FAIL_IF(o->fault == TOO_LARGE, HSC_EUNSUPPORTED, "%s: tensor %s holds values that are too large for %s", c->in,
                item->from->name, item->type_name);
    return HSC_OK;
}

static hsc_status write_slab(hsc__convert *c, slab *s, int n_threads, hsc__sink *sink, hsc_error *err)
{
    const hsc__item *item = s->item;
    hsc_convert_sum *sum = &c->report->types[item->dtype];
    size_t n_tasks = (size_t)((s->count + s->step - 1) / s->step);
    hsc__parallel_for(n_threads, n_tasks, run_task, s);
    for (size_t i = 0; i < n_tasks; i++) {
        HSC_TRY(judge(c, item, &s->outcomes[i], err));
        sum->error += s->outcomes[i].error;
        sum->size += s->outcomes[i].size;
    }
    HSC_TRY(hsc__sink_put(sink, s->out, stored_bytes(item->dtype, s->count * s->cols), err));
    c->done += (uint64_t)((double)item->from->n_bytes * (double)s->count / (double)s->n_rows);
    return hsc__convert_progress(c, item->name, err);
}

static hsc_status write_slabs(hsc__convert *c, slab *s, int64_t slab_rows, int n_threads, hsc__sink *sink,
                              hsc_error *err)
{
    const hsc__tensor *from = s->item->from;
    uint64_t before = c->done;
    for (s->first = 0; s->first < s->n_rows; s->first += s->count) {
        s->count = s->n_rows - s->first < slab_rows ? s->n_rows - s->first : slab_rows;
        HSC_TRY(write_slab(c, s, n_threads, sink, err));
        if (s->item->how == HSC__AS_STORED)
            hsc__pages_forget((const char *)from->data + stored_bytes(from->dtype, s->first * s->cols),
                              stored_bytes(from->dtype, s->count * s->cols));
    }
    c->done = before + from->n_bytes;
    hsc__pages_forget(from->data, from->n_bytes);
    return HSC_OK;
}

static hsc_status convert_values(hsc__convert *c, const hsc__item *item, hsc__sink *sink, hsc_error *err)
{
    int n_threads = c->options->n_threads ? c->options->n_threads : hsc__default_threads();
    slab s = {.item = item, .cols = item->n_dims > 0 ? item->shape[item->n_dims - 1] : 1};
    /* The values of a bias are rows of one value each when heads are rearranged. */
    if (item->n_dims < 2 && item->how != HSC__AS_STORED) s.cols = 1;
    s.n_rows = (int64_t)item->from->n_elements / s.cols - item->n_before;
    s.step = item->how == HSC__TURNED ? TURNED_ROWS : s.cols < TASK_VALUES ? TASK_VALUES / s.cols : 1;
    if (s.step > s.n_rows) s.step = s.n_rows;
    int64_t n_tasks = SLAB_VALUES / (s.step * s.cols) > 1 ? SLAB_VALUES / (s.step * s.cols) : 1;
    size_t slab_bytes = stored_bytes(item->dtype, n_tasks * s.step * s.cols);
    size_t scratch_bytes = (size_t)n_threads * 2 * (size_t)(s.step * s.cols) * sizeof *s.scratch;
    s.out = hsc__malloc(slab_bytes);
    s.scratch = hsc__malloc(scratch_bytes);
    s.outcomes = hsc__calloc((size_t)n_tasks, sizeof *s.outcomes);
    hsc_status status = s.out && s.scratch && s.outcomes
                            ? write_slabs(c, &s, n_tasks * s.step, n_threads, sink, err)
                            : hsc__fail_memory(err, slab_bytes + scratch_bytes, item->name);
    hsc__free(s.out);
    hsc__free(s.scratch);
    hsc__free(s.outcomes);
    return status;
}

hsc_status hsc__convert_data(hsc__convert *c, const hsc__item *item, hsc__sink *sink, hsc_error *err)
{
    hsc_convert_sum *sum = &c->report->types[item->dtype];
    sum->n_tensors++;
    sum->n_values += item->from->n_elements - (uint64_t)item->n_before * (uint64_t)item->shape[1];
    sum->n_bytes += item->n_bytes;
    c->report->bytes_in += item->from->n_bytes;
    c->report->bytes_out += item->n_bytes;
    if (item->from->n_elements == 0) return HSC_OK;
    bool same = item->dtype == HSC_OTHER || item->dtype == item->from->dtype;
    return same && item->how == HSC__AS_STORED ? copy_bytes(c, item, sink, err) : convert_values(c, item, sink, err);
}
