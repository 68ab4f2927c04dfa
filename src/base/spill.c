/* Bytes in memory or in a temporary file. */
#include "base/spill.h"

#include "base/alloc.h"

#include <string.h>

hsc_status hsc__spill_open(hsc__spill *spill, uint64_t size, size_t in_memory, hsc_error *err)
{
    *spill = (hsc__spill){0};
    if (size > in_memory) return hsc__temporary_open(&spill->file, size, err);
    spill->memory = hsc__calloc((size_t)size + 1, 1);
    return spill->memory ? HSC_OK : hsc__fail_memory(err, (size_t)size, "an array");
}

void hsc__spill_free(hsc__spill *spill)
{
    hsc__free(spill->memory);
    hsc__temporary_close(&spill->file);
    *spill = (hsc__spill){0};
}

hsc_status hsc__spill_write(hsc__spill *spill, uint64_t at, const void *bytes, size_t n, hsc_error *err)
{
    if (!spill->memory) return hsc__temporary_write(&spill->file, at, bytes, n, err);
    memcpy(spill->memory + at, bytes, n);
    return HSC_OK;
}

hsc_status hsc__spill_read(const hsc__spill *spill, uint64_t at, void *bytes, size_t n, hsc_error *err)
{
    if (!spill->memory) return hsc__temporary_read(&spill->file, at, bytes, n, err);
    memcpy(bytes, spill->memory + at, n);
    return HSC_OK;
}
