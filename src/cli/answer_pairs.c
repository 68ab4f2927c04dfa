/* Pair files as texts with an answer: prompts in JSONL that bring right and wrong, or pairs in any form that `headscope
 * scan` reads. Of a pair each wording up to the end of its query is a prompt; its answer is the candidate that the
 * wording means, the wrong one the other. */
#include "cli/answer.h"
#include "headscope/inspect.h"

#include <stdlib.h>
#include <string.h>

/* A line that names itself or another. */
typedef struct named {
    size_t item;
    char *id, *twin; /* of hsc__malloc; NULL */
} named;

typedef struct reader {
    hsc__items *items;
    const hsc__opened *opened;
    unsigned flags;
    named *names;
    size_t n_names, names_capacity;
} reader;

/* --------------------------------------------------------------------------------------------------- answers ---- */

/* Tokens of a text that goes on; of an encoder-decoder a target behind what begins one. Free out->ids. */
static hsc_status encode(const reader *r, const char *text, size_t n, hsc__ids *out, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding encoding = {0};
    if (hsc_model_encoder(r->opened->model)) return hsc__target_encode(r->opened, text, n, false, out, NULL, err);
    HSC_TRY(hsc__cli_tokenizer(r->opened, &tokenizer, err));
    hsc_status status = hsc_encode(tokenizer, text, n, r->flags, &encoding, err);
    *out = (hsc__ids){encoding.ids, encoding.n};
    encoding.ids = NULL; /* given away */
    hsc_encoding_free(&encoding);
    return status;
}

/* The token that comes after the item's prompt when the prompt goes on with a blank and the word. */
static hsc_status first_token(const reader *r, const hsc__item *item, const char *prompt, size_t n_prompt,
                              const char *word, size_t n_word, hsc_token *out, hsc_error *err)
{
    hsc__ids whole = {0};
    hsc__string text = {0};
    size_t n = (size_t)item->n_tokens;
    hsc__string_add(&text, prompt, n_prompt);
    if (*word != ' ' && n_prompt) hsc__string_text(&text, " ");
    hsc__string_add(&text, word, n_word);
    hsc_status status =
        text.failed ? hsc__fail_memory(err, n_prompt, "an answer") : encode(r, text.data, text.n, &whole, err);
    if (status == HSC_OK && (whole.n <= n || memcmp(whole.ids, item->ids, n * sizeof *item->ids) != 0))
        status = hsc__fail(err, HSC_EINVAL, 0, "'%.*s' after the prompt changes the tokens of the prompt itself",
                           (int)n_word, word);
    if (status == HSC_OK) *out = whole.ids[n];
    hsc__free(whole.ids);
    hsc__string_free(&text);
    return status;
}

/* A target so far, about a source. */
static hsc_status add_target(const reader *r, const char *source, const char *prompt, size_t n, hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc_encoding read = {0};
    hsc__ids target = {0};
    int n_ctx = r->opened->config->n_ctx;
    HSC_TRY(hsc__cli_tokenizer(r->opened, &tokenizer, err));
    hsc_status status = hsc_encode(tokenizer, source, strlen(source), r->flags, &read, err);
    if (status == HSC_OK) status = hsc__source_fits(r->opened, read.n, err);
    if (status == HSC_OK) status = encode(r, prompt, n, &target, err);
    if (status == HSC_OK && target.n > (size_t)n_ctx)
        status = hsc__fail(err, HSC_EINVAL, 0, "the target has %zu tokens, the context of %s %d", target.n,
                           r->opened->name, n_ctx);
    if (status == HSC_OK) status = hsc__items_add_target(r->items, read.ids, read.n, &target, err);
    hsc_encoding_free(&read);
    hsc__free(target.ids);
    return status;
}

