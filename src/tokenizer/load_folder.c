/*
 * What lies beside the vocabulary in a folder, read as transformers 5 reads it: tokenizer_config.json and, where that
 * has no added_tokens_decoder, the older special_tokens_map.json and added_tokens.json. add_bos_token and add_eos_token
 * count only without a tokenizer.json, which brings its own template.
 */
#include "base/file.h"
#include "tokenizer/load.h"

#include <stdlib.h>
#include <string.h>

static const char *const named[HSC__NAMED_TOKENS] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

/* What a folder without a tokenizer.json means when its files name no such token, in the order of `named`. */
#define END_OF_TEXT "<|endoftext|>"
static const char *const defaults[][HSC__NAMED_TOKENS] = {
    [HSC__FOLDER_PLAIN] = {NULL},
    [HSC__FOLDER_GPT2] = {END_OF_TEXT, END_OF_TEXT, END_OF_TEXT},
    [HSC__FOLDER_BERT] = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
    [HSC__FOLDER_LLAMA] = {"<s>", "</s>", "<unk>"},
    [HSC__FOLDER_GEMMA] = {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"},
    [HSC__FOLDER_T5] = {NULL, "</s>", "<unk>", NULL, "<pad>"},
    [HSC__FOLDER_XLMR] = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    [HSC__FOLDER_SENTENCEPIECE] = {NULL},
    [HSC__FOLDER_MARIAN] = {NULL, "</s>", "<unk>", NULL, "<pad>"},
};
enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK };

typedef struct folder {
    hsc_tokenizer *t;
    const char *dir; /* NULL: a file that stands alone */
    hsc__folder_kind kind;
    const char *const *defaults; /* [HSC__NAMED_TOKENS] */
    char *path[3];               /* of the files below */
    json_t *file[3];             /* NULL where there is none */
} folder;
enum { CONFIG, SPECIAL_MAP, ADDED };

/* transformers writes model_max_length as 10 to the 30th, which is no integer of 64 bits: here, where no number but the
 * keys of an object is of interest, integers are read as reals. */
