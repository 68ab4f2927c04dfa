/*
 * The tokenizer in a GGUF file's metadata: tokenizer.ggml.model "gpt2" is byte-level BPE with merges, "llama" is
 * SentencePiece's BPE with scores, "t5" is Unigram, "bert" is WordPiece. Texts stay in the mapping.
 */
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/load.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static hsc__token_kind kind_of(int32_t type)
{
    switch (type) {
    case TYPE_UNKNOWN:
    case TYPE_CONTROL: return HSC__TOKEN_SPECIAL;
    case TYPE_USER_DEFINED: return HSC__TOKEN_ADDED;
    case TYPE_UNUSED: return HSC__TOKEN_UNUSED;
    case TYPE_BYTE: return HSC__TOKEN_BYTE;
    default: return HSC__TOKEN_NORMAL;
    }
}

static hsc_status load_token(hsc_tokenizer *t, hsc_token id, hsc__bytes text, int32_t type, hsc_error *err)
{
    hsc_token existing;
    hsc__token_kind kind = kind_of(type);
    HSC_FAIL_IF(type < TYPE_NORMAL || type > TYPE_BYTE, HSC_EFORMAT,
                KEY("token_type") "[%d] is %d, it must be from 1 to 6", (int)id, (int)type);
    HSC_TRY(hsc__vocab_set(&t->vocab, id, text, kind, &existing, err));
    if (existing >= 0) { /* padding is sometimes given twice: the text finds the first, the id still has its text */
        t->vocab.text[id] = t->vocab.bytes[id] = text;
        t->vocab.kind[id] = (uint8_t)kind;
        t->vocab.has_doubles = true;
        return HSC_OK;
    }
    if (kind != HSC__TOKEN_SPECIAL && kind != HSC__TOKEN_ADDED) return HSC_OK;
    hsc__added_token added = {.content = text, .id = id, .special = kind == HSC__TOKEN_SPECIAL};
    return hsc__added_put(&t->added, &added, err);
}

/* The converter marks the start of a word where BERT marks what goes on: "##ing" lies there as "ing", "to" as the mark
 * and "to". Here they get BERT's spelling back; what stands in brackets kept it. */
static hsc_status restore_spelling(hsc_tokenizer *t, hsc__bytes *text, hsc_error *err)
{
    static const char start[3] = "\xe2\x96\x81";
    if (text->n >= sizeof start && memcmp(text->data, start, sizeof start) == 0) {
        *text = (hsc__bytes){text->data + sizeof start, text->n - sizeof start};
        return HSC_OK;
    }
    if (text->n && text->data[0] == '[' && text->data[text->n - 1] == ']') return HSC_OK;
    char *spelled = hsc__arena_alloc(&t->arena, text->n + 2);
    if (!spelled) return hsc__fail_memory(err, text->n + 2, "the vocabulary");
    memcpy(spelled, "##", 2);
    if (text->n) memcpy(spelled + 2, text->data, text->n);
    *text = (hsc__bytes){spelled, text->n + 2};
    return HSC_OK;
}

static hsc_status load_tokens(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const hsc__bytes *texts;
    const int32_t *types;
    size_t n, n_types;
    HSC_TRY(hsc__gguf_get_strings(gguf, KEY("tokens"), &texts, &n, err));
    HSC_TRY(hsc__gguf_get_ints(gguf, KEY("token_type"), &types, &n_types, err));
    HSC_FAIL_IF(n == 0, HSC_ENOTFOUND, "has no " KEY("tokens"));
    HSC_FAIL_IF(n > INT32_MAX, HSC_EFORMAT, KEY("tokens") " has %zu entries, at most %d are accepted", n, INT32_MAX);
    HSC_FAIL_IF(n_types && n_types != n, HSC_EFORMAT, KEY("token_type") " has %zu entries, " KEY("tokens") " %zu",
                n_types, n);
    HSC_TRY(hsc__vocab_resize(&t->vocab, n, err));
    for (size_t i = 0; i < n; i++) {
        hsc__bytes text = texts[i];
        if (t->kind == HSC__WORDPIECE) HSC_TRY(restore_spelling(t, &text, err));
        HSC_TRY(load_token(t, (hsc_token)i, text, n_types ? types[i] : TYPE_NORMAL, err));
    }
    return HSC_OK;
}

