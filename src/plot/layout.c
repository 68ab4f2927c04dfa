/* Where everything of one map stands: head, row labels, cells, column labels below them, axis titles, notes. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

enum {
    LARGEST_CELL = 36, /* units */
    MATRIX = 900,      /* units that the cells aim to fill where there are many */
    GAP_FROM = 7,      /* cells of this size and more stand apart by one unit */
    LABEL_PITCH = 9,   /* least distance of two labels */
    LABEL_CELLS = 24,  /* longer labels are cut */
    LABEL_GAP = 6,     /* between label and cells */
};

typedef struct plan {
    double cell, gap;
    double label_size;
    int step;                   /* every step-th label is shown */
    double x, y, width, height; /* of the cells */
    const char *const *row_text, *const *col_text;
    double row_width, col_width; /* of the widest label shown */
} plan;

/* 1, 2, 5, 10, 20, 50, ... that keeps labels apart. */
static int label_step(double cell)
{
    int step = 1;
    for (int power = 1; cell * step < LABEL_PITCH; power *= 10) {
        for (int k = 0; k < 3 && cell * step < LABEL_PITCH; k++) step = power * (k == 0 ? 1 : k == 1 ? 2 : 5);
    }
    return step;
}

static void plan_sizes(plan *p, const hsc__heatmap *map)
{
    int n = map->n_rows > map->n_cols ? map->n_rows : map->n_cols;
    p->cell = n > MATRIX * 2 ? 0.5 : fmin(fmax(MATRIX / n, 1), LARGEST_CELL);
    p->gap = p->cell >= GAP_FROM ? 1 : 0;
    p->step = label_step(p->cell);
    p->label_size = fmin(fmax(p->cell * p->step * 0.8, 8), 12);
}

/* The middle of an axis title: that of the cells, or further on, where so long a title would begin before `least`. */
static double middle(const hsc__picture *picture, const char *title, double size, double from, double length,
                     double least)
{
    return fmax(from + length / 2, least + hsc__picture_measure(picture, title, size, false) / 2);
}

static void add_axis_titles(hsc__picture *picture, const plan *p, const hsc__heatmap *map, double *y)
{
    hsc__text_style style = {.size = 12, .colour = HSC__GREY, .anchor = HSC__ANCHOR_MIDDLE};
    const char *x_title = map->x_title ? map->x_title : "attends to";
    const char *y_title = map->y_title ? map->y_title : "token";
    x_title = hsc__picture_label(picture, x_title, strlen(x_title), LABEL_CELLS);
    y_title = hsc__picture_label(picture, y_title, strlen(y_title), LABEL_CELLS);
    *y += 14;
    hsc__picture_text(picture, middle(picture, x_title, style.size, p->x, p->width, HSC__MARGIN), *y, x_title, style);
    *y += 14;
    style.upright = true;
    hsc__picture_text(picture, HSC__MARGIN + 10, middle(picture, y_title, style.size, p->y, p->height, p->y), y_title,
                      style);
}

static bool has_masked(const hsc__heatmap *map)
{
    for (int i = 0; i < map->n_rows; i++) {
        for (int j = 0; j < map->n_cols; j++) {
            if (isnan(hsc__heatmap_value(map, i, j))) return true;
        }
    }
    return false;
}

static void add_blank_note(hsc__picture *picture, const hsc__heatmap *map, double *y)
{
    hsc__string note = {0};
    hsc__string_printf(&note, "Blank: %s.", map->blank_title ? map->blank_title : "masked");
    if (note.failed) picture->failed = true;
    else hsc__picture_note(picture, y, note.data);
    hsc__string_free(&note);
}

static void add_notes(hsc__picture *picture, const plan *p, const hsc__heatmap *map, double y)
{
    if (p->step > 1) {
        hsc__string note = {0};
        hsc__string_printf(&note, "Every %d%s label is shown, from the first on.", p->step, p->step == 2 ? "nd" : "th");
        if (note.failed) picture->failed = true;
        else hsc__picture_note(picture, &y, note.data);
        hsc__string_free(&note);
    }
    if (map->causal && map->n_cols > 1)
        hsc__picture_note(picture, &y, "Blank: later tokens, which a token cannot see.");
    else if (has_masked(map)) add_blank_note(picture, map, &y);
}

hsc_status hsc__layout_heatmap(hsc__picture *picture, const hsc__heatmap *map, hsc_error *err)
{
    plan p = {0};
    hsc__scaling scaling = hsc__scaling_of(map, 1);
    plan_sizes(&p, map);
    p.y = hsc__picture_head(picture, map->title, &scaling, map->value_title);
    p.row_text =
        hsc__axis_texts(picture, map->row_labels, map->n_rows, LABEL_CELLS, p.label_size, p.step, &p.row_width);
    p.col_text =
        hsc__axis_texts(picture, map->col_labels, map->n_cols, LABEL_CELLS, p.label_size, p.step, &p.col_width);
    p.x = ceil(HSC__MARGIN + 16 + LABEL_GAP + p.row_width + LABEL_GAP);
    p.width = map->n_cols * p.cell;
    p.height = map->n_rows * p.cell;
    hsc__cells *cells = hsc__picture_cells(picture, p.x, p.y, map, &scaling, p.cell, p.gap, 1);
    if (picture->failed) return hsc__picture_close(picture, err);
    cells->map = map;
    cells->row_text = p.row_text;
    cells->col_text = p.col_text;
    hsc__axis_rows(picture, p.x - LABEL_GAP, p.y, p.row_text, map->n_rows, p.step, p.cell, p.label_size);
    hsc__axis_cols(picture, p.x, p.y + p.height + LABEL_GAP, p.col_text, map->n_cols, p.step, p.cell, p.label_size);
    double y = p.y + p.height + LABEL_GAP + p.col_width + LABEL_GAP;
    add_axis_titles(picture, &p, map, &y);
    add_notes(picture, &p, map, y);
    return hsc__picture_close(picture, err);
}
