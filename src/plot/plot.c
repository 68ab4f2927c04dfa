/* The calls that write pictures: check, lay out, draw in the format that the path's ending names. */
#include "plot/plot.h"

#include "base/file.h"
#include "plot/picture.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

typedef hsc_status (*draw_fn)(const hsc__picture *picture, hsc__string *out, hsc_error *err);

static hsc_status find_format(draw_fn *out, const char *path, hsc_error *err)
{
    static const struct {
        const char *ending;
        draw_fn draw;
    } formats[] = {{".png", hsc__draw_png}, {".svg", hsc__draw_svg}, {".pdf", hsc__draw_pdf}};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (n > 4 && strcasecmp(path + n - 4, formats[i].ending) == 0) {
            *out = formats[i].draw;
            return HSC_OK;
        }
    }
    return hsc__fail(err, HSC_EINVAL, 0, "%s: a picture's name ends in .png, .svg or .pdf", path);
}

hsc_status hsc__plot_path(const char *path, hsc_error *err)
{
    draw_fn draw;
    return find_format(&draw, path, err);
}

static hsc_status check_labels(const char *axis, const hsc__label *labels, size_t n_labels, int n, const char *of,
                               hsc_error *err)
{
    HSC_FAIL_IF(labels && n_labels != (size_t)n, HSC_EINVAL, "%s: %zu labels for %d %s", axis, n_labels, n, of);
    HSC_FAIL_IF(!labels && n_labels != 0, HSC_EINVAL, "%s: %zu labels announced, none given", axis, n_labels);
    return HSC_OK;
}

hsc_status hsc__heatmap_check(const hsc__heatmap *map, int most, hsc_error *err)
{
    HSC_FAIL_IF(map->n_rows < 1 || map->n_cols < 1, HSC_EINVAL, "nothing to draw: %d x %d tokens", map->n_rows,
                map->n_cols);
    HSC_FAIL_IF(map->n_rows > most || map->n_cols > most, HSC_EINVAL,
                "%d x %d tokens are too many for a picture: at most %d each way", map->n_rows, map->n_cols, most);
    HSC_FAIL_IF(!map->values, HSC_EINVAL, "nothing to draw: no values");
    HSC_FAIL_IF(map->stride && map->stride < (size_t)map->n_cols, HSC_EINVAL, "a stride of %zu is less than %d columns",
                map->stride, map->n_cols);
    HSC_FAIL_IF((unsigned)map->scale > HSC__SCALE_SIGNED, HSC_EINVAL, "unknown colour scale %d", (int)map->scale);
    HSC_TRY(check_labels("rows", map->row_labels, map->n_row_labels, map->n_rows, "rows", err));
    return check_labels("columns", map->col_labels, map->n_col_labels, map->n_cols, "columns", err);
}

static hsc_status write_file(const char *path, const hsc__string *bytes, hsc_error *err)
{
    hsc__output output;
    HSC_TRY(hsc__output_open(&output, path, err));
    if (fwrite(bytes->data, 1, bytes->n, output.stream) != bytes->n) {
        hsc_status status = hsc__fail(err, HSC_EIO, 0, "%s: cannot write: %s", path, strerror(errno));
        hsc__output_abort(&output);
        return status;
    }
    return hsc__output_commit(&output, err);
}

static hsc_status write_picture(const hsc__picture *picture, draw_fn draw, const char *path, hsc_error *err)
{
    hsc__string bytes = {0};
    hsc_status status = draw(picture, &bytes, err);
    if (status == HSC_OK) status = write_file(path, &bytes, err);
    else hsc__fail_prefix(err, status, "%s", path);
    hsc__string_free(&bytes);
    return status;
}

hsc_status hsc__plot_heatmap(const char *path, const hsc__heatmap *map, hsc_error *err)
{
    draw_fn draw = NULL;
    hsc__picture picture;
    HSC_TRY(find_format(&draw, path, err));
    HSC_TRY(hsc__heatmap_check(map, HSC__PLOT_MAX_TOKENS, err));
    HSC_TRY(hsc__picture_init(&picture, err));
    hsc_status status = hsc__layout_heatmap(&picture, map, err);
    if (status == HSC_OK) status = write_picture(&picture, draw, path, err);
    hsc__picture_free(&picture);
    return status;
}

hsc_status hsc__plot_grid(const char *path, const hsc__heatmap *maps, size_t n_maps, int n_columns, const char *title,
                          hsc_error *err)
{
    draw_fn draw = NULL;
    hsc__picture picture;
    HSC_TRY(find_format(&draw, path, err));
    HSC_FAIL_IF(n_maps == 0, HSC_EINVAL, "nothing to draw: no maps");
    for (size_t m = 0; m < n_maps; m++) HSC_TRY(hsc__heatmap_check(&maps[m], HSC__PLOT_MAX_TOKENS, err));
    HSC_TRY(hsc__picture_init(&picture, err));
    hsc_status status = hsc__layout_grid(&picture, maps, n_maps, n_columns, title, err);
    if (status == HSC_OK) status = write_picture(&picture, draw, path, err);
    hsc__picture_free(&picture);
    return status;
}

static hsc_status check_panel(const hsc__panel *panel, hsc_error *err)
{
    HSC_FAIL_IF(panel->n_curves < 1 || panel->n_curves > HSC__MAX_CURVES, HSC_EINVAL,
                "%zu curves in a panel: from 1 to %d are possible", panel->n_curves, HSC__MAX_CURVES);
    for (size_t c = 0; c < panel->n_curves; c++)
        HSC_FAIL_IF(panel->curves[c].n && (!panel->curves[c].x || !panel->curves[c].y), HSC_EINVAL,
                    "curve %zu has %zu points and no values", c, panel->curves[c].n);
    return HSC_OK;
}

hsc_status hsc__plot_lines(const char *path, const char *title, const hsc__panel *panels, size_t n_panels,
                           hsc_error *err)
{
    draw_fn draw = NULL;
    hsc__picture picture;
    HSC_TRY(find_format(&draw, path, err));
    HSC_FAIL_IF(n_panels < 1 || n_panels > HSC__MAX_PANELS, HSC_EINVAL, "%zu panels: from 1 to %d are possible",
                n_panels, HSC__MAX_PANELS);
    for (size_t p = 0; p < n_panels; p++) HSC_TRY(check_panel(&panels[p], err));
    HSC_TRY(hsc__picture_init(&picture, err));
    hsc_status status = hsc__layout_lines(&picture, title, panels, n_panels, err);
    if (status == HSC_OK) status = write_picture(&picture, draw, path, err);
    hsc__picture_free(&picture);
    return status;
}
