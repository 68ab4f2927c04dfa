/* What `headscope detect` shows: the best heads of each detector with the text where they do it, or one detector's
 * heads ranked; the map; CSV and JSON. */
#include "cli/detect.h"

#include <math.h>
#include <string.h>

enum { TOP = 3, TOP_BY = 10, CONTEXT = 48, LEAST_CONTEXT = 8 };

/* The detector of --by; -1: all. */
static int chosen(const hsc__detect *detect)
{
    for (int d = 0; detect->options->by && d < HSC_N_DETECTORS; d++)
        if (strcmp(detect->options->by, hsc_detector_name((hsc_detector)d)) == 0) return d;
    return -1;
}

static void add_token(const hsc__detect *detect, hsc__string *out, hsc_token id)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(detect->opened.model, NULL);
    size_t n = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    if (bytes) hsc__string_add(out, bytes, n);
    else hsc__string_printf(out, " %d", id);
}

/* Decoded together, so that pieces of a word join and blanks stand where the text had them. */
static void add_tokens(const hsc__detect *detect, hsc__string *out, const hsc_token *ids, int n)
{
    const hsc_tokenizer *tokenizer = hsc_model_tokenizer(detect->opened.model, NULL);
    int64_t n_bytes = tokenizer ? hsc_decode(tokenizer, ids, (size_t)n, NULL, 0) : -1;
    char *bytes = n_bytes > 0 ? hsc__malloc((size_t)n_bytes) : NULL;
    if (bytes && hsc_decode(tokenizer, ids, (size_t)n, bytes, (size_t)n_bytes) == n_bytes)
        hsc__string_add(out, bytes, (size_t)n_bytes);
    else
        for (int i = 0; i < n && n_bytes; i++) add_token(detect, out, ids[i]);
    hsc__free(bytes);
}

void hsc__detect_example_text(const hsc__detect *detect, const hsc_detect_example *e, hsc__string *out)
{
    add_tokens(detect, out, e->tokens, e->n_tokens);
}

/* ---------------------------------------------------------------------------------------------------------- where ----
 */

void hsc__detect_add_where(const hsc__detect *detect, hsc__string *out)
{
    const hsc_detect_counts *c = &detect->counts;
    if (!c->on_random)
        hsc__string_printf(out, "%s: %d window%s of at most %d tokens, %d tokens%s\n", detect->corpus->path,
                           c->n_windows, HSC__PLURAL(c->n_windows), (int)HSC_DETECT_WINDOW, c->n_tokens,
                           c->is_cut ? "; the text goes on behind them, --windows takes more" : "");
    hsc__string_printf(out, "%s: %d random sequences of %d tokens twice, seed %d\n",
                       c->on_random ? "all detectors" : "induction", c->n_sequences, c->length, detect->options->seed);
    if (c->n_loaded)
        hsc__string_printf(out, "%d windows and sequences came from %s\n", c->n_loaded, detect->options->db);
    if (c->before >= 0) {
        hsc__string text = {0};
        add_token(detect, &text, c->before);
        hsc__string_text(out, "before every window: ");
        hsc__text_label(out, text.data, text.n);
        hsc__string_text(out, "\n");
        hsc__string_free(&text);
    } else {
        hsc__string_text(out, "before every window: nothing; --bos puts a token there\n");
    }
}

void hsc__json_set_where(json_t *object, const hsc__detect *detect)
{
    const hsc_detect_counts *c = &detect->counts;
    const char *path = detect->corpus->path;
    json_object_set_new(object, "text", path ? json_string(path) : json_null());
    json_object_set_new(object, "n_windows", json_integer(c->n_windows));
    json_object_set_new(object, "n_tokens", json_integer(c->n_tokens));
    json_object_set_new(object, "cut", json_boolean(c->is_cut));
    json_object_set_new(object, "n_sequences", json_integer(c->n_sequences));
    json_object_set_new(object, "length", json_integer(c->length));
    json_object_set_new(object, "n_loaded", json_integer(c->n_loaded));
    json_object_set_new(object, "seed", json_integer(detect->options->seed));
    json_object_set_new(object, "before", c->before >= 0 ? json_integer(c->before) : json_null());
}

/* ---------------------------------------------------------------------------------------------------------- table ----
 */

