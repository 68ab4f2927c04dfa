/* The ramp is ColorBrewer's Blues (Cynthia Brewer, colorbrewer2.org), the one that matplotlib calls "Blues". */
#include "plot/ramp.h"

#include <math.h>
#include <string.h>

const uint32_t hsc__ramp_anchors[HSC__RAMP_ANCHORS] = {0xf7fbff, 0xdeebf7, 0xc6dbef, 0x9ecae1, 0x6baed6,
                                                       0x4292c6, 0x2171b5, 0x08519c, 0x08306b};

/* The logarithmic scale shows this many decades below 1. */
enum { LOG_DECADES = 4 };

uint32_t hsc__ramp(double shade)
{
    double at = fmin(fmax(shade, 0), 1) * (HSC__RAMP_ANCHORS - 1);
    int low = at >= HSC__RAMP_ANCHORS - 1 ? HSC__RAMP_ANCHORS - 2 : (int)at;
    uint32_t a = hsc__ramp_anchors[low], b = hsc__ramp_anchors[low + 1], colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double from = (double)(a >> shift & 0xff), to = (double)(b >> shift & 0xff);
        colour |= (uint32_t)lround(from + (to - from) * (at - low)) << shift;
    }
    return colour;
}

float hsc__heatmap_value(const hsc__heatmap *map, int row, int col)
{
    if (map->causal && col > map->n_cols - map->n_rows + row) return NAN;
    size_t stride = map->stride ? map->stride : (size_t)map->n_cols;
    return map->values[(size_t)row * stride + (size_t)col];
}

static double row_max(const hsc__heatmap *map, int row)
{
    double max = 0;
    for (int j = 0; j < map->n_cols; j++) max = fmax(max, hsc__heatmap_value(map, row, j)); /* fmax passes over NaN */
    return max;
}

hsc__scaling hsc__scaling_of(const hsc__heatmap *maps, size_t n_maps)
{
    hsc__scaling scaling = {maps[0].scale, 1};
    if (scaling.scale != HSC__SCALE_MAX) return scaling;
    double max = 0;
    for (size_t m = 0; m < n_maps; m++) {
        for (int i = 0; i < maps[m].n_rows; i++) max = fmax(max, row_max(&maps[m], i));
    }
    if (max > 0 && isfinite(max)) scaling.max = max;
    return scaling;
}

void hsc__shade_row(float *out, const hsc__heatmap *map, const hsc__scaling *scaling, int row)
{
    double max = scaling->scale == HSC__SCALE_ROW ? row_max(map, row) : scaling->max;
    if (!(max > 0)) max = 1;
    for (int j = 0; j < map->n_cols; j++) {
        double value = hsc__heatmap_value(map, row, j);
        double shade = scaling->scale == HSC__SCALE_LOG ? 1 + log10(fmax(value, 1e-30)) / LOG_DECADES : value / max;
        out[j] = isnan(value) ? NAN : (float)fmin(fmax(shade, 0), 1);
    }
}

/* 1, 2 or 5 times a power of ten, so that max holds two to five steps. */
static double nice_step(double max)
{
    double power = pow(10, floor(log10(max)));
    double leading = max / power;
    return leading >= 5 ? power * 2 : leading >= 2 ? power : power / 2;
}

int hsc__scale_ticks(hsc__tick *out, const hsc__scaling *scaling)
{
    int n = 0;
    if (scaling->scale == HSC__SCALE_LOG) {
        for (int d = 0; d <= LOG_DECADES; d++) {
            out[n].shade = (double)d / LOG_DECADES;
            hsc__format_double(out[n++].text, sizeof out->text, 6, pow(10, d - LOG_DECADES));
        }
        return n;
    }
    double step = scaling->scale == HSC__SCALE_MAX ? nice_step(scaling->max) : 0.25;
    for (int i = 0; n < HSC__MAX_TICKS && i * step <= scaling->max * (1 + 1e-9); i++) {
        out[n].shade = i * step / scaling->max;
        hsc__format_double(out[n++].text, sizeof out->text, 6, i * step);
    }
    return n;
}

void hsc__scale_caption(hsc__string *out, const hsc__scaling *scaling, const char *value_title)
{
    if (!value_title) value_title = "attention weight";
    hsc__text_label(out, value_title, strlen(value_title));
    switch (scaling->scale) {
    case HSC__SCALE_FIXED: hsc__string_text(out, ", fixed scale 0 to 1"); break;
    case HSC__SCALE_ROW: hsc__string_text(out, " as a share of its row's largest"); break;
    case HSC__SCALE_LOG: hsc__string_text(out, ", logarithmic scale 0.0001 (and less) to 1"); break;
    case HSC__SCALE_MAX:
        hsc__string_text(out, ", scale 0 to ");
        hsc__string_double(out, 3, scaling->max);
        hsc__string_text(out, ", the largest shown");
        break;
    }
}
