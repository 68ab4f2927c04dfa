/*
 * Attention taken through the layers. Patterns of a layer are kept until its z goes by and are averaged then, in the
 * order of the heads; values are measured where they pass.
 */
#include "base/status.h"
#include "headscope/analysis.h"
#include "inspect/weights.h"
#include "nn/call.h"

#include <math.h>
#include <string.h>

static hsc_status run_with(const hsc_model *model, const hsc_token *ids, int n_tokens, const hsc_mix_options *options,
                           const hsc_observer *observers, int n_observers, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    hsc_session *session = NULL;
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > c->n_ctx, HSC_EINVAL, "the text has %d tokens, 1 to %d are accepted",
                n_tokens, c->n_ctx);
    hsc_session_options o = {.n_threads = options ? options->n_threads : 0,
                             .max_tokens = n_tokens,
                             .compute = options ? options->compute : HSC_COMPUTE_F32};
    hsc_batch batch = {.ids = ids, .n_tokens = n_tokens, .logits = HSC_LOGITS_NONE};
    hsc_status status = hsc_session_new(&session, model, &o, err);
    for (int i = 0; i < n_observers && status == HSC_OK; i++) status = hsc_session_observe(session, &observers[i], err);
    if (status == HSC_OK) status = hsc_forward(session, &batch, err);
    hsc_session_free(session);
    return status;
}

/* ------------------------------------------------------------------------------------------------ mean patterns ----
 */

typedef struct means {
    float *rows; /* [n_heads][n][n] of the layer that is running */
    float *out;
    int n, n_heads;
} means;

static int keep_pattern(void *user, const hsc_block *b)
{
    const means *m = user;
    size_t n = (size_t)m->n;
    for (int i = 0; i < b->n_rows; i++) {
        float *row = m->rows + ((size_t)b->head * n + (size_t)(b->first_row + i)) * n;
        memcpy(row, b->data + (size_t)i * b->stride, (size_t)b->row_size * sizeof *row);
        memset(row + b->row_size, 0, (n - (size_t)b->row_size) * sizeof *row);
    }
    return 0;
}

static int average_rows(void *user, const hsc_block *b)
{
    const means *m = user;
    size_t n = (size_t)m->n;
    for (int i = 0; i < b->n_rows; i++) {
        size_t q = (size_t)(b->first_row + i);
        float *out = m->out + ((size_t)b->layer * n + q) * n;
        for (size_t k = 0; k < n; k++) {
            double sum = 0;
            for (int h = 0; h < m->n_heads; h++) sum += (double)m->rows[((size_t)h * n + q) * n + k];
            out[k] = (float)(sum / m->n_heads);
        }
    }
    return 0;
}

