/*
 * Ablation: the variants that the options mean, what takes an activation's place, and the metric of every run. The
 * effect of a target is the metric with it ablated minus the metric as it is; with several texts means and intervals
 * are over their clusters.
 */
#include "cli/ablate.h"
#include "headscope/random.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------- targets ---- */

static hsc_status add_unit(hsc__ablate *j, hsc__unit unit, hsc_error *err)
{
    HSC_TRY(hsc__grow(&j->units, &j->units_capacity, j->n_units + 1, sizeof *j->units, err));
    j->units[j->n_units++] = unit;
    return HSC_OK;
}

/* A target of the units from `first` on. */
static hsc_status add_target(hsc__ablate *j, hsc__target_kind kind, size_t first, hsc_error *err)
{
    HSC_TRY(hsc__grow(&j->targets, &j->targets_capacity, j->n_targets + 1, sizeof *j->targets, err));
    j->targets[j->n_targets++] = (hsc__target){.kind = kind, .first = (int)first, .n = (int)(j->n_units - first)};
    return HSC_OK;
}

static hsc_status add_sweep(hsc__ablate *j, hsc_error *err)
{
    static const hsc_site sites[] = {HSC_Z, HSC_ATTN_OUT, HSC_MLP_OUT, HSC_ATTN_OUT, HSC_MLP_POST};
    const hsc_config *c = j->stack;
    int sweep = j->options->sweep, n = sweep == HSC__SWEEP_HEADS     ? c->n_heads
                                       : sweep == HSC__SWEEP_NEURONS ? c->d_mlp
                                                                     : 0; /* the layer's output as a whole */
    HSC_TRY(hsc__layers_check(&j->options->layers, c->n_layers, err));
    for (int layer = 0; layer < c->n_layers; layer++) {
        if (!hsc__layers_have(&j->options->layers, layer)) continue;
        for (int index = n ? 0 : -1; index < n; index++) {
            size_t first = j->n_units;
            HSC_TRY(add_unit(j, (hsc__unit){sites[sweep], layer, index}, err));
            if (sweep == HSC__SWEEP_LAYERS) HSC_TRY(add_unit(j, (hsc__unit){HSC_MLP_OUT, layer, -1}, err));
            HSC_TRY(add_target(j, HSC__TARGET_EACH, first, err));
        }
    }
    return HSC_OK;
}

static hsc_status add_layers(hsc__ablate *j, const hsc__layers *layers, hsc_site site, hsc_error *err)
{
    if (!layers->n) return HSC_OK;
    HSC_TRY(hsc__layers_check(layers, j->stack->n_layers, err));
    for (int layer = 0; layer < j->stack->n_layers; layer++) {
        if (hsc__layers_have(layers, layer)) HSC_TRY(add_unit(j, (hsc__unit){site, layer, -1}, err));
    }
    return HSC_OK;
}

static hsc_status add_heads(hsc__ablate *j, const hsc__heads *heads, hsc_error *err)
{
    for (int i = 0; i < heads->n; i++) {
        HSC_TRY(hsc__place_check("--heads", "head", heads->list[i].layer, heads->list[i].head, j->stack->n_layers,
                                 j->stack->n_heads, err));
        HSC_TRY(add_unit(j, (hsc__unit){HSC_Z, heads->list[i].layer, heads->list[i].head}, err));
    }
    return HSC_OK;
}

static hsc_status add_neurons(hsc__ablate *j, const hsc__heads *neurons, hsc_error *err)
{
    for (int i = 0; i < neurons->n; i++) {
        HSC_TRY(hsc__place_check("--neurons", "neuron", neurons->list[i].layer, neurons->list[i].head,
                                 j->stack->n_layers, j->stack->d_mlp, err));
        HSC_TRY(add_unit(j, (hsc__unit){HSC_MLP_POST, neurons->list[i].layer, neurons->list[i].head}, err));
    }
    return HSC_OK;
}

