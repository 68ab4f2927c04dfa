/* Aligned tables. Widths are counted in terminal cells, so that CJK, emoji and combining marks keep columns straight.
 */
#include "plot/table.h"

#include "base/alloc.h"

#include <string.h>

/* A cell as it is printed, and the cells it takes. `cut` is scratch. */
static const char *visible(hsc__string *cut, const char *text, int max_cells, int *cells)
{
    size_t n = text ? strlen(text) : 0;
    cut->n = 0;
    hsc__string_add(cut, "", 0);
    if (n && max_cells > 0) hsc__text_cut(cut, text, n, max_cells);
    else if (n) hsc__string_add(cut, text, n);
    if (cut->failed) return "";
    *cells = hsc__text_cells(cut->data, cut->n);
    return cut->data;
}

static void widen(int *width, hsc__string *cut, const char *text, int max_cells)
{
    int cells = 0;
    visible(cut, text, max_cells, &cells);
    if (cells > *width) *width = cells;
}

static void put_line(hsc__string *out, hsc__string *cut, const hsc__column *columns, const int *widths,
                     size_t n_columns, const char *const *cells)
{
    int owed = 0; /* blanks not yet written, so that a line has none at its end */
    for (size_t c = 0; c < n_columns; c++) {
        int taken = 0;
        const char *text = visible(cut, cells[c], columns[c].max_cells, &taken);
        int spare = widths[c] - taken;
        if (columns[c].right) owed += spare;
        if (*text) {
            for (; owed > 0; owed--) hsc__string_add(out, " ", 1);
            hsc__string_text(out, text);
        }
        owed += columns[c].right ? 2 : spare + 2;
    }
    hsc__string_text(out, "\n");
}

hsc_status hsc__table_write(hsc__string *out, const hsc__column *columns, size_t n_columns, const char *const *cells,
                            size_t n_rows, hsc_error *err)
{
    hsc__string cut = {0};
    const char **heads = hsc__calloc(n_columns, sizeof *heads);
    int *widths = hsc__calloc(n_columns, sizeof *widths);
    bool headed = false, memory = heads && widths;
    for (size_t c = 0; c < n_columns && memory; c++) {
        heads[c] = columns[c].head;
        if (heads[c]) headed = true;
        widen(&widths[c], &cut, heads[c], columns[c].max_cells);
        for (size_t r = 0; r < n_rows; r++) widen(&widths[c], &cut, cells[r * n_columns + c], columns[c].max_cells);
    }
    if (headed && memory) put_line(out, &cut, columns, widths, n_columns, heads);
    for (size_t r = 0; r < n_rows && memory; r++)
        put_line(out, &cut, columns, widths, n_columns, cells + r * n_columns);
    if (cut.failed || out->failed) memory = false;
    hsc__string_free(&cut);
    hsc__free(heads);
    hsc__free(widths);
    return memory ? HSC_OK : hsc__fail_memory(err, out->n, "a table");
}
