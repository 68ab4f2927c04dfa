/*
 * The eigenvalue copying score: what a head's OV circuit, words in and words out, does along its own directions. That
 * matrix, W_U W_O W_V W_E, has d_vocab rows but the rank d_head; but for zeros its eigenvalues are those of the small
 * W_V (W_E W_U) W_O, whose middle [d_model][d_model] is the same for all heads and is made once.
 */
#include "base/parallel.h"
#include "base/status.h"
#include "inspect/circuit.h"
#include "inspect/eigen.h"
#include "nn/call.h"

#include <math.h>
#include <string.h>

enum { ROWS = HSC__CIRCUIT_ROWS };

typedef struct run {
    const hsc__desc *desc;
    const hsc_config *config;
    hsc__exec exec;
    int n_threads, layer;
    float *middle;             /* [d_model][d_model]: the embedding's numbers by those that the output matrix reads */
    float *in, *turned, *out;  /* [ROWS][d_model] and its transpose; [ROWS][d_model] */
    float *v, *vm, *o;         /* [d_head][d_model] */
    float *row;                /* a stored row */
    float *in_sums, *out_sums; /* [d_model] over all words */
    float *small;              /* [n_heads][d_head][d_head], of one layer */
    double *scratch;           /* [n_threads][d_head + 2][d_head] */
    double *scores;            /* [n_layers * n_heads] */
} run;

/* A number that all logits share says nothing, so the mean word is taken out of W_U: middle -= sum(W_E) mean(W_U)^T. */
static void centre(run *r)
{
    size_t d = (size_t)r->config->d_model;
    for (size_t i = 0; i < d; i++)
        for (size_t k = 0; k < d; k++)
            r->middle[i * d + k] -= r->in_sums[i] * r->out_sums[k] / (float)r->config->d_vocab;
}

/* middle = W_E^T W_U, with the last norm folded into W_U. Words come in as they enter the first block. */
static hsc_status make_middle(run *r, const hsc_circuit_options *o, hsc_error *err)
{
    int d = r->config->d_model, v = r->config->d_vocab;
    const hsc__norm *first = &r->desc->ln_embed;
    const hsc__nn_norm norm = {r->desc->norm_kind, first->gain, first->bias, r->desc->norm_eps, d};
    int32_t ids[ROWS];
    memset(r->middle, 0, (size_t)d * (size_t)d * sizeof *r->middle);
    memset(r->in_sums, 0, (size_t)d * sizeof *r->in_sums);
    memset(r->out_sums, 0, (size_t)d * sizeof *r->out_sums);
    for (int from = 0; from < v; from += ROWS) {
        int n = v - from < ROWS ? v - from : ROWS;
        for (int i = 0; i < n; i++) ids[i] = from + i;
        hsc__nn_table_rows(&r->exec, &r->desc->embed, ids, n, r->in);
        if (first->present) hsc__nn_norm_rows(&r->exec, &norm, r->in, n, r->in);
        hsc__nn_table_rows(&r->exec, &r->desc->unembed, ids, n, r->out);
        hsc__norm_fold(&r->desc->ln_final, r->desc->norm_kind, r->out, n, d);
        hsc__nn_column_sums(&r->exec, r->in, n, d, r->in_sums);
        hsc__nn_column_sums(&r->exec, r->out, n, d, r->out_sums);
        hsc__nn_transpose(r->in, (size_t)d, n, d, r->turned);
        hsc__weight out = hsc__nn_weight(r->out, (size_t)d, n, d, true);
        hsc__nn_product(&r->exec, r->turned, (size_t)n, d, &out, r->middle, (size_t)d, true);
        HSC_FAIL_IF(o->tell && o->tell(o->user, from / ROWS, (v + ROWS - 1) / ROWS + r->config->n_layers),
                    HSC_ECANCELED, "stopped at word %d", from);
    }
    centre(r);
    return HSC_OK;
}

/* small = W_V middle W_O of one head, norms folded in. */
static void make_small(run *r, int head)
{
    const hsc_config *c = r->config;
    const hsc__layer *l = &r->desc->layers[r->layer];
    int d = c->d_model, dh = c->d_head, kv = head / (c->n_heads / c->n_kv_heads);
    hsc__weight middle = hsc__nn_weight(r->middle, (size_t)d, d, d, true);
    hsc__weight o = hsc__nn_weight(r->o, (size_t)d, d, dh, false);
    hsc__weight_outputs(&l->w_v, kv * dh, dh, r->row, r->v);
    hsc__norm_fold(&l->ln1, r->desc->norm_kind, r->v, dh, d);
    hsc__weight_inputs(&l->w_o, head * dh, dh, r->row, r->o);
    for (int i = 0; l->ln1_post.gain && i < dh * d; i++) r->o[i] *= l->ln1_post.gain[i % d];
    hsc__nn_product(&r->exec, r->v, (size_t)d, dh, &middle, r->vm, (size_t)d, false);
    hsc__nn_product(&r->exec, r->vm, (size_t)d, dh, &o, r->small + (size_t)head * (size_t)(dh * dh), (size_t)dh, false);
}

