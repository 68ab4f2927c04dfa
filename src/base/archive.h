/*
 * An arena of records that are written once and read later, of which memory holds little. What is full goes to a
 * temporary file, and the file is mapped to where the records stood: pointers to them, and those among them, stay
 * good. A page that is read comes back into memory until hsc__archive_forget lets it go. Several threads may read.
 */
#ifndef HSC_BASE_ARCHIVE_H
#define HSC_BASE_ARCHIVE_H

#include "base/temporary.h"

/* Zero it before use. */
typedef struct hsc__archive {
    struct hsc__archive_chunk *chunks; /* the last is being filled */
    size_t n_chunks, capacity;
    hsc__temporary file; /* made when there is more than 256 KiB */
    uint64_t n_written;  /* bytes in it */
} hsc__archive;

/* Copies n bytes, or a text with a NUL after them, to a place that is aligned to 8 bytes and good until the archive is
 * freed. HSC_EIO: the temporary file, as in base/temporary.h; HSC_ENOMEM. */
hsc_status hsc__archive_put(hsc__archive *archive, const void *bytes, size_t n, const void **out, hsc_error *err);
hsc_status hsc__archive_text(hsc__archive *archive, const char *text, size_t n, const char **out, hsc_error *err);
void hsc__archive_free(hsc__archive *archive);

/* For loops over records: called after the i-th one, lets what was read go from time to time. */
void hsc__archive_forget(const hsc__archive *archive, size_t i);

#endif
