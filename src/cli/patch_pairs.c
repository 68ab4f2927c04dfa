/* headscope patch --pairs: what each head carries from one wording of a pair to the other. Every prompt is the clean
 * run once, its twin the other; figures are means over clusters with intervals. */
#include "cli/heads.h"
#include "cli/patch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the tables: the metric of the prompt, the total effect, then indirect and direct effects of every head. */
enum { CLEAN, TOTAL, FIRST };

typedef struct carrying {
    hsc__patch *j;
    int n_heads, n_columns, n_clusters, n_right;
    double *values;         /* [n_items][n_columns] */
    double *means;          /* [n_columns] */
    hsc_interval *interval; /* [n_columns] */
    int *order;             /* [n_heads] by the size of the indirect effect */
} carrying;

static double *row_of(const carrying *c, size_t item)
{
    return c->values + item * (size_t)c->n_columns;
}

/* Where both prompts ask for the same two tokens the twin's figures follow from these: its metric is minus this one,
 * and each run serves both, also of texts of different lengths (hsc_mediate says why). */
static void turn(const carrying *c, const double *row, double *twin)
{
    twin[CLEAN] = -(row[CLEAN] + row[TOTAL]);
    twin[TOTAL] = row[TOTAL];
    for (int h = 0; h < c->n_heads; h++) {
        twin[FIRST + h] = row[TOTAL] - row[FIRST + c->n_heads + h];
        twin[FIRST + c->n_heads + h] = row[TOTAL] - row[FIRST + h];
    }
}

static hsc_status measure(const carrying *c, hsc_lab *clean, hsc_lab *other, size_t item, hsc_error *err)
{
    const hsc__item *x = &c->j->items.list[item];
    double *row = row_of(c, item);
    hsc_mediation m = {.indirect = row + FIRST, .direct = row + FIRST + c->n_heads};
    HSC_TRY(hsc_mediate(clean, other, x->a, x->b, x->seam, &m, err));
    row[CLEAN] = m.clean;
    row[TOTAL] = m.other - m.clean;
    return HSC_OK;
}

static hsc_status run_pair(const carrying *c, hsc_lab *labs[2], size_t first, hsc_error *err)
{
    const hsc__item *x = &c->j->items.list[first], *y = &c->j->items.list[x->twin];
    HSC_TRY(hsc_lab_text(labs[0], x->ids, x->n_tokens, err));
    HSC_TRY(hsc_lab_text(labs[1], y->ids, y->n_tokens, err));
    HSC_TRY(measure(c, labs[0], labs[1], first, err));
    if (x->a != y->b || x->b != y->a) return measure(c, labs[1], labs[0], (size_t)x->twin, err);
    turn(c, row_of(c, first), row_of(c, (size_t)x->twin));
    return HSC_OK;
}

