/*
 * The tables of `headscope look`: what one token looks at, head by head; who looks at one token; which heads join two;
 * and what every token looks at in one head. Each as text, CSV and JSON. The first is, to the byte, what the lesson's
 * Python prints: strings as repr(), padded to twelve code points, weights with two places.
 */
#include "cli/look.h"

#include <stdlib.h>

enum { WIDTH = 12 }; /* Python's {!r:12} */

/* The tokens that the best of a line are: keys, or with --to those that look. */
static const hsc__tokens *best_tokens(const hsc__look *look)
{
    return look->mode == HSC__LOOK_KEY ? &look->first.tokens : look->first.keys;
}

static void add_weight(hsc__string *out, const hsc__look *look, const hsc_key_weight *best)
{
    hsc__repr_padded(out, &best_tokens(look)->texts[best->key], WIDTH);
    hsc__string_printf(out, " (%.2f)\n", (double)best->weight);
}

/* The line's beginning, then the best; with --top the others below it. */
static void add_line(hsc__string *out, const hsc__look *look, const hsc__string *lead, const hsc_key_weight *best,
                     int n)
{
    int cells = lead->failed ? 0 : hsc__text_cells(lead->data, lead->n);
    for (int i = 0; i < n; i++) {
        if (i == 0) hsc__string_add(out, lead->data, lead->n);
        else hsc__string_printf(out, "%*s", cells, "then ");
        add_weight(out, look, &best[i]);
    }
    if (lead->failed) out->failed = true;
}

/* One layer that was named by --layer needs no line of its own: this is the lesson's table. */
static bool names_layers(const hsc__look *look)
{
    const hsc__layers *layers = &look->options->layers;
    return layers->n != 1 || layers->range[0].first != layers->range[0].last;
}

/* ------------------------------------------------------------------------------------------------ head by head ---- */

/* "' it' attends most to " */
static void add_asked(const hsc__look *look, hsc__string *out)
{
    bool forward = look->mode == HSC__LOOK_QUERY;
    if (forward) hsc__look_repr(out, &look->first.tokens, look->first.query);
    else hsc__look_repr(out, look->first.keys, look->first.key);
    hsc__string_text(out, forward ? " attends most to " : " is looked at most by ");
}

/* Whether there is no room for what was asked in the line of every head: it then stands above them all. */
static bool is_narrow(const hsc__look *look)
{
    enum { HEAD_CELLS = 9, BEST_CELLS = WIDTH + 7 };
    hsc__string asked = {0};
    add_asked(look, &asked);
    int cells = asked.failed ? 0 : hsc__text_cells(asked.data, asked.n);
    hsc__string_free(&asked);
    return HEAD_CELLS + cells + BEST_CELLS > hsc__cli_width();
}

static void add_head(const hsc__look *look, hsc__string *out, int layer, int head)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    hsc__string lead = {0};
    int n = hsc__look_best(look, layer, head, hsc__look_top(look, 1), best);
    hsc__string_printf(&lead, "head %2d: ", head);
    if (!is_narrow(look)) add_asked(look, &lead);
    add_line(out, look, &lead, best, n);
    hsc__string_free(&lead);
}

void hsc__look_heads_text(const hsc__look *look, hsc__string *out)
{
    hsc__look_header(look, out);
    if (is_narrow(look)) {
        add_asked(look, out);
        out->data[out->n - 1] = '\n';
    }
    for (int layer = 0; layer < look->n_layers; layer++) {
        bool named = !names_layers(look);
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            if (!named) hsc__string_printf(out, "layer %d (L%d)\n", layer + 1, layer);
            named = true;
            add_head(look, out, layer, head);
        }
    }
}

static void add_csv_line(const hsc__look *look, hsc__string *out, const hsc_link *link, int rank)
{
    hsc__look_csv_head(out, link->layer, link->head);
    hsc__look_csv_token(out, &look->first.tokens, link->query);
    hsc__string_printf(out, ",%d", rank);
    hsc__look_csv_token(out, look->first.keys, link->key);
    hsc__look_csv_number(out, link->weight);
    hsc__string_text(out, "\r\n");
}

static void add_csv_header(hsc__string *out)
{
    hsc__string_text(out, "layer,head,name,query,query_text,rank,key,key_text,weight\r\n");
}

void hsc__look_heads_csv(const hsc__look *look, hsc__string *out)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    bool forward = look->mode == HSC__LOOK_QUERY;
    add_csv_header(out);
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            int n = hsc__look_chosen(look, layer, head)
                        ? hsc__look_best(look, layer, head, hsc__look_top(look, 1), best)
                        : 0;
            for (int i = 0; i < n; i++) {
                int query = forward ? look->first.query : best[i].key, key = forward ? best[i].key : look->first.key;
                add_csv_line(look, out, &(hsc_link){layer, head, query, key, best[i].weight}, i + 1);
            }
        }
    }
}

/* Sets "best" and "top". */
static void set_best(json_t *object, const hsc__look *look, const hsc_key_weight *best, int n)
{
    json_t *top = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(top, hsc__json_weight(best_tokens(look), best[i].key, best[i].weight));
    json_object_set(object, "best", json_array_get(top, 0));
    json_object_set_new(object, "top", top);
}

