/* tokenizer.json of a byte-level or WordPiece model from GGUF's keys, in the words of the `tokenizers` library. */
#include "model/convert/convert.h"

#include "tokenizer/pipeline.h"
#include "tokenizer/scan.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* How each pre-tokenizer is said in a tokenizer.json. */
static const struct {
    const char *names;   /* in tokenizer.ggml.pre, each between blanks */
    const char *pattern; /* of a Split before bytes are spelled, or NULL: ByteLevel's own */
    bool digits, nfc;
} known[] = {
    {" gpt-2 gpt2 roberta-bpe ", NULL, false, false},
    {" smollm starcoder refact command-r codeshell ", NULL, true, false},
    {" llama-bpe llama3 llama-v3 falcon3 smaug-bpe dbrx ", HSC__LLAMA3_PATTERN, false, false},
    {" qwen2 deepseek-r1-qwen ", HSC__QWEN2_PATTERN, false, true},
    {" bloom poro-chat gpt3-finnish ", HSC__BLOOM_PATTERN, false, false},
};
enum { N_KNOWN = sizeof known / sizeof *known };

/* The row of that name, or N_KNOWN. */
static size_t find_pre(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    size_t i = 0;
    while (i < N_KNOWN && !strstr(known[i].names, word)) i++;
    return i;
}

static json_t *byte_level(bool prefix, bool use_regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "trim_offsets", 1,
                     "use_regex", use_regex);
}

static json_t *pre_tokenizer(size_t pre, bool prefix)
{
    const char *pattern = known[pre].pattern;
    json_t *last = byte_level(prefix, !pattern), *first = NULL;
    if (pattern)
        first = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior",
                          "Isolated", "invert", 0);
    else if (known[pre].digits) first = json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1);
    return first ? json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", first, last) : last;
}

/* A template's parts; the special tokens among them are explained in `tokens`. */
static json_t *template_parts(const hsc_tokenizer *t, const hsc__template *template, json_t *tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; i < template->n; i++) {
        const hsc__template_part *part = &template->part[i];
        if (part->id < 0) {
            const char *name = part->id == HSC__SECOND_TEXT ? "B" : "A";
            json_array_append_new(list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", part->segment));
            continue;
        }
        hsc__bytes name = t->vocab.text[part->id];
        json_t *label = json_stringn(name.data, name.n);
        json_array_append_new(list, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", label, "type_id", part->segment));
        json_object_set_new(tokens, json_string_value(label),
                            json_pack("{s:O, s:[i], s:[O]}", "id", label, "ids", (int)part->id, "tokens", label));
        json_decref(label);
    }
    return list;
}

/* What stands around a text. */
static json_t *post_processor(const hsc_tokenizer *t)
{
    if (t->single.n == 1) return t->bpe.byte_level ? byte_level(true, true) : json_null();
    json_t *tokens = json_object(), *single = template_parts(t, &t->single, tokens),
           *pair = template_parts(t, &t->pair, tokens);
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair,
                     "special_tokens", tokens);
}

/* Tokens that are cut out of the text before anything else, by id. */
static json_t *added_tokens(const hsc_tokenizer *t)
{
    json_t *list = json_array();
    for (size_t id = 0; id < t->vocab.n; id++) {
        uint8_t kind = t->vocab.kind[id];
        if (kind != HSC__TOKEN_SPECIAL && kind != HSC__TOKEN_ADDED) continue;
        hsc__bytes text = t->vocab.text[id];
        json_array_append_new(list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content",
                                              json_stringn(text.data, text.n), "single_word", 0, "lstrip", 0, "rstrip",
                                              0, "normalized", 0, "special", kind == HSC__TOKEN_SPECIAL));
    }
    return list;
}

/* "[PAD50257]": llama.cpp's name for a row of the embedding that no token has. */
static bool is_padding(const hsc_tokenizer *t, size_t id, char *expected, size_t capacity)
{
    hsc__bytes text = t->vocab.text[id];
    int n = snprintf(expected, capacity, "[PAD%zu]", id);
    return t->vocab.kind[id] == HSC__TOKEN_UNUSED && text.n == (size_t)n && memcmp(text.data, expected, text.n) == 0;
}

