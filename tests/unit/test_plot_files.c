/* What is refused and how it is said; a full disk, memory running out, PDF; nothing half-written stays. */
#include "failing_alloc.h"
#include "plot/picture.h"
#include "plot_maps.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const endings[] = {"png", "svg", "pdf"};

static const char *path_with(const char *name, const char *ending)
{
    char file[64];
    snprintf(file, sizeof file, "%s.%s", name, ending);
    return scratch_path(file);
}

static void assert_refused(const hsc__heatmap *map, const char *part)
{
    hsc_error err = {0};
    hsc__string out = {0};
    assert_int_equal(hsc__plot_heatmap(scratch_path("refused.png"), map, &err), HSC_EINVAL);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
    assert_int_equal(hsc__plot_grid(scratch_path("refused.png"), map, 1, 1, NULL, NULL), HSC_EINVAL);
    assert_int_equal(access(scratch_path("refused.png"), F_OK), -1);
    if (map->n_rows <= HSC__PLOT_MAX_TOKENS)
        assert_int_equal(hsc__terminal_heatmap(&out, map, HSC__TERMINAL_PLAIN, 80, &err), HSC_EINVAL);
    hsc__string_free(&out);
}

static void test_endings(void **state)
{
    (void)state;
    static const char *const wrong[] = {"map", "map.jpg", "map.", "png", "map.png.txt", "-", ""};
    hsc__heatmap map = make_map(3, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hsc_error err = {0};
        assert_int_equal(hsc__plot_heatmap(wrong[i], &map, &err), HSC_EINVAL);
        assert_non_null(strstr(err.message, ".png, .svg or .pdf"));
        assert_int_equal(hsc__plot_grid(wrong[i], &map, 1, 1, NULL, NULL), HSC_EINVAL);
    }
    assert_int_equal(hsc__plot_heatmap(scratch_path("\u65e5 x.PNG"), &map, NULL), HSC_OK);
    static const char *const beginnings[] = {"\x89PNG", "<?xml", "%PDF-"};
    for (int e = 0; e < 3; e++) {
        size_t n;
        assert_int_equal(hsc__plot_heatmap(path_with("map", endings[e]), &map, NULL), HSC_OK);
        char *bytes = scratch_read(path_with("map", endings[e]), &n);
        assert_memory_equal(bytes, beginnings[e], strlen(beginnings[e]));
        free(bytes);
    }
    free_map(&map);
}

static void test_maps_that_cannot_be(void **state)
{
    (void)state;
    hsc__heatmap good = make_map(3, 1), map = good;
    map.n_rows = 0;
    assert_refused(&map, "0 x 3 tokens");
    map.n_rows = -1;
    assert_refused(&map, "nothing to draw");
    map = good;
    map.n_row_labels = 2;
    assert_refused(&map, "rows: 2 labels for 3 rows");
    map = good;
    map.n_col_labels = 4;
    assert_refused(&map, "columns: 4 labels for 3 columns");
    map = good;
    map.col_labels = NULL;
    assert_refused(&map, "columns: 3 labels");
    map = good;
    map.stride = 2;
    assert_refused(&map, "stride of 2");
    map = good;
    map.values = NULL;
    assert_refused(&map, "no values");
    map = good;
    map.scale = (hsc__scale)9;
    assert_refused(&map, "scale 9");
    map = (hsc__heatmap){.n_rows = 4097, .n_cols = 1, .values = good.values};
    assert_refused(&map, "at most 4096");
    hsc_error err = {0};
    assert_int_equal(hsc__plot_grid(scratch_path("a.png"), &good, 0, 0, NULL, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "no maps"));
    free_map(&good);
}

static void test_grid_too_large(void **state)
{
    (void)state;
    enum { N = 200 * 200 };
    float one = 1;
    hsc__heatmap *maps = calloc(N, sizeof *maps);
    for (int m = 0; m < N; m++) maps[m] = (hsc__heatmap){.n_rows = 1, .n_cols = 1, .values = &one};
    hsc_error err = {0};
    assert_int_equal(hsc__plot_grid(scratch_path("a.png"), maps, N, 200, NULL, &err), HSC_EINVAL);
    assert_non_null(strstr(err.message, "200 x 200"));
    assert_int_equal(hsc__plot_grid(scratch_path("a.png"), maps, N, 1, NULL, &err), HSC_EINVAL);
    assert_int_equal(hsc__plot_grid(scratch_path("wide.svg"), maps, 80 * 64, 64, NULL, &err), HSC_OK);
    free(maps);
}

static void test_where_nothing_can_be_written(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(3, 1);
    int before = scratch_count();
    for (int e = 0; e < 3; e++) {
        hsc_error err = {0};
        assert_int_equal(hsc__plot_heatmap(path_with("no/such", endings[e]), &map, &err), HSC_ENOTFOUND);
        assert_non_null(strstr(err.message, "no/such"));
    }
    assert_int_equal(scratch_count(), before);
    free_map(&map);
}

