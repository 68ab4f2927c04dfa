/* What an ablation found: what was done and in what units, how good the model is as it is, a ranked table, a map. */
#include "cli/ablate.h"
#include "cli/heads.h"
#include "plot/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_sweep(const hsc__ablate *j)
{
    return j->set < 0;
}

static size_t n_used(const hsc__ablate *j)
{
    return j->items.n - j->items.n_unused;
}

/* "layer 5, head 3 (L4H3)", "attention of layer 5 (L4)" */
static void name_unit(hsc__string *out, const hsc__unit *u)
{
    if (u->site == HSC_Z)
        hsc__string_printf(out, "layer %d, head %d (L%dH%d)", u->layer + 1, u->index, u->layer, u->index);
    else if (u->site == HSC_MLP_POST)
        hsc__string_printf(out, "layer %d, neuron %d (L%dN%d)", u->layer + 1, u->index, u->layer, u->index);
    else
        hsc__string_printf(out, "%s of layer %d (L%d)", u->site == HSC_ATTN_OUT ? "attention" : "MLP", u->layer + 1,
                           u->layer);
}

/* --then adds B to the set: it is the target's last unit. */
static const hsc__unit *named_unit(const hsc__ablate *j, const hsc__target *t)
{
    return &j->units[t->first + t->n - 1];
}

static void add_how(const hsc__ablate *j, hsc__string *out)
{
    static const char *const how[] = {"set to 0", "set to the mean", "set to what the donor holds"};
    hsc__string_text(out, how[j->options->how]);
    if (j->options->how == HSC__ABLATE_MEAN)
        hsc__string_printf(out, " over %s (%s)", j->options->corpus,
                           j->options->by_position ? "by position" : "position 0 left out");
    if (j->options->donors.n > 1) hsc__string_printf(out, " (%d donors, averaged)", j->options->donors.n);
    if (j->options->donors.n && j->items.n_aligned)
        hsc__string_printf(out, " (%zu of %d of another length, aligned by span)", j->items.n_aligned,
                           j->options->donors.n);
    if (j->options->n_donors)
        hsc__string_printf(out, " (%d text%s of other clusters%s)", j->options->n_donors,
                           HSC__PLURAL(j->options->n_donors), j->options->n_donors > 1 ? ", averaged" : "");
    else if (j->donors) hsc__string_text(out, " (the twin)");
}

/* By HSC__SIDE_*. */
static const char *const sides[] = {"", "in cross-attention, ", "in the encoder, ", "in the decoder, "};

static void add_header(const hsc__ablate *j, hsc__string *out)
{
    static const char *const sweeps[] = {"every head in turn", "every layer's attention in turn",
                                         "every layer's MLP in turn", "every layer's attention and MLP in turn",
                                         "every neuron in turn"};
    bool many = j->items.n > 1;
    hsc__string_printf(out, "%s: %s", j->opened.name, sides[j->side]);
    if (is_sweep(j)) {
        hsc__string_text(out, sweeps[j->options->sweep]);
    } else {
        for (int i = 0; i < j->targets[j->set].n; i++) {
            if (i) hsc__string_text(out, ", ");
            name_unit(out, &j->units[j->targets[j->set].first + i]);
        }
    }
    hsc__string_text(out, " ");
    add_how(j, out);
    hsc__string_printf(out, ", compute %s\nmeasured: ", hsc_compute_name((hsc_compute)j->options->compute));
    hsc__metric_describe(out, &j->metric);
    hsc__string_printf(out, ", in %s; effect = ablated minus as it is\n", hsc__metric_unit(&j->metric));
    if (many) hsc__items_describe(out, &j->items, j->n_clusters);
    if (j->options->pairs)
        hsc__string_printf(out, "as it is, the model answers rightly %d of %zu time%s (%.0f %%)\n", j->n_right,
                           n_used(j), HSC__PLURAL(n_used(j)), 100.0 * j->n_right / (double)n_used(j));
    hsc__string_printf(out, "as it is: %.4f\n", j->clean);
    hsc__sweep_describe(&j->tests, out);
    hsc__string_text(out, "\n");
}

/* ------------------------------------------------------------------------------------------------------ table ---- */

static const hsc__ablate *sorted_job;

static double size_of(const hsc__target *t)
{
    return hsc__rank_size(t->effect);
}

static int by_size(const void *a, const void *b)
{
    const hsc__target *x = &sorted_job->targets[*(const int *)a], *y = &sorted_job->targets[*(const int *)b];
    if (size_of(x) != size_of(y)) return size_of(x) < size_of(y) ? 1 : -1;
    return x->first < y->first ? -1 : 1;
}

