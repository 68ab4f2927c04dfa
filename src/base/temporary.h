/* A file for bytes that memory should not hold. It has no name any more when it is open, so nothing is left behind
 * however the process ends. Parts are read and written by their place; several threads may read. */
#ifndef HSC_BASE_TEMPORARY_H
#define HSC_BASE_TEMPORARY_H

#include "base/status.h"

/* Zero it before use. */
typedef struct hsc__temporary {
    int file; /* descriptor + 1; 0: none */
    uint64_t size;
    char *folder; /* for messages */
} hsc__temporary;

/* `size` zero bytes in the folder that TMPDIR names, else in /var/tmp, which is a disk where /tmp may be memory, else
 * in /tmp. HSC_EIO with the folder and the system's reason, as for all of these: a full disk, for one; HSC_ENOMEM. */
hsc_status hsc__temporary_open(hsc__temporary *file, uint64_t size, hsc_error *err);
void hsc__temporary_close(hsc__temporary *file);

/* A file that is written past its size grows. What is read must lie within it. */
hsc_status hsc__temporary_write(hsc__temporary *file, uint64_t at, const void *bytes, size_t n, hsc_error *err);
hsc_status hsc__temporary_read(const hsc__temporary *file, uint64_t at, void *bytes, size_t n, hsc_error *err);

#endif
