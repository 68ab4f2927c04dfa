/* Any bytes as a safetensors file: refused, or else the tensors fill the data end to end and each is found by name. */
#include "fuzz.h"

#include "formats/tensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hsc__tensors *set;
    hsc_error err = {0};
    hsc_status status = hsc__safetensors_parse(&set, data, size, "fuzz", &err);
    CHECK(status == err.code);
    if (status != HSC_OK) {
        CHECK(!set && err.message[0]);
        return 0;
    }
    uint64_t length;
    memcpy(&length, data, sizeof length);
    const unsigned char *end = data + 8 + length;
    for (size_t i = 0; i < hsc__tensors_count(set); i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        CHECK(t->data == end);
        CHECK(hsc__tensors_find(set, t->name) == t);
        end += t->n_bytes;
    }
    CHECK(end == data + size);
    hsc__tensors_close(set);
    return 0;
}
