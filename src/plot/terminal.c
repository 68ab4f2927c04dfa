/* A heatmap made of coloured blanks, or of characters by darkness where there is no colour. A column is two cells wide
 * if that fits, else one; it bears its number, written downwards. Where a row ends at the diagonal its label is
 * repeated there, beside the top of the column of the same token. */
#include "plot/picture.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_WIDTH = 80, LEAST_WIDTH = 20, LABEL_CELLS = 24, RAMP_CELLS = 20 };
static const char characters[] = " .:-=+*#%@";
/* Of signed maps: letters below 0, digits above, each the larger the farther from it. */
static const char signed_characters[] = "ihgfedcba 123456789";

static bool contains(const char *text, const char *part)
{
    return text && strstr(text, part);
}

hsc__terminal_mode hsc__terminal_choose(bool is_tty, const char *term, const char *colorterm, const char *no_color)
{
    static const char *const full[] = {"direct", "truecolor", "kitty", "alacritty", "wezterm", "ghostty", "foot"};
    if (!is_tty || (no_color && *no_color) || !term || !*term || strcmp(term, "dumb") == 0) return HSC__TERMINAL_PLAIN;
    if (contains(colorterm, "truecolor") || contains(colorterm, "24bit")) return HSC__TERMINAL_TRUECOLOR;
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        if (contains(term, full[i])) return HSC__TERMINAL_TRUECOLOR;
    }
    return contains(term, "256color") ? HSC__TERMINAL_256 : HSC__TERMINAL_PLAIN;
}

/* The ramp in xterm's 256 colours. Chosen by eye: the nearest in RGB are tinted green and violet. */
static int ramp_256(hsc__scale scale, float shade)
{
    static const unsigned char blues[] = {231, 189, 153, 110, 74, 68, 32, 25, 18};
    static const unsigned char red_blue[] = {124, 167, 216, 224, 231, 189, 110, 67, 25};
    int at = (int)fminf(shade * sizeof blues, sizeof blues - 1);
    return scale == HSC__SCALE_SIGNED ? red_blue[at] : blues[at];
}

/* The character of a shade; of signed ones the middle is 0 itself and what rounds to it. */
static char character(hsc__scale scale, float shade)
{
    if (isnan(shade)) return ' ';
    if (scale == HSC__SCALE_SIGNED) return signed_characters[9 + (int)lroundf((2 * shade - 1) * 9)];
    return characters[(int)fminf(shade * 10, 9)];
}

typedef struct screen {
    hsc__string *out;
    const hsc__heatmap *map;
    hsc__scaling scaling;
    hsc__terminal_mode mode;
    int width;
    int number_cells, label_cells; /* of the two parts before the cells */
    int column_cells;              /* 2 or 1 */
    int n_shown;                   /* columns */
    int painted;                   /* the colour that is set now, or -1 */
    bool diagonal;                 /* row labels are repeated where the row ends */
} screen;

static void blanks(hsc__string *out, int n)
{
    for (int i = 0; i < n; i++) hsc__string_add(out, " ", 1);
}

static void unpaint(screen *s)
{
    if (s->painted >= 0) hsc__string_text(s->out, "\x1b[0m");
    s->painted = -1;
}

/* `n` cells of a shade; NaN is the terminal's own background. */
static void paint(screen *s, float shade, int n)
{
    if (s->mode == HSC__TERMINAL_PLAIN) {
        char c = character(s->scaling.scale, shade);
        for (int i = 0; i < n; i++) hsc__string_add(s->out, &c, 1);
        return;
    }
    uint32_t rgb = isnan(shade) ? 0 : hsc__ramp(s->scaling.scale, shade);
    int colour = isnan(shade) ? -1 : s->mode == HSC__TERMINAL_256 ? ramp_256(s->scaling.scale, shade) : (int)rgb;
    if (colour < 0) unpaint(s);
    else if (colour != s->painted && s->mode == HSC__TERMINAL_256) hsc__string_printf(s->out, "\x1b[48;5;%dm", colour);
    else if (colour != s->painted)
        hsc__string_printf(s->out, "\x1b[48;2;%d;%d;%dm", (int)(rgb >> 16 & 0xff), (int)(rgb >> 8 & 0xff),
                           (int)(rgb & 0xff));
    s->painted = colour;
    blanks(s->out, n);
}

