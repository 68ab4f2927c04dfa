/* A picture as a list of things to draw, in units from the upper left corner. layout.c and grid.c make the list once;
 * cairo.c and svg.c draw it without deciding anything, so that every format shows the same. */
#ifndef HSC_PLOT_PICTURE_H
#define HSC_PLOT_PICTURE_H

#include "base/alloc.h"
#include "plot/plot.h"
#include "plot/ramp.h"

typedef enum { HSC__ANCHOR_START, HSC__ANCHOR_MIDDLE, HSC__ANCHOR_END } hsc__anchor;

typedef struct hsc__text_style {
    double size;
    uint32_t colour; /* 0xRRGGBB */
    hsc__anchor anchor;
    bool bold;
    bool upright; /* turned by 90 degrees, reading from the bottom to the top */
} hsc__text_style;

/* A matrix of coloured cells. With a gap each cell is a rectangle of its own, without one the matrix is an image. */
typedef struct hsc__cells {
    int n_rows, n_cols;
    uint32_t *colours;       /* [n_rows][n_cols], 0xffRRGGBB, or 0: blank */
    double pitch, gap;       /* from cell to cell; the part of it that stays free on the right and below */
    const hsc__heatmap *map; /* NULL, or what each cell stands for, with the texts of its tokens */
    const char *const *row_text, *const *col_text;
} hsc__cells;

typedef enum { HSC__ITEM_RECT, HSC__ITEM_TEXT, HSC__ITEM_RAMP, HSC__ITEM_CELLS, HSC__ITEM_LINE } hsc__item_kind;

typedef struct hsc__item {
    hsc__item_kind kind;
    double x, y;             /* upper left corner; of a text the anchor on its baseline */
    double width, height;    /* not of texts */
    uint32_t colour;         /* of a rectangle or a line */
    const uint32_t *anchors; /* of a ramp */
    const char *text;
    hsc__text_style style;
    hsc__cells *cells;
    const double *points; /* of a line: [n_points][2], x and y in the picture */
    size_t n_points;
    bool marked; /* a dot on every point */
    bool dashed;
} hsc__item;

typedef struct hsc__picture {
    double width, height; /* hold every item; hsc__picture_close adds the margin */
    const char *title;    /* for the file's own record of it; may be empty */
    hsc__item *items;
    size_t n_items, capacity;
    hsc__arena arena; /* texts and cells */
    void *pango;      /* the PangoLayout that sets texts */
    bool failed;      /* memory ran out: checked by everything that adds, and once at the end by the maker */
} hsc__picture;

hsc_status hsc__picture_init(hsc__picture *picture, hsc_error *err);
void hsc__picture_free(hsc__picture *picture);

/* Adding. Texts are copied. */
void hsc__picture_rect(hsc__picture *picture, double x, double y, double width, double height, uint32_t colour);
void hsc__picture_ramp(hsc__picture *picture, hsc__scale scale, double x, double y, double width, double height);
void hsc__picture_text(hsc__picture *picture, double x, double y, const char *text, hsc__text_style style);
/* A line through points [n][2], which are copied and lie inside the box that the picture has already. */
void hsc__picture_line(hsc__picture *picture, const double *points, size_t n, uint32_t colour, bool marked,
                       bool dashed);
/* The map's cells, each the darkest of reduce x reduce weights. NULL when memory is out. */
hsc__cells *hsc__picture_cells(hsc__picture *picture, double x, double y, const hsc__heatmap *map,
                               const hsc__scaling *scaling, double pitch, double gap, int reduce);
/* Ends the picture: HSC_ENOMEM when an addition failed. */
hsc_status hsc__picture_close(hsc__picture *picture, hsc_error *err);

/* Memory that lives as long as the picture; NULL when it is out. */
void *hsc__picture_alloc(hsc__picture *picture, size_t count, size_t size);
/* hsc__text_label of the bytes, cut to max_cells; "" when memory is out. */
const char *hsc__picture_label(hsc__picture *picture, const char *bytes, size_t n, int max_cells);

/* Check that a map can be drawn at all (plot.c). */
hsc_status hsc__heatmap_check(const hsc__heatmap *map, int most, hsc_error *err);

/* Puts a text into the picture's Pango layout; measuring and drawing share it, so that they agree. The text is plain,
 * never markup; its direction is that of its first letter, as a reader of its script expects. */
void hsc__picture_set(const hsc__picture *picture, const char *text, double size, bool bold);

/* The width of a text in units, as Pango would set it. */
double hsc__picture_measure(const hsc__picture *picture, const char *text, double size, bool bold);

/* layout.c: one map with its labels. grid.c: many small ones. */
hsc_status hsc__layout_heatmap(hsc__picture *picture, const hsc__heatmap *map, hsc_error *err);
hsc_status hsc__layout_grid(hsc__picture *picture, const hsc__heatmap *maps, size_t n_maps, int n_columns,
                            const char *title, hsc_error *err);

/* lines.c: panels of curves. */
hsc_status hsc__layout_lines(hsc__picture *picture, const char *title, const hsc__panel *panels, size_t n_panels,
                             hsc_error *err);

/* legend.c: the title and the legend at the top; returns where the next thing may begin. Notes stand at the foot. */
double hsc__picture_head(hsc__picture *picture, const char *title, const hsc__scaling *scaling,
                         const char *value_title);
void hsc__picture_note(hsc__picture *picture, double *y, const char *text);
/* The visible texts of an axis, positions where there are no labels, and the room that the widest shown one needs. */
const char *const *hsc__axis_texts(hsc__picture *picture, const hsc__label *labels, int n, int max_cells, double size,
                                   int step, double *widest);
/* Every step-th text: ending at x beside cells that begin at y, or turned and ending at y below cells that begin at x.
 */
void hsc__axis_rows(hsc__picture *picture, double x, double y, const char *const *texts, int n, int step, double cell,
                    double size);
void hsc__axis_cols(hsc__picture *picture, double x, double y, const char *const *texts, int n, int step, double cell,
                    double size);

/* The same families for measuring, drawing and SVG, whose viewer takes the first that it has. They are of one width or
 * narrower; texts get a little more room than measured for those that are not. */
#define HSC__FONTS "DejaVu Sans, Verdana, Noto Sans"
#define HSC__FONT_SLACK 1.05

enum { HSC__MARGIN = 24, HSC__LINE_WIDTH = 2, HSC__MARK_RADIUS = 3, HSC__DASH = 7 };
enum { HSC__INK = 0x1f2328, HSC__GREY = 0x57606a, HSC__WHITE = 0xffffff };

/* Back ends: each appends the whole file. */
hsc_status hsc__draw_png(const hsc__picture *picture, hsc__string *out, hsc_error *err);
hsc_status hsc__draw_pdf(const hsc__picture *picture, hsc__string *out, hsc_error *err);
hsc_status hsc__draw_svg(const hsc__picture *picture, hsc__string *out, hsc_error *err);
/* Appends cells as a PNG of two pixels a unit, for an image inside an SVG. */
hsc_status hsc__cells_png(const hsc__item *item, hsc__string *out, hsc_error *err);

#endif
