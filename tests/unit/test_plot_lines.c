/* Pictures of curves: where points stand on linear and logarithmic axes, what is left out, ticks, names, refusals, and
 * memory that runs out. Positions follow from the field's size and the air of a twentieth at each end. */
#include "failing_alloc.h"
#include "plot/picture.h"
#include "plot_maps.h"
#include "scratch.h"

#include <cairo.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FIELD_WIDTH = 400, FIELD_HEIGHT = 280 };

static char *svg; /* the last one */

static void draw(const hsc__panel *panels, size_t n)
{
    hsc_error err = {0};
    hsc_status status = hsc__plot_lines(scratch_path("a.svg"), "Title <1>", panels, n, &err);
    if (status != HSC_OK) fail_msg("%s", err.message);
    free(svg);
    svg = scratch_read(scratch_path("a.svg"), NULL);
    assert_non_null(svg);
}

/* The points of the polyline number `index` that has as many as `n` or more; returns how many it has. */
static int polyline(int index, double *points, int capacity)
{
    const char *at = svg;
    for (int i = 0; i <= index; i++) {
        at = strstr(at + (i > 0), "<polyline");
        assert_non_null(at);
    }
    at = strstr(at, "points=\"") + 8;
    int n = 0;
    for (; n < capacity && *at != '"'; n++) {
        char *end;
        points[n] = strtod(at, &end);
        at = *end == '"' ? end : end + 1;
    }
    return n / 2;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 0.02;
}

/* A legend's sample, a line and a mark, stands before the curve of a named curve. */
static void test_linear(void **state)
{
    (void)state;
    const double x[] = {0, 5, NAN, 10}, y[] = {0, 10, 3, 0};
    double p[16];
    draw(&(hsc__panel){.title = "Panel",
                       .x_title = "across",
                       .y_title = "up",
                       .curves = &(hsc__curve){.name = "a & b", .n = 4, .x = x, .y = y},
                       .n_curves = 1},
         1);
    assert_int_equal(polyline(0, p, 16), 2);
    assert_int_equal(polyline(1, p, 16), 1);
    assert_int_equal(polyline(2, p, 16), 3); /* not the one without a number */
    assert_true(near(p[4] - p[0], FIELD_WIDTH / 1.1) && near(p[2] - p[0], FIELD_WIDTH / 2.2));
    assert_true(near(p[1] - p[3], FIELD_HEIGHT / 1.1) && near(p[1], p[5]));
    const char *texts[] = {
        "Title &lt;1&gt;</text>", ">Panel<", ">across<", ">up<", ">a &amp; b<", ">0<", ">10<", ">2<"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!strstr(svg, texts[i])) fail_msg("no %s", texts[i]);
    }
    int circles = 0;
    for (const char *at = svg; (at = strstr(at, "<circle")); at++) circles++;
    assert_int_equal(circles, 1 + 3);
}

static void test_logarithmic(void **state)
{
    (void)state;
    const double x[] = {1, 10, 100, 0, -1}, y[] = {1, 100, 10000, 5, 5};
    double p[16];
    draw(&(hsc__panel){.log_x = true,
                       .log_y = true,
                       .curves = &(hsc__curve){.n = 5, .x = x, .y = y, .plain = true},
                       .n_curves = 1},
         1);
    assert_int_equal(polyline(0, p, 16), 3); /* 0 and -1 have no logarithm */
    assert_true(near(p[2] - p[0], FIELD_WIDTH / 2.2) && near(p[4] - p[2], FIELD_WIDTH / 2.2));
    assert_true(near(p[1] - p[3], FIELD_HEIGHT / 2.2) && near(p[3] - p[5], FIELD_HEIGHT / 2.2));
    assert_true(strstr(svg, ">10000<") && strstr(svg, ">50<") && !strstr(svg, "<circle"));
}

/* Panels stand beside each other at one height; a single point and a flat line have an axis too. */
static int count(const char *what)
{
    int n = 0;
    for (const char *at = svg; (at = strstr(at, what)); at++) n++;
    return n;
}

/* An interval's ends are of one colour, and what follows has the next. */
static void test_unnamed_curves(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 4, 9}, low[] = {0, 3, 8}, high[] = {2, 5, 10}, other[] = {4, 4, 4};
    hsc__curve curves[] = {{"mean", 3, x, y, false},
                           {"interval", 3, x, low, true},
                           {NULL, 3, x, high, true},
                           {"other", 3, x, other, true}};
    draw(&(hsc__panel){.curves = curves, .n_curves = 4}, 1);
    assert_int_equal(count("stroke=\"#d55e00\""), 3); /* the sample and both ends */
    assert_int_equal(count("stroke=\"#009e73\""), 2);
}

/* A curve that lies on another would hide it. */
static void test_equal_curves(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 4, 9}, other[] = {1, 4, 8};
    hsc__curve curves[] = {{"one", 3, x, y, false}, {"two", 3, x, other, false}, {"three", 3, x, y, false}};
    draw(&(hsc__panel){.curves = curves, .n_curves = 2}, 1);
    assert_int_equal(count("stroke-dasharray"), 0);
    draw(&(hsc__panel){.curves = curves, .n_curves = 3}, 1);
    assert_int_equal(count("stroke-dasharray"), 2); /* the third one's sample and the curve */
    assert_non_null(strstr(strstr(svg, "stroke-dasharray") + 1, "stroke-dasharray"));
    assert_non_null(strstr(svg, "stroke=\"#009e73\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-dasharray"));
}

