/* Where a file's bytes go one after another, counted. The path is for messages. */
#ifndef HSC_FORMATS_SINK_H
#define HSC_FORMATS_SINK_H

#include "base/status.h"

#include <stdio.h>

typedef struct hsc__sink {
    FILE *stream;
    const char *path;
    uint64_t at; /* bytes so far */
} hsc__sink;

/* HSC_EIO with the system's reason. */
hsc_status hsc__sink_put(hsc__sink *sink, const void *data, uint64_t n, hsc_error *err);

#endif
