/* Views of an attention pattern: pictures (.png, .svg, .pdf) and a heatmap for the terminal. Rows are the tokens that
 * look, top to bottom; columns are the tokens looked at, left to right; every view says so. Beside them curves, one
 * quantity against another.
 * Labels and titles are shown as they are typed: nothing is markup, blanks and line ends are visible, a control
 * character never gets through (hsc__text_label). */
#ifndef HSC_PLOT_PLOT_H
#define HSC_PLOT_PLOT_H

#include "base/text.h"

/* A token's bytes, raw; need not be UTF-8. */
typedef struct hsc__label {
    const char *bytes;
    size_t n;
} hsc__label;

/* How a weight becomes a colour. The legend of every view names the one in use. */
typedef enum {
    HSC__SCALE_FIXED = 0, /* 0 to 1, so that pictures can be compared */
    HSC__SCALE_MAX,       /* 0 to the largest weight shown; in a grid the largest of all its maps */
    HSC__SCALE_ROW,       /* each row by its own largest weight */
    HSC__SCALE_LOG,       /* logarithmic, 0.0001 to 1 */
    HSC__SCALE_SIGNED,    /* two colours, from minus the largest size shown to plus the same; 0 is white */
} hsc__scale;

/* One head's pattern with its labels. Zeroed fields mean the defaults. The strings and arrays are borrowed. */
typedef struct hsc__heatmap {
    const char *title;       /* UTF-8, for instance "GPT-2 layer 5, head 3 (L4H3)"; in a grid the short name "L4H3" */
    const char *x_title;     /* NULL: "attends to" */
    const char *y_title;     /* NULL: "token" */
    const char *value_title; /* what a colour stands for; NULL: "attention weight" */
    int n_rows, n_cols;      /* n_query, n_key */
    const float *values;     /* [n_rows][n_cols], row i at values + i * stride. NaN: masked, left blank */
    size_t stride;           /* floats from row to row; 0: n_cols */
    const hsc__label *row_labels; /* [n_row_labels]; NULL with 0: positions are shown instead */
    size_t n_row_labels;          /* must equal n_rows */
    const hsc__label *col_labels; /* [n_col_labels]; NULL with 0: as for rows */
    size_t n_col_labels;          /* must equal n_cols */
    hsc__scale scale;
    bool causal; /* row i sees columns 0 .. n_cols - n_rows + i; what lies beyond is left blank whatever its value */
    const char *blank_title; /* what a cell stands for that is NaN; NULL: "masked" */
} hsc__heatmap;

/* Most rows and most columns of a picture of one map. Labels are thinned from about 100 on; the picture says how. */
enum { HSC__PLOT_MAX_TOKENS = 4096 };

/* HSC_EINVAL when the name of a picture does not end in .png, .svg or .pdf. The functions below check it too. */
hsc_status hsc__plot_path(const char *path, hsc_error *err);

/* Writes one map; the ending of `path` chooses .png (two pixels a unit), .svg (text stays text) or .pdf (text can be
 * searched). Written beside and renamed, so nothing half-written is seen.
 * HSC_EINVAL: another ending (the message lists the three), no tokens, label counts that differ from the rows or
 * columns, more than HSC__PLOT_MAX_TOKENS. HSC_EIO, HSC_ENOTFOUND: with the system's reason. HSC_ENOMEM. */
hsc_status hsc__plot_heatmap(const char *path, const hsc__heatmap *map, hsc_error *err);

/* Writes n maps row by row in n_columns columns (0: about as many columns as rows), each under its title, with one
 * colour scale: maps[0].scale. `title` heads the whole. Labels are shown at the left and
 * at the foot where all maps share the same arrays of them and a cell has room for one. A map of more tokens than its
 * box has pixels shows the largest weight of each block and the picture says so.
 * Further HSC_EINVAL: no maps, or more than fit into the largest picture (about 80 by 80). */
hsc_status hsc__plot_grid(const char *path, const hsc__heatmap *maps, size_t n_maps, int n_columns, const char *title,
                          hsc_error *err);

/* One quantity against another. Points are joined in order and marked; those that are not finite, or have no place on a
 * logarithmic axis, are left out. */
typedef struct hsc__curve {
    const char *name; /* UTF-8, in the legend; NULL: not named, and of the colour of the curve before */
    size_t n;
    const double *x, *y; /* [n] */
    bool plain;          /* a line without marks, for what is computed, not measured */
} hsc__curve;

typedef struct hsc__panel {
    const char *title, *x_title, *y_title; /* UTF-8; NULL: none */
    bool log_x, log_y;
    const hsc__curve *curves;
    size_t n_curves;
} hsc__panel;

enum { HSC__MAX_PANELS = 4, HSC__MAX_CURVES = 8 };

/* Writes panels of curves beside each other, with axes, ticks and a legend each; `title` (NULL: none) heads the whole.
 * HSC_EINVAL: another ending, no panels or more than 4, no curve or more than 8 in a panel, no point in a panel that
 * can be shown. HSC_EIO, HSC_ENOTFOUND, HSC_ENOMEM as for hsc__plot_heatmap. */
hsc_status hsc__plot_lines(const char *path, const char *title, const hsc__panel *panels, size_t n_panels,
                           hsc_error *err);

typedef enum { HSC__TERMINAL_PLAIN = 0, HSC__TERMINAL_256, HSC__TERMINAL_TRUECOLOR } hsc__terminal_mode;

/* What a terminal can show, from isatty and the environment's TERM, COLORTERM and NO_COLOR (each may be NULL). A file
 * or a pipe, TERM=dumb and a non-empty NO_COLOR get plain characters: no escape byte. */
hsc__terminal_mode hsc__terminal_choose(bool is_tty, const char *term, const char *colorterm, const char *no_color);

/* Appends a map for a terminal `width` cells wide (0: 80). Columns bear the numbers that stand before the row labels;
 * where the labels of the columns are others they are listed below, but for heads (H0, H1, ..) in order. A map that is
 * too wide shows its first columns and a line says which. HSC_EINVAL as for hsc__plot_heatmap; HSC_ENOMEM. */
hsc_status hsc__terminal_heatmap(hsc__string *out, const hsc__heatmap *map, hsc__terminal_mode mode, int width,
                                 hsc_error *err);

#endif
