/*
 * Chunks of address space, filled from their start. A piece that is full is written to the file with pwrite, which
 * tells of a full disk where a write to a mapping would be killed, and the file then takes the piece's place.
 */
#include "base/archive.h"

#include "base/alloc.h"
#include "base/pages.h"

#include <errno.h>
#include <string.h>

enum {
    CHUNK = 16 << 20,      /* bytes, so that few calls let go of all */
    FIRST_CHUNK = 1 << 18, /* what is not more has no file */
    PIECE = 1 << 16,       /* what one call writes, Linux brings back together when a byte of it is read */
    ALIGNMENT = 8,
    FORGET_EVERY = 16, /* records at least, each of which may have brought a few pieces along */
};

typedef struct hsc__archive_chunk {
    unsigned char *start;
    size_t size, used, written; /* the first `written` bytes are the file's */
} chunk;

static size_t whole_pages(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

/* n: whole pages of the chunk behind what is written. */
static hsc_status write_away(hsc__archive *a, chunk *c, size_t n, hsc_error *err)
{
    unsigned char *from = c->start + c->written;
    if (!a->file.file) HSC_TRY(hsc__temporary_open(&a->file, n, err));
    for (size_t at = 0; at < n; at += PIECE)
        HSC_TRY(hsc__temporary_write(&a->file, a->n_written + at, from + at, n - at < PIECE ? n - at : PIECE, err));
    void *mapped = mmap(from, n, PROT_READ, MAP_SHARED | MAP_FIXED, a->file.file - 1, (off_t)a->n_written);
    HSC_FAIL_IF(mapped == MAP_FAILED, HSC_EIO, "%s: cannot map a temporary file there: %s", a->file.folder,
                strerror(errno));
    c->written += n;
    a->n_written += n;
    return HSC_OK;
}

static hsc_status add_chunk(hsc__archive *a, size_t n, hsc_error *err)
{
    size_t size = a->n_chunks ? CHUNK : FIRST_CHUNK;
    if (size < n) size = whole_pages(n);
    HSC_TRY(hsc__grow(&a->chunks, &a->capacity, a->n_chunks + 1, sizeof *a->chunks, err));
    if (a->n_chunks) { /* the last one's rest */
        chunk *last = &a->chunks[a->n_chunks - 1];
        size_t rest = whole_pages(last->used - last->written);
        if (rest) HSC_TRY(write_away(a, last, rest, err));
    }
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return hsc__fail_memory(err, size, "sentences");
    hsc__pages_prefer_small(start, size);
    a->chunks[a->n_chunks++] = (chunk){.start = start, .size = size};
    return HSC_OK;
}

/* Copies and adds n_zeros zero bytes, which untouched pages hold already. */
static hsc_status put(hsc__archive *a, const void *bytes, size_t n, size_t n_zeros, const void **out, hsc_error *err)
{
    if (n > SIZE_MAX / 2) return hsc__fail_memory(err, n, "sentences");
    size_t whole = (n + n_zeros + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!a->n_chunks || a->chunks[a->n_chunks - 1].size - a->chunks[a->n_chunks - 1].used < whole)
        HSC_TRY(add_chunk(a, whole, err));
    chunk *c = &a->chunks[a->n_chunks - 1];
    *out = c->start + c->used;
    if (n) memcpy(c->start + c->used, bytes, n);
    c->used += whole;
    size_t full = (c->used - c->written) / PIECE * PIECE;
    return full && a->n_chunks > 1 ? write_away(a, c, full, err) : HSC_OK;
}

hsc_status hsc__archive_put(hsc__archive *archive, const void *bytes, size_t n, const void **out, hsc_error *err)
{
    return put(archive, bytes, n, 0, out, err);
}

hsc_status hsc__archive_text(hsc__archive *archive, const char *text, size_t n, const char **out, hsc_error *err)
{
    const void *copy = NULL;
    hsc_status status = put(archive, text, n, 1, &copy, err);
    *out = copy;
    return status;
}

void hsc__archive_free(hsc__archive *a)
{
    for (size_t i = 0; i < a->n_chunks; i++) munmap(a->chunks[i].start, a->chunks[i].size);
    hsc__free(a->chunks);
    hsc__temporary_close(&a->file);
    *a = (hsc__archive){0};
}

/* Records that go by are no fewer than the chunks, each of which is a call: the time grows with the records alone, and
 * what they brought along stays a hundredth of the file. */
void hsc__archive_forget(const hsc__archive *a, size_t i)
{
    size_t every = a->n_chunks > FORGET_EVERY ? a->n_chunks : FORGET_EVERY;
    if ((i + 1) % every) return;
    for (size_t k = 0; k < a->n_chunks; k++) hsc__pages_forget(a->chunks[k].start, a->chunks[k].written);
}
