/*
 * headscope look --stats: what each head does over the whole text, from the statistics that the session takes while its
 * rows of weights pass by. No pattern is kept, so memory grows with the length of the text and not with its square.
 * Means are over the rows q >= 1, as everywhere in `look`.
 */
#include "cli/look.h"

#include "plot/table.h"

#include <math.h>
#include <string.h>

enum { BINS_A_GROUP = 3, MAX_COLUMNS = 6 + HSC__LOOK_MAX_BINS };

/* ----------------------------------------------------------------------------------------------- from the pass ---- */

static hsc__look_stats *stats_of(const hsc__look *look, int layer, int head)
{
    return &look->stats[(size_t)layer * (size_t)look->n_heads + (size_t)head];
}

/* Adds the rows q >= 1 of n rows that begin at `first`; figures[i * stride] is row i's. */
static void add_figures(double *sum, const float *figures, int first, int n, int stride)
{
    for (int i = first ? 0 : 1; i < n; i++) *sum += (double)figures[(size_t)i * (size_t)stride];
}

static int add_rows(void *user, const hsc_stats_rows *rows)
{
    static const hsc_stat single[] = {HSC_STAT_ENTROPY, HSC_STAT_SINK, HSC_STAT_SELF, HSC_STAT_PREV};
    hsc__look *look = user;
    int n = rows->n_rows, n_bins = look->n_bins = (int)rows->stat[HSC_STAT_DISTANCE].shape[2];
    for (int head = 0; head < look->n_heads; head++) {
        if (!hsc__look_chosen(look, rows->layer, head)) continue;
        hsc__look_stats *s = stats_of(look, rows->layer, head);
        double *const sums[] = {&s->entropy, &s->first, &s->self, &s->prev};
        size_t row = (size_t)head * (size_t)n;
        for (int i = 0; i < 4; i++) add_figures(sums[i], rows->stat[single[i]].data + row, rows->first_row, n, 1);
        const float *bins = rows->stat[HSC_STAT_DISTANCE].data + row * (size_t)n_bins;
        for (int b = 0; b < n_bins; b++) add_figures(&s->distance[b], bins + b, rows->first_row, n, n_bins);
    }
    return 0;
}

hsc_status hsc__look_collect(hsc__look *look, hsc_session *session, hsc_error *err)
{
    const hsc__layers *layers = &look->options->layers;
    const hsc__head *head = &look->options->head;
    bool one = layers->n == 1 && layers->range[0].first == layers->range[0].last;
    size_t n = (size_t)look->n_layers * (size_t)look->n_heads;
    hsc_stats_options o = {.layer = head->given ? head->layer
                                    : one       ? layers->range[0].first
                                                : -1,
                           .stats = ((1u << HSC_N_STATS) - 1) & ~(1u << HSC_STAT_TOPK),
                           .on_rows = add_rows,
                           .user = look,
                           .of_encoder = look->side == HSC__LOOK_ENCODER};
    look->stats = hsc__calloc(n, sizeof *look->stats);
    if (!look->stats) return hsc__fail_memory(err, n * sizeof *look->stats, "the heads' statistics");
    return hsc_session_collect(session, &o, err);
}

/* The key that receives most; the first token is left out unless the options or its being alone let it in. */
static hsc_status find_most(const hsc__look *look, int layer, int head, hsc__look_stats *out, hsc_error *err)
{
    int n = look->first.n_tokens;
    hsc_view received;
    hsc_key_weight best = {.key = -1};
    HSC_TRY(hsc_session_stat(look->first.session, HSC_STAT_RECEIVED, layer, 0, &received, err));
    hsc_top_keys(received.data + (size_t)head * (size_t)n, n, look->options->include_first || n == 1 ? 0 : 1, 1, &best);
    out->most = best.key;
    out->received = best.weight;
    return HSC_OK;
}

/* Sums become means. */
static void divide(hsc__look_stats *s, int n_bins, int n_rows)
{
    double *const sums[] = {&s->entropy, &s->first, &s->self, &s->prev};
    for (int i = 0; i < 4; i++) *sums[i] /= n_rows;
    for (int b = 0; b < n_bins; b++) s->distance[b] /= n_rows;
}

/* A row with NaN has NaN in the sum of its bins. */
static bool sound(const hsc__look_stats *s, int n_bins)
{
    double sum = s->entropy;
    for (int b = 0; b < n_bins; b++) sum += s->distance[b];
    return isfinite(sum) && s->most >= 0;
}

hsc_status hsc__look_summarise(hsc__look *look, hsc_error *err)
{
    int n_rows = look->first.n_tokens > 1 ? look->first.n_tokens - 1 : 1;
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            hsc__look_stats *s = stats_of(look, layer, head);
            divide(s, look->n_bins, n_rows);
            HSC_TRY(find_most(look, layer, head, s, err));
            if (!sound(s, look->n_bins)) return hsc__look_fail_number(layer, head, err);
        }
    }
    return HSC_OK;
}

/* The distances of bin b: 0, 1, 2 to 3, 4 to 7 and so on. */
static int bin_from(int b)
{
    return b ? 1 << (b - 1) : 0;
}

static int bin_to(int b)
{
    return b ? (int)((1u << b) - 1) : 0;
}

/* ------------------------------------------------------------------------------------------------------- text ---- */

/* Bins that one column of the table adds up. */
typedef struct group {
    int first, last;
    char name[32]; /* "2-7" */
} group;

/* Three bins a column, each eight times as far as the one before. The token itself has a column of its own, and so has
 * the one before it: only a model that sees both ways has more at distance 1. */
