/*
 * Arrays written side by side: the shapes say where each begins, so each is written on at its own place. The check sums
 * of a zip, which stand before the data, are filled in at the end.
 */
#include "formats/array_stream.h"

#include "formats/dtype.h"
#include "formats/npy.h"

#include <errno.h>
#include <string.h>

static hsc_status seek(hsc__array_stream *s, uint64_t at, hsc_error *err)
{
    HSC_FAIL_IF(fseeko(s->output.stream, (off_t)at, SEEK_SET) != 0, HSC_EIO, "%s: cannot write: %s", s->path,
                strerror(errno));
    s->zip.sink.at = at;
    return HSC_OK;
}

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

/* The header of array i, and where its data go. */
static hsc_status place_array(hsc__array_stream *s, const hsc_named_array *a, size_t i, bool zipped, hsc_error *err)
{
    hsc__npy_header head = hsc__npy_header_of(a);
    hsc__array_place *p = &s->places[i];
    uint64_t n_elements;
    HSC_FAIL_IF(!hsc__shape_size(a->shape, a->n_dims, 1, hsc__dtype_bytes(a->dtype), &n_elements, &p->n_bytes),
                HSC_EINVAL, "%s: array %zu has a negative dimension or more than 2^63 bytes", s->path, i);
    p->crc = hsc__crc32(0, head.bytes, head.n);
    if (zipped) {
        size_t n = strlen(a->name) + sizeof ".npy";
        char *name = hsc__arena_alloc(&s->names, n);
        if (!name) return hsc__fail_memory(err, n, "a name in an archive");
        snprintf(name, n, "%s.npy", a->name);
        HSC_TRY(hsc__zip_reserve(&s->zip, name, head.n + p->n_bytes, err));
    }
    HSC_TRY(hsc__sink_put(&s->zip.sink, head.bytes, head.n, err));
    p->start = s->zip.sink.at;
    return seek(s, p->start + p->n_bytes, err);
}

hsc_status hsc__array_stream_open(hsc__array_stream *s, const char *path, const hsc_named_array *arrays, size_t n,
                                  hsc_error *err)
{
    bool zipped = path && ends_with(path, ".npz");
    *s = (hsc__array_stream){.path = path, .n = n};
    HSC_FAIL_IF(!zipped && !(path && ends_with(path, ".npy")), HSC_EINVAL, "%s: the name must end in .npz or .npy",
                path ? path : "(no path)");
    HSC_FAIL_IF(!zipped && n != 1, HSC_EINVAL, "%s: a .npy file holds one array, %zu were given; .npz holds more", path,
                n);
    s->places = hsc__calloc(n, sizeof *s->places);
    if (!s->places) return hsc__fail_memory(err, n * sizeof *s->places, path);
    HSC_TRY(hsc__output_open(&s->output, path, err));
    s->zip.sink = (hsc__sink){s->output.stream, path, 0};
    for (size_t i = 0; i < n; i++) HSC_TRY(place_array(s, &arrays[i], i, zipped, err));
    return HSC_OK;
}

hsc_status hsc__array_stream_put(hsc__array_stream *s, size_t index, const void *data, uint64_t n_bytes, hsc_error *err)
{
    hsc__array_place *p = &s->places[index];
    HSC_FAIL_IF(n_bytes > p->n_bytes - p->n_done, HSC_EINVAL, "%s: array %zu has room for %llu bytes, %llu came",
                s->path, index, (unsigned long long)(p->n_bytes - p->n_done), (unsigned long long)n_bytes);
    HSC_TRY(seek(s, p->start + p->n_done, err));
    HSC_TRY(hsc__sink_put(&s->zip.sink, data, n_bytes, err));
    p->crc = hsc__crc32(p->crc, data, n_bytes);
    p->n_done += n_bytes;
    return HSC_OK;
}

hsc_status hsc__array_stream_commit(hsc__array_stream *s, hsc_error *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < s->n; i++) {
        const hsc__array_place *p = &s->places[i];
        HSC_FAIL_IF(p->n_done != p->n_bytes, HSC_EINVAL, "%s: array %zu is to have %llu bytes, %llu came", s->path, i,
                    (unsigned long long)p->n_bytes, (unsigned long long)p->n_done);
        if (p->start + p->n_bytes > end) end = p->start + p->n_bytes;
    }
    for (size_t i = 0; i < s->zip.n; i++) {
        HSC_TRY(seek(s, s->zip.entries[i].offset, err));
        HSC_TRY(hsc__zip_set_crc(&s->zip, i, s->places[i].crc, err));
    }
    HSC_TRY(seek(s, end, err));
    if (s->zip.n) HSC_TRY(hsc__zip_end(&s->zip, err));
    return hsc__output_commit(&s->output, err);
}

void hsc__array_stream_free(hsc__array_stream *s)
{
    hsc__output_abort(&s->output);
    hsc__zip_free(&s->zip);
    hsc__free(s->places);
    hsc__arena_free(&s->names);
    *s = (hsc__array_stream){0};
}
