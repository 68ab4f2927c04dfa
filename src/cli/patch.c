/* headscope patch: put what one run holds at a place into another run of nearly the same text, place by place, and
 * measure how much of the difference between the two runs comes with it. */
#include "cli/intervene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *model, *corrupted, *metric, *plot;
    hsc__ids ids, corrupted_ids;
    int site, threads, compute, top;
    bool noise, no_special, parse_special, json;
} values;

#define OPTION(name, letter, kind, value, field, low, high, help)                                                      \
    {                                                                                                                  \
        name, letter, kind, value, offsetof(values, field), low, high, help                                            \
    }

static const hsc__option options[] = {
    HSC__OPTION_MODEL(values, model),
    OPTION("corrupted", 0, HSC__OPT_TEXT, "TEXT", corrupted, 0, 0,
           "The other text: as many tokens as TEXT, a word or two exchanged."),
    OPTION("metric", 0, HSC__OPT_TEXT, "METRIC", metric, 0, 0,
           "\"logit: A - B\": the logit of one token minus that of another, where the text goes on; \"logit: A\". #123 "
           "is an id."),
    OPTION(
        "site", 0, HSC__OPT_CHOICE, "resid_pre|attn_out|mlp_out|z", site, 0, 0,
        "What is patched. resid_pre (default), attn_out and mlp_out: one position of one layer at a time; z: one head "
        "at all positions."),
    OPTION("noise", 0, HSC__OPT_FLAG, NULL, noise, 0, 0,
           "Patch the corrupted run into the clean one. Default: the clean run into the corrupted one (denoising)."),
    OPTION("ids", 0, HSC__OPT_IDS, "IDS", ids, 0, 0, "Token ids such as 1,2,3 instead of TEXT."),
    OPTION("corrupted-ids", 0, HSC__OPT_IDS, "IDS", corrupted_ids, 0, 0, "Token ids instead of --corrupted."),
    OPTION("top", 0, HSC__OPT_INT, "N", top, 1, 100000, "Rows of the table. Default: 10."),
    OPTION("plot", 0, HSC__OPT_TEXT, "FILE", plot, 0, 0, "The map as .png, .svg or .pdf."),
    HSC__OPTION_COMPUTE(values, compute),
    OPTION("no-special", 0, HSC__OPT_FLAG, NULL, no_special, 0, 0,
           "Do not add what the tokenizer adds at the ends (BOS, EOS)."),
    OPTION("parse-special", 0, HSC__OPT_FLAG, NULL, parse_special, 0, 0,
           "Read <|endoftext|> and its like in the text as that token."),
    HSC__OPTION_THREADS(values, threads),
    HSC__OPTION_JSON(values, json),
};

static const hsc__command command = {
    .name = "patch",
    .usage = "-m MODEL --metric \"logit: A - B\" --corrupted TEXT TEXT",
    .about =
        "Activation patching. Two runs: TEXT as it is (clean) and --corrupted. Each place of the one run in turn is "
        "put into the other. A cell is (patched - corrupted) / (clean - corrupted): 0 is the corrupted run, 1 the "
        "clean one. Denoising asks what is enough to bring the answer back, --noise what is needed to keep it; the "
        "two need not agree.\n"
        "A map is a search: test a place that stands out on other pairs of texts.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope patch -m gpt2 --metric \"logit: Mary - John\" \\\n"
                "    --corrupted \"When Mary and John went to the store, Mary gave a drink to\" \\\n"
                "    \"When Mary and John went to the store, John gave a drink to\"\n"
                "    where, and in which layer, the second name makes the difference\n"
                "headscope patch ... --site z --plot heads.png\n"
                "    which heads carry it",
    .min_args = 0,
    .max_args = 1,
};

static const hsc_site sites[] = {HSC_RESID_PRE, HSC_ATTN_OUT, HSC_MLP_OUT, HSC_Z};

typedef struct job {
    const values *v;
    hsc__opened opened;
    hsc__metric metric;
    hsc__items items; /* clean, corrupted */
    hsc__tokens tokens;
    hsc_site site;
    int n_cols; /* positions, or heads */
    double clean, corrupted;
    double *cells; /* [n_layers][n_cols] */
} job;

