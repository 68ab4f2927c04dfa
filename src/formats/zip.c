/* The records of a zip file, field by field. */
#include "formats/zip.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <string.h>

/* Four bytes a step: table[k][b] is what byte b does to the remainder k bytes later. */
uint32_t hsc__crc32(uint32_t crc, const void *data, uint64_t n)
{
    uint32_t table[4][256];
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int bit = 0; bit < 8; bit++) r = (r >> 1) ^ (r & 1 ? UINT32_C(0xedb88320) : 0);
        table[0][b] = r;
    }
    for (int k = 1; k < 4; k++) {
        for (int b = 0; b < 256; b++) table[k][b] = table[0][table[k - 1][b] & 0xff] ^ (table[k - 1][b] >> 8);
    }
    const unsigned char *at = data;
    uint32_t r = ~crc;
    for (; n >= 4; at += 4, n -= 4) {
        uint32_t word;
        memcpy(&word, at, 4);
        r ^= word;
        r = table[3][r & 0xff] ^ table[2][(r >> 8) & 0xff] ^ table[1][(r >> 16) & 0xff] ^ table[0][r >> 24];
    }
    for (; n; n--) r = table[0][(r ^ *at++) & 0xff] ^ (r >> 8);
    return ~r;
}

enum {
    VERSION = 20,
    VERSION_64 = 45,
    FLAG_UTF8 = 1 << 11,
    DATE = 0x21, /* 1 January 1980 */
    MAX_16 = 0xffff,
};
static const uint64_t max_32 = UINT32_MAX;

/* A record under construction; the longest one is a directory entry without its name. */
typedef struct record {
    unsigned char bytes[96];
    size_t n;
} record;

static void put(record *r, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) r->bytes[r->n++] = (unsigned char)(value >> (8 * i));
}

