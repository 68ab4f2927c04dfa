/* What a computation runs on: threads, the kernel table, and one scratch area a worker. */
#ifndef HSC_TENSOR_EXEC_H
#define HSC_TENSOR_EXEC_H

#include "kernels/kernels.h"

typedef struct hsc__exec {
    int n_threads;
    hsc_compute compute; /* of products with weights; not HSC_COMPUTE_AUTO */
    const hsc__kernels *kernels;
    float *scratch;        /* [n_threads][scratch_floats], 64-byte aligned */
    size_t scratch_floats; /* a multiple of 16 */
    void *converted;       /* the rows of a product in the compute kind's own form; NULL for f32 */
} hsc__exec;

/* Allocates the scratch, and room to convert max_rows rows of max_in values. HSC_ENOMEM. */
hsc_status hsc__exec_init(hsc__exec *exec, int n_threads, size_t scratch_floats, hsc_compute compute, int max_rows,
                          int64_t max_in, hsc_error *err);
void hsc__exec_free(hsc__exec *exec);

static inline float *hsc__exec_scratch(const hsc__exec *exec, int worker)
{
    return exec->scratch + (size_t)worker * exec->scratch_floats;
}

#endif
