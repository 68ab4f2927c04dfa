/* An array of bytes that may be larger than memory should be: held in memory while it is small, in a temporary file
 * beyond that. Parts of it are read and written by their place; several threads may read. */
#ifndef HSC_BASE_SPILL_H
#define HSC_BASE_SPILL_H

#include "base/temporary.h"

/* Zero it before use. */
typedef struct hsc__spill {
    unsigned char *memory; /* NULL when a file holds the bytes */
    hsc__temporary file;
} hsc__spill;

/* `size` zero bytes, in memory when they are `in_memory` at most. As hsc__temporary_open. */
hsc_status hsc__spill_open(hsc__spill *spill, uint64_t size, size_t in_memory, hsc_error *err);
void hsc__spill_free(hsc__spill *spill);

/* `at` + n may not pass the size. */
hsc_status hsc__spill_write(hsc__spill *spill, uint64_t at, const void *bytes, size_t n, hsc_error *err);
hsc_status hsc__spill_read(const hsc__spill *spill, uint64_t at, void *bytes, size_t n, hsc_error *err);

#endif
