/* Aligned tables. Widths are counted in terminal cells, so that CJK, emoji and combining marks keep columns straight. A
 * table that is too wide is written in parts, one below the other. */
#include "plot/table.h"

#include "base/alloc.h"

#include <string.h>

enum { GAP = 2 }; /* blanks between columns */

typedef struct grid {
    hsc__string *out;
    const hsc__table *table;
    const char **heads, **cells; /* [n_columns], [n_rows][n_columns] */
    size_t n_rows;
    bool headed;
    int width;    /* of the terminal */
    int *natural; /* [n_columns]: cells that a column wants; 0: it is empty and takes no room */
    int *given;   /* [n_columns]: what it gets in the part that is written */
    hsc__string cut;
} grid;

/* A cell as it is printed, and the cells it takes. */
static const char *visible(hsc__string *cut, const char *text, int max_cells, int *cells)
{
    size_t n = text ? strlen(text) : 0;
    *cells = 0;
    cut->n = 0;
    hsc__string_add(cut, "", 0);
    if (n && max_cells > 0) hsc__text_cut(cut, text, n, max_cells);
    else if (n) hsc__string_add(cut, text, n);
    if (cut->failed) return "";
    *cells = hsc__text_cells(cut->data, cut->n);
    return cut->data;
}

static void measure_column(grid *g, size_t c)
{
    int most = g->table->columns[c].max_cells, cells;
    visible(&g->cut, g->heads[c], most, &g->natural[c]);
    for (size_t r = 0; r < g->n_rows; r++) {
        visible(&g->cut, g->cells[r * g->table->n_columns + c], most, &cells);
        if (cells > g->natural[c]) g->natural[c] = cells;
    }
}

/* The least that a column can do with. */
static int least(const grid *g, size_t c)
{
    int cells = g->table->columns[c].least_cells;
    return cells && cells < g->natural[c] ? cells : g->natural[c];
}

/* A part of the table: the first columns and those from `first` to before `end`. */
static bool in_part(const grid *g, size_t c, size_t first, size_t end)
{
    return g->natural[c] && (c < g->table->n_keys || (c >= first && c < end));
}

/* Cells that a part takes at the least. */
static int least_of_part(const grid *g, size_t first, size_t end)
{
    int sum = -GAP;
    for (size_t c = 0; c < end; c++)
        if (in_part(g, c, first, end)) sum += least(g, c) + GAP;
    return sum;
}

/* Where the part ends that begins at `first`: as many columns as fit, one at least. */
static size_t end_of_part(const grid *g, size_t first)
{
    size_t end = first + 1;
    for (; end < g->table->n_columns; end++)
        if (g->width && g->natural[end] && least_of_part(g, first, end + 1) > g->width) break;
    return end;
}

/* Columns get what they want, from the left, as far as the others are left with their least. */
static void share_out(grid *g, size_t first, size_t end)
{
    int spare = g->width - least_of_part(g, first, end);
    for (size_t c = 0; c < end; c++) {
        if (!in_part(g, c, first, end)) continue;
        int more = g->natural[c] - least(g, c);
        if (g->width && more > spare) more = spare > 0 ? spare : 0;
        g->given[c] = least(g, c) + more;
        spare -= more;
    }
}

static void put_line(grid *g, const char *const *cells, size_t first, size_t end)
{
    int owed = 0; /* blanks not yet written, so that a line has none at its end */
    for (size_t c = 0; c < end; c++) {
        if (!in_part(g, c, first, end)) continue;
        int taken, most = g->given[c] < g->natural[c] ? g->given[c] : g->table->columns[c].max_cells;
        const char *text = visible(&g->cut, cells[c], most, &taken);
        int spare = g->given[c] - taken;
        if (g->table->columns[c].right) owed += spare;
        if (*text) {
            for (; owed > 0; owed--) hsc__string_add(g->out, " ", 1);
            hsc__string_text(g->out, text);
        }
        owed += g->table->columns[c].right ? GAP : spare + GAP;
    }
    hsc__string_text(g->out, "\n");
}

static void put_parts(grid *g)
{
    size_t n = g->table->n_columns, n_keys = g->table->n_keys < n ? g->table->n_keys : n - 1;
    for (size_t first = n_keys, end; first < n; first = end) {
        end = end_of_part(g, first);
        share_out(g, first, end);
        if (first > n_keys) hsc__string_text(g->out, "\n");
        if (g->headed) put_line(g, g->heads, first, end);
        for (size_t r = 0; r < g->n_rows; r++) put_line(g, g->cells + r * n, first, end);
    }
}

/* Ends every cell with a NUL in place of its tab, and finds where they begin. */
static void find_cells(grid *g, hsc__string *text)
{
    char *at = text->data;
    for (size_t i = 0; i < g->n_rows * g->table->n_columns; i++) {
        g->cells[i] = at;
        at = strchr(at, '\t');
        *at++ = '\0';
    }
}

static size_t count_rows(const hsc__table *table)
{
    size_t n = 0;
    for (size_t i = 0; i < table->cells.n; i++) n += table->cells.data[i] == '\t';
    return n / table->n_columns;
}

hsc_status hsc__table_write(hsc__string *out, hsc__table *table, int width, hsc_error *err)
{
    size_t n = table->n_columns;
    grid g = {.out = out, .table = table, .width = width, .n_rows = count_rows(table)};
    g.heads = hsc__calloc(n, sizeof *g.heads);
    g.cells = hsc__calloc(g.n_rows * n + 1, sizeof *g.cells);
    g.natural = hsc__calloc(n, sizeof *g.natural);
    g.given = hsc__calloc(n, sizeof *g.given);
    bool memory = g.heads && g.cells && g.natural && g.given && !table->cells.failed;
    if (memory) {
        find_cells(&g, &table->cells);
        for (size_t c = 0; c < n; c++) {
            g.heads[c] = table->columns[c].head;
            if (g.heads[c]) g.headed = true;
            measure_column(&g, c);
        }
        put_parts(&g);
    }
    if (g.cut.failed || out->failed) memory = false;
    hsc__string_free(&g.cut);
    hsc__string_free(&table->cells);
    hsc__free(g.heads);
    hsc__free(g.cells);
    hsc__free(g.natural);
    hsc__free(g.given);
    return memory ? HSC_OK : hsc__fail_memory(err, out->n, "a table");
}
