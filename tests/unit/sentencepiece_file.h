/* SentencePiece model files written field by field, for tests. */
#ifndef TESTS_SENTENCEPIECE_FILE_H
#define TESTS_SENTENCEPIECE_FILE_H

#include "base/text.h"
#include "tokenizer/sentencepiece.h"

#include <string.h>

static void proto_varint(hsc__string *out, uint64_t value)
{
    do {
        char byte = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        hsc__string_add(out, &byte, 1);
        value >>= 7;
    } while (value);
}

static void proto_int(hsc__string *out, unsigned field, uint64_t value)
{
    proto_varint(out, field << 3);
    proto_varint(out, value);
}

static void proto_bytes(hsc__string *out, unsigned field, const char *bytes, size_t n)
{
    proto_varint(out, field << 3 | 2);
    proto_varint(out, n);
    hsc__string_add(out, bytes, n);
}

static void proto_piece(hsc__string *out, const char *text, float score, int kind)
{
    hsc__string piece = {0};
    proto_bytes(&piece, 1, text, strlen(text));
    proto_varint(&piece, 2 << 3 | 5);
    hsc__string_add(&piece, (const char *)&score, sizeof score); /* the tests' machines are little-endian */
    if (kind != HSC__PIECE_NORMAL) proto_int(&piece, 3, (uint64_t)kind);
    proto_bytes(out, 1, piece.data, piece.n);
    hsc__string_free(&piece);
}

/* <unk>, <s>, </s>, 256 bytes from id 3 on, then 20 pieces from 259 on, each a merge of two before it or a letter. */
static __attribute__((unused)) void proto_toy(hsc__string *out, int model_type, bool trims)
{
#define M "\xe2\x96\x81"
    static const char *const pieces[] = {M,    "h",     "e",       "l",   "o",     "u",   "n",  "s",     M "h", "el",
                                         "lo", M "hel", M "hello", "hel", "hello", M "u", "ns", M "uns", "uns", M M};
#undef M
    hsc__string spec = {0};
    proto_piece(out, "<unk>", 0, HSC__PIECE_UNKNOWN);
    proto_piece(out, "<s>", 0, HSC__PIECE_CONTROL);
    proto_piece(out, "</s>", 0, HSC__PIECE_CONTROL);
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        proto_piece(out, text, 0, HSC__PIECE_BYTE);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        proto_piece(out, pieces[i], -(float)i, HSC__PIECE_NORMAL);
    proto_int(&spec, 3, (uint64_t)model_type);
    proto_int(&spec, 35, 1);          /* byte_fallback */
    proto_int(&spec, 43, UINT64_MAX); /* pad_id -1 */
    proto_bytes(out, 2, spec.data, spec.n);
    spec.n = 0;
    proto_int(&spec, 3, 1);
    proto_int(&spec, 4, trims);
    proto_bytes(out, 3, spec.data, spec.n);
    hsc__string_free(&spec);
}

#endif
