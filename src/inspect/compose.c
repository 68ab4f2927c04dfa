/*
 * Composition scores of all pairs of heads. A norm |A X| with A of d_model rows is |R X| with R^T R = A^T A (Cholesky):
 * so each head's two circuits become one [d_head][d_model] matrix each, |OV1 M| the norm of the product of two such,
 * and all pairs of two layers one matrix product.
 */
#include "base/parallel.h"
#include "base/status.h"
#include "headscope/analysis.h"
#include "inspect/weights.h"
#include "nn/call.h"

#include <math.h>
#include <string.h>

const char *hsc_compose_name(hsc_compose kind)
{
    static const char *const names[] = {"q", "k", "v"};
    return (unsigned)kind < HSC_N_COMPOSES ? names[kind] : NULL;
}

typedef struct run {
    const hsc_model *model;
    const hsc__desc *desc;
    const hsc_config *config;
    hsc_compose kind;
    int n_threads;
    hsc__exec exec;
    float *left;     /* [n_layers][n_heads][d_head][d_model]: OV of every head */
    float *right;    /* [n_heads][d_head][d_model]: M of the reading layer */
    float *product;  /* [n_heads * d_head][n_heads * d_head] */
    double *norms;   /* [n_layers][n_heads] of left */
    float *scratch;  /* [n_threads][scratch_floats]: a stored row, two matrices of a head */
    double *squares; /* [n_threads][d_head][d_head] */
    size_t scratch_floats;
    int layer; /* that is made ready */
    bool to_left;
    float *out;
} run;

/* r = the upper triangle with r^T r = the Gram matrix of a's rows [n][d]. Rows that depend on others become 0. */
static void gram_root(const float *a, int n, int d, double *r)
{
    double largest = 0;
    for (int i = 0; i < n; i++) {
        for (int k = i; k < n; k++) {
            double sum = 0;
            for (int x = 0; x < d; x++)
                sum += (double)a[(size_t)i * (size_t)d + (size_t)x] * (double)a[(size_t)k * (size_t)d + (size_t)x];
            r[i * n + k] = sum;
        }
        largest = fmax(largest, r[i * n + i]);
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = i; k < n; k++) r[i * n + k] -= r[j * n + i] * r[j * n + k];
        }
        double pivot = r[i * n + i] > 1e-14 * largest ? sqrt(r[i * n + i]) : 0;
        for (int k = i; k < n; k++) r[i * n + k] = pivot > 0 ? r[i * n + k] / pivot : 0;
    }
}

/* out [n][d] = r b, r upper triangular. */
static void multiply(const double *r, const float *b, int n, int d, float *out)
{
    for (int i = 0; i < n; i++) {
        for (int x = 0; x < d; x++) {
            double sum = 0;
            for (int k = i; k < n; k++) sum += r[i * n + k] * (double)b[(size_t)k * (size_t)d + (size_t)x];
            out[(size_t)i * (size_t)d + (size_t)x] = (float)sum;
        }
    }
}

