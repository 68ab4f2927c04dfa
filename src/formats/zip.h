/*
 * Zip archives of stored (uncompressed) entries, with the 64-bit fields where a size, an offset or the number of
 * entries asks for them (APPNOTE.TXT 6.3.9, sections 4.3 to 4.5). Times are fixed, so equal contents make equal files.
 */
#ifndef HSC_FORMATS_ZIP_H
#define HSC_FORMATS_ZIP_H

#include "formats/sink.h"

typedef struct hsc__zip_entry {
    const char *name; /* borrowed until hsc__zip_end */
    uint64_t size, offset;
    uint32_t crc;
} hsc__zip_entry;

/* Zero all but sink before use. */
typedef struct hsc__zip {
    hsc__sink sink;
    hsc__zip_entry *entries;
    size_t n, capacity;
} hsc__zip;

/* Adds one entry whose bytes are `head` and then `body`. The name is UTF-8 of at most 65535 bytes. */
hsc_status hsc__zip_add(hsc__zip *zip, const char *name, const void *head, uint64_t n_head, const void *body,
                        uint64_t n_body, hsc_error *err);
/* Adds one entry of `size` bytes that are written later: only its header is put, with no check sum yet. */
hsc_status hsc__zip_reserve(hsc__zip *zip, const char *name, uint64_t size, hsc_error *err);
/* Puts the header of a reserved entry once more, with its check sum; the sink must stand at the entry's offset. */
hsc_status hsc__zip_set_crc(hsc__zip *zip, size_t index, uint32_t crc, hsc_error *err);
/* Writes the directory. */
hsc_status hsc__zip_end(hsc__zip *zip, hsc_error *err);
void hsc__zip_free(hsc__zip *zip);

/* The CRC-32 of zip and gzip; start with 0, feed the result back in to go on. */
uint32_t hsc__crc32(uint32_t crc, const void *data, uint64_t n);

#endif
