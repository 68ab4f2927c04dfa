/* The ramps are ColorBrewer's nine-class Blues and RdBu (Cynthia Brewer, colorbrewer2.org), which matplotlib calls
 * "Blues" and "RdBu": from red through white to blue, and safe for most colour-blind eyes. */
#include "plot/ramp.h"

#include <math.h>
#include <string.h>

static const uint32_t blues[HSC__RAMP_ANCHORS] = {0xf7fbff, 0xdeebf7, 0xc6dbef, 0x9ecae1, 0x6baed6,
                                                  0x4292c6, 0x2171b5, 0x08519c, 0x08306b};
static const uint32_t red_blue[HSC__RAMP_ANCHORS] = {0xb2182b, 0xd6604d, 0xf4a582, 0xfddbc7, 0xf7f7f7,
                                                     0xd1e5f0, 0x92c5de, 0x4393c3, 0x2166ac};

/* The logarithmic scale shows this many decades below 1. */
enum { LOG_DECADES = 4 };

const uint32_t *hsc__ramp_anchors(hsc__scale scale)
{
    return scale == HSC__SCALE_SIGNED ? red_blue : blues;
}

double hsc__shade_size(hsc__scale scale, double shade)
{
    return scale == HSC__SCALE_SIGNED ? fabs(2 * shade - 1) : shade;
}

uint32_t hsc__ramp(hsc__scale scale, double shade)
{
    const uint32_t *anchors = hsc__ramp_anchors(scale);
    double at = fmin(fmax(shade, 0), 1) * (HSC__RAMP_ANCHORS - 1);
    int low = at >= HSC__RAMP_ANCHORS - 1 ? HSC__RAMP_ANCHORS - 2 : (int)at;
    uint32_t a = anchors[low], b = anchors[low + 1], colour = 0;
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

/* fmax passes over NaN. */
static double row_max(const hsc__heatmap *map, hsc__scale scale, int row)
{
    double max = 0;
    for (int j = 0; j < map->n_cols; j++) {
        double value = hsc__heatmap_value(map, row, j);
        max = fmax(max, scale == HSC__SCALE_SIGNED ? fabs(value) : value);
    }
    return max;
}

hsc__scaling hsc__scaling_of(const hsc__heatmap *maps, size_t n_maps)
{
    hsc__scaling scaling = {maps[0].scale, 1};
    if (scaling.scale != HSC__SCALE_MAX && scaling.scale != HSC__SCALE_SIGNED) return scaling;
    double max = 0;
    for (size_t m = 0; m < n_maps; m++) {
        for (int i = 0; i < maps[m].n_rows; i++) max = fmax(max, row_max(&maps[m], scaling.scale, i));
    }
    if (max > 0 && isfinite(max)) scaling.max = max;
    return scaling;
}

void hsc__shade_row(float *out, const hsc__heatmap *map, const hsc__scaling *scaling, int row)
{
    double max = scaling->scale == HSC__SCALE_ROW ? row_max(map, scaling->scale, row) : scaling->max;
    if (!(max > 0)) max = 1;
    for (int j = 0; j < map->n_cols; j++) {
        double value = hsc__heatmap_value(map, row, j);
        double shade = value / max;
        if (scaling->scale == HSC__SCALE_LOG) shade = 1 + log10(fmax(value, 1e-30)) / LOG_DECADES;
        if (scaling->scale == HSC__SCALE_SIGNED) shade = 0.5 + value / max / 2;
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
    if (scaling->scale == HSC__SCALE_SIGNED) {
        double signed_step = nice_step(scaling->max);
        int each = (int)(scaling->max / signed_step * (1 + 1e-9));
        if (2 * each + 1 > HSC__MAX_TICKS) signed_step *= 2, each /= 2;
        for (int i = -each; i <= each; i++) {
            out[n].shade = 0.5 + i * signed_step / scaling->max / 2;
            hsc__format_double(out[n++].text, sizeof out->text, 6, i * signed_step);
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
    case HSC__SCALE_SIGNED:
        hsc__string_text(out, ", red below 0 and blue above, up to ");
        hsc__string_double(out, 3, scaling->max);
        hsc__string_text(out, ", the largest size shown");
        break;
    }
}
