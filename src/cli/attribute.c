/* headscope attribute: what a logit, or a difference of logits, is made of: every head, feed-forward, embedding and
 * bias in logits, adding up to the whole; over a text or over a file of pairs. */
#include "cli/reading.h"
#include "cli/sweep.h"
#include "headscope/analysis.h"
#include "headscope/inspect.h"
#include "plot/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    hsc__reading_options r;
    const char *metric, *pairs;
    hsc__sweep_options search;
    int limit, seed;
    bool sources;
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    HSC__OPTION_HEADING("What is asked"),
    OPTION(
        "metric", 0, HSC__OPT_TEXT, "METRIC", metric, 0, 0,
        "\"logit: dog - cat\": the logit of one token minus that of another, where the text goes on; \"logit: dog\". "
        "A word is the token with a blank before it, if there is one; \"in quotes\" as it stands; #123 is an id."),
    HSC__READING_WHERE(values, r),
    OPTION("pairs", 0, HSC__OPT_TEXT, "FILE", pairs, 0, 0,
           "A pair file as in ablate, instead of TEXT: the logit of the right answer's first token minus the wrong "
           "one's, parts averaged over all lines."),
    OPTION("limit", 0, HSC__OPT_INT, "N", limit, 1, INT32_MAX, "The first N lines of --pairs. Default: all."),
    HSC__OPTION_HEADING("What is shown"),
    OPTION("sources", 0, HSC__OPT_FLAG, NULL, sources, 0, 0,
           "Each head by the tokens that it takes from: weight times what the token's value adds to the metric."),
    OPTION("top", 'k', HSC__OPT_INT, "N", r.top, 1, 100000, "Rows of the table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0, "The map of all parts as .png, .svg or .pdf."),
    HSC__OPTIONS_SWEEP(values, search),
    OPTION("seed", 0, HSC__OPT_INT, "N", seed, 0, INT32_MAX,
           "Of the intervals, signs and the split of --pairs. Default: 0."),
    HSC__OPTION_HEADING("The pass"),
    HSC__READING_PASS(values, r),
};

static const hsc__command command = {
    .name = "attribute",
    .usage = "-m MODEL --metric \"logit: A - B\" TEXT [--sources]\n-m MODEL --pairs FILE",
    .about =
        "Direct logit attribution: the last residual stream is a sum of what the embedding, every head and every "
        "feed-forward wrote, so with the last norm's scale held at what it is, a logit is a sum too. Each part is in "
        "logits; together they are the metric.\n"
        "That is what a part says to the output itself. A head that works through later layers shows little here, and "
        "a large part may be undone by another: ablate it to see what it is worth. Decoders whose norms stand before "
        "the branches (GPT-2, Llama and their kin).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope attribute -m gpt2 --metric \"logit: Mary - John\" \\\n"
                "    \"When Mary and John went to the store, John gave a drink to\" --sources\n"
                "    which heads say Mary, and from which token\n"
                "headscope attribute -m gpt2 --pairs data/pairs/names.txt --plot parts.png\n"
                "    the same over many texts, with intervals\n"
                "headscope attribute -m gpt2 --pairs data/pairs/names.txt --holdout 0.5 --choose 3\n"
                "    the three largest parts of one half, judged on the other",
    .min_args = 0,
    .max_args = 1,
};

typedef struct job {
    const values *v;
    hsc__reading r;
    hsc__metric metric;
    hsc__items items;
    hsc_attribution first; /* of the first text; its parts say what the columns are */
    double *table;         /* [n_items][n_parts + 1]; the last column is the metric */
    double *means;         /* [n_parts + 1] over clusters */
    hsc__sweep tests;      /* of --pairs: a column a part */
    int n_clusters, n_right;
    double worst; /* largest |sum - metric| */
} job;

