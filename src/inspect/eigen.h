/* Eigenvalues of a real matrix that need not be symmetric. */
#ifndef HSC_INSPECT_EIGEN_H
#define HSC_INSPECT_EIGEN_H

#include <stdbool.h>

/* Of a [n][n], which is overwritten: real and imaginary parts [n], those of a complex pair side by side. False: an
 * entry is not finite, or the iteration did not come to an end. */
bool hsc__eigenvalues(double *a, int n, double *real, double *imag);

#endif