static hsc_status load_config(json_t **out, const char *path, hsc_error *err)
{
    char *text;
    size_t n;
    HSC_TRY(hsc__read_file(&text, &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    size_t mark = hsc__text_mark(text, n);
    *out = json_loadb(text + mark, n - mark, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    hsc_status status = *out ? HSC_OK : hsc__json_parse(out, text, n, path, err); /* which says what is wrong */
    hsc__free(text);
    return status;
}

hsc_status hsc__load_settings(json_t **out, const char *dir, const char *name, hsc_error *err)
{
    char *path = hsc__path_join(dir, name);
    *out = NULL;
    if (!path) return hsc__fail_memory(err, 1, name);
    hsc_status status = hsc__is_file(path) ? load_config(out, path, err) : HSC_OK;
    if (status == HSC_OK && *out && !json_is_object(*out))
        status = hsc__fail(err, HSC_EFORMAT, 0, "%s: must hold an object", path);
    if (status != HSC_OK) json_decref(*out);
    if (status != HSC_OK) *out = NULL;
    hsc__free(path);
    return status;
}

static hsc_status open_files(folder *f, hsc_error *err)
{
    static const char *const names[3] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
    for (int i = 0; i < 3; i++) {
        f->path[i] = f->dir ? hsc__path_join(f->dir, names[i]) : hsc__strndup("the model", 9);
        if (!f->path[i]) return hsc__fail_memory(err, 1, names[i]);
        if (!f->dir || !hsc__is_file(f->path[i])) continue;
        HSC_TRY(i == CONFIG ? load_config(&f->file[i], f->path[i], err)
                            : hsc__json_load(&f->file[i], f->path[i], HSC__TOKENIZER_FILE_LIMIT, err));
        HSC_FAIL_IF(!json_is_object(f->file[i]), HSC_EFORMAT, "%s: must hold an object", f->path[i]);
    }
    return HSC_OK;
}

/* Adds a token by its content; one that the vocabulary lacks takes `id`, or the next id when that is -1. A named
 * special token that is known keeps its flags; added_tokens_decoder (an id, and flags) has the last word on them. */
static hsc_status add(folder *f, int file, const json_t *content, const json_t *flags, int64_t id, bool special,
                      hsc_error *err)
{
    hsc_tokenizer *t = f->t;
    const char *text = json_string_value(content), *path = f->path[file];
    size_t n = json_string_length(content);
    hsc__added_token token = {.special = special, .normalized = !special};
    const hsc__added_token *same = hsc__added_find(&t->added, text, n);
    if (same && !(id >= 0 && flags)) {
        token = *same;
        token.special = token.special || special;
        return hsc__tokenizer_add_token(t, token, path, err);
    }
    if (!special) HSC_TRY(hsc__json_bool(flags, "special", false, &token.special, path, err));
    HSC_TRY(hsc__json_bool(flags, "lstrip", false, &token.lstrip, path, err));
    HSC_TRY(hsc__json_bool(flags, "rstrip", false, &token.rstrip, path, err));
    HSC_TRY(hsc__json_bool(flags, "single_word", false, &token.single_word, path, err));
    HSC_TRY(hsc__json_bool(flags, "normalized", !token.special, &token.normalized, path, err));
    hsc_token known = hsc__vocab_find(&t->vocab, text, n);
    if (same) known = same->id;
    token.id = known >= 0 ? known : id >= 0 ? (hsc_token)id : (hsc_token)t->vocab.n;
    token.content = hsc__keep(t, text, n);
    if (!token.content.data) return hsc__fail_memory(err, n, path);
    return hsc__tokenizer_add_token(t, token, path, err);
}

/* {"50257": {"content": ..}} */
static hsc_status add_decoder_tokens(folder *f, const json_t *decoder, hsc_error *err)
{
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)decoder, key, item)
    {
        char *end;
        long id = strtol(key, &end, 10);
        const json_t *content = json_object_get(item, "content");
        HSC_FAIL_IF(end == key || *end || id < 0 || id >= 1 << 24 || !json_is_string(content), HSC_EFORMAT,
                    "%s: added_tokens_decoder: \"%s\" must be an id with an object that has \"content\"",
                    f->path[CONFIG], key);
        HSC_TRY(add(f, CONFIG, content, item, id, false, err));
    }
    return HSC_OK;
}

/* A named special token: text, or an object with "content". NULL when absent or null. */
static const json_t *content_of(const json_t *object, const char *name, const json_t **flags)
{
    const json_t *value = json_object_get(object, name);
    *flags = json_is_object(value) ? value : NULL;
    if (*flags) value = json_object_get(value, "content");
    return json_is_string(value) ? value : NULL;
}

/* bos_token and its like: the older map wins where it counts, as it does in transformers. */
static const json_t *named_token(const folder *f, const char *name, int *file, const json_t **flags)
{
    bool old = !json_object_get(f->file[CONFIG], "added_tokens_decoder");
    const json_t *content = old ? content_of(f->file[SPECIAL_MAP], name, flags) : NULL;
    *file = content ? SPECIAL_MAP : CONFIG;
    return content ? content : content_of(f->file[CONFIG], name, flags);
}

static hsc_status add_named_tokens(folder *f, hsc_error *err)
{
    static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};
    for (int i = 0; i < HSC__NAMED_TOKENS; i++) {
        int file;
        const json_t *flags, *content = named_token(f, named[i], &file, &flags);
        if (content && json_string_length(content)) HSC_TRY(add(f, file, content, flags, -1, true, err));
    }
    for (int file = CONFIG; file <= SPECIAL_MAP; file++)
        for (int k = 0; k < 2; k++) {
            const json_t *list = json_object_get(f->file[file], lists[k]);
            for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *item = json_array_get(list, i), *flags = json_is_object(item) ? item : NULL;
                const json_t *content = flags ? json_object_get(item, "content") : item;
                if (json_string_length(content)) HSC_TRY(add(f, file, content, flags, -1, true, err));
            }
        }
    return HSC_OK;
}

