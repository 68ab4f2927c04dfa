/*
 * A SentencePiece model without a tokenizer.json, as transformers 5 turns it into a tokenizer. Its classes differ in
 * what they take from the file: Llama's, Gemma's, T5's and XLM-R's bring their own rules, any other model follows the
 * file. Which class it is tokenizer_config.json says (tokenizer_class), or else config.json (model_type).
 */
#include "base/file.h"
#include "tokenizer/load.h"
#include "tokenizer/sentencepiece.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PIECE = 1024 }; /* bytes of a piece of BPE, whose cuts are all tried */

static const hsc__bytes blank = {" ", 1}, mark = {"\xe2\x96\x81", 3};

typedef struct loader {
    hsc_tokenizer *t;
    const char *path;
    hsc__sentencepiece spm;
    json_t *settings; /* tokenizer_config.json, or NULL */
    char *settings_path;
    hsc__folder_kind kind;
    bool legacy, prefix; /* every part between added tokens begins with a blank, not only the first; any does */
    int64_t n_extra;     /* T5's <extra_id_..> */
} loader;

/* ------------------------------------------------------------------------------------------------ the class ---- */

typedef struct class_name {
    const char *name;
    hsc__folder_kind kind;
} class_name;

static const class_name classes[] = {{"LlamaTokenizer", HSC__FOLDER_LLAMA},
                                     {"GemmaTokenizer", HSC__FOLDER_GEMMA},
                                     {"T5Tokenizer", HSC__FOLDER_T5},
                                     {"XLMRobertaTokenizer", HSC__FOLDER_XLMR},
                                     {"TokenizersBackend", HSC__FOLDER_SENTENCEPIECE},
                                     {"PreTrainedTokenizer", HSC__FOLDER_SENTENCEPIECE}};

/* What a model_type means without a class. Of Mistral and Phi-3 transformers does not believe the class either. */
static const class_name types[] = {{"t5", HSC__FOLDER_T5},
                                   {"mt5", HSC__FOLDER_T5},
                                   {"xlm-roberta", HSC__FOLDER_XLMR},
                                   {"gemma", HSC__FOLDER_GEMMA},
                                   {"gemma2", HSC__FOLDER_GEMMA},
                                   {"gemma3", HSC__FOLDER_GEMMA},
                                   {"gemma3_text", HSC__FOLDER_GEMMA}};
static const char *const by_spec[] = {"mistral", "phi3"};

/* Types whose tokenizers are made of a SentencePiece model in ways that are not known here. */
static const char *const others[] = {"albert",     "barthez",  "big_bird", "camembert", "code_llama", "cpm",
                                     "deberta-v2", "fnet",     "mbart",    "mbart50",   "nllb",       "pegasus",
                                     "plbart",     "reformer", "rembert",  "udop",      "xglm",       "xlnet"};

static hsc_status find_class(loader *l, const char *class, const char *type, hsc_error *err)
{
    char name[64] = "";
    size_t n = class ? strlen(class) : 0;
    if (n > 4 && strcmp(class + n - 4, "Fast") == 0) n -= 4; /* the class of the same tokenizer */
    HSC_FAIL_IF(n >= sizeof name, HSC_EUNSUPPORTED, "%s: tokenizer_class \"%s\" is not supported", l->path, class);
    if (n) memcpy(name, class, n);
    l->kind = HSC__FOLDER_SENTENCEPIECE;
    for (size_t i = 0; type && i < sizeof by_spec / sizeof *by_spec; i++)
        if (strcmp(type, by_spec[i]) == 0) return HSC_OK;
    for (size_t i = 0; n && i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(name, classes[i].name) != 0) continue;
        l->kind = classes[i].kind;
        return HSC_OK;
    }
    HSC_FAIL_IF(n, HSC_EUNSUPPORTED, "%s: tokenizer_class \"%s\" without a tokenizer.json is not supported", l->path,
                class);
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0) l->kind = types[i].kind;
    for (size_t i = 0; type && i < sizeof others / sizeof *others; i++)
        HSC_FAIL_IF(strcmp(type, others[i]) == 0, HSC_EUNSUPPORTED,
                    "%s: the tokenizer of a \"%s\" model without a tokenizer.json is not supported", l->path, type);
    return HSC_OK;
}

