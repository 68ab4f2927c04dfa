/* What steering did: a table of doses, a map of layers and doses or a dose curve, what was written. */
#include "cli/heads.h"
#include "cli/steer.h"

#include <math.h>
#include <string.h>

static void add_header(const hsc__steer *s, hsc__string *out)
{
    const hsc__steer_options *v = s->options;
    hsc__string_printf(
        out,
        "%s: steered at %s, compute %s\ndirection: mean over the %s of %zu text%s (%s) minus that of %zu "
        "(%s); dose 1 adds it to every position but the first\n",
        s->opened.name, hsc_site_name(s->site), hsc_compute_name((hsc_compute)v->r.compute),
        v->at ? "last tokens" : "tokens but the first", s->toward.n, HSC__PLURAL(s->toward.n), v->toward, s->away.n,
        v->away);
    if (!s->measured) return;
    hsc__string_text(out, "measured: ");
    hsc__metric_describe(out, &s->metric);
    hsc__string_printf(out, ", in %s; effect = steered minus as it is\n", hsc__metric_unit(&s->metric));
    if (v->pairs) {
        hsc__items_describe(out, &s->items, s->n_clusters);
        hsc__string_printf(out, "as it is, the model answers rightly %d of %zu time%s (%.0f %%)\n", s->n_right,
                           s->items.n, HSC__PLURAL(s->items.n), 100.0 * s->n_right / (double)s->items.n);
    }
    hsc__string_printf(out, "as it is: %.4f\n", s->clean);
    if (s->n_controls)
        hsc__string_printf(out, "control: effect of %d random directions of the same length (seed %d)\n", s->n_controls,
                           v->seed);
}

static void add_point(const hsc__steer *s, hsc__string *cells, int layer, int dose)
{
    const hsc__steer_point *p = &s->points[layer * s->n_doses + dose];
    hsc__string_printf(cells, "%.6g\t%.4f\t%+.4f\t", s->doses[dose], p->value, p->effect);
    if (s->n_clusters > 1) hsc__string_printf(cells, "[%+8.4f, %+8.4f]", p->ci.low, p->ci.high);
    hsc__string_text(cells, "\t");
    if (s->options->pairs) hsc__string_printf(cells, "%.1f %%", 100.0 * p->n_right / (double)s->items.n);
    hsc__string_text(cells, "\t");
    if (s->n_controls) hsc__string_printf(cells, "%+.4f\t%+.4f to %+.4f", p->control, p->control_low, p->control_high);
    hsc__string_text(cells, s->n_controls ? "\t" : "\t\t");
}

