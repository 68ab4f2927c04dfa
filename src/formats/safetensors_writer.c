/* {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} */
#include "formats/safetensors_writer.h"

#include "base/alloc.h"

#include <jansson.h>
#include <string.h>

static json_t *entry(const hsc__tensor_spec *t, uint64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->n_dims; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", hsc_dtype_name(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + t->n_bytes));
}

/* NULL when memory is out. */
static json_t *header(const hsc__tensor_spec *tensors, size_t n, const char *format)
{
    json_t *object = json_object();
    uint64_t at = 0;
    int failed = format && json_object_set_new(object, "__metadata__", json_pack("{s:s}", "format", format)) != 0;
    for (size_t i = 0; i < n && !failed; i++) {
        failed = json_object_set_new(object, tensors[i].name, entry(&tensors[i], at)) != 0;
        at += tensors[i].n_bytes;
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static hsc_status write_text(hsc__sink *sink, const json_t *object, hsc_error *err)
{
    size_t n = json_dumpb(object, NULL, 0, JSON_COMPACT);
    uint64_t length = (n + 7) / 8 * 8;
    char *text = hsc__malloc((size_t)length);
    if (!n || !text) {
        hsc__free(text);
        return hsc__fail_memory(err, (size_t)length, "a safetensors header");
    }
    memset(text, ' ', (size_t)length);
    json_dumpb(object, text, n, JSON_COMPACT);
    hsc_status status = hsc__sink_put(sink, &length, sizeof length, err);
    if (status == HSC_OK) status = hsc__sink_put(sink, text, length, err);
    hsc__free(text);
    return status;
}

hsc_status hsc__safetensors_write_header(hsc__sink *sink, const hsc__tensor_spec *tensors, size_t n, const char *format,
                                         hsc_error *err)
{
    json_t *object = header(tensors, n, format);
    if (!object) return hsc__fail_memory(err, n, "a safetensors header");
    hsc_status status = write_text(sink, object, err);
    json_decref(object);
    return status;
}
