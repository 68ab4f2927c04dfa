/* A folder of GPT-2's first kind: vocab.json ({"token": id}) and merges.txt (a merge a line, by rank). */
#include "base/file.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/json_lists.h"
#include "tokenizer/load.h"

#include <string.h>

/* Lines are "left right". A line that starts with #version is none; "# #" is a merge like any other. */
static hsc_status read_merges(hsc_tokenizer *t, const char *text, size_t n, const char *path, hsc_error *err)
{
    uint32_t rank = 0;
    size_t number = 1;
    HSC_FAIL_IF(!hsc__utf8_valid(text, n), HSC_EFORMAT, "%s: is not valid UTF-8", path);
    hsc__bytes line;
    for (size_t at = 0; hsc__next_line(text, n, &at, &line.data, &line.n); number++) {
        if (line.n == 0 || (line.n >= 8 && memcmp(line.data, "#version", 8) == 0)) continue;
        const char *blank = memchr(line.data, ' ', line.n);
        size_t left = blank ? (size_t)(blank - line.data) : 0;
        bool two = left && left + 1 < line.n && !memchr(blank + 1, ' ', line.n - left - 1);
        HSC_FAIL_IF(!two, HSC_EFORMAT, "%s: line %zu: a merge must be two tokens with one blank between them", path,
                    number);
        hsc_status status = hsc__bpe_add(&t->bpe, rank++, (hsc__bytes){line.data, left},
                                         (hsc__bytes){blank + 1, line.n - left - 1}, "merge", err);
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s: line %zu", path, number);
    }
    return HSC_OK;
}

hsc_status hsc__load_vocab_json(hsc_tokenizer *t, const char *path, hsc_error *err)
{
    size_t n;
    HSC_TRY(hsc__read_file(&t->files[0], &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    size_t start = hsc__text_mark(t->files[0], n);
    hsc__json_reader reader = {t->files[0], start, n, &t->arena, path, "vocabulary"};
    HSC_TRY(hsc__json_read_vocab(&reader, &t->vocab, err));
    for (; reader.at < n; reader.at++)
        HSC_FAIL_AT_IF(!strchr(" \t\r\n", t->files[0][reader.at]) || !t->files[0][reader.at], HSC_EFORMAT, reader.at,
                       "%s: byte %zu: something follows the vocabulary", path, reader.at);
    return HSC_OK;
}

static hsc_status load_merges(hsc_tokenizer *t, const char *path, hsc_error *err)
{
    size_t n;
    hsc_status status = hsc__read_file(&t->files[1], &n, path, HSC__TOKENIZER_FILE_LIMIT, err);
    if (status == HSC_OK) status = read_merges(t, t->files[1], n, path, err);
    hsc__free(t->files[1]); /* merges keep ids, not texts */
    t->files[1] = NULL;
    return status;
}

static hsc_status load(hsc_tokenizer *t, const char *dir, const char *vocab, const char *merges, hsc_error *err)
{
    t->bpe.byte_level = true;
    HSC_TRY(hsc__load_vocab_json(t, vocab, err));
    HSC_TRY(load_merges(t, merges, err));
    HSC_TRY(hsc__splitter_add(&t->stage[0].splitter, (hsc__split_step){.kind = HSC__SPLIT_SCAN, .scan = hsc__scan_gpt2},
                              err));
    for (int b = 0; b < 256; b++) {
        char text[4];
        int n = hsc__byte_spell((unsigned char)b, text);
        t->bpe.byte_id[b] = hsc__vocab_find(&t->vocab, text, (size_t)n);
    }
    HSC_TRY(hsc__load_folder_config(t, dir, HSC__FOLDER_GPT2, NULL, err));
    HSC_TRY(hsc__byte_level_decode(&t->vocab, &t->arena, err));
    return hsc__tokenizer_finish(t, err);
}

hsc_status hsc__tokenizer_from_merges(hsc_tokenizer **out, const char *dir, hsc_error *err)
{
    HSC_TRY(hsc__tokenizer_new(out, err));
    char *vocab = hsc__path_join(dir, "vocab.json"), *merges = hsc__path_join(dir, "merges.txt");
    hsc_status status = vocab && merges ? load(*out, dir, vocab, merges, err) : hsc__fail_memory(err, 1, dir);
    hsc__free(vocab);
    hsc__free(merges);
    if (status != HSC_OK) {
        hsc_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}