static void judge_head(void *context, size_t task, int worker)
{
    const run *r = context;
    int dh = r->config->d_head;
    double *a = r->scratch + (size_t)worker * (size_t)((dh + 2) * dh), *real = a + dh * dh, *imag = real + dh;
    const float *small = r->small + task * (size_t)(dh * dh);
    double sum = 0, sizes = 0;
    for (int i = 0; i < dh * dh; i++) a[i] = (double)small[i];
    bool found = hsc__eigenvalues(a, dh, real, imag);
    for (int i = 0; found && i < dh; i++) {
        sum += real[i];
        sizes += hypot(real[i], imag[i]);
    }
    r->scores[(size_t)(r->layer * r->config->n_heads) + task] = found && sizes > 0 ? sum / sizes : (double)NAN;
}

static hsc_status make_room(run *r, hsc_error *err)
{
    const hsc_config *c = r->config;
    size_t d = (size_t)c->d_model, dh = (size_t)c->d_head, wide = (size_t)c->n_heads * dh;
    float **const floats[] = {&r->middle, &r->in,  &r->turned, &r->out,     &r->v,       &r->vm,
                              &r->o,      &r->row, &r->small,  &r->in_sums, &r->out_sums};
    const size_t sizes[] = {d * d,     ROWS * d, ROWS * d, ROWS * d, dh * d, dh * d, dh * d, d > wide ? d : wide,
                            wide * dh, d,        d};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *floats[i] = hsc__malloc(sizes[i] * sizeof(float));
        if (!*floats[i]) return hsc__fail_memory(err, sizes[i] * sizeof(float), "eigenvalue scores");
    }
    size_t n = (size_t)r->n_threads * (dh + 2) * dh;
    r->scratch = hsc__malloc(n * sizeof *r->scratch);
    if (!r->scratch) return hsc__fail_memory(err, n * sizeof *r->scratch, "eigenvalue scores");
    int most_rows = c->d_model > ROWS ? c->d_model : ROWS;
    return hsc__exec_init(&r->exec, r->n_threads, hsc__linear_scratch(most_rows), HSC_COMPUTE_F32, 0, 0, err);
}

static hsc_status run_layers(run *r, const hsc_circuit_options *o, hsc_error *err)
{
    const hsc_config *c = r->config;
    int n_blocks = (c->d_vocab + ROWS - 1) / ROWS;
    HSC_TRY(make_room(r, err));
    HSC_TRY(make_middle(r, o, err));
    for (r->layer = 0; r->layer < c->n_layers; r->layer++) {
        for (int head = 0; head < c->n_heads; head++) make_small(r, head);
        hsc__parallel_for(r->n_threads, (size_t)c->n_heads, judge_head, r);
        HSC_FAIL_IF(o->tell && o->tell(o->user, n_blocks + r->layer + 1, n_blocks + c->n_layers), HSC_ECANCELED,
                    "stopped at layer %d", r->layer);
    }
    return HSC_OK;
}

hsc_status hsc_circuit_eigen(const hsc_model *model, const hsc_circuit_options *options, double *scores, hsc_error *err)
{
    static const hsc_circuit_options defaults;
    const hsc_circuit_options *o = options ? options : &defaults;
    run r = {.desc = &model->desc, .config = hsc_model_config(model), .scores = scores};
    hsc__error_clear(err);
    HSC_TRY(hsc__one_norm(model, "an eigenvalue score", err));
    HSC_FAIL_IF(r.desc->w_embed.data, HSC_EUNSUPPORTED,
                "the embedding of %s is narrower than its stream: its words "
                "have no rows there",
                r.config->arch);
    HSC_FAIL_IF(o->n_threads < 0, HSC_EINVAL, "%d threads", o->n_threads);
    r.n_threads = o->n_threads ? o->n_threads : hsc__default_threads();
    hsc_status status = run_layers(&r, o, err);
    float *const floats[] = {r.middle, r.in, r.turned, r.out, r.v, r.vm, r.o, r.row, r.small, r.in_sums, r.out_sums};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) hsc__free(floats[i]);
    hsc__free(r.scratch);
    hsc__exec_free(&r.exec);
    return status;
}
