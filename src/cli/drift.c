/*
 * headscope drift: how far do every head's patterns differ between two files of one model? The same windows go through
 * both; the table has the distance of each head, and what the detectors say of it in either file.
 */
#include "cli/detect.h"

#include <math.h>
#include <string.h>

enum { TOP = 10 };

static const hsc__option options[] = {
    HSC__OPTION_HEADING("Where it looks"),
    HSC__DETECT_OPTIONS_WHERE,
    HSC__OPTION_HEADING("What is shown"),
    {"top", 'k', HSC__OPT_INT, "K", offsetof(hsc__detect_options, top), 1, 100000, "Rows of the table. Default 10."},
    HSC__DETECT_OPTIONS_SHOWN,
    HSC__OPTION_HEADING("The pass"),
    HSC__OPTIONS_PASS(hsc__detect_options, pass),
    HSC__OPTION_THREADS(hsc__detect_options, threads),
};

static const hsc__command command = {
    .name = "drift",
    .usage = "A B [CORPUS] [options]",
    .about =
        "How far do the patterns of every head differ between two files of one model, f32 and Q4 say? Both read the "
        "same windows of CORPUS, any text, or random tokens that come twice. A head's figure is the mean "
        "Jensen-Shannon distance of its rows: 0 the same, 1 nothing in common. Beside it stands what the detectors "
        "say of the head in either file. Of an encoder-decoder the encoders are compared.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope drift model.f32.gguf model.q4_1.gguf book.txt\n"
                "headscope drift SmolLM2-135M SmolLM2.gguf --plot drift.png",
    .min_args = 2,
    .max_args = 3,
    .missing = "two files of a model are wanted, one after the other and without -m",
    .encoder_decoders = true,
    .of_encoder = true,
};

typedef struct comparison {
    const hsc__detect_options *options;
    hsc__corpus corpus;
    hsc__detect a, b;
    hsc_drift *heads; /* [n_heads] */
    double *values;   /* [n_heads] distances */
    int *order;       /* [n_heads] ranked by them */
    int n_heads;
} comparison;

