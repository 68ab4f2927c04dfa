/* A digest that tells two stretches of bytes apart (FNV-1a, 64 bits): not against somebody who forges one. Fold one
 * stretch after another into it, from HSC__DIGEST_START on. */
#ifndef HSC_BASE_DIGEST_H
#define HSC_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define HSC__DIGEST_START UINT64_C(0xCBF29CE484222325)

static inline void hsc__digest_add(uint64_t *digest, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) *digest = (*digest ^ b[i]) * UINT64_C(0x100000001B3);
}

#endif
