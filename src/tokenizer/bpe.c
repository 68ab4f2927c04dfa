/* Byte-pair merging. Short words scan for the best pair; long ones keep the pairs in a heap over a linked list. Both
 * merge in the same order. */
#include "tokenizer/bpe.h"

#include "base/text.h"
#include "tokenizer/byte_level.h"

#include <string.h>

enum { SHORT = 32 }; /* symbols up to which scanning beats the heap */
#define NO_RANK UINT32_MAX

static size_t merge_hash(hsc_token left, hsc_token right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(key * 0x9E3779B97F4A7C15u >> 32);
}

static hsc__merge *merge_slot(const hsc__bpe *bpe, hsc_token left, hsc_token right, size_t hash)
{
    size_t mask = bpe->n_slots - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        hsc__merge *slot = &bpe->slot[i];
        if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

static hsc__merge *slot_of(const hsc__bpe *bpe, hsc_token left, hsc_token right)
{
    return merge_slot(bpe, left, right, merge_hash(left, right));
}

hsc_status hsc__bpe_reserve(hsc__bpe *bpe, size_t n_merges, hsc_error *err)
{
    size_t n_slots = bpe->n_slots ? bpe->n_slots : 64;
    HSC_FAIL_IF(n_merges > UINT32_MAX / 4, HSC_EFORMAT, "%zu merges, at most %u are accepted", n_merges,
                UINT32_MAX / 4);
    while (n_slots < n_merges * 2) n_slots *= 2;
    if (n_slots == bpe->n_slots) return HSC_OK;
    hsc__bpe old = *bpe;
    bpe->slot = hsc__malloc(n_slots * sizeof *bpe->slot);
    if (!bpe->slot) {
        bpe->slot = old.slot;
        return hsc__fail_memory(err, n_slots * sizeof *bpe->slot, "the merges");
    }
    bpe->n_slots = n_slots;
    for (size_t i = 0; i < n_slots; i++) bpe->slot[i].left = -1;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slot[i].left >= 0) *slot_of(bpe, old.slot[i].left, old.slot[i].right) = old.slot[i];
    hsc__free(old.slot);
    return HSC_OK;
}

/* Whether the token is left and right joined. Vocabularies list merged tokens in the order of their merges, so the next
 * id is worth a look. */
static bool is_joined(const hsc__vocab *vocab, hsc_token id, hsc__bytes left, hsc__bytes right)
{
    if (id < 0 || (size_t)id >= vocab->n || vocab->has_doubles) return false;
    hsc__bytes text = vocab->text[id];
    return vocab->kind[id] != HSC__TOKEN_NONE && text.n == left.n + right.n &&
           memcmp(text.data, left.data, left.n) == 0 && memcmp(text.data + left.n, right.data, right.n) == 0;
}

/* The token whose text is left and right joined, or -1. */
static hsc_status find_joined(const hsc__vocab *vocab, hsc__bytes left, hsc__bytes right, hsc_token *out,
                              hsc_error *err)
{
    char small[256], *joined = small;
    size_t n = left.n + right.n;
    if (n > sizeof small) joined = hsc__malloc(n);
    if (!joined) return hsc__fail_memory(err, n, "a merge");
    memcpy(joined, left.data, left.n);
    memcpy(joined + left.n, right.data, right.n);
    *out = hsc__vocab_find(vocab, joined, n);
    if (joined != small) hsc__free(joined);
    return HSC_OK;
}

hsc_status hsc__bpe_add_ids(hsc__bpe *bpe, uint32_t rank, hsc_token left, hsc_token right, hsc_token merged,
                            hsc_error *err)
{
    HSC_TRY(hsc__bpe_reserve(bpe, bpe->n_merges + 1, err));
    hsc__merge *slot = slot_of(bpe, left, right);
    if (slot->left < 0) bpe->n_merges++;
    *slot = (hsc__merge){left, right, rank, merged};
    return HSC_OK;
}

