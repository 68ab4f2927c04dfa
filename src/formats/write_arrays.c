/*
 * Named arrays out: .safetensors, .npz, .npy. The caller's arrays are checked as a file's would be, so what is written
 * can be read back; the file appears under its name only when it is whole.
 */
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/dtype.h"
#include "formats/names.h"
#include "formats/npy.h"
#include "formats/safetensors_writer.h"
#include "formats/zip.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 1024, MAX_ARRAY_DIMS = 4 };

static hsc_status check_array(const hsc_named_array *a, uint64_t *n_bytes, hsc_error *err)
{
    HSC_FAIL_IF(a->dtype != HSC_F32 && a->dtype != HSC_I32, HSC_EINVAL, "has type %s, only F32 and I32 are written",
                hsc_dtype_name(a->dtype));
    HSC_FAIL_IF(a->n_dims < 0 || a->n_dims > MAX_ARRAY_DIMS, HSC_EINVAL, "has %d dimensions, 0 to %d can be written",
                a->n_dims, (int)MAX_ARRAY_DIMS);
    uint64_t n_elements;
    HSC_FAIL_IF(!hsc__shape_size(a->shape, a->n_dims, 1, hsc__dtype_bytes(a->dtype), &n_elements, n_bytes), HSC_EINVAL,
                "has a negative dimension or more than 2^63 bytes");
    HSC_FAIL_IF(*n_bytes && !a->data, HSC_EINVAL, "has no data");
    return HSC_OK;
}

static hsc_status check_name(hsc__names *names, const char *name, size_t index, hsc_error *err)
{
    HSC_FAIL_IF(!name, HSC_EINVAL, "has no name");
    size_t n = strlen(name);
    HSC_FAIL_IF(n == 0 || n > MAX_NAME, HSC_EINVAL, "has a name of %zu bytes, it must be 1 to %d", n, (int)MAX_NAME);
    HSC_FAIL_IF(!hsc__utf8_valid(name, n), HSC_EINVAL, "has a name that is not UTF-8");
    HSC_FAIL_IF(strcmp(name, "__metadata__") == 0, HSC_EINVAL, "has a name that the format reserves: __metadata__");
    HSC_FAIL_IF(hsc__names_add(names, name, n, index) != HSC_NO_INDEX, HSC_EINVAL, "has the name of another one: %.*s",
                hsc__shown(name, n), name);
    return HSC_OK;
}

/* sizes: [n], the bytes of each array. */
static hsc_status check_arrays(const hsc_named_array *arrays, size_t n, uint64_t *sizes, const char *path,
                               hsc_error *err)
{
    hsc__names names = {0};
    hsc_status status = hsc__names_reserve(&names, n, err);
    for (size_t i = 0; i < n && status == HSC_OK; i++) {
        status = check_name(&names, arrays[i].name, i, err);
        if (status == HSC_OK) status = check_array(&arrays[i], &sizes[i], err);
        if (status != HSC_OK) hsc__fail_prefix(err, status, "%s: array %zu", path, i);
    }
    hsc__names_free(&names);
    return status;
}

static hsc_status write_safetensors(hsc__sink *sink, const hsc_named_array *arrays, size_t n, const uint64_t *sizes,
                                    hsc_error *err)
{
    hsc__tensor_spec *specs = hsc__calloc(n, sizeof *specs);
    if (!specs) return hsc__fail_memory(err, n * sizeof *specs, "a safetensors header");
    for (size_t i = 0; i < n; i++)
        specs[i] = (hsc__tensor_spec){arrays[i].name, arrays[i].dtype, arrays[i].n_dims, arrays[i].shape, sizes[i]};
    hsc_status status = hsc__safetensors_write_header(sink, specs, n, NULL, err);
    hsc__free(specs);
    for (size_t i = 0; i < n && status == HSC_OK; i++) status = hsc__sink_put(sink, arrays[i].data, sizes[i], err);
    return status;
}

