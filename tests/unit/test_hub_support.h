/* What the tests of the hub share: a scratch folder as home, and an environment that names nothing else. */
#ifndef TESTS_HUB_SUPPORT_H
#define TESTS_HUB_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "scratch.h"

static const char some_commit[] = "0123456789abcdef0123456789abcdef01234567";

static inline void clear_environment(void)
{
    static const char *const names[] = {"HF_HOME",
                                        "HF_HUB_CACHE",
                                        "HUGGINGFACE_HUB_CACHE",
                                        "XDG_CACHE_HOME",
                                        "HF_ENDPOINT",
                                        "HF_TOKEN",
                                        "HF_TOKEN_PATH",
                                        "HF_HUB_OFFLINE",
                                        "HUGGING_FACE_HUB_TOKEN",
                                        "http_proxy",
                                        "all_proxy",
                                        "ALL_PROXY",
                                        "TRANSFORMERS_OFFLINE",
                                        "HF_HUB_DISABLE_IMPLICIT_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    setenv("HOME", scratch_dir, 1);
}

/* Writes <scratch>/name with its folders. */
static inline void put_file(const char *name, const char *text)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", scratch_dir, name);
    for (char *slash = strchr(path + strlen(scratch_dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    assert_true(scratch_write(path, text, strlen(text)));
}

#endif