static int make_groups(const hsc__look *look, group *groups)
{
    int n = 0;
    for (int b = look->causal ? 2 : 1; b < look->n_bins; n++) {
        group *g = &groups[n];
        g->first = b;
        g->last = b == 1 ? 1 : b == 2 ? 3 : b + BINS_A_GROUP - 1;
        if (g->last >= look->n_bins) g->last = look->n_bins - 1;
        int from = bin_from(g->first), to = bin_to(g->last);
        if (to >= look->first.n_tokens) to = look->first.n_tokens - 1;
        if (from == to) snprintf(g->name, sizeof g->name, "%d", from);
        else snprintf(g->name, sizeof g->name, "%d-%d", from, to);
        b = g->last + 1;
    }
    return n;
}

static void add_row(const hsc__look *look, const group *groups, int n_groups, int layer, int head, hsc__string *cells)
{
    const hsc__look_stats *s = stats_of(look, layer, head);
    hsc__string_printf(cells, "L%dH%d\t%.2f\t%.2f\t%.2f\t%.2f\t", layer, head, s->entropy, s->first, s->self, s->prev);
    for (int i = 0; i < n_groups; i++) {
        double sum = 0;
        for (int b = groups[i].first; b <= groups[i].last; b++) sum += s->distance[b];
        hsc__string_printf(cells, "%.2f\t", sum);
    }
    hsc__look_repr(cells, &look->first.tokens, s->most);
    hsc__string_printf(cells, " (%d) %.2f\t", s->most, s->received);
}

static int make_columns(const group *groups, int n_groups, hsc__column *columns)
{
    static const hsc__column single[] = {{.head = "head"},
                                         {.head = "entropy", .right = true},
                                         {.head = "first", .right = true},
                                         {.head = "self", .right = true},
                                         {.head = "prev", .right = true}};
    enum { N_SINGLE = sizeof single / sizeof single[0] };
    memcpy(columns, single, sizeof single);
    for (int i = 0; i < n_groups; i++) columns[N_SINGLE + i] = (hsc__column){.head = groups[i].name, .right = true};
    columns[N_SINGLE + n_groups] = (hsc__column){.head = "receives most", .max_cells = 40};
    return N_SINGLE + n_groups + 1;
}

static void add_table(const hsc__look *look, hsc__string *out)
{
    group groups[HSC__LOOK_MAX_BINS];
    hsc__column columns[MAX_COLUMNS];
    int n_groups = make_groups(look, groups);
    hsc__table table = {columns, (size_t)make_columns(groups, n_groups, columns), 1, {0}};
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (hsc__look_chosen(look, layer, head)) add_row(look, groups, n_groups, layer, head, &table.cells);
        }
    }
    hsc__cli_table(out, &table);
}

void hsc__look_stats_text(const hsc__look *look, hsc__string *out)
{
    hsc__look_header(look, out);
    hsc__string_printf(out,
                       "means over the rows of %d token%s, position 0 left out: entropy in nats, weight\n"
                       "on the first token, the token itself, the one before, and by distance;\n"
                       "receives most: the key that all rows together give most, and how much\n\n",
                       look->first.n_tokens, HSC__PLURAL(look->first.n_tokens));
    add_table(look, out);
}

/* ---------------------------------------------------------------------------------------------- CSV and JSON ---- */

void hsc__look_stats_csv(const hsc__look *look, hsc__string *out)
{
    hsc__string_text(out, "layer,head,name,entropy,first,self,previous,most,most_text,received");
    for (int b = 0; b < look->n_bins; b++) hsc__string_printf(out, ",distance_%d_%d", bin_from(b), bin_to(b));
    hsc__string_text(out, "\r\n");
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            const hsc__look_stats *s = stats_of(look, layer, head);
            const double means[] = {s->entropy, s->first, s->self, s->prev};
            hsc__look_csv_head(out, layer, head);
            for (int i = 0; i < 4; i++) hsc__look_csv_number(out, (float)means[i]);
            hsc__look_csv_token(out, &look->first.tokens, s->most);
            hsc__look_csv_number(out, s->received);
            for (int b = 0; b < look->n_bins; b++) hsc__look_csv_number(out, (float)s->distance[b]);
            hsc__string_text(out, "\r\n");
        }
    }
}

static json_t *head_json(const hsc__look *look, int layer, int head)
{
    const hsc__look_stats *s = stats_of(look, layer, head);
    json_t *object = hsc__look_json_head(layer, head);
    json_object_set_new(object, "entropy", hsc__json_number(s->entropy));
    json_object_set_new(object, "first", hsc__json_number(s->first));
    json_object_set_new(object, "self", hsc__json_number(s->self));
    json_object_set_new(object, "previous", hsc__json_number(s->prev));
    json_object_set_new(object, "distance", hsc__json_numbers(s->distance, (size_t)look->n_bins));
    json_object_set_new(object, "most_received", hsc__json_weight(&look->first.tokens, s->most, s->received));
    return object;
}

json_t *hsc__look_stats_json(const hsc__look *look)
{
    json_t *root = hsc__look_json_start(look), *heads = json_array(), *distances = json_array();
    for (int b = 0; b < look->n_bins; b++)
        json_array_append_new(distances, json_pack("{s:i,s:i}", "from", bin_from(b), "to", bin_to(b)));
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (hsc__look_chosen(look, layer, head)) json_array_append_new(heads, head_json(look, layer, head));
        }
    }
    json_object_set_new(root, "distances", distances);
    json_object_set_new(root, "heads", heads);
    return root;
}
