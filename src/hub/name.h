/* Names that come from people and from servers: repositories, revisions, commits, checksums, file names. */
#ifndef HSC_HUB_NAME_H
#define HSC_HUB_NAME_H

#include "base/status.h"

#include <stdbool.h>

enum { HSC__NAME_MAX = 255 };

typedef struct hsc__hub_name {
    char repo[HSC__NAME_MAX + 1];
    char revision[HSC__NAME_MAX + 1]; /* "main" when none was given */
    bool has_revision;
} hsc__hub_name;

/* Splits and checks `org/name[@revision]`; `revision` may be NULL and must not contradict the name. HSC_EINVAL. */
hsc_status hsc__hub_name_parse(hsc__hub_name *out, const char *text, const char *revision, hsc_error *err);

/* The name that a repository of the Hub's early days goes by now ("gpt2" gives "openai-community/gpt2"), or NULL. */
const char *hsc__hub_new_name(const char *repo);
/* The other way: "openai-community/gpt2" gives "gpt2", or NULL. */
const char *hsc__hub_old_name(const char *repo);

/* True for a relative path that stays below the folder it is joined to: UTF-8 without control characters or
 * backslashes, no empty part, no part "." or "..", no part over HSC__NAME_MAX bytes. Servers' names are judged by it.
 */
bool hsc__hub_file_name_ok(const char *name);

/* Exactly n lower-case hexadecimal digits and nothing else. */
bool hsc__hub_is_hex(const char *text, size_t n);

/* printf into memory of hsc__malloc; NULL when memory is out. */
char *hsc__hub_format(const char *format, ...) HSC_PRINTF(1, 2);

#endif
