/* Where everything of a grid of maps stands: head, then the maps row by row, each under its name. All maps share one
 * scale and one size of cell; tokens stand at the left and at the foot where there is room for them. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

enum {
    LARGEST_BOX = 240, /* units a side of one map */
    SMALLEST_BOX = 20,
    LARGEST_CELL = 24,
    GRID_WIDTH = 1600, /* units that the maps may fill together; more when there are MANY columns */
    MANY = 32,
    MANY_WIDTH = 2400,
    GRID_HEIGHT = 3600,
    NAME_CELLS = 16,
    NAME_SIZE = 10,
    NAME_HEIGHT = 14,
    SPACE = 10,      /* between maps */
    LABEL_PITCH = 9, /* least size of a cell that has room for a label */
    LABEL_CELLS = 12,
    LABEL_GAP = 4,
    FRAME = 0xd8dee4,
};

typedef struct plan {
    int n_columns, n_lines;
    double cell; /* units, a multiple of a half so that it is whole pixels in a PNG */
    int reduce;  /* a cell stands for reduce x reduce weights */
    double x, y; /* of the first name */
    double pitch_x, pitch_y;
    const char *const *row_text, *const *col_text; /* NULL: no labels */
    double label_size, row_width, col_width;
} plan;

static hsc_status plan_sizes(plan *p, const hsc__picture *picture, const hsc__heatmap *maps, size_t n_maps,
                             hsc_error *err)
{
    int tokens = 0;
    double name_width = 0;
    for (size_t m = 0; m < n_maps; m++) {
        int n = maps[m].n_rows > maps[m].n_cols ? maps[m].n_rows : maps[m].n_cols;
        if (n > tokens) tokens = n;
        if (maps[m].title)
            name_width = fmax(name_width, hsc__picture_measure(picture, maps[m].title, NAME_SIZE, false));
    }
    p->n_lines = (int)((n_maps + (size_t)p->n_columns - 1) / (size_t)p->n_columns);
    int room = p->n_columns > MANY ? MANY_WIDTH : GRID_WIDTH;
    double box = fmin(room / p->n_columns - SPACE, GRID_HEIGHT / p->n_lines - SPACE - NAME_HEIGHT);
    HSC_FAIL_IF(box < SMALLEST_BOX, HSC_EINVAL,
                "%d x %d maps are too many for one picture: at most %d rows and %d columns", p->n_lines, p->n_columns,
                GRID_HEIGHT / (SMALLEST_BOX + SPACE + NAME_HEIGHT), MANY_WIDTH / (SMALLEST_BOX + SPACE));
    box = fmin(box, LARGEST_BOX);
    p->reduce = (int)ceil(tokens / (2 * box));
    p->cell = p->reduce > 1 ? 0.5 : fmin(floor(2 * box / tokens) / 2, LARGEST_CELL);
    box = ceil(p->cell * ((tokens + p->reduce - 1) / p->reduce));
    p->pitch_x = ceil(fmax(box, fmin(name_width, LARGEST_BOX)) + SPACE);
    p->pitch_y = box + NAME_HEIGHT + SPACE;
    return HSC_OK;
}

static bool same_labels(const hsc__heatmap *maps, size_t n_maps)
{
    for (size_t m = 1; m < n_maps; m++) {
        if (maps[m].row_labels != maps->row_labels || maps[m].col_labels != maps->col_labels) return false;
        if (maps[m].n_rows != maps->n_rows || maps[m].n_cols != maps->n_cols) return false;
    }
    return maps->row_labels && maps->col_labels;
}

