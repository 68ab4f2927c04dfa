/* What every public function of headscope/nn.h begins with: checks of its arguments and a context for one call; and
 * products of plain float32 arrays. */
#ifndef HSC_NN_CALL_H
#define HSC_NN_CALL_H

#include "headscope/nn.h"

#include "tensor/linear.h"

#include <stdbool.h>

/* "n_in" of "map->n_in": what the caller knows it by. */
const char *hsc__nn_field(const char *expression);

#define HSC__NEED(pointer) HSC_FAIL_IF(!(pointer), HSC_EINVAL, "%s is NULL", hsc__nn_field(#pointer))
/* Sizes end where an int still has room for what is added to them on the way: rounding up, doubling. */
enum { HSC__NN_MOST = 1 << 30 };
#define HSC__SIZE(n, least)                                                                                            \
    HSC_FAIL_IF((n) < (least) || (n) > HSC__NN_MOST, HSC_EINVAL, "%s is %d, and must be from %d to %d",                \
                hsc__nn_field(#n), (n), (least), HSC__NN_MOST)

/* Threads for that many multiply-adds: one where a second would not pay. */
int hsc__nn_threads(double work);

/* A context without scratch, for loops that need none. Nothing to free. */
hsc__exec hsc__nn_light_exec(double work);

/* A context for products of at most max_rows rows and attention over at most max_key keys of d_head (0: none). */
hsc_status hsc__nn_exec_init(hsc__exec *exec, double work, int max_rows, int max_key, int d_head, hsc_error *err);

/* A float32 matrix of n_in inputs: stored [n_out][n_in], or [n_in][n_out] when in_out; rows `stride` floats apart. */
hsc__weight hsc__nn_weight(const float *w, size_t stride, int n_in, int n_out, bool in_out);

/* y = x w, or y += x w; rows of x and y are a stride apart. */
void hsc__nn_product(const hsc__exec *exec, const float *x, size_t x_stride, int n_rows, const hsc__weight *w, float *y,
                     size_t y_stride, bool add);

/* to [n_cols][n_rows] = from [n_rows][n_cols], whose rows are `stride` apart. */
void hsc__nn_transpose(const float *from, size_t stride, int n_rows, int n_cols, float *to);

/* sums[n_cols] += the columns of x [n_rows][n_cols], each summed in rising rows in double. */
void hsc__nn_column_sums(const hsc__exec *exec, const float *x, int n_rows, int n_cols, float *sums);

/* Memory for n floats, aligned; HSC_ENOMEM says how much. Free with hsc__free_aligned. */
hsc_status hsc__nn_floats(float **out, size_t n, hsc_error *err);

/* linear.c: as the public functions, in a context of the caller's. residual (may be y) is added when it is not NULL. */
hsc_status hsc__nn_linear_check(const hsc_nn_linear *map, hsc_error *err);
void hsc__nn_linear_run(const hsc__exec *exec, const hsc_nn_linear *map, const float *x, int n_rows, float *y,
                        const float *residual);
/* The context must hold products of max(n_rows, n_in, n_out) rows. */
hsc_status hsc__nn_linear_grad(const hsc__exec *exec, const hsc_nn_linear *map, const float *x, const float *dy,
                               int n_rows, float *dx, const hsc_nn_linear_grad *grad, hsc_error *err);

static inline int hsc__nn_max(int a, int b)
{
    return a > b ? a : b;
}

#endif
