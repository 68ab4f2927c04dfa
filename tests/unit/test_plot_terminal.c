/* The terminal's heatmap and tables: what each mode may print, which cell is where, what is said when not all fits, and
 * columns that stay straight whatever the script. */
#include "failing_alloc.h"
#include "plot/table.h"
#include "plot_maps.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static hsc__string screen;

static void show(const hsc__heatmap *map, hsc__terminal_mode mode, int width)
{
    hsc_error err = {0};
    hsc__string_free(&screen);
    assert_int_equal(hsc__terminal_heatmap(&screen, map, mode, width, &err), HSC_OK);
    assert_true(hsc__utf8_valid(screen.data, screen.n));
}

/* The line that begins with `start`, without its end; NULL when there is none. Eight calls may be alive at once. */
static const char *line_of(const char *start)
{
    static char lines[8][4096];
    static unsigned next;
    for (const char *line = screen.data; line && *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, start, strlen(start)) != 0) continue;
        char *copy = lines[next++ % 8];
        snprintf(copy, sizeof lines[0], "%.*s", (int)strcspn(line, "\n"), line);
        return copy;
    }
    return NULL;
}

static void test_choice_of_mode(void **state)
{
    (void)state;
    static const struct {
        bool tty;
        const char *term, *colorterm, *no_color;
        hsc__terminal_mode mode;
    } cases[] = {{true, "xterm-256color", NULL, NULL, HSC__TERMINAL_256},
                 {true, "xterm-256color", "truecolor", NULL, HSC__TERMINAL_TRUECOLOR},
                 {true, "screen-256color", "24bit", "", HSC__TERMINAL_TRUECOLOR},
                 {true, "xterm-kitty", NULL, NULL, HSC__TERMINAL_TRUECOLOR},
                 {true, "xterm-direct", NULL, NULL, HSC__TERMINAL_TRUECOLOR},
                 {true, "xterm", NULL, NULL, HSC__TERMINAL_PLAIN},
                 {true, "vt100", "", NULL, HSC__TERMINAL_PLAIN},
                 {true, "dumb", "truecolor", NULL, HSC__TERMINAL_PLAIN},
                 {true, "xterm-256color", "truecolor", "1", HSC__TERMINAL_PLAIN},
                 {false, "xterm-256color", "truecolor", NULL, HSC__TERMINAL_PLAIN},
                 {true, NULL, NULL, NULL, HSC__TERMINAL_PLAIN},
                 {true, "", "truecolor", NULL, HSC__TERMINAL_PLAIN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hsc__terminal_choose(cases[i].tty, cases[i].term, cases[i].colorterm, cases[i].no_color),
                         cases[i].mode);
}

/* Six tokens of known weights, without labels: numbers stand for them. */
static const float six[36] = {1,   0, 0, 0, 0, 0, 0.5f, 0.5f, 0,    0,    0,     0, 0.05f, 0.1f, 0.85f, 0, 0, 0,
                              .2f, 0, 0, 0, 0, 0, 0,    0,    0.3f, 0.4f, 0.31f, 0, 0,     0,    0,     0, 0, 0.99f};

static void test_plain_characters(void **state)
{
    (void)state;
    hsc__heatmap map = {.title = "six", .n_rows = 6, .n_cols = 6, .values = six, .causal = true};
    show(&map, HSC__TERMINAL_PLAIN, 0);
    assert_string_equal(line_of("six"), "six");
    assert_string_equal(line_of("rows"), "rows: token; columns: attends to");
    assert_string_equal(line_of("   0"), "   0 1 2 3 4 5");
    assert_string_equal(line_of("0  "), "0  @@"); /* " .:-=+*#%@", two a cell, ends at the diagonal */
    assert_string_equal(line_of("1  "), "1  ++++");
    assert_string_equal(line_of("2  "), "2    ..%%");
    assert_string_equal(line_of("3  "), "3  ::      ");
    assert_string_equal(line_of("4  "), "4      --==--");
    assert_string_equal(line_of("5  "), "5            @@");
    assert_string_equal(line_of("0 ["), "0 [ .:-=+*#%@] 1  attention weight, fixed scale 0 to 1");
    map.scale = HSC__SCALE_ROW;
    show(&map, HSC__TERMINAL_PLAIN, 0);
    assert_string_equal(line_of("3  "), "3  @@      ");
    assert_string_equal(line_of("0 ["), "0 [ .:-=+*#%@] 1  attention weight as a share of its row's largest");
    map.scale = HSC__SCALE_LOG;
    show(&map, HSC__TERMINAL_PLAIN, 0);
    assert_string_equal(line_of("2  "), "2  **##@@");
    assert_non_null(line_of("0.0001 ["));
}

/* Nothing printed in plain mode is an escape or another control character, whatever the tokens are (case B55). */
/* A signed map: letters below 0 and digits above, of the largest size shown; colours end in red and in blue. */
static void test_signed(void **state)
{
    (void)state;
    static const float effects[6] = {-2, -1, 0, 0.25f, 1, 2};
    hsc__heatmap map = {.n_rows = 2, .n_cols = 3, .values = effects, .scale = HSC__SCALE_SIGNED};
    show(&map, HSC__TERMINAL_PLAIN, 0);
    assert_string_equal(line_of("0  "), "0  iiee  ");
    assert_string_equal(line_of("1  "), "1  115599");
    assert_string_equal(line_of("-2"),
                        "-2 [ihgfedcba 123456789] 2  attention weight, red below 0 and blue above, up to 2, "
                        "the largest size shown");
    show(&map, HSC__TERMINAL_TRUECOLOR, 0);
    assert_non_null(strstr(line_of("0  "), "\x1b[48;2;178;24;43m"));
    assert_non_null(strstr(line_of("0  "), "\x1b[48;2;247;247;247m"));
    assert_non_null(strstr(line_of("1  "), "\x1b[48;2;33;102;172m"));
}

static void test_plain_mode_has_no_escapes(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(N_HARD, 1);
    map.title = "\x1b[2J\a";
    for (int mode = HSC__TERMINAL_PLAIN; mode <= HSC__TERMINAL_TRUECOLOR; mode++) {
        show(&map, (hsc__terminal_mode)mode, 120);
        for (size_t i = 0; i < screen.n; i++) {
            unsigned char c = (unsigned char)screen.data[i];
            bool escape = c == 0x1b && screen.data[i + 1] == '[' && mode != HSC__TERMINAL_PLAIN;
            if (c < 0x20 && c != '\n' && !escape) fail_msg("byte %02x in mode %d", c, mode);
            if (escape) { /* only colours: ESC [ digits ; ... m */
                size_t n = strspn(screen.data + i + 2, "0123456789;");
                assert_int_equal(screen.data[i + 2 + n], 'm');
            }
        }
        assert_null(strstr(screen.data, "\u202E"));
    }
    free_map(&map);
}

/* Walks over a coloured line and gives the background of each terminal cell, -1 where it is the terminal's own. */
static int backgrounds(const char *line, int *out, bool truecolor)
{
    int n = 0, now = -1;
    while (*line) {
        int r, g, b, at = 0;
        if (*line != 0x1b) {
            int32_t c;
            size_t length = (size_t)hsc__utf8_read(line, strlen(line), &c);
            for (int k = hsc__text_cells(line, length); k > 0; k--) out[n++] = now;
            line += length;
            continue;
        }
        if (truecolor && sscanf(line, "\x1b[48;2;%d;%d;%dm%n", &r, &g, &b, &at) == 3) now = r << 16 | g << 8 | b;
        else if (!truecolor && sscanf(line, "\x1b[48;5;%dm%n", &r, &at) == 1) now = r;
        else {
            assert_memory_equal(line, "\x1b[0m", 4);
            at = 4;
            now = -1;
        }
        line += at;
    }
    assert_int_equal(now, -1); /* the line leaves no colour behind */
    return n;
}

static void test_true_colour(void **state)
{
    (void)state;
    hsc__heatmap map = {.n_rows = 6, .n_cols = 6, .values = six, .causal = true};
    static const char *const starts[] = {"0  ", "1  ", "2  ", "3  ", "4  ", "5  "};
    show(&map, HSC__TERMINAL_TRUECOLOR, 0);
    for (int i = 0; i < 6; i++) {
        int cells[4096];
        int n = backgrounds(line_of(starts[i]), cells, true);
        assert_int_equal(n, 3 + 2 * (i + 1));
        for (int j = 0; j < 3; j++) assert_int_equal(cells[j], -1);
        for (int j = 0; j <= i; j++) {
            assert_true(colour_distance((unsigned)cells[3 + 2 * j], blues(six[i * 6 + j])) <= 1);
            assert_int_equal(cells[3 + 2 * j], cells[4 + 2 * j]);
        }
    }
}

/* xterm's cube of colours: never lighter as the weight grows, nine steps, none far from the ramp. */
static void test_256_colours(void **state)
{
    (void)state;
    enum { N = 30 };
    static const unsigned levels[] = {0, 95, 135, 175, 215, 255};
    float values[N];
    for (int j = 0; j < N; j++) values[j] = (float)j / (N - 1);
    hsc__heatmap map = {.n_rows = 1, .n_cols = N, .values = values};
    int cells[4096], steps = 0;
    unsigned before = 255 * 10;
    show(&map, HSC__TERMINAL_256, 80);
    assert_int_equal(backgrounds(line_of("0  \x1b"), cells, false), 3 + 2 * N);
    for (int j = 0; j < N; j++) {
        int c = cells[3 + 2 * j] - 16;
        assert_true(c >= 0 && c < 216);
        unsigned r = levels[c / 36], g = levels[c / 6 % 6], b = levels[c % 6], light = 3 * r + 6 * g + b;
        assert_true(colour_distance(r << 16 | g << 8 | b, blues(values[j])) <= 80);
        assert_true(light <= before);
        steps += light < before;
        before = light;
    }
    assert_int_equal(steps, 8); /* the first, white, is none */
}

/* Cells begin in the same column whatever the labels are. */
static void test_labels_keep_columns_straight(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(N_HARD, 1);
    show(&map, HSC__TERMINAL_TRUECOLOR, 200);
    int first = -1, rows = 0;
    for (const char *line = screen.data; *line; line = strchr(line, '\n') + 1) {
        const char *escape = strchr(line, 0x1b), *end = strchr(line, '\n');
        if (!escape || escape > end || strncmp(line, "0 \x1b", 3) == 0) continue; /* the legend */
        int cells = hsc__text_cells(line, (size_t)(escape - line));
        if (first < 0) first = cells;
        assert_int_equal(cells, first);
        rows++;
    }
    assert_int_equal(rows, N_HARD);
    for (int i = 0; i < N_HARD; i++) assert_non_null(strstr(screen.data, hard_tokens[i].shown));
    free_map(&map);
}

/* Every line keeps to the width; what is left out is said. */
static void test_width(void **state)
{
    (void)state;
    static const int sizes[] = {1, 12, 25, 40, 120, 1100}, widths[] = {20, 40, 80, 200};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        hsc__heatmap map = make_map(sizes[s], 1);
        map.title = "t";
        map.value_title = "w"; /* title and caption are not cut */
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            show(&map, HSC__TERMINAL_PLAIN, widths[w]);
            const char *numbers = strchr(strchr(screen.data, '\n') + 1, '\n') + 1;
            const char *legend = strstr(screen.data, "\n0 [") + 1;
            for (const char *line = numbers; line < legend; line = strchr(line, '\n') + 1)
                assert_true(hsc__text_cells(line, strcspn(line, "\n")) <= widths[w]);
            int shown = sizes[s];
            const char *said = strstr(screen.data, "\nColumns 0 to ");
            if (said) sscanf(said, "\nColumns 0 to %d of", &shown);
            if (said) shown++;
            assert_true(shown <= sizes[s] && shown < widths[w] && shown >= (sizes[s] < widths[w] / 2 ? sizes[s] : 1));
            assert_true((said != NULL) == (shown < sizes[s]));
        }
        free_map(&map);
    }
}

