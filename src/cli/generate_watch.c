/*
 * generate --watch: where chosen heads looked when a token was written. That is the row of the token before it, the
 * last one that was read: its attention is what the new token came from. The first token is left out unless asked for;
 * its weight is told beside.
 */
#include "cli/generate.h"

#include <math.h>
#include <string.h>

/* Cells of a token's text, of what stands before the keys, and of a key with its weight. */
enum { REPR_WIDTH = 14, LEAD = 36, KEY_CELLS = 22, INDENT = 5 };

/* Of an encoder-decoder, what it sees of the source. */
static hsc_site watched_site(const hsc__generate *g)
{
    return g->reads_source ? HSC_CROSS_PATTERN : HSC_PATTERN;
}

int hsc__watch_records(const hsc__generate *g, hsc_record *list)
{
    const hsc__heads *heads = &g->o->watch;
    int n = 0;
    for (int i = 0; i < heads->n; i++) {
        bool known = false;
        for (int k = 0; k < n; k++) known = known || list[k].layer == heads->list[i].layer;
        if (!known)
            list[n++] = (hsc_record){.site = watched_site(g), .layer = heads->list[i].layer, .head = -1, .query = -1};
    }
    return n;
}

void hsc__watch_begin(const hsc__generate *g)
{
    if (g->o->json) return;
    bool beside = hsc__cli_width_of(stderr) >= LEAD + KEY_CELLS;
    fprintf(stderr, "%5s  %-*s  %-6s  %5s%s\n", "pos", REPR_WIDTH, "written", "head", "first",
            beside ? "  looked at, weight" : "");
}

/* The id at a position of the whole text. */
static hsc_token id_at(const hsc__generate *g, const hsc_sample *s, int pos)
{
    return pos < g->n_prompt ? g->prompt.encoding.ids[pos] : s->ids[pos - g->n_prompt];
}

static hsc__label text_of(const hsc__generate *g, hsc_token id, char digits[16])
{
    const hsc_tokenizer *tokenizer = hsc_model_target_tokenizer(g->opened.model, NULL);
    hsc__label label = {0};
    label.bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &label.n) : NULL;
    if (label.bytes) return label;
    label.n = (size_t)snprintf(digits, 16, "%d", (int)id);
    label.bytes = digits;
    return label;
}

/* The position in the text that a watched row's key is of, and its text. */
static int key_position(const hsc__generate *g, int key)
{
    return g->reads_source ? key : hsc_generator_position(g->generator, key);
}

static hsc__label key_text(const hsc__generate *g, const hsc_sample *s, int key, char digits[16])
{
    if (g->reads_source) return g->source.texts[key];
    return text_of(g, id_at(g, s, key_position(g, key)), digits);
}

/* A watched head's row: the heaviest keys, and the weight on the first token. */
typedef struct row {
    int layer, head, n;
    float first;
    hsc_key_weight keys[HSC__GENERATE_MAX_TOP];
} row;

static hsc_status read_row(const hsc__generate *g, int index, const hsc_sample *s, row *out, hsc_error *err)
{
    hsc_view view;
    out->layer = g->o->watch.list[index].layer;
    out->head = g->o->watch.list[index].head;
    HSC_TRY(hsc_session_activation(g->session, watched_site(g), out->layer, s->seq, &view, err));
    int n_query = (int)view.shape[1], n_key = (int)view.shape[2];
    const float *weights = view.data + ((size_t)out->head * (size_t)n_query + (size_t)n_query - 1) * (size_t)n_key;
    for (int i = 0; i < n_key; i++)
        HSC_FAIL_IF(isnan(weights[i]), HSC_EINVAL, "a weight of L%dH%d is not a number", out->layer, out->head);
    out->first = weights[0];
    out->n = hsc_top_keys(weights, n_key, g->o->include_first || n_key == 1 ? 0 : 1, g->o->top, out->keys);
    return HSC_OK;
}

