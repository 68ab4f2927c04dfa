/*
 * Direct logit attribution. One pass keeps what every part wrote at the last token; the direction d is made of the last
 * residual stream's own statistics; the rest is dot products in float64. A head's is z . (W_O^T d), so that W_O is read
 * once a layer.
 */
#include "base/parallel.h"
#include "base/status.h"
#include "inspect/circuit.h"

#include <math.h>
#include <string.h>

typedef struct run {
    const hsc_model *model;
    const hsc__desc *desc;
    const hsc_config *config;
    const hsc_attribution_options *options;
    hsc_attribution *out;
    int last; /* the position asked about */
    /* Rows of the last token. */
    float *embed, *pos_embed, *end, *normed; /* [d_model]; end: what the last norm reads */
    float *z;                                /* [n_layers][n_heads * d_head] */
    float *mlp;                              /* [n_layers][d_model] */
    float *values;                           /* [n_layers][n_tokens][n_kv_heads * d_head]; NULL without by_source */
    hsc_session *session;
    double *direction;             /* [d_model] */
    float *scratch;                /* [n_threads][scratch_floats]: two stored rows of W_O and a row of the model */
    size_t scratch_floats, widest; /* widest: of the stored rows */
    double *products;              /* [n_threads][d_model + n_heads * d_head]: d and W_O^T d */
} run;

/* -------------------------------------------------------------------------------------------------- activations ----
 */

/* Where a row of the site goes; NULL: nowhere. */
static float *target(const run *r, hsc_site site, int layer)
{
    size_t l = (size_t)layer, d = (size_t)r->config->d_model;
    switch (site) {
    case HSC_EMBED: return r->embed;
    case HSC_POS_EMBED: return r->pos_embed;
    case HSC_RESID_PRE: return layer ? NULL : r->embed; /* after the norm of the embeddings */
    case HSC_RESID_POST: return r->end;
    case HSC_LN_FINAL: return r->normed;
    case HSC_Z: return r->z + l * (size_t)(r->config->n_heads * r->config->d_head);
    default: return r->mlp + l * d;
    }
}

static int keep_last(void *user, const hsc_block *block)
{
    const run *r = user;
    float *to = target(r, block->site, block->layer);
    int row = r->last - block->first_row;
    if (!to || row < 0 || row >= block->n_rows) return 0;
    memcpy(to, block->data + (size_t)row * block->stride, (size_t)block->row_size * sizeof *to);
    return 0;
}

static int keep_values(void *user, const hsc_block *block)
{
    const run *r = user;
    size_t row = (size_t)block->row_size, n = (size_t)r->out->n_tokens;
    for (int i = 0; i < block->n_rows; i++)
        memcpy(r->values + ((size_t)block->layer * n + (size_t)(block->first_row + i)) * row,
               block->data + (size_t)i * block->stride, row * sizeof *r->values);
    return 0;
}

static hsc_status watch(run *r, hsc_error *err)
{
    int top = r->config->n_layers - 1;
    bool normed = r->desc->ln_embed.present;
    const hsc_observer observers[] = {{normed ? HSC_RESID_PRE : HSC_EMBED, 0, keep_last, r},
                                      {HSC_RESID_POST, top, keep_last, r},
                                      {HSC_LN_FINAL, 0, keep_last, r},
                                      {HSC_Z, -1, keep_last, r},
                                      {HSC_MLP_OUT, -1, keep_last, r}};
    for (size_t i = 0; i < sizeof observers / sizeof *observers; i++)
        HSC_TRY(hsc_session_observe(r->session, &observers[i], err));
    if (r->config->has_pos_embed && !normed)
        HSC_TRY(hsc_session_observe(r->session, &(hsc_observer){HSC_POS_EMBED, 0, keep_last, r}, err));
    if (!r->values) return HSC_OK;
    HSC_TRY(hsc_session_observe(r->session, &(hsc_observer){HSC_V, -1, keep_values, r}, err));
    return hsc_session_record(r->session, &(hsc_record){HSC_PATTERN, -1, -1, r->last}, err);
}

