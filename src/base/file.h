/* Files: read-only mappings, whole small files, and writing beside followed by a rename. */
#ifndef HSC_BASE_FILE_H
#define HSC_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* A file mapped read-only. size 0 has data non-NULL but not readable. */
typedef struct hsc__map {
    const unsigned char *data;
    uint64_t size;
    void *address; /* NULL for an empty file */
} hsc__map;

/* HSC_ENOTFOUND: no such file; HSC_EIO with path and the system's reason (a directory is refused by name). */
hsc_status hsc__map_open(hsc__map *out, const char *path, hsc_error *err);
void hsc__map_close(hsc__map *map);

/* The whole file, NUL-terminated, with hsc__malloc. HSC_EFORMAT when it is larger than `limit` bytes. */
hsc_status hsc__read_file(char **out, size_t *n_bytes, const char *path, size_t limit, hsc_error *err);

bool hsc__is_dir(const char *path);
bool hsc__is_file(const char *path);
/* "dir/name" with hsc__malloc, no doubled slash; NULL when memory is out. */
char *hsc__path_join(const char *dir, const char *name);
/* Creates a directory and its parents; existing ones are fine. */
hsc_status hsc__make_dirs(const char *path, hsc_error *err);

/* A file that appears under its name only when it is complete: written as a neighbour (NAME.part.*), renamed by commit,
 * removed by abort. "/dev/stdout", "-" and other non-regular targets are written straight. Zero it before use. */
typedef struct hsc__output {
    FILE *stream;           /* write here */
    char *name;             /* the path as it was given, for messages */
    char *path, *temporary; /* the file that it stands for, and its neighbour */
} hsc__output;
hsc_status hsc__output_open(hsc__output *out, const char *path, hsc_error *err);
/* Flushes, checks every write, renames. On failure the neighbour is removed. */
hsc_status hsc__output_commit(hsc__output *out, hsc_error *err);
void hsc__output_abort(hsc__output *out);

#endif