static void test_panels(void **state)
{
    (void)state;
    const double x[] = {3, 4}, y[] = {7, 7};
    double a[4], b[4];
    hsc__curve curve = {.n = 2, .x = x, .y = y}, point = {.name = "one", .n = 1, .x = x, .y = y};
    hsc__panel panels[2] = {{.curves = &curve, .n_curves = 1}, {.curves = &point, .n_curves = 1}};
    draw(panels, 2);
    assert_int_equal(polyline(0, a, 4), 2);
    assert_int_equal(polyline(3, b, 4), 1);
    assert_true(near(a[1], a[3]) && near(a[1], b[1]));
    assert_true(b[0] > a[2] + 32);
}

static void test_refusals(void **state)
{
    (void)state;
    const double x[] = {1}, none[] = {NAN};
    hsc__curve curve = {.n = 1, .x = x, .y = x}, empty = {.n = 1, .x = x, .y = none}, broken = {.n = 1, .x = x};
    hsc__panel good = {.curves = &curve, .n_curves = 1};
    const struct {
        const char *name;
        hsc__panel panel;
        size_t n;
        const char *says;
    } cases[] = {{"a.gif", good, 1, ".png, .svg or .pdf"},
                 {"a.svg", good, 0, "0 panels"},
                 {"a.svg", good, 5, "5 panels"},
                 {"a.svg", {.n_curves = 0}, 1, "0 curves"},
                 {"a.svg", {.curves = &curve, .n_curves = 9}, 1, "9 curves"},
                 {"a.svg", {.curves = &empty, .n_curves = 1}, 1, "no point"},
                 {"a.svg", {.curves = &broken, .n_curves = 1}, 1, "no values"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hsc_error err = {0};
        assert_int_equal(hsc__plot_lines(scratch_path(cases[i].name), NULL, &cases[i].panel, cases[i].n, &err),
                         HSC_EINVAL);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
    }
}

/* Blue dots where the points are, in two pixels a unit. */
static void test_png(void **state)
{
    (void)state;
    const double x[] = {0, 1}, y[] = {0, 1};
    const char *path = scratch_path("a.png");
    hsc__panel panel = {.curves = &(hsc__curve){.n = 2, .x = x, .y = y}, .n_curves = 1};
    assert_int_equal(hsc__plot_lines(path, NULL, &panel, 1, NULL), HSC_OK);
    cairo_surface_t *image = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    double p[4];
    draw(&panel, 1);
    assert_int_equal(polyline(0, p, 4), 2);
    const unsigned char *pixels = cairo_image_surface_get_data(image);
    int title = 30; /* what draw's title takes at the top */
    for (int i = 0; i < 2; i++) {
        int column = (int)(2 * p[2 * i]), row = (int)(2 * (p[2 * i + 1] - title));
        uint32_t pixel;
        memcpy(&pixel, pixels + row * cairo_image_surface_get_stride(image) + 4 * column, sizeof pixel);
        assert_int_equal(pixel & 0xffffff, 0x0072b2);
    }
    cairo_surface_destroy(image);
    assert_int_equal(hsc__plot_lines(scratch_path("a.pdf"), NULL, &panel, 1, NULL), HSC_OK);
}

/* Nothing but the legend's sample is blue above the field. */
static void test_lines_begin_where_they_begin(void **state)
{
    (void)state;
    const double x[] = {0, 1}, y[] = {0, 1};
    hsc__panel panel = {.curves = &(hsc__curve){.name = "name", .n = 2, .x = x, .y = y, .plain = true}, .n_curves = 1};
    assert_int_equal(hsc__plot_lines(scratch_path("b.png"), "Title", &panel, 1, NULL), HSC_OK);
    draw(&panel, 1);
    double p[4];
    assert_int_equal(polyline(0, p, 4), 2);
    cairo_surface_t *image = cairo_image_surface_create_from_png(scratch_path("b.png"));
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    const unsigned char *pixels = cairo_image_surface_get_data(image);
    int n_blue = 0, stride = cairo_image_surface_get_stride(image);
    for (int row = 0; row < (int)(2 * p[1]) + 12; row++) {
        for (int column = 0; column < cairo_image_surface_get_width(image); column++) {
            uint32_t pixel;
            memcpy(&pixel, pixels + row * stride + 4 * column, sizeof pixel);
            n_blue += (pixel & 0xffffff) == 0x0072b2;
        }
    }
    assert_int_equal(n_blue, (int)(2 * (p[2] - p[0])) * 2 * HSC__LINE_WIDTH);
    cairo_surface_destroy(image);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const double x[] = {1, 2}, y[] = {3, 4};
    hsc__panel panel = {.title = "t", .curves = &(hsc__curve){.name = "c", .n = 2, .x = x, .y = y}, .n_curves = 1};
    for (long at = 1, done = 0; !done; at++) {
        failing_alloc a;
        hsc_error err = {0};
        failing_alloc_install(&a, at);
        hsc_status status = hsc__plot_lines(scratch_path("oom.svg"), "title", &panel, 1, &err);
        failing_alloc_remove();
        done = status == HSC_OK;
        if (!done && status != HSC_ENOMEM) fail_msg("allocation %ld: %s", at, err.message);
        assert_int_equal(a.held, 0);
    }
}

static int tear_down(void **state)
{
    free(svg);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),        cmocka_unit_test(test_logarithmic),
        cmocka_unit_test(test_panels),        cmocka_unit_test(test_unnamed_curves),
        cmocka_unit_test(test_equal_curves),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_png),           cmocka_unit_test(test_lines_begin_where_they_begin),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, scratch_make, tear_down);
}
