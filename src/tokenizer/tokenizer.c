/* Making, finishing, opening and freeing a tokenizer. */
#include "base/file.h"
#include "tokenizer/pipeline.h"

#include <string.h>

hsc_status hsc__tokenizer_new(hsc_tokenizer **out, hsc_error *err)
{
    hsc_tokenizer *t = hsc__calloc(1, sizeof *t);
    *out = t;
    if (!t) return hsc__fail_memory(err, sizeof *t, "a tokenizer");
    t->bpe.vocab = &t->vocab;
    t->bpe.unk = t->wordpiece.unk = t->unigram.unk = t->wordlevel_unk = t->bos = -1;
    t->n_stages = 1;
    for (int b = 0; b < 256; b++) t->bpe.byte_id[b] = t->unigram.byte_id[b] = -1;
    return HSC_OK;
}

static hsc_status check_template(const hsc_tokenizer *t, const hsc__template *template, hsc_error *err)
{
    for (size_t i = 0; i < template->n; i++) {
        hsc_token id = template->part[i].id;
        bool known = id < 0 || ((size_t)id < t->vocab.n && t->vocab.kind[id] != HSC__TOKEN_NONE);
        HSC_FAIL_IF(!known, HSC_EFORMAT, "the template adds the id %d, which none of the %zu tokens has", (int)id,
                    t->vocab.n);
    }
    return HSC_OK;
}

hsc_status hsc__tokenizer_finish(hsc_tokenizer *t, hsc_error *err)
{
    if (!t->single.n) HSC_TRY(hsc__set_template(t, NULL, 0, NULL, 0, err));
    for (size_t i = 0; i < t->vocab.n; i++) {
        if (t->vocab.bytes[i].n > t->longest) t->longest = t->vocab.bytes[i].n;
        if (t->inner && t->inner[i].n > t->longest) t->longest = t->inner[i].n;
    }
    if (t->ends_word) t->longest++; /* the blank that was due */
    HSC_TRY(check_template(t, &t->single, err));
    HSC_TRY(check_template(t, &t->pair, err));
    HSC_TRY(hsc__bpe_finish(&t->bpe, err));
    return hsc__added_finish(&t->added, &t->normalizer, err);
}

static hsc_status set_parts(hsc_tokenizer *t, hsc__template *out, size_t n, hsc_error *err)
{
    out->part = hsc__arena_alloc(&t->arena, n * sizeof *out->part);
    if (!out->part) return hsc__fail_memory(err, n * sizeof *out->part, "the template");
    out->n = 0;
    return HSC_OK;
}

hsc_status hsc__set_template(hsc_tokenizer *t, const hsc_token *before, size_t n_before, const hsc_token *after,
                             size_t n_after, hsc_error *err)
{
    hsc__template *templates[2] = {&t->single, &t->pair};
    for (int texts = 1; texts <= 2; texts++) {
        hsc__template *template = templates[texts - 1];
        HSC_TRY(set_parts(t, template, (size_t)texts * (n_before + n_after + 1), err));
        for (int text = 0; text < texts; text++) {
            for (size_t i = 0; i < n_before; i++) template->part[template->n++] = (hsc__template_part){before[i], text};
            template->part[template->n++] = (hsc__template_part){text ? HSC__SECOND_TEXT : HSC__FIRST_TEXT, text};
            for (size_t i = 0; i < n_after; i++) template->part[template->n++] = (hsc__template_part){after[i], text};
        }
    }
    return HSC_OK;
}

hsc_status hsc__copy_template(hsc_tokenizer *t, hsc__template *out, const hsc__template_part *part, size_t n,
                              hsc_error *err)
{
    HSC_TRY(set_parts(t, out, n, err));
    for (size_t i = 0; i < n; i++) out->part[out->n++] = part[i];
    return HSC_OK;
}

hsc_status hsc__tokenizer_add_token(hsc_tokenizer *t, hsc__added_token token, const char *where, hsc_error *err)
{
    size_t shown = token.content.n > 99 ? 99 : token.content.n, n = t->vocab.n;
    hsc_token known = hsc__vocab_find(&t->vocab, token.content.data, token.content.n);
    const hsc__added_token *same = hsc__added_find(&t->added, token.content.data, token.content.n);
    if (same) known = same->id;
    HSC_FAIL_IF(known >= 0 && known != token.id, HSC_EFORMAT,
                "%s: added token \"%.*s\" has the id %d, the vocabulary says %d", where, (int)shown, token.content.data,
                (int)token.id, (int)known);
    HSC_FAIL_IF(known < 0 && (size_t)token.id < n && t->vocab.kind[token.id] != HSC__TOKEN_NONE, HSC_EFORMAT,
                "%s: added token \"%.*s\" has the id %d of another token", where, (int)shown, token.content.data,
                (int)token.id);
    HSC_FAIL_IF((size_t)token.id > n * 4 + (1 << 20), HSC_EFORMAT,
                "%s: added token \"%.*s\" has the id %d, far beyond the %zu tokens of the vocabulary", where,
                (int)shown, token.content.data, (int)token.id, n);
    if ((size_t)token.id >= n) HSC_TRY(hsc__vocab_resize(&t->vocab, (size_t)token.id + 1, err));
    if (known < 0) t->vocab.text[token.id] = token.content;
    t->vocab.bytes[token.id] = token.content;
    t->vocab.kind[token.id] = token.special ? HSC__TOKEN_SPECIAL : HSC__TOKEN_ADDED;
    return hsc__added_put(&t->added, &token, err);
}