static int check(void *user, const hsc__args *args)
{
    job *j = user;
    const values *v = j->v;
    j->metric = (hsc__metric){.kind = HSC__METRIC_DIFF, .text = "right - wrong"};
    if (v->limit && !v->pairs) return hsc__cli_misuse(&command, "--limit goes with --pairs");
    if (hsc__sweep_check(&command, &j->tests, v->pairs != NULL) != HSC__CLI_GO_ON) return HSC__EXIT_USAGE;
    if (v->pairs) {
        if (args->n || v->r.ids.ids) return hsc__cli_misuse(&command, "give one of TEXT, --ids and --pairs");
        if (v->metric || v->sources || v->r.token || v->r.pos >= 0)
            return hsc__cli_misuse(&command, "--pairs brings its own metric, is asked at the last token, and has no "
                                             "sources in common");
        return hsc__reading_check_output(&command, &v->r);
    }
    if (!v->metric) return hsc__cli_misuse(&command, "--metric is missing: what is taken apart?");
    if (!hsc__metric_parse(v->metric, &j->metric) || j->metric.kind == HSC__METRIC_LOSS)
        return hsc__cli_misuse(&command, "--metric: '%s' is neither \"logit: A - B\" nor \"logit: A\"", v->metric);
    return hsc__reading_check(&command, &v->r, args);
}

static hsc_status read_items(job *j, const char *text, hsc_error *err)
{
    const values *v = j->v;
    unsigned flags = hsc__encode_flags(v->r.no_special, v->r.parse_special);
    if (v->pairs) return hsc__items_add_pairs(&j->items, &j->r.opened, v->pairs, flags, v->limit, err);
    HSC_TRY(hsc__reading_text(&j->r, text, err));
    hsc__ids ids = {j->r.tokens.encoding.ids, (size_t)j->r.pos + 1};
    HSC_TRY(hsc__items_add_ids(&j->items, &ids, err));
    return hsc__metric_tokens(&j->metric, &j->r.opened, &j->items.list[0].a, &j->items.list[0].b, err);
}

static hsc_status run_item(job *j, size_t i, hsc_error *err)
{
    const hsc__item *item = &j->items.list[i];
    hsc_attribution_options o = {.n_threads = j->v->r.threads,
                                 .compute = (hsc_compute)j->v->r.compute,
                                 .a = item->a,
                                 .b = j->metric.kind == HSC__METRIC_DIFF ? item->b : HSC_NO_TOKEN,
                                 .by_source = j->v->sources};
    hsc_attribution a;
    HSC_TRY(hsc_attribution_run(j->r.opened.model, item->ids, item->n_tokens, &o, &a, err));
    size_t n = (size_t)a.n_parts + 1;
    if (!j->table) j->table = hsc__calloc(j->items.n * n, sizeof *j->table);
    if (j->table) {
        for (size_t p = 0; p + 1 < n; p++) j->table[i * n + p] = a.parts[p].value;
        j->table[i * n + n - 1] = a.metric;
        j->n_right += a.metric > 0;
        j->worst = fmax(j->worst, fabs(a.sum - a.metric));
    }
    if (i == 0) j->first = a;
    else hsc_attribution_free(&a);
    return j->table ? HSC_OK : hsc__fail_memory(err, j->items.n * n * sizeof *j->table, "the parts");
}

static hsc_status summarise(job *j, hsc_error *err)
{
    size_t n = (size_t)j->first.n_parts + 1;
    double *clusters = hsc__calloc(j->items.n * n, sizeof *clusters);
    j->means = hsc__calloc(n, sizeof *j->means);
    hsc_status status = clusters && j->means
                            ? hsc__items_cluster_means(&j->items, j->table, n, clusters, &j->n_clusters, err)
                            : hsc__fail_memory(err, j->items.n * n * sizeof *clusters, "the parts");
    if (status == HSC_OK) {
        for (size_t i = 0; i < (size_t)j->n_clusters * n; i++) j->means[i % n] += clusters[i] / j->n_clusters;
        hsc_table figures = {clusters, j->n_clusters, (int)n};
        if (j->v->pairs)
            status = hsc__sweep_test(&j->tests, &figures, 0, j->first.n_parts, j->v->seed, j->v->r.threads, err);
    }
    hsc__free(clusters);
    return status;
}

static hsc_status run(void *user, const char *text, hsc_error *err)
{
    job *j = user;
    HSC_TRY(read_items(j, text, err));
    hsc__counting counting;
    for (size_t i = 0; i < j->items.n; i++) {
        hsc__counting_text(&counting, "attributing", i, j->items.n);
        HSC_TRY(run_item(j, i, err));
    }
    hsc__cli_progress_end();
    return summarise(j, err);
}

