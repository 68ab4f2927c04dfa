/* What a target has: the function that takes any bytes, and CHECK, which holds whatever the bytes are. */
#ifndef HSC_FUZZ_H
#define HSC_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

#endif
