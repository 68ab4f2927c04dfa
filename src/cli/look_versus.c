/*
 * headscope look --vs: the same query in two texts, and the heads whose weights from it move most. The texts' tokens
 * are matched from both ends; what lies between is the part that differs, matched one to one when it is as long in
 * both. In cross-attention queries are matched among the targets and keys among the sources. A head's move is half the
 * sum of |w1 - w2| over the keys (total variation): the share of its weight that went elsewhere.
 */
#include "cli/heads.h"
#include "cli/look.h"

#include "plot/table.h"

#include <string.h>

enum { SHOWN_TOKENS = 6 };

/* What one head did. Weights of a key that a text does not have are 0. */
typedef struct move {
    int layer, head;
    double moved;
    int left,
        went; /* positions of the largest loss and gain: `left` in the first text, `went` in the second; -1: none */
    float left_weights[2], went_weights[2];
} move;

/* --------------------------------------------------------------------------------------------- the two texts ---- */

/* Where a token of the first text stands in the second; -1: it has no match. */
static int match(const hsc__look_match *m, int pos)
{
    if (pos < m->n_prefix || m->n1 == m->n2) return pos;
    return pos >= m->n1 - m->n_suffix ? pos + m->n2 - m->n1 : -1;
}

/* The other way round. */
static int match_back(const hsc__look_match *m, int pos)
{
    hsc__look_match turned = {m->n2, m->n1, m->n_prefix, m->n_suffix};
    return match(&turned, pos);
}

static hsc__look_match match_texts(const hsc__tokens *first, const hsc__tokens *second)
{
    const hsc_token *a = first->encoding.ids, *b = second->encoding.ids;
    hsc__look_match m = {.n1 = (int)first->encoding.n, .n2 = (int)second->encoding.n};
    int n = m.n1 < m.n2 ? m.n1 : m.n2;
    while (m.n_prefix < n && a[m.n_prefix] == b[m.n_prefix]) m.n_prefix++;
    while (m.n_suffix < n - m.n_prefix && a[m.n1 - 1 - m.n_suffix] == b[m.n2 - 1 - m.n_suffix]) m.n_suffix++;
    return m;
}

static bool same(const hsc__look_match *m)
{
    return m->n_prefix == m->n1 && m->n_prefix == m->n2;
}

/* Where one may ask instead of the part that differs, as far as there are such positions. */
static void add_advice(const hsc__look_match *m, hsc__string *out)
{
    int prefix = m->n_prefix, suffix = m->n_suffix;
    if (prefix) hsc__string_printf(out, "; ask for one before position %d", prefix);
    if (suffix) hsc__string_printf(out, "%s from %d on", prefix ? " or" : "; ask for one", m->n1 - suffix);
    if (!prefix && !suffix) hsc__string_text(out, "; the texts have no token in common at either end");
}

static hsc_status fail_no_match(const hsc__look *look, hsc_error *err)
{
    hsc__string advice = {0};
    const hsc__look_match *m = &look->rows;
    int common = m->n_prefix + m->n_suffix;
    add_advice(m, &advice);
    hsc_status status = hsc__fail(
        err, HSC_EINVAL, 0,
        "--vs: the query at position %d lies in the part that differs, %d token%s in one text and %d in the other%s",
        look->first.query, m->n1 - common, HSC__PLURAL(m->n1 - common), m->n2 - common,
        advice.failed ? "" : advice.data);
    hsc__string_free(&advice);
    return status;
}

/* Without a query of one's own the last tokens are compared. A token that was asked for is looked up in the other text;
 * a last one without a match stands against the last. */
hsc_status hsc__look_align(hsc__look *look, hsc_error *err)
{
    look->rows = match_texts(&look->first.tokens, &look->second.tokens);
    look->keys = match_texts(look->first.keys, look->second.keys);
    hsc__look_match sources = match_texts(&look->first.source, &look->second.source);
    look->same_source = same(&sources); /* none is the same as none */
    int last1 = look->rows.n1 - 1, last2 = look->rows.n2 - 1;
    bool asked = look->first.query >= 0;
    if (!asked) look->first.query = last1;
    look->second.query = asked ? match(&look->rows, look->first.query) : last2;
    if (look->second.query < 0 && look->first.query == last1) look->second.query = last2;
    return look->second.query < 0 ? fail_no_match(look, err) : HSC_OK;
}

static bool same_texts(const hsc__look *look)
{
    return same(&look->rows) && look->same_source;
}

/* The query and all that it may see are the same in both texts. Of cross-attention `causal` is false, and yet its
 * queries come out of a decoder. */
static bool cannot_change(const hsc__look *look)
{
    bool causal = look->causal || look->side == HSC__LOOK_CROSS;
    int n = look->rows.n_prefix;
    return same_texts(look) || (causal && look->same_source && look->first.query < n && look->second.query < n);
}

