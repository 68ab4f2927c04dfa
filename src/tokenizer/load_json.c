/* A tokenizer.json: the long lists are read from its text, the rest through the JSON parser. */
#include "base/file.h"
#include "formats/content.h"
#include "tokenizer/json_lists.h"
#include "tokenizer/load.h"

#include <string.h>

/* The components in an order in which each finds what it needs. */
static hsc_status load_components(hsc_tokenizer *t, const json_t *root, const char *path, const char *dir,
                                  hsc_error *err)
{
    HSC_TRY(hsc__load_normalizer(t, json_object_get(root, "normalizer"), path, err));
    HSC_TRY(hsc__load_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), path, err));
    HSC_TRY(hsc__load_post_processor(t, json_object_get(root, "post_processor"), path, err));
    HSC_TRY(hsc__load_model(t, json_object_get(root, "model"), path, err));
    HSC_TRY(hsc__load_added_tokens(t, json_object_get(root, "added_tokens"), path, err));
    HSC_TRY(hsc__load_decoder(t, json_object_get(root, "decoder"), path, err));
    if (dir) HSC_TRY(hsc__load_folder_config(t, dir, HSC__FOLDER_PLAIN, NULL, err));
    hsc_status status = hsc__tokenizer_finish(t, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", path);
}

static hsc_status load_lists(hsc_tokenizer *t, const char *text, hsc__json_range vocab, hsc__json_range merges,
                             const char *path, hsc_error *err)
{
    hsc__arena merge_strings = {0};
    hsc__json_reader reader = {text, vocab.start, vocab.end, &t->arena, path, "model.vocab"};
    if (vocab.end && t->kind == HSC__UNIGRAM) HSC_TRY(hsc__json_read_pieces(&reader, &t->vocab, &t->unigram, err));
    else if (vocab.end) HSC_TRY(hsc__json_read_vocab(&reader, &t->vocab, err));
    reader = (hsc__json_reader){text, merges.start, merges.end, &merge_strings, path, "model.merges"};
    hsc_status status = merges.end ? hsc__json_read_merges(&reader, &t->bpe, err) : HSC_OK;
    hsc__arena_free(&merge_strings);
    return status;
}

/* The file without what stands in the two ranges, whose brackets stay. */
static hsc_status parse_rest(json_t **out, const char *text, size_t n, hsc__json_range a, hsc__json_range b,
                             const char *path, hsc_error *err)
{
    hsc__string rest = {0};
    size_t done = 0;
    if (b.start < a.start) {
        hsc__json_range swapped = a;
        a = b;
        b = swapped;
    }
    for (int i = 0; i < 2; i++) {
        hsc__json_range range = i ? b : a;
        if (!range.end) continue;
        hsc__string_add(&rest, text + done, range.start + 1 - done);
        done = range.end - 1;
    }
    hsc__string_add(&rest, text + done, n - done);
    hsc_status status =
        rest.failed ? hsc__fail_memory(err, n, path) : hsc__json_parse(out, rest.data, rest.n, path, err);
    hsc__string_free(&rest);
    return status;
}

static hsc_status load(hsc_tokenizer *t, size_t n, const char *path, const char *dir, hsc_error *err)
{
    hsc__json_range vocab, merges;
    json_t *root;
    const char *text = t->files[0];
    HSC_FAIL_IF(n == 0, HSC_EFORMAT, "%s: is empty, JSON is expected", path);
    if (hsc__is_lfs_pointer(text, n)) return hsc__fail_lfs_pointer(path, err);
    hsc__json_find_lists(text, n, &vocab, &merges);
    hsc_status status = parse_rest(&root, text, n, vocab, merges, path, err);
    /* The whole text gives the true line and column of what is wrong. */
    if (status == HSC_EFORMAT) status = hsc__json_parse(&root, text, n, path, err);
    if (status != HSC_OK) return status;
    if (!json_is_object(json_object_get(root, "model")))
        status = hsc__fail(err, HSC_EFORMAT, 0, "%s: is not a tokenizer.json: it has no \"model\"", path);
    if (status == HSC_OK) status = hsc__check_model(t, json_object_get(root, "model"), path, err);
    if (status == HSC_OK) status = load_lists(t, text, vocab, merges, path, err);
    if (status == HSC_OK) status = load_components(t, root, path, dir, err);
    json_decref(root);
    return status;
}

hsc_status hsc__tokenizer_parse_json(hsc_tokenizer **out, char *text, size_t n, const char *path, const char *dir,
                                     hsc_error *err)
{
    hsc_status status = hsc__tokenizer_new(out, err);
    if (status != HSC_OK) {
        hsc__free(text);
        return status;
    }
    (*out)->files[0] = text;
    status = load(*out, n, path, dir, err);
    if (status != HSC_OK) {
        hsc_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

hsc_status hsc__tokenizer_from_json(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err)
{
    char *text;
    size_t n;
    *out = NULL;
    HSC_TRY(hsc__read_file(&text, &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    return hsc__tokenizer_parse_json(out, text, n, path, dir, err);
}