/* A map that fits only with one cell a column has one; its numbers stand above their columns. */
static void test_narrow_columns(void **state)
{
    (void)state;
    enum { N = 30 };
    float values[N * N] = {0};
    for (int i = 0; i < N; i++) values[i * N + i] = 1;
    hsc__heatmap map = {.n_rows = N, .n_cols = N, .values = values};
    show(&map, HSC__TERMINAL_PLAIN, 40);
    assert_string_equal(line_of("    01"), "    012345678901234567890123456789");
    assert_string_equal(line_of("              1"), "              1         2");
    assert_string_equal(line_of("12  "), "12              @                 ");
    assert_null(strstr(screen.data, "are shown"));
    show(&map, HSC__TERMINAL_PLAIN, 24);
    assert_non_null(strstr(screen.data, "Columns 0 to 19 of 30 are shown, as many as fit into 24 cells.\n"));
    assert_string_equal(line_of("    01"), "    01234567890123456789");
}

/* Columns whose labels are not those of the rows are listed, but for heads that only say their own numbers. */
static void test_other_columns(void **state)
{
    (void)state;
    float values[6] = {0};
    hsc__label rows[] = {{"le", 2}, {" chat", 5}}, cols[] = {{"the", 3}, {" cat", 4}, {"\n", 1}};
    hsc__heatmap map = {.n_rows = 2,
                        .n_cols = 3,
                        .values = values,
                        .row_labels = rows,
                        .n_row_labels = 2,
                        .col_labels = cols,
                        .n_col_labels = 3};
    show(&map, HSC__TERMINAL_PLAIN, 80);
    assert_string_equal(line_of("columns:"), "columns: 0 the, 1 \u2423cat, 2 \u21B5");
    cols[0] = (hsc__label){"H0", 2};
    show(&map, HSC__TERMINAL_PLAIN, 80);
    assert_string_equal(line_of("columns:"), "columns: 0 H0, 1 \u2423cat, 2 \u21B5");
    cols[1] = (hsc__label){"H1", 2};
    show(&map, HSC__TERMINAL_PLAIN, 80);
    assert_string_equal(line_of("columns:"), "columns: 2 \u21B5");
    cols[2] = (hsc__label){"H2", 2};
    show(&map, HSC__TERMINAL_PLAIN, 80);
    assert_null(strstr(screen.data, "columns: 0"));
    assert_null(strstr(screen.data, "columns: 2"));
}