/* Cells that an example may take: the rest of its row, or of a row of its own where that is little. */
static int room_for_example(const hsc__detect *detect)
{
    enum { BEFORE = 49, BEFORE_ALONE = 21, TL = 9, ENOUGH = 56 };
    int beside = hsc__cli_width() - BEFORE - (detect->options->tl ? TL : 0);
    return beside >= ENOUGH ? beside : hsc__cli_width() - BEFORE_ALONE;
}

/* The end of a text that takes at most max_cells cells, a U+2026 before it where that is not the whole. */
static void add_end_of(hsc__string *out, const hsc__string *text, int max_cells)
{
    size_t from = 0;
    int cells = text->n ? hsc__text_cells(text->data, text->n) : 0;
    if (cells <= max_cells) max_cells++;
    while (from < text->n && cells >= max_cells) {
        int32_t c;
        from += (size_t)hsc__utf8_read(text->data + from, text->n - from, &c);
        cells = hsc__text_cells(text->data + from, text->n - from);
    }
    if (from) hsc__string_text(out, "\u2026");
    hsc__string_add(out, text->data + from, text->n - from);
}

/* The text of the query as it follows the tokens before it. */
static void add_query(const hsc__detect *detect, const hsc_detect_example *e, const hsc__string *before,
                      hsc__string *out)
{
    hsc__string whole = {0};
    add_tokens(detect, &whole, e->tokens, e->n_tokens);
    bool goes_on = whole.n > before->n && (!before->n || memcmp(whole.data, before->data, before->n) == 0);
    if (goes_on) hsc__string_add(out, whole.data + before->n, whole.n - before->n);
    else add_token(detect, out, e->tokens[e->n_tokens - 1]);
    if (whole.failed) out->failed = true;
    hsc__string_free(&whole);
}

/* The end of the text up to the query, in [ ], and the key. */
static void add_example(const hsc__detect *detect, const hsc_detect_example *e, hsc__string *out)
{
    hsc__string before = {0}, context = {0}, text = {0}, pair = {0};
    if (!e->n_tokens) return;
    add_tokens(detect, &before, e->tokens, e->n_tokens - 1);
    size_t from = before.n > CONTEXT ? before.n - CONTEXT : 0;
    while (from < before.n && ((unsigned char)before.data[from] & 0xC0) == 0x80) from++;
    if (before.n) hsc__text_label(&context, before.data + from, before.n - from);
    add_query(detect, e, &before, &text);
    hsc__string_text(&pair, "[");
    hsc__text_label(&pair, text.data, text.n);
    text.n = 0;
    add_token(detect, &text, e->key_id);
    hsc__string_text(&pair, "] -> ");
    hsc__text_label(&pair, text.data, text.n);
    hsc__string_printf(&pair, " (%d to %d)", e->query, e->key);
    if (before.failed || context.failed || text.failed || pair.failed) out->failed = true;
    hsc__string_printf(out, "%.3f ", (double)e->weight);
    if (!out->failed) {
        int room = room_for_example(detect) - (int)strlen("0.000 ") - hsc__text_cells(pair.data, pair.n);
        add_end_of(out, &context, room > LEAST_CONTEXT ? room : LEAST_CONTEXT);
        hsc__string_add(out, pair.data, pair.n);
    }
    hsc__string_free(&before);
    hsc__string_free(&context);
    hsc__string_free(&text);
    hsc__string_free(&pair);
}

static void add_row(const hsc__detect *detect, int detector, int head, hsc__string *cells)
{
    const hsc_detect_score *s = hsc__detect_score(detect, detector, head);
    hsc__string_printf(cells, "%s\t", hsc_detector_name((hsc_detector)detector));
    hsc__cell_head(cells, head / detect->counts.n_heads, head % detect->counts.n_heads);
    hsc__cell_number(cells, 4, s->score);
    hsc__cell_interval(cells, s->ci);
    if (detect->options->tl) hsc__cell_number(cells, 4, s->tl);
    else hsc__string_text(cells, "\t");
    add_example(detect, &s->best, cells);
    hsc__string_text(cells, "\t");
}

static void add_detector(const hsc__detect *detect, int detector, double *values, int *order, hsc__string *cells)
{
    int n = detect->options->top ? detect->options->top : chosen(detect) < 0 ? TOP : TOP_BY;
    for (int h = 0; h < detect->n_heads; h++) values[h] = hsc__detect_score(detect, detector, h)->score;
    if (isnan(values[0])) {
        hsc__string_printf(cells, "%s\t-\t-\t-\t\tno row can have it\t", hsc_detector_name((hsc_detector)detector));
        return;
    }
    hsc__rank_heads(values, detect->n_heads, detector == HSC_DETECT_ENTROPY, order);
    for (int i = 0; i < n && i < detect->n_heads; i++) add_row(detect, detector, order[i], cells);
}

