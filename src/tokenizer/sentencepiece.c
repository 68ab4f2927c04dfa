/* Reading a ModelProto: field numbers and defaults are those of SentencePiece's sentencepiece_model.proto. */
#include "tokenizer/sentencepiece.h"

#include "formats/content.h"
#include "formats/protobuf.h"

#include <math.h>
#include <string.h>

enum { MOST_PIECES = 1 << 24 };

static hsc_status read_piece(hsc__sentencepiece *spm, hsc__protobuf m, hsc_error *err)
{
    hsc__piece piece = {.kind = HSC__PIECE_NORMAL};
    hsc__protobuf_field field;
    size_t at = m.at;
    for (;;) {
        HSC_TRY(hsc__protobuf_next(&m, &field, err));
        if (!field.number) break;
        if (field.number == 1) HSC_TRY(hsc__protobuf_text(&m, &field, "piece", &piece.text, err));
        if (field.number == 2) HSC_TRY(hsc__protobuf_float(&m, &field, "score", &piece.score, err));
        if (field.number == 3) HSC_TRY(hsc__protobuf_int(&m, &field, "type", &piece.kind, err));
    }
    size_t i = spm->n;
    HSC_FAIL_AT_IF(i == MOST_PIECES, HSC_EFORMAT, at, "%s: byte %zu: more than %d pieces", m.path, at,
                   (int)MOST_PIECES);
    HSC_FAIL_AT_IF(piece.text.n == 0, HSC_EFORMAT, at, "%s: byte %zu: pieces[%zu]: \"piece\" is empty", m.path, at, i);
    HSC_FAIL_AT_IF(!isfinite(piece.score), HSC_EFORMAT, at, "%s: byte %zu: pieces[%zu]: \"score\" is not finite",
                   m.path, at, i);
    HSC_FAIL_AT_IF(piece.kind < HSC__PIECE_NORMAL || piece.kind > HSC__PIECE_BYTE, HSC_EFORMAT, at,
                   "%s: byte %zu: pieces[%zu]: \"type\" is %d, it must be from 1 to 6", m.path, at, i, (int)piece.kind);
    HSC_TRY(hsc__grow(&spm->piece, &spm->capacity, i + 1, sizeof *spm->piece, err));
    spm->piece[spm->n++] = piece;
    return HSC_OK;
}

static hsc_status read_trainer(hsc__sentencepiece *spm, hsc__protobuf m, hsc_error *err)
{
    hsc__protobuf_field field;
    bool suffix = false;
    for (;;) {
        HSC_TRY(hsc__protobuf_next(&m, &field, err));
        switch (field.number) {
        case 0:
            HSC_FAIL_IF(suffix, HSC_EUNSUPPORTED,
                        "%s: trainer_spec: \"treat_whitespace_as_suffix\" true is not supported", m.path);
            return HSC_OK;
        case 3: HSC_TRY(hsc__protobuf_int(&m, &field, "model_type", &spm->model_type, err)); break;
        case 24: HSC_TRY(hsc__protobuf_bool(&m, &field, "treat_whitespace_as_suffix", &suffix, err)); break;
        case 35: HSC_TRY(hsc__protobuf_bool(&m, &field, "byte_fallback", &spm->byte_fallback, err)); break;
        case 40: HSC_TRY(hsc__protobuf_int(&m, &field, "unk_id", &spm->unk_id, err)); break;
        case 41: HSC_TRY(hsc__protobuf_int(&m, &field, "bos_id", &spm->bos_id, err)); break;
        case 42: HSC_TRY(hsc__protobuf_int(&m, &field, "eos_id", &spm->eos_id, err)); break;
        case 45: HSC_TRY(hsc__protobuf_text(&m, &field, "unk_piece", &spm->unk_text, err)); break;
        case 46: HSC_TRY(hsc__protobuf_text(&m, &field, "bos_piece", &spm->bos_text, err)); break;
        case 47: HSC_TRY(hsc__protobuf_text(&m, &field, "eos_piece", &spm->eos_text, err)); break;
        default: break;
        }
    }
}

static hsc_status read_normalizer(hsc__sentencepiece *spm, hsc__protobuf m, hsc_error *err)
{
    hsc__protobuf_field field;
    for (;;) {
        HSC_TRY(hsc__protobuf_next(&m, &field, err));
        switch (field.number) {
        case 0: return HSC_OK;
        case 2: HSC_TRY(hsc__protobuf_bytes(&m, &field, "precompiled_charsmap", &spm->charsmap, err)); break;
        case 3: HSC_TRY(hsc__protobuf_bool(&m, &field, "add_dummy_prefix", &spm->adds_prefix, err)); break;
        case 4: HSC_TRY(hsc__protobuf_bool(&m, &field, "remove_extra_whitespaces", &spm->trims_blanks, err)); break;
        case 5: HSC_TRY(hsc__protobuf_bool(&m, &field, "escape_whitespaces", &spm->escapes, err)); break;
        default: break;
        }
    }
}

