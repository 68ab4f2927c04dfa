/* A table that is written row by row (a cluster each) and read column by column (a head each), of any length: its bytes
 * lie where hsc__spill puts them. Statistics take it in panels, some columns of all rows that fit a bound of memory. */
#ifndef HSC_INSPECT_COLUMNS_H
#define HSC_INSPECT_COLUMNS_H

#include "base/spill.h"

/* Zero it before use. */
typedef struct hsc__columns {
    int n_rows, n_columns; /* rows so far */
    int most_rows;
    hsc__spill bytes; /* [n_columns][most_rows] */
    double *waiting;  /* [n_waiting][n_columns]: the last rows, not yet written */
    int n_waiting, most_waiting;
} hsc__columns;

/* `memory`: bytes that the table, and what waits, may take in memory, each. */
hsc_status hsc__columns_open(hsc__columns *columns, int most_rows, int n_columns, size_t memory, hsc_error *err);
void hsc__columns_free(hsc__columns *columns);

/* row: [n_columns]. After the last row comes hsc__columns_end, after that columns may be read. */
hsc_status hsc__columns_add(hsc__columns *columns, const double *row, hsc_error *err);
hsc_status hsc__columns_end(hsc__columns *columns, hsc_error *err);

/* out: [n_rows]. */
hsc_status hsc__columns_read(const hsc__columns *columns, int column, double *out, hsc_error *err);

/* How many columns of n_rows rows `memory` bytes hold: 1 at least, n_columns at most. */
int hsc__panel_width(size_t memory, int n_rows, int n_columns);

/* Columns first .. first + n - 1 as out[n_rows][n]. */
hsc_status hsc__columns_panel(const hsc__columns *columns, int first, int n, double *out, hsc_error *err);

#endif
