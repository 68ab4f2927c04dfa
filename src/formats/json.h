/*
 * Strict JSON on jansson: duplicate keys are refused, a byte order mark is skipped, nesting is bounded, and every
 * getter names the file and the field when the value is missing or of the wrong kind.
 */
#ifndef HSC_FORMATS_JSON_H
#define HSC_FORMATS_JSON_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* Parses n bytes. Where an integer is too large for 64 bits, all numbers of the text become reals. `path` is for
 * messages. HSC_EFORMAT with line, column and byte offset. Free with json_decref. */
hsc_status hsc__json_parse(json_t **out, const char *text, size_t n, const char *path, hsc_error *err);
/* Reads and parses a file of at most `limit` bytes. HSC_ENOTFOUND, HSC_EIO, HSC_EFORMAT (a Git LFS pointer is named).
 */
hsc_status hsc__json_load(json_t **out, const char *path, size_t limit, hsc_error *err);

/* Optional fields: absent and null give the fallback; another kind is HSC_EFORMAT naming path and field.
 * An integer may be written 8 or 8.0. */
hsc_status hsc__json_int(const json_t *object, const char *field, int64_t fallback, int64_t low, int64_t high,
                         int64_t *out, const char *path, hsc_error *err);
hsc_status hsc__json_double(const json_t *object, const char *field, double fallback, double *out, const char *path,
                            hsc_error *err);
hsc_status hsc__json_bool(const json_t *object, const char *field, bool fallback, bool *out, const char *path,
                          hsc_error *err);
/* *out is borrowed from object (or is the fallback). */
hsc_status hsc__json_string(const json_t *object, const char *field, const char *fallback, const char **out,
                            const char *path, hsc_error *err);

#endif
