/*
 * A SentencePiece model file (tokenizer.model, spiece.model, source.spm): a ModelProto of protocol buffers, read into
 * what a tokenizer is made of. Texts are borrowed from the file's bytes.
 */
#ifndef HSC_TOKENIZER_SENTENCEPIECE_H
#define HSC_TOKENIZER_SENTENCEPIECE_H

#include "base/alloc.h"
#include "formats/gguf.h"

/* The kinds of pieces, by the numbers of the format. */
typedef enum {
    HSC__PIECE_NORMAL = 1,
    HSC__PIECE_UNKNOWN,
    HSC__PIECE_CONTROL,
    HSC__PIECE_USER_DEFINED,
    HSC__PIECE_UNUSED,
    HSC__PIECE_BYTE
} hsc__piece_kind;

typedef struct hsc__piece {
    hsc__bytes text; /* valid UTF-8, not empty */
    float score;
    int32_t kind;
} hsc__piece;

/* trainer_spec.model_type */
enum { HSC__SPM_UNIGRAM = 1, HSC__SPM_BPE, HSC__SPM_WORD, HSC__SPM_CHAR };

typedef struct hsc__sentencepiece {
    hsc__piece *piece; /* [n] by id */
    size_t n, capacity;
    int32_t model_type;
    int32_t unk_id, bos_id, eos_id;          /* below n; unk_id is at least 0, the others -1 where there is none */
    hsc__bytes unk_text, bos_text, eos_text; /* the pieces' names */
    bool byte_fallback;                      /* a character without a piece becomes its bytes' pieces */
    hsc__bytes charsmap;                     /* empty: none */
    bool adds_prefix, trims_blanks, escapes; /* normalizer_spec: a blank in front, no doubled blanks, blanks marked */
} hsc__sentencepiece;

/* Zero *out before; free it afterwards in every case. `path` names the file in messages. HSC_EFORMAT names the file,
 * the field and the byte; HSC_EUNSUPPORTED a setting that is not known here; HSC_ENOMEM. */
hsc_status hsc__sentencepiece_read(hsc__sentencepiece *out, const char *bytes, size_t n, const char *path,
                                   hsc_error *err);
void hsc__sentencepiece_free(hsc__sentencepiece *model);

#endif