hsc__npy_header hsc__npy_header_of(const hsc_named_array *a)
{
    hsc__npy_header h = {.bytes = "\x93NUMPY\x01", .n = 10};
    h.n += (size_t)snprintf(h.bytes + h.n, sizeof h.bytes - h.n, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                            a->dtype == HSC_F32 ? "<f4" : "<i4");
    for (int i = 0; i < a->n_dims; i++) {
        const char *comma = i + 1 < a->n_dims ? ", " : a->n_dims == 1 ? "," : "";
        h.n += (size_t)snprintf(h.bytes + h.n, sizeof h.bytes - h.n, "%lld%s", (long long)a->shape[i], comma);
    }
    h.n += (size_t)snprintf(h.bytes + h.n, sizeof h.bytes - h.n, "), }");
    while ((h.n + 1) % 64 != 0) h.bytes[h.n++] = ' ';
    h.bytes[h.n++] = '\n';
    uint16_t length = (uint16_t)(h.n - 10);
    memcpy(h.bytes + 8, &length, sizeof length);
    return h;
}

static hsc_status write_npy(hsc__sink *sink, const hsc_named_array *arrays, size_t n, const uint64_t *sizes,
                            hsc_error *err)
{
    HSC_FAIL_IF(n != 1, HSC_EINVAL, "%s: a .npy file holds one array, %zu were given; .npz and .safetensors hold more",
                sink->path, n);
    hsc__npy_header h = hsc__npy_header_of(&arrays[0]);
    HSC_TRY(hsc__sink_put(sink, h.bytes, h.n, err));
    return hsc__sink_put(sink, arrays[0].data, sizes[0], err);
}

static hsc_status add_npz_entry(hsc__zip *zip, hsc__arena *arena, const hsc_named_array *a, uint64_t size,
                                hsc_error *err)
{
    size_t n = strlen(a->name) + sizeof ".npy";
    char *name = hsc__arena_alloc(arena, n);
    if (!name) return hsc__fail_memory(err, n, "a name in an archive");
    snprintf(name, n, "%s.npy", a->name);
    hsc__npy_header h = hsc__npy_header_of(a);
    return hsc__zip_add(zip, name, h.bytes, h.n, a->data, size, err);
}

static hsc_status write_npz(hsc__sink *sink, const hsc_named_array *arrays, size_t n, const uint64_t *sizes,
                            hsc_error *err)
{
    hsc__zip zip = {.sink = *sink};
    hsc__arena arena = {0};
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < n && status == HSC_OK; i++) status = add_npz_entry(&zip, &arena, &arrays[i], sizes[i], err);
    if (status == HSC_OK) status = hsc__zip_end(&zip, err);
    hsc__zip_free(&zip);
    hsc__arena_free(&arena);
    return status;
}

typedef hsc_status (*writer)(hsc__sink *, const hsc_named_array *, size_t, const uint64_t *, hsc_error *);

static writer writer_of(const char *path)
{
    static const struct {
        const char *ending;
        writer write;
    } writers[] = {{".safetensors", write_safetensors}, {".npz", write_npz}, {".npy", write_npy}};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        size_t n = strlen(path), n_ending = strlen(writers[i].ending);
        if (n >= n_ending && strcmp(path + n - n_ending, writers[i].ending) == 0) return writers[i].write;
    }
    return NULL;
}

static hsc_status write_file(writer write, const char *path, const hsc_named_array *arrays, size_t n,
                             const uint64_t *sizes, hsc_error *err)
{
    hsc__output output = {0};
    HSC_TRY(hsc__output_open(&output, path, err));
    hsc__sink sink = {output.stream, path, 0};
    hsc_status status = write(&sink, arrays, n, sizes, err);
    if (status == HSC_OK) return hsc__output_commit(&output, err);
    hsc__output_abort(&output);
    return status;
}

hsc_status hsc_write_arrays(const char *path, const hsc_named_array *arrays, size_t n, hsc_error *err)
{
    writer write = path ? writer_of(path) : NULL;
    HSC_FAIL_IF(!write, HSC_EINVAL, "%s: the name must end in .safetensors, .npz or .npy", path ? path : "(no path)");
    HSC_FAIL_IF(n && !arrays, HSC_EINVAL, "%s: no arrays were given", path);
    uint64_t *sizes = hsc__calloc(n, sizeof *sizes);
    if (!sizes) return hsc__fail_memory(err, n * sizeof *sizes, path);
    hsc_status status = check_arrays(arrays, n, sizes, path, err);
    if (status == HSC_OK) status = write_file(write, path, arrays, n, sizes, err);
    hsc__free(sizes);
    return status;
}