/* Whether the set holds this head. */
static bool in_set(const hsc__ablate *j, int layer, int head)
{
    const hsc__target *set = &j->targets[j->set];
    for (int i = set->first; i < set->first + set->n; i++) {
        const hsc__unit *u = &j->units[i];
        if (u->site == HSC_Z && u->layer == layer && u->index == head) return true;
    }
    return false;
}

/* A head of the layer that is neither in the set nor in the control that begins at unit `first`; -1: none is left. */
static int draw_head(const hsc__ablate *j, hsc_random *random, int layer, size_t first)
{
    int n = 0, n_heads = j->stack->n_heads, chosen = -1;
    for (int head = 0; head < n_heads; head++) {
        bool taken = in_set(j, layer, head);
        for (size_t i = first; i < j->n_units; i++) taken |= j->units[i].layer == layer && j->units[i].index == head;
        if (!taken && hsc_random_bits32(random) % (uint32_t)++n == 0) chosen = head;
    }
    return chosen;
}

/* Ten sets of other heads of the same layers, as many of each layer as the set has. */
static hsc_status add_controls(hsc__ablate *j, hsc_error *err)
{
    hsc_random random;
    hsc_random_seed(&random, (uint64_t)j->options->seed);
    hsc__target set = j->targets[j->set];
    for (int i = set.first; i < set.first + set.n; i++) {
        if (j->units[i].site != HSC_Z) return HSC_OK; /* layers and neurons have no such peers */
    }
    for (int draw = 0; draw < HSC__ABLATE_CONTROLS; draw++) {
        size_t first = j->n_units;
        for (int i = set.first; i < set.first + set.n; i++) {
            int layer = j->units[i].layer, head = draw_head(j, &random, layer, first);
            if (head < 0) {
                hsc__cli_note("no control heads: layer %d (L%d) has too few heads beside the set", layer + 1, layer);
                j->n_units = first;
                return HSC_OK;
            }
            HSC_TRY(add_unit(j, (hsc__unit){HSC_Z, layer, head}, err));
        }
        HSC_TRY(add_target(j, HSC__TARGET_CONTROL, first, err));
        j->n_controls++;
    }
    return HSC_OK;
}

/* --then B: B alone, and B with the set. */
static hsc_status add_then(hsc__ablate *j, int layer, int head, hsc_error *err)
{
    if (in_set(j, layer, head)) return HSC_OK;
    hsc__target set = j->targets[j->set];
    HSC_TRY(add_unit(j, (hsc__unit){HSC_Z, layer, head}, err));
    HSC_TRY(add_target(j, HSC__TARGET_ALONE, j->n_units - 1, err));
    size_t first = j->n_units;
    for (int i = set.first; i < set.first + set.n; i++) HSC_TRY(add_unit(j, j->units[i], err));
    HSC_TRY(add_unit(j, (hsc__unit){HSC_Z, layer, head}, err));
    return add_target(j, HSC__TARGET_AFTER, first, err);
}

static hsc_status add_thens(hsc__ablate *j, hsc_error *err)
{
    const hsc_config *c = j->stack;
    if (strcmp(j->options->then, "all") == 0) {
        for (int i = 0; i < c->n_layers * c->n_heads; i++) HSC_TRY(add_then(j, i / c->n_heads, i % c->n_heads, err));
        return HSC_OK;
    }
    hsc__heads heads;
    HSC_FAIL_IF(!hsc__heads_parse(j->options->then, &heads), HSC_EINVAL,
                "--then: '%s' is neither 'all' nor heads such as L4H3,L5H1", j->options->then);
    for (int i = 0; i < heads.n; i++) {
        HSC_TRY(
            hsc__place_check("--then", "head", heads.list[i].layer, heads.list[i].head, c->n_layers, c->n_heads, err));
        HSC_TRY(add_then(j, heads.list[i].layer, heads.list[i].head, err));
    }
    return HSC_OK;
}

