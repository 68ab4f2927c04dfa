/* The cells of a patching map: one run's activations in another place by place, what heads send along paths, edges of
 * attention cut. Each cell is one variant of the lab. */
#include "cli/patch.h"

#include <math.h>

static const hsc_site inputs[] = {HSC_Q, HSC_K, HSC_V};

static double metric_of(const hsc__patch *j, const hsc_trial *trial)
{
    return hsc__metric_value(&j->metric, &j->items.list[0], trial->logits, j->opened.config->d_vocab, trial->first_row,
                             trial->n_rows, NULL, NULL);
}

static int take_share(void *user, const hsc_trial *trial)
{
    hsc__patch *j = user;
    j->cells[trial->variant] = (metric_of(j, trial) - j->corrupted) / (j->clean - j->corrupted);
    return 0;
}

static int take_effect(void *user, const hsc_trial *trial)
{
    hsc__patch *j = user;
    j->cells[trial->variant] = metric_of(j, trial) - j->clean;
    return 0;
}

/* One run of a text; its metric. */
static hsc_status run_text(const hsc__patch *j, hsc_lab *lab, int item, double *value, hsc_error *err)
{
    hsc_view logits;
    const hsc__item *text = &j->items.list[item];
    if (text->source) HSC_TRY(hsc_lab_source(lab, text->source, text->n_source, err));
    HSC_TRY(hsc_lab_text(lab, text->ids, text->n_tokens, err));
    HSC_TRY(hsc_lab_logits(lab, &logits, err));
    *value = hsc__metric_value(&j->metric, text, logits.data, (int)logits.shape[1], 0, 1, NULL, NULL);
    return HSC_OK;
}

/* ---------------------------------------------------------------------------------------------------- places ---- */

/* Before the first token that differs a causal model's runs are the same, so heads need not be patched there. Other
 * sources differ from the first row on. */
static int first_difference(const hsc__patch *j)
{
    const hsc__item *x = &j->items.list[0], *y = &j->items.list[1];
    int n = 0, shorter = x->n_tokens < y->n_tokens ? x->n_tokens : y->n_tokens;
    if (!j->opened.config->causal || x->source) return 0;
    while (n < shorter - 1 && x->ids[n] == y->ids[n]) n++;
    return n;
}

/* What the rows of the run that is patched take from the other. */
static int find_rows(const hsc__patch *j, hsc_rows rows[2])
{
    bool noise = j->options->noise;
    int target = hsc__patch_rows(j, &j->items.list[!noise]), source = hsc__patch_rows(j, &j->items.list[noise]);
    return hsc_align_rows(target, source, j->seam, rows);
}

/* The same of one cell: of a position of the clean text it and its like, or nothing; else all that can differ. */
static int cell_rows(const hsc__patch *j, int col, hsc_rows rows[2])
{
    int n = find_rows(j, rows), n_kept = 0, same = first_difference(j);
    for (int i = 0; i < n; i++) {
        hsc_rows r = rows[i];
        if (j->cols == HSC__COLS_POSITIONS) {
            int at = col - (j->options->noise ? r.to : r.from); /* --noise patches the clean text, else it gives */
            if (at >= 0 && at < r.n) rows[n_kept++] = (hsc_rows){r.to + at, r.from + at, 1};
        } else {
            int skip = r.to == r.from && same > r.to ? same - r.to : 0;
            if (skip < r.n) rows[n_kept++] = (hsc_rows){r.to + skip, r.from + skip, r.n - skip};
        }
    }
    return n_kept;
}

/* The edit of a cell: what the view of the other run holds there. A head of a table of weights is a whole plane. */
static hsc_status fill_edit(const hsc__patch *j, const hsc_view *view, const hsc_rows *rows, int layer, int col,
                            hsc_edit *e, hsc_error *err)
{
    bool table = hsc_site_is_map(j->site);
    size_t row = table ? (size_t)view->shape[2] : (size_t)hsc_site_row(j->opened.model, j->site);
    *e = (hsc_edit){.site = j->site, .layer = layer, .first_pos = rows->to, .n_pos = rows->n, .stride = row};
    e->values = view->data + (size_t)rows->from * row;
    if (j->cols == HSC__COLS_POSITIONS || j->cols == HSC__COLS_LAYER) return HSC_OK;
    if (table) {
        e->head = col;
        e->values += (size_t)col * (size_t)view->shape[1] * row;
        return HSC_OK;
    }
    hsc_edit part;
    HSC_TRY(hsc_edit_head(&part, j->opened.model, j->site, layer, col, err));
    e->first = part.first;
    e->n = part.n;
    e->values += part.first;
    return HSC_OK;
}