/* Adds a prompt with its two answers; when they cannot be used nothing is added. */
static hsc_status add_prompt(const reader *r, const char *source, const char *prompt, size_t n, const char *right,
                             size_t n_right, const char *wrong, size_t n_wrong, hsc_error *err)
{
    if (source) HSC_TRY(add_target(r, source, prompt, n, err));
    else HSC_TRY(hsc__items_add_text(r->items, r->opened, prompt, n, r->flags, err));
    hsc__item *item = &r->items->list[r->items->n - 1];
    hsc_status status = first_token(r, item, prompt, n, right, n_right, &item->a, err);
    if (status == HSC_OK) status = first_token(r, item, prompt, n, wrong, n_wrong, &item->b, err);
    if (status == HSC_OK && item->a == item->b)
        status = hsc__fail(err, HSC_EINVAL, 0, "'%.*s' and '%.*s' begin with the same token", (int)n_right, right,
                           (int)n_wrong, wrong);
    if (status != HSC_OK) hsc__items_drop_last(r->items);
    return status;
}

/* --------------------------------------------------------------------------------------------------- prompts ---- */

static const char *text_of(const json_t *object, const char *name, const char *other)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : json_string_value(json_object_get(object, other));
}

/* The cluster of a line: its "cluster", else its "id" up to the last '-', which twins share. */
static hsc_status find_cluster(const json_t *object, char **out, hsc_error *err)
{
    const char *name = json_string_value(json_object_get(object, "cluster"));
    const char *id = name ? name : json_string_value(json_object_get(object, "id"));
    *out = NULL;
    if (!id) return HSC_OK;
    const char *dash = name ? NULL : strrchr(id, '-');
    size_t n = dash ? (size_t)(dash - id) : strlen(id);
    *out = hsc__strndup(id, n);
    return *out ? HSC_OK : hsc__fail_memory(err, n + 1, "a cluster");
}

static hsc_status read_object(const hsc__pair_reader *r, const json_t *object, int line, hsc_error *err)
{
    char *cluster;
    hsc__prompt p = {.source = json_string_value(json_object_get(object, "source")),
                     .id = json_string_value(json_object_get(object, "id")),
                     .twin = json_string_value(json_object_get(object, "twin")),
                     .text = json_string_value(json_object_get(object, "prompt")),
                     .right = text_of(object, "right", "io"),
                     .wrong = text_of(object, "wrong", "s"),
                     .line = line};
    if (p.source && !json_object_get(object, "prompt")) p.text = ""; /* the target begins with the answer */
    HSC_FAIL_IF(!p.text || !p.right || !p.wrong, HSC_EFORMAT,
                "a line of a pair file is {\"prompt\", \"right\", \"wrong\"} or {\"prompt\", \"io\", \"s\"}, with a "
                "\"source\" for an encoder-decoder");
    HSC_TRY(find_cluster(object, &cluster, err));
    p.n = strlen(p.text);
    p.cluster = cluster;
    hsc_status status = r->prompt(r->user, &p, err);
    hsc__free(cluster);
    return status;
}

/* A line that asks for nothing is left out; one that is no line of a pair file is an error. */
static hsc_status read_line(const hsc__pair_reader *r, const char *text, size_t n, int line, hsc_error *err)
{
    json_error_t where;
    hsc_error why = {0};
    json_t *object = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!object) return hsc__fail(err, HSC_EFORMAT, 0, "column %d: %s", where.column, where.text);
    hsc_status status = read_object(r, object, line, &why);
    json_decref(object);
    if (status == HSC_EINVAL) return hsc__items_leave_out(r->items, line, why.message, err);
    return status == HSC_OK ? HSC_OK : hsc__fail(err, status, why.offset, "%s", why.message);
}

static hsc_status read_prompts(const hsc__pair_reader *r, hsc__lines *lines, int limit, hsc_error *err)
{
    int n_lines = 0;
    while (hsc__lines_next(lines)) {
        if (!lines->n) continue;
        if (limit && ++n_lines > limit) break;
        HSC_TRY(hsc__lines_did(lines, read_line(r, lines->text, lines->n, lines->number, err), err));
    }
    return HSC_OK;
}

