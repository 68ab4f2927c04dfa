/*
 * The QK and OV circuits of one head over a vocabulary. The output matrix, the last norm's gain and W_O are multiplied
 * once, U' = W_U diag(gain) (I - mean) W_O, [d_vocab][d_head]; then a word's logits are U' v / sigma + the biases, and
 * no row of d_model values is ever multiplied with the vocabulary.
 */
#include "inspect/circuit.h"
#include "base/parallel.h"
#include "base/status.h"
#include "nn/call.h"

#include <math.h>
#include <string.h>

enum { ROWS = HSC__CIRCUIT_ROWS };

typedef struct run {
    const hsc_model *model;
    const hsc__desc *desc;
    const hsc_config *config;
    const hsc_circuit_options *options;
    hsc_circuit *out;
    int layer, head, n_threads;
    hsc__words words;
    hsc__exec exec;
    const hsc_token *keys; /* [n_keys], that may be looked at */
    int n_keys;
    float *q, *k, *v; /* [n_inputs][d_head], k [n_keys][d_head] */
    float *writes;    /* [d_head + 1][d_model]: what one value writes, gain and mean folded in; the norm's bias */
    float *centred;   /* [d_head][d_model]: what one value writes, its mean taken out where the norm does */
    float *u;         /* [d_vocab][d_head + 1]: the output matrix times writes */
    float *bias;      /* [d_vocab] */
    float *x;         /* [ROWS][d_model] */
    float *wide;      /* [ROWS][n_heads * d_head] */
    float *rows;      /* [ROWS][the larger of d_vocab and n_keys] */
    int first;        /* the input of row 0 */
} run;

/* ---------------------------------------------------------------------------------------------- what goes in ---- */

static void take_head(const float *wide, int n, int n_heads, int head, int d, float *out)
{
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)i * (size_t)d, wide + ((size_t)i * (size_t)n_heads + (size_t)head) * (size_t)d,
               (size_t)d * sizeof *out);
}

/* The head's q, k and v of n_all words: [n_all][d_head]; any may be NULL. */
static hsc_status read_words(run *r, const hsc_token *ids, int n_all, float *q, float *k, float *v, hsc_error *err)
{
    const hsc_config *c = r->config;
    size_t d = (size_t)c->d_head, kv_wide = (size_t)c->n_kv_heads * d;
    int kv_head = r->head / (c->n_heads / c->n_kv_heads);
    float *all_q = r->wide, *all_k = all_q + (size_t)ROWS * (size_t)c->n_heads * d, *all_v = all_k + ROWS * kv_wide;
    for (int from = 0; from < n_all; from += ROWS) {
        int n = n_all - from < ROWS ? n_all - from : ROWS;
        size_t at = (size_t)from * d;
        HSC_TRY(hsc__words_embed(&r->words, ids + from, n, r->layer > 0, r->x, err));
        HSC_TRY(hsc__words_project(&r->words, ids + from, n, r->layer, r->x, all_q, all_k, all_v, err));
        if (q) take_head(all_q, n, c->n_heads, r->head, c->d_head, q + at);
        if (k) take_head(all_k, n, c->n_kv_heads, kv_head, c->d_head, k + at);
        if (v) take_head(all_v, n, c->n_kv_heads, kv_head, c->d_head, v + at);
    }
    return HSC_OK;
}

static hsc_status read_all(run *r, hsc_error *err)
{
    bool same = r->keys == r->out->inputs;
    HSC_TRY(read_words(r, r->out->inputs, r->out->n_inputs, r->q, same ? r->k : NULL, r->v, err));
    return same ? HSC_OK : read_words(r, r->keys, r->n_keys, NULL, r->k, NULL, err);
}

