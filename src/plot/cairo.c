/* Draws a picture with Cairo and Pango: PNG at two pixels a unit, PDF at one point a unit with text that can be
 * searched. The file is made in memory, so that a full disk is met in one place (plot.c). */
#include "plot/picture.h"

#include <cairo-pdf.h>
#include <math.h>
#include <pango/pangocairo.h>

enum { PIXELS_A_UNIT = 2 };

static void set_colour(cairo_t *cr, uint32_t colour)
{
    cairo_set_source_rgb(cr, (colour >> 16 & 0xff) / 255.0, (colour >> 8 & 0xff) / 255.0, (colour & 0xff) / 255.0);
}

static void draw_rect(cairo_t *cr, double x, double y, double width, double height, uint32_t colour)
{
    set_colour(cr, colour);
    cairo_rectangle(cr, x, y, width, height);
    cairo_fill(cr);
}

static void draw_ramp(cairo_t *cr, const hsc__item *item)
{
    cairo_pattern_t *ramp = cairo_pattern_create_linear(item->x, 0, item->x + item->width, 0);
    for (int i = 0; i < HSC__RAMP_ANCHORS; i++) {
        uint32_t c = item->anchors[i];
        cairo_pattern_add_color_stop_rgb(ramp, (double)i / (HSC__RAMP_ANCHORS - 1), (c >> 16 & 0xff) / 255.0,
                                         (c >> 8 & 0xff) / 255.0, (c & 0xff) / 255.0);
    }
    cairo_set_source(cr, ramp);
    cairo_rectangle(cr, item->x, item->y, item->width, item->height);
    cairo_fill(cr);
    cairo_pattern_destroy(ramp);
}

static void draw_text(cairo_t *cr, const hsc__picture *picture, const hsc__item *item)
{
    int width;
    const hsc__text_style *style = &item->style;
    hsc__picture_set(picture, item->text, style->size, style->bold);
    pango_layout_get_size(picture->pango, &width, NULL);
    double shift = style->anchor == HSC__ANCHOR_START ? 0 : style->anchor == HSC__ANCHOR_MIDDLE ? 0.5 : 1;
    cairo_save(cr);
    set_colour(cr, style->colour);
    cairo_translate(cr, item->x, item->y);
    if (style->upright) cairo_rotate(cr, -M_PI / 2);
    cairo_move_to(cr, -shift * width / PANGO_SCALE, 0);
    pango_cairo_show_layout_line(cr, pango_layout_get_line_readonly(picture->pango, 0));
    cairo_restore(cr);
}

/* One pixel a cell, on the cells' own memory. */
static cairo_surface_t *cells_image(const hsc__cells *cells)
{
    return cairo_image_surface_create_for_data((unsigned char *)cells->colours, CAIRO_FORMAT_ARGB32, cells->n_cols,
                                               cells->n_rows, cells->n_cols * 4);
}

static void draw_cells(cairo_t *cr, const hsc__item *item)
{
    const hsc__cells *cells = item->cells;
    if (cells->gap > 0) {
        double side = cells->pitch - cells->gap;
        const uint32_t *colour = cells->colours;
        for (int i = 0; i < cells->n_rows; i++) {
            for (int j = 0; j < cells->n_cols; j++, colour++) {
                if (*colour) draw_rect(cr, item->x + j * cells->pitch, item->y + i * cells->pitch, side, side, *colour);
            }
        }
        return;
    }
    cairo_surface_t *image = cells_image(cells);
    cairo_save(cr);
    cairo_translate(cr, item->x, item->y);
    cairo_scale(cr, cells->pitch, cells->pitch);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_restore(cr);
    cairo_surface_destroy(image);
}