hsc_status hsc__prompt_check(const hsc__opened *opened, const hsc__prompt *p, hsc_error *err)
{
    bool encoder = hsc_model_encoder(opened->model) != NULL;
    HSC_FAIL_IF(encoder && !p->source, HSC_EINVAL,
                "%s is an encoder-decoder: a line wants a \"source\", which it reads; \"prompt\" is its target so far",
                opened->name);
    HSC_FAIL_IF(!encoder && p->source, HSC_EINVAL,
                "a \"source\" is what an encoder-decoder reads; %s (%s) has one stack of blocks", opened->name,
                opened->config->arch);
    return HSC_OK;
}

static hsc_status copy_text(const char *text, char **out, hsc_error *err)
{
    *out = text ? hsc__strndup(text, strlen(text)) : NULL;
    return *out || !text ? HSC_OK : hsc__fail_memory(err, strlen(text) + 1, "a name");
}

static hsc_status add_object(void *user, const hsc__prompt *p, hsc_error *err)
{
    reader *r = user;
    HSC_TRY(hsc__prompt_check(r->opened, p, err));
    HSC_TRY(add_prompt(r, p->source, p->text, p->n, p->right, strlen(p->right), p->wrong, strlen(p->wrong), err));
    hsc__item *item = &r->items->list[r->items->n - 1];
    item->line = p->line;
    HSC_TRY(copy_text(p->cluster, &item->cluster, err));
    if (!p->source || (!p->id && !p->twin)) return HSC_OK;
    HSC_TRY(hsc__grow(&r->names, &r->names_capacity, r->n_names + 1, sizeof *r->names, err));
    named *name = &r->names[r->n_names++];
    *name = (named){.item = r->items->n - 1};
    HSC_TRY(copy_text(p->id, &name->id, err));
    return copy_text(p->twin, &name->twin, err);
}

static int by_id(const void *a, const void *b)
{
    const named *x = *(const named *const *)a, *y = *(const named *const *)b;
    int order = strcmp(x->id, y->id);
    return order ? order : (x->item > y->item) - (x->item < y->item);
}

/* The last of sorted[n] that has the id, `self` aside; NULL. */
static const named *find_named(const named *const *sorted, size_t n, const char *id, const named *self)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sorted[middle]->id, id) <= 0) low = middle + 1;
        else high = middle;
    }
    if (low && sorted[low - 1] == self) low--;
    return low && strcmp(sorted[low - 1]->id, id) == 0 ? sorted[low - 1] : NULL;
}

/* A twin that is named and is not there, or was left out, is none. */
static hsc_status join_twins(const reader *r, hsc_error *err)
{
    size_t n = 0;
    const named **sorted = hsc__calloc(r->n_names + 1, sizeof *sorted);
    if (!sorted) return hsc__fail_memory(err, r->n_names * sizeof *sorted, "the order of the lines");
    for (size_t i = 0; i < r->n_names; i++)
        if (r->names[i].id) sorted[n++] = &r->names[i];
    if (n) qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 0; i < r->n_names; i++) {
        const named *name = &r->names[i];
        const named *twin = name->twin ? find_named(sorted, n, name->twin, name) : NULL;
        if (twin) r->items->list[name->item].twin = (int)twin->item;
    }
    hsc__free(sorted);
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- pairs ---- */

bool hsc__same_prompt(const hsc_pair *pair)
{
    const hsc_wording *x = &pair->wording[0], *y = &pair->wording[1];
    if (x->query.end != y->query.end) return false;
    return x->text ? memcmp(x->text, y->text, x->query.end) == 0
                   : memcmp(x->ids, y->ids, x->query.end * sizeof *x->ids) == 0;
}