static int digits_of(int n)
{
    int digits = 1;
    while (n >= 10) {
        n /= 10;
        digits++;
    }
    return digits;
}

/* Appends a label in at most `most` cells and returns the cells it took; nothing when there are no labels. */
static int put_label(hsc__string *out, const hsc__label *labels, int i, int most)
{
    if (!labels || most < 1) return 0;
    hsc__string whole = {0}, cut = {0};
    hsc__text_label(&whole, labels[i].bytes, labels[i].n);
    if (!whole.failed) hsc__text_cut(&cut, whole.data, whole.n, most);
    if (whole.failed || cut.failed) out->failed = true;
    int cells = cut.n ? hsc__text_cells(cut.data, cut.n) : 0;
    hsc__string_add(out, cut.data, cut.n);
    hsc__string_free(&whole);
    hsc__string_free(&cut);
    return cells;
}

static bool same_labels(const hsc__heatmap *map)
{
    if (map->n_rows != map->n_cols) return false;
    if (map->row_labels == map->col_labels) return true;
    if (!map->row_labels || !map->col_labels) return false;
    for (int i = 0; i < map->n_rows; i++) {
        const hsc__label *a = &map->row_labels[i], *b = &map->col_labels[i];
        if (a->n != b->n || (a->n && memcmp(a->bytes, b->bytes, a->n) != 0)) return false;
    }
    return true;
}

static void measure(screen *s)
{
    const hsc__heatmap *map = s->map;
    hsc__string scratch = {0};
    int most = s->width / 3 < LABEL_CELLS ? s->width / 3 : LABEL_CELLS;
    for (int i = 0; i < map->n_rows; i++) {
        scratch.n = 0;
        int cells = put_label(&scratch, map->row_labels, i, most);
        if (cells > s->label_cells) s->label_cells = cells;
    }
    if (scratch.failed) s->out->failed = true;
    hsc__string_free(&scratch);
    s->number_cells = digits_of(map->n_rows - 1);
    int room = s->width - s->number_cells - 1 - s->label_cells - 1;
    s->column_cells = 2 * map->n_cols <= room ? 2 : 1;
    s->n_shown = map->n_cols <= room ? map->n_cols : room;
    s->diagonal = map->causal && map->row_labels && same_labels(map) && s->n_shown == map->n_cols;
}

/* The heads of the columns: the last digit of each number, above it the leading digits at every tenth column. */
static void put_column_numbers(screen *s)
{
    int left = s->number_cells + 1 + s->label_cells + 1;
    for (int line = digits_of(s->n_shown - 1) - 1, power = (int)pow(10, line); line >= 0; line--, power /= 10) {
        int cells = left, at = left;
        blanks(s->out, left);
        for (int j = 0; j < s->n_shown; j++, at += s->column_cells) {
            if (line > 0 && (j % 10 != 0 || j < power)) continue;
            blanks(s->out, at - cells);
            hsc__string_printf(s->out, "%d", j / power % 10);
            cells = at + 1;
        }
        hsc__string_text(s->out, "\n");
    }
}

static void put_row(screen *s, float *shades, int i)
{
    const hsc__heatmap *map = s->map;
    hsc__string_printf(s->out, "%*d ", s->number_cells, i);
    blanks(s->out, s->label_cells - put_label(s->out, map->row_labels, i, s->label_cells) + 1);
    hsc__shade_row(shades, map, &s->scaling, i);
    int end = s->n_shown;
    while (end > 0 && isnan(shades[end - 1])) end--;
    for (int j = 0; j < end; j++) paint(s, shades[j], s->column_cells);
    unpaint(s);
    int used = s->number_cells + 1 + s->label_cells + 1 + end * s->column_cells;
    if (s->diagonal && s->width - used > 2) {
        hsc__string_text(s->out, " ");
        put_label(s->out, map->row_labels, i, s->width - used - 1);
    }
    hsc__string_text(s->out, "\n");
}

/* How many columns from the left are heads by their own numbers (H0, H1, ..): a list of those would say nothing. */
static int n_plain_heads(const screen *s)
{
    int n = 0;
    for (; n < s->n_shown; n++) {
        char name[16];
        size_t length = (size_t)snprintf(name, sizeof name, "H%d", n);
        const hsc__label *label = &s->map->col_labels[n];
        if (label->n != length || memcmp(label->bytes, name, length) != 0) break;
    }
    return n > 1 ? n : 0;
}