static void draw_line(cairo_t *cr, const hsc__item *item)
{
    set_colour(cr, item->colour);
    cairo_set_line_width(cr, HSC__LINE_WIDTH);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_new_path(cr); /* a text before this one leaves a point behind */
    for (size_t i = 0; i < item->n_points; i++) cairo_line_to(cr, item->points[2 * i], item->points[2 * i + 1]);
    cairo_set_dash(cr, &(double){HSC__DASH}, item->dashed, 0);
    cairo_stroke(cr);
    for (size_t i = 0; i < item->n_points && item->marked; i++) {
        cairo_arc(cr, item->points[2 * i], item->points[2 * i + 1], HSC__MARK_RADIUS, 0, 2 * M_PI);
        cairo_fill(cr);
    }
}

static cairo_status_t draw(cairo_surface_t *surface, const hsc__picture *picture)
{
    cairo_t *cr = cairo_create(surface);
    pango_cairo_update_layout(cr, picture->pango);
    draw_rect(cr, 0, 0, picture->width, picture->height, HSC__WHITE);
    for (size_t i = 0; i < picture->n_items; i++) {
        const hsc__item *item = &picture->items[i];
        switch (item->kind) {
        case HSC__ITEM_RECT: draw_rect(cr, item->x, item->y, item->width, item->height, item->colour); break;
        case HSC__ITEM_TEXT: draw_text(cr, picture, item); break;
        case HSC__ITEM_RAMP: draw_ramp(cr, item); break;
        case HSC__ITEM_CELLS: draw_cells(cr, item); break;
        case HSC__ITEM_LINE: draw_line(cr, item); break;
        }
    }
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    return status;
}

/* Fails where Cairo did, or where `out` found no memory. */
static hsc_status check(cairo_status_t status, const hsc__string *out, hsc_error *err)
{
    if (out->failed || status == CAIRO_STATUS_NO_MEMORY) return hsc__fail_memory(err, out->n, "the picture");
    HSC_FAIL_IF(status != CAIRO_STATUS_SUCCESS, HSC_EINVAL, "cannot draw the picture: %s",
                cairo_status_to_string(status));
    return HSC_OK;
}

/* Never tells Cairo of a failure, since its PDF writer then loses memory; the string remembers it. */
static cairo_status_t append(void *out, const unsigned char *bytes, unsigned n)
{
    hsc__string_add(out, (const char *)bytes, n);
    return CAIRO_STATUS_SUCCESS;
}

/* Appends an image as a PNG, if all went well so far, and lets it go. */
static hsc_status finish_png(cairo_surface_t *image, cairo_status_t status, hsc__string *out, hsc_error *err)
{
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(image, append, out);
    cairo_surface_destroy(image);
    return check(status, out, err);
}

hsc_status hsc__draw_png(const hsc__picture *picture, hsc__string *out, hsc_error *err)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)picture->width * PIXELS_A_UNIT,
                                                        (int)picture->height * PIXELS_A_UNIT);
    cairo_surface_set_device_scale(image, PIXELS_A_UNIT, PIXELS_A_UNIT);
    return finish_png(image, draw(image, picture), out, err);
}

hsc_status hsc__cells_png(const hsc__item *item, hsc__string *out, hsc_error *err)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)ceil(item->width * PIXELS_A_UNIT),
                                                        (int)ceil(item->height * PIXELS_A_UNIT));
    cairo_t *cr = cairo_create(image);
    cairo_scale(cr, PIXELS_A_UNIT, PIXELS_A_UNIT);
    cairo_translate(cr, -item->x, -item->y);
    draw_cells(cr, item);
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    return finish_png(image, status, out, err);
}

hsc_status hsc__draw_pdf(const hsc__picture *picture, hsc__string *out, hsc_error *err)
{
    cairo_surface_t *page = cairo_pdf_surface_create_for_stream(append, out, picture->width, picture->height);
    if (*picture->title) cairo_pdf_surface_set_metadata(page, CAIRO_PDF_METADATA_TITLE, picture->title);
    cairo_pdf_surface_set_metadata(page, CAIRO_PDF_METADATA_CREATOR, "headscope");
    cairo_status_t status = draw(page, picture);
    cairo_surface_finish(page);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(page);
    cairo_surface_destroy(page);
    return check(status, out, err);
}