/* A prompt of token ids: the candidates are ids as well. */
static hsc_status add_wording_ids(const reader *r, const hsc_wording *w, hsc_span right, hsc_span wrong, hsc_error *err)
{
    hsc__ids ids = {(hsc_token *)w->ids, w->query.end};
    HSC_FAIL_IF(ids.n > (size_t)r->opened->config->n_ctx, HSC_EINVAL,
                "the prompt has %zu token%s, the context of %s %d", ids.n, HSC__PLURAL(ids.n), r->opened->name,
                r->opened->config->n_ctx);
    for (size_t i = 0; i < ids.n; i++)
        HSC_FAIL_IF(w->ids[i] >= r->opened->config->d_vocab, HSC_EINVAL, "token %d is outside the vocabulary of %d",
                    (int)w->ids[i], r->opened->config->d_vocab);
    HSC_TRY(hsc__items_add_ids(r->items, &ids, err));
    hsc__item *item = &r->items->list[r->items->n - 1];
    item->a = w->ids[right.start];
    item->b = w->ids[wrong.start];
    return HSC_OK;
}

static hsc_status add_wording(const reader *r, const hsc_pair *pair, int which, hsc_error *err)
{
    const hsc_wording *w = &pair->wording[which];
    hsc_span right = which ? w->b : w->a, wrong = which ? w->a : w->b;
    HSC_TRY(hsc__prompt_check(r->opened, &(hsc__prompt){.text = w->text}, err));
    hsc_status status = w->text
                            ? add_prompt(r, NULL, w->text, w->query.end, w->text + right.start, right.end - right.start,
                                         w->text + wrong.start, wrong.end - wrong.start, err)
                            : add_wording_ids(r, w, right, wrong, err);
    if (status != HSC_OK) return status;
    hsc__item *item = &r->items->list[r->items->n - 1];
    item->line = w->line;
    if (w->text && w->swap.start < w->swap.end)
        HSC_TRY(hsc__word_at(r->opened, w->text, w->query.end, w->swap.start, r->flags, &item->word, err));
    item->cluster = hsc__strndup(pair->cluster, strlen(pair->cluster));
    return item->cluster ? HSC_OK : hsc__fail_memory(err, strlen(pair->cluster) + 1, "a cluster");
}

/* Both wordings or neither. */
static hsc_status add_both(void *user, const hsc_pair *pair, hsc_error *err)
{
    const reader *r = user;
    hsc_error why = {0};
    int line = pair->wording[0].line;
    size_t first = r->items->n;
    if (hsc__same_prompt(pair))
        return hsc__items_leave_out(r->items, line, "both wordings are the same up to the query", err);
    hsc_status status = add_wording(r, pair, 0, &why);
    if (status == HSC_OK) status = add_wording(r, pair, 1, &why);
    if (status == HSC_OK) {
        r->items->list[first].twin = (int)first + 1;
        r->items->list[first + 1].twin = (int)first;
        return HSC_OK;
    }
    while (r->items->n > first) hsc__items_drop_last(r->items);
    if (status != HSC_EINVAL) return hsc__fail(err, status, why.offset, "%s", why.message);
    return hsc__items_leave_out(r->items, line, why.message, err);
}