/* Queries stand at `distance`, keys at 0: what the rotation of position 0 scaled is turned on. */
static void turn_queries(run *r)
{
    static const int first[ROWS]; /* the one position of the table */
    const hsc__rope *rope = &r->desc->layers[r->layer].rope;
    int distance = r->options->distance, d = r->config->d_head;
    float cosine[HSC__MAX_D_HEAD / 2], sine[HSC__MAX_D_HEAD / 2];
    if (!distance) return;
    hsc__nn_angles(rope->inv_freq, rope->half, &distance, 1, cosine, sine);
    hsc__nn_turn angles = {cosine, sine, rope->half, rope->interleaved};
    for (int from = 0; from < r->out->n_inputs; from += ROWS) {
        int n = r->out->n_inputs - from < ROWS ? r->out->n_inputs - from : ROWS;
        hsc__nn_turn_rows(&r->exec, &angles, first, n, 1, d, r->q + (size_t)from * (size_t)d);
    }
}

/* writes and centred: rows of W_O of this head. A norm behind attention counts by its gain: the last norm undoes its
 * scale. */
static hsc_status fold_output(run *r, hsc_error *err)
{
    const hsc__layer *l = &r->desc->layers[r->layer];
    const hsc__norm *end = &r->desc->ln_final;
    int d = r->config->d_model, dh = r->config->d_head;
    size_t widest = (size_t)(l->w_o.n_out > l->w_o.n_in ? l->w_o.n_out : l->w_o.n_in);
    float *row = hsc__malloc(widest * sizeof *row);
    if (!row) return hsc__fail_memory(err, widest * sizeof *row, "a row of W_O");
    hsc__weight_inputs(&l->w_o, r->head * dh, dh, row, r->centred);
    hsc__free(row);
    bool centred = end->present && r->desc->norm_kind == HSC__NN_LAYER_NORM;
    for (int k = 0; k < dh; k++) {
        float *x = r->centred + (size_t)k * (size_t)d, *y = r->writes + (size_t)k * (size_t)d;
        double mean = 0;
        for (int i = 0; i < d; i++) {
            if (l->ln1_post.gain) x[i] *= l->ln1_post.gain[i];
            mean += centred ? (double)x[i] / d : 0;
        }
        for (int i = 0; i < d; i++) {
            x[i] -= (float)mean;
            y[i] = end->present && end->gain ? x[i] * end->gain[i] : x[i];
        }
    }
    float *bias = r->writes + (size_t)dh * (size_t)d;
    for (int i = 0; i < d; i++) bias[i] = end->present && end->bias ? end->bias[i] : 0;
    return HSC_OK;
}

/* u: the output matrix goes through the product as rows. */
static void fold_unembedding(run *r)
{
    int v = r->config->d_vocab, d = r->config->d_model, n_out = r->config->d_head + 1;
    hsc__weight w = hsc__nn_weight(r->writes, (size_t)d, d, n_out, false);
    int32_t ids[ROWS];
    for (int from = 0; from < v; from += ROWS) {
        int n = v - from < ROWS ? v - from : ROWS;
        for (int i = 0; i < n; i++) ids[i] = from + i;
        hsc__nn_table_rows(&r->exec, &r->desc->unembed, ids, n, r->x);
        hsc__nn_product(&r->exec, r->x, (size_t)d, n, &w, r->u + (size_t)from * (size_t)n_out, (size_t)n_out, false);
    }
    for (int i = 0; i < v; i++)
        r->bias[i] = r->u[(size_t)i * (size_t)n_out + (size_t)(n_out - 1)] +
                     (r->desc->unembed.bias ? r->desc->unembed.bias[i] : 0);
}

/* --------------------------------------------------------------------------------------------- what comes out ---- */

/* Divides the values of n inputs by the scale that the last norm has for what they write. */
static void scale_values(run *r, float *v, int n)
{
    int d = r->config->d_model, dh = r->config->d_head;
    hsc__weight w = hsc__nn_weight(r->centred, (size_t)d, dh, d, true);
    if (!r->desc->ln_final.present) return;
    hsc__nn_product(&r->exec, v, (size_t)dh, n, &w, r->x, (size_t)d, false);
    for (int i = 0; i < n; i++) {
        const float *o = r->x + (size_t)i * (size_t)d;
        double square = 0;
        for (int k = 0; k < d; k++) square += (double)o[k] * (double)o[k] / d;
        float scale = (float)(1 / sqrt(square + (double)r->desc->norm_eps));
        for (int k = 0; k < dh; k++) v[(size_t)i * (size_t)dh + (size_t)k] *= scale;
    }
}

