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

hsc_status hsc__look_collect(const hsc__look *look, hsc_session *session, hsc_error *err)
{
    const hsc__layers *layers = &look->options->layers;
    const hsc__head *head = &look->options->head;
    bool one = layers->n == 1 && layers->range[0].first == layers->range[0].last;
    hsc_stats_options o = {.layer = head->given ? head->layer
                                    : one       ? layers->range[0].first
                                                : -1,
                           .stats = ((1u << HSC_N_STATS) - 1) & ~(1u << HSC_STAT_TOPK)};
    return hsc_session_collect(session, &o, err);
}

/* Mean over the rows q >= 1 of one figure a row. */
static double mean_of_rows(const float *rows, int n, int stride)
{
    double sum = 0;
    for (int query = 1; query < n; query++) sum += (double)rows[(size_t)query * (size_t)stride];
    return n > 1 ? sum / (n - 1) : 0;
}

/* Where head `head` of a layer begins in a statistic. */
static hsc_status head_of(const hsc__look *look, hsc_stat stat, int layer, int head, hsc_view *view, hsc_error *err)
{
    HSC_TRY(hsc_session_stat(look->first.session, stat, layer, 0, view, err));
    size_t size = (size_t)view->shape[1] * (view->n_dims == 3 ? (size_t)view->shape[2] : 1);
    view->data += (size_t)head * size;
    return HSC_OK;
}

/* The key that receives most; the first token is left out unless the options or its being alone let it in. */
static void find_most(const hsc__look *look, const float *received, hsc__look_stats *out)
{
    int n = look->first.n_tokens;
    hsc_key_weight best = {.key = -1};
    hsc_top_keys(received, n, look->options->include_first || n == 1 ? 0 : 1, 1, &best);
    out->most = best.key;
    out->received = best.weight;
}

static hsc_status summarise(hsc__look *look, int layer, int head, hsc__look_stats *out, hsc_error *err)
{
    static const hsc_stat single[] = {HSC_STAT_ENTROPY, HSC_STAT_SINK, HSC_STAT_SELF, HSC_STAT_PREV};
    double *const fields[] = {&out->entropy, &out->first, &out->self, &out->prev};
    int n = look->first.n_tokens;
    hsc_view view;
    for (int i = 0; i < 4; i++) {
        HSC_TRY(head_of(look, single[i], layer, head, &view, err));
        *fields[i] = mean_of_rows(view.data, n, 1);
    }
    HSC_TRY(head_of(look, HSC_STAT_DISTANCE, layer, head, &view, err));
    look->n_bins = (int)view.shape[2];
    for (int b = 0; b < look->n_bins; b++) out->distance[b] = mean_of_rows(view.data + b, n, look->n_bins);
    HSC_TRY(head_of(look, HSC_STAT_RECEIVED, layer, head, &view, err));
    find_most(look, view.data, out);
    return HSC_OK;
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
    size_t n = (size_t)look->n_layers * (size_t)look->n_heads;
    look->stats = hsc__calloc(n, sizeof *look->stats);
    if (!look->stats) return hsc__fail_memory(err, n * sizeof *look->stats, "the heads' statistics");
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            hsc__look_stats *s = &look->stats[(size_t)layer * (size_t)look->n_heads + (size_t)head];
            HSC_TRY(summarise(look, layer, head, s, err));
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
    const hsc__look_stats *s = &look->stats[(size_t)layer * (size_t)look->n_heads + (size_t)head];
    const double means[] = {s->entropy, s->first, s->self, s->prev};
    hsc__look_name_head(cells++, layer, head);
    for (int i = 0; i < 4; i++) hsc__string_printf(cells++, "%.2f", means[i]);
    for (int i = 0; i < n_groups; i++) {
        double sum = 0;
        for (int b = groups[i].first; b <= groups[i].last; b++) sum += s->distance[b];
        hsc__string_printf(cells++, "%.2f", sum);
    }
    hsc__look_repr(cells, &look->first, s->most);
    hsc__string_printf(cells, " (%d) %.2f", s->most, s->received);
}

static int make_columns(const group *groups, int n_groups, hsc__column *columns)
{
    static const hsc__column single[] = {
        {"head", false, 0}, {"entropy", true, 0}, {"first", true, 0}, {"self", true, 0}, {"prev", true, 0}};
    enum { N_SINGLE = sizeof single / sizeof single[0] };
    memcpy(columns, single, sizeof single);
    for (int i = 0; i < n_groups; i++) columns[N_SINGLE + i] = (hsc__column){groups[i].name, true, 0};
    columns[N_SINGLE + n_groups] = (hsc__column){"receives most", false, 40};
    return N_SINGLE + n_groups + 1;
}

static void add_table(const hsc__look *look, hsc__string *out)
{
    group groups[HSC__LOOK_MAX_BINS];
    hsc__column columns[MAX_COLUMNS];
    int n_groups = make_groups(look, groups), n_columns = make_columns(groups, n_groups, columns);
    size_t most = (size_t)look->n_layers * (size_t)look->n_heads * (size_t)n_columns, n = 0;
    hsc__string *text = hsc__calloc(most, sizeof *text);
    const char **cells = hsc__calloc(most, sizeof *cells);
    for (int layer = 0; text && cells && layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            add_row(look, groups, n_groups, layer, head, &text[n]);
            n += (size_t)n_columns;
        }
    }
    for (size_t i = 0; text && cells && i < n; i++) {
        if (text[i].failed) out->failed = true;
        cells[i] = text[i].data;
    }
    if (!text || !cells ||
        hsc__table_write(out, columns, (size_t)n_columns, cells, n / (size_t)n_columns, NULL) != HSC_OK)
        out->failed = true;
    for (size_t i = 0; text && i < n; i++) hsc__string_free(&text[i]);
    hsc__free(text);
    hsc__free(cells);
}

void hsc__look_stats_text(const hsc__look *look, hsc__string *out)
{
    hsc__look_header(look, out);
    hsc__string_printf(out,
                       "means over the rows of %d tokens, position 0 left out: entropy in nats, weight\n"
                       "on the first token, the token itself, the one before, and by distance;\n"
                       "receives most: the key that all rows together give most, and how much\n\n",
                       look->first.n_tokens);
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
            const hsc__look_stats *s = &look->stats[(size_t)layer * (size_t)look->n_heads + (size_t)head];
            const double means[] = {s->entropy, s->first, s->self, s->prev};
            hsc__look_csv_head(out, layer, head);
            for (int i = 0; i < 4; i++) hsc__look_csv_number(out, (float)means[i]);
            hsc__look_csv_token(out, &look->first, s->most);
            hsc__look_csv_number(out, s->received);
            for (int b = 0; b < look->n_bins; b++) hsc__look_csv_number(out, (float)s->distance[b]);
            hsc__string_text(out, "\r\n");
        }
    }
}

static json_t *head_json(const hsc__look *look, int layer, int head)
{
    const hsc__look_stats *s = &look->stats[(size_t)layer * (size_t)look->n_heads + (size_t)head];
    json_t *object = hsc__look_json_head(layer, head), *distance = json_array();
    for (int b = 0; b < look->n_bins; b++) json_array_append_new(distance, hsc__json_number(s->distance[b]));
    json_object_set_new(object, "entropy", hsc__json_number(s->entropy));
    json_object_set_new(object, "first", hsc__json_number(s->first));
    json_object_set_new(object, "self", hsc__json_number(s->self));
    json_object_set_new(object, "previous", hsc__json_number(s->prev));
    json_object_set_new(object, "distance", distance);
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
