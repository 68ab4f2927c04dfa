/* Errors: HSC_TRY forwards a failure, HSC_FAIL_IF makes one. Both keep bodies flat. */
#ifndef HSC_BASE_STATUS_H
#define HSC_BASE_STATUS_H

#include "headscope.h"

#include <stdarg.h>

#if defined(__GNUC__)
#define HSC_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define HSC_PRINTF(format_index, first)
#endif

/* Fills *err (which may be NULL) and returns code. The message is cut at the buffer's size on a character boundary;
 * control characters in it become '?', so a hostile name cannot reach the terminal. */
hsc_status hsc__fail(hsc_error *err, hsc_status code, uint64_t offset, const char *format, ...) HSC_PRINTF(4, 5);

/* Puts "prefix: " before the message that *err holds; for callers who know the file. Returns err's code or `code`. */
hsc_status hsc__fail_prefix(hsc_error *err, hsc_status code, const char *format, ...) HSC_PRINTF(3, 4);

/* HSC_ENOMEM with the size that could not be had. */
hsc_status hsc__fail_memory(hsc_error *err, size_t n_bytes, const char *what);

/* Clears *err when it is not NULL. */
void hsc__error_clear(hsc_error *err);

#define HSC_TRY(expression)                                                                                            \
    do {                                                                                                               \
        hsc_status try_status_ = (expression);                                                                         \
        if (try_status_ != HSC_OK) return try_status_;                                                                 \
    } while (0)

/* Returns from the enclosing function; `err` must be in scope. The code is returned by itself, so that the compiler
 * sees which paths fail. */
#define HSC_FAIL_IF(condition, code, ...)                                                                              \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            hsc__fail(err, (code), 0, __VA_ARGS__);                                                                    \
            return (code);                                                                                             \
        }                                                                                                              \
    } while (0)

/* As HSC_FAIL_IF with the byte offset of the fault in the file. */
#define HSC_FAIL_AT_IF(condition, code, offset, ...)                                                                   \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            hsc__fail(err, (code), (offset), __VA_ARGS__);                                                             \
            return (code);                                                                                             \
        }                                                                                                              \
    } while (0)

#endif