/* Appends the repr of the tokens [n_prefix, n - n_suffix) of a text, which only this one has. */
static void add_difference(const hsc__look_match *m, const hsc__tokens *tokens, hsc__string *out)
{
    hsc__string bytes = {0};
    int last = (int)tokens->encoding.n - m->n_suffix;
    bool cut = last - m->n_prefix > SHOWN_TOKENS;
    if (cut) last = m->n_prefix + SHOWN_TOKENS;
    hsc__string_add(&bytes, "", 0);
    for (int i = m->n_prefix; i < last; i++) hsc__string_add(&bytes, tokens->texts[i].bytes, tokens->texts[i].n);
    if (bytes.failed) out->failed = true;
    else hsc__text_repr(out, bytes.data, bytes.n);
    if (cut) hsc__string_text(out, "...");
    hsc__string_free(&bytes);
}

/* "; the texts differ from position 9 on: ' tired' became ' wide'" */
static void add_differences(const char *what, const hsc__tokens *first, const hsc__tokens *second, hsc__string *out)
{
    hsc__look_match m = match_texts(first, second);
    if (same(&m)) return;
    hsc__string_printf(out, "; the %s differ from position %d on: ", what, m.n_prefix);
    add_difference(&m, first, out);
    hsc__string_text(out, " became ");
    add_difference(&m, second, out);
}

/* ------------------------------------------------------------------------------------------------- the moves ---- */

static move measure(const hsc__look *look, int layer, int head)
{
    const float *w1 = hsc__look_weights(look, &look->first, layer, head);
    const float *w2 = hsc__look_weights(look, &look->second, layer, head);
    move m = {.layer = layer, .head = head, .left = -1, .went = -1};
    double loss = 0, gain = 0, sum = 0;
    for (int key = 0; key < look->first.n_keys; key++) {
        int other = match(&look->keys, key);
        double delta = (double)w1[key] - (other >= 0 ? (double)w2[other] : 0);
        sum += delta < 0 ? -delta : delta;
        if (delta <= loss) continue;
        loss = delta;
        m.left = key;
        m.left_weights[0] = w1[key];
        m.left_weights[1] = other >= 0 ? w2[other] : 0;
    }
    for (int key = 0; key < look->second.n_keys; key++) {
        int other = match_back(&look->keys, key);
        double delta = (double)w2[key] - (other >= 0 ? (double)w1[other] : 0);
        if (other < 0) sum += delta;
        if (delta <= gain) continue;
        gain = delta;
        m.went = key;
        m.went_weights[0] = other >= 0 ? w1[other] : 0;
        m.went_weights[1] = w2[key];
    }
    m.moved = sum / 2;
    return m;
}

/* The chosen heads that moved, most first; equal ones by layer and head. Returns how many. */
static int rank_moves(const hsc__look *look, move *best, int capacity)
{
    int n = 0;
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            move m = measure(look, layer, head);
            if (m.moved <= 0 || (n == capacity && m.moved <= best[n - 1].moved)) continue;
            int at = n < capacity ? n++ : n - 1;
            for (; at > 0 && best[at - 1].moved < m.moved; at--) best[at] = best[at - 1];
            best[at] = m;
        }
    }
    return n;
}

/* Why nothing moved; NULL when something could. */
static const char *reason(const hsc__look *look)
{
    if (same_texts(look)) return "same_tokens";
    return cannot_change(look) ? "causal_mask" : NULL;
}

/* -------------------------------------------------------------------------------------------------------- text ---- */

static void add_unchanged(const hsc__look *look, hsc__string *out)
{
    move best;
    int n_moved = rank_moves(look, &best, 1), n = 0;
    for (int layer = 0; layer < look->n_layers; layer++)
        for (int head = 0; head < look->n_heads; head++) n += hsc__look_chosen(look, layer, head);
    if (same_texts(look)) {
        hsc__string_text(out, "nothing can change: both texts give the same tokens\n");
    } else {
        hsc__string_text(out,
                         "nothing can change: a causal model's token sees only itself and earlier ones, and the first "
                         "token that differs comes later\n");
        int prefix = look->rows.n_prefix;
        if (prefix < look->rows.n1)
            hsc__string_printf(out, "ask for a token from position %d on: --pos %d\n", prefix, prefix);
        else
            hsc__string_text(out,
                             "the first text has no token that comes so late; leave out the query or swap the texts\n");
    }
    hsc__string_printf(out, "largest change measured in %d head%s: %s\n", n, HSC__PLURAL(n),
                       n_moved ? "not 0, which is a fault of headscope" : "exactly 0");
}

/* A key, and its weights in the two texts; empty cells where there is none. */
static void add_key(hsc__string *cells, const hsc__look_pass *pass, int pos, const float *weights)
{
    if (pos >= 0) {
        hsc__look_repr(cells, pass->keys, pos);
        hsc__string_printf(cells, " (%d)\t%.2f -> %.2f", pos, (double)weights[0], (double)weights[1]);
    }
    hsc__string_text(cells, pos >= 0 ? "\t" : "\t\t");
}

