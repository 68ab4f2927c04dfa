/* Pictures as SVG, read back by Python's XML parser: title and labels as text, cells as rectangles or an image, nothing
 * parsed as markup, the same bytes in any locale. */
#include "plot/picture.h"
#include "plot_maps.h"
#include "scratch.h"

#include <cairo.h>
#include <pango/pangocairo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Writes what an SVG holds, a line each: "title TEXT", "text x y turned TEXT", "rect x y fill TOOLTIP", "tag NAME", and
 * images into files of their own. */
static const char reader[] =
    "import base64, sys, xml.etree.ElementTree as tree\n"
    "root = tree.parse(sys.argv[1]).getroot()\n"
    "out = open(sys.argv[1] + '.txt', 'w', encoding='utf-8')\n"
    "n_images = 0\n"
    "def plain(e): return e.tag.split('}')[1]\n"
    "for e in root.iter():\n"
    "    tag, text = plain(e), e.text or ''\n"
    "    tip = ''.join(c.text for c in e if plain(c) == 'title') if tag == 'rect' else ''\n"
    "    if tag == 'text': print('text', e.get('x'), e.get('y'), int('transform' in e.attrib), text, file=out)\n"
    "    elif tag == 'rect': print('rect', e.get('x', 0), e.get('y', 0), e.get('fill'), tip, file=out)\n"
    "    elif tag == 'image':\n"
    "        n_images += 1\n"
    "        print('image', e.get('x'), e.get('y'), e.get('width'), file=out)\n"
    "        data = e.get('href').removeprefix('data:image/png;base64,')\n"
    "        open(sys.argv[1] + f'.{n_images}.png', 'wb').write(base64.b64decode(data, validate=True))\n"
    "    else: print('tag', tag, file=out)\n"
    "print('title', root.findtext('{http://www.w3.org/2000/svg}title'), file=out)\n";

static char *content; /* of the last SVG */

static void read_svg(const char *path)
{
    char command[4096], list[1100];
    free(content);
    assert_true(scratch_write(scratch_path("reader.py"), reader, sizeof reader - 1));
    snprintf(command, sizeof command, "python3 '%s' '%s'", scratch_path("reader.py"), path);
    assert_int_equal(system(command), 0);
    snprintf(list, sizeof list, "%s.txt", path);
    content = scratch_read(list, NULL);
    assert_non_null(content);
}

static void draw(const hsc__heatmap *map)
{
    hsc_error err = {0};
    assert_int_equal(hsc__plot_heatmap(scratch_path("map.svg"), map, &err), HSC_OK);
    read_svg(scratch_path("map.svg"));
}

static bool holds_line(const char *line)
{
    hsc__string whole = {0};
    hsc__string_printf(&whole, "\n%s\n", line);
    bool found = strstr(content, whole.data) != NULL;
    hsc__string_free(&whole);
    return found;
}

/* The texts of one direction, in order, one a line, from the first that is `first` on. */
static void texts_of(hsc__string *out, int turned, const char *first)
{
    bool begun = false;
    hsc__string_text(out, "");
    for (char *line = content, *end; (end = strchr(line, '\n')); line = end + 1) {
        double x, y;
        int is_turned, at = 0;
        if (sscanf(line, "text %lf %lf %d%n", &x, &y, &is_turned, &at) != 3 || is_turned != turned) continue;
        const char *text = line + at + 1;
        size_t n = (size_t)(end - text);
        if (!begun && (n != strlen(first) || memcmp(text, first, n) != 0)) continue;
        begun = true;
        hsc__string_add(out, text, n);
        hsc__string_text(out, "\n");
    }
}

