/* Pictures as PNG, read back: the colour at the middle of every cell, rows down and columns across, blanks, scales, and
 * where the maps of a grid stand. */
#include "plot/picture.h"
#include "plot_maps.h"
#include "scratch.h"

#include <cairo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { PIXELS = 2, WHITE = 0xffffff };

static cairo_surface_t *image;
static double pitch; /* of the cells in it */

static unsigned pixel(double x, double y)
{
    const unsigned char *row =
        cairo_image_surface_get_data(image) + (ptrdiff_t)(y * PIXELS) * cairo_image_surface_get_stride(image);
    uint32_t value;
    memcpy(&value, row + (size_t)(x * PIXELS) * 4, 4);
    return value & 0xffffff;
}

static void load(const char *path)
{
    image = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
}

/* The m-th matrix of cells in the list of things to draw. */
static hsc__item cells_of(const hsc__picture *picture, int m)
{
    for (size_t i = 0; i < picture->n_items; i++) {
        if (picture->items[i].kind == HSC__ITEM_CELLS && m-- == 0) return picture->items[i];
    }
    fail_msg("no such matrix of cells");
    return (hsc__item){0};
}

/* Draws a map, reads the file back, and returns where its cells are. */
static hsc__item draw(const hsc__heatmap *map)
{
    hsc__picture picture;
    hsc_error err = {0};
    assert_int_equal(hsc__plot_heatmap(scratch_path("map.png"), map, &err), HSC_OK);
    assert_int_equal(hsc__picture_init(&picture, &err), HSC_OK);
    assert_int_equal(hsc__layout_heatmap(&picture, map, &err), HSC_OK);
    hsc__item item = cells_of(&picture, 0);
    pitch = item.cells->pitch;
    item.cells = NULL; /* goes with the picture */
    load(scratch_path("map.png"));
    assert_int_equal(cairo_image_surface_get_width(image), picture.width * PIXELS);
    assert_int_equal(cairo_image_surface_get_height(image), picture.height * PIXELS);
    hsc__picture_free(&picture);
    return item;
}

static unsigned middle(hsc__item item, int row, int col)
{
    return pixel(item.x + (col + 0.4) * pitch, item.y + (row + 0.4) * pitch);
}

static double shade_of(double value, hsc__scale scale, double row_max, double max)
{
    switch (scale) {
    case HSC__SCALE_FIXED: return value;
    case HSC__SCALE_MAX: return value / max;
    case HSC__SCALE_ROW: return value / row_max;
    case HSC__SCALE_LOG: return value <= 1e-4 ? 0 : (log10(value) + 4) / 4;
    case HSC__SCALE_SIGNED: break; /* test_plot_terminal looks at it */
    }
    return 0;
}

/* Every cell of an n x n causal map in every scale. */
static void check_map(int n, hsc__scale scale)
{
    hsc__heatmap map = make_map(n, (unsigned)n);
    map.scale = scale;
    hsc__item item = draw(&map);
    double max = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) max = fmax(max, map.values[i * n + j]);
    for (int i = 0; i < n; i++) {
        double row_max = 0;
        for (int j = 0; j <= i; j++) row_max = fmax(row_max, map.values[i * n + j]);
        for (int j = 0; j < n; j++) {
            double shade = j > i ? 0 : shade_of(map.values[i * n + j], scale, row_max, max);
            unsigned expected = j > i ? WHITE : blues(shade), got = middle(item, i, j);
            if (colour_distance(got, expected) > 1)
                fail_msg("n %d, scale %d, row %d, column %d: %06x, right is %06x", n, scale, i, j, got, expected);
        }
    }
    cairo_surface_destroy(image);
    free_map(&map);
}

static void test_cells_have_the_colours_of_their_weights(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 12, 40, 64, 129, 300, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) check_map(sizes[s], HSC__SCALE_FIXED);
    for (int scale = HSC__SCALE_MAX; scale <= HSC__SCALE_LOG; scale++) {
        check_map(12, (hsc__scale)scale);
        check_map(200, (hsc__scale)scale);
    }
}

/* One token: one cell of weight 1, the darkest colour (case B43). */
static void test_one_token(void **state)
{
    (void)state;
    float one = 1;
    hsc__label label = {"it", 2};
    hsc__heatmap map = {.n_rows = 1, .n_cols = 1, .values = &one, .row_labels = &label, .n_row_labels = 1};
    hsc__item item = draw(&map);
    assert_int_equal(middle(item, 0, 0), 0x08306b);
    cairo_surface_destroy(image);
}

/* A single dark cell at row 4, column 1 of 6 is found left of the middle and below it, without asking the layout. */
static void test_rows_go_down_and_columns_across(void **state)
{
    (void)state;
    float values[36] = {0};
    values[4 * 6 + 1] = 1;
    hsc__heatmap map = {.n_rows = 6, .n_cols = 6, .values = values};
    hsc__item item = draw(&map);
    double left = 1e9, right = 0, top = 1e9, bottom = 0;
    for (int y = 0; y < cairo_image_surface_get_height(image); y++) {
        for (int x = 0; x < cairo_image_surface_get_width(image); x++) {
            double at_x = (double)x / PIXELS, at_y = (double)y / PIXELS;
            if (at_y < item.y || colour_distance(pixel(at_x, at_y), 0x08306b) > 0) continue;
            left = fmin(left, at_x);
            right = fmax(right, at_x);
            top = fmin(top, at_y);
            bottom = fmax(bottom, at_y);
        }
    }
    double width = item.width / 6;
    assert_true(fabs((left + right) / 2 - (item.x + 1.5 * width)) < 2);
    assert_true(fabs((top + bottom) / 2 - (item.y + 4.5 * width)) < 2);
    assert_true(right - left > width - 3 && right - left < width); /* it is one cell, whole */
    cairo_surface_destroy(image);
}

