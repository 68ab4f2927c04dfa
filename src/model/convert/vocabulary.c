/*
 * A folder's tokenizer as GGUF's keys: the tokens as they are spelled, their kinds, merges in order, and the name of
 * the pre-tokenizer, which is found by comparing its steps with those that each name stands for.
 */
#include "model/convert/convert.h"

#include "tokenizer/gguf_pre.h"
#include "tokenizer/load.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* tokenizer.ggml.token_type */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

/* tokenizer_config.json, special_tokens_map.json and the like: an object, or NULL when absent or damaged (the tokenizer
 * was loaded from them, so what matters in them was checked). */
static json_t *load_beside(const hsc__convert *c, const char *name)
{
    json_t *json = NULL;
    char *text = NULL, *path = hsc__path_join(c->in, name);
    size_t n;
    if (path && hsc__is_file(path) && hsc__read_file(&text, &n, path, HSC__TOKENIZER_FILE_LIMIT, NULL) == HSC_OK)
        json = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, NULL); /* model_max_length may be 10 to the 30th */
    hsc__free(text);
    hsc__free(path);
    return json;
}

static bool same_steps(const hsc__splitter *a, const hsc__splitter *b)
{
    if (a->n_steps != b->n_steps) return false;
    for (size_t i = 0; i < a->n_steps; i++) {
        const hsc__split_step *x = &a->step[i], *y = &b->step[i];
        if (x->pattern || y->pattern || x->kind != y->kind || x->scan != y->scan) return false;
        if (x->kind != HSC__SPLIT_SCAN && (x->behavior != y->behavior || x->invert != y->invert)) return false;
    }
    return true;
}

/* The name of a pre-tokenizer with the same steps, or NULL. */
static const char *same_pre(const hsc_tokenizer *t)
{
    static const char *const names[] = {"gpt-2", "smollm", "llama-bpe", "smaug-bpe", "qwen2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hsc__splitter splitter = {0};
        hsc__gguf_pre rules = {0};
        bool same = hsc__gguf_pre_load(&splitter, &rules, names[i], NULL) == HSC_OK &&
                    same_steps(&splitter, &t->stage[0].splitter) && t->n_stages == 1 &&
                    rules.ignore_merges == t->bpe.ignore_merges;
        hsc__splitter_free(&splitter);
        if (same) return names[i];
    }
    return NULL;
}

/* Whether tokenizer.json cuts text as BLOOM's does, and in no other way. */
static bool cuts_as_bloom(const hsc__convert *c, const hsc_tokenizer *t)
{
    json_t *json = t->stage[0].splitter.n_steps == 1 && t->n_stages == 1 ? load_beside(c, "tokenizer.json") : NULL;
    const json_t *steps = json_object_get(json_object_get(json, "pre_tokenizer"), "pretokenizers"),
                 *split = json_array_get(steps, 0);
    const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    bool same = json_array_size(steps) == 2 && pattern && behavior && strcmp(pattern, HSC__BLOOM_PATTERN) == 0 &&
                strcmp(behavior, "Isolated") == 0 && !json_is_true(json_object_get(split, "invert"));
    json_decref(json);
    return same;
}

/* The name in tokenizer.ggml.pre, or NULL. RoBERTa's says, too, what stands between two texts. */
static const char *pre_name(const hsc__convert *c, const hsc_tokenizer *t)
{
    const char *name = same_pre(t);
    if (!name && cuts_as_bloom(c, t)) return "bloom";
    bool roberta = strcmp(c->family->gguf, "bert") == 0 && name && strcmp(name, "gpt-2") == 0;
    return roberta ? "roberta-bpe" : name;
}

static int32_t type_of(const hsc_tokenizer *t, hsc_token id)
{
    if (!t->bpe.byte_level && id == (t->kind == HSC__UNIGRAM ? t->unigram.unk : t->bpe.unk)) return TYPE_UNKNOWN;
    if (t->bpe.byte_fallback && hsc__byte_piece(t->vocab.text[id]) >= 0) return TYPE_BYTE;
    switch (t->vocab.kind[id]) {
    case HSC__TOKEN_SPECIAL: return TYPE_CONTROL;
    case HSC__TOKEN_ADDED: return TYPE_USER_DEFINED;
    case HSC__TOKEN_BYTE: return TYPE_BYTE;
    case HSC__TOKEN_UNUSED: return TYPE_UNUSED;
    default: return TYPE_NORMAL;
    }
}

