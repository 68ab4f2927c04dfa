/* Checksums of files: SHA-256 as Git LFS names large files, and git's own SHA-1 of "blob <size>\0" and the bytes. */
#ifndef HSC_HUB_DIGEST_H
#define HSC_HUB_DIGEST_H

#include "base/status.h"

/* Called now and then with the bytes read so far; non-zero stops with HSC_ECANCELED. */
typedef int (*hsc__digest_fn)(void *user, uint64_t done);

/* Compares a file with `wanted`: 64 hexadecimal digits mean SHA-256, 40 mean git's SHA-1. HSC_EFORMAT names both sums
 * when they differ. `progress` may be NULL. */
hsc_status hsc__digest_check(const char *path, const char *wanted, hsc__digest_fn progress, void *user, hsc_error *err);

#endif
