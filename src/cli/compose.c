/* headscope compose: how much of what one head writes a later head can read, by the weights alone. */
#include "cli/heads.h"
#include "cli/reading.h"
#include "headscope/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_ALL = 0 };

typedef struct values {
    hsc__reading_options r; /* model, top, plot, threads, json */
    int kind;               /* 0: all, else 1 + hsc_compose */
    hsc__head head;
} values;

#define OPTION(...) HSC__OPTION(values, __VA_ARGS__)

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, r.model),
    OPTION("kind", 0, HSC__OPT_CHOICE, "all|q|k|v", kind, 0, 0,
           "Into where a head looks from (q), what it looks for (k) or what it moves (v). Default: each in turn."),
    OPTION("head", 0, HSC__OPT_HEAD, "L4H3", head, 0, 0, "Only pairs with this head, and a map of its partners."),
    OPTION("top", 'k', HSC__OPT_INT, "N", r.top, 1, 100000, "Rows of each table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", r.plot, 0, 0,
           "All pairs (or the map of --head) as .png, .svg or .pdf. Wants --kind."),
    HSC__OPTION_THREADS(values, r.threads),
    HSC__OPTION_JSON(values, r.json),
    HSC__OPTION_CSV(values, r.csv),
};

static const hsc__command command = {
    .name = "compose",
    .usage = "-m MODEL [--kind q|k|v] [--head L4H3]",
    .about =
        "Composition: how much of what a head writes a later head can read. The score is |OV M| / (|OV| |M|) in "
        "Frobenius norms, with M = QK, QK^T or OV of the later head (Elhage et al. 2021); the norm before attention is "
        "folded into the weights. A head turned at random would score 1 / sqrt(d_model) (root mean square), which "
        "stands beside it.\n"
        "An induction head, for one, reads in K what a head of the token before wrote. A high score says that the "
        "weights fit, not that the path is used: ablate the first head and look at the second.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope compose -m gpt2\n"
                "    the pairs of heads that fit best, in q, k and v\n"
                "headscope compose -m gpt2 --kind k --head L5H1\n"
                "    which earlier heads an induction head may look for",
    .min_args = 0,
    .max_args = 0,
};

typedef struct job {
    const values *v;
    hsc__opened opened;
    int n;                         /* heads of the model */
    float *scores[HSC_N_COMPOSES]; /* [n][n]; NULL: not asked for */
} job;

static double baseline(const job *j)
{
    return 1 / sqrt((double)j->opened.config->d_model);
}

/* The head that --head names, from 0 through the model; -1: none. */
static int chosen(const job *j)
{
    return j->v->head.given ? j->v->head.layer * j->opened.config->n_heads + j->v->head.head : -1;
}

static hsc_status run(job *j, hsc_error *err)
{
    const hsc_config *c = j->opened.config;
    j->n = c->n_layers * c->n_heads;
    if (j->v->head.given)
        HSC_TRY(hsc__place_check("--head", "head", j->v->head.layer, j->v->head.head, c->n_layers, c->n_heads, err));
    HSC_FAIL_IF(c->n_layers < 2, HSC_EINVAL, "%s has one layer: there is no later head", j->opened.name);
    for (int kind = 0; kind < HSC_N_COMPOSES; kind++) {
        if (j->v->kind != KIND_ALL && j->v->kind != kind + 1) continue;
        size_t n = (size_t)j->n * (size_t)j->n;
        j->scores[kind] = hsc__calloc(n, sizeof *j->scores[kind]);
        if (!j->scores[kind]) return hsc__fail_memory(err, n * sizeof *j->scores[kind], "composition scores");
        hsc__cli_progress("composition: %s", hsc_compose_name((hsc_compose)kind));
        HSC_TRY(hsc_composition(j->opened.model, (hsc_compose)kind, j->v->r.threads, j->scores[kind], err));
    }
    hsc__cli_progress_end();
    return HSC_OK;
}

typedef struct scored {
    float score;
    int pair; /* [first head][later head] */
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->pair > y->pair) - (x->pair < y->pair);
}