static int check(job *j, const hsc__args *args)
{
    const values *v = j->v;
    hsc_error err = {0};
    if (args->n + (v->ids.ids != NULL) != 1) return hsc__cli_misuse(&command, "give one of TEXT and --ids");
    if ((v->corrupted != NULL) + (v->corrupted_ids.ids != NULL) != 1)
        return hsc__cli_misuse(&command, "give one of --corrupted and --corrupted-ids");
    if (!v->metric) return hsc__cli_misuse(&command, "--metric is missing: what is measured?");
    if (!hsc__metric_parse(v->metric, &j->metric) || j->metric.kind == HSC__METRIC_LOSS)
        return hsc__cli_misuse(&command, "--metric: '%s' is neither \"logit: A - B\" nor \"logit: A\"", v->metric);
    if (v->plot && hsc__plot_path(v->plot, &err) != HSC_OK) return hsc__cli_misuse(&command, "--plot: %s", err.message);
    return HSC__CLI_GO_ON;
}

static hsc_status read_texts(job *j, const hsc__args *args, hsc_error *err)
{
    const values *v = j->v;
    unsigned flags = hsc__encode_flags(v->no_special, v->parse_special);
    if (v->ids.ids) HSC_TRY(hsc__items_add_ids(&j->items, &v->ids, err));
    else HSC_TRY(hsc__items_add_text(&j->items, &j->opened, args->list[0], strlen(args->list[0]), flags, err));
    if (v->corrupted_ids.ids) HSC_TRY(hsc__items_add_ids(&j->items, &v->corrupted_ids, err));
    else HSC_TRY(hsc__items_add_text(&j->items, &j->opened, v->corrupted, strlen(v->corrupted), flags, err));
    hsc__item *clean = &j->items.list[0], *other = &j->items.list[1];
    HSC_FAIL_IF(clean->n_tokens != other->n_tokens, HSC_EINVAL,
                "the texts have %d and %d tokens: each position is patched by its own, so they must be as many",
                clean->n_tokens, other->n_tokens);
    HSC_TRY(hsc__metric_tokens(&j->metric, &j->opened, &clean->a, &clean->b, err));
    other->a = clean->a;
    other->b = clean->b;
    hsc__ids ids = {clean->ids, (size_t)clean->n_tokens};
    return hsc__tokens_from_ids(&j->tokens, hsc_model_tokenizer(j->opened.model, NULL), &ids, err);
}

static int take_trial(void *user, const hsc_trial *trial)
{
    job *j = user;
    double value = hsc__metric_value(&j->metric, &j->items.list[0], trial->logits, j->opened.config->d_vocab,
                                     trial->first_row, trial->n_rows, NULL, NULL);
    j->cells[trial->variant] = (value - j->corrupted) / (j->clean - j->corrupted);
    return 0;
}

/* One run of a text; its metric. */
static hsc_status run_text(const job *j, hsc_lab *lab, int item, double *value, hsc_error *err)
{
    hsc_view logits;
    const hsc__item *text = &j->items.list[item];
    HSC_TRY(hsc_lab_text(lab, text->ids, text->n_tokens, err));
    HSC_TRY(hsc_lab_logits(lab, &logits, err));
    *value = hsc__metric_value(&j->metric, text, logits.data, (int)logits.shape[1], 0, 1, NULL, NULL);
    return HSC_OK;
}

/* The edits: cell (layer, column) gets what `source` holds there. */
static hsc_status fill_edits(const job *j, const hsc_lab *source, hsc_edit *edits, hsc_variant *variants,
                             hsc_error *err)
{
    size_t row = (size_t)hsc_site_row(j->opened.model, j->site);
    for (int layer = 0; layer < j->opened.config->n_layers; layer++) {
        hsc_view view;
        HSC_TRY(hsc_lab_clean(source, j->site, layer, &view, err));
        for (int col = 0; col < j->n_cols; col++) {
            int i = layer * j->n_cols + col;
            if (j->site == HSC_Z) {
                HSC_TRY(hsc_edit_head(&edits[i], j->opened.model, HSC_Z, layer, col, err));
                edits[i].values = view.data + edits[i].first;
                edits[i].stride = row;
            } else {
                edits[i] = (hsc_edit){.site = j->site, .layer = layer, .first_pos = col, .n_pos = 1};
                edits[i].values = view.data + (size_t)col * row;
            }
            variants[i] = (hsc_variant){&edits[i], 1};
        }
    }
    return HSC_OK;
}