static void add_moves(const hsc__look *look, const move *moves, int n, hsc__string *out)
{
    static const hsc__column columns[] = {{.head = "head"},
                                          {.head = "moved", .right = true},
                                          {.head = "left", .max_cells = 40, .least_cells = 10},
                                          {.head = "", .right = true},
                                          {.head = "went to", .max_cells = 40, .least_cells = 10},
                                          {.head = "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) {
        hsc__cell_head(&table.cells, moves[i].layer, moves[i].head);
        hsc__string_printf(&table.cells, "%.2f\t", moves[i].moved);
        add_key(&table.cells, &look->first, moves[i].left, moves[i].left_weights);
        add_key(&table.cells, &look->second, moves[i].went, moves[i].went_weights);
    }
    hsc__cli_table(out, &table);
}

void hsc__look_versus_text(const hsc__look *look, hsc__string *out)
{
    move moves[HSC__LOOK_MAX_TOP];
    hsc__look_header(look, out);
    hsc__look_repr(out, &look->first.tokens, look->first.query);
    hsc__string_printf(out, " (position %d)", look->first.query);
    if (look->second.query != look->first.query) hsc__string_printf(out, ", in the second text %d", look->second.query);
    bool targets = look->side == HSC__LOOK_CROSS || look->side == HSC__LOOK_DECODER;
    add_differences("sources", &look->first.source, &look->second.source, out);
    add_differences(targets ? "targets" : "texts", &look->first.tokens, &look->second.tokens, out);
    hsc__string_text(out, "\n");
    if (cannot_change(look)) {
        add_unchanged(look, out);
        return;
    }
    if (look->first.tokens.encoding.ids[look->first.query] != look->second.tokens.encoding.ids[look->second.query])
        hsc__string_text(out, "the query itself is another token, which alone can move a head\n");
    int n = rank_moves(look, moves, hsc__look_top(look, 10));
    if (n) add_moves(look, moves, n, out);
    else hsc__string_text(out, "no head moved\n");
}

/* ---------------------------------------------------------------------------------------------- CSV and JSON ---- */

static void add_csv_key(hsc__string *out, const hsc__look_pass *pass, int pos, const float *weights)
{
    if (pos < 0) {
        hsc__string_text(out, ",,,,");
        return;
    }
    hsc__look_csv_token(out, pass->keys, pos);
    hsc__look_csv_number(out, weights[0]);
    hsc__look_csv_number(out, weights[1]);
}

void hsc__look_versus_csv(const hsc__look *look, hsc__string *out)
{
    move moves[HSC__LOOK_MAX_TOP];
    int n = rank_moves(look, moves, hsc__look_top(look, 10));
    hsc__string_text(
        out, "layer,head,name,moved,left,left_text,left_before,left_after,went,went_text,went_before,went_after\r\n");
    for (int i = 0; i < n; i++) {
        hsc__look_csv_head(out, moves[i].layer, moves[i].head);
        hsc__look_csv_number(out, (float)moves[i].moved);
        add_csv_key(out, &look->first, moves[i].left, moves[i].left_weights);
        add_csv_key(out, &look->second, moves[i].went, moves[i].went_weights);
        hsc__string_text(out, "\r\n");
    }
}

static json_t *key_json(const hsc__look_pass *pass, int pos, const float *weights)
{
    if (pos < 0) return json_null();
    json_t *object = hsc__json_token(pass->keys, pos);
    json_object_set_new(object, "before", hsc__json_number((double)weights[0]));
    json_object_set_new(object, "after", hsc__json_number((double)weights[1]));
    return object;
}

static json_t *difference_json(const hsc__look_match *m)
{
    return same(m) ? json_null() : json_integer(m->n_prefix);
}

static void set_sources(const hsc__look *look, json_t *root)
{
    hsc__look_match m = match_texts(&look->first.source, &look->second.source);
    json_object_set_new(root, "source", hsc__json_tokens(&look->first.source));
    json_object_set_new(root, "source2", hsc__json_tokens(&look->second.source));
    json_object_set_new(root, "first_source_difference", difference_json(&m));
}

json_t *hsc__look_versus_json(const hsc__look *look)
{
    move moves[HSC__LOOK_MAX_TOP];
    int n = rank_moves(look, moves, hsc__look_top(look, 10));
    json_t *root = hsc__look_json_start(look), *heads = json_array();
    const char *why = reason(look);
    json_object_set_new(root, "tokens2", hsc__json_tokens(&look->second.tokens));
    if (look->first.source.encoding.n) set_sources(look, root);
    json_object_set_new(root, "query", hsc__json_token(&look->first.tokens, look->first.query));
    json_object_set_new(root, "query2", hsc__json_token(&look->second.tokens, look->second.query));
    json_object_set_new(root, "first_difference", difference_json(&look->rows));
    json_object_set_new(root, "cannot_change", why ? json_string(why) : json_null());
    for (int i = 0; i < n; i++) {
        json_t *object = hsc__look_json_head(moves[i].layer, moves[i].head);
        json_object_set_new(object, "moved", hsc__json_number(moves[i].moved));
        json_object_set_new(object, "left", key_json(&look->first, moves[i].left, moves[i].left_weights));
        json_object_set_new(object, "went", key_json(&look->second, moves[i].went, moves[i].went_weights));
        json_array_append_new(heads, object);
    }
    json_object_set_new(root, "heads", heads);
    return root;
}