static int by_number(const void *a, const void *b)
{
    const hsc_pair *x = *(const hsc_pair *const *)a, *y = *(const hsc_pair *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* In the order of the file; a limit of lines takes both lines of the last pair. */
static hsc_status read_in_order(const hsc__pair_reader *r, const hsc_pairs *pairs, int limit, hsc_error *err)
{
    size_t n = (size_t)hsc_pairs_count(pairs);
    const hsc_pair **order = hsc__calloc(n, sizeof *order);
    if (!order) return hsc__fail_memory(err, n * sizeof *order, "the pairs");
    for (size_t i = 0; i < n; i++) order[i] = hsc_pairs_get(pairs, (int)i);
    qsort(order, n, sizeof *order, by_number);
    hsc_status status = HSC_OK;
    const hsc_skipped *left;
    for (int i = 0; status == HSC_OK && !limit && (left = hsc_pairs_skipped(pairs, i)); i++)
        status = hsc__items_leave_out(r->items, left->line, left->why, err);
    int n_lines = 0;
    for (size_t i = 0; i < n && status == HSC_OK; i++) {
        if (limit && n_lines >= limit) break;
        n_lines += order[i]->wording[0].line == order[i]->wording[1].line ? 1 : 2;
        status = r->pair(r->user, order[i], err);
    }
    hsc__free(order);
    return status;
}

/* Lines of a prompt and its answers, without a twin; or of a source. Looks at the first that is not empty. */
static bool is_prompts(hsc__lines lines)
{
    while (hsc__lines_next(&lines) && !lines.n) continue;
    json_t *object = lines.n && lines.text[0] == '{' ? json_loadb(lines.text, lines.n, 0, NULL) : NULL;
    bool found = object && (json_object_get(object, "source") ||
                            (json_object_get(object, "prompt") && !json_object_get(object, "twin")));
    json_decref(object);
    return found;
}

hsc_status hsc__read_pairs(const hsc__pair_reader *r, const char *path, int limit, hsc_error *err)
{
    hsc__lines lines = {0};
    hsc_pairs *pairs = NULL;
    const hsc__items *items = r->items;
    hsc_status status = hsc__lines_open(&lines, path, err);
    if (status == HSC_OK && is_prompts(lines)) {
        status = read_prompts(r, &lines, limit, err);
    } else if (status == HSC_OK) {
        status = hsc_pairs_parse(&pairs, path, lines.file.n ? lines.file.data : "", lines.file.n, NULL, err);
        if (status == HSC_OK) status = read_in_order(r, pairs, limit, err);
    }
    if (status == HSC_OK && !items->n && items->n_left_out)
        status = hsc__fail(err, HSC_EINVAL, 0, "%s: no pair can be used; line %d: %s", path, items->left_out[0].line,
                           items->left_out[0].why);
    if (status == HSC_OK && !items->n) status = hsc__fail(err, HSC_EINVAL, 0, "%s: holds no text", path);
    hsc_pairs_free(pairs);
    hsc__lines_close(&lines);
    return status;
}

hsc_status hsc__items_add_pairs(hsc__items *items, const hsc__opened *opened, const char *path, unsigned flags,
                                int limit, hsc_error *err)
{
    reader r = {.items = items, .opened = opened, .flags = flags};
    HSC_TRY(hsc__cli_has_logits(opened, err));
    hsc_status status = hsc__read_pairs(&(hsc__pair_reader){add_object, add_both, &r, items}, path, limit, err);
    if (status == HSC_OK) status = join_twins(&r, err);
    for (size_t i = 0; i < r.n_names; i++) {
        hsc__free(r.names[i].id);
        hsc__free(r.names[i].twin);
    }
    hsc__free(r.names);
    return status;
}

/* ------------------------------------------------------------------------------------- what is said about them ---- */

enum { SHOWN = 3 };

void hsc__items_describe(hsc__string *out, const hsc__items *items, int n_clusters)
{
    size_t n = items->n - items->n_unused, left_out = items->n_left_out;
    hsc__string_printf(out, "over %zu text%s in %d cluster%s", n, HSC__PLURAL(n), n_clusters, HSC__PLURAL(n_clusters));
    if (items->n_aligned)
        hsc__string_printf(out, ", %zu of them aligned by span with a text of another length", items->n_aligned);
    if (left_out) hsc__string_printf(out, "; %zu line%s left out:", left_out, HSC__PLURAL(left_out));
    for (size_t i = 0; i < left_out && i < SHOWN; i++)
        hsc__string_printf(out, "%s line %d (%s)", i ? ";" : "", items->left_out[i].line, items->left_out[i].why);
    hsc__string_text(out, left_out > SHOWN ? "; --json lists all\n" : "\n");
}

json_t *hsc__items_json_skipped(const hsc__items *items)
{
    json_t *list = json_array();
    for (size_t i = 0; i < items->n_left_out; i++)
        json_array_append_new(list,
                              json_pack("{s:i,s:s}", "line", items->left_out[i].line, "why", items->left_out[i].why));
    return list;
}