static void test_labels_and_title_read_back(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(N_HARD, 1);
    map.title = "models/<b>m & \"x\" $x_1$ layer 5, head 3 (L4H3)";
    draw(&map);
    assert_true(holds_line("title models/<b>m & \"x\" $x_1$ layer 5, head 3 (L4H3)"));
    assert_non_null(strstr(content, " 0 models/<b>m & \"x\" $x_1$ layer 5, head 3 (L4H3)\n"));
    hsc__string rows = {0}, cols = {0}, expected = {0};
    for (int i = 0; i < N_HARD; i++) hsc__string_printf(&expected, "%s\n", hard_tokens[i].shown);
    texts_of(&rows, 0, "The");
    texts_of(&cols, 1, "The");
    assert_memory_equal(rows.data, expected.data, expected.n); /* then the columns' title and the note */
    assert_string_equal(rows.data + expected.n, "attends to\nBlank: later tokens, which a token cannot see.\n");
    assert_memory_equal(cols.data, expected.data, expected.n);
    assert_string_equal(cols.data + expected.n, "token\n");
    assert_null(strstr(content, "tag b\n")); /* no token became an element */
    assert_non_null(strstr(content, "attention weight, fixed scale 0 to 1\n"));
    hsc__string_free(&rows);
    hsc__string_free(&cols);
    hsc__string_free(&expected);
    free_map(&map);
}

/* Units that a bold title takes in the font that the file asks for first, whatever the picture was measured in. */
static double title_width(const char *svg, const char *title)
{
    char family[64];
    const char *list = strstr(svg, "font-family=\"");
    assert_non_null(list);
    assert_int_equal(sscanf(list, "font-family=\"%63[^,]", family), 1);
    PangoContext *context = pango_font_map_create_context(pango_cairo_font_map_get_default());
    PangoLayout *layout = pango_layout_new(context);
    PangoFontDescription *font = pango_font_description_from_string("Bold");
    pango_font_description_set_family(font, family);
    pango_font_description_set_absolute_size(font, 16 * PANGO_SCALE);
    pango_layout_set_font_description(layout, font);
    pango_layout_set_text(layout, title, -1);
    int width;
    pango_layout_get_size(layout, &width, NULL);
    pango_font_description_free(font);
    g_object_unref(layout);
    g_object_unref(context);
    return (double)width / PANGO_SCALE;
}

/* One cell under and beside titles that are longer than it. */
static void test_small_map_holds_its_titles(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(1, 1);
    map.title = "Some model with a long name, layer 14, head 8 (L13H8)";
    map.x_title = "what is looked at in it";
    map.y_title = "who looks at something";
    draw(&map);
    char *svg = scratch_read(scratch_path("map.svg"), NULL);
    double width = 0, x, y;
    assert_int_equal(sscanf(strstr(svg, " width=\""), " width=\"%lf", &width), 1);
    assert_true(24 + title_width(svg, map.title) <= width - 24);
    const char *below = strstr(svg, map.x_title), *beside = strstr(svg, map.y_title);
    assert_non_null(below);
    assert_non_null(beside);
    while (strncmp(below, "<text", 5) != 0) below--;
    while (strncmp(beside, "<text", 5) != 0) beside--;
    assert_int_equal(sscanf(below, "<text x=\"%lf\" y=\"%lf", &x, &y), 2);
    assert_true(x - 60 > 0); /* half of 23 letters of 12 units */
    assert_int_equal(sscanf(beside, "<text x=\"%lf\" y=\"%lf", &x, &y), 2);
    assert_true(y - 60 > 100); /* below the legend */
    free(svg);
    free_map(&map);
}

/* The file itself: valid UTF-8 without a control character but the newline. */
static void test_no_control_character(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(N_HARD, 1);
    map.title = "\x1b[31m\b\v\xff\xc2\x85\u2028";
    map.x_title = "\x01";
    map.y_title = "\x02";
    map.value_title = "\x03";
    draw(&map);
    size_t n = 0;
    char *svg = scratch_read(scratch_path("map.svg"), &n);
    assert_true(hsc__utf8_valid(svg, n));
    for (size_t i = 0; i < n; i++) assert_true(svg[i] == '\n' || (unsigned char)svg[i] >= 0x20);
    assert_null(strstr(svg, "\xc2\x85"));
    assert_null(strstr(svg, "\u202E"));
    free(svg);
    free_map(&map);
}