static hsc_status load_merges(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const hsc__bytes *merges;
    size_t n;
    HSC_TRY(hsc__gguf_get_strings(gguf, KEY("merges"), &merges, &n, err));
    HSC_FAIL_IF(!hsc__gguf_has(gguf, KEY("merges")), HSC_EFORMAT,
                KEY("model") " is \"gpt2\" and " KEY("merges") " is missing");
    HSC_TRY(hsc__bpe_reserve(&t->bpe, n, err));
    for (size_t i = 0; i < n; i++) {
        const char *text = merges[i].data, *blank = merges[i].n > 2 ? memchr(text + 1, ' ', merges[i].n - 2) : NULL;
        HSC_FAIL_IF(!blank, HSC_EFORMAT, KEY("merges") "[%zu] must be two tokens with a blank between them", i);
        hsc__bytes left = {text, (size_t)(blank - text)}, right = {blank + 1, merges[i].n - left.n - 1};
        HSC_TRY(hsc__bpe_add(&t->bpe, (uint32_t)i, left, right, KEY("merges"), err));
    }
    return HSC_OK;
}

/* An id of the vocabulary; `fallback` (perhaps -1) when the key is absent. */
static hsc_status get_id(const hsc_tokenizer *t, const hsc__gguf *gguf, const char *key, hsc_token fallback,
                         hsc_token *out, hsc_error *err)
{
    int64_t id;
    HSC_TRY(hsc__gguf_get_int(gguf, key, fallback, 0, (int64_t)t->vocab.n - 1, &id, err));
    *out = id < (int64_t)t->vocab.n ? (hsc_token)id : -1;
    return HSC_OK;
}

/* BOS and EOS where the file (or the kind of tokenizer: `usual`) asks for them; RoBERTa has EOS twice between texts. */
static hsc_status load_template(hsc_tokenizer *t, const hsc__gguf *gguf, const bool *usual, const hsc_token *fallback,
                                bool roberta, hsc_error *err)
{
    bool adds[2];
    hsc_token ids[2];
    static const char *const keys[2] = {KEY("bos_token_id"), KEY("eos_token_id")};
    static const char *const add_keys[2] = {KEY("add_bos_token"), KEY("add_eos_token")};
    for (int i = 0; i < 2; i++) {
        HSC_TRY(get_id(t, gguf, keys[i], fallback[i], &ids[i], err));
        HSC_TRY(hsc__gguf_get_bool(gguf, add_keys[i], usual[i], &adds[i], err));
        HSC_FAIL_IF(adds[i] && ids[i] < 0 && hsc__gguf_has(gguf, add_keys[i]), HSC_EFORMAT,
                    "%s is true and %s is missing", add_keys[i], keys[i]);
        if (ids[i] < 0) adds[i] = false;
    }
    t->bos = ids[0];
    if (roberta && adds[0] && adds[1]) return hsc__set_roberta_template(t, ids[0], ids[1], err);
    return hsc__set_template(t, &ids[0], adds[0], &ids[1], adds[1], err);
}

/* Files of the first days name no pre-tokenizer; GPT-2's own family then means GPT-2's. */
static hsc_status get_pre(const hsc__gguf *gguf, const char **out, hsc_error *err)
{
    static const char *const family[] = {"gpt2", "gptneox", "gptj", "mpt"};
    const char *arch;
    HSC_TRY(hsc__gguf_get_cstring(gguf, KEY("pre"), NULL, out, err));
    if (*out) return HSC_OK;
    HSC_TRY(hsc__gguf_get_cstring(gguf, "general.architecture", "", &arch, err));
    for (size_t i = 0; i < sizeof family / sizeof *family; i++)
        if (strcmp(arch, family[i]) == 0) *out = "gpt-2";
    HSC_FAIL_IF(!*out, HSC_EUNSUPPORTED, KEY("pre") " is missing, so the pre-tokenizer of this %s model is not known",
                arch);
    return HSC_OK;
}

static hsc_status load_gpt2(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const char *pre;
    bool prefix;
    hsc__gguf_pre rules;
    t->bpe.byte_level = true;
    HSC_TRY(get_pre(gguf, &pre, err));
    HSC_TRY(hsc__gguf_pre_load(&t->stage[0].splitter, &rules, pre, err));
    t->bpe.ignore_merges = rules.ignore_merges;
    HSC_TRY(hsc__gguf_get_bool(gguf, KEY("add_space_prefix"), false, &prefix, err));
    if (prefix) {
        hsc__normalize_op op = {.kind = HSC__PREPEND_MISSING, .text = {" ", 1}};
        HSC_TRY(hsc__normalizer_add(&t->stage[0].change, op, err));
    }
    HSC_TRY(load_tokens(t, gguf, err));
    HSC_TRY(load_merges(t, gguf, err));
    for (int b = 0; b < 256; b++) {
        char text[4];
        size_t n = (size_t)hsc__byte_spell((unsigned char)b, text);
        t->bpe.byte_id[b] = hsc__vocab_find(&t->vocab, text, n);
    }
    HSC_TRY(load_template(t, gguf, (const bool[2]){rules.add_bos, false}, (const hsc_token[2]){-1, -1},
                          strcmp(pre, "roberta-bpe") == 0, err));
    return hsc__byte_level_decode(&t->vocab, &t->arena, err);
}

