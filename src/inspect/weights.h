/* Weights as float32 matrices, whatever their type and layout in the file: what attribution, circuits and
 * composition calculate with. */
#ifndef HSC_INSPECT_WEIGHTS_H
#define HSC_INSPECT_WEIGHTS_H

#include "model/model.h"

/* Rows [first, first + n) of the outputs of w: out [n][n_in]. `row` is scratch for max(n_in, n_out) floats. */
void hsc__weight_outputs(const hsc__weight *w, int first, int n, float *row, float *out);
/* Inputs [first, first + n): out [n][n_out], what each input writes. */
void hsc__weight_inputs(const hsc__weight *w, int first, int n, float *row, float *out);

/* The gain of a norm folded into the rows [n][d] that read from it; a layer norm's mean is taken out too, so that
 * rows . x = folded . (x / sigma) for every x, bias left aside. */
void hsc__norm_fold(const hsc__norm *norm, hsc__nn_norm_kind kind, float *rows, int n, int d);

#endif
