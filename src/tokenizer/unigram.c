/* The best path through the tokens that stand at each byte of a word. */
#include "tokenizer/unigram.h"

#include "base/text.h"

#define NOWHERE UINT32_MAX

/* The best way from the word's start to one of its bytes. */
struct hsc__best_path {
    double score;
    uint32_t start; /* of the last token; NOWHERE: no way leads here */
    uint32_t next;  /* the end of the token that starts here, once the best path is known */
    hsc_token id;   /* the last token */
};

hsc_status hsc__unigram_set_score(hsc__unigram *model, hsc_token id, double score, hsc_error *err)
{
    HSC_TRY(hsc__grow(&model->scores, &model->capacity, (size_t)id + 1, sizeof *model->scores, err));
    while (model->n <= (size_t)id) model->scores[model->n++] = 0;
    model->scores[id] = score;
    return HSC_OK;
}

hsc_status hsc__unigram_finish(hsc__unigram *model, const hsc__vocab *vocab, bool (*usable)(uint8_t kind),
                               hsc_error *err)
{
    double lowest = 0;
    bool any = false;
    for (size_t i = 0; i < model->n && i < vocab->n; i++) {
        bool counts = vocab->kind[i] != HSC__TOKEN_NONE && (!usable || usable(vocab->kind[i]));
        hsc__bytes text = vocab->text[i];
        if (!counts) continue;
        if (!any || model->scores[i] < lowest) lowest = model->scores[i];
        any = true;
        HSC_TRY(hsc__trie_add(&model->trie, text.data, text.n, (hsc_token)i, err));
    }
    model->unk_score = lowest - HSC__UNK_PENALTY;
    return HSC_OK;
}

void hsc__unigram_free(hsc__unigram *model)
{
    hsc__trie_free(&model->trie);
    hsc__free(model->scores);
    *model = (hsc__unigram){0};
}

static double sum(const hsc__unigram *model, double a, double b)
{
    return model->single ? (double)((float)a + (float)b) : a + b;
}

static void offer(struct hsc__best_path *path, double score, uint32_t start, hsc_token id)
{
    if (path->start != NOWHERE && score <= path->score) return;
    path->score = score;
    path->start = start;
    path->id = id;
}

/* Extends the best path to `start` by every token that stands there, or by an unknown character. */
static size_t extend(const hsc__unigram *model, struct hsc__best_path *path, const char *word, size_t n, size_t start)
{
    int32_t c;
    size_t length = (size_t)hsc__utf8_read(word + start, n - start, &c);
    double here = path[start].score;
    bool has_single = false;
    uint32_t node = 0;
    for (size_t end = start; end < n;) {
        node = hsc__trie_step(&model->trie, node, word[end++]);
        if (!node) break;
        hsc_token id = model->trie.token[node];
        if (id < 0) continue;
        offer(&path[end], sum(model, model->scores[id], here), (uint32_t)start, id);
        has_single |= end - start == length;
    }
    if (!has_single) offer(&path[start + length], sum(model, model->unk_score, here), (uint32_t)start, model->unk);
    return start + length;
}

/* The token of exactly this text, or -1. */
static hsc_token find(const hsc__trie *trie, const char *text, size_t n)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = hsc__trie_step(trie, node, text[i]);
        if (!node) return -1;
    }
    return n ? trie->token[node] : -1;
}

static bool has_bytes(const hsc__unigram *model, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (model->byte_id[(unsigned char)text[i]] < 0) return false;
    return model->byte_fallback;
}

/* Unknown characters word[start..end). */
static hsc_status add_unknown(const hsc__unigram *model, hsc__word *out, const char *word, size_t start, size_t end,
                              hsc_error *err)
{
    hsc_token id = find(&model->trie, word + start, end - start); /* the unknown token's own text may stand there */
    if (id < 0 && has_bytes(model, word + start, end - start)) {
        for (size_t i = start; i < end; i++) hsc__word_add(out, model->byte_id[(unsigned char)word[i]], i + 1);
        return HSC_OK;
    }
    if (id < 0 && model->outside) {
        hsc_token token = hsc__vocab_find(model->outside, word + start, end - start);
        hsc__word_add(out, token >= 0 ? token : model->token_of[model->unk], end);
        return HSC_OK;
    }
    if (id < 0) id = model->unk;
    if (id < 0) return hsc__fail_unspelled(word[start], err);
    hsc__word_add(out, model->token_of ? model->token_of[id] : id, end);
    return HSC_OK;
}

hsc_status hsc__unigram_encode(const hsc__unigram *model, hsc__word *out, const char *word, size_t n, hsc_error *err)
{
    HSC_TRY(hsc__word_begin(out, n, err));
    HSC_TRY(hsc__grow(&out->paths, &out->paths_capacity, n + 1, sizeof *out->paths, err));
    struct hsc__best_path *path = out->paths;
    for (size_t i = 0; i <= n; i++) path[i] = (struct hsc__best_path){.start = NOWHERE};
    for (size_t at = 0; at < n;) at = extend(model, path, word, n, at);
    for (size_t end = n; end; end = path[end].start) path[path[end].start].next = (uint32_t)end;
    for (size_t at = 0, end; at < n; at = end) {
        end = path[at].next;
        if (path[end].id != model->unk) {
            hsc_token id = path[end].id;
            hsc__word_add(out, model->token_of ? model->token_of[id] : id, end);
            continue;
        }
        while (end < n && path[path[end].next].id == model->unk) end = path[end].next;
        HSC_TRY(add_unknown(model, out, word, at, end, err));
    }
    return HSC_OK;
}