void hsc_tokenizer_free(hsc_tokenizer *t)
{
    if (!t) return;
    for (size_t i = 0; i < HSC__MAX_STAGES; i++) {
        hsc__normalizer_free(&t->stage[i].change);
        hsc__splitter_free(&t->stage[i].splitter);
    }
    hsc__normalizer_free(&t->normalizer);
    hsc__bpe_free(&t->bpe);
    hsc__wordpiece_free(&t->wordpiece);
    hsc__unigram_free(&t->unigram);
    hsc__added_free(&t->added);
    hsc__vocab_free(&t->vocab);
    hsc__arena_free(&t->arena);
    for (int i = 0; i < 2; i++) hsc__free(t->files[i]);
    hsc__gguf_close(t->gguf);
    hsc__free(t);
}

/* The path of a file in a folder when it is there; NULL when it is not. *failed: memory is out. */
static char *existing_file(const char *dir, const char *name, bool *failed)
{
    char *path = hsc__path_join(dir, name);
    *failed = !path;
    if (path && !hsc__is_file(path)) {
        hsc__free(path);
        path = NULL;
    }
    return path;
}

static hsc_status from_marian(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err)
{
    (void)path;
    return hsc__tokenizer_from_marian(out, dir, false, err);
}

static hsc_status from_merges(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err)
{
    (void)path;
    return hsc__tokenizer_from_merges(out, dir, err);
}

static hsc_status from_vocab(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err)
{
    (void)path;
    return hsc__tokenizer_from_vocab(out, dir, err);
}

hsc_status hsc__tokenizer_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err)
{
    static const struct {
        const char *file;
        hsc_status (*open)(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err);
    } kinds[] = {{"source.spm", from_marian},
                 {"tokenizer.json", hsc__tokenizer_from_json},
                 {"tokenizer.model", hsc__tokenizer_from_sentencepiece},
                 {"spiece.model", hsc__tokenizer_from_sentencepiece},
                 {"sentencepiece.bpe.model", hsc__tokenizer_from_sentencepiece},
                 {"vocab.json", from_merges},
                 {"vocab.txt", from_vocab}};
    *out = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool failed;
        char *path = existing_file(dir, kinds[i].file, &failed);
        if (failed) return hsc__fail_memory(err, 1, dir);
        if (!path) continue;
        hsc_status status = kinds[i].open(out, path, dir, err);
        hsc__free(path);
        return status;
    }
    return hsc__fail(err, HSC_ENOTFOUND, 0,
                     "%s: has no tokenizer: neither tokenizer.json nor a SentencePiece model (tokenizer.model, "
                     "spiece.model, sentencepiece.bpe.model, source.spm) nor vocab.json and merges.txt nor vocab.txt",
                     dir);
}

hsc_status hsc__tokenizer_target_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err)
{
    bool failed;
    char *path = existing_file(dir, "target.spm", &failed);
    *out = NULL;
    if (failed) return hsc__fail_memory(err, 1, dir);
    HSC_FAIL_IF(!path, HSC_ENOTFOUND, "%s: has no target.spm", dir);
    hsc__free(path);
    return hsc__tokenizer_from_marian(out, dir, true, err);
}

/* Whether the name ends as that of a SentencePiece model. */
static bool is_sentencepiece(const char *path)
{
    static const char *const endings[] = {".model", ".spm"};
    size_t n = strlen(path);
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(endings[i]);
        if (n > length && strcmp(path + n - length, endings[i]) == 0) return true;
    }
    return false;
}

static hsc_status open_gguf(hsc_tokenizer **out, const char *path, hsc_error *err)
{
    hsc__gguf *gguf;
    HSC_TRY(hsc__gguf_open(&gguf, path, err));
    hsc_status status = hsc__tokenizer_from_gguf(out, gguf, err);
    if (status == HSC_OK) (*out)->gguf = gguf;
    else hsc__gguf_close(gguf);
    return status;
}

hsc_status hsc_tokenizer_open(hsc_tokenizer **out, const char *path, hsc_error *err)
{
    *out = NULL;
    hsc__error_clear(err);
    if (hsc__is_dir(path)) return hsc__tokenizer_from_dir(out, path, err);
    if (hsc__gguf_is(path)) return open_gguf(out, path, err);
    if (is_sentencepiece(path)) return hsc__tokenizer_from_sentencepiece(out, path, NULL, err);
    return hsc__tokenizer_from_json(out, path, NULL, err);
}
