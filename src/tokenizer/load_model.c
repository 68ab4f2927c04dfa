/* The model of a tokenizer.json: which kind it is, and what it needs besides the long lists. */
#include "tokenizer/byte_level.h"
#include "tokenizer/load.h"

#include <string.h>

/* Files of old write no type: merges mean BPE, a list of scores Unigram, a limit on words WordPiece. */
static const char *model_type(const json_t *model)
{
    const char *type = hsc__type_of(model);
    if (type) return type;
    if (json_object_get(model, "merges")) return "BPE";
    if (json_is_array(json_object_get(model, "vocab"))) return "Unigram";
    return json_object_get(model, "max_input_chars_per_word") ? "WordPiece" : NULL;
}

/* What stands around the symbols of a word. */
static hsc_status read_affix(hsc_tokenizer *t, const json_t *model, const char *field, const char *path,
                             hsc__bytes *out, hsc_error *err)
{
    const char *text;
    bool ascii = true, falls_back;
    HSC_TRY(hsc__json_string(model, field, "", &text, path, err));
    HSC_TRY(hsc__json_bool(model, "byte_fallback", false, &falls_back, path, err));
    if (!*text) return HSC_OK;
    for (size_t i = 0; text[i]; i++) ascii = ascii && (unsigned char)text[i] < 0x80;
    HSC_FAIL_IF(!ascii || strlen(text) > HSC__LONGEST_AFFIX, HSC_EUNSUPPORTED,
                "%s: model: \"%s\" is \"%s\", only ASCII of at most %d bytes is supported", path, field, text,
                (int)HSC__LONGEST_AFFIX);
    HSC_FAIL_IF(falls_back, HSC_EUNSUPPORTED, "%s: model: \"%s\" together with \"byte_fallback\" is not supported",
                path, field);
    *out = hsc__keep(t, text, strlen(text));
    return out->data ? HSC_OK : hsc__fail_memory(err, strlen(text), path);
}

static hsc_status check_bpe(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    double dropout;
    HSC_TRY(read_affix(t, model, "continuing_subword_prefix", path, &t->bpe.prefix, err));
    HSC_TRY(read_affix(t, model, "end_of_word_suffix", path, &t->bpe.suffix, err));
    HSC_TRY(hsc__json_double(model, "dropout", 0, &dropout, path, err));
    HSC_FAIL_IF(dropout != 0, HSC_EUNSUPPORTED, "%s: model: \"dropout\" is %g, only null or 0 is supported", path,
                dropout);
    HSC_FAIL_IF(!json_is_array(json_object_get(model, "merges")), HSC_EFORMAT, "%s: model: \"merges\" must be an array",
                path);
    return HSC_OK;
}

hsc_status hsc__check_model(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    static const struct {
        const char *name;
        hsc__model_kind kind;
    } kinds[] = {
        {"BPE", HSC__BPE}, {"WordPiece", HSC__WORDPIECE}, {"Unigram", HSC__UNIGRAM}, {"WordLevel", HSC__WORDLEVEL}};
    const char *type = model_type(model);
    size_t i = 0, n = sizeof kinds / sizeof *kinds;
    while (i < n && (!type || strcmp(type, kinds[i].name) != 0)) i++;
    HSC_FAIL_IF(i == n, HSC_EUNSUPPORTED, "%s: model \"%s\" is not supported", path, type ? type : "(no type)");
    t->kind = kinds[i].kind;
    if (t->kind == HSC__BPE) HSC_TRY(check_bpe(t, model, path, err));
    const json_t *vocab = json_object_get(model, "vocab");
    bool lists = t->kind == HSC__UNIGRAM;
    HSC_FAIL_IF(lists ? !json_is_array(vocab) : !json_is_object(vocab), HSC_EFORMAT,
                "%s: model: \"vocab\" must be an %s", path, lists ? "array" : "object");
    return HSC_OK;
}

void hsc__find_byte_ids(const hsc_tokenizer *t, hsc_token *byte_id)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        char text[6] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        size_t n = sizeof text;
        if (t->bpe.byte_level) n = (size_t)hsc__byte_spell((unsigned char)b, text);
        byte_id[b] = hsc__vocab_find(&t->vocab, text, n);
    }
}

/* "unk_token": -1 when it is not in the vocabulary. */
static hsc_status find_unk(const hsc_tokenizer *t, const json_t *model, const char *fallback, const char *path,
                           hsc_token *out, hsc_error *err)
{
    const char *unk;
    HSC_TRY(hsc__json_string(model, "unk_token", fallback, &unk, path, err));
    *out = unk ? hsc__vocab_find(&t->vocab, unk, strlen(unk)) : -1;
    HSC_FAIL_IF(unk && *out < 0 && t->kind == HSC__BPE, HSC_EFORMAT,
                "%s: model: unk_token \"%s\" is not in the vocabulary", path, unk);
    return HSC_OK;
}

static hsc_status load_bpe(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    HSC_TRY(hsc__json_bool(model, "byte_fallback", false, &t->bpe.byte_fallback, path, err));
    HSC_TRY(hsc__json_bool(model, "fuse_unk", false, &t->bpe.fuse_unk, path, err));
    HSC_TRY(hsc__json_bool(model, "ignore_merges", false, &t->bpe.ignore_merges, path, err));
    HSC_TRY(find_unk(t, model, NULL, path, &t->bpe.unk, err));
    hsc__find_byte_ids(t, t->bpe.byte_id);
    return HSC_OK;
}

static hsc_status load_wordpiece(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    const char *prefix;
    int64_t most;
    HSC_TRY(find_unk(t, model, "[UNK]", path, &t->wordpiece.unk, err));
    HSC_TRY(hsc__json_string(model, "continuing_subword_prefix", "##", &prefix, path, err));
    HSC_TRY(hsc__json_int(model, "max_input_chars_per_word", 100, 0, INT32_MAX, &most, path, err));
    t->wordpiece.max_characters = (size_t)most;
    return hsc__wordpiece_finish(&t->wordpiece, &t->vocab, (hsc__bytes){prefix, strlen(prefix)}, err);
}

/* A word is a token or the unknown one. */
static hsc_status load_wordlevel(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    HSC_TRY(find_unk(t, model, "<unk>", path, &t->wordlevel_unk, err));
    return HSC_OK;
}

static hsc_status load_unigram(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    int64_t unk;
    HSC_FAIL_IF(t->vocab.n == 0, HSC_EFORMAT, "%s: model: \"vocab\" is empty", path);
    HSC_TRY(hsc__json_bool(model, "byte_fallback", false, &t->unigram.byte_fallback, path, err));
    HSC_TRY(hsc__json_int(model, "unk_id", -1, 0, (int64_t)t->vocab.n - 1, &unk, path, err));
    t->unigram.unk = (hsc_token)unk;
    hsc__find_byte_ids(t, t->unigram.byte_id);
    return hsc__unigram_finish(&t->unigram, &t->vocab, NULL, err);
}

hsc_status hsc__load_model(hsc_tokenizer *t, const json_t *model, const char *path, hsc_error *err)
{
    switch (t->kind) {
    case HSC__WORDPIECE: return load_wordpiece(t, model, path, err);
    case HSC__UNIGRAM: return load_unigram(t, model, path, err);
    case HSC__WORDLEVEL: return load_wordlevel(t, model, path, err);
    default: return load_bpe(t, model, path, err);
    }
}
