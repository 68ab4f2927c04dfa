/* Weights as float32 matrices. */
#include "inspect/weights.h"

#include <string.h>

/* Stored row `index`: the weights of one output, or with w->transposed those of one input. */
static void stored_row(const hsc__weight *w, int64_t index, float *out)
{
    const hsc__kernels *kernels = hsc__kernels_get();
    if (!w->transposed) hsc__weight_row(kernels, w, index, out);
    else kernels->dequantise(w->dtype, (const char *)w->data + (size_t)index * w->row_bytes, w->n_out, out);
}

/* Columns [first, first + n) of the stored rows, as rows: out [n][n_rows]. */
static void stored_columns(const hsc__weight *w, int64_t n_rows, int first, int n, float *row, float *out)
{
    for (int64_t i = 0; i < n_rows; i++) {
        stored_row(w, i, row);
        for (int k = 0; k < n; k++) out[(size_t)k * (size_t)n_rows + (size_t)i] = row[first + k];
    }
}

void hsc__weight_outputs(const hsc__weight *w, int first, int n, float *row, float *out)
{
    if (w->transposed) {
        stored_columns(w, w->n_in, first, n, row, out);
        return;
    }
    for (int i = 0; i < n; i++) stored_row(w, first + i, out + (size_t)i * (size_t)w->n_in);
}

void hsc__weight_inputs(const hsc__weight *w, int first, int n, float *row, float *out)
{
    if (!w->transposed) {
        stored_columns(w, w->n_out, first, n, row, out);
        return;
    }
    for (int i = 0; i < n; i++) stored_row(w, first + i, out + (size_t)i * (size_t)w->n_out);
}

void hsc__norm_fold(const hsc__norm *norm, hsc__nn_norm_kind kind, float *rows, int n, int d)
{
    if (!norm->present) return;
    for (int r = 0; r < n; r++) {
        float *row = rows + (size_t)r * (size_t)d;
        double mean = 0;
        for (int i = 0; norm->gain && i < d; i++) row[i] *= norm->gain[i];
        if (kind != HSC__NN_LAYER_NORM) continue;
        for (int i = 0; i < d; i++) mean += (double)row[i] / d;
        for (int i = 0; i < d; i++) row[i] = (float)((double)row[i] - mean);
    }
}