/* Each cell is a rectangle at its place with its colour, and tells what it is. */
static void test_cells(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(5, 3);
    hsc__picture picture;
    draw(&map);
    assert_int_equal(hsc__picture_init(&picture, NULL), HSC_OK);
    assert_int_equal(hsc__layout_heatmap(&picture, &map, NULL), HSC_OK);
    const hsc__item *item = picture.items;
    while (item->kind != HSC__ITEM_CELLS) item++;
    int found = 0;
    for (char *line = content, *end; (end = strchr(line, '\n')); line = end + 1) {
        double x, y;
        unsigned fill;
        int at = 0;
        if (sscanf(line, "rect %lf %lf #%x%n", &x, &y, &fill, &at) != 3 || at + 1 >= end - line) continue;
        int row = (int)((y - item->y) / item->cells->pitch + 0.5),
            col = (int)((x - item->x) / item->cells->pitch + 0.5);
        assert_true(row >= 0 && row < 5 && col >= 0 && col <= row);
        assert_true(colour_distance(fill, blues(map.values[row * 5 + col])) <= 1);
        hsc__string tip = {0};
        hsc__string_printf(&tip, "%s (%d) \u2192 %s (%d): ", hard_tokens[row].shown, row, hard_tokens[col].shown, col);
        assert_memory_equal(line + at + 1, tip.data, tip.n);
        assert_true(fabs(strtod(line + at + 1 + tip.n, NULL) - map.values[row * 5 + col]) < 0.01);
        hsc__string_free(&tip);
        found++;
    }
    assert_int_equal(found, 15);
    hsc__picture_free(&picture);
    free_map(&map);
}

/* Many cells are an image: its pixels have the colours of the weights. */
static void test_image_of_many_cells(void **state)
{
    (void)state;
    enum { N = 200 };
    hsc__heatmap map = make_map(N, 4);
    map.scale = HSC__SCALE_ROW;
    draw(&map);
    cairo_surface_t *image = cairo_image_surface_create_from_png(scratch_path("map.svg.1.png"));
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    int size = cairo_image_surface_get_width(image), pitch = size / N;
    assert_int_equal(pitch * N, size);
    for (int i = 0; i < N; i++) {
        double max = 0;
        for (int j = 0; j <= i; j++) max = fmax(max, map.values[i * N + j]);
        for (int j = 0; j < N; j++) {
            uint32_t got;
            int y = i * pitch + pitch / 2, x = j * pitch + pitch / 2;
            memcpy(&got, cairo_image_surface_get_data(image) + y * cairo_image_surface_get_stride(image) + x * 4, 4);
            if (j > i) assert_int_equal(got, 0); /* transparent */
            else assert_true(got >> 24 == 0xff && colour_distance(got, blues(map.values[i * N + j] / max)) <= 1);
        }
    }
    cairo_surface_destroy(image);
    assert_non_null(strstr(content, "attention weight as a share of its row's largest\n"));
    free_map(&map);
}

/* Whatever the step, it is said, and the labels shown are those of its multiples (case B43). */
static void test_thinned_labels(void **state)
{
    (void)state;
    static const int sizes[] = {90, 130, 300, 1500, 4096};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s], step = 1;
        float *values = calloc((size_t)n * (size_t)n, sizeof *values);
        hsc__heatmap map = {.title = "t", .n_rows = n, .n_cols = n, .values = values};
        hsc__picture picture;
        assert_int_equal(hsc__picture_init(&picture, NULL), HSC_OK);
        assert_int_equal(hsc__layout_heatmap(&picture, &map, NULL), HSC_OK);
        assert_true(picture.width < 2400 && picture.height < 2400);
        for (size_t i = 0; i < picture.n_items; i++) {
            if (picture.items[i].text) sscanf(picture.items[i].text, "Every %d", &step);
        }
        assert_true((n <= 100) == (step == 1));
        int expected = 0;
        double before = -1e9;
        for (size_t i = 0; i < picture.n_items; i++) {
            const hsc__item *item = &picture.items[i];
            if (item->kind != HSC__ITEM_TEXT || item->style.anchor != HSC__ANCHOR_END || item->style.upright) continue;
            assert_int_equal(strtol(item->text, NULL, 10), expected);
            assert_true(item->y - before >= item->style.size); /* labels do not overlap */
            before = item->y;
            expected += step;
        }
        assert_true(expected >= n && expected < n + step);
        hsc__picture_free(&picture);
        free(values);
    }
}

