/* Tables for people: columns aligned by the cells that a terminal gives a text, not by bytes or code points, and no
 * line wider than the terminal. */
#ifndef HSC_PLOT_TABLE_H
#define HSC_PLOT_TABLE_H

#include "base/text.h"

typedef struct hsc__column {
    const char *head; /* NULL in every column: no line of heads */
    bool right;       /* aligned to the right, for numbers */
    int max_cells;    /* longer texts are cut, never inside a character, and end in U+2026; 0: no limit */
    int least_cells;  /* where the table is too wide, longer texts are cut to no less than this; 0: to none */
} hsc__column;

/* A table that is written row by row. */
typedef struct hsc__table {
    const hsc__column *columns; /* [n_columns]; borrowed */
    size_t n_columns;
    size_t n_keys;     /* first columns, which say what a row is of */
    hsc__string cells; /* row by row, each cell with a tab behind it; may be empty. UTF-8 as hsc__text_label and
                        * hsc__text_repr make it, which have no tab */
} hsc__table;

/* Appends the table, two blanks between columns and no blanks at the end of a line, and frees its cells. Where it is
 * wider than `width` cells (0: no limit) texts are cut as their columns allow; columns that still find no room follow
 * below, in as many parts as it takes, each behind the same first n_keys columns: nothing is left out. HSC_ENOMEM, with
 * the cells freed too. */
hsc_status hsc__table_write(hsc__string *out, hsc__table *table, int width, hsc_error *err);

#endif
