/* What the files of statistics share. The interface is headscope/inspect.h. */
#ifndef HSC_INSPECT_STATISTICS_H
#define HSC_INSPECT_STATISTICS_H

#include "headscope/inspect.h"

#include <stdbool.h>

/* HSC_EINVAL: no clusters, no columns, or a value that is not finite. */
hsc_status hsc__check_table(const hsc_table *table, hsc_error *err);

/*
 * hsc_sign_flip_family for columns that come a panel at a time: open with the numbers of all, add each panel, free. The
 * signs are drawn anew for each panel, so what is kept is one number a draw and one a column.
 */
typedef struct hsc__family {
    uint64_t seed;
    int64_t n_draws;
    bool listed; /* every assignment instead of draws */
    int n_threads;
    double *largest; /* [n_draws] max |t| over the columns so far */
    double *reached; /* [n_columns] what a draw's largest must reach; NaN: no member */
    int n_columns;   /* so far */
} hsc__family;
hsc_status hsc__family_open(hsc__family *family, int n_clusters, int n_columns, const hsc_flip_options *options,
                            hsc_error *err);
void hsc__family_free(hsc__family *family);
/* p: [table->n_columns], may be NULL. */
hsc_status hsc__family_add(hsc__family *family, const hsc_table *table, double *p, hsc_error *err);
/* p_fwer: [n_columns] of all panels. */
void hsc__family_share(const hsc__family *family, double *p_fwer);

/* Percentile `share` (0 to 1) of sorted[n], linear between order statistics. */
double hsc__percentile(const double *sorted, int n, double share);

/* Sorts n numbers in rising order. */
void hsc__sort_doubles(double *x, int n);

#endif