/* -------------------------------------------------------------------------------------------------- directions ---- */

static double dot(const float *x, const double *d, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * d[i];
    return sum;
}

/* d of the norm's input x from d of its output: the norm's scale stays what it is for x. In place. */
static void through_norm(const run *r, const hsc__norm *norm, const float *x, double *d)
{
    int n = r->config->d_model;
    double mean_x = 0, mean_d = 0, square = 0;
    bool centred = r->desc->norm_kind == HSC__NN_LAYER_NORM;
    if (!norm->present) return;
    for (int i = 0; i < n; i++) {
        if (norm->gain) d[i] *= (double)norm->gain[i];
        mean_x += centred ? (double)x[i] / n : 0;
        mean_d += centred ? d[i] / n : 0;
    }
    for (int i = 0; i < n; i++) square += ((double)x[i] - mean_x) * ((double)x[i] - mean_x) / n;
    double scale = 1 / sqrt(square + (double)r->desc->norm_eps);
    for (int i = 0; i < n; i++) d[i] = (d[i] - mean_d) * scale;
}

/* u of the output matrix and the difference of its biases. */
static double unembedding(const run *r, float *row, double *u)
{
    const hsc__weight *w = &r->desc->unembed;
    const hsc_token tokens[2] = {r->options->a, r->options->b};
    double bias = 0;
    memset(u, 0, (size_t)w->n_in * sizeof *u);
    for (int t = 0; t < 2 && tokens[t] >= 0; t++) {
        double sign = t ? -1 : 1;
        hsc__weight_row(hsc__kernels_get(), w, tokens[t], row);
        for (int64_t i = 0; i < w->n_in; i++) u[i] += sign * (double)row[i];
        if (w->bias) bias += sign * (double)w->bias[tokens[t]];
    }
    return bias;
}

/* ------------------------------------------------------------------------------------------------------- parts ---- */

/* The parts of a layer begin here. */
static hsc_part *layer_parts(const run *r, int layer)
{
    return r->out->parts + 2 + (size_t)layer * (size_t)(r->config->n_heads + 2);
}

static void add_sources(const run *r, int layer, int head, const double *g)
{
    const hsc_config *c = r->config;
    hsc_view pattern;
    int n = r->out->n_tokens, kv = head / (c->n_heads / c->n_kv_heads);
    size_t row = (size_t)(c->n_kv_heads * c->d_head);
    double *out = r->out->sources + ((size_t)layer * (size_t)c->n_heads + (size_t)head) * (size_t)n;
    if (hsc_session_activation(r->session, HSC_PATTERN, layer, 0, &pattern, NULL) != HSC_OK) return;
    const float *weights = pattern.data + (size_t)head * (size_t)pattern.shape[2];
    for (int k = 0; k < n; k++) {
        const float *v = r->values + ((size_t)layer * (size_t)n + (size_t)k) * row + (size_t)(kv * c->d_head);
        out[k] = (double)weights[k] * dot(v, g, c->d_head);
    }
}

/* With a norm behind attention, its direction: the norm's input is W_O z + bias. */
static void through_post_norm(const run *r, const hsc__layer *l, const float *z, float *x, float *row, double *d)
{
    const hsc__weight *w = &l->w_o;
    float *weights = row + r->widest;
    for (int o = 0; o < w->n_out; o++) {
        double sum = w->bias ? (double)w->bias[o] : 0;
        hsc__weight_outputs(w, o, 1, row, weights);
        for (int64_t i = 0; i < w->n_in; i++) sum += (double)weights[i] * (double)z[i];
        x[o] = (float)sum;
    }
    through_norm(r, &l->ln1_post, x, d);
}

