/* headscope values: attention weighted by the size of what it moves, beside the weights themselves. */
#include "cli/heads.h"
#include "cli/reading.h"
#include "headscope/analysis.h"

#include <string.h>

typedef struct values {
    hsc__reading_options r;
    hsc__layers layers;
    hsc__head head;
    int norm; /* hsc_norm_of */
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    HSC__OPTION_HEADING("What is asked"),
    HSC__READING_WHERE(values, r),
    OPTION("layer", 'l', HSC__OPT_LAYERS, "LAYERS", layers, 0, 0, "Heads of these layers. Default: all."),
    OPTION("head", 0, HSC__OPT_HEAD, "L4H3", head, 0, 0, "This head alone, with the map of all its queries."),
    OPTION("norm", 0, HSC__OPT_CHOICE, "out|v", norm, 0, 0,
           "The size of what is moved: of v W_O as the stream gets it (default), or of the value v alone."),
    HSC__OPTION_HEADING("What is shown"),
    OPTION("top", 'k', HSC__OPT_INT, "K", r.top, 1, 1000, "Tokens of each head. Default: 1, and 10 with --head."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0, "The map of --head as .png, .svg or .pdf."),
    HSC__OPTION_HEADING("The pass"),
    HSC__READING_PASS(values, r),
};

static const hsc__command command = {
    .name = "values",
    .usage = "-m MODEL TEXT [--layer LAYERS | --head L4H3]",
    .about =
        "A head may look hard at a token and move nothing: its value is small. Here each weight is multiplied by the "
        "size of what it moves, |v W_O| (Kobayashi et al. 2020). The share is of all that the head moves to the "
        "token.\n"
        "The first token of a text often gets the most weight and the smallest values: a resting place.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope values -m gpt2 --token \" it\" --layer L4-L6 \\\n"
                "    \"The animal didn't cross the street because it was too tired\"\n"
                "headscope values -m gpt2 \"...\" --head L4H3 --plot moved.png",
    .min_args = 0,
    .max_args = 1,
};

typedef struct job {
    const values *v;
    hsc__reading r;
    float *sizes;   /* [n_layers][n_heads][n] */
    float *rows;    /* [n_layers][n_heads][n]: weights of the query */
    float *pattern; /* --head: [n][n], NULL else */
    int n_layers, n_heads;
} job;

static size_t place(const job *j, int layer, int head)
{
    return ((size_t)layer * (size_t)j->n_heads + (size_t)head) * (size_t)j->r.n_tokens;
}

static bool shown(const job *j, int layer, int head)
{
    const hsc__head *one = &j->v->head;
    if (one->given) return layer == one->layer && head == one->head;
    return hsc__layers_have(&j->v->layers, layer);
}

static int keep_rows(void *user, const hsc_block *b)
{
    job *j = user;
    for (int i = 0; i < b->n_rows; i++) {
        const float *row = b->data + (size_t)i * b->stride;
        size_t n = (size_t)b->row_size * sizeof *row;
        if (b->first_row + i == j->r.pos) memcpy(j->rows + place(j, b->layer, b->head), row, n);
        if (j->pattern && shown(j, b->layer, b->head))
            memcpy(j->pattern + (size_t)(b->first_row + i) * (size_t)j->r.n_tokens, row, n);
    }
    return 0;
}

static hsc_status run_patterns(job *j, hsc_error *err)
{
    hsc_session *session = NULL;
    hsc_session_options o = {
        .n_threads = j->v->r.threads, .max_tokens = j->r.n_tokens, .compute = (hsc_compute)j->v->r.compute};
    hsc_observer observer = {HSC_PATTERN, -1, keep_rows, j};
    hsc_batch batch = {.ids = j->r.tokens.encoding.ids, .n_tokens = j->r.n_tokens, .logits = HSC_LOGITS_NONE};
    hsc_status status = hsc_session_new(&session, j->r.opened.model, &o, err);
    if (status == HSC_OK) status = hsc_session_observe(session, &observer, err);
    if (status == HSC_OK) status = hsc_forward(session, &batch, err);
    hsc_session_free(session);
    return status;
}

static int check(void *user, const hsc__args *args)
{
    const values *v = ((const job *)user)->v;
    if (v->head.given && v->layers.n) return hsc__cli_misuse(&command, "--layer and --head: one of the two");
    if (v->r.plot && !v->head.given) return hsc__cli_misuse(&command, "--plot draws one head: --head L4H3");
    return hsc__reading_check(&command, &v->r, args);
}