hsc_status hsc__bpe_add(hsc__bpe *bpe, uint32_t rank, hsc__bytes left, hsc__bytes right, const char *where,
                        hsc_error *err)
{
    hsc_token l = hsc__vocab_find(bpe->vocab, left.data, left.n);
    hsc_token r = hsc__vocab_find(bpe->vocab, right.data, right.n);
    hsc_token merged = bpe->last + 1;
    size_t skipped = right.n < bpe->prefix.n ? right.n : bpe->prefix.n;
    hsc__bytes rest = {right.data + skipped, right.n - skipped};
    if (!is_joined(bpe->vocab, merged, left, rest)) HSC_TRY(find_joined(bpe->vocab, left, rest, &merged, err));
    bpe->last = merged;
    if (l < 0 || r < 0 || merged < 0) {
        const char *what = l < 0 ? "its left part" : r < 0 ? "its right part" : "the result";
        return hsc__fail(err, HSC_EFORMAT, 0, "%s[%u]: merge \"%.*s %.*s\": %s is not in the vocabulary", where, rank,
                         (int)(left.n > 99 ? 99 : left.n), left.data, (int)(right.n > 99 ? 99 : right.n), right.data,
                         what);
    }
    return hsc__bpe_add_ids(bpe, rank, l, r, merged, err);
}

static bool passes_filter(const hsc__bpe *bpe, size_t hash)
{
    return bpe->filter[hash >> 6 & (bpe->n_filter - 1)] >> (hash & 63) & 1;
}

/* Eight bits or more a merge, of which one in eight or fewer is set. */
static hsc_status make_filter(hsc__bpe *bpe, hsc_error *err)
{
    bpe->n_filter = 1;
    while (bpe->n_filter * 64 < bpe->n_merges * 8) bpe->n_filter *= 2;
    bpe->filter = hsc__calloc(bpe->n_filter, sizeof *bpe->filter);
    if (!bpe->filter) return hsc__fail_memory(err, bpe->n_filter * sizeof *bpe->filter, "the merges");
    for (size_t i = 0; i < bpe->n_slots; i++) {
        if (bpe->slot[i].left < 0) continue;
        size_t hash = merge_hash(bpe->slot[i].left, bpe->slot[i].right);
        bpe->filter[hash >> 6 & (bpe->n_filter - 1)] |= (uint64_t)1 << (hash & 63);
    }
    return HSC_OK;
}

/* Untouched pages of the table stay zero pages: pairs of bytes that merge lie in few of them. */
static hsc_status make_byte_pairs(hsc__bpe *bpe, hsc_error *err)
{
    for (int b = 0; b < 256; b++)
        if (bpe->byte_id[b] < 0) return HSC_OK; /* that byte's symbol is the unknown token, which may merge too */
    size_t n_bytes = bpe->vocab->n * sizeof(int16_t);
    int16_t *byte_of = hsc__malloc(n_bytes); /* the byte that a token is, or -1 */
    bpe->byte_pairs = hsc__calloc(65536, sizeof *bpe->byte_pairs);
    if (!byte_of || !bpe->byte_pairs) {
        hsc__free(byte_of);
        return hsc__fail_memory(err, n_bytes + 65536 * sizeof *bpe->byte_pairs, "the pairs of bytes");
    }
    memset(byte_of, 0xFF, n_bytes);
    for (int b = 0; b < 256; b++) byte_of[bpe->byte_id[b]] = (int16_t)b;
    for (size_t i = 0; i < bpe->n_slots; i++) {
        const hsc__merge *slot = &bpe->slot[i];
        if (slot->left < 0 || byte_of[slot->left] < 0 || byte_of[slot->right] < 0) continue;
        bpe->byte_pairs[byte_of[slot->left] << 8 | byte_of[slot->right]] =
            (struct hsc__byte_pair){slot->rank + 1, slot->merged};
    }
    hsc__free(byte_of);
    return HSC_OK;
}

/* A symbol with what stands around it at its place in the word. */
static hsc_token find_symbol(const hsc__bpe *bpe, const char *text, size_t n, bool first, bool last)
{
    char spelled[2 * HSC__LONGEST_AFFIX + 4];
    size_t before = first ? 0 : bpe->prefix.n, after = last ? bpe->suffix.n : 0;
    if (before + after == 0) return hsc__vocab_find(bpe->vocab, text, n);
    if (before) memcpy(spelled, bpe->prefix.data, before);
    memcpy(spelled + before, text, n);
    if (after) memcpy(spelled + before + n, bpe->suffix.data, after);
    return hsc__vocab_find(bpe->vocab, spelled, before + n + after);
}