static void test_heatmap_without_memory(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(4, 1);
    for (long k = 1;; k++) {
        failing_alloc failing;
        hsc__string out = {0};
        hsc_error err = {0};
        failing_alloc_install(&failing, k);
        hsc_status status = hsc__terminal_heatmap(&out, &map, HSC__TERMINAL_256, 80, &err);
        hsc__string_free(&out);
        failing_alloc_remove();
        assert_int_equal(failing.held, 0);
        assert_int_equal(status, failing.calls < k ? HSC_OK : HSC_ENOMEM);
        if (status == HSC_OK) break;
    }
    free_map(&map);
}

/* Writes a table whose cells stand in one string, each with a tab behind it. */
static hsc_status write_table(hsc__string *out, const hsc__column *columns, size_t n_columns, size_t n_keys,
                              const char *cells, int width)
{
    hsc__table table = {.columns = columns, .n_columns = n_columns, .n_keys = n_keys};
    hsc__string_text(&table.cells, cells);
    return hsc__table_write(out, &table, width, NULL);
}

static void assert_table(const hsc__column *columns, size_t n_columns, size_t n_keys, const char *cells, int width,
                         const char *expected)
{
    hsc__string out = {0};
    assert_int_equal(write_table(&out, columns, n_columns, n_keys, cells, width), HSC_OK);
    assert_string_equal(out.data, expected);
    hsc__string_free(&out);
}