enum { STRETCHES = 2 }; /* edits of a cell at most */

static hsc_status fill_edits(const hsc__patch *j, const hsc_lab *source, hsc_edit *edits, hsc_variant *variants,
                             hsc_error *err)
{
    hsc_rows rows[STRETCHES];
    for (int layer = 0; layer < j->n_layers; layer++) {
        hsc_view view;
        HSC_TRY(hsc_lab_clean(source, j->site, layer, &view, err));
        for (int col = 0; col < j->n_cols; col++) {
            int i = layer * j->n_cols + col, n = cell_rows(j, col, rows);
            for (int k = 0; k < n; k++)
                HSC_TRY(fill_edit(j, &view, &rows[k], layer, col, &edits[STRETCHES * i + k], err));
            variants[i] = (hsc_variant){&edits[STRETCHES * i], n};
        }
    }
    return HSC_OK;
}

/* A position without its like cannot be patched. */
static void leave_blank(hsc__patch *j)
{
    hsc_rows rows[STRETCHES];
    for (int i = 0; i < j->n_layers * j->n_cols; i++)
        if (!cell_rows(j, i % j->n_cols, rows)) j->cells[i] = NAN;
}

static hsc_status patch_all(hsc__patch *j, const hsc_lab *source, hsc_lab *target, hsc_error *err)
{
    size_t n = (size_t)j->n_layers * (size_t)j->n_cols;
    hsc_edit *edits = hsc__calloc(STRETCHES * n, sizeof *edits);
    hsc_variant *variants = hsc__calloc(n, sizeof *variants);
    hsc_status status = edits && variants ? HSC_OK : hsc__fail_memory(err, STRETCHES * n * sizeof *edits, "patches");
    if (status == HSC_OK) status = fill_edits(j, source, edits, variants, err);
    if (status == HSC_OK) status = hsc_lab_run(target, variants, (int)n, take_share, j, err);
    if (status == HSC_OK) leave_blank(j);
    hsc__free(edits);
    hsc__free(variants);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- paths ---- */

/* Every head in turn sends. */
static hsc_status patch_paths(hsc__patch *j, const hsc_lab *source, hsc_lab *target, hsc_error *err)
{
    int n = j->n_layers * j->n_cols;
    hsc_head_place receivers[HSC__MAX_HEADS], *senders = hsc__calloc((size_t)n, sizeof *senders);
    if (!senders) return hsc__fail_memory(err, (size_t)n * sizeof *senders, "senders");
    for (int i = 0; i < j->receivers.n; i++)
        receivers[i] = (hsc_head_place){j->receivers.list[i].layer, j->receivers.list[i].head};
    for (int i = 0; i < n; i++) senders[i] = (hsc_head_place){i / j->n_cols, i % j->n_cols};
    hsc_path_end end = {j->receivers.n ? inputs[j->options->input] : HSC_RESID_POST, receivers, j->receivers.n};
    hsc_status status = hsc_path_patch(target, source, senders, n, &end, take_share, j, err);
    hsc__free(senders);
    return status;
}

static hsc_status keep_sites(const hsc__patch *j, hsc_lab *source, hsc_lab *target, hsc_error *err)
{
    if (j->mode == HSC__PATCH_PLACES) return j->site == HSC_RESID_PRE ? HSC_OK : hsc_lab_keep(source, j->site, -1, err);
    HSC_TRY(hsc_lab_keep(source, HSC_Z, -1, err));
    HSC_TRY(hsc_lab_keep(target, HSC_Z, -1, err));
    for (int i = 0; i < j->receivers.n; i++)
        HSC_TRY(hsc_lab_keep(target, inputs[j->options->input], j->receivers.list[i].layer, err));
    return HSC_OK;
}

static hsc_status run_two(hsc__patch *j, hsc_lab *clean, hsc_lab *corrupted, hsc_error *err)
{
    hsc_lab *source = j->options->noise ? corrupted : clean, *target = j->options->noise ? clean : corrupted;
    HSC_TRY(keep_sites(j, source, target, err));
    HSC_TRY(run_text(j, clean, 0, &j->clean, err));
    HSC_TRY(run_text(j, corrupted, 1, &j->corrupted, err));
    HSC_FAIL_IF(fabs(j->clean - j->corrupted) < 1e-4, HSC_EINVAL,
                "the metric is %.4f in both runs: there is no difference to bring back", j->clean);
    return j->mode == HSC__PATCH_PATHS ? patch_paths(j, source, target, err) : patch_all(j, source, target, err);
}

/* ------------------------------------------------------------------------------------------------------ cuts ---- */

/* The edits of a cell: one head's, or all of the layer's. */
static hsc_status cut_cell(const hsc__patch *j, int cell, hsc_edit *edits, hsc_variant *variant, hsc_error *err)
{
    int layer = cell / j->n_cols, col = cell % j->n_cols, n_heads = j->opened.config->n_heads;
    int first = j->cols == HSC__COLS_HEADS ? col : 0, n = j->cols == HSC__COLS_HEADS ? 1 : n_heads;
    hsc__positions keys = j->cols == HSC__COLS_POSITIONS ? (hsc__positions){col, 1} : j->cut;
    for (int i = 0; i < n; i++)
        HSC_TRY(hsc_edit_knock_out(&edits[i], j->opened.model, layer, first + i, j->query.first, j->query.n, keys.first,
                                   keys.n, !j->options->no_renorm, err));
    *variant = (hsc_variant){edits, n};
    return HSC_OK;
}

static hsc_status run_cuts(hsc__patch *j, hsc_lab *lab, hsc_error *err)
{
    int n = j->n_layers * j->n_cols, most = j->opened.config->n_heads;
    HSC_TRY(run_text(j, lab, 0, &j->clean, err));
    hsc_edit *edits = hsc__calloc((size_t)n * (size_t)most, sizeof *edits);
    hsc_variant *variants = hsc__calloc((size_t)n, sizeof *variants);
    hsc_status status =
        edits && variants ? HSC_OK : hsc__fail_memory(err, (size_t)n * (size_t)most * sizeof *edits, "cuts");
    for (int i = 0; i < n && status == HSC_OK; i++)
        status = cut_cell(j, i, edits + (size_t)i * (size_t)most, &variants[i], err);
    if (status == HSC_OK) status = hsc_lab_run(lab, variants, n, take_effect, j, err);
    hsc__free(edits);
    hsc__free(variants);
    return status;
}

/* --------------------------------------------------------------------------------------------------- the run ---- */

static hsc_status make_cells(hsc__patch *j, hsc_error *err)
{
    const hsc_config *c = j->site >= HSC_ENC_EMBED ? hsc_model_encoder(j->opened.model) : j->opened.config;
    HSC_FAIL_IF(j->mode == HSC__PATCH_PLACES && !hsc_model_has_site(j->opened.model, j->site), HSC_EINVAL,
                "--site: a model of architecture %s has no site \"%s\"", j->opened.config->arch,
                hsc_site_name(j->site));
    const int n_cols[] = {[HSC__COLS_HEADS] = c->n_heads,
                          [HSC__COLS_KV_HEADS] = c->n_kv_heads,
                          [HSC__COLS_POSITIONS] = hsc__patch_rows(j, &j->items.list[0]),
                          [HSC__COLS_LAYER] = 1};
    j->n_layers = c->n_layers;
    j->n_cols = n_cols[j->cols];
    size_t n = (size_t)c->n_layers * (size_t)j->n_cols;
    j->cells = hsc__calloc(n, sizeof *j->cells);
    return j->cells ? HSC_OK : hsc__fail_memory(err, n * sizeof *j->cells, "the map");
}

/* Paths go up: into the first layer there is none. */
static hsc_status check_receivers(const hsc__patch *j, hsc_error *err)
{
    const hsc_config *c = j->opened.config;
    int last = -1;
    for (int i = 0; i < j->receivers.n; i++) {
        HSC_TRY(hsc__place_check("--path", "head", j->receivers.list[i].layer, j->receivers.list[i].head, c->n_layers,
                                 c->n_heads, err));
        if (j->receivers.list[i].layer > last) last = j->receivers.list[i].layer;
    }
    HSC_FAIL_IF(!last, HSC_EINVAL, "--path: no head stands before those of layer 1 (L0): name heads of later layers");
    return HSC_OK;
}

hsc_status hsc__patch_run(hsc__patch *j, hsc_error *err)
{
    hsc_lab_options o = {.n_threads = j->options->threads, .compute = (hsc_compute)j->options->compute};
    hsc_lab *clean = NULL, *corrupted = NULL;
    HSC_TRY(check_receivers(j, err));
    HSC_TRY(make_cells(j, err));
    hsc_status status = hsc_lab_new(&clean, j->opened.model, &o, err);
    if (status == HSC_OK && j->mode == HSC__PATCH_CUTS) {
        status = run_cuts(j, clean, err);
    } else if (status == HSC_OK) {
        status = hsc_lab_new(&corrupted, j->opened.model, &o, err);
        if (status == HSC_OK) status = run_two(j, clean, corrupted, err);
    }
    hsc_lab_free(clean);
    hsc_lab_free(corrupted);
    return status;
}