/* ----------------------------------------------------------------------------------------------------- output ---- */

static void add_part(hsc__string *out, const hsc_part *p)
{
    switch (p->kind) {
    case HSC_PART_EMBED: hsc__string_text(out, "embedding"); break;
    case HSC_PART_POS_EMBED: hsc__string_text(out, "position"); break;
    case HSC_PART_HEAD: hsc__add_head_name(out, p->layer, p->head); break;
    case HSC_PART_ATTN_BIAS:
        hsc__string_printf(out, "bias of the attention of layer %d (L%d)", p->layer + 1, p->layer);
        break;
    case HSC_PART_MLP: hsc__string_printf(out, "MLP of layer %d (L%d)", p->layer + 1, p->layer); break;
    case HSC_PART_NORM_BIAS: hsc__string_text(out, "bias of the last norm"); break;
    default: hsc__string_text(out, "bias of the output");
    }
}

static void name_part(const void *user, int part, hsc__string *out)
{
    const job *j = user;
    add_part(out, &j->first.parts[part]);
}

static const char *kind_name(const hsc_part *p)
{
    static const char *const names[] = {"embed", "pos_embed", "head", "attn_bias", "mlp", "norm_bias", "unembed_bias"};
    return names[p->kind];
}

static const double *sorted_means;

static int by_size(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    double size_x = hsc__rank_size(sorted_means[x]), size_y = hsc__rank_size(sorted_means[y]);
    return size_x != size_y ? (size_x < size_y ? 1 : -1) : x - y;
}

static const double *sources_of(const hsc_attribution *a, const hsc_part *p)
{
    if (!a->sources || p->kind != HSC_PART_HEAD) return NULL;
    return a->sources + ((size_t)p->layer * (size_t)a->n_heads + (size_t)p->head) * (size_t)a->n_tokens;
}

/* The source tokens of a head whose shares are largest, at most three. */
static void add_sources(const job *j, hsc__string *out, const hsc_part *p)
{
    const hsc_attribution *a = &j->first;
    const double *s = sources_of(a, p);
    int before = -1;
    hsc__string_text(out, "  from");
    for (int row = 0; row < 3 && row < a->n_tokens; row++) {
        int best = -1;
        for (int k = 0; k < a->n_tokens; k++) {
            bool after = before < 0 || fabs(s[k]) < fabs(s[before]) || (fabs(s[k]) == fabs(s[before]) && k > before);
            if (after && (best < 0 || fabs(s[k]) > fabs(s[best]))) best = k;
        }
        if (best < 0) break;
        hsc__string_printf(out, "%s ", row ? "," : "");
        hsc__text_repr(out, j->r.tokens.texts[best].bytes, j->r.tokens.texts[best].n);
        hsc__string_printf(out, " at %d %+.3f", best, s[best]);
        before = best;
    }
}

static void add_with_sources(const job *j, hsc__string *out, const int *order, int n)
{
    for (int i = 0; i < n; i++) {
        const hsc_part *p = &j->first.parts[order[i]];
        hsc__string_printf(out, "%+9.4f  ", j->means[order[i]]);
        add_part(out, p);
        if (p->kind == HSC_PART_HEAD) add_sources(j, out, p);
        hsc__string_text(out, "\n");
    }
}