/* g = W_O^T d. */
static void through_output(const hsc__weight *w, const double *d, float *row, float *weights, double *g)
{
    memset(g, 0, (size_t)w->n_in * sizeof *g);
    for (int i = 0; w->transposed && i < (int)w->n_in; i++) { /* a stored row is what one input writes */
        hsc__weight_inputs(w, i, 1, row, weights);
        g[i] = dot(weights, d, w->n_out);
    }
    for (int i = 0; !w->transposed && i < w->n_out; i++) {
        hsc__weight_outputs(w, i, 1, row, weights);
        for (int64_t k = 0; k < w->n_in; k++) g[k] += (double)weights[k] * d[i];
    }
}

/* All parts of one layer. */
static void run_layer(void *context, size_t task, int worker)
{
    const run *r = context;
    const hsc_config *c = r->config;
    const hsc__layer *l = &r->desc->layers[task];
    const hsc__weight *w = &l->w_o;
    int layer = (int)task, n = c->d_model, wide = c->n_heads * c->d_head;
    float *row = r->scratch + (size_t)worker * r->scratch_floats, *weights = row + r->widest, *x = weights + r->widest;
    double *d = r->products + (size_t)worker * (size_t)(n + wide), *g = d + n;
    const float *z = r->z + task * (size_t)wide;
    hsc_part *parts = layer_parts(r, layer);
    memcpy(d, r->direction, (size_t)n * sizeof *d);
    if (l->ln1_post.present) through_post_norm(r, l, z, x, row, d);
    through_output(w, d, row, weights, g);
    for (int h = 0; h < c->n_heads; h++) {
        parts[h] = (hsc_part){HSC_PART_HEAD, layer, h, dot(z + h * c->d_head, g + h * c->d_head, c->d_head)};
        if (r->out->sources) add_sources(r, layer, h, g + h * c->d_head);
    }
    parts[c->n_heads] = (hsc_part){HSC_PART_ATTN_BIAS, layer, -1, w->bias ? dot(w->bias, d, n) : 0};
    if (l->ln1_post.present && l->ln1_post.bias) parts[c->n_heads].value += dot(l->ln1_post.bias, r->direction, n);
    parts[c->n_heads + 1] = (hsc_part){HSC_PART_MLP, layer, -1, dot(r->mlp + task * (size_t)n, r->direction, n)};
}

static void add_parts(run *r, int n_threads)
{
    const hsc_config *c = r->config;
    hsc_attribution *out = r->out;
    double *u = r->direction;
    double bias = unembedding(r, r->scratch, u), norm_bias = 0;
    if (r->desc->ln_final.present && r->desc->ln_final.bias) norm_bias = dot(r->desc->ln_final.bias, u, c->d_model);
    out->metric = dot(r->normed, u, c->d_model) + bias;
    through_norm(r, &r->desc->ln_final, r->end, u);
    out->parts[0] = (hsc_part){HSC_PART_EMBED, -1, -1, dot(r->embed, u, c->d_model)};
    out->parts[1] = (hsc_part){HSC_PART_POS_EMBED, -1, -1, dot(r->pos_embed, u, c->d_model)};
    hsc__parallel_for(n_threads, (size_t)c->n_layers, run_layer, r);
    out->parts[out->n_parts - 2] = (hsc_part){HSC_PART_NORM_BIAS, -1, -1, norm_bias};
    out->parts[out->n_parts - 1] = (hsc_part){HSC_PART_UNEMBED_BIAS, -1, -1, bias};
    for (int i = 0; i < out->n_parts; i++) out->sum += out->parts[i].value;
}

/* ------------------------------------------------------------------------------------------------ the function ---- */

void hsc_attribution_free(hsc_attribution *attribution)
{
    if (!attribution) return;
    hsc__free(attribution->parts);
    hsc__free(attribution->sources);
    *attribution = (hsc_attribution){0};
}