static hsc_status run_all(carrying *c, hsc_lab *labs[2], hsc_error *err)
{
    const hsc__items *items = &c->j->items;
    for (size_t i = 0; i < items->n; i++) {
        if (items->list[i].unused || (size_t)items->list[i].twin < i) continue;
        hsc__cli_progress("patching: text %zu of %zu", i + 1, items->n);
        HSC_TRY(run_pair(c, labs, i, err));
    }
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------- figures ---- */

static hsc_status summarise(carrying *c, double *table, hsc_error *err)
{
    const hsc__items *items = &c->j->items;
    size_t n = (size_t)c->n_columns;
    HSC_TRY(hsc__items_cluster_means(items, c->values, n, table, &c->n_clusters, err));
    for (int k = 0; k < c->n_clusters; k++)
        for (size_t i = 0; i < n; i++) c->means[i] += table[(size_t)k * n + i] / c->n_clusters;
    for (size_t i = 0; i < items->n; i++) c->n_right += !items->list[i].unused && row_of(c, i)[CLEAN] > 0;
    for (size_t i = 0; i < n; i++) c->interval[i] = (hsc_interval){NAN, NAN};
    hsc_table figures = {table, c->n_clusters, c->n_columns};
    const hsc__patch_options *v = c->j->options;
    hsc_bootstrap_options o = {.seed = (uint64_t)v->seed, .n_threads = v->threads};
    if (c->n_clusters > 1) HSC_TRY(hsc_bootstrap(&figures, &o, c->interval, err));
    return hsc__sweep_test(&c->j->tests, &figures, FIRST, c->n_heads, v->seed, v->threads, err);
}

static void rank(carrying *c)
{
    for (int h = 0; h < c->n_heads; h++) {
        int at = h;
        for (; at > 0 && fabs(c->means[FIRST + c->order[at - 1]]) < fabs(c->means[FIRST + h]); at--)
            c->order[at] = c->order[at - 1];
        c->order[at] = h;
    }
}

static hsc_status compute(carrying *c, hsc_lab *labs[2], hsc_error *err)
{
    size_t n = c->j->items.n;
    double *table = hsc__calloc(n * (size_t)c->n_columns, sizeof *table);
    hsc_status status = table ? HSC_OK : hsc__fail_memory(err, n * sizeof *table, "effects");
    for (int i = 0; i < 2 && status == HSC_OK; i++) status = hsc_lab_keep(labs[i], HSC_Z, -1, err);
    if (status == HSC_OK) status = run_all(c, labs, err);
    hsc__cli_progress_end();
    if (status == HSC_OK) status = summarise(c, table, err);
    if (status == HSC_OK) rank(c);
    hsc__free(table);
    return status;
}

static hsc_status run(carrying *c, hsc_error *err)
{
    const hsc__patch_options *o = c->j->options;
    const hsc_config *config = c->j->opened.config;
    hsc_lab_options lab = {.n_threads = o->threads, .compute = (hsc_compute)o->compute};
    hsc_lab *labs[2] = {NULL, NULL};
    unsigned flags = hsc__encode_flags(o->no_special, o->parse_special);
    HSC_TRY(hsc__items_add_pairs(&c->j->items, &c->j->opened, o->pairs, flags, o->limit, err));
    HSC_TRY(hsc__items_align_twins(&c->j->items, o->pairs, false, err));
    c->n_heads = config->n_layers * config->n_heads;
    c->n_columns = FIRST + 2 * c->n_heads;
    size_t n = (size_t)c->n_columns;
    c->values = hsc__calloc(c->j->items.n * n, sizeof *c->values);
    c->means = hsc__calloc(n, sizeof *c->means);
    c->interval = hsc__calloc(n, sizeof *c->interval);
    c->order = hsc__calloc((size_t)c->n_heads, sizeof *c->order);
    if (!c->values || !c->means || !c->interval || !c->order)
        return hsc__fail_memory(err, c->j->items.n * n * sizeof *c->values, "effects");
    hsc_status status = hsc_lab_new(&labs[0], c->j->opened.model, &lab, err);
    if (status == HSC_OK) status = hsc_lab_new(&labs[1], c->j->opened.model, &lab, err);
    if (status == HSC_OK) status = compute(c, labs, err);
    hsc_lab_free(labs[0]);
    hsc_lab_free(labs[1]);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- output ---- */

static hsc_status show_map(const carrying *c, const char *path, hsc__string *out, hsc_error *err)
{
    hsc__string title = {0};
    hsc__string_printf(&title, "%s: what each head carries (indirect effect)", c->j->opened.name);
    hsc__effect_map map = {.title = title,
                           .x_title = "head",
                           .y_title = "layer",
                           .value_title = "indirect effect, logits",
                           .n_rows = c->j->opened.config->n_layers,
                           .n_cols = c->j->opened.config->n_heads,
                           .values = c->means + FIRST,
                           .row_letter = 'L',
                           .col_letter = 'H'};
    return hsc__effect_map_show(&map, path, out, err);
}

static void name_head(const void *user, int head, hsc__string *out)
{
    const carrying *c = user;
    int per = c->j->opened.config->n_heads;
    hsc__string_printf(out, "L%dH%d", head / per, head % per);
}

/* With as many decimals as the effects, so that two of them fit into a line. */
static void cell_interval(hsc__string *cells, hsc_interval ci)
{
    if (isnan(ci.low)) hsc__string_text(cells, "-\t");
    else hsc__string_printf(cells, "[%6.3f, %6.3f]\t", ci.low, ci.high);
}

static void add_table(const carrying *c, hsc__string *out)
{
    const hsc__sweep *tests = &c->j->tests;
    int n = c->j->options->top < c->n_heads ? c->j->options->top : c->n_heads, per = c->j->opened.config->n_heads;
    hsc__string_printf(out, "\nThe %d head%s of %d that carr%s most:\n", n, HSC__PLURAL(n), c->n_heads,
                       n == 1 ? "ies" : "y");
    const hsc__column columns[] = {{.head = "head"},
                                   {.head = "indirect", .right = true},
                                   {.head = "95% interval", .right = true},
                                   {.head = "share", .right = true},
                                   {.head = "direct", .right = true},
                                   {.head = "95% interval", .right = true},
                                   {.head = tests->effects ? "p_fwer" : "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) {
        int h = c->order[i], d = FIRST + c->n_heads + h;
        hsc__cell_head(&table.cells, h / per, h % per);
        hsc__cell_number(&table.cells, 3, c->means[FIRST + h]);
        cell_interval(&table.cells, c->interval[FIRST + h]);
        hsc__cell_number(&table.cells, 3, c->means[FIRST + h] / c->means[TOTAL]);
        hsc__cell_number(&table.cells, 3, c->means[d]);
        cell_interval(&table.cells, c->interval[d]);
        if (tests->effects) hsc__cell_p(&table.cells, tests->effects[h].p_fwer);
        else hsc__string_text(&table.cells, "\t");
    }
    hsc__cli_table(out, &table);
    hsc__string_printf(
        out,
        "\nindirect: a prompt with the head as it is in the twin; direct: the twin with the head as it is "
        "in the prompt; both less the prompt as it is. p_fwer: of the indirect effect. This is the top of a search "
        "through %d heads%s.\n",
        c->n_heads, tests->held ? "" : ": test them on other pairs, or with --holdout 0.5");
    hsc__sweep_add_held_out(tests, name_head, c, out);
}

static hsc_status add_text(const carrying *c, hsc__string *out, hsc_error *err)
{
    size_t n = c->j->items.n - c->j->items.n_unused;
    hsc__string_printf(out, "%s: every head takes its z from the pair's other wording, compute %s\n", c->j->opened.name,
                       hsc_compute_name((hsc_compute)c->j->options->compute));
    hsc__string_text(out, "measured: logit of the right answer minus that of the wrong one at the end of the prompt\n");
    hsc__items_describe(out, &c->j->items, c->n_clusters);
    hsc__string_printf(out, "as it is, the model answers rightly %d of %zu time%s (%.0f %%)\n", c->n_right, n,
                       HSC__PLURAL(n), 100.0 * c->n_right / (double)n);
    hsc__string_printf(out, "as it is: %.4f; total effect of the other wording: %.4f", c->means[CLEAN],
                       c->means[TOTAL]);
    if (!isnan(c->interval[TOTAL].low))
        hsc__string_printf(out, " (%.4f to %.4f)", c->interval[TOTAL].low, c->interval[TOTAL].high);
    hsc__string_text(out, "\n");
    hsc__sweep_describe(&c->j->tests, out);
    hsc__string_text(out, "\n");
    HSC_TRY(show_map(c, NULL, out, err));
    add_table(c, out);
    return HSC_OK;
}

static json_t *json_head(const carrying *c, int h)
{
    char name[32];
    int per = c->j->opened.config->n_heads, d = FIRST + c->n_heads + h;
    snprintf(name, sizeof name, "L%dH%d", h / per, h % per);
    json_t *o = json_pack("{s:i,s:i,s:s}", "layer", h / per, "head", h % per, "name", name);
    json_object_set_new(o, "indirect", hsc__json_number(c->means[FIRST + h]));
    json_object_set_new(o, "ci", hsc__json_interval(c->interval[FIRST + h]));
    json_object_set_new(o, "share", hsc__json_number(c->means[FIRST + h] / c->means[TOTAL]));
    hsc__sweep_json(&c->j->tests, h, o);
    json_object_set_new(o, "direct", hsc__json_number(c->means[d]));
    json_object_set_new(o, "direct_ci", hsc__json_interval(c->interval[d]));
    return o;
}

static int print_json(const carrying *c)
{
    json_t *heads = json_array();
    for (int i = 0; i < c->n_heads; i++) json_array_append_new(heads, json_head(c, c->order[i]));
    json_t *root = json_pack("{s:o,s:s,s:s,s:I,s:i,s:i}", "model", hsc__json_model(&c->j->opened), "compute",
                             hsc_compute_name((hsc_compute)c->j->options->compute), "mode", "pairs", "n_texts",
                             (json_int_t)(c->j->items.n - c->j->items.n_unused), "n_clusters", c->n_clusters,
                             "clean_right", c->n_right);
    json_object_set_new(root, "n_aligned", json_integer((json_int_t)c->j->items.n_aligned));
    json_object_set_new(root, "skipped", hsc__items_json_skipped(&c->j->items));
    json_object_set_new(root, "clean", hsc__json_number(c->means[CLEAN]));
    json_object_set_new(root, "total", hsc__json_number(c->means[TOTAL]));
    json_object_set_new(root, "total_ci", hsc__json_interval(c->interval[TOTAL]));
    hsc__sweep_json_whole(&c->j->tests, root);
    json_object_set_new(root, "heads", heads);
    return hsc__json_print(root);
}

static int print_csv(const carrying *c)
{
    hsc__string out = {0};
    int per = c->j->opened.config->n_heads;
    hsc__string_text(&out,
                     "layer,head,indirect,ci_low,ci_high,share,direct,direct_low,direct_high" HSC__SWEEP_CSV "\n");
    for (int i = 0; i < c->n_heads; i++) {
        int h = c->order[i], d = FIRST + c->n_heads + h;
        const double figures[] = {c->means[FIRST + h],
                                  c->interval[FIRST + h].low,
                                  c->interval[FIRST + h].high,
                                  c->means[FIRST + h] / c->means[TOTAL],
                                  c->means[d],
                                  c->interval[d].low,
                                  c->interval[d].high};
        hsc__string_printf(&out, "%d,%d", h / per, h % per);
        for (int k = 0; k < 7; k++) hsc__csv_number(&out, figures[k]);
        hsc__sweep_csv(&c->j->tests, h, &out);
        hsc__string_text(&out, "\n");
    }
    return hsc__cli_write_string(&out);
}

static int show(const carrying *c)
{
    hsc__string out = {0};
    hsc_error err = {0};
    const char *plot = c->j->options->plot;
    if (plot && show_map(c, plot, NULL, &err) != HSC_OK) return hsc__cli_fail(&err);
    if (c->j->options->json) return print_json(c);
    if (c->j->options->csv) return print_csv(c);
    if (add_text(c, &out, &err) == HSC_OK) return hsc__cli_show(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

int hsc__patch_pairs(hsc__patch *job)
{
    carrying c = {.j = job};
    hsc_error err = {0};
    int result = run(&c, &err) == HSC_OK ? show(&c) : hsc__cli_fail(&err);
    hsc__free(c.values);
    hsc__free(c.means);
    hsc__free(c.interval);
    hsc__free(c.order);
    return result;
}
