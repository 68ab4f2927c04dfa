/* What pictures have in common: title and legend at the top, labels along the cells, notes at the foot. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

enum { RAMP_WIDTH = 240, RAMP_HEIGHT = 10, TITLE_CELLS = 120 };

static const hsc__text_style title_style = {.size = 16, .colour = HSC__INK, .bold = true};
static const hsc__text_style caption_style = {.size = 11, .colour = HSC__INK};
static const hsc__text_style tick_style = {.size = 10, .colour = HSC__GREY, .anchor = HSC__ANCHOR_MIDDLE};
static const hsc__text_style note_style = {.size = 10, .colour = HSC__GREY};

double hsc__picture_head(hsc__picture *picture, const char *title, const hsc__scaling *scaling, const char *value_title)
{
    double x = HSC__MARGIN, y = HSC__MARGIN;
    if (title && *title) {
        picture->title = hsc__picture_label(picture, title, strlen(title), TITLE_CELLS);
        hsc__picture_text(picture, x, y + 13, picture->title, title_style);
        y += 30;
    }
    hsc__string caption = {0};
    hsc__scale_caption(&caption, scaling, value_title);
    if (caption.failed) picture->failed = true;
    else hsc__picture_text(picture, x, y + 10, caption.data, caption_style);
    hsc__string_free(&caption);
    y += 17;
    hsc__picture_ramp(picture, scaling->scale, x, y, RAMP_WIDTH, RAMP_HEIGHT);
    hsc__tick ticks[HSC__MAX_TICKS];
    int n = hsc__scale_ticks(ticks, scaling);
    for (int i = 0; i < n; i++) {
        double at = x + ticks[i].shade * RAMP_WIDTH;
        hsc__picture_rect(picture, at - 0.5, y, 1, RAMP_HEIGHT + 4, HSC__GREY);
        hsc__picture_text(picture, at, y + RAMP_HEIGHT + 15, ticks[i].text, tick_style);
    }
    return y + RAMP_HEIGHT + 15 + 21;
}

void hsc__picture_note(hsc__picture *picture, double *y, const char *text)
{
    hsc__picture_text(picture, HSC__MARGIN, *y + 10, text, note_style);
    *y += 15;
}

const char *const *hsc__axis_texts(hsc__picture *picture, const hsc__label *labels, int n, int max_cells, double size,
                                   int step, double *widest)
{
    const char **texts = hsc__picture_alloc(picture, (size_t)n, sizeof *texts);
    *widest = 0;
    for (int i = 0; i < n && texts; i++) {
        char number[16];
        hsc__format_double(number, sizeof number, 9, i);
        texts[i] = labels ? hsc__picture_label(picture, labels[i].bytes, labels[i].n, max_cells)
                          : hsc__picture_label(picture, number, strlen(number), max_cells);
        if (i % step == 0) *widest = fmax(*widest, hsc__picture_measure(picture, texts[i], size, false));
    }
    *widest *= HSC__FONT_SLACK;
    return texts;
}

/* From the beginning of a cell to the baseline that puts capitals at its middle. */
static double baseline(double cell, double size)
{
    return cell / 2 + 0.35 * size;
}

void hsc__axis_rows(hsc__picture *picture, double x, double y, const char *const *texts, int n, int step, double cell,
                    double size)
{
    hsc__text_style style = {.size = size, .colour = HSC__INK, .anchor = HSC__ANCHOR_END};
    for (int i = 0; i < n; i += step)
        hsc__picture_text(picture, x, y + i * cell + baseline(cell, size), texts[i], style);
}

void hsc__axis_cols(hsc__picture *picture, double x, double y, const char *const *texts, int n, int step, double cell,
                    double size)
{
    hsc__text_style style = {.size = size, .colour = HSC__INK, .anchor = HSC__ANCHOR_END, .upright = true};
    for (int j = 0; j < n; j += step)
        hsc__picture_text(picture, x + j * cell + baseline(cell, size), y, texts[j], style);
}
