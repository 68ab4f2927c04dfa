/* Added tokens. The tokens sought lie in a sorted array; a match narrows its range byte by byte. */
#include "tokenizer/added.h"

#include "tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

static int compare(hsc__bytes a, hsc__bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* The place of this content among the tokens, or where it would go. */
static size_t place_of(const hsc__added *added, hsc__bytes content)
{
    size_t low = 0, high = added->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(added->token[middle].content, content) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

hsc_status hsc__added_put(hsc__added *added, const hsc__added_token *token, hsc_error *err)
{
    if (token->content.n == 0) return HSC_OK; /* matches nowhere */
    size_t at = place_of(added, token->content);
    if (at < added->n && compare(added->token[at].content, token->content) == 0) {
        added->token[at] = *token;
        return HSC_OK;
    }
    HSC_TRY(hsc__grow(&added->token, &added->capacity, added->n + 1, sizeof *added->token, err));
    memmove(added->token + at + 1, added->token + at, (added->n - at) * sizeof *added->token);
    added->token[at] = *token;
    added->n++;
    return HSC_OK;
}

const hsc__added_token *hsc__added_find(const hsc__added *added, const char *content, size_t n)
{
    hsc__bytes wanted = {content, n};
    size_t at = place_of(added, wanted);
    return at < added->n && compare(added->token[at].content, wanted) == 0 ? &added->token[at] : NULL;
}

static int by_sought(const void *a, const void *b)
{
    const hsc__added_token *const *x = a, *const *y = b;
    return compare((*x)->sought, (*y)->sought);
}

static hsc_status normalize_sought(hsc__added *added, const hsc__normalizer *normalizer, hsc_error *err)
{
    hsc__aligned text = {0}, spare = {0};
    hsc_status status = HSC_OK;
    for (size_t i = 0; i < added->n && status == HSC_OK; i++) {
        hsc__added_token *token = &added->token[i];
        token->sought = token->content;
        if (!token->normalized || normalizer->n_ops == 0) continue;
        status = hsc__aligned_set(&text, token->content.data, token->content.n, 0, err);
        if (status == HSC_OK) status = hsc__normalize(normalizer, &text, &spare, err);
        if (status != HSC_OK) break;
        char *copy = hsc__arena_strndup(&added->arena, text.data, text.n);
        if (!copy) status = hsc__fail_memory(err, text.n, "an added token");
        token->sought = (hsc__bytes){copy, text.n};
    }
    hsc__aligned_free(&text);
    hsc__aligned_free(&spare);
    return status;
}

static void fill_list(hsc__added_list *list, const hsc__added *added, bool normalized, const hsc__added_token **memory)
{
    list->token = memory;
    for (size_t i = 0; i < added->n; i++) {
        const hsc__added_token *token = &added->token[i];
        if (token->normalized != normalized || token->sought.n == 0) continue;
        list->token[list->n++] = token;
        list->n_plain += !token->special;
        list->starts[(unsigned char)token->sought.data[0]] = true;
    }
    qsort(list->token, list->n, sizeof *list->token, by_sought);
}

hsc_status hsc__added_finish(hsc__added *added, const hsc__normalizer *normalizer, hsc_error *err)
{
    HSC_TRY(normalize_sought(added, normalizer, err));
    size_t n_bytes = (added->n + 1) * sizeof(hsc__added_token *);
    const hsc__added_token **memory = hsc__arena_alloc(&added->arena, n_bytes);
    if (!memory) return hsc__fail_memory(err, n_bytes, "added tokens");
    fill_list(&added->raw, added, false, memory);
    fill_list(&added->normalized, added, true, memory + added->raw.n);
    return HSC_OK;
}

void hsc__added_free(hsc__added *added)
{
    hsc__free(added->token);
    hsc__arena_free(&added->arena);
    *added = (hsc__added){0};
}

hsc__added_search hsc__added_search_begin(const hsc__added_list *list, bool parse_special, const char *text, size_t n)
{
    return (hsc__added_search){.list = list, .parse_special = parse_special, .text = text, .n = n};
}

/* The first of token[low..high) whose byte `depth` is at least b (b may be 256). All share their first `depth` bytes;
 * a text that ends there counts as less than any byte. */
static size_t first_from(const hsc__added_search *s, size_t low, size_t high, size_t depth, int b)
{
    while (low < high) {
        size_t middle = (low + high) / 2;
        hsc__bytes text = s->list->token[middle]->sought;
        int here = depth < text.n ? (unsigned char)text.data[depth] : -1;
        if (here < b) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The longest token at text[i], or NULL. */
static const hsc__added_token *longest_at(const hsc__added_search *s, size_t i)
{
    const hsc__added_token *best = NULL;
    size_t low = 0, high = s->list->n;
    for (size_t depth = 0; low < high; depth++) {
        if (s->list->token[low]->sought.n == depth) best = s->list->token[low];
        if (i + depth >= s->n) break;
        int b = (unsigned char)s->text[i + depth];
        low = first_from(s, low, high, depth, b);
        high = first_from(s, low, high, depth, b + 1);
    }
    return best;
}

static bool word_before(const hsc__added_search *s, size_t i)
{
    for (size_t back = 1; back <= 4 && back <= i; back++) {
        int32_t c;
        if (hsc__utf8_read(s->text + i - back, back, &c) == (int)back && c >= 0) return hsc__is_word(c);
    }
    return false;
}

static bool word_after(const hsc__added_search *s, size_t i)
{
    int32_t c;
    return i < s->n && hsc__utf8_read(s->text + i, s->n - i, &c) > 0 && hsc__is_word(c);
}

static size_t strip_right(const hsc__added_search *s, size_t i)
{
    while (i < s->n) {
        int32_t c;
        size_t length = (size_t)hsc__utf8_read(s->text + i, s->n - i, &c);
        if (!hsc__is_space(c)) break;
        i += length;
    }
    return i;
}

const hsc__added_token *hsc__added_next(hsc__added_search *s, size_t *start, size_t *end)
{
    *start = *end = s->n;
    if (s->list->n == 0 || (s->list->n_plain == 0 && !s->parse_special)) return NULL;
    while (s->from < s->n) {
        size_t i = s->from;
        const hsc__added_token *token = s->list->starts[(unsigned char)s->text[i]] ? longest_at(s, i) : NULL;
        if (!token) {
            s->from++;
            continue;
        }
        size_t stop = i + token->sought.n;
        s->from = stop;
        if (token->special && !s->parse_special) continue;
        if (token->single_word && (word_before(s, i) || word_after(s, stop))) continue;
        *start = token->lstrip ? hsc__trim_right(s->text, s->done, i) : i;
        *end = token->rstrip ? strip_right(s, stop) : stop;
        if (*start < s->done) *start = s->done;
        s->done = *end;
        if (s->from < *end) s->from = *end;
        return token;
    }
    return NULL;
}