/* Case B44: the next column starts in the same cell in every row. */
static void test_table(void **state)
{
    (void)state;
    static const hsc__column columns[] = {{.head = "token"}, {.head = "weight", .right = true}, {.head = "note"}};
    assert_table(columns, 3, 1,
                 "a\t0.5\tx\t"
                 "\u65e5\u672c\t0.25\t\t"
                 "e\u0301\t1\ty\t"
                 "\U0001F642\t\tz\t"
                 "\u05e9\u05dc\u05d5\u05dd\t0.125\t\t"
                 "\t0\tw\t",
                 0,
                 "token  weight  note\n"
                 "a         0.5  x\n"
                 "\u65e5\u672c     0.25\n"
                 "e\u0301           1  y\n"
                 "\U0001F642             z\n"
                 "\u05e9\u05dc\u05d5\u05dd    0.125\n"
                 "            0  w\n");
}

static void test_table_cuts_between_characters(void **state)
{
    (void)state;
    static const hsc__column columns[] = {{.max_cells = 4}, {.right = true}};
    hsc__string out = {0};
    assert_table(columns, 2, 1, "because\t1\t\u65e5\u672c\u8a9e\t2\tabce\u0301f\t3\tabcd\t4\t", 0,
                 "bec\u2026  1\n"
                 "\u65e5\u2026   2\n"
                 "abc\u2026  3\n"
                 "abcd  4\n");
    assert_int_equal(write_table(&out, columns, 2, 1, "", 80), HSC_OK);
    assert_int_equal(out.n, 0);
    hsc__string_free(&out);
}

