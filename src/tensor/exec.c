/* Scratch of an execution context. */
#include "tensor/exec.h"

#include "base/alloc.h"

hsc_status hsc__exec_init(hsc__exec *exec, int n_threads, size_t scratch_floats, hsc_error *err)
{
    *exec = (hsc__exec){.n_threads = n_threads, .kernels = hsc__kernels_get()};
    exec->scratch_floats = (scratch_floats + 15) & ~(size_t)15;
    if (exec->scratch_floats > SIZE_MAX / sizeof(float) / (size_t)n_threads)
        return hsc__fail_memory(err, SIZE_MAX, "the scratch of a session");
    size_t n_bytes = exec->scratch_floats * sizeof(float) * (size_t)n_threads;
    exec->scratch = hsc__malloc_aligned(n_bytes);
    return exec->scratch ? HSC_OK : hsc__fail_memory(err, n_bytes, "the scratch of a session");
}

void hsc__exec_free(hsc__exec *exec)
{
    hsc__free_aligned(exec->scratch);
    *exec = (hsc__exec){0};
}
