/* Rows are gathered and written as pieces of columns, so that a column is one stretch of bytes. */
#include "inspect/columns.h"

#include "base/alloc.h"

enum { PIECE = 512 }; /* rows of a column that are turned at once */

static uint64_t place(const hsc__columns *c, int column, int row)
{
    return ((uint64_t)column * (uint64_t)c->most_rows + (uint64_t)row) * sizeof(double);
}

int hsc__panel_width(size_t memory, int n_rows, int n_columns)
{
    size_t fit = memory / ((size_t)n_rows * sizeof(double));
    return fit < 1 ? 1 : fit < (size_t)n_columns ? (int)fit : n_columns;
}

hsc_status hsc__columns_open(hsc__columns *c, int most_rows, int n_columns, size_t memory, hsc_error *err)
{
    *c = (hsc__columns){.n_columns = n_columns, .most_rows = most_rows};
    c->most_waiting = hsc__panel_width(memory, n_columns, most_rows);
    size_t n = (size_t)c->most_waiting * (size_t)n_columns;
    c->waiting = hsc__calloc(n, sizeof *c->waiting);
    if (!c->waiting) return hsc__fail_memory(err, n * sizeof *c->waiting, "rows of a table");
    return hsc__spill_open(&c->bytes, place(c, n_columns, 0), memory, err);
}

void hsc__columns_free(hsc__columns *c)
{
    hsc__free(c->waiting);
    hsc__spill_free(&c->bytes);
    *c = (hsc__columns){0};
}

static hsc_status write_column(hsc__columns *c, int column, hsc_error *err)
{
    double piece[PIECE];
    int first = c->n_rows - c->n_waiting;
    for (int at = 0; at < c->n_waiting; at += PIECE) {
        int n = c->n_waiting - at < PIECE ? c->n_waiting - at : PIECE;
        for (int i = 0; i < n; i++) piece[i] = c->waiting[(size_t)(at + i) * (size_t)c->n_columns + (size_t)column];
        HSC_TRY(hsc__spill_write(&c->bytes, place(c, column, first + at), piece, (size_t)n * sizeof *piece, err));
    }
    return HSC_OK;
}

static hsc_status write_waiting(hsc__columns *c, hsc_error *err)
{
    for (int column = 0; column < c->n_columns; column++) HSC_TRY(write_column(c, column, err));
    c->n_waiting = 0;
    return HSC_OK;
}

hsc_status hsc__columns_add(hsc__columns *c, const double *row, hsc_error *err)
{
    double *out = c->waiting + (size_t)c->n_waiting * (size_t)c->n_columns;
    for (int i = 0; i < c->n_columns; i++) out[i] = row[i];
    c->n_rows++;
    c->n_waiting++;
    return c->n_waiting == c->most_waiting ? write_waiting(c, err) : HSC_OK;
}

hsc_status hsc__columns_end(hsc__columns *c, hsc_error *err)
{
    HSC_TRY(write_waiting(c, err));
    hsc__free(c->waiting);
    c->waiting = NULL;
    return HSC_OK;
}

hsc_status hsc__columns_read(const hsc__columns *c, int column, double *out, hsc_error *err)
{
    return hsc__spill_read(&c->bytes, place(c, column, 0), out, (size_t)c->n_rows * sizeof *out, err);
}

hsc_status hsc__columns_panel(const hsc__columns *c, int first, int n, double *out, hsc_error *err)
{
    double piece[PIECE];
    for (int j = 0; j < n; j++) {
        for (int at = 0; at < c->n_rows; at += PIECE) {
            int rows = c->n_rows - at < PIECE ? c->n_rows - at : PIECE;
            HSC_TRY(hsc__spill_read(&c->bytes, place(c, first + j, at), piece, (size_t)rows * sizeof *piece, err));
            for (int i = 0; i < rows; i++) out[(size_t)(at + i) * (size_t)n + (size_t)j] = piece[i];
        }
    }
    return HSC_OK;
}
