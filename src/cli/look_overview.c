/*
 * The overview of `headscope look`: a grid of layers and heads, one letter each for what the head mostly does, and the
 * strongest links that are not to the first token, the token itself or the one before it.
 */
#include "cli/heads.h"
#include "cli/look.h"

#include "plot/table.h"

#include <math.h>

typedef enum { KIND_FIRST, KIND_SELF, KIND_PREVIOUS, KIND_LAST, KIND_SPREAD, KIND_OTHER, N_KINDS } head_kind;

typedef struct kind_look {
    const char *name;   /* in JSON and CSV */
    const char *colour; /* SGR */
    char letter;
    const char *help;
} kind_look;

static const kind_look kinds[N_KINDS] = {
    [KIND_FIRST] = {"first", "34", 'f', "the first token (the attention sink)"},
    [KIND_SELF] = {"self", "32", 's', "the token itself"},
    [KIND_PREVIOUS] = {"previous", "33", 'p', "the token before"},
    [KIND_LAST] = {"last", "36", 'l', "the last token of the source, which mostly ends it"},
    [KIND_SPREAD] = {"spread", "2", '=', "all tokens about evenly (entropy at least 0.9 of the most possible)"},
    [KIND_OTHER] = {"other", "35", 'o', "other tokens"},
};

/* Cross-attention has no token itself and none before it; the others have no end that is looked at. */
static bool has_kind(const hsc__look *look, int kind)
{
    bool cross = look->side == HSC__LOOK_CROSS;
    return kind == KIND_LAST ? cross : !cross || (kind != KIND_SELF && kind != KIND_PREVIOUS);
}

static const double EVEN = 0.9, MAINLY = 0.5;

/* The entropy of equal weights, averaged as the summary averages it. */
static double most_entropy(const hsc__look *look)
{
    double sum = 0;
    int n = look->first.n_tokens;
    if (look->side == HSC__LOOK_CROSS) return log(look->first.n_keys);
    for (int query = 1; query < n; query++) sum += log(hsc__look_n_visible(look, query));
    return n > 1 ? sum / (n - 1) : 0;
}

static head_kind classify(const hsc__look *look, const hsc_head_summary *s, float *share)
{
    const float shares[N_KINDS] = {[KIND_FIRST] = s->first,
                                   [KIND_SELF] = s->self,
                                   [KIND_PREVIOUS] = s->prev,
                                   [KIND_LAST] = s->last,
                                   [KIND_OTHER] = s->other};
    head_kind kind = KIND_FIRST;
    for (int k = 0; k < N_KINDS; k++) {
        if (shares[k] > shares[kind]) kind = (head_kind)k;
    }
    *share = shares[kind];
    double most = most_entropy(look);
    if (most > 0 && (double)s->entropy >= EVEN * most) return KIND_SPREAD;
    return kind;
}

/* ------------------------------------------------------------------------------------------------------- text ---- */

static void add_cell(const hsc__look *look, hsc__string *out, int layer, int head, int width, bool colour)
{
    if (!hsc__look_chosen(look, layer, head)) {
        hsc__string_printf(out, "%*s", width, "");
        return;
    }
    float share;
    hsc_head_summary summary = hsc_overview_head(look->first.overview, layer, head);
    const kind_look *kind = &kinds[classify(look, &summary, &share)];
    bool mainly = (double)share >= MAINLY && kind->letter >= 'a';
    char letter = mainly ? (char)(kind->letter - 'a' + 'A') : kind->letter;
    hsc__string_printf(out, "%*s", width - 1, "");
    if (colour) hsc__string_printf(out, "\033[%s%sm%c\033[0m", kind->colour, mainly ? ";1" : "", letter);
    else hsc__string_add(out, &letter, 1);
}

static int digits(int n)
{
    int count = 1;
    for (; n >= 10; n /= 10) count++;
    return count;
}

/* How the grid is laid out: cells of a head, cells in front of a row, and how many heads stand side by side. */
typedef struct grid_layout {
    int cell, label, n_across;
    bool brief; /* rows are "L13" instead of "layer 14 (L13)" */
} grid_layout;

/* A grid that is wider than the terminal gets short names of its layers; what is still too wide goes on below. */
static grid_layout lay_out(const hsc__look *look)
{
    grid_layout grid = {
        .cell = digits(look->n_heads - 1) + 2, .label = 2 * digits(look->n_layers) + 10, .n_across = look->n_heads};
    int width = hsc__cli_width();
    if (grid.label + look->n_heads * grid.cell <= width) return grid;
    grid.brief = true;
    grid.label = 1 + digits(look->n_layers - 1);
    int fitting = (width - grid.label) / grid.cell;
    if (fitting < grid.n_across) grid.n_across = fitting > 0 ? fitting : 1;
    return grid;
}

/* The heads from `first` on that stand side by side, in all layers. */
static void add_block(const hsc__look *look, hsc__string *out, const grid_layout *grid, int first, bool colour)
{
    int number = digits(look->n_layers), end = first + grid->n_across;
    if (end > look->n_heads) end = look->n_heads;
    hsc__string_printf(out, "%*s", grid->label, "");
    for (int head = first; head < end; head++)
        hsc__string_printf(out, "%*sH%d", grid->cell - 1 - digits(head), "", head);
    hsc__string_text(out, "\n");
    for (int layer = 0; layer < look->n_layers; layer++) {
        if (!hsc__layers_have(&look->options->layers, layer)) continue;
        if (grid->brief) hsc__string_printf(out, "L%-*d", grid->label - 1, layer);
        else hsc__string_printf(out, "layer %*d (L%d)%*s", number, layer + 1, layer, number - digits(layer), "");
        for (int head = first; head < end; head++) add_cell(look, out, layer, head, grid->cell, colour);
        hsc__string_text(out, "\n");
    }
}

