/* Writes a picture as SVG. Text is real text, so that it can be searched, copied and read aloud (Cairo's own SVG has
 * the outlines of glyphs instead). Numbers do not depend on the locale; labels hold no control characters, so escaping
 * the five characters of XML is enough. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

static void add_escaped(hsc__string *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&': hsc__string_text(out, "&amp;"); break;
        case '<': hsc__string_text(out, "&lt;"); break;
        case '>': hsc__string_text(out, "&gt;"); break;
        case '"': hsc__string_text(out, "&quot;"); break;
        case '\'': hsc__string_text(out, "&#39;"); break;
        default: hsc__string_add(out, c, 1); break;
        }
    }
}

/* name="value" with a blank before it. */
static void add_number(hsc__string *out, const char *name, double value)
{
    hsc__string_printf(out, " %s=\"", name);
    hsc__string_double(out, 7, round(value * 100) / 100);
    hsc__string_text(out, "\"");
}

static void add_box(hsc__string *out, double x, double y, double width, double height)
{
    add_number(out, "x", x);
    add_number(out, "y", y);
    add_number(out, "width", width);
    add_number(out, "height", height);
}

static void add_rect(hsc__string *out, const hsc__item *item)
{
    hsc__string_text(out, "<rect");
    add_box(out, item->x, item->y, item->width, item->height);
    hsc__string_printf(out, " fill=\"#%06x\"/>\n", (unsigned)item->colour);
}

static void add_ramp(hsc__string *out, const hsc__item *item)
{
    hsc__string_text(out, "<linearGradient id=\"ramp\">");
    for (int i = 0; i < HSC__RAMP_ANCHORS; i++) {
        hsc__string_text(out, "<stop");
        hsc__string_text(out, " offset=\"");
        hsc__string_double(out, 6, (double)i / (HSC__RAMP_ANCHORS - 1));
        hsc__string_printf(out, "\" stop-color=\"#%06x\"/>", (unsigned)item->anchors[i]);
    }
    hsc__string_text(out, "</linearGradient>\n<rect");
    add_box(out, item->x, item->y, item->width, item->height);
    hsc__string_text(out, " fill=\"url(#ramp)\"/>\n");
}

static void add_text(hsc__string *out, const hsc__item *item)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    hsc__string_text(out, "<text");
    add_number(out, "x", item->x);
    add_number(out, "y", item->y);
    add_number(out, "font-size", item->style.size);
    if (item->style.anchor != HSC__ANCHOR_START)
        hsc__string_printf(out, " text-anchor=\"%s\"", anchors[item->style.anchor]);
    if (item->style.bold) hsc__string_text(out, " font-weight=\"bold\"");
    hsc__string_printf(out, " fill=\"#%06x\"", (unsigned)item->style.colour);
    if (item->style.upright) {
        hsc__string_text(out, " transform=\"rotate(-90 ");
        hsc__string_double(out, 7, round(item->x * 100) / 100);
        hsc__string_text(out, " ");
        hsc__string_double(out, 7, round(item->y * 100) / 100);
        hsc__string_text(out, ")\"");
    }
    hsc__string_text(out, ">");
    add_escaped(out, item->text);
    hsc__string_text(out, "</text>\n");
}

static void add_base64(hsc__string *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned value = 0;
        for (size_t k = 0; k < 3; k++) value = value << 8 | (i + k < n ? (unsigned char)bytes[i + k] : 0);
        char four[4];
        for (size_t k = 0; k < 4; k++) four[k] = i + k > n ? '=' : digits[value >> (18 - 6 * k) & 63];
        hsc__string_add(out, four, 4);
    }
}

/* Many cells: one image, as fine as a PNG of the whole, since not every viewer enlarges without smoothing. */
static hsc_status add_image(hsc__string *out, const hsc__item *item, hsc_error *err)
{
    hsc__string png = {0};
    hsc_status status = hsc__cells_png(item, &png, err);
    hsc__string_text(out, "<image");
    add_box(out, item->x, item->y, item->width, item->height);
    hsc__string_text(out, " preserveAspectRatio=\"none\" href=\"data:image/png;base64,");
    if (status == HSC_OK) add_base64(out, png.data, png.n);
    hsc__string_text(out, "\"/>\n");
    hsc__string_free(&png);
    return status;
}

