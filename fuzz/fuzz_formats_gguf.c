/* Any bytes as a GGUF file: refused, or else the tensors lie in the file, aligned, one after another, each is found by
 * name, and every getter may be asked for every key. */
#include "fuzz.h"

#include "formats/gguf.h"

#include <string.h>

static void check_tensors(const hsc__tensors *set, const uint8_t *data, size_t size)
{
    const uint8_t *end = data;
    for (size_t i = 0; i < hsc__tensors_count(set); i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        const uint8_t *at = t->data;
        CHECK(at >= end && t->n_bytes <= (uint64_t)(data + size - at));
        CHECK((size_t)(at - data) % 8 == 0);
        CHECK(hsc__tensors_find(set, t->name) == t);
        end = at + t->n_bytes;
    }
}

static void check_strings(const hsc__gguf *gguf, const char *key, const uint8_t *data, size_t size)
{
    const hsc__bytes *strings;
    size_t n;
    if (hsc__gguf_get_strings(gguf, key, &strings, &n, NULL) != HSC_OK) return;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = (const uint8_t *)strings[i].data;
        CHECK(at >= data && strings[i].n <= (size_t)(data + size - at));
    }
}

static void ask_everything(const hsc__gguf *gguf, const char *key)
{
    int64_t whole;
    double real;
    bool truth;
    const char *text;
    const int32_t *ints;
    const float *floats;
    size_t n;
    if (hsc__gguf_get_int(gguf, key, 0, -100, 100, &whole, NULL) == HSC_OK) CHECK(whole >= -100 && whole <= 100);
    if (hsc__gguf_get_double(gguf, key, 0, &real, NULL) == HSC_OK) CHECK(real - real == 0);
    CHECK(hsc__gguf_get_bool(gguf, key, false, &truth, NULL) != HSC_ENOMEM);
    CHECK(hsc__gguf_get_cstring(gguf, key, "", &text, NULL) != HSC_OK || strlen(text) < SIZE_MAX);
    CHECK(hsc__gguf_get_ints(gguf, key, &ints, &n, NULL) == HSC_OK || !ints);
    CHECK(hsc__gguf_get_floats(gguf, key, &floats, &n, NULL) == HSC_OK || !floats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hsc__gguf *gguf;
    hsc_error err = {0};
    hsc_status status = hsc__gguf_parse(&gguf, data, size, "fuzz", &err);
    CHECK(status == err.code);
    if (status != HSC_OK) {
        CHECK(!gguf && err.message[0]);
        return 0;
    }
    check_tensors(hsc__gguf_tensors(gguf), data, size);
    for (size_t i = 0; i < hsc__gguf_n_kv(gguf); i++) {
        const char *key, *type;
        char value[32];
        CHECK(hsc__gguf_describe(gguf, i, &key, &type, value, sizeof value) == HSC_OK);
        CHECK(hsc__gguf_has(gguf, key) && strlen(value) < sizeof value);
        check_strings(gguf, key, data, size);
        ask_everything(gguf, key);
    }
    hsc__gguf_close(gguf);
    return 0;
}