/* Of the heads that stand in the table of one detector. */
static void add_profiles(const hsc__detect *detect, const int *order, hsc__string *out)
{
    enum { N = 1 + HSC_DETECT_BINS };
    static const hsc__column columns[N] = {{.head = "head"},
                                           {.head = "0", .right = true},
                                           {.head = "1", .right = true},
                                           {.head = "2-3", .right = true},
                                           {.head = "4-7", .right = true},
                                           {.head = "8-15", .right = true},
                                           {.head = "16-31", .right = true},
                                           {.head = "32-63", .right = true},
                                           {.head = "64-127", .right = true},
                                           {.head = "128-", .right = true}};
    hsc__table table = {columns, N, 1, {0}};
    int n = detect->options->top ? detect->options->top : TOP_BY;
    for (int i = 0; i < n && i < detect->n_heads; i++) {
        const double *bins = detect->profile + (size_t)order[i] * HSC_DETECT_BINS;
        hsc__cell_head(&table.cells, order[i] / detect->counts.n_heads, order[i] % detect->counts.n_heads);
        for (int b = 0; b < HSC_DETECT_BINS; b++) hsc__cell_number(&table.cells, 3, bins[b]);
    }
    hsc__string_text(out, "\nmean weight by distance\n");
    hsc__cli_table(out, &table);
}

static hsc_status add_table(const hsc__detect *detect, hsc__string *out, hsc_error *err)
{
    const hsc__column columns[] = {{.head = "detector"},
                                   {.head = "head"},
                                   {.head = "score", .right = true},
                                   {.head = "95% interval", .right = true},
                                   {.head = detect->options->tl ? "tl" : "", .right = true},
                                   {.head = "best example: [query] -> key"}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 2, {0}};
    double *values = hsc__calloc((size_t)detect->n_heads, sizeof *values);
    int *order = hsc__calloc((size_t)detect->n_heads, sizeof *order);
    int by = chosen(detect);
    hsc__string_printf(out,
                       "\nranked among %d heads; entropy in nats, lowest first; the example is the row where a head "
                       "does it most\n",
                       detect->n_heads);
    for (int d = 0; values && order && d < HSC_N_DETECTORS; d++)
        if (by < 0 || by == d) add_detector(detect, d, values, order, &table.cells);
    hsc__cli_table(out, &table);
    if (by >= 0 && values && order && !isnan(values[0])) add_profiles(detect, order, out);
    hsc_status status = values && order ? HSC_OK : hsc__fail_memory(err, sizeof *values, "the table");
    hsc__free(values);
    hsc__free(order);
    return status;
}

hsc_status hsc__detect_text(const hsc__detect *detect, hsc__string *out, hsc_error *err)
{
    const hsc_detect_counts *c = &detect->counts;
    hsc__string_printf(out, "%s: %d layers; %d heads per layer (", detect->opened.name, c->n_layers, c->n_heads);
    hsc__pass_describe(out, &detect->options->pass, detect->opened.model);
    hsc__string_text(out, ")\n");
    hsc__detect_add_where(detect, out);
    HSC_TRY(add_table(detect, out, err));
    hsc__string_text(out, "\n");
    return hsc__detect_map(detect, out, err);
}

/* ------------------------------------------------------------------------------------------------------------ map ----
 */

hsc_status hsc__detect_map(const hsc__detect *detect, hsc__string *out, hsc_error *err)
{
    int detector = chosen(detect) < 0 ? HSC_DETECT_INDUCTION : chosen(detect);
    const char *name = hsc_detector_name((hsc_detector)detector);
    hsc__string title = {0};
    double *values = hsc__calloc((size_t)detect->n_heads, sizeof *values);
    hsc__string_printf(&title, "%s%s: %s", detect->opened.name, hsc__cli_stack(&detect->opened), name);
    hsc_status status = HSC_OK;
    if (!values || title.failed) status = hsc__fail_memory(err, sizeof *values, "the map");
    for (int h = 0; status == HSC_OK && h < detect->n_heads; h++)
        values[h] = hsc__detect_score(detect, detector, h)->score;
    hsc__head_map map = {title.data, name, detect->counts.n_layers, detect->counts.n_heads, values};
    if (status == HSC_OK)
        status = out ? hsc__head_map_show(out, &map, err) : hsc__head_map_plot(detect->options->plot, &map, err);
    hsc__string_free(&title);
    hsc__free(values);
    return status;
}