static hsc_status patch_all(job *j, const hsc_lab *source, hsc_lab *target, hsc_error *err)
{
    size_t n = (size_t)j->opened.config->n_layers * (size_t)j->n_cols;
    hsc_edit *edits = hsc__calloc(n, sizeof *edits);
    hsc_variant *variants = hsc__calloc(n, sizeof *variants);
    j->cells = hsc__calloc(n, sizeof *j->cells);
    hsc_status status = edits && variants && j->cells ? HSC_OK : hsc__fail_memory(err, n * sizeof *edits, "patches");
    if (status == HSC_OK) status = fill_edits(j, source, edits, variants, err);
    if (status == HSC_OK) status = hsc_lab_run(target, variants, (int)n, take_trial, j, err);
    hsc__free(edits);
    hsc__free(variants);
    return status;
}

static hsc_status run_labs(job *j, hsc_lab *clean, hsc_lab *corrupted, hsc_error *err)
{
    hsc_lab *source = j->v->noise ? corrupted : clean;
    if (j->site != HSC_RESID_PRE) HSC_TRY(hsc_lab_keep(source, j->site, -1, err));
    HSC_TRY(run_text(j, clean, 0, &j->clean, err));
    HSC_TRY(run_text(j, corrupted, 1, &j->corrupted, err));
    HSC_FAIL_IF(fabs(j->clean - j->corrupted) < 1e-4, HSC_EINVAL,
                "the metric is %.4f in both runs: there is no difference to bring back", j->clean);
    return patch_all(j, source, j->v->noise ? clean : corrupted, err);
}

static hsc_status run(job *j, hsc_error *err)
{
    hsc_lab_options o = {.n_threads = j->v->threads, .compute = (hsc_compute)j->v->compute};
    hsc_lab *clean = NULL, *corrupted = NULL;
    j->site = sites[j->v->site];
    j->n_cols = j->site == HSC_Z ? j->opened.config->n_heads : j->items.list[0].n_tokens;
    hsc_status status = hsc_lab_new(&clean, j->opened.model, &o, err);
    if (status == HSC_OK) status = hsc_lab_new(&corrupted, j->opened.model, &o, err);
    if (status == HSC_OK) status = run_labs(j, clean, corrupted, err);
    hsc_lab_free(clean);
    hsc_lab_free(corrupted);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- output ---- */

static hsc_status show_map(const job *j, const char *path, hsc__string *out, hsc_error *err)
{
    hsc__string title = {0};
    bool heads = j->site == HSC_Z;
    hsc__string_printf(&title, "%s: %s patched, %s", j->opened.name, hsc_site_name(j->site),
                       j->v->noise ? "corrupted into clean" : "clean into corrupted");
    hsc__effect_map map = {.title = title.data,
                           .x_title = heads ? "head" : "position",
                           .y_title = "layer",
                           .value_title = "share of the difference",
                           .n_rows = j->opened.config->n_layers,
                           .n_cols = j->n_cols,
                           .values = j->cells,
                           .row_letter = 'L',
                           .col_letter = 'H',
                           .col_labels = heads ? NULL : j->tokens.texts};
    hsc_status status =
        title.failed ? hsc__fail_memory(err, 64, "a title") : hsc__effect_map_show(&map, path, out, err);
    hsc__string_free(&title);
    return status;
}

static void add_cell(const job *j, hsc__string *out, int i)
{
    int layer = i / j->n_cols, col = i % j->n_cols;
    hsc__string_printf(out, "%+8.3f  layer %d, ", j->cells[i], layer + 1);
    if (j->site == HSC_Z) {
        hsc__string_printf(out, "head %d (L%dH%d)\n", col, layer, col);
        return;
    }
    hsc__string_printf(out, "position %d ", col);
    hsc__text_repr(out, j->tokens.texts[col].bytes, j->tokens.texts[col].n);
    hsc__string_printf(out, " (L%d)\n", layer);
}

/* The cells farthest from where the run started: from 0 when denoising, from 1 with --noise. */
static void add_top(const job *j, hsc__string *out)
{
    int n = j->opened.config->n_layers * j->n_cols;
    double last = INFINITY, start = j->v->noise ? 1 : 0;
    int last_cell = -1;
    hsc__string_printf(out, "\nThe %d cells of %d farthest from %.0f, where the run starts:\n",
                       n < j->v->top ? n : j->v->top, n, start);
    for (int row = 0; row < j->v->top && row < n; row++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            double size = fabs(j->cells[i] - start);
            bool after = size < last || (size == last && i > last_cell);
            if (after && (best < 0 || size > fabs(j->cells[best] - start))) best = i;
        }
        if (best < 0) break;
        add_cell(j, out, best);
        last = fabs(j->cells[best] - start);
        last_cell = best;
    }
}

