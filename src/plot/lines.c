/* Where everything of a picture of curves stands: a title, then panels beside each other, each with its own title,
 * legend, axes and ticks. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 400, /* of a panel's field, in units */
    HEIGHT = 280,
    BETWEEN = 32, /* from one panel to the next */
    TICK = 4,     /* length of a tick */
    TITLE_CELLS = 120,
    LABEL_CELLS = 48,
    MAX_TICKS = 16,
    LEGEND_ROW = 17,
    SAMPLE = 24, /* of a line, in the legend */
    GRID = 0xe6e8eb,
};

/* Okabe and Ito's colours, which people who see fewer colours can tell apart. */
static const uint32_t colours[HSC__MAX_CURVES] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7,
                                                  0xe69f00, 0x56b4e9, 0x1f2328, 0x8c8c8c};

static const hsc__text_style title_style = {.size = 16, .colour = HSC__INK, .bold = true};
static const hsc__text_style panel_style = {.size = 12, .colour = HSC__INK, .bold = true};
static const hsc__text_style name_style = {.size = 11, .colour = HSC__INK};

/* ----------------------------------------------------------------------------------------------------- an axis ---- */

typedef struct axis {
    bool log;
    double low, high; /* shown, after the logarithm where there is one */
    int n_ticks;
    double ticks[MAX_TICKS]; /* values as they are written */
} axis;

static double place(const axis *a, double value)
{
    return a->log ? log10(value) : value;
}

static bool shown(const axis *a, double value)
{
    return isfinite(value) && (!a->log || value > 0);
}

/* 1, 2 or 5 times a power of ten, so that at most `most` steps make the range. */
static double step_of(double range, int most)
{
    double power = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 3; i++) {
        double step = power * (i == 0 ? 1 : i == 1 ? 2 : 5);
        if (range / step <= most) return step;
    }
    return power * 10;
}

static void add_tick(axis *a, double value)
{
    double at = place(a, value), slack = 1e-9 * (a->high - a->low);
    if (a->n_ticks < MAX_TICKS && at >= a->low - slack && at <= a->high + slack) a->ticks[a->n_ticks++] = value;
}

/* Whole steps; on a logarithmic axis powers of ten, with 2 and 5 between them where there are few. */
static void choose_ticks(axis *a)
{
    if (!a->log) {
        double step = step_of(a->high - a->low, 6), first = ceil(a->low / step - 1e-9);
        for (int i = 0; i < MAX_TICKS; i++) {
            double value = (first + i) * step;
            add_tick(a, fabs(value) < step * 1e-9 ? 0 : value);
        }
        return;
    }
    double decades = a->high - a->low;
    int every = (int)fmax(1, ceil(decades / 8));
    for (int power = (int)floor(a->low); power <= (int)ceil(a->high); power++) {
        if (power % every) continue;
        add_tick(a, pow(10, power));
        if (decades > 3) continue;
        add_tick(a, 2 * pow(10, power));
        add_tick(a, 5 * pow(10, power));
    }
}

/* The range that all points take, with a little air around it. False when there is none. */
static bool make_axis(axis *a, const hsc__panel *panel, bool is_x)
{
    bool any = false;
    *a = (axis){.log = is_x ? panel->log_x : panel->log_y, .low = INFINITY, .high = -INFINITY};
    axis x = {.log = panel->log_x}, y = {.log = panel->log_y};
    for (size_t c = 0; c < panel->n_curves; c++) {
        const hsc__curve *curve = &panel->curves[c];
        for (size_t i = 0; i < curve->n; i++) {
            if (!shown(&x, curve->x[i]) || !shown(&y, curve->y[i])) continue;
            double at = place(a, is_x ? curve->x[i] : curve->y[i]);
            a->low = fmin(a->low, at);
            a->high = fmax(a->high, at);
            any = true;
        }
    }
    if (!any) return false;
    double range = a->high - a->low, air = range > 0 ? 0.05 * range : fmax(fabs(a->low) * 0.1, a->log ? 0.1 : 1e-3);
    a->low -= air;
    a->high += air;
    choose_ticks(a);
    return true;
}

