/* Any bytes as a llama2.c checkpoint: refused, or else every tensor lies inside and is found by its name. */
#include "fuzz.h"

#include "formats/llama2c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hsc__tensors *set;
    hsc__llama2c header;
    hsc_error err = {0};
    hsc_status status = hsc__llama2c_parse(&set, data, size, "fuzz", &header, &err);
    CHECK(status == err.code);
    if (status != HSC_OK) {
        CHECK(!set && err.message[0]);
        return 0;
    }
    for (size_t i = 0; i < hsc__tensors_count(set); i++) {
        const hsc__tensor *t = hsc__tensors_at(set, i);
        const uint8_t *begin = t->data;
        CHECK(begin >= data && begin + t->n_bytes <= data + size);
        CHECK(hsc__tensors_find(set, t->name) == t);
    }
    hsc__tensors_close(set);
    return 0;
}