static void test_grid(void **state)
{
    (void)state;
    static const char *const names[] = {"L0H0", "L0H1", "L1H0", "L1H1", "L2H0"};
    hsc__heatmap maps[5];
    for (int m = 0; m < 5; m++) maps[m] = make_map(4, (unsigned)m);
    for (int m = 0; m < 5; m++) {
        free((void *)maps[m].row_labels);
        maps[m].title = names[m];
        maps[m].n_row_labels = maps[m].n_col_labels = 0;
        maps[m].row_labels = maps[m].col_labels = NULL;
    }
    hsc_error err = {0};
    assert_int_equal(hsc__plot_grid(scratch_path("grid.svg"), maps, 5, 2, "<GPT-2>", &err), HSC_OK);
    read_svg(scratch_path("grid.svg"));
    assert_true(holds_line("title <GPT-2>"));
    const char *at = content;
    for (int m = 0; m < 5; m++) {
        at = strstr(at, names[m]);
        assert_non_null(at); /* in this order */
    }
    double x, y, x1, y1;
    assert_int_equal(sscanf(strstr(content, "image"), "image %lf %lf", &x, &y), 2);
    assert_int_equal(sscanf(strstr(strstr(content, "image") + 1, "image"), "image %lf %lf", &x1, &y1), 2);
    assert_true(y == y1 && x1 > x);
    for (int m = 0; m < 5; m++) free((void *)maps[m].values);
}

/* Labels stand beside a grid that has room for them: rows once a line, columns once a column. */
static void test_grid_with_labels(void **state)
{
    (void)state;
    hsc__heatmap maps[4];
    hsc__heatmap map = make_map(6, 9);
    for (int m = 0; m < 4; m++) maps[m] = map;
    assert_int_equal(hsc__plot_grid(scratch_path("grid.svg"), maps, 4, 2, NULL, NULL), HSC_OK);
    read_svg(scratch_path("grid.svg"));
    int rows = 0, cols = 0;
    for (const char *at = content; (at = strstr(at, " \u2423animal\n")); at++) {
        rows += at[-1] == '0';
        cols += at[-1] == '1';
    }
    assert_int_equal(rows, 2);
    assert_int_equal(cols, 2);
    free_map(&map);
}

/* Case B56. */
static void test_same_bytes_in_any_locale(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(12, 5);
    map.scale = HSC__SCALE_LOG;
    assert_int_equal(hsc__plot_heatmap(scratch_path("plain.svg"), &map, NULL), HSC_OK);
    if (!scratch_comma_locale()) {
        free_map(&map);
        skip();
    }
    assert_int_equal(hsc__plot_heatmap(scratch_path("comma.svg"), &map, NULL), HSC_OK);
    setlocale(LC_ALL, "C");
    size_t n, m;
    char *a = scratch_read(scratch_path("plain.svg"), &n), *b = scratch_read(scratch_path("comma.svg"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    free_map(&map);
}

static int teardown(void **state)
{
    free(content);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_and_title_read_back),
        cmocka_unit_test(test_small_map_holds_its_titles),
        cmocka_unit_test(test_no_control_character),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_image_of_many_cells),
        cmocka_unit_test(test_thinned_labels),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_grid_with_labels),
        cmocka_unit_test(test_same_bytes_in_any_locale),
    };
    return cmocka_run_group_tests(tests, scratch_make, teardown);
}
