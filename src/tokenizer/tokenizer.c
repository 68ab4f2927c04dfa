/* Making, finishing, opening and freeing a tokenizer. */
#include "base/file.h"
#include "tokenizer/pipeline.h"

hsc_status hsc__tokenizer_new(hsc_tokenizer **out, hsc_error *err)
{
    hsc_tokenizer *t = hsc__calloc(1, sizeof *t);
    *out = t;
    if (!t) return hsc__fail_memory(err, sizeof *t, "a tokenizer");
    t->bpe.vocab = &t->vocab;
    t->bpe.unk = -1;
    for (int b = 0; b < 256; b++) t->bpe.byte_id[b] = -1;
    return HSC_OK;
}

hsc_status hsc__tokenizer_finish(hsc_tokenizer *t, hsc_error *err)
{
    for (size_t i = 0; i < t->vocab.n; i++)
        if (t->vocab.bytes[i].n > t->longest) t->longest = t->vocab.bytes[i].n;
    for (size_t i = 0; i < t->template.n_before + t->template.n_after; i++) { /* the two lie end to end */
        hsc_token id = t->template.before[i];
        bool known = (size_t)id < t->vocab.n && t->vocab.kind[id] != HSC__TOKEN_NONE;
        HSC_FAIL_IF(!known, HSC_EFORMAT, "the template adds the id %d, which none of the %zu tokens has", (int)id,
                    t->vocab.n);
    }
    HSC_TRY(hsc__bpe_finish(&t->bpe, err));
    return hsc__added_finish(&t->added, &t->normalizer, err);
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
    hsc__splitter_free(&t->splitter);
    hsc__bpe_free(&t->bpe);
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

hsc_status hsc__tokenizer_from_dir(hsc_tokenizer **out, const char *dir, hsc_error *err)
{
    bool failed;
    *out = NULL;
    char *path = existing_file(dir, "tokenizer.json", &failed);
    if (failed) return hsc__fail_memory(err, 1, dir);
    if (path) {
        hsc_status status = hsc__tokenizer_from_json(out, path, dir, err);
        hsc__free(path);
        return status;
    }
    path = existing_file(dir, "vocab.json", &failed);
    if (failed) return hsc__fail_memory(err, 1, dir);
    HSC_FAIL_IF(!path, HSC_ENOTFOUND, "%s: has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt",
                dir);
    hsc__free(path);
    return hsc__tokenizer_from_merges(out, dir, err);
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
    return hsc__tokenizer_from_json(out, path, NULL, err);
}