json_t *hsc__look_heads_json(const hsc__look *look)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    bool forward = look->mode == HSC__LOOK_QUERY;
    json_t *root = hsc__look_json_start(look), *heads = json_array();
    json_object_set_new(root, forward ? "query" : "key",
                        forward ? hsc__json_token(&look->first.tokens, look->first.query)
                                : hsc__json_token(look->first.keys, look->first.key));
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            json_t *object = hsc__look_json_head(layer, head);
            set_best(object, look, best, hsc__look_best(look, layer, head, hsc__look_top(look, 1), best));
            json_array_append_new(heads, object);
        }
    }
    json_object_set_new(root, "heads", heads);
    return root;
}

/* --------------------------------------------------------------------------------------- heads that join two ---- */

/* The chosen heads by their weight from the query to the key, heaviest first. Returns how many. */
static int rank_heads(const hsc__look *look, hsc_link *best, int capacity)
{
    int n = 0;
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            float weight = hsc__look_weights(look, &look->first, layer, head)[look->first.key];
            if (n == capacity && weight <= best[n - 1].weight) continue;
            int at = n < capacity ? n++ : n - 1;
            for (; at > 0 && best[at - 1].weight < weight; at--) best[at] = best[at - 1];
            best[at] = (hsc_link){layer, head, look->first.query, look->first.key, weight};
        }
    }
    return n;
}

void hsc__look_pair_text(const hsc__look *look, hsc__string *out)
{
    hsc_link best[HSC__LOOK_MAX_TOP];
    int n = rank_heads(look, best, hsc__look_top(look, 10));
    hsc__look_header(look, out);
    hsc__look_repr(out, &look->first.tokens, look->first.query);
    hsc__string_text(out, " looks at ");
    hsc__look_repr(out, look->first.keys, look->first.key);
    if (look->causal && look->first.key > look->first.query) {
        hsc__string_text(out, " in no head: it comes later, and a causal model's token sees only earlier ones\n");
        return;
    }
    if (!hsc__look_in_window(look, look->first.query, look->first.key)) {
        hsc__string_text(out, " in no head: it lies before the window\n");
        return;
    }
    hsc__string_text(out, " most in\n");
    for (int i = 0; i < n; i++) {
        hsc__look_name_head(out, best[i].layer, best[i].head);
        hsc__string_printf(out, " (%.2f)\n", (double)best[i].weight);
    }
}

void hsc__look_pair_csv(const hsc__look *look, hsc__string *out)
{
    hsc_link best[HSC__LOOK_MAX_TOP];
    int n = rank_heads(look, best, hsc__look_top(look, 10));
    add_csv_header(out);
    for (int i = 0; i < n; i++) add_csv_line(look, out, &best[i], i + 1);
}

json_t *hsc__look_pair_json(const hsc__look *look)
{
    hsc_link best[HSC__LOOK_MAX_TOP];
    int n = rank_heads(look, best, hsc__look_top(look, 10));
    json_t *root = hsc__look_json_start(look), *heads = json_array();
    json_object_set_new(root, "query", hsc__json_token(&look->first.tokens, look->first.query));
    json_object_set_new(root, "key", hsc__json_token(look->first.keys, look->first.key));
    for (int i = 0; i < n; i++) {
        json_t *object = hsc__look_json_head(best[i].layer, best[i].head);
        json_object_set_new(object, "weight", hsc__json_number((double)best[i].weight));
        json_array_append_new(heads, object);
    }
    json_object_set_new(root, "heads", heads);
    return root;
}

/* ----------------------------------------------------------------------------------- every token in one head ---- */

static int best_of_row(const hsc__look *look, int query, hsc_key_weight *best)
{
    const float *row = look->pattern + (size_t)query * (size_t)look->first.n_keys;
    return hsc__look_best_in_row(look, row, query, hsc__look_top(look, 1), best);
}

void hsc__look_rows_text(const hsc__look *look, hsc__string *out)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    const hsc__head *head = &look->options->head;
    hsc__look_header(look, out);
    hsc__look_name_head(out, head->layer, head->head);
    hsc__string_text(out, "\n");
    for (int query = 0; query < look->first.n_tokens; query++) {
        hsc__string lead = {0};
        hsc__string_printf(&lead, "token %3d: ", query);
        hsc__repr_padded(&lead, &look->first.tokens.texts[query], WIDTH);
        hsc__string_text(&lead, " attends most to ");
        add_line(out, look, &lead, best, best_of_row(look, query, best));
        hsc__string_free(&lead);
    }
}

void hsc__look_rows_csv(const hsc__look *look, hsc__string *out)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    const hsc__head *head = &look->options->head;
    add_csv_header(out);
    for (int query = 0; query < look->first.n_tokens; query++) {
        int n = best_of_row(look, query, best);
        for (int i = 0; i < n; i++)
            add_csv_line(look, out, &(hsc_link){head->layer, head->head, query, best[i].key, best[i].weight}, i + 1);
    }
}

json_t *hsc__look_rows_json(const hsc__look *look)
{
    hsc_key_weight best[HSC__LOOK_MAX_TOP];
    const hsc__head *head = &look->options->head;
    json_t *root = hsc__look_json_start(look), *queries = json_array();
    json_object_set_new(root, "head", hsc__look_json_head(head->layer, head->head));
    for (int query = 0; query < look->first.n_tokens; query++) {
        json_t *object = hsc__json_token(&look->first.tokens, query);
        set_best(object, look, best, best_of_row(look, query, best));
        json_array_append_new(queries, object);
    }
    json_object_set_new(root, "queries", queries);
    return root;
}
