/* headscope rollout: how much of each input token is in a token after all layers, by attention rollout and by flow. */
#include "cli/heads.h"
#include "cli/reading.h"
#include "headscope/analysis.h"

#include <math.h>
#include <string.h>

typedef struct values {
    hsc__reading_options r;
    bool no_flow;
} values;

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    HSC__OPTION_HEADING("What is asked"),
    HSC__READING_WHERE(values, r),
    HSC__OPTION_HEADING("What is shown"),
    {"top", 'k', HSC__OPT_INT, "N", offsetof(values, r.top), 1, 100000, "Rows of the table. Default: 10."},
    {"no-flow", 0, HSC__OPT_FLAG, NULL, offsetof(values, no_flow), 0, 0,
     "Leave the flow out, which takes long from some hundred tokens on and is not made for more than 128."},
    {"plot", 0, HSC__OPT_TEXT, "FILE", offsetof(values, r.plot), 0, 0,
     "The rollout of all tokens as .png, .svg or .pdf."},
    HSC__OPTION_HEADING("The pass"),
    HSC__READING_PASS(values, r),
};

static const hsc__command command = {
    .name = "rollout",
    .usage = "-m MODEL TEXT [--token TEXT]",
    .about =
        "Where does what stands at a token come from, all layers taken together? Rollout: each layer passes on half of "
        "the token itself and half of what its heads see on average, multiplied from the first layer up. Flow: the "
        "most "
        "that can flow to one input token through the same graph (Abnar and Zuidema 2020).\n"
        "Both know only weights, not what is moved: they treat all heads alike and take a value of any size for 1. The "
        "mean of all patterns stands beside them. See `values` for sizes, and `attribute` for what reaches an answer.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope rollout -m MiniLM --token it --plot rollout.png \\\n"
                "    \"The animal didn't cross the street because it was too tired\"\n"
                "headscope rollout -m gpt2 \"The Eiffel Tower is in the city of\" --json",
    .min_args = 0,
    .max_args = 1,
};

typedef struct job {
    const values *v;
    hsc__reading r;
    float *means, *rollout; /* [n_layers][n][n] */
    double *flow;           /* [n]; NULL: left out */
    double *plain;          /* [n] mean over layers and heads */
} job;

static int check(void *user, const hsc__args *args)
{
    const job *j = user;
    return hsc__reading_check(&command, &j->v->r, args);
}

static hsc_status run(void *user, const char *text, hsc_error *err)
{
    job *j = user;
    const hsc_config *c = j->r.opened.config;
    HSC_TRY(hsc__reading_text(&j->r, text, err));
    size_t n = (size_t)j->r.n_tokens, layers = (size_t)c->n_layers, size = layers * n * n;
    hsc_mix_options o = {.n_threads = j->v->r.threads, .compute = (hsc_compute)j->v->r.compute};
    j->means = hsc__malloc(size * sizeof *j->means);
    j->rollout = hsc__malloc(size * sizeof *j->rollout);
    j->plain = hsc__calloc(n, sizeof *j->plain);
    if (!j->means || !j->rollout || !j->plain) return hsc__fail_memory(err, size * sizeof *j->means, "mean patterns");
    HSC_TRY(hsc_mean_patterns(j->r.opened.model, j->r.tokens.encoding.ids, (int)n, &o, j->means, err));
    HSC_TRY(hsc_rollout(j->means, c->n_layers, (int)n, j->rollout, err));
    for (size_t i = 0; i < layers * n; i++)
        j->plain[i % n] += (double)j->means[(i / n * n + (size_t)j->r.pos) * n + i % n] / (double)layers;
    if (j->v->no_flow || n > HSC_FLOW_TOKENS) return HSC_OK;
    j->flow = hsc__calloc(n, sizeof *j->flow);
    if (!j->flow) return hsc__fail_memory(err, n * sizeof *j->flow, "a flow");
    return hsc_flow(j->means, c->n_layers, (int)n, j->r.pos, j->v->r.threads, j->flow, err);
}

/* The rollout after the last layer. */
static const float *last_rollout(const job *j)
{
    size_t n = (size_t)j->r.n_tokens;
    return j->rollout + (size_t)(j->r.opened.config->n_layers - 1) * n * n;
}

