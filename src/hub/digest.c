/*
 * Checksums through libcrypto, which is in the process already wherever libcurl speaks TLS with OpenSSL, and which uses
 * the CPU's SHA instructions. The file is read back, so what is checked is what was stored.
 */
#include "hub/digest.h"

#include "base/alloc.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STEP = 1024 * 1024 };

/* Feeds the whole stream; false when libcrypto refuses. */
static hsc_status sum_stream(EVP_MD_CTX *context, FILE *stream, const char *path, hsc__digest_fn progress, void *user,
                             hsc_error *err)
{
    unsigned char *block = hsc__malloc(STEP);
    if (!block) return hsc__fail_memory(err, STEP, "a checksum");
    hsc_status status = HSC_OK;
    uint64_t done = 0;
    size_t n;
    while (status == HSC_OK && (n = fread(block, 1, STEP, stream)) > 0) {
        done += n;
        if (!EVP_DigestUpdate(context, block, n))
            status = hsc__fail(err, HSC_ENOMEM, 0, "%s: the checksum failed", path);
        else if (progress && progress(user, done)) status = hsc__fail(err, HSC_ECANCELED, 0, "%s: stopped", path);
    }
    if (status == HSC_OK && ferror(stream))
        status = hsc__fail(err, HSC_EIO, 0, "%s: cannot read: %s", path, strerror(errno));
    hsc__free(block);
    return status;
}

/* The sum in hexadecimal. Git puts "blob <size>" and a NUL before the bytes. */
static hsc_status sum_file(char *hex, bool git, FILE *stream, const char *path, hsc__digest_fn progress, void *user,
                           hsc_error *err)
{
    struct stat info;
    HSC_FAIL_IF(fstat(fileno(stream), &info) != 0, HSC_EIO, "%s: cannot read its size: %s", path, strerror(errno));
    char header[32];
    size_t n_header = (size_t)snprintf(header, sizeof header, "blob %llu", (unsigned long long)info.st_size) + 1;
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n_sum = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context && EVP_DigestInit_ex(context, git ? EVP_sha1() : EVP_sha256(), NULL) &&
                (!git || EVP_DigestUpdate(context, header, n_header));
    hsc_status status = good ? sum_stream(context, stream, path, progress, user, err)
                             : hsc__fail(err, HSC_ENOMEM, 0, "%s: the checksum failed", path);
    if (status == HSC_OK && !EVP_DigestFinal_ex(context, sum, &n_sum))
        status = hsc__fail(err, HSC_ENOMEM, 0, "%s: the checksum failed", path);
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; i < n_sum; i++) snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    return status;
}

hsc_status hsc__digest_check(const char *path, const char *wanted, hsc__digest_fn progress, void *user, hsc_error *err)
{
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    FILE *stream = fopen(path, "rb");
    HSC_FAIL_IF(!stream, HSC_EIO, "%s: cannot open: %s", path, strerror(errno));
    hsc_status status = sum_file(hex, strlen(wanted) == 40, stream, path, progress, user, err);
    fclose(stream);
    HSC_TRY(status);
    HSC_FAIL_IF(strcmp(hex, wanted) != 0, HSC_EFORMAT, "%s: the checksum is %s and should be %s", path, hex, wanted);
    return HSC_OK;
}