/* The pairs to show, by falling score. Returns how many; list: [n][n]. */
static int rank_pairs(const job *j, const float *scores, scored *list)
{
    int n = 0, head = chosen(j);
    for (int i = 0; i < j->n * j->n; i++)
        if (!isnan(scores[i]) && (head < 0 || i / j->n == head || i % j->n == head)) list[n++] = (scored){scores[i], i};
    if (n) qsort(list, (size_t)n, sizeof *list, by_score);
    return n;
}

/* Layers down, heads across: the score of --head with each other one, whichever comes first. */
static hsc_status show_partners(const job *j, const float *scores, const char *kind, const char *path, hsc__string *out,
                                hsc_error *err)
{
    int head = chosen(j);
    double *partners = hsc__calloc((size_t)j->n, sizeof *partners);
    hsc__string title = {0};
    if (!partners) return hsc__fail_memory(err, (size_t)j->n * sizeof *partners, "a map");
    for (int i = 0; i < j->n; i++) {
        float score = scores[i < head ? i * j->n + head : head * j->n + i];
        partners[i] = isnan(score) ? 0 : (double)score;
    }
    hsc__string_printf(&title, "%s: %s-composition with L%dH%d", j->opened.name, kind, j->v->head.layer,
                       j->v->head.head);
    hsc__head_map map = {title.data, "score", j->opened.config->n_layers, j->opened.config->n_heads, partners};
    hsc_status status = title.failed ? hsc__fail_memory(err, 64, "a title")
                        : path       ? hsc__head_map_plot(path, &map, err)
                                     : hsc__head_map_show(out, &map, err);
    hsc__string_free(&title);
    hsc__free(partners);
    return status;
}

/* All pairs: rows write, columns read. */
static hsc_status plot_pairs(const job *j, const float *scores, const char *kind, hsc_error *err)
{
    int n_heads = j->opened.config->n_heads;
    size_t n = (size_t)j->n;
    hsc__label *labels = hsc__calloc(n, sizeof *labels);
    char(*names)[24] = hsc__calloc(n, sizeof *names);
    hsc__string title = {0};
    hsc_status status = hsc__fail_memory(err, n * sizeof *labels, "a map");
    hsc__string_printf(&title, "%s: %s-composition", j->opened.name, kind);
    if (labels && names && !title.failed) {
        for (int i = 0; i < j->n; i++) {
            snprintf(names[i], sizeof names[i], "L%dH%d", i / n_heads, i % n_heads);
            labels[i] = (hsc__label){names[i], strlen(names[i])};
        }
        hsc__heatmap map = {.title = title.data,
                            .x_title = "reads",
                            .y_title = "writes",
                            .value_title = "score",
                            .n_rows = j->n,
                            .n_cols = j->n,
                            .values = scores,
                            .row_labels = labels,
                            .n_row_labels = n,
                            .col_labels = labels,
                            .n_col_labels = n,
                            .scale = HSC__SCALE_MAX};
        hsc__cli_hold_interrupt(true);
        status = hsc__plot_heatmap(j->v->r.plot, &map, err);
        hsc__cli_hold_interrupt(false);
        if (status == HSC_OK) hsc__cli_note("wrote %s", j->v->r.plot);
    }
    hsc__string_free(&title);
    hsc__free(labels);
    hsc__free(names);
    return status;
}

static hsc_status plot(const job *j, hsc_error *err)
{
    int kind = j->v->kind - 1;
    const char *name = hsc_compose_name((hsc_compose)kind);
    if (chosen(j) >= 0) return show_partners(j, j->scores[kind], name, j->v->r.plot, NULL, err);
    return plot_pairs(j, j->scores[kind], name, err);
}

