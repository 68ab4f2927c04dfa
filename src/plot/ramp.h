/* From weights to colours: the ramps, and the scales by which a weight finds its place on one. */
#ifndef HSC_PLOT_RAMP_H
#define HSC_PLOT_RAMP_H

#include "plot/plot.h"

/* The anchors of a scale's ramp, 0xRRGGBB, evenly spaced; linear in between. */
enum { HSC__RAMP_ANCHORS = 9 };
const uint32_t *hsc__ramp_anchors(hsc__scale scale);

/* The colour at `shade` in [0, 1], 0xRRGGBB. */
uint32_t hsc__ramp(hsc__scale scale, double shade);

/* A scale with what it needs to know of the maps it is for. */
typedef struct hsc__scaling {
    hsc__scale scale;
    double max; /* the weight at the dark end: 1, or the largest shown for HSC__SCALE_MAX and _SIGNED */
} hsc__scaling;
hsc__scaling hsc__scaling_of(const hsc__heatmap *maps, size_t n_maps);

/* The weight at [row][col], NaN where it is masked. */
float hsc__heatmap_value(const hsc__heatmap *map, int row, int col);

/* Places on the ramp of one row, [n_cols], NaN where masked. */
void hsc__shade_row(float *out, const hsc__heatmap *map, const hsc__scaling *scaling, int row);

/* How far a shade is from the one of weight 0, at most 1: the darkness by which blocks of cells are thinned. */
double hsc__shade_size(hsc__scale scale, double shade);

/* Ticks of the legend: at most 8 places in [0, 1] with their texts. */
typedef struct hsc__tick {
    double shade;
    char text[24];
} hsc__tick;
enum { HSC__MAX_TICKS = 8 };
int hsc__scale_ticks(hsc__tick *out, const hsc__scaling *scaling);

/* Appends what the legend says: "attention weight, fixed scale 0 to 1". */
void hsc__scale_caption(hsc__string *out, const hsc__scaling *scaling, const char *value_title);

#endif