hsc_status hsc_mean_patterns(const hsc_model *model, const hsc_token *ids, int n_tokens, const hsc_mix_options *options,
                             float *out, hsc_error *err)
{
    means m = {.out = out, .n = n_tokens, .n_heads = hsc_model_config(model)->n_heads};
    const hsc_observer observers[] = {{HSC_PATTERN, -1, keep_pattern, &m}, {HSC_Z, -1, average_rows, &m}};
    hsc__error_clear(err);
    HSC_FAIL_IF(n_tokens < 1, HSC_EINVAL, "the text has %d tokens", n_tokens);
    size_t n = (size_t)m.n_heads * (size_t)n_tokens * (size_t)n_tokens;
    m.rows = hsc__malloc(n * sizeof *m.rows);
    if (!m.rows) return hsc__fail_memory(err, n * sizeof *m.rows, "the patterns of a layer");
    hsc_status status = run_with(model, ids, n_tokens, options, observers, 2, err);
    hsc__free(m.rows);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ rollout ----
 */

hsc_status hsc_rollout(const float *from, int n_layers, int n_tokens, float *out, hsc_error *err)
{
    size_t n = (size_t)n_tokens, size = n * n;
    hsc__error_clear(err);
    HSC_FAIL_IF(n_layers < 1 || n_tokens < 1, HSC_EINVAL, "%d layers of %d tokens", n_layers, n_tokens);
    double *row = hsc__malloc(n * sizeof *row);
    if (!row) return hsc__fail_memory(err, n * sizeof *row, "a rollout");
    for (int layer = 0; layer < n_layers; layer++) {
        const float *a = from + (size_t)layer * size, *below = layer ? out + (size_t)(layer - 1) * size : NULL;
        for (size_t q = 0; q < n; q++) {
            for (size_t k = 0; k < n; k++) row[k] = 0;
            for (size_t via = 0; via < n; via++) {
                double weight = 0.5 * (double)a[q * n + via] + (via == q ? 0.5 : 0);
                if (!below) row[via] = weight;
                else if (weight != 0)
                    for (size_t k = 0; k < n; k++) row[k] += weight * (double)below[via * n + k];
            }
            for (size_t k = 0; k < n; k++) out[(size_t)layer * size + q * n + k] = (float)row[k];
        }
    }
    hsc__free(row);
    return HSC_OK;
}

/* ------------------------------------------------------------------------------------------------------- values ----
 */

typedef struct norms {
    const hsc_model *model;
    const hsc_config *config;
    hsc_norm_of of;
    int n_tokens;
    float *w;     /* [d_head][d_model]: what the values of one head write */
    float *row;   /* of W_O as it is stored */
    float *moved; /* [n_tokens][d_model] */
    float *out;
} norms;

static double length(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void measure_head(const norms *s, const hsc__exec *exec, const hsc_block *b, int head)
{
    const hsc_config *c = s->config;
    int dh = c->d_head, d = c->d_model, kv = head / (c->n_heads / c->n_kv_heads);
    const float *v = b->data + (size_t)(kv * dh);
    float *out =
        s->out + ((size_t)b->layer * (size_t)c->n_heads + (size_t)head) * (size_t)s->n_tokens + (size_t)b->first_row;
    if (s->of == HSC_NORM_VALUE) {
        for (int i = 0; i < b->n_rows; i++) out[i] = (float)length(v + (size_t)i * b->stride, dh);
        return;
    }
    hsc__weight w = hsc__nn_weight(s->w, (size_t)d, dh, d, true);
    hsc__weight_inputs(&s->model->desc.layers[b->layer].w_o, head * dh, dh, s->row, s->w);
    hsc__nn_product(exec, v, b->stride, b->n_rows, &w, s->moved, (size_t)d, false);
    for (int i = 0; i < b->n_rows; i++) out[i] = (float)length(s->moved + (size_t)i * (size_t)d, d);
}

static int measure_values(void *user, const hsc_block *b)
{
    const norms *s = user;
    hsc__exec exec;
    if (hsc__nn_exec_init(&exec, (double)b->n_rows * s->config->d_model * s->config->d_head, b->n_rows, 0, 0, NULL) !=
        HSC_OK)
        return 1;
    for (int h = 0; h < s->config->n_heads; h++) measure_head(s, &exec, b, h);
    hsc__exec_free(&exec);
    return 0;
}

hsc_status hsc_value_norms(const hsc_model *model, const hsc_token *ids, int n_tokens, hsc_norm_of of,
                           const hsc_mix_options *options, float *out, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    norms s = {.model = model, .config = c, .of = of, .n_tokens = n_tokens, .out = out};
    size_t d = (size_t)c->d_model, wide = (size_t)(c->n_heads * c->d_head), dh = (size_t)c->d_head;
    hsc__error_clear(err);
    HSC_FAIL_IF(of != HSC_NORM_OUTPUT && of != HSC_NORM_VALUE, HSC_EINVAL, "norm %d: there are two", (int)of);
    HSC_FAIL_IF(n_tokens < 1, HSC_EINVAL, "the text has %d tokens", n_tokens);
    s.w = hsc__malloc(dh * d * sizeof *s.w);
    s.row = hsc__malloc((d > wide ? d : wide) * sizeof *s.row);
    s.moved = hsc__malloc((size_t)n_tokens * d * sizeof *s.moved);
    hsc_observer observer = {HSC_V, -1, measure_values, &s};
    hsc_status status = s.w && s.row && s.moved
                            ? run_with(model, ids, n_tokens, options, &observer, 1, err)
                            : hsc__fail_memory(err, (size_t)n_tokens * d * sizeof *s.moved, "values");
    if (status == HSC_ECANCELED) status = hsc__fail_memory(err, d * sizeof *s.row, "values");
    hsc__free(s.w);
    hsc__free(s.row);
    hsc__free(s.moved);
    return status;
}