static double square_norm(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Rows of W_Q, W_K or W_V of one head with the norm before them folded in: [d_head][d_model]. */
static void read_rows(const run *r, const hsc__layer *l, const hsc__weight *w, int head, float *row, float *out)
{
    int dh = r->config->d_head, d = r->config->d_model;
    hsc__weight_outputs(w, head * dh, dh, row, out);
    if (!r->desc->post_norm) hsc__norm_fold(&l->ln1, r->desc->norm_kind, out, dh, d);
}

/* Rows of W_O of one head, by a norm's gain where one stands behind attention. */
static void write_rows(const run *r, const hsc__layer *l, int head, float *row, float *out)
{
    int dh = r->config->d_head, d = r->config->d_model;
    hsc__weight_inputs(&l->w_o, head * dh, dh, row, out);
    for (int i = 0; l->ln1_post.gain && i < dh * d; i++) out[i] *= l->ln1_post.gain[i % d];
}

/* One head of the layer at hand: its OV for the left, or its M for the right. */
static void make_head(void *context, size_t task, int worker)
{
    const run *r = context;
    const hsc_config *c = r->config;
    const hsc__layer *l = &r->desc->layers[r->layer];
    int head = (int)task, kv = head / (c->n_heads / c->n_kv_heads), dh = c->d_head, d = c->d_model;
    size_t size = (size_t)dh * (size_t)d;
    float *a = r->scratch + (size_t)worker * r->scratch_floats, *b = a + size, *row = b + size;
    double *root = r->squares + (size_t)worker * (size_t)(dh * dh);
    if (r->to_left) { /* |V O X| = |R_V O X| */
        read_rows(r, l, &l->w_v, kv, row, a);
        write_rows(r, l, head, row, b);
    } else if (r->kind == HSC_COMPOSE_Q) { /* |X Q K^T| = |X Q R_K^T| */
        read_rows(r, l, &l->w_k, kv, row, a);
        read_rows(r, l, &l->w_q, head, row, b);
    } else if (r->kind == HSC_COMPOSE_K) {
        read_rows(r, l, &l->w_q, head, row, a);
        read_rows(r, l, &l->w_k, kv, row, b);
    } else {
        write_rows(r, l, head, row, a);
        read_rows(r, l, &l->w_v, kv, row, b);
    }
    float *out = r->to_left ? r->left + ((size_t)r->layer * (size_t)c->n_heads + task) * size : r->right + task * size;
    gram_root(a, dh, d, root);
    multiply(root, b, dh, d, out);
    if (r->to_left) r->norms[r->layer * c->n_heads + head] = sqrt(square_norm(out, size));
}

/* Scores of the heads of layer `from` with those of the reading layer, from product. */
static void score_layer(const run *r, int from)
{
    const hsc_config *c = r->config;
    int n_heads = c->n_heads, dh = c->d_head, wide = n_heads * dh, n = c->n_layers * n_heads;
    size_t size = (size_t)dh * (size_t)c->d_model;
    for (int two = 0; two < n_heads; two++) {
        double norm = sqrt(square_norm(r->right + (size_t)two * size, size));
        for (int one = 0; one < n_heads; one++) {
            double sum = 0;
            for (int i = 0; i < dh; i++)
                sum += square_norm(r->product + (size_t)(one * dh + i) * (size_t)wide + (size_t)(two * dh), (size_t)dh);
            r->out[(size_t)(from * n_heads + one) * (size_t)n + (size_t)(r->layer * n_heads + two)] =
                (float)(sqrt(sum) / (r->norms[from * n_heads + one] * norm));
        }
    }
}

static void run_layers(run *r)
{
    const hsc_config *c = r->config;
    int wide = c->n_heads * c->d_head, d = c->d_model;
    size_t layer_size = (size_t)wide * (size_t)d;
    hsc__weight w = hsc__nn_weight(r->right, (size_t)d, d, wide, false);
    for (r->layer = 0; r->layer < c->n_layers; r->layer++) {
        r->to_left = false;
        if (r->layer) hsc__parallel_for(r->n_threads, (size_t)c->n_heads, make_head, r);
        for (int from = 0; from < r->layer; from++) {
            hsc__nn_product(&r->exec, r->left + (size_t)from * layer_size, (size_t)d, wide, &w, r->product,
                            (size_t)wide, false);
            score_layer(r, from);
        }
        r->to_left = true;
        hsc__parallel_for(r->n_threads, (size_t)c->n_heads, make_head, r);
    }
}

static hsc_status make_room(run *r, hsc_error *err)
{
    const hsc_config *c = r->config;
    size_t d = (size_t)c->d_model, wide = (size_t)(c->n_heads * c->d_head), threads = (size_t)r->n_threads;
    size_t widest = d > wide ? d : wide, layers = (size_t)c->n_layers, heads = (size_t)c->n_heads;
    r->scratch_floats = 2 * (size_t)c->d_head * d + widest;
    r->left = hsc__malloc(layers * wide * d * sizeof *r->left);
    r->right = hsc__malloc(wide * d * sizeof *r->right);
    r->product = hsc__malloc(wide * wide * sizeof *r->product);
    r->norms = hsc__calloc(layers * heads, sizeof *r->norms);
    r->scratch = hsc__malloc(threads * r->scratch_floats * sizeof *r->scratch);
    r->squares = hsc__malloc(threads * (size_t)(c->d_head * c->d_head) * sizeof *r->squares);
    if (!r->left || !r->right || !r->product || !r->norms || !r->scratch || !r->squares)
        return hsc__fail_memory(err, layers * wide * d * sizeof *r->left, "the circuits of all heads");
    return hsc__exec_init(&r->exec, r->n_threads, hsc__linear_scratch((int)wide), HSC_COMPUTE_F32, 0, 0, err);
}

hsc_status hsc_composition(const hsc_model *model, hsc_compose kind, int n_threads, float *out, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    run r = {.model = model, .desc = &model->desc, .config = c, .kind = kind, .out = out};
    size_t n = (size_t)c->n_layers * (size_t)c->n_heads;
    hsc__error_clear(err);
    HSC_FAIL_IF((unsigned)kind >= HSC_N_COMPOSES, HSC_EINVAL, "composition %d: there are q, k and v", (int)kind);
    HSC_FAIL_IF(n_threads < 0, HSC_EINVAL, "%d threads", n_threads);
    r.n_threads = n_threads ? n_threads : hsc__default_threads();
    for (size_t i = 0; i < n * n; i++) out[i] = NAN;
    hsc_status status = make_room(&r, err);
    if (status == HSC_OK) run_layers(&r);
    hsc__free(r.left);
    hsc__free(r.right);
    hsc__free(r.product);
    hsc__free(r.norms);
    hsc__free(r.scratch);
    hsc__free(r.squares);
    hsc__exec_free(&r.exec);
    return status;
}
