/* A folder of BERT's first kind: vocab.txt, a token a line in the order of the ids, and tokenizer_config.json. */
#include "base/file.h"
#include "base/text.h"
#include "tokenizer/load.h"

#include <string.h>

static hsc_status read_tokens(hsc_tokenizer *t, const char *text, size_t n, const char *path, hsc_error *err)
{
    HSC_FAIL_IF(n == 0, HSC_EFORMAT, "%s: is empty, a token a line is expected", path);
    HSC_FAIL_IF(!hsc__utf8_valid(text, n), HSC_EFORMAT, "%s: is not valid UTF-8", path);
    hsc_token id = 0;
    hsc__bytes line;
    for (size_t at = 0; hsc__next_line(text, n, &at, &line.data, &line.n); id++) {
        hsc_token existing;
        HSC_FAIL_IF(id == 1 << 24, HSC_EFORMAT, "%s: more than %d lines", path, 1 << 24);
        HSC_TRY(hsc__vocab_set(&t->vocab, id, line, HSC__TOKEN_NORMAL, &existing, err));
        HSC_FAIL_IF(existing >= 0, HSC_EFORMAT, "%s: line %d: \"%.*s\" is the token of line %d already", path,
                    (int)id + 1, (int)(line.n > 99 ? 99 : line.n), line.data, (int)existing + 1);
    }
    return HSC_OK;
}

static hsc_status load(hsc_tokenizer *t, const char *dir, const char *path, hsc_error *err)
{
    static const hsc__bytes prefix = {"##", 2};
    size_t n;
    t->kind = HSC__WORDPIECE;
    t->wordpiece.max_characters = 100;
    HSC_TRY(hsc__read_file(&t->files[0], &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    HSC_TRY(read_tokens(t, t->files[0], n, path, err));
    HSC_TRY(hsc__wordpiece_finish(&t->wordpiece, &t->vocab, prefix, err));
    HSC_TRY(hsc__add_bert_splitter(&t->stage[0].splitter, err));
    HSC_TRY(hsc__load_folder_config(t, dir, HSC__FOLDER_BERT, NULL, err));
    HSC_TRY(hsc__decode_words(t, prefix, true, err));
    return hsc__tokenizer_finish(t, err);
}

hsc_status hsc__tokenizer_from_vocab(hsc_tokenizer **out, const char *dir, hsc_error *err)
{
    HSC_TRY(hsc__tokenizer_new(out, err));
    char *path = hsc__path_join(dir, "vocab.txt");
    hsc_status status = path ? load(*out, dir, path, err) : hsc__fail_memory(err, 1, dir);
    hsc__free(path);
    if (status != HSC_OK) {
        hsc_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}