/* How many words stand before one when a row is ordered from its largest number, or from its smallest when turned: of
 * equals the lower id comes first, as in the lists. */
static int rank_of(const float *row, int v, hsc_token word, bool turned)
{
    int n = 0;
    for (int i = 0; i < v; i++) {
        bool before = turned ? row[i] < row[word] : row[i] > row[word];
        n += before || (row[i] == row[word] && i < word);
    }
    return n;
}

static void judge_writes(void *context, size_t task, int worker)
{
    (void)worker;
    const run *r = context;
    hsc_circuit *c = r->out;
    size_t at = (size_t)r->first + task, k = (size_t)c->top_k;
    const float *row = r->rows + task * (size_t)c->d_vocab;
    hsc_token own = c->inputs[at];
    hsc__keep_top(row, c->d_vocab, c->top_k, false, c->writes + at * k, c->write_logits + at * k);
    hsc__keep_top(row, c->d_vocab, c->top_k, true, c->lowest + at * k, c->lowest_logits + at * k);
    c->own_ranks[at] = rank_of(row, c->d_vocab, own, false);
    c->turned_ranks[at] = rank_of(row, c->d_vocab, own, true);
}

static void judge_keys(void *context, size_t task, int worker)
{
    (void)worker;
    const run *r = context;
    hsc_circuit *c = r->out;
    size_t at = (size_t)r->first + task, k = (size_t)c->top_k;
    hsc__keep_top(r->rows + task * (size_t)r->n_keys, r->n_keys, c->top_k, false, c->keys + at * k,
                  c->key_scores + at * k);
    for (size_t i = at * k; i < (at + 1) * k; i++) c->keys[i] = r->keys[c->keys[i]];
}

static hsc_status run_inputs(run *r, hsc_error *err)
{
    int n_all = r->out->n_inputs, v = r->config->d_vocab, dh = r->config->d_head;
    float scale = r->desc->layers[r->layer].attn_scale;
    hsc__weight u = hsc__nn_weight(r->u, (size_t)dh + 1, dh, v, false);
    hsc__weight keys = hsc__nn_weight(r->k, (size_t)dh, dh, r->n_keys, false);
    u.bias = r->bias;
    for (size_t i = 0; i < (size_t)n_all * (size_t)dh; i++) r->q[i] *= scale;
    for (r->first = 0; r->first < n_all; r->first += ROWS) {
        int n = n_all - r->first < ROWS ? n_all - r->first : ROWS;
        size_t at = (size_t)r->first * (size_t)dh;
        scale_values(r, r->v + at, n);
        hsc__nn_product(&r->exec, r->v + at, (size_t)dh, n, &u, r->rows, (size_t)v, false);
        hsc__parallel_for(r->n_threads, (size_t)n, judge_writes, r);
        hsc__nn_product(&r->exec, r->q + at, (size_t)dh, n, &keys, r->rows, (size_t)r->n_keys, false);
        hsc__parallel_for(r->n_threads, (size_t)n, judge_keys, r);
        HSC_FAIL_IF(r->options->tell && r->options->tell(r->options->user, r->first + n, n_all), HSC_ECANCELED,
                    "stopped at input %d", r->first + n);
    }
    return HSC_OK;
}

/* ----------------------------------------------------------------------------------------------------- set up ---- */

void hsc_circuit_free(hsc_circuit *circuit)
{
    if (!circuit) return;
    hsc__free(circuit->inputs);
    hsc__free(circuit->writes);
    hsc__free(circuit->write_logits);
    hsc__free(circuit->lowest);
    hsc__free(circuit->lowest_logits);
    hsc__free(circuit->own_ranks);
    hsc__free(circuit->turned_ranks);
    hsc__free(circuit->keys);
    hsc__free(circuit->key_scores);
    *circuit = (hsc_circuit){0};
}

