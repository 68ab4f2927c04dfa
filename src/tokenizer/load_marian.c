/*
 * Marian's tokenizers: a SentencePiece model a language (source.spm, target.spm) cuts text, and vocab.json numbers the
 * pieces of both; target_vocab.json those of the target where tokenizer_config.json has separate_vocabs. A piece that
 * vocab.json lacks is unknown. A language code >>fra<< in front of a text is a token of vocab.json.
 */
#include "base/file.h"
#include "tokenizer/load.h"
#include "tokenizer/sentencepiece.h"

#include <float.h>
#include <string.h>

static const hsc__bytes blank = {" ", 1}, mark = {"\xe2\x96\x81", 3};

/* The pieces that text is cut into, as SentencePiece has it, and the token of each. */
static hsc_status load_pieces(hsc_tokenizer *t, const hsc__sentencepiece *spm, const char *path, hsc_error *err)
{
    hsc__unigram *model = &t->unigram;
    hsc_token *token_of = hsc__arena_alloc(&t->arena, spm->n * sizeof *token_of);
    hsc_token unk = hsc__vocab_find(&t->vocab, "<unk>", 5);
    double lowest = FLT_MAX;
    if (!token_of) return hsc__fail_memory(err, spm->n * sizeof *token_of, path);
    HSC_FAIL_IF(unk < 0, HSC_EFORMAT, "%s: its vocab.json has no \"<unk>\"", path);
    for (size_t i = 0; i < spm->n; i++) {
        const hsc__piece *piece = &spm->piece[i];
        HSC_FAIL_IF(piece->kind == HSC__PIECE_USER_DEFINED || piece->kind == HSC__PIECE_BYTE, HSC_EUNSUPPORTED,
                    "%s: pieces[%zu] is %s, which is not supported in a Marian model", path, i,
                    piece->kind == HSC__PIECE_BYTE ? "a byte" : "user-defined");
        token_of[i] = hsc__vocab_find(&t->vocab, piece->text.data, piece->text.n);
        if (token_of[i] < 0) token_of[i] = unk;
        HSC_TRY(hsc__unigram_set_score(model, (hsc_token)i, (double)piece->score, err));
        if (piece->kind != HSC__PIECE_NORMAL) continue;
        HSC_TRY(hsc__trie_add(&model->trie, piece->text.data, piece->text.n, (hsc_token)i, err));
        if ((double)piece->score < lowest) lowest = (double)piece->score;
    }
    model->unk = (hsc_token)spm->unk_id;
    model->unk_score = (double)((float)lowest - (float)HSC__UNK_PENALTY);
    model->single = true;
    model->token_of = token_of;
    model->outside = &t->vocab;
    return HSC_OK;
}

static hsc_status load_normalizer(hsc_tokenizer *t, const hsc__sentencepiece *spm, const char *path, hsc_error *err)
{
    hsc__normalizer *n = &t->normalizer;
    if (spm->charsmap.n) {
        hsc_status status = hsc__charsmap_open(&t->charsmap, spm->charsmap, err);
        if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s: normalizer_spec", path);
        HSC_TRY(
            hsc__normalizer_add(n, (hsc__normalize_op){.kind = HSC__CHARSMAP_LONGEST, .charsmap = &t->charsmap}, err));
    }
    if (spm->trims_blanks) HSC_TRY(hsc__normalizer_add(n, (hsc__normalize_op){.kind = HSC__TRIM}, err));
    if (spm->adds_prefix)
        HSC_TRY(hsc__normalizer_add(n, (hsc__normalize_op){.kind = HSC__PREPEND, .text = blank}, err));
    return hsc__normalizer_add(n, (hsc__normalize_op){.kind = HSC__REPLACE, .text = blank, .with = mark}, err);
}

static hsc_status load_files(hsc_tokenizer *t, const char *dir, const char *vocab, const char *path,
                             hsc__sentencepiece *spm, hsc_error *err)
{
    static const char *const kinds[] = {"", "UNIGRAM", "BPE"};
    size_t n;
    t->kind = HSC__UNIGRAM;
    HSC_TRY(hsc__load_vocab_json(t, vocab, err));
    HSC_TRY(hsc__read_file(&t->files[1], &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    HSC_TRY(hsc__sentencepiece_read(spm, t->files[1], n, path, err));
    HSC_FAIL_IF(spm->model_type != HSC__SPM_UNIGRAM, HSC_EUNSUPPORTED,
                "%s: trainer_spec: \"model_type\" is %s, Marian's tokenizer needs UNIGRAM", path,
                kinds[spm->model_type]);
    HSC_TRY(load_pieces(t, spm, path, err));
    HSC_TRY(load_normalizer(t, spm, path, err));
    t->has_languages = true;
    HSC_TRY(hsc__load_folder_config(t, dir, HSC__FOLDER_MARIAN, NULL, err));
    t->strip = (hsc__strip){' ', 1};
    hsc__normalizer unescape = {.op = {{.kind = HSC__REPLACE, .text = mark, .with = blank}}, .n_ops = 1};
    HSC_TRY(hsc__decode_pieces(t, &unescape, err));
    return hsc__tokenizer_finish(t, err);
}

static hsc_status load(hsc_tokenizer *t, const char *dir, bool target, hsc_error *err)
{
    json_t *settings;
    bool separate;
    HSC_TRY(hsc__load_settings(&settings, dir, "tokenizer_config.json", err));
    hsc_status status = hsc__json_bool(settings, "separate_vocabs", false, &separate, "tokenizer_config.json", err);
    if (status != HSC_OK) status = hsc__fail_prefix(err, status, "%s", dir);
    json_decref(settings);
    if (status != HSC_OK) return status;
    hsc__sentencepiece spm = {0};
    char *vocab = hsc__path_join(dir, target && separate ? "target_vocab.json" : "vocab.json");
    char *path = hsc__path_join(dir, target ? "target.spm" : "source.spm");
    status = vocab && path ? load_files(t, dir, vocab, path, &spm, err) : hsc__fail_memory(err, 1, dir);
    hsc__sentencepiece_free(&spm);
    hsc__free(vocab);
    hsc__free(path);
    return status;
}

hsc_status hsc__tokenizer_from_marian(hsc_tokenizer **out, const char *dir, bool target, hsc_error *err)
{
    HSC_TRY(hsc__tokenizer_new(out, err));
    hsc_status status = load(*out, dir, target, err);
    if (status != HSC_OK) {
        hsc_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}