/* A denormalizer changes decoded text; no published model has one. */
static hsc_status read_denormalizer(hsc__protobuf m, hsc_error *err)
{
    hsc__sentencepiece other = {0};
    HSC_TRY(read_normalizer(&other, m, err));
    HSC_FAIL_IF(other.charsmap.n, HSC_EUNSUPPORTED,
                "%s: denormalizer_spec: a \"precompiled_charsmap\" is not supported", m.path);
    return HSC_OK;
}

static hsc_status read_field(hsc__sentencepiece *spm, const hsc__protobuf *m, const hsc__protobuf_field *field,
                             hsc_error *err)
{
    static const char *const names[] = {[1] = "pieces", "trainer_spec", "normalizer_spec", NULL, "denormalizer_spec"};
    const char *name = field->number < sizeof names / sizeof *names ? names[field->number] : NULL;
    hsc__protobuf inner;
    if (!name) return HSC_OK;
    HSC_TRY(hsc__protobuf_message(m, field, name, &inner, err));
    switch (field->number) {
    case 1: return read_piece(spm, inner, err);
    case 2: return read_trainer(spm, inner, err);
    case 3: return read_normalizer(spm, inner, err);
    default: return read_denormalizer(inner, err);
    }
}

static hsc_status check(hsc__sentencepiece *spm, const char *path, hsc_error *err)
{
    static const char *const unsupported[] = {[HSC__SPM_WORD] = "WORD", [HSC__SPM_CHAR] = "CHAR"};
    int32_t kind = spm->model_type, n = (int32_t)spm->n;
    HSC_FAIL_IF(n == 0, HSC_EFORMAT, "%s: has no pieces, so it is no SentencePiece model", path);
    HSC_FAIL_IF(kind == HSC__SPM_WORD || kind == HSC__SPM_CHAR, HSC_EUNSUPPORTED,
                "%s: trainer_spec: \"model_type\" %s is not supported", path, unsupported[kind]);
    HSC_FAIL_IF(kind != HSC__SPM_UNIGRAM && kind != HSC__SPM_BPE, HSC_EFORMAT,
                "%s: trainer_spec: \"model_type\" is %d, it must be from 1 to 4", path, (int)kind);
    HSC_FAIL_IF(spm->unk_id < 0 || spm->unk_id >= n, HSC_EFORMAT,
                "%s: trainer_spec: \"unk_id\" is %d, it must be from 0 to %d", path, (int)spm->unk_id, (int)n - 1);
    HSC_FAIL_IF(!spm->escapes, HSC_EUNSUPPORTED, "%s: normalizer_spec: \"escape_whitespaces\" false is not supported",
                path);
    if (spm->bos_id < 0 || spm->bos_id >= n) spm->bos_id = -1;
    if (spm->eos_id < 0 || spm->eos_id >= n) spm->eos_id = -1;
    return HSC_OK;
}

/* Llama 3's first files and others keep tiktoken's vocabulary under the same name: lines of base64 and a number. */
static bool is_tiktoken(const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && i < 200 && (unsigned char)bytes[i] > ' ' && (unsigned char)bytes[i] < 0x7F) i++;
    return i && i + 1 < n && bytes[i] == ' ' && bytes[i + 1] >= '0' && bytes[i + 1] <= '9';
}

hsc_status hsc__sentencepiece_read(hsc__sentencepiece *spm, const char *bytes, size_t n, const char *path,
                                   hsc_error *err)
{
    *spm = (hsc__sentencepiece){.model_type = HSC__SPM_UNIGRAM,
                                .bos_id = 1,
                                .eos_id = 2,
                                .unk_text = {"<unk>", 5},
                                .bos_text = {"<s>", 3},
                                .eos_text = {"</s>", 4},
                                .adds_prefix = true,
                                .trims_blanks = true,
                                .escapes = true};
    hsc__protobuf m = {.file = bytes, .path = path, .name = "ModelProto", .end = n};
    HSC_FAIL_IF(n == 0, HSC_EFORMAT, "%s: is empty, a SentencePiece model is expected", path);
    if (hsc__is_lfs_pointer(bytes, n)) return hsc__fail_lfs_pointer(path, err);
    HSC_FAIL_IF(is_tiktoken(bytes, n), HSC_EUNSUPPORTED,
                "%s: is a tiktoken vocabulary and no SentencePiece model, which is not supported: convert it to a "
                "tokenizer.json",
                path);
    for (;;) {
        hsc__protobuf_field field;
        HSC_TRY(hsc__protobuf_next(&m, &field, err));
        if (!field.number) return check(spm, path, err);
        HSC_TRY(read_field(spm, &m, &field, err));
    }
}

void hsc__sentencepiece_free(hsc__sentencepiece *spm)
{
    hsc__free(spm->piece);
    *spm = (hsc__sentencepiece){0};
}