/* The row of bpe->affixed for a place in the word. */
static size_t affix_row(bool first, bool last)
{
    return (size_t)first * 2 + last;
}

static hsc_status make_affixed(hsc__bpe *bpe, hsc_error *err)
{
    bpe->affixed = hsc__malloc(4 * 256 * sizeof *bpe->affixed);
    if (!bpe->affixed) return hsc__fail_memory(err, 4 * 256 * sizeof *bpe->affixed, "the bytes' tokens");
    for (int place = 0; place < 4; place++) {
        for (int b = 0; b < 256; b++) {
            char text[4];
            size_t n = (size_t)hsc__byte_spell((unsigned char)b, text);
            bool first = place & 2, last = place & 1;
            bpe->affixed[affix_row(first, last) * 256 + (size_t)b] = find_symbol(bpe, text, n, first, last);
        }
    }
    return HSC_OK;
}

hsc_status hsc__bpe_finish(hsc__bpe *bpe, hsc_error *err)
{
    bool affixed = bpe->byte_level && (bpe->prefix.n || bpe->suffix.n);
    if (affixed) HSC_TRY(make_affixed(bpe, err));
    if (bpe->n_merges == 0) return HSC_OK;
    HSC_TRY(make_filter(bpe, err));
    return bpe->byte_level && !affixed ? make_byte_pairs(bpe, err) : HSC_OK;
}

void hsc__bpe_free(hsc__bpe *bpe)
{
    hsc__free(bpe->slot);
    hsc__free(bpe->filter);
    hsc__free(bpe->byte_pairs);
    hsc__free(bpe->affixed);
    *bpe = (hsc__bpe){0};
}

struct hsc__bpe_node {
    hsc_token id, merged;
    uint32_t rank;       /* of the pair that starts here */
    uint32_t end;        /* byte of the word after the symbol */
    uint32_t prev, next; /* NO_NODE at the ends */
};
#define NO_NODE UINT32_MAX

/* A score as a rank: the higher the score, the lower the rank. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

static uint32_t find_by_text(const hsc__bpe *bpe, const char *text, size_t n, hsc_token *merged)
{
    hsc_token id = hsc__vocab_find(bpe->vocab, text, n);
    if (id < 0) return NO_RANK;
    uint8_t kind = bpe->vocab->kind[id];
    if (kind != HSC__TOKEN_NORMAL && kind != HSC__TOKEN_ADDED && kind != HSC__TOKEN_UNUSED) return NO_RANK;
    *merged = id;
    return rank_of_score(bpe->scores[id]);
}

/* The rank of joining two symbols whose bytes together are text[0..n), NO_RANK when they do not join. */
static inline uint32_t find_pair(const hsc__bpe *bpe, hsc_token left, hsc_token right, const char *text, size_t n,
                                 hsc_token *merged)
{
    if (bpe->scores) return find_by_text(bpe, text, n, merged);
    size_t hash = merge_hash(left, right);
    if (!passes_filter(bpe, hash)) return NO_RANK;
    const hsc__merge *slot = merge_slot(bpe, left, right, hash);
    if (slot->left < 0) return NO_RANK;
    *merged = slot->merged;
    return slot->rank;
}

/* The rank of joining two bytes of the word that are still symbols of their own. */
static inline uint32_t find_byte_pair(const hsc__bpe *bpe, const char *bytes, hsc_token *merged)
{
    const struct hsc__byte_pair *pair = &bpe->byte_pairs[(unsigned char)bytes[0] << 8 | (unsigned char)bytes[1]];
    *merged = pair->merged;
    return pair->rank_1 - 1; /* none: 0 - 1 is NO_RANK */
}

/* Symbols are the word's ids and ends; merges them in place. */
static void merge_short(const hsc__bpe *bpe, hsc__word *s, const char *word)
{
    uint32_t rank[SHORT];
    hsc_token merged[SHORT], *id = s->ids;
    uint32_t *end = s->ends;
    size_t n = s->n;
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t start = i ? end[i - 1] : 0;
        rank[i] = bpe->byte_pairs ? find_byte_pair(bpe, word + i, &merged[i])
                                  : find_pair(bpe, id[i], id[i + 1], word + start, end[i + 1] - start, &merged[i]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NO_RANK) break;
        id[best] = merged[best];
        n--;
        for (size_t i = best; i < n; i++) end[i] = end[i + 1];
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
            merged[i - 1] = merged[i];
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            uint32_t start = i ? end[i - 1] : 0;
            rank[i] = find_pair(bpe, id[i], id[i + 1], word + start, end[i + 1] - start, &merged[i]);
        }
    }
    s->n = n;
}

