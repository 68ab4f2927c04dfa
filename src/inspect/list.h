/* Lines of a list from bytes that come in pieces: memory holds one line, however long the list is. Empty lines and
 * lines that begin with # are passed over. */
#ifndef HSC_INSPECT_LIST_H
#define HSC_INSPECT_LIST_H

#include "headscope/inspect.h"

#include <stdbool.h>

/* Zero it and set the reader and name before use. */
typedef struct hsc__list {
    const hsc_reader *reader;
    const char *name; /* of the file, for messages */
    const char *line; /* the one at hand, without "\n" or "\r\n", until the next call; NULL at the end */
    size_t n;
    int number; /* from 1, those that were passed over counted */
    bool again; /* the next call gives the same line once more */

    char *buffer; /* [at, filled) is yet to be given */
    size_t at, filled, capacity;
    bool ended;
} hsc__list;

/* HSC_ENOMEM; as the reader. HSC_EFORMAT: a line of more than 64 MiB. */
hsc_status hsc__list_next(hsc__list *lines, hsc_error *err);
void hsc__list_free(hsc__list *lines);

#endif