/* NaN is blank; other rows than columns, a stride, weights outside of [0, 1]. */
static void test_masked_and_odd_shapes(void **state)
{
    (void)state;
    float values[3 * 7];
    for (int i = 0; i < 21; i++) values[i] = 0.5f;
    values[0] = NAN;
    values[7] = -2;
    values[14] = 3;
    values[15] = INFINITY;
    values[16] = -INFINITY;
    hsc__heatmap map = {.n_rows = 3, .n_cols = 5, .values = values, .stride = 7};
    hsc__item item = draw(&map);
    static const unsigned first[] = {WHITE, 0xf7fbff, 0x08306b};
    for (int i = 0; i < 3; i++) assert_int_equal(middle(item, i, 0), first[i]);
    assert_int_equal(middle(item, 2, 1), 0x08306b);
    assert_int_equal(middle(item, 2, 2), 0xf7fbff);
    assert_int_equal(middle(item, 1, 4), 0x6baed6);
    cairo_surface_destroy(image);
    map.causal = true; /* the last row sees all five columns, the first three of them */
    item = draw(&map);
    assert_int_equal(middle(item, 0, 2), 0x6baed6);
    assert_int_equal(middle(item, 0, 3), WHITE);
    assert_int_equal(middle(item, 2, 4), 0x6baed6);
    cairo_surface_destroy(image);
}

/* Nothing is visible: every scale still has a picture. */
static void test_nothing_but_zeros_or_blanks(void **state)
{
    (void)state;
    float zeros[4] = {0}, blanks[4] = {NAN, NAN, NAN, NAN};
    for (int scale = HSC__SCALE_FIXED; scale <= HSC__SCALE_LOG; scale++) {
        hsc__heatmap map = {.n_rows = 2, .n_cols = 2, .values = zeros, .scale = (hsc__scale)scale};
        assert_int_equal(middle(draw(&map), 1, 0), 0xf7fbff);
        cairo_surface_destroy(image);
        map.values = blanks;
        assert_int_equal(middle(draw(&map), 1, 0), WHITE);
        cairo_surface_destroy(image);
    }
}

/* n maps of `n` tokens: map m has weight m / n_maps everywhere, but for one 1 at row n - 1, column 1. */
static void check_grid(int n_maps, int n_columns, int n)
{
    hsc__heatmap *maps = calloc((size_t)n_maps, sizeof *maps);
    float *values = malloc(sizeof *values * (size_t)n_maps * (size_t)n * (size_t)n);
    for (int m = 0; m < n_maps; m++) {
        float *v = values + (size_t)m * (size_t)n * (size_t)n;
        for (int i = 0; i < n * n; i++) v[i] = (float)m / (float)n_maps;
        v[(n - 1) * n + 1] = 1;
        maps[m] = (hsc__heatmap){.title = "L0H0", .n_rows = n, .n_cols = n, .values = v};
    }
    hsc__picture picture;
    hsc_error err = {0};
    assert_int_equal(hsc__plot_grid(scratch_path("grid.png"), maps, (size_t)n_maps, n_columns, "all", &err), HSC_OK);
    assert_int_equal(hsc__picture_init(&picture, &err), HSC_OK);
    assert_int_equal(hsc__layout_grid(&picture, maps, (size_t)n_maps, n_columns, "all", &err), HSC_OK);
    load(scratch_path("grid.png"));
    double before_x = 0, before_y = 0;
    for (int m = 0; m < n_maps; m++) {
        hsc__item item = cells_of(&picture, m);
        bool first = m % n_columns == 0;
        if (m > 0) assert_true(first ? item.x <= before_x : item.x > before_x + item.width);
        if (m > 0) assert_true(first ? item.y > before_y + item.height : item.y == before_y);
        before_x = item.x;
        before_y = item.y;
        int reduce = (n + item.cells->n_cols - 1) / item.cells->n_cols;
        pitch = item.cells->pitch;
        unsigned corner = pixel(item.x + pitch * 0.4, item.y + pitch * 0.4);
        unsigned spot = pixel(item.x + (1 / reduce + 0.4) * pitch, item.y + ((n - 1) / reduce + 0.4) * pitch);
        if (colour_distance(corner, blues((double)m / n_maps)) > 1 || spot != 0x08306b)
            fail_msg("map %d of %d: %06x, %06x", m, n_maps, corner, spot);
    }
    assert_true(picture.width < 4000 && picture.height < 4000);
    hsc__picture_free(&picture);
    cairo_surface_destroy(image);
    free(values);
    free(maps);
}

static void test_grids(void **state)
{
    (void)state;
    check_grid(1, 1, 2);
    check_grid(12, 4, 12);
    check_grid(144, 12, 12);
    check_grid(270, 9, 30);
    check_grid(270, 9, 230); /* more tokens than pixels: the largest of each block, so the 1 is still seen */
    check_grid(10, 4, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_have_the_colours_of_their_weights),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_rows_go_down_and_columns_across),
        cmocka_unit_test(test_masked_and_odd_shapes),
        cmocka_unit_test(test_nothing_but_zeros_or_blanks),
        cmocka_unit_test(test_grids),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