static uint64_t capped(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* The fields that a local header and a directory entry have in common, from the flags to the length of the name. */
static void put_common(record *r, const hsc__zip_entry *e)
{
    put(r, FLAG_UTF8, 2);
    put(r, 0, 2); /* stored */
    put(r, 0, 2); /* midnight */
    put(r, DATE, 2);
    put(r, e->crc, 4);
    put(r, capped(e->size, max_32), 4);
    put(r, capped(e->size, max_32), 4);
    put(r, strlen(e->name), 2);
}

static hsc_status put_header(hsc__zip *zip, const hsc__zip_entry *e, hsc_error *err)
{
    bool big = e->size >= max_32;
    record r = {.n = 0}, extra = {.n = 0};
    put(&r, 0x04034b50, 4);
    put(&r, big ? VERSION_64 : VERSION, 2);
    put_common(&r, e);
    put(&r, big ? 20 : 0, 2);
    if (big) {
        put(&extra, 1, 2);
        put(&extra, 16, 2);
        put(&extra, e->size, 8);
        put(&extra, e->size, 8);
    }
    HSC_TRY(hsc__sink_put(&zip->sink, r.bytes, r.n, err));
    HSC_TRY(hsc__sink_put(&zip->sink, e->name, strlen(e->name), err));
    return hsc__sink_put(&zip->sink, extra.bytes, extra.n, err);
}

hsc_status hsc__zip_add(hsc__zip *zip, const char *name, const void *head, uint64_t n_head, const void *body,
                        uint64_t n_body, hsc_error *err)
{
    HSC_TRY(hsc__grow(&zip->entries, &zip->capacity, zip->n + 1, sizeof *zip->entries, err));
    hsc__zip_entry *e = &zip->entries[zip->n];
    *e = (hsc__zip_entry){name, n_head + n_body, zip->sink.at, 0};
    e->crc = hsc__crc32(hsc__crc32(0, head, n_head), body, n_body);
    HSC_TRY(put_header(zip, e, err));
    HSC_TRY(hsc__sink_put(&zip->sink, head, n_head, err));
    HSC_TRY(hsc__sink_put(&zip->sink, body, n_body, err));
    zip->n++;
    return HSC_OK;
}

hsc_status hsc__zip_reserve(hsc__zip *zip, const char *name, uint64_t size, hsc_error *err)
{
    HSC_TRY(hsc__grow(&zip->entries, &zip->capacity, zip->n + 1, sizeof *zip->entries, err));
    zip->entries[zip->n] = (hsc__zip_entry){name, size, zip->sink.at, 0};
    HSC_TRY(put_header(zip, &zip->entries[zip->n], err));
    zip->n++;
    return HSC_OK;
}

hsc_status hsc__zip_set_crc(hsc__zip *zip, size_t index, uint32_t crc, hsc_error *err)
{
    zip->entries[index].crc = crc;
    return put_header(zip, &zip->entries[index], err);
}

static hsc_status put_directory_entry(hsc__zip *zip, const hsc__zip_entry *e, hsc_error *err)
{
    bool big_size = e->size >= max_32, big_offset = e->offset >= max_32;
    unsigned n_extra = (big_size ? 16 : 0) + (big_offset ? 8 : 0);
    record r = {.n = 0}, extra = {.n = 0};
    put(&r, 0x02014b50, 4);
    put(&r, VERSION_64, 2); /* made by */
    put(&r, n_extra ? VERSION_64 : VERSION, 2);
    put_common(&r, e);
    put(&r, n_extra ? n_extra + 4 : 0, 2);
    put(&r, 0, 2); /* comment */
    put(&r, 0, 2); /* disk */
    put(&r, 0, 2); /* internal attributes */
    put(&r, 0, 4); /* external attributes */
    put(&r, capped(e->offset, max_32), 4);
    if (n_extra) {
        put(&extra, 1, 2);
        put(&extra, n_extra, 2);
        if (big_size) put(&extra, e->size, 8);
        if (big_size) put(&extra, e->size, 8);
        if (big_offset) put(&extra, e->offset, 8);
    }
    HSC_TRY(hsc__sink_put(&zip->sink, r.bytes, r.n, err));
    HSC_TRY(hsc__sink_put(&zip->sink, e->name, strlen(e->name), err));
    return hsc__sink_put(&zip->sink, extra.bytes, extra.n, err);
}

/* The 64-bit end record and the locator that points at it. */
static void put_end_64(record *r, uint64_t n, uint64_t start, uint64_t end)
{
    put(r, 0x06064b50, 4);
    put(r, 44, 8); /* bytes of this record after this field */
    put(r, VERSION_64, 2);
    put(r, VERSION_64, 2);
    put(r, 0, 4);
    put(r, 0, 4);
    put(r, n, 8);
    put(r, n, 8);
    put(r, end - start, 8);
    put(r, start, 8);
    put(r, 0x07064b50, 4);
    put(r, 0, 4);
    put(r, end, 8);
    put(r, 1, 4);
}

hsc_status hsc__zip_end(hsc__zip *zip, hsc_error *err)
{
    uint64_t start = zip->sink.at;
    for (size_t i = 0; i < zip->n; i++) HSC_TRY(put_directory_entry(zip, &zip->entries[i], err));
    uint64_t end = zip->sink.at, n = zip->n;
    record r = {.n = 0};
    if (n >= MAX_16 || start >= max_32 || end - start >= max_32) {
        put_end_64(&r, n, start, end);
        HSC_TRY(hsc__sink_put(&zip->sink, r.bytes, r.n, err));
        r.n = 0;
    }
    put(&r, 0x06054b50, 4);
    put(&r, 0, 2);
    put(&r, 0, 2);
    put(&r, capped(n, MAX_16), 2);
    put(&r, capped(n, MAX_16), 2);
    put(&r, capped(end - start, max_32), 4);
    put(&r, capped(start, max_32), 4);
    put(&r, 0, 2); /* comment */
    return hsc__sink_put(&zip->sink, r.bytes, r.n, err);
}

void hsc__zip_free(hsc__zip *zip)
{
    hsc__free(zip->entries);
    *zip = (hsc__zip){0};
}
