/* Building the list of things to draw, and measuring text with Pango. Text is always set as plain text. */
#include "plot/picture.h"

#include <math.h>
#include <pango/pangocairo.h>
#include <string.h>

hsc_status hsc__picture_init(hsc__picture *picture, hsc_error *err)
{
    *picture = (hsc__picture){.title = ""};
    PangoFontMap *fonts = pango_cairo_font_map_new(); /* its own, since the default one is never freed */
    if (!fonts) return hsc__fail(err, HSC_EUNSUPPORTED, 0, "this Cairo cannot draw text");
    PangoContext *context = pango_font_map_create_context(fonts);
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE); /* so that widths grow with the size alone */
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    pango_cairo_context_set_font_options(context, options);
    cairo_font_options_destroy(options);
    picture->pango = pango_layout_new(context);
    g_object_unref(context);
    g_object_unref(fonts);
    return HSC_OK;
}

void hsc__picture_free(hsc__picture *picture)
{
    if (picture->pango) g_object_unref(picture->pango);
    hsc__free(picture->items);
    hsc__arena_free(&picture->arena);
    *picture = (hsc__picture){0};
}

void *hsc__picture_alloc(hsc__picture *picture, size_t count, size_t size)
{
    void *memory = size && count > SIZE_MAX / size ? NULL : hsc__arena_alloc(&picture->arena, count * size);
    if (!memory) picture->failed = true;
    return memory;
}

const char *hsc__picture_label(hsc__picture *picture, const char *bytes, size_t n, int max_cells)
{
    hsc__string whole = {0}, cut = {0};
    hsc__text_label(&whole, bytes, n);
    if (!whole.failed) hsc__text_cut(&cut, whole.data, whole.n, max_cells);
    char *copy = whole.failed || cut.failed ? NULL : hsc__arena_strndup(&picture->arena, cut.data, cut.n);
    if (!copy) picture->failed = true;
    hsc__string_free(&whole);
    hsc__string_free(&cut);
    return copy ? copy : "";
}

void hsc__picture_set(const hsc__picture *picture, const char *text, double size, bool bold)
{
    PangoLayout *layout = picture->pango;
    PangoFontDescription *font = pango_font_description_new();
    pango_font_description_set_family_static(font, HSC__FONTS);
    pango_font_description_set_absolute_size(font, size * PANGO_SCALE);
    if (bold) pango_font_description_set_weight(font, PANGO_WEIGHT_BOLD);
    pango_layout_set_font_description(layout, font);
    pango_font_description_free(font);
    pango_layout_set_single_paragraph_mode(layout, TRUE);
    pango_layout_set_text(layout, text, -1);
}

double hsc__picture_measure(const hsc__picture *picture, const char *text, double size, bool bold)
{
    int width;
    hsc__picture_set(picture, text, size, bold);
    pango_layout_get_size(picture->pango, &width, NULL);
    return (double)width / PANGO_SCALE;
}

/* A zeroed item of the kind, or NULL. The picture grows to hold its box. */
static hsc__item *add(hsc__picture *picture, hsc__item_kind kind, double x, double y, double width, double height)
{
    if (picture->failed) return NULL;
    if (hsc__grow(&picture->items, &picture->capacity, picture->n_items + 1, sizeof *picture->items, NULL) != HSC_OK) {
        picture->failed = true;
        return NULL;
    }
    hsc__item *item = &picture->items[picture->n_items++];
    *item = (hsc__item){.kind = kind, .x = x, .y = y, .width = width, .height = height};
    picture->width = fmax(picture->width, x + width);
    picture->height = fmax(picture->height, y + height);
    return item;
}

void hsc__picture_rect(hsc__picture *picture, double x, double y, double width, double height, uint32_t colour)
{
    hsc__item *item = add(picture, HSC__ITEM_RECT, x, y, width, height);
    if (item) item->colour = colour;
}

void hsc__picture_ramp(hsc__picture *picture, hsc__scale scale, double x, double y, double width, double height)
{
    hsc__item *item = add(picture, HSC__ITEM_RAMP, x, y, width, height);
    if (item) item->anchors = hsc__ramp_anchors(scale);
}