/* {"<x>": 50257} */
static hsc_status add_old_tokens(folder *f, hsc_error *err)
{
    const char *key;
    json_t *item;
    size_t n;
    json_object_keylen_foreach(f->file[ADDED], key, n, item)
    {
        HSC_FAIL_IF(!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= 1 << 24,
                    HSC_EFORMAT, "%s: \"%s\" must have an id from 0 to 16777215", f->path[ADDED], key);
        json_t *content = json_stringn(key, n);
        if (!content) return hsc__fail_memory(err, n, f->path[ADDED]);
        hsc_status status = add(f, ADDED, content, NULL, json_integer_value(item), false, err);
        json_decref(content);
        HSC_TRY(status);
    }
    return HSC_OK;
}

/* A special token of a folder that does not name it, when the vocabulary has it; the classes of SentencePiece models
 * add it in any case. */
static hsc_status add_default(folder *f, const char *text, hsc_error *err)
{
    bool adds = f->kind >= HSC__FOLDER_LLAMA;
    if (!text || (!adds && hsc__vocab_find(&f->t->vocab, text, strlen(text)) < 0)) return HSC_OK;
    json_t *content = json_string(text);
    if (!content) return hsc__fail_memory(err, 1, text);
    hsc_status status = add(f, CONFIG, content, NULL, -1, true, err);
    json_decref(content);
    return status;
}

static hsc_status special_id(const folder *f, int name, hsc_token *out, hsc_error *err)
{
    int file;
    const json_t *flags, *content = named_token(f, named[name], &file, &flags);
    const char *text = content ? json_string_value(content) : f->defaults[name];
    size_t n = content ? json_string_length(content) : text ? strlen(text) : 0;
    const hsc__added_token *token = text ? hsc__added_find(&f->t->added, text, n) : NULL;
    HSC_FAIL_IF(!token, HSC_EFORMAT, "%s: asks for %s to be added, which it does not name", f->path[CONFIG],
                named[name]);
    *out = token->id;
    return HSC_OK;
}

/* Where add_bos_token and add_eos_token ask for them. */
static hsc_status load_bos_eos(folder *f, hsc_error *err)
{
    bool adds[2];
    hsc_token ids[2];
    HSC_TRY(hsc__json_bool(f->file[CONFIG], "add_bos_token", false, &adds[0], f->path[CONFIG], err));
    HSC_TRY(hsc__json_bool(f->file[CONFIG], "add_eos_token", false, &adds[1], f->path[CONFIG], err));
    for (int i = BOS; i <= EOS; i++)
        if (adds[i]) HSC_TRY(special_id(f, i, &ids[i], err));
    return hsc__set_template(f->t, &ids[0], adds[0], &ids[1], adds[1], err);
}

/* "[CLS] first [SEP] second [SEP]", and what tokenizer_config.json says of the normalizer. */
static hsc_status load_bert(folder *f, hsc_error *err)
{
    const json_t *config = f->file[CONFIG];
    const char *path = f->path[CONFIG];
    bool lowercase, ideographs, accents_go;
    hsc_token cls = -1, sep = -1;
    HSC_TRY(hsc__json_bool(config, "do_lower_case", true, &lowercase, path, err));
    HSC_TRY(hsc__json_bool(config, "tokenize_chinese_chars", true, &ideographs, path, err));
    HSC_TRY(hsc__json_bool(config, "strip_accents", lowercase, &accents_go, path, err));
    HSC_TRY(hsc__add_bert_normalizer(&f->t->normalizer, true, ideographs, accents_go, lowercase, err));
    HSC_TRY(special_id(f, CLS, &cls, err));
    HSC_TRY(special_id(f, SEP, &sep, err));
    HSC_TRY(special_id(f, UNK, &f->t->wordpiece.unk, err));
    return hsc__set_bert_template(f->t, cls, sep, err);
}

