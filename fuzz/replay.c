/* Feeds files to a fuzz target without libFuzzer: each argument is a file or a folder of files. One that does not exist
 * is passed over (test data may be absent); when nothing was there to feed, the exit status 77 says "skipped". */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int n_fed;

static int feed_file(const char *path)
{
    hsc_error err = {0};
    char *text = NULL;
    size_t n = 0;
    if (hsc__read_file(&text, &n, path, (size_t)64 << 20, &err) != HSC_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    /* A block of exactly n bytes, so that the address sanitizer sees a read past the end. */
    uint8_t *exact = hsc__malloc(n);
    if (exact && n) memcpy(exact, text, n);
    hsc__free(text);
    if (!exact) return 1;
    LLVMFuzzerTestOneInput(exact, n);
    hsc__free(exact);
    n_fed++;
    return 0;
}

static int feed(const char *path)
{
    if (hsc__is_file(path)) return feed_file(path);
    DIR *folder = opendir(path);
    if (!folder) return 0;
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char *inner = hsc__path_join(path, entry->d_name);
        failed |= inner ? feed(inner) : 1;
        hsc__free(inner);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) failed |= feed(argv[i]);
    if (!n_fed) {
        printf("skipped: no seeds\n");
        return failed ? 1 : 77;
    }
    printf("%d inputs\n", n_fed);
    return failed;
}