static int print_text(const job *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc__string_printf(&out, "%s: %s patched %s, %s, compute %s\nmeasured: ", j->opened.name, hsc_site_name(j->site),
                       j->site == HSC_Z ? "head by head at all positions" : "position by position",
                       j->v->noise ? "from the corrupted run into the clean one (noising)"
                                   : "from the clean run into the corrupted one (denoising)",
                       hsc_compute_name((hsc_compute)j->v->compute));
    hsc__metric_describe(&out, &j->metric);
    hsc__string_printf(&out, ": clean %.4f, corrupted %.4f logits\n", j->clean, j->corrupted);
    hsc__string_text(&out, "cells: (patched - corrupted) / (clean - corrupted); 0 is the corrupted run, 1 the clean "
                           "one\n\n");
    hsc_status status = show_map(j, NULL, &out, &err);
    if (status == HSC_OK) add_top(j, &out);
    if (status == HSC_OK && j->v->plot) status = show_map(j, j->v->plot, NULL, &err);
    if (status == HSC_OK) return hsc__cli_write_string(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

static int print_json(const job *j)
{
    hsc_error err = {0};
    json_t *rows = json_array();
    for (int layer = 0; layer < j->opened.config->n_layers; layer++) {
        json_t *row = json_array();
        for (int col = 0; col < j->n_cols; col++)
            json_array_append_new(row, hsc__json_number(j->cells[layer * j->n_cols + col]));
        json_array_append_new(rows, row);
    }
    json_t *root =
        json_pack("{s:o,s:s,s:s,s:s,s:s,s:o,s:o,s:o}", "model", hsc__json_model(&j->opened), "compute",
                  hsc_compute_name((hsc_compute)j->v->compute), "site", hsc_site_name(j->site), "direction",
                  j->v->noise ? "noise" : "denoise", "columns", j->site == HSC_Z ? "head" : "position", "clean",
                  hsc__json_number(j->clean), "corrupted", hsc__json_number(j->corrupted), "cells", rows);
    if (root && j->v->plot && show_map(j, j->v->plot, NULL, &err) != HSC_OK) {
        json_decref(root);
        return hsc__cli_fail(&err);
    }
    return hsc__json_print(root);
}

int hsc__cli_patch(int argc, char **argv)
{
    values v = {.top = 10};
    job j = {.v = &v};
    hsc__args args;
    hsc_error err = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) result = check(&j, &args);
    if (result == HSC__CLI_GO_ON) result = hsc__cli_open(&command, v.model, 0, true, &j.opened);
    if (result == HSC__CLI_GO_ON) {
        hsc_status status = read_texts(&j, &args, &err);
        if (status == HSC_OK) status = run(&j, &err);
        if (status != HSC_OK) result = hsc__cli_fail(&err);
        else result = v.json ? print_json(&j) : print_text(&j);
    }
    hsc__free(j.cells);
    hsc__tokens_free(&j.tokens);
    hsc__items_free(&j.items);
    hsc__cli_close(&j.opened);
    hsc__free(v.ids.ids);
    hsc__free(v.corrupted_ids.ids);
    return result;
}