static hsc_status check_words(const hsc_token *words, int n, const char *what, int d_vocab, hsc_error *err)
{
    HSC_FAIL_IF(words && n < 1, HSC_EINVAL, "%d %s: at least one is needed", n, what);
    for (int i = 0; words && i < n; i++)
        HSC_FAIL_IF(words[i] < 0 || words[i] >= d_vocab, HSC_EINVAL,
                    "number %d of the %s is token %d, outside the vocabulary of %d", i, what, (int)words[i], d_vocab);
    return HSC_OK;
}

static hsc_status check_options(const hsc_model *model, const hsc_circuit_options *o, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(model);
    HSC_TRY(hsc__one_norm(model, "a circuit", err));
    HSC_FAIL_IF(o->top_k < 0 || o->top_k > HSC_LENS_MAX_TOP, HSC_EINVAL, "top_k is %d, 0 to %d are accepted", o->top_k,
                (int)HSC_LENS_MAX_TOP);
    HSC_FAIL_IF(o->distance < 0 || o->distance >= c->n_ctx, HSC_EINVAL,
                "distance is %d, the context has room for 0 to %d", o->distance, c->n_ctx - 1);
    HSC_TRY(check_words(o->inputs, o->n_inputs, "inputs", c->d_vocab, err));
    return check_words(o->keys, o->n_keys, "keys", c->d_vocab, err);
}

static hsc_status make_result(run *r, hsc_error *err)
{
    hsc_circuit *c = r->out;
    const hsc_circuit_options *o = r->options;
    c->d_vocab = r->config->d_vocab;
    c->n_inputs = o->inputs ? o->n_inputs : c->d_vocab;
    c->top_k = o->top_k ? o->top_k : 5;
    r->n_keys = o->keys ? o->n_keys : c->n_inputs;
    if (c->top_k > r->n_keys) c->top_k = r->n_keys;
    if (c->top_k > c->d_vocab) c->top_k = c->d_vocab;
    size_t n = (size_t)c->n_inputs, k = n * (size_t)c->top_k;
    c->inputs = hsc__calloc(n, sizeof *c->inputs);
    c->writes = hsc__calloc(k, sizeof *c->writes);
    c->write_logits = hsc__calloc(k, sizeof *c->write_logits);
    c->lowest = hsc__calloc(k, sizeof *c->lowest);
    c->lowest_logits = hsc__calloc(k, sizeof *c->lowest_logits);
    c->own_ranks = hsc__calloc(n, sizeof *c->own_ranks);
    c->turned_ranks = hsc__calloc(n, sizeof *c->turned_ranks);
    c->keys = hsc__calloc(k, sizeof *c->keys);
    c->key_scores = hsc__calloc(k, sizeof *c->key_scores);
    if (!c->inputs || !c->writes || !c->write_logits || !c->lowest || !c->lowest_logits || !c->own_ranks ||
        !c->turned_ranks || !c->keys || !c->key_scores)
        return hsc__fail_memory(err, k * sizeof *c->writes, "a circuit");
    for (int i = 0; i < c->n_inputs; i++) c->inputs[i] = o->inputs ? o->inputs[i] : i;
    r->keys = o->keys ? o->keys : c->inputs;
    return HSC_OK;
}

static hsc_status make_room(run *r, hsc_error *err)
{
    const hsc_config *c = r->config;
    size_t n = (size_t)r->out->n_inputs, d = (size_t)c->d_model, dh = (size_t)c->d_head, v = (size_t)c->d_vocab;
    size_t n_keys = (size_t)r->n_keys, row = n_keys > v ? n_keys : v;
    r->q = hsc__malloc(n * dh * sizeof *r->q);
    r->k = hsc__malloc(n_keys * dh * sizeof *r->k);
    r->v = hsc__malloc(n * dh * sizeof *r->v);
    r->writes = hsc__malloc((dh + 1) * d * sizeof *r->writes);
    r->centred = hsc__malloc(dh * d * sizeof *r->centred);
    r->u = hsc__malloc(v * (dh + 1) * sizeof *r->u);
    r->bias = hsc__malloc(v * sizeof *r->bias);
    r->x = hsc__malloc(ROWS * d * sizeof *r->x);
    r->wide = hsc__malloc(ROWS * (size_t)(c->n_heads + 2 * c->n_kv_heads) * dh * sizeof *r->wide);
    r->rows = hsc__malloc(ROWS * row * sizeof *r->rows);
    if (!r->q || !r->k || !r->v || !r->writes || !r->centred || !r->u || !r->bias || !r->x || !r->wide || !r->rows)
        return hsc__fail_memory(err, ((2 * n + n_keys) * dh + v * (dh + 2) + ROWS * row) * sizeof *r->rows,
                                "a circuit");
    return hsc__exec_init(&r->exec, r->n_threads, hsc__linear_scratch(ROWS), HSC_COMPUTE_F32, 0, 0, err);
}

