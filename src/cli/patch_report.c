/* What patching found: what was put where, a map of layers by positions or heads, the cells that stand out. */
#include "cli/heads.h"
#include "cli/patch.h"
#include "cli/reading.h"

#include <math.h>

static const char *const inputs[] = {"q", "k", "v"};
static const char *const columns[] = {"head", "kv_head", "position", "layer"};

static void add_positions(const hsc__patch *j, hsc__string *out, hsc__positions p)
{
    hsc__string_printf(out, p.n == 1 ? "position %d" : "positions %d to %d", p.first, p.first + p.n - 1);
    for (int i = 0; i < p.n; i++) {
        hsc__string_text(out, " ");
        hsc__text_repr(out, j->tokens.texts[p.first + i].bytes, j->tokens.texts[p.first + i].n);
    }
}

static void add_receivers(const hsc__patch *j, hsc__string *out)
{
    if (!j->receivers.n) hsc__string_text(out, "the end of the residual stream");
    else hsc__string_printf(out, "%s of", inputs[j->options->input]);
    for (int i = 0; i < j->receivers.n; i++)
        hsc__string_printf(out, "%s L%dH%d", i ? "," : "", j->receivers.list[i].layer, j->receivers.list[i].head);
}

static void add_direction(const hsc__patch *j, hsc__string *out)
{
    hsc__string_text(out, j->options->noise ? "from the corrupted run into the clean one (noising)"
                                            : "from the clean run into the corrupted one (denoising)");
}

static void add_cut(const hsc__patch *j, hsc__string *out)
{
    add_positions(j, out, j->query);
    hsc__string_text(out, j->cols == HSC__COLS_HEADS ? ", one head at a time," : ", in all heads of a layer,");
    hsc__string_text(out, " cannot see ");
    if (j->cols == HSC__COLS_POSITIONS) hsc__string_text(out, "each token in turn");
    else add_positions(j, out, j->cut);
    hsc__string_text(out, j->options->no_renorm ? " (weights become 0)" : " (the rest of the row sums to 1)");
}

/* Texts of different lengths are said to be aligned. */
static void add_lengths(const hsc__patch *j, hsc__string *out)
{
    int n = hsc__patch_rows(j, &j->items.list[0]), m = hsc__patch_rows(j, &j->items.list[1]);
    if (j->mode != HSC__PATCH_CUTS && n != m)
        hsc__string_printf(out,
                           "texts of %d and %d tokens, aligned by span: from position %d on counted from the end\n", n,
                           m, j->seam);
    hsc__string_text(out, "\n");
}

static void add_header(const hsc__patch *j, hsc__string *out)
{
    hsc__string_printf(out, "%s: ", j->opened.name);
    if (j->mode == HSC__PATCH_CUTS) {
        add_cut(j, out);
    } else if (j->mode == HSC__PATCH_PATHS) {
        hsc__string_text(out, "paths from each head to ");
        add_receivers(j, out);
        hsc__string_text(out, ", other heads held, ");
        add_direction(j, out);
    } else {
        static const char *const by[] = {"head by head at all positions", "kv head by kv head at all positions",
                                         "position by position", "layer by layer at all positions"};
        hsc__string_printf(out, "%s patched %s, ", hsc_site_name(j->site), by[j->cols]);
        add_direction(j, out);
    }
    hsc__string_printf(out, ", compute %s\nmeasured: ", hsc_compute_name((hsc_compute)j->options->compute));
    hsc__metric_describe(out, &j->metric);
    if (j->mode == HSC__PATCH_CUTS)
        hsc__string_printf(out, ": %.4f logits as it is\ncells: with the edges cut minus as it is, in logits\n\n",
                           j->clean);
    else
        hsc__string_printf(out,
                           ": clean %.4f, corrupted %.4f logits\ncells: (patched - corrupted) / (clean - corrupted); 0 "
                           "is the corrupted run, 1 the clean one%s\n",
                           j->clean, j->corrupted, j->options->noise ? "; the map shows them less 1" : "");
    add_lengths(j, out);
}