static hsc_status show_map(const void *user, const char *path, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    size_t n = (size_t)j->r.n_tokens;
    hsc__string title = {0};
    double *cells = hsc__calloc(n * n, sizeof *cells);
    if (!cells) return hsc__fail_memory(err, n * n * sizeof *cells, "a map");
    for (size_t i = 0; i < n * n; i++) cells[i] = (double)last_rollout(j)[i];
    hsc__string_printf(&title, "%s: attention rollout", j->r.opened.name);
    hsc__effect_map map = {.title = title,
                           .x_title = "input token",
                           .y_title = "token after all layers",
                           .value_title = "share",
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

static void add_table(const job *j, hsc__string *out)
{
    int n = j->r.n_tokens, last = -1;
    const float *row = last_rollout(j) + (size_t)j->r.pos * (size_t)n;
    const hsc__column columns[] = {{.head = "token", .max_cells = 40, .least_cells = 12},
                                   {.head = "rollout", .right = true},
                                   {.head = j->flow ? "flow" : "", .right = true},
                                   {.head = "mean weight", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int shown = 0; shown < j->v->r.top; shown++) {
        int best = -1;
        for (int k = 0; k < n; k++) {
            bool after = last < 0 || row[k] < row[last] || (row[k] == row[last] && k > last);
            if (after && row[k] > 0 && (best < 0 || row[k] > row[best])) best = k;
        }
        if (best < 0) break;
        hsc__text_repr(&table.cells, j->r.tokens.texts[best].bytes, j->r.tokens.texts[best].n);
        hsc__string_printf(&table.cells, " (%d)\t%.4f\t", best, (double)row[best]);
        if (j->flow) hsc__string_printf(&table.cells, "%.4f", j->flow[best]);
        hsc__string_printf(&table.cells, "\t%.4f\t", j->plain[best]);
        last = best;
    }
    hsc__cli_table(out, &table);
}

static hsc_status add_text(const void *user, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    hsc__string_printf(out, "%s: attention rollout%s, compute %s\nwhat position %d ", j->r.opened.name,
                       j->flow ? " and flow" : "", hsc_compute_name((hsc_compute)j->v->r.compute), j->r.pos);
    hsc__text_repr(out, j->r.tokens.texts[j->r.pos].bytes, j->r.tokens.texts[j->r.pos].n);
    hsc__string_text(out, " is made of after all layers, the largest share first:\n");
    add_table(j, out);
    hsc__string_text(out, "\n");
    return show_map(j, NULL, out, err);
}

/* Rollout of every query; the flow and the mean weight are of the one that is asked about. */
static void add_csv(const void *user, hsc__string *out)
{
    const job *j = user;
    int n = j->r.n_tokens;
    hsc__string_text(out, "query,query_token,key,key_token,rollout,flow,mean\n");
    for (int i = 0; i < n * n; i++) {
        int query = i / n, key = i % n;
        hsc__string_printf(out, "%d,", query);
        hsc__csv_field(out, j->r.tokens.texts[query].bytes, j->r.tokens.texts[query].n);
        hsc__csv_token(out, &j->r, key);
        hsc__csv_number(out, (double)last_rollout(j)[i]);
        hsc__csv_number(out, j->flow && query == j->r.pos ? j->flow[key] : NAN);
        hsc__csv_number(out, query == j->r.pos ? j->plain[key] : NAN);
        hsc__string_text(out, "\n");
    }
}

static json_t *make_json(const void *user)
{
    const job *j = user;
    size_t n = (size_t)j->r.n_tokens;
    json_t *rows = json_array();
    for (size_t q = 0; q < n; q++) json_array_append_new(rows, hsc__json_floats(last_rollout(j) + q * n, n));
    return json_pack("{s:o,s:s,s:o,s:i,s:o,s:o,s:o}", "model", hsc__json_model(&j->r.opened), "compute",
                     hsc_compute_name((hsc_compute)j->v->r.compute), "tokens", hsc__json_tokens(&j->r.tokens), "pos",
                     j->r.pos, "rollout", rows, "flow", j->flow ? hsc__json_numbers(j->flow, n) : json_null(), "mean",
                     hsc__json_numbers(j->plain, n));
}

int hsc__cli_rollout(int argc, char **argv)
{
    static const hsc__reading_steps steps = {&command, check, run, add_text, add_csv, make_json, show_map};
    values v = {.r = {.pos = -1, .top = 10}};
    job j = {.v = &v, .r = {.options = &v.r}};
    int result = hsc__reading_main(&steps, argc, argv, &v, &j.r, &j);
    hsc__free(j.means);
    hsc__free(j.rollout);
    hsc__free(j.flow);
    hsc__free(j.plain);
    hsc__reading_free(&j.r);
    return result;
}