static hsc_status read_type(const json_t *config, const char *dir, const char **out, hsc_error *err)
{
    hsc_status status = hsc__json_string(config, "model_type", NULL, out, "config.json", err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", dir ? dir : ".");
}

static hsc_status read_settings(loader *l, const char *dir, hsc_error *err)
{
    const char *class = NULL, *type = NULL;
    json_t *config = NULL;
    if (dir) HSC_TRY(hsc__load_settings(&l->settings, dir, "tokenizer_config.json", err));
    if (dir) HSC_TRY(hsc__load_settings(&config, dir, "config.json", err));
    l->settings_path = hsc__path_join(dir ? dir : ".", "tokenizer_config.json");
    hsc_status status = l->settings_path ? HSC_OK : hsc__fail_memory(err, 1, l->path);
    if (status == HSC_OK)
        status = hsc__json_string(l->settings, "tokenizer_class", NULL, &class, l->settings_path, err);
    if (status == HSC_OK) status = read_type(config, dir, &type, err);
    if (status == HSC_OK) status = find_class(l, class, type, err);
    json_decref(config);
    if (status != HSC_OK) return status;
    const char *path = l->settings_path;
    bool by_class = l->kind != HSC__FOLDER_SENTENCEPIECE;
    HSC_TRY(hsc__json_bool(l->settings, "legacy", !by_class, &l->legacy, path, err));
    HSC_TRY(hsc__json_bool(l->settings, "add_prefix_space", true, &l->prefix, path, err));
    if (!by_class) l->prefix = l->spm.adds_prefix;
    return hsc__json_int(l->settings, "extra_ids", 100, 0, 100000, &l->n_extra, path, err);
}

static hsc_status check_kind(const loader *l, hsc_error *err)
{
    bool bpe = l->kind == HSC__FOLDER_LLAMA || l->kind == HSC__FOLDER_GEMMA;
    bool unigram = l->kind == HSC__FOLDER_T5 || l->kind == HSC__FOLDER_XLMR;
    const char *is = l->spm.model_type == HSC__SPM_BPE ? "BPE" : "UNIGRAM";
    HSC_FAIL_IF((bpe && l->spm.model_type != HSC__SPM_BPE) || (unigram && l->spm.model_type != HSC__SPM_UNIGRAM),
                HSC_EUNSUPPORTED, "%s: trainer_spec: \"model_type\" is %s, the model's tokenizer needs %s", l->path, is,
                bpe ? "BPE" : "UNIGRAM");
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------- the vocabulary ---- */

static hsc_status set_token(loader *l, hsc_token id, hsc__bytes text, float score, hsc_error *err)
{
    hsc_token existing;
    HSC_TRY(hsc__vocab_set(&l->t->vocab, id, text, HSC__TOKEN_NORMAL, &existing, err));
    HSC_FAIL_IF(existing >= 0, HSC_EFORMAT, "%s: pieces: \"%.*s\" is the text of the tokens %d and %d", l->path,
                (int)(text.n > 99 ? 99 : text.n), text.data, (int)existing, (int)id);
    if (l->t->kind != HSC__UNIGRAM) return HSC_OK;
    return hsc__unigram_set_score(&l->t->unigram, id, (double)score, err);
}

/* A token that tokenizer_config.json names, or the usual one. */
static hsc__bytes named(const loader *l, const char *name, const char *usual)
{
    const json_t *value = json_object_get(l->settings, name);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (!json_is_string(value)) return (hsc__bytes){usual, strlen(usual)};
    return hsc__keep(l->t, json_string_value(value), json_string_length(value));
}

/* XLM-R kept the ids of fairseq, where its model was trained: four tokens of its own in front of the pieces, in place
 * of the file's first three, and <mask> at the end. */
static hsc_status set_xlmr_tokens(loader *l, hsc_error *err)
{
    const hsc__sentencepiece *spm = &l->spm;
    const hsc__bytes first[4] = {named(l, "bos_token", "<s>"), named(l, "pad_token", "<pad>"),
                                 named(l, "eos_token", "</s>"), named(l, "unk_token", "<unk>")};
    hsc__bytes last = named(l, "mask_token", "<mask>");
    HSC_FAIL_IF(spm->n < 3, HSC_EFORMAT, "%s: has %zu pieces, at least 3 are expected", l->path, spm->n);
    for (int i = 0; i < 4; i++) {
        if (!first[i].data || !last.data) return hsc__fail_memory(err, 1, l->path);
        HSC_TRY(set_token(l, i, first[i], 0, err));
    }
    for (size_t i = 3; i < spm->n; i++)
        HSC_TRY(set_token(l, (hsc_token)i + 1, spm->piece[i].text, spm->piece[i].score, err));
    l->t->unigram.unk = 3;
    return set_token(l, (hsc_token)spm->n + 1, last, 0, err);
}

/* T5's sentinels, the last number first. */
static hsc_status add_sentinels(loader *l, hsc_error *err)
{
    for (int64_t k = l->n_extra; k-- > 0;) {
        char text[32];
        int n = snprintf(text, sizeof text, "<extra_id_%d>", (int)k);
        hsc__added_token token = {.content = hsc__keep(l->t, text, (size_t)n), .special = true};
        if (!token.content.data) return hsc__fail_memory(err, (size_t)n, l->path);
        token.id = (hsc_token)l->t->vocab.n;
        HSC_TRY(set_token(l, token.id, token.content, 0, err));
        HSC_TRY(hsc__tokenizer_add_token(l->t, token, l->path, err));
    }
    return HSC_OK;
}

/* The name that added_tokens_decoder gives to a piece of BPE that is a placeholder, unless another piece has it. */
static hsc__bytes renamed(const loader *l, size_t i)
{
    char key[16];
    hsc__bytes own = l->spm.piece[i].text;
    const json_t *decoder = json_object_get(l->settings, "added_tokens_decoder");
    if (!decoder || l->kind != HSC__FOLDER_SENTENCEPIECE || l->t->kind != HSC__BPE) return own;
    snprintf(key, sizeof key, "%zu", i);
    const json_t *content = json_object_get(json_object_get(decoder, key), "content");
    size_t n = json_string_length(content);
    bool same = n == own.n && memcmp(json_string_value(content), own.data, n) == 0;
    return !n || same ? own : hsc__keep(l->t, json_string_value(content), n);
}

static hsc_status set_tokens(loader *l, hsc_error *err)
{
    if (l->kind == HSC__FOLDER_XLMR) return set_xlmr_tokens(l, err);
    for (size_t i = 0; i < l->spm.n; i++) {
        hsc__bytes text = renamed(l, i);
        if (!text.data) return hsc__fail_memory(err, 1, l->path);
        HSC_TRY(set_token(l, (hsc_token)i, text, l->spm.piece[i].score, err));
    }
    l->t->unigram.unk = l->t->bpe.unk = (hsc_token)l->spm.unk_id;
    return HSC_OK;
}

/* Control pieces are special tokens, and what users defined is cut out whole: by the pre-tokenizer where the class
 * follows the file, as an added token elsewhere. */
static hsc_status add_pieces(loader *l, hsc_error *err)
{
    bool splits = l->kind == HSC__FOLDER_SENTENCEPIECE;
    for (size_t i = 0; i < l->spm.n; i++) {
        const hsc__piece *piece = &l->spm.piece[i];
        bool control = piece->kind == HSC__PIECE_CONTROL;
        if (!control && (splits || piece->kind != HSC__PIECE_USER_DEFINED)) continue;
        hsc_token id = hsc__vocab_find(&l->t->vocab, piece->text.data, piece->text.n);
        if (id < 0) continue; /* renamed */
        hsc__added_token token = {.content = piece->text, .id = id, .special = control};
        HSC_TRY(hsc__tokenizer_add_token(l->t, token, l->path, err));
    }
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------- the merges ---- */

typedef struct ranked {
    float score;
    hsc_token id;
} ranked;

static int by_score(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Every way to cut a token into two others is a merge. `normal_only`: of and into normal pieces. */
static hsc_status add_cuts(loader *l, hsc_token id, bool normal_only, uint32_t *rank, hsc_error *err)
{
    const hsc__vocab *vocab = &l->t->vocab;
    hsc__bytes text = vocab->text[id];
    HSC_FAIL_IF(text.n > LONGEST_PIECE, HSC_EUNSUPPORTED, "%s: pieces[%d] has %zu bytes, at most %d are supported",
                l->path, (int)id, text.n, (int)LONGEST_PIECE);
    for (size_t at = 1; at < text.n; at++) {
        if (((unsigned char)text.data[at] & 0xC0) == 0x80) continue; /* inside a character */
        hsc_token left = hsc__vocab_find(vocab, text.data, at);
        hsc_token right = left < 0 ? -1 : hsc__vocab_find(vocab, text.data + at, text.n - at);
        if (right < 0) continue;
        const hsc__piece *piece = l->spm.piece;
        if (normal_only && (piece[left].kind != HSC__PIECE_NORMAL || piece[right].kind != HSC__PIECE_NORMAL)) continue;
        HSC_TRY(hsc__bpe_add_ids(&l->t->bpe, (*rank)++, left, right, id, err));
    }
    return HSC_OK;
}

/* Llama's and Gemma's classes rank merges by the ids of what they make, others as the file does, by its score. */
static hsc_status add_merges(loader *l, hsc_error *err)
{
    uint32_t rank = 0;
    size_t n = l->spm.n;
    bool by_file = l->kind == HSC__FOLDER_SENTENCEPIECE;
    for (size_t i = 0; !by_file && i < n; i++) HSC_TRY(add_cuts(l, (hsc_token)i, false, &rank, err));
    if (!by_file) return HSC_OK;
    ranked *order = hsc__malloc(n * sizeof *order);
    if (!order) return hsc__fail_memory(err, n * sizeof *order, "the merges");
    for (size_t i = 0; i < n; i++) order[i] = (ranked){l->spm.piece[i].score, (hsc_token)i};
    qsort(order, n, sizeof *order, by_score);
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < n && status == HSC_OK; i++)
        if (l->spm.piece[order[i].id].kind == HSC__PIECE_NORMAL) status = add_cuts(l, order[i].id, true, &rank, err);
    hsc__free(order);
    return status;
}

static hsc_status load_model(loader *l, hsc_error *err)
{
    hsc_tokenizer *t = l->t;
    bool by_class = l->kind == HSC__FOLDER_LLAMA || l->kind == HSC__FOLDER_GEMMA;
    if (t->kind == HSC__UNIGRAM) {
        t->unigram.byte_fallback = l->kind == HSC__FOLDER_SENTENCEPIECE && l->spm.byte_fallback;
        hsc__find_byte_ids(t, t->unigram.byte_id);
        return hsc__unigram_finish(&t->unigram, &t->vocab, NULL, err);
    }
    t->bpe.fuse_unk = true;
    t->bpe.byte_fallback = by_class || l->spm.byte_fallback;
    hsc__find_byte_ids(t, t->bpe.byte_id);
    return add_merges(l, err);
}

/* ----------------------------------------------------------------------------- what happens to text ---- */

typedef hsc_status part_loader(hsc_tokenizer *t, const json_t *json, const char *path, hsc_error *err);

/* A component, written as in a tokenizer.json. */
static hsc_status load_part(loader *l, part_loader *load, const char *text, hsc_error *err)
{
    json_t *json;
    HSC_TRY(hsc__json_parse(&json, text, strlen(text), l->path, err));
    hsc_status status = load(l->t, json, l->path, err);
    json_decref(json);
    return status;
}

static hsc_status load_charsmap(loader *l, hsc_error *err)
{
    if (l->spm.charsmap.n == 0) return HSC_OK;
    hsc_status status = hsc__charsmap_open(&l->t->charsmap, l->spm.charsmap, err);
    if (status != HSC_OK) return hsc__fail_prefix(err, status, "%s: normalizer_spec", l->path);
    return hsc__normalizer_add(&l->t->normalizer,
                               (hsc__normalize_op){.kind = HSC__CHARSMAP, .charsmap = &l->t->charsmap}, err);
}

static hsc_status load_metaspace(loader *l, const char *scheme, bool splits, hsc_error *err)
{
    char text[160];
    snprintf(text, sizeof text,
             "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"%s\",\"split\":%s}", scheme,
             splits ? "true" : "false");
    return load_part(l, hsc__load_pre_tokenizer, text, err);
}

/* Llama's and the file's: marks become blanks, byte pieces bytes, and the blank that was put in front goes. */
static hsc_status load_decoder(loader *l, bool bytes, hsc_error *err)
{
    if (bytes) HSC_TRY(hsc__decode_byte_pieces(l->t, err));
    hsc__normalizer unescape = {.op = {{.kind = HSC__REPLACE, .text = mark, .with = blank}}, .n_ops = 1};
    if (l->prefix && l->kind != HSC__FOLDER_GEMMA) l->t->strip = (hsc__strip){' ', 1};
    return hsc__decode_pieces(l->t, &unescape, err);
}

static hsc_status load_words(loader *l, hsc_error *err)
{
    bool prefix = l->kind == HSC__FOLDER_T5 || l->prefix;
    const char *scheme = prefix ? "always" : "never";
    HSC_TRY(load_charsmap(l, err));
    HSC_TRY(load_part(l, hsc__load_pre_tokenizer, "{\"type\":\"WhitespaceSplit\"}", err));
    HSC_TRY(load_metaspace(l, scheme, true, err));
    return load_part(l, hsc__load_decoder,
                     prefix ? "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}"
                            : "{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\"}",
                     err);
}

/* The longest first; of equally long ones the file's first. */
static int by_length(const void *left, const void *right)
{
    const hsc__bytes *a = *(const hsc__bytes *const *)left, *b = *(const hsc__bytes *const *)right;
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    return (a > b) - (a < b);
}

static hsc_status add_alternatives(loader *l, const hsc__bytes *const *texts, size_t n, hsc_error *err)
{
    hsc__string pattern = {0};
    for (size_t i = 0; i < n; i++) {
        if (i) hsc__string_text(&pattern, "|");
        hsc__quote_pattern(&pattern, *texts[i]);
    }
    hsc_status status = pattern.failed ? hsc__fail_memory(err, pattern.n, "a pattern")
                                       : hsc__splitter_add_pattern(&l->t->stage[l->t->n_stages - 1].splitter,
                                                                   pattern.data, pattern.n, HSC__ISOLATED, false, err);
    hsc__string_free(&pattern);
    return status;
}

/* What users defined stays whole, whatever stands beside it: the longest piece first. */
static hsc_status add_user_defined(loader *l, hsc_error *err)
{
    const hsc__bytes **texts = hsc__malloc(l->spm.n * sizeof *texts);
    size_t n = 0;
    if (!texts) return hsc__fail_memory(err, l->spm.n * sizeof *texts, "the pieces that users defined");
    for (size_t i = 0; i < l->spm.n; i++)
        if (l->spm.piece[i].kind == HSC__PIECE_USER_DEFINED) texts[n++] = &l->t->vocab.text[i];
    qsort(texts, n, sizeof *texts, by_length);
    hsc_status status = n ? add_alternatives(l, texts, n, err) : HSC_OK;
    hsc__free(texts);
    if (n) l->t->bpe.ignore_merges = l->t->kind == HSC__BPE;
    return status;
}

static hsc_status load_by_file(loader *l, hsc_error *err)
{
    const hsc__normalize_op escape = {.kind = HSC__REPLACE, .text = blank, .with = mark};
    HSC_TRY(load_charsmap(l, err));
    if (l->spm.trims_blanks)
        HSC_TRY(hsc__normalizer_add(&l->t->normalizer, (hsc__normalize_op){.kind = HSC__TRIM}, err));
    HSC_TRY(hsc__normalizer_add(&l->t->normalizer, escape, err));
    if (l->prefix && l->legacy) { /* Metaspace puts no mark before another one, SentencePiece does */
        static const char doubled[] =
            "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\A\\u2581\"},\"content\":\"\\u2581\\u2581\"}";
        HSC_TRY(load_part(l, hsc__load_normalizer, doubled, err));
    }
    if (l->prefix) HSC_TRY(load_metaspace(l, l->legacy ? "always" : "first", false, err));
    HSC_TRY(add_user_defined(l, err));
    return load_decoder(l, l->spm.byte_fallback, err);
}

static hsc_status load_text_rules(loader *l, hsc_error *err)
{
    static const char gemma[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}";
    switch (l->kind) {
    case HSC__FOLDER_T5:
    case HSC__FOLDER_XLMR: return load_words(l, err);
    case HSC__FOLDER_GEMMA: HSC_TRY(load_part(l, hsc__load_normalizer, gemma, err)); return load_decoder(l, true, err);
    case HSC__FOLDER_LLAMA:
        HSC_TRY(load_metaspace(l, !l->prefix ? "never" : l->legacy ? "always" : "first", false, err));
        return load_decoder(l, true, err);
    default: return load_by_file(l, err);
    }
}

/* ------------------------------------------------------------------------------------------------------ all ---- */

/* The file's own names of its tokens, for what tokenizer_config.json leaves open. */
static hsc_status load_special(loader *l, const char *dir, hsc_error *err)
{
    const hsc__sentencepiece *spm = &l->spm;
    const char *names[HSC__NAMED_TOKENS] = {NULL};
    bool by_file = l->kind == HSC__FOLDER_SENTENCEPIECE;
    if (spm->bos_id >= 0) names[0] = hsc__keep(l->t, spm->bos_text.data, spm->bos_text.n).data;
    if (spm->eos_id >= 0) names[1] = hsc__keep(l->t, spm->eos_text.data, spm->eos_text.n).data;
    names[2] = hsc__keep(l->t, spm->unk_text.data, spm->unk_text.n).data;
    bool failed = (spm->bos_id >= 0 && !names[0]) || (spm->eos_id >= 0 && !names[1]) || !names[2];
    if (failed) return hsc__fail_memory(err, 1, l->path);
    HSC_TRY(hsc__load_folder_config(l->t, dir, l->kind, by_file ? names : NULL, err));
    bool prefixed = by_file && l->prefix && json_object_get(l->settings, "added_tokens_decoder");
    for (size_t i = 0; prefixed && i < l->t->added.n; i++) l->t->added.token[i].normalized = false;
    return HSC_OK;
}

static hsc_status load(loader *l, size_t n, const char *dir, hsc_error *err)
{
    HSC_TRY(hsc__sentencepiece_read(&l->spm, l->t->files[0], n, l->path, err));
    HSC_TRY(read_settings(l, dir, err));
    HSC_TRY(check_kind(l, err));
    l->t->kind = l->spm.model_type == HSC__SPM_BPE ? HSC__BPE : HSC__UNIGRAM;
    HSC_TRY(hsc__vocab_resize(&l->t->vocab, l->spm.n, err));
    HSC_TRY(set_tokens(l, err));
    HSC_TRY(add_pieces(l, err));
    if (l->kind == HSC__FOLDER_T5) HSC_TRY(add_sentinels(l, err));
    HSC_TRY(load_model(l, err));
    HSC_TRY(load_text_rules(l, err));
    HSC_TRY(load_special(l, dir, err));
    hsc_status status = hsc__tokenizer_finish(l->t, err);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "%s", l->path);
}

hsc_status hsc__tokenizer_parse_sentencepiece(hsc_tokenizer **out, char *bytes, size_t n, const char *path,
                                              const char *dir, hsc_error *err)
{
    loader l = {.path = path};
    hsc_status status = hsc__tokenizer_new(out, err);
    if (status != HSC_OK) {
        hsc__free(bytes);
        return status;
    }
    l.t = *out;
    l.t->files[0] = bytes;
    status = load(&l, n, dir, err);
    hsc__sentencepiece_free(&l.spm);
    json_decref(l.settings);
    hsc__free(l.settings_path);
    if (status != HSC_OK) {
        hsc_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

hsc_status hsc__tokenizer_from_sentencepiece(hsc_tokenizer **out, const char *path, const char *dir, hsc_error *err)
{
    char *bytes;
    size_t n;
    *out = NULL;
    HSC_TRY(hsc__read_file(&bytes, &n, path, HSC__TOKENIZER_FILE_LIMIT, err));
    return hsc__tokenizer_parse_sentencepiece(out, bytes, n, path, dir, err);
}