static hsc_status make_targets(hsc__ablate *j, hsc_error *err)
{
    j->set = -1;
    HSC_TRY(add_heads(j, &j->options->heads, err));
    HSC_TRY(add_layers(j, &j->options->attn, HSC_ATTN_OUT, err));
    HSC_TRY(add_layers(j, &j->options->mlp, HSC_MLP_OUT, err));
    HSC_TRY(add_neurons(j, &j->options->neurons, err));
    if (!j->n_units) return add_sweep(j, err);
    j->set = 0;
    HSC_TRY(add_target(j, HSC__TARGET_SET, 0, err));
    if (!j->options->no_controls) HSC_TRY(add_controls(j, err));
    return j->options->then ? add_thens(j, err) : HSC_OK;
}

hsc_site hsc__ablate_site(const hsc__ablate *j, hsc_site site)
{
    bool cross = j->side == HSC__SIDE_CROSS, encoder = j->side == HSC__SIDE_ENCODER;
    switch (site) {
    case HSC_Z: return cross ? HSC_CROSS_Z : encoder ? HSC_ENC_Z : site;
    case HSC_ATTN_OUT: return cross ? HSC_CROSS_ATTN_OUT : encoder ? HSC_ENC_ATTN_OUT : site;
    case HSC_MLP_OUT: return encoder ? HSC_ENC_MLP_OUT : site;
    case HSC_MLP_POST: return encoder ? HSC_ENC_MLP_POST : site;
    default: return site;
    }
}

int hsc__ablate_rows(const hsc__ablate *j, const hsc__item *item)
{
    return j->side == HSC__SIDE_ENCODER ? item->n_source : item->n_tokens;
}

/* ------------------------------------------------------------------------------------------------------- runs ---- */

/* The positions whose activations are replaced, by rows of what takes their place; a donor of another length has none
 * for some. */
static int find_rows(const hsc__ablate *j, const hsc__item *item, hsc_rows rows[2])
{
    int n = hsc__ablate_rows(j, item);
    return hsc_align_rows(n, j->options->how == HSC__ABLATE_RESAMPLE ? j->n_fill : n, j->seam, rows);
}

static hsc_edit edit_of(const hsc__ablate *j, const hsc__unit *u, const hsc_rows *rows)
{
    hsc_site site = hsc__ablate_site(j, u->site);
    size_t row = (size_t)hsc_site_row(j->opened.model, site);
    int d = u->site == HSC_Z ? j->stack->d_head : 1;
    hsc_edit e = {.site = site, .layer = u->layer, .first_pos = rows->to, .n_pos = rows->n};
    if (u->index >= 0) {
        e.first = u->index * d;
        e.n = d;
    }
    if (!j->fills[u->site]) return e;
    e.values = j->fills[u->site] + ((size_t)u->layer * (size_t)j->n_fill + (size_t)rows->from) * row + (size_t)e.first;
    e.stride = j->n_fill > 1 ? row : 0;
    return e;
}

typedef struct trials {
    hsc__ablate *job;
    size_t item;
    double share;         /* of this run in the mean: 1, or 1 / donors */
    const double *before; /* losses of the run as it is */
    double *losses;       /* of a run; NULL */
} trials;

static int take_trial(void *user, const hsc_trial *trial)
{
    trials *t = user;
    hsc__ablate *j = t->job;
    hsc__target_kind kind = j->targets[trial->variant].kind;
    bool control = kind == HSC__TARGET_CONTROL, keep = j->losses[1] && (control || kind == HSC__TARGET_SET);
    double share = control ? t->share / j->n_controls : t->share;
    j->values[t->item * (j->n_targets + 1) + (size_t)trial->variant] +=
        t->share * hsc__metric_value(&j->metric, &j->items.list[t->item], trial->logits, j->opened.config->d_vocab,
                                     trial->first_row, trial->n_rows, t->before, keep ? t->losses : NULL);
    for (int pos = 1; keep && pos < j->items.list[t->item].n_tokens; pos++)
        j->losses[control ? 2 : 1][j->first_loss[t->item] + (size_t)pos] += share * t->losses[pos];
    return 0;
}