/* --------------------------------------------------------------------------------------------------- one panel ---- */

typedef struct field {
    double x, y; /* upper left corner of the curves' box */
    axis across, up;
} field;

static double to_x(const field *f, double value)
{
    return f->x + (place(&f->across, value) - f->across.low) / (f->across.high - f->across.low) * WIDTH;
}

static double to_y(const field *f, double value)
{
    return f->y + HEIGHT - (place(&f->up, value) - f->up.low) / (f->up.high - f->up.low) * HEIGHT;
}

static void tick_text(char *out, size_t capacity, double value)
{
    hsc__format_double(out, capacity, 6, value);
}

static double widest_tick(const hsc__picture *picture, const axis *a)
{
    double widest = 0;
    for (int i = 0; i < a->n_ticks; i++) {
        char text[32];
        tick_text(text, sizeof text, a->ticks[i]);
        widest = fmax(widest, hsc__picture_measure(picture, text, 10, false));
    }
    return widest * HSC__FONT_SLACK;
}

static void add_frame(hsc__picture *picture, const field *f)
{
    hsc__text_style style = {.size = 10, .colour = HSC__GREY, .anchor = HSC__ANCHOR_MIDDLE};
    char text[32];
    for (int i = 0; i < f->across.n_ticks; i++) {
        double x = to_x(f, f->across.ticks[i]);
        tick_text(text, sizeof text, f->across.ticks[i]);
        hsc__picture_rect(picture, x - 0.5, f->y, 1, HEIGHT + TICK, GRID);
        hsc__picture_text(picture, x, f->y + HEIGHT + TICK + 11, text, style);
    }
    style.anchor = HSC__ANCHOR_END;
    for (int i = 0; i < f->up.n_ticks; i++) {
        double y = to_y(f, f->up.ticks[i]);
        tick_text(text, sizeof text, f->up.ticks[i]);
        hsc__picture_rect(picture, f->x - TICK, y - 0.5, WIDTH + TICK, 1, GRID);
        hsc__picture_text(picture, f->x - TICK - 3, y + 3.5, text, style);
    }
    hsc__picture_rect(picture, f->x - 0.5, f->y, 1, HEIGHT, HSC__GREY);
    hsc__picture_rect(picture, f->x, f->y + HEIGHT - 0.5, WIDTH, 1, HSC__GREY);
}

/* Points of a curve that have a place in the field, as [n][2]; NULL when memory is out. */
static double *find_points(hsc__picture *picture, const field *f, const hsc__curve *curve, size_t *n)
{
    double *points = hsc__picture_alloc(picture, 2 * (curve->n + 1), sizeof *points);
    *n = 0;
    for (size_t i = 0; i < curve->n && points; i++) {
        if (!shown(&f->across, curve->x[i]) || !shown(&f->up, curve->y[i])) continue;
        points[2 * *n] = to_x(f, curve->x[i]);
        points[2 * *n + 1] = to_y(f, curve->y[i]);
        ++*n;
    }
    return points;
}

/* Whether all points of curve c lie on those of an earlier one, which it would hide. */
static bool hides_another(hsc__picture *picture, const field *f, const hsc__panel *panel, size_t c)
{
    size_t n, n_other;
    const double *points = find_points(picture, f, &panel->curves[c], &n);
    for (size_t other = 0; other < c && points && n; other++) {
        const double *below = find_points(picture, f, &panel->curves[other], &n_other);
        bool same = below && n == n_other;
        for (size_t i = 0; same && i < 2 * n; i++) same = fabs(points[i] - below[i]) < HSC__LINE_WIDTH;
        if (same) return true;
    }
    return false;
}

/* A curve without a name is the other half of the one before it, an interval's upper end: of one colour. */
static uint32_t colour_of(const hsc__panel *panel, size_t c)
{
    size_t n_named = 0;
    for (size_t i = 1; i <= c; i++) n_named += panel->curves[i].name != NULL;
    return colours[n_named];
}