/* Tokens stand at the left and at the foot of the grid where they are the same for all maps and there is room. */
static void plan_labels(plan *p, hsc__picture *picture, const hsc__heatmap *maps, size_t n_maps)
{
    const hsc__heatmap *map = &maps[0];
    if (p->cell < LABEL_PITCH || !same_labels(maps, n_maps)) return;
    p->label_size = fmin(fmax(p->cell * 0.8, 8), 11);
    p->row_text = hsc__axis_texts(picture, map->row_labels, map->n_rows, LABEL_CELLS, p->label_size, 1, &p->row_width);
    p->col_text = hsc__axis_texts(picture, map->col_labels, map->n_cols, LABEL_CELLS, p->label_size, 1, &p->col_width);
    p->row_width = ceil(p->row_width + LABEL_GAP);
    p->col_width = ceil(p->col_width + LABEL_GAP);
}

static void add_map(hsc__picture *picture, const plan *p, const hsc__heatmap *map, const hsc__scaling *scaling,
                    size_t m, size_t n_maps)
{
    double x = p->x + (double)(m % (size_t)p->n_columns) * p->pitch_x;
    double y = p->y + (double)(m / (size_t)p->n_columns) * p->pitch_y;
    double width = ceil(p->cell * ((map->n_cols + p->reduce - 1) / p->reduce));
    double height = ceil(p->cell * ((map->n_rows + p->reduce - 1) / p->reduce));
    if (map->title) {
        const char *name = hsc__picture_label(picture, map->title, strlen(map->title), NAME_CELLS);
        hsc__picture_text(picture, x, y + NAME_SIZE, name, (hsc__text_style){.size = NAME_SIZE, .colour = HSC__INK});
    }
    y += NAME_HEIGHT;
    hsc__picture_rect(picture, x - 1, y - 1, width + 2, height + 2, FRAME);
    hsc__picture_rect(picture, x, y, width, height, HSC__WHITE);
    hsc__picture_cells(picture, x, y, map, scaling, p->cell, 0, p->reduce);
    if (p->row_text && m % (size_t)p->n_columns == 0)
        hsc__axis_rows(picture, x - LABEL_GAP, y, p->row_text, map->n_rows, 1, p->cell, p->label_size);
    if (p->col_text && m + (size_t)p->n_columns >= n_maps)
        hsc__axis_cols(picture, x, y + height + LABEL_GAP, p->col_text, map->n_cols, 1, p->cell, p->label_size);
}

static void add_notes(hsc__picture *picture, const plan *p, const hsc__heatmap *map, double y)
{
    hsc__string note = {0};
    hsc__string_printf(&note, "Rows: %s, top to bottom. Columns: %s, left to right. %d x %d.",
                       map->y_title ? map->y_title : "token", map->x_title ? map->x_title : "attends to", map->n_rows,
                       map->n_cols);
    if (p->reduce > 1) hsc__string_printf(&note, " A point is the largest of %d x %d weights.", p->reduce, p->reduce);
    if (map->causal && map->n_cols > 1) hsc__string_text(&note, " Blank: later tokens, which a token cannot see.");
    const char *text = note.failed ? "" : hsc__picture_label(picture, note.data, note.n, 200);
    if (note.failed) picture->failed = true;
    hsc__picture_note(picture, &y, text);
    hsc__string_free(&note);
}

hsc_status hsc__layout_grid(hsc__picture *picture, const hsc__heatmap *maps, size_t n_maps, int n_columns,
                            const char *title, hsc_error *err)
{
    plan p = {.n_columns = n_columns > 0 ? n_columns : (int)ceil(sqrt((double)n_maps))};
    if ((size_t)p.n_columns > n_maps) p.n_columns = (int)n_maps;
    HSC_TRY(plan_sizes(&p, picture, maps, n_maps, err));
    hsc__scaling scaling = hsc__scaling_of(maps, n_maps);
    plan_labels(&p, picture, maps, n_maps);
    p.x = HSC__MARGIN + p.row_width;
    p.y = hsc__picture_head(picture, title, &scaling, maps[0].value_title);
    for (size_t m = 0; m < n_maps && !picture->failed; m++) add_map(picture, &p, &maps[m], &scaling, m, n_maps);
    add_notes(picture, &p, &maps[0], p.y + p.n_lines * p.pitch_y + p.col_width);
    return hsc__picture_close(picture, err);
}