static hsc_status add_kind(const job *j, hsc__string *out, int kind, hsc_error *err)
{
    static const char *const means[] = {"Q: what the first writes moves where the second looks from",
                                        "K: what the first writes moves what the second looks for",
                                        "V: the second moves what the first wrote"};
    const float *scores = j->scores[kind];
    int n_heads = j->opened.config->n_heads;
    size_t cells = (size_t)j->n * (size_t)j->n;
    hsc__string_printf(out, "\n%s\n", means[kind]);
    if (chosen(j) >= 0) HSC_TRY(show_partners(j, scores, hsc_compose_name((hsc_compose)kind), NULL, out, err));
    scored *list = hsc__calloc(cells, sizeof *list);
    if (!list) return hsc__fail_memory(err, cells * sizeof *list, "the order of the pairs");
    int n = rank_pairs(j, scores, list);
    static const hsc__column columns[] = {{.head = "score", .right = true},
                                          {.head = "times random", .right = true},
                                          {.head = "writes"},
                                          {.head = ""},
                                          {.head = "reads"}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int row = 0; row < j->v->r.top && row < n; row++) {
        int one = list[row].pair / j->n, two = list[row].pair % j->n;
        hsc__string_printf(&table.cells, "%.4f\t%.1f\t", (double)list[row].score,
                           (double)list[row].score / baseline(j));
        hsc__cell_head_name(&table.cells, one / n_heads, one % n_heads);
        hsc__string_text(&table.cells, "->\t");
        hsc__cell_head_name(&table.cells, two / n_heads, two % n_heads);
    }
    hsc__cli_table(out, &table);
    hsc__free(list);
    return HSC_OK;
}

static int print_text(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc_status status = HSC_OK;
    hsc__string_printf(&out,
                       "%s: composition of heads by their weights, a norm before attention folded in\n"
                       "a head turned at random would score %.4f, 1 / sqrt(%d)\n",
                       j->opened.name, baseline(j), j->opened.config->d_model);
    for (int kind = 0; kind < HSC_N_COMPOSES && status == HSC_OK; kind++) {
        if (j->scores[kind]) status = add_kind(j, &out, kind, &err);
    }
    if (status == HSC_OK && j->v->r.plot) status = plot(j, &err);
    return hsc__answer_text(status, &out, &err);
}

static int print_json(const job *j)
{
    hsc_error err = {0};
    json_t *root =
        json_pack("{s:o,s:o}", "model", hsc__json_model(&j->opened), "random", hsc__json_number(baseline(j)));
    for (int kind = 0; kind < HSC_N_COMPOSES; kind++) {
        json_t *rows = json_array();
        for (int i = 0; j->scores[kind] && i < j->n; i++) {
            json_t *row = json_array();
            for (int k = 0; k < j->n; k++)
                json_array_append_new(row,
                                      hsc__json_number((double)j->scores[kind][(size_t)i * (size_t)j->n + (size_t)k]));
            json_array_append_new(rows, row);
        }
        if (j->scores[kind]) json_object_set_new(root, hsc_compose_name((hsc_compose)kind), rows);
        else json_decref(rows);
    }
    hsc_status status = j->v->r.plot ? plot(j, &err) : HSC_OK;
    return hsc__answer_json(status, root, &err);
}

/* A line for every pair, with --head those with that head. */
static int print_csv(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    int n_heads = j->opened.config->n_heads, head = chosen(j);
    hsc__string_text(&out, "kind,layer,head,later_layer,later_head,score\n");
    for (int kind = 0; kind < HSC_N_COMPOSES; kind++) {
        for (int i = 0; j->scores[kind] && i < j->n * j->n; i++) {
            int one = i / j->n, two = i % j->n;
            if (isnan(j->scores[kind][i]) || (head >= 0 && one != head && two != head)) continue;
            hsc__string_printf(&out, "%s,%d,%d,%d,%d", hsc_compose_name((hsc_compose)kind), one / n_heads,
                               one % n_heads, two / n_heads, two % n_heads);
            hsc__csv_number(&out, (double)j->scores[kind][i]);
            hsc__string_text(&out, "\n");
        }
    }
    return hsc__answer(j->v->r.plot ? plot(j, &err) : HSC_OK, &out, &err);
}

static int check(const values *v)
{
    if (v->r.plot && v->kind == KIND_ALL) return hsc__cli_misuse(&command, "--plot draws one kind: --kind q, k or v");
    return hsc__reading_check_output(&command, &v->r);
}

int hsc__cli_compose(int argc, char **argv)
{
    values v = {.r = {.top = 10}};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&v);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.r.model, 0, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = run(&j, &err);
        if (status != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.r.json ? print_json(&j) : v.r.csv ? print_csv(&j) : print_text(&j);
    }
    for (int kind = 0; kind < HSC_N_COMPOSES; kind++) hsc__free(j.scores[kind]);
    hsc__cli_close(&j.opened);
    return result;
}