/* A curve that lies on another is dashed, so that both are seen. */
static void add_curve(hsc__picture *picture, const field *f, const hsc__panel *panel, size_t c)
{
    size_t n;
    const double *points = find_points(picture, f, &panel->curves[c], &n);
    if (points && n)
        hsc__picture_line(picture, points, n, colour_of(panel, c), !panel->curves[c].plain,
                          hides_another(picture, f, panel, c));
}

static const char *label(hsc__picture *picture, const char *text, int cells)
{
    return text ? hsc__picture_label(picture, text, strlen(text), cells) : "";
}

/* Title and the names of the curves above the field; returns where the field may begin. */
static double add_legend(hsc__picture *picture, const field *f, const hsc__panel *panel, double y)
{
    double x = f->x;
    if (panel->title) {
        hsc__picture_text(picture, x, y + 11, label(picture, panel->title, LABEL_CELLS), panel_style);
        y += 20;
    }
    for (size_t c = 0; c < panel->n_curves; c++) {
        const hsc__curve *curve = &panel->curves[c];
        if (!curve->name) continue;
        double ends[4] = {x, y + 8, x + SAMPLE, y + 8}, middle[2] = {x + SAMPLE / 2.0, y + 8};
        hsc__picture_line(picture, ends, 2, colour_of(panel, c), false, hides_another(picture, f, panel, c));
        if (!curve->plain) hsc__picture_line(picture, middle, 1, colour_of(panel, c), true, false);
        hsc__picture_text(picture, x + SAMPLE + 8, y + 12, label(picture, curve->name, LABEL_CELLS), name_style);
        y += LEGEND_ROW;
    }
    return y + 8;
}

static double legend_height(const hsc__panel *panel)
{
    double height = (panel->title ? 20 : 0) + 8;
    for (size_t c = 0; c < panel->n_curves; c++) height += panel->curves[c].name ? LEGEND_ROW : 0;
    return height;
}

/* One panel from x on, its field beginning at y; returns where it ends on the right. */
static double add_panel(hsc__picture *picture, const hsc__panel *panel, double x, double top, double y)
{
    hsc__text_style style = {.size = 12, .colour = HSC__GREY, .anchor = HSC__ANCHOR_MIDDLE};
    field f = {.y = y};
    make_axis(&f.across, panel, true);
    make_axis(&f.up, panel, false);
    f.x = ceil(x + (panel->y_title ? 20 : 0) + widest_tick(picture, &f.up) + TICK + 3);
    add_legend(picture, &f, panel, top);
    add_frame(picture, &f);
    for (size_t c = 0; c < panel->n_curves; c++) add_curve(picture, &f, panel, c);
    if (panel->x_title)
        hsc__picture_text(picture, f.x + WIDTH / 2.0, f.y + HEIGHT + TICK + 30,
                          label(picture, panel->x_title, LABEL_CELLS), style);
    style.upright = true;
    if (panel->y_title)
        hsc__picture_text(picture, x + 11, f.y + HEIGHT / 2.0, label(picture, panel->y_title, LABEL_CELLS), style);
    return f.x + WIDTH;
}

hsc_status hsc__layout_lines(hsc__picture *picture, const char *title, const hsc__panel *panels, size_t n_panels,
                             hsc_error *err)
{
    double x = HSC__MARGIN, top = HSC__MARGIN, legends = 0;
    axis any;
    for (size_t p = 0; p < n_panels; p++) {
        HSC_FAIL_IF(!make_axis(&any, &panels[p], true), HSC_EINVAL, "panel %zu has no point that can be shown", p);
        legends = fmax(legends, legend_height(&panels[p]));
    }
    if (title && *title) {
        picture->title = label(picture, title, TITLE_CELLS);
        hsc__picture_text(picture, x, top + 13, picture->title, title_style);
        top += 30;
    }
    for (size_t p = 0; p < n_panels; p++) {
        x = add_panel(picture, &panels[p], x, top + legends - legend_height(&panels[p]), top + legends);
        x += BETWEEN;
    }
    return hsc__picture_close(picture, err);
}