/* The cell of a patch without effect: the run that is patched. */
static double start_of(const hsc__patch *j)
{
    return j->mode != HSC__PATCH_CUTS && j->options->noise ? 1 : 0;
}

static hsc_status show_map(const hsc__patch *j, const char *path, hsc__string *out, hsc_error *err)
{
    static const hsc__label all = {"all", 3};
    static const char *const titles[] = {"head", "kv head", "position", "all of the layer"};
    hsc__string title = {0};
    hsc__string_printf(&title, "%s: ", j->opened.name);
    if (j->mode == HSC__PATCH_CUTS) {
        hsc__string_text(&title, "edges cut from ");
        add_positions(j, &title, j->query);
        if (j->cols != HSC__COLS_POSITIONS) hsc__string_text(&title, " to ");
        if (j->cols != HSC__COLS_POSITIONS) add_positions(j, &title, j->cut);
    } else {
        if (j->mode == HSC__PATCH_PATHS) hsc__string_text(&title, "paths to ");
        if (j->mode == HSC__PATCH_PATHS) add_receivers(j, &title);
        else hsc__string_printf(&title, "%s patched", hsc_site_name(j->site));
        hsc__string_text(&title, j->options->noise ? ", corrupted into clean" : ", clean into corrupted");
    }
    hsc__effect_map map = {.title = title,
                           .x_title = titles[j->cols],
                           .y_title = "layer",
                           .value_title = j->mode == HSC__PATCH_CUTS ? "effect, logits"
                                          : j->options->noise        ? "share of the difference, less 1"
                                                                     : "share of the difference",
                           .start = start_of(j),
                           .n_rows = j->n_layers,
                           .n_cols = j->n_cols,
                           .values = j->cells,
                           .row_letter = 'L',
                           .col_letter = j->cols == HSC__COLS_KV_HEADS ? 'K' : 'H',
                           .blank_title = "no such token in the other text",
                           .col_labels = j->cols == HSC__COLS_POSITIONS ? j->tokens.texts
                                         : j->cols == HSC__COLS_LAYER   ? &all
                                                                        : NULL};
    return hsc__effect_map_show(&map, path, out, err);
}

static void add_cell(const hsc__patch *j, hsc__string *out, int i)
{
    int layer = i / j->n_cols, col = i % j->n_cols;
    hsc__string_printf(out, "%+8.3f  layer %d", j->cells[i], layer + 1);
    if (j->cols == HSC__COLS_LAYER) {
        hsc__string_printf(out, " (L%d)\n", layer);
        return;
    }
    if (j->cols == HSC__COLS_HEADS) {
        hsc__string_printf(out, ", head %d (L%dH%d)\n", col, layer, col);
        return;
    }
    if (j->cols == HSC__COLS_KV_HEADS) {
        int group = j->opened.config->n_heads / j->opened.config->n_kv_heads;
        hsc__string_printf(out, " (L%d), kv head %d", layer, col);
        if (group > 1) hsc__string_printf(out, ", which H%d to H%d share", col * group, (col + 1) * group - 1);
        hsc__string_text(out, "\n");
        return;
    }
    hsc__string_printf(out, ", position %d ", col);
    hsc__text_repr(out, j->tokens.texts[col].bytes, j->tokens.texts[col].n);
    hsc__string_printf(out, " (L%d)\n", layer);
}

