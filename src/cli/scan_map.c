/* The map of a scan: layers down, heads across, a cell as dark as the head's shift is large, as a picture and in the
 * terminal. */
#include "cli/scan.h"

#include <math.h>
#include <stdlib.h>

/* Values and labels of the map; free with free_map. */
typedef struct map {
    float *values;
    hsc__label *rows, *columns;
    hsc__arena names;
    hsc__string title;
} map;

static void free_map(map *m)
{
    hsc__free(m->values);
    hsc__free(m->rows);
    hsc__free(m->columns);
    hsc__arena_free(&m->names);
    hsc__string_free(&m->title);
}

static bool add_labels(map *m, hsc__label *labels, int n, char letter)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        labels[i].n = (size_t)snprintf(name, sizeof name, "%c%d", letter, i);
        labels[i].bytes = hsc__arena_strndup(&m->names, name, labels[i].n);
        if (!labels[i].bytes) return false;
    }
    return true;
}

static hsc_status make_map(const hsc__scan *scan, map *m, hsc__heatmap *out, hsc_error *err)
{
    int n_layers = scan->counts.n_layers, n_heads = scan->counts.n_heads;
    m->values = hsc__calloc((size_t)scan->n_heads, sizeof *m->values);
    m->rows = hsc__calloc((size_t)n_layers, sizeof *m->rows);
    m->columns = hsc__calloc((size_t)n_heads, sizeof *m->columns);
    hsc__string_printf(&m->title, "%s: |shift| over %d pairs", scan->opened.name, scan->counts.n_used);
    if (!m->values || !m->rows || !m->columns || m->title.failed || !add_labels(m, m->rows, n_layers, 'L') ||
        !add_labels(m, m->columns, n_heads, 'H'))
        return hsc__fail_memory(err, (size_t)scan->n_heads * sizeof *m->values, "the map");
    for (int h = 0; h < scan->n_heads; h++) m->values[h] = (float)fabs(scan->heads[h].shift);
    *out = (hsc__heatmap){.title = m->title.data,
                          .x_title = "head",
                          .y_title = "layer",
                          .value_title = "|shift|",
                          .n_rows = n_layers,
                          .n_cols = n_heads,
                          .values = m->values,
                          .row_labels = m->rows,
                          .n_row_labels = (size_t)n_layers,
                          .col_labels = m->columns,
                          .n_col_labels = (size_t)n_heads,
                          .scale = HSC__SCALE_MAX};
    return HSC_OK;
}

hsc_status hsc__scan_plot(const hsc__scan *scan, hsc_error *err)
{
    map m = {0};
    hsc__heatmap heatmap;
    hsc_status status = make_map(scan, &m, &heatmap, err);
    hsc__cli_hold_interrupt(true);
    if (status == HSC_OK) status = hsc__plot_heatmap(scan->options->plot, &heatmap, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", scan->options->plot);
    free_map(&m);
    return status;
}

hsc_status hsc__scan_map(const hsc__scan *scan, hsc__string *out, hsc_error *err)
{
    map m = {0};
    hsc__heatmap heatmap;
    hsc__terminal_mode mode =
        hsc__terminal_choose(hsc__cli_terminal(stdout), getenv("TERM"), getenv("COLORTERM"), getenv("NO_COLOR"));
    hsc_status status = make_map(scan, &m, &heatmap, err);
    if (status == HSC_OK) status = hsc__terminal_heatmap(out, &heatmap, mode, hsc__cli_width(), err);
    free_map(&m);
    return status;
}