/* A link named like a picture leads to a disk that is full. */
static void test_full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    hsc__heatmap small = make_map(3, 1), large = make_map(300, 1), plain = large;
    plain.row_labels = plain.col_labels = NULL; /* over CJK and emoji Cairo loses memory in a PDF */
    plain.n_row_labels = plain.n_col_labels = 0;
    for (int e = 0; e < 3; e++) {
        const char *path = path_with("full", endings[e]);
        assert_int_equal(symlink("/dev/full", path), 0);
        hsc_error err = {0};
        assert_int_equal(hsc__plot_heatmap(path, &small, &err), HSC_EIO);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "No space left"));
        assert_int_equal(hsc__plot_heatmap(path, &plain, &err), HSC_EIO);
        assert_int_equal(hsc__plot_grid(path, &plain, 1, 1, "t", &err), HSC_EIO);
        unlink(path);
    }
    free_map(&small);
    free_map(&large);
}

/* Call k fails, for every k: HSC_ENOMEM, nothing held, the old file still there and nothing beside it. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    hsc__heatmap map = make_map(3, 1);
    for (int e = 0; e < 6; e++) { /* a grid's cells are images */
        const char *path = path_with("memory", endings[e % 3]);
        assert_true(scratch_write(path, "old", 3));
        int before = scratch_count();
        for (long k = 1;; k++) {
            failing_alloc failing;
            hsc_error err = {0};
            failing_alloc_install(&failing, k);
            hsc_status status =
                e < 3 ? hsc__plot_heatmap(path, &map, &err) : hsc__plot_grid(path, &map, 1, 1, "t", &err);
            failing_alloc_remove();
            assert_int_equal(failing.held, 0);
            assert_int_equal(scratch_count(), before);
            if (failing.calls < k) {
                assert_int_equal(status, HSC_OK);
                break;
            }
            assert_int_equal(status, HSC_ENOMEM);
            assert_int_equal(err.code, HSC_ENOMEM);
            size_t n;
            char *bytes = scratch_read(path, &n);
            assert_int_equal(n, 3);
            free(bytes);
        }
        unlink(path);
    }
    free_map(&map);
}

/* The text of a PDF can be searched; pdftotext is asked where the machine has it. */
static void test_pdf_text(void **state)
{
    (void)state;
    char command[2048];
    if (system("pdftotext -v >/dev/null 2>&1") != 0) skip();
    hsc__heatmap map = make_map(7, 1); /* no CJK and no emoji, over which Cairo loses memory */
    assert_int_equal(hsc__plot_heatmap(scratch_path("text.pdf"), &map, NULL), HSC_OK);
    snprintf(command, sizeof command, "pdftotext '%s' '%s'", scratch_path("text.pdf"), scratch_path("text.txt"));
    assert_int_equal(system(command), 0);
    char *text = scratch_read(scratch_path("text.txt"), NULL);
    static const char *const parts[] = {
        "GPT-2 layer 5, head 3 (L4H3)", "$x_1$", "<b>", "&amp;\"'", "attends to", "fixed scale 0 to 1"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(text, parts[i])) fail_msg("no \"%s\" in %s", parts[i], text);
    }
    free(text);
    free_map(&map);
}

/* No font at all is no reason to fail: the picture then has boxes for letters. Asked in a process of its own, since the
 * fonts of this one are read already. */
static int draw_without_fonts(void)
{
    hsc__heatmap map = make_map(N_HARD, 1);
    for (int e = 0; e < 3; e++) {
        if (hsc__plot_heatmap(path_with("fontless", endings[e]), &map, NULL) != HSC_OK) return 1;
    }
    free_map(&map);
    return 0;
}

static char program[1024];

static void test_no_fonts(void **state)
{
    (void)state;
    static const char none[] =
        "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig></fontconfig>";
    char command[4096];
    assert_true(scratch_write(scratch_path("none.conf"), none, sizeof none - 1));
    snprintf(command, sizeof command, "FONTCONFIG_FILE='%s' '%s' --no-fonts '%s'", scratch_path("none.conf"), program,
             scratch_dir);
    assert_int_equal(system(command), 0);
    for (int e = 0; e < 3; e++) assert_int_equal(access(path_with("fontless", endings[e]), F_OK), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endings),        cmocka_unit_test(test_maps_that_cannot_be),
        cmocka_unit_test(test_grid_too_large), cmocka_unit_test(test_where_nothing_can_be_written),
        cmocka_unit_test(test_full_disk),      cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_pdf_text),       cmocka_unit_test(test_no_fonts),
    };
    if (argc == 3 && strcmp(argv[1], "--no-fonts") == 0) {
        snprintf(scratch_dir, sizeof scratch_dir, "%s", argv[2]);
        return draw_without_fonts();
    }
    snprintf(program, sizeof program, "%s", argv[0]);
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
