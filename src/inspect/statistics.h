/* What the files of statistics share. The interface is headscope/inspect.h. */
#ifndef HSC_INSPECT_STATISTICS_H
#define HSC_INSPECT_STATISTICS_H

#include "headscope/inspect.h"

/* HSC_EINVAL: no clusters, no columns, or a value that is not finite. */
hsc_status hsc__check_table(const hsc_table *table, hsc_error *err);

/* Percentile `share` (0 to 1) of sorted[n], linear between order statistics. */
double hsc__percentile(const double *sorted, int n, double share);

/* Sorts n numbers in rising order. */
void hsc__sort_doubles(double *x, int n);

#endif