/* The cells farthest from where the run started: from 0, but with --noise from 1. */
static void add_top(const hsc__patch *j, hsc__string *out)
{
    int n = j->n_layers * j->n_cols, top = j->options->top, n_real = 0;
    double last = INFINITY, start = start_of(j);
    int last_cell = -1;
    for (int i = 0; i < n; i++) n_real += !isnan(j->cells[i]);
    if (top > n_real) top = n_real;
    hsc__string_printf(out, "\nThe %d cell%s of %d farthest from %.0f, where the run starts:\n", top, HSC__PLURAL(top),
                       n_real, start);
    for (int row = 0; row < top; row++) {
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

int hsc__patch_print(const hsc__patch *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    add_header(j, &out);
    hsc_status status = show_map(j, NULL, &out, &err);
    if (status == HSC_OK) add_top(j, &out);
    if (status == HSC_OK && j->options->plot) status = show_map(j, j->options->plot, NULL, &err);
    if (status == HSC_OK) return hsc__cli_show(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

int hsc__patch_print_csv(const hsc__patch *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    bool positions = j->cols == HSC__COLS_POSITIONS;
    hsc__string_printf(&out, "layer%s%s%s,value\n", j->cols == HSC__COLS_LAYER ? "" : ",",
                       j->cols == HSC__COLS_LAYER ? "" : columns[j->cols], positions ? ",token" : "");
    for (int i = 0; i < j->n_layers * j->n_cols; i++) {
        int col = i % j->n_cols;
        hsc__string_printf(&out, "%d", i / j->n_cols);
        if (j->cols != HSC__COLS_LAYER) hsc__string_printf(&out, ",%d", col);
        if (positions) hsc__string_text(&out, ",");
        if (positions) hsc__csv_field(&out, j->tokens.texts[col].bytes, j->tokens.texts[col].n);
        hsc__csv_number(&out, j->cells[i]);
        hsc__string_text(&out, "\n");
    }
    hsc_status status = j->options->plot ? show_map(j, j->options->plot, NULL, &err) : HSC_OK;
    return hsc__answer(status, &out, &err);
}

/* ------------------------------------------------------------------------------------------------------ JSON ---- */

static json_t *json_positions(hsc__positions p)
{
    json_t *list = json_array();
    for (int i = 0; i < p.n; i++) json_array_append_new(list, json_integer(p.first + i));
    return list;
}

static void set_mode(const hsc__patch *j, json_t *root)
{
    static const char *const modes[] = {"places", "paths", "cuts", "pairs"};
    json_object_set_new(root, "mode", json_string(modes[j->mode]));
    json_object_set_new(root, "columns", json_string(columns[j->cols]));
    json_object_set_new(root, "clean", hsc__json_number(j->clean));
    if (j->mode == HSC__PATCH_CUTS) {
        json_object_set_new(root, "query", json_positions(j->query));
        if (j->cols != HSC__COLS_POSITIONS) json_object_set_new(root, "cut", json_positions(j->cut));
        json_object_set_new(root, "renormalised", json_boolean(!j->options->no_renorm));
        return;
    }
    json_object_set_new(root, "corrupted", hsc__json_number(j->corrupted));
    if (j->mode == HSC__PATCH_PLACES) {
        int n = hsc__patch_rows(j, &j->items.list[0]), m = hsc__patch_rows(j, &j->items.list[1]);
        json_object_set_new(root, "n_rows", json_pack("[i,i]", n, m));
        if (n != m) json_object_set_new(root, "seam", json_integer(j->seam));
    }
    json_object_set_new(root, "direction", json_string(j->options->noise ? "noise" : "denoise"));
    if (j->mode == HSC__PATCH_PLACES) {
        json_object_set_new(root, "site", json_string(hsc_site_name(j->site)));
        return;
    }
    json_t *receivers = json_array();
    for (int i = 0; i < j->receivers.n; i++)
        json_array_append_new(
            receivers, json_pack("{s:i,s:i}", "layer", j->receivers.list[i].layer, "head", j->receivers.list[i].head));
    json_object_set_new(root, "input", json_string(j->receivers.n ? inputs[j->options->input] : "resid_post"));
    json_object_set_new(root, "receivers", receivers);
}

int hsc__patch_print_json(const hsc__patch *j)
{
    hsc_error err = {0};
    json_t *rows = json_array();
    for (int layer = 0; layer < j->n_layers; layer++) {
        json_array_append_new(rows, hsc__json_numbers(j->cells + layer * j->n_cols, (size_t)j->n_cols));
    }
    json_t *root = json_pack("{s:o,s:s}", "model", hsc__json_model(&j->opened), "compute",
                             hsc_compute_name((hsc_compute)j->options->compute));
    set_mode(j, root);
    json_object_set_new(root, "cells", rows);
    if (j->options->plot && show_map(j, j->options->plot, NULL, &err) != HSC_OK) {
        json_decref(root);
        return hsc__cli_fail(&err);
    }
    return hsc__json_print(root);
}
