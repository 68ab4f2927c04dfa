/* The wire format of protocol buffers: a key (number and wire type) as a varint, then the value. */
#include "formats/protobuf.h"

#include "base/text.h"

#include <string.h>

static hsc_status read_varint(hsc__protobuf *m, uint64_t *out, hsc_error *err)
{
    size_t start = m->at;
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        HSC_FAIL_AT_IF(m->at == m->end, HSC_EFORMAT, start, "%s: byte %zu: %s: a number runs past the end", m->path,
                       start, m->name);
        unsigned char byte = (unsigned char)m->file[m->at++];
        if (shift < 64) *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return HSC_OK;
    }
    return hsc__fail(err, HSC_EFORMAT, start, "%s: byte %zu: %s: a number of more than 10 bytes", m->path, start,
                     m->name);
}

/* Takes n bytes of the message. */
static hsc_status take(hsc__protobuf *m, uint64_t n, uint32_t number, hsc__bytes *out, hsc_error *err)
{
    HSC_FAIL_AT_IF(n > m->end - m->at, HSC_EFORMAT, m->at,
                   "%s: byte %zu: %s: field %u takes %llu bytes, the message has %zu left", m->path, m->at, m->name,
                   number, (unsigned long long)n, m->end - m->at);
    *out = (hsc__bytes){m->file + m->at, (size_t)n};
    m->at += (size_t)n;
    return HSC_OK;
}

static uint64_t little_endian(hsc__bytes bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes.n; i-- > 0;) value = value << 8 | (unsigned char)bytes.data[i];
    return value;
}

hsc_status hsc__protobuf_next(hsc__protobuf *m, hsc__protobuf_field *out, hsc_error *err)
{
    uint64_t key, length = 0;
    *out = (hsc__protobuf_field){.at = m->at};
    if (m->at == m->end) return HSC_OK;
    HSC_TRY(read_varint(m, &key, err));
    HSC_FAIL_AT_IF(key >> 3 == 0 || key >> 3 >= 1u << 29, HSC_EFORMAT, out->at,
                   "%s: byte %zu: %s: a field has the number %llu, it must be from 1 to 536870911", m->path, out->at,
                   m->name, (unsigned long long)(key >> 3));
    out->number = (uint32_t)(key >> 3);
    out->wire = (hsc__wire)(key & 7);
    switch (out->wire) {
    case HSC__PROTOBUF_VARINT: return read_varint(m, &out->value, err);
    case HSC__PROTOBUF_BYTES:
        HSC_TRY(read_varint(m, &length, err));
        return take(m, length, out->number, &out->bytes, err);
    case HSC__PROTOBUF_64:
    case HSC__PROTOBUF_32: {
        HSC_TRY(take(m, out->wire == HSC__PROTOBUF_64 ? 8 : 4, out->number, &out->bytes, err));
        out->value = little_endian(out->bytes);
        return HSC_OK;
    }
    }
    return hsc__fail(err, HSC_EFORMAT, out->at, "%s: byte %zu: %s: field %u has the wire type %u, which is not known",
                     m->path, out->at, m->name, out->number, (unsigned)out->wire);
}

static hsc_status check_wire(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name, hsc__wire wire,
                             hsc_error *err)
{
    HSC_FAIL_AT_IF(field->wire != wire, HSC_EFORMAT, field->at,
                   "%s: byte %zu: %s: \"%s\" has the wire type %u, it must be %u", m->path, field->at, m->name, name,
                   (unsigned)field->wire, (unsigned)wire);
    return HSC_OK;
}

hsc_status hsc__protobuf_int(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name, int32_t *out,
                             hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_VARINT, err));
    int64_t value = (int64_t)field->value;
    HSC_FAIL_AT_IF(value < INT32_MIN || value > INT32_MAX, HSC_EFORMAT, field->at,
                   "%s: byte %zu: %s: \"%s\" is %lld, it must be an integer of 32 bits", m->path, field->at, m->name,
                   name, (long long)value);
    *out = (int32_t)value;
    return HSC_OK;
}

hsc_status hsc__protobuf_bool(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name, bool *out,
                              hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_VARINT, err));
    HSC_FAIL_AT_IF(field->value > 1, HSC_EFORMAT, field->at, "%s: byte %zu: %s: \"%s\" is %llu, it must be 0 or 1",
                   m->path, field->at, m->name, name, (unsigned long long)field->value);
    *out = field->value != 0;
    return HSC_OK;
}

hsc_status hsc__protobuf_float(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name, float *out,
                               hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_32, err));
    uint32_t bits = (uint32_t)field->value;
    memcpy(out, &bits, sizeof *out);
    return HSC_OK;
}

hsc_status hsc__protobuf_bytes(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name,
                               hsc__bytes *out, hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_BYTES, err));
    *out = field->bytes;
    return HSC_OK;
}

hsc_status hsc__protobuf_text(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name,
                              hsc__bytes *out, hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_BYTES, err));
    HSC_FAIL_AT_IF(!hsc__utf8_valid(field->bytes.data, field->bytes.n), HSC_EFORMAT, field->at,
                   "%s: byte %zu: %s: \"%s\" is not valid UTF-8", m->path, field->at, m->name, name);
    *out = field->bytes;
    return HSC_OK;
}

hsc_status hsc__protobuf_message(const hsc__protobuf *m, const hsc__protobuf_field *field, const char *name,
                                 hsc__protobuf *out, hsc_error *err)
{
    HSC_TRY(check_wire(m, field, name, HSC__PROTOBUF_BYTES, err));
    size_t start = (size_t)(field->bytes.data - m->file);
    *out = (hsc__protobuf){.file = m->file, .path = m->path, .name = name, .at = start, .end = start + field->bytes.n};
    return HSC_OK;
}