static hsc_status run_variants(hsc__ablate *j, hsc_lab *lab, trials *t, hsc_error *err)
{
    hsc_rows rows[2];
    int n_rows = find_rows(j, &j->items.list[t->item], rows);
    size_t n = j->n_units * (size_t)n_rows;
    hsc_edit *edits = hsc__calloc(n + 1, sizeof *edits);
    hsc_variant *variants = hsc__calloc(j->n_targets + 1, sizeof *variants);
    hsc_status status = hsc__fail_memory(err, n * sizeof *edits, "edits");
    if (edits && variants) {
        for (size_t i = 0; i < n; i++) edits[i] = edit_of(j, &j->units[i / (size_t)n_rows], &rows[i % (size_t)n_rows]);
        for (size_t i = 0; i < j->n_targets; i++)
            variants[i] = (hsc_variant){edits + j->targets[i].first * n_rows, j->targets[i].n * n_rows};
        status = hsc_lab_run(lab, variants, (int)j->n_targets, take_trial, t, err);
    }
    hsc__free(edits);
    hsc__free(variants);
    return status;
}

static hsc_status run_item(hsc__ablate *j, hsc_lab *lab, size_t i, hsc_error *err)
{
    const hsc__item *item = &j->items.list[i];
    hsc_view logits;
    int n_donors = hsc__ablate_n_donors(j, i);
    int n_rows = hsc__ablate_rows(j, item);
    if (j->options->by_position && n_rows != j->n_fill)
        return hsc__fail(err, HSC_EINVAL, 0, "--by-position: a text has %d tokens, those of the corpus have %d", n_rows,
                         j->n_fill);
    double *before = hsc__calloc(2 * (size_t)item->n_tokens, sizeof *before);
    if (!before) return hsc__fail_memory(err, (size_t)item->n_tokens * sizeof *before, "losses");
    trials t = {j, i, n_donors ? 1.0 / n_donors : 1, before, before + item->n_tokens};
    hsc_status status = item->source ? hsc_lab_source(lab, item->source, item->n_source, err) : HSC_OK;
    if (status == HSC_OK) status = hsc_lab_text(lab, item->ids, item->n_tokens, err);
    if (status == HSC_OK) status = hsc_lab_logits(lab, &logits, err);
    if (status == HSC_OK) {
        j->values[i * (j->n_targets + 1) + j->n_targets] = hsc__metric_value(
            &j->metric, item, logits.data, (int)logits.shape[1], 0, (int)logits.shape[0], NULL, before);
        if (j->losses[0]) memcpy(j->losses[0] + j->first_loss[i], before, (size_t)item->n_tokens * sizeof *before);
    }
    for (int d = 0; d < (n_donors ? n_donors : 1) && status == HSC_OK; d++) {
        if (n_donors) status = hsc__ablate_fill_donor(j, i, d, err);
        if (status == HSC_OK) status = run_variants(j, lab, &t, err);
    }
    hsc__free(before);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- figures ---- */

static hsc_status test_sweep(hsc__ablate *j, const hsc_table *effects, hsc_error *err)
{
    const hsc__ablate_options *o = j->options;
    HSC_TRY(hsc__sweep_test(&j->tests, effects, 0, (int)j->n_targets, o->seed, o->threads, err));
    for (size_t t = 0; t < j->n_targets && j->tests.effects; t++) j->targets[t].interval = j->tests.effects[t].ci;
    return HSC_OK;
}

/* Means, then the table's cells become effects and the intervals come from them. */
static hsc_status summarise_table(hsc__ablate *j, double *table, hsc_interval *intervals, hsc_error *err)
{
    size_t n = j->n_targets + 1;
    for (size_t t = 0; t < j->n_targets; t++) {
        hsc__target *target = &j->targets[t];
        size_t against = target->kind == HSC__TARGET_AFTER ? (size_t)j->set : j->n_targets;
        for (int c = 0; c < j->n_clusters; c++) {
            target->value += table[(size_t)c * n + t] / j->n_clusters;
            target->effect += (table[(size_t)c * n + t] - table[(size_t)c * n + against]) / j->n_clusters;
        }
        for (size_t i = 0; i < j->items.n; i++) target->n_right += !j->items.list[i].unused && j->values[i * n + t] > 0;
    }
    for (int c = 0; c < j->n_clusters; c++) j->clean += table[(size_t)c * n + j->n_targets] / j->n_clusters;
    for (size_t i = 0; i < j->items.n; i++)
        j->n_right += !j->items.list[i].unused && j->values[i * n + j->n_targets] > 0;
    if (j->n_clusters < 2 && j->set >= 0) return HSC_OK;
    for (size_t t = j->n_targets; t-- > 0;) { /* from the last: AFTER reads the set's column before it changes */
        size_t against = j->targets[t].kind == HSC__TARGET_AFTER ? (size_t)j->set : j->n_targets;
        for (int c = 0; c < j->n_clusters; c++) table[(size_t)c * n + t] -= table[(size_t)c * n + against];
    }
    hsc_table figures = {table, j->n_clusters, (int)n};
    if (j->set < 0) return test_sweep(j, &figures, err);
    hsc_bootstrap_options o = {.seed = (uint64_t)j->options->seed, .n_threads = j->options->threads};
    HSC_TRY(hsc_bootstrap(&figures, &o, intervals, err));
    for (size_t t = 0; t < j->n_targets; t++) j->targets[t].interval = intervals[t];
    return HSC_OK;
}

static hsc_status summarise(hsc__ablate *j, hsc_error *err)
{
    size_t n = j->n_targets + 1;
    double *table = hsc__calloc(j->items.n * n, sizeof *table);
    hsc_interval *intervals = hsc__calloc(n, sizeof *intervals);
    hsc_status status = table && intervals
                            ? hsc__items_cluster_means(&j->items, j->values, n, table, &j->n_clusters, err)
                            : hsc__fail_memory(err, j->items.n * n * sizeof *table, "effects");
    if (status == HSC_OK) status = summarise_table(j, table, intervals, err);
    hsc__free(table);
    hsc__free(intervals);
    return status;
}

static hsc_status run_items(hsc__ablate *j, hsc_lab *lab, hsc_error *err)
{
    hsc__counting counting;
    for (size_t i = 0; i < j->items.n; i++) {
        hsc__counting_text(&counting, "ablating", i, j->items.n);
        if (!j->items.list[i].unused) HSC_TRY(run_item(j, lab, i, err));
    }
    return HSC_OK;
}

static hsc_status make_losses(hsc__ablate *j, hsc_error *err)
{
    j->first_loss = hsc__calloc(j->items.n, sizeof *j->first_loss);
    if (!j->first_loss) return hsc__fail_memory(err, j->items.n * sizeof *j->first_loss, "losses");
    for (size_t i = 0; i < j->items.n; i++) {
        j->first_loss[i] = j->n_losses;
        j->n_losses += (size_t)j->items.list[i].n_tokens;
    }
    for (int k = 0; k < 3; k++) {
        j->losses[k] = hsc__calloc(j->n_losses, sizeof *j->losses[k]);
        if (!j->losses[k]) return hsc__fail_memory(err, j->n_losses * sizeof *j->losses[k], "losses");
    }
    return HSC_OK;
}

hsc_status hsc__ablate_run(hsc__ablate *j, hsc_error *err)
{
    HSC_TRY(make_targets(j, err));
    j->values = hsc__calloc(j->items.n * (j->n_targets + 1), sizeof *j->values);
    if (!j->values) return hsc__fail_memory(err, j->items.n * j->n_targets * sizeof *j->values, "effects");
    if (j->options->per_token) HSC_TRY(make_losses(j, err));
    if (j->options->how == HSC__ABLATE_MEAN) HSC_TRY(hsc__ablate_fill_corpus(j, err));
    HSC_TRY(hsc__ablate_find_donors(j, err));
    hsc_lab *lab = NULL;
    hsc_lab_options o = hsc__ablate_lab_options(j);
    HSC_TRY(hsc_lab_new(&lab, j->opened.model, &o, err));
    hsc_status status = run_items(j, lab, err);
    hsc_lab_free(lab);
    hsc__cli_progress_end();
    return status == HSC_OK ? summarise(j, err) : status;
}