static void add_layer(const hsc__steer *s, hsc__string *out, int index)
{
    int layer = s->layers[index];
    const hsc__column columns[] = {{.head = "dose", .right = true},
                                   {.head = "value", .right = true},
                                   {.head = "effect", .right = true},
                                   {.head = s->n_clusters > 1 ? "95 % interval" : "", .right = true},
                                   {.head = s->options->pairs ? "right" : "", .right = true},
                                   {.head = s->n_controls ? "control" : "", .right = true},
                                   {.head = s->n_controls ? "from, to" : "", .right = true}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    hsc__string_printf(out, "\nlayer %d (L%d), length of the direction %.3f\n", layer + 1, layer,
                       hsc__steer_length(s, layer));
    for (int dose = 0; dose < s->n_doses; dose++) add_point(s, &table.cells, index, dose);
    hsc__cli_table(out, &table);
}

static hsc_status draw_map(const hsc__steer *s, hsc__label *labels, char (*names)[24], double *cells, const char *path,
                           hsc__string *out, hsc_error *err)
{
    hsc__string title = {0};
    for (int i = 0; i < s->n_layers; i++) {
        snprintf(names[i], sizeof names[i], "L%d", s->layers[i]);
        labels[i] = (hsc__label){names[i], strlen(names[i])};
    }
    for (int i = 0; i < s->n_doses; i++) {
        char *name = names[s->n_layers + i];
        hsc__format_double(name, sizeof names[0], 6, s->doses[i]);
        labels[s->n_layers + i] = (hsc__label){name, strlen(name)};
    }
    for (int i = 0; i < s->n_layers * s->n_doses; i++) cells[i] = s->points[i].effect;
    hsc__string_printf(&title, "%s: steered at %s", s->opened.name, hsc_site_name(s->site));
    hsc__effect_map map = {.title = title,
                           .x_title = "dose",
                           .y_title = "layer",
                           .value_title = s->metric.kind == HSC__METRIC_LOSS ? "effect, nats" : "effect, logits",
                           .n_rows = s->n_layers,
                           .n_cols = s->n_doses,
                           .values = cells,
                           .row_labels = labels,
                           .col_labels = labels + s->n_layers};
    return hsc__effect_map_show(&map, path, out, err);
}

static hsc_status show_map(const hsc__steer *s, const char *path, hsc__string *out, hsc_error *err)
{
    size_t n = (size_t)s->n_layers + (size_t)s->n_doses, cells = (size_t)s->n_layers * (size_t)s->n_doses;
    hsc__label *labels = hsc__calloc(n, sizeof *labels);
    char(*names)[24] = hsc__calloc(n, sizeof *names);
    double *numbers = hsc__calloc(cells, sizeof *numbers);
    hsc_status status = hsc__fail_memory(err, cells * sizeof *numbers, "a map");
    if (labels && names && numbers) status = draw_map(s, labels, names, numbers, path, out, err);
    hsc__free(labels);
    hsc__free(names);
    hsc__free(numbers);
    return status;
}

/* The dose curve of one layer, with its interval and the controls. */
static hsc_status plot_curve(const hsc__steer *s, hsc_error *err)
{
    enum { KINDS = 6 };
    double x[KINDS][HSC__STEER_DOSES];
    size_t n = (size_t)s->n_doses;
    hsc__string title = {0};
    for (size_t i = 0; i < n; i++) {
        const hsc__steer_point *p = &s->points[i];
        const double figures[KINDS] = {s->doses[i], p->effect, p->ci.low, p->ci.high, p->control_low, p->control_high};
        for (int k = 0; k < KINDS; k++) x[k][i] = figures[k];
    }
    hsc__curve curves[] = {{"the direction", n, x[0], x[1], false},
                           {"random, lowest", n, x[0], x[4], true},
                           {"random, highest", n, x[0], x[5], true},
                           {"95 % interval", n, x[0], x[2], true},
                           {NULL, n, x[0], x[3], true}};
    size_t n_curves = s->n_clusters > 1 ? 5 : s->n_controls ? 3 : 1;
    hsc__panel panel = {.x_title = "dose",
                        .y_title = s->metric.kind == HSC__METRIC_LOSS ? "effect, nats" : "effect, logits",
                        .curves = curves,
                        .n_curves = n_curves};
    hsc__string_printf(&title, "%s: steered at %s of L%d", s->opened.name, hsc_site_name(s->site), s->layers[0]);
    hsc__cli_hold_interrupt(true);
    hsc_status status = title.failed ? hsc__fail_memory(err, 64, "a title")
                                     : hsc__plot_lines(s->options->r.plot, title.data, &panel, 1, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", s->options->r.plot);
    hsc__string_free(&title);
    return status;
}

static hsc_status plot(const hsc__steer *s, hsc_error *err)
{
    return s->n_layers == 1 ? plot_curve(s, err) : show_map(s, s->options->r.plot, NULL, err);
}

/* Of several layers, those whose largest effect is largest. */
static void add_best_layers(const hsc__steer *s, hsc__string *out)
{
    enum { SHOWN = 3 };
    double last = INFINITY;
    int shown = -1;
    for (int row = 0; row < SHOWN && row < s->n_layers; row++) {
        int best = -1;
        double best_size = 0;
        for (int i = 0; i < s->n_layers; i++) {
            double size = 0;
            for (int d = 0; d < s->n_doses; d++) size = fmax(size, fabs(s->points[i * s->n_doses + d].effect));
            bool after = size < last || (size == last && i > shown);
            if (after && (best < 0 || size > best_size)) {
                best = i;
                best_size = size;
            }
        }
        if (best < 0) return;
        add_layer(s, out, best);
        shown = best;
        last = best_size;
    }
}

static void add_texts(const hsc__steer *s, hsc__string *out)
{
    for (int dose = 0; dose < s->n_doses; dose++) {
        if (!s->points[dose].text) continue;
        hsc__string text = {0};
        hsc__text_decode(&text, s->points[dose].text, strlen(s->points[dose].text));
        hsc__string_printf(out, "\n--- dose %.6g\n", s->doses[dose]);
        hsc__text_fold(out, text.data, text.n, hsc__cli_width(), 0);
        hsc__string_text(out, "\n");
        if (text.failed) out->failed = true;
        hsc__string_free(&text);
    }
}

int hsc__steer_print(const hsc__steer *s)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc_status status = HSC_OK;
    add_header(s, &out);
    if (s->measured && s->n_layers == 1) {
        add_layer(s, &out, 0);
    } else if (s->measured) {
        hsc__string_text(&out, "\n");
        status = show_map(s, NULL, &out, &err);
        hsc__string_printf(&out,
                           "\nThe layers with the largest effects of %d; choosing one is a search: judge it on other "
                           "texts.\n",
                           s->n_layers);
        add_best_layers(s, &out);
    }
    add_texts(s, &out);
    if (status == HSC_OK && s->options->r.plot) status = plot(s, &err);
    return hsc__answer_text(status, &out, &err);
}

int hsc__steer_print_csv(const hsc__steer *s)
{
    hsc__string out = {0};
    hsc_error err = {0};
    hsc__string_text(&out, "layer,dose,value,effect,ci_low,ci_high,control,control_low,control_high,text\n");
    for (int i = 0; i < s->n_layers * s->n_doses; i++) {
        const hsc__steer_point *p = &s->points[i];
        const double figures[] = {
            s->doses[i % s->n_doses], p->value,       p->effect, p->ci.low, p->ci.high, p->control,
            p->control_low,           p->control_high};
        /* Without a metric, clusters or controls there are no such figures. */
        const bool known[] = {true,
                              s->measured,
                              s->measured,
                              s->measured && s->n_clusters > 1,
                              s->measured && s->n_clusters > 1,
                              s->n_controls > 0,
                              s->n_controls > 0,
                              s->n_controls > 0};
        hsc__string_printf(&out, "%d", s->layers[i / s->n_doses]);
        for (int k = 0; k < 8; k++) hsc__csv_number(&out, known[k] ? figures[k] : (double)NAN);
        hsc__string_text(&out, ",");
        if (p->text) hsc__csv_field(&out, p->text, strlen(p->text));
        hsc__string_text(&out, "\n");
    }
    return hsc__answer(s->options->r.plot ? plot(s, &err) : HSC_OK, &out, &err);
}

static json_t *json_point(const hsc__steer *s, int layer, int dose)
{
    const hsc__steer_point *p = &s->points[layer * s->n_doses + dose];
    json_t *object = json_pack("{s:i,s:f}", "layer", s->layers[layer], "dose", s->doses[dose]);
    if (s->measured) {
        json_object_set_new(object, "value", hsc__json_number(p->value));
        json_object_set_new(object, "effect", hsc__json_number(p->effect));
        if (s->n_clusters > 1) json_object_set_new(object, "ci", hsc__json_interval(p->ci));
        if (s->options->pairs) json_object_set_new(object, "right", json_integer(p->n_right));
        if (s->n_controls)
            json_object_set_new(object, "control",
                                json_pack("{s:o,s:o,s:o}", "mean", hsc__json_number(p->control), "low",
                                          hsc__json_number(p->control_low), "high", hsc__json_number(p->control_high)));
    }
    return p->text ? hsc__json_set_text(object, p->text, strlen(p->text)) : object;
}

int hsc__steer_print_json(const hsc__steer *s)
{
    hsc_error err = {0};
    json_t *points = json_array(), *lengths = json_array();
    json_t *root = json_pack("{s:o,s:s,s:s,s:I,s:I}", "model", hsc__json_model(&s->opened), "compute",
                             hsc_compute_name((hsc_compute)s->options->r.compute), "site", hsc_site_name(s->site),
                             "n_toward", (json_int_t)s->toward.n, "n_away", (json_int_t)s->away.n);
    for (int i = 0; i < s->n_layers; i++) {
        json_array_append_new(lengths, hsc__json_number(hsc__steer_length(s, s->layers[i])));
        for (int dose = 0; dose < s->n_doses; dose++) json_array_append_new(points, json_point(s, i, dose));
    }
    if (s->measured) {
        hsc__string metric = {0};
        hsc__metric_describe(&metric, &s->metric);
        json_object_set_new(root, "metric", json_string(metric.data));
        hsc__string_free(&metric);
        json_object_set_new(root, "n_texts", json_integer((json_int_t)s->items.n));
        json_object_set_new(root, "clean", hsc__json_number(s->clean));
        if (s->options->pairs) json_object_set_new(root, "n_clusters", json_integer(s->n_clusters));
        if (s->options->pairs) json_object_set_new(root, "clean_right", json_integer(s->n_right));
        if (s->options->pairs) json_object_set_new(root, "skipped", hsc__items_json_skipped(&s->items));
    }
    json_object_set_new(root, "lengths", lengths);
    json_object_set_new(root, "points", points);
    hsc_status status = s->options->r.plot ? plot(s, &err) : HSC_OK;
    return hsc__answer_json(status, root, &err);
}