static void free_room(run *r)
{
    float *const all[] = {r->q, r->k, r->v, r->writes, r->centred, r->u, r->bias, r->x, r->wide, r->rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) hsc__free(all[i]);
    hsc__words_free(&r->words);
    hsc__exec_free(&r->exec);
}

static hsc_status run_all(run *r, hsc_error *err)
{
    HSC_TRY(make_result(r, err));
    HSC_TRY(hsc__words_init(&r->words, r->model, r->options, err));
    r->n_threads = hsc_session_n_threads(r->words.session);
    HSC_TRY(make_room(r, err));
    HSC_TRY(read_all(r, err));
    turn_queries(r);
    HSC_TRY(fold_output(r, err));
    fold_unembedding(r);
    return run_inputs(r, err);
}

hsc_status hsc_circuit_run(const hsc_model *model, int layer, int head, const hsc_circuit_options *options,
                           hsc_circuit *out, hsc_error *err)
{
    static const hsc_circuit_options defaults;
    const hsc_config *c = hsc_model_config(model);
    *out = (hsc_circuit){0};
    hsc__error_clear(err);
    HSC_FAIL_IF(layer < 0 || layer >= c->n_layers || head < 0 || head >= c->n_heads, HSC_EINVAL,
                "head L%dH%d does not exist, the model has %d layers of %d heads", layer, head, c->n_layers,
                c->n_heads);
    run r = {.model = model,
             .desc = &model->desc,
             .config = c,
             .options = options ? options : &defaults,
             .out = out,
             .layer = layer,
             .head = head};
    HSC_TRY(check_options(model, r.options, err));
    HSC_FAIL_IF(r.options->distance && !model->desc.layers[layer].rope.half, HSC_EUNSUPPORTED,
                "distance is %d: L%d of architecture %s does not rotate its queries, so distance is not in them",
                r.options->distance, layer, c->arch);
    hsc_status status = run_all(&r, err);
    free_room(&r);
    if (status != HSC_OK) hsc_circuit_free(out);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- copying ---- */

typedef struct copying {
    const hsc_circuit_options *options;
    const hsc_config *config;
    hsc__words words;
    hsc__exec exec;
    float *x, *wide, *v, *o, *w_o; /* w_o: [n_heads * d_head][d_model], what each input writes */
} copying;

/* One head over inputs [from, from + n): its values written and read out. */
static hsc_status copy_head(copying *c, const hsc__norm *post, const hsc__desc *desc, int head, const hsc_token *ids,
                            int n, int *copy, int *against, hsc_error *err)
{
    int d = c->config->d_model, dh = c->config->d_head, kv = head / (c->config->n_heads / c->config->n_kv_heads);
    int top = c->options->top_k ? c->options->top_k : 5;
    const float *logits;
    hsc__weight w = hsc__nn_weight(c->w_o + (size_t)(head * dh) * (size_t)d, (size_t)d, dh, d, true);
    take_head(c->wide, n, c->config->n_kv_heads, kv, dh, c->v);
    hsc__nn_product(&c->exec, c->v, (size_t)dh, n, &w, c->o, (size_t)d, false);
    if (post->present) {
        hsc__nn_norm norm = {desc->norm_kind, post->gain, NULL, desc->norm_eps, d};
        hsc__nn_norm_rows(&c->exec, &norm, c->o, n, c->o);
    }
    HSC_TRY(hsc__words_unembed(&c->words, ids, n, c->o, &logits, err));
    for (int i = 0; i < n; i++) {
        const float *row = logits + (size_t)i * (size_t)c->config->d_vocab;
        *copy += rank_of(row, c->config->d_vocab, ids[i], false) < top;
        *against += rank_of(row, c->config->d_vocab, ids[i], true) < top;
    }
    return HSC_OK;
}

static hsc_status copy_layer(copying *c, const hsc__desc *desc, int layer, double *copy, double *against,
                             hsc_error *err)
{
    const hsc__layer *l = &desc->layers[layer];
    int n_heads = c->config->n_heads, n_all = c->options->n_inputs;
    hsc__weight_inputs(&l->w_o, 0, (int)l->w_o.n_in, c->o, c->w_o);
    for (int from = 0; from < n_all; from += ROWS) {
        const hsc_token *ids = c->options->inputs + from;
        int n = n_all - from < ROWS ? n_all - from : ROWS;
        HSC_TRY(hsc__words_embed(&c->words, ids, n, true, c->x, err));
        HSC_TRY(hsc__words_project(&c->words, ids, n, layer, c->x, NULL, NULL, c->wide, err));
        for (int h = 0; h < n_heads; h++) {
            int found = 0, turned = 0;
            HSC_TRY(copy_head(c, &l->ln1_post, desc, h, ids, n, &found, &turned, err));
            copy[layer * n_heads + h] += (double)found / n_all;
            against[layer * n_heads + h] += (double)turned / n_all;
        }
    }
    return HSC_OK;
}

static hsc_status copy_all(copying *c, const hsc_model *model, double *copy, double *against, hsc_error *err)
{
    const hsc_config *config = c->config;
    size_t d = (size_t)config->d_model, wide = (size_t)(config->n_heads * config->d_head);
    size_t rows = ROWS * d > d + wide ? ROWS * d : d + wide;
    c->x = hsc__malloc(ROWS * d * sizeof *c->x);
    c->wide = hsc__malloc(ROWS * wide * sizeof *c->wide);
    c->v = hsc__malloc(ROWS * (size_t)config->d_head * sizeof *c->v);
    c->o = hsc__malloc(rows * sizeof *c->o);
    c->w_o = hsc__malloc(wide * d * sizeof *c->w_o);
    if (!c->x || !c->wide || !c->v || !c->o || !c->w_o)
        return hsc__fail_memory(err, (wide + 2 * ROWS) * d * sizeof *c->w_o, "copying scores");
    HSC_TRY(hsc__words_init(&c->words, model, c->options, err));
    int n_threads = hsc_session_n_threads(c->words.session);
    HSC_TRY(hsc__exec_init(&c->exec, n_threads, hsc__linear_scratch(ROWS), HSC_COMPUTE_F32, 0, 0, err));
    for (int i = 0; i < config->n_layers * config->n_heads; i++)
        copy[i] = against[i] = i < config->n_heads ? (double)NAN : 0;
    for (int layer = 1; layer < config->n_layers; layer++) {
        HSC_TRY(copy_layer(c, &model->desc, layer, copy, against, err));
        HSC_FAIL_IF(c->options->tell && c->options->tell(c->options->user, layer + 1, config->n_layers), HSC_ECANCELED,
                    "stopped at layer %d", layer);
    }
    return HSC_OK;
}

hsc_status hsc_circuit_copying(const hsc_model *model, const hsc_circuit_options *options, double *copy,
                               double *against, hsc_error *err)
{
    copying c = {.options = options, .config = hsc_model_config(model)};
    hsc__error_clear(err);
    HSC_FAIL_IF(!options || !options->inputs, HSC_EINVAL, "copying scores want inputs");
    HSC_TRY(check_options(model, options, err));
    hsc_status status = copy_all(&c, model, copy, against, err);
    float *const all[] = {c.x, c.wide, c.v, c.o, c.w_o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) hsc__free(all[i]);
    hsc__words_free(&c.words);
    hsc__exec_free(&c.exec);
    return status;
}