static const hsc__bytes blank = {" ", 1}, mark = {"\xe2\x96\x81", 3};

static hsc_status load_scores(const hsc_tokenizer *t, const hsc__gguf *gguf, const float **scores, hsc_error *err)
{
    size_t n;
    HSC_TRY(hsc__gguf_get_floats(gguf, KEY("scores"), scores, &n, err));
    HSC_FAIL_IF(n != t->vocab.n, HSC_EFORMAT, KEY("scores") " has %zu entries, " KEY("tokens") " %zu", n, t->vocab.n);
    for (size_t i = 0; i < n; i++)
        HSC_FAIL_IF((*scores)[i] != (*scores)[i], HSC_EFORMAT, KEY("scores") "[%zu] is not a number", i);
    return HSC_OK;
}

/* SentencePiece's compiled map, an array of bytes. */
static hsc_status load_charsmap(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const int32_t *values;
    size_t n;
    HSC_TRY(hsc__gguf_get_ints(gguf, KEY("precompiled_charsmap"), &values, &n, err));
    if (n == 0) return HSC_OK;
    char *bytes = hsc__arena_alloc(&t->arena, n);
    if (!bytes) return hsc__fail_memory(err, n, "the charsmap");
    for (size_t i = 0; i < n; i++) {
        HSC_FAIL_IF(values[i] < -128 || values[i] > 255, HSC_EFORMAT, KEY("precompiled_charsmap") "[%zu] is no byte",
                    i);
        bytes[i] = (char)values[i];
    }
    HSC_TRY(hsc__charsmap_open(&t->charsmap, (hsc__bytes){bytes, n}, err));
    hsc__normalize_op op = {.kind = HSC__CHARSMAP_LONGEST, .charsmap = &t->charsmap};
    return hsc__normalizer_add(&t->normalizer, op, err);
}

/* SentencePiece's order: the map, extra blanks, the prefix, then blanks get their mark. */
static hsc_status load_sentencepiece_normalizer(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    bool prefix, trims;
    HSC_TRY(hsc__gguf_get_bool(gguf, KEY("add_space_prefix"), true, &prefix, err));
    HSC_TRY(hsc__gguf_get_bool(gguf, KEY("remove_extra_whitespaces"), false, &trims, err));
    HSC_TRY(load_charsmap(t, gguf, err));
    if (trims) HSC_TRY(hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = HSC__TRIM}, err));
    if (prefix) {
        HSC_TRY(hsc__normalizer_add(&t->normalizer, (hsc__normalize_op){.kind = HSC__PREPEND, .text = blank}, err));
        t->strip = (hsc__strip){' ', 1};
    }
    hsc__normalize_op escape = {.kind = HSC__REPLACE, .text = blank, .with = mark};
    return hsc__normalizer_add(&t->normalizer, escape, err);
}

/* Byte pieces for the model to fall back to, and what every piece stands for. */
static hsc_status finish_sentencepiece(hsc_tokenizer *t, hsc_token *byte_id, hsc_error *err)
{
    for (size_t i = 0; i < t->vocab.n; i++) {
        int b = t->vocab.kind[i] == HSC__TOKEN_BYTE ? hsc__byte_piece(t->vocab.text[i]) : -1;
        if (b >= 0) byte_id[b] = (hsc_token)i;
    }
    HSC_TRY(hsc__decode_byte_pieces(t, err));
    hsc__normalizer unescape = {.op = {{.kind = HSC__REPLACE, .text = mark, .with = blank}}, .n_ops = 1};
    return hsc__decode_pieces(t, &unescape, err);
}

static hsc_status load_sentencepiece(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    HSC_TRY(load_sentencepiece_normalizer(t, gguf, err));
    HSC_TRY(load_tokens(t, gguf, err));
    HSC_TRY(load_scores(t, gguf, &t->bpe.scores, err));
    HSC_TRY(get_id(t, gguf, KEY("unknown_token_id"), 0, &t->bpe.unk, err));
    HSC_TRY(load_template(t, gguf, (const bool[2]){true, false}, (const hsc_token[2]){1, 2}, false, err));
    t->bpe.byte_fallback = true;
    return finish_sentencepiece(t, t->bpe.byte_id, err);
}

static bool is_text(uint8_t kind)
{
    return kind == HSC__TOKEN_NORMAL || kind == HSC__TOKEN_ADDED || kind == HSC__TOKEN_UNUSED;
}