static hsc_status run(void *user, const char *text, hsc_error *err)
{
    job *j = user;
    const hsc_config *c = j->r.opened.config;
    const hsc__head *one = &j->v->head;
    HSC_TRY(hsc__reading_text(&j->r, text, err));
    HSC_TRY(hsc__layers_check(&j->v->layers, c->n_layers, err));
    if (one->given) HSC_TRY(hsc__place_check("--head", "head", one->layer, one->head, c->n_layers, c->n_heads, err));
    j->n_layers = c->n_layers;
    j->n_heads = c->n_heads;
    size_t n = (size_t)j->r.n_tokens, all = place(j, c->n_layers, 0);
    hsc_mix_options o = {.n_threads = j->v->r.threads, .compute = (hsc_compute)j->v->r.compute};
    j->sizes = hsc__calloc(all, sizeof *j->sizes);
    j->rows = hsc__calloc(all, sizeof *j->rows);
    if (one->given) j->pattern = hsc__calloc(n * n, sizeof *j->pattern);
    if (!j->sizes || !j->rows || (one->given && !j->pattern))
        return hsc__fail_memory(err, (all + n * n) * sizeof *j->rows, "patterns");
    HSC_TRY(hsc_value_norms(j->r.opened.model, j->r.tokens.encoding.ids, (int)n, (hsc_norm_of)j->v->norm, &o, j->sizes,
                            err));
    return run_patterns(j, err);
}

/* ------------------------------------------------------------------------------------------------------- output ----
 */

static hsc_status show_map(const void *user, const char *path, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    size_t n = (size_t)j->r.n_tokens;
    const float *sizes = j->sizes + place(j, j->v->head.layer, j->v->head.head);
    hsc__string title = {0};
    double *cells = hsc__calloc(n * n, sizeof *cells);
    if (!cells) return hsc__fail_memory(err, n * n * sizeof *cells, "a map");
    for (size_t i = 0; i < n * n; i++) cells[i] = (double)j->pattern[i] * (double)sizes[i % n];
    hsc__string_printf(&title, "%s: ", j->r.opened.name);
    hsc__add_head_name(&title, j->v->head.layer, j->v->head.head);
    hsc__effect_map map = {.title = title,
                           .x_title = "moves from",
                           .y_title = "token",
                           .value_title = j->v->norm ? "weight x |v|" : "weight x |v W_O|",
                           .n_rows = (int)n,
                           .n_cols = (int)n,
                           .values = cells,
                           .row_labels = j->r.tokens.texts,
                           .col_labels = j->r.tokens.texts,
                           .causal = j->r.opened.config->causal != 0};
    hsc_status status = hsc__effect_map_show(&map, path, out, err);
    hsc__free(cells);
    return status;
}

static double moved(const job *j, size_t at, int key)
{
    return (double)j->rows[at + (size_t)key] * (double)j->sizes[at + (size_t)key];
}

static void add_token(const job *j, hsc__string *out, int pos)
{
    hsc__text_repr(out, j->r.tokens.texts[pos].bytes, j->r.tokens.texts[pos].n);
    hsc__string_printf(out, " (%d)", pos);
}

/* The key that moves most after `last` (-1: of all), of equals the earlier first; -1: none is left that moves. */
static int next_moved(const job *j, size_t at, int last)
{
    int best = -1;
    for (int k = 0; k < j->r.n_tokens; k++) {
        bool after =
            last < 0 || moved(j, at, k) < moved(j, at, last) || (moved(j, at, k) == moved(j, at, last) && k > last);
        if (after && moved(j, at, k) > 0 && (best < 0 || moved(j, at, k) > moved(j, at, best))) best = k;
    }
    return best;
}

/* A row: what it looks at most, and what it moves most; with --top more rows, of what it moves next. */
static void add_head(const job *j, hsc__string *cells, int layer, int head)
{
    size_t at = place(j, layer, head);
    int n = j->r.n_tokens, top = j->v->r.top ? j->v->r.top : j->v->head.given ? 10 : 1, most = 0;
    double sum = 0;
    for (int k = 0; k < n; k++) {
        sum += moved(j, at, k);
        if (j->rows[at + (size_t)k] > j->rows[at + (size_t)most]) most = k;
    }
    for (int row = 0, best = -1; row < top && (best = next_moved(j, at, best)) >= 0; row++) {
        if (row == 0) {
            hsc__string_printf(cells, "L%dH%d\t", layer, head);
            add_token(j, cells, most);
            hsc__string_printf(cells, "\t%.2f\t", (double)j->rows[at + (size_t)most]);
        } else {
            hsc__string_text(cells, "\t\t\t");
        }
        add_token(j, cells, best);
        hsc__string_printf(cells, "\t%.2f\t%.2f\t%.2f\t", moved(j, at, best) / sum, (double)j->rows[at + (size_t)best],
                           (double)j->sizes[at + (size_t)best]);
    }
}

