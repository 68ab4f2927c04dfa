/*
 * Eigenvalues by the QR algorithm (Francis 1961; Golub and Van Loan, "Matrix Computations", 7.4 and 7.5): reflections
 * make the matrix upper Hessenberg, then steps with two shifts at once, real throughout, drive the numbers below the
 * diagonal to 0, until blocks of one or two rows are left, whose eigenvalues stand there to be read.
 */
#include "inspect/eigen.h"

#include <float.h>
#include <math.h>

enum { MOST_STEPS = 60 }; /* for one eigenvalue; two or three are usual */

typedef struct matrix {
    double *a;
    int n;
} matrix;

static double *at(const matrix *m, int row, int column)
{
    return m->a + row * m->n + column;
}

/* v [n] becomes the reflection that turns it into a multiple of the first axis: I - scale v v^T. Returns the scale; 0:
 * nothing is to be done. */
static double reflection(double *v, int n)
{
    double largest = 0, square = 0;
    for (int i = 0; i < n; i++) largest = fmax(largest, fabs(v[i]));
    if (largest == 0) return 0;
    for (int i = 0; i < n; i++) {
        v[i] /= largest;
        square += v[i] * v[i];
    }
    v[0] += copysign(sqrt(square), v[0]);
    square = 0;
    for (int i = 0; i < n; i++) square += v[i] * v[i];
    return 2 / square;
}

/* Rows [first, first + n) of the columns [from, to) are reflected. */
static void reflect_rows(const matrix *m, const double *v, double scale, int first, int n, int from, int to)
{
    for (int column = from; column < to; column++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += v[i] * *at(m, first + i, column);
        for (int i = 0; i < n; i++) *at(m, first + i, column) -= scale * sum * v[i];
    }
}

/* Columns [first, first + n) of the rows [from, to) are. */
static void reflect_columns(const matrix *m, const double *v, double scale, int first, int n, int from, int to)
{
    for (int row = from; row < to; row++) {
        double sum = 0, *x = at(m, row, first);
        for (int i = 0; i < n; i++) sum += v[i] * x[i];
        for (int i = 0; i < n; i++) x[i] -= scale * sum * v[i];
    }
}

/* Zeros below the first subdiagonal, the eigenvalues kept. v: [n]. */
static void make_hessenberg(const matrix *m, double *v)
{
    for (int k = 0; k + 2 < m->n; k++) {
        int n = m->n - k - 1;
        for (int i = 0; i < n; i++) v[i] = *at(m, k + 1 + i, k);
        double scale = reflection(v, n);
        if (scale == 0) continue;
        reflect_rows(m, v, scale, k + 1, n, k, m->n);
        reflect_columns(m, v, scale, k + 1, n, 0, m->n);
        for (int i = 1; i < n; i++) *at(m, k + 1 + i, k) = 0;
    }
}

/* One step on rows and columns [low, high], at least three. An odd shift now and then leaves a cycle. */
static void step(const matrix *m, int low, int high, bool odd)
{
    double sum = *at(m, high - 1, high - 1) + *at(m, high, high);
    double product = *at(m, high - 1, high - 1) * *at(m, high, high) - *at(m, high - 1, high) * *at(m, high, high - 1);
    if (odd) {
        double w = fabs(*at(m, high, high - 1)) + fabs(*at(m, high - 1, high - 2));
        sum = 1.5 * w;
        product = w * w;
    }
    double x = *at(m, low, low), below = *at(m, low + 1, low);
    double v[3] = {x * x + *at(m, low, low + 1) * below - sum * x + product,
                   below * (x + *at(m, low + 1, low + 1) - sum), below * *at(m, low + 2, low + 1)};
    for (int k = low; k < high; k++) {
        int n = k + 2 <= high ? 3 : 2;
        double scale = reflection(v, n);
        reflect_rows(m, v, scale, k, n, k > low ? k - 1 : low, high + 1);
        reflect_columns(m, v, scale, k, n, low, k + 3 < high ? k + 4 : high + 1);
        for (int i = 1; i < n && k > low; i++) *at(m, k + i, k - 1) = 0;
        for (int i = 0; i < 3; i++) v[i] = k + 1 + i <= high ? *at(m, k + 1 + i, k) : 0;
    }
}

/* Of the two rows that end at `high`. */
static void solve_pair(const matrix *m, int high, double *real, double *imag)
{
    double a = *at(m, high - 1, high - 1), d = *at(m, high, high);
    double half = (a - d) / 2, middle = d + half, product = *at(m, high - 1, high) * *at(m, high, high - 1);
    double square = half * half + product, root = sqrt(fabs(square));
    bool complex = square < 0;
    /* The one that is farther from d comes without cancellation, the other from what is left. */
    double far = half + copysign(root, half);
    real[high - 1] = complex ? middle : d + far;
    real[high] = complex ? middle : far != 0 ? d - product / far : d;
    imag[high - 1] = complex ? root : 0;
    imag[high] = complex ? -root : 0;
}

/* The first row of the block that ends at `high`: above it a number below the diagonal is as good as 0. */
static int block_start(const matrix *m, int high)
{
    int low = high;
    for (; low > 0; low--) {
        double size = fabs(*at(m, low - 1, low - 1)) + fabs(*at(m, low, low));
        if (fabs(*at(m, low, low - 1)) <= DBL_EPSILON * size || *at(m, low, low - 1) == 0) break;
    }
    return low;
}

bool hsc__eigenvalues(double *a, int n, double *real, double *imag)
{
    matrix m = {a, n};
    for (int i = 0; i < n * n; i++)
        if (!isfinite(a[i])) return false;
    make_hessenberg(&m, real);
    for (int high = n - 1, n_steps = 0; high >= 0;) {
        int low = block_start(&m, high);
        if (low + 1 < high) {
            if (++n_steps > MOST_STEPS) return false;
            step(&m, low, high, n_steps % 10 == 0);
            continue;
        }
        if (low == high) {
            real[high] = *at(&m, high, high);
            imag[high] = 0;
        } else {
            solve_pair(&m, high, real, imag);
        }
        high = low - 1;
        n_steps = 0;
    }
    return true;
}
