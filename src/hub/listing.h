/* What a repository holds, and which of its files a pull takes. */
#ifndef HSC_HUB_LISTING_H
#define HSC_HUB_LISTING_H

#include "base/status.h"

#include <stdbool.h>

typedef struct hsc__remote_file {
    char *name;
    int64_t size; /* -1 unknown */
    char oid[65]; /* SHA-256 (64 digits) of an LFS file, git's SHA-1 (40) of another; "" unknown */
} hsc__remote_file;

typedef struct hsc__listing {
    char commit[41];
    hsc__remote_file *files;
    size_t n, capacity;
} hsc__listing;

/* Reads the server's answer about a revision. Names that lead out of a folder are HSC_EFORMAT. */
hsc_status hsc__listing_parse(hsc__listing *out, const char *text, size_t n, const char *source, hsc_error *err);
void hsc__listing_free(hsc__listing *listing);
/* NULL when there is no such file. */
hsc__remote_file *hsc__listing_find(const hsc__listing *listing, const char *name);

/* Files to fetch, borrowed from a listing, in order, none twice. */
typedef struct hsc__plan {
    hsc__remote_file **files;
    size_t n, capacity;
} hsc__plan;
void hsc__plan_free(hsc__plan *plan);

/* True for the endings of Python's pickles, which may run code when they are opened. */
bool hsc__plan_is_pickle(const char *name);
/* Exactly the named files. HSC_ENOTFOUND. */
hsc_status hsc__plan_named(hsc__plan *plan, const hsc__listing *listing, const char *const *names, size_t n,
                           const char *repo, hsc_error *err);
/* Configuration, tokenizer and weights. An index of shards comes first, and its shards must be added once it is here.
 * HSC_EUNSUPPORTED says what the repository has instead and what to do. */
hsc_status hsc__plan_default(hsc__plan *plan, const hsc__listing *listing, const char *repo, const char *endpoint,
                             hsc_error *err);
bool hsc__plan_is_index(const char *name);
/* Adds the shards that an index at `path` names. HSC_EFORMAT: a name leads out of the folder or is not in the listing.
 */
hsc_status hsc__plan_add_shards(hsc__plan *plan, const hsc__listing *listing, const char *path, hsc_error *err);

#endif
