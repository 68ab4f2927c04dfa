/* Softmax by the engine's kernel, its derivative (docs/math/softmax.md), and the loss that is made of it. */
#include "nn/call.h"
#include "nn/rows.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

static hsc_status check_rows(int n_rows, int n, hsc_error *err)
{
    HSC__SIZE(n_rows, 0);
    HSC__SIZE(n, 1);
    return HSC_OK;
}

hsc_status hsc_nn_softmax_forward(const float *x, int n_rows, int n, float *y, hsc_error *err)
{
    HSC_TRY(check_rows(n_rows, n, err));
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(x);
    HSC__NEED(y);
    hsc__exec exec = hsc__nn_light_exec((double)n_rows * n);
    hsc__nn_softmax_rows(&exec, x, n_rows, n, y);
    return HSC_OK;
}

hsc_status hsc_nn_softmax_backward(const float *y, const float *dy, int n_rows, int n, float *dx, hsc_error *err)
{
    HSC_TRY(check_rows(n_rows, n, err));
    if (n_rows == 0 || !dx) return HSC_OK;
    HSC__NEED(y);
    HSC__NEED(dy);
    for (int r = 0; r < n_rows; r++, y += n, dy += n, dx += n) {
        double mean = 0; /* of dy under the weights */
        for (int i = 0; i < n; i++) mean += (double)y[i] * dy[i];
        for (int i = 0; i < n; i++) dx[i] += (float)(y[i] * (dy[i] - mean));
    }
    return HSC_OK;
}

void hsc_nn_softmax_jacobian(const float *p, int n, float *jacobian)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) jacobian[(size_t)i * (size_t)n + (size_t)j] = p[i] * ((i == j) - p[j]);
    }
}

static hsc_status check_targets(const hsc_token *targets, int n_rows, int n_classes, hsc_error *err)
{
    HSC__SIZE(n_rows, 0);
    HSC__SIZE(n_classes, 1);
    if (n_rows) HSC__NEED(targets);
    for (int r = 0; r < n_rows; r++)
        HSC_FAIL_IF(targets[r] >= n_classes, HSC_EINVAL, "targets[%d] is %d, of %d classes", r, targets[r], n_classes);
    return HSC_OK;
}

static int largest(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

/* log sum exp(x - max) is -log of the largest weight, so -log p_target = (x_max - x_target) - log p_max, which loses
 * nothing where p_target is too small for a float. */
hsc_status hsc_nn_cross_entropy_forward(const float *logits, const hsc_token *targets, int n_rows, int n_classes,
                                        float *losses, hsc_error *err)
{
    float *p; /* [n_classes] */
    HSC_TRY(check_targets(targets, n_rows, n_classes, err));
    if (n_rows == 0) return HSC_OK;
    HSC__NEED(logits);
    HSC__NEED(losses);
    HSC_TRY(hsc__nn_floats(&p, (size_t)n_classes, err));
    const hsc__kernels *kernels = hsc__kernels_get();
    for (int r = 0; r < n_rows; r++, logits += n_classes) {
        losses[r] = 0;
        if (targets[r] < 0) continue;
        int best = largest(logits, n_classes);
        memcpy(p, logits, (size_t)n_classes * sizeof *p);
        kernels->softmax(p, n_classes);
        losses[r] = (float)((double)logits[best] - logits[targets[r]] - log((double)p[best]));
    }
    hsc__free_aligned(p);
    return HSC_OK;
}

hsc_status hsc_nn_cross_entropy_backward(const float *logits, const hsc_token *targets, const float *dlosses,
                                         int n_rows, int n_classes, float *dlogits, hsc_error *err)
{
    float *p; /* [n_classes] */
    HSC_TRY(check_targets(targets, n_rows, n_classes, err));
    if (n_rows == 0 || !dlogits) return HSC_OK;
    HSC__NEED(logits);
    HSC__NEED(dlosses);
    HSC_TRY(hsc__nn_floats(&p, (size_t)n_classes, err));
    const hsc__kernels *kernels = hsc__kernels_get();
    for (int r = 0; r < n_rows; r++, logits += n_classes, dlogits += n_classes) {
        if (targets[r] < 0) continue;
        memcpy(p, logits, (size_t)n_classes * sizeof *p);
        kernels->softmax(p, n_classes);
        p[targets[r]] -= 1;
        for (int i = 0; i < n_classes; i++) dlogits[i] += dlosses[r] * p[i];
    }
    hsc__free_aligned(p);
    return HSC_OK;
}