/* A binary heap of rank << 32 | node: the smallest is the pair to merge next. */
static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t value = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= value) break;
        heap[i] = heap[child];
    }
    heap[i] = value;
}

static void push(uint64_t *heap, size_t *n, uint64_t value)
{
    size_t i = (*n)++;
    for (; i && heap[(i - 1) / 2] > value; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = value;
}

static void set_pair(const hsc__bpe *bpe, struct hsc__bpe_node *node, uint32_t i, const char *word)
{
    struct hsc__bpe_node *left = &node[i];
    left->rank = NO_RANK;
    if (left->next == NO_NODE) return;
    uint32_t start = left->prev == NO_NODE ? 0 : node[left->prev].end;
    const struct hsc__bpe_node *right = &node[left->next];
    left->rank = find_pair(bpe, left->id, right->id, word + start, right->end - start, &left->merged);
}

/* Each merge pushes at most two pairs, so the heap never holds more than three a symbol. */
static hsc_status reserve_long(hsc__word *s, hsc_error *err)
{
    HSC_TRY(hsc__grow(&s->nodes, &s->nodes_capacity, s->n, sizeof *s->nodes, err));
    return hsc__grow(&s->heap, &s->heap_capacity, s->n * 3, sizeof *s->heap, err);
}

static hsc_status merge_long(const hsc__bpe *bpe, hsc__word *s, const char *word, hsc_error *err)
{
    HSC_TRY(reserve_long(s, err));
    struct hsc__bpe_node *node = s->nodes;
    uint32_t n = (uint32_t)s->n;
    size_t n_heap = 0;
    for (uint32_t i = 0; i < n; i++)
        node[i] = (struct hsc__bpe_node){
            .id = s->ids[i], .end = s->ends[i], .prev = i ? i - 1 : NO_NODE, .next = i + 1 < n ? i + 1 : NO_NODE};
    for (uint32_t i = 0; i < n; i++) {
        set_pair(bpe, node, i, word);
        if (node[i].rank != NO_RANK) s->heap[n_heap++] = (uint64_t)node[i].rank << 32 | i;
    }
    for (size_t i = n_heap / 2; i-- > 0;) sift_down(s->heap, n_heap, i);
    while (n_heap) {
        uint64_t top = s->heap[0];
        s->heap[0] = s->heap[--n_heap];
        if (n_heap) sift_down(s->heap, n_heap, 0);
        uint32_t i = (uint32_t)top;
        if (node[i].rank != (uint32_t)(top >> 32)) continue; /* the pair is no longer there */
        uint32_t gone = node[i].next;
        node[i].id = node[i].merged;
        node[i].end = node[gone].end;
        node[i].next = node[gone].next;
        node[gone].rank = NO_RANK;
        if (node[i].next != NO_NODE) node[node[i].next].prev = i;
        uint32_t touched[2] = {i, node[i].prev};
        for (int k = 0; k < 2; k++) {
            if (touched[k] == NO_NODE) continue;
            set_pair(bpe, node, touched[k], word);
            uint32_t rank = node[touched[k]].rank;
            if (rank != NO_RANK) push(s->heap, &n_heap, (uint64_t)rank << 32 | touched[k]);
        }
    }
    s->n = 0;
    for (uint32_t i = 0; i != NO_NODE; i = node[i].next) {
        s->ids[s->n] = node[i].id;
        s->ends[s->n++] = node[i].end;
    }
    return HSC_OK;
}

static hsc_status start_from_bytes(const hsc__bpe *bpe, hsc__word *s, const char *word, size_t n, hsc_error *err)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)word[i];
        hsc_token id = bpe->affixed ? bpe->affixed[affix_row(i == 0, i + 1 == n) * 256 + b] : bpe->byte_id[b];
        if (id < 0) id = bpe->unk;
        if (id < 0) return hsc__fail_unspelled(word[i], err);
        hsc__word_add(s, id, i + 1);
    }
    return HSC_OK;
}