/* --------------------------------------------------------------------------------------------------- CSV and JSON ----
 */

static void add_csv_row(const hsc__detect *detect, int detector, int head, hsc__string *out)
{
    const hsc_detect_score *s = hsc__detect_score(detect, detector, head);
    int layer = head / detect->counts.n_heads, h = head % detect->counts.n_heads;
    hsc__string_printf(out, "%d,%d,L%dH%d,%s", layer, h, layer, h, hsc_detector_name((hsc_detector)detector));
    const double values[] = {s->score, s->ci.low, s->ci.high, s->tl};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) hsc__csv_number(out, values[k]);
    if (s->best.n_tokens) {
        hsc__string text = {0};
        hsc__csv_number(out, (double)s->best.weight);
        hsc__string_printf(out, ",%d,%d,%d,", s->best.window, s->best.query, s->best.key);
        hsc__detect_example_text(detect, &s->best, &text);
        hsc__csv_field(out, text.data, text.n);
        hsc__string_free(&text);
    } else {
        hsc__string_text(out, ",,,,,");
    }
    hsc__string_text(out, "\n");
}

void hsc__detect_csv(const hsc__detect *detect, hsc__string *out)
{
    hsc__string_text(out, "layer,head,name,detector,score,ci_low,ci_high,tl,best,window,query,key,text\n");
    for (int h = 0; h < detect->n_heads; h++)
        for (int d = 0; d < HSC_N_DETECTORS; d++) add_csv_row(detect, d, h, out);
}

static json_t *json_example(const hsc__detect *detect, const hsc_detect_example *e)
{
    hsc__string text = {0};
    if (!e->n_tokens) return json_null();
    json_t *object = json_pack("{s:i, s:i, s:i}", "window", e->window, "query", e->query, "key", e->key);
    json_object_set_new(object, "weight", hsc__json_number((double)e->weight));
    hsc__detect_example_text(detect, e, &text);
    if (!text.failed) hsc__json_set_text(object, text.data, text.n);
    text.n = 0;
    json_t *key = json_pack("{s:i}", "id", (int)e->key_id);
    add_token(detect, &text, e->key_id);
    if (!text.failed) hsc__json_set_text(key, text.data, text.n);
    json_object_set_new(object, "key_token", key);
    hsc__string_free(&text);
    return object;
}

static json_t *json_scores(const hsc__detect *detect, int head)
{
    json_t *all = json_object();
    for (int d = 0; d < HSC_N_DETECTORS; d++) {
        const hsc_detect_score *s = hsc__detect_score(detect, d, head);
        json_t *one = json_object();
        json_object_set_new(one, "score", hsc__json_number(s->score));
        json_object_set_new(one, "ci", hsc__json_interval(s->ci));
        json_object_set_new(one, "tl", hsc__json_number(s->tl));
        json_object_set_new(one, "best", json_example(detect, &s->best));
        json_object_set_new(all, hsc_detector_name((hsc_detector)d), one);
    }
    return all;
}

static json_t *json_head(const hsc__detect *detect, int h)
{
    char name[32];
    int layer = h / detect->counts.n_heads, head = h % detect->counts.n_heads;
    snprintf(name, sizeof name, "L%dH%d", layer, head);
    json_t *object = json_pack("{s:i, s:i, s:s}", "layer", layer, "head", head, "name", name);
    json_object_set_new(object, "scores", json_scores(detect, h));
    const double *profile = detect->profile + (size_t)h * HSC_DETECT_BINS;
    json_object_set_new(object, "distance", hsc__json_numbers(profile, HSC_DETECT_BINS));
    return object;
}

json_t *hsc__detect_json(const hsc__detect *detect)
{
    json_t *root = json_object(), *heads = json_array();
    json_object_set_new(root, "model", hsc__json_model(&detect->opened));
    if (hsc_model_encoder(detect->opened.model)) json_object_set_new(root, "side", json_string("encoder"));
    hsc__json_set_pass(root, &detect->options->pass, detect->opened.model);
    hsc__json_set_where(root, detect);
    for (int h = 0; h < detect->n_heads; h++) json_array_append_new(heads, json_head(detect, h));
    json_object_set_new(root, "heads", heads);
    return root;
}