/* The labels of the columns, where they are neither those of the rows nor mere numbers of heads. */
static void put_column_labels(screen *s)
{
    const hsc__heatmap *map = s->map;
    if (!map->col_labels || same_labels(map)) return;
    int used = 8, first = n_plain_heads(s);
    if (first == s->n_shown) return;
    hsc__string item = {0};
    hsc__string_text(s->out, "columns:");
    for (int j = first; j < s->n_shown; j++) {
        item.n = 0;
        hsc__string_printf(&item, " %d ", j);
        int cells = 2 + digits_of(j) + put_label(&item, map->col_labels, j, LABEL_CELLS);
        if (used + cells + 1 > s->width) {
            hsc__string_text(s->out, "\n        ");
            used = 8;
        }
        hsc__string_add(s->out, item.data, item.n);
        if (j + 1 < s->n_shown) hsc__string_text(s->out, ",");
        used += cells + 1;
    }
    if (item.failed) s->out->failed = true;
    hsc__string_free(&item);
    hsc__string_text(s->out, "\n");
}

static void put_legend(screen *s)
{
    bool both = s->scaling.scale == HSC__SCALE_SIGNED;
    if (both) hsc__string_text(s->out, "-");
    if (both) hsc__string_double(s->out, 3, s->scaling.max);
    else hsc__string_text(s->out, s->scaling.scale == HSC__SCALE_LOG ? "0.0001" : "0");
    hsc__string_text(s->out, " ");
    int n = s->mode != HSC__TERMINAL_PLAIN ? RAMP_CELLS : both ? (int)sizeof signed_characters - 1 : 10;
    if (s->mode == HSC__TERMINAL_PLAIN) hsc__string_text(s->out, "[");
    for (int i = 0; i < n; i++) paint(s, ((float)i + 0.5f) / (float)n, 1);
    unpaint(s);
    hsc__string_text(s->out, s->mode == HSC__TERMINAL_PLAIN ? "] " : " ");
    hsc__string_double(s->out, 3, s->scaling.max);
    hsc__string_text(s->out, "  ");
    hsc__scale_caption(s->out, &s->scaling, s->map->value_title);
    hsc__string_text(s->out, "\n");
}

static void put_head(screen *s)
{
    const hsc__heatmap *map = s->map;
    const char *x_title = map->x_title ? map->x_title : "attends to", *y_title = map->y_title ? map->y_title : "token";
    if (map->title && *map->title) {
        hsc__text_label(s->out, map->title, strlen(map->title));
        hsc__string_text(s->out, "\n");
    }
    hsc__string_text(s->out, "rows: ");
    hsc__text_label(s->out, y_title, strlen(y_title));
    hsc__string_text(s->out, "; columns: ");
    hsc__text_label(s->out, x_title, strlen(x_title));
    hsc__string_text(s->out, "\n");
}

hsc_status hsc__terminal_heatmap(hsc__string *out, const hsc__heatmap *map, hsc__terminal_mode mode, int width,
                                 hsc_error *err)
{
    HSC_TRY(hsc__heatmap_check(map, INT_MAX, err));
    screen s = {.out = out, .map = map, .mode = mode, .painted = -1, .scaling = hsc__scaling_of(map, 1)};
    s.width = width <= 0 ? DEFAULT_WIDTH : width < LEAST_WIDTH ? LEAST_WIDTH : width;
    float *shades = hsc__calloc((size_t)map->n_cols, sizeof *shades);
    if (!shades) return hsc__fail_memory(err, (size_t)map->n_cols * sizeof *shades, "a row of the heatmap");
    measure(&s);
    put_head(&s);
    put_column_numbers(&s);
    for (int i = 0; i < map->n_rows; i++) put_row(&s, shades, i);
    put_column_labels(&s);
    put_legend(&s);
    if (s.n_shown < map->n_cols)
        hsc__string_printf(out, "Columns 0 to %d of %d are shown, as many as fit into %d cells.\n", s.n_shown - 1,
                           map->n_cols, s.width);
    hsc__free(shades);
    return out->failed ? hsc__fail_memory(err, out->n, "the heatmap") : HSC_OK;
}
