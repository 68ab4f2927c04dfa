/* Advice to the system about whole pages of memory. Where it is not heeded nothing changes but time and memory. */
#ifndef HSC_BASE_PAGES_H
#define HSC_BASE_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whole pages inside data[0..n), which must lie in a mapping that is never written, will not be read again soon: the
 * file stays mapped, memory does not fill with it. */
static inline void hsc__pages_forget(const void *data, uint64_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + (uintptr_t)n) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* data[0..n) will be read from end to end: pages of megabytes are wanted, of a file that is read from the disk too.
 * Every page costs a translation of its address, and of small ones that is a good part of the time to read them. */
static inline void hsc__pages_prefer_huge(const void *data, uint64_t n)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t huge = (uintptr_t)2 << 20;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + (uintptr_t)n) / page * page;
    if (n >= huge && end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)data;
    (void)n;
#endif
}

/* Of data[0..n) some rows will be read here and there: of a large page each would bring along megabytes that nobody
 * asked for. */
static inline void hsc__pages_prefer_small(const void *data, uint64_t n)
{
#ifdef MADV_NOHUGEPAGE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data / page * page;
    uintptr_t end = ((uintptr_t)data + (uintptr_t)n + page - 1) / page * page;
    if (end > begin) madvise((void *)begin, end - begin, MADV_NOHUGEPAGE);
#else
    (void)data;
    (void)n;
#endif
}

#endif
