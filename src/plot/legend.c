/* What every picture has: its title and legend at the top, notes at the foot. */
#include "plot/picture.h"

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
    hsc__picture_ramp(picture, x, y, RAMP_WIDTH, RAMP_HEIGHT);
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
