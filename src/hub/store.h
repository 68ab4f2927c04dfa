/*
 * The cache on disk, laid out as huggingface_hub lays it out. Every name given to these functions has passed name.h.
 * A blob appears under its checksum only when it is whole and verified; links and refs are replaced by renaming.
 */
#ifndef HSC_HUB_STORE_H
#define HSC_HUB_STORE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct hsc__store {
    char *cache;  /* the cache's folder */
    char *folder; /* <cache>/models--org--name */
    char *locks;  /* <cache>/.locks/models--org--name */
} hsc__store;

/* Creates nothing. */
hsc_status hsc__store_open(hsc__store *out, const char *cache, const char *repo, hsc_error *err);
void hsc__store_close(hsc__store *store);

/* Paths, to be freed with hsc__free; NULL when memory is out. */
char *hsc__store_snapshot(const hsc__store *store, const char *commit);
char *hsc__store_pointer(const hsc__store *store, const char *commit, const char *file);
char *hsc__store_blob(const hsc__store *store, const char *oid);

/* The commit that a revision means here: itself when it is one, else what refs/<revision> holds. HSC_ENOTFOUND: the
 * cache does not know it. HSC_EFORMAT: the file holds something else. */
hsc_status hsc__store_commit(const hsc__store *store, const char *revision, char commit[41], hsc_error *err);

/* Creates the folders for a file of a snapshot, and the cache's tag for backup programs. */
hsc_status hsc__store_prepare(const hsc__store *store, const char *commit, const char *file, hsc_error *err);

/* A lock that one process at a time holds for a blob, the one that huggingface_hub takes too. */
typedef struct hsc__store_lock {
    int fd; /* -1: not held */
} hsc__store_lock;
/* Tries once; *held tells. Where the file system has no locks, *held is true with fd -1. */
hsc_status hsc__store_lock_try(hsc__store_lock *lock, bool *held, const hsc__store *store, const char *oid,
                               hsc_error *err);
void hsc__store_unlock(hsc__store_lock *lock);

/* Makes snapshots/<commit>/<file> a relative link to a blob. Where links cannot be made, the blob moves there. */
hsc_status hsc__store_link(const hsc__store *store, const char *commit, const char *file, const char *oid,
                           hsc_error *err);

/* Writes refs/<revision> unless the revision is the commit itself. */
hsc_status hsc__store_write_ref(const hsc__store *store, const char *revision, const char *commit, hsc_error *err);

#endif