static hsc_status measure(comparison *c, hsc_error *err)
{
    hsc__counting counting;
    hsc_detect_options run;
    HSC_TRY(hsc_drift_check(c->a.opened.model, c->b.opened.model, err));
    HSC_TRY(hsc__detect_heads(&c->a, err));
    HSC_TRY(hsc__detect_heads(&c->b, err));
    c->n_heads = c->a.n_heads;
    size_t n = (size_t)c->n_heads;
    c->heads = hsc__calloc(n, sizeof *c->heads);
    c->values = hsc__calloc(n, sizeof *c->values);
    c->order = hsc__calloc(n, sizeof *c->order);
    if (!c->heads || !c->values || !c->order) return hsc__fail_memory(err, n * sizeof *c->heads, "the heads");
    HSC_TRY(hsc__detect_run_options(&c->a, &counting, &run, err));
    hsc_status status =
        hsc_drift_run(c->a.opened.model, c->b.opened.model, c->corpus.text, c->corpus.n, &run, c->heads, err);
    hsc__cli_progress_end();
    for (int h = 0; h < c->n_heads; h++) c->values[h] = c->heads[h].distance;
    hsc__rank_heads(c->values, c->n_heads, false, c->order);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- showing
 * ----
 */

/* The detectors that stand beside the distance in the table; --json and --csv have all. */
static const hsc_detector shown[] = {HSC_DETECT_PREVIOUS, HSC_DETECT_FIRST, HSC_DETECT_INDUCTION, HSC_DETECT_ENTROPY};
enum { N_SHOWN = sizeof shown / sizeof shown[0] };

static void add_row(const comparison *c, int head, hsc__string *cells)
{
    int n_heads = c->a.counts.n_heads;
    hsc__cell_head(cells, head / n_heads, head % n_heads);
    hsc__cell_number(cells, 4, c->heads[head].distance);
    hsc__cell_interval(cells, c->heads[head].ci);
    hsc__cell_number(cells, 4, c->heads[head].largest);
    for (int i = 0; i < N_SHOWN; i++)
        hsc__string_printf(cells, "%.3f %.3f\t", hsc__detect_score(&c->a, shown[i], head)->score,
                           hsc__detect_score(&c->b, shown[i], head)->score);
}

static void add_table(const comparison *c, hsc__string *out)
{
    int n = c->options->top ? c->options->top : TOP;
    hsc__column columns[4 + N_SHOWN] = {{.head = "head"},
                                        {.head = "distance", .right = true},
                                        {.head = "95% interval", .right = true},
                                        {.head = "largest", .right = true}};
    for (int i = 0; i < N_SHOWN; i++)
        columns[4 + i] = (hsc__column){.head = hsc_detector_name(shown[i]), .right = true};
    hsc__table table = {columns, 4 + N_SHOWN, 1, {0}};
    for (int i = 0; i < n && i < c->n_heads; i++) add_row(c, c->order[i], &table.cells);
    hsc__cli_table(out, &table);
}

/* The last n parts of a path: what a title has room for. */
static const char *path_end(const char *path, int n)
{
    size_t at = strlen(path);
    while (at > 1 && path[at - 1] == '/') at--; /* a folder's closing stroke */
    for (; at > 0; at--)
        if (path[at - 1] == '/' && --n == 0) break;
    return path + at;
}

/* As little of both paths as tells them apart. */
static void add_names(const comparison *c, hsc__string *out)
{
    const char *a = c->a.opened.path, *b = c->b.opened.path;
    int n = 1;
    while (strcmp(a, b) != 0 && strcmp(path_end(a, n), path_end(b, n)) == 0) n++;
    hsc__string_printf(out, "%s, %s", path_end(a, n), path_end(b, n));
}

static hsc_status draw(const comparison *c, hsc__string *out, hsc_error *err)
{
    hsc__string title = {0};
    add_names(c, &title);
    hsc__string_printf(&title, "%s: Jensen-Shannon distance", hsc__cli_stack(&c->a.opened));
    hsc__head_map map = {title.data, "distance", c->a.counts.n_layers, c->a.counts.n_heads, c->values};
    hsc_status status = title.failed ? hsc__fail_memory(err, 1, "the title")
                        : out        ? hsc__head_map_show(out, &map, err)
                                     : hsc__head_map_plot(c->options->plot, &map, err);
    hsc__string_free(&title);
    return status;
}

static hsc_status add_text(const comparison *c, hsc__string *out, hsc_error *err)
{
    double sum = 0;
    for (int h = 0; h < c->n_heads; h++) sum += c->values[h];
    hsc__string_printf(out, "first: %s\nsecond: %s\n%d layers; %d heads per layer (", c->a.opened.path,
                       c->b.opened.path, c->a.counts.n_layers, c->a.counts.n_heads);
    hsc__pass_describe(out, &c->options->pass, c->a.opened.model);
    hsc__string_text(out, ")\n");
    hsc__detect_add_where(&c->a, out);
    hsc__string_printf(out,
                       "\nmean distance of all %d heads %.4f; the heads that differ most, detectors in the first and "
                       "the second file\n",
                       c->n_heads, sum / c->n_heads);
    add_table(c, out);
    hsc__string_text(out, "\n");
    return draw(c, out, err);
}

static void add_csv(const comparison *c, hsc__string *out)
{
    hsc__string_text(out, "layer,head,name,distance,ci_low,ci_high,largest");
    for (int d = 0; d < HSC_N_DETECTORS; d++)
        hsc__string_printf(out, ",%s_a,%s_b", hsc_detector_name((hsc_detector)d), hsc_detector_name((hsc_detector)d));
    hsc__string_text(out, "\n");
    for (int i = 0; i < c->n_heads; i++) {
        int at = c->order[i], layer = at / c->a.counts.n_heads, head = at % c->a.counts.n_heads;
        const hsc_drift *h = &c->heads[at];
        const double values[] = {h->distance, h->ci.low, h->ci.high, h->largest};
        hsc__string_printf(out, "%d,%d,L%dH%d", layer, head, layer, head);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) hsc__csv_number(out, values[k]);
        for (int d = 0; d < HSC_N_DETECTORS; d++) {
            hsc__csv_number(out, hsc__detect_score(&c->a, d, at)->score);
            hsc__csv_number(out, hsc__detect_score(&c->b, d, at)->score);
        }
        hsc__string_text(out, "\n");
    }
}