static void add_table(const job *j, hsc__string *out)
{
    static const hsc__column columns[] = {
        {.head = "head"},
        {.head = "looks most at", .max_cells = 40, .least_cells = 12},
        {.head = "weight", .right = true},
        {.head = "moves most of", .max_cells = 40, .least_cells = 12},
        {.head = "share", .right = true},
        {.head = "weight", .right = true},
        {.head = "size", .right = true},
    };
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int layer = 0; layer < j->n_layers; layer++) {
        for (int head = 0; head < j->n_heads; head++) {
            if (shown(j, layer, head)) add_head(j, &table.cells, layer, head);
        }
    }
    hsc__cli_table(out, &table);
}

static hsc_status add_text(const void *user, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    const char *size = j->v->norm ? "|v|" : "|v W_O|";
    hsc__string_printf(out, "%s: weight times %s, compute %s, at position %d ", j->r.opened.name, size,
                       hsc_compute_name((hsc_compute)j->v->r.compute), j->r.pos);
    hsc__text_repr(out, j->r.tokens.texts[j->r.pos].bytes, j->r.tokens.texts[j->r.pos].n);
    hsc__string_printf(out, "\nshare: of all that the head moves to the token, weight times size; size: %s\n\n", size);
    add_table(j, out);
    if (!j->v->head.given) return HSC_OK;
    hsc__string_text(out, "\n");
    return show_map(j, NULL, out, err);
}

/* The query that is asked about, and with --head all. */
static void add_csv(const void *user, hsc__string *out)
{
    const job *j = user;
    int n = j->r.n_tokens, n_all = j->n_layers * j->n_heads;
    hsc__string_text(out, "layer,head,query,key,key_token,weight,size,moved\n");
    for (int i = 0; i < n_all; i++) {
        int layer = i / j->n_heads, head = i % j->n_heads;
        size_t at = place(j, layer, head);
        if (!shown(j, layer, head)) continue;
        for (int cell = 0; cell < (j->pattern ? n * n : n); cell++) {
            int key = cell % n;
            double weight = (double)(j->pattern ? j->pattern[cell] : j->rows[at + (size_t)key]);
            double size = (double)j->sizes[at + (size_t)key];
            hsc__string_printf(out, "%d,%d,%d", layer, head, j->pattern ? cell / n : j->r.pos);
            hsc__csv_token(out, &j->r, key);
            hsc__csv_number(out, weight);
            hsc__csv_number(out, size);
            hsc__csv_number(out, weight * size);
            hsc__string_text(out, "\n");
        }
    }
}

static json_t *make_json(const void *user)
{
    const job *j = user;
    size_t n = (size_t)j->r.n_tokens;
    json_t *heads = json_array();
    for (int layer = 0; layer < j->n_layers; layer++) {
        for (int head = 0; head < j->n_heads; head++) {
            size_t at = place(j, layer, head);
            if (!shown(j, layer, head)) continue;
            json_array_append_new(heads, json_pack("{s:i,s:i,s:o,s:o}", "layer", layer, "head", head, "weights",
                                                   hsc__json_floats(j->rows + at, n), "sizes",
                                                   hsc__json_floats(j->sizes + at, n)));
        }
    }
    return json_pack("{s:o,s:s,s:s,s:o,s:i,s:o}", "model", hsc__json_model(&j->r.opened), "compute",
                     hsc_compute_name((hsc_compute)j->v->r.compute), "norm", j->v->norm ? "v" : "out", "tokens",
                     hsc__json_tokens(&j->r.tokens), "pos", j->r.pos, "heads", heads);
}

int hsc__cli_values(int argc, char **argv)
{
    static const hsc__reading_steps steps = {&command, check, run, add_text, add_csv, make_json, show_map};
    values v = {.r = {.pos = -1}};
    job j = {.v = &v, .r = {.options = &v.r}};
    int result = hsc__reading_main(&steps, argc, argv, &v, &j.r, &j);
    hsc__free(j.sizes);
    hsc__free(j.rows);
    hsc__free(j.pattern);
    hsc__reading_free(&j.r);
    return result;
}
