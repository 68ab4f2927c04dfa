/* Letting go of mapped pages that will not be read again soon: the file stays mapped, memory does not fill with it. */
#ifndef HSC_MODEL_PAGES_H
#define HSC_MODEL_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whole pages inside data[0..n), which must lie in a mapping that is never written. */
static inline void hsc__pages_forget(const void *data, uint64_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + (uintptr_t)n) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

#endif