/* "first </s>", and "first </s> second </s>" without segments; Marian's has one </s> at the end. */
static hsc_status load_eos(folder *f, hsc_error *err)
{
    hsc_token eos = -1;
    HSC_TRY(special_id(f, EOS, &eos, err));
    const hsc__template_part parts[] = {{HSC__FIRST_TEXT, 0}, {eos, 0}, {HSC__SECOND_TEXT, 0}, {eos, 0}};
    const hsc__template_part marian[] = {parts[0], parts[2], parts[3]};
    HSC_TRY(hsc__copy_template(f->t, &f->t->single, parts, 2, err));
    if (f->kind == HSC__FOLDER_MARIAN) return hsc__copy_template(f->t, &f->t->pair, marian, 3, err);
    return hsc__copy_template(f->t, &f->t->pair, parts, 4, err);
}

static hsc_status load_xlmr(folder *f, hsc_error *err)
{
    hsc_token bos = -1, eos = -1;
    HSC_TRY(special_id(f, BOS, &bos, err));
    HSC_TRY(special_id(f, EOS, &eos, err));
    return hsc__set_roberta_template(f->t, bos, eos, err);
}

static hsc_status load_template(folder *f, hsc_error *err)
{
    switch (f->kind) {
    case HSC__FOLDER_PLAIN: return HSC_OK;
    case HSC__FOLDER_BERT: return load_bert(f, err);
    case HSC__FOLDER_T5:
    case HSC__FOLDER_MARIAN: return load_eos(f, err);
    case HSC__FOLDER_XLMR: return load_xlmr(f, err);
    default: return load_bos_eos(f, err);
    }
}

/* add_prefix_space of a byte-level tokenizer's configuration overrides that of its pre-tokenizer. */
static hsc_status load_prefix(folder *f, hsc_error *err)
{
    const json_t *value = json_object_get(f->file[CONFIG], "add_prefix_space");
    hsc_tokenizer *t = f->t;
    if (!t->bpe.byte_level || !json_is_boolean(value)) return HSC_OK;
    if (!json_is_true(value)) t->stage[0].change.n_ops = 0;
    else if (t->stage[0].change.n_ops == 0)
        return hsc__normalizer_add(&t->stage[0].change,
                                   (hsc__normalize_op){.kind = HSC__PREPEND_MISSING, .text = {" ", 1}}, err);
    return HSC_OK;
}

/* The BOS that the files name, or that the kind has. */
static void find_bos(folder *f)
{
    int file;
    const json_t *flags, *content = named_token(f, named[BOS], &file, &flags);
    const char *text = content ? json_string_value(content) : f->defaults[BOS];
    size_t n = content ? json_string_length(content) : text ? strlen(text) : 0;
    const hsc__added_token *token = n ? hsc__added_find(&f->t->added, text, n) : NULL;
    if (token) f->t->bos = token->id;
}

static hsc_status load(folder *f, hsc_error *err)
{
    HSC_TRY(open_files(f, err));
    const json_t *decoder = json_object_get(f->file[CONFIG], "added_tokens_decoder");
    HSC_TRY(decoder ? add_decoder_tokens(f, decoder, err) : add_old_tokens(f, err));
    HSC_TRY(add_named_tokens(f, err));
    for (int i = 0; i < HSC__NAMED_TOKENS; i++) {
        int file;
        const json_t *flags;
        if (!named_token(f, named[i], &file, &flags)) HSC_TRY(add_default(f, f->defaults[i], err));
    }
    find_bos(f);
    HSC_TRY(load_prefix(f, err));
    return load_template(f, err);
}

hsc_status hsc__load_folder_config(hsc_tokenizer *t, const char *dir, hsc__folder_kind kind, const char *const *names,
                                   hsc_error *err)
{
    folder f = {.t = t, .dir = dir, .kind = kind, .defaults = names ? names : defaults[kind]};
    hsc_status status = load(&f, err);
    for (int i = 0; i < 3; i++) {
        hsc__free(f.path[i]);
        json_decref(f.file[i]);
    }
    return status;
}