void hsc__picture_text(hsc__picture *picture, double x, double y, const char *text, hsc__text_style style)
{
    char *copy = picture->failed ? NULL : hsc__arena_strndup(&picture->arena, text, strlen(text));
    if (!copy) {
        picture->failed = true;
        return;
    }
    double length = HSC__FONT_SLACK * hsc__picture_measure(picture, text, style.size, style.bold);
    double after = style.anchor == HSC__ANCHOR_START ? length : style.anchor == HSC__ANCHOR_MIDDLE ? length / 2 : 0;
    double before = length - after, descent = style.size * 0.3;
    hsc__item *item =
        add(picture, HSC__ITEM_TEXT, x, y, style.upright ? descent : after, style.upright ? before : descent);
    if (!item) return;
    item->text = copy;
    item->style = style;
}

void hsc__picture_line(hsc__picture *picture, const double *points, size_t n, uint32_t colour, bool marked, bool dashed)
{
    double *copy = hsc__picture_alloc(picture, 2 * n, sizeof *copy);
    hsc__item *item = add(picture, HSC__ITEM_LINE, 0, 0, 0, 0);
    if (!item || !copy) return;
    memcpy(copy, points, 2 * n * sizeof *copy);
    item->points = copy;
    item->n_points = n;
    item->colour = colour;
    item->marked = marked;
    item->dashed = dashed;
}

/* Darkest shades of a block of rows into line[n], where n cells of `reduce` columns cover the map. */
static void shade_block(float *line, float *row, const hsc__heatmap *map, const hsc__scaling *scaling, int first,
                        int reduce, int n)
{
    for (int j = 0; j < n; j++) line[j] = NAN;
    for (int i = first; i < first + reduce && i < map->n_rows; i++) {
        hsc__shade_row(row, map, scaling, i);
        for (int j = 0; j < map->n_cols; j++) {
            float *cell = &line[j / reduce];
            double size = hsc__shade_size(scaling->scale, (double)row[j]);
            if (isnan(*cell) || size > hsc__shade_size(scaling->scale, (double)*cell)) *cell = row[j];
        }
    }
}

hsc__cells *hsc__picture_cells(hsc__picture *picture, double x, double y, const hsc__heatmap *map,
                               const hsc__scaling *scaling, double pitch, double gap, int reduce)
{
    int n_rows = (map->n_rows + reduce - 1) / reduce, n_cols = (map->n_cols + reduce - 1) / reduce;
    hsc__cells *cells = hsc__picture_alloc(picture, 1, sizeof *cells);
    uint32_t *colours = hsc__picture_alloc(picture, (size_t)n_rows * (size_t)n_cols, sizeof *colours);
    float *row = hsc__picture_alloc(picture, (size_t)map->n_cols, sizeof *row);
    float *line = hsc__picture_alloc(picture, (size_t)n_cols, sizeof *line);
    hsc__item *item = add(picture, HSC__ITEM_CELLS, x, y, n_cols * pitch, n_rows * pitch);
    if (!item) return NULL;
    *cells = (hsc__cells){.n_rows = n_rows, .n_cols = n_cols, .colours = colours, .pitch = pitch, .gap = gap};
    for (int i = 0; i < n_rows; i++) {
        shade_block(line, row, map, scaling, i * reduce, reduce, n_cols);
        for (int j = 0; j < n_cols; j++)
            colours[(size_t)i * (size_t)n_cols + (size_t)j] =
                isnan(line[j]) ? 0 : 0xff000000u | hsc__ramp(scaling->scale, line[j]);
    }
    item->cells = cells;
    return cells;
}

hsc_status hsc__picture_close(hsc__picture *picture, hsc_error *err)
{
    if (picture->failed) return hsc__fail_memory(err, picture->n_items * sizeof *picture->items, "the picture");
    picture->width = ceil(picture->width + HSC__MARGIN);
    picture->height = ceil(picture->height + HSC__MARGIN);
    return HSC_OK;
}
