/* Tables for people: columns aligned by the cells that a terminal gives a text, not by bytes or code points. */
#ifndef HSC_PLOT_TABLE_H
#define HSC_PLOT_TABLE_H

#include "base/text.h"

typedef struct hsc__column {
    const char *head; /* NULL in every column: no line of heads */
    bool right;       /* aligned to the right, for numbers */
    int max_cells;    /* longer texts are cut, never inside a character, and end in U+2026; 0: no limit */
} hsc__column;

/* Appends the table: cells[row * n_columns + column], two blanks between columns, no blanks at the end of a line. A
 * cell is UTF-8 as hsc__text_label and hsc__text_repr make it; NULL is an empty cell. HSC_ENOMEM. */
hsc_status hsc__table_write(hsc__string *out, const hsc__column *columns, size_t n_columns, const char *const *cells,
                            size_t n_rows, hsc_error *err);

#endif
