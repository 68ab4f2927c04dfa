/* The entries of the reference table, one declaration for each row of HSC_KERNEL_LIST. */
#ifndef HSC_KERNELS_REF_REF_H
#define HSC_KERNELS_REF_REF_H

#include "kernels/kernels.h"

enum { HSC__REF_NR = 8, HSC__REF_MR = 4, HSC__REF_FEW = 4 };

#define HSC_KERNEL_REF(name, type, parameters) type hsc__ref_##name parameters;
HSC_KERNEL_LIST(HSC_KERNEL_REF)
#undef HSC_KERNEL_REF

/* Columns [col, col + n_cols) of a row of sums go where `end` says. */
void hsc__ref_end_row(const hsc__ending *end, int row, int col, int n_cols, const float *sums);

#endif
