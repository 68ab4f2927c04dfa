/*
 * Protocol buffers as they lie in a file: fields of a message, one after the other, without a schema. Whoever reads
 * knows what the numbers mean. Lengths and varints are checked against the bytes that are there; nothing is copied.
 */
#ifndef HSC_FORMATS_PROTOBUF_H
#define HSC_FORMATS_PROTOBUF_H

#include "formats/gguf.h"

typedef enum {
    HSC__PROTOBUF_VARINT = 0,
    HSC__PROTOBUF_64 = 1,
    HSC__PROTOBUF_BYTES = 2,
    HSC__PROTOBUF_32 = 5
} hsc__wire;

/* A message that is being read: file[at..end) of the file named `path`; `name` is the message's in errors. */
typedef struct hsc__protobuf {
    const char *file, *path, *name;
    size_t at, end;
} hsc__protobuf;

typedef struct hsc__protobuf_field {
    uint32_t number;
    hsc__wire wire;
    uint64_t value;   /* of numbers; a float's are its bits */
    hsc__bytes bytes; /* of texts, byte strings and messages; borrowed */
    size_t at;        /* where the field starts in the file */
} hsc__protobuf_field;

/* The next field; number 0 when the message is used up. HSC_EFORMAT naming file, message and byte: a length or a varint
 * that runs past the message, a field 0, a wire type that is none. */
hsc_status hsc__protobuf_next(hsc__protobuf *message, hsc__protobuf_field *out, hsc_error *err);

/* The field as what the schema says it is; `name` names it in errors. HSC_EFORMAT when it is written as another kind;
 * a text must be UTF-8. */
hsc_status hsc__protobuf_int(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                             int32_t *out, hsc_error *err);
hsc_status hsc__protobuf_bool(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                              bool *out, hsc_error *err);
hsc_status hsc__protobuf_float(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                               float *out, hsc_error *err);
hsc_status hsc__protobuf_bytes(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                               hsc__bytes *out, hsc_error *err);
hsc_status hsc__protobuf_text(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                              hsc__bytes *out, hsc_error *err);
/* A message within the message. */
hsc_status hsc__protobuf_message(const hsc__protobuf *message, const hsc__protobuf_field *field, const char *name,
                                 hsc__protobuf *out, hsc_error *err);

#endif