static hsc_status check(const run *r, int n_tokens, hsc_error *err)
{
    const hsc_config *c = r->config;
    HSC_TRY(hsc__one_norm(r->model, "attribution", err));
    HSC_FAIL_IF(n_tokens < 1 || n_tokens > c->n_ctx, HSC_EINVAL, "the text has %d tokens, 1 to %d are accepted",
                n_tokens, c->n_ctx);
    HSC_FAIL_IF(
        r->options->a < 0 || r->options->a >= c->d_vocab || r->options->b < HSC_NO_TOKEN || r->options->b >= c->d_vocab,
        HSC_EINVAL, "tokens %d and %d: the vocabulary has %d", (int)r->options->a, (int)r->options->b, c->d_vocab);
    return HSC_OK;
}

static hsc_status make_room(run *r, int n_threads, float **rows, hsc_error *err)
{
    const hsc_config *c = r->config;
    hsc_attribution *out = r->out;
    size_t d = (size_t)c->d_model, l = (size_t)c->n_layers, wide = (size_t)(c->n_heads * c->d_head);
    size_t kv = (size_t)(c->n_kv_heads * c->d_head), n = (size_t)out->n_tokens, floats = 4 * d + l * (wide + d);
    r->widest = wide > d ? wide : d;
    r->scratch_floats = 2 * r->widest + d;
    *rows = hsc__calloc(floats, sizeof **rows);
    r->scratch = hsc__calloc((size_t)n_threads * r->scratch_floats, sizeof *r->scratch);
    r->direction = hsc__calloc(d, sizeof *r->direction);
    r->products = hsc__calloc((size_t)n_threads * (d + wide), sizeof *r->products);
    out->n_parts = 4 + c->n_layers * (c->n_heads + 2);
    out->parts = hsc__calloc((size_t)out->n_parts, sizeof *out->parts);
    if (r->options->by_source) {
        r->values = hsc__calloc(l * n * kv, sizeof *r->values);
        out->sources = hsc__calloc(l * (size_t)c->n_heads * n, sizeof *out->sources);
    }
    bool missing = r->options->by_source && (!r->values || !out->sources);
    if (!*rows || !r->scratch || !r->direction || !r->products || !out->parts || missing)
        return hsc__fail_memory(err, floats * sizeof **rows, "an attribution");
    r->embed = *rows;
    r->pos_embed = r->embed + d;
    r->end = r->pos_embed + d;
    r->normed = r->end + d;
    r->z = r->normed + d;
    r->mlp = r->z + l * wide;
    return HSC_OK;
}

static hsc_status run_pass(run *r, const hsc_token *ids, hsc_error *err)
{
    hsc_batch batch = {.ids = ids, .n_tokens = r->out->n_tokens, .logits = HSC_LOGITS_NONE};
    HSC_TRY(watch(r, err));
    HSC_TRY(hsc_forward(r->session, &batch, err));
    add_parts(r, hsc_session_n_threads(r->session));
    return HSC_OK;
}

hsc_status hsc_attribution_run(const hsc_model *model, const hsc_token *ids, int n_tokens,
                               const hsc_attribution_options *options, hsc_attribution *out, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    run r = {.model = model, .desc = &model->desc, .config = c, .options = options, .out = out, .last = n_tokens - 1};
    float *rows = NULL;
    *out = (hsc_attribution){.n_layers = c->n_layers, .n_heads = c->n_heads, .n_tokens = n_tokens};
    hsc__error_clear(err);
    hsc_status status = check(&r, n_tokens, err);
    hsc_session_options o = {.n_threads = options->n_threads, .max_tokens = n_tokens, .compute = options->compute};
    if (status == HSC_OK) status = hsc_session_new(&r.session, model, &o, err);
    if (status == HSC_OK) status = make_room(&r, hsc_session_n_threads(r.session), &rows, err);
    if (status == HSC_OK) status = run_pass(&r, ids, err);
    hsc_session_free(r.session);
    hsc__free(rows);
    hsc__free(r.values);
    hsc__free(r.scratch);
    hsc__free(r.direction);
    hsc__free(r.products);
    if (status != HSC_OK) hsc_attribution_free(out);
    return status;
}
