/* Files that are something else than their name says, told apart by their first bytes and refused with advice. */
#ifndef HSC_FORMATS_CONTENT_H
#define HSC_FORMATS_CONTENT_H

#include "base/status.h"

#include <stdbool.h>

/* True when the bytes are the text that Git LFS leaves in place of a file. */
bool hsc__is_lfs_pointer(const void *data, size_t n);
/* HSC_EFORMAT that says so and how to get the file. */
hsc_status hsc__fail_lfs_pointer(const char *path, hsc_error *err);

/* HSC_OK, unless the bytes are known to be of another kind than `wanted` ("safetensors", "GGUF"): an LFS pointer, a
 * pickled PyTorch file, a web page, or the other of the two. */
hsc_status hsc__check_content(const void *data, size_t n, const char *wanted, const char *path, hsc_error *err);

/* The advice for somebody who has pickled weights only. Static storage. */
extern const char hsc__pickle_advice[];

#endif