/* A rectangle a cell, each telling what it is when the pointer rests on it. */
static void add_cell(hsc__string *out, const hsc__item *item, int i, int j, uint32_t colour)
{
    const hsc__cells *cells = item->cells;
    double side = cells->pitch - cells->gap;
    hsc__string_text(out, "<rect");
    add_box(out, item->x + j * cells->pitch, item->y + i * cells->pitch, side, side);
    hsc__string_printf(out, " fill=\"#%06x\"", (unsigned)(colour & 0xffffff));
    if (!cells->map) {
        hsc__string_text(out, "/>\n");
        return;
    }
    hsc__string_text(out, "><title>");
    add_escaped(out, cells->row_text[i]);
    hsc__string_printf(out, " (%d) \u2192 ", i);
    add_escaped(out, cells->col_text[j]);
    hsc__string_printf(out, " (%d): ", j);
    hsc__string_double(out, 3, hsc__heatmap_value(cells->map, i, j));
    hsc__string_text(out, "</title></rect>\n");
}

static hsc_status add_cells(hsc__string *out, const hsc__item *item, hsc_error *err)
{
    const hsc__cells *cells = item->cells;
    if (cells->gap <= 0) return add_image(out, item, err);
    const uint32_t *colour = cells->colours;
    hsc__string_text(out, "<g shape-rendering=\"crispEdges\">\n");
    for (int i = 0; i < cells->n_rows; i++) {
        for (int j = 0; j < cells->n_cols; j++, colour++) {
            if (*colour) add_cell(out, item, i, j, *colour);
        }
    }
    hsc__string_text(out, "</g>\n");
    return HSC_OK;
}

static void add_line(hsc__string *out, const hsc__item *item)
{
    hsc__string_printf(out, "<polyline fill=\"none\" stroke=\"#%06x\" stroke-width=\"%d\" stroke-linejoin=\"round\"",
                       (unsigned)item->colour, HSC__LINE_WIDTH);
    if (item->dashed) hsc__string_printf(out, " stroke-dasharray=\"%d\"", HSC__DASH);
    hsc__string_text(out, " points=\"");
    for (size_t i = 0; i < 2 * item->n_points; i++) {
        if (i) hsc__string_text(out, i % 2 ? "," : " ");
        hsc__string_double(out, 7, round(item->points[i] * 100) / 100);
    }
    hsc__string_text(out, "\"/>\n");
    for (size_t i = 0; i < item->n_points && item->marked; i++) {
        hsc__string_text(out, "<circle");
        add_number(out, "cx", item->points[2 * i]);
        add_number(out, "cy", item->points[2 * i + 1]);
        hsc__string_printf(out, " r=\"%d\" fill=\"#%06x\"/>\n", HSC__MARK_RADIUS, (unsigned)item->colour);
    }
}

static void add_head(hsc__string *out, const hsc__picture *picture)
{
    hsc__string_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"");
    add_number(out, "width", picture->width);
    add_number(out, "height", picture->height);
    hsc__string_printf(out,
                       " viewBox=\"0 0 %d %d\" xml:space=\"preserve\" role=\"img\"\n"
                       "  font-family=\"%s, sans-serif\">\n",
                       (int)picture->width, (int)picture->height, HSC__FONTS);
    if (*picture->title) {
        hsc__string_text(out, "<title>");
        add_escaped(out, picture->title);
        hsc__string_text(out, "</title>\n");
    }
    hsc__string_text(out,
                     "<style>text { unicode-bidi: plaintext; white-space: pre } image { image-rendering: pixelated }"
                     "</style>\n");
    hsc__string_text(out, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
}

hsc_status hsc__draw_svg(const hsc__picture *picture, hsc__string *out, hsc_error *err)
{
    add_head(out, picture);
    for (size_t i = 0; i < picture->n_items; i++) {
        const hsc__item *item = &picture->items[i];
        switch (item->kind) {
        case HSC__ITEM_RECT: add_rect(out, item); break;
        case HSC__ITEM_TEXT: add_text(out, item); break;
        case HSC__ITEM_RAMP: add_ramp(out, item); break;
        case HSC__ITEM_CELLS: HSC_TRY(add_cells(out, item, err)); break;
        case HSC__ITEM_LINE: add_line(out, item); break;
        }
    }
    hsc__string_text(out, "</svg>\n");
    return out->failed ? hsc__fail_memory(err, out->n, "the picture") : HSC_OK;
}