/* llama.cpp marks the pieces that begin a word, where WordPiece marks those that go on. data is NULL when memory is
 * out.
 */
static hsc__bytes spelled(hsc__convert *c, const hsc_tokenizer *t, size_t id)
{
    static const char mark[] = "\xe2\x96\x81", goes_on[] = "##"; /* U+2581 */
    hsc__bytes text = t->vocab.text[id];
    if (t->kind != HSC__WORDPIECE || t->vocab.kind[id] == HSC__TOKEN_SPECIAL) return text;
    if (text.n > 2 && memcmp(text.data, goes_on, 2) == 0) return (hsc__bytes){text.data + 2, text.n - 2};
    char *copy = hsc__arena_alloc(&c->arena, text.n + 3);
    if (!copy) return (hsc__bytes){NULL, 0};
    memcpy(copy, mark, 3);
    memcpy(copy + 3, text.data, text.n);
    return (hsc__bytes){copy, text.n + 3};
}

/* One text and kind for every row of the embedding; rows that no token has are padding, as llama.cpp names it. */
static hsc_status put_tokens(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    size_t n = (size_t)c->model->desc.config.d_vocab;
    hsc__bytes *texts = hsc__arena_alloc(&c->arena, n * sizeof *texts);
    int32_t *types = hsc__arena_alloc(&c->arena, n * sizeof *types);
    if (!texts || !types) return hsc__fail_memory(err, n * (sizeof *texts + sizeof *types), "the vocabulary");
    for (size_t i = 0; i < n; i++) {
        if (i < t->vocab.n && t->vocab.kind[i] != HSC__TOKEN_NONE) {
            texts[i] = spelled(c, t, i);
            if (!texts[i].data) return hsc__fail_memory(err, t->vocab.text[i].n, "the vocabulary");
            types[i] = type_of(t, (hsc_token)i);
            continue;
        }
        texts[i].data = hsc__convert_text(c, "[PAD%zu]", i);
        if (!texts[i].data) return hsc__fail_memory(err, 16, "the vocabulary");
        texts[i].n = strlen(texts[i].data);
        types[i] = TYPE_UNUSED;
    }
    if (t->vocab.n > n)
        hsc__convert_note(c, "the tokenizer has %zu tokens, the embedding %zu rows: the tokens past it are left out",
                          t->vocab.n, n);
    hsc__gguf_put_strings(w, KEY("tokens"), texts, n);
    hsc__gguf_put_ints(w, KEY("token_type"), types, n);
    return HSC_OK;
}