static bool has_bytes(const hsc__bpe *bpe, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bpe->byte_id[(unsigned char)text[i]] < 0) return false;
    return true;
}

/* SentencePiece falls back to bytes only after merging: a character that is no token may still be part of one. So with
 * scores such a symbol starts as -1, and spell_rest replaces it. */
static hsc_status start_from_characters(const hsc__bpe *bpe, hsc__word *s, const char *word, size_t n, hsc_error *err)
{
    bool after_unk = false;
    for (size_t i = 0; i < n;) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(word + i, n - i, &c), end = i + length;
        hsc_token id = c < 0 ? -1 : find_symbol(bpe, word + i, length, i == 0, end == n);
        if (id >= 0 || bpe->scores) {
            hsc__word_add(s, id, end);
            after_unk = false;
        } else if (bpe->byte_fallback && has_bytes(bpe, word + i, length)) {
            for (size_t k = i; k < end; k++) hsc__word_add(s, bpe->byte_id[(unsigned char)word[k]], k + 1);
            after_unk = false;
        } else if (bpe->unk < 0) {
            return hsc__fail_unspelled(word[i], err);
        } else if (after_unk && bpe->fuse_unk) {
            s->ends[s->n - 1] = (uint32_t)end;
        } else {
            hsc__word_add(s, bpe->unk, end);
            after_unk = true;
        }
        i = end;
    }
    return HSC_OK;
}

/* Replaces symbols -1 by the tokens of their bytes, or by the unknown token. There is room: a token for every byte. */
static hsc_status spell_rest(const hsc__bpe *bpe, hsc__word *s, const char *word, hsc_error *err)
{
    size_t n_added = 0, n_old = s->n;
    for (size_t i = 0; i < n_old; i++) {
        size_t start = i ? s->ends[i - 1] : 0;
        if (s->ids[i] < 0 && has_bytes(bpe, word + start, s->ends[i] - start)) n_added += s->ends[i] - start - 1;
    }
    s->n = n_old + n_added;
    for (size_t i = n_old, to = s->n; i-- > 0;) {
        size_t start = i ? s->ends[i - 1] : 0, end = s->ends[i];
        if (s->ids[i] >= 0 || !has_bytes(bpe, word + start, end - start)) {
            if (s->ids[i] < 0 && bpe->unk < 0) return hsc__fail_unspelled(word[start], err);
            to--;
            s->ids[to] = s->ids[i] >= 0 ? s->ids[i] : bpe->unk;
            s->ends[to] = (uint32_t)end;
            continue;
        }
        for (size_t k = end; k-- > start;) {
            to--;
            s->ids[to] = bpe->byte_id[(unsigned char)word[k]];
            s->ends[to] = (uint32_t)(k + 1);
        }
    }
    return HSC_OK;
}

/* The token that is this whole word, or -1. */
static hsc_status find_whole(const hsc__bpe *bpe, hsc__word *s, const char *word, size_t n, hsc_token *out,
                             hsc_error *err)
{
    if (bpe->byte_level) {
        HSC_TRY(hsc__grow(&s->spelled, &s->spelled_capacity, n * 2, 1, err));
        n = hsc__byte_level_spell(word, n, s->spelled);
        word = s->spelled;
    }
    *out = hsc__vocab_find(bpe->vocab, word, n);
    return HSC_OK;
}

hsc_status hsc__bpe_encode(const hsc__bpe *bpe, hsc__word *s, const char *word, size_t n, hsc_error *err)
{
    HSC_TRY(hsc__word_begin(s, n, err));
    if (bpe->ignore_merges) {
        hsc_token whole = -1;
        HSC_TRY(find_whole(bpe, s, word, n, &whole, err));
        if (whole >= 0) {
            hsc__word_add(s, whole, n);
            return HSC_OK;
        }
    }
    HSC_TRY(bpe->byte_level ? start_from_bytes(bpe, s, word, n, err) : start_from_characters(bpe, s, word, n, err));
    if (bpe->n_merges == 0 && !bpe->scores) return HSC_OK;
    if (s->n <= SHORT) merge_short(bpe, s, word);
    else HSC_TRY(merge_long(bpe, s, word, err));
    return bpe->scores ? spell_rest(bpe, s, word, err) : HSC_OK;
}