static void add_legend(const hsc__look *look, hsc__string *out)
{
    for (int k = 0; k < N_KINDS; k++) {
        if (!has_kind(look, k)) continue;
        bool first_of_source = k == KIND_FIRST && look->side == HSC__LOOK_CROSS;
        hsc__string_printf(out, k ? "  %c  %s\n" : "\neach head looks mostly at\n  %c  %s\n", kinds[k].letter,
                           first_of_source ? "the first token of the source" : kinds[k].help);
    }
    hsc__string_printf(out, "in capitals: at least half of its weight, the mean over %s\n",
                       look->side == HSC__LOOK_CROSS ? "the tokens of the target" : "positions from 1 on");
}

static void add_grid(const hsc__look *look, hsc__string *out, bool colour)
{
    grid_layout grid = lay_out(look);
    for (int first = 0; first < look->n_heads; first += grid.n_across) {
        if (first > 0) hsc__string_text(out, "\n");
        add_block(look, out, &grid, first, colour);
    }
    add_legend(look, out);
}

/* The strongest links of the layers that --layer leaves in. Returns how many. */
static int chosen_links(const hsc__look *look, hsc_link *out)
{
    unsigned char *layers = hsc__calloc((size_t)look->n_layers, 1);
    if (!layers) return 0;
    for (int layer = 0; layer < look->n_layers; layer++)
        layers[layer] = hsc__layers_have(&look->options->layers, layer);
    int n = hsc_overview_links(look->first.overview, layers, out, HSC__LOOK_LINKS);
    hsc__free(layers);
    return n;
}

static void add_links(const hsc__look *look, hsc__string *out)
{
    static const hsc__column columns[] = {
        {.head = NULL}, {.max_cells = 40, .least_cells = 8}, {.max_cells = 40, .least_cells = 11}, {.right = true}};
    hsc_link links[HSC__LOOK_LINKS];
    int n = chosen_links(look, links);
    if (n == 0) return;
    hsc__string_printf(out, "\nstrongest links but those to %s\n",
                       look->side == HSC__LOOK_CROSS ? "the last token of the source"
                                                     : "the first token, to itself, to the one before");
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) {
        hsc__cell_head_name(&table.cells, links[i].layer, links[i].head);
        hsc__look_repr(&table.cells, &look->first.tokens, links[i].query);
        hsc__string_printf(&table.cells, " (%d)\t-> ", links[i].query);
        hsc__look_repr(&table.cells, look->first.keys, links[i].key);
        hsc__string_printf(&table.cells, " (%d)\t%.2f\t", links[i].key, (double)links[i].weight);
    }
    hsc__cli_table(out, &table);
}

void hsc__look_overview_text(const hsc__look *look, hsc__string *out)
{
    hsc__look_header(look, out);
    add_grid(look, out, hsc__cli_colours(stdout));
    add_links(look, out);
}

/* ---------------------------------------------------------------------------------------------- CSV and JSON ---- */

void hsc__look_overview_csv(const hsc__look *look, hsc__string *out)
{
    bool cross = look->side == HSC__LOOK_CROSS;
    hsc__string_printf(out, "layer,head,name,kind,first,%s,other,entropy\r\n", cross ? "last" : "self,previous");
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            float share;
            hsc_head_summary s = hsc_overview_head(look->first.overview, layer, head);
            const float own[] = {s.first, s.self, s.prev, s.other, s.entropy};
            const float of_cross[] = {s.first, s.last, s.other, s.entropy};
            hsc__look_csv_head(out, layer, head);
            hsc__string_printf(out, ",%s", kinds[classify(look, &s, &share)].name);
            for (int i = 0; i < (cross ? 4 : 5); i++) hsc__look_csv_number(out, cross ? of_cross[i] : own[i]);
            hsc__string_text(out, "\r\n");
        }
    }
}

static json_t *links_json(const hsc__look *look)
{
    hsc_link links[HSC__LOOK_LINKS];
    int n = chosen_links(look, links);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *object = hsc__look_json_head(links[i].layer, links[i].head);
        json_object_set_new(object, "query", hsc__json_token(&look->first.tokens, links[i].query));
        json_object_set_new(object, "key", hsc__json_token(look->first.keys, links[i].key));
        json_object_set_new(object, "weight", hsc__json_number((double)links[i].weight));
        json_array_append_new(list, object);
    }
    return list;
}

json_t *hsc__look_overview_json(const hsc__look *look)
{
    json_t *root = hsc__look_json_start(look), *heads = json_array();
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            float share;
            hsc_head_summary s = hsc_overview_head(look->first.overview, layer, head);
            json_t *object = hsc__look_json_head(layer, head);
            json_object_set_new(object, "kind", json_string(kinds[classify(look, &s, &share)].name));
            json_object_set_new(object, "first", hsc__json_number((double)s.first));
            if (look->side == HSC__LOOK_CROSS) {
                json_object_set_new(object, "last", hsc__json_number((double)s.last));
            } else {
                json_object_set_new(object, "self", hsc__json_number((double)s.self));
                json_object_set_new(object, "previous", hsc__json_number((double)s.prev));
            }
            json_object_set_new(object, "other", hsc__json_number((double)s.other));
            json_object_set_new(object, "entropy", hsc__json_number((double)s.entropy));
            json_array_append_new(heads, object);
        }
    }
    json_object_set_new(root, "heads", heads);
    json_object_set_new(root, "links", links_json(look));
    return root;
}