/* A token in exactly REPR_WIDTH cells. */
static void add_token(hsc__string *line, const hsc__label *token)
{
    hsc__string whole = {0};
    size_t start = line->n;
    hsc__text_repr(&whole, token->bytes, token->n);
    if (whole.failed) line->failed = true;
    else hsc__text_cut(line, whole.data, whole.n, REPR_WIDTH);
    int cells = line->failed ? REPR_WIDTH : hsc__text_cells(line->data + start, line->n - start);
    hsc__string_printf(line, "%*s", REPR_WIDTH - cells, "");
    hsc__string_free(&whole);
}

/* As many keys in a line as the terminal holds, the others below them; all below where it is narrow. */
static void add_keys(const hsc__generate *g, const hsc_sample *s, const row *r, hsc__string *line)
{
    int width = hsc__cli_width_of(stderr), left = width >= LEAD + KEY_CELLS ? LEAD : INDENT;
    int per_line = (width - left) / KEY_CELLS > 1 ? (width - left) / KEY_CELLS : 1;
    for (int i = 0; i < r->n; i++) {
        char digits[16];
        hsc__label key = key_text(g, s, r->keys[i].key, digits);
        if (i % per_line == 0 && (i || left == INDENT)) hsc__string_printf(line, "\n%*s", left, "");
        hsc__string_text(line, "  ");
        add_token(line, &key);
        hsc__string_printf(line, " %.3f", (double)r->keys[i].weight);
    }
}

static void print_row(const hsc__generate *g, const hsc_sample *s, int index, const row *r)
{
    hsc__string line = {0};
    char digits[16], name[24];
    hsc__label written = text_of(g, s->ids[s->n - 1], digits);
    if (index == 0) {
        hsc__string_printf(&line, "%5d  ", g->n_prompt + s->n - 1);
        add_token(&line, &written);
    } else {
        hsc__string_printf(&line, "%5s  %-*s", "", REPR_WIDTH, "");
    }
    snprintf(name, sizeof name, "L%dH%d", r->layer, r->head);
    hsc__string_printf(&line, "  %-6s  %5.3f", name, (double)r->first);
    add_keys(g, s, r, &line);
    if (!line.failed) fprintf(stderr, "%s\n", line.data);
    hsc__string_free(&line);
}

static json_t *label_json(int pos, hsc__label label)
{
    return hsc__json_set_text(json_pack("{s:i}", "pos", pos), label.bytes, label.n);
}

static json_t *token_json(const hsc__generate *g, const hsc_sample *s, int pos)
{
    char digits[16];
    return label_json(pos, text_of(g, id_at(g, s, pos), digits));
}

static json_t *row_json(const hsc__generate *g, const hsc_sample *s, const row *r)
{
    json_t *object = json_object(), *keys = json_array();
    json_object_set_new(object, "layer", json_integer(r->layer));
    json_object_set_new(object, "head", json_integer(r->head));
    json_object_set_new(object, "first", hsc__json_number((double)r->first));
    for (int i = 0; i < r->n; i++) {
        char digits[16];
        json_t *key = label_json(key_position(g, r->keys[i].key), key_text(g, s, r->keys[i].key, digits));
        json_object_set_new(key, "weight", hsc__json_number((double)r->keys[i].weight));
        json_array_append_new(keys, key);
    }
    json_object_set_new(object, "keys", keys);
    return object;
}

hsc_status hsc__watch_show(hsc__generate *g, hsc_error *err)
{
    const hsc_sample *s = hsc_generator_sample(g->generator, 0);
    json_t *heads = NULL;
    if (!s->n || s->finish == HSC_FINISH_CALLER) return HSC_OK;
    if (g->o->json) {
        int pos = g->n_prompt + s->n - 1;
        json_t *token = token_json(g, s, pos);
        heads = json_array();
        json_object_set_new(token, "query", json_integer(pos - 1));
        json_object_set(token, "heads", heads);
        if (!g->watched) g->watched = json_array();
        json_array_append_new(g->watched, token);
    }
    hsc_status status = HSC_OK;
    for (int i = 0; i < g->o->watch.n && status == HSC_OK; i++) {
        row r = {0};
        status = read_row(g, i, s, &r, err);
        if (status != HSC_OK) break;
        if (heads) json_array_append_new(heads, row_json(g, s, &r));
        else print_row(g, s, i, &r);
    }
    json_decref(heads);
    return status;
}