static int by_rank(const void *left, const void *right)
{
    const hsc__merge *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* The merges in order, in the arena. */
static hsc_status sorted_merges(hsc__convert *c, const hsc__bpe *bpe, hsc__merge **out, size_t *n, hsc_error *err)
{
    *n = 0;
    *out = hsc__arena_alloc(&c->arena, (bpe->n_merges + 1) * sizeof **out);
    if (!*out) return hsc__fail_memory(err, bpe->n_merges * sizeof **out, "the merges");
    for (size_t i = 0; i < bpe->n_slots; i++) {
        if (bpe->slot[i].left >= 0) (*out)[(*n)++] = bpe->slot[i];
    }
    qsort(*out, *n, sizeof **out, by_rank);
    return HSC_OK;
}

/* "left right" */
static hsc_status put_merges(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    hsc__merge *merges;
    size_t n;
    HSC_TRY(sorted_merges(c, &t->bpe, &merges, &n, err));
    hsc__bytes *texts = hsc__arena_alloc(&c->arena, (n + 1) * sizeof *texts);
    if (!texts) return hsc__fail_memory(err, n * sizeof *texts, "the merges");
    for (size_t i = 0; i < n; i++) {
        hsc__bytes left = t->vocab.text[merges[i].left], right = t->vocab.text[merges[i].right];
        char *text = hsc__arena_alloc(&c->arena, left.n + right.n + 1);
        if (!text) return hsc__fail_memory(err, left.n + right.n + 1, "a merge");
        memcpy(text, left.data, left.n);
        text[left.n] = ' ';
        memcpy(text + left.n + 1, right.data, right.n);
        texts[i] = (hsc__bytes){text, left.n + right.n + 1};
    }
    hsc__gguf_put_strings(w, KEY("merges"), texts, n);
    return HSC_OK;
}

/* SentencePiece's scores say what merges say by their order: the sooner, the higher. What no merge makes comes last. */
static hsc_status put_scores(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    size_t n_merges, n = (size_t)c->model->desc.config.d_vocab;
    hsc__merge *merges;
    HSC_TRY(sorted_merges(c, &t->bpe, &merges, &n_merges, err));
    float *scores = hsc__arena_alloc(&c->arena, n * sizeof *scores);
    if (!scores) return hsc__fail_memory(err, n * sizeof *scores, "the scores");
    for (size_t i = 0; i < n; i++) scores[i] = -1e6f;
    for (size_t i = n_merges; i-- > 0;) {
        if ((size_t)merges[i].merged < n) scores[merges[i].merged] = -(float)i;
    }
    hsc__gguf_put_floats(w, KEY("scores"), scores, n);
    return HSC_OK;
}

/* ---------------------------------------------------------------------------------------------- special tokens ---- */

/* A token named in `settings` by its text, or else by its id in config.json (the first of a list). -1: none. */
static hsc_token special_id(const hsc__convert *c, const hsc_tokenizer *t, const json_t *settings, const char *name)
{
    char field[32];
    const json_t *value = json_object_get(settings, name);
    if (json_is_object(value)) value = json_object_get(value, "content");
    hsc_token id = json_is_string(value) ? hsc_token_find(t, json_string_value(value), json_string_length(value)) : -1;
    if (id < 0) {
        snprintf(field, sizeof field, "%s_id", name);
        value = json_object_get(c->config, field);
        if (json_is_array(value)) value = json_array_get(value, 0);
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        id = number >= 0 && number < c->model->desc.config.d_vocab ? (hsc_token)number : -1;
    }
    return id < c->model->desc.config.d_vocab ? id : -1;
}

static void put_template(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_token bos, hsc_token eos)
{
    const hsc__template *p = &t->single;
    size_t n_before = 0;
    while (p->part[n_before].id >= 0) n_before++; /* the text is always there */
    size_t n_after = p->n - n_before - 1;
    bool begins = n_before == 1 && p->part[0].id == bos, ends = n_after == 1 && p->part[n_before + 1].id == eos;
    if ((n_before && !begins) || (n_after && !ends))
        hsc__convert_note(c, "the tokenizer adds special tokens that are not bos and eos, which GGUF cannot say");
    hsc__gguf_put_bool(w, KEY("add_bos_token"), begins);
    hsc__gguf_put_bool(w, KEY("add_eos_token"), ends);
}

static void put_chat_template(const hsc__convert *c, const json_t *settings, hsc__gguf_writer *w)
{
    static const char key[] = "tokenizer.chat_template";
    const json_t *value = json_object_get(settings, "chat_template");
    char *text = NULL, *path = hsc__path_join(c->in, "chat_template.jinja");
    size_t n;
    if (json_is_string(value)) hsc__gguf_put_string(w, key, json_string_value(value), json_string_length(value));
    else if (path && hsc__is_file(path) && hsc__read_file(&text, &n, path, HSC__TOKENIZER_FILE_LIMIT, NULL) == HSC_OK)
        hsc__gguf_put_string(w, key, text, n);
    hsc__free(text);
    hsc__free(path);
}

static void put_special(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w)
{
    static const char *const names[][2] = {{"bos_token", KEY("bos_token_id")},
                                           {"eos_token", KEY("eos_token_id")},
                                           {"unk_token", KEY("unknown_token_id")},
                                           {"pad_token", KEY("padding_token_id")}};
    enum { UNK = 2 };
    hsc_token ids[4];
    json_t *settings = load_beside(c, "tokenizer_config.json");
    for (int i = 0; i < 4; i++) {
        ids[i] = special_id(c, t, settings, names[i][0]);
        if (i == UNK && t->kind == HSC__UNIGRAM) ids[i] = t->unigram.unk;
        if (ids[i] >= 0) hsc__gguf_put_u32(w, names[i][1], (uint32_t)ids[i]);
    }
    put_template(c, t, w, ids[0], ids[1]);
    put_chat_template(c, settings, w);
    json_decref(settings);
}

/* ----------------------------------------------------------------------------------------------------- the kinds ----
 */

static void put_model(hsc__gguf_writer *w, const char *name)
{
    hsc__gguf_put_string(w, KEY("model"), name, strlen(name));
}

static hsc_status put_byte_level(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, const char *pre,
                                 hsc_error *err)
{
    bool form = t->normalizer.n_ops == 1 && t->normalizer.op[0].kind == HSC__NFC && strcmp(pre, "qwen2") == 0;
    if (t->normalizer.n_ops && !form)
        hsc__convert_note(c, "the tokenizer changes text before it is cut, which GGUF cannot say of this kind");
    put_model(w, "gpt2");
    hsc__gguf_put_string(w, KEY("pre"), pre, strlen(pre));
    HSC_TRY(put_tokens(c, t, w, err));
    HSC_TRY(put_merges(c, t, w, err));
    hsc__gguf_put_bool(w, KEY("add_space_prefix"), t->stage[0].change.n_ops > 0);
    put_special(c, t, w);
    return HSC_OK;
}

static bool puts_in_front(const hsc__normalize_op *op)
{
    return op->kind == HSC__PREPEND || op->kind == HSC__PREPEND_MISSING || op->kind == HSC__PREPEND_FIRST;
}

static hsc_status put_sentencepiece(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    bool prefix = false;
    for (size_t i = 0; i < t->normalizer.n_ops; i++) prefix |= puts_in_front(&t->normalizer.op[i]);
    for (size_t i = 0; i < t->stage[0].change.n_ops; i++) prefix |= puts_in_front(&t->stage[0].change.op[i]);
    put_model(w, "llama");
    hsc__gguf_put_string(w, KEY("pre"), "default", 7);
    HSC_TRY(put_tokens(c, t, w, err));
    HSC_TRY(put_scores(c, t, w, err));
    hsc__gguf_put_bool(w, KEY("add_space_prefix"), prefix);
    put_special(c, t, w);
    return HSC_OK;
}

/* A Unigram's way with text as far as GGUF's keys can say it. */
typedef struct manners {
    bool said;   /* they can */
    bool trims;  /* extra blanks go */
    bool prefix; /* a blank is put in front */
} manners;

static void add_manners(manners *m, const hsc__normalizer *change)
{
    for (size_t i = 0; i < change->n_ops; i++) {
        const hsc__normalize_op *op = &change->op[i];
        bool map = op->kind == HSC__CHARSMAP || op->kind == HSC__CHARSMAP_LONGEST, trim = op->kind == HSC__TRIM;
        m->trims |= trim;
        m->prefix |= puts_in_front(op);
        m->said &= map || trim || puts_in_front(op) || op->kind == HSC__REPLACE; /* blanks get their mark */
    }
}

static manners manners_of(const hsc_tokenizer *t)
{
    manners m = {.said = !t->unigram.token_of};
    add_manners(&m, &t->normalizer);
    for (size_t s = 0; s < t->n_stages; s++) {
        const hsc__splitter *splitter = &t->stage[s].splitter;
        add_manners(&m, &t->stage[s].change);
        for (size_t i = 0; i < splitter->n_steps; i++) {
            bool blanks = splitter->step[i].kind == HSC__SPLIT_SPACES && splitter->step[i].behavior == HSC__REMOVED;
            m.trims |= blanks;
            m.said &= blanks || splitter->step[i].behavior == HSC__MERGED_WITH_NEXT; /* at the marks, as pieces are */
        }
    }
    return m;
}

/* T5's kind, which XLM-RoBERTa has too. The compiled map lies as it came: its size, its units, its texts. */
static hsc_status put_unigram(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    manners m = manners_of(t);
    size_t n = (size_t)c->model->desc.config.d_vocab;
    const hsc__charsmap *map = &t->charsmap;
    float *scores = hsc__arena_alloc(&c->arena, n * sizeof *scores);
    if (!scores) return hsc__fail_memory(err, n * sizeof *scores, "the scores");
    for (size_t i = 0; i < n; i++) scores[i] = i < t->unigram.n ? (float)t->unigram.scores[i] : 0;
    put_model(w, "t5");
    hsc__gguf_put_string(w, KEY("pre"), "default", 7);
    HSC_TRY(put_tokens(c, t, w, err));
    hsc__gguf_put_floats(w, KEY("scores"), scores, n);
    hsc__gguf_put_bool(w, KEY("add_space_prefix"), m.prefix);
    hsc__gguf_put_bool(w, KEY("remove_extra_whitespaces"), m.trims);
    if (map->units)
        hsc__gguf_put_bytes(w, KEY("precompiled_charsmap"), map->units - 4, 4 + 4 * map->n_units + map->texts.n);
    put_special(c, t, w);
    return HSC_OK;
}

/* [CLS] comes under bos as well, which is where llama.cpp looks for it. */
static hsc_status put_wordpiece(hsc__convert *c, const hsc_tokenizer *t, hsc__gguf_writer *w, hsc_error *err)
{
    static const char *const names[][3] = {
        {"cls_token", "[CLS]", KEY("cls_token_id")},       {"cls_token", "[CLS]", KEY("bos_token_id")},
        {"sep_token", "[SEP]", KEY("seperator_token_id")}, /* the key is written so */
        {"unk_token", "[UNK]", KEY("unknown_token_id")},   {"pad_token", "[PAD]", KEY("padding_token_id")},
        {"mask_token", "[MASK]", KEY("mask_token_id")}};
    json_t *settings = load_beside(c, "tokenizer_config.json");
    put_model(w, "bert");
    hsc_status status = put_tokens(c, t, w, err);
    for (size_t i = 0; i < sizeof names / sizeof *names && status == HSC_OK; i++) {
        hsc_token id = special_id(c, t, settings, names[i][0]);
        if (id < 0) id = hsc_token_find(t, names[i][1], strlen(names[i][1]));
        if (id >= 0 && id < c->model->desc.config.d_vocab) hsc__gguf_put_u32(w, names[i][2], (uint32_t)id);
    }
    json_decref(settings);
    return status;
}

hsc_status hsc__convert_put_tokenizer(hsc__convert *c, hsc__gguf_writer *w, hsc_error *err)
{
    hsc_error why = {0};
    const hsc_tokenizer *t = hsc_model_tokenizer(c->model, &why);
    const char *pre = t && t->bpe.byte_level && !t->bpe.affixed ? pre_name(c, t) : NULL;
    HSC_FAIL_IF(!t && why.code == HSC_ENOMEM, HSC_ENOMEM, "%s", why.message);
    if (pre) return put_byte_level(c, t, w, pre, err);
    if (t && t->kind == HSC__WORDPIECE) return put_wordpiece(c, t, w, err);
    if (t && t->kind == HSC__UNIGRAM && manners_of(t).said) return put_unigram(c, t, w, err);
    if (t && t->bpe.byte_fallback && !t->bpe.byte_level) return put_sentencepiece(c, t, w, err);
    if (!t) hsc__convert_note(c, "%s; written without a tokenizer", why.message);
    else hsc__convert_note(c, "GGUF has no name for the way its tokenizer cuts text; written without a tokenizer");
    put_model(w, "no_vocab");
    return HSC_OK;
}