static void name_what(hsc__string *out, const hsc__ablate *j, const hsc__target *t)
{
    const hsc__unit *last = named_unit(j, t);
    if (t->kind == HSC__TARGET_SET) hsc__string_text(out, "the set");
    else if (t->kind == HSC__TARGET_EACH && t->n > 1)
        hsc__string_printf(out, "layer %d (L%d)", last->layer + 1, last->layer);
    else name_unit(out, last);
}

static void add_row(const hsc__ablate *j, const hsc__target *t, hsc__string *cells)
{
    name_what(cells, j, t);
    hsc__string_printf(cells, "\t%.4f\t%+.4f\t", t->value, t->effect);
    if (j->n_clusters > 1) hsc__string_printf(cells, "%+.4f to %+.4f", t->interval.low, t->interval.high);
    hsc__string_text(cells, "\t");
    if (j->options->pairs) hsc__string_printf(cells, "%.0f %%", 100.0 * t->n_right / (double)n_used(j));
    hsc__string_text(cells, "\t");
    if (j->tests.effects) hsc__add_p(cells, j->tests.effects[t - j->targets].p_fwer);
    hsc__string_text(cells, "\t");
}

/* The targets of a kind, largest effect first, at most `most`; those of order[] when it is given. */
static void add_table(const hsc__ablate *j, hsc__string *out, const int *order, int n)
{
    const hsc__column columns[] = {{.head = "ablated"},
                                   {.head = "value", .right = true},
                                   {.head = "effect", .right = true},
                                   {.head = j->n_clusters > 1 ? "95 % interval" : "", .right = true},
                                   {.head = j->options->pairs ? "right" : "", .right = true},
                                   {.head = j->tests.effects ? "p_fwer" : "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    for (int i = 0; i < n; i++) add_row(j, &j->targets[order[i]], &table.cells);
    hsc__cli_table(out, &table);
}

static int rank(const hsc__ablate *j, hsc__target_kind kind, int *order)
{
    int n = 0;
    for (size_t i = 0; i < j->n_targets; i++) {
        if (j->targets[i].kind == kind) order[n++] = (int)i;
    }
    sorted_job = j;
    qsort(order, (size_t)n, sizeof *order, by_size);
    return n;
}

/* -------------------------------------------------------------------------------------------- the two answers ---- */

static void name_target(const void *user, int column, hsc__string *out)
{
    const hsc__ablate *j = user;
    name_what(out, j, &j->targets[column]);
}

/* Layers down, and across heads, neurons, or one column for the layer itself. */
static hsc_status fill_map(const hsc__ablate *j, double *values, hsc__label *rows, char (*names)[16], const char *path,
                           hsc__string *out, hsc_error *err)
{
    static const char *const columns[] = {"head", "attention", "MLP", "attention and MLP", "neuron"};
    int sweep = j->options->sweep, n_rows = 0, n_cols;
    hsc__label only = {columns[sweep], strlen(columns[sweep])};
    hsc__string title = {0};
    for (size_t i = 0; i < j->n_targets; i++) {
        const hsc__unit *u = &j->units[j->targets[i].first];
        values[i] = j->targets[i].effect;
        if (i && u->layer == j->units[j->targets[i - 1].first].layer) continue;
        snprintf(names[n_rows], sizeof names[n_rows], "L%d", u->layer);
        rows[n_rows] = (hsc__label){names[n_rows], strlen(names[n_rows])};
        n_rows++;
    }
    n_cols = (int)j->n_targets / n_rows;
    hsc__string_printf(&title, "%s: %seach %s %s", j->opened.name, sides[j->side], columns[sweep],
                       j->options->how == HSC__ABLATE_ZERO ? "zeroed" : "ablated");
    hsc__effect_map map = {.title = title,
                           .x_title = columns[sweep],
                           .y_title = "layer",
                           .value_title = j->metric.kind == HSC__METRIC_LOSS ? "effect, nats" : "effect, logits",
                           .n_rows = n_rows,
                           .n_cols = n_cols,
                           .values = values,
                           .row_labels = rows,
                           .col_labels = n_cols == 1 ? &only : NULL,
                           .col_letter = sweep == HSC__SWEEP_NEURONS ? 'N' : 'H'};
    return hsc__effect_map_show(&map, path, out, err);
}

static hsc_status show_map(const hsc__ablate *j, const char *path, hsc__string *out, hsc_error *err)
{
    size_t n_layers = (size_t)j->stack->n_layers;
    double *values = hsc__calloc(j->n_targets, sizeof *values);
    hsc__label *rows = hsc__calloc(n_layers, sizeof *rows);
    char(*names)[16] = hsc__calloc(n_layers, sizeof *names);
    hsc_status status = hsc__fail_memory(err, j->n_targets * sizeof *values, "a map");
    if (values && rows && names) status = fill_map(j, values, rows, names, path, out, err);
    hsc__free(values);
    hsc__free(rows);
    hsc__free(names);
    return status;
}

static hsc_status add_sweep(const hsc__ablate *j, hsc__string *out, int *order, hsc_error *err)
{
    int n = rank(j, HSC__TARGET_EACH, order);
    if (j->options->sweep != HSC__SWEEP_NEURONS) HSC_TRY(show_map(j, NULL, out, err));
    hsc__string_printf(out, "\nThe %d largest effects of %d, largest first:\n",
                       n < j->options->top ? n : j->options->top, n);
    add_table(j, out, order, n < j->options->top ? n : j->options->top);
    hsc__string_printf(
        out,
        "\nThis is the top of a search through %d: an effect here is a reason to test that one on "
        "other texts, not yet a finding.%s\n",
        n, j->tests.effects && !j->tests.held ? " --holdout 0.5 judges it on texts that did not choose it." : "");
    hsc__sweep_add_held_out(&j->tests, name_target, j, out);
    return j->options->plot ? show_map(j, j->options->plot, NULL, err) : HSC_OK;
}

static void add_controls(const hsc__ablate *j, hsc__string *out)
{
    double low = INFINITY, high = -INFINITY, mean = 0;
    int n = 0;
    for (size_t i = 0; i < j->n_targets; i++) {
        const hsc__target *t = &j->targets[i];
        if (t->kind != HSC__TARGET_CONTROL) continue;
        low = t->effect < low ? t->effect : low;
        high = t->effect > high ? t->effect : high;
        mean += t->effect;
        n++;
    }
    if (isnan(mean)) low = high = mean;
    if (n)
        hsc__string_printf(out,
                           "Control: %d draws of other heads of the same layers (seed %d): effect %+.4f on average, "
                           "from %+.4f to %+.4f.\n",
                           n, j->options->seed, mean / n, low, high);
}

/* --then: what B does alone and after the set, the largest difference first. */
static void add_thens(const hsc__ablate *j, hsc__string *out, int *order)
{
    int n = rank(j, HSC__TARGET_AFTER, order);
    if (!n) return;
    hsc__string_printf(out, "\nAfter the set is ablated (%d head%s", n, HSC__PLURAL(n));
    if (n > j->options->top) hsc__string_printf(out, ", the %d with the largest effect", j->options->top);
    hsc__string_text(out, "):\n     alone  after the set  difference  head\n");
    for (int i = 0; i < n && i < j->options->top; i++) {
        const hsc__target *after = &j->targets[order[i]], *alone = after - 1; /* made one after the other */
        hsc__string_printf(out, "%+10.4f %+14.4f %+11.4f  ", alone->effect, after->effect,
                           after->effect - alone->effect);
        name_unit(out, named_unit(j, after));
        hsc__string_text(out, "\n");
    }
}

int hsc__ablate_print(const hsc__ablate *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    int *order = hsc__calloc(j->n_targets + 1, sizeof *order);
    if (!order) return hsc__cli_no_memory();
    add_header(j, &out);
    hsc_status status = HSC_OK;
    if (is_sweep(j)) {
        status = add_sweep(j, &out, order, &err);
    } else {
        order[0] = j->set;
        add_table(j, &out, order, 1);
        add_controls(j, &out);
        if (status == HSC_OK && j->losses[0]) status = hsc__ablate_add_losses(j, &out, &err);
        add_thens(j, &out, order);
    }
    hsc__free(order);
    if (status == HSC_OK) return hsc__cli_show(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

/* "L4H3", "L4N1500", "L4.mlp_out", a blank between them. */
static void csv_units(const hsc__ablate *j, const hsc__target *t, hsc__string *out)
{
    for (int i = t->first; i < t->first + t->n; i++) {
        const hsc__unit *u = &j->units[i];
        hsc__string_printf(out, "%sL%d", i > t->first ? " " : "", u->layer);
        if (u->index >= 0) hsc__string_printf(out, "%c%d", u->site == HSC_Z ? 'H' : 'N', u->index);
        else hsc__string_printf(out, ".%s", hsc_site_name(u->site));
    }
}

static const char *kind_name(const hsc__target *t)
{
    static const char *const names[] = {"each", "set", "control", "alone", "after"};
    return names[t->kind];
}

int hsc__ablate_print_csv(const hsc__ablate *j)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc__string_text(&out, "kind,ablated,value,effect,ci_low,ci_high,right" HSC__SWEEP_CSV "\n");
    for (size_t i = 0; i < j->n_targets; i++) {
        const hsc__target *t = &j->targets[i];
        hsc__string_printf(&out, "%s,", kind_name(t));
        csv_units(j, t, &out);
        hsc__csv_number(&out, t->value);
        hsc__csv_number(&out, t->effect);
        hsc__csv_number(&out, j->n_clusters > 1 ? t->interval.low : (double)NAN);
        hsc__csv_number(&out, j->n_clusters > 1 ? t->interval.high : (double)NAN);
        hsc__string_text(&out, ",");
        if (j->options->pairs) hsc__string_printf(&out, "%d", t->n_right);
        hsc__sweep_csv(&j->tests, (int)i, &out);
        hsc__string_text(&out, "\n");
    }
    hsc_status status = j->options->plot ? show_map(j, j->options->plot, NULL, &err) : HSC_OK;
    if (status == HSC_OK) return hsc__cli_write_string(&out);
    hsc__string_free(&out);
    return hsc__cli_fail(&err);
}

/* ------------------------------------------------------------------------------------------------------- JSON ---- */

static json_t *json_units(const hsc__ablate *j, const hsc__target *t)
{
    json_t *list = json_array();
    for (int i = t->first; i < t->first + t->n; i++) {
        const hsc__unit *u = &j->units[i];
        json_array_append_new(list, json_pack("{s:s,s:i,s:o}", "site", hsc_site_name(hsc__ablate_site(j, u->site)),
                                              "layer", u->layer, u->site == HSC_MLP_POST ? "neuron" : "head",
                                              u->index >= 0 ? json_integer(u->index) : json_null()));
    }
    return list;
}

static json_t *json_target(const hsc__ablate *j, const hsc__target *t)
{
    json_t *o = json_pack("{s:s,s:o,s:o,s:o}", "kind", kind_name(t), "ablated", json_units(j, t), "value",
                          hsc__json_number(t->value), "effect", hsc__json_number(t->effect));
    if (j->n_clusters > 1) json_object_set_new(o, "ci", hsc__json_interval(t->interval));
    if (j->options->pairs) json_object_set_new(o, "right", json_integer(t->n_right));
    hsc__sweep_json(&j->tests, (int)(t - j->targets), o);
    return o;
}

int hsc__ablate_print_json(const hsc__ablate *j)
{
    static const char *const how[] = {"zero", "mean", "resample"};
    hsc__string metric = {0};
    hsc__metric_describe(&metric, &j->metric);
    json_t *targets = json_array();
    for (size_t i = 0; i < j->n_targets; i++) json_array_append_new(targets, json_target(j, &j->targets[i]));
    json_t *root = json_pack("{s:o,s:s,s:s,s:s,s:s,s:I,s:i,s:o}", "model", hsc__json_model(&j->opened), "compute",
                             hsc_compute_name((hsc_compute)j->options->compute), "how", how[j->options->how], "metric",
                             metric.data, "unit", hsc__metric_unit(&j->metric), "n_texts", (json_int_t)n_used(j),
                             "n_clusters", j->n_clusters, "clean", hsc__json_number(j->clean));
    hsc__string_free(&metric);
    if (root && j->options->pairs) json_object_set_new(root, "clean_right", json_integer(j->n_right));
    if (root && j->options->how == HSC__ABLATE_RESAMPLE)
        json_object_set_new(root, "n_aligned", json_integer((json_int_t)j->items.n_aligned));
    if (root && j->options->pairs) json_object_set_new(root, "skipped", hsc__items_json_skipped(&j->items));
    if (root) hsc__sweep_json_whole(&j->tests, root);
    if (root) json_object_set_new(root, "targets", targets);
    hsc_error err = {0};
    hsc_status status = root && j->losses[0] ? hsc__ablate_json_losses(j, root, &err) : HSC_OK;
    if (root && status == HSC_OK && j->options->plot) status = show_map(j, j->options->plot, NULL, &err);
    if (status != HSC_OK) {
        json_decref(root);
        return hsc__cli_fail(&err);
    }
    return hsc__json_print(root);
}
