/* First bytes of the kinds of files that turn up in place of weights. */
#include "formats/content.h"

#include <string.h>

const char hsc__pickle_advice[] =
    "pickled weights can run code when they are read, so headscope does not; convert them "
    "once with transformers: model.save_pretrained(folder)";

static bool starts(const void *data, size_t n, const char *prefix, size_t n_prefix)
{
    return n >= n_prefix && memcmp(data, prefix, n_prefix) == 0;
}

bool hsc__is_lfs_pointer(const void *data, size_t n)
{
    static const char prefix[] = "version https://git-lfs.github.com/spec/";
    return starts(data, n, prefix, sizeof prefix - 1);
}

hsc_status hsc__fail_lfs_pointer(const char *path, hsc_error *err)
{
    return hsc__fail(err, HSC_EFORMAT, 0,
                     "%s: is a Git LFS pointer, not the file itself; fetch it with `git lfs pull` or download it again",
                     path);
}

hsc_status hsc__check_content(const void *data, size_t n, const char *wanted, const char *path, hsc_error *err)
{
    if (hsc__is_lfs_pointer(data, n)) return hsc__fail_lfs_pointer(path, err);
    bool pickle =
        starts(data, n, "PK\x03\x04", 4) || starts(data, n, "\x80\x02}q", 4) || starts(data, n, "\x80\x02\x8a\x0a", 4);
    HSC_FAIL_IF(pickle, HSC_EUNSUPPORTED, "%s: is a pickled PyTorch file; %s", path, hsc__pickle_advice);
    bool page = starts(data, n, "<!DOCTYPE", 9) || starts(data, n, "<!doctype", 9) || starts(data, n, "<html", 5);
    HSC_FAIL_IF(page, HSC_EFORMAT, "%s: is a web page, not %s; download the file itself", path, wanted);
    HSC_FAIL_IF(strcmp(wanted, "GGUF") != 0 && starts(data, n, "GGUF", 4), HSC_EFORMAT, "%s: is a GGUF file, not %s",
                path, wanted);
    return HSC_OK;
}