/* T5's kind: Unigram. */
static hsc_status load_unigram(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const float *scores = NULL;
    const char *arch;
    HSC_TRY(hsc__gguf_get_cstring(gguf, "general.architecture", "", &arch, err));
    t->kind = HSC__UNIGRAM;
    HSC_TRY(load_sentencepiece_normalizer(t, gguf, err));
    HSC_TRY(load_tokens(t, gguf, err));
    HSC_TRY(load_scores(t, gguf, &scores, err));
    for (size_t i = 0; i < t->vocab.n; i++)
        HSC_TRY(hsc__unigram_set_score(&t->unigram, (hsc_token)i, (double)scores[i], err));
    HSC_TRY(get_id(t, gguf, KEY("unknown_token_id"), 2, &t->unigram.unk, err));
    /* An encoder with such words is an XLM-RoBERTa. */
    HSC_TRY(load_template(t, gguf, (const bool[2]){false, true}, (const hsc_token[2]){-1, 1}, strcmp(arch, "bert") == 0,
                          err));
    HSC_TRY(finish_sentencepiece(t, t->unigram.byte_id, err));
    for (int b = 0; b < 256; b++) t->unigram.byte_fallback |= t->unigram.byte_id[b] >= 0;
    return hsc__unigram_finish(&t->unigram, &t->vocab, is_text, err);
}

/* Whether a token has a capital of ASCII; those in brackets do not count. */
static bool has_capitals(const hsc__vocab *vocab)
{
    for (size_t i = 0; i < vocab->n; i++) {
        hsc__bytes text = vocab->text[i];
        bool bracketed = text.n && text.data[0] == '[';
        for (size_t k = 0; !bracketed && k < text.n; k++)
            if (text.data[k] >= 'A' && text.data[k] <= 'Z') return true;
    }
    return false;
}

/* The file says nothing about the normalizer: a vocabulary without capitals is for text in lower case. */
static hsc_status load_bert(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    static const hsc__bytes prefix = {"##", 2};
    hsc_token cls, sep;
    t->kind = HSC__WORDPIECE;
    t->wordpiece.max_characters = 100;
    HSC_TRY(load_tokens(t, gguf, err));
    bool lowercase = !has_capitals(&t->vocab);
    HSC_TRY(hsc__add_bert_normalizer(&t->normalizer, true, true, lowercase, lowercase, err));
    HSC_TRY(hsc__add_bert_splitter(&t->stage[0].splitter, err));
    HSC_TRY(hsc__wordpiece_finish(&t->wordpiece, &t->vocab, prefix, err));
    HSC_TRY(get_id(t, gguf, KEY("unknown_token_id"), 100, &t->wordpiece.unk, err));
    HSC_TRY(get_id(t, gguf, KEY("cls_token_id"), 101, &cls, err));
    HSC_TRY(get_id(t, gguf, KEY("seperator_token_id"), 102, &sep, err)); /* the key is written so */
    if (cls >= 0 && sep >= 0) HSC_TRY(hsc__set_bert_template(t, cls, sep, err));
    return hsc__decode_words(t, prefix, true, err);
}

static hsc_status load(hsc_tokenizer *t, const hsc__gguf *gguf, hsc_error *err)
{
    const char *model;
    HSC_TRY(hsc__gguf_get_cstring(gguf, KEY("model"), NULL, &model, err));
    HSC_FAIL_IF(!model || strcmp(model, "no_vocab") == 0 || strcmp(model, "none") == 0, HSC_ENOTFOUND,
                "has no tokenizer: " KEY("model") " is %s", model ? model : "missing");
    if (strcmp(model, "gpt2") == 0) HSC_TRY(load_gpt2(t, gguf, err));
    else if (strcmp(model, "llama") == 0) HSC_TRY(load_sentencepiece(t, gguf, err));
    else if (strcmp(model, "t5") == 0) HSC_TRY(load_unigram(t, gguf, err));
    else if (strcmp(model, "bert") == 0) HSC_TRY(load_bert(t, gguf, err));
    else return hsc__fail(err, HSC_EUNSUPPORTED, 0, KEY("model") " \"%s\" is not supported", model);
    return hsc__tokenizer_finish(t, err);
}

hsc_status hsc__tokenizer_from_gguf(hsc_tokenizer **out, const hsc__gguf *gguf, hsc_error *err)
{
    HSC_TRY(hsc__tokenizer_new(out, err));
    hsc_status status = load(*out, gguf, err);
    if (status == HSC_OK) return HSC_OK;
    hsc_tokenizer_free(*out);
    *out = NULL;
    const char *path = hsc__gguf_path(gguf);
    bool named = err && strncmp(err->message, path, strlen(path)) == 0;
    return named ? status : hsc__fail_prefix(err, status, "%s", path);
}
