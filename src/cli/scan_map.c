/* The map of a scan: a cell is as dark as the head's shift is large. */
#include "cli/scan.h"

#include <math.h>

/* Draws into `out`, or to the file of --plot when it is NULL. */
static hsc_status draw(const hsc__scan *scan, hsc__string *out, hsc_error *err)
{
    hsc__string title = {0};
    double *values = hsc__calloc((size_t)scan->n_heads, sizeof *values);
    hsc__string_printf(&title, "%s%s: |shift| over %d pair%s", scan->opened.name, hsc__cli_stack(&scan->opened),
                       scan->counts.n_used, HSC__PLURAL(scan->counts.n_used));
    hsc_status status = HSC_OK;
    if (!values || title.failed) status = hsc__fail_memory(err, (size_t)scan->n_heads * sizeof *values, "the map");
    for (int h = 0; status == HSC_OK && h < scan->n_heads; h++) values[h] = fabs(scan->heads[h].shift);
    hsc__head_map map = {title.data, "|shift|", scan->counts.n_layers, scan->counts.n_heads, values};
    if (status == HSC_OK)
        status = out ? hsc__head_map_show(out, &map, err) : hsc__head_map_plot(scan->options->plot, &map, err);
    hsc__string_free(&title);
    hsc__free(values);
    return status;
}

hsc_status hsc__scan_plot(const hsc__scan *scan, hsc_error *err)
{
    return draw(scan, NULL, err);
}

hsc_status hsc__scan_map(const hsc__scan *scan, hsc__string *out, hsc_error *err)
{
    return draw(scan, out, err);
}
