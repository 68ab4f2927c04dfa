/* Scratch of an execution context. */
#include "tensor/exec.h"

#include "base/alloc.h"

/* Bytes a value takes in the widest form: bf16 needs 2; q8 needs 1 and, a group of 32, 16. */
enum { CONVERTED_BYTES = 2 };

hsc_status hsc__exec_init(hsc__exec *exec, int n_threads, size_t scratch_floats, hsc_compute compute, int max_rows,
                          int64_t max_in, hsc_error *err)
{
    *exec = (hsc__exec){.n_threads = n_threads, .compute = compute, .kernels = hsc__kernels_get()};
    exec->scratch_floats = (scratch_floats + 15) & ~(size_t)15;
    if (exec->scratch_floats > SIZE_MAX / sizeof(float) / (size_t)n_threads)
        return hsc__fail_memory(err, SIZE_MAX, "the scratch of a session");
    size_t n_bytes = exec->scratch_floats * sizeof(float) * (size_t)n_threads;
    exec->scratch = hsc__malloc_aligned(n_bytes);
    if (!exec->scratch) return hsc__fail_memory(err, n_bytes, "the scratch of a session");
    if (compute == HSC_COMPUTE_F32) return HSC_OK;
    n_bytes = (size_t)max_rows * (size_t)(max_in + 2) * CONVERTED_BYTES;
    exec->converted = hsc__malloc_aligned(n_bytes);
    return exec->converted ? HSC_OK : hsc__fail_memory(err, n_bytes, "the scratch of a session");
}

void hsc__exec_free(hsc__exec *exec)
{
    hsc__free_aligned(exec->scratch);
    hsc__free_aligned(exec->converted);
    *exec = (hsc__exec){0};
}