/* {"text": id}; NULL when memory is out or a text is not UTF-8. */
static json_t *vocabulary(hsc__convert *c, const hsc_tokenizer *t)
{
    json_t *object = json_object();
    for (size_t id = 0; id < t->vocab.n; id++) {
        char padding[32];
        hsc__bytes text = t->vocab.text[id];
        if (t->vocab.kind[id] == HSC__TOKEN_NONE || is_padding(t, id, padding, sizeof padding)) continue;
        const char *key = hsc__arena_strndup(&c->arena, text.data, text.n);
        bool fine = key && !memchr(text.data, '\0', text.n);
        if (fine && json_object_get(object, key)) continue; /* a text given twice belongs to its first id */
        if (!fine || json_object_set_new(object, key, json_integer((json_int_t)id)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *merges(const hsc__bytes *texts, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_stringn(texts[i].data, texts[i].n));
    return list;
}

static json_t *make_tokenizer(hsc__convert *c, const hsc_tokenizer *t, size_t pre, const hsc__bytes *texts, size_t n)
{
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "", "end_of_word_suffix", "", "fuse_unk", 0, "byte_fallback", 0,
                  "ignore_merges", t->bpe.ignore_merges, "vocab", vocabulary(c, t), "merges", merges(texts, n));
    json_t *normalizer = known[pre].nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added_tokens(t), "normalizer", normalizer, "pre_tokenizer",
                     pre_tokenizer(pre, t->stage[0].change.n_ops > 0), "post_processor", post_processor(t), "decoder",
                     byte_level(true, true), "model", model);
}

static bool lowers(const hsc_tokenizer *t)
{
    for (size_t i = 0; i < t->normalizer.n_ops; i++)
        if (t->normalizer.op[i].kind == HSC__LOWERCASE) return true;
    return false;
}

/* BERT's. Accents go where capitals do, which is what null says. */
static json_t *make_wordpiece(hsc__convert *c, const hsc_tokenizer *t)
{
    hsc__bytes unk = t->vocab.text[t->wordpiece.unk];
    json_t *normalizer = json_pack("{s:s, s:b, s:b, s:n, s:b}", "type", "BertNormalizer", "clean_text", 1,
                                   "handle_chinese_chars", 1, "strip_accents", "lowercase", (int)lowers(t));
    json_t *model = json_pack("{s:s, s:o, s:s, s:i, s:o}", "type", "WordPiece", "unk_token",
                              json_stringn(unk.data, unk.n), "continuing_subword_prefix", "##",
                              "max_input_chars_per_word", (int)t->wordpiece.max_characters, "vocab", vocabulary(c, t));
    json_t *decoder = json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup", 1);
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:{s:s}, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added_tokens(t), "normalizer", normalizer, "pre_tokenizer", "type",
                     "BertPreTokenizer", "post_processor", post_processor(t), "decoder", decoder, "model", model);
}

/* tokenizer_config.json: the names of special tokens, and the chat template. */
static hsc_status make_config(hsc__convert *c, const hsc_tokenizer *t, json_t *o, hsc_error *err)
{
    static const char *const names[][2] = {
        {"bos_token", KEY("bos_token_id")},     {"eos_token", KEY("eos_token_id")},
        {"unk_token", KEY("unknown_token_id")}, {"pad_token", KEY("padding_token_id")},
        {"cls_token", KEY("cls_token_id")},     {"sep_token", KEY("seperator_token_id")}, /* the key is written so */
        {"mask_token", KEY("mask_token_id")}};
    hsc__bytes chat;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        HSC_TRY(hsc__gguf_get_int(c->gguf, names[i][1], -1, INT64_MIN, INT64_MAX, &id, err));
        if (id < 0 || id >= (int64_t)t->vocab.n || t->vocab.kind[id] == HSC__TOKEN_NONE) continue;
        json_object_set_new(o, names[i][0], json_stringn(t->vocab.text[id].data, t->vocab.text[id].n));
    }
    HSC_TRY(hsc__gguf_get_string(c->gguf, "tokenizer.chat_template", &chat, err));
    if (chat.data && json_object_set_new(o, "chat_template", json_stringn(chat.data, chat.n)) != 0)
        hsc__convert_note(c, "the chat template is left out: it is not UTF-8");
    int failed = json_object_set_new(o, "tokenizer_class", json_string("PreTrainedTokenizerFast")) |
                 json_object_set_new(o, "clean_up_tokenization_spaces", json_false()) |
                 json_object_set_new(o, "model_max_length", json_integer(c->model->desc.config.n_ctx));
    return failed ? hsc__fail_memory(err, 1, "tokenizer_config.json") : HSC_OK;
}

/* The reason why no tokenizer.json can be made, or NULL. */
static const char *why_not(hsc__convert *c, const hsc_tokenizer *t, const char *pre)
{
    if (t->kind == HSC__WORDPIECE) return t->wordpiece.unk < 0 ? "it has no token for unknown words" : NULL;
    if (!t->bpe.byte_level) return "it is neither byte-level nor WordPiece";
    if (!pre || find_pre(pre) < N_KNOWN) return NULL;
    return hsc__convert_text(c, "its pre-tokenizer \"%s\" has no counterpart here", pre);
}

hsc_status hsc__convert_tokenizer_json(hsc__convert *c, json_t **tokenizer, json_t **config, hsc_error *err)
{
    hsc_error why = {0};
    const hsc_tokenizer *t = hsc_model_tokenizer(c->model, &why);
    const char *pre;
    const hsc__bytes *texts;
    size_t n;
    *tokenizer = *config = NULL;
    if (!t) {
        hsc__convert_note(c, "%s; written without a tokenizer", why.message);
        return why.code == HSC_ENOMEM ? hsc__fail(err, HSC_ENOMEM, 0, "%s", why.message) : HSC_OK;
    }
    HSC_TRY(hsc__gguf_get_cstring(c->gguf, KEY("pre"), "gpt-2", &pre, err));
    HSC_TRY(hsc__gguf_get_strings(c->gguf, KEY("merges"), &texts, &n, err));
    const char *reason = why_not(c, t, pre);
    if (reason) {
        hsc__convert_note(c, "the tokenizer is left out: %s", reason);
        return HSC_OK;
    }
    *tokenizer = t->kind == HSC__WORDPIECE ? make_wordpiece(c, t) : make_tokenizer(c, t, find_pre(pre), texts, n);
    *config = json_object();
    if (!*tokenizer || !*config) return hsc__fail(err, HSC_EFORMAT, 0, "%s: a token's text is not UTF-8", c->in);
    return make_config(c, t, *config, err);
}