/* One text has neither intervals nor tests. */
static void add_parts(const job *j, hsc__string *out, const int *order, int n)
{
    const hsc__column columns[] = {{.head = "part"},
                                   {.head = "logits", .right = true},
                                   {.head = j->n_clusters > 1 ? "95% interval" : "", .right = true},
                                   {.head = j->tests.effects ? "p_fwer" : "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) {
        add_part(&table.cells, &j->first.parts[order[i]]);
        hsc__string_printf(&table.cells, "\t%+.4f\t", j->means[order[i]]);
        if (j->tests.effects) hsc__cell_interval(&table.cells, j->tests.effects[order[i]].ci);
        else hsc__string_text(&table.cells, "\t");
        if (j->tests.effects) hsc__cell_p(&table.cells, j->tests.effects[order[i]].p_fwer);
        else hsc__string_text(&table.cells, "\t");
    }
    hsc__cli_table(out, &table);
}

static hsc_status add_table(const job *j, hsc__string *out, hsc_error *err)
{
    int n = j->first.n_parts;
    int *order = hsc__calloc((size_t)n, sizeof *order);
    if (!order) return hsc__fail_memory(err, (size_t)n * sizeof *order, "a table");
    for (int i = 0; i < n; i++) order[i] = i;
    sorted_means = j->means;
    qsort(order, (size_t)n, sizeof *order, by_size);
    int shown = n < j->v->r.top ? n : j->v->r.top;
    hsc__string_printf(out, "\nThe %d largest parts of %d:\n", shown, n);
    if (j->first.sources) add_with_sources(j, out, order, shown);
    else add_parts(j, out, order, shown);
    hsc__free(order);
    hsc__sweep_add_held_out(&j->tests, name_part, j, out);
    return HSC_OK;
}

/* Sums of parts of one kind. */
static void add_sums(const job *j, hsc__string *out)
{
    double sums[HSC_PART_UNEMBED_BIAS + 1] = {0};
    for (int i = 0; i < j->first.n_parts; i++) sums[j->first.parts[i].kind] += j->means[i];
    hsc__string_printf(
        out, "embedding %+.4f, positions %+.4f, heads %+.4f, MLPs %+.4f, biases %+.4f: together %+.4f\n\n",
        sums[HSC_PART_EMBED], sums[HSC_PART_POS_EMBED], sums[HSC_PART_HEAD], sums[HSC_PART_MLP],
        sums[HSC_PART_ATTN_BIAS] + sums[HSC_PART_NORM_BIAS] + sums[HSC_PART_UNEMBED_BIAS], j->means[j->first.n_parts]);
}

/* Layers down; heads, the bias of W_O and the MLP across. */
static hsc_status show_map(const void *user, const char *path, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    hsc__string title = {0};
    hsc__string_printf(&title, "%s: parts of a logit", j->r.opened.name);
    hsc__effect_map map = {.title = title,
                           .x_title = "head, bias, MLP",
                           .y_title = "layer",
                           .value_title = "part, logits",
                           .n_rows = j->first.n_layers,
                           .n_cols = j->first.n_heads + 2,
                           .values = j->means + 2,
                           .row_letter = 'L',
                           .col_letter = 'H',
                           .col_after = {"bias", "MLP"}};
    return hsc__effect_map_show(&map, path, out, err);
}

/* The metric and where it is asked for. */
static void describe_metric(const job *j, hsc__string *out)
{
    hsc__metric_name(out, &j->metric);
    if (j->v->pairs || j->r.pos == j->r.n_tokens - 1) hsc__string_text(out, " at the last token");
    else hsc__string_printf(out, " at position %d", j->r.pos);
}

static void add_header(const job *j, hsc__string *out)
{
    hsc__string_printf(out, "%s: direct logit attribution, compute %s\n", j->r.opened.name,
                       hsc_compute_name((hsc_compute)j->v->r.compute));
    hsc__string_text(out, "taken apart: ");
    describe_metric(j, out);
    if (j->v->pairs) {
        hsc__string_text(out, "\n");
        hsc__items_describe(out, &j->items, j->n_clusters);
        hsc__string_printf(out, "as it is, the model answers rightly %d of %zu time%s (%.0f %%)\n", j->n_right,
                           j->items.n, HSC__PLURAL(j->items.n), 100.0 * j->n_right / (double)j->items.n);
    } else {
        if (j->r.pos == j->r.n_tokens - 1) hsc__string_printf(out, ", at position %d", j->r.pos);
        hsc__string_text(out, " ");
        hsc__text_repr(out, j->r.tokens.texts[j->r.pos].bytes, j->r.tokens.texts[j->r.pos].n);
        hsc__string_text(out, "\n");
    }
    hsc__string_printf(out, "the metric: %+.4f logits; the parts add up to it within %.1e\n",
                       j->means[j->first.n_parts], j->worst);
}

static hsc_status add_text(const void *user, hsc__string *out, hsc_error *err)
{
    const job *j = user;
    add_header(j, out);
    add_sums(j, out);
    hsc__sweep_describe(&j->tests, out);
    HSC_TRY(show_map(j, NULL, out, err));
    return add_table(j, out, err);
}

static void csv_part(hsc__string *out, const hsc_part *p)
{
    hsc__string_printf(out, "%s,", kind_name(p));
    if (p->layer >= 0) hsc__string_printf(out, "%d", p->layer);
    hsc__string_text(out, ",");
    if (p->head >= 0) hsc__string_printf(out, "%d", p->head);
}

/* A part a line; with --sources a head's shares follow it, a source a line. */
static void add_csv(const void *user, hsc__string *out)
{
    const job *j = user;
    const hsc_attribution *a = &j->first;
    const hsc_sweep_effect *tests = j->tests.effects; /* NULL: of one text */
    hsc__string_printf(out, "kind,layer,head,value,ci_low,ci_high%s\n",
                       a->sources ? ",source,source_token" : HSC__SWEEP_CSV);
    for (int i = 0; i < a->n_parts; i++) {
        const double *sources = sources_of(a, &a->parts[i]);
        csv_part(out, &a->parts[i]);
        hsc__csv_number(out, j->means[i]);
        hsc__csv_number(out, tests ? tests[i].ci.low : (double)NAN);
        hsc__csv_number(out, tests ? tests[i].ci.high : (double)NAN);
        if (!a->sources) hsc__sweep_csv(&j->tests, i, out);
        hsc__string_text(out, a->sources ? ",,\n" : "\n");
        for (int k = 0; sources && k < a->n_tokens; k++) {
            csv_part(out, &a->parts[i]);
            hsc__csv_number(out, sources[k]);
            hsc__string_text(out, ",,");
            hsc__csv_token(out, &j->r, k);
            hsc__string_text(out, "\n");
        }
    }
}

static json_t *json_part(const job *j, int i)
{
    const hsc_attribution *a = &j->first;
    const hsc_part *p = &a->parts[i];
    json_t *object = json_pack(
        "{s:s,s:o,s:o,s:o}", "kind", kind_name(p), "layer", p->layer >= 0 ? json_integer(p->layer) : json_null(),
        "head", p->head >= 0 ? json_integer(p->head) : json_null(), "value", hsc__json_number(j->means[i]));
    if (j->tests.effects) json_object_set_new(object, "ci", hsc__json_interval(j->tests.effects[i].ci));
    hsc__sweep_json(&j->tests, i, object);
    const double *sources = sources_of(a, p);
    if (sources) json_object_set_new(object, "sources", hsc__json_numbers(sources, (size_t)a->n_tokens));
    return object;
}

static json_t *make_json(const void *user)
{
    const job *j = user;
    hsc__string metric = {0};
    json_t *parts = json_array();
    describe_metric(j, &metric);
    for (int i = 0; i < j->first.n_parts; i++) json_array_append_new(parts, json_part(j, i));
    json_t *root = json_pack("{s:o,s:s,s:s,s:I,s:i,s:o,s:o}", "model", hsc__json_model(&j->r.opened), "compute",
                             hsc_compute_name((hsc_compute)j->v->r.compute), "metric", metric.data, "n_texts",
                             (json_int_t)j->items.n, "n_clusters", j->n_clusters, "value",
                             hsc__json_number(j->means[j->first.n_parts]), "rounding", hsc__json_number(j->worst));
    hsc__string_free(&metric);
    if (root && j->v->pairs) json_object_set_new(root, "right", json_integer(j->n_right));
    if (root && j->v->pairs) json_object_set_new(root, "skipped", hsc__items_json_skipped(&j->items));
    if (root && !j->v->pairs) json_object_set_new(root, "tokens", hsc__json_tokens(&j->r.tokens));
    if (root) hsc__sweep_json_whole(&j->tests, root);
    if (root) json_object_set_new(root, "parts", parts);
    return root;
}

int hsc__cli_attribute(int argc, char **argv)
{
    static const hsc__reading_steps steps = {&command, check, run, add_text, add_csv, make_json, show_map};
    values v = {.r = {.pos = -1, .top = 10}};
    job j = {.v = &v, .r = {.options = &v.r}, .tests.options = &v.search};
    int result = hsc__reading_main(&steps, argc, argv, &v, &j.r, &j);
    hsc_attribution_free(&j.first);
    hsc__items_free(&j.items);
    hsc__free(j.table);
    hsc__free(j.means);
    hsc__sweep_free(&j.tests);
    hsc__reading_free(&j.r);
    return result;
}