/* Texts are cut first, then what has no room stands below, behind the first column; a column without a cell takes no
 * room. */
static void test_table_that_is_too_wide(void **state)
{
    (void)state;
    static const hsc__column columns[] = {{.head = "head"},
                                          {.head = "text", .least_cells = 5},
                                          {.head = "", .right = true},
                                          {.head = "weight", .right = true},
                                          {.head = "size", .right = true}};
    static const char cells[] = "L4H3\tbecause it\t\t0.5\t1\tL4H4\twas\t\t0.25\t23\t";
    assert_table(columns, 5, 1, cells, 30,
                 "head  text        weight  size\n"
                 "L4H3  because it     0.5     1\n"
                 "L4H4  was           0.25    23\n");
    assert_table(columns, 5, 1, cells, 25,
                 "head  text   weight  size\n"
                 "L4H3  beca\u2026     0.5     1\n"
                 "L4H4  was      0.25    23\n");
    assert_table(columns, 5, 1, cells, 24,
                 "head  text        weight\n"
                 "L4H3  because it     0.5\n"
                 "L4H4  was           0.25\n"
                 "\n"
                 "head  size\n"
                 "L4H3     1\n"
                 "L4H4    23\n");
    assert_table(columns, 5, 1, cells, 6,
                 "head  text\n"
                 "L4H3  beca\u2026\n"
                 "L4H4  was\n"
                 "\n"
                 "head  weight\n"
                 "L4H3     0.5\n"
                 "L4H4    0.25\n"
                 "\n"
                 "head  size\n"
                 "L4H3     1\n"
                 "L4H4    23\n");
}

static void test_table_without_memory(void **state)
{
    (void)state;
    static const hsc__column columns[] = {{.head = "token", .max_cells = 3}, {.head = "weight", .right = true}};
    for (long k = 1;; k++) {
        failing_alloc failing;
        hsc__string out = {0};
        failing_alloc_install(&failing, k);
        hsc_status status = write_table(&out, columns, 2, 1, "because\t1\t", 8);
        hsc__string_free(&out);
        failing_alloc_remove();
        assert_int_equal(failing.held, 0);
        assert_int_equal(status, failing.calls < k ? HSC_OK : HSC_ENOMEM);
        if (status == HSC_OK) break;
    }
}

/* Case B56. */
static void test_same_bytes_in_any_locale(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(12, 5);
    map.scale = HSC__SCALE_MAX;
    ((float *)map.values)[0] = 0.5f;
    show(&map, HSC__TERMINAL_TRUECOLOR, 80);
    char *before = strdup(screen.data);
    bool comma = scratch_comma_locale();
    show(&map, HSC__TERMINAL_TRUECOLOR, 80);
    setlocale(LC_ALL, "C");
    assert_string_equal(screen.data, before);
    free(before);
    free_map(&map);
    if (!comma) skip();
}

static int teardown(void **state)
{
    hsc__string_free(&screen);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_of_mode),
        cmocka_unit_test(test_plain_characters),
        cmocka_unit_test(test_signed),
        cmocka_unit_test(test_plain_mode_has_no_escapes),
        cmocka_unit_test(test_true_colour),
        cmocka_unit_test(test_256_colours),
        cmocka_unit_test(test_labels_keep_columns_straight),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_narrow_columns),
        cmocka_unit_test(test_other_columns),
        cmocka_unit_test(test_heatmap_without_memory),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_cuts_between_characters),
        cmocka_unit_test(test_table_that_is_too_wide),
        cmocka_unit_test(test_table_without_memory),
        cmocka_unit_test(test_same_bytes_in_any_locale),
    };
    return cmocka_run_group_tests(tests, scratch_make, teardown);
}
