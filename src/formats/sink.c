/* Writing with the reason of a failure taken at once: a later call would overwrite it. */
#include "formats/sink.h"

#include <errno.h>
#include <string.h>

hsc_status hsc__sink_put(hsc__sink *sink, const void *data, uint64_t n, hsc_error *err)
{
    errno = 0;
    if (n && fwrite(data, 1, (size_t)n, sink->stream) != n) {
        return hsc__fail(err, HSC_EIO, sink->at, "%s: cannot write: %s", sink->path, strerror(errno ? errno : EIO));
    }
    sink->at += n;
    return HSC_OK;
}