static json_t *json_head(const comparison *c, int at)
{
    char name[32];
    int layer = at / c->a.counts.n_heads, head = at % c->a.counts.n_heads;
    snprintf(name, sizeof name, "L%dH%d", layer, head);
    json_t *object = json_pack("{s:i, s:i, s:s}", "layer", layer, "head", head, "name", name), *scores = json_object();
    json_object_set_new(object, "distance", hsc__json_number(c->heads[at].distance));
    json_object_set_new(object, "ci", hsc__json_interval(c->heads[at].ci));
    json_object_set_new(object, "largest", hsc__json_number(c->heads[at].largest));
    for (int d = 0; d < HSC_N_DETECTORS; d++) {
        json_t *both = json_object();
        json_object_set_new(both, "a", hsc__json_number(hsc__detect_score(&c->a, d, at)->score));
        json_object_set_new(both, "b", hsc__json_number(hsc__detect_score(&c->b, d, at)->score));
        json_object_set_new(scores, hsc_detector_name((hsc_detector)d), both);
    }
    json_object_set_new(object, "scores", scores);
    return object;
}

static int print_json(const comparison *c)
{
    json_t *root = json_object(), *heads = json_array();
    json_object_set_new(root, "a", hsc__json_model(&c->a.opened));
    json_object_set_new(root, "b", hsc__json_model(&c->b.opened));
    hsc__json_set_pass(root, &c->options->pass, c->a.opened.model);
    hsc__json_set_where(root, &c->a);
    for (int h = 0; h < c->n_heads; h++) json_array_append_new(heads, json_head(c, h));
    json_object_set_new(root, "heads", heads);
    return hsc__json_print(root);
}

static int show(const comparison *c)
{
    hsc__string out = {0};
    hsc_error err = {0};
    if (c->options->plot && draw(c, NULL, &err) != HSC_OK) return hsc__cli_fail(&err);
    if (c->options->json) return print_json(c);
    if (c->options->csv) {
        add_csv(c, &out);
        return hsc__cli_write_string(&out);
    }
    if (add_text(c, &out, &err) == HSC_OK) return hsc__cli_show(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

/* ------------------------------------------------------------------------------------------------------- the command
 * ----
 */

static int open_and_run(comparison *c, const hsc__args *args)
{
    hsc_error err = {0};
    if (hsc__corpus_read(&c->corpus, args->n > 2 ? args->list[2] : NULL, &err) != HSC_OK) return hsc__cli_fail(&err);
    int status = hsc__cli_open(&command, args->list[0], c->options->pass.dtype, true, &c->a.opened);
    if (status == HSC__CLI_GO_ON)
        status = hsc__cli_open(&command, args->list[1], c->options->pass.dtype, true, &c->b.opened);
    if (status != HSC__CLI_GO_ON) return status;
    return measure(c, &err) == HSC_OK ? show(c) : hsc__cli_fail(&err);
}

int hsc__cli_drift(int argc, char **argv)
{
    hsc__detect_options values = {0};
    hsc__args args;
    comparison c = {.options = &values};
    c.a = c.b = (hsc__detect){.options = &values, .corpus = &c.corpus};
    int status = hsc__cli_parse(&command, argc, argv, &values, &args);
    if (status == HSC__CLI_GO_ON) status = hsc__detect_check(&command, &values);
    if (status != HSC__CLI_GO_ON) return status;
    status = open_and_run(&c, &args);
    hsc__detect_close(&c.a);
    hsc__detect_close(&c.b);
    hsc__corpus_close(&c.corpus);
    hsc__free(c.heads);
    hsc__free(c.values);
    hsc__free(c.order);
    return status;
}
